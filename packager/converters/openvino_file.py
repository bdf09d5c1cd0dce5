"""Write OpenVINO models so that the same model gives the same bytes.

``save_model`` numbers unnamed layers in the order in which this process made them, and writes the converter's settings
with paths into ``rt_info``. Both are taken out; the weights file is the same each time as it is.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from packager.quiet_tools import silence

FILE_NAME, WEIGHTS_NAME = "model.xml", "model.bin"
_NUMBERED = re.compile(r"[A-Z]\w*_\d+")


def openvino() -> Any:
    """The module, its telemetry switched off before it is imported."""
    silence()
    import openvino

    return openvino


def read(path: Path) -> Any:
    """An ONNX, TFLite or OpenVINO file as OpenVINO's model. Raises what OpenVINO raises."""
    return openvino().convert_model(str(path)) if path.suffix != ".xml" else openvino().Core().read_model(str(path))


def fix_shapes(model: Any, shapes: dict[str, list[int]]) -> Any:
    """Freeze open dimensions of the inputs. Raises what OpenVINO raises for shapes that do not fit."""
    if shapes:
        model.reshape(dict(shapes))
    return model


def save(model: Any, folder: Path, *, half: bool = False) -> str:
    """Write FILE_NAME and WEIGHTS_NAME; returns FILE_NAME. ``half``: weights are stored as fp16."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE_NAME
    openvino().save_model(model, str(path), compress_to_fp16=half)
    path.write_bytes(without_origin(path.read_bytes()))
    return FILE_NAME


def without_origin(xml: bytes) -> bytes:
    """The same network without ``rt_info`` and with layers that had no name of their own numbered by place."""
    root = ET.fromstring(xml)  # written by OpenVINO a moment ago
    for info in root.findall("rt_info"):
        root.remove(info)
    root.set("name", "model")
    for layer in root.iter("layer"):
        name, kind = layer.get("name", ""), layer.get("type", "")
        if kind not in ("Parameter", "Result") and _NUMBERED.fullmatch(name):
            layer.set("name", f"{kind}_{layer.get('id')}")
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text
