"""Follows a rollout: tells what changes until it ends, stops, or only late devices are awaited."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleet.cli.rollout_text import device_line, headline, wave_line
from fleet.client import FleetClient
from fleet.http.api_types import RolloutView
from fleet.http.row_words import without_sent_back

EVERY_S = 0.5
MOVING = ("running", "rolling_back")


def watch(
    client: FleetClient, rollout: str, tell: Callable[[str], None], *, sleep: Callable[[float], None] = time.sleep
) -> RolloutView:  # fmt: skip
    """Tells each line once. Returns the last view, of which every line has been told."""
    told: set[str] = set()
    while True:
        view = client.rollout(rollout)
        for line in (headline(view), *map(wave_line, view.waves), *map(device_line, without_sent_back(view.devices))):
            if line not in told:
                tell(line)
                told.add(line)
        if view.state not in MOVING or view.awaiting_late:
            return view
        sleep(EVERY_S)
