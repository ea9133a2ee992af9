"""Functions of f64 vectors: sigmoid and tanh, as they end a recurrent step, sine and cosine of
small angles; errors of about 1e-16, those of tanh and sine relative to the result near 0.
"""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import series
from uncork.kernels.codegen.emit import F64, I64, Kernel, Value

#: (2^f - 1) / f for -1/2 <= f <= 1/2, by its Taylor series.
_POWER_LESS_1 = [math.log(2) ** (n + 1) / math.factorial(n + 1) for n in range(14)]
_LOG2_E = 1 / math.log(2)
#: 1.5 * 2^52: what is added to it is rounded to a whole number, which its last bits hold.
_WHOLE = 1.5 * 2.0**52


#: Sine over x and cosine for -pi/4 <= x <= pi/4, in x^2, by their Taylor series.
_SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(10)]
_COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(10)]


def sigmoid(k: Kernel, x: Value) -> Value:
    less, scale = _power_less_1(k, x * -_LOG2_E, 1000.0)
    one = k.constant(1.0, F64, x.lanes)
    return one / (k.fma(less, scale, scale) + 1.0)


def tanh(k: Kernel, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 x) - 1, which keeps its digits near 0."""
    less, scale = _power_less_1(k, x * (2 * _LOG2_E), 60.0)  # from where on e + 2 is e
    e = k.fma(less, scale, scale - 1.0)
    return e / (e + 2.0)


def sine_and_cosine(k: Kernel, x: Value) -> tuple[Value, Value]:
    """The sine and the cosine of angles from -pi/4 to pi/4."""
    return x * series(k, _SINE, x * x), series(k, _COSINE, x * x)


def _power_less_1(k: Kernel, x: Value, most: float) -> tuple[Value, Value]:
    """(2^f - 1, 2^n) with 2^x = 2^f * 2^n; x is cut at +-`most`. NaN gives NaN and any number."""
    limit = k.constant(most, F64, x.lanes)
    x = k.select(x > limit, limit, x)  # ordered comparisons keep NaN
    x = k.select(x < -limit, -limit, x)
    shifted = x + _WHOLE
    part = x - (shifted - _WHOLE)
    scale = ((shifted.bits_as(I64) + 1023) << 52).bits_as(F64)
    return part * series(k, _POWER_LESS_1, part), scale
