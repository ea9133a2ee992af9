"""The emitter of binary search in sorted rows. NaN is greater than every number. The kernel returns
1 for a sequence that is not sorted.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I32, I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated, precedes
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.search.spec import Search

#: Rows of up to so many numbers are compared as a whole, with vectors of values.
_FEW = 48


@emitter
def emit_search(k: Kernel, spec: Search) -> None:
    """The LLVM text of the kernel."""
    sequence, values, output, rows, length, count = k.arguments
    result, bytes_of = INDEX_TYPES[spec.result], STORED[spec.sequence].bytes

    def number(base: Value, i: Value, name: str) -> Value:
        stored = STORED[name]
        return widened(k, name, k.load(base + i * stored.bytes, stored)).to(COMPUTED[spec.compared])

    def vector(first: Value) -> Value:
        stored = STORED[spec.values]
        held = k.load(values + first * stored.bytes, stored, spec.lanes)
        return widened(k, spec.values, held).to(COMPUTED[spec.compared])

    def few(own: Value, first: Value) -> None:
        """Find the places of a vector of values, compared with all numbers of the row."""
        some = vector(first)
        total = k.variable(k.constant(0, I32, spec.lanes))
        one, zero = k.constant(1, I32, spec.lanes), k.constant(0, I32, spec.lanes)
        with k.loop(0, length) as i:
            border = k.splat(number(own, i, spec.sequence), spec.lanes)
            total.set(total.get() + k.select(_is_before(k, spec, border, some), one, zero))
        k.store(total.get().to(result), output + first * result.bytes)

    def together(own: Value, first: Value) -> None:
        """Find the places of a vector of values by binary search, whose steps are as many for each:
        they do not wait for each other, and no branch depends on a value.
        """
        some = vector(first)
        base, left = k.variable(k.constant(0, I64, spec.lanes)), k.variable(length)

        def passed(count: Value) -> None:
            """Pass numbers, so many, of which the last is before a value."""
            last = base.get() + (count - 1)
            lanes = [number(own, last.part(i, 1), spec.sequence) for i in range(spec.lanes)]
            before = _is_before(k, spec, k.gathered(lanes), some)
            zero = k.constant(0, I64, spec.lanes)
            base.set(base.get() + k.select(before, k.splat(count, spec.lanes), zero))

        with k.while_(lambda: left.get() > 1):
            half = left.get() >> 1
            passed(half)
            left.set(left.get() - half)
        passed(k.integer(1))
        k.store(base.get().to(result), output + first * result.bytes)

    def search(own: Value, j: Value) -> None:
        """Find the place of one value by binary search."""
        value = number(values, j, spec.values)
        base, left = k.variable(k.integer(0)), k.variable(length)
        with k.while_(lambda: left.get() > 0):
            half = left.get() >> 1
            before = _is_before(k, spec, number(own, base.get() + half, spec.sequence), value)
            base.set(k.select(before, base.get() + half + 1, base.get()))
            left.set(k.select(before, left.get() - half - 1, half))
        k.store(base.get().to(result), output + j * result.bytes)

    with k.loop(0, rows) as row:
        own = sequence + row * length * bytes_of
        _check(k, spec, own, length, number)
        begin, end = row * count, (row + 1) * count
        whole = begin + count // spec.lanes * spec.lanes
        with k.loop(begin, whole, spec.lanes) as first:
            k.either(length <= _FEW, lambda: few(own, first), lambda: together(own, first))
        with k.loop(whole, end) as j:
            search(own, j)


def _is_before(k: Kernel, spec: Search, border: Value, value: Value) -> Value:
    """Whether a number of the row counts as being before a value."""
    return negated(k, precedes(k, value, border)) if spec.right else precedes(k, border, value)


def _check(
    k: Kernel, spec: Search, own: Value, length: Value, number: Callable[[Value, Value, str], Value]
) -> None:
    """Emit the check of the sequence: the kernel stops where it is not sorted, or has NaN or equal
    numbers that the spec refuses.
    """
    with k.loop(0, length) as i:
        here = number(own, i, spec.sequence)
        before = number(own, k.maximum(i - 1, k.integer(0)), spec.sequence)
        if spec.refuses_nan:
            k.stop_unless(here.equals(here), k.integer(1))
        if spec.unique:
            k.stop_unless(i.equals(0) | precedes(k, before, here), k.integer(1))
        else:
            k.stop_unless(negated(k, precedes(k, here, before)), k.integer(1))
