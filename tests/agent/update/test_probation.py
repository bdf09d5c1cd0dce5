from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UpdateInterrupted
from agent.serving.control import EngineEvent, Loaded, ModelState, ServedModel
from agent.update import records
from agent.update.effects import Placed
from agent.update.inbox import Worse
from agent.update.ledger import Ledger
from agent.update.live_serving import LiveServing
from agent.update.probation import Probation
from agent.update.records import DeviceState, Installed
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency
from tests.simulators import bundle_factory
from tests.simulators.fake_clock import FakeClock
from tests.simulators.update_rig import Rig

ACTIVE = Installed(
    deployment="d1", version="1.0.0", digest="sha256:a", variant="v", runtime="stub", precision="fp32",
    provider="CUDA", slo_p95_ms=5.0,
)  # fmt: skip
STATE = DeviceState(models={"digits": records.ModelState(active=ACTIVE)})


def latency(ms: float, count: int = 50, digest: str = "sha256:a") -> StageLatency:
    sketch = LatencySketch()
    sketch.add(ms * 1000, count)
    return StageLatency(version="1.0.0", digest=digest, stages={"total": sketch.to_data()}, requests=count)


class Watch:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.news: list[Worse] = []
        self.probation = Probation(lambda: STATE, self.news.append, self.clock.monotonic)

    def crash(self, times: int = 1, every_s: float = 60.0) -> None:
        for _ in range(times):
            self.probation.on_event(EngineEvent(kind="engine.crashed", text="SIGSEGV", model="digits"))
            self.clock.elapsed_s += every_s


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_three_crashes_within_an_hour_send_it_back(watch: Watch) -> None:
    watch.crash(2)
    assert watch.news == []
    watch.crash()
    assert [(news.name, news.go_back) for news in watch.news] == [("digits", True)]


def test_crashes_far_apart_do_not(watch: Watch) -> None:
    watch.crash(10, every_s=2000)
    assert watch.news == []


def test_a_model_that_cannot_be_loaded_again_goes_back_at_once(watch: Watch) -> None:
    watch.probation.on_event(EngineEvent(kind="model.failed", text="does not load", model="digits"))
    assert watch.news == [Worse("digits", "does not load", True)]


def test_an_slo_breached_three_times_in_a_row_is_told_once(watch: Watch) -> None:
    for ms in (9.0, 9.0, 1.0, 9.0, 9.0):
        watch.probation.on_latency("digits", latency(ms))
    assert watch.news == []
    for _ in range(4):
        watch.probation.on_latency("digits", latency(9.0))
    assert [(news.go_back, "objective" in news.reason) for news in watch.news] == [(False, True)]


def test_few_requests_and_other_bundles_say_nothing(watch: Watch) -> None:
    for _ in range(5):
        watch.probation.on_latency("digits", latency(9.0, count=3))
        watch.probation.on_latency("digits", latency(9.0, digest="sha256:b"))
        watch.probation.on_latency("other", latency(9.0))
    assert watch.news == []


def test_a_backend_that_fell_back_is_told_once(watch: Watch) -> None:
    served = ModelState(name="digits", version="1.0.0", digest="sha256:a", variant="v", ready=True, provider="CPU")
    watch.probation.on_served(served)
    watch.probation.on_served(served)
    assert watch.news == [Worse("digits", "the backend fell back from CUDA to CPU", False)]


class Server:
    """What the server process offers, in memory."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.stats: dict[tuple[str, str], StageLatency] = {}

    def load(self, model: ServedModel) -> Loaded:
        self.loaded.append(model.version)
        return Loaded(provider="CPU", warm_ms=1.0)

    def unload(self, name: str) -> None:
        self.loaded.append(f"-{name}")

    def drain(self) -> dict[tuple[str, str], StageLatency]:
        drained, self.stats = self.stats, {}
        return drained


class Soak:
    def __init__(self, tmp_path: Path) -> None:
        rig = Rig(tmp_path / "data")
        rig.boot()
        rig.install(bundle_factory.stub_bundle(tmp_path / "a.mindie"), "d1")
        active = rig.model().active
        assert active is not None
        folder = rig.slots.folder("affine", active.digest)
        self.placed = Placed("affine", "1.0.0", active.digest, folder, "stub-fp32-cpu", {}, False, None, 5.0)
        self.server, self.clock = Server(), FakeClock()
        self.observed: list[str] = []
        self.ledger = Ledger(self.server.drain, lambda name, _: self.observed.append(name))
        self.serving = LiveServing(self.server, self.ledger, self.clock)

    def watch(self, **kwargs: Any) -> Any:
        return self.serving.watch(self.placed, 30.0, kwargs.get("interrupt", lambda: False))


@pytest.fixture
def soak(tmp_path: Path) -> Soak:
    return Soak(tmp_path)


def test_a_quiet_soak_is_well(soak: Soak) -> None:
    assert soak.watch().fault is None
    assert soak.clock.monotonic() == pytest.approx(30.0)


def test_a_crash_in_the_soak_ends_it_with_the_reason(soak: Soak) -> None:
    def crash() -> bool:
        if soak.clock.monotonic() > 3:
            soak.serving.on_event(EngineEvent(kind="engine.crashed", text="SIGILL", model="affine", version="1.0.0"))
        return False

    watched = soak.watch(interrupt=crash)
    assert (watched.fault, watched.code) == ("SIGILL", "crash")
    assert soak.clock.monotonic() < 10


def test_another_models_crash_is_not_this_ones(soak: Soak) -> None:
    soak.serving.on_event(EngineEvent(kind="engine.restarted", text="up", model="affine"))
    event = EngineEvent(kind="engine.crashed", text="SIGILL", model="other")

    def crash() -> bool:
        soak.serving.on_event(event)
        return False

    soak.clock.wait = lambda *_: setattr(soak.clock, "elapsed_s", soak.clock.elapsed_s + 5)  # type: ignore[method-assign, assignment, return-value]
    assert soak.watch(interrupt=crash).fault is None


def test_a_soak_over_the_objective_is_a_fault(soak: Soak) -> None:
    def busy() -> bool:
        soak.server.stats[("affine", "1.0.0")] = latency(9.0, digest=soak.placed.digest)
        return False

    watched = soak.watch(interrupt=busy)
    assert watched.code == "slower"
    assert "5 ms" in str(watched.fault)


def test_a_soak_can_be_interrupted(soak: Soak) -> None:
    with pytest.raises(UpdateInterrupted):
        soak.watch(interrupt=lambda: soak.clock.monotonic() > 2)


def test_what_the_soak_sees_telemetry_sees_too(soak: Soak) -> None:
    soak.server.stats[("affine", "1.0.0")] = latency(1.0, count=3)
    soak.ledger.collect()
    soak.server.stats[("affine", "1.0.0")] = latency(1.0, count=4)
    taken = soak.ledger.take()
    assert taken["affine"].requests == 7
    assert LatencySketch.from_data(taken["affine"].stages["total"]).count == 7
    assert soak.ledger.take() == {}
    assert soak.observed == ["affine", "affine"]
    assert not threading.main_thread().daemon
