"""Kernels that are chosen once for sizes that only the call knows, against the references, at
several sizes in turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.ir.model import Model, Source
from uncork.ir.symbols import infer_symbolic
from uncork.kernels.kernel_plan import AtLeast, In, KernelPlan, Out, Scratch, Stages
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.ops.parameter import Const
from uncork.symbolic import Size, Symbol
from uncork.types import ElementType, PartialShape, TensorSpec

THREADS = (1, 2, 3)
FEW = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


def numbers(generator: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return generator.standard_normal(tuple(shape)).astype(np.float32)


def hold(model: Model, calls: Sequence[Sequence[np.ndarray]], tolerance: float = 5e-5) -> None:
    """One plan without references serves all the calls, which give what the references give; calls
    in which the same inputs are empty may have another one.
    """
    compiled, reference = (
        uncork.compile_model(model, threads=1),
        uncork.compile_model(model, backend="reference"),
    )
    for inputs in calls:
        expected, results = reference(*inputs), compiled(*inputs)
        for position in range(len(expected)):
            np.testing.assert_allclose(
                results[position], expected[position], rtol=tolerance, atol=tolerance
            )
    plan = compiled.plan
    kinds = {tuple(array.size == 0 for array in inputs) for inputs in calls}
    assert plan.made <= len(kinds), "one plan for all calls"
    assert "planned for every size" in plan.remarks
    assert [step.reason for step in plan.steps if step.kernel == "reference"] == []


def transposed_size(size: int, taps: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    return stride * (size - 1) + (taps - 1) * dilation + 1 - sum(pads)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Model, list[list[np.ndarray]]]:
    axes = draw(st.integers(1, 2))
    grouped, transposed = draw(st.booleans()), draw(st.integers(0, 3)) == 0
    groups = draw(st.integers(1, 3)) if grouped else 1
    channels = draw(st.sampled_from([1, 2, 5]))
    outputs = draw(st.sampled_from([1, 2, 3, 9, 16] if not grouped else [1, 3, 8]))
    taps = [draw(st.integers(1, 4)) for _ in range(axes)]
    strides = [draw(st.integers(1, 3)) for _ in range(axes)]
    dilations = [draw(st.integers(1, 2)) for _ in range(axes)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(axes)]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations}
    attributes |= {"pads_begin": [b for b, _ in pads], "pads_end": [e for _, e in pads]}
    attributes["auto_pad"] = draw(
        st.sampled_from(
            ["explicit", "explicit", "valid", *([] if transposed else ["same_upper", "same_lower"])]
        )
    )
    least = [
        (k - 1) * d + 1 + (3 if transposed else 0) for k, d in zip(taps, dilations, strict=True)
    ]
    widest = [least[0] + 6, least[-1] + 60][-axes:]
    fixed = [draw(st.sampled_from([None, None, low + 3])) for low in least]
    calls = [
        [
            draw(st.integers(1, 4)),
            *(
                draw(st.integers(low, high)) if size is None else size
                for low, high, size in zip(least, widest, fixed, strict=True)
            ),
        ]
        for _ in range(draw(st.integers(2, 4)))
    ]
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    order = (channels, outputs) if transposed else (outputs, channels)
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, groups * channels, *fixed])
    filters = builder.constant(numbers(generator, [*([groups] if grouped else []), *order, *taps]))
    name = ("Group" if grouped else "") + "Convolution" + ("BackpropData" if transposed else "")
    (found,) = builder.add(name, 1, data, filters, **attributes)
    if draw(st.booleans()):
        found = ended(builder, found, numbers(generator, [1, groups * outputs, *[1] * axes]))
    builder.result(found, "y")
    return builder.model(), [
        [numbers(generator, [images, groups * channels, *sizes])] for images, *sizes in calls
    ]


def ended(builder: uncork.Builder, found: Source, bias: np.ndarray) -> Source:
    """With a bias and an activation, which go into the kernel."""
    (found,) = builder.add("Add", 1, found, builder.constant(bias))
    return builder.add("ReLU", 1, found)[0]


def settled(choice: KernelPlan, values: dict[Symbol, int]) -> KernelPlan:
    """A choice for open sizes with the sizes of a call, and what such a call makes of it."""

    def number(operand: Any) -> Any:
        if isinstance(operand, Size):
            return operand.evaluate(values)
        return (
            replace(operand, offset=number(operand.offset))
            if isinstance(operand, (In, Out, Scratch))
            else operand
        )

    def calls(some: Sequence[Any]) -> list[Any]:
        return [(spec, [number(word) for word in words]) for spec, words in some]

    def made(some: Sequence[Any], when: Sequence[AtLeast | None]) -> list[Any]:
        return [
            each
            for each, condition in zip_longest(some, when)
            if condition is None
            or (condition.size.evaluate(values) >= condition.least) is not condition.otherwise
        ]

    def split(threads: int) -> Stages:
        assert choice.split is not None
        stages = choice.split(threads)
        some = made(stages.stages, stages.when)
        return Stages([calls(stage) for stage in some], number(stages.scratch))

    alone = calls(made(choice.calls, choice.when))
    return replace(choice, calls=alone, when=(), scratch=number(choice.scratch), split=split)


@settings(FEW, max_examples=25)
@given(convolutions())
def test_between_forbidden_pages(case: tuple[Model, list[list[np.ndarray]]]) -> None:
    """Nothing outside of the arrays is touched, by one thread or by several."""
    model, calls = case
    described, facts = infer_symbolic(model)
    node = next(node for node in described.nodes if "Convolution" in node.type_name)
    assert node.operation is not None
    specs = [described.spec(source) for source in node.inputs]
    filters = described.by_id[node.inputs[1].node].operation
    assert isinstance(filters, Const)
    specs[1] = replace(specs[1], value=filters.value)
    choice = select_kernel(node.operation, specs, [node.outputs[0].spec], host_target())
    assert isinstance(choice, KernelPlan), choice
    for (x,) in calls:
        values = {symbol: x.shape[symbol.origin.position] for symbol in facts.symbols}
        known = [spec_of(x, ElementType.f32), specs[1]]
        (described_output,) = node.operation.describe(
            [TensorSpec(ElementType.f32, PartialShape(x.shape)), specs[1]]
        )
        (expected,) = node.operation.evaluate(known)
        for threads in THREADS:
            (got,) = run_fenced(
                settled(choice, values), known, [described_output], threads == 1, threads
            )
            np.testing.assert_allclose(got, expected.value, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize("name", ["DFT-7", "IDFT-7", "RDFT-9", "IRDFT-9"])
@pytest.mark.parametrize("type_", [ElementType.f32, ElementType.f64])
def test_transforms_between_forbidden_pages(name: str, type_: ElementType) -> None:
    """Lengths of small factors, primes and long rows find room for their tables."""
    word, opset = name.split("-")
    operation = find(word, int(opset))()
    pair = [2] if operation.from_complex else []
    builder = uncork.Builder("transforms")
    x = builder.parameter("x", type_.name, [None, None, *pair])
    builder.result(builder.add(word, int(opset), x, builder.constant(np.array([1])))[0], "y")
    described, facts = infer_symbolic(builder.model())
    node = next(node for node in described.nodes if node.type_name == word)
    axes = spec_of(np.array([1]), ElementType.i64)
    specs = [described.spec(node.inputs[0]), axes]
    choice = select_kernel(node.operation, specs, [node.outputs[0].spec], host_target())
    assert isinstance(choice, KernelPlan), choice
    generator = np.random.default_rng(0)
    for count, length in ((1, 2), (18, 12), (2, 131), (3, 193), (17, 97), (2, 16411)):
        data = generator.standard_normal((count, length, *pair)).astype(type_.dtype)
        values = {symbol: data.shape[symbol.origin.position] for symbol in facts.symbols}
        known = [spec_of(data, type_), axes]
        (expected,) = operation.evaluate(known)
        for threads in THREADS:
            (got,) = run_fenced(settled(choice, values), known, [expected], threads == 1, threads)
            np.testing.assert_allclose(got, expected.value, rtol=1e-4, atol=1e-4)


@FEW
@given(convolutions())
def test_convolutions(case: tuple[Model, list[list[np.ndarray]]]) -> None:
    hold(*case)


@pytest.mark.parametrize("outputs", [1, 9, 16])
@pytest.mark.parametrize("stride", [1, 2])
def test_widths_around_vectors(outputs: int, stride: int) -> None:
    """Rows of fewer pixels than lanes, just as many, and one more."""
    generator = np.random.default_rng(1)
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 2, None, None])
    around = {
        "strides": [stride] * 2,
        "dilations": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    }
    (y,) = builder.add(
        "Convolution", 1, data, builder.constant(numbers(generator, [outputs, 2, 3, 3])), **around
    )
    builder.result(y, "y")
    widths = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 97]
    hold(builder.model(), [[numbers(generator, [1 + n % 3, 2, 1 + n % 4, n])] for n in widths])


def test_as_many_filters_as_channels_at_every_width() -> None:
    generator = np.random.default_rng(2)
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 3, None])
    around = {"strides": [1], "dilations": [2], "pads_begin": [2], "pads_end": [2]}
    (y,) = builder.add(
        "GroupConvolution", 1, data, builder.constant(numbers(generator, [3, 1, 1, 3])), **around
    )
    builder.result(y, "y")
    hold(
        builder.model(),
        [[numbers(generator, [1 + n % 3, 3, n])] for n in (1, 2, 5, 15, 16, 17, 40)],
    )


@pytest.mark.parametrize("mode", ["same_upper", "same_lower", "explicit"])
def test_a_transposed_convolution_of_a_given_size(mode: str) -> None:
    """Its output's size is that of another input: what is cut away is found in the call."""
    generator = np.random.default_rng(3)
    builder = uncork.Builder()
    data, like = (
        builder.parameter("data", "f32", [None, 2, None]),
        builder.parameter("like", "f32", [None]),
    )
    (size,) = builder.add("ShapeOf", 3, like, output_type="i64")
    filters = builder.constant(numbers(generator, [2, 3, 4]))
    around = {
        "strides": [2],
        "dilations": [1],
        "pads_begin": [0],
        "pads_end": [0],
        "auto_pad": mode,
    }
    builder.result(builder.add("ConvolutionBackpropData", 1, data, filters, size, **around)[0], "y")
    calls = [(1, 5, 9), (3, 8, 16), (2, 20, 41), (1, 7, 16)]
    hold(
        builder.model(),
        [[numbers(generator, [n, 2, m]), np.zeros(k, np.float32)] for n, m, k in calls],
    )


EQUATIONS = [
    ("ab,bc->ac", 1),
    ("cb,ab->ca", 0),
    ("cb,ab->ac", 0),  # the columns of the result lie apart, as far as the call says
    ("btgi,gih->btgh", 1),
    ("abcd,ced->abce", 1),
    ("abcd,cde->cabe", 1),
    ("abcd,acde->caeb", 1),  # batches of two dimensions
    ("eabd,bdc->eabc", 1),
    ("abd,cd->abc", 1),
    ("...b,bc->...c", 1),
    ("abc,bc->a", 1),
]


@pytest.mark.parametrize(("equation", "constant"), EQUATIONS)
@FEW
@given(data=st.data())
def test_einsums(equation: str, constant: int, data: st.DataObject) -> None:
    """Labels of the data alone may have any size in any call."""
    parts = equation.replace("...", "xy").partition("->")[0].split(",")
    known, own = parts[constant], parts[1 - constant]
    draw = data.draw
    size = {label: draw(st.sampled_from([1, 2, 3, 5, 18])) for label in known}
    free = [label for label in own if label not in known]
    fixed = {label: draw(st.sampled_from([None, None, 3])) for label in free}
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [size.get(label, fixed.get(label)) for label in own])
    matrix = builder.constant(numbers(generator, [size[label] for label in known]))
    builder.result(
        builder.add("Einsum", 7, *((x, matrix) if constant else (matrix, x)), equation=equation)[0],
        "y",
    )
    calls = []
    for _ in range(3):
        sizes = size | {label: fixed[label] or draw(st.integers(1, 20)) for label in free}
        calls.append([numbers(generator, [sizes[label] for label in own])])
    hold(builder.model(), calls)


@pytest.mark.parametrize("kind", ["bags", "packed", "segments", "gather"])
@pytest.mark.parametrize("stored", ["u8", "i4"])
def test_quantized_tables(kind: str, stored: str) -> None:
    """Any number of ids and of bags."""
    generator = np.random.default_rng(5)
    builder = uncork.Builder()
    codes = builder.constant(
        generator.integers(0, 8, (50, 16)).astype("i1" if stored == "i4" else "u1"), stored
    )
    (table,) = builder.add("Convert", 1, codes, destination_type="f32")
    (table,) = builder.add(
        "Multiply", 1, table, builder.constant(generator.integers(1, 9, (50, 1)).astype(np.float32))
    )
    ids = builder.parameter("ids", "i64", [None, None] if kind in ("packed", "gather") else [None])
    calls = [(5, 3), (1, 1), (40, 7), (17, 17)]
    given: list[list[np.ndarray]] = []
    if kind == "bags":
        (y,) = builder.add(
            "EmbeddingBagOffsetsSum", 3, table, ids, builder.parameter("offsets", "i64", [None])
        )
        given = [
            [generator.integers(0, 50, n), np.sort(generator.integers(0, n, bags))]
            for n, bags in calls
        ]
        for _, offsets in given:
            offsets[0] = 0
    elif kind == "packed":
        (y,) = builder.add("EmbeddingBagPackedSum", 3, table, ids)
    elif kind == "segments":
        segments, like = (
            builder.parameter("segments", "i64", [None]),
            builder.parameter("like", "f32", [None]),
        )
        (shape,) = builder.add("ShapeOf", 3, like, output_type="i64")
        (count,) = builder.add("Squeeze", 1, shape, builder.constant(np.array([0])))
        (y,) = builder.add("EmbeddingSegmentsSum", 3, table, ids, segments, count)
        given = [
            [
                generator.integers(0, 50, n),
                np.sort(generator.integers(0, rows, n)),
                np.zeros(rows, np.float32),
            ]
            for n, rows in calls
        ]
    else:
        (y,) = builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))
    builder.result(y, "y")
    hold(builder.model(), given or [[generator.integers(0, 50, shape)] for shape in calls])


@st.composite
def stretched_products(
    draw: st.DrawFn,
) -> tuple[list[int | None], list[int | None], bool, bool, list[tuple[np.ndarray, np.ndarray]]]:
    """Shapes of two batches of matrices, and calls: each dimension of the batches is the same in
    both or stretches in one of them.
    """
    kinds = draw(st.lists(st.sampled_from(["both", "first", "second"]), min_size=1, max_size=3))
    fixed = draw(st.lists(st.sampled_from([None, 2, 3]), min_size=3, max_size=3))
    turned = draw(st.booleans()), draw(st.booleans())
    # A size that both have is one number in the file: two open ones may stretch at the call.
    known = [n if kind != "both" else n or 3 for n, kind in zip(fixed, kinds, strict=False)]
    if len(known) == 3:
        known[0] = known[0] or 2  # the kernel has two loops over batches
    generator = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    calls = []
    for _ in range(3):
        sizes = [n or draw(st.integers(1, 3)) for n in known]
        rows, inner, columns = (draw(st.sampled_from([1, 2, 7, 16, 33])) for _ in range(3))
        a = [1 if kind == "second" else n for n, kind in zip(sizes, kinds, strict=True)]
        b = [1 if kind == "first" else n for n, kind in zip(sizes, kinds, strict=True)]
        a += [inner, rows] if turned[0] else [rows, inner]
        b += [columns, inner] if turned[1] else [inner, columns]
        calls.append((numbers(generator, a), numbers(generator, b)))
    first: list[int | None] = [1 if k == "second" else n for n, k in zip(known, kinds, strict=True)]
    second: list[int | None] = [1 if k == "first" else n for n, k in zip(known, kinds, strict=True)]
    return [*first, None, None], [*second, None, None], *turned, calls


@FEW
@given(stretched_products())
def test_products_of_open_batches(
    case: tuple[
        list[int | None], list[int | None], bool, bool, list[tuple[np.ndarray, np.ndarray]]
    ],
) -> None:
    first, second, turned_first, turned_second, calls = case
    builder = uncork.Builder()
    a, b = builder.parameter("a", "f32", first), builder.parameter("b", "f32", second)
    turned = {"transpose_a": turned_first, "transpose_b": turned_second}
    builder.result(builder.add("MatMul", 1, a, b, **turned)[0])
    hold(builder.model(), calls)


def test_products_of_as_many_batches_as_both_have() -> None:
    """Heads of attention: an open number of batches, of which both sides have as many."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 4, None, 8])
    (scores,) = builder.add("MatMul", 1, data, data, transpose_b=True)
    builder.result(builder.add("MatMul", 1, scores, data)[0])
    generator = np.random.default_rng(3)
    hold(
        builder.model(), [[numbers(generator, (n, 4, m, 8))] for n, m in ((1, 5), (3, 1), (2, 40))]
    )


def length_of(builder: uncork.Builder, data: Source, axis: int) -> Source:
    """The size of a tensor along an axis, as a vector of one number."""
    (sizes,) = builder.add("ShapeOf", 3, data)
    places = builder.constant(np.array([axis])), builder.constant(np.array(0))
    return builder.add("Gather", 8, sizes, *places)[0]


@pytest.mark.parametrize("to", ["a multiple of 4", "six"])
def test_pads_by_sizes(to: str) -> None:
    """Windows want whole ones; six cuts what is longer."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, None, 3])
    size, none = length_of(builder, data, 1), builder.constant(np.array([0]))
    if to == "six":
        (missing,) = builder.add("Subtract", 1, builder.constant(np.array([6])), size)
    else:
        four = builder.constant(np.array([4]))
        (over,) = builder.add("FloorMod", 1, size, four)
        (missing,) = builder.add("FloorMod", 1, builder.add("Subtract", 1, four, over)[0], four)
    (begins,) = builder.add("Concat", 1, none, none, none, axis=0)
    (ends,) = builder.add("Concat", 1, none, missing, none, axis=0)
    value = builder.constant(np.float32(7))
    builder.result(builder.add("Pad", 12, data, begins, ends, value, pad_mode="constant")[0])
    generator = np.random.default_rng(5)
    shapes = [(2, 5, 3), (1, 8, 3), (3, 1, 3), (2, 6, 3), (1, 11, 3)]
    hold(builder.model(), [[numbers(generator, shape)] for shape in shapes])


@pytest.mark.parametrize(
    ("shift", "axes"), [([2], [1]), ([-3, 2], [2, 1]), ([1, -1, 5], [0, -2, 1]), ([4], [2, 1])]
)
def test_rolls(shift: list[int], axes: list[int]) -> None:
    """Longer than the axis, backwards, twice along one, one shift for two."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, None, 5])
    by, along = builder.constant(np.array(shift)), builder.constant(np.array(axes))
    builder.result(builder.add("Roll", 7, data, by, along)[0])
    generator = np.random.default_rng(6)
    shapes = [(2, 5, 5), (1, 1, 5), (3, 2, 5), (2, 0, 5), (1, 9, 5)]
    hold(builder.model(), [[numbers(generator, shape)] for shape in shapes])


def test_rolls_by_half_of_a_size() -> None:
    """What centres a spectrum."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [2, None])
    half = builder.add("Divide", 1, length_of(builder, data, 1), builder.constant(np.array([2])))[0]
    builder.result(builder.add("Roll", 7, data, half, builder.constant(np.array([-1])))[0])
    generator = np.random.default_rng(7)
    hold(builder.model(), [[numbers(generator, (2, n))] for n in (5, 8, 1, 0, 2)])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_pads_up_to_whole_strides(mode: str, stride: int) -> None:
    """Audio in windows: the last one is made whole by pads that are computed in floats and come as
    pairs for each axis, as PyTorch has them.
    """
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 3, None])
    size = builder.add("Squeeze", 1, length_of(builder, data, 2), builder.constant(np.array([0])))
    (real,) = builder.add("Convert", 1, *size, destination_type="f32")
    (count,) = builder.add("Divide", 1, real, builder.constant(np.float32(stride)))
    (whole,) = builder.add("Ceiling", 1, count)
    (windows,) = builder.add("Convert", 1, whole, destination_type="i64")
    (longer,) = builder.add("Multiply", 1, windows, builder.constant(np.array(stride)))
    (missing,) = builder.add("Subtract", 1, longer, *size)
    (missing,) = builder.add("Unsqueeze", 1, missing, builder.constant(np.array([0])))
    (pairs,) = builder.add("Concat", 1, builder.constant(np.array([2])), missing, axis=0)
    (pairs,) = builder.add(
        "Reshape", 1, pairs, builder.constant(np.array([-1, 2])), special_zero=False
    )
    one = builder.constant(np.array(1))
    sides = builder.add("Split", 1, pairs, one, num_splits=2)
    none = builder.constant(np.array([0, 0]))
    pads = [
        builder.add(
            "Concat",
            1,
            none,
            *builder.add("Squeeze", 1, side, builder.constant(np.array([1]))),
            axis=0,
        )[0]
        for side in sides
    ]
    builder.result(builder.add("Pad", 12, data, *pads, pad_mode=mode)[0])
    model = builder.model()
    generator = np.random.default_rng(9)
    arrays = [numbers(generator, (batch, 3, n)) for batch in (1, 2) for n in (5, 6, 7, 8, 13, 24)]
    hold(model, [[array] for array in arrays])
    compiled = uncork.compile_model(model, threads=1)
    for array in arrays:
        width = ((0, 0), (0, 0), (2, -array.shape[2] % stride))
        expected = np.pad(array, width, mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(compiled(array)[0], expected)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_borders_of_several_axes(mode: str, axes: int) -> None:
    """Pictures are mirrored along both of their axes."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, None, None, 3])
    pads = [
        builder.constant(np.array([n if i < axes else 0 for i, n in enumerate(p)]))
        for p in ([1, 2, 0, 0], [2, 1, 1, 0])
    ]
    builder.result(builder.add("Pad", 12, data, *pads, pad_mode=mode)[0])
    generator = np.random.default_rng(8)
    shapes = [(4, 3, 2, 3), (3, 5, 7, 3), (3, 3, 9, 3)]
    hold(builder.model(), [[numbers(generator, shape)] for shape in shapes])


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
@pytest.mark.parametrize("axes", [1, 2])
def test_depth_and_space(mode: str, axes: int) -> None:
    """Pictures of any size are made larger, and smaller again."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 12, *[None] * axes])
    larger = builder.add("DepthToSpace", 1, data, block_size=2, mode=mode)[0]
    builder.result(builder.add("SpaceToDepth", 1, larger, block_size=2, mode=mode)[0])
    builder.result(builder.add("ShuffleChannels", 1, larger, axis=1, group=3)[0])
    builder.result(builder.add("SpaceToDepth", 1, data, block_size=1, mode=mode)[0])
    generator = np.random.default_rng(9)
    shapes = [(2, 12, 5, 3), (1, 12, 1, 8), (3, 12, 4, 1)]
    hold(builder.model(), [[numbers(generator, shape[: 2 + axes])] for shape in shapes])


def test_ranges_by_steps_of_a_size() -> None:
    """Offsets of bags that all have as many ids: 0, n, 2 n and so on."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, None])
    axis = builder.constant(np.array(0))
    bags, each = (builder.add("Squeeze", 1, length_of(builder, data, n), axis)[0] for n in (0, 1))
    (stop,) = builder.add("Multiply", 1, bags, each)
    for end in (stop, builder.add("Add", 1, bags, stop)[0]):
        start = builder.constant(np.array(0))
        builder.result(builder.add("Range", 4, start, end, each, output_type="i64")[0])
    generator = np.random.default_rng(10)
    hold(
        builder.model(), [[numbers(generator, shape)] for shape in ((2, 3), (5, 1), (1, 8), (7, 2))]
    )


def test_ranges_up_to_parts_of_a_size() -> None:
    """As windowed attention counts its windows: the halves of a length in eights, less one."""
    builder = uncork.Builder("windows")
    x = builder.parameter("x", "f32", [None])
    eights = builder.add("Reshape", 1, x, builder.constant(np.array([-1, 8])), special_zero=False)
    number = np.int64
    (halves,) = builder.add(
        "Multiply", 1, length_of(builder, eights[0], 0), builder.constant(number([2]))
    )
    (last,) = builder.add("Subtract", 1, halves, builder.constant(number([1])))
    (last,) = builder.add("Squeeze", 1, last, builder.constant(number([0])))
    first, step = (builder.constant(number(n)) for n in (0, 1))
    (windows,) = builder.add("Range", 4, first, last, step, output_type="i64")
    (rows,) = builder.add("Unsqueeze", 1, windows, builder.constant(number([1])))
    (places,) = builder.add("Multiply", 1, rows, builder.constant(number([4])))
    (places,) = builder.add("Add", 1, places, builder.constant(np.arange(8)[None]))
    (found,) = builder.add("Gather", 8, x, places, builder.constant(number(0)))
    builder.result(found, "y")
    calls = [[np.arange(n, dtype=np.float32)] for n in (16, 40, 8, 24)]
    hold(builder.model(), calls)
    (made,) = uncork.compile_model(builder.model())(calls[0][0])
    assert np.asarray(made).tolist() == [[*range(n, n + 8)] for n in (0, 4, 8)]


@pytest.mark.parametrize("start", [0.5, 0.1, 3])
@pytest.mark.parametrize("step", [1, 0.7, -0.5])
@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_ranges_of_floats(type_: str, start: float, step: float) -> None:
    """The middles of cells: 0.5, 1.5 and so on. The quotient is one of f64: 7 / 0.7 is 10, though
    the f64 that is called 0.7 is less, so that 11 such numbers are below 7.
    """
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None])
    (length,) = builder.add("Squeeze", 1, length_of(builder, x, 0), builder.constant(np.array([0])))
    (stop,) = builder.add("Convert", 1, length, destination_type=type_)
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[type_])
    first, by = dtype.type(start), dtype.type(step)
    ends = [builder.constant(np.asarray(first)), stop, builder.constant(np.asarray(by))]
    builder.result(builder.add("Range", 4, *ends, output_type=type_)[0])
    compiled = uncork.compile_model(builder.model())
    for n in range(0, 36):
        (found,) = compiled(np.zeros(n, np.float32))
        count = max(0, math.ceil((n - float(first)) / float(by)))
        expected = [dtype.type(float(first) + i * float(by)) for i in range(count)]
        assert np.asarray(found).tolist() == expected, n
    is_exact = start != 0.1 and step != 0.7
    if is_exact or (type_ == "f32" and (start, step) != (0.1, 0.7)):
        hold(builder.model(), [[np.zeros(n, np.float32)] for n in (5, 8, 1)])


@pytest.mark.parametrize("name", ["Slice", "StridedSlice"])
def test_backwards_over_what_may_be_empty(name: str) -> None:
    """`x[:, 1:][:, ::-1]`, which of one column has none."""
    builder = uncork.Builder("backwards")
    x = builder.parameter("x", "f32", [None, None])
    one, axis = builder.constant(np.array([1])), builder.constant(np.array([1]))
    far = builder.constant(np.array([2**31 - 1]))
    (rest,) = builder.add("Slice", 8, x, one, far, one, axis)
    back = builder.constant(np.array([-1]))
    if name == "Slice":
        before = builder.constant(np.array([-(2**31)]))
        (turned,) = builder.add("Slice", 8, rest, back, before, back, axis)
    else:
        zeros, steps = builder.constant(np.array([0, 0])), builder.constant(np.array([1, -1]))
        masks = {"begin_mask": [1, 1], "end_mask": [1, 1]}
        (turned,) = builder.add("StridedSlice", 1, rest, zeros, zeros, steps, **masks)
    builder.result(turned, "y")
    calls = [[np.arange(2.0 * n, dtype=np.float32).reshape(2, n)] for n in (5, 2, 9)]
    hold(builder.model(), calls)
    compiled = uncork.compile_model(builder.model())
    assert compiled(calls[0][0])["y"].tolist() == [[4, 3, 2, 1], [9, 8, 7, 6]]
    assert compiled(calls[0][0][:, :1])["y"].shape == (2, 0)


@pytest.mark.parametrize("rest", [True, False])
def test_splits_by_sizes(rest: bool) -> None:
    """Two halves of an axis, the second as a length or as what is left."""
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, None, 3])
    like = builder.parameter("like", "f32", [None])
    first, whole = length_of(builder, like, 0), length_of(builder, data, 1)
    (left,) = builder.add("Subtract", 1, whole, first)
    second = builder.constant(np.array([-1])) if rest else left
    (lengths,) = builder.add("Concat", 1, first, second, axis=0)
    axis = builder.constant(np.array(1))
    for part in builder.add("VariadicSplit", 1, data, axis, lengths):
        builder.result(part)
    generator = np.random.default_rng(11)
    shapes = [((2, 5, 3), 2), ((1, 8, 3), 7), ((3, 2, 3), 0), ((3, 2, 3), 2)]
    hold(builder.model(), [[numbers(generator, s), numbers(generator, (n,))] for s, n in shapes])
    with pytest.raises(uncork.InputError):
        uncork.compile_model(builder.model())(np.ones((1, 2, 3), "f4"), np.ones(3, "f4"))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_samples_of_images_of_any_size(mode: str, padding: str) -> None:
    """Places within the image and outside it, of images of one cell, of a row and of many."""
    builder = uncork.Builder("sampled")
    data = builder.parameter("data", "f32", [None, 3, None, None])
    grid = builder.parameter("grid", "f32", [None, None, None, 2])
    builder.result(builder.add("GridSample", 9, data, grid, mode=mode, padding_mode=padding)[0])
    generator = np.random.default_rng(12)
    shapes = [
        ((2, 3, 5, 7), (2, 4, 6, 2)),
        ((1, 3, 1, 9), (1, 1, 3, 2)),
        ((1, 3, 1, 1), (1, 2, 17, 2)),
    ]
    calls = [[numbers(generator, image), 1.5 * numbers(generator, at)] for image, at in shapes]
    hold(builder.model(), calls)
    with pytest.raises(uncork.InputError, match="grid"):
        uncork.compile_model(builder.model())(calls[0][0], calls[1][1])


@pytest.mark.parametrize("told", [True, False])
def test_greatest_of_segments_that_the_call_counts(told: bool) -> None:
    """As many segments as a third input is long, or as the last id says."""
    builder = uncork.Builder("best")
    rows = builder.parameter("rows", "f32", [None, 3])
    ids = builder.parameter("ids", "i64", [None])
    given = [rows, ids]
    if told:
        (zero,) = builder.add(
            "Reshape",
            1,
            length_of(builder, builder.parameter("like", "f32", [None]), 0),
            builder.constant(np.array([], np.int64)),
            special_zero=False,
        )
        given.append(zero)
    builder.result(builder.add("SegmentMax", 16, *given, fill_mode="lowest")[0], "y")
    generator = np.random.default_rng(13)
    cases = [([0, 0, 2], 4), ([1], 2), ([0, 3, 3, 3, 5], 6)]
    calls = [
        [numbers(generator, (len(at), 3)), np.array(at), np.ones(n, "f4")][: 3 if told else 2]
        for at, n in cases
    ]
    hold(builder.model(), calls)
    compiled = uncork.compile_model(builder.model())
    y, lowest = compiled(*calls[0])["y"], np.finfo("f4").min
    assert y.shape == (4 if told else 3, 3)
    assert y[0].tolist() == calls[0][0][:2].max(0).tolist() and (y[1] == lowest).all()
    for wrong in ([2, 1, 3], [-2, -1, -1]):
        with pytest.raises(uncork.InputError, match="segment_ids"):
            compiled(calls[0][0], np.array(wrong), *calls[0][2:])
