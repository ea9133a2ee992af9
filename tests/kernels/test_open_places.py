"""Kernels that go to places named by indices, or whose sizes are numbers of the call, at several
sizes in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels.test_open_sizes import hold, numbers
from uncork.ir.model import Model, Source
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops.scatter_nd_update import ScatterNDUpdate4
from uncork.types import ElementType, PartialShape, TensorSpec

FEW = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
Calls = list[list[np.ndarray]]


def integers(
    generator: np.random.Generator, low: int, high: int, shape: Sequence[int], dtype: str = "i8"
) -> np.ndarray:
    return generator.integers(low, high, tuple(shape)).astype(dtype)


@FEW
@given(st.data())
def test_tuples(data: st.DataObject) -> None:
    """ScatterNDUpdate and GatherND: rows, columns and the number of tuples are open."""
    draw = data.draw
    numbers_of, rank = draw(st.integers(0, 2)), draw(st.integers(2, 3))
    fixed = [draw(st.sampled_from([None, None, 3, 17])) for _ in range(rank)]
    reduction = draw(st.sampled_from(["none", "sum", "sub", "prod", "min", "max"]))
    name = draw(st.sampled_from(["f32", "f32", "i64", "f16"]))
    builder = uncork.Builder()
    x = builder.parameter("x", name, fixed)
    places = builder.parameter("places", "i64", [None, numbers_of])
    rows = builder.parameter("rows", name, [None, *fixed[numbers_of:]])
    builder.result(
        builder.add("ScatterNDUpdate", 15, x, places, rows, reduction=reduction)[0], "scattered"
    )
    builder.result(builder.add("GatherND", 8, x, places)[0], "picked")
    generator, dtype = (
        np.random.default_rng(draw(st.integers(0, 99))),
        {"f32": "f4", "i64": "i8", "f16": "f2"}[name],
    )
    calls: Calls = []
    for _ in range(3):
        shape = [size or draw(st.integers(1, 20)) for size in fixed]
        count = draw(st.integers(1, 9))
        limits = np.array(shape[:numbers_of], int)
        tuples = generator.integers(-limits, limits, (count, numbers_of))
        updates = [count, *shape[numbers_of:]]
        calls.append(
            [
                integers(generator, -5, 5, shape, dtype),
                tuples,
                integers(generator, -5, 5, updates, dtype),
            ]
        )
    hold(builder.model(), calls)


@FEW
@given(st.data())
def test_constant_tuples(data: st.DataObject) -> None:
    """Tuples that are constants, of which some name places that follow each other: a block, rows of
    a block, places in any order, and one place twice. The sizes behind them are open.
    """
    draw = data.draw
    shape = [draw(st.integers(1, 6)) for _ in range(draw(st.integers(1, 3)))]
    first = [draw(st.integers(0, size - 1)) for size in shape]
    block = [
        np.arange(f, draw(st.integers(f + 1, size))) for f, size in zip(first, shape, strict=True)
    ]
    tuples = np.stack(np.meshgrid(*block, indexing="ij"), -1).reshape(-1, len(shape))
    count = len(tuples)
    order = draw(st.sampled_from(["block", "block", "turned", "any", "twice"]))
    if order == "turned":
        tuples = tuples[::-1]
    elif order != "block":
        generator = np.random.default_rng(count)
        tuples = tuples[
            generator.integers(0, count, count + 2)
            if order == "twice"
            else generator.permutation(count)
        ]
    counts_from_end = draw(st.booleans())
    if counts_from_end:
        tuples = np.where(np.arange(len(tuples))[:, None] % 3 == 0, tuples - shape, tuples)
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [*shape, None])
    rows = builder.parameter("rows", "f32", [len(tuples), None])
    kind = draw(st.sampled_from(["i32", "i64"]))
    places = builder.constant(tuples.astype({"i32": "i4", "i64": "i8"}[kind]))
    version = 15 if counts_from_end else draw(st.sampled_from([4, 15]))
    builder.result(builder.add("ScatterNDUpdate", version, x, places, rows)[0], "scattered")
    builder.result(builder.add("GatherND", 8, x, places)[0], "picked")
    if len(shape) == 1 and not counts_from_end:
        single = builder.constant(tuples[:, 0])
        axis = builder.constant(np.int64(0))
        builder.result(builder.add("ScatterUpdate", 3, x, single, rows, axis)[0], "put")
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    sizes = [draw(st.integers(1, 20)) for _ in range(3)]
    hold(
        builder.model(),
        [
            [numbers(generator, (*shape, size)), numbers(generator, (len(tuples), size))]
            for size in sizes
        ],
    )


def test_constant_tuples_of_a_block_are_runs() -> None:
    """3 rows of 4 x 5 numbers: 3 copies of 20, not 60 of 1; what is outside is refused."""
    tuples = np.stack(np.meshgrid([1, 2, 4], range(4), range(5), indexing="ij"), -1)
    data = TensorSpec(ElementType.f32, PartialShape((6, 4, 5)))
    rows = TensorSpec(ElementType.f32, PartialShape((3, 4, 5)))

    def selected(tuples: np.ndarray) -> KernelPlan:
        places = TensorSpec(ElementType.i64, PartialShape(tuples.shape), tuples)
        found = select_kernel(ScatterNDUpdate4(), [data, places, rows], [data], host_target())
        assert isinstance(found, KernelPlan)
        return found

    def counted(tuples: np.ndarray) -> tuple[int, int, int]:
        spec, operands = selected(tuples).calls[-1]
        named = dict(zip(spec.arguments, operands, strict=True))
        return spec.tuple_length, named["count"], named["run"]

    assert counted(tuples) == (1, 3, 80)
    assert counted(tuples[:, ::-1]) == (1, 12, 20)
    assert counted(tuples[..., ::-1, :]) == (1, 60, 4)
    tuples[2, 3, 4] = 6, 0, 0
    assert counted(tuples) == (3, 60, 4)


@FEW
@given(st.data())
def test_elements(data: st.DataObject) -> None:
    """ScatterElementsUpdate: along any axis, with fewer indices than there are places along the
    others.
    """
    draw = data.draw
    rank = draw(st.integers(1, 3))
    axis = draw(st.integers(0, rank - 1))
    whole = [draw(st.booleans()) for _ in range(rank)]  # as many indices as places
    builder = uncork.Builder()
    reduction = draw(st.sampled_from(["none", "sum", "prod", "min", "max", "mean"]))
    x, places, rows = (
        builder.parameter(name, kind, [None] * rank)
        for name, kind in (("x", "f32"), ("places", "i32"), ("rows", "f32"))
    )
    attributes = {"reduction": reduction, "use_init_val": draw(st.booleans())}
    found = builder.add(
        "ScatterElementsUpdate", 12, x, places, rows, builder.constant(np.int64(axis)), **attributes
    )
    builder.result(found[0], "y")
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    calls: Calls = []
    for _ in range(3):
        shape = [draw(st.integers(1, 12)) for _ in range(rank)]
        sides = [
            size if every else draw(st.integers(1, size))
            for size, every in zip(shape, whole, strict=True)
        ]
        sides[axis] = draw(st.integers(1, 7))
        indices = integers(generator, -shape[axis], shape[axis], sides, "i4")
        calls.append([numbers(generator, shape), indices, numbers(generator, sides)])
    hold(builder.model(), calls)


@FEW
@given(st.data())
def test_slices_and_one_hot(data: st.DataObject) -> None:
    draw = data.draw
    axis = draw(st.integers(0, 1))
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None])
    indices = builder.parameter("indices", "i64", [None])
    rows = builder.parameter("rows", "f32", [None, None])
    builder.result(
        builder.add("ScatterUpdate", 3, x, indices, rows, builder.constant(np.int64(axis)))[0],
        "put",
    )
    size = builder.add(
        "Gather",
        8,
        builder.add("ShapeOf", 3, x, output_type="i64")[0],
        *(builder.constant(np.int64(0)) for _ in range(2)),
    )
    on, off = builder.constant(np.float32(2)), builder.constant(np.float32(-1))
    builder.result(
        builder.add("OneHot", 1, indices, *size, on, off, axis=draw(st.integers(-1, 1)))[0], "hot"
    )
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    calls: Calls = []
    for _ in range(3):
        shape, count = [draw(st.integers(1, 20)) for _ in range(2)], draw(st.integers(1, 9))
        updates = [count, shape[1]] if axis == 0 else [shape[0], count]
        calls.append(
            [
                numbers(generator, shape),
                integers(generator, 0, shape[axis], [count]),
                numbers(generator, updates),
            ]
        )
    hold(builder.model(), calls)


def numbers_of_the_call(builder: uncork.Builder, kind: str, x: Source) -> list[Source]:
    """A layer whose result has a size that the call gives as a number."""
    one = builder.constant(np.array([1]))
    if kind == "range":
        first, count = builder.parameter("first", "i64", []), builder.parameter("count", "i64", [])
        (last,) = builder.add("Add", 1, first, count)
        return list(
            builder.add("Range", 4, first, last, builder.constant(np.int64(1)), output_type="f32")
        )
    n = builder.parameter("n", "i64", [1])
    if kind == "tile":
        return list(builder.add("Tile", 1, x, builder.add("Concat", 1, one, n, axis=0)[0]))
    if kind == "slice":
        return list(builder.add("Slice", 8, x, builder.constant(np.array([0])), n, one, one))
    if kind == "strided_slice":
        return list(
            builder.add(
                "StridedSlice",
                1,
                x,
                n,
                builder.constant(np.array([0])),
                begin_mask=[0],
                end_mask=[1],
            )
        )
    if kind == "one_row":
        masks = {"begin_mask": [0], "end_mask": [0], "shrink_axis_mask": [1]}
        return list(builder.add("StridedSlice", 1, x, n, builder.constant(np.array([0])), **masks))
    (k,) = builder.add("Squeeze", 1, n, builder.constant(np.array([0])))
    return list(builder.add("TopK", 11, x, k, axis=1, mode="max", sort="value"))


@pytest.mark.parametrize("kind", ["range", "tile", "slice", "strided_slice", "one_row", "top_k"])
def test_numbers_of_the_call(kind: str) -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None])
    for number, source in enumerate(numbers_of_the_call(builder, kind, x)):
        builder.result(source, f"result_{number}")
    builder.result(builder.add("Negative", 1, x)[0], "negative")
    generator = np.random.default_rng(3)

    def given_numbers(n: int) -> list[np.ndarray]:
        return [np.array(n - 5), np.array(n)] if kind == "range" else [np.array([n])]

    hold(
        builder.model(),
        [
            [numbers(generator, shape), *given_numbers(n)]
            for shape, n in (([9, 8], 3), ([4, 70], 1), ([20, 33], 7))
        ],
    )


@pytest.mark.parametrize("mode", ["max", "min"])
def test_best_of_columns(mode: str) -> None:
    """Columns side by side, fewer than a vector has lanes and more."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, None, None])
    for number, source in enumerate(
        builder.add("TopK", 11, x, builder.constant(np.int64(2)), axis=1, mode=mode, sort="value")
    ):
        builder.result(source, f"result_{number}")
    generator = np.random.default_rng(2)
    hold(
        builder.model(),
        [
            [numbers(generator, shape)]
            for shape in ((2, 9, 3), (1, 5, 40), (3, 2, 17), (2, 30, 16), (1, 4, 1))
        ],
    )


def searching() -> Model:
    builder = uncork.Builder()
    x, borders = (
        builder.parameter("x", "f32", [None, None]),
        builder.parameter("borders", "f32", [None]),
    )
    builder.result(builder.add("Bucketize", 3, x, borders)[0], "buckets")
    builder.result(builder.add("SearchSorted", 15, borders, x, right_mode=True)[0], "places")
    return builder.model()


def test_searches() -> None:
    generator = np.random.default_rng(1)
    hold(
        searching(),
        [
            [numbers(generator, [n, m]), np.sort(numbers(generator, [k]))]
            for n, m, k in ((1, 5, 3), (7, 40, 17), (2, 2, 1))
        ],
    )


def test_what_is_refused_has_the_words_of_the_reference() -> None:
    """A kernel stops at such values, and the call is refused as the reference refuses it."""
    x = np.zeros((2, 3), np.float32)
    for borders in (np.float32([2, 1]), np.float32([1, np.nan])):
        with pytest.raises(uncork.InputError) as fast:
            uncork.compile_model(searching())(x, borders)
        with pytest.raises(uncork.InputError) as slow:
            uncork.compile_model(searching(), backend="reference")(x, borders)
        assert str(fast.value) == str(slow.value)
