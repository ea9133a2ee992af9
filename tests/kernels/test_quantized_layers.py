"""Products of codes in integers, by every way that processors have, against the file's layers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._quantized import ODD, POSITIVE, SIGNED, Layer, grid, of_channels, spec
from uncork.internal_ops.quantized import PLAIN, Held, QuantizedProduct, Reheld
from uncork.kernels.gemm.dots import SINGLE, dot_method_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.kernels.select import select_kernel
from uncork.ops import Operation
from uncork.types import TensorSpec

_V3 = "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"
#: Processors whose instructions this machine may have; the last one has none of products.
OTHERS = {
    "sse2": Target.of("x86_64", "x86-64", "+sse2"),
    "avx2": Target.of("x86_64", "haswell", _V3),
    "avxvnni": Target.of("x86_64", "alderlake", f"{_V3},+avxvnni"),
    "avx512bw": Target.of("x86_64", "skylake-avx512", _V4),
    "avx512vnni": Target.of("x86_64", "cascadelake", f"{_V4},+avx512vnni"),
}
HOST = host_target(tiles=True)


def runs_here(target: Target) -> bool:
    return target.arch == HOST.arch and all(
        HOST.has(name[1:]) for name in target.features.split(",") if name[0] == "+"
    )


TARGETS = {"host": HOST, **{name: target for name, target in OTHERS.items() if runs_here(target)}}


def hold(
    operation: Operation,
    specs: list[TensorSpec],
    target: Target = HOST,
    exact: bool = True,
    rounding: float = 2e-6,
) -> KernelPlan:
    """The kernels give what the layers give: codes but for one level of few, where not `exact`, and
    numbers but for the `rounding` of the references' sums, of the largest of them.
    """
    outputs = operation.describe(specs)
    chosen = select_kernel(operation, specs, outputs, target)
    assert isinstance(chosen, KernelPlan), chosen
    wanted = operation.evaluate(specs)[0].value
    held = operation.result if isinstance(operation, QuantizedProduct) else operation.target
    for threads, first in itertools.product((1, 3), (False, True)):
        results = run_fenced(chosen, specs, outputs, first, threads, target)
        assert results is not None
        (got,) = results
        if held.grid is None:
            np.testing.assert_allclose(
                got, wanted, rtol=0, atol=rounding * max(1.0, float(np.abs(wanted).max()))
            )
            continue
        differences = np.abs(got.astype(int) - wanted)[..., : held.channels]
        assert differences.max() <= (0 if exact else 1)
        assert (differences > 0).sum() <= max(1, differences.size // 1000)
    return chosen


LAYERS = {
    "3x3": Layer((64, 64, 3, 3), sizes=(2, 9, 14), pad=1),
    "3x3 by 2, of few channels": Layer((20, 3, 3, 3), sizes=(2, 11, 13), stride=2, pad=1),
    "1x1": Layer((32, 20, 1, 1), sizes=(2, 7, 7)),
    "1x1 by 2": Layer((100, 24, 1, 1), sizes=(2, 5, 9), stride=2),
    "dilated": Layer((16, 8, 3, 3), sizes=(1, 12, 12), pad=2, dilation=2),
    "each channel": Layer((32, 1, 3, 3), sizes=(2, 9, 14), pad=1, groups=32),
    "each channel by 2": Layer((20, 1, 5, 3), sizes=(1, 11, 13), stride=2, pad=2, groups=20),
    "each channel, dilated": Layer((4, 1, 3, 3), sizes=(1, 12, 9), pad=2, dilation=2, groups=4),
    "groups": Layer((32, 8, 3, 3), sizes=(2, 9, 14), pad=1, groups=4),
    "groups of a few, of which a vector holds some": Layer(
        (96, 4, 3, 3), sizes=(2, 9, 7), stride=2, pad=1, groups=24
    ),
    "groups, dilated": Layer((24, 20, 3, 2), sizes=(1, 12, 9), pad=2, dilation=2, groups=3),
    "wide groups": Layer((2 * 164, 24, 1, 1), sizes=(1, 5, 7), groups=2),
    "a product": Layer((48, 40), sizes=(3, 29)),
    "a row": Layer((300, 64), sizes=(1, 1)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, target: str) -> None:
    generator = np.random.default_rng(1)
    for data, other, result in itertools.product(
        (POSITIVE, SIGNED), ("", "numbers", POSITIVE), (None, SIGNED, POSITIVE)
    ):
        layer = LAYERS[name]
        layer.data, layer.other, layer.result = data, other, result
        hold(*layer.made(generator), TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels", [20, 32, 6])
def test_limits_of_each_channel(channels: int, target: str) -> None:
    """Convolutions of each channel for itself read codes by limits of each channel, and all make
    such codes: of sums that are clamped, and of what other operations make of them.
    """
    generator = np.random.default_rng(11)
    finer = grid(0, 255 / 32), grid(-128 / 64, 127 / 64)
    positive, signed = (
        of_channels(one, other, channels)
        for one, other in zip((POSITIVE, SIGNED), finer, strict=True)
    )
    apart = {"sizes": (2, 9, 14), "pad": 1, "groups": channels}
    whole = channels % 4 == 0  # else kernels end codes with nothing but limits
    results = [POSITIVE, positive, signed, *([None] if whole else [])]
    for data, result in itertools.product((positive, signed), results):
        for activation in ("ReLU", "", "Sigmoid") if whole else ("ReLU", ""):
            layer = Layer((channels, 1, 3, 3), data, **apart, result=result, activation=activation)
            hold(*layer.made(generator), TARGETS[target], exact=activation != "Sigmoid")
    for other in ("numbers", "") if whole else ("",):
        layer = Layer((channels, 24, 1, 1), sizes=(2, 7, 7), result=positive, other=other)
        hold(*layer.made(generator), TARGETS[target])
    for held in (Held(positive, True, channels), Held(signed, True, channels)):
        x = (generator.standard_normal((2, channels, 7, 5)) * 3).astype(np.float32)
        hold(Reheld(PLAIN, held), [spec(x)], TARGETS[target], exact=False)
        hold(Reheld(Held(None, True, channels), held), [spec(np.moveaxis(x, 1, -1).copy())])
        hold(Reheld(held, PLAIN), [spec(held.hold(x))], TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
def test_zeros_of_other_codes_in_other_channels(target: str) -> None:
    """They are around the data, of whole words or not; and where a channel has no code for zero
    nothing may be.
    """
    for channels in (8, 72, 6):
        result = {"result": SIGNED, "activation": "ReLU"}
        data = of_channels(SIGNED, POSITIVE, channels)
        shape = {"sizes": (2, 6, 7), "groups": channels}
        for pad, stride in ((0, 1), (1, 1), (2, 2)):
            layer = Layer((channels, 1, 3, 3), data, pad=pad, stride=stride, **shape, **result)
            hold(*layer.made(np.random.default_rng(3)), TARGETS[target])
        data = of_channels(ODD, POSITIVE, channels)
        inside = Layer((channels, 1, 3, 3), data, **shape, **result)
        hold(*inside.made(np.random.default_rng(3)), TARGETS[target], exact=False)
        operation, specs = Layer((channels, 1, 3, 3), data, pad=1, **shape, **result).made(
            np.random.default_rng(3)
        )
        why = "no code stands for the zeros around the data"
        assert select_kernel(operation, specs, operation.describe(specs), HOST) == why


@pytest.mark.parametrize("other", ["", "numbers", POSITIVE])
def test_generic_ways_take_the_same_calls(other: object) -> None:
    """Processors without any instruction for products of bytes."""
    bare = Target.of("riscv64", "generic-rv64", "+m")
    assert dot_method_of(bare) == (SINGLE, 4)
    layer = Layer((24, 8, 3, 3), sizes=(1, 6, 7), pad=1, result=SIGNED, other=other)
    operation, specs = layer.made(np.random.default_rng(2))
    chosen = select_kernel(operation, specs, operation.describe(specs), bare)
    assert isinstance(chosen, KernelPlan)
    # The text of such kernels is plain LLVM: this machine compiles it, too.
    results = run_fenced(chosen, specs, operation.describe(specs), False, 1, HOST)
    assert results is not None
    np.testing.assert_array_equal(results[0], operation.evaluate(specs)[0].value)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_random_layers(data: st.DataObject) -> None:
    """Sizes, windows, channels and outputs around the edges of tiles and vectors."""
    draw = data.draw
    taps, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    channels, outputs = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    pad = draw(st.integers(0, taps))
    least = (taps - 1) * dilation + 1
    sizes = (
        draw(st.integers(1, 3)),
        *(draw(st.integers(max(1, least - 2 * pad), least + 30)) for _ in range(2)),
    )
    result = draw(st.sampled_from([None, POSITIVE, SIGNED]))
    activation = draw(st.sampled_from(["", "ReLU", "Sigmoid"]))
    layer = Layer(
        (outputs, channels, taps, taps), draw(st.sampled_from([POSITIVE, SIGNED])), sizes,
        draw(st.integers(1, 3)), pad, dilation,
        "numbers" if outputs % 4 == 0 and draw(st.booleans()) else "", activation, result,
    )  # fmt: skip
    hold(
        *layer.made(np.random.default_rng(draw(st.integers(0, 99)))), exact=activation != "Sigmoid"
    )


def test_a_grid_without_a_code_for_zero() -> None:
    """Its products are exact where nothing is around the data, and have no kernel where zeros
    are.
    """
    inside = Layer((16, 12, 1, 1), data=ODD, sizes=(1, 6, 6), result=ODD)
    hold(*inside.made(np.random.default_rng(3)), exact=False)
    operation, specs = Layer((16, 12, 3, 3), data=ODD, sizes=(1, 6, 6), pad=1).made(
        np.random.default_rng(3)
    )
    assert (
        select_kernel(operation, specs, operation.describe(specs), HOST)
        == "no code stands for the zeros around the data"
    )


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (Layer((18, 8, 1, 1), other=POSITIVE), "no kernel ends codes that fill no words"),
        (
            Layer((18, 8, 1, 1), other="numbers", result=SIGNED),
            "no kernel ends codes that fill no words",
        ),
        (Layer((4, 70000), sizes=(1, 1)), "sums of 32 bits do not hold so many products"),
        (
            Layer((8, 8, 1, 1), of_channels(POSITIVE, SIGNED, 8)),
            "no kernel adds up codes of channels with limits of their own",
        ),
        (
            Layer((6, 8, 1, 1), activation="Tanh", result=of_channels(POSITIVE, SIGNED, 6)),
            "no kernel ends codes that fill no words",
        ),
    ],
)
def test_what_kernels_do_not_compute(layer: Layer, why: str) -> None:
    operation, specs = layer.made(np.random.default_rng(4))
    if layer.filters[1] == 70000:
        operation.weights.codes[...] = 127
    assert select_kernel(operation, specs, operation.describe(specs), HOST) == why


def test_ways_that_lead_over_numbers() -> None:
    """The pass takes two steps there."""
    data = spec(np.zeros((2, 5, 3), np.float32))
    last, codes = Held(None, True, 3), Held(POSITIVE, False, 5)
    why = "no kernel for codes whose channels are where they were"
    assert (
        select_kernel(Reheld(last, codes), [data], Reheld(last, codes).describe([data]), HOST)
        == why
    )
    coded = spec(np.zeros((2, 3, 8), np.uint8))
    between = Reheld(codes, Held(SIGNED, False, 5))
    assert (
        select_kernel(between, [coded], between.describe([coded]), HOST)
        == "no kernel from codes to codes"
    )


@pytest.mark.parametrize(
    ("filters", "groups"), [((8, 2, 3, 3), 4), ((9, 4, 1, 1), 3), ((8, 1, 3, 3), 4)]
)
def test_groups_that_fill_no_words_have_no_kernel(filters: tuple[int, ...], groups: int) -> None:
    operation, specs = Layer(filters, sizes=(1, 6, 6), pad=1, groups=groups).made(
        np.random.default_rng(8)
    )
    why = "no kernel for groups of channels that fill no words"
    assert select_kernel(operation, specs, operation.describe(specs), HOST) == why


def test_the_largest_sums() -> None:
    """Codes and weights as large as they may be, where instructions that saturate would lose
    some. All terms have one sign: the reference, in f32, may round each of its sums by half a unit
    of the result.
    """
    layer = Layer((32, 64, 3, 3), sizes=(1, 6, 6), pad=1, result=None)
    terms = 64 * 3 * 3
    for target, sign in itertools.product(TARGETS.values(), (127, -128)):
        operation, specs = layer.made(np.random.default_rng(5))
        operation.weights.codes[...] = sign
        specs[0].value[...] = 255
        hold(operation, specs, target, rounding=terms * 2.0**-24)


HELD = [
    *[
        (Held(POSITIVE, True, 19), (2, 19, 7, 5)),
        (Held(SIGNED, True, 3), (2, 3, 9, 9)),
        (Held(SIGNED, False, 30), (5, 6, 30)),
    ],
    *[
        (Held(None, True, 17), (2, 17, 5, 6)),
        (Held(ODD, False, 64), (7, 64)),
        (Held(ODD, True, 64), (7, 64, 1, 1)),
    ],
    *[(Held(grid(-1, 1, 17), True, 40), (1, 40, 33)), (Held(POSITIVE, False, 5), (3, 5))],
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("held", "shape"), HELD)
def test_there_and_back(held: Held, shape: tuple[int, ...], target: str) -> None:
    x = (np.random.default_rng(6).standard_normal(shape) * 3).astype(np.float32)
    if held.grid is not None:
        x.flat[:3] = np.inf, -np.inf, -0.0
    hold(Reheld(PLAIN, held), [spec(x)], TARGETS[target], exact=False)
    hold(
        Reheld(held, PLAIN),
        [spec(held.hold(np.nan_to_num(x, posinf=9, neginf=-9)))],
        TARGETS[target],
    )


@pytest.mark.parametrize(("held", "shape"), HELD)
def test_nan_has_no_code(held: Held, shape: tuple[int, ...]) -> None:
    if held.grid is None:
        return
    for place in (0, int(np.prod(shape)) - 1):
        x = np.zeros(shape, np.float32)
        x.flat[place] = np.nan
        operation, specs = Reheld(PLAIN, held), [spec(x)]
        chosen = select_kernel(operation, specs, operation.describe(specs), HOST)
        assert run_fenced(chosen, specs, operation.describe(specs), False) is None


def test_nan_of_another_tensor_has_no_code() -> None:
    operation, specs = Layer((16, 8, 1, 1), other="numbers", result=SIGNED).made(
        np.random.default_rng(7)
    )
    specs[2].value[0, 4, 4, 15] = np.nan
    chosen = select_kernel(operation, specs, operation.describe(specs), HOST)
    assert isinstance(chosen, KernelPlan)
    assert run_fenced(chosen, specs, operation.describe(specs), False) is None
