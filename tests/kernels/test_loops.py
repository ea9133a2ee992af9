"""Loop nests: their text, other processors' vectors, special values, and one kernel for every
size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from tests.ops.test_every_op import agree
from uncork import storage
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.loops.language import linear, parse
from uncork.kernels.loops.spec import Nest
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.target import Target, host_target
from uncork.ops import Operation, find
from uncork.types import ElementType, TensorSpec

_V3 = "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+popcnt"
#: Vectors with masks of 32 and 64 bits only, and vectors without masks, as NEON's.
OTHERS = {
    "avx2": Target.of("x86_64", "x86-64-v3", _V3),
    "no masks": Target.of("x86_64", "x86-64-v2", "+sse2,+sse4.2,+f16c"),
}
F32 = ElementType.f32


def drawn(generator: np.random.Generator, name: str, *shape: int) -> TensorSpec:
    element_type = ElementType.parse(name)
    values = (
        generator.integers(-9, 9, shape)
        if element_type.is_integer
        else generator.standard_normal(shape)
    )
    return spec_of(storage.encode(values, element_type), element_type)


def whole(*numbers: int) -> TensorSpec:
    return spec_of(np.array(numbers), ElementType.i64)


#: Of images with channels last: rows and columns.
SIZES = [whole(4, 9), whole(1, 2)]


def of_channels(mode: str) -> Operation:
    """Resizes images whose channels come last."""
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return find("Interpolate", 11)(mode=mode, shape_calculation_mode="sizes", **how)


def cases(
    generator: np.random.Generator, columns: int
) -> Iterator[tuple[Operation, list[TensorSpec]]]:
    window = {
        "kernel": [3, 3],
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "rounding_type": "ceil",
    }
    for name in ("f32", "f64", "f16", "bf16", "u8", "i16", "i32", "i64"):
        yield find("MaxPool", 8)(**window), [drawn(generator, name, 2, 2, 5, columns)]
        yield find("MaxPool", 8)(axis=2, **window), [drawn(generator, name, 2, 2, 5, columns)]
        yield (
            find("CumSum", 3)(reverse=True, exclusive=True),
            [drawn(generator, name, 3, columns), whole(1)],
        )
        if name not in ("u8", "i16"):
            overlap = {"strides": [2, 1], "pads_begin": [1, 1], "pads_end": [0, 1]}
            folded = [drawn(generator, name, 2, 8, 3 * columns), whole(5, columns), whole(2, 2)]
            yield find("Col2Im", 15)(dilations=[1, 2], **overlap), folded
        yield find("CumSum", 3)(exclusive=True), [drawn(generator, name, 3, columns), whole(0)]
    for name in ("f32", "f64", "f16", "bf16"):
        x = drawn(generator, name, 2, 6, 3, columns)
        channels = drawn(generator, name, 6)
        yield find("AvgPool", 1)(exclude_pad=True, **window), [x]
        yield find("AdaptiveAvgPool", 8)(), [x, whole(2, 3)]
        yield find("AdaptiveMaxPool", 8)(), [x, whole(2, 3)]
        yield find("GroupNormalization", 12)(num_groups=3, epsilon=1e-3), [x, channels, channels]
        yield find("NormalizeL2", 1)(eps=1e-3, eps_mode="max"), [x, whole(1)]
        yield find("LRN", 1)(alpha=0.1, beta=0.75, bias=1.0, size=3), [x, whole(1)]
        how = {"normalize_variance": True, "eps": 1e-3, "eps_mode": "outside_sqrt"}
        yield find("MVN", 6)(**how), [x, whole(1)]
        for mode in ("nearest", "linear_onnx", "cubic"):
            sizes, axes = whole(6, 2 * columns), whole(2, 3)
            yield (
                find("Interpolate", 11)(mode=mode, shape_calculation_mode="sizes"),
                [x, sizes, axes],
            )
        patches = {"sizes": [2, 3], "strides": [1, 2], "rates": [2, 1], "auto_pad": "same_lower"}
        yield find("ExtractImagePatches", 3)(**patches), [x]
        for mode in ("nearest", "linear", "cubic"):
            yield of_channels(mode), [drawn(generator, name, 2, columns, 5, 3), *SIZES]
            yield of_channels(mode), [drawn(generator, name, 2, 5, 3, columns), *SIZES]
        if name != "f64":
            for how in ({}, {"padding_mode": "reflection"}, {"mode": "bicubic"}):
                yield find("GridSample", 9)(**how), [x, drawn(generator, "f32", 2, 4, columns, 2)]
            yield find("SoftMax", 8)(axis=1), [x]
            for together in (True, False):
                regions = {"coords": 1, "classes": 1, "num": 2, "mask": [0, 1], "axis": 1}
                yield find("RegionYolo", 1)(do_softmax=together, end_axis=2, **regions), [x]
            yield find("LogSoftmax", 5)(axis=1), [x]


def finite_cases(
    generator: np.random.Generator, columns: int
) -> Iterator[tuple[Operation, list[TensorSpec]]]:
    """What is of whole numbers, or refuses what is no number."""
    for name in ("u8", "i8", "i16", "i32"):
        for mode in ("linear", "cubic"):
            yield of_channels(mode), [drawn(generator, name, 2, 5, columns, 3), *SIZES]
    for name in ("u8", "f32", "f64", "f16", "bf16"):
        light = drawn(generator, name, 2, 6, 2 * columns, 1)
        colour = drawn(generator, name, 2, 2, columns, 1)
        yield find("I420toRGB", 8)(), [light]
        yield find("NV12toBGR", 8)(), [light]
        yield find("I420toBGR", 8)(), [drawn(generator, name, 2, 4, 2 * columns, 1), colour, colour]
    for padded, blocks in product((False, True), (1, 2)):
        how = {"strides": [1, 1], "pads_begin": [1, 2], "pads_end": [1, 2], "dilations": [1, 2]}
        moves = drawn(generator, "f32", 2, 18 * blocks, 5, columns)
        yield (
            find("DeformableConvolution", 8)(
                **how, group=2, deformable_group=blocks, bilinear_interpolation_pad=padded
            ),
            [
                drawn(generator, "f32", 2, 36, 5, columns),
                spec_of(2 * moves.value, F32),
                drawn(generator, "f32", 6, 18, 3, 3),
                drawn(generator, "f32", 2, 9 * blocks, 5, columns),
            ],
        )
    for name, mode, ratio in product(("f32", "f64", "f16", "bf16"), ("avg", "max"), (0, 2, 3)):
        bins = {"pooled_h": 2, "pooled_w": 7, "sampling_ratio": ratio, "spatial_scale": 0.5}
        boxes = np.array(
            [[-3, -1, columns, 4], [0, 0, 2 * columns, 12], [5, 5, 2, 2], [1, 2, 3, 4]]
        )
        yield (
            find("ROIAlign", 9)(mode=mode, aligned_mode="half_pixel", **bins),
            [
                drawn(generator, name, 2, 17, 6, columns),
                spec_of(storage.encode(boxes, ElementType.parse(name)), ElementType.parse(name)),
                whole(1, 0, 0, 1),
            ],
        )

    for name, method in product(("f32", "f64", "f16", "bf16"), ("max", "bilinear", "average")):
        element_type = ElementType.parse(name)
        boxes = np.array(
            [[1, 0, 0, columns, 3], [0, -4, 1, 2, 9], [0, 9, 9, 1, 1], [-1, 0, 0, 9, 9]]
        )
        if method == "bilinear":
            boxes = boxes / [1, *[columns + 4] * 4]
        given = spec_of(storage.encode(boxes, element_type), element_type)
        data = drawn(generator, name, 2, 8, 6, columns)
        if method == "average":
            parts = {"output_dim": 2, "group_size": 2, "spatial_scale": 0.5}
            yield find("PSROIPooling", 1)(mode=method, **parts), [data, given]
            continue
        bins = {"pooled_h": 3, "pooled_w": 9, "spatial_scale": 0.5}
        yield find("ROIPooling", 1)(method=method, **bins), [data, given]


@pytest.mark.parametrize("columns", [1, 5, 8, 17, 40])
@pytest.mark.parametrize("processor", ["host", *OTHERS])
def test_every_width_of_vectors(processor: str, columns: int) -> None:
    target = OTHERS.get(processor, host_target())
    if any(
        not host_target().has(feature[1:])
        for feature in target.features.split(",")
        if feature.startswith("+")
    ):
        pytest.skip("this processor has no such instructions")
    generator = np.random.default_rng(columns)
    for operation, specs in (*cases(generator, columns), *finite_cases(generator, columns)):
        results, choice = run_native(operation, specs, 1, target)
        assert isinstance(choice, KernelPlan), f"{operation.label()}: {choice}"
        assert results is not None
        for position, (got, wanted) in enumerate(
            zip(results, operation.evaluate(specs), strict=True)
        ):
            agree(
                got,
                wanted.value,
                wanted.element_type,
                2e-5,
                1e-5,
                f"output {position} of {operation.label()}",
            )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("columns", [3, 16, 37])
def test_special_values_stay_where_they_are(value: float, columns: int) -> None:
    """In a window, a row or a group: everything it touches has it, and nothing else."""
    generator = np.random.default_rng(columns)
    for operation, specs in cases(generator, columns):
        if specs[0].element_type is not F32:
            continue
        data = specs[0].value.copy()
        data.reshape(-1)[:: max(1, data.size // 5)] = value
        given = [spec_of(data, F32), *specs[1:]]
        results, _ = run_native(operation, given)
        assert results is not None
        with np.errstate(all="ignore"):
            expected = operation.evaluate(given)
        for got, wanted in zip(results, expected, strict=True):
            agree(got, wanted.value, wanted.element_type, 2e-5, 1e-5, operation.label())


def test_the_text_of_a_kernel_says_what_it_does() -> None:
    operation = find("MaxPool", 1)(
        kernel=[3, 3], strides=[2, 2], pads_begin=[1, 1], pads_end=[1, 1]
    )
    _, choice = run_native(operation, [drawn(np.random.default_rng(1), "f32", 1, 2, 9, 9)])
    assert isinstance(choice, KernelPlan)
    ((kernel, _),) = choice.calls
    assert isinstance(kernel, Nest)
    assert kernel.text.splitlines() == [
        "y e*: T[y, e] = lowest",
        "n:",
        "  y u*:",
        "    j=3: m = max(pad(X[n, 2*y + 1*j - 1, u], lowest))",
        "    T[y, u + 1] = m",
        "  y:",
        "    x*:",
        "      i=3: m = max(T[y, 2*x + 1*i])",
        "      Y[n, y, x] = m",
    ]


def test_sizes_beyond_32_bits_are_left_to_the_reference() -> None:
    """What the kernel is told, not what is there: it gives up before it looks."""
    _, choice = run_native(
        find("CumSum", 3)(), [drawn(np.random.default_rng(1), "f32", 2, 9), whole(1)]
    )
    assert isinstance(choice, KernelPlan)
    ((kernel, words),) = choice.calls
    given = np.array(
        [1 << 31 if word == 9 else word if isinstance(word, int) else 0 for word in words]
    )
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(STORE.address(kernel))
    assert function(given.ctypes.data) == 1


def test_the_language() -> None:
    program = parse("n y:\n  j=3 x*: s = sum(X[n, 2*y + j - p, x]); Y[n, y] = s")
    assert (program.sizes, program.integers, program.views) == (
        ("n", "y", "x"),
        ("p",),
        {"X": 3, "Y": 2},
    )
    index = linear(program.body.body[0].body[0].body[0].value.slice.elts[1])  # type: ignore[union-attr]
    assert index is not None
    assert (index.factors, index.constant) == ({"y": 2, "j": 1, "p": -1}, 0)


@pytest.mark.parametrize(
    ("name", "opset", "attributes", "more"),
    [
        (
            "MaxPool",
            1,
            {"kernel": [3, 2], "strides": [2, 3], "pads_begin": [1, 0], "pads_end": [0, 1]},
            [],
        ),
        (
            "MaxPool",
            8,
            {
                "kernel": [3, 3],
                "strides": [2, 2],
                "auto_pad": "same_upper",
                "pads_begin": [0, 0],
                "pads_end": [0, 0],
            },
            [],
        ),
        (
            "AvgPool",
            1,
            {
                "kernel": [3, 3],
                "strides": [1, 2],
                "pads_begin": [1, 1],
                "pads_end": [1, 1],
                "exclude_pad": True,
            },
            [],
        ),
        ("AdaptiveAvgPool", 8, {}, [np.array([3, 2])]),
        (
            "ExtractImagePatches",
            3,
            {"sizes": [3, 2], "strides": [1, 5], "rates": [1, 2], "auto_pad": "same_upper"},
            [],
        ),
        ("RegionYolo", 1, {"coords": 1, "classes": 0, "num": 2, "axis": 1, "end_axis": 3}, []),
        ("SoftMax", 8, {"axis": 1}, []),
        ("LogSoftmax", 5, {"axis": 2}, []),
        (
            "GroupNormalization",
            12,
            {"num_groups": 2, "epsilon": 1e-3},
            [np.ones(4, np.float32), np.ones(4, np.float32)],
        ),
        ("NormalizeL2", 1, {"eps": 1e-3, "eps_mode": "add"}, [np.array([1, 3])]),
        (
            "MVN",
            6,
            {"normalize_variance": True, "eps": 1e-3, "eps_mode": "inside_sqrt"},
            [np.array([0, 2, 3])],
        ),
        ("LRN", 1, {"alpha": 0.1, "beta": 0.6, "bias": 1.0, "size": 5}, [np.array([1])]),
        ("CumSum", 3, {"reverse": True, "exclusive": True}, [np.array(3)]),
        ("CumSum", 3, {"reverse": True}, [np.array(2)]),
        ("ReduceMean", 1, {}, [np.array([0, 3])]),
    ],
)
def test_one_kernel_for_every_size(
    name: str, opset: int, attributes: dict[str, Any], more: list[np.ndarray]
) -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [None, 4, None, None])
    y = builder.add(name, opset, x, *map(builder.constant, more), **attributes)[0]
    builder.result(y, "y")
    generator = np.random.default_rng(1)
    sizes = [(1, 5, 6), (2, 9, 33), (3, 4, 16), (1, 40, 70)]
    hold(
        builder.model(),
        [[generator.standard_normal((n, 4, h, w)).astype(np.float32)] for n, h, w in sizes],
    )


MODES = ("nearest", "linear", "linear_onnx", "cubic")
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "align_corners",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_one_kernel_resizes_every_size(mode: str, coordinates: str, by: str) -> None:
    """By scales, and to the size of another input, which may be the size that the data has."""
    for rounding in ("simple", "ceil", "round_prefer_ceil") if mode == "nearest" else ("simple",):
        builder = uncork.Builder()
        x = builder.parameter("x", "f32", [None, 3, None, None])
        wanted = builder.constant(np.array([2.0, 1.5], np.float32))
        like = builder.parameter("like", "f32", [None, None])
        if by == "sizes":
            (wanted,) = builder.add("ShapeOf", 3, like, output_type="i64")
        how = {
            "mode": mode,
            "shape_calculation_mode": by,
            "coordinate_transformation_mode": coordinates,
        }
        axes = builder.constant(np.array([2, 3]))
        (y,) = builder.add("Interpolate", 11, x, wanted, axes, nearest_mode=rounding, **how)
        builder.result(y, "y")
        (total,) = builder.add("ReduceSum", 1, like, builder.constant(np.array([0, 1])))
        builder.result(total, "total")
        generator = np.random.default_rng(1)
        sizes = [(1, 4, 6, 9, 5), (2, 7, 34, 7, 80), (1, 30, 2, 17, 3)]
        drawn_sizes = [((n, 3, h, w), (a, b)) for n, h, w, a, b in sizes]
        hold(
            builder.model(),
            [
                [generator.standard_normal(s).astype(np.float32) for s in call]
                for call in drawn_sizes
            ],
            2e-4,
        )


def test_places_of_the_largest_cells_are_left_out_where_nobody_reads_them() -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, 2, 6, 6])
    for number, name in enumerate(("read", "unread")):
        values, places = builder.add(
            "MaxPool",
            8,
            x,
            kernel=[2, 2],
            strides=[2, 2],
            pads_begin=[0, 0],
            pads_end=[0, 0],
            name=name,
        )
        builder.result(values, f"values_{number}")
        if name == "read":
            builder.result(places, "places")
    compiled = uncork.compile_model(builder.model())
    assert {step.layer: step.operation for step in compiled.plan.steps} == {
        "read": "MaxPool-8",
        "unread": "PooledValues-0",
    }
    data = np.arange(72, dtype=np.float32).reshape(1, 2, 6, 6)
    results = compiled(data)
    np.testing.assert_array_equal(results["values_0"], data[:, :, 1::2, 1::2])
    np.testing.assert_array_equal(results["values_1"], data[:, :, 1::2, 1::2])
    np.testing.assert_array_equal(results["places"], data[:, :, 1::2, 1::2].astype(np.int64))


def test_adaptive_pools_without_places() -> None:
    """Rows 0 to 2 and 2 to 4, columns 0 to 1 and 2 to 3; worked by hand."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, 1, 5, 4])
    sizes = builder.constant(np.array([2, 2]))
    values, _ = builder.add("AdaptiveMaxPool", 8, x, sizes, name="pooled")
    builder.result(values, "values")
    compiled = uncork.compile_model(builder.model())
    assert [step.operation for step in compiled.plan.steps] == ["PooledValues-0"]
    rows = [[-1, -2, 3, 0], [-4, -9, 1, 2], [-5, -6, -7, -8], [7, 0, 0, 4], [1, 1, -3, 9]]
    expected = [[[[-1, 3], [7, 9]]]]
    found = compiled(np.array(rows, np.float32).reshape(1, 1, 5, 4))
    np.testing.assert_array_equal(found["values"], np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("kernel", "strides", "dilations", "pads"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1)),
        ((2, 4), (2, 4), (1, 1), (0, 0)),
        ((3, 2), (2, 1), (2, 3), (2, 1)),
        ((1, 32), (1, 8), (1, 1), (0, 0)),
    ],
)
def test_patches_of_any_size_are_added_up(
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, int],
) -> None:
    """One plan for every size of the image, which is what torch makes of the patches."""
    torch = pytest.importorskip("torch")
    builder = uncork.Builder()
    data, sides = builder.parameter("data", "f32", [None] * 3), builder.parameter("s", "i64", [2])
    taps = builder.constant(np.array(kernel))
    how = {"strides": strides, "dilations": dilations, "pads_begin": pads, "pads_end": pads}
    builder.result(builder.add("Col2Im", 15, data, sides, taps, **how)[0], "y")
    compiled = uncork.compile_model(builder.model())
    for batch, channels, *image in [(1, 2, 6, 33), (2, 3, 9, 40), (1, 1, 40, 121)]:
        x = torch.randn(batch, channels, *image)
        settings = {"dilation": dilations, "padding": pads, "stride": strides}
        patches = torch.nn.functional.unfold(x, kernel, **settings)
        wanted = torch.nn.functional.fold(patches, image, kernel, **settings)
        (got,) = compiled(patches.numpy(), np.array(image))
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6)
    assert [step.kernel for step in compiled.plan.steps if step.kernel == "reference"] == []
    assert compiled.plan.made == 1


@pytest.mark.parametrize("columns", [1, 4, 7, 16, 65])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_few_places_of_a_row_are_sampled_as_torch_does(mode: str, columns: int) -> None:
    """Rows that fill no vectors are joined, with images and numbers of rows of any size."""
    torch = pytest.importorskip("torch")
    builder = uncork.Builder()
    data = builder.parameter("data", "f32", [None, 3, None, None])
    grid = builder.parameter("grid", "f32", [None, None, columns, 2])
    builder.result(builder.add("GridSample", 9, data, grid, mode=mode)[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=2)
    for batch, height, width, rows in [(1, 5, 6, 1), (2, 9, 4, 7), (3, 3, 20, 40)]:
        x, places = torch.randn(batch, 3, height, width), 2.2 * torch.rand(batch, rows, columns, 2)
        wanted = torch.nn.functional.grid_sample(x, places - 1.1, mode=mode, align_corners=False)
        (got,) = compiled(x.numpy(), (places - 1.1).numpy())
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-4, atol=1e-5)
    assert compiled.plan.made == 1
    assert all(step.kernel != "reference" for step in compiled.plan.steps)
