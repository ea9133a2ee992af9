"""Functions of f64 vectors: powers of e and logarithms, sigmoid and tanh, sine and cosine. Errors
are about 1e-16, relative to the result where that is small; those of powers and logarithms always.
"""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import series
from uncork.kernels.codegen.circular import turned
from uncork.kernels.codegen.emit import F64, I64, Kernel, Value
from uncork.kernels.codegen.functions import clamped, log_where_defined

#: (2^f - 1) / f for -1/2 <= f <= 1/2, by its Taylor series.
_POWER_LESS_1 = [math.log(2) ** (n + 1) / math.factorial(n + 1) for n in range(14)]
_LOG2_E = 1 / math.log(2)
#: log 2 in two parts: the first times any exponent is exact.
_LOG_2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
#: 1.5 * 2^52: what is added to it is rounded to a whole number, which its last bits hold.
_WHOLE = 1.5 * 2.0**52


#: Sine over x and cosine for -pi/4 <= x <= pi/4, in x^2, by their Taylor series.
_SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(10)]
_COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(10)]


def exp(k: Kernel, x: Value) -> Value:
    """e^x: x is a multiple of log 2 and a rest of at most half of it. Beyond +-800 there are only
    infinity and 0.
    """
    x = clamped(k, x, -800.0, 800.0)
    whole = k.intrinsic("rint", x * _LOG2_E)
    rest = k.fma(whole, k.constant(-_LOG_2[0], F64, x.lanes), x)
    rest = k.fma(whole, k.constant(-_LOG_2[1], F64, x.lanes), rest)
    number = k.select(whole.equals(whole), whole, k.constant(0.0, F64, x.lanes)).to(I64)
    half = number >> 1  # two factors: neither is subnormal or infinite
    first, second = (((n + 1023) << 52).bits_as(F64) for n in (half, number - half))
    return series(k, [1 / math.factorial(n) for n in range(15)], rest) * first * second


def log(k: Kernel, x: Value) -> Value:
    """The natural logarithm; -infinity of 0, NaN below."""
    n = x.lanes
    small = x < 2.0**-1022
    scaled = k.select(small, x * 2.0**54, x)
    bits = scaled.bits_as(I64)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52  # of which the rest is in [sqrt(1/2), sqrt(2))
    more = (bits - (exponent << 52)).bits_as(F64) - 1.0
    power = k.select(small, exponent - 54, exponent).to(F64)
    s = more / (more + 2.0)
    # log(1 + f) = f - s (f - r) with s = f / (f + 2) and r = 2 s^2 / 3 + 2 s^4 / 5 + ..
    terms = series(k, [2 / (2 * i + 3) for i in range(11)], s * s) * (s * s)
    low = k.fma(power, k.constant(_LOG_2[1], F64, n), -(s * (more - terms)))
    result = k.fma(power, k.constant(_LOG_2[0], F64, n), more + low)
    return log_where_defined(k, x, result)


def sin(k: Kernel, x: Value) -> Value:
    return k.select(x.equals(0.0), x, turned(k, x, 0, sine_and_cosine))  # of -0 it is -0


def cos(k: Kernel, x: Value) -> Value:
    return turned(k, x, 1, sine_and_cosine)


def sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + 2^p), which is 0 from 2^1024 on, infinity."""
    less, scale = _power_less_1(k, x * -_LOG2_E, -1000.0, 1024.0)
    one = k.constant(1.0, F64, x.lanes)
    return one / k.fma(less + 1.0, scale, one)


def tanh(k: Kernel, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 x) - 1, which keeps its digits near 0."""
    less, scale = _power_less_1(k, x * (2 * _LOG2_E), -60.0, 60.0)  # from where on e + 2 is e
    e = k.fma(less, scale, scale - 1.0)
    return e / (e + 2.0)


def sine_and_cosine(k: Kernel, x: Value) -> tuple[Value, Value]:
    """The sine and the cosine of angles from -pi/4 to pi/4."""
    return x * series(k, _SINE, x * x), series(k, _COSINE, x * x)


def _power_less_1(k: Kernel, x: Value, low: float, high: float) -> tuple[Value, Value]:
    """(2^f - 1, 2^n) with 2^x = 2^f * 2^n; x is cut at `low` and `high`, and 2^1024 is infinity.
    NaN gives NaN and any number.
    """
    x = clamped(k, x, low, high)
    shifted = x + _WHOLE
    part = x - (shifted - _WHOLE)
    scale = ((shifted.bits_as(I64) + 1023) << 52).bits_as(F64)
    return part * series(k, _POWER_LESS_1, part), scale
