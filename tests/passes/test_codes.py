"""Codes that are laid anew, part by part, are those that NumPy lays anew all at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from uncork import storage
from uncork.internal_ops import codes
from uncork.internal_ops.codes import Codes
from uncork.types import ElementType

SIZES = [(3, 5, 8), (1, 6, 4), (2, 1, 3, 10), (5, 7, 3), (64, 3), (13,), (8, 3, 1)]
HELD = {"u1": "u4", "u2": "u4", "u3": "u4", "u6": "u8", "u16": "u8", "i8": "i4"}


@pytest.mark.parametrize("part", [16, 50, 1 << 20])
@pytest.mark.parametrize("stored", [*HELD, "u4", "i4", "nf4", "u8", "f8e4m3"])
def test_codes_in_any_order(stored: str, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "_PART", part)
    kind = ElementType.parse(stored)
    held = ElementType.parse(HELD.get(stored, stored))
    generator = np.random.default_rng(1)
    signed = stored.startswith("i")
    count = 1 << min(kind.bits, held.bits)
    for sizes in SIZES:
        values = generator.integers(0, count, sizes) - (count // 2 if signed else 0)
        values = values.astype(np.int8 if signed else kind.dtype)
        lying = Codes(kind, values)
        if kind.is_packed:
            lying = Codes(kind, np.frombuffer(storage.pack(values, kind), np.uint8), True)
        for order in itertools.permutations(range(len(sizes))):
            made = lying.laid(sizes, order, held)
            array = made.array.reshape(-1)
            if made.packed:
                array = storage.unpack(array.data, held, values.size)
            np.testing.assert_array_equal(array, values.transpose(order).reshape(-1))


def test_what_becomes_of_codes_is_told_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "_PART", 20)
    values = np.arange(-60, 60, dtype=np.int8).reshape(4, 5, 6)
    points = np.arange(5, dtype=np.int8).reshape(1, 5, 1)

    def less(some: np.ndarray, place: tuple[slice, ...]) -> np.ndarray:
        return np.asarray(some - points[:, place[1]])

    made = Codes(ElementType.i8, values).laid(values.shape, change=less)
    np.testing.assert_array_equal(made.array.reshape(values.shape), values - points)
