"""Sigmoid, tanh and relu of f32 vectors, as they end a recurrent step.

exp is 2**x by a polynomial on [-1/2, 1/2] and the exponent's bits. Maximum absolute errors: sigmoid
1.1e-7, tanh 2.5e-7. NaN stays NaN; infinities saturate. The relative error of tanh is below 4e-7,
and below 6e-8 near 0, and there the errors have no one sign: a state that comes back for a thousand
steps carries the sum of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, I32, U32, Kernel, Value

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
LOG2_E = 1.4426950408889634
#: log(2) in two parts: the first has so few digits that its product with an exponent is exact.
LOG_2 = (0.693145751953125, 1.42860682030941723212e-6)
#: e**f = 1 + f + f**2 P(f) for |f| <= log(2) / 2: a minimax fit by relative errors, to 4e-9.
_EXP = (
    0.4999999403953552,
    0.1666651964187622,
    0.04166839271783829,
    0.008368780836462975,
    0.0013814467238262296,
)
#: 1.5 * 2**23: from here on f32 has no digits behind the point, and what is added is rounded to a
#: whole number.
WHOLE = 12582912.0


def split_power(k: Kernel, x: Value, low: float, high: float) -> tuple[Value, Value]:
    """(f, 2**n) with 2**x = 2**f * 2**n and f in [-1/2, 1/2]; x is cut at `low` and `high`, and 128
    is infinity. NaN gives NaN and any number.
    """
    least, most = (k.constant(limit, F32, x.lanes) for limit in (low, high))
    x = k.select(x > most, most, x)  # an ordered comparison keeps NaN
    x = k.select(x < least, least, x)
    shifted = x + WHOLE  # whose last bits are the nearest whole number
    whole = shifted - WHOLE
    if k.scales(x.lanes):
        return x - whole, k.scaled(k.constant(1.0, F32, x.lanes), whole)
    return x - whole, ((shifted.bits_as(I32) + 127) << 23).bits_as(F32)


def series(k: Kernel, coefficients: Sequence[float], x: Value) -> Value:
    """The polynomial with these coefficients, constant first, of numbers of any type."""
    result = k.constant(coefficients[-1], x.type, x.lanes)
    for coefficient in reversed(coefficients[:-1]):
        result = k.fma(result, x, k.constant(coefficient, x.type, x.lanes))
    return result


def polynomial(k: Kernel, coefficients: Sequence[float], x: Value) -> Value:
    """A polynomial, the constant first. Its terms are taken in pairs, because each product waits
    for the one before it.
    """
    numbers = [k.constant(coefficient, F32, x.lanes) for coefficient in coefficients]
    pairs = [k.fma(x, b, a) for a, b in zip(numbers[::2], numbers[1::2], strict=False)]
    pairs += numbers[len(pairs) * 2 :]
    square = x * x
    result = pairs.pop()
    while pairs:
        result = k.fma(result, square, pairs.pop())
    return result


def sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + 2**p): a gate that is shut is 0, not nearly, since it may meet an infinite state."""
    part, scale = split_power(k, x * -LOG2_E, -126.0, 128.0)
    denominator = k.fma(polynomial(k, _POWER, part), scale, k.constant(1.0, F32, x.lanes))
    return k.reciprocal(denominator, infinite=True)


def tanh(k: Kernel, x: Value) -> Value:
    """e / (e + 2) with e = exp(2 x) - 1; near 0, where states that hardly change carry the errors
    of a thousand steps, an odd polynomial that rounds once.
    """
    n = x.lanes
    one, squared = k.constant(1.0, F32, n), x * x
    near = k.fma(series(k, _TANH, squared), squared * x, x)
    part, scale = split_power(k, x * (2 * LOG2_E), -26.0, 26.0)  # from where on e + 2 is e
    e = k.fma(polynomial(k, _POWER_LESS_1, part), part * scale, scale - one)
    result = e * k.reciprocal(e + 2.0)
    result = k.select(result > one, one, result)  # which rounding may pass by
    result = k.select(result < -one, -one, result)
    return k.select(squared < _TANH_NEAR**2, near, result)


def copysign(k: Kernel, size: Value, sign: Value) -> Value:
    """`size`, which is not negative, with the sign of `sign`."""
    return (size.bits_as(U32) | (sign.bits_as(U32) & 0x80000000)).bits_as(F32)


def relu(k: Kernel, x: Value) -> Value:
    zero = k.constant(0.0, x.type, x.lanes)
    return k.select(x < zero, zero, x)


def _exp_parts(k: Kernel, x: Value, bias: int, sign: int = 1) -> tuple[Value, Value]:
    """(e**f, a number) with e**(sign * x) = e**f * 2**n and f in +-log(2)/2, for x whose n is at
    most 255 from 0.

    The number is n as f32 where the processor scales by it (`k.scales`). Elsewhere it is n + bias
    in the lower half of an i32, whose upper half stands for nothing; NaN has any.
    """
    n = x.lanes
    start = k.constant(WHOLE + bias, F32, n)
    shifted = k.fma(x, k.constant(sign * LOG2_E, F32, n), start)  # see `WHOLE`
    whole = shifted - start
    part = k.fma(whole, k.constant(-sign * LOG_2[0], F32, n), x)
    part = k.fma(whole, k.constant(-sign * LOG_2[1], F32, n), part)
    second, third, fourth, fifth, sixth = (
        k.constant(coefficient * sign**power, F32, n) for power, coefficient in enumerate(_EXP)
    )
    squared = part * part
    high = k.fma(squared, sixth, k.fma(part, fifth, fourth))
    one = k.constant(1.0, F32, n)
    low = one + part if sign > 0 else one - part
    result = k.fma(k.fma(high, squared, k.fma(part, third, second)), squared, low)
    return result, whole if k.scales(n) else shifted.bits_as(I32)


def exp_of_normal(k: Kernel, x: Value, sign: int = 1) -> tuple[Value, Value]:
    """(e**f, 2**n), whose product is e**(sign * x) within 1.3 units of the last place, for sign * x
    from -87, below which the result is no normal number, to 88.8, of which 2**n is infinity.
    """
    power, number = _exp_parts(k, x, 127, sign)
    if k.scales(x.lanes):
        return power, k.scaled(k.constant(1.0, F32, x.lanes), number)
    return power, (number << 23).bits_as(F32)


def exp(k: Kernel, x: Value) -> Value:
    """e**x to within 1.3 units of the last place over all of f32: the multiple of log(2) is taken
    off in two parts.
    """
    n = x.lanes
    high, low = k.constant(88.8, F32, n), k.constant(-104.0, F32, n)
    x = k.select(x > high, high, x)  # ordered comparisons keep NaN
    x = k.select(x < low, low, x)
    result, number = _exp_parts(k, x, 254)
    if k.scales(n):
        return k.scaled(result, number)
    # 2**n in two steps: one exponent field does not reach from the smallest subnormal to the
    # largest number.
    half = number >> 1
    return result * (half << 23).bits_as(F32) * ((number - half) << 23).bits_as(F32)


def accurate_sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + exp(-x)) within 3 units of the last place where the result is a normal number; what
    is less than half of the smallest one is 0.
    """
    n = x.lanes
    one, low, high = (k.constant(number, F32, n) for number in (1.0, -88.8, 87.0))
    x = k.select(x < low, low, x)  # ordered comparisons keep NaN
    x = k.select(x > high, high, x)
    power, scale = exp_of_normal(k, x, -1)
    return one / k.fma(power, scale, one)


def accurate_tanh(k: Kernel, x: Value) -> Value:
    """tanh within 2.5 units of the last place: near 0 by an odd polynomial, elsewhere by exp."""
    n = x.lanes
    size, squared = k.intrinsic("fabs", x), x * x
    near = k.fma(series(k, _TANH, squared) * squared, size, size)
    one, end = k.constant(1.0, F32, n), k.constant(10.0, F32, n)  # from where on the result is 1
    size = k.select(size > end, end, size)  # an ordered comparison keeps NaN
    power, scale = exp_of_normal(k, size + size)
    far = one - k.constant(2.0, F32, n) / k.fma(power, scale, one)
    return copysign(k, k.select(size < _TANH_NEAR, near, far), x)  # -0 stays -0, too


#: For the gates of recurrent cells.
ACTIVATIONS: dict[str, Callable[[Kernel, Value], Value]] = {
    "sigmoid": sigmoid,
    "tanh": tanh,
    "relu": relu,
}
