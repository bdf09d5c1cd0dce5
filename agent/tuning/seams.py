"""What the tuner needs of the rest of the agent: the models that serve, trials, and somebody to tell.

Contract of ``TunedServing``: thread-safe. ``apply`` returns when the new session is warm and serves; no request is
lost. When it raises, what served before still does. It changes nothing when the bundle of that name is another by now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.tuning.judgement import TrialVerdict
from agent.tuning.model_tuning import ModelTuning
from agent.tuning.observation import Observation


@dataclass(frozen=True)
class TunedModel:
    """A model that serves. ``digest``: its bundle; home: as selection chose it; ``current``: as it is now."""

    name: str
    digest: str
    home: ModelTuning
    current: ModelTuning
    knobs: frozenset[str]
    max_window_ms: float = 0.0


class TunedServing(Protocol):
    """The models that serve, and how they do."""

    def models(self) -> Sequence[TunedModel]:
        """Those that serve now."""

    def apply(self, name: str, digest: str, tuning: ModelTuning) -> None:
        """Serve that bundle with that tuning. Raises AgentError (a ServingError, or it has been replaced meanwhile)."""


class Eye(Protocol):
    """agent.tuning.observe.Observer."""

    def start(self) -> None:
        """The first interval begins."""

    def read(self) -> Observation:
        """The interval since the last call."""


Trial = Callable[[TunedModel, ModelTuning, Callable[[], bool]], TrialVerdict]
"""(model, proposed tuning, is_canceled) -> the proposed against the current one. Raises AgentError, OSError."""


@dataclass(frozen=True)
class TuningEvent:
    """kind: "tuning.changed" (and kept), "tuning.reverted", "tuning.failed"."""

    kind: str
    model: str
    text: str
    facts: dict[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Device:
    """What tuning may use. ``budget_cpus``: min(affinity, quota, online), as probed; a tighter quota seen later counts.

    big_cpus: the strong cores, where cores differ. reserve_mb: memory that stays free.
    """

    budget_cpus: float
    cpus: frozenset[int]
    big_cpus: frozenset[int] | None = None
    reserve_mb: int = 64
