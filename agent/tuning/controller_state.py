"""What the controller remembers of one model between two observations, and how each outcome changes it. Pure.

    tried without success -> that tuning is blocked for this situation
    changed               -> it is watched (a change for the budget is not)
    kept                  -> remembered as good for the situation; patience is back to normal
    reverted              -> blocked as above, and each revert in a row doubles the wait before the next try
    overtaken             -> it stays unjudged; what changes so fast is not worth following: the wait doubles too

A block holds as long as the situation lasts, and for a time that doubles with every failure when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.tuning.model_tuning import ModelTuning
from agent.tuning.moves import Goal, Move
from agent.tuning.situation import Situation

MAX_REMEMBERED = 64
MAX_DOUBLINGS = 10
MAX_FOR_OVERTAKING = 4
Key = tuple[str, ModelTuning]


@dataclass(frozen=True)
class Pacing:
    """How patient tuning is, in seconds.

    floor_s: least time between two changes of a model, the way back included. watch_max_s: how long a change waits for
    enough requests to be judged. hold_s: how long a failure is remembered at first. min_requests: fewer say nothing
    about a p95.
    """

    interval_s: float = 5.0
    floor_s: float = 30.0
    watch_max_s: float = 180.0
    hold_s: float = 600.0
    longest_hold_s: float = 21_600.0
    min_requests: int = 50


@dataclass(frozen=True)
class Block:
    """Not to be tried again in ``episode``, nor before ``until_s``."""

    until_s: float
    episode: int
    times: int


@dataclass(frozen=True)
class Watch:
    """A change that has been made and is not judged yet. before_*: live, in the same situation; None: too few requests.

    ``trial``: what the trial said.
    """

    old: ModelTuning
    move: Move
    since_s: float
    episode: int
    before_p95_ms: float | None
    before_rate: float
    trial: str = ""


@dataclass(frozen=True)
class ControllerState:
    """``episode`` counts situations; ``began_s``: since when it lasts; ``settled``: nothing is left to try in it."""

    situation: Situation | None = None
    episode: int = 0
    began_s: float = 0.0
    settled: bool = False
    reference_p95_ms: float | None = None
    last_change_s: float | None = None
    reverts: int = 0
    overtakings: int = 0
    watch: Watch | None = None
    blocks: Mapping[Key, Block] = field(default_factory=dict)
    good: Mapping[str, ModelTuning] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Of the present situation."""
        return self.situation.key if self.situation is not None else ""

    def is_blocked(self, tuning: ModelTuning, now_s: float) -> bool:
        """In the present situation."""
        block = self.blocks.get((self.key, tuning))
        return block is not None and (block.episode == self.episode or now_s < block.until_s)


def failed(state: ControllerState, tuning: ModelTuning, now_s: float, pacing: Pacing) -> ControllerState:
    """A trial did not find it better, or it could not be made."""
    key = (state.key, tuning)
    known = state.blocks.get(key)
    times = 1 + (known.times if known is not None else 0)
    hold_s = min(pacing.longest_hold_s, pacing.hold_s * 2.0 ** min(times - 1, MAX_DOUBLINGS))
    others = {k: block for k, block in state.blocks.items() if k != key}
    while len(others) >= MAX_REMEMBERED:
        del others[next(iter(others))]
    return replace(state, blocks={**others, key: Block(now_s + hold_s, state.episode, times)})


def changed(state: ControllerState, now_s: float, watch: Watch | None) -> ControllerState:
    """Another tuning serves now."""
    if watch is None or watch.move.goal is Goal.BUDGET:
        return replace(state, last_change_s=now_s, watch=None, reference_p95_ms=None)
    return replace(state, last_change_s=now_s, watch=watch, reference_p95_ms=None)


def kept(state: ControllerState, tuning: ModelTuning) -> ControllerState:
    """The watched change stays."""
    good = {key: value for key, value in state.good.items() if key != state.key}
    while len(good) >= MAX_REMEMBERED:
        del good[next(iter(good))]
    return replace(state, watch=None, reverts=0, overtakings=0, good={**good, state.key: tuning})


def overtaken(state: ControllerState) -> ControllerState:
    """The situation changed before the watched change could be judged: it stays, and everything is open again."""
    return replace(state, watch=None, settled=False, overtakings=state.overtakings + 1)


def reverted(state: ControllerState, tuning: ModelTuning, now_s: float, pacing: Pacing) -> ControllerState:
    """The old one serves again; ``tuning`` did not help."""
    after = failed(state, tuning, now_s, pacing)
    good = {key: value for key, value in after.good.items() if value != tuning or key != state.key}
    return replace(after, watch=None, last_change_s=now_s, reverts=state.reverts + 1, good=good)


def settled(state: ControllerState) -> ControllerState:
    """Nothing is left to try in this situation."""
    return replace(state, settled=True, reference_p95_ms=None)


def wait_until_s(state: ControllerState, pacing: Pacing) -> float:
    """Before this nothing is changed: the floor, doubled by each revert and each overtaking (up to a point) since."""
    if state.last_change_s is None:
        return float("-inf")
    doublings = state.reverts + min(state.overtakings, MAX_FOR_OVERTAKING)
    patience_s = pacing.floor_s * 2.0 ** min(doublings, MAX_DOUBLINGS)
    return state.last_change_s + min(pacing.longest_hold_s, patience_s)
