"""Negative ids, which Gather counts from the end of its table: rarely what a column of ids means.

Of the model's inputs, those are looked at whose numbers come straight to the indices of such a
Gather. A run counts what columns give them, and rejects such rows when it is asked to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uncork.compiler.arguments import ModelPort
from uncork.compiler.compile import CompiledModel
from uncork.errors import InputError
from uncork.ops.gather import Gather
from uncork.passes.straight_ids import Lookup, lookups
from uncork.types import Array


@dataclass(frozen=True)
class FromEnd:
    """An input of the model whose negative numbers count from the end of a table.

    `rows` are those of the table; None where they are not known at load.
    """

    port: ModelPort
    layer: str
    rows: int | None

    def counted(self, numbers: Array) -> Array:
        """The positions, in the flat array, of numbers that count from the end."""
        if numbers.dtype.kind != "i" or not numbers.size or numbers.min() >= 0:
            return np.zeros(0, np.int64)
        flat = numbers.reshape(-1)
        return np.flatnonzero(flat < 0 if self.rows is None else (flat < 0) & (flat >= -self.rows))

    def refuse(self, numbers: Array) -> None:
        """Refuse negative numbers. Raises InputError with the first of them."""
        if numbers.dtype.kind != "i" or not numbers.size or numbers.min() >= 0:
            return
        place = np.unravel_index(int(np.argmax(numbers.reshape(-1) < 0)), numbers.shape)
        name, where = self.port.name, ", ".join(str(int(i)) for i in place)
        expected = f"0 to {self.rows - 1}" if self.rows else "0 or more"
        raise InputError(
            f"input '{name}' of the model: "
            f"{name}[{where}] is {numbers[place]}, expected {expected}: "
            "negative ids, which would count from the end, are refused",
            self.layer,
            input=name,
            position=tuple(int(i) for i in place),
            value=int(numbers[place]),
            low=0,
            high=self.rows - 1 if self.rows else None,
        )


def counting_from_end(compiled: CompiledModel) -> dict[int, FromEnd]:
    """The inputs of a model whose negative ids count from the end, by number. An input that reads
    several tables has the largest of them.
    """
    result: dict[int, FromEnd] = {}
    for lookup in lookups(compiled.model):
        operation = lookup.node.operation
        if not isinstance(operation, Gather) or not operation.counts_from_end:
            continue
        rows = _rows(lookup)
        for number in lookup.inputs:
            known = result.get(number)
            if known is None or (known.rows is not None and (rows is None or rows > known.rows)):
                result[number] = FromEnd(compiled.inputs[number], lookup.node.label, rows)
    return result


def _rows(lookup: Lookup) -> int | None:
    """The number of rows of a table: the size of the axis that is gathered along. None when it is
    not known.
    """
    data, _, axis = (lookup.model.spec(source) for source in lookup.node.inputs)
    if axis.value is None or data.rank is None:
        return None
    return data.shape[int(axis.value.reshape(-1)[0])].static_size
