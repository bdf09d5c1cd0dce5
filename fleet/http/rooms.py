"""What the routes work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleet.http.api_types import Health
from fleet.services.access import Access
from fleet.services.bundles import Bundles
from fleet.services.enrolment import Enrolment
from fleet.services.reading import Reading
from fleet.services.rollouts import Rollouts


@dataclass(frozen=True)
class Rooms:
    """``health`` and ``metrics`` are asked at each request; they must be quick."""

    access: Access
    enrolment: Enrolment
    bundles: Bundles
    rollouts: Rollouts
    reading: Reading
    health: Callable[[], Health]
    metrics: Callable[[], str]
