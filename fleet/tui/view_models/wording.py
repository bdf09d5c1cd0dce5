"""Numbers, times and sizes as an operator reads them. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo

from fleet.domain.plain_words import count, significant, state_text

__all__ = ["NONE", "age", "clock_time", "count", "cpus", "duration", "milliseconds", "number", "percent", "ratio",
           "share", "size", "state_text"]  # fmt: skip
NONE = "-"
_STEPS = ((60, "s", 1), (3600, "min", 60), (48 * 3600, "h", 3600))


def duration(seconds: float) -> str:
    """ "5 s", "3 min", "7 h", "4 d"; a clock that runs ahead gives "0 s"."""
    seconds = max(0.0, seconds)
    for below, unit, divisor in _STEPS:
        if seconds < below:
            return f"{int(seconds // divisor)} {unit}"
    return f"{int(seconds // 86400)} d"


def age(then_ms: int | None, now_ms: int) -> str:
    """How long ago, or "-" when unknown."""
    return NONE if then_ms is None else duration((now_ms - then_ms) / 1000)


def milliseconds(value: float | None) -> str:
    """Three significant digits, without the unit."""
    if value is None:
        return NONE
    return significant(value)


def cpus(value: float | None) -> str:
    """Such as "1 CPU" and "1.5 CPUs"."""
    return f"{number(value)} CPU{'' if value == 1 else 's'}"


def ratio(value: float | None, times: str) -> str:
    """A factor with its sign: "1.84x"."""
    return NONE if value is None else f"{value:.2f}{times}"


def share(value: float | None) -> str:
    """An accuracy: "0.975"."""
    return NONE if value is None else f"{value:.3f}"


def percent(part: int, whole: int) -> str:
    """ "50 %"; never rounded up to 100 nor down to 0."""
    if not whole:
        return "0 %"
    exact = 100 * part / whole
    rounded = round(exact)
    if 0 < part < whole and rounded in (0, 100):
        return "<1 %" if rounded == 0 else ">99 %"
    return f"{rounded} %"


def size(count: int) -> str:
    """ "1.2 MB" (decimal units)."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5 or unit == "GB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" or value >= 9.95 else f"{value:.1f} {unit}"


def clock_time(ms: int, now_ms: int, zone: tzinfo | None) -> str:
    """ "14:02:07" today, else "03-17 14:02", in ``zone`` (None: this machine's)."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, zone)
        today = datetime.fromtimestamp(now_ms / 1000, zone).date()
    except (OverflowError, ValueError, OSError):
        return NONE
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%m-%d %H:%M")


def number(value: float | None) -> str:
    """Such as "1.5" and "4"."""
    return NONE if value is None else f"{value:g}"
