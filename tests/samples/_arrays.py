"""Hypothesis strategies for shapes and arrays of every element type, small enough for
element-by-element loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from uncork import storage
from uncork.types import ElementType

ALL_TYPES = tuple(t.name for t in ElementType)
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def shapes(
    min_rank: int = 0, max_rank: int = 4, max_side: int = 4, min_side: int = 0
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of small sides; sides of 0 come often enough."""
    return st.lists(st.integers(min_side, max_side), min_size=min_rank, max_size=max_rank).map(
        tuple
    )


def integer_arrays(
    shape: tuple[int, ...], low: int, high: int, dtypes: tuple[str, ...] = ("i4", "i8")
) -> st.SearchStrategy[np.ndarray]:
    """Arrays of low..high (inclusive) in one of some dtypes."""
    count = int(np.prod(shape, dtype=int))
    values = st.lists(st.integers(low, high), min_size=count, max_size=count)
    return st.builds(
        lambda v, dtype: np.array(v, dtype).reshape(shape), values, st.sampled_from(dtypes)
    )


@st.composite
def arrays(
    draw: st.DrawFn,
    shape: tuple[int, ...],
    types: tuple[str, ...] = ALL_TYPES,
    low: float = -4,
    high: float = 4,
) -> tuple[Any, str]:
    """A carrier array and its element type's name. Values are multiples of 1/8 between low and high
    where the type has them.
    """
    name = draw(st.sampled_from(types))
    element_type = ElementType.parse(name)
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if element_type is ElementType.string:
        words = np.array(["", "a", "日本", "uncork", " b "], object)
        return np.asarray(words[generator.integers(0, len(words), shape)], object).reshape(
            shape
        ), name
    if element_type is ElementType.boolean:
        return generator.integers(0, 2, shape).astype(bool), name
    if element_type.is_integer:
        bits = element_type.bits
        least, most = (
            (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            if element_type.kind == "signed"
            else (0, 2**bits - 1)
        )
        values = generator.integers(
            max(least, int(low)), min(most, int(high)), shape, endpoint=True
        )
        return values.astype(element_type.dtype), name
    values = generator.integers(int(low * 8), int(high * 8), shape, endpoint=True) / 8.0
    return storage.encode(
        np.asarray(values, np.float32 if element_type.bits < 64 else np.float64), element_type
    ), name
