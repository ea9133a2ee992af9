"""The emitters of NonZero: one kernel counts the elements that are not 0, the other finds their
places. NaN is not 0, -0.0 is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import negated
from uncork.kernels.elementwise.emit import STORED
from uncork.kernels.finding.spec import CountNonZero, NonZero


@emitter
def emit_count(k: Kernel, spec: CountNonZero) -> None:
    """The LLVM text of the kernel that counts."""
    data, output, count = k.arguments
    total = k.variable(k.integer(0))
    whole = count // spec.lanes * spec.lanes
    size = STORED[spec.element].bytes
    with k.loop(0, whole, spec.lanes) as first:
        total.set(total.get() + k.ones(_bits(k, spec.element, data + first * size, spec.lanes)))
    with k.loop(whole, count) as i:
        total.set(total.get() + _is_non_zero(k, spec.element, data + i * size, 1).to(I64))
    k.store(total.get(), output)


@emitter
def emit_non_zero(k: Kernel, spec: NonZero) -> None:
    """The LLVM text of the kernel that finds places, which returns 1 when there are not as many as
    were counted.
    """
    data, output, expected, *sizes = k.arguments
    index, size = INDEX_TYPES[spec.index], STORED[spec.element].bytes
    found = k.variable(k.integer(0))
    if index.bits == 32:
        for extent in sizes:
            k.stop_unless(extent <= k.integer(2**31), k.integer(1))

    def put(place: Sequence[Value]) -> None:
        k.stop_unless(found.get() < expected, k.integer(1))
        for axis, coordinate in enumerate(place):
            k.store(coordinate.to(index), output + (expected * axis + found.get()) * index.bytes)
        found.set(found.get() + 1)

    def loops(axis: int, number: Value, place: tuple[Value, ...]) -> None:
        """Emit the loops from this axis on; `number` is how many rows along it lie before this
        one.
        """
        if axis < spec.rank - 1:
            with k.loop(0, sizes[axis]) as i:
                loops(axis + 1, number * sizes[axis] + i, (*place, i))
            return
        row = data + number * sizes[axis] * size
        _each(k, spec, row, sizes[axis], lambda i: put((*place, i)))

    loops(0, k.integer(0), ())
    k.stop_unless(found.get().equals(expected), k.integer(1))


def _each(k: Kernel, spec: NonZero, row: Value, count: Value, do: Callable[[Value], None]) -> None:
    """Emit `do` for each element of a row that is not 0."""
    size = STORED[spec.element].bytes
    whole = count // spec.lanes * spec.lanes
    with (
        k.loop(0, whole, spec.lanes) as first,
        k.set_bits(_bits(k, spec.element, row + first * size, spec.lanes)) as bit,
    ):
        do(first + bit)
    with k.loop(whole, count) as i, k.if_(_is_non_zero(k, spec.element, row + i * size, 1)):
        do(i)


def _bits(k: Kernel, element: str, address: Value, lanes: int) -> Value:
    return k.bits_of(_is_non_zero(k, element, address, lanes))


def _is_non_zero(k: Kernel, element: str, address: Value, lanes: int) -> Value:
    value = k.load(address, STORED[element], lanes)
    if element in ("f16", "bf16"):
        value = value & 0x7FFF  # all but the sign
    return negated(k, value.equals(0))
