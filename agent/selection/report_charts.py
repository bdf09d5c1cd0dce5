"""Charts of a race as SVG text: pure. Colours come from the page's style sheet by class."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.selection.statistics import quantile

WIDTH, LEFT, ROW = 860, 300, 26
PLOT_HEIGHT, MARGIN = 320, 56


@dataclass(frozen=True)
class Point:
    """One candidate in a scatter chart; ``size`` sets its area, ``marked`` the winner."""

    name: str
    x: float
    y: float
    size: float = 1.0
    marked: bool = False


def distributions(samples_us: Mapping[str, Sequence[float]], marked: str) -> str:
    """A box per candidate on a logarithmic axis: line p5-p99, box p25-p75, stroke at the median, tick at p90."""
    rows = sorted(samples_us.items(), key=lambda item: quantile(item[1], 0.9))
    low = min(quantile(values, 0.05) for _, values in rows) / 1e3
    high = max(quantile(values, 0.99) for _, values in rows) / 1e3
    axis = _LogAxis(low, high, LEFT, WIDTH - 20)
    height = ROW * len(rows) + 40
    parts = [_grid(axis, 8, height - 30)]
    for number, (name, values) in enumerate(rows):
        y = 20 + number * ROW
        p5, p25, p50, p75, p90, p99 = (axis.at(quantile(values, q) / 1e3) for q in (0.05, 0.25, 0.5, 0.75, 0.9, 0.99))
        kind = "mark" if name == marked else "box"
        parts.append(
            f'<text class="name" x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{_text(name)}</text>'
            f'<line class="whisker" x1="{p5:.1f}" x2="{p99:.1f}" y1="{y}" y2="{y}"/>'
            f'<rect class="{kind}" x="{p25:.1f}" y="{y - 8}" width="{max(1.0, p75 - p25):.1f}" height="16" rx="2"/>'
            f'<line class="median" x1="{p50:.1f}" x2="{p50:.1f}" y1="{y - 8}" y2="{y + 8}"/>'
            f'<line class="tick" x1="{p90:.1f}" x2="{p90:.1f}" y1="{y - 5}" y2="{y + 5}"/>'
        )
    return _svg(height, parts)


def lines_over_threads(series: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """p90 in ms against threads, one line per series, labelled at its end."""
    points = [point for line in series.values() for point in line]
    threads = sorted({count for count, _ in points})
    axis = _LogAxis(min(y for _, y in points), max(y for _, y in points), PLOT_HEIGHT - 40, 16)
    step = (WIDTH - LEFT - MARGIN) / max(1, len(threads) - 1)
    column = {count: MARGIN + number * step for number, count in enumerate(threads)}
    parts = [
        f'<text class="axis" x="{x:.1f}" y="{PLOT_HEIGHT - 12}" text-anchor="middle">{count}</text>'
        for count, x in column.items()
    ]
    parts += [
        f'<line class="grid" x1="{MARGIN}" x2="{WIDTH - LEFT}" y1="{axis.at(v):.1f}" y2="{axis.at(v):.1f}"/>'
        f'<text class="axis" x="{MARGIN - 8}" y="{axis.at(v) + 4:.1f}" text-anchor="end">{_number(v)} ms</text>'
        for v in axis.ticks()
    ]
    for number, (name, line) in enumerate(sorted(series.items())):
        ordered = sorted(line)
        path = " ".join(f"{column[count]:.1f},{axis.at(y):.1f}" for count, y in ordered)
        dots = "".join(f'<circle cx="{column[c]:.1f}" cy="{axis.at(y):.1f}" r="3.5"/>' for c, y in ordered)
        count, last = ordered[-1]
        label = f'<text x="{column[count] + 10:.1f}" y="{axis.at(last) + 4:.1f}">{_text(name)}</text>'
        parts.append(f'<g class="series s{number % 6}"><polyline points="{path}"/>{dots}{label}</g>')
    return _svg(PLOT_HEIGHT, parts)


def scatter(points: Sequence[Point], x_unit: str, y_unit: str) -> str:
    """Speed to the right is slower, memory upwards is more; the area of a dot is the size of the file."""
    across = _LogAxis(min(p.x for p in points), max(p.x for p in points), MARGIN + 10, WIDTH - LEFT)
    top = max(p.y for p in points) * 1.1 or 1.0
    largest = max(p.size for p in points) or 1.0
    parts = [_grid(across, 8, PLOT_HEIGHT - 30, x_unit)]
    for share in (0.0, 0.5, 1.0):
        y = PLOT_HEIGHT - 36 - share * (PLOT_HEIGHT - 60)
        parts.append(f'<text class="axis" x="{MARGIN}" y="{y:.1f}" text-anchor="end">{share * top:.0f} {y_unit}</text>')
    for point in sorted(points, key=lambda p: -p.size):
        x, y = across.at(point.x), PLOT_HEIGHT - 36 - point.y / top * (PLOT_HEIGHT - 60)
        radius = 4 + 12 * math.sqrt(point.size / largest)
        kind = "mark" if point.marked else "box"
        title = f"{point.name}: {_number(point.x)} {x_unit}, {point.y:.0f} {y_unit}"
        parts.append(f'<circle class="{kind} dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
                     f"<title>{_text(title)}</title></circle>")  # fmt: skip
        if point.marked:
            parts.append(f'<text class="name" x="{x + radius + 4:.1f}" y="{y + 4:.1f}">{_text(point.name)}</text>')
    return _svg(PLOT_HEIGHT, parts)


class _LogAxis:
    """Maps positive values to coordinates, logarithmically."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        low, high = max(low, 1e-6), max(high, 1e-6)
        if high / low < 1.2:
            low, high = low / 1.1, high * 1.1
        self._low, self._span = math.log10(low), math.log10(high) - math.log10(low)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(max(value, 1e-6)) - self._low) / self._span
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round values in the range: 1, 2, 5 times powers of ten."""
        first, last = math.floor(self._low), math.ceil(self._low + self._span)
        rounds = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
        return [v for v in rounds if self._low <= math.log10(v) <= self._low + self._span]


def _grid(axis: _LogAxis, top: float, bottom: float, unit: str = "ms") -> str:
    return "".join(
        f'<line class="grid" x1="{axis.at(v):.1f}" x2="{axis.at(v):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="axis" x="{axis.at(v):.1f}" y="{bottom + 18}" text-anchor="middle">{_number(v)} {unit}</text>'
        for v in axis.ticks()
    )


def _svg(height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{"".join(parts)}</svg>'


def _number(value: float) -> str:
    return f"{value:.3g}"


def _text(text: str) -> str:
    return html.escape(text)
