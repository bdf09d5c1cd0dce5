"""Measured once, in idle time: it waits for quiet, gives way to everything, and is kept."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.first_measurement import AFTER_START_S, PATIENCE_S, FirstMeasurement, MeasuringParts
from agent.hardware.sysfs import recorded_machine
from agent.measured_figures import keep_figures, with_kept_figures
from edge_contracts.capabilities import Capabilities, CpuFacts, MemoryFacts

FACTS = Capabilities(cpu=CpuFacts(budget_cpus=2.0, model="a"), memory=MemoryFacts(available_mb=64))
ANSWER = 'print(\'{"bandwidth_gb_s": 5.25, "gflops_fp32": 20.0}\')'


class Idle:
    """A device whose time is virtual. ``busy_cpus``: what others take; ``during(seconds)``: called at each wait."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 0.0
        self.busy_cpus = 0.0
        self.is_busy = False
        self.script = ANSWER
        self.kept: list[Capabilities] = []
        self.began_s: list[float] = []
        self._ticks = 0.0
        (root / "proc").mkdir()
        self._write()
        parts = MeasuringParts(
            clock=self, facts=lambda: FACTS, keep=self.kept.append, is_busy=lambda: self.is_busy,
            cpus=frozenset({0, 1}), machine=lambda: recorded_machine(root),
        )  # fmt: skip
        self.measurement = FirstMeasurement(parts)

    def monotonic(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """A wait of the measurement itself takes no virtual time: its child runs in real time."""
        if self.measurement.is_running:
            return event.wait(0.005)
        self.now_s += timeout_s
        self._ticks += timeout_s * self.busy_cpus * 100
        self._write()
        self.turn()
        return event.is_set()

    def turn(self) -> None:
        """For subclasses of a test: what happens meanwhile."""

    def _write(self) -> None:
        text = f"cpu0 {int(self._ticks)} 0 0 9 0\ncpu1 0 0 0 9 0\ncpu7 {int(self.now_s * 100)} 0 0 9 0\n"
        (self.root / "proc" / "stat").write_text(text)


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Idle:
    """Its measuring process runs ``script`` instead."""
    device = Idle(tmp_path)
    run = device.measurement._run_child

    def run_child(argv: object, environment: dict[str, str], timeout_s: float) -> tuple[bytes, str]:
        device.began_s.append(device.now_s)
        return run([sys.executable, "-c", device.script], environment, timeout_s)

    monkeypatch.setattr(device.measurement, "_run_child", run_child)
    return device


def test_it_waits_a_while_after_the_start_and_is_measured_once(idle: Idle) -> None:
    idle.measurement.run()
    assert idle.began_s == [AFTER_START_S]
    (facts,) = idle.kept
    assert (facts.memory.bandwidth_gb_s, facts.cpu.gflops_fp32) == (5.2, 20.0)


def test_a_busy_device_is_left_alone_until_it_is_quiet(idle: Idle) -> None:
    idle.busy_cpus = 0.9

    def calm_down() -> None:
        if idle.now_s >= 300:
            idle.busy_cpus = 0.05

    idle.turn = calm_down  # type: ignore[method-assign]
    idle.measurement.run()
    assert 300 < idle.began_s[0] < 330


def test_a_device_that_is_never_quiet_is_measured_as_it_is(idle: Idle) -> None:
    idle.busy_cpus = 1.5
    idle.measurement.run()
    assert PATIENCE_S < idle.began_s[0] < PATIENCE_S + 20
    assert len(idle.kept) == 1


def test_nothing_is_measured_while_an_update_or_tuning_is_under_way(idle: Idle) -> None:
    idle.is_busy = True

    def done() -> None:
        idle.is_busy = idle.now_s < 5000

    idle.turn = done  # type: ignore[method-assign]
    idle.measurement.run()
    assert idle.began_s[0] >= 5000


def test_it_gives_way_at_once_and_tries_again_later(idle: Idle) -> None:
    idle.script = f"import time; {ANSWER}; time.sleep(60)"
    seen: list[bool] = []
    wait = idle.wait

    def update_begins(event: threading.Event, timeout_s: float) -> bool:
        if idle.measurement.is_running and not seen:
            idle.is_busy = True
            seen.append(True)
        elif idle.is_busy:
            idle.is_busy = False
            idle.script = ANSWER
        return wait(event, timeout_s)

    idle.wait = update_begins  # type: ignore[method-assign]
    idle.measurement.run()
    assert seen
    assert len(idle.began_s) >= 2
    assert len(idle.kept) == 1


def test_what_cannot_be_measured_is_not_tried_again_and_a_stop_ends_it(idle: Idle) -> None:
    idle.script = "raise SystemExit(3)"
    idle.measurement.run()
    assert (len(idle.began_s), idle.kept) == (1, [])
    idle.script = "import time; time.sleep(60)"
    thread = threading.Thread(target=idle.measurement.run)
    thread.start()
    while len(idle.began_s) < 2:
        thread.join(0.01)
    idle.measurement.stop()
    thread.join(30)
    assert not thread.is_alive()


def test_figures_are_kept_for_this_silicon_and_budget_only(tmp_path: Path) -> None:
    measured = Capabilities(
        cpu=CpuFacts(budget_cpus=2.0, model="a", gflops_fp32=20.0), memory=MemoryFacts(bandwidth_gb_s=5.0)
    )
    keep_figures(tmp_path, measured)
    known = with_kept_figures(tmp_path, FACTS)
    assert (known.cpu.gflops_fp32, known.memory.bandwidth_gb_s, known.memory.available_mb) == (20.0, 5.0, 64)
    for other in (CpuFacts(budget_cpus=1.0, model="a"), CpuFacts(budget_cpus=2.0, model="b")):
        assert with_kept_figures(tmp_path, Capabilities(cpu=other)).cpu.gflops_fp32 is None
    (tmp_path / "cache" / "measured.json").write_bytes(b"\xff")
    assert with_kept_figures(tmp_path, FACTS) is FACTS


def test_nothing_is_started_where_the_figures_are_known(tmp_path: Path) -> None:
    known = Capabilities(cpu=CpuFacts(gflops_fp32=1.0), memory=MemoryFacts(bandwidth_gb_s=1.0))
    parts = MeasuringParts(SystemClock(), lambda: known, lambda _: None, lambda: False, frozenset({0}))
    before = threading.active_count()
    measurement = FirstMeasurement(parts)
    measurement.start()
    assert threading.active_count() == before
    measurement.stop()
