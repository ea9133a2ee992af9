"""Circular and hyperbolic functions and their inverses, and the inverse of erf, of f32 vectors,
computed in f64: no error is above 1 unit of the last place.

f64 has so many digits to spare that polynomials with errors of 1e-9 do, and an angle keeps its own
digits when whole turns are taken off. NaN stays NaN; what a function is not defined for gives NaN.
Coefficients that are no series are minimax fits. Those of erf's inverse are Wichura's (AS 241).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uncork.kernels.codegen.activations import series
from uncork.kernels.codegen.emit import F32, F64, I64, Kernel, Value
from uncork.kernels.codegen.exact_rests import rest_of
from uncork.kernels.codegen.functions import clamped, log_where_defined, negated

#: atan(t) / t on [0, 1] and asin(t) / t on [0, 1/2], by powers of t^2.
_ATAN = (
    0.9999999996282, -0.3333332393469, 0.1999960461765, -0.1427915939618,
    0.110544997314, -0.08798766817908, 0.06716096378183, -0.04435734774762,
    0.02227423583038, -0.007199330236854, 0.001091100430789,
)  # fmt: skip
_ASIN = (
    1.000000000001, 0.1666666660864, 0.07500006048241, 0.04464043834101,
    0.03043011469178, 0.02183863971427, 0.02076247277912, 0.001715239491053,
    0.03315851509587,
)  # fmt: skip
#: sin(t) / t on [-pi/2, pi/2], by powers of t^2: to 3e-11.
_SINE = (
    0.9999999999828987, -0.16666666616766043, 0.008333330972335804, -0.00019840860936718842,
    2.7525257177301262e-06, -2.3888990281026986e-08,
)  # fmt: skip
#: 1.5 * 2^52: what is added to it is rounded to a whole number.
_WHOLE = 6755399441055744.0
#: erf's inverse by the quantiles of the normal distribution: numerator and denominator near 0, and
#: towards 1.
_MIDDLE = (
    (
        3.3871328727963666, 133.14166789178438, 1971.5909503065514, 13731.693765509461,
        45921.95393154987, 67265.7709270087, 33430.57558358813, 2509.0809287301227,
    ),
    (
        1.0, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597,
        39307.89580009271, 28729.085735721943, 5226.495278852855,
    ),
)  # fmt: skip
_TAIL = (
    (
        1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045,
        1.2704582524523684, 0.2417807251774506, 0.022723844989269184, 7.745450142783414e-4,
    ),
    (
        1.0, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008,
        0.015198666563616457, 5.475938084995345e-4, 1.0507500716444169e-9,
    ),
)  # fmt: skip
#: Up to here the middle serves; where the polynomials of the tail begin.
_MIDDLE_END, _TAIL_BEGIN = 0.85, 1.6
#: Larger angles are left to the reference: in f64 their turns would cost digits.
_LARGEST_ANGLE = 2.0**40
#: pi / 2 in two parts.
_HALF_PI = (math.pi / 2, 6.123233995736766e-17)
#: Where series are better than differences, and where the first terms are all of them.
_SMALL, _TINY = 0.5, 1e-3


def _odd_series(k: Kernel, coefficients: Sequence[float], x: Value) -> Value:
    return x * series(k, coefficients, x * x)


def _in_f64(function: Callable[[Kernel, Value], Value]) -> Callable[[Kernel, Value], Value]:
    return lambda k, x: function(k, x.to(F64)).to(F32)


def _quarters(k: Kernel, x: Value) -> tuple[Value, Value]:
    """(rest, n mod 4): x is n quarters of a turn plus the rest, which lies in [-pi/4, pi/4]. The
    kernel gives up on huge angles.
    """
    size = k.intrinsic("fabs", x)
    fits = (size < _LARGEST_ANGLE) | size.equals(math.inf) | negated(k, x.equals(x))
    k.stop_unless(k.all_of(fits), k.integer(1))
    whole = k.intrinsic("rint", x * (2 / math.pi))
    rest = rest_of(k, x, whole, k.constant(_HALF_PI[0], F64, x.lanes))
    rest = k.fma(whole, k.constant(-_HALF_PI[1], F64, x.lanes), rest)
    return rest, whole - k.intrinsic("floor", whole * 0.25) * 4.0


def _sine_and_cosine(k: Kernel, rest: Value) -> tuple[Value, Value]:
    sine = _odd_series(k, [(-1) ** n / math.factorial(2 * n + 1) for n in range(6)], rest)
    return sine, series(k, [(-1) ** n / math.factorial(2 * n) for n in range(7)], rest * rest)


def turned(
    k: Kernel,
    x: Value,
    ahead: int,
    both: Callable[[Kernel, Value], tuple[Value, Value]],
) -> Value:
    """The sine of the angle x plus `ahead` quarters of a turn: with 0 the sine of x, with 1 its
    cosine. `both` gives those of a small angle.
    """
    rest, quarter = _quarters(k, x)
    sine, cosine = both(k, rest)
    odd = quarter.equals(1.0) | quarter.equals(3.0)
    value = k.select(odd, sine, cosine) if ahead else k.select(odd, cosine, sine)
    negative = quarter.equals(1.0) | quarter.equals(2.0) if ahead else quarter >= 2.0
    return k.select(negative, -value, value)


def _wave(k: Kernel, angle: Value, ahead: float) -> Value:
    """The sine of f32 angles plus `ahead` half turns, by one polynomial over half a turn: the sine
    of what is left of the angle, which changes its sign with each half turn taken off. The kernel
    gives up on huge angles.
    """
    n, size = angle.lanes, k.intrinsic("fabs", angle)
    huge = (size >= _LARGEST_ANGLE) & (size < math.inf)
    k.stop_unless(k.all_of(negated(k, huge)), k.integer(1))
    x, start = angle.to(F64), k.constant(_WHOLE, F64, n)
    # The sum's last bits are the whole number.
    turns = k.fma(x, k.constant(1 / math.pi, F64, n), k.constant(ahead, F64, n))
    shifted = turns + start
    whole = (shifted - start) - ahead
    rest = rest_of(k, x, whole, k.constant(2 * _HALF_PI[0], F64, n))
    rest = k.fma(whole, k.constant(-2 * _HALF_PI[1], F64, n), rest)
    value = _odd_series(k, _SINE, rest)
    return (value.bits_as(I64) ^ (shifted.bits_as(I64) << 63)).bits_as(F64).to(F32)


def _tan(k: Kernel, x: Value) -> Value:
    rest, quarter = _quarters(k, x)
    sine, cosine = _sine_and_cosine(k, rest)
    odd = quarter.equals(1.0) | quarter.equals(3.0)
    return k.select(x.equals(0.0), x, k.select(odd, -cosine, sine) / k.select(odd, sine, cosine))


def _atan(k: Kernel, x: Value) -> Value:
    size = k.intrinsic("fabs", x)
    far = size > 1.0
    near = _odd_series(k, _ATAN, k.select(far, k.constant(1.0, F64, x.lanes) / size, size))
    return _signed(k, k.select(far, k.constant(math.pi / 2, F64, x.lanes) - near, near), x)


def _signed(k: Kernel, size: Value, sign: Value) -> Value:
    """A number that is not negative with the sign of another; -0 keeps its own."""
    bits = (size.bits_as(I64) & 0x7FFFFFFFFFFFFFFF) | (sign.bits_as(I64) & -0x8000000000000000)
    return bits.bits_as(F64)


def _asin(k: Kernel, x: Value) -> Value:
    size = k.intrinsic("fabs", x)
    one = k.constant(1.0, F64, x.lanes)
    far = size > 0.5
    t = k.select(far, k.intrinsic("sqrt", (one - size) * 0.5), size)  # NaN beyond 1
    near = _odd_series(k, _ASIN, t)
    return _signed(k, k.select(far, k.constant(math.pi / 2, F64, x.lanes) - near * 2.0, near), x)


def _acos(k: Kernel, x: Value) -> Value:
    return k.constant(math.pi / 2, F64, x.lanes) - _asin(k, x)


def _exp(k: Kernel, x: Value) -> Value:
    """e^x of f64 numbers that f32 holds; x is cut at +-200, beyond which f32 has only 0 and
    infinity.
    """
    x = clamped(k, x, -200.0, 200.0)
    whole = k.intrinsic("rint", x * (1 / math.log(2)))
    part = k.fma(whole, k.constant(-math.log(2), F64, x.lanes), x)
    number = k.select(whole.equals(whole), whole, k.constant(0.0, F64, x.lanes)).to(I64)
    return series(k, [1 / math.factorial(n) for n in range(11)], part) * (
        (number + 1023) << 52
    ).bits_as(F64)


def _log(k: Kernel, x: Value) -> Value:
    """The natural logarithm of f64 numbers that are no subnormal ones; -infinity of 0, NaN
    below.
    """
    bits = x.bits_as(I64)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52  # of which the rest is in [sqrt(1/2), sqrt(2))
    fraction = (bits - (exponent << 52)).bits_as(F64)
    s = (fraction - 1.0) / (fraction + 1.0)
    result = exponent.to(F64) * math.log(2) + _odd_series(k, [2 / (2 * i + 1) for i in range(7)], s)
    return log_where_defined(k, x, result)


def _sinh(k: Kernel, x: Value) -> Value:
    power = _exp(k, x)
    far = (power - k.constant(1.0, F64, x.lanes) / power) * 0.5
    near = _odd_series(k, [1 / math.factorial(2 * n + 1) for n in range(5)], x)
    return k.select(k.intrinsic("fabs", x) < _SMALL, near, far)


def _cosh(k: Kernel, x: Value) -> Value:
    power = _exp(k, x)
    return (power + k.constant(1.0, F64, x.lanes) / power) * 0.5


def _asinh(k: Kernel, x: Value) -> Value:
    size = k.intrinsic("fabs", x)
    far = _signed(k, _log(k, size + k.intrinsic("sqrt", size * size + 1.0)), x)
    return k.select(size < _TINY, _odd_series(k, [1.0, -1 / 6, 3 / 40], x), far)


def _acosh(k: Kernel, x: Value) -> Value:
    return _log(k, x + k.intrinsic("sqrt", x - 1.0) * k.intrinsic("sqrt", x + 1.0))


def _atanh(k: Kernel, x: Value) -> Value:
    one = k.constant(1.0, F64, x.lanes)
    far = _log(k, (one + x) / (one - x)) * 0.5
    return k.select(k.intrinsic("fabs", x) < _TINY, _odd_series(k, [1.0, 1 / 3, 1 / 5], x), far)


def _ratio(k: Kernel, parts: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    return series(k, parts[0], x) / series(k, parts[1], x)


def _inverse_erf(k: Kernel, y: Value) -> Value:
    size = k.intrinsic("fabs", y)
    near = size * _ratio(k, _MIDDLE, (size * size) * -0.25 + _MIDDLE_END**2 / 4) * 0.5
    rest = (k.constant(1.0, F64, y.lanes) - size) * 0.5  # exact; NaN beyond 1 by its logarithm
    far = _ratio(k, _TAIL, k.intrinsic("sqrt", -_log(k, rest)) - _TAIL_BEGIN)
    result = k.select(size <= _MIDDLE_END, near, far) * math.sqrt(0.5)
    return _signed(k, k.select(size.equals(1.0), k.constant(math.inf, F64, y.lanes), result), y)


def atan2(k: Kernel, a: Value, b: Value) -> Value:
    """The angle of the point (b, a), of f32 vectors: of zeros and infinities by their signs."""
    y, x = a.to(F64), b.to(F64)
    height, width = k.intrinsic("fabs", y), k.intrinsic("fabs", x)
    steep = height > width
    large, small = k.select(steep, height, width), k.select(steep, width, height)
    zero, one = k.constant(0.0, F64, y.lanes), k.constant(1.0, F64, y.lanes)
    share = k.select(large.equals(0.0), zero, small / large)
    share = k.select(small.equals(math.inf), one, share)
    angle = _odd_series(k, _ATAN, share)
    angle = k.select(steep, k.constant(math.pi / 2, F64, y.lanes) - angle, angle)
    behind = x.bits_as(I64) < 0
    angle = k.select(behind, k.constant(math.pi, F64, y.lanes) - angle, angle)
    known = x.equals(x) & y.equals(y)
    return k.select(known, _signed(k, angle, y), k.constant(math.nan, F64, y.lanes)).to(F32)


#: Each function of f32 by the word for it.
CIRCULAR: dict[str, Callable[[Kernel, Value], Value]] = {
    "sin": lambda k, x: _wave(k, x, 0.0),
    "cos": lambda k, x: _wave(k, x, 0.5),
    **{
        name: _in_f64(function)
        for name, function in {
            "tan": _tan, "asin": _asin, "acos": _acos, "atan": _atan, "sinh": _sinh, "cosh": _cosh,
            "asinh": _asinh, "acosh": _acosh, "atanh": _atanh, "erf_inverse": _inverse_erf,
        }.items()
    },
}  # fmt: skip
