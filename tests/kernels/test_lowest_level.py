"""Kernels for processors without F16C, FMA and SSE4.1: conversions from f16 and to f16 in whole
numbers, exact remainders without a fused product and sum, whole numbers near floats, and no
function of C called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._declined import DECLINED
from tests.kernels._run import run_native
from tests.kernels.test_every_kernel import ALL, agree
from tests.samples._sample import Sample, Samples
from uncork.errors import UncorkError
from uncork.kernels.codegen.emit import F16, F32, F64, Kernel, Value
from uncork.kernels.codegen.exact_rests import rest_of
from uncork.kernels.codegen.scalar_types import Type
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.kernel_spec import llvm_text
from uncork.kernels.runtime.elf_link import link
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.llvm import compiled
from uncork.kernels.runtime.target import LEVELS, Target, lacking
from uncork.types import Array

TARGETS = ["x86-64", "x86-64-v2", "x86-64-v3"]


def runnable(name: str) -> Target:
    target = LEVELS[name]
    if lacking(target):
        pytest.skip("of another machine")
    return target


def applied(
    function: Callable[..., Value], given: list[Array], type_: Type, made: Array, target: Target
) -> Array:
    """What a kernel of one function makes of whole vectors of numbers."""
    lanes, item = 8, given[0].itemsize
    names = [f"given{number}" for number in range(len(given))]
    k = Kernel(f"applied_{given[0].dtype}", (*names, "made", "count"), target)
    *sources, there, count = k.arguments
    with k.loop(0, count, lanes) as i:
        numbers = [k.load(source + i * item, type_, lanes) for source in sources]
        k.store(function(k, *numbers), there + i * made.itemsize)
    k.finish()
    text = k.text()
    link(compiled(text, target), k.name)  # raises where it needs anything from elsewhere
    address = STORE.function(k.name, text, lambda: text, target)
    words = np.array([*(a.ctypes.data for a in (*given, made)), made.size], np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(words.ctypes.data) == 0
    return made


def same(got: Array, expected: Array) -> None:
    """Bit for bit, but for what a NaN says beside being one."""
    none = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), none)
    bits = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(bits)[~none], expected.view(bits)[~none])


@pytest.mark.parametrize("target", TARGETS)
def test_every_f16_is_widened(target: str) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    made = np.empty(halves.size, np.float32)
    widened = applied(lambda _, x: x.to(F32), [halves], F16, made, runnable(target))
    same(widened, halves.astype(np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_numbers_are_rounded_to_f16_as_numpy_does(target: str) -> None:
    """Around every f16 and around every tie between two: by up to 9 units of f32; and in a step of
    a prime number through all of f32.
    """
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    exact = halves.astype(np.float32).view(np.uint32).astype(np.int64)
    ties = exact + (1 << 12)
    subnormal = np.arange(-(1 << 12), 1 << 12) + 0.5  # of which the ties are half numbers
    near = np.concatenate([exact, ties, (subnormal * 2.0**-24).astype(np.float32).view(np.uint32)])
    near = (near[:, np.newaxis] + np.arange(-9, 10)).reshape(-1)
    bits = np.concatenate([near, np.arange(0, 1 << 32, 10007)]).astype(np.uint32)
    numbers = np.resize(bits, -(-bits.size // 8) * 8).view(np.float32)
    made = np.empty(numbers.size, np.float16)
    narrowed = applied(lambda _, x: x.to(F16), [numbers], F32, made, runnable(target))
    with np.errstate(over="ignore"):
        same(narrowed, numbers.astype(np.float16))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", [F32, F64])
@pytest.mark.parametrize("name", ["rint", "floor", "ceil", "trunc"])
def test_whole_numbers_near_floats(name: str, type_: Type, target: str) -> None:
    kind = np.float32 if type_ == F32 else np.float64
    digits = 23 if type_ == F32 else 52
    near = np.array([0, 0.5, 1, 1.5, 2.5, 3, 2.0**digits, 2.0 ** (digits - 1), np.inf], kind)
    sides = [np.nextafter(near, kind(-9)), near, np.nextafter(near, kind(np.inf))]
    half = 2.0 ** (digits - 1) + np.array([0.5, 1.5, -0.5, -1.5], kind)
    numbers = np.concatenate([*sides, half, np.array([np.nan], kind)])
    numbers = np.concatenate([numbers, -numbers])
    made = np.empty(numbers.size, kind)
    got = applied(lambda k, x: k.intrinsic(name, x), [numbers], type_, made, runnable(target))
    same(got, getattr(np, name)(numbers))


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_left_of_a_number_is_exact(target: str) -> None:
    """Of numbers of 53 digits, by fractions in Python."""
    generator = np.random.default_rng(1)
    size = generator.uniform(1, 2, 4096)
    times = np.rint(generator.uniform(1, 2.0**30, size.size))
    x = times * size  # rounded: what is left is what was rounded off
    made = np.empty(x.size)
    rest = applied(rest_of, [x, times, size], F64, made, runnable(target))
    exact = [
        float(Fraction(a) - Fraction(b) * Fraction(c))
        for a, b, c in zip(x, times, size, strict=True)
    ]
    np.testing.assert_array_equal(rest, exact)
    assert np.count_nonzero(rest) > 1000


def samples_of(entry: Samples) -> list[Sample]:
    """Those with f16, and the first one that a kernel takes."""
    label = entry.operation.label()
    taken = [s for s in entry.samples if (label, s.name) not in DECLINED]
    halves = [s for s in taken if any(t is not None and t.name == "f16" for t in s.case.types)]
    return [*taken[:1], *(s for s in halves if s is not taken[0])]


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.operation.label()) for e in ALL.values()])
def test_kernels_need_nothing_from_elsewhere(entry: Samples) -> None:
    """They are those of other processors, and give what the reference does."""
    target = runnable("x86-64")
    for sample in samples_of(entry):
        case = sample.case
        operation, specs = entry.operation(**case.attributes), case.specs()
        if any(spec is not None and spec.element_type.name == "string" for spec in specs):
            continue
        results, choice = run_native(operation, specs, target=target)
        assert not isinstance(choice, str) or isinstance(run_native(operation, specs)[1], str)
        if not isinstance(choice, KernelPlan):
            continue
        for spec, _ in choice.calls:
            link(compiled(llvm_text(spec, target), target), spec.name)
        try:
            expected = operation.evaluate(specs)
        except UncorkError:
            continue
        assert results is not None
        for got, wanted in zip(results, expected, strict=True):
            agree(got, wanted.value, wanted.element_type, 2e-5, 1e-5, str(case))
