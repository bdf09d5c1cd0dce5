"""The server process as the daemon (or ``mindie serve``) sees it. Imports neither asyncio nor NumPy.

The listening sockets are bound here and passed on: a server that crashes is started again with the same sockets and the
same models, and clients that connect meanwhile wait in the backlog. All methods may be called from any thread.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic

import msgspec

from agent.errors import LoadFailed, ServingError
from agent.inference.process_end import signal_text
from agent.serving import control
from agent.serving.control import EngineEvent, Loaded, ServedModel, ServerState, ServingOptions
from agent.serving.framing import BlockingFrames, frame
from agent.serving.listeners import Bind, open_listeners
from edge_contracts.messages import StageLatency

__all__ = ["Bind", "ServerProcess"]

_log = logging.getLogger(__name__)
BACKOFF_S = (0.0, 0.2, 1.0, 3.0, 10.0, 30.0)
STABLE_S = 60.0
CALL_TIMEOUT_S = 30.0


class _Call:
    """A message that waits for its reply."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.reply: control.Done | control.Refused | None = None


class ServerProcess:
    """``on_event`` is called from a thread of its own and may call any method."""

    def __init__(
        self, options: ServingOptions | None = None, *, on_event: Callable[[EngineEvent], None] | None = None,
        python: str = sys.executable,
    ) -> None:  # fmt: skip
        self._options = _with_absolute_paths(options or ServingOptions())
        self._on_event = on_event
        self._python = python
        self._listeners: list[socket.socket] = []
        self._uds: Path | None = None
        self._affinity: frozenset[int] | None = None
        self._expected: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._calls: dict[int, _Call] = {}
        self._last_call = 0
        self._models: dict[tuple[str, str], ServedModel] = {}
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._events: queue.SimpleQueue[EngineEvent | None] = queue.SimpleQueue()
        self._keeper: threading.Thread | None = None
        self._started: queue.SimpleQueue[ServingError | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._has_served = False

    def start(self, bind: Bind, *, affinity: frozenset[int] | None = None, expected: Iterable[str] = ()) -> int:
        """Bind, start the server and wait until it answers. Returns the port (0 when there is only a socket file).

        ``affinity``: the CPUs of the server and its engines. ``expected``: names of models that will be loaded next;
        they are not unknown meanwhile, they get 503. Raises PortInUse, ServingError.
        """
        if self._python == sys.executable and importlib.util.find_spec("httptools") is None:
            raise ModuleNotFoundError("No module named 'httptools'", name="httptools")
        self._affinity = affinity
        self._expected = frozenset(expected)
        self._uds = bind.uds
        self._listeners = open_listeners(bind)
        port = next((int(s.getsockname()[1]) for s in self._listeners if s.family != socket.AF_UNIX), 0)
        threading.Thread(target=self._tell_events, name="serving-events", daemon=True).start()
        self._keeper = threading.Thread(target=self._keep, name="serving-keeper", daemon=True)
        self._keeper.start()
        failure = self._started.get()
        if failure is not None:
            self.stop(0.0)
            raise failure
        return port

    def load(self, model: ServedModel) -> Loaded:
        """Open, warm up, swap in; those of that name before it (unless ``beside``) answer what they have and are freed.

        Raises LoadFailed; what served before still does then.
        """
        absolute = msgspec.structs.replace(model, folder=str(Path(model.folder).absolute()))
        with self._loading:
            try:
                reply = self._call(
                    lambda call: control.Load(call, absolute), self._options.load_timeout_s + CALL_TIMEOUT_S
                )
            except LoadFailed:
                raise
            except ServingError as error:
                raise LoadFailed(model.name, str(error)) from error
            assert reply.loaded is not None
            if not model.beside:
                self._forget_model(model.name, None)
            self._models[model.name, model.version] = absolute
            return reply.loaded

    def unload(self, name: str, version: str | None = None) -> None:
        """Serve that name (or only that version) no more; requests in flight are answered. Raises ServingError."""
        with self._loading:
            self._forget_model(name, version)
            self._call(lambda call: control.Unload(call, name, version))

    def drain_stats(self) -> dict[tuple[str, str], StageLatency]:
        """Latency by (name, version) since the last call. Raises ServingError."""
        reply = self._call(control.Drain)
        return {(one.name, one.latency.version): one.latency for one in reply.statistics or []}

    def snapshot(self) -> ServerState:
        """The state now. Raises ServingError."""
        reply = self._call(control.Look)
        assert reply.state is not None
        return reply.state

    def stop(self, drain_s: float = 10.0) -> None:
        """Answer what is in flight for at most ``drain_s``, end server and engines, give the sockets back."""
        self._stopping.set()
        with contextlib.suppress(ServingError):  # it is gone already, or does not answer: it is ended below
            self._call(lambda call: control.Stop(call, drain_s), drain_s + 5.0)
        process = self._process
        if process is not None:
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._keeper is not None:
            self._keeper.join()
        self._events.put(None)
        for listener in self._listeners:
            listener.close()
        if self._uds is not None:
            self._uds.unlink(missing_ok=True)

    def _forget_model(self, name: str, version: str | None) -> None:
        for key in [key for key in self._models if key[0] == name and version in (None, key[1])]:
            del self._models[key]

    # calls -------------------------------------------------------------------------------------------------------

    def _call(self, make: Callable[[int], msgspec.Struct], timeout_s: float = CALL_TIMEOUT_S) -> control.Done:
        call = _Call()
        with self._lock:
            if self._connection is None:
                raise ServingError("the server is not running")
            self._last_call += 1
            number = self._last_call
            self._calls[number] = call
            try:
                self._connection.sendall(frame(msgspec.msgpack.encode(make(number))))
            except OSError as error:
                del self._calls[number]
                raise ServingError(f"the server is gone: {error.strerror}") from error
        if not call.done.wait(timeout_s):
            with self._lock:
                self._calls.pop(number, None)
            raise ServingError(f"the server did not answer within {timeout_s:g} s")
        if isinstance(call.reply, control.Refused):
            raise ServingError(call.reply.reason)
        if call.reply is None:
            raise ServingError("the server ended before it answered")
        return call.reply

    def _replied(self, reply: control.Done | control.Refused) -> None:
        with self._lock:
            call = self._calls.pop(reply.call, None)
        if call is not None:
            call.reply = reply
            call.done.set()

    # the process -------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Thread: start the server, read what it says, start it again when it dies."""
        deaths_s: list[float] = []
        while not self._stopping.is_set():
            try:
                connection = self._spawn()
            except OSError as error:
                self._started.put(ServingError(f"cannot start {self._python}: {error.strerror}"))
                return
            assert self._process is not None
            if self._stopping.is_set():
                self._process.kill()
            threading.Thread(target=self._configure, name="serving-configure", daemon=True).start()
            self._listen(connection)
            how = signal_text(self._process.wait())
            self._forget(connection)
            if self._stopping.is_set():
                return
            if not self._has_served:
                self._started.put(ServingError(f"the server {how} while it started"))
                return
            deaths_s = [*(s for s in deaths_s if monotonic() - s < STABLE_S), monotonic()]
            self._events.put(EngineEvent(kind="server.crashed", reason=how, text=f"the server {how}"))
            self._stopping.wait(BACKOFF_S[min(len(deaths_s), len(BACKOFF_S)) - 1])

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        descriptors = [theirs.fileno(), *(listener.fileno() for listener in self._listeners)]
        command = [self._python, "-m", "agent.serving", "--control", str(descriptors[0]), "--parent", str(os.getpid())]
        for descriptor in descriptors[1:]:
            command += ["--listen", str(descriptor)]
        before = os.sched_getaffinity(0)
        try:
            if self._affinity is not None:
                os.sched_setaffinity(0, self._affinity)  # of this thread; children inherit it
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), pass_fds=descriptors, cwd="/"
            )
        finally:
            os.sched_setaffinity(0, before)
            theirs.close()
        with self._lock:
            self._connection = ours
        return ours

    def _configure(self) -> None:
        """Thread: what a new server has to be told before it serves as the one before it did."""
        expected = sorted({name for name, _ in list(self._models)} if self._has_served else self._expected)
        try:
            self._call(lambda call: control.Configure(call, self._options, expected))
        except ServingError as error:
            if not self._has_served:
                self._started.put(error)
            return
        if not self._has_served:
            self._has_served = True
            self._started.put(None)
            return
        with self._loading:
            for model in list(self._models.values()):
                try:
                    self._call(lambda call, model=model: control.Load(call, model), self._options.load_timeout_s)  # type: ignore[misc]
                except ServingError as error:
                    self._events.put(EngineEvent(kind="model.failed", model=model.name, version=model.version,
                                                 reason=str(error), text=f"{model.name}: {error}"))  # fmt: skip
        self._events.put(EngineEvent(kind="server.restarted", text="the server runs again"))

    def _listen(self, connection: socket.socket) -> None:
        decoder = msgspec.msgpack.Decoder(control.FromServer)
        frames = BlockingFrames(connection)
        try:
            while (found := frames.next()) is not None:
                message = decoder.decode(found)
                if isinstance(message, control.Happened):
                    self._events.put(message.event)
                else:
                    self._replied(message)
        except OSError:
            pass  # the same as its end

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connection = None
            calls, self._calls = self._calls, {}
        connection.close()
        for call in calls.values():
            call.done.set()

    def _tell_events(self) -> None:
        while (event := self._events.get()) is not None:
            if self._on_event is None:
                continue
            try:
                self._on_event(event)
            except Exception:  # noqa: BLE001 - one event that its receiver fails over must not silence the next
                _log.exception("event %s could not be handled: %s", event.kind, event.text)


def _with_absolute_paths(options: ServingOptions) -> ServingOptions:
    """The processes run in another folder."""
    paths = {
        name: str(Path(value).absolute())
        for name in ("token_file", "tls_cert", "tls_key", "cache_dir")
        if (value := getattr(options, name)) is not None
    }
    return msgspec.structs.replace(options, **paths)
