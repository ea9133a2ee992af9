"""Fourier transforms by kernels, against the sums of their definition in long doubles."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork.kernels.fourier.tables import factors_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType

#: The error of a transform over its largest number, by the type.
EXACT = {np.float32: 1e-6, np.float64: 2e-15}
TYPES = pytest.mark.parametrize("dtype", EXACT)


def transformed(values: np.ndarray, sign: int = -1) -> np.ndarray:
    """The transform along the last axis, as the definition has it."""
    places = np.arange(values.shape[-1])
    angles = sign * 2 * np.pi * (np.outer(places, places) % len(places)) / len(places)
    factors = np.cos(angles).astype(np.clongdouble) + 1j * np.sin(angles).astype(np.clongdouble)
    return np.asarray(values.astype(np.clongdouble) @ factors)


def pairs(values: np.ndarray, dtype: type = np.float32) -> np.ndarray:
    return np.stack([values.real, values.imag], axis=-1).astype(dtype)


def spec(array: object) -> object:
    array = np.asarray(array)
    return spec_of(array, ElementType.of_dtype(array.dtype))


def run(name: str, opset: int, *inputs: object, **attributes: object) -> np.ndarray:
    results, choice = run_native(find(name, opset)(**attributes), list(map(spec, inputs)), shift=4)
    assert isinstance(choice, KernelPlan), choice
    return results[0]


def near(got: np.ndarray, wanted: np.ndarray, dtype: type) -> None:
    np.testing.assert_allclose(
        got.astype(np.float64),
        wanted.astype(np.float64),
        rtol=0,
        atol=EXACT[dtype] * max(1.0, float(np.abs(wanted).max())),
    )


@TYPES
@pytest.mark.parametrize("length", [*range(1, 34), 49, 60, 77, 97, 127, 128, 360, 1000])
def test_lengths(length: int, dtype: type) -> None:
    """All steps, in both directions; 19 transforms leave some lanes of the last block empty."""
    generator = np.random.default_rng(length)
    values = generator.standard_normal((19, length)) + 1j * generator.standard_normal((19, length))
    given = pairs(values, dtype)
    wanted = transformed(given[..., 0] + 1j * given[..., 1])
    near(run("DFT", 7, given, [1]), pairs(wanted, np.longdouble), dtype)
    back = transformed(given[..., 0] + 1j * given[..., 1], 1) / length
    near(run("IDFT", 7, given, [-1]), pairs(back, np.longdouble), dtype)
    real = transformed(given[..., 0])[:, : length // 2 + 1]
    near(run("RDFT", 9, given[..., 0].copy(), [1]), pairs(real, np.longdouble), dtype)


@TYPES
@pytest.mark.parametrize("length", [1, 2, 5, 8, 30, 31])
def test_half_a_transform_gives_real_numbers_back(length: int, dtype: type) -> None:
    generator = np.random.default_rng(length)
    real = generator.standard_normal((3, length)).astype(dtype)
    half = pairs(transformed(real)[:, : length // 2 + 1], dtype)
    half[:, 0, 1] = 7  # which no transform of real numbers has, and nobody reads
    near(run("IRDFT", 9, half, [1], [length]), real, dtype)


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_axes_between_others_are_cut_and_filled(lanes: int) -> None:
    generator = np.random.default_rng(lanes)
    data = generator.standard_normal((2, 6, 5, 3, 2)).astype(np.float32)
    sizes = np.array([4, 9])
    target = replace(host_target(), lanes=lanes)
    operation = find("DFT", 7)()
    given = [spec(data), spec(np.array([1, 2])), spec(sizes)]
    results, choice = run_native(operation, given, target=target)
    assert isinstance(choice, KernelPlan), choice
    values = np.zeros((2, 4, 9, 3), complex)
    values[:, :, :5] = data[:, :4, ..., 0] + 1j * data[:, :4, ..., 1]
    wanted = np.swapaxes(transformed(np.swapaxes(values, 2, 3)), 2, 3)
    wanted = np.swapaxes(transformed(np.swapaxes(wanted, 1, 3)), 1, 3)
    near(results[0], pairs(wanted, np.longdouble), np.float32)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_plan_for_any_number_of_transforms(threads: int) -> None:
    builder = uncork.Builder("spectra")
    x = builder.parameter("x", "f32", [None, 40])
    (half,) = builder.add("RDFT", 9, x, builder.constant(np.array([1])))
    (back,) = builder.add("IRDFT", 9, half, builder.constant(np.array([1])))
    builder.result(half, "half")
    builder.result(back, "back")
    compiled = uncork.compile_model(builder.model(), threads=threads)
    for count in (1, 16, 5000):
        data = np.random.default_rng(count).standard_normal((count, 40)).astype(np.float32)
        results = compiled(data)
        assert all(step.kernel.startswith("fourier") for step in compiled.plan.steps)
        near(results["half"], pairs(transformed(data)[:, :21], np.longdouble), np.float32)
        near(results["back"], data, np.float32)


def test_sizes_that_a_model_computes_from_the_shape() -> None:
    """As converters write them: the length is a number in the calls of one plan."""
    builder = uncork.Builder("spectra")
    x = builder.parameter("x", "f32", [None, None, 2])
    axes = builder.constant(np.array([1]))
    (shape,) = builder.add("ShapeOf", 3, x)
    (size,) = builder.add("Gather", 8, shape, axes, builder.constant(np.array(0)))
    builder.result(builder.add("DFT", 7, x, axes, size)[0], "y")
    compiled = uncork.compile_model(builder.model())
    for count, length in ((3, 12), (5, 12), (2, 30)):
        data = np.random.default_rng(length).standard_normal((count, length, 2)).astype(np.float32)
        wanted = transformed(data[..., 0] + 1j * data[..., 1])
        near(compiled(data)["y"], pairs(wanted, np.longdouble), np.float32)


def test_a_transform_keeps_its_infinities_to_itself() -> None:
    data = np.ones((5, 12, 2), np.float32)
    data[2, 3] = np.inf
    made = run("DFT", 7, data, [1])
    assert np.isfinite(made[[0, 1, 3, 4]]).all()
    assert not np.isfinite(made[2]).all()


def test_frames_of_a_signal() -> None:
    generator = np.random.default_rng(0)
    signal, window = generator.standard_normal((2, 100)), generator.standard_normal(12)
    signal, window = signal.astype(np.float32), window.astype(np.float32)
    framed = np.zeros(17)
    framed[2:14] = window
    frames = np.stack([signal[:, n : n + 17] * framed for n in range(0, 84, 6)], axis=1)
    wanted = pairs(transformed(frames)[..., :9], np.longdouble)
    near(run("STFT", 15, signal, window, 17, 6, transpose_frames=False), wanted, np.float32)
    turned = run("STFT", 15, signal, window, 17, 6, transpose_frames=True)
    near(turned, np.swapaxes(wanted, 1, 2), np.float32)


@TYPES
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("length", [None, 40, 150])
def test_a_signal_of_frames(
    length: int | None, center: bool, normalized: bool, dtype: type
) -> None:
    """By the page's sums: pieces that are no transform of any signal, windows with gaps."""
    generator = np.random.default_rng(1)
    data = generator.standard_normal((3, 9, 11, 2)).astype(dtype)
    window = generator.standard_normal(12).astype(dtype)
    half = np.swapaxes(data[..., 0] + 1j * data[..., 1], 1, 2).astype(np.clongdouble)
    half[..., 0] = half[..., 0].real
    whole = np.concatenate([half, np.conj(half[..., :0:-1])], axis=-1)  # 17 numbers, an odd length
    pieces = transformed(whole, 1).real / 17
    framed = np.zeros(17, np.longdouble)
    framed[2:14] = window
    total, weight = np.zeros((3, 217), np.longdouble), np.zeros(217, np.longdouble)
    for t in range(11):
        total[:, t * 20 : t * 20 + 17] += pieces[:, t] * framed
        weight[t * 20 : t * 20 + 17] += framed**2
    signal = np.where(weight == 0, 0, total / np.where(weight == 0, 1, weight))
    signal *= np.sqrt(np.longdouble(17)) if normalized else 1
    first = 8 if center else 0
    count = length or (201 if center else 217)
    wanted = np.zeros((3, count))
    kept = signal[:, first : first + count]
    wanted[:, : kept.shape[1]] = kept
    lengths = [] if length is None else [np.array(length)]
    made = run("ISTFT", 16, data, window, 17, 20, *lengths, center=center, normalized=normalized)
    near(made, wanted, dtype)


@TYPES
@pytest.mark.parametrize("length", [131, 262, 509, 1009])
def test_lengths_with_a_large_prime(length: int, dtype: type) -> None:
    """Bluestein's way, in both directions, and back from half a transform."""
    test_lengths(length, dtype)
    test_half_a_transform_gives_real_numbers_back(length, dtype)


def test_the_longest_are_left_to_the_reference() -> None:
    operation = find("DFT", 7)()
    length = 1 << 23
    given = [spec(np.zeros((1, 4, 2), np.float32)), spec(np.array([1])), spec(np.array([length]))]
    made = [uncork.types.TensorSpec(o.element_type, o.shape) for o in operation.describe(given)]
    chosen = select_kernel(operation, given, made, host_target())
    assert chosen == f"no kernel for axes of {length}"


def open_lengths(dtype: type) -> uncork.Model:
    """Transforms along two axes of open length and back, of pairs and of real numbers."""
    builder = uncork.Builder("spectra")
    type_ = "f32" if dtype is np.float32 else "f64"
    x = builder.parameter("x", type_, [None, None, None, 2])
    real = builder.parameter("real", type_, [None, None])
    axes, last = builder.constant(np.array([1, 2])), builder.constant(np.array([-1]))
    (there,) = builder.add("DFT", 7, x, axes)
    (half,) = builder.add("RDFT", 9, real, last)
    (size,) = builder.add("ShapeOf", 3, real)
    at = builder.constant(np.array([1])), builder.constant(np.array(0))
    (length,) = builder.add("Gather", 8, size, *at)
    builder.result(there, "there")
    builder.result(builder.add("IDFT", 7, there, axes)[0], "back")
    builder.result(half, "half")
    builder.result(builder.add("IRDFT", 9, half, last, length)[0], "real_again")
    builder.result(builder.add("IRDFT", 9, half, last)[0], "even_again")
    return builder.model()


@TYPES
@pytest.mark.parametrize("threads", [1, 3])
def test_one_plan_for_any_length(threads: int, dtype: type) -> None:
    """Small factors, primes with a step of their own, larger ones and long rows, in turn."""
    compiled = uncork.compile_model(open_lengths(dtype), threads=threads)
    generator = np.random.default_rng(threads)
    for rows, columns, length in (
        (1, 2, 2),
        (12, 7, 360),
        (131, 5, 262),
        (4, 149, 1009),
        (3, 1, 12000),
        (2, 16, 9973),
        (12, 7, 361),
    ):
        x = generator.standard_normal((3, rows, columns, 2)).astype(dtype)
        real = generator.standard_normal((18, length)).astype(dtype)
        results = compiled(x, real)
        values = x[..., 0] + 1j * x[..., 1].astype(np.clongdouble)
        wanted = np.swapaxes(transformed(np.swapaxes(transformed(values), 1, 2)), 1, 2)
        near(results["there"], pairs(wanted, np.longdouble), dtype)
        near(results["back"], x, dtype)
        half = np.fft.rfft(real.astype(np.float64))
        near(results["half"], pairs(half, np.float64), dtype)
        near(results["real_again"], real, dtype)
        even = length // 2 * 2
        near(results["even_again"], np.fft.irfft(half, even), dtype)
    plan = compiled.plan
    assert plan.made == 1
    assert "planned for every size" in plan.remarks
    assert all(step.kernel.startswith("fourier") for step in plan.steps if "DFT" in step.operation)


def test_lengths_that_have_no_transform() -> None:
    """The kernel gives them up: the reference says what is wrong, or what nothing is."""
    builder = uncork.Builder("spectra")
    x = builder.parameter("x", "f32", [None, None, 2])
    y = builder.parameter("y", "f32", [None])
    (size,) = builder.add("ShapeOf", 3, y)
    (size,) = builder.add("Subtract", 1, size, builder.constant(np.array([1])))
    axes = builder.constant(np.array([1]))
    builder.result(builder.add("DFT", 7, x, axes, size, name="cut")[0], "cut")
    builder.result(builder.add("IRDFT", 9, x, axes)[0], "real")
    compiled = uncork.compile_model(builder.model())
    data = np.random.default_rng(0).standard_normal((2, 5, 2)).astype(np.float32)
    assert compiled(data, np.zeros(4, np.float32))["cut"].shape == (2, 3, 2)
    with pytest.raises(uncork.UncorkError, match=r"signal_size\[0\] is 0, expected a size or -1"):
        compiled(data, np.zeros(1, np.float32))
    assert compiled(data[:, :1], np.zeros(3, np.float32))["real"].shape == (2, 0)
    assert compiled(data[:, :0], np.zeros(3, np.float32))["cut"].tolist() == [[[0, 0]] * 2] * 2
    assert compiled(data, np.zeros(8, np.float32))["real"].shape == (2, 8)


def test_factors() -> None:
    """By hand: fours first, then what is left."""
    assert factors_of(1) == []
    assert factors_of(2 * 4 * 4 * 3 * 25 * 31) == [4, 4, 2, 3, 5, 5, 31]
    assert factors_of(37) is None


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_transform_of_one_number_is_that_number(backend: str) -> None:
    builder = uncork.Builder("one")
    x = builder.parameter("x", "f32", [None, 1, 2])
    builder.result(builder.add("DFT", 7, x, builder.constant(np.array([1])))[0], "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    data = np.array([[[np.inf, 1]], [[2, -np.inf]], [[np.nan, 3]], [[4, 5]]], np.float32)
    np.testing.assert_array_equal(compiled(data)["y"], data)
