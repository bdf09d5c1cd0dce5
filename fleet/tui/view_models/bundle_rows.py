"""The table of bundles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fleet.http.api_types import BundleView, DeviceView
from fleet.tui.view_models import wording
from fleet.tui.view_models.columns import Column
from fleet.tui.view_models.spans import Cells, Listing, Span, Tone

COLUMNS = (
    Column("name", "BUNDLE", 10, 24),
    Column("version", "VERSION", 8, 12),
    Column("signed", "SIGNED", 9),
    Column("serving", "SERVED BY", 9, right=True),
    Column("size", "SIZE", 7, right=True, priority=1),
    Column("age", "AGE", 6, right=True, priority=2),
    Column("variants", "VARIANTS", 10, 40, grows=True),
)


class BundlesAnswer(NamedTuple):
    """What the page is made of."""

    bundles: list[BundleView]
    devices: list[DeviceView]


def serving_counts(devices: Iterable[DeviceView]) -> Counter[str]:
    """By digest: how many devices say that they serve it."""
    return Counter(model.digest for device in devices for model in device.models if model.digest is not None)


def listing(answer: BundlesAnswer, now_ms: int) -> Listing:
    """One row for each bundle, by name; the newest registered first."""
    bundles: Sequence[BundleView] = sorted(answer.bundles, key=lambda bundle: (bundle.name, -bundle.registered_ms))
    serving = serving_counts(answer.devices)
    return Listing(
        [key_of(bundle) for bundle in bundles],
        lambda position: cells(bundles[position], serving[bundles[position].digest], now_ms),
    )


def key_of(bundle: BundleView) -> str:
    return f"{bundle.name}\n{bundle.version}"


def cells(bundle: BundleView, serving: int, now_ms: int) -> Cells:
    """One row, in the order of COLUMNS. Unsigned is red, in capitals."""
    return (
        Span(bundle.name, Tone.STRONG),
        Span(bundle.version, Tone.STRONG),
        Span("signed", Tone.GOOD) if bundle.signed else Span("UNSIGNED", Tone.BAD),
        Span(f"{serving:,}", Tone.PLAIN if serving else Tone.FAINT),
        Span(wording.size(bundle.size_bytes)),
        Span(wording.age(bundle.registered_ms, now_ms), Tone.FAINT),
        Span(f"{len(bundle.variants)}: {', '.join(bundle.variants)}" if bundle.variants else wording.NONE),
    )
