"""Kernels that turn rows of f32 into digits, which are fixed point with a unit for each run of
numbers, see `spec_dots`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from uncork.internal_ops.compressed_linear import most_of
from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I8, I16, I32, Kernel, Value, emitter
from uncork.kernels.codegen.joining import joined, plus
from uncork.kernels.codegen.scalar_types import Type
from uncork.kernels.compressed.spec_dots import FLAG, BlockDigits, Digits, record
from uncork.kernels.gemm.microkernel_dots import added

_LANES = 16
#: The bits of 2^-60 and of 2^60: between these the largest number of a run has to be, or be 0.
_LEAST_BITS, _MOST_BITS = (127 - 60) << 23, (127 + 60) << 23
#: Of eight numbers those that the low halves of four bytes multiply, then those of the high ones.
_SPLIT = tuple(lane // 8 * 8 + (0, 2, 4, 6, 1, 3, 5, 7)[lane % 8] for lane in range(_LANES))
#: Of all numbers of a vector those of the low halves of bytes, then those of the high ones.
_HALVED = (*range(0, _LANES, 2), *range(1, _LANES, 2))
#: The same in pairs of every other one of those bytes.
_SPLIT_PAIRS = tuple(lane // 8 * 8 + (0, 4, 2, 6, 1, 5, 3, 7)[lane % 8] for lane in range(_LANES))
_QUARTERED = tuple(first + 4 * n for first in (0, 2, 1, 3) for n in range(_LANES // 4))
#: Of four numbers those of the even bytes of a word, then those of the odd ones.
_PAIRED = tuple(lane // 4 * 4 + (0, 2, 1, 3)[lane % 4] for lane in range(_LANES))


class _Run(Struct, frozen=True):
    """A run of numbers: `load(at)` gives a vector of them, of which `count` exist."""

    load: Callable[[Value], Value]
    count: Value


class _Digits(Struct, frozen=True):
    """What became of a run: its unit, the sums of the digits of each place, and whether all its
    numbers have digits; if not, the digits are 0.
    """

    unit: Value
    sums: Sequence[Value]
    usual: Value


@emitter
def emit_digits(k: Kernel, spec: Digits) -> None:
    """The LLVM text of the kernel that writes digits run by run."""
    a = k.named
    runs = (a["inner"] + (spec.unit - 1)) // spec.unit
    order = None
    if spec.split:
        order = _SPLIT_PAIRS if spec.wide else _SPLIT
    elif spec.wide:
        order = _PAIRED
    places, beside = spec.places, spec.beside
    stored = I16 if spec.wide else I8
    with k.loop(a["first"], a["first"] + a["count"]) as place:
        before, within = _beside(place, beside)

        def made(number: Value, run: _Run, before: Value = before, within: Value = within) -> Value:
            begin = before * runs + number * beside
            digits = a["digits"] + begin * (len(places) * spec.unit * stored.bytes) + within * 4

            def write(at: Value, index: int, digit: Value) -> None:
                if beside == 1:
                    k.store(digit, digits + (at + index * spec.unit) * stored.bytes)
                    return
                of_word = 4 * beside * len(places)
                target = digits + at * stored.bytes // 4 * of_word + index * (4 * beside)
                count = _LANES * stored.bytes // 4
                words = k.builder.bitcast(digit.llvm, ir.VectorType(I32.llvm, count))
                for word in range(count):
                    some = Value(k, words, I32, count).part(word, 1)
                    k.store(some, target + word * of_word)

            found = _digits(k, places, stored, run, order, write)
            # Tiles multiply whole runs.
            with k.loop((run.count + (_LANES - 1)) & -_LANES, spec.unit, _LANES) as at:
                for index in range(len(places)):
                    write(at, index, k.constant(0, stored, _LANES))
            line = a["records"] + begin * record(len(places)) + within * 4
            starts = [total * -spec.middle for total in found.sums]
            for index, told in enumerate((found.unit, *starts, _negated_sum(k, found))):
                k.store(told, line + index * (4 * beside))
            return found.usual

        _each_run(k, a, spec.unit, (place, spec.rows), made)


def _beside(place: Value, rows: int) -> tuple[Value, Value]:
    """The first of the places whose rows lie beside each other with that of this one, and its
    number among them.
    """
    before = place // rows * rows
    return before, place - before


@emitter
def emit_block_digits(k: Kernel, spec: BlockDigits) -> None:
    """The LLVM text of the kernel that writes digits block by block."""
    a = k.named
    blocks, unit = spec.blocks, spec.blocks.unit
    steps = (a["inner"] + (blocks.length - 1)) // blocks.length
    of_unit = 4 * blocks.unit_lanes
    of_step = of_unit * blocks.runs
    turns = (steps + (blocks.together - 1)) // blocks.together
    beside = blocks.rows - 1
    order = None
    if blocks.bits == 4:
        order = _QUARTERED if blocks.wide else _HALVED
    stored = I16 if blocks.wide else I8
    with k.loop(a["first"], a["first"] + a["count"]) as place:
        before, within = _beside(place, blocks.rows)
        digits = a["digits"] + before * steps * blocks.step + within * blocks.step
        units = a["units"] + before * turns * blocks.units + within * blocks.units
        sums = a["sums"] + place * a["groups"] * 4
        # What lies past the last number: no digits, of a unit that is a number.
        nothing = k.constant(0, I8, _LANES)
        last = digits + (steps - 1) * (blocks.rows * blocks.step)
        with k.loop(0, blocks.step, _LANES) as at:
            k.store(nothing, last + at)
        last = units + (turns - 1) * (blocks.rows * blocks.units)
        with k.loop((steps - 1) * of_step - (turns - 1) * blocks.units, blocks.units, 4) as at:
            k.store(k.constant(0.0, F32), last + at)
        with k.loop(0, a["groups"]) as group:
            k.store(k.constant(0.0, F32), sums + group * 4)

        def made(
            number: Value,
            run: _Run,
            digits: Value = digits,
            units: Value = units,
            sums: Value = sums,
        ) -> Value:
            begin = number * unit

            def write(at: Value, index: int, digit: Value) -> None:
                place = begin + at
                block, step = place // blocks.numbers, place // blocks.length
                target = digits + block * blocks.size + index * blocks.place
                target = target + step * (blocks.start + beside * blocks.step) + blocks.start
                within = place - block * blocks.numbers
                if order is None:
                    k.store(digit, target + within * stored.bytes)
                    return
                parts = blocks.halves
                some = _LANES // parts
                for part in range(parts):
                    few = digit.part(part * some, some)
                    place = within // parts + part * (blocks.numbers // parts)
                    k.store(few, target + place * stored.bytes)

            found = _digits(k, blocks.places, stored, run, order, write)
            turn = number // (blocks.runs * blocks.together)
            target = units + number * of_unit + turn * (beside * blocks.units)
            k.store(k.splat(found.unit, blocks.unit_lanes), target)
            group = sums + (begin // spec.group * 4 if spec.group else k.integer(0))
            k.store(k.load(group, F32) + _negated_sum(k, found), group)
            return found.usual

        _each_run(k, a, unit, (place, blocks.rows), made)
        _starts(k, spec, digits, steps)


def _negated_sum(k: Kernel, run: _Digits) -> Value:
    """The sum of a run's numbers, negated, which zero points multiply."""
    whole = run.sums[0].to(F32)
    for total in run.sums[1:]:
        whole = k.fma(whole, k.constant(256.0, F32), total.to(F32))
    return k.constant(0.0, F32) - whole * run.unit


def _starts(k: Kernel, spec: BlockDigits, digits: Value, steps: Value) -> None:
    """Store what sums of each step begin with: the digits of their lanes times what is taken off
    every code.
    """
    blocks, lanes = spec.blocks, spec.blocks.lanes
    if not blocks.middle:
        return
    size = 2 if blocks.wide else 1
    code = (blocks.middle & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    word = int.from_bytes(code * (4 // size), "little", signed=True)
    middles = k.constant(word, I32, lanes)
    with k.loop(0, steps) as step:
        line = digits + step * (blocks.rows * blocks.step)
        totals = [k.variable(k.constant(0, I32, lanes)) for _ in blocks.places]
        with k.loop(0, blocks.of_step * blocks.size, blocks.size) as block:
            for place, total in enumerate(totals):
                for half in range(blocks.halves):
                    at = block + (blocks.start + place * blocks.place + half * (lanes * 4))
                    some = k.load(line + at, I32, lanes)
                    total.set(added(k, blocks.how, total.get(), middles, some))
        for place, total in enumerate(totals):
            k.store(k.constant(0, I32, lanes) - total.get(), line + place * (lanes * 4))


def _each_run(
    k: Kernel,
    a: dict[str, Value],
    unit: int,
    of: tuple[Value, int],
    made: Callable[[Value, _Run], Value],
) -> None:
    """Turn the runs of the row at a place into digits by `made(number, run)`, which says whether
    all numbers have some; store its flag. Of each product there are places for whole tiles of so
    many rows, which the last row fills up.
    """
    place, rows = of
    inner = a["inner"]
    padded = (a["rows"] + (rows - 1)) // rows * rows
    product = place // padded
    row = product * a["rows"] + k.minimum(place - product * padded, a["rows"] - 1)
    strange = k.variable(k.integer(0))
    with k.loop(0, (inner + (unit - 1)) // unit) as number:
        source = a["data"] + (row * inner + number * unit) * 4
        left = inner - number * unit

        def load(at: Value) -> Value:
            return k.load(source + at * 4, F32, _LANES)

        def load_last(at: Value) -> Value:
            return k.load(source + at * 4, F32, _LANES, k.lanes_below(left - at, _LANES))

        def note(usual: Value) -> None:
            strange.set(strange.get() | k.select(usual, k.integer(0), k.integer(1)))

        with k.if_else(left >= unit, likely=True) as (whole, partly):
            with whole:
                note(made(number, _Run(load, k.integer(unit))))
            with partly:
                note(made(number, _Run(load_last, left)))
    k.store(strange.get(), a["flags"] + place * FLAG)


def _digits(
    k: Kernel,
    places: Sequence[int],
    stored: Type,
    run: _Run,
    order: Sequence[int] | None,
    write: Callable[[Value, int, Value], None],
) -> _Digits:
    """Turn a run into digits of so many bytes for each place: `write(at, place, digits)` stores a
    vector of them, as `stored`, whose numbers are in this order.
    """
    largest = k.variable(k.constant(0, I32, _LANES))
    with k.loop(0, run.count, _LANES) as at:
        # Compared as whole numbers: NaN is above infinity then.
        largest.set(k.maximum(largest.get(), run.load(at).bits_as(I32) & 0x7FFFFFFF))
    top = joined(k, largest.get(), Kernel.maximum)
    nothing = top.equals(0)
    usual = nothing | ((top >= _LEAST_BITS) & (top <= _MOST_BITS))
    kept = k.splat(k.select(usual, k.constant(-1, I32), k.constant(0, I32)), _LANES)
    digits = sum(places)
    most = most_of(digits)
    limit = k.select(nothing | usual.equals(0), k.constant(most, F32), top.bits_as(F32))
    times = k.splat(k.constant(most, F32) / limit, _LANES)
    # Added, it makes bytes of the digits, each 128 more than the digit.
    halves = int.from_bytes(bytes([128] * digits), "little")
    sums = [k.variable(k.constant(0, I32, _LANES)) for _ in places]
    with k.loop(0, run.count, _LANES) as at:
        number = (run.load(at).bits_as(I32) & kept).bits_as(F32)
        if order is not None:
            number = k.picked(number, number, order)
        whole = k.intrinsic("rint", number * times).to(I32) + halves
        for index, (size, total) in enumerate(zip(places, sums, strict=True)):
            shift = 8 * sum(places[index + 1 :])
            # Of two bytes the digit is what both are together.
            mask, off = (1 << 8 * size) - 1, int.from_bytes(bytes([128] * size), "little")
            digit = ((whole >> shift if shift else whole) & mask) - off
            total.set(total.get() + digit)
            write(at, index, digit.to(stored))
    return _Digits(limit * (1 / most), [joined(k, total.get(), plus) for total in sums], usual)
