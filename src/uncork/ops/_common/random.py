"""The random numbers of RandomUniform-8 and Multinomial-13, bit for bit as the page of
RandomUniform-8 defines them.

Two generators of 32-bit numbers: Philox 4x32 with 10 rounds ("Parallel Random Numbers: As Easy as
1, 2, 3", as TensorFlow uses it) and the Mersenne Twister MT19937 (as PyTorch uses it); and for each
the way from those numbers to values of a type.
"""

from __future__ import annotations

import numpy as np

# NumPy imports it when it is first asked for: here, and not in the middle of a call
import numpy.random

from uncork.types import Array, ElementType

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
#: Bits of the fraction, and NumPy types to compute in. (f16 and bf16 are exact in f32.)
_FRACTION = {ElementType.f64: 52, ElementType.f32: 23, ElementType.f16: 10, ElementType.bf16: 7}


def philox(count: int, key: int, counter: int) -> Array:
    """`count` 32-bit numbers (as uint64): the n-th four of them come from (n, counter) in ten
    rounds with the key.
    """
    blocks = -(-count // 4)
    n = np.arange(blocks, dtype=np.uint64)
    a, b = n & _LOW, n >> _32
    c, d = (
        np.full(blocks, half, np.uint64)
        for half in (counter & 0xFFFFFFFF, (counter >> 32) & 0xFFFFFFFF)
    )
    low, high = key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            (second >> _32) ^ b ^ np.uint64(low),
            second & _LOW,
            (first >> _32) ^ d ^ np.uint64(high),
            first & _LOW,
        )
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([a, b, c, d], 1).reshape(-1)[:count]


def mersenne_twister(count: int, seed: int) -> Array:
    """`count` 32-bit numbers (as uint64) of the generator that NumPy's RandomState is."""
    return (
        np.random.RandomState(seed & 0xFFFFFFFF)
        .randint(0, 2**32, count, np.uint32)
        .astype(np.uint64)
    )


def fractions(
    count: int, element_type: ElementType, global_seed: int, op_seed: int, as_pytorch: bool = False
) -> Array:
    """`count` values in [0, 1) that the element type holds exactly, as f32 or f64."""
    double = element_type is ElementType.f64
    dtype = np.float64 if double else np.float32
    bits = _FRACTION[element_type] + as_pytorch
    wanted = 2 * count if double else count
    raw = (
        mersenne_twister(wanted, global_seed)
        if as_pytorch
        else philox(wanted, global_seed, op_seed)
    )
    if double:
        raw = (raw[0::2] << _32) | raw[1::2]
    # The lowest bits, as a fraction: what 1.fraction - 1 gives too.
    return np.asarray((raw & np.uint64((1 << bits) - 1)).astype(dtype) / dtype(2**bits))


def integers(
    count: int,
    element_type: ElementType,
    low: int,
    high: int,
    global_seed: int,
    op_seed: int,
    as_pytorch: bool = False,
) -> Array:
    """`count` integers from low to high - 1, as int64."""
    single = element_type is ElementType.i32 or (as_pytorch and max(low, high) < 2**32)
    wanted = count if single else 2 * count
    raw = (
        mersenne_twister(wanted, global_seed)
        if as_pytorch
        else philox(wanted, global_seed, op_seed)
    )
    if not single:
        upper, lower = (raw[0::2], raw[1::2]) if as_pytorch else (raw[1::2], raw[0::2])
        raw = (upper << _32) | lower
    # high - low may need all 64 bits; the sum wraps to where it belongs.
    return np.asarray(raw % np.uint64(high - low) + np.uint64(low % 2**64)).astype(np.int64)
