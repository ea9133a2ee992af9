"""Convolutions in every way that kernels go, against the formula in f64: sizes around the edges of
vectors and blocks, and at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._fences import check, run_fenced
from tests.kernels._run import spec_of
from uncork.compiler.compile import compile_model
from uncork.errors import UncorkError
from uncork.kernels.convolution import by_planes, direct, im2col
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

DOT_METHODS = ("chosen", "planes", "rows", "rows, little room", "planes, little room", "phases")


@pytest.fixture(params=DOT_METHODS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    go(monkeypatch, request.param)
    return request.param


def go(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Let all convolutions go one way, wherever it can be gone."""
    cost = im2col.cost
    if way.startswith("planes"):
        monkeypatch.setattr(im2col, "cost", lambda g, widest: float("inf"))
    elif way.startswith("rows"):
        monkeypatch.setattr(
            im2col,
            "cost",
            lambda g, widest: (
                min(cost(g, widest), -1.0) if cost(g, widest) < float("inf") else float("inf")
            ),
        )
        monkeypatch.setattr(direct, "is_depthwise", lambda g: False)
    if way == "phases":
        monkeypatch.setattr(by_planes, "_LEAST", 1)
    if way.endswith("little room"):
        for module in (direct, im2col):
            monkeypatch.setattr(module, "_SCRATCH_BYTES", 64)


def by_formula(
    data: np.ndarray, filters: np.ndarray, strides, dilations, begins, counts
) -> np.ndarray:
    """`data [N, G * C, ..]`, `filters [G, O, C, k..]`: the sum of the page, one tap after the
    other, in f64.
    """
    groups, outputs, channels, *taps = filters.shape
    images = data.reshape(len(data), groups, channels, *data.shape[2:]).astype(np.float64)
    result = np.zeros((len(data), groups, outputs, *counts))
    for pixel in np.ndindex(*counts):
        for tap in np.ndindex(*taps):
            place = [
                p * s + t * d - b
                for p, s, t, d, b in zip(pixel, strides, tap, dilations, begins, strict=True)
            ]
            if all(0 <= x < size for x, size in zip(place, data.shape[2:], strict=True)):
                cell, weight = images[(..., *place)], filters[(..., *tap)].astype(np.float64)
                result[(..., *pixel)] += np.einsum("ngc,goc->ngo", cell, weight)
    return result.reshape(len(data), groups * outputs, *counts)


def spread(data: np.ndarray, filters: np.ndarray, strides, dilations, begins, counts) -> np.ndarray:
    """The transposed convolution of the page, `filters [G, C, O, k..]`: what each cell adds to the
    output.
    """
    groups, channels, outputs, *taps = filters.shape
    images = data.reshape(len(data), groups, channels, *data.shape[2:]).astype(np.float64)
    result = np.zeros((len(data), groups, outputs, *counts))
    for cell in np.ndindex(*data.shape[2:]):
        for tap in np.ndindex(*taps):
            pixel = [
                c * s + t * d - b
                for c, s, t, d, b in zip(cell, strides, tap, dilations, begins, strict=True)
            ]
            if all(0 <= x < count for x, count in zip(pixel, counts, strict=True)):
                result[(..., *pixel)] += np.einsum(
                    "ngc,gco->ngo", images[(..., *cell)], filters[(..., *tap)].astype(np.float64)
                )
    return result.reshape(len(data), groups * outputs, *counts)


def numbers(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(np.float32)


def compare(
    operation,
    data: np.ndarray,
    filters: np.ndarray,
    expected: np.ndarray,
    threads: Sequence[int] = (1,),
) -> KernelPlan:
    """Between forbidden pages, with arrays at either end of them."""
    specs = [spec_of(array, ElementType.f32) for array in (data, filters)]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    chosen = select_kernel(operation, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    for count, first in itertools.product(threads, (False, True)):
        (got,) = run_fenced(chosen, specs, outputs, first, count)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    return chosen


def convolved(
    data: Sequence[int],
    filters: Sequence[int],
    strides=(1, 1),
    dilations=(1, 1),
    begin=(0, 0),
    end=(0, 0),
    threads: Sequence[int] = (1, 2, 3),
) -> KernelPlan:
    """A GroupConvolution of random numbers, held against the formula."""
    generator = np.random.default_rng(abs(hash((*data, *filters))) % 1000)
    x, w = numbers(generator, *data), numbers(generator, *filters)
    operation = find("GroupConvolution", 1)(
        strides=strides, dilations=dilations, pads_begin=begin, pads_end=end
    )
    counts = [
        (size + b + e - (k - 1) * d - 1) // s + 1
        for size, b, e, k, d, s in zip(
            data[2:], begin, end, filters[3:], dilations, strides, strict=True
        )
    ]
    return compare(operation, x, w, by_formula(x, w, strides, dilations, begin, counts), threads)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 63, 97])
def test_widths_around_vectors(way: str, columns: int) -> None:
    convolved((2, 3, 2, columns), (1, 5, 3, 1, 1))
    convolved((1, 2, 3, columns), (1, 9, 2, 3, 3), begin=(1, 1), end=(1, 1))


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 33, 50])
def test_channels_around_blocks(way: str, outputs: int) -> None:
    convolved((1, 4, 3, 18), (2, outputs, 2, 2, 2))
    convolved((3, 2, 1, 2), (1, outputs, 2, 1, 2))


@pytest.mark.parametrize("outputs", [24, 31, 64])
@pytest.mark.parametrize(
    ("data", "taps"), [((2, 37, 5, 23), (1, 1)), ((1, 6, 9, 50), (3, 2)), ((2, 70, 1, 8), (1, 1))]
)
def test_the_first_channels_keep_what_they_read(
    monkeypatch: pytest.MonkeyPatch, data: tuple[int, ...], taps: tuple[int, int], outputs: int
) -> None:
    """In working memory that is exactly as large as the plan says, of each thread its own."""
    go(monkeypatch, "planes")
    chosen = convolved(data, (1, outputs, data[1], *taps))
    direct_calls = [spec for spec, _ in chosen.calls if hasattr(spec, "gathers")]
    assert direct_calls
    assert all(spec.gathers for spec in direct_calls)


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 2), (3, 3)])
def test_windows(way: str, stride: int, dilation: int, pads: tuple[int, int]) -> None:
    around = {
        "strides": (stride, stride),
        "dilations": (dilation, dilation),
        "begin": (pads[0],) * 2,
        "end": (pads[1],) * 2,
    }
    convolved((1, 2, 10, 21), (1, 3, 2, 3, 3), **around, threads=(1, 2))
    convolved((2, 3, 9, 40), (3, 1, 1, 2, 3), **around, threads=(1, 2))


@pytest.mark.parametrize("taps", [1, 3, 16, 17, 49, 64, 65])
@pytest.mark.parametrize("outputs", [1, 3])
def test_channels_for_themselves(taps: int, outputs: int) -> None:
    chosen = convolved((2, 3, 1, 90), (3, outputs, 1, 1, taps), begin=(0, 5), end=(0, 4))
    assert any(getattr(spec, "taps", 0) for spec, _ in chosen.calls) == (taps <= 64)


def test_padding_beyond_the_data(way: str) -> None:
    """Windows, whole rows of windows and the first and last of them that see nothing but
    padding.
    """
    convolved((1, 2, 2, 3), (1, 2, 2, 2, 2), begin=(5, 6), end=(7, 4))
    convolved((1, 2, 1, 1), (1, 9, 2, 1, 1), strides=(3, 3), begin=(4, 4), end=(2, 2))


def test_no_way_loses_infinities_and_nan(way: str) -> None:
    """Zeros of the padding meet infinite filters, as they do in the reference."""
    x, w = np.ones((1, 1, 4, 20), np.float32), np.ones((2, 1, 3, 3), np.float32)
    x[0, 0, 2, 5], x[0, 0, 0, 9], w[1, 0, 0, 0] = np.inf, np.nan, np.inf
    operation = find("Convolution", 1)(
        strides=(1, 1), dilations=(1, 1), pads_begin=(1, 1), pads_end=(1, 1)
    )
    specs = [spec_of(array, ElementType.f32) for array in (x, w)]
    with np.errstate(invalid="ignore"):
        assert check(operation, specs)


@st.composite
def cases(draw: st.DrawFn) -> tuple:
    axes = draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    images, groups, channels, outputs = draw(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 12))
    )
    sizes = (*each(1, 7)[1:], draw(st.integers(1, 40 if axes < 3 else 9)))
    return (
        images,
        groups,
        channels,
        outputs,
        sizes,
        each(1, 4),
        each(1, 3),
        each(1, 3),
        each(0, 3),
        each(0, 3),
    )


@pytest.mark.parametrize("way", DOT_METHODS)
@pytest.mark.parametrize("transposed", [False, True])
def test_random(way: str, transposed: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        go(patch, way)

        @settings(max_examples=60, deadline=None)
        @given(case=cases(), seed=st.integers(0, 99))
        def run(case: tuple, seed: int) -> None:
            images, groups, channels, outputs, sizes, taps, strides, dilations, begin, end = case
            generator = np.random.default_rng(seed)
            name = "GroupConvolutionBackpropData" if transposed else "GroupConvolution"
            operation = find(name, 1)(
                strides=strides, dilations=dilations, pads_begin=begin, pads_end=end
            )
            x = numbers(generator, images, groups * channels, *sizes)
            w = numbers(
                generator,
                groups,
                *((channels, outputs) if transposed else (outputs, channels)),
                *taps,
            )
            try:
                counts = operation.describe([spec_of(a, ElementType.f32) for a in (x, w)])[
                    0
                ].shape.static[2:]
            except UncorkError:
                counts = (0,)  # a kernel that does not fit
            assume(0 not in counts)
            expected = (spread if transposed else by_formula)(
                x, w, strides, dilations, begin, counts
            )
            compare(operation, x, w, expected, (1, 2))

        run()


@pytest.mark.parametrize(
    ("padding", "given"), [((1, 0), None), ((0, 0), (9, 30)), ((0, 0), (5, 20))]
)
def test_transposed_convolution_of_given_size(way: str, padding: tuple[int, int], given) -> None:
    generator = np.random.default_rng(3)
    x, w = numbers(generator, 2, 6, 3, 9), numbers(generator, 2, 3, 5, 3, 2)
    operation = find("GroupConvolutionBackpropData", 1)(
        strides=(2, 3), dilations=(1, 2), output_padding=padding
    )
    specs = [spec_of(a, ElementType.f32) for a in (x, w)]
    specs += [] if given is None else [spec_of(np.array(given), ElementType.i64)]
    assert check(operation, specs)


def network(activation: str, bias: tuple[int, ...], transposed: bool) -> uncork.Model:
    generator = np.random.default_rng(len(bias))
    builder = uncork.Builder("convolution")
    x = builder.parameter("x", "f32", [None, 6, None, None])
    filters = numbers(generator, 6, 10, 3, 3) if transposed else numbers(generator, 10, 6, 3, 3)
    name = "ConvolutionBackpropData" if transposed else "Convolution"
    around = {"strides": [1, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (last,) = builder.add(name, 1, x, builder.constant(filters), **around)
    (last,) = builder.add("Add", 1, builder.constant(numbers(generator, *bias)), last)
    if activation:
        (last,) = builder.add(activation, 1, last)
    builder.result(last, "y")
    return builder.model()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("activation", ["", "ReLU", "Sigmoid", "Tanh"])
@pytest.mark.parametrize("bias", [(1, 10, 1, 1), (10, 1, 1)])
def test_bias_and_activation_are_part_of_the_step(
    activation: str, bias: tuple[int, ...], transposed: bool
) -> None:
    model = network(activation, bias, transposed)
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    assert len(fast.plan.steps) == 1
    for shape in ((1, 6, 5, 40), (2, 6, 1, 1)):
        x = numbers(np.random.default_rng(1), *shape)
        np.testing.assert_allclose(fast(x)["y"], slow(x)["y"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("bias", "steps"), [((1, 1, 1, 1), 1), ((10, 1, 3), 2), ((1,), 1)])
def test_what_differs_from_pixel_to_pixel_alone_stays_a_step(
    bias: tuple[int, ...], steps: int
) -> None:
    model = network("ReLU", bias, False)
    compiled = compile_model(model)
    x = numbers(np.random.default_rng(1), 1, 6, 4, 6)
    assert len(compiled.plan.steps) == steps
    np.testing.assert_allclose(
        compiled(x)["y"], compile_model(model, backend="reference")(x)["y"], rtol=1e-5, atol=1e-5
    )


def test_tied_filters_of_a_convolution_and_a_transposed_one() -> None:
    """The same constant is packed for either."""
    generator = np.random.default_rng(2)
    filters = numbers(generator, 5, 5, 1, 1)
    builder = uncork.Builder("tied")
    x, tied = builder.parameter("x", "f32", [1, 5, 4, 4]), builder.constant(filters)
    around = {"strides": [1, 1], "dilations": [1, 1]}
    for number, name in enumerate(("Convolution", "ConvolutionBackpropData")):
        builder.result(builder.add(name, 1, x, tied, **around)[0], f"y{number}")
    data = numbers(generator, 1, 5, 4, 4)
    found = compile_model(builder.model())(data)
    np.testing.assert_allclose(
        found[0], np.einsum("oc,nchw->nohw", filters[..., 0, 0], data), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        found[1], np.einsum("co,nchw->nohw", filters[..., 0, 0], data), rtol=1e-5, atol=1e-5
    )


REFUSED = [
    ((2, 1, 1, 1), (1, 1, 1, 1), "i32", "no kernel for i32"),
    ((1, 1, 0, 3), (1, 1, 1, 1), "f32", "no kernel for empty tensors"),
]


@pytest.mark.parametrize(("data", "filters", "name", "reason"), REFUSED)
def test_reasons(data: tuple[int, ...], filters: tuple[int, ...], name: str, reason: str) -> None:
    element_type = ElementType.parse(name)
    axes = len(data) - 2
    operation = find("Convolution", 1)(
        strides=(1,) * axes, dilations=(1,) * axes, pads_begin=(1,) * axes
    )
    specs = [spec_of(np.ones(shape, element_type.dtype), element_type) for shape in (data, filters)]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    assert select_kernel(operation, specs, outputs, host_target()) == reason


def test_infinite_filters_do_not_meet_the_zeros_between_cells() -> None:
    operation = find("ConvolutionBackpropData", 1)(strides=(2,), dilations=(1,))
    specs = [
        spec_of(np.full((1, 1, 3), value, np.float32), ElementType.f32) for value in (1.0, np.inf)
    ]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    assert (
        select_kernel(operation, specs, outputs, host_target())
        == "no kernel for filters with infinities or NaN"
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_three_axes_of_open_sizes_and_their_end(transposed: bool) -> None:
    """Bias and activation are inside."""
    generator = np.random.default_rng(5)
    b = uncork.Builder("volumes")
    x = b.parameter("x", "f32", [None, 4, None, None, None])
    name = "ConvolutionBackpropData" if transposed else "Convolution"
    around = {
        "strides": [2, 1, 1],
        "dilations": [1, 1, 2],
        "pads_begin": [1, 0, 2],
        "pads_end": [1, 1, 2],
    }
    (y,) = b.add(name, 1, x, b.constant(numbers(generator, 4, 4, 3, 2, 3)), **around)
    (y,) = b.add("ReLU", 1, b.add("Add", 1, y, b.constant(numbers(generator, 1, 4, 1, 1, 1)))[0])
    b.result(y, "y")
    model = b.model()
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for shape in ((1, 4, 3, 5, 6), (2, 4, 4, 4, 20), (1, 4, 1, 2, 5)):
        data = numbers(generator, *shape)
        np.testing.assert_allclose(fast(data)["y"], slow(data)["y"], rtol=1e-5, atol=1e-5)
    assert [step.operation for step in fast.plan.steps] == ["FusedConvolution-0"]
    assert fast.plan.steps[0].kernel != "reference"


@pytest.mark.parametrize("taps", [(2, 2), (4, 4), (3, 5)])
def test_transposed_convolutions_by_phases(taps: tuple[int, int]) -> None:
    """No product with the zeros between cells; open sizes, too."""
    generator = np.random.default_rng(6)
    b = uncork.Builder("up")
    x = b.parameter("x", "f32", [1, 16, None, None])
    around = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 0], "pads_end": [0, 1]}
    (y,) = b.add(
        "ConvolutionBackpropData", 1, x, b.constant(numbers(generator, 16, 8, *taps)), **around
    )
    b.result(b.add("Add", 1, y, b.constant(numbers(generator, 1, 8, 1, 1)))[0], "y")
    fast, slow = compile_model(b.model()), compile_model(b.model(), backend="reference")
    for shape in ((5, 7), (1, 1), (12, 33)):
        data = numbers(generator, 1, 16, *shape)
        np.testing.assert_allclose(fast(data)["y"], slow(data)["y"], rtol=2e-5, atol=2e-5)
    assert fast.plan.steps[0].kernel != "reference"


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize(
    ("data", "filters", "stride", "pad", "dilation"),
    [
        ((2, 6, 9, 20), (4, 6, 3, 3), 1, 1, 1),
        ((2, 6, 9, 20), (3, 4, 2, 3, 3), 2, 1, 1),
        ((1, 8, 15, 40), (8, 1, 1, 5, 5), 1, 2, 1),
        ((1, 4, 30), (5, 4, 3), 2, 0, 2),
        ((1, 2, 5, 6, 7), (3, 2, 3, 3, 3), 1, 1, 1),
        ((1, 3, 7, 20), (10, 3, 3, 3), 1, 1, 1),
        ((1, 3, 7, 20), (16, 3, 3, 3), 2, 1, 1),
        ((1, 6, 7, 5), (2, 8, 3, 2, 2), 1, 1, 1),
    ],
)
def test_filters_of_the_call(
    data: tuple[int, ...],
    filters: tuple[int, ...],
    stride: int,
    pad: int,
    dilation: int,
    open_sizes: bool,
) -> None:
    generator = np.random.default_rng(len(data))
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in (data, filters))
    axes = len(data) - 2
    b = uncork.Builder("net")
    shape = [None, data[1], *[None] * axes] if open_sizes else list(data)
    kind = "GroupConvolution" if len(filters) == axes + 3 else "Convolution"
    around = {
        "strides": [stride] * axes,
        "pads_begin": [pad] * axes,
        "pads_end": [pad] * axes,
        "dilations": [dilation] * axes,
    }
    (y,) = b.add(
        kind, 1, b.parameter("x", "f32", shape), b.parameter("w", "f32", list(filters)), **around
    )
    b.result(y, "y")
    compiled = compile_model(b.model(), threads=2)
    expected = compile_model(b.model(), backend="reference")(x, w)["y"]
    np.testing.assert_allclose(
        compiled(x, w)["y"], expected, rtol=0, atol=2e-6 * float(np.abs(expected).max())
    )
    assert all(step.kernel.startswith("convolution_nest") for step in compiled.plan.steps)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("filters", "strides", "dilations", "sizes"),
    [
        ((1, 96, 3, 16, 16), (16, 16), (1, 1), [(32, 48), (40, 50), (16, 16)]),
        ((2, 24, 3, 8, 4), (8, 4), (1, 1), [(24, 32), (31, 35)]),  # in groups, with a rest
        ((1, 40, 2, 4, 8), (9, 11), (2, 1), [(27, 33), (16, 19)]),  # cells that no window sees
    ],
)
def test_patches_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
    filters: tuple[int, ...],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    sizes: list[tuple[int, int]],
    is_open: bool,
) -> None:
    """Windows that do not overlap, as transformers of images begin: copied row by row, whatever is
    open.
    """
    if filters[4] < 16:  # which planes of pixels serve as well
        monkeypatch.setattr(direct, "cost", lambda g, widest: 1e30)
    w = numbers(np.random.default_rng(7), *filters)
    channels = filters[0] * filters[2]
    for height, width in sizes:
        b = uncork.Builder("patches")
        fixed = [3, channels, height, width]
        x = b.parameter("x", "f32", [None, channels, None, None] if is_open else fixed)
        around = {"strides": strides, "dilations": dilations, "pads_begin": [0, 0]}
        (y,) = b.add("GroupConvolution", 1, x, b.constant(w), pads_end=[0, 0], **around)
        b.result(y, "y")
        for threads in (1, 3):
            compiled = compile_model(b.model(), threads=threads)
            for images in (3, 1) if is_open else (3,):
                data = numbers(np.random.default_rng(images), images, channels, height, width)
                counts = [
                    (size - (k - 1) * d - 1) // s + 1
                    for size, k, d, s in zip(
                        (height, width), filters[3:], dilations, strides, strict=True
                    )
                ]
                expected = by_formula(data, w, strides, dilations, (0, 0), counts)
                np.testing.assert_allclose(
                    compiled(data)["y"], expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max()
                )
            assert compiled.plan.steps[0].kernel.startswith("indirect_gemm")
