"""The emitters of CTCGreedyDecoder and GatherTree."""

from __future__ import annotations

import math

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import larger, negated
from uncork.kernels.codegen.joining import joined
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.selection.spec import FollowBeams, GreedyPath

#: Vectors of classes that are looked at together.
_TOGETHER = 4


@emitter
def emit_greedy_path(k: Kernel, spec: GreedyPath) -> None:
    """The LLVM text of the kernel, which gives up where a length or the blank is out of range."""
    a = k.named
    blank = a["classes"] - 1
    if spec.blank:
        blank = k.load(a["blank"], INDEX_TYPES[spec.blank]).to(I64)
        k.stop_unless(blank.below(a["classes"]), k.integer(1))
    item = STORED[spec.classes]
    with k.loop(0, a["rows"]) as row:
        output = a["output"] + row * a["steps"] * item.bytes
        length = _length(k, spec, a, row)
        kept, last = k.variable(k.integer(0)), k.variable(k.integer(-1))
        with k.loop(0, length) as step:
            best = _best(k, spec, a["data"] + row * a["row"] + step * a["step"], a["classes"])
            keeps = negated(k, best.equals(blank))
            if spec.merged:
                keeps = keeps & negated(k, best.equals(last.get()))
            last.set(best)
            with k.if_(keeps):
                _store(k, best, spec.classes, output + kept.get() * item.bytes)
                kept.set(kept.get() + 1)
        with k.loop(kept.get(), a["steps"]) as step:
            _store(k, k.integer(-1), spec.classes, output + step * item.bytes)
        if spec.counts:
            count = INDEX_TYPES[spec.counts]
            k.store(kept.get().to(count), a["counts"] + row * count.bytes)


def _store(k: Kernel, number: Value, element: str, address: Value) -> None:
    k.store(narrowed(k, number.to(COMPUTED[element]), element), address)


def _length(k: Kernel, spec: GreedyPath, a: dict[str, Value], row: Value) -> Value:
    """How many steps of a row are read: those before the first 0 of its mask, or as many as are
    given.
    """
    item = STORED[spec.lengths]
    if not spec.masked:
        length = k.load(a["lengths"] + row * item.bytes, item).to(I64)
        k.stop_unless((length >= 0) & (length <= a["steps"]), k.integer(1))
        return length
    step, ended = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.while_(lambda: (step.get() < a["steps"]) & ended.get().equals(0)):
        address = a["lengths"] + (step.get() * a["rows"] + row) * item.bytes
        present = widened(k, spec.lengths, k.load(address, item))
        k.either(
            present.equals(0.0), lambda: ended.set(k.integer(1)), lambda: step.set(step.get() + 1)
        )
    return step.get()


def _best(k: Kernel, spec: GreedyPath, address: Value, classes: Value) -> Value:
    """The first class with the largest value; NaN is larger than all numbers."""
    lanes, item = spec.lanes, STORED[spec.data]

    def values(first: Value) -> tuple[Value, Value]:
        mask = k.lanes_below(classes - first, lanes)
        read = k.load(address + first * item.bytes, item, mask.lanes, mask)
        return widened(k, spec.data, read), mask

    largest = _largest(k, spec, address, classes)
    best, place = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.while_(lambda: place.get() < classes):
        found, mask = values(place.get())
        same = found.equals(k.splat(largest, lanes))
        bits = (k.bits_of(same) | k.bits_of(negated(k, found.equals(found)))) & k.bits_of(mask)
        with k.if_else(bits.equals(0)) as (then, otherwise):
            with then:
                place.set(place.get() + lanes)
            with otherwise:
                best.set(place.get() + k.trailing_zeros(bits))
                place.set(classes)
    return best.get()


def _largest(k: Kernel, spec: GreedyPath, address: Value, classes: Value) -> Value:
    """The largest value of a step: whole vectors several at a time, so that none waits for the
    one before it.
    """
    lanes, item = spec.lanes, STORED[spec.data]
    lowest = k.constant(-math.inf, COMPUTED[spec.data], lanes)
    most = [k.variable(lowest) for _ in range(_TOGETHER)]
    block = lanes * _TOGETHER
    whole = classes // block * block
    with k.loop(0, whole, block) as first:
        for index, variable in enumerate(most):
            place = address + (first + index * lanes) * item.bytes
            found = widened(k, spec.data, k.load(place, item, lanes))
            variable.set(larger(k, variable.get(), found))
    with k.loop(whole, classes, lanes) as first:
        mask = k.lanes_below(classes - first, lanes)
        read = k.load(address + first * item.bytes, item, mask.lanes, mask)
        found = k.select(mask, widened(k, spec.data, read), lowest)
        most[0].set(larger(k, most[0].get(), found))
    vector = most[0].get()
    for variable in most[1:]:
        vector = larger(k, vector, variable.get())
    return joined(k, vector, larger)


@emitter
def emit_follow_beams(k: Kernel, spec: FollowBeams) -> None:
    """The LLVM text of the kernel, which gives up where a length or a parent is none. What lies
    behind the last step of a row is not written.
    """
    a = k.named
    item, element = STORED[spec.element], spec.element
    end = widened(k, element, k.load(a["end"], item))

    def whole(address: Value, limit: Value | None) -> Value:
        """A number from 0 to below the limit."""
        number = widened(k, element, k.load(address, item))
        if number.type.kind == "float":
            k.stop_unless(number.equals(k.intrinsic("floor", number)), k.integer(1))
            k.stop_unless(number < 2.0**62, k.integer(1))
        k.stop_unless(number >= 0, k.integer(1))
        place = number.to(I64)
        if limit is not None:
            k.stop_unless(place.below(limit), k.integer(1))
        return place

    with k.loop(0, a["rows"]) as row:
        length = whole(a["lengths"] + row * item.bytes, None)
        length = k.select(length.below(a["steps"]), length, a["steps"])
        with k.loop(0, a["beams"]) as last:
            beam = k.variable(last)
            with k.loop(0, length) as turn:
                step = length - 1 - turn
                line = (step * a["rows"] + row) * a["beams"]
                place = (line + beam.get()) * item.bytes
                k.store(k.load(a["ids"] + place, item), a["output"] + (line + last) * item.bytes)
                with k.if_(step > 0):
                    beam.set(whole(a["parents"] + place, a["beams"]))
            ended = k.variable(k.integer(0))
            with k.loop(0, length) as step:
                address = a["output"] + ((step * a["rows"] + row) * a["beams"] + last) * item.bytes
                with k.if_(widened(k, element, k.load(address, item)).equals(end)):
                    ended.set(k.integer(1))
                with k.if_(ended.get() > 0):
                    k.store(k.load(a["end"], item), address)
