"""Functions of f32 vectors for results that are rounded to bf16: fewer terms, no division.

Half a step of bf16 is between 2e-3 and 4e-3 of a number. Errors here are below 2.5e-4 of the result
(that of Gelu is of its argument), which leaves nearly all roundings as they are. NaN stays NaN.
Coefficients are minimax fits by Lawson's reweighting on Chebyshev points, rounded to f32.
"""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import LOG2_E, polynomial, series, split_power
from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.codegen.functions import clamped, twice_u

#: erf(t) = t P(t^2) for |t| <= `_ERF_END`, where it is 1.
_ERF = (
    1.1279977560043335, -0.37374305725097656, 0.1084434986114502, -0.02313162572681904,
    0.0034573921002447605, -0.0003374452644493431, 1.9059993064729497e-05,
    -4.6827264554849535e-07,
)  # fmt: skip
_ERF_END = 2.9
#: 2^f for -1/2 <= f <= 1/2, to within 7.5e-5 of it.
_POWER = (0.9999280571937561, 0.6932609677314758, 0.2426111251115799, 0.0551716685295105)
#: tanh(x) = x P(x^2) / Q(x^2) for |x| <= `_TANH_END`, to within 4.2e-5 of it; there it is 1 but for
#: 1.4e-4.
_TANH_OVER = (0.99995884373, 0.103027983, 0.000689910891)
_TANH_UNDER = (1.0, 0.436100354, 0.0130090299)
_TANH_END = 4.8
#: Above 2^this the quotient of Mish is 1; of smaller numbers than that e^x is no normal number.
_MISH_END, _LEAST_POWER = 30.0, -126 / LOG2_E


def gelu(k: Kernel, x: Value) -> Value:
    """Gelu with an erf to within 7e-5: no exponential."""
    n = x.lanes
    t = _cut(k, x * math.sqrt(0.5), _ERF_END)
    square = t * t
    fourth = square * square
    pairs = [
        k.fma(square, k.constant(odd, F32, n), k.constant(even, F32, n))
        for even, odd in zip(_ERF[::2], _ERF[1::2], strict=True)
    ]
    low, high = (k.fma(b, fourth, a) for a, b in zip(pairs[::2], pairs[1::2], strict=True))
    half = x * 0.5
    return k.fma(half * t, k.fma(high, fourth * fourth, low), half)


def sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + 2^p); what is no normal number is 0."""
    part, scale = split_power(k, x, -LOG2_E, -126.0, 128.0)
    one = k.constant(1.0, F32, x.lanes)
    return k.estimated_reciprocal(k.fma(polynomial(k, _POWER, part), scale, one))


def swish(k: Kernel, x: Value) -> Value:
    """x * sigmoid(x)."""
    return x * sigmoid(k, x)


def swish_scaled(k: Kernel, x: Value, beta: Value) -> Value:
    """x * sigmoid(beta * x)."""
    return x * sigmoid(k, x * beta)


def hsigmoid(k: Kernel, x: Value) -> Value:
    """x + 3 between 0 and 6, times 1/6."""
    return clamped(k, x + 3.0, 0.0, 6.0) * (1 / 6)


def hswish(k: Kernel, x: Value) -> Value:
    """x * hsigmoid(x)."""
    return x * hsigmoid(k, x)


def mish(k: Kernel, x: Value) -> Value:
    """x * tanh(softplus(x)) = x * n / (n + 2) with n = e^x (e^x + 2); an e^x that is no normal
    number is 0.
    """
    part, scale = split_power(k, x, LOG2_E, -126.0, _MISH_END)
    power = polynomial(k, _POWER, part) * scale
    power = k.select(x < _LEAST_POWER, k.constant(0.0, F32, x.lanes), power)
    n = power * (power + 2.0)
    return x * (n * k.estimated_reciprocal(n + 2.0))


def gelu_tanh(k: Kernel, x: Value) -> Value:
    """Gelu by tanh, which is x * sigmoid(2 u)."""
    return x * sigmoid(k, twice_u(k, x))


def tanh(k: Kernel, x: Value) -> Value:
    """A quotient of two polynomials; -0 stays -0."""
    x = _cut(k, x, _TANH_END)
    square = x * x
    under = k.estimated_reciprocal(series(k, _TANH_UNDER, square))
    return x * series(k, _TANH_OVER, square) * under


def _cut(k: Kernel, x: Value, size: float) -> Value:
    """x between -size and size."""
    end = k.constant(size, F32, x.lanes)
    return k.select(x > end, end, k.select(x < -end, -end, x))  # ordered comparisons keep NaN
