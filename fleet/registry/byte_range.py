"""HTTP byte ranges (RFC 9110, section 14), as far as a resumed download needs them. Pure."""

from __future__ import annotations

import re

_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class NotSatisfiable(ValueError):
    """The range lies outside the blob: 416."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """First byte and one past the last; None: send the whole (no range, several, or a form that is not understood).

    >>> parse_range("bytes=10-", 100), parse_range("bytes=-10", 100), parse_range("bytes=0-9,20-29", 100)
    ((10, 100), (90, 100), None)
    """
    match = _ONE.fullmatch(header.strip()) if header else None
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        if int(last) == 0:
            raise NotSatisfiable(header)
        return max(0, size - int(last)), size
    start = int(first)
    end = min(size, int(last) + 1) if last else size
    if last and int(last) < start:
        return None
    if start >= size:
        raise NotSatisfiable(header)
    return start, end
