"""A rollout in words. Pure."""

from __future__ import annotations

from fleet.domain.plain_words import state_text
from fleet.http.api_types import RolloutDeviceView, RolloutView, WaveView
from fleet.http.row_words import row_state, without_sent_back


def lines(view: RolloutView) -> list[str]:
    """The whole picture."""
    return [headline(view), *(f"  {wave_line(wave)}" for wave in view.waves), *(f"    {row}" for row in _rows(view))]


def headline(view: RolloutView) -> str:
    """One line: what, state, why."""
    why = f": {view.why}" if view.why else ""
    return f"{view.id}  {view.name} ({view.bundle} {view.version})  {state_text(view.state)}{why}"


def wave_line(wave: WaveView) -> str:
    """One line for a wave."""
    counts = wave.counts
    parts = [f"{counts.succeeded} of {counts.targeted} committed"] if counts.targeted or not counts.withdrawn else []
    parts += [f"{number} {word}" for number, word in (
        (counts.failed, "failed"), (counts.in_flight, "in flight"), (counts.stragglers, "late"),
        (counts.withdrawn, "withdrawn"),
    ) if number]  # fmt: skip
    name = "tail wave" if wave.tail else f"wave {wave.number}"
    why = f"; {wave.why}" if wave.why else ""
    return f"{name} ({wave.policy.size}): {state_text(wave.state)}; {', '.join(parts)}{why}"


def device_line(row: RolloutDeviceView) -> str:
    """One line for a device."""
    offline = "" if row.online else ", offline"
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.device}  {row_state(row)}{offline}{reason}" + (
        f"; regressed: {row.regressed}" if row.regressed else ""
    )


def _rows(view: RolloutView) -> list[str]:
    return [device_line(row) for row in without_sent_back(view.devices)]
