"""The emitters of GatherElements, which picks single elements by index, and of the best elements of
f32 rows, in order.
"""

from __future__ import annotations

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, INDEX_TYPES, Kernel, Type, Value
from uncork.kernels.runtime.target import Target
from uncork.kernels.selection.spec import BestOfRows, GatheredElements

_ITEMS = {1: INDEX_TYPES["u8"], 2: INDEX_TYPES["u16"], 4: INDEX_TYPES["u32"], 8: INDEX_TYPES["u64"]}


def emit_elements(spec: GatheredElements, machine: Target) -> str:
    """The LLVM text of `output[o, j, i] = data[o, indices[o, j, i], i]`; the kernel returns 1 when
    an index is outside the axis.
    """
    k = Kernel(spec.name, ["data", "indices", "output", "outer", "size", "count", "inner"], machine)
    data, indices, output, outer, size, count, inner = k.arguments
    item, index = _ITEMS[spec.item], INDEX_TYPES[spec.index]
    with k.loop(0, outer) as o, k.loop(0, count) as j, k.loop(0, inner) as i:
        at = (o * count + j) * inner + i
        position = k.load(indices + at * index.bytes, index).to(INDEX_TYPES["i64"])
        position = k.select(position < 0, position + size, position)
        k.stop_unless(position.below(size), k.integer(1))
        k.store(
            k.load(data + ((o * size + position) * inner + i) * spec.item, item),
            output + at * spec.item,
        )
    k.finish()
    return k.text()


def emit_best(spec: BestOfRows, machine: Target) -> str:
    """The LLVM text of the kernel that finds the `best` best of rows of `count` elements, best
    first, equal ones in their order; it returns 1 when a NaN would be among them.

    The best so far are kept in order in the outputs. Most vectors have nothing that is better than
    the last of them.
    """
    k = Kernel(spec.name, ["data", "values", "numbers", "rows", "count", "best"], machine)
    data, values, numbers, rows, count, best = k.arguments
    index = INDEX_TYPES[spec.index]

    def better(a: Value, b: Value) -> Value:
        return a > b if spec.largest else a < b

    with k.loop(0, rows) as row:
        source = data + row * count * 4
        found, places = values + row * best * 4, numbers + row * best * index.bytes

        def insert(
            number: Value,
            last: Value,
            source: Value = source,
            found: Value = found,
            places: Value = places,
        ) -> None:
            """Insert element `number` before all that it is better than; the one at `last` is
            overwritten.
            """
            x = k.load(source + number * 4, F32)
            k.stop_unless(x.equals(x), k.integer(1))
            free = k.variable(last)

            def goes_on() -> Value:
                before = k.maximum(free.get() - 1, k.integer(0))
                return (free.get() > 0) & better(x, k.load(found + before * 4, F32))

            with k.while_(goes_on):
                _move(k, F32, found, free.get())
                _move(k, index, places, free.get())
                free.set(free.get() - 1)
            k.store(x, found + free.get() * 4)
            k.store(number.to(index), places + free.get() * index.bytes)

        def look(first: Value, n: int, source: Value = source, found: Value = found) -> None:
            """Look at a vector of elements; where some are not worse than the last of the best,
            they are looked at again, one by one.
            """
            last = k.load(found + (best - 1) * 4, F32)
            x = k.load(source + first * 4, F32, n)
            limit = k.splat(last, n)
            worse = (x <= limit) if spec.largest else (x >= limit)  # not so for NaN
            with (
                k.if_(_any(k, Value(k, k.builder.not_(worse.llvm), worse.type, n)), likely=False),
                k.loop(first, first + n) as i,
            ):
                one = k.load(source + i * 4, F32)
                threshold = k.load(found + (best - 1) * 4, F32)
                with k.if_(better(one, threshold) | one.equals(one).equals(0)):
                    insert(i, best - 1)

        with k.loop(0, best) as number:
            insert(number, number)
        whole = best + (count - best) // spec.lanes * spec.lanes
        with k.loop(best, whole, spec.lanes) as first:
            look(first, spec.lanes)
        with k.loop(whole, count) as first:
            look(first, 1)
    k.finish()
    return k.text()


def _move(k: Kernel, type_: Type, base: Value, to: Value) -> None:
    k.store(k.load(base + (to - 1) * type_.bytes, type_), base + to * type_.bytes)


def _any(k: Kernel, condition: Value) -> Value:
    """Whether any lane is set."""
    if condition.lanes == 1:
        return condition
    mask = k.builder.bitcast(condition.llvm, ir.IntType(condition.lanes))
    return Value(k, k.builder.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0)), condition.type)
