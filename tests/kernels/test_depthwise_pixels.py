"""The tiles of pixels in which rows of windows are computed: how they divide a row, and what its
ends see.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.compiler.compiled_model import compile_for
from uncork.kernels.convolution.blocks_apart import _most_vectors
from uncork.kernels.convolution.geometry import Geometry, WindowAxis
from uncork.kernels.convolution.row_tiles import Around, around, pixels_at_a_time
from uncork.kernels.convolution.spec_blocks import ENOUGH_SUMS, Depthwise
from uncork.kernels.runtime.target import LEVELS, lacking
from uncork.symbolic import Facts, Origin, Size

TARGETS = ["x86-64-v3", "x86-64-v4", "aarch64"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("taps", [3, 5, 7])
@pytest.mark.parametrize("columns", [7, 14, 28, 56, 112])
def test_rows_are_divided_evenly(columns: int, taps: int, target: str) -> None:
    """In networks' rows no pixel is computed twice, and registers hold the sums beside a row of
    taps and a pixel, where there are few taps.
    """
    axis = WindowAxis(columns, taps, columns, begin=taps // 2)
    g, machine = Geometry(1, 64, 1, 1, axis, axis), LEVELS[target]
    width = pixels_at_a_time(columns, _most_vectors(g, 1, machine), ENOUGH_SUMS)
    assert width >= 7
    assert columns % width == 0
    assert width + taps + 1 <= machine.vector_registers


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("members", [1, 4, 8])
@pytest.mark.parametrize("taps", [3, 9, 13, 21, 31])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_do_not_wait_for_each_other(target: str, taps: int, members: int, stride: int) -> None:
    """A register holds a sum, a factor is in one, and the other in memory: two multipliers of four
    cycles want eight sums, however long windows and however large groups are.
    """
    axis = WindowAxis(stride * 56, taps, 56, stride, begin=taps // 2)
    g, machine = Geometry(1, 64, members, members, axis, axis), LEVELS[target]
    assert 8 <= _most_vectors(g, 1, machine) <= machine.vector_registers - 2


@pytest.mark.parametrize(
    ("count", "most", "members", "width"),
    [(33, 14, 1, 11), (13, 12, 1, 7), (1, 12, 1, 1), (28, 14, 2, 14), (7, 14, 2, 2), (3, 1, 1, 1)],
)
def test_other_rows(count: int, most: int, members: int, width: int) -> None:
    """Tiles of other rows have few pixels in common: 7 pixels in vectors of 2 are two tiles of 4,
    of which one is computed twice.
    """
    assert pixels_at_a_time(count, most, 8, members) == width


def _spec(taps: int, stride: int, dilation: int) -> Depthwise:
    return Depthwise(8, 1, taps, (1, stride), (1, dilation), 1)


@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "begin", "size"),
    [
        (3, 1, 1, 1, 14),
        (3, 2, 1, 0, 14),
        (3, 2, 1, 1, 15),
        (5, 2, 1, 2, 28),
        (3, 1, 3, 3, 20),
        (5, 3, 2, 4, 31),
        (2, 1, 1, 4, 20),
        (7, 1, 1, 3, 7),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_ends_see_the_taps_that_are_on_the_data(
    taps: int, stride: int, dilation: int, begin: int, size: int, alone: bool
) -> None:
    """Tap by tap as each pixel's window lies."""
    count = (size + 2 * begin - (taps - 1) * dilation - 1) // stride + 1
    spec, pixels = _spec(taps, stride, dilation), count if alone else -(-count // 2)
    axis = WindowAxis(size, taps, count, stride, dilation, begin)
    found = around(spec, axis, pixels)
    assert found is not None or not alone
    if found is None:
        return
    assert found.alone is alone
    first = 0
    for at in ["both"] if alone else ["left", "right"]:
        for pixel, (low, end) in enumerate(found.seen(spec, pixels, at), first):
            cells = [pixel * stride - begin + tap * dilation for tap in range(taps)]
            seen = [tap for tap, cell in enumerate(cells) if 0 <= cell < size]
            assert list(range(low, end)) == seen
        first = count - pixels


def test_tiles_do_not_reach_ends_that_are_not_known() -> None:
    """Of open rows what the last window sees is known where windows are neighbours."""
    n = Size.of(Facts().symbol("n", 1, None, "input", Origin(0, 0, 0)))
    same = WindowAxis(n, 3, n, begin=1)
    halved = WindowAxis(n, 3, (n - 1) // 2 + 1, stride=2, begin=1)
    assert around(_spec(3, 1, 1), same, 8) == Around(1, 1, open=True)
    assert around(_spec(3, 2, 1), halved, 8) is None
    # A tile at one end that saw the other one, too, would leave out too few taps.
    assert around(_spec(7, 1, 1), WindowAxis(10, 7, 10, begin=3), 8) is None
    # The second tile would see cells before the data.
    assert around(_spec(15, 1, 1), WindowAxis(100, 15, 100, begin=14), 8) is None
    assert around(_spec(15, 1, 1), WindowAxis(n, 15, n, begin=14), 8) is None


@pytest.mark.parametrize("columns", [1, 2, 3, 6, 7, 9, 14, 15, 28, 33])
@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "pads"),
    [
        *((3, 1, 1, (1, 1)), (5, 2, 1, (2, 2)), (7, 1, 1, (3, 3)), (3, 1, 2, (2, 2))),
        # More pixels than a tile has do not see all taps: causal windows, and long ones.
        *((15, 1, 1, (14, 0)), (3, 1, 8, (16, 0)), (13, 1, 1, (0, 12)), (21, 1, 1, (10, 10))),
    ],
)
@pytest.mark.parametrize(("channels", "members"), [(32, 1), (24, 1), (32, 2)])
@pytest.mark.parametrize("form", ["known", "open", "x86-64-v3"])
def test_rows_of_all_lengths(
    columns: int,
    taps: int,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    channels: int,
    members: int,
    form: str,
) -> None:
    """Of sizes that are known, also by AVX2, or are not, between 1x1 layers, which keep it in
    blocks; the expected sums are NumPy's, in f64, over data with zeros around.
    """
    rows = 5
    generator = np.random.default_rng(columns * taps)
    builder = uncork.Builder("m")
    shape = [1, channels, rows, -1 if form == "open" else columns]
    x = builder.parameter("x", "f32", shape)
    one: dict[str, Any] = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
    }
    same = builder.constant(np.eye(channels, dtype=np.float32)[:, :, None, None])
    filters = generator.integers(-4, 5, (channels // members, members, members, taps, taps))
    filters = filters.astype(np.float32)
    around_it: dict[str, Any] = {"strides": [stride] * 2, "dilations": [dilation] * 2}
    around_it |= {"pads_begin": [pads[0]] * 2, "pads_end": [pads[1]] * 2}
    y = builder.add("Convolution", 1, x, same, **one)[0]
    y = builder.add("GroupConvolution", 1, y, builder.constant(filters), **around_it)[0]
    y = builder.add("Convolution", 1, y, same, **one)[0]
    builder.result(y, "y")
    target = form if form in LEVELS else None
    if target and (missing := lacking(LEVELS[target])):
        pytest.skip(f"needs {missing}")
    compiled = compile_model(builder.model(), target=target)
    data = generator.integers(-8, 9, (1, channels, rows, columns)).astype(np.float32)
    (found,) = compiled(data)
    padded = np.pad(data.astype(np.float64), ((0, 0), (0, 0), pads, pads))
    count = [(n + sum(pads) - (taps - 1) * dilation - 1) // stride + 1 for n in (rows, columns)]
    expected = np.zeros((channels // members, members, *count))
    for i, j in itertools.product(range(taps), repeat=2):
        seen = padded[
            0,
            :,
            i * dilation : i * dilation + (count[0] - 1) * stride + 1 : stride,
            j * dilation : j * dilation + (count[1] - 1) * stride + 1 : stride,
        ].reshape(channels // members, members, *count)
        expected += np.einsum("goc,gcyx->goyx", filters[:, :, :, i, j].astype(np.float64), seen)
    np.testing.assert_array_equal(np.asarray(found)[0], expected.reshape(channels, *count))


@pytest.mark.parametrize(
    ("members", "taps", "stride", "dilation", "pads"),
    [
        (1, 3, 1, 1, (1, 1)),
        (1, 5, 1, 1, (2, 2)),
        (1, 7, 1, 1, (3, 3)),  # rows as short as what both ends see
        (1, 5, 1, 2, (8, 0)),  # causal
        (1, 3, 2, 1, (0, 1)),
        (4, 3, 1, 1, (1, 1)),
        (8, 3, 2, 1, (1, 0)),
    ],
)
@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
def test_rows_of_any_length_by_one_plan(
    level: str, members: int, taps: int, stride: int, dilation: int, pads: Any
) -> None:
    """One pixel, fewer than a tile, and some tiles: always the layers' results."""
    if lacking(LEVELS[level]):
        pytest.skip(f"needs {level}")
    generator = np.random.default_rng(7)
    b, channels = uncork.Builder("rows"), 64
    x = b.parameter("x", "f32", [1, channels, None, None])
    alone = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}

    def filters(*shape: int) -> Any:
        return b.constant((generator.standard_normal(shape) / 4).astype(np.float32))

    (y,) = b.add("Convolution", 1, x, filters(channels, channels, 1, 1), **alone)
    (y,) = b.add(
        *("GroupConvolution", 1, y),
        filters(channels // members, members, members, 3, taps),
        strides=[1, stride],
        dilations=[1, dilation],
        pads_begin=[1, pads[0]],
        pads_end=[1, pads[1]],
    )
    (y,) = b.add("ReLU", 1, y)
    b.result(b.add("Convolution", 1, y, filters(16, channels, 1, 1), **alone)[0], "y")
    fast = compile_for(b.model(), LEVELS[level], 1)
    slow = compile_model(b.model(), backend="reference")
    assert any(step.kernel.startswith("depthwise") for step in fast.plan.steps)
    least = max(1, dilation * (taps - 1) + 1 - sum(pads))
    for columns in range(least, 26):
        data = generator.standard_normal((1, channels, 3, columns)).astype(np.float32)
        np.testing.assert_allclose(fast(data)[0], slow(data)[0], rtol=0, atol=2e-5)
