"""Memory bandwidth and arithmetic of this device, measured once and kept in DATA/cache/measured.json.

They hold for the silicon and the CPU budget they were measured with; with another one they are unknown again.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from agent.disk import make_private
from agent.hardware.budget import threads_of
from edge_contracts.capabilities import Capabilities, topology_key

FILE_NAME = "measured.json"


class MeasuredFigures(msgspec.Struct, frozen=True, kw_only=True):
    """``key``: what they were measured with."""

    key: str
    bandwidth_gb_s: float | None
    gflops_fp32: float | None


def with_kept_figures(data_dir: Path, facts: Capabilities) -> Capabilities:
    """``facts`` with the figures of that data folder, where there are any and they are of this device."""
    try:
        kept = msgspec.json.decode((data_dir / "cache" / FILE_NAME).read_bytes(), type=MeasuredFigures)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return facts
    if kept.key != _key(facts) or are_known(facts):
        return facts
    return msgspec.structs.replace(
        facts,
        cpu=msgspec.structs.replace(facts.cpu, gflops_fp32=kept.gflops_fp32),
        memory=msgspec.structs.replace(facts.memory, bandwidth_gb_s=kept.bandwidth_gb_s),
    )


def are_known(facts: Capabilities) -> bool:
    """Both."""
    return facts.cpu.gflops_fp32 is not None and facts.memory.bandwidth_gb_s is not None


def keep_figures(data_dir: Path, facts: Capabilities) -> None:
    """For the next start. A disk that takes nothing costs measuring again."""
    figures = MeasuredFigures(
        key=_key(facts), bandwidth_gb_s=facts.memory.bandwidth_gb_s, gflops_fp32=facts.cpu.gflops_fp32
    )
    folder = data_dir / "cache"
    try:
        make_private(folder)
        temporary = folder / f".{FILE_NAME}.{os.getpid()}.tmp"
        temporary.write_bytes(msgspec.json.encode(figures))
        temporary.replace(folder / FILE_NAME)
    except OSError:
        return


def _key(facts: Capabilities) -> str:
    return f"{topology_key(facts)} {threads_of(facts.cpu.budget_cpus)}"
