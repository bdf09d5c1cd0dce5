"""One HTTP/1.1 connection: an asyncio.BufferedProtocol, parsed by httptools.

- Large bodies of known length are read by the kernel straight into the memory that the application gave.
- Requests on one connection are answered in order; while one is at work, a few more may wait (pipelining).
- Bounded: header bytes, body bytes (by the application), connections, waiting requests, time to send a request, idle
  time, time to take an answer. A refusal before the body is read closes the connection, but only after the client has
  had time to read the answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import httptools

from agent.errors import RequestRefused
from agent.serving.body import Body, GrowingBody, SharedBody, inflate
from agent.serving.exchange import Answer, Exchange

if TYPE_CHECKING:
    from agent.serving.http import HttpService

_MAX_WAITING = 16
_JOIN_BYTES = 64 * 1024
_LINGER_S = 2.0
_SMALL_REST_BYTES = 64 * 1024
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpConnection(asyncio.BufferedProtocol):
    """One client. Callbacks ``on_*`` are called by httptools from within ``_feed``."""

    def __init__(self, service: HttpService) -> None:
        self._service = service
        self._application = service.application
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._parser = httptools.HttpRequestParser(self)
        self._exchange: Exchange | None = None
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._header_bytes = 0
        self._in_head = True
        self._head_bytes = 0
        self._body: Body | None = None
        self._raw_left = 0
        self._content_length: int | None = None
        self._began_s: float | None = None
        self._received = 0
        self._waiting: deque[Exchange] = deque()
        self._at_work: Exchange | None = None
        self._is_discarding = False
        self._is_paused_reading = False
        self._is_paused_writing = False
        self._closing_since_s: float | None = None
        self._last_s = self._loop.time()

    # transport ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = transport
        service = self._service
        if len(service.connections) >= service.limits.max_connections or service.is_draining:
            refused = RequestRefused(503, "too many connections: try again")
            self._transport.write(_head_and_parts(service.application.refusal(refused), False)[0])
            transport.close()
            self._closing_since_s = self._last_s
            return
        service.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """See asyncio."""
        self._service.connections.discard(self)
        self._closing_since_s = self._loop.time()
        if self._exchange is not None:
            self._exchange.release()
        for exchange in [self._at_work, *self._waiting]:
            if exchange is not None:
                exchange.is_gone = True
        for exchange in self._waiting:
            exchange.release()
        self._waiting.clear()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """See asyncio: the body's own memory while a large body comes in, else a buffer that all connections share."""
        if self._raw_left:
            assert isinstance(self._body, SharedBody)
            return self._body.room()
        return self._service.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See asyncio."""
        self._last_s = self._loop.time()
        if self._closing_since_s is not None:
            return
        self._received += nbytes
        if self._raw_left:
            assert isinstance(self._body, SharedBody)
            self._body.advance(nbytes)
            self._raw_left -= nbytes
            if self._raw_left == 0:
                self._parser = httptools.HttpRequestParser(self)
                self.on_message_complete()
                self._next()
            return
        self._feed(self._service.receive_buffer[:nbytes])

    def eof_received(self) -> bool:
        """See asyncio. A client that shuts its side is taken for one that has left: what it waited for is dropped."""
        return False

    def pause_writing(self) -> None:
        """See asyncio."""
        self._is_paused_writing = True

    def resume_writing(self) -> None:
        """See asyncio."""
        self._is_paused_writing = False
        self._last_s = self._loop.time()
        self._next()

    # parser ------------------------------------------------------------------------------------------------------

    def _feed(self, data: memoryview) -> None:
        if self._began_s is None:
            self._began_s = self._last_s
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._waiting:
                self._waiting[-1].keep_alive = False
        except httptools.HttpParserError as error:
            cause = error.__context__
            if not isinstance(cause, RequestRefused):
                cause = RequestRefused(400, f"not an HTTP/1.1 request: {error}")
            self._refuse(cause)
            return
        if self._in_head and self._head_bytes > self._service.limits.max_header_bytes:
            self._refuse(self._too_many_header_bytes())
            return
        self._read_the_rest_directly()
        self._next()

    def _read_the_rest_directly(self) -> None:
        """From here on the body's bytes need no parser."""
        if isinstance(self._body, SharedBody) and not self._in_head and self._content_length is not None:
            self._raw_left = self._content_length - len(self._body.view())

    def on_message_begin(self) -> None:
        """See httptools."""
        self._url, self._headers, self._header_bytes = b"", {}, 0
        self._in_head = True
        self._exchange = self._body = self._content_length = None
        self._is_discarding = False

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        self._url += url
        if len(self._url) > self._service.limits.max_header_bytes:
            raise self._too_many_header_bytes()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        key = name.lower()
        if key in self._headers and key in (b"content-length", b"inference-header-content-length", b"authorization"):
            raise RequestRefused(400, f"header {name[:80].decode('latin-1')} is given twice")
        self._headers[key] = value
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > self._service.limits.max_header_bytes:
            raise self._too_many_header_bytes()

    def on_headers_complete(self) -> None:
        """See httptools: ask the application where the body goes."""
        self._in_head = False
        self._head_bytes = 0
        headers = self._headers
        method, path = self._parser.get_method(), self._url.split(b"?", 1)[0]
        keep_alive = self._parser.should_keep_alive() and not self._service.is_draining
        exchange = Exchange(self, method, path, headers, keep_alive)
        self._exchange = exchange
        length = headers.get(b"content-length")
        if b"transfer-encoding" in headers:
            length = None
        self._content_length = int(length) if length is not None and length.isdigit() else None
        try:
            self._body = exchange.body = self._application.admit(exchange, self._content_length)
        except RequestRefused as error:
            expects = b"expect" in headers or b"transfer-encoding" in headers
            if expects or (self._content_length or 0) > _SMALL_REST_BYTES:
                raise  # the body is not worth reading: answer and close
            exchange.ready_answer = self._application.refusal(error)
            self._is_discarding = True
        else:
            is_alone = self._at_work is None and not self._waiting
            if is_alone and headers.get(b"expect", b"").lower() == b"100-continue":
                self._transport.write(_CONTINUE)

    def on_body(self, data: bytes) -> None:
        """See httptools."""
        if self._is_discarding or self._exchange is None:
            return
        if self._body is None:
            raise RequestRefused(400, "this request takes no body")
        self._body.write(data)

    def on_message_complete(self) -> None:
        """See httptools; also called when a body that was read directly is whole."""
        exchange, self._exchange = self._exchange, None
        self._in_head = True
        self._body, self._began_s, self._received = None, None, 0
        if exchange is None:
            return
        exchange.arrived_ns = monotonic_ns()
        self._waiting.append(exchange)
        if len(self._waiting) >= _MAX_WAITING and not self._is_paused_reading:
            self._is_paused_reading = True
            self._transport.pause_reading()

    # exchanges ---------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Hand the next whole request to the application, unless one is at work or the client does not read."""
        while self._waiting and self._at_work is None and not self._is_paused_writing:
            if self._closing_since_s is not None:
                return
            exchange = self._waiting.popleft()
            self._at_work = exchange
            if exchange.ready_answer is not None:
                self.answer(exchange, exchange.ready_answer)
                continue
            try:
                self._unpack(exchange)
                self._application.handle(exchange)
            except RequestRefused as error:
                exchange.answer(self._application.refusal(error))
        if self._is_paused_reading and len(self._waiting) < _MAX_WAITING and self._closing_since_s is None:
            self._is_paused_reading = False
            self._transport.resume_reading()

    def _unpack(self, exchange: Exchange) -> None:
        encoding = exchange.headers.get(b"content-encoding", b"identity").lower()
        if exchange.body is None or encoding == b"identity":
            return
        if encoding not in (b"gzip", b"deflate"):
            raise RequestRefused(400, f"Content-Encoding {encoding[:40].decode('latin-1')!r} is not supported: "
                                 "send gzip, deflate or plain")  # fmt: skip
        plain = GrowingBody(self._service.limits.max_body_bytes, self._service.budget)
        try:
            inflate(encoding, exchange.body, plain)
        except RequestRefused:
            plain.release()
            raise
        exchange.body.release()
        exchange.body = plain

    def answer(self, exchange: Exchange, answer: Answer) -> None:
        """See Connection. Called once, for the exchange at work."""
        self._at_work = None
        if self._closing_since_s is not None or exchange.is_gone:
            return
        self._last_s = self._loop.time()
        keep_alive = exchange.keep_alive and not self._service.is_draining
        for part in _head_and_parts(answer, keep_alive, with_body=exchange.method != b"HEAD"):
            self._transport.write(part)
        if not keep_alive:
            self._close()
        elif self._waiting:
            self._loop.call_soon(self._next)

    def _refuse(self, error: RequestRefused) -> None:
        """Answer what cannot be parsed further; earlier requests on this connection are answered first."""
        exchange, self._exchange = self._exchange, None
        method = b"" if exchange is None else exchange.method
        if exchange is not None:
            exchange.release()
        refused = Exchange(self, method, b"", {}, keep_alive=False)
        refused.ready_answer = self._application.refusal(error)
        self._body, self._raw_left = None, 0
        self._is_discarding = True
        self._parser = _Discard()
        self._waiting.append(refused)
        self._next()

    def _too_many_header_bytes(self) -> RequestRefused:
        return RequestRefused(431, f"more than {self._service.limits.max_header_bytes} bytes of headers")

    # time --------------------------------------------------------------------------------------------------------

    def check_time(self, now_s: float) -> None:
        """Close when idle, slow or stuck for too long."""
        limits = self._service.limits
        if self._closing_since_s is not None:
            if now_s - self._closing_since_s > _LINGER_S:
                self._transport.abort()
        elif self._is_paused_writing:
            if now_s - self._last_s > limits.request_s:
                self._transport.abort()
        elif self._began_s is not None and self._at_work is None:
            if now_s - self._began_s > limits.request_s + self._received / limits.min_bytes_per_s:
                self._refuse(RequestRefused(408, "the request did not arrive in time"))
        elif self._at_work is None and now_s - self._last_s > limits.idle_s:
            self._close()

    def close_if_idle(self) -> None:
        """For draining."""
        if self._at_work is None and not self._waiting and self._began_s is None:
            self._close()

    def _close(self) -> None:
        """Close at once if the client has nothing left to say, else after it has had time to read the answer."""
        if self._closing_since_s is not None:
            return
        self._closing_since_s = self._loop.time()
        if not self._is_discarding or not self._transport.can_write_eof():
            self._transport.close()
            return
        if self._is_paused_reading:
            self._transport.resume_reading()
        self._transport.write_eof()


class _Discard:
    """Stands in for the parser of a connection that is about to close."""

    def feed_data(self, data: memoryview) -> None:
        """Drop it."""


def _head_and_parts(answer: Answer, keep_alive: bool, *, with_body: bool = True) -> list[bytes | memoryview]:
    length = sum(map(len, answer.parts))
    head = b"%bContent-Type: %b\r\nContent-Length: %d\r\n%b%b\r\n" % (
        _STATUS_LINES[answer.status],
        answer.content_type,
        length,
        answer.headers,
        b"" if keep_alive else b"Connection: close\r\n",
    )
    if not with_body:
        return [head]
    if length <= _JOIN_BYTES:
        return [b"".join([head, *answer.parts])]
    return [head, *answer.parts]
