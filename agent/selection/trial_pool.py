"""Opens trials of entrants, a few at a time, and tells of each how it went. Nothing is measured while they open."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import SelectionCanceled, TrialError
from agent.selection.candidates import Entrant
from agent.selection.fingerprint import device_fingerprint
from agent.selection.lanes import LiveLane, ReopenedLane
from agent.selection.live_limit import trial_memory_limit_mb
from agent.selection.quarantine import Quarantine, QuarantineKey
from agent.selection.request import SelectionRequest, SelectionTools
from agent.selection.trial_process import TrialProcess, start_trial
from agent.selection.trial_protocol import Fault, Phase, TrialRequest, TrialResult
from edge_contracts.capabilities import Capabilities

POLL_S = 0.01


@dataclass(frozen=True)
class Opened:
    """An entrant that answered the goldens right and is ready to race."""

    entrant: Entrant
    lane: LiveLane | ReopenedLane
    result: TrialResult


@dataclass(frozen=True)
class Rejected:
    """An entrant that did not come so far. status: "refused" or "quarantined". ``ended_from_outside``: says nothing."""

    entrant: Entrant
    status: str
    reason: str
    result: TrialResult | None = None
    ended_from_outside: bool = False

    @property
    def wrong(self) -> bool:
        """Whether it ran and answered wrongly."""
        return self.result is not None and self.result.fault is Fault.WRONG


def quarantine_key(device: Capabilities, entrant: Entrant) -> QuarantineKey:
    """By what a bad end of ``entrant`` on ``device`` is remembered."""
    runtime = entrant.variant.spec.runtime
    version = next((fact.version for fact in device.runtimes if fact.name == runtime), None)
    return QuarantineKey(
        runtime=f"{runtime} {version or '?'}", device=device_fingerprint(device), variant=entrant.variant.digest,
        mode=entrant.mode,
    )  # fmt: skip


class TrialPool:
    """Owns the processes it starts: ``close`` each lane, or ``close_all``."""

    def __init__(self, request: SelectionRequest, tools: SelectionTools, quarantine: Quarantine) -> None:
        self._request = request
        self._tools = tools
        self._quarantine = quarantine
        self._numbers = itertools.count(1)
        self._lanes: list[LiveLane | ReopenedLane] = []
        self._opening: dict[TrialProcess, tuple[Entrant, float]] = {}

    def quarantine_key(self, entrant: Entrant) -> QuarantineKey:
        """The runtime's version as the device's facts tell it."""
        return quarantine_key(self._request.device, entrant)

    def open_each(
        self, wanted: Sequence[Entrant], *, at_once: int, reopen: bool, give_up_at: float
    ) -> Iterator[Opened | Rejected]:
        """Open all of ``wanted``, ``at_once`` at a time, and give each as it is ready.

        After ``give_up_at`` (by the tools' clock) no more are started once one is ready; the rest is not given at all.
        ``reopen``: close each when it is judged; it is opened anew for its turns. Raises SelectionCanceled.
        """
        known = {entrant.name: rejected for entrant in wanted if (rejected := self._seen_before(entrant)) is not None}
        yield from known.values()
        waiting = [entrant for entrant in wanted if entrant.name not in known]
        any_ready = False
        try:
            while waiting or self._opening:
                while waiting and len(self._opening) < at_once:
                    if any_ready and self._tools.clock() >= give_up_at:
                        waiting.clear()
                        break
                    yield from self._begin(waiting.pop(0))
                for answer in self._answers(reopen):
                    any_ready = any_ready or isinstance(answer, Opened)
                    yield answer
        finally:
            for trial in list(self._opening):
                self._finish(trial).kill()

    def close(self, lane: LiveLane | ReopenedLane) -> None:
        """End that trial. Never raises."""
        if lane in self._lanes:
            self._lanes.remove(lane)
        lane.close()

    def close_all(self) -> None:
        """End all trials. Never raises."""
        for lane in list(self._lanes):
            self.close(lane)

    def _seen_before(self, entrant: Entrant) -> Rejected | None:
        """What an earlier trial on this device says of it: costs no time."""
        known = self._quarantine.entry(self.quarantine_key(entrant), self._request.max_drop)
        if known is None:
            return None
        reason = f"{known.reason} (seen before on this device)"
        if known.kind != "wrong":
            return Rejected(entrant, "quarantined", reason)
        return Rejected(entrant, "refused", reason, TrialResult(phase=Phase.FAILED, fault=Fault.WRONG, reason=reason))

    def _begin(self, entrant: Entrant) -> Iterator[Rejected]:
        """Start a trial; gives a Rejected when it cannot be started."""
        key = self.quarantine_key(entrant)
        self._quarantine.begin(key)
        try:
            trial = self._start(entrant, judge=True)
        except TrialError as error:
            self._quarantine.end(key)
            yield Rejected(entrant, "refused", error.reason, ended_from_outside=not error.is_evidence)
            return
        self._opening[trial] = (entrant, self._tools.clock())

    def _answers(self, reopen: bool) -> Iterator[Opened | Rejected]:
        """Those that are ready or dead by now; waits a moment when there are none."""
        limit_s = self._tools.limits.open_s + self._tools.limits.judge_s
        answered = False
        for trial, (entrant, since) in list(self._opening.items()):
            left_s = since + limit_s - self._tools.clock()
            if trial.has_answered() or left_s <= 0 or trial.exceeds_memory():
                answered = True
                yield self._conclude(trial, entrant, max(0.0, left_s), reopen)
        if self._tools.is_canceled():
            raise SelectionCanceled("canceled")
        if not answered and self._opening:
            time.sleep(POLL_S)

    def _conclude(self, trial: TrialProcess, entrant: Entrant, left_s: float, reopen: bool) -> Opened | Rejected:
        try:
            result = trial.wait_ready(left_s)
        except SelectionCanceled:
            raise
        except TrialError as error:
            self._finish(trial).kill()
            return self.rejected(entrant, error)
        self._finish(trial)
        if result.phase is not Phase.READY:
            trial.close(self._tools.limits.close_s)
            if result.fault is Fault.WRONG:
                key, drop = self.quarantine_key(entrant), self._request.max_drop
                self._quarantine.add(key, "wrong", result.reason, drop)
            return Rejected(entrant, "refused", result.reason, result)
        lane: LiveLane | ReopenedLane = LiveLane(entrant.name, trial, self._tools.limits)
        if reopen:
            lane.close()
            lane = ReopenedLane(entrant.name, lambda: self._start(entrant, judge=False), self._tools.limits)
        lane.peak_rss_mb = result.peak_rss_mb
        self._lanes.append(lane)
        return Opened(entrant, lane, result)

    def rejected(self, entrant: Entrant, error: TrialError) -> Rejected:
        """Judge a death: evidence of a crash, a hang or a lack of memory goes into quarantine."""
        if not error.is_evidence or error.kind == "failed":
            return Rejected(entrant, "refused", error.reason, ended_from_outside=not error.is_evidence)
        self._quarantine.add(self.quarantine_key(entrant), error.kind, error.reason)
        return Rejected(entrant, "quarantined", error.reason)

    def _finish(self, trial: TrialProcess) -> TrialProcess:
        entrant, _ = self._opening.pop(trial)
        self._quarantine.end(self.quarantine_key(entrant))
        return trial

    def _start(self, entrant: Entrant, *, judge: bool) -> TrialProcess:
        request, tools = self._request, self._tools
        number = next(self._numbers)
        file: Path = tools.work_dir / f"trial-{number}.json"
        return start_trial(
            TrialRequest(
                folder=str(request.folder.folder), variant=entrant.variant.name, options=dict(entrant.options),
                result_file=str(tools.work_dir / f"trial-{number}.result.json"), parent_pid=os.getpid(),
                max_drop=request.max_drop, judge=judge, judge_budget_s=tools.limits.judge_s,
                affinity=sorted(request.affinity) if request.affinity is not None else None,
                cache_dir=str(tools.cache_dir / "compiled"),
            ),
            file, is_canceled=tools.is_canceled, environ=tools.environ,
            memory_limit_mb=trial_memory_limit_mb(tools.available_mb(), tools.limits.reserve_mb),
        )  # fmt: skip
