"""Numbers out of text that anybody may have written: bounded, finite, or None. Pure."""

from __future__ import annotations

import math
import re

LARGEST = 10**15
"""Nothing that a machine says of itself is larger (a petabyte in bytes); more is a damaged file."""


def whole(text: str | None) -> int | None:
    """A number of decimal digits alone, blanks around it aside."""
    digits = (text or "").strip()
    if not re.fullmatch(r"[0-9]{1,16}", digits):
        return None
    number = int(digits)
    return number if number <= LARGEST else None


def real(text: str | None) -> float | None:
    """A finite decimal fraction."""
    try:
        number = float((text or "").strip())
    except ValueError:
        return None
    return number if math.isfinite(number) and abs(number) <= LARGEST else None
