"""Convolutions of one plan over few pixels and over many, against sums of products."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compiled_model import compile_for
from uncork.ir.model import Model
from uncork.kernels.runtime.target import LEVELS

F32 = np.float32
GENERATOR = np.random.default_rng(0)


def some(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(F32)


def stack(filters: np.ndarray, stride: int, pad: int) -> Model:
    """Windows that stand far apart, and over them the convolution: of long inputs it sees few
    pixels, as in audio.
    """
    builder = uncork.Builder("audio")
    x = builder.parameter("x", "f32", [None, filters.shape[1], None])
    none = builder.constant(np.array([0]))
    (x,) = builder.add(
        "Slice",
        8,
        x,
        none,
        builder.constant(np.array([2**31])),
        builder.constant(np.array([9])),
        builder.constant(np.array([2])),
    )
    (x,) = builder.add(
        "Convolution",
        1,
        x,
        builder.constant(filters),
        strides=[stride],
        dilations=[1],
        pads_begin=[pad],
        pads_end=[pad],
        auto_pad="explicit",
    )
    (x,) = builder.add("ReLU", 1, x)
    builder.result(x)
    return builder.model()


def expected(x: np.ndarray, filters: np.ndarray, stride: int, pad: int) -> np.ndarray:
    x = np.pad(x[:, :, ::9].astype(np.float64), ((0, 0), (0, 0), (pad, pad)))
    taps = filters.shape[2]
    count = (x.shape[2] - taps) // stride + 1
    windows = [x[:, :, n * stride : n * stride + taps] for n in range(count)]
    sums = [np.tensordot(w, filters, ((1, 2), (1, 2))) for w in windows]
    return np.maximum(np.stack(sums, -1), 0)


@pytest.mark.parametrize(
    ("filters", "stride", "pad"),
    [((40, 1, 11), 1, 0), ((64, 48, 1), 1, 0), ((17, 5, 4), 2, 1), ((64, 64, 3), 1, 1)],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_few_and_many(filters: tuple[int, ...], stride: int, pad: int, threads: int) -> None:
    weights = some(*filters)
    compiled = uncork.compile_model(stack(weights, stride, pad), threads=threads)
    for batch in (1, 3):
        for length in (100, 130, 170, 240, 300, 600, 4000, 110):
            x = some(batch, filters[1], length)
            result = compiled(x)[0]
            wanted = expected(x, weights, stride, pad)
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)
    assert compiled.plan.made == 1
    # With vectors of 16 lanes products win for few pixels; shorter ones may leave them no share.
    wide = compile_for(stack(weights, stride, pad), LEVELS["x86-64-v4"], threads).plan
    (kernel,) = (step.kernel for step in wide.steps if "Convolution" in step.operation)
    few, _, many = kernel.partition(" or ")
    assert few.startswith("indirect_gemm_")
    assert many.startswith("direct_convolution_")


def test_large_filters_are_packed_once() -> None:
    """Both ways would need them in another order each."""
    compiled = uncork.compile_model(stack(some(256, 512, 3), 1, 1), threads=1)
    x = some(1, 512, 300)
    compiled(x)
    (kernel,) = (s.kernel for s in compiled.plan.steps if "Convolution" in s.operation)
    assert " or " not in kernel
