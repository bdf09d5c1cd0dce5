"""Heats: entrants are opened in groups that fit the memory and raced together with the survivors of the heats before.

First one entrant of each group (variant, provider, precision), then further options of the groups within reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.errors import TrialError
from agent.selection.candidates import Entrant, first_of_groups, is_baseline_variant
from agent.selection.halving import Standing
from agent.selection.ledger import Ledger
from agent.selection.live_limit import expected_mb, live_limit
from agent.selection.objective import drops_on_the_way, race_fraction
from agent.selection.race import Contender, RaceOutcome, RacePlan, run_race
from agent.selection.request import RaceView, SelectionRequest, SelectionTools
from agent.selection.schedule import Schedule, expansion
from agent.selection.slower import slower
from agent.selection.statistics import RatioBounds
from agent.selection.trial_pool import Opened, Rejected, TrialPool
from edge_contracts.capabilities import Capabilities
from edge_contracts.profiles import RuntimeAdvice, load_profiles

MOST_IN_A_HEAT = 8
REOPENED_SLICE_S = 0.25
FIRST_ROUNDS = 12
LAST_ROUNDS = 48


def advice_for(device: Capabilities) -> list[RuntimeAdvice]:
    """What the profile of this board says about runtimes; nothing when it has none."""
    if device.board.profile is None:
        return []
    return [item for known in load_profiles() if known.name == device.board.profile for item in known.runtimes]


class Heats:
    """One use. ``run`` leaves the survivors' lanes open in the pool, best first in ``table``."""

    def __init__(
        self, request: SelectionRequest, tools: SelectionTools, pool: TrialPool, ledger: Ledger, times: Schedule,
        threads: int,
    ) -> None:  # fmt: skip
        self._request = request
        self._tools = tools
        self._pool = pool
        self._ledger = ledger
        self._times = times
        self._threads = threads
        self._started = tools.clock()
        self.contenders: dict[str, Contender] = {}
        self.opened: dict[str, Opened] = {}
        self.table: list[Standing] = []
        self.spare: Opened | None = None
        self.rounds = 0
        self.decided = False
        self.ran_out_of_time = False
        self.reopens = False
        """Whether fewer than two trials fit in memory, so that each is opened anew for its turns; set by ``run``."""
        self._behind: dict[tuple[str, str], RatioBounds] = {}
        self._lost: dict[tuple[str, str], str] = {}

    def run(self, found: list[Entrant]) -> None:
        """Raises SelectionCanceled. An empty ``table`` means that nothing is left that works."""
        firsts = first_of_groups(found, advice_for(self._request.device))
        self.reopens = self._fitting(found) < 2
        self._race_all(firsts, FIRST_ROUNDS)
        rest = [entrant for entrant in found if entrant not in firsts]
        plan = expansion(rest, self._behind, self._lost, self.table[0].score if self.table else 0.0)
        for entrant, reason in plan.hopeless:
            self._ledger.untried(entrant, reason)
        self._race_all(plan.wanted, LAST_ROUNDS)
        if not self.decided and len(self.table) > 1:
            self._race([], LAST_ROUNDS)

    def plan(self, deadline: float, max_rounds: int, *, halve: bool, min_rounds: int = 3) -> RacePlan:
        """A race as memory and objective allow."""
        reopens = self.reopens
        return RacePlan(
            deadline=deadline, fraction=race_fraction(self._request.objective),
            slice_s=REOPENED_SLICE_S if reopens else RacePlan.slice_s, max_rounds=6 if reopens else max_rounds,
            min_rounds=min_rounds, halve=halve, seed=self._tools.seed,
        )  # fmt: skip

    def open(self, entrants: Sequence[Entrant], give_up_at: float) -> list[Opened]:
        """Open and judge; failures go to the ledger."""
        at_once = 1 if self.reopens else min(2, max(1, self._threads))
        ready: list[Opened] = []
        total = len(entrants)
        answers = self._pool.open_each(entrants, at_once=at_once, reopen=self.reopens, give_up_at=give_up_at)
        for count, answer in enumerate(answers, 1):
            if isinstance(answer, Opened):
                self._ledger.opened(answer)
                self.opened[answer.entrant.name] = answer
                ready.append(answer)
                text = f"ready, provider {answer.result.provider}"
            else:
                self.reject(answer)
                text = f"{answer.status}: {answer.reason}"
            self._tools.progress(f"opened {count}/{total} {answer.entrant.name}: {text}")
            self._show("opening")
        return ready

    def reject(self, rejected: Rejected) -> None:
        """Note a failure, also as the loss of its group."""
        self._ledger.rejected(rejected)
        entrant = rejected.entrant
        self._lost.setdefault(entrant.group, f"not tried: {entrant.name} was {rejected.status} ({rejected.reason})")

    def _race_all(self, queue: Sequence[Entrant], max_rounds: int) -> None:
        waiting = list(queue)
        while waiting:
            if self.table and self._tools.clock() >= self._times.open_until:
                break
            room = max(1, min(MOST_IN_A_HEAT, self._fitting(waiting)) - len(self.contenders))
            batch, waiting = waiting[:room], waiting[room:]
            ready = self.open(batch, self._times.open_until)
            started = {opened.entrant.name for opened in ready}
            if ready or not self.table:
                self._race(ready, max_rounds if not waiting else FIRST_ROUNDS)
            waiting = [e for e in batch if e.name not in started and self._ledger.line(e.name) is None] + waiting
            if not ready and waiting and self._tools.clock() >= self._times.open_until and self.table:
                break
        for entrant in waiting:
            self.ran_out_of_time = True
            self._ledger.untried(entrant, "not tried: the time for the race was over")

    def _race(self, ready: Sequence[Opened], max_rounds: int) -> None:
        for opened in ready:
            self.contenders[opened.entrant.name] = Contender(opened.lane, opened.result.typical_us)
        for contender in self.contenders.values():
            contender.rounds = {}
        if not self.contenders:
            return
        halve = drops_on_the_way(self._request.objective)
        plan = self.plan(self._times.race_until, max_rounds, halve=halve)
        outcome = run_race(list(self.contenders.values()), plan, self._tools.clock, self._watch)
        self._take(outcome)

    def _take(self, outcome: RaceOutcome) -> None:
        self.rounds += outcome.rounds
        self.table, self.decided = outcome.table, outcome.decided
        for name, contender in self.contenders.items():
            samples = [value for number in sorted(contender.rounds) for value in contender.rounds[number]]
            self._ledger.measured(name, samples, self.opened[name].lane)
            self._tools.record(name, samples)
        for standing in [*outcome.table, *outcome.out]:
            self._behind.setdefault(self.opened[standing.name].entrant.group, standing.behind)
        for name, error in outcome.failed.items():
            self.fail(name, error)
        for name, reason in outcome.dropped.items():
            self._ledger.halved(name, reason)
            self._let_go(name)
        while len(self.table) > max(1, self._fitting([]) - 1) and not self.reopens:
            last = self.table.pop()
            self._ledger.halved(last.name, f"{slower(last.behind.ratio, 'the leader')}; memory had no room")
            self._let_go(last.name)

    def fail(self, name: str, error: TrialError) -> None:
        """It died or failed in the race."""
        opened = self.opened[name]
        self.reject(self._pool.rejected(opened.entrant, error))
        self.contenders.pop(name, None)
        self._pool.close(opened.lane)

    def _let_go(self, name: str) -> None:
        """Close a loser, but keep the best of the plain ONNX file for the final run."""
        self.contenders.pop(name, None)
        opened = self.opened[name]
        if not is_baseline_variant(opened.entrant.variant):
            self._pool.close(opened.lane)
            return
        if self.spare is None or self._p90(opened) < self._p90(self.spare):
            opened, self.spare = self.spare or opened, opened
        if opened is not self.spare:
            self._pool.close(opened.lane)

    def _p90(self, opened: Opened) -> float:
        line = self._ledger.line(opened.entrant.name)
        return line.latency.p90_ms if line is not None and line.latency is not None else float("inf")

    def _fitting(self, waiting: Sequence[Entrant]) -> int:
        """How many trials may be alive, those alive now included."""
        sizes = [opened.lane.peak_rss_mb for opened in self.opened.values()]
        largest = max([int(size) for size in sizes] + [expected_mb(e.variant.spec) for e in waiting] + [1])
        alive_mb = sum(self.opened[name].lane.resident_mb() for name in self.contenders)
        free_mb = self._tools.available_mb()
        total_mb = None if free_mb is None else free_mb + alive_mb
        return live_limit(total_mb, self._tools.limits.reserve_mb, largest, MOST_IN_A_HEAT)

    def _watch(self, order: Sequence[Contender], done: int) -> None:
        del order
        self._show("racing", done)

    def _show(self, stage: str, done: int = 0) -> None:
        lines = []
        for name, contender in self.contenders.items():
            recent = [value for number in list(contender.rounds)[-6:] for value in contender.rounds[number]]
            p90_ms = sorted(recent)[int(0.9 * (len(recent) - 1))] / 1e3 if recent else None
            lines.append((name, "racing", p90_ms))
        known = {name for name, _, _ in lines}
        for line in self._ledger.lines():
            if line.name not in known:
                lines.append((line.name, line.status, line.latency.p90_ms if line.latency else None))
        lines.sort(key=lambda item: (item[1] != "racing", item[2] is None, item[2] or 0.0))
        elapsed = self._tools.clock() - self._started
        view = RaceView(stage, tuple(lines), self.rounds + done, elapsed, self._request.race_budget_s)
        self._tools.observe(view)
