"""A rollout in words. Pure."""

from __future__ import annotations

from fleet.http.api_types import RolloutDeviceView, RolloutView, WaveView


def lines(view: RolloutView) -> list[str]:
    """The whole picture."""
    return [headline(view), *(f"  {wave_line(wave)}" for wave in view.waves), *(f"    {row}" for row in _rows(view))]


def headline(view: RolloutView) -> str:
    """One line: what, state, why."""
    why = f": {view.why}" if view.why else ""
    return f"{view.id}  {view.name} ({view.bundle} {view.version})  {view.state}{why}"


def wave_line(wave: WaveView) -> str:
    """One line for a wave."""
    counts = wave.counts
    parts = [f"{counts.succeeded} of {counts.targeted} committed"]
    parts += [f"{number} {word}" for number, word in (
        (counts.failed, "failed"), (counts.in_flight, "in flight"), (counts.stragglers, "late"),
        (counts.withdrawn, "withdrawn"),
    ) if number]  # fmt: skip
    name = "tail wave" if wave.tail else f"wave {wave.number}"
    return f"{name} ({wave.policy.size}): {wave.state}; {', '.join(parts)}" + (f"; {wave.why}" if wave.why else "")


def device_line(row: RolloutDeviceView) -> str:
    """One line for a device."""
    back = " (going back)" if row.kind == "back" else ""
    offline = "" if row.online else ", offline"
    reason = f": {row.reason}" if row.reason else ""
    return f"{row.device}{back}  {row.state}{offline}{reason}" + (
        f"; regressed: {row.regressed}" if row.regressed else ""
    )


def _rows(view: RolloutView) -> list[str]:
    return [device_line(row) for row in view.devices]
