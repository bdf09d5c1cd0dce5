from __future__ import annotations

from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers import throttling
from edge_contracts.capabilities import ThermalZone
from tests.agent.hardware.recording import CPU, record

ZONE = "sys/class/thermal/thermal_zone"


def test_zones_have_their_temperatures_and_trip_points(tmp_path: Path) -> None:
    files = {
        f"{ZONE}0/type": "cpu-thermal\n",
        f"{ZONE}0/temp": "48312\n",
        f"{ZONE}0/trip_point_0_type": "passive",
        f"{ZONE}0/trip_point_0_temp": "80000",
        f"{ZONE}0/trip_point_1_type": "critical",
        f"{ZONE}0/trip_point_1_temp": "110000",
    }
    zones = probe(record(tmp_path, files)).thermal.zones
    assert zones == [ThermalZone(name="cpu-thermal", temp_c=48.312, passive_c=80.0, critical_c=110.0)]


def test_one_unreadable_zone_loses_nothing_else(tmp_path: Path) -> None:
    files = {f"{ZONE}0/type": "GPU-therm", f"{ZONE}0/temp": "", f"{ZONE}1/type": "CPU-therm", f"{ZONE}1/temp": "40000"}
    machine = record(tmp_path, files)
    (tmp_path / f"{ZONE}2").mkdir(parents=True)
    (tmp_path / f"{ZONE}2/temp").mkdir()
    zones = probe(machine).thermal.zones
    assert [(zone.name, zone.temp_c) for zone in zones] == [
        ("GPU-therm", None),
        ("CPU-therm", 40.0),
        ("thermal_zone2", None),
    ]
    assert machine.warnings == [f"{ZONE}0/temp: no temperature", f"{ZONE}2/temp: no temperature"]


@pytest.mark.parametrize("text", ["-256000", "2147483647", "-274000"])
def test_a_sensor_that_is_off_has_no_temperature(tmp_path: Path, text: str) -> None:
    assert probe(record(tmp_path, {f"{ZONE}0/temp": text})).thermal.zones[0].temp_c is None


def test_whole_degrees_of_a_vendors_kernel_are_degrees(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {f"{ZONE}0/temp": "47"})).thermal.zones[0].temp_c == 47.0


def test_a_pc_without_zones_is_read_by_its_sensors(tmp_path: Path) -> None:
    chip = "sys/class/hwmon/hwmon1"
    files = {
        f"{chip}/name": "coretemp",
        f"{chip}/temp1_input": "51000",
        f"{chip}/temp1_label": "Package id 0",
        f"{chip}/temp1_crit": "100000",
        "sys/class/hwmon/hwmon0/name": "nvme",
        "sys/class/hwmon/hwmon0/temp1_input": "30000",
    }
    zones = probe(record(tmp_path, files)).thermal.zones
    assert zones == [ThermalZone(name="coretemp Package id 0", temp_c=51.0, critical_c=100.0)]


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x0, []),
        (0x50005, ["under-voltage now", "throttled now", "under-voltage has occurred", "throttling has occurred"]),
        (0x50000, ["under-voltage has occurred", "throttling has occurred"]),
        (0x20002, ["arm frequency capped now", "arm frequency capping has occurred"]),
        (0x80008, ["soft temperature limit active now", "soft temperature limit has occurred"]),
    ],
)
def test_the_bits_of_a_raspberry_pi(bits: int, reasons: list[str]) -> None:
    found = throttling.of_bits(bits, "vcgencmd")
    assert found.reasons == reasons
    assert found.now is bool(bits & 0xF)
    assert found.since_boot is bool(bits)


@pytest.mark.parametrize("text", ["throttled=0x50005\n", "temp=39.7'C\nthrottled=0x50005\nvolt=1.2V\n", "0x50005"])
def test_the_bits_are_found_in_whatever_was_recorded(tmp_path: Path, text: str) -> None:
    throttled = probe(record(tmp_path, {"_outputs/vcgencmd.txt": text})).thermal.throttled
    assert throttled is not None
    assert throttled.now is True


def test_nonsense_from_vcgencmd_is_unknown(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"_outputs/vcgencmd.txt": "VCHI initialization failed\n"})).thermal.throttled is None


def test_a_limited_clock_is_told_with_its_figures(tmp_path: Path) -> None:
    policy = f"{CPU}/cpufreq/policy0"
    files = {
        f"{policy}/related_cpus": "0 1 2 3",
        f"{policy}/cpuinfo_max_freq": "1500000",
        f"{policy}/scaling_max_freq": "600000",
    }
    throttled = probe(record(tmp_path, files)).thermal.throttled
    assert throttled is not None
    assert throttled.reasons == ["clock of CPUs 0-3 limited to 600 of 1500 MHz"]


def test_a_full_clock_and_idle_cooling_are_not_throttling(tmp_path: Path) -> None:
    policy = f"{CPU}/cpufreq/policy0"
    files = {
        f"{policy}/cpuinfo_max_freq": "1500000",
        f"{policy}/scaling_max_freq": "1500000",
        "sys/class/thermal/cooling_device0/type": "cpufreq-cpu0",
        "sys/class/thermal/cooling_device0/cur_state": "0",
        "sys/class/thermal/cooling_device1/type": "pwm-fan",
        "sys/class/thermal/cooling_device1/cur_state": "3",
    }
    throttled = probe(record(tmp_path, files)).thermal.throttled
    assert throttled is not None
    assert (throttled.now, throttled.reasons) == (False, [])


def test_a_cooling_device_in_use_is_throttling(tmp_path: Path) -> None:
    files = {
        "sys/class/thermal/cooling_device0/type": "CPU-throttle-alert",
        "sys/class/thermal/cooling_device0/cur_state": "1",
    }
    throttled = probe(record(tmp_path, files)).thermal.throttled
    assert throttled is not None
    assert throttled.now is True


def test_over_current_of_a_jetson_is_history(tmp_path: Path) -> None:
    files = {"sys/class/hwmon/hwmon3/oc1_event_cnt": "0", "sys/class/hwmon/hwmon3/oc3_event_cnt": "12"}
    throttled = probe(record(tmp_path, files)).thermal.throttled
    assert throttled is not None
    assert (throttled.now, throttled.since_boot) == (False, True)
    assert throttled.reasons == ["over-current throttling since boot (oc3: 12 times)"]


def test_a_board_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"proc/meminfo": ""})).thermal.throttled is None
