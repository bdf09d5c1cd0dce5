"""One engine process as the server sees it: start it, open models in it, learn of its death."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from agent.errors import LoadFailed, ServingError
from agent.inference.process_end import signal_text
from agent.serving import engine_wire
from agent.serving.arena import create_memory, map_memory
from agent.serving.control import Loaded
from agent.serving.engine_channel import EngineChannel, FrameProtocol
from agent.serving.engine_wire import Open, Opened, OpenFailed
from agent.serving.live_model import LiveModel

_REAP_S = 2.0
_POLL_S = 0.005


class EngineDied(ServingError):
    """The engine ended while a model was being opened; ``how`` in words."""

    def __init__(self, how: str) -> None:
        super().__init__(f"the engine {how}")
        self.how = how


@dataclass(frozen=True)
class RequestMemory:
    """The memfd that holds request bodies and its size."""

    descriptor: int
    size: int


class EngineProcess:
    """``on_death(how)`` is called once, in the loop, when the process has ended for whatever reason."""

    def __init__(
        self, python: str, memory: RequestMemory, cache_dir: str | None, answer_bytes: int,
        on_death: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._python = python
        self._memory = memory
        self._cache_dir = cache_dir
        self._answer_bytes = answer_bytes
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._control: FrameProtocol | None = None
        self._handover: socket.socket | None = None
        self._opening: dict[int, asyncio.Future[Opened]] = {}
        self._killed_because: str | None = None
        self._decoder = msgspec.msgpack.Decoder(engine_wire.FromEngineControl)

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Raises ServingError when the interpreter cannot be started."""
        control, its_control = socket.socketpair()
        self._handover, its_handover = socket.socketpair()
        descriptors = (its_control.fileno(), its_handover.fileno(), self._memory.descriptor)
        command = [
            self._python, "-m", "agent.engine", "--control", str(descriptors[0]), "--handover", str(descriptors[1]),
            "--requests", str(descriptors[2]), "--request-bytes", str(self._memory.size), "--parent", str(os.getpid()),
        ]  # fmt: skip
        if self._cache_dir is not None:
            command += ["--cache-dir", self._cache_dir]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), pass_fds=descriptors, cwd="/"
            )
        except OSError as error:
            control.close()
            raise ServingError(f"cannot start {self._python}: {error.strerror}") from error
        finally:
            its_control.close()
            its_handover.close()
        control.setblocking(False)
        loop = asyncio.get_running_loop()
        _, self._control = await loop.create_unix_connection(
            lambda: FrameProtocol(self._replied, self._lost), sock=control
        )

    async def open(self, live: LiveModel, batch_sizes: list[int], timeout_s: float) -> None:
        """Open and warm up ``live``, then connect it. Raises LoadFailed, EngineDied."""
        assert self._control is not None
        assert self._handover is not None
        served, loop = live.served, asyncio.get_running_loop()
        data, its_data = socket.socketpair()
        answers = create_memory(f"answers-{live.session}", self._answer_bytes)
        try:
            socket.send_fds(self._handover, [b"+"], [its_data.fileno(), answers])
            memory = map_memory(answers, self._answer_bytes, writable=False)
        except OSError as error:
            data.close()
            raise EngineDied(f"is gone: {error.strerror}") from error
        finally:
            its_data.close()
            os.close(answers)
        future: asyncio.Future[Opened] = loop.create_future()
        self._opening[live.session] = future
        self._control.send(
            Open(
                live.session,
                served.folder,
                served.variant,
                served.options,
                self._answer_bytes,
                batch_sizes,
                served.fixed_shapes,
            )
        )
        try:
            opened = await asyncio.wait_for(future, timeout_s)
        except asyncio.TimeoutError as error:
            data.close()
            self.kill(f"did not open {served.name!r} within {timeout_s:g} s and was killed")
            raise LoadFailed(served.name, f"not ready within {timeout_s:g} s") from error
        except BaseException:
            data.close()
            raise
        finally:
            self._opening.pop(live.session, None)
        data.setblocking(False)
        _, channel = await loop.create_unix_connection(
            lambda: EngineChannel(live, memory, self._channel_lost), sock=data
        )
        live.connected(channel, Loaded(provider=opened.provider, warm_ms=opened.warm_ms), loop.call_later)

    def kill(self, because: str) -> None:
        """End the process now; ``on_death`` follows with ``because``."""
        self._killed_because = because
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Let the process end by itself; ``on_death`` follows."""
        self._killed_because = self._killed_because or "was stopped"
        if self._control is not None:
            self._control.transport.close()

    def _channel_lost(self) -> None:
        """A worker without its process: never seen, but it would leave requests without an answer."""
        asyncio.get_running_loop().call_later(_REAP_S, self._kill_if_alive)

    def _kill_if_alive(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill("closed the socket of a model and was killed")

    def _replied(self, found: memoryview) -> None:
        reply: Opened | OpenFailed = self._decoder.decode(found)
        future = self._opening.get(reply.session)
        if future is None or future.done():
            return
        if isinstance(reply, Opened):
            future.set_result(reply)
        else:
            future.set_exception(ServingError(reply.reason))

    def _lost(self) -> None:
        task = asyncio.get_running_loop().create_task(self._bury())
        task.add_done_callback(lambda done: done.exception())

    async def _bury(self) -> None:
        """Learn how the process ended; kill it if it has only closed its socket."""
        assert self._process is not None
        waited_s = 0.0
        while (code := self._process.poll()) is None:
            await asyncio.sleep(_POLL_S)
            waited_s += _POLL_S
            if waited_s > _REAP_S:
                self._process.kill()
        if self._handover is not None:
            self._handover.close()
        how = self._killed_because or signal_text(code)
        for future in self._opening.values():
            if not future.done():
                future.set_exception(EngineDied(how))
        self._on_death(how)
