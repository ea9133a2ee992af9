"""Functions of real numbers on f32 vectors, for layers that must give what NumPy gives to within a
few units of the last place.

Each docstring states its error against the exact value. NaN stays NaN. Coefficients are minimax
fits by Lawson's reweighting on Chebyshev points, rounded to f32.
"""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import (
    LOG_2,
    WHOLE,
    accurate_sigmoid,
    copysign,
    exp,
    exp_of_normal,
    polynomial,
    series,
)
from uncork.kernels.codegen.emit import F32, I32, Kernel, Value

#: erf(x) = x + x * P(x^2) below `_ERF_SPLIT`; above, 1 - exp(-(t Q(t))), which is 1 in f32 from
#: `_ERF_END` on.
_ERF_NEAR = (
    0.12837915122509003,
    -0.3761249780654907,
    0.11281846463680267,
    -0.026767726987600327,
    0.004994839429855347,
    -0.0005999445565976202,
)
_ERF_FAR = (
    1.1286485195159912, 0.6351513266563416, 0.10623688995838165, -0.023762071505188942,
    0.00364246335811913, -0.00032280496088787913, 1.1231419193791226e-05,
)  # fmt: skip
_ERF_SPLIT, _ERF_END = 0.92, 4.0
#: The normal distribution's part below -a is 2^(-1 - a P(a)) for 0 <= a <= `_NORMAL_END`, to within
#: 3e-8; beyond, it is less than 1e-8 and taken for 0. And 2^r for -1/2 <= r <= 1/2.
_NORMAL = (
    1.1511062383651733, 0.45919662714004517, 0.05253543704748154, -0.007119159214198589,
    0.00017059982928913087, 0.00018206467211712152, -4.350948074716143e-05, 4.526952125161188e-06,
    -1.8727585882061248e-07,
)  # fmt: skip
_NORMAL_END = 5.7
_POWER = (
    1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699,
    0.009675540961325169, 0.0013276472454890609,
)  # fmt: skip
#: From here on n / (n + 2) is 1 in f32, see `mish`.
_MISH_END = 20.0
#: log(1 + f) = f - f^2 / 2 + f^3 P(f) for sqrt(1/2) <= 1 + f < sqrt(2).
_LOG = (
    0.3333331346511841, -0.25000008940696716, 0.2000211924314499, -0.1666799634695053,
    0.14219550788402557, -0.12405592203140259, 0.11888177692890167, -0.1167563870549202,
    0.06746591627597809,
)  # fmt: skip


def larger(k: Kernel, a: Value, b: Value) -> Value:
    """The larger of two as NumPy's maximum has it: NaN when either is."""
    if a.type.kind != "float":
        return k.select(a > b, a, b)
    return k.select(b.equals(b), k.select(b > a, b, a), b)  # nothing is above a NaN


def smaller(k: Kernel, a: Value, b: Value) -> Value:
    """The smaller of two as NumPy's minimum has it: NaN when either is."""
    if a.type.kind != "float":
        return k.select(a < b, a, b)
    return k.select(b.equals(b), k.select(b < a, b, a), b)  # nothing is below a NaN


def negated(k: Kernel, condition: Value) -> Value:
    """The logical negation of a condition."""
    return Value(k, k.builder.not_(condition.llvm), condition.type, condition.lanes)


def precedes(k: Kernel, a: Value, b: Value) -> Value:
    """Whether a comes before b in ascending order, in which NaN is last."""
    if a.type.kind != "float":
        return a < b
    return (a < b) | (a.equals(a) & negated(k, b.equals(b)))


def clamped(k: Kernel, x: Value, low: float, high: float) -> Value:
    """min(max(x, low), high); integers have no infinite bounds."""
    integers = x.type.kind != "float"
    if not (integers and math.isinf(low)):
        least = k.constant(low, x.type, x.lanes)
        x = k.select(x < least, least, x)  # an ordered comparison keeps NaN
    if not (integers and math.isinf(high)):
        most = k.constant(high, x.type, x.lanes)
        x = k.select(x > most, most, x)
    return x


def bounded(k: Kernel, x: Value, low: Value, high: Value) -> Value:
    """min(max(x, low), high) of numbers that are known at the call; NaN stays."""
    x = k.select(low > x, low, x)  # in this order, each is one instruction
    return k.select(high < x, high, x)


def erf(k: Kernel, x: Value) -> Value:
    """The error function; error 1.5 units of the last place."""
    size = k.intrinsic("fabs", x)
    near = k.fma(x * polynomial(k, _ERF_NEAR, x * x), k.constant(1.0, F32, x.lanes), x)
    end = k.constant(_ERF_END, F32, x.lanes)
    t = k.select(size > end, end, size)
    power, scale = exp_of_normal(k, t * polynomial(k, _ERF_FAR, t), -1)
    far = k.fma(-power, scale, k.constant(1.0, F32, x.lanes))
    return k.select(size < _ERF_SPLIT, near, copysign(k, far, x))


def expm1_below(k: Kernel, x: Value) -> Value:
    """e^min(x, 0) - 1, also near 0; error 2 units of the last place."""
    n = x.lanes
    x = clamped(k, x, -18.0, 0.0)
    whole = k.intrinsic("rint", x * (1 / math.log(2)))
    part = k.fma(whole, k.constant(-LOG_2[0], F32, n), x)
    part = k.fma(whole, k.constant(-LOG_2[1], F32, n), part)
    tail = series(k, (1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040), part)
    below = k.fma(part * part, tail, part)  # e^part - 1
    number = k.select(whole.equals(whole), whole, k.constant(0.0, F32, n)).to(
        I32
    )  # of NaN `below` is NaN already
    power = ((number + 127) << 23).bits_as(F32)
    return k.fma(below, power, power - 1.0)


def log(k: Kernel, x: Value) -> Value:
    """The natural logarithm: -infinity of 0, NaN below; error 1.5 units of the last place,
    subnormal x included.
    """
    n = x.lanes
    tiny = x < 1.1754943508222875e-38
    scaled = k.select(tiny, x * 8388608.0, x)
    bits = scaled.bits_as(I32)
    # Subtracting the bits of sqrt(1/2) makes the exponent field that of the nearest power of 2.
    exponent = (bits - 0x3F3504F3) >> 23
    fraction = (bits - (exponent << 23)).bits_as(F32) - 1.0
    power = exponent.to(F32) + k.select(tiny, k.constant(-23.0, F32, n), k.constant(0.0, F32, n))
    squared = fraction * fraction
    small = k.fma(squared * fraction, series(k, _LOG, fraction), squared * -0.5)
    small = k.fma(power, k.constant(LOG_2[1], F32, n), small) + fraction
    result = k.fma(power, k.constant(LOG_2[0], F32, n), small)
    return log_where_defined(k, x, result)


def log_where_defined(k: Kernel, x: Value, result: Value) -> Value:
    """The logarithm of x that `result` is for finite positive x."""
    infinite = k.constant(math.inf, x.type, x.lanes)
    result = k.select(x < infinite, result, x)  # infinity and NaN stay
    result = k.select(x < 0.0, k.constant(math.nan, x.type, x.lanes), result)
    return k.select(x.equals(0.0), -infinite, result)


def softplus(k: Kernel, x: Value) -> Value:
    """log(1 + e^x) = max(x, 0) + log(1 + s) with s = e^-|x|; error 3 units of the last place.

    1 + s is between 1 and 2: it is 1 + f, or 2 (1 + f), with f between sqrt(1/2) - 1 and
    sqrt(2) - 1, which needs no digits that rounding 1 + s would lose.
    """
    n = x.lanes
    zero = k.constant(0.0, F32, n)
    small = exp(k, -k.intrinsic("fabs", x))
    halved = small > math.sqrt(2) - 1
    fraction = k.select(halved, (small - 1.0) * 0.5, small)
    high, low = (k.select(halved, k.constant(part, F32, n), zero) for part in LOG_2)
    squared = fraction * fraction
    rest = k.fma(squared * fraction, series(k, _LOG, fraction), squared * -0.5)
    return larger(k, x, zero) + (((rest + low) + fraction) + high)


def mish(k: Kernel, x: Value) -> Value:
    """x * tanh(softplus(x)) = x * n / (n + 2) with n = e^x (e^x + 2), which loses no digits;
    error 6 units of the last place.
    """
    limit = k.constant(_MISH_END, F32, x.lanes)
    power = exp(k, k.select(x > limit, limit, x))  # an ordered comparison keeps NaN
    n = power * (power + 2.0)
    return x * (n / (n + 2.0))


def gelu(k: Kernel, x: Value) -> Value:
    """x * (1 + erf(x / sqrt 2)) / 2, as x times the normal distribution's part below x; error 4e-7,
    3 units of the last place above 0.
    """
    n = x.lanes
    size, end = k.intrinsic("fabs", x), k.constant(_NORMAL_END, F32, n)
    bounded = k.select(size > end, end, size)  # ordered comparisons keep NaN
    power = k.fma(-bounded, polynomial(k, _NORMAL, bounded), k.constant(-1.0, F32, n))
    start = k.constant(WHOLE + 127, F32, n)
    shifted = power + start
    whole = shifted - start
    part = polynomial(k, _POWER, power - whole)
    if k.scales(n):
        part = k.scaled(part, whole)
    else:
        part = part * (shifted.bits_as(I32) << 23).bits_as(F32)
    part = k.select(size > end, k.constant(0.0, F32, n), part)
    return x * k.select(x < 0.0, part, k.constant(1.0, F32, n) - part)


def gelu_tanh(k: Kernel, x: Value) -> Value:
    """x * (1 + tanh(u)) / 2 = x / (1 + exp(-2 u)) with u = sqrt(2 / pi) * (x + 0.044715 x^3)."""
    return x * accurate_sigmoid(k, twice_u(k, x))


def twice_u(k: Kernel, x: Value) -> Value:
    """2 u of `gelu_tanh`."""
    twice = 2 * math.sqrt(2 / math.pi)
    share = k.fma(
        x * x, k.constant(twice * 0.044715, F32, x.lanes), k.constant(twice, F32, x.lanes)
    )
    return x * share
