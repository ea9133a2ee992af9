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
#: (tanh(x) / x - 1) / x^2 in x^2, for |x| below `_TANH_NEAR`: a minimax fit, whose error is a
#: quarter of a unit of the last place.
_TANH = (
    -0.33333197236061096,
    0.13329242169857025,
    -0.05356696620583534,
    0.02011159621179104,
    -0.005155055318027735,
)
_TANH_NEAR = 0.7
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


def split_power(k: Kernel, x: Value, factor: float, low: float, high: float) -> tuple[Value, Value]:
    """(f, 2**n) with 2**(factor * x) = 2**f * 2**n and f in [-1/2, 1/2]; factor * x is cut at `low`
    and `high`, and 128 is infinity. NaN gives NaN and any number.
    """
    least, most = (
        k.constant(limit, F32, x.lanes) for limit in sorted((low / factor, high / factor))
    )
    x = k.select(x > most, most, x)  # an ordered comparison keeps NaN
    x = k.select(x < least, least, x)
    by, start = k.constant(factor, F32, x.lanes), k.constant(WHOLE + 127, F32, x.lanes)
    shifted = k.fma(x, by, start)  # whose last bits are the nearest whole number, plus 127
    whole = shifted - start
    part = k.fma(x, by, -whole)
    if k.scales(x.lanes):
        return part, k.scaled(k.constant(1.0, F32, x.lanes), whole)
    return part, (shifted.bits_as(I32) << 23).bits_as(F32)


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
    return k.reciprocal(_power_and_1(k, x, -LOG2_E, -126.0, 128.0), infinite=True)


def tanh(k: Kernel, x: Value) -> Value:
    """1 - 2 / (exp(2 x) + 1); near 0, where states that hardly change carry the errors of a
    thousand steps, an odd polynomial that rounds once.
    """
    squared = x * x
    near = k.fma(series(k, _TANH, squared), squared * x, x)
    under = _power_and_1(k, x, 2 * LOG2_E, -126.0, 26.0)  # from where on the result is 1
    one, two = (k.constant(number, F32, x.lanes) for number in (1.0, 2.0))
    far = k.fma(k.reciprocal(under), -two, one) if k.scales(x.lanes) else one - two / under
    return k.select(squared < _TANH_NEAR**2, near, far)


def _power_and_1(k: Kernel, x: Value, factor: float, low: float, high: float) -> Value:
    """2**(factor * x) + 1, the exponent cut as by `split_power`."""
    part, scale = split_power(k, x, factor, low, high)
    return k.fma(polynomial(k, _POWER, part), scale, k.constant(1.0, F32, x.lanes))


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
