"""f16 to f32 and back in whole numbers, for processors without instructions for it: what
instructions make of every number, NaNs included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uncork.kernels.codegen.scalar_types import F16, F32, I32, U16, U32

if TYPE_CHECKING:
    from uncork.kernels.codegen.values import Value
    from uncork.kernels.runtime.target import Target

#: Bits of f32 that f16 has not: lower ones of the fraction, and what the exponents differ by.
_LOWER, _BIAS = 13, (127 - 15) << 23
#: Bits of f32: its infinity, the least normal number of f16, and 2**16, which is infinite in f16.
_INFINITY, _LEAST_NORMAL, _TOO_LARGE = 0xFF << 23, (127 - 14) << 23, (127 + 16) << 23
#: Bits of f32 of one half: its last bit is worth the least number of f16.
_HALF = 126 << 23


def converts_halves(target: Target | None) -> bool:
    """Whether the processor has instructions that convert between f16 and f32."""
    return target is not None and (target.has("f16c") or target.arch == "aarch64")


def widened_half(value: Value) -> Value:
    """f16 as f32."""
    k = value.kernel
    bits = value.bits_as(U16).to(I32)
    magnitude = (bits & 0x7FFF) << _LOWER
    none = k.constant(0, I32, value.lanes)

    def where(condition: Value, number: int) -> Value:
        return k.select(condition, k.constant(number, I32, value.lanes), none)

    special = where(magnitude > (0x7BFF << _LOWER), _BIAS)
    # A subnormal number is read as a fraction behind 2**-14, which is then subtracted. (What is
    # subtracted from others is 0: that leaves a NaN quiet.)
    subnormal = magnitude < (0x0400 << _LOWER)
    number = magnitude + _BIAS + special + where(subnormal, 1 << 23)
    exact = number.bits_as(F32) - where(subnormal, _LEAST_NORMAL).bits_as(F32)
    return (exact.bits_as(I32) | (bits >> 15 << 31)).bits_as(F32)


def narrowed_half(value: Value) -> Value:
    """f32 as the nearest f16, ties to even."""
    k = value.kernel
    bits = value.bits_as(I32)
    magnitude = bits & 0x7FFFFFFF
    fraction = magnitude >> _LOWER
    # What rounds up to the next number by its lower bits, a tie if the last bit that stays is set.
    normal = (magnitude - _BIAS + (fraction & 1) + 0x0FFF) >> _LOWER
    summed = magnitude.bits_as(F32) + k.constant(_HALF, I32, value.lanes).bits_as(F32)
    subnormal = summed.bits_as(I32) - _HALF
    number = k.select(magnitude < _LEAST_NORMAL, subnormal, normal)
    quiet = fraction & 0x03FF | 0x7E00
    special = k.select(magnitude > _INFINITY, quiet, k.constant(0x7C00, I32, value.lanes))
    number = k.select(magnitude < _TOO_LARGE, number, special)
    sign = (bits.bits_as(U32) >> 16).bits_as(I32) & 0x8000
    return (number | sign).to(U16).bits_as(F16)
