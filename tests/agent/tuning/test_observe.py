"""Observations from a recorded machine whose files move on between two readings."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent.hardware.sysfs import recorded_machine, this_machine
from agent.tuning.observe import Observer
from edge_contracts.latency import LatencySketch
from edge_contracts.messages import StageLatency

OURS = 100
TICKS_PER_S = 100.0


class Recorded:
    """A machine with two CPUs, us (pid 100, engine 101) and somebody else (pid 200)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_s = 1000.0
        self.latency: dict[str, StageLatency] = {}
        self.queued: dict[str, int] = {}
        self.write("proc/self/cgroup", "0::/\n")
        self.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n")
        self.moment()

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def moment(
        self, busy: tuple[int, int] = (0, 0), ours: int = 0, engine: int = 0, waited_us: int = 0,
        throttled: tuple[int, int] = (0, 0), running: int = 1,
    ) -> None:  # fmt: skip
        """Counters since boot, in clock ticks and microseconds. The engine runs on CPU 1."""
        lines = [f"cpu{n} {ticks} 0 0 {9000} 50 0 0 0 0 0" for n, ticks in enumerate(busy)]
        self.write("proc/stat", "cpu  1 1 1 1\n" + "\n".join(lines) + f"\nprocs_running {running}\n")
        self.write("proc/pressure/cpu", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us}\nfull total=0\n")
        self.write("sys/fs/cgroup/cpu.pressure", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={waited_us // 2}\n")
        self.write("sys/fs/cgroup/cpu.max", "150000 100000\n")
        self.write("sys/fs/cgroup/cpu.stat", f"usage_usec 1\nnr_periods 9\nnr_throttled {throttled[0]}\n"
                   f"throttled_usec {throttled[1]}\n")  # fmt: skip
        self.write("proc/loadavg", "1.50 1.00 0.50 2/100 300\n")
        self.write("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 512000 kB\n")
        self.process(OURS, 1, ours, cpu=0)
        self.process(101, OURS, engine, cpu=1)
        self.process(200, 1, 10**6, cpu=0)

    def process(self, pid: int, parent: int, ticks: int, cpu: int) -> None:
        fields = ["S", str(parent), *["0"] * 9, str(ticks), "0", "0", "0", *["0"] * 21, str(cpu), "0"]
        text = f"{pid} (a ) b) " + " ".join(fields)
        self.write(f"proc/{pid}/stat", text)
        self.write(f"proc/{pid}/task/{pid}/stat", text)

    def observer(self) -> Observer:
        return Observer(
            recorded_machine(self.root), {0, 1}, OURS, lambda: self.now_s, lambda: self.latency, lambda: self.queued,
            ticks_per_s=TICKS_PER_S,
        )  # fmt: skip


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    return Recorded(tmp_path)


def test_what_is_not_ours_is_others(recorded: Recorded) -> None:
    eye = recorded.observer()
    eye.start()
    recorded.now_s += 10
    recorded.moment(busy=(900, 400), ours=20, engine=380)
    seen = eye.read()
    assert seen.own_cpus == pytest.approx(0.4)
    assert seen.other_cpus == pytest.approx(0.9)
    assert seen.busy_by_others[0] == pytest.approx(0.88)
    assert seen.busy_by_others[1] == pytest.approx(0.02)


def test_other_cpus_than_ours_do_not_count(recorded: Recorded) -> None:
    eye = Observer(recorded_machine(recorded.root), {1}, OURS, lambda: recorded.now_s, dict, dict, TICKS_PER_S)
    eye.start()
    recorded.now_s += 10
    recorded.moment(busy=(1000, 0))
    assert eye.read().other_cpus == 0


def test_waiting_and_limits_are_told_per_interval(recorded: Recorded) -> None:
    recorded.moment(waited_us=7_000_000, throttled=(5, 400_000))
    eye = recorded.observer()
    eye.start()
    recorded.now_s += 10
    recorded.moment(waited_us=9_000_000, throttled=(9, 1_400_000), running=3)
    seen = eye.read()
    assert seen.pressure_pct == pytest.approx(20.0)
    assert seen.group_pressure_pct == pytest.approx(10.0)
    assert (seen.running, seen.load_1m, seen.quota_cpus, seen.nr_throttled) == (3, 1.5, 1.5, 9)
    assert seen.held_back == pytest.approx(0.1)
    assert seen.memory_available_mb == 500


def test_heat_is_told_as_degrees_left_to_the_trip_point(recorded: Recorded) -> None:
    zone = "sys/class/thermal/thermal_zone0"
    for name, text in (("type", "cpu"), ("temp", "78000"), ("trip_point_0_type", "passive"),
                       ("trip_point_0_temp", "80000")):  # fmt: skip
        recorded.write(f"{zone}/{name}", text)
    recorded.write("sys/devices/platform/soc/soc:firmware/get_throttled", "50005")
    seen = recorded.observer().read()
    assert (seen.temp_c, seen.temp_margin_c, seen.throttled) == (78.0, 2.0, True)
    assert "under-voltage now" in seen.throttle_reasons


def test_latency_is_taken_from_the_sketches(recorded: Recorded) -> None:
    total, infer = LatencySketch(), LatencySketch()
    for value in (1000, 2000, 3000, 50_000):
        total.add(value)
        infer.add(value / 2)
    eye = recorded.observer()
    eye.start()
    recorded.now_s += 2
    recorded.latency = {"m": StageLatency(version="1", digest="d", requests=4,
                                          stages={"total": total.to_data(), "infer": infer.to_data()})}  # fmt: skip
    recorded.queued = {"m": 3, "idle": 0}
    seen = eye.read()
    load = seen.load("m")
    assert seen.arrival_per_s("m") == 2.0
    assert load.queued == 3
    assert load.infer_ms == pytest.approx(7.0)
    assert load.quantile_ms(0.5) == pytest.approx(2.0, rel=0.05)
    assert load.quantile_ms(0.99) == pytest.approx(50.0, rel=0.05)
    assert seen.load("idle").quantile_ms(0.5) is None
    assert seen.load("unheard of").requests == 0


def test_a_machine_that_tells_nothing_gives_an_observation_of_unknowns(tmp_path: Path) -> None:
    eye = Observer(recorded_machine(tmp_path), {0}, 1, lambda: 0.0, dict, dict)
    seen = eye.read()
    unknown = (seen.pressure_pct, seen.running, seen.load_1m, seen.other_cpus, seen.own_cpus, seen.held_back,
               seen.temp_c, seen.throttled, seen.memory_available_mb, seen.quota_cpus, seen.nr_throttled)  # fmt: skip
    assert set(unknown) == {None}


@pytest.mark.parametrize("damage", ["", "\0\xff", "cpu0\ncpu1 x y z q\n", "some total=\n", "nr_throttled -1\n"])
def test_damaged_files_are_unknown_and_no_error(recorded: Recorded, damage: str) -> None:
    for path in ("proc/stat", "proc/pressure/cpu", "sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu.max", "proc/loadavg",
                 "proc/meminfo", "proc/101/stat", "proc/101/task/101/stat"):  # fmt: skip
        recorded.write(path, damage)
    seen = recorded.observer().read()
    assert (seen.pressure_pct, seen.load_1m, seen.held_back, seen.other_cpus) == (None, None, None, None)


def test_a_clock_that_does_not_move_divides_by_nothing(recorded: Recorded) -> None:
    eye = recorded.observer()
    eye.start()
    assert eye.read().span_s > 0


def test_v1_groups_tell_throttling_in_nanoseconds(recorded: Recorded) -> None:
    recorded.write("proc/self/cgroup", "1:cpu,cpuacct:/\n")
    recorded.write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n")
    text = "nr_periods 1\nnr_throttled {}\nthrottled_time {}\n"
    recorded.write("sys/fs/cgroup/cpu/cpu.stat", text.format(1, 0))
    eye = recorded.observer()
    eye.start()
    recorded.now_s += 10
    recorded.write("sys/fs/cgroup/cpu/cpu.stat", text.format(4, 2_000_000_000))
    assert eye.read().held_back == pytest.approx(0.2)


def test_observing_this_machine_takes_less_than_a_hundredth_of_a_cpu() -> None:
    eye = Observer(this_machine(), os.sched_getaffinity(0), os.getpid(), time.monotonic, dict, dict)
    eye.start()
    before_s = time.process_time()
    for _ in range(5):
        seen = eye.read()
    each_s = (time.process_time() - before_s) / 5
    assert seen.own_cpus is not None
    assert each_s < 0.01 * 5.0, "with the usual interval of 5 s"
