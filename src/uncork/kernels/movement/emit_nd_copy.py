"""The emitters of strided copies, loops around a copy of neighbouring bytes, of copies by a table,
and of fills.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I32, I64, U8, U16, U32, U64, Kernel, Type, Value, emitter
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.movement.emit_gather import copy
from uncork.kernels.movement.spec import CopyTable, FillBytes, NdCopy

#: Turns of the innermost loop that are written out, for short runs.
_UNROLLED = 4


@emitter
def emit_nd_copy(k: Kernel, spec: NdCopy) -> None:
    """The LLVM text of a strided copy."""
    a = k.named

    def loops(depth: int, source: Value, target: Value) -> None:
        if depth == spec.loops:
            copy(k, source, target, a["run"] if spec.run == OPEN else spec.run)
            return
        count, from_step, to_step = (a[f"{name}_{depth}"] for name in ("count", "source", "target"))

        def turn(i: Value) -> None:
            loops(depth + 1, source + i * from_step, target + i * to_step)

        if depth + 1 == spec.loops and spec.step != 1:
            _pick(k, spec, source, target, count)
            return
        if depth + 1 < spec.loops or spec.run == OPEN:
            with k.loop(0, count) as i:
                turn(i)
            return
        for i in k.unrolled(count, _UNROLLED):
            turn(i)

    loops(0, a["source"], a["target"])


def _pick(k: Kernel, spec: NdCopy, source: Value, target: Value, count: Value) -> None:
    """Elements that lie so many apart: vectors are read for those that are written, and nothing is
    read before the first element or behind the last. The last vector may lie over the one before.
    """
    item, apart = spec.run, abs(spec.step)
    type_ = {1: U8, 2: U16, 4: U32, 8: U64}[item]
    step = spec.step * item
    done = k.variable(k.integer(0))

    def vectors(lanes: int) -> None:
        # Between two elements lie `apart - 1` others, which are read with them: those behind each
        # element, but before it for the last vector, which has nothing behind.
        between = max(apart - 1, 0)

        def move(first: Value, before: bool) -> None:
            begin = source + first * step
            if spec.step > 0:
                begin = begin - between * item if before else begin
            elif spec.step < 0:
                low = begin + step * (lanes - 1)
                begin = low if before else low - between * item
            ahead = before == (spec.step > 0)
            k.store(_picked(k, type_, begin, lanes, spec.step, between if ahead else 0), at(first))

        def at(first: Value) -> Value:
            return target + first * item

        with k.if_((done.get() < count) & (count > lanes)):
            last = count - lanes
            with k.loop(0, last, lanes) as i:
                move(i, False)
            move(last, True)
            done.set(count)

    width = k.machine.lanes * 4
    for size in (width, *(() if width <= 16 else (16,))):
        if size > item:
            vectors(size // item)
    with k.loop(done.get(), count) as i:
        k.store(k.load(source + i * step, type_), target + i * item)


def _picked(k: Kernel, type_: Type, begin: Value, lanes: int, step: int, first: int) -> Value:
    """A vector of the elements that lie `step` apart among those that lie from `begin` on: `first`
    are before the lowest of them. A negative step has them in the other order.
    """
    if step == 0:
        return k.splat(k.load(begin, type_), lanes)
    places = [first + abs(step) * n for n in range(lanes)]
    if step < 0:
        places.reverse()
    parts = [
        k.load(begin + n * lanes * type_.bytes, type_, lanes)
        for n in range(max(places) // lanes + 1)
    ]
    found, other = parts[0], parts[1] if len(parts) > 1 else parts[0]
    found = k.picked(found, other, [place if place < 2 * lanes else 0 for place in places])
    for number, part in enumerate(parts[2:], 2):
        found = k.picked(
            found,
            part,
            [
                lanes + place - number * lanes if place // lanes == number else lane
                for lane, place in enumerate(places)
            ],
        )
    return found


@emitter
def emit_fill_bytes(k: Kernel, spec: FillBytes) -> None:
    """The LLVM text of a fill with one value. The last vector lies over the one before it."""
    value, target, count = k.arguments
    type_ = {0: U8, 1: U8, 2: U16, 4: U32, 8: U64}[spec.element]
    number = k.load(value, type_) if spec.element else k.constant(0, type_)
    lanes = 64 // type_.bytes
    vector = k.splat(number, lanes)
    with k.if_else(count >= 64) as (long, short):
        with long, k.loop(0, count, 64) as i:
            k.store(vector, target + k.minimum(i, count - 64))
        with short, k.loop(0, count, type_.bytes) as i:
            k.store(number, target + i)


@emitter
def emit_copy_table(k: Kernel, spec: CopyTable) -> None:
    """The LLVM text of a kernel of copies by tables, which hold offsets in bytes."""
    source, target, sources, targets, count = k.arguments
    with k.loop(0, count) as i:
        begin = k.load(sources + i * 4, I32).to(I64)
        place = i * spec.run if spec.in_order else k.load(targets + i * 4, I32).to(I64)
        copy(k, source + begin, target + place, spec.run)
