"""The line over the table of devices. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fleet.http.api_types import DeviceView
from fleet.tui.view_models.spans import Line, Span, Tone
from fleet.tui.view_models.wording import count


def caption(devices: Sequence[DeviceView], shown: Collection[str], search: str, order: str) -> Line:
    """How many there are, how many are shown and in which order."""
    offline = sum(not device.online for device in devices)
    absent = Span(f", {offline:,} offline", Tone.BUSY) if offline else Span("")
    spans = (Span(count(len(devices), "device"), Tone.STRONG), absent)
    if search:
        return (*spans, Span(f"; {len(shown):,} with ", Tone.FAINT), Span(search), Span(f"; {order}", Tone.FAINT))
    return (*spans, Span(f"; {order}", Tone.FAINT))
