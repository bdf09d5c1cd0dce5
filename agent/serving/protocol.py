"""The Open Inference Protocol v2: bytes of an inference request to tensors that fit the model's signature. Pure.

A request is JSON, or, with ``Inference-Header-Content-Length``, a JSON header of that length followed by the raw bytes
of every tensor that carries ``parameters.binary_data_size``, in the header's order; both forms may be mixed. Whatever
the bytes are, the outcome is an InferenceRequest or RequestRefused with status 400 and a line that names the input.

Sources: https://github.com/kserve/open-inference-protocol (specification/protocol/inference_rest.md) and
https://github.com/triton-inference-server/server (docs/protocol/extension_binary_data.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.errors import RequestRefused
from agent.serving.json_tensors import has_json_form, tensor_bytes
from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor, check_tensor
from edge_contracts.tensor_signature import BYTES, Signature, TensorSpec

MAX_JSON_BYTES = 16 * 1024 * 1024
"""JSON of a request beyond this is refused: a number costs up to 32 bytes while it is parsed, in binary none."""


@dataclass(frozen=True)
class WantedOutput:
    """An output the client asked for. ``binary``: as raw bytes after the JSON header instead of within it."""

    name: str
    binary: bool


@dataclass(frozen=True)
class InferenceRequest:
    """A request that fits the signature: every input once, in the signature's order, bytes agreeing with the shape.

    ``offsets``: for each input where its bytes begin in the body, None for one that came as JSON.
    ``takes_binary``: the request used the binary extension in some form, so the answer may as well.
    Tensor data may be views of the body: the caller keeps it alive.
    """

    request_id: str
    inputs: list[Tensor]
    offsets: list[int | None]
    outputs: list[WantedOutput]
    takes_binary: bool


_ABSENT = msgspec.Raw(b"")


class _Input(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, Any] | None = None
    data: msgspec.Raw = _ABSENT


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Any] | None = None


class _Request(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, Any] | None = None
    outputs: list[_Output] | None = None


_DECODER = msgspec.json.Decoder(_Request)


def header_length(value: bytes | None, body_length: int) -> int | None:
    """The value of ``Inference-Header-Content-Length`` for a body of ``body_length`` bytes; None when absent."""
    if value is None:
        return None
    shown = value[:40].decode("latin-1")
    if not value.isdigit():
        raise RequestRefused(400, f"Inference-Header-Content-Length: {shown!r} is not a number of bytes")
    if len(value) > 19 or int(value) > body_length:
        raise RequestRefused(400, f"Inference-Header-Content-Length: {shown} exceeds the body's {body_length} bytes")
    if int(value) == 0:
        raise RequestRefused(400, "Inference-Header-Content-Length: 0: a JSON header is required")
    return int(value)


def parse_request(
    body: bytes | memoryview, length: int | None, signature: Signature, *, max_json_bytes: int = MAX_JSON_BYTES
) -> InferenceRequest:
    """Parse a body whose JSON header has ``length`` bytes (None: all is JSON). Raises RequestRefused (400, 413)."""
    view = memoryview(body)
    text = view if length is None else view[:length]
    if len(text) > max_json_bytes:
        raise RequestRefused(413, f"{len(text)} bytes of JSON; at most {max_json_bytes}: send large tensors in binary")
    request = _decode(text, length)
    binary = _Reader(view, len(text))
    tensors, offsets = _tensors(request.inputs, signature, binary)
    if binary.left:
        raise RequestRefused(400, f"{binary.left} bytes after the last binary input; {_expected(signature)}")
    outputs, asked_binary = _wanted(request, signature)
    return InferenceRequest(request.id, tensors, offsets, outputs, asked_binary or binary.was_used)


def _decode(text: memoryview, length: int | None) -> _Request:
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError as error:
        raise RequestRefused(400, f"request: {error}") from error
    except RecursionError as error:
        raise RequestRefused(400, "request: JSON is nested too deeply") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        hint = "" if length is not None else (
            "; a body with binary tensors needs the header Inference-Header-Content-Length"
        )  # fmt: skip
        raise RequestRefused(400, f"request: not valid JSON: {error}{hint}") from error


class _Reader:
    """Takes the binary tensors off the end of the body, in order."""

    def __init__(self, view: memoryview, begin: int) -> None:
        self._view = view
        self._at = begin
        self.starts: dict[str, int] = {}
        self.was_used = False

    @property
    def left(self) -> int:
        return len(self._view) - self._at

    def take(self, name: str, size: Any) -> memoryview:
        if type(size) is not int or size < 0:
            raise MalformedTensor(name, f"binary_data_size {str(size)[:40]!r} is not a number of bytes")
        if size > self.left:
            raise MalformedTensor(name, f"binary_data_size {size}, but only {self.left} bytes follow the JSON header")
        self.was_used = True
        self.starts[name] = self._at
        self._at += size
        return self._view[self._at - size : self._at]


def _tensors(entries: Sequence[_Input], signature: Signature, binary: _Reader) -> tuple[list[Tensor], list[int | None]]:
    found: dict[str, Tensor] = {}
    for entry in entries:
        spec = signature.input(entry.name)
        if spec is None:
            raise RequestRefused(400, f"unknown input {entry.name[:80]!r}; {_expected(signature)}")
        if entry.name in found:
            raise RequestRefused(400, f"input {entry.name!r} is given twice; {_expected(signature)}")
        try:
            found[entry.name] = _tensor(entry, spec, binary)
        except MalformedTensor as error:
            raise RequestRefused(400, f"input {spec.name!r}: {error.reason}; {_expected(signature)}") from error
    missing = [spec.name for spec in signature.inputs if spec.name not in found]
    if missing:
        raise RequestRefused(400, f"input {missing[0]!r} is missing; {_expected(signature)}")
    tensors = [found[spec.name] for spec in signature.inputs]
    _check_symbols(tensors, signature)
    return tensors, [binary.starts.get(spec.name) for spec in signature.inputs]


def _tensor(entry: _Input, spec: TensorSpec, binary: _Reader) -> Tensor:
    if entry.datatype != spec.dtype:
        raise MalformedTensor(spec.name, f"datatype is {entry.datatype[:20]!r}, expected {spec.dtype}")
    if not spec.accepts(entry.shape) or any(size < 0 for size in entry.shape):
        raise MalformedTensor(spec.name, f"shape is {_shown(entry.shape)}, expected {_dims(spec)}")
    parameters = entry.parameters or {}
    if "shared_memory_region" in parameters:
        raise MalformedTensor(spec.name, "shared memory regions are not supported: send the data in the request")
    size = parameters.get("binary_data_size")
    text = memoryview(entry.data)
    has_data = len(text) > 0 and bytes(text[:5]) != b"null"
    if size is not None:
        if has_data:
            raise MalformedTensor(spec.name, "has both data and binary_data_size")
        data: bytes | memoryview = binary.take(spec.name, size)
        return check_tensor(Tensor(spec.name, spec.dtype, tuple(entry.shape), data))
    if not has_data:
        raise MalformedTensor(spec.name, "has neither data nor parameters.binary_data_size")
    return Tensor(spec.name, spec.dtype, tuple(entry.shape), tensor_bytes(spec.name, spec.dtype, entry.shape, text))


def _check_symbols(tensors: Sequence[Tensor], signature: Signature) -> None:
    """Equal names of symbolic dimensions mean equal sizes within one request."""
    sizes: dict[str, tuple[int, str]] = {}
    for tensor, spec in zip(tensors, signature.inputs, strict=True):
        for size, dim in zip(tensor.shape, spec.shape, strict=True):
            if not isinstance(dim, str):
                continue
            known, where = sizes.setdefault(dim, (size, spec.name))
            if known != size:
                raise RequestRefused(400, f"dimension {dim!r} is {known} in input {where!r} and {size} in input "
                                     f"{spec.name!r}; {_expected(signature)}")  # fmt: skip


def _wanted(request: _Request, signature: Signature) -> tuple[list[WantedOutput], bool]:
    default = bool((request.parameters or {}).get("binary_data_output", False))
    if not request.outputs:
        return [WantedOutput(spec.name, default) for spec in signature.outputs], default
    wanted: list[WantedOutput] = []
    for entry in request.outputs:
        if signature.output(entry.name) is None:
            known = ", ".join(_described(spec) for spec in signature.outputs)
            raise RequestRefused(400, f"unknown output {entry.name[:80]!r}; outputs are: {known}")
        if any(output.name == entry.name for output in wanted):
            raise RequestRefused(400, f"output {entry.name!r} is asked for twice")
        parameters = entry.parameters or {}
        for unsupported in ("classification", "shared_memory_region"):
            if parameters.get(unsupported):
                raise RequestRefused(400, f"output {entry.name!r}: {unsupported} is not supported")
        wanted.append(WantedOutput(entry.name, bool(parameters.get("binary_data", default))))
    return wanted, any(output.binary for output in wanted)


def _expected(signature: Signature) -> str:
    inputs = ", ".join(_described(spec) for spec in signature.inputs)
    return f"expected inputs: {inputs}" if inputs else "this model takes no inputs"


def _described(spec: TensorSpec) -> str:
    note = "" if has_json_form(spec.dtype) or spec.dtype == BYTES else " (binary only)"
    return f"{spec.name} {spec.dtype} {_dims(spec)}{note}"


def _dims(spec: TensorSpec) -> str:
    return "[" + ",".join(str(dim) for dim in spec.shape) + "]"


def _shown(shape: Sequence[int]) -> str:
    dims = ",".join(str(size) for size in shape[:8])
    return f"[{dims},...] of rank {len(shape)}" if len(shape) > 8 else f"[{dims}]"
