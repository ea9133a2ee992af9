"""Sizes, axes and blocks that only a call knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import uncork
from tests.samples import gather_tree, stft
from tests.samples._sample import Case, Sample
from uncork.errors import UnsupportedError
from uncork.ir.bodies import GraphBody
from uncork.ops import Operation
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.ops.gather_tree import GatherTree1
from uncork.ops.stft import ISTFT16, STFT15

from ._run import one_layer, session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]


def layer(
    type_name: str, opset: int, *inputs: tuple[str, Sequence[int | None]], **attributes: Any
) -> Any:
    """A session of one layer, all of whose inputs the call gives."""
    builder = uncork.Builder("one")
    given = [
        builder.parameter(f"in{i}", kind, list(shape)) for i, (kind, shape) in enumerate(inputs)
    ]
    builder.result(builder.add(type_name, opset, *given, **attributes)[0], "y")
    return session(uncork.to_onnx(builder.model()))


def answer(ready: Any, *values: Any) -> Any:
    return ready.run(None, {f"in{i}": np.asarray(v) for i, v in enumerate(values)})[0]


@pytest.mark.parametrize(
    ("shift", "axes"),
    [([1], [0]), ([-1], [1, 0]), ([2, 4, -1], [1, -1, 0]), ([2**62 + 1] * 3, [1] * 3), ([], [])],
)
def test_roll_along_axes_of_the_call(shift: list[int], axes: list[int]) -> None:
    ready = layer("Roll", 7, ("f32", [None, 3]), ("i64", [None]), ("i32", [None]))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = x
    for by, axis in zip(np.broadcast_to(np.array(shift, object), len(axes)), axes, strict=True):
        expected = np.roll(expected, by % x.shape[axis], axis)
    y = answer(ready, x, np.array(shift, np.int64), np.array(axes, np.int32))
    np.testing.assert_array_equal(y, expected)


def test_roll_of_nothing() -> None:
    ready = layer("Roll", 7, ("f32", [None, 3]), ("i64", [1]), ("i64", []))
    assert answer(ready, np.zeros((0, 3), np.float32), [5], 0).shape == (0, 3)


@pytest.mark.parametrize("sizes", [[1, 2, 3], [None] * 3])
def test_blocks_of_the_call(sizes: list[int | None]) -> None:
    """0 1 2 between a zero before and two after; every second cell is one item of the batch."""
    ready = layer("SpaceToBatch", 2, ("f32", sizes), *[("i64", [3])] * 3)
    x = np.array([[[0, 1, 2], [3, 4, 5]]], np.float32)
    y = answer(ready, x, [1, 1, 2], [0, 0, 1], [0, 0, 2])
    np.testing.assert_array_equal(y, [[[0, 1, 0], [0, 4, 0]], [[0, 2, 0], [3, 5, 0]]])
    y = answer(ready, x, [1, 2, 1], [0, 0, 0], [0, 0, 0])
    np.testing.assert_array_equal(y, [[[0, 1, 2]], [[3, 4, 5]]])


@pytest.mark.parametrize("sizes", [[2, 2, 3], [None] * 3])
def test_blocks_of_the_call_back(sizes: list[int | None]) -> None:
    ready = layer("BatchToSpace", 2, ("f32", sizes), *[("i32", [3])] * 3)
    x = np.array([[[0, 1, 0], [0, 4, 0]], [[0, 2, 0], [3, 5, 0]]], np.float32)
    four = [np.array(v, np.int32) for v in ([1, 1, 2], [0, 0, 1], [0, 0, 2])]
    np.testing.assert_array_equal(answer(ready, x, *four), [[[0, 1, 2], [3, 4, 5]]])
    none = np.zeros(3, np.int32)
    y = answer(ready, x, np.array([1, 2, 1], np.int32), none, none)
    np.testing.assert_array_equal(y, [[[0, 1, 0], [0, 2, 0], [0, 4, 0], [3, 5, 0]]])


def open_answer(operation: type[Operation], case: Case) -> Any:
    """What a layer gives whose inputs are all given by the call, in any size."""
    made = one_layer(operation, case, constants=False, dynamic=True)
    assert made is not None
    return session(uncork.to_onnx(made[0])).run(None, made[1])[0]


@pytest.mark.parametrize("sample", gather_tree.EXAMPLES, ids=lambda s: s.name)
def test_beams_of_any_number_of_steps(sample: Sample) -> None:
    y = open_answer(GatherTree1, sample.case)
    np.testing.assert_array_equal(y, sample.expected[0][0])


@pytest.mark.parametrize("sample", stft.EXAMPLES, ids=lambda s: s.name)
def test_frames_of_the_call(sample: Sample) -> None:
    y = open_answer(STFT15, sample.case)
    np.testing.assert_allclose(y, sample.expected[0][0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sample", stft.INVERSE, ids=lambda s: s.name)
def test_a_signal_of_frames_of_the_call(sample: Sample) -> None:
    y = open_answer(ISTFT16, sample.case)
    np.testing.assert_allclose(y, sample.expected[0][0], rtol=1e-5, atol=1e-5)


def test_frames_that_do_not_fit_are_refused() -> None:
    ready = layer("STFT", 15, *[("f32", [None])] * 2, *[("i64", [])] * 2, transpose_frames=False)
    x, one = np.ones(4, np.float32), np.float32([1])
    assert answer(ready, x, one, 2, 1).shape == (3, 2, 2)
    with pytest.raises(Exception, match="invalid index"):
        answer(ready, x, one, 6, 1)
    with pytest.raises(Exception, match="broadcast"):
        answer(ready, x, np.ones(3, np.float32), 2, 1)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_the_last_axis_of_a_half_spectrum_of_any_size(count: int) -> None:
    builder = uncork.Builder("one")
    data = builder.parameter("in0", "f32", [None, None, 2])
    axes = builder.constant(np.array([1]))
    builder.result(builder.add("IRDFT", 9, data, axes)[0], "y")
    x = np.arange(4 * count, dtype=np.float32).reshape(2, count, 2)
    x[:, [0, -1], 1] = 0
    y = answer(session(uncork.to_onnx(builder.model())), x)
    np.testing.assert_allclose(y, np.fft.irfft(x[..., 0] + 1j * x[..., 1]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sides", [(4, 5), (1, 7), (2, 2), (0, 3)])
@pytest.mark.parametrize("auto_pad", ["same_upper", "same_lower", "valid"])
@pytest.mark.parametrize("strides", [(1, 1), (3, 2)])
def test_patches_of_images_of_any_size(
    auto_pad: str, strides: tuple[int, int], sides: tuple[int, int]
) -> None:
    """Of the cells' numbers, so that a patch says where it was cut; 0 is padding."""
    sizes, rates = (2, 3), (1, 2)
    x = np.arange(1, 1 + math.prod(sides), dtype=np.float32).reshape(sides)
    cuts = []
    for side, size, rate, stride in zip(sides, sizes, rates, strides, strict=True):
        reach = (size - 1) * rate + 1
        count = -(-side // stride) if auto_pad != "valid" else max(0, (side - reach) // stride + 1)
        total = 0 if auto_pad == "valid" else max(0, (count - 1) * stride + reach - side)
        before = total - total // 2 if auto_pad == "same_lower" else total // 2
        cuts.append([[i * stride - before + k * rate for k in range(size)] for i in range(count)])

    def cell(i: int, j: int) -> float:
        return x[i, j] if 0 <= i < sides[0] and 0 <= j < sides[1] else 0

    expected = [
        [[cell(rows[a], columns[b]) for columns in cuts[1]] for rows in cuts[0]]
        for a, b in np.ndindex(*sizes)
    ]
    attributes = {"sizes": sizes, "strides": strides, "rates": rates, "auto_pad": auto_pad}
    ready = layer("ExtractImagePatches", 3, ("f32", [None] * 4), **attributes)
    shape = (6, len(cuts[0]), len(cuts[1]))
    y = answer(ready, x[None, None])
    np.testing.assert_array_equal(y, np.array(expected, np.float32).reshape(1, *shape))


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 5), (2, 3, 4, 4), (40, 40), (1, 1), (0, 0)])
def test_inverses_of_any_size(shape: tuple[int, ...], adjoint: bool) -> None:
    """Of random matrices, and of one whose first pivot is 0."""
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    x[..., :1, :1] = 0 if shape[-1] > 1 else 2
    ready = layer("Inverse", 14, ("f32", [None] * len(shape)), adjoint=adjoint)
    exact = np.linalg.inv(x.astype(np.float64))
    expected = np.swapaxes(exact, -1, -2) if adjoint else exact
    np.testing.assert_allclose(answer(ready, x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("counts", [(2, 3), (1, 1), (4, 5), (6, 2), (0, 2), (2, 0)])
def test_means_of_as_many_windows_as_the_call_says(counts: tuple[int, int]) -> None:
    ready = layer("AdaptiveAvgPool", 8, ("f32", [None, 2, None, 5]), ("i64", [2]))
    x = np.random.default_rng(2).normal(size=(1, 2, 4, 5)).astype(np.float32)
    x[0, 0, 0, 0] = np.inf
    expected = np.zeros((1, 2, *counts), np.float32)
    for i, j in np.ndindex(*counts):
        rows, columns = (
            slice(k * n // m, -(-(k + 1) * n // m))
            for k, n, m in zip((i, j), (4, 5), counts, strict=True)
        )
        expected[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    y = answer(ready, x, counts)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_places_in_as_many_windows_as_the_call_says_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="input 'output_shape' is computed as the model"):
        layer("AdaptiveMaxPool", 8, ("f32", [1, 2, 5]), ("i64", [1]))


def test_offsets_that_decrease_and_segments_past_their_number_are_refused() -> None:
    table, ids = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([0, 1, 2])
    bags = layer("EmbeddingBagOffsetsSum", 3, ("f32", [3, 2]), ("i64", [None]), ("i64", [None]))
    np.testing.assert_array_equal(answer(bags, table, ids, [0, 2]), [[4, 6], [5, 6]])
    for offsets in ([2, 1], [-1, 1], [0, 4]):
        with pytest.raises(Exception, match="out of"):
            answer(bags, table, ids, offsets)
    parts = ("EmbeddingSegmentsSum", 3, ("f32", [3, 2]), ("i64", [None]), ("i64", [None]))
    segments = layer(*parts, ("i64", []))
    np.testing.assert_array_equal(answer(segments, table, ids, [0, 0, 1], 2), [[4, 6], [5, 6]])
    for names in ([0, 1, 2], [-1, 0, 1]):
        with pytest.raises(Exception, match="out of"):
            answer(segments, table, ids, names, 2)


@pytest.mark.parametrize("inverted", [True, False])
def test_a_loop_inside_a_branch(inverted: bool) -> None:
    bodies = {}
    for name in ("then_body", "else_body"):
        inner = uncork.Builder(name)
        x = inner.parameter("x", "f32", [None, None])
        inner.result(inner.add("Inverse", 14, x, adjoint=False)[0] if name == "then_body" else x)
        bodies[name] = BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    outer = uncork.Builder("either")
    condition, x = (
        outer.parameter("condition", "boolean", []),
        outer.parameter("x", "f32", [None, None]),
    )
    outer.result(outer.add_with_bodies("If", 8, condition, x, bodies=bodies)[0], "y")
    ready = session(uncork.to_onnx(outer.model()))
    matrix = np.array([[0, 2], [4, 0]], np.float32)
    (y,) = ready.run(None, {"condition": np.array(inverted), "x": matrix})
    np.testing.assert_allclose(y, [[0, 0.25], [0.5, 0]] if inverted else matrix)
