"""What an operator can do to a rollout: key, word, what will happen, and what to say when it cannot be done. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.http.api_types import RolloutView
from fleet.tui.view_models.rollout_rows import Rollout
from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.text_width import paragraph
from fleet.tui.view_models.wording import count, state_text


@dataclass(frozen=True)
class Verb:
    """``key``: the letter that asks for it. ``name``: as the API calls it."""

    name: str
    key: str
    title: str
    effect: Callable[[RolloutView], list[str]]
    is_final: bool = False


def _start(rollout: RolloutView) -> list[str]:
    waves = count(sum(not wave.tail for wave in rollout.waves), "wave")
    return [
        f"Devices get {rollout.bundle} {rollout.version} in {waves}, at most {rollout.max_in_flight:,} at once.",
        "Which devices, the server decides now: all that match. Older rollouts of this model lose those they have not "
        "reached.",
    ]


def _pause(rollout: RolloutView) -> list[str]:
    flying = rollout.counts.in_flight
    goes_on = f"{count(flying, 'device')} in flight {'goes' if flying == 1 else 'go'} on to the end."
    return ["No further device is asked until it is resumed.", goes_on if flying else "No device is in flight."]


def _resume(rollout: RolloutView) -> list[str]:
    failed = [wave for wave in rollout.waves if wave.state == "failed"]
    lines = ["Devices are asked again, from where it stopped."]
    if failed:
        failures = sum(wave.counts.failed for wave in failed)
        lines.append(f"You accept the failures so far ({count(failures, 'device')}): they no longer count.")
    return lines


def _abort(rollout: RolloutView) -> list[str]:
    lines = ["It ends for good and cannot be resumed."]
    open_ = rollout.counts.targeted - rollout.counts.executed
    if open_:
        lines.append(f"{count(open_, 'device')} not at the end: canceled, keeping what is served there now.")
    if rollout.counts.succeeded:
        lines.append(f"{count(rollout.counts.succeeded, 'device')} committed: that stays.")
    return lines


def _rollback(rollout: RolloutView) -> list[str]:
    back = count(rollout.counts.succeeded, "device")
    return [
        f"{back} committed: back to what was served there before.",
        "Devices under way are canceled. It cannot be resumed.",
    ]


VERBS = (
    Verb("start", "s", "Start", _start),
    Verb("pause", "p", "Pause", _pause),
    Verb("resume", "r", "Resume", _resume),
    Verb("abort", "a", "Abort", _abort, is_final=True),
    Verb("rollback", "b", "Roll back", _rollback, is_final=True),
)


def verb(name: str) -> Verb:
    return next(each for each in VERBS if each.name == name)


def objection(wanted: Verb, rollout: RolloutView) -> str | None:
    """Why it cannot be done now and what can; None: it can."""
    if wanted.name in rollout.verbs:
        return None
    allowed = [f"{each.key} {each.title.lower()}" for each in VERBS if each.name in rollout.verbs]
    can = f"possible now: {', '.join(allowed)}" if allowed else "nothing more can be done to it"
    return f"cannot {wanted.title.lower()}: {rollout.name} is {state_text(rollout.state)}; {can}"


def question_lines(wanted: Verb, shown: Rollout, width: int) -> list[Line]:
    """What will happen, for the confirmation."""
    rollout = shown.view
    lines: list[Line] = [(Span(f"{wanted.title} {rollout.name}?", Tone.BAD if wanted.is_final else Tone.STRONG),)]
    for text in wanted.effect(rollout):
        lines += paragraph((Span("- "),), text, width)
    if shown.unsigned and wanted.name in ("start", "resume"):
        lines += paragraph((Span("! ", Tone.BAD),), "The bundle is UNSIGNED: nobody vouches for it.", width, Tone.BAD)
    return lines


def done_text(wanted: Verb, rollout: RolloutView) -> str:
    """What the server made of it."""
    return f"{wanted.title.lower()}: {rollout.name} is now {state_text(rollout.state)}"
