"""Powers of f32 numbers, computed in f64 by logarithms to base 2."""

from __future__ import annotations

import math

from uncork.kernels.codegen.activations import series
from uncork.kernels.codegen.emit import F32, F64, I32, I64, Kernel, Value
from uncork.kernels.codegen.functions import negated

#: log2(m) = s * P(s^2) with s = (m - 1) / (m + 1), for sqrt(1/2) <= m < sqrt(2): to 2e-12.
_LOG_2 = [2 / math.log(2) / (2 * n + 1) for n in range(7)]
#: 2^f = P(f) for -1/2 <= f <= 1/2: to 1e-11.
_POWER_2 = [math.log(2) ** n / math.factorial(n) for n in range(10)]
#: The bits of sqrt(1/2), and of 2^52, at which a number's last bits are a whole number.
_ROOT_BITS, _WHOLE_BITS = 0x3FE6A09E667F3BCD, 0x4330000000000000
#: Numbers of f32 are between 2 to these powers.
_END = 200.0


def power(k: Kernel, x: Value, y: Value) -> Value:
    """x to the power of y as IEEE 754's pow has it; error 0.51 units of the last place."""
    size, exponent = k.intrinsic("fabs", x), y.to(F64)
    result = _exp2(k, _log2(k, size.to(F64)) * exponent).to(F32)
    one = k.constant(1.0, F32, x.lanes)
    whole = k.intrinsic("rint", y).equals(y)
    odd = whole & negated(k, k.intrinsic("rint", y * 0.5).equals(y * 0.5))
    signed = k.select((x.bits_as(I32) < 0) & odd, -result, result)
    infinite = k.intrinsic("fabs", y).equals(math.inf)
    # A finite number below 0 has no power but whole ones.
    none = (x < 0.0) & (size < math.inf) & negated(k, whole)
    signed = k.select(none, k.constant(math.nan, F32, x.lanes), signed)
    signed = k.select(x.equals(x), signed, x)
    ones = x.equals(1.0) | y.equals(0.0) | (size.equals(1.0) & infinite)
    return k.select(ones, one, signed)


def _log2(k: Kernel, size: Value) -> Value:
    """The logarithm of f64 numbers from 0 to infinity that are f32 numbers: none is subnormal."""
    bits = size.bits_as(I64)
    # A multiple of 2^52, so that what is shifted is not negative.
    raised = ((bits - _ROOT_BITS) >> 52) + 1024
    number = (raised | _WHOLE_BITS).bits_as(F64) - (2.0**52 + 1024)
    part = (bits - ((raised - 1024) << 52)).bits_as(F64)
    share = (part - 1.0) / (part + 1.0)
    result = k.fma(share, series(k, _LOG_2, share * share), number)
    infinite = k.constant(math.inf, F64, size.lanes)
    result = k.select(size.equals(math.inf), infinite, result)
    return k.select(size.equals(0.0), -infinite, result)


def _exp2(k: Kernel, x: Value) -> Value:
    """2^x of f64 numbers, as far as f32 can tell."""
    n = x.lanes
    low, high = (k.constant(end, F64, n) for end in (-_END, _END))
    x = k.select(x < low, low, k.select(x > high, high, x))  # ordered comparisons keep NaN
    whole = k.intrinsic("rint", x)
    # The sum's last bits are the whole number.
    scale = ((whole + 1.5 * 2.0**52).bits_as(I64) + 1023) << 52
    return series(k, _POWER_2, x - whole) * scale.bits_as(F64)
