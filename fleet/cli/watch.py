"""Follows a rollout: prints what changes, on stderr, until it ends, stops, or only late devices are awaited."""

from __future__ import annotations

import time
from collections.abc import Callable

from fleet.cli.output import say
from fleet.cli.rollout_text import device_line, headline, wave_line
from fleet.client import FleetClient
from fleet.http.api_types import RolloutView

EVERY_S = 0.5
MOVING = ("running", "rolling_back")


def watch(client: FleetClient, rollout: str, *, sleep: Callable[[float], None] = time.sleep) -> RolloutView:
    """Returns the last view."""
    told: set[str] = set()
    while True:
        view = client.rollout(rollout)
        for line in (headline(view), *map(wave_line, view.waves), *map(device_line, view.devices)):
            if line not in told:
                say(line)
                told.add(line)
        if view.state not in MOVING or view.awaiting_late:
            return view
        sleep(EVERY_S)
