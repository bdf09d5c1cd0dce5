"""The server process: owns the sockets for life, serves the data plane, keeps engines alive, obeys its control socket.

Composition root of ``python -m agent.serving``; started by agent.serving.process.ServerProcess.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any

import msgspec

from agent.errors import AgentError, LoadFailed
from agent.inference.bundle_folder import open_bundle_folder
from agent.serving import control
from agent.serving.arena import Arena, create_memory, map_memory
from agent.serving.batching import BatchRule, batch_dimension, batch_sizes
from agent.serving.body import MemoryBudget
from agent.serving.control import EngineEvent, Loaded, ServedModel, ServerState, ServingOptions
from agent.serving.data_plane import DataPlane
from agent.serving.engine_channel import FrameProtocol
from agent.serving.engine_keeper import EngineKeeper
from agent.serving.engine_process import EngineProcess, RequestMemory
from agent.serving.http import HttpLimits, HttpService
from agent.serving.live_model import LiveModel
from agent.serving.served_models import Entry, ServedModels
from edge_contracts.errors import ContractError
from edge_contracts.tensor_signature import Signature, TensorSpec

_SWEEP_S = 0.25
_BACKLOG = 1024
_RESERVED_DESCRIPTORS = 64
_PAGE_BYTES = resource.getpagesize()


class Server:
    """Made by the first Configure; everything runs in one event loop."""

    def __init__(
        self, options: ServingOptions, listeners: list[socket.socket], tell: Callable[[EngineEvent], None]
    ) -> None:
        self._options = options
        self._listeners = listeners
        self._tell = tell
        self._models = ServedModels(lambda: int(time.time() * 1000))
        self._keepers: dict[str, EngineKeeper] = {}
        self._sessions = itertools.count(1)
        memory_bytes = 2 * options.max_body_bytes
        self._memory = RequestMemory(create_memory("requests", memory_bytes), memory_bytes)
        self._arena = Arena(map_memory(self._memory.descriptor, memory_bytes, writable=True))
        self._budget = MemoryBudget(2 * options.max_body_bytes)
        token = None if options.token_file is None else read_token(Path(options.token_file))
        self._plane = DataPlane(self._models, options, self._arena, self._budget, token, self.state)
        limits = HttpLimits(
            max_body_bytes=options.max_body_bytes, max_connections=_possible_connections(options.max_connections),
            idle_s=options.idle_timeout_s, request_s=options.receive_timeout_s,
        )  # fmt: skip
        self._http = HttpService(self._plane, limits, self._budget)
        self._acceptors: list[asyncio.AbstractServer] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        context = _tls_context(self._options)
        for listener in self._listeners:
            is_local = listener.family == socket.AF_UNIX
            make = loop.create_unix_server if is_local else loop.create_server
            acceptor = await make(
                self._http.connection, sock=listener, backlog=_BACKLOG, ssl=None if is_local else context
            )
            self._acceptors.append(acceptor)
        self._sweep()

    def expect(self, names: list[str]) -> None:
        """Models that are about to be loaded."""
        self._models.expect(names)

    async def load(self, model: ServedModel) -> Loaded:
        """Raises LoadFailed; what served under that name still does then."""
        try:
            folder = open_bundle_folder(Path(model.folder))
        except ContractError as error:
            raise LoadFailed(model.name, str(error)) from error
        variant = folder.bundle.variant(model.variant)
        if variant is None:
            raise LoadFailed(model.name, f"{model.folder} has no variant {model.variant!r}")
        signature = narrowed(folder.bundle.spec.signature, model)
        rule = self._batch_rule(model, signature)
        statistics = self._models.statistics(model.name, model.version, model.digest)
        live = LiveModel(model, signature, next(self._sessions), self._options, self._arena, statistics, rule)
        await self._keeper(model.python).load(live)
        for old in self._models.put(Entry(live, variant.spec, rule is not None)):
            self._keeper(old.served.python).retire(old)
        assert live.loaded is not None
        return live.loaded

    def unload(self, name: str, version: str | None) -> None:
        """Answer what is in flight, then free it. Unknown names are ignored."""
        for old in self._models.remove(name, version):
            self._keeper(old.served.python).retire(old)

    def drain_statistics(self) -> list[control.ModelStatistics]:
        """Since the last call."""
        return self._models.drain()

    def state(self) -> ServerState:
        """As it is now."""
        pids = [keeper.pid for keeper in self._keepers.values() if keeper.pid is not None]
        return ServerState(
            pid=os.getpid(), engine_pids=pids, models=[live.state() for live in self._models.lives()],
            connections=len(self._http.connections), rss_mb=_rss_mb(os.getpid()),
            engine_rss_mb=sum(map(_rss_mb, pids)),
            engine_restarts=sum(keeper.restarts for keeper in self._keepers.values()),
        )  # fmt: skip

    async def stop(self, drain_s: float) -> None:
        """Accept nothing more, answer what is in flight for at most ``drain_s``, end the engines."""
        self._plane.is_stopping = True
        for acceptor in self._acceptors:
            acceptor.close()
        self._http.drain()
        deadline_s = monotonic() + drain_s
        while self._http.connections and monotonic() < deadline_s:
            await asyncio.sleep(0.01)
        for keeper in self._keepers.values():
            keeper.stop()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _keeper(self, python: str | None) -> EngineKeeper:
        interpreter = python or sys.executable
        if interpreter not in self._keepers:
            options = self._options
            self._keepers[interpreter] = EngineKeeper(
                lambda on_death: EngineProcess(
                    interpreter, self._memory, options.cache_dir, options.max_body_bytes, on_death
                ),
                self._tell, self._batch_sizes, options.load_timeout_s,
            )  # fmt: skip
        return self._keepers[interpreter]

    def _batch_rule(self, model: ServedModel, signature: Signature) -> BatchRule | None:
        """The model's own batching, else the server's; None where requests cannot run together."""
        batching = model.batching or self._options.batching
        if batching is None or batching.max_batch < 2 or batch_dimension(signature) is None:
            return None
        return BatchRule(batching.max_batch, int(batching.max_delay_ms * 1e6))

    def _batch_sizes(self, live: LiveModel) -> list[int]:
        rule = self._batch_rule(live.served, live.signature)
        return [] if rule is None else batch_sizes(rule.max_rows)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._http.sweep(loop.time())
        for keeper in self._keepers.values():
            keeper.check_time(monotonic_ns())
        self._sweeper = loop.call_later(_SWEEP_S, self._sweep)


class ControlLink:
    """Carries out what comes over the control socket, one task each; ends the process when it closes."""

    def __init__(self, listeners: list[socket.socket]) -> None:
        self._listeners = listeners
        self._server: Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._decoder = msgspec.msgpack.Decoder(control.ToServer)
        self._protocol = FrameProtocol(self._received, self._lost)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def attach(self, connection: socket.socket) -> None:
        """Begin to listen to the daemon."""
        connection.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: self._protocol, sock=connection)

    def _received(self, found: memoryview) -> None:
        task = asyncio.get_running_loop().create_task(self._obey(self._decoder.decode(found)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _obey(self, message: Any) -> None:
        try:
            reply = await self._done(message)
        except (AgentError, OSError, ssl.SSLError) as error:
            self._protocol.send(control.Refused(call=message.call, reason=getattr(error, "reason", None) or str(error)))
            return
        self._protocol.send(reply)
        if isinstance(message, control.Stop):
            self._lost()

    async def _done(self, message: Any) -> control.Done:
        call = message.call
        if isinstance(message, control.Configure):
            self._server = Server(message.options, self._listeners, self._tell)
            self._server.expect(message.expected)
            await self._server.start()
            return control.Done(call=call)
        if self._server is None:
            return control.Done(call=call)
        if isinstance(message, control.Load):
            return control.Done(call=call, loaded=await self._server.load(message.model))
        if isinstance(message, control.Drain):
            return control.Done(call=call, statistics=self._server.drain_statistics())
        if isinstance(message, control.Look):
            return control.Done(call=call, state=self._server.state())
        if isinstance(message, control.Unload):
            self._server.unload(message.name, message.version)
        elif isinstance(message, control.Stop):
            await self._server.stop(message.drain_s)
        return control.Done(call=call)

    def _tell(self, event: EngineEvent) -> None:
        if not self._protocol.transport.is_closing():
            self._protocol.send(control.Happened(event=event))

    def _lost(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def serve(connection: socket.socket, listeners: list[socket.socket]) -> None:
    """Serve until told to stop or the control socket closes."""
    link = ControlLink(listeners)
    await link.attach(connection)
    await link.done
    await asyncio.sleep(0.05)  # the last reply leaves


def narrowed(signature: Signature, model: ServedModel) -> Signature:
    """The signature with the fixed shapes of ``model`` in it. Raises LoadFailed naming the input that does not fit."""
    sizes: dict[str, int] = {}
    for name, shape in model.fixed_shapes.items():
        spec = signature.input(name)
        if spec is None or not spec.accepts(shape):
            known = ", ".join(f"{one.name} [{','.join(map(str, one.shape))}]" for one in signature.inputs)
            raise LoadFailed(model.name, f"--fixed-shape {name}={','.join(map(str, shape))} fits no input: {known}")
        sizes.update({dim: size for dim, size in zip(spec.shape, shape, strict=True) if isinstance(dim, str)})

    def fixed(spec: TensorSpec) -> TensorSpec:
        dims: list[int | str] = [sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in spec.shape]
        return msgspec.structs.replace(spec, shape=dims)

    return Signature(inputs=list(map(fixed, signature.inputs)), outputs=list(map(fixed, signature.outputs)))


def read_token(path: Path) -> bytes:
    """The bearer token in a file. Raises AgentError naming the file when it is empty or not readable."""
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise AgentError(f"token file {path}: {error.strerror}") from error
    if not token:
        raise AgentError(f"token file {path} is empty")
    return token


def _tls_context(options: ServingOptions) -> ssl.SSLContext | None:
    if options.tls_cert is None or options.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise AgentError(f"TLS certificate {options.tls_cert} or key {options.tls_key}: {error}") from error
    return context


def _possible_connections(wanted: int) -> int:
    """``wanted``, or what the limit of open files leaves after raising it as far as we may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _RESERVED_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft - _RESERVED_DESCRIPTORS))


def _rss_mb(pid: int) -> float:
    """Resident memory without pages shared with other processes through our memfds; 0.0 when the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(fields[1]) * _PAGE_BYTES / 1e6
