"""The emitter of SparseFillEmptyRows: an entry in every row of a sparse matrix whose entries are in
order.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, U8, Kernel, Value, emitter
from uncork.kernels.finding.spec import CountFilled, FillRows

_ITEMS = {1: INDEX_TYPES["u8"], 2: INDEX_TYPES["u16"], 4: INDEX_TYPES["u32"], 8: INDEX_TYPES["u64"]}


@emitter
def emit_count(k: Kernel, spec: CountFilled) -> None:
    """The LLVM text of the kernel that counts: the entries, and the rows without one."""
    shape, indices, output, count, rows = k.arguments
    full = k.variable(k.integer(0))

    def each(i: Value, row: Value, column: Value, before: Value) -> None:
        full.set(full.get() + (i.equals(0) | (row > before)).to(I64))

    _entries(k, spec.index, shape, indices, count, rows, each)
    k.store(count + rows - full.get(), output)


def _entries(
    k: Kernel,
    index_name: str,
    shape: Value,
    indices: Value,
    count: Value,
    rows: Value,
    each: Callable[[Value, Value, Value, Value], None],
) -> Value:
    """Emit `each` for every entry, with its number, row and column, and the row before. Returns the
    number of columns.
    """
    index = INDEX_TYPES[index_name]
    columns = k.load(shape + index.bytes, index).to(I64)
    before_row, before_column = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.loop(0, count) as i:
        row, column = (k.load(indices + (i * 2 + n) * index.bytes, index).to(I64) for n in (0, 1))
        k.stop_unless(row.below(rows) & column.below(columns), k.integer(1))
        follows = (row > before_row.get()) | (
            row.equals(before_row.get()) & (column >= before_column.get())
        )
        k.stop_unless(follows, k.integer(1))
        each(i, row, column, before_row.get())
        before_row.set(row)
        before_column.set(column)
    return columns


@emitter
def emit_rows(k: Kernel, spec: FillRows) -> None:
    """The LLVM text of the kernel that fills rows, which returns 1 also when there are not as many
    entries as were counted.
    """
    values, shape, indices, default, output_indices, output_values, empty, count, rows, total = (
        k.arguments
    )
    index, item = INDEX_TYPES[spec.index], _ITEMS[spec.item]
    following, made = k.variable(k.integer(0)), k.variable(k.integer(0))
    filler = k.load(default, item)
    columns = k.load(shape + index.bytes, index).to(I64)

    def put(row: Value, column: Value, value: Value) -> None:
        at = made.get()
        k.stop_unless(at < total, k.integer(1))
        k.store(row.to(index), output_indices + at * (2 * index.bytes))
        k.store(column.to(index), output_indices + at * (2 * index.bytes) + index.bytes)
        k.store(value, output_values + at * spec.item)
        made.set(at + 1)

    def fill_until(row: Value) -> None:
        with k.while_(lambda: following.get() < row):
            if spec.strict:
                k.stop_unless(columns > 0, k.integer(1))
            k.store(k.constant(1, U8), empty + following.get())
            put(following.get(), k.integer(0), filler)
            following.set(following.get() + 1)

    def each(i: Value, row: Value, column: Value, before: Value) -> None:
        fill_until(row)
        k.store(k.constant(0, U8), empty + row)
        following.set(row + 1)
        put(row, column, k.load(values + i * spec.item, item))

    _entries(k, spec.index, shape, indices, count, rows, each)
    fill_until(rows)
    k.stop_unless(made.get().equals(total), k.integer(1))
