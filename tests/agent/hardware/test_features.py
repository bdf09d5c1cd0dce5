from __future__ import annotations

from pathlib import Path

import pytest

from agent.hardware.probe import probe
from agent.hardware.probers.features import named
from tests.agent.hardware.recording import arm_cpuinfo, record


@pytest.mark.parametrize(
    ("flags", "present", "absent"),
    [
        ("fp asimd aes asimddp fphp asimdhp", {"neon", "aes", "dotprod", "fp16"}, {"i8mm", "sve", "bf16"}),
        ("fp asimd fphp", {"neon"}, {"fp16"}),
        ("fp asimd i8mm bf16 sve sve2", {"neon", "i8mm", "bf16", "sve", "sve2"}, {"dotprod"}),
        ("half thumb fastmult vfp edsp neon vfpv3 vfpv4", {"neon", "vfpv4"}, {"dotprod", "aes"}),
        ("half thumb fastmult vfp edsp java tls", set(), {"neon", "vfpv4"}),
        ("fpu sse2 avx2 fma f16c avx_vnni", {"avx2", "avx_vnni", "vnni"}, {"avx512f", "amx", "avx512_vnni"}),
        ("fpu avx512f avx512_vnni amx_tile amx_int8", {"avx512f", "vnni", "amx", "amx_int8"}, {"amx_bf16", "avx_vnni"}),
    ],
)
def test_the_kernels_flags_get_one_name_each(flags: str, present: set[str], absent: set[str]) -> None:
    found = named(set(flags.split()))
    assert {name for name in present | absent if found[name]} == present


def test_a_feature_counts_only_if_every_cpu_has_it(tmp_path: Path) -> None:
    text = (
        arm_cpuinfo({0: ("0x41", "0xd05")}, "fp asimd asimddp") + "\n" + arm_cpuinfo({1: ("0x41", "0xd03")}, "fp asimd")
    )
    features = probe(record(tmp_path, {"proc/cpuinfo": text})).cpu.features
    assert features["neon"] is True
    assert features["dotprod"] is False


def test_without_a_list_nothing_is_claimed_either_way(tmp_path: Path) -> None:
    assert probe(record(tmp_path, {"proc/meminfo": "MemTotal: 1024 kB\n"})).cpu.features == {}
