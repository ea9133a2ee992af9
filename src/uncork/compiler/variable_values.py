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

    `spares` are storages of variables that were reset: their next values grow there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.spares: dict[str, Array] = {}

    def reset(self) -> None:
        """Forget all values."""
        self.spares |= {name: kept[0] for name, kept in self.items() if isinstance(kept, tuple)}
        self.clear()

    def release_spares(self) -> None:
        """Give back the storages whose contents nobody needs."""
        self.spares = {}
        self.update(
            {name: (*kept[:2], None) for name, kept in self.items() if isinstance(kept, tuple)}
        )
