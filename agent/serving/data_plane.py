"""The application behind HTTP: which request goes where, who may ask, and inference requests on their way to a model.

GET  /v2   /v2/health/live   /v2/health/ready   /v2/models/stats   /metrics
GET  /v2/models/NAME[/versions/VERSION][/ready|/config|/stats]
POST /v2/models/NAME[/versions/VERSION]/infer   /v2/repository/index
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from time import monotonic_ns
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from agent.errors import RequestRefused
from agent.serving import documents, engine_wire
from agent.serving.arena import Arena, Slot
from agent.serving.body import Body, GrowingBody, MemoryBudget, SharedBody, shared_body, too_large
from agent.serving.control import ServerState, ServingOptions
from agent.serving.engine_wire import Part, Run
from agent.serving.exchange import JSON, TEXT, Answer, Exchange
from agent.serving.live_model import LiveModel, Pending
from agent.serving.metrics import prometheus_text
from agent.serving.protocol import InferenceRequest, header_length, parse_request
from agent.serving.responses import format_error
from agent.serving.served_models import Entry, ServedModels

_MAX_SMALL_BODY = 64 * 1024
_GET = (b"GET", b"HEAD")
_POST = (b"POST",)
_OK = Answer(200, JSON, [b"{}"])


class DataPlane:
    """Application of agent.serving.exchange. ``look`` gives the state for /metrics; ``token`` None: anyone may ask."""

    def __init__(
        self, models: ServedModels, options: ServingOptions, arena: Arena, budget: MemoryBudget, token: bytes | None,
        look: Callable[[], ServerState],
    ) -> None:  # fmt: skip
        self._models = models
        self._options = options
        self._arena = arena
        self._budget = budget
        self._token = token
        self._look = look
        self.is_stopping = False

    # Application -------------------------------------------------------------------------------------------------

    def admit(self, exchange: Exchange, content_length: int | None) -> Body | None:
        """See Application."""
        self._check_token(exchange)
        allowed, _ = self._route(exchange.path)
        if exchange.method not in allowed:
            raise MethodNotAllowed(exchange, allowed)
        if exchange.method in _GET:
            return None
        is_inference = exchange.path.endswith(b"/infer")
        limit = self._options.max_body_bytes if is_inference else _MAX_SMALL_BODY
        if content_length is not None and content_length > limit:
            raise RequestRefused(413, too_large(limit))
        if is_inference and content_length is not None and content_length >= engine_wire.SHARED_BYTES:
            head = exchange.headers.get(b"inference-header-content-length", b"")
            if head and b"content-encoding" not in exchange.headers:
                at = int(head) if head.isdigit() and len(head) < 10 else 0
                return shared_body(self._arena, content_length, min(at, content_length))
        return GrowingBody(limit if content_length is None else content_length, self._budget)

    def handle(self, exchange: Exchange) -> None:
        """See Application."""
        _, handler = self._route(exchange.path)
        handler(exchange)

    def refusal(self, error: RequestRefused) -> Answer:
        """See Application."""
        headers = b""
        if error.status == 503:
            headers = b"Retry-After: 1\r\n"
        elif error.status == 401:
            headers = b'WWW-Authenticate: Bearer realm="mindie"\r\n'
        elif isinstance(error, MethodNotAllowed):
            headers = b"Allow: %b\r\n" % b", ".join(error.allowed)
        return Answer(error.status, JSON, [format_error(error.reason)], headers)

    # routes ------------------------------------------------------------------------------------------------------

    def _route(self, path: bytes) -> tuple[tuple[bytes, ...], Callable[[Exchange], None]]:
        """Allowed methods and the handler. Raises RequestRefused (404)."""
        parts = path.split(b"/")
        if len(parts) > 3 and parts[1] == b"v2" and parts[2] == b"models" and parts[3] and path != b"/v2/models/stats":
            return self._model_route(parts)
        found = {
            b"/v2": (_GET, lambda exchange: _send(exchange, documents.server_metadata())),
            b"/v2/health/live": (_GET, lambda exchange: exchange.answer(_OK)),
            b"/v2/health/ready": (_GET, self._ready),
            b"/v2/models/stats": (_GET, self._all_statistics),
            b"/v2/repository/index": (_POST, self._index),
            b"/metrics": (_GET, self._metrics),
        }.get(path.rstrip(b"/"))
        if found is None:
            raise RequestRefused(404, f"no such path: {_shown(path)}; the protocol begins at /v2")
        return found

    def _model_route(self, parts: list[bytes]) -> tuple[tuple[bytes, ...], Callable[[Exchange], None]]:
        version = None
        rest = parts[4:]
        if rest[:1] == [b"versions"] and len(rest) > 1:
            version, rest = _text(rest[1]), rest[2:]
        entry = self._models.find(_text(parts[3]), version)
        verb = rest[0] if len(rest) == 1 else b"" if not rest else None
        if verb == b"infer":
            return _POST, lambda exchange: self._infer(exchange, entry.live)
        if verb == b"ready":
            return _GET, lambda exchange: self._model_ready(exchange, entry.live)
        handlers: dict[bytes | None, Callable[[Exchange], None]] = {
            b"": lambda exchange: _send(exchange, documents.model_metadata(entry.live, entry.variant)),
            b"config": lambda exchange: self._configuration(exchange, entry),
            b"stats": lambda exchange: _send(exchange, {"model_stats": [documents.model_statistics(entry.live)]}),
        }
        if verb not in handlers:
            raise RequestRefused(404, f"no such path: {_shown(b'/'.join(parts))}")
        return _GET, handlers[verb]

    def _ready(self, exchange: Exchange) -> None:
        if self.is_stopping:
            raise RequestRefused(503, "the server is stopping")
        waiting = [live.served.name for live in self._models.lives() if not live.is_ready]
        if waiting:
            raise RequestRefused(503, f"not ready: {', '.join(waiting)}")
        if not self._models.lives():
            raise RequestRefused(503, "no model is loaded yet")
        exchange.answer(_OK)

    def _model_ready(self, exchange: Exchange, live: LiveModel) -> None:
        if not live.is_ready:
            raise RequestRefused(
                503, f"model {live.served.name!r} is not ready: {live.failure or 'it is being loaded'}"
            )
        exchange.answer(_OK)

    def _configuration(self, exchange: Exchange, entry: Entry) -> None:
        batching = self._options.batching
        max_batch = batching.max_batch if batching is not None and entry.is_batched else 1
        _send(exchange, documents.model_configuration(entry.live, entry.variant, max_batch))

    def _all_statistics(self, exchange: Exchange) -> None:
        _send(exchange, {"model_stats": [documents.model_statistics(live) for live in self._models.lives()]})

    def _index(self, exchange: Exchange) -> None:
        body = b"" if exchange.body is None else bytes(exchange.body.view())
        try:
            asked = msgspec.json.decode(body, type=_IndexRequest) if body.strip() else _IndexRequest()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RequestRefused(400, f"request: {error}") from error
        _send(exchange, documents.repository_index(self._models.lives(), ready_only=asked.ready))

    def _metrics(self, exchange: Exchange) -> None:
        exchange.answer(Answer(200, TEXT, [prometheus_text(self._models.all_statistics(), self._look())]))

    def _check_token(self, exchange: Exchange) -> None:
        if self._token is None or exchange.path.startswith(b"/v2/health/"):
            return
        scheme, _, given = exchange.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            raise RequestRefused(401, "this server needs a bearer token: Authorization: Bearer TOKEN")

    # inference ---------------------------------------------------------------------------------------------------

    def _infer(self, exchange: Exchange, live: LiveModel) -> None:
        live.refuse_when_full()
        body = exchange.body
        if body is None:
            raise RequestRefused(400, "an inference request needs a body")
        view = body.view()
        length = header_length(exchange.headers.get(b"inference-header-content-length"), len(view))
        request = parse_request(view, length, live.signature, max_json_bytes=self._options.max_json_bytes)
        run, shared = self._run(live, request, body)
        now_ns = monotonic_ns()
        deadline_ns = exchange.arrived_ns + int(self._options.request_timeout_s * 1e9)
        live.submit(Pending(exchange, request, run, shared, now_ns, deadline_ns))

    def _run(self, live: LiveModel, request: InferenceRequest, body: Body) -> tuple[Run, list[Slot]]:
        """The request for the engine: small tensors inline, large ones in shared memory, copied there if need be."""
        parts: list[Part] = []
        shared: list[Slot] = []
        for index, (tensor, at) in enumerate(zip(request.inputs, request.offsets, strict=True)):
            size = len(tensor.data)
            if size < engine_wire.SHARED_BYTES:
                parts.append(Part(index, tensor.shape, memoryview(tensor.data)))
            elif at is not None and isinstance(body, SharedBody):
                parts.append(Part(index, tensor.shape, None, body.offset + at, size))
            elif (slot := self._arena.allocate(size)) is None:
                parts.append(Part(index, tensor.shape, memoryview(tensor.data)))
            else:
                self._arena.view(slot)[:] = tensor.data
                shared.append(slot)
                parts.append(Part(index, tensor.shape, None, slot.offset, size))
        names = [spec.name for spec in live.signature.outputs]
        return Run(live.next_number(), parts, [names.index(wanted.name) for wanted in request.outputs]), shared


class MethodNotAllowed(RequestRefused):
    """405 with the methods that are allowed."""

    def __init__(self, exchange: Exchange, allowed: tuple[bytes, ...]) -> None:
        shown = ", ".join(method.decode() for method in allowed)
        super().__init__(
            405, f"{exchange.method.decode('latin-1')} is not allowed for {_shown(exchange.path)}: {shown}"
        )
        self.allowed = allowed


class _IndexRequest(msgspec.Struct):
    ready: bool = False


def _send(exchange: Exchange, document: Any) -> None:
    exchange.answer(Answer(200, JSON, [msgspec.json.encode(document)]))


def _text(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "replace") if b"%" in part else part.decode("utf-8", "replace")


def _shown(path: bytes) -> str:
    return path[:120].decode("utf-8", "backslashreplace")
