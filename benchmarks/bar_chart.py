"""A grouped bar chart as one SVG file, readable on light and dark pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

LABEL, PLOT, BAR, GAP, HEAD = 190, 520, 14, 14, 58
COLOURS = ("#8a8f98", "#c48a1a", "#1f77b4", "#2a9d5c", "#a04ba0", "#c0392b")


def bar_chart(title: str, unit: str, groups: Mapping[str, Mapping[str, float]], series: Sequence[str]) -> str:
    """``groups``: label to value by series; longer is more. Values are written at the bars' ends."""
    largest = max((value for group in groups.values() for value in group.values()), default=1.0)
    height = HEAD + len(groups) * (len(series) * BAR + GAP) + 10
    width = LABEL + PLOT + 80
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    x = 10.0
    for name, colour in zip(series, COLOURS, strict=False):
        parts.append(f'<rect x="{x:.0f}" y="32" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="41">{escape(name)}</text>')
        x += 34 + 6.6 * len(name)
    y = HEAD
    for label, group in groups.items():
        middle = y + len(series) * BAR / 2 + 4
        parts.append(f'<text x="{LABEL - 8}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>')
        for name, colour in zip(series, COLOURS, strict=False):
            if name in group:
                parts += _bar(y, group[name], largest, colour, unit)
            y += BAR
        y += GAP
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(y: float, value: float, largest: float, colour: str, unit: str) -> list[str]:
    length = max(1.0, PLOT * value / largest)
    return [
        f'<rect x="{LABEL}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{colour}"/>',
        f'<text x="{LABEL + length + 4:.1f}" y="{y + BAR - 4}" font-size="11">{value:.3g}{escape(unit)}</text>',
    ]
