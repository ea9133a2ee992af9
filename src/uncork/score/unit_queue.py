"""`UnitQueue`: the units that wait for a worker, and which one it gets.

A row group that was cut is best read on by who has begun it.
"""

from __future__ import annotations

from collections.abc import Iterable

from uncork.score.source import Unit


class UnitQueue:
    """The units that wait, in order. Not for several threads at once."""

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        self._units = list(units)

    def __len__(self) -> int:
        return len(self._units)

    def add(self, units: Iterable[Unit]) -> None:
        """Add more units, or some that were taken and are not scored."""
        self._units = sorted([*self._units, *units], key=lambda unit: unit.number)

    def take(self, last: Unit | None) -> Unit | None:
        """The unit for a worker whose last one this was; None when there is none.

        It is the one that goes on where the last one ended inside of a row group. If there is none,
        the first that begins where a group does; and otherwise, when others are reading all groups
        that are left, one in the middle, far from where they are.
        """
        if not self._units:
            return None
        place = next(
            (i for i, unit in enumerate(self._units) if last is not None and goes_on(last, unit)),
            None,
        )
        if place is None:
            place = next(
                (i for i, unit in enumerate(self._units) if not unit.spans[0].skip),
                len(self._units) // 2,
            )
        return self._units.pop(place)


def goes_on(last: Unit, unit: Unit) -> bool:
    """Whether a unit begins where the last one ended, in the same row group."""
    before, after = last.spans[-1], unit.spans[0]
    return (before.file, before.last, before.skip + before.rows) == (
        after.file,
        after.first,
        after.skip,
    ) and after.skip > 0
