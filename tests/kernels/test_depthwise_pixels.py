"""How many pixels of a row a depthwise convolution computes at a time."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.convolution.blocks_apart import _depthwise_pixels
from uncork.kernels.convolution.geometry import Geometry, WindowAxis
from uncork.kernels.convolution.spec_blocks import ENOUGH_SUMS, holds_filters


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("taps", [3, 5, 7])
@pytest.mark.parametrize("columns", [7, 14, 28, 56, 112])
def test_rows_are_divided_evenly(columns: int, taps: int, registers: int) -> None:
    """Of the pixels that see all taps no part is computed twice but for a few; each has sums enough
    where there are so many pixels, and registers hold them beside filters and a pixel.
    """
    axis = WindowAxis(columns, taps, columns, begin=taps // 2)
    width = _depthwise_pixels(Geometry(1, 64, 1, 1, axis, axis), 1, 1, registers)
    inside = columns - (taps - 1)
    assert width >= min(inside, ENOUGH_SUMS)
    assert -(-inside // width) * width <= 1.13 * inside
    held = taps * taps if holds_filters(registers, taps * taps) else taps
    assert width + held + 1 <= registers


@pytest.mark.parametrize(
    ("registers", "taps", "held"), [(32, 9, True), (32, 25, False), (16, 9, False), (16, 7, True)]
)
def test_filters_stay_beside_enough_sums(registers: int, taps: int, held: bool) -> None:
    assert holds_filters(registers, taps) is held
