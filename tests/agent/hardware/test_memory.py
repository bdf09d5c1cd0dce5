from __future__ import annotations

from pathlib import Path

from agent.hardware.probe import probe
from agent.hardware.probers.memory import parse_free
from tests.agent.hardware.recording import record


def test_an_old_kernel_without_memavailable_is_estimated(tmp_path: Path) -> None:
    text = "MemTotal:  1024000 kB\nMemFree:   102400 kB\nBuffers:  10240 kB\nCached:  204800 kB\n"
    memory = probe(record(tmp_path, {"proc/meminfo": text})).memory
    assert (memory.total_mb, memory.available_mb) == (1000, 310)


def test_a_broken_meminfo_is_unknown(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"proc/meminfo": "MemTotal: lots\n"})).memory.total_mb is None


def test_free_is_read_in_any_unit() -> None:
    header = "              total        used        free      shared  buff/cache   available\n"
    assert parse_free(header + "Mem:           3.9Gi       297Mi       3.3Gi        38Mi       223Mi       3.4Gi\n")[
        "total"
    ] == int(3.9 * 2**30)
    assert (
        parse_free(header + "Mem:        4059504      304128     3460300       38912      228352     3565158\n")[
            "total"
        ]
        == 4059504 * 1024
    )
    assert parse_free("nothing\n") == {}
