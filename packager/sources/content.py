"""What a file is, from its first bytes: people save error pages, pointers and archives under a model's name."""

from __future__ import annotations

from pathlib import Path

from packager.errors import ModelRefused

HEAD_BYTES = 4096
ONNX, TFLITE, OPENVINO = "onnx", "tflite", "openvino"
_POINTER = "a Git LFS pointer, not a model: run `git lfs pull` in its repository"
_FOREIGN = (
    (b"version https://git-lfs.github.com/spec/", _POINTER),
    (b"version https://hawser.github.com/spec/", _POINTER),
    (b"PK\x03\x04", "a zip archive (a torch checkpoint, .npz or SavedModel?), not a model: export it to ONNX first"),
    (b"\x1f\x8b", "gzip-compressed: unpack it first"),
    (b"BZh", "bzip2-compressed: unpack it first"),
    (b"\xfd7zXZ", "xz-compressed: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed: unpack it first"),
    (b"\x89HDF\r\n", "an HDF5 file (Keras), not ONNX: export it to ONNX or TFLite first"),
    (b"\x93NUMPY", "a NumPy array, not a model"),
    (b"GGUF", "a GGUF file, which no runtime here reads: export the model to ONNX first"),
    (b"\x80\x02", "a Python pickle (a torch checkpoint?), not a model: export it to ONNX first"),
    (b"\x80\x04", "a Python pickle (a torch checkpoint?), not a model: export it to ONNX first"),
    (b"%PDF", "a PDF, not a model"),
    (b"\x89PNG", "a PNG image, not a model"),
)  # fmt: skip
_HTML_MARKS = (b"<!doctype html", b"<html", b"<head", b"<body", b"<script")


def source_format(path: Path) -> str:
    """ONNX, TFLITE or OPENVINO; anything without a mark of its own is taken for ONNX, which has none.

    Raises ModelRefused for what is known to be something else; OSError passes.
    """
    if path.is_dir():
        raise ModelRefused(path, "is a folder; name the model's file")
    if not path.is_file():
        raise ModelRefused(path, "is no plain file" if path.exists() else "no such file")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise ModelRefused(path, "is empty: the download or the copy was cut short")
    if head[4:8] == b"TFL3":
        return TFLITE
    if foreign := _foreign(head):
        raise ModelRefused(path, f"is {foreign}")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<?xml", b"<net")):
        if b"<net" in text:
            return OPENVINO
        raise ModelRefused(path, "is an XML document, but no OpenVINO model (no <net> element)")
    _require_suffix(path, head)
    return ONNX


def _foreign(head: bytes) -> str | None:
    for mark, what in _FOREIGN:
        if head.startswith(mark):
            return what
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if any(text.startswith(mark) or (text.startswith(b"<") and mark in text) for mark in _HTML_MARKS):
        return "an HTML page, not a model: the server sent an error or login page; download the file itself"
    if head[257:262] == b"ustar":
        return "a tar archive, not a model: unpack it first"
    if text.startswith((b"{", b"[")) and b'"' in text:
        return "a JSON document, not a model"
    return None


def _require_suffix(path: Path, head: bytes) -> None:
    if path.suffix.lower() in (".tflite", ".lite"):
        raise ModelRefused(path, f"is no TFLite model: bytes 4 to 8 are {head[4:8]!r}, not b'TFL3'")
    if path.suffix.lower() == ".xml":
        raise ModelRefused(path, "is no OpenVINO model: it is not XML")
