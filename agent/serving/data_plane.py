"""The application behind HTTP: who may ask, what goes where, and inference requests on their way to a model."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import msgspec

from agent.errors import RequestRefused
from agent.serving import documents
from agent.serving.arena import Arena, Slot
from agent.serving.body import Body, GrowingBody, MemoryBudget, SharedBody, shared_body, too_large
from agent.serving.control import ServerState, ServingOptions
from agent.serving.engine_wire import SHARED_BYTES, Part, Run
from agent.serving.exchange import JSON, TEXT, Answer, Exchange
from agent.serving.live_model import LiveModel, Pending
from agent.serving.metrics import prometheus_text
from agent.serving.protocol import InferenceRequest, header_length
from agent.serving.responses import format_error
from agent.serving.routes import GET, Target, Verb, parse_path, shown
from agent.serving.served_models import Entry, ServedModels

_MAX_SMALL_BODY = 64 * 1024
_MAX_KNOWN_PATHS = 256
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
        self._known_paths: dict[bytes, Target] = {}
        self._timeout_ns = int(options.request_timeout_s * 1e9)
        self.is_stopping = False

    # Application -------------------------------------------------------------------------------------------------

    def admit(self, exchange: Exchange, content_length: int | None) -> Body | None:
        """See Application."""
        if self._token is not None:
            self._check_token(exchange, self._token)
        target = exchange.target = self._target(exchange.path)
        if exchange.method not in target.methods:
            raise MethodNotAllowed(exchange, target.methods)
        if target.methods is GET:
            return None
        is_inference = target.verb is Verb.INFER
        if is_inference:
            self._models.find(target.name, target.version)
        limit = self._options.max_body_bytes if is_inference else _MAX_SMALL_BODY
        if content_length is None:
            return GrowingBody(limit, self._budget)
        if content_length > limit:
            raise RequestRefused(413, too_large(limit))
        if is_inference and content_length >= SHARED_BYTES:
            head = exchange.headers.get(b"inference-header-content-length", b"")
            if head and b"content-encoding" not in exchange.headers:
                at = int(head) if head.isdigit() and len(head) < 10 else 0
                return shared_body(self._arena, content_length, min(at, content_length))
        return GrowingBody(content_length, self._budget)

    def handle(self, exchange: Exchange) -> None:
        """See Application."""
        target = exchange.target
        assert target is not None
        if target.verb is Verb.INFER:
            self._infer(exchange, self._models.find(target.name, target.version).live)
        elif target.name:
            self._about_model(exchange, target.verb, self._models.find(target.name, target.version))
        else:
            self._about_server(exchange, target.verb)

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

    def _target(self, path: bytes) -> Target:
        target = self._known_paths.get(path)
        if target is None:
            target = parse_path(path)
            if len(self._known_paths) >= _MAX_KNOWN_PATHS:
                self._known_paths.clear()
            self._known_paths[path] = target
        return target

    def _check_token(self, exchange: Exchange, token: bytes) -> None:
        if exchange.path.startswith(b"/v2/health/"):
            return
        scheme, _, given = exchange.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), token):
            raise RequestRefused(401, "this server needs a bearer token: Authorization: Bearer TOKEN")

    # documents ---------------------------------------------------------------------------------------------------

    def _about_server(self, exchange: Exchange, verb: Verb) -> None:
        if verb is Verb.LIVE:
            exchange.answer(_OK)
        elif verb is Verb.READY:
            self._check_ready()
            exchange.answer(_OK)
        elif verb is Verb.METRICS:
            exchange.answer(Answer(200, TEXT, [prometheus_text(self._models.all_statistics(), self._look())]))
        elif verb is Verb.STATISTICS:
            _send(exchange, {"model_stats": [documents.model_statistics(live) for live in self._models.lives()]})
        elif verb is Verb.INDEX:
            _send(exchange, documents.repository_index(self._models.lives(), ready_only=_asks_for_ready(exchange)))
        else:
            _send(exchange, documents.server_metadata())

    def _about_model(self, exchange: Exchange, verb: Verb, entry: Entry) -> None:
        live = entry.live
        if verb is Verb.MODEL_READY:
            if not live.is_ready:
                reason = live.failure or "it is being loaded"
                raise RequestRefused(503, f"model {live.served.name!r} is not ready: {reason}")
            exchange.answer(_OK)
        elif verb is Verb.MODEL_CONFIGURATION:
            batching = self._options.batching
            max_batch = batching.max_batch if batching is not None and entry.is_batched else 1
            _send(exchange, documents.model_configuration(live, entry.variant, max_batch))
        elif verb is Verb.MODEL_STATISTICS:
            _send(exchange, {"model_stats": [documents.model_statistics(live)]})
        else:
            _send(exchange, documents.model_metadata(live, entry.variant, self._models.versions(live.served.name)))

    def _check_ready(self) -> None:
        if self.is_stopping:
            raise RequestRefused(503, "the server is stopping")
        lives = self._models.lives()
        waiting = [live.served.name for live in lives if not live.is_ready]
        if waiting:
            raise RequestRefused(503, f"not ready: {', '.join(waiting)}")
        if not lives:
            raise RequestRefused(503, "no model is loaded yet")

    # inference ---------------------------------------------------------------------------------------------------

    def _infer(self, exchange: Exchange, live: LiveModel) -> None:
        live.refuse_when_full()
        body = exchange.body
        if body is None:
            raise RequestRefused(400, "an inference request needs a body")
        view = body.view()
        length = header_length(exchange.headers.get(b"inference-header-content-length"), len(view))
        request = live.parser.parse(view, length)
        run, shared = self._run(live, request, body)
        deadline_ns = exchange.arrived_ns + self._timeout_ns
        live.submit(Pending(exchange, request, run, shared, monotonic_ns(), deadline_ns))

    def _run(self, live: LiveModel, request: InferenceRequest, body: Body) -> tuple[Run, list[Slot]]:
        """The request for the engine: small tensors inline, large ones in shared memory, copied there if need be."""
        parts: list[Part] = []
        shared: list[Slot] = []
        for index, tensor in enumerate(request.inputs):
            size = len(tensor.data)
            if size < SHARED_BYTES:
                parts.append(Part(index, tensor.shape, memoryview(tensor.data)))
                continue
            at = request.offsets[index]
            if at is not None and isinstance(body, SharedBody):
                parts.append(Part(index, tensor.shape, None, body.offset + at, size))
            elif (slot := self._arena.allocate(size)) is None:
                parts.append(Part(index, tensor.shape, memoryview(tensor.data)))
            else:
                self._arena.view(slot)[:] = tensor.data
                shared.append(slot)
                parts.append(Part(index, tensor.shape, None, slot.offset, size))
        return Run(live.next_number(), parts, [wanted.index for wanted in request.outputs]), shared


class MethodNotAllowed(RequestRefused):
    """405 with the methods that are allowed."""

    def __init__(self, exchange: Exchange, allowed: tuple[bytes, ...]) -> None:
        takes = ", ".join(method.decode() for method in allowed)
        super().__init__(405, f"{exchange.method.decode('latin-1')} is not allowed for {shown(exchange.path)}: {takes}")
        self.allowed = allowed


class _IndexRequest(msgspec.Struct):
    ready: bool = False


def _asks_for_ready(exchange: Exchange) -> bool:
    body = b"" if exchange.body is None else bytes(exchange.body.view())
    try:
        return msgspec.json.decode(body, type=_IndexRequest).ready if body.strip() else False
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"request: {error}") from error


def _send(exchange: Exchange, document: Any) -> None:
    exchange.answer(Answer(200, JSON, [msgspec.json.encode(document)]))
