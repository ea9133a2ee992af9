"""Functions of single elements that torch defines otherwise."""

from __future__ import annotations

import torch
from torch import Tensor


def divided_integers(a: Tensor, b: Tensor, mode: str) -> Tensor:
    """Integer quotients; the lowest number divided by -1 wraps to itself."""
    if bool((b == 0).any()) and a.numel() > 0:
        raise ValueError("expected a divisor other than 0 (integers)")
    if a.dtype == torch.uint8:
        return torch.div(a, b, rounding_mode=mode)
    reverses = b == -1
    quotient = torch.div(a, torch.where(reverses, 1, b), rounding_mode=mode)
    return torch.where(reverses, -a, quotient)


def rest_of_integers(a: Tensor, b: Tensor, floor: bool) -> Tensor:
    """The remainder of a division that is rounded down, or cut towards zero."""
    if bool((b == 0).any()) and a.numel() > 0:
        raise ValueError("expected a divisor other than 0 (integers)")
    if a.dtype != torch.uint8:
        b = torch.where(b == -1, 1, b)
    return torch.remainder(a, b) if floor else torch.fmod(a, b)


def integer_power(a: Tensor, b: Tensor) -> Tensor:
    """Powers that wrap; a negative exponent gives the exact power cut towards zero."""
    a, b = torch.broadcast_tensors(a, b)
    inverted = b < 0
    if bool((inverted & (a == 0)).any()):
        raise ValueError("expected an exponent of at least 0 where the base is 0 (integers)")
    odd = (b & 1) == 1
    unit = torch.where(a == 1, 1, torch.where(odd, -1, 1))
    of_inverse = torch.where((a == 1) | (a == -1), unit, 0).to(a.dtype)
    whole = torch.pow(a, torch.where(inverted, torch.zeros_like(b), b))
    return torch.where(inverted, of_inverse, whole)


def shifted(a: Tensor, b: Tensor, left: bool, bits: int) -> Tensor:
    """Bits moved by any number of places; 0, or all sign bits, where they are all moved out."""
    if a.numel() and bool((b < 0).any()):
        raise ValueError("expected at least 0 places to shift by")
    places = torch.clamp(b, max=bits - 1)
    if left:
        return torch.where(b >= bits, torch.zeros_like(a), a << places)
    signs = torch.where(a < 0, -1, 0).to(a.dtype)
    return torch.where(b >= bits, signs, a >> places)


def integer_root(x: Tensor) -> Tensor:
    """The integer nearest to the square root."""
    root = torch.sqrt(x.double()).to(torch.int64).clamp(max=3037000499)
    root = torch.where(root * root > x, root - 1, root)
    above = root + 1
    root = torch.where((above <= 3037000499) & (above * above <= x), above, root)
    return root + (x - root * root > root).to(torch.int64)


def round_half_away(x: Tensor) -> Tensor:
    """The nearest whole number, halves away from zero."""
    whole = torch.trunc(x)
    away = whole + torch.copysign(torch.ones_like(x), x)
    return torch.where((x - whole).abs() >= 0.5, away, whole)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where it is at least 0, else slope * x; by channel where there are as many slopes."""
    if slope.dim() == 1 < x.dim() and slope.shape[0] == x.shape[1]:
        slope = slope.reshape(-1, *(1,) * (x.dim() - 2))
    return torch.where(x < 0, slope * x, x)


def truncated(x: Tensor, bits: int, signed: bool, dtype: torch.dtype) -> Tensor:
    """Floats as integers: the fraction is cut off, and what does not fit wraps or is the lowest."""
    wide = max(bits, 32)
    half = 2.0 ** (wide - 1)
    whole = torch.trunc(x.double())
    fits = (whole >= -half) & (whole < half)
    result = torch.where(fits, whole, -half).to(torch.int64)
    if not signed and bits >= 32:
        upper = (whole >= half) & (whole < 2 * half)
        lower_half = torch.where(upper, whole - half, 0.0).to(torch.int64)
        result = torch.where(upper, lower_half - int(half), result)
    if bits < 64 and not signed:
        result = result & (2**bits - 1)
    return result.to(dtype)


def unsigned_to_float(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The floats of u64 numbers, whose bits are in i64."""
    low = (x & 0xFFFFFFFF).double()
    high = ((x >> 32) & 0xFFFFFFFF).double()
    return (high * 2.0**32 + low).to(dtype)


def wrapped_i4(x: Tensor) -> Tensor:
    """Integers modulo 16, from -8 to 7."""
    return (((x.to(torch.int64) & 15) ^ 8) - 8).to(torch.int8)


def decoded(codes: Tensor, table: list[float], dtype: torch.dtype) -> Tensor:
    """The number that each code stands for."""
    return torch.tensor(table, device=codes.device)[codes.long()].to(dtype)


def to_float8(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The bits of x as an f8 number; e4m3 has no infinity, and NaN beyond its range."""
    if dtype == torch.float8_e4m3fn:
        x = torch.where(x.abs() > 464, float("nan"), x.float())
    return x.to(dtype).view(torch.uint8)


def fake_convert(
    x: Tensor, scale: Tensor, shift: Tensor | None, dtype: torch.dtype, limit: float
) -> Tensor:
    """Values moved into the range of an f8 type, rounded there and moved back."""
    moved = x * scale if shift is None else x * scale - shift
    rounded = moved.float().clamp(-limit, limit).to(dtype).to(x.dtype)
    return rounded / scale if shift is None else (rounded + shift) / scale
