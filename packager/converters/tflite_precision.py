"""Take back a TFLite file's permission to compute in half precision.

onnx2tf marks every file, the float32 one too, with the metadata entry `reduced_precision_support`. XNNPACK then
computes it in fp16 wherever the CPU can (a Raspberry Pi 5, say), so that "fp32" would be fp16 on some devices and not
on others. The entry's name is overwritten in place, which moves no other byte of the flatbuffer.
"""

from __future__ import annotations

import struct

PERMISSION = b"reduced_precision_support"
REPLACEMENT = b"mindedge_full_precision__"


def require_full_precision(model: bytes) -> bytes:
    """The same TFLite model without that entry; unchanged where there is none. Weights are not touched.

    The name is found as a flatbuffer string: length, characters, NUL.
    """
    return model.replace(_flatbuffer_string(PERMISSION), _flatbuffer_string(REPLACEMENT))


def _flatbuffer_string(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text + b"\0"
