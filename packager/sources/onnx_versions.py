"""Which onnxruntime reads which IR version and operator set.

From 1.15 measured with the released wheels (CPython 3.11, x86-64): a one-node model per IR version and per opset, the
highest that opens. Older rows as documented. A file that needs more than the newest row is refused at packaging, since
no runtime that a device could install opens it.
Source: https://onnxruntime.ai/docs/reference/compatibility.html
"""

from __future__ import annotations

from typing import NamedTuple


class RuntimeRow(NamedTuple):
    """The newest IR and the newest `ai.onnx` opset that this version opens."""

    version: str
    ir_version: int
    opset: int


ONNXRUNTIME = (
    RuntimeRow("1.8", 7, 14),
    RuntimeRow("1.9", 8, 15),
    RuntimeRow("1.11", 8, 16),
    RuntimeRow("1.12", 8, 17),
    RuntimeRow("1.14", 8, 18),
    RuntimeRow("1.15", 9, 19),
    RuntimeRow("1.17", 9, 20),
    RuntimeRow("1.18", 10, 21),
    RuntimeRow("1.21", 10, 22),
    RuntimeRow("1.23", 11, 23),
    RuntimeRow("1.24.4", 13, 25),
    RuntimeRow("1.25.1", 13, 26),
    RuntimeRow("1.32", 14, 28),
)
OLDEST = ONNXRUNTIME[0].version


def minimum_onnxruntime(ir_version: int, opset: int) -> str | None:
    """The oldest version that opens such a file; None when none known does."""
    return next((row.version for row in ONNXRUNTIME if row.ir_version >= ir_version and row.opset >= opset), None)


def newest_known() -> RuntimeRow:
    return ONNXRUNTIME[-1]
