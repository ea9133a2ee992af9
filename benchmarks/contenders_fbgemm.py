"""FBGEMM's contenders: the look-up that inference uses on CPUs (`fbgemm-gpu-cpu`), an operator of
torch on the bytes of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.timing import Contender
from uncork.types import Array

#: FBGEMM's numbers for types of elements, of tables and of results.
_TYPES = {"float32": 0, "float16": 1}
#: Its numbers for sums, and for a table in the memory of the CPU.
_SUM, _HOST = 0, 3


def bags(
    torch: Any,
    table: Array,
    indices: Sequence[Array],
    offsets: Sequence[Array],
    weights: Sequence[Array] | None,
) -> list[Contender]:
    """Bags by their offsets. FBGEMM is given the end of the last bag too, as its callers have it,
    and weights in f32.
    """
    ends = [
        torch.from_numpy(np.append(starts, len(ids)).astype(starts.dtype))
        for starts, ids in zip(offsets, indices, strict=True)
    ]
    look_up = _look_up(torch, table, indices, weights)
    return [_contender("fbgemm", lambda i: look_up(i, ends[i]))]


def segments(
    torch: Any,
    table: Array,
    indices: Sequence[Array],
    places: Sequence[Array],
    number: int,
    weights: Sequence[Array] | None,
) -> list[Contender]:
    """Segments, whose offsets torch finds."""
    small = indices[0].dtype == np.int32
    numbers = torch.arange(number + 1, dtype=torch.int32 if small else torch.int64)
    segment = [torch.from_numpy(own) for own in places]
    look_up = _look_up(torch, table, indices, weights)
    return [
        _contender(
            "fbgemm searchsorted",
            lambda i: look_up(i, torch.searchsorted(segment[i], numbers, out_int32=small)),
        )
    ]


def _contender(name: str, call: Callable[[int], Any]) -> Contender:
    return Contender(name, "fbgemm", "direct", call, lambda result: [result.numpy()])


def _look_up(
    torch: Any, table: Array, indices: Sequence[Array], weights: Sequence[Array] | None
) -> Callable[[int, Any], Any]:
    """The operator on set `i` of the indices, with the offsets of all bags and where they end."""
    kind, columns = _TYPES[table.dtype.name], table.shape[1]
    source = torch.from_numpy(table.reshape(-1).view(np.uint8))
    nothing = torch.empty(0, dtype=torch.uint8)
    place = torch.full((1,), _HOST, dtype=torch.int32)
    begin = torch.zeros(1, dtype=torch.int64)
    kinds = torch.full((1,), kind, dtype=torch.uint8)
    ends_of_columns = torch.tensor([0, columns], dtype=torch.int32)
    halves, singles = (columns if kind == other else 0 for other in (1, 0))
    ids = [torch.from_numpy(own) for own in indices]
    factors = [torch.from_numpy(own.astype(np.float32)) for own in weights] if weights else None
    operator = torch.ops.fbgemm.int_nbit_split_embedding_codegen_lookup_function.default

    def look_up(i: int, offsets: Any) -> Any:
        return operator(
            source,
            nothing,  # a table in memory that a GPU shares
            place,
            begin,
            kinds,
            ends_of_columns,
            columns,
            *(0, 0, 0),  # columns of 2, 4 and 8 bits
            halves,
            singles,
            ids[i],
            offsets,
            _SUM,
            None if factors is None else factors[i],
            kind,
        )

    return look_up
