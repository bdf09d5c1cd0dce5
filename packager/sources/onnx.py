"""An ONNX model as source. Everything about it is checked before a runtime sees it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from packager.errors import ModelRefused
from packager.file_digest import file_digest
from packager.sources.content import ONNX
from packager.sources.external_data import ExternalRange, all_tensors, external_ranges, tensor_bytes
from packager.sources.model import SourceModel
from packager.sources.onnx_graph import (
    default_opset,
    node_count,
    operators,
    refuse_broken_weights,
    refuse_repeated_names,
    stored_precision,
)
from packager.sources.onnx_signature import read_signature
from packager.sources.onnx_versions import minimum_onnxruntime, newest_known

MAX_PROTOBUF_BYTES = 2**31 - 1


def read_onnx(path: Path) -> SourceModel:
    """Raises ModelRefused naming tensor, node, operator or file; OSError passes."""
    model = parse(path)
    _require_readable(path, model)
    external = external_ranges(path, model)
    refuse_repeated_names(path, model)
    _check(path, model, external)
    refuse_broken_weights(path, model, external)
    files = [path, *sorted({place.file for place in external})]
    return SourceModel(
        origin=path, path=path, format=ONNX, runtime="onnxruntime", files=files, digest=_digest(path, files),
        signature=read_signature(path, model),
        weight_bytes=sum(tensor_bytes(tensor) or 0 for tensor in all_tensors(model)),
        precision=stored_precision(model), opset=default_opset(model), ir_version=int(model.ir_version),
        operators=operators(model), nodes=node_count(model),
    )  # fmt: skip


def parse(path: Path) -> Any:
    """The protobuf without external data. Raises ModelRefused."""
    import onnx
    from google.protobuf.message import DecodeError

    size = path.stat().st_size
    if size > MAX_PROTOBUF_BYTES:
        raise ModelRefused(path, f"{size} bytes in one file; ONNX over 2 GiB needs its weights as external data")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise ModelRefused(path, "is cut short, or no ONNX model (its protobuf cannot be read)") from error
    if not model.ir_version or not model.HasField("graph"):
        raise ModelRefused(path, "is no ONNX model: it has no graph")
    return model


def _require_readable(path: Path, model: Any) -> None:
    opset = default_opset(model) or 1
    ir_version = int(model.ir_version)
    if minimum_onnxruntime(ir_version, opset) is not None:
        return
    newest = newest_known()
    what, needed, known = ("opset", opset, newest.opset)
    if ir_version > newest.ir_version:
        what, needed, known = ("IR version", ir_version, newest.ir_version)
    raise ModelRefused(
        path, f"{what} {needed} needs an onnxruntime newer than any known here (>= {newest.version} reads {what} "
        f"{known}); export the model for {what} {known} or older",
    )  # fmt: skip


def _check(path: Path, model: Any, external: list[ExternalRange]) -> None:
    """onnx's own checker; it looks for external files by itself, all of them known to be inside by now."""
    import onnx

    try:
        if external or path.stat().st_size > MAX_PROTOBUF_BYTES // 2:
            onnx.checker.check_model(str(path))
        else:
            onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ModelRefused(path, f"is not valid ONNX: {_one_line(error)}") from error
    except (ValueError, RuntimeError, UnicodeError) as error:
        raise ModelRefused(path, f"cannot be checked: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[:2]) if lines else type(error).__name__
    return text.removesuffix("==> Context:").strip()[:400]


def _digest(path: Path, files: list[Path]) -> str:
    """Of the file itself when it is alone, else over the names and digests of all (relative to the model)."""
    if len(files) == 1:
        return file_digest(path)
    sha = hashlib.sha256()
    for file in files:
        name = "model" if file == path else file.relative_to(path.parent).as_posix()
        sha.update(f"{file_digest(file)} {name}\n".encode())
    return "sha256:" + sha.hexdigest()
