"""The Open Inference Protocol v2: bytes of an inference request to tensors that fit the model's signature. Pure.

A request is JSON, or, with ``Inference-Header-Content-Length``, a JSON header of that length followed by the raw bytes
of every tensor that carries ``parameters.binary_data_size``, in the header's order; both forms may be mixed. Whatever
the bytes are, the outcome is an InferenceRequest or RequestRefused with a line that names the input.

Sources: https://github.com/kserve/open-inference-protocol (specification/protocol/inference_rest.md) and
https://github.com/triton-inference-server/server (docs/protocol/extension_binary_data.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.errors import RequestRefused
from agent.serving.json_tensors import LARGE_TEXT_BYTES, flat_bytes, has_json_form, json_element, text_bytes
from edge_contracts.errors import MalformedTensor
from edge_contracts.inference_wire import Tensor, check_tensor
from edge_contracts.tensor_signature import Signature, TensorSpec

MAX_JSON_BYTES = 16 * 1024 * 1024
"""JSON of a request beyond this is refused: a number costs up to 32 bytes while it is parsed, in binary none."""


@dataclass(frozen=True)
class WantedOutput:
    """An output the client asked for, at ``index`` of the signature. ``binary``: as raw bytes after the JSON header."""

    name: str
    binary: bool
    index: int = 0


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


class _Output(msgspec.Struct):
    name: str
    parameters: dict[str, Any] | None = None


def _request_type(data: Any, absent: Any) -> type:
    """The JSON of a request whose ``data`` is decoded as ``data``."""
    entry = msgspec.defstruct(
        "Input",
        [("name", str), ("shape", list[int]), ("datatype", str), ("parameters", dict[str, Any] | None, None),
         ("data", data, absent)],
    )  # fmt: skip
    return msgspec.defstruct(
        "Request",
        [("inputs", list[entry]), ("id", str, ""), ("parameters", dict[str, Any] | None, None),  # type: ignore[valid-type]
         ("outputs", list[_Output] | None, None)],
    )  # fmt: skip


_ANY_FORM: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_request_type(msgspec.Raw, msgspec.Raw(b"")))
_FLAT_FORM: dict[type, msgspec.json.Decoder[Any]] = {
    element: msgspec.json.Decoder(_request_type(list[element] | None, None))  # type: ignore[valid-type]
    for element in (float, int, bool, str)
}
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)


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


class RequestParser:
    """Parses requests to one model; what follows from its signature is worked out once.

    Flat JSON data that is not large is decoded in one pass where all inputs have the same kind of element; whatever
    that pass does not take is decoded again, with nested data allowed and with messages that name what is wrong.
    """

    def __init__(self, signature: Signature, *, max_json_bytes: int = MAX_JSON_BYTES) -> None:
        self._signature = signature
        self._max_json_bytes = max_json_bytes
        self._specs = {spec.name: spec for spec in signature.inputs}
        self._names = [spec.name for spec in signature.inputs]
        kinds = {json_element(spec.dtype) for spec in signature.inputs if has_json_form(spec.dtype)}
        self._flat = _FLAT_FORM[kinds.pop()] if len(kinds) == 1 else None
        symbols = Counter(dim for spec in signature.inputs for dim in spec.shape if isinstance(dim, str))
        self._shares_symbols = any(count > 1 for count in symbols.values())
        self._all_outputs = {
            binary: [WantedOutput(spec.name, binary, index) for index, spec in enumerate(signature.outputs)]
            for binary in (False, True)
        }
        self._output_indices = {spec.name: index for index, spec in enumerate(signature.outputs)}

    def parse(self, body: bytes | memoryview, length: int | None) -> InferenceRequest:
        """Parse a body whose JSON header has ``length`` bytes (None: all is JSON). Raises RequestRefused (400, 413)."""
        view = memoryview(body)
        text = view if length is None else view[:length]
        if len(text) > self._max_json_bytes:
            raise RequestRefused(
                413, f"{len(text)} bytes of JSON; at most {self._max_json_bytes}: send large tensors in binary"
            )
        request = self._decoded(text, has_length=length is not None)
        binary = _Reader(view, len(text))
        tensors = self._tensors(request.inputs, binary)
        if binary.left:
            raise RequestRefused(400, f"{binary.left} bytes after the last binary input; {self._expected()}")
        outputs, asked_binary = self._wanted(request)
        offsets = [binary.starts.get(name) for name in self._names]
        return InferenceRequest(request.id, tensors, offsets, outputs, asked_binary or bool(binary.starts))

    def _decoded(self, text: memoryview, *, has_length: bool) -> Any:
        if self._flat is not None and len(text) <= LARGE_TEXT_BYTES:
            try:
                return self._flat.decode(text)
            except _UNREADABLE:
                pass  # nested, of another kind, or broken: the second pass tells
        try:
            return _ANY_FORM.decode(text)
        except msgspec.ValidationError as error:
            raise RequestRefused(400, f"request: {error}") from error
        except RecursionError as error:
            raise RequestRefused(400, "request: JSON is nested too deeply") from error
        except _UNREADABLE as error:
            hint = "; a body with binary tensors needs the header Inference-Header-Content-Length"
            raise RequestRefused(400, f"request: not valid JSON: {error}{'' if has_length else hint}") from error

    def _tensors(self, entries: Sequence[Any], binary: _Reader) -> list[Tensor]:
        found: dict[str, Tensor] = {}
        for entry in entries:
            spec = self._specs.get(entry.name)
            if spec is None:
                raise RequestRefused(400, f"unknown input {entry.name[:80]!r}; {self._expected()}")
            if entry.name in found:
                raise RequestRefused(400, f"input {entry.name!r} is given twice; {self._expected()}")
            try:
                found[entry.name] = _tensor(entry, spec, binary)
            except MalformedTensor as error:
                raise RequestRefused(400, f"input {spec.name!r}: {error.reason}; {self._expected()}") from error
        if len(found) < len(self._names):
            missing = next(name for name in self._names if name not in found)
            raise RequestRefused(400, f"input {missing!r} is missing; {self._expected()}")
        tensors = [found[name] for name in self._names]
        if self._shares_symbols:
            self._check_symbols(tensors)
        return tensors

    def _check_symbols(self, tensors: Sequence[Tensor]) -> None:
        """Equal names of symbolic dimensions mean equal sizes within one request."""
        sizes: dict[str, tuple[int, str]] = {}
        for tensor, spec in zip(tensors, self._signature.inputs, strict=True):
            for size, dim in zip(tensor.shape, spec.shape, strict=True):
                if not isinstance(dim, str):
                    continue
                known, where = sizes.setdefault(dim, (size, spec.name))
                if known != size:
                    raise RequestRefused(400, f"dimension {dim!r} is {known} in input {where!r} and {size} in input "
                                         f"{spec.name!r}; {self._expected()}")  # fmt: skip

    def _wanted(self, request: Any) -> tuple[list[WantedOutput], bool]:
        default = bool(request.parameters and request.parameters.get("binary_data_output", False))
        if not request.outputs:
            return self._all_outputs[default], default
        wanted: list[WantedOutput] = []
        for entry in request.outputs:
            index = self._output_indices.get(entry.name)
            if index is None:
                known = ", ".join(_described(spec) for spec in self._signature.outputs)
                raise RequestRefused(400, f"unknown output {entry.name[:80]!r}; outputs are: {known}")
            if any(output.name == entry.name for output in wanted):
                raise RequestRefused(400, f"output {entry.name!r} is asked for twice")
            parameters = entry.parameters or {}
            for unsupported in ("classification", "shared_memory_region"):
                if parameters.get(unsupported):
                    raise RequestRefused(400, f"output {entry.name!r}: {unsupported} is not supported")
            wanted.append(WantedOutput(entry.name, bool(parameters.get("binary_data", default)), index))
        return wanted, any(output.binary for output in wanted)

    def _expected(self) -> str:
        inputs = ", ".join(_described(spec) for spec in self._signature.inputs)
        return f"expected inputs: {inputs}" if inputs else "this model takes no inputs"


class _Reader:
    """Takes the binary tensors off the end of the body, in order. ``starts``: where each began."""

    def __init__(self, view: memoryview, begin: int) -> None:
        self._view = view
        self._at = begin
        self.starts: dict[str, int] = {}

    @property
    def left(self) -> int:
        return len(self._view) - self._at

    def take(self, name: str, size: Any) -> memoryview:
        if type(size) is not int or size < 0:
            raise MalformedTensor(name, f"binary_data_size {str(size)[:40]!r} is not a number of bytes")
        if size > self.left:
            raise MalformedTensor(name, f"binary_data_size {size}, but only {self.left} bytes follow the JSON header")
        self.starts[name] = self._at
        self._at += size
        return self._view[self._at - size : self._at]


def _tensor(entry: Any, spec: TensorSpec, binary: _Reader) -> Tensor:
    shape, name, dtype = entry.shape, spec.name, spec.dtype
    if entry.datatype != dtype:
        raise MalformedTensor(name, f"datatype is {entry.datatype[:20]!r}, expected {dtype}")
    if not _fits(shape, spec.shape):
        raise MalformedTensor(name, f"shape is {_shown(shape)}, expected {_dims(spec)}")
    size = None
    if entry.parameters:
        size = entry.parameters.get("binary_data_size")
        if "shared_memory_region" in entry.parameters:
            raise MalformedTensor(name, "shared memory regions are not supported: send the data in the request")
    data = entry.data
    text = memoryview(data) if isinstance(data, msgspec.Raw) else None
    is_absent = data is None or (text is not None and bytes(text[:5]) in (b"", b"null"))
    if size is not None:
        if not is_absent:
            raise MalformedTensor(name, "has both data and binary_data_size")
        return check_tensor(Tensor(name, dtype, tuple(shape), binary.take(name, size)))
    if is_absent:
        raise MalformedTensor(name, "has neither data nor parameters.binary_data_size")
    if text is not None:
        return Tensor(name, dtype, tuple(shape), text_bytes(name, dtype, shape, text))
    if not has_json_form(dtype):
        raise MalformedTensor(name, f"{dtype} has no JSON form: send it in binary (parameters.binary_data_size)")
    return Tensor(name, dtype, tuple(shape), flat_bytes(name, dtype, shape, data))


def _fits(shape: Sequence[int], dims: Sequence[int | str]) -> bool:
    if len(shape) != len(dims):
        return False
    for size, dim in zip(shape, dims, strict=True):
        if size != dim and (size < 0 or not isinstance(dim, str)):
            return False
    return True


def _described(spec: TensorSpec) -> str:
    note = "" if has_json_form(spec.dtype) else " (binary only)"
    return f"{spec.name} {spec.dtype} {_dims(spec)}{note}"


def _dims(spec: TensorSpec) -> str:
    return "[" + ",".join(str(dim) for dim in spec.shape) + "]"


def _shown(shape: Sequence[int]) -> str:
    dims = ",".join(str(size) for size in shape[:8])
    return f"[{dims},...] of rank {len(shape)}" if len(shape) > 8 else f"[{dims}]"
