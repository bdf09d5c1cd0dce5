"""Tuning of the daemon, put together: the server with tuning on top, its observer, its trials and its thread.

tuning = LiveTuning(TuningGround(...), server)    before the update machine is made
serving = LiveServing(tuning.server, ...)          it loads and unloads through tuning.server
Ledger(..., observe)                               observe also calls tuning.on_latency
tuning.start(...); tuning.stop()                   with the daemon's other threads
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.clock import Clock
from agent.disk import make_private
from agent.errors import AgentError
from agent.hardware import cpu_list
from agent.hardware.sysfs import Machine, this_machine
from agent.selection.request import SelectionTools, TrialLimits
from agent.serving.control import EngineEvent
from agent.shadow_trial import ShadowTrials
from agent.tuned_server import Server, TunedServer
from agent.tuning.controller_state import Pacing
from agent.tuning.observation import Observation
from agent.tuning.observe import Observer
from agent.tuning.seams import Device, TuningEvent
from agent.tuning.tuner import Tuner, TunerParts
from edge_contracts.capabilities import Capabilities
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

STOP_S = 20.0
CRASHES = frozenset({"engine.crashed", "model.failed"})
_FIGURES = ("pressure_pct", "running", "load_1m", "other_cpus", "own_cpus", "quota_cpus", "held_back", "temp_c",
            "throttled", "memory_available_mb", "span_s")  # fmt: skip


@dataclass(frozen=True)
class TuningGround:
    """``capabilities``: as probed; asked on tuning's own thread. ``machine``: what is observed; None: this one."""

    data_dir: Path
    clock: Clock
    capabilities: Callable[[], Capabilities]
    affinity: frozenset[int] | None
    reserve_mb: int
    pacing: Pacing = field(default_factory=Pacing)
    machine: Machine | None = None


class LiveTuning:
    """``start`` once, ``stop`` once; the callbacks may come from any thread at any time."""

    def __init__(self, ground: TuningGround, server: Server) -> None:
        self._ground = ground
        self.cpus = ground.affinity or frozenset(os.sched_getaffinity(0))
        self.server = TunedServer(server, self.cpus)
        self._tap = LatencyTap()
        self._tuner: Tuner | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._last: Observation | None = None

    def on_latency(self, name: str, latency: StageLatency) -> None:
        """What the server measured since it was last asked."""
        self._tap.add(name, latency)

    def on_event(self, event: EngineEvent) -> None:
        """An engine that dies after a change is blamed on the change."""
        if event.kind in CRASHES and self._tuner is not None:
            self._tuner.on_engine_crashed(event.model)

    def start(
        self, collect: Callable[[], None], is_busy: Callable[[], bool], tell: Callable[[TuningEvent], None]
    ) -> None:  # fmt: skip
        """Begin, on a thread of its own, which also outlives the trials that it starts."""
        self._thread = threading.Thread(target=self._run, args=(collect, is_busy, tell), name="tuning", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; a trial that runs is canceled."""
        self._stopping.set()
        if self._tuner is not None:
            self._tuner.stop()
        if self._thread is not None:
            self._thread.join(STOP_S)

    @property
    def is_measuring(self) -> bool:
        """Whether a trial runs."""
        return self._tuner is not None and self._tuner.is_measuring

    def facts(self) -> dict[str, Any]:
        """For `mindie doctor`: the last interval, and how each model is tuned and why."""
        seen, reasons = self._last, self._tuner.reasons() if self._tuner is not None else {}
        models = []
        for model in self.server.models():
            load = seen.load(model.name) if seen is not None else None
            models.append({
                "name": model.name, "threads": model.current.threads, "home_threads": model.home.threads,
                "spinning": model.current.spinning, "why": reasons.get(model.name, ""),
                "cpus": cpu_list.render(model.current.cpus) if model.current.cpus else None,
                "queued": load.queued if load is not None else None,
                "requests_per_s": round(seen.arrival_per_s(model.name), 2) if seen is not None else None,
                **{f"p{p}_ms": load.quantile_ms(p / 100) if load is not None else None for p in (50, 95, 99)},
            })  # fmt: skip
        figures = {name: getattr(seen, name) for name in _FIGURES} if seen is not None else {}
        return {"observation": figures, "models": models}

    def _run(
        self, collect: Callable[[], None], is_busy: Callable[[], bool], tell: Callable[[TuningEvent], None]
    ) -> None:  # fmt: skip
        ground = self._ground
        facts = ground.capabilities()

        def take_latency() -> dict[str, StageLatency]:
            with contextlib.suppress(AgentError):  # the server is being restarted: there is nothing to collect
                collect()
            return self._tap.take()

        observer = Observer(ground.machine or this_machine(), self.cpus, os.getpid(), ground.clock.monotonic,
                            take_latency, self.server.queued)  # fmt: skip
        trials = ShadowTrials(self.server.served, facts, ground.affinity, self._tools)
        device = Device(facts.cpu.budget_cpus or float(len(self.cpus)), self.cpus, big_cpus(facts, self.cpus),
                        ground.reserve_mb)  # fmt: skip
        self._tuner = Tuner(
            TunerParts(eye=_Remembering(observer, self._saw), serving=self.server, trial=trials, device=device,
                       clock=ground.clock, tell=tell, is_busy=is_busy, pacing=ground.pacing)
        )  # fmt: skip
        if self._stopping.is_set():
            return
        self._tuner.run()

    def _saw(self, observation: Observation) -> None:
        self._last = observation

    def _tools(self, is_canceled: Callable[[], bool]) -> SelectionTools:
        cache = self._ground.data_dir / "cache"
        work = cache / "tuning"
        shutil.rmtree(work, ignore_errors=True)
        make_private(work)
        return SelectionTools(
            cache_dir=cache, work_dir=work, clock=self._ground.clock.monotonic, is_canceled=is_canceled,
            limits=TrialLimits(reserve_mb=self._ground.reserve_mb),
        )  # fmt: skip


class LatencyTap:
    """Latency by model since the last ``take``. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stages: dict[str, dict[str, LatencySketch]] = {}
        self._last: dict[str, StageLatency] = {}
        self._counts: dict[str, tuple[int, int]] = {}

    def add(self, name: str, latency: StageLatency) -> None:
        """Some more of a model; another bundle under that name begins anew."""
        with self._lock:
            last = self._last.get(name)
            if last is None or last.digest != latency.digest:
                self._stages[name], self._counts[name] = {}, (0, 0)
            self._last[name] = latency
            for stage, data in latency.stages.items():
                self._stages[name].setdefault(stage, LatencySketch()).merge(LatencySketch.from_data(data))
            requests, errors = self._counts[name]
            self._counts[name] = (requests + latency.requests, errors + latency.errors)

    def take(self) -> dict[str, StageLatency]:
        """All of it; the next begins empty."""
        with self._lock:
            taken = {name: self._merged(name) for name in self._last}
            self._stages, self._last, self._counts = {}, {}, {}
            return taken

    def _merged(self, name: str) -> StageLatency:
        last, (requests, errors) = self._last[name], self._counts[name]
        stages = {stage: sketch.to_data() for stage, sketch in self._stages[name].items()}
        return StageLatency(
            version=last.version, digest=last.digest, stages=stages, requests=requests, errors=errors
        )  # fmt: skip


class _Remembering:
    """An eye that shows what it saw to somebody else too."""

    def __init__(self, eye: Observer, saw: Callable[[Observation], None]) -> None:
        self._eye = eye
        self._saw = saw

    def start(self) -> None:
        self._eye.start()

    def read(self) -> Observation:
        observation = self._eye.read()
        if observation.span_s > 1.0:  # a shorter one lies between a trial and the next turn
            self._saw(observation)
        return observation


def big_cpus(facts: Capabilities, cpus: frozenset[int]) -> frozenset[int] | None:
    """The CPUs of the strongest clusters (by capacity, else frequency); None unless cores differ."""
    online = [cluster for cluster in facts.cpu.clusters if cluster.online is not False and cluster.logical_cpus]
    strengths = [cluster.capacity or cluster.max_mhz or 0 for cluster in online]
    if not online or min(strengths) <= 0 or min(strengths) >= 0.9 * max(strengths):
        return None
    strong = [c.logical_cpus or "" for c, strength in zip(online, strengths, strict=True)
              if strength >= 0.9 * max(strengths)]  # fmt: skip
    try:
        found = frozenset(cpu for text in strong for cpu in cpu_list.parse(text)) & cpus
    except ValueError:
        return None
    return found if found and found != cpus else None
