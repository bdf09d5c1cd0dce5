"""Which columns of a table fit a width, and how wide each is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

GAP = 1


@dataclass(frozen=True)
class Column:
    """``priority`` 0 stays always; higher ones are left out first when the table is narrow. ``ideal`` 0: as
    ``minimum``. ``grows``: takes what is left over. ``extra``: shown only when all others have their ideal width."""

    key: str
    title: str
    minimum: int
    ideal: int = 0
    right: bool = False
    priority: int = 0
    grows: bool = False
    extra: bool = False


@dataclass(frozen=True)
class Placed:
    """A column as shown: ``position`` among all columns, ``width`` in cells."""

    position: int
    column: Column
    width: int


def place(columns: Sequence[Column], width: int, needs: Mapping[str, int] | None = None) -> list[Placed]:
    """The columns shown in ``width`` cells with GAP between them, in their order.

    needs: the widest content by column key, for those that need not be wider than it (or than their title).
    """
    columns = [_needing(column, needs[column.key]) if needs and column.key in needs else column for column in columns]
    shown = _without_extras(columns, width)
    while len(shown) > 1 and _needed(columns, shown) > width:
        least = max(shown, key=lambda position: (columns[position].priority, position))
        if columns[least].priority == 0:
            break
        shown.remove(least)
    widths = {position: columns[position].minimum for position in shown}
    left = width - _needed(columns, shown)
    left = _spread(columns, widths, left)
    growing = [position for position in shown if columns[position].grows]
    for turn, position in enumerate(growing):
        portion = left // (len(growing) - turn) if left > 0 else 0
        widths[position] += portion
        left -= portion
    return [Placed(position, columns[position], widths[position]) for position in shown]


def _needing(column: Column, need: int) -> Column:
    most = max(need, len(column.title) + 1)
    return replace(column, minimum=min(column.minimum, most), ideal=min(max(column.ideal, column.minimum), most))


def _without_extras(columns: Sequence[Column], width: int) -> list[int]:
    """All positions but those of extras for which there is no room, the least important left out first."""
    shown = list(range(len(columns)))
    extras = sorted((i for i in shown if columns[i].extra), key=lambda i: columns[i].priority)
    while extras:
        wanted = sum(columns[i].minimum if columns[i].extra else _ideal(columns[i]) for i in shown)
        if wanted + GAP * (len(shown) - 1) <= width:
            break
        shown.remove(extras.pop())
    return shown


def _ideal(column: Column) -> int:
    return max(column.minimum, column.ideal)


def _needed(columns: Sequence[Column], shown: list[int]) -> int:
    return sum(columns[position].minimum for position in shown) + GAP * (len(shown) - 1)


def _spread(columns: Sequence[Column], widths: dict[int, int], left: int) -> int:
    """Widens columns to their ideal, those that lack least first, so that many are whole; what is left."""
    lacks = {position: columns[position].ideal - width for position, width in widths.items()}
    for position in sorted(lacks, key=lambda position: (lacks[position], position)):
        more = max(0, min(lacks[position], left))
        widths[position] += more
        left -= more
    return left
