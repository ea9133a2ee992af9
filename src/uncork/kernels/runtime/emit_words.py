"""Words in memory, read inside a function: records of named 64-bit words, and tables of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from uncork.kernels.codegen.emit import I64, Kernel, Value

_Names = tuple[str, ...]


class Words:
    """Named words that lie one behind the other at an address."""

    def __init__(self, k: Kernel, at: Value, names: _Names) -> None:
        self.k, self.at, self._names = k, at, names

    def address(self, name: str) -> Value:
        """The address of a word."""
        return self.at + 8 * self._names.index(name)

    def head(self, name: str) -> Value:
        """A word."""
        return self.word(self.address(name))

    def named(self) -> dict[str, Value]:
        """All words, read at once."""
        return {name: self.head(name) for name in self._names}

    def set(self, name: str, value: Value) -> None:
        """Write a word."""
        self.k.store(value, self.address(name))

    def word(self, address: Value) -> Value:
        """The word at an address."""
        return self.k.load(address, I64)

    def entry(self, table: str, number: Value, names: _Names) -> list[Value]:
        """The words of an entry of a table, whose address is a word."""
        return self._row(self.head(table) + number * (8 * len(names)), names)

    @contextmanager
    def rows(
        self, table: str, names: _Names, only: tuple[Value, Value] | None = None
    ) -> Iterator[list[Value]]:
        """A loop over the entries of a table, whose number is the word before its address; or
        `only` over those from the first to before the second.
        """
        count = self._names[self._names.index(table) - 1]
        begin, end = only or (self.k.integer(0), self.head(count))
        with self.k.loop(begin, end) as i:
            yield self.entry(table, i, names)

    def _row(self, first: Value, names: _Names) -> list[Value]:
        return [self.word(first + 8 * index) for index in range(len(names))]


class WordsAndRows(Words):
    """Words, of which some are the numbers of rows of tables that follow all of them."""

    def __init__(self, k: Kernel, at: Value, names: _Names, columns: Mapping[str, _Names]) -> None:
        super().__init__(k, at, names)
        self._columns = columns
        self._tables: dict[str, Value] = {}
        first = at + 8 * len(names)
        for name, own in columns.items():
            self._tables[name] = first
            first = first + self.head(name) * (8 * len(own))

    @contextmanager
    def following(self, name: str) -> Iterator[list[Value]]:
        """A loop over the rows of a table."""
        columns = self._columns[name]
        with self.k.loop(0, self.head(name)) as i:
            yield self._row(self._tables[name] + i * (8 * len(columns)), columns)


def tell_size(k: Kernel, size: Value, slot: Value, version: Value) -> None:
    """Write a size to its slot; where it is another one, there is a new version of sizes."""
    with k.if_(k.load(slot, I64).equals(size).equals(0)):
        k.store(size, slot)
        k.store(k.load(version, I64) + 1, version)
