"""Sigmoid, tanh and relu of f32 vectors, as they end a recurrent step.

exp is 2**x by a polynomial on [-1/2, 1/2] and the exponent's bits. Maximum absolute errors: sigmoid
1.1e-7, tanh 2.5e-7. NaN stays NaN; infinities saturate. The relative error of tanh is below 4e-7,
and below 6e-8 near 0, and there the errors have no one sign: a state that comes back for a thousand
steps carries the sum of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, I32, Kernel, Value

#: Coefficients of 2**f, constant first: a minimax fit by relative errors among those that are 1 at
#: 0, so that gates that are nearly open or half open have errors of both signs.
_POWER = (
    1.0,
    0.6931469775985,
    0.2402224208492,
    0.0555073374424,
    0.0096715126606,
    0.0013264726899,
)
#: (2**f - 1) / f, the same with relative errors of 2e-8.
_POWER_LESS_1 = (
    0.6931471825,
    0.2402264923,
    0.0555036664,
    0.009618247859,
    0.001338776667,
    0.0001539839432,
)
#: (tanh(x) / x - 1) / x^2 in x^2, for |x| below `_TANH_NEAR`: a minimax fit, whose error is a tenth
#: of a unit of the last place.
_TANH = (-0.33333247900009155, 0.13329198956489563, -0.053339432924985886, 0.018013915047049522)
_TANH_NEAR = 0.45
_LOG2_E = 1.4426950408889634
#: 1.5 * 2**23: from here on f32 has no digits behind the point, and what is added is rounded to a
#: whole number.
_WHOLE = 12582912.0


def _split_power(k: Kernel, x: Value, most: float) -> tuple[Value, Value]:
    """(f, 2**n) with 2**x = 2**f * 2**n and f in [-1/2, 1/2]; x is cut at +-`most`. NaN gives NaN
    and any number.
    """
    limit = k.constant(most, F32, x.lanes)
    x = k.select(x > limit, limit, x)  # an ordered comparison keeps NaN
    x = k.select(x < -limit, -limit, x)
    shifted = x + _WHOLE  # whose last bits are the nearest whole number
    exponent = (shifted.bits_as(I32) + 127) << 23
    return x - (shifted - _WHOLE), exponent.bits_as(F32)


def series(k: Kernel, coefficients: Sequence[float], x: Value) -> Value:
    """The polynomial with these coefficients, constant first, of numbers of any type."""
    result = k.constant(coefficients[-1], x.type, x.lanes)
    for coefficient in reversed(coefficients[:-1]):
        result = k.fma(result, x, k.constant(coefficient, x.type, x.lanes))
    return result


def _polynomial(k: Kernel, coefficients: Sequence[float], x: Value) -> Value:
    """A polynomial of six coefficients, the constant first. They are taken in pairs, because each
    product waits for the one before it.
    """
    numbers = [k.constant(coefficient, F32, x.lanes) for coefficient in coefficients]
    low, middle, high = (k.fma(x, numbers[i + 1], numbers[i]) for i in (0, 2, 4))
    square = x * x
    return k.fma(k.fma(high, square, middle), square, low)


def sigmoid(k: Kernel, x: Value) -> Value:
    # Neither 2**126 nor its reciprocal leaves the normal numbers, where nothing is slow or
    # infinite.
    part, scale = _split_power(k, x * -_LOG2_E, 126.0)
    return k.reciprocal(k.fma(_polynomial(k, _POWER, part), scale, k.constant(1.0, F32, x.lanes)))


def tanh(k: Kernel, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 x) - 1; near 0, where states that hardly change carry the errors
    of a thousand steps, an odd polynomial that rounds once.
    """
    n = x.lanes
    one, squared = k.constant(1.0, F32, n), x * x
    near = k.fma(series(k, _TANH, squared), squared * x, x)
    part, scale = _split_power(k, x * (2 * _LOG2_E), 26.0)  # from where on e + 2 is e
    e = k.fma(_polynomial(k, _POWER_LESS_1, part), part * scale, scale - one)
    result = e * k.reciprocal(e + 2.0)
    result = k.select(result > one, one, result)  # which rounding may pass by
    result = k.select(result < -one, -one, result)
    return k.select(squared < _TANH_NEAR**2, near, result)


def relu(k: Kernel, x: Value) -> Value:
    zero = k.constant(0.0, x.type, x.lanes)
    return k.select(x < zero, zero, x)


def _bounded(k: Kernel, whole: Value) -> Value:
    """The value with some number in place of NaN, which has no integer: the polynomial is NaN
    already.
    """
    return k.select(whole.equals(whole), whole, k.constant(0.0, F32, whole.lanes))


def exp(k: Kernel, x: Value) -> Value:
    """e**x to within 2 units of the last place over all of f32: the multiple of log(2) is taken off
    in two parts.
    """
    n = x.lanes
    high, low = k.constant(88.8, F32, n), k.constant(-104.0, F32, n)
    bounded = k.select(x > high, high, k.select(x < low, low, x))
    whole = k.intrinsic("rint", bounded * _LOG2_E)
    part = k.fma(whole, k.constant(-0.693145751953125, F32, n), bounded)
    part = k.fma(whole, k.constant(-1.42860682030941723212e-6, F32, n), part)
    result = series(k, (1.0, 1.0, 0.5, 1 / 6, 1 / 24, 1 / 120, 1 / 720), part)
    if k.scales(n):
        return k.scaled(result, whole)
    # 2**whole in two steps: one exponent field does not reach from the smallest subnormal to the
    # largest number.
    number = _bounded(k, whole).to(I32)
    half = number >> 1
    return result * ((half + 127) << 23).bits_as(F32) * ((number - half + 127) << 23).bits_as(F32)


def accurate_sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + exp(-x)), relative error of a few units of the last place where the result is a
    normal number.
    """
    return k.constant(1.0, F32, x.lanes) / (exp(k, -x) + 1.0)


def accurate_tanh(k: Kernel, x: Value) -> Value:
    """tanh with a small relative error also near 0: there by an odd polynomial, elsewhere by
    exp.
    """
    n = x.lanes
    size = k.intrinsic("fabs", x)
    squared = x * x
    # The Taylor series up to x**13: its next term is below 2e-8 of the result where |x| < 0.4.
    taylor = (-1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
    near = k.fma(series(k, taylor, squared) * squared, x, x)
    far = k.constant(1.0, F32, n) - k.constant(2.0, F32, n) / (exp(k, size * 2.0) + 1.0)
    signed = k.select(x < 0.0, -far, far)
    return k.select(size < 0.4, near, signed)


#: For the gates of recurrent cells.
ACTIVATIONS: dict[str, Callable[[Kernel, Value], Value]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
}
