"""What of a model can be changed while it serves, and how it stands in the options of its backend. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edge_contracts.evidence import OptionValue

THREADS, SPINNING, ARENA, PREPACKING, CPUS, BATCH_WINDOW = (
    "threads", "spinning", "arena", "prepacking", "cpus", "batch window",
)  # fmt: skip
KNOBS_OF_RUNTIME: Mapping[str, frozenset[str]] = {
    "onnxruntime": frozenset({THREADS, SPINNING, ARENA, PREPACKING}),
    "openvino": frozenset({THREADS}),
    "tflite": frozenset({THREADS}),
    "stub": frozenset({THREADS, SPINNING}),
}
"""Options that the built-in backends take. A runtime that is not here has its threads tuned if it was given any."""


@dataclass(frozen=True)
class ModelTuning:
    """The settings in effect. None: the runtime's own default, or not a setting of this runtime.

    cpus: the CPUs to stay on; None: all that we may use. batch_window_ms: None where requests are not run together.
    arena, prepacking: memory that a runtime keeps for speed.
    """

    threads: int
    spinning: bool | None = None
    batch_window_ms: float | None = None
    cpus: frozenset[int] | None = None
    arena: bool | None = None
    prepacking: bool | None = None

    def but(self, **changes: object) -> ModelTuning:
        """The same with some settings changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


def from_options(
    options: Mapping[str, OptionValue], batch_window_ms: float | None, default_threads: int
) -> ModelTuning:  # fmt: skip
    """The tuning that a backend's options amount to. ``default_threads``: what a runtime takes that is not told."""
    return ModelTuning(
        threads=_threads(options, default_threads),
        spinning=_flag(options, SPINNING), batch_window_ms=batch_window_ms,
        arena=_flag(options, ARENA), prepacking=_flag(options, PREPACKING),
    )  # fmt: skip


def to_options(tuning: ModelTuning, home: Mapping[str, OptionValue], knobs: frozenset[str]) -> dict[str, OptionValue]:
    """``home`` with what the tuning says of this runtime's knobs; all else stays as selection chose it."""
    wanted: dict[str, OptionValue | None] = {
        THREADS: tuning.threads, SPINNING: tuning.spinning, ARENA: tuning.arena, PREPACKING: tuning.prepacking
    }  # fmt: skip
    told = {name: value for name, value in wanted.items() if name in knobs and value is not None}
    options = {name: value for name, value in home.items() if name not in knobs or wanted.get(name) is not None}
    if home.get("execution") == "parallel":
        if tuning.threads == _threads(home, 1):
            told.pop(THREADS, None)
        else:
            options = {**options, "execution": "sequential"}
            options.pop("inter_threads", None)
    return {**options, **told}


def described(old: ModelTuning, new: ModelTuning) -> str:
    """What changes, in words: "threads 2 -> 1, spinning off"."""
    parts = []
    if old.threads != new.threads:
        parts.append(f"threads {old.threads} -> {new.threads}")
    for name, before, after in (
        (SPINNING, old.spinning, new.spinning), (ARENA, old.arena, new.arena),
        ("prepacked weights", old.prepacking, new.prepacking),
    ):  # fmt: skip
        if before != after:
            parts.append(f"{name} {'off' if after is False else 'on' if after else 'as the runtime likes'}")
    if old.cpus != new.cpus:
        parts.append(f"on CPUs {_cpu_text(new.cpus)}" if new.cpus else "on all CPUs")
    if old.batch_window_ms != new.batch_window_ms:
        parts.append(f"batch window {old.batch_window_ms or 0:g} -> {new.batch_window_ms or 0:g} ms")
    return ", ".join(parts) or "nothing changes"


def _cpu_text(cpus: frozenset[int]) -> str:
    from agent.hardware.cpu_list import render

    return render(cpus)


def _threads(options: Mapping[str, OptionValue], default: int) -> int:
    """Of all its pools together."""
    threads, branches = options.get("threads", default), options.get("inter_threads", 1)
    if not isinstance(threads, int) or not isinstance(branches, int):
        return default
    return threads * branches if options.get("execution") == "parallel" else threads


def _flag(options: Mapping[str, OptionValue], name: str) -> bool | None:
    value = options.get(name)
    return value if isinstance(value, bool) else None
