"""Sigmoid, tanh and relu of f32 vectors, as they end a recurrent step.

exp is 2**x by a polynomial of degree 5 on [-1/2, 1/2] and the exponent's bits. Maximum absolute errors: sigmoid 1.1e-7,
tanh 2.1e-7. NaN stays NaN; infinities saturate. The relative error of tanh near 0 is larger than f32's: inside a recurrent
step that does not show, for a Tanh layer it would.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import F32, I32, Kernel, Value

#: Minimax-like coefficients of 2**f, constant first: a least-squares fit at Chebyshev points, weighted by 2**-f.
_POWER = (1.0000000710297, 0.6931469491611, 0.2402212175356, 0.0555074261600, 0.0096754597455, 0.0013266970387)
_LOG2_E = 1.4426950408889634


def _exp2(k: Kernel, x: Value) -> Value:
    """2**x, x cut at +-80 so that sums and products with it stay finite."""
    n = x.lanes
    limit = k.number(80.0, F32, n)
    x = k.select(x > limit, limit, x)  # an ordered comparison keeps NaN
    x = k.select(x < -limit, -limit, x)
    whole = k.intrinsic("rint", x)
    part = x - whole
    result = k.number(_POWER[5], F32, n)
    for coefficient in reversed(_POWER[:5]):
        result = k.fma(result, part, k.number(coefficient, F32, n))
    exponent = (_bounded(k, whole).to(I32) + 127) << 23
    return result * exponent.bits_as(F32)


def _bounded(k: Kernel, whole: Value) -> Value:
    """NaN has no integer: any will do, the polynomial is NaN already."""
    return k.select(whole.equals(whole), whole, k.number(0.0, F32, whole.lanes))


def sigmoid(k: Kernel, x: Value) -> Value:
    return k.reciprocal(_exp2(k, x * -_LOG2_E) + 1.0)


def tanh(k: Kernel, x: Value) -> Value:
    return k.fma(k.reciprocal(_exp2(k, x * (2 * _LOG2_E)) + 1.0), k.number(-2.0, F32, x.lanes), k.number(1.0, F32, x.lanes))


def relu(k: Kernel, x: Value) -> Value:
    zero = k.number(0.0, F32, x.lanes)
    return k.select(x < zero, zero, x)


def exp(k: Kernel, x: Value) -> Value:
    """e**x to within 2 units of the last place over all of f32: the multiple of log(2) is taken off in two parts."""
    n = x.lanes
    high, low = k.number(88.8, F32, n), k.number(-104.0, F32, n)
    bounded = k.select(x > high, high, k.select(x < low, low, x))
    whole = k.intrinsic("rint", bounded * _LOG2_E)
    part = k.fma(whole, k.number(-0.693145751953125, F32, n), bounded)
    part = k.fma(whole, k.number(-1.42860682030941723212e-6, F32, n), part)
    result = k.number(1 / 720, F32, n)
    for coefficient in (1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        result = k.fma(result, part, k.number(coefficient, F32, n))
    # 2**whole in two steps: one exponent field does not reach from the smallest subnormal to the largest number.
    number = _bounded(k, whole).to(I32)
    half = number >> 1
    return result * ((half + 127) << 23).bits_as(F32) * ((number - half + 127) << 23).bits_as(F32)


def exact_sigmoid(k: Kernel, x: Value) -> Value:
    """1 / (1 + exp(-x)), relative error of a few units of the last place where the result is a normal number."""
    return k.number(1.0, F32, x.lanes) / (exp(k, -x) + 1.0)


def exact_tanh(k: Kernel, x: Value) -> Value:
    """tanh with a small relative error also near 0: there by an odd polynomial, elsewhere by exp."""
    n = x.lanes
    size = k.intrinsic("fabs", x)
    squared = x * x
    # The Taylor series up to x**13: its next term is below 2e-8 of the result where |x| < 0.4.
    series = k.number(21844 / 6081075, F32, n)
    for coefficient in (-1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3):
        series = k.fma(series, squared, k.number(coefficient, F32, n))
    near = k.fma(series * squared, x, x)
    far = k.number(1.0, F32, n) - k.number(2.0, F32, n) / (exp(k, size * 2.0) + 1.0)
    signed = k.select(x < 0.0, -far, far)
    return k.select(size < 0.4, near, signed)


#: For layers that are nothing but an activation, by the operation's type in lower case.
STANDALONE: dict[str, Callable[[Kernel, Value], Value]] = {"sigmoid": exact_sigmoid, "tanh": exact_tanh, "relu": relu}
#: For the gates of recurrent cells.
ACTIVATIONS: dict[str, Callable[[Kernel, Value], Value]] = {"sigmoid": sigmoid, "tanh": tanh, "relu": relu}
