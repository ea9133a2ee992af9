"""The emitter of look-ups of a sparse matrix: its entries row by row, summed as they are looked up.

Entries that are not in the order of their rows, or lie outside of the matrix, and ids outside of
the table make it give up.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I64, INDEX_TYPES, Kernel, Value, Variable, pieces
from uncork.kernels.embedding.spec_sparse import ARGUMENTS, Lookup
from uncork.kernels.runtime.target import Target

#: Vectors that are summed at a time.
_UNROLL = 8


def emit_lookup(spec: Lookup, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, ARGUMENTS, machine)
    a = dict(zip(ARGUMENTS, k.arguments))
    index = INDEX_TYPES[spec.indices]
    given_rows = k.load(a["dense_shape"], index).to(I64)
    k.stop_unless(given_rows.equals(a["rows"]), k.integer(1))
    parts = pieces(spec.columns, spec.lanes)
    for first in range(0, len(parts), _UNROLL):
        _some_columns(k, spec, a, parts[first : first + _UNROLL])
    k.finish()
    return k.text()


def _some_columns(
    k: Kernel, spec: Lookup, a: dict[str, Value], parts: list[tuple[int, int]]
) -> None:
    """All entries, for some of the columns."""
    value, index = INDEX_TYPES[spec.values], INDEX_TYPES[spec.indices]
    width = k.load(a["dense_shape"] + index.bytes, index).to(I64)
    place = k.variable(k.integer(0))
    row_of = k.variable(k.integer(-1))

    def look() -> None:
        """The row of the next entry, -1 after the last one."""
        row_of.set(k.integer(-1))
        with k.if_(place.get() < a["count"], likely=True):
            row_of.set(k.load(a["indices"] + place.get() * (2 * index.bytes), index).to(I64))

    look()
    sums = [k.variable(k.constant(0.0, F32, lanes)) for _, lanes in parts]
    number = k.variable(k.integer(0))
    with k.loop(0, a["rows"]) as row:
        for total, (_, lanes) in zip(sums, parts):
            total.set(k.constant(0.0, F32, lanes))
        number.set(k.integer(0))
        with k.while_(lambda: row_of.get().equals(row)):
            id_ = k.load(a["values"] + place.get() * value.bytes, value).to(I64)
            if spec.filtered:
                with k.if_(id_ >= 0, likely=True):
                    _add(k, a, id_, width, place, number, index.bytes, spec, sums, parts)
            else:
                _add(k, a, id_, width, place, number, index.bytes, spec, sums, parts)
            place.set(place.get() + 1)
            look()
        target = a["output"] + row * (spec.columns * 4)
        with k.if_else(number.get() > 0, likely=True) as (some, none):
            with some:
                for total, (first, lanes) in zip(sums, parts):
                    result = total.get()
                    k.store(
                        result / k.splat(number.get().to(F32), lanes) if spec.mean else result,
                        target + first * 4,
                    )
            with none:
                for first, lanes in parts:
                    k.store(k.constant(0.0, F32, lanes), target + first * 4)
    k.stop_unless(place.get().equals(a["count"]), k.integer(1))


def _add(
    k: Kernel,
    a: dict[str, Value],
    id_: Value,
    width: Value,
    place: Variable,
    number: Variable,
    index_bytes: int,
    spec: Lookup,
    sums: list[Variable],
    parts: list[tuple[int, int]],
) -> None:
    """One entry that counts."""
    index = INDEX_TYPES[spec.indices]
    column = k.load(a["indices"] + place.get() * (2 * index_bytes) + index_bytes, index).to(I64)
    k.stop_unless(id_.below(a["entries"]) & column.below(width), k.integer(1))
    source = a["table"] + id_ * (spec.columns * 4)
    for total, (first, lanes) in zip(sums, parts):
        total.set(total.get() + k.load(source + first * 4, F32, lanes))
    number.set(number.get() + 1)
