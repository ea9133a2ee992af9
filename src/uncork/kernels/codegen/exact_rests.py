"""What is left of f64 numbers when a multiple of another one is taken off, without the rounding of
the product.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F64, Kernel, Value

#: A number times this, less what the product differs from it by, has the first 26 digits.
_SPLIT = 2.0**27 + 1


def rest_of(k: Kernel, x: Value, times: Value, size: Value) -> Value:
    """x - times * size, rounded once where the two are about as large."""
    if k.fuses:
        return k.fma(-times, size, x)
    product = times * size
    # Dekker's product: what was rounded off, by four products of 26 digits that are exact.
    (a, b), (c, d) = (_halves(k, number) for number in (times, size))
    rounded_off = ((a * c - product) + a * d + b * c) + b * d
    return (x - product) - rounded_off


def _halves(k: Kernel, x: Value) -> tuple[Value, Value]:
    large = x * k.constant(_SPLIT, F64, x.lanes)
    high = large - (large - x)
    return high, x - high
