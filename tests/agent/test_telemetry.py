from __future__ import annotations

import os
from pathlib import Path

from agent.hardware.sysfs import recorded_machine
from agent.telemetry import Telemeter, hottest_c, throttled_now, usage
from edge_contracts.messages import StageLatency
from tests.simulators.fake_clock import FakeClock


def process(proc: Path, pid: int, *, ticks: int, pages: int, children: str = "") -> None:
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = ["S", "1", *["0"] * 9, str(ticks), "0", "0", "0", "0"]
    (folder / "stat").write_text(f"{pid} (a ) b) {' '.join(fields)}")
    (folder / "statm").write_text(f"999 {pages} 0 0 0 0 0")
    (folder / "task" / str(pid) / "children").write_text(children)


def test_usage_counts_this_process_and_all_below_it(tmp_path: Path) -> None:
    process(tmp_path, 1, ticks=100, pages=10, children="2 3 ")
    process(tmp_path, 2, ticks=50, pages=5)
    found = usage(tmp_path, 1)  # 3 has just ended
    assert found.cpu_s == 150 / os.sysconf("SC_CLK_TCK")
    assert found.rss_bytes == 15 * os.sysconf("SC_PAGE_SIZE")


def test_a_span_tells_cpu_memory_heat_and_latency(tmp_path: Path) -> None:
    clock, pid = FakeClock(), os.getpid()
    process(tmp_path, pid, ticks=0, pages=256)
    zone = tmp_path / "class" / "thermal" / "thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "temp").write_text("47500\n")
    taken = {"digits": StageLatency(version="1", digest="d", stages={}, requests=3)}
    telemeter = Telemeter(lambda: taken, lambda: 2, clock.now_ms, clock.monotonic, tmp_path, tmp_path)
    telemeter.start()
    clock.elapsed_s += 10
    process(tmp_path, pid, ticks=5 * os.sysconf("SC_CLK_TCK"), pages=256)
    told = telemeter.read()
    assert told.to_ms - told.from_ms == 10_000
    assert (told.cpu_percent, told.temp_c, told.dropped_messages) == (50.0, 47.5, 2)
    assert told.rss_mb == round(256 * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)
    assert told.models == taken


def test_a_broken_zone_does_not_hide_the_others(tmp_path: Path) -> None:
    for number, text in enumerate(["garbage", "-2147483648", "51000"]):
        zone = tmp_path / "class" / "thermal" / f"thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "temp").write_text(text)
    assert hottest_c(tmp_path) == 51.0
    assert hottest_c(tmp_path / "nothing") is None


def test_a_span_tells_whether_the_device_is_slowed(tmp_path: Path) -> None:
    policy = tmp_path / "sys/devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    (policy / "cpuinfo_max_freq").write_text("1800000\n")
    clock = FakeClock()
    told: list[bool | None] = []
    for limit in ("1800000\n", "600000\n"):
        (policy / "scaling_max_freq").write_text(limit)
        telemeter = Telemeter(
            dict, lambda: 0, clock.now_ms, clock.monotonic, tmp_path / "proc", tmp_path / "sys",
            throttled=lambda: throttled_now(recorded_machine(tmp_path)),
        )  # fmt: skip
        told.append(telemeter.read().throttled)
    assert told == [False, True]
    assert throttled_now(recorded_machine(tmp_path / "proc")) is None
