"""Kernel that turns rows of f32 into digits, which are fixed point with a unit for each run of
numbers, see `spec_dots`.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F32, I8, I32, Kernel, Value
from uncork.kernels.compressed.spec_dots import DIGITS, FLAG, RECORD, Digits
from uncork.kernels.runtime.target import Target

_LANES = 16
#: The largest whole number of a run: with the bytes below it, it still has three signed digits.
_MOST = 127.0 * 65536
#: Added, it makes bytes of the digits, each 128 more than the digit.
_HALVES = 0x808080
#: The bits of 2^-60 and of 2^60: between these the largest number of a run has to be, or be 0.
_LEAST_BITS, _MOST_BITS = (127 - 60) << 23, (127 + 60) << 23
#: Of eight numbers those that the low halves of four bytes multiply, then those of the high ones.
_SPLIT = (0, 2, 4, 6, 1, 3, 5, 7)


def emit_digits(spec: Digits, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments, strict=True))
    inner, unit = a["inner"], spec.unit
    runs = (inner + (unit - 1)) // unit
    with k.loop(a["first"], a["first"] + a["count"]) as row:
        strange = k.variable(k.integer(0))
        with k.loop(0, runs) as run:
            source = a["data"] + (row * inner + run * unit) * 4
            place = row * runs + run
            left = inner - run * unit

            def load(at: Value, source: Value = source) -> Value:
                return k.load(source + at * 4, F32, _LANES)

            def load_last(at: Value, source: Value = source, left: Value = left) -> Value:
                return k.load_masked(source + at * 4, F32, k.lanes_below(left - at, _LANES))

            def made(load: Callable[[Value], Value], count: Value, place: Value = place) -> None:
                digits, record = (
                    a["digits"] + place * (DIGITS * unit),
                    a["records"] + place * RECORD,
                )
                usual = _run(k, spec, load, count, digits, record)
                strange.set(strange.get() | k.select(usual, k.integer(0), k.integer(1)))

            with k.if_else(left >= unit, likely=True) as (whole, partly):
                with whole:
                    made(load, k.integer(unit))
                with partly:
                    made(load_last, left)
        k.store(strange.get(), a["flags"] + row * FLAG)
    k.finish()
    return k.text()


def _run(
    k: Kernel,
    spec: Digits,
    load: Callable[[Value], Value],
    count: Value,
    digits: Value,
    record: Value,
) -> Value:
    """Write the digits of a run and its record. The result says whether all numbers of the run have
    digits; if not, the digits are 0.
    """
    largest = k.variable(k.constant(0, I32, _LANES))
    with k.loop(0, count, _LANES) as at:
        # Compared as whole numbers: NaN is above infinity then.
        largest.set(k.maximum(largest.get(), load(at).bits_as(I32) & 0x7FFFFFFF))
    top = _across(largest.get(), k.maximum)
    nothing = top.equals(0)
    usual = nothing | ((top >= _LEAST_BITS) & (top <= _MOST_BITS))
    kept = k.splat(k.select(usual, k.constant(-1, I32), k.constant(0, I32)), _LANES)
    limit = k.select(nothing | usual.equals(0), k.constant(_MOST, F32), top.bits_as(F32))
    times = k.splat(k.constant(_MOST, F32) / limit, _LANES)
    sums = [k.variable(k.constant(0, I32, _LANES)) for _ in range(DIGITS)]
    with k.loop(0, count, _LANES) as at:
        number = (load(at).bits_as(I32) & kept).bits_as(F32)
        if spec.split:
            number = _split(k, number)
        whole = k.intrinsic("rint", number * times).to(I32) + _HALVES
        for index, total in enumerate(sums):
            byte = whole >> (8 * (DIGITS - 1 - index)) if index < DIGITS - 1 else whole
            digit = (byte & 255) - 128
            total.set(total.get() + digit)
            k.store(digit.to(I8), digits + (at + index * spec.unit))
    k.store(limit * (1 / _MOST), record)
    for index, total in enumerate(sums):
        k.store(_across(total.get(), lambda x, y: x + y), record + 4 * (1 + index))
    return usual


def _across(vector: Value, joined: Callable[[Value, Value], Value]) -> Value:
    """All lanes of a vector as one number."""
    while vector.lanes > 1:
        half = vector.lanes // 2
        vector = joined(vector.part(0, half), vector.part(half, half))
    return vector


def _split(k: Kernel, numbers: Value) -> Value:
    picks = ir.Constant(
        ir.VectorType(ir.IntType(32), _LANES),
        [lane // 8 * 8 + _SPLIT[lane % 8] for lane in range(_LANES)],
    )
    return Value(k, k.builder.shuffle_vector(numbers.llvm, numbers.llvm, picks), F32, _LANES)
