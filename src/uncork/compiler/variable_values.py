"""The values of variables from one call to the next."""

from __future__ import annotations

from typing import Union

from uncork.types import Array

#: A storage; how many elements of it along the axis are the variable's value, i64 [1]; and another
#: storage or None, whose contents nobody needs, for rows that are picked next. A call that fails
#: may have written behind the value, and to the other storage.
Kept = tuple[Array, Array, Union[Array, None]]


class Values(dict[str, Union[Array, Kept]]):
    """The values of variables by id; variables that grow have their storage and length.

    `spares` are storages of variables that were reset: their next values grow there. `holders` are
    the variables whose storage others have, too, each with how many do: a call makes a copy before
    it writes, the last one of them excepted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spares: dict[str, Array] = {}
        self.holders: dict[str, list[int]] = {}

    def reset(self) -> None:
        """Forget all values."""
        for name, kept in self.items():
            if isinstance(kept, tuple) and self._is_alone(name):
                self.spares[name] = kept[0]
        for name in [*self.holders]:
            self._leave(name)
        self.clear()

    def forget(self, name: str) -> None:
        """Forget one value."""
        self._leave(name)
        self.pop(name, None)

    def lend(self, name: str) -> tuple[Array | Kept, list[int]]:
        """A value for another one's variable, and how many will have it."""
        value = self[name]
        holders = self.holders.setdefault(name, [1])
        holders[0] += 1
        # A value that is kept whole is replaced, never written to.
        return (*value[:2], None) if isinstance(value, tuple) else value, holders

    def borrow(self, name: str, value: Array | Kept, holders: list[int]) -> None:
        """Take a value that another one has lent."""
        self.forget(name)
        self[name] = value
        self.holders[name] = holders

    def own(self) -> None:
        """Copy the storages that others have, too. A call does so before it writes.

        Two at a time may both copy; that one writes while the other still copies cannot be: who
        copies leaves only then.
        """
        for name in [*self.holders]:
            kept = self.get(name)
            if isinstance(kept, tuple) and not self._is_alone(name):
                self[name] = (kept[0].copy(), *kept[1:])
            self._leave(name)

    def _is_alone(self, name: str) -> bool:
        return name not in self.holders or self.holders[name][0] <= 1

    def _leave(self, name: str) -> None:
        holders = self.holders.pop(name, None)
        if holders is not None:
            holders[0] -= 1

    def release_spares(self) -> None:
        """Give back the storages whose contents nobody needs."""
        self.spares = {}
        self.update(
            {name: (*kept[:2], None) for name, kept in self.items() if isinstance(kept, tuple)}
        )
