"""Remainders of divisions of f32 numbers, exactly: as NumPy's fmod and mod have them."""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import copysign
from uncork.kernels.codegen.emit import F32, F64, Kernel, Value
from uncork.kernels.codegen.exact_rests import rest_of
from uncork.kernels.codegen.functions import negated

#: Above all numbers of f32.
_BEYOND = 2.0**200


def remainder_cut(k: Kernel, a: Value, b: Value) -> Value:
    """a - b * trunc(a / b), exactly, with the sign of a; NaN of infinite a and of b = 0.

    In f64 a multiple of b with 53 digits is taken from a. What is left is exact, because the digits
    of the multiple end where the digits of what is left do; it is at most half of b, or 2^51 times
    smaller than before, from which the next multiple is taken.
    """
    n = a.lanes
    size = k.intrinsic("fabs", b)
    size = k.select(
        size.equals(math.inf), k.constant(_BEYOND, F64, n), size.to(F64)
    )  # from which nothing is taken
    share = k.constant(1.0, F64, n) / size

    def less(given: Value) -> Value:
        return rest_of(k, given, k.intrinsic("rint", given * share), size)

    rest = k.variable(less(a.to(F64)))

    def goes_on() -> Value:
        return negated(k, k.all_of(negated(k, k.intrinsic("fabs", rest.get()) >= size)))

    with k.while_(goes_on):
        rest.set(less(rest.get()))
    result = rest.get().to(F32)
    # Rounding to the nearest multiple leaves numbers of both signs.
    turned = (result < 0.0) ^ (a < 0.0)
    other = size.to(F32) - k.intrinsic("fabs", result)
    result = k.select(turned & negated(k, result.equals(0.0)), other, result)
    return copysign(k, k.intrinsic("fabs", result), a)


def remainder_down(k: Kernel, a: Value, b: Value) -> Value:
    """a - b * floor(a / b) with the sign of b: the exact remainder, to which b is added where the
    signs differ.
    """
    rest = remainder_cut(k, a, b)
    zero = rest.equals(0.0)
    differs = ((rest < 0.0) ^ (b < 0.0)) & negated(k, zero)
    return k.select(
        differs, rest + b, k.select(zero, copysign(k, k.intrinsic("fabs", rest), b), rest)
    )
