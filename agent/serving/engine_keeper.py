"""Keeps one engine per runtime environment alive: restarts it when it dies and opens its models again.

Restarts are immediate at first and then further apart. A model whose opening kills the engine twice, or fails in a new
engine, is given up; the others go on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic

from agent.errors import LoadFailed, ServingError
from agent.serving.control import EngineEvent
from agent.serving.engine_process import EngineDied, EngineProcess
from agent.serving.live_model import MAX_DEATHS, LiveModel

BACKOFF_S = (0.0, 0.0, 0.2, 1.0, 3.0, 10.0, 30.0)
STABLE_S = 60.0

StartEngine = Callable[[Callable[[str], None]], EngineProcess]


class EngineKeeper:
    """``make`` makes an engine that is not started yet; ``tell`` takes events. All methods run in the server's loop."""

    def __init__(
        self, make: StartEngine, tell: Callable[[EngineEvent], None], batch_sizes: Callable[[LiveModel], list[int]],
        load_timeout_s: float,
    ) -> None:  # fmt: skip
        self._make = make
        self._tell = tell
        self._batch_sizes = batch_sizes
        self._load_timeout_s = load_timeout_s
        self._engine: EngineProcess | None = None
        self._lock = asyncio.Lock()
        self._lives: dict[int, LiveModel] = {}
        self._deaths_s: deque[float] = deque(maxlen=len(BACKOFF_S))
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._opening: LiveModel | None = None
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Of the engine that runs now."""
        return None if self._engine is None else self._engine.pid

    async def load(self, live: LiveModel) -> None:
        """Open ``live`` beside the models that serve. Raises LoadFailed; the others are served all the same."""
        async with self._lock:
            for attempt in (1, 2):
                try:
                    await self._open(await self._started(), live)
                except EngineDied as error:
                    if attempt == 1 and any(other.was_running() for other in self._lives.values()):
                        continue  # a request of another model may have been the reason
                    raise LoadFailed(live.served.name, str(error)) from error
                except LoadFailed:
                    raise
                except ServingError as error:
                    raise LoadFailed(live.served.name, str(error)) from error
                self._lives[live.session] = live
                return

    def retire(self, live: LiveModel) -> None:
        """Answer what ``live`` still has, then let the engine free it."""
        live.retire(lambda: self._free(live))

    def check_time(self, now_ns: int) -> None:
        """Kill the engine if it hangs."""
        hanging = [live for live in self._lives.values() if live.check_time(now_ns)]
        if hanging and self._engine is not None:
            self._engine.kill(f"hung on a request to {hanging[0].served.name!r} and was killed")

    def stop(self) -> None:
        """Let the engine end."""
        self._is_stopping = True
        if self._engine is not None:
            self._engine.close()

    async def _started(self) -> EngineProcess:
        if self._engine is None:
            engine = self._make(lambda how: self._died(engine, how))
            await engine.start()
            self._engine = engine
        return self._engine

    async def _open(self, engine: EngineProcess, live: LiveModel) -> None:
        self._opening = live
        try:
            await engine.open(live, self._batch_sizes(live), self._load_timeout_s)
        finally:
            self._opening = None

    def _free(self, live: LiveModel) -> None:
        live.disconnect()
        self._lives.pop(live.session, None)
        if not self._lives and not self._lock.locked() and self._engine is not None:
            self._engine.close()
            self._engine = None

    def _died(self, engine: EngineProcess, how: str) -> None:
        if engine is not self._engine or self._is_stopping:
            return  # we closed it
        self._engine = None
        self._deaths_s.append(monotonic())
        blamed = [live for live in self._lives.values() if live.was_running()]
        self._tell(_crash(how, blamed[0] if blamed else None, self._opening))
        for live in list(self._lives.values()):
            for pending in live.engine_died(how):
                self._tell(EngineEvent(
                    kind="request.refused", model=live.served.name, version=live.served.version, reason=how,
                    text=f"a request to {live.served.name} ended the engine {pending.deaths} times and was refused",
                ))  # fmt: skip
        task = asyncio.get_running_loop().create_task(self._restart())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart(self) -> None:
        await asyncio.sleep(self._backoff_s())
        async with self._lock:
            waiting = [live for live in self._lives.values() if not live.is_ready and live.failure is None]
            if not waiting or self._is_stopping:
                return
            self.restarts += 1
            for live in waiting:
                try:
                    await self._open(await self._started(), live)
                except EngineDied as error:
                    live.load_deaths += 1
                    if live.load_deaths >= MAX_DEATHS:
                        self._give_up(live, str(error))
                    return  # its death has begun the next restart
                except ServingError as error:
                    self._give_up(live, getattr(error, "reason", str(error)))
            names = ", ".join(live.served.name for live in waiting if live.is_ready)
            self._tell(EngineEvent(kind="engine.restarted", text=f"the engine runs again and serves {names}"))

    def _give_up(self, live: LiveModel, reason: str) -> None:
        live.cannot_load(reason)
        served = live.served
        self._tell(EngineEvent(kind="model.failed", model=served.name, version=served.version, reason=reason,
                               text=f"{served.name} {served.version} cannot be loaded: {reason}"))  # fmt: skip

    def _backoff_s(self) -> float:
        recent = sum(monotonic() - death_s < STABLE_S for death_s in self._deaths_s)
        return BACKOFF_S[min(recent, len(BACKOFF_S)) - 1] if recent else 0.0


def _crash(how: str, ran: LiveModel | None, opened: LiveModel | None) -> EngineEvent:
    """``ran``: the model whose request ran; ``opened``: the one that was being opened."""
    blamed = ran or opened
    if blamed is None:
        return EngineEvent(kind="engine.crashed", reason=how, text=f"the engine {how}")
    served = blamed.served
    doing, crashes = ("ran a request to", blamed.statistics.crashes) if ran else ("opened", blamed.load_deaths)
    return EngineEvent(kind="engine.crashed", model=served.name, version=served.version, reason=how,
                       crashes=crashes + 1, text=f"the engine {how} while it {doing} {served.name} {served.version}",
                       )  # fmt: skip
