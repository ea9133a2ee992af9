"""Group normalisations over blocks of channels, against NumPy's in f64, between forbidden pages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.internal_ops.blocks import BlockedNormalization, to_blocks
from uncork.internal_ops.fused import FusedMember, FusedNormalization
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import host_target
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.storage import decode, encode
from uncork.types import ElementType, TensorSpec


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("pixels", [(1,), (3, 3), (17, 10)])
@pytest.mark.parametrize("groups", [1, 3, 4, 6, 12, 48])
@pytest.mark.parametrize("block", [8, 16])
def test_groups_in_blocks(groups: int, block: int, pixels: tuple[int, ...], half: bool) -> None:
    """Groups of whole blocks, blocks of whole groups, and neither; SiLU and a sum behind them. Of
    bf16 all is computed in f32, and rounded once.
    """
    generator = np.random.default_rng(groups)
    kind = ElementType.bf16 if half else ElementType.f32
    stored = encode(generator.standard_normal((2, 48, *pixels)) * 3 + 1, kind)
    x = decode(stored, kind).astype(np.float64)
    scale, bias = (generator.standard_normal(48).astype("f4") for _ in range(2))
    apart = x.reshape(2, groups, -1)
    apart = apart - apart.mean(2, keepdims=True)
    apart /= np.sqrt((apart**2).mean(2, keepdims=True) + 1e-3)
    by_channel = (-1, *[1] * len(pixels))
    y = apart.reshape(x.shape) * scale.reshape(by_channel) + bias.reshape(by_channel)
    expected = y / (1 + np.exp(-y)) + x

    norm = find("GroupNormalization", 12)(num_groups=groups, epsilon=1e-3)
    members = [FusedMember(find("Swish", 4)(), (0,)), FusedMember(find("Add", 1)(), (2, 1))]
    ended = FusedNormalization(norm, 3, members)
    operation = BlockedNormalization(ended, (True, False, False, True), block, half)
    laid = spec_of(to_blocks(stored, block), kind)
    specs = [laid, *(spec_of(a, ElementType.f32) for a in (scale, bias)), laid]
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    assert outputs[0].element_type is kind
    chosen = select_kernel(operation, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    error = 2**-8 if half else 2e-5
    for threads, first in itertools.product((1, 2), (False, True)):
        results = run_fenced(chosen, specs, outputs, first, threads)
        assert results is not None
        got = decode(results[0], kind)
        np.testing.assert_allclose(got, to_blocks(expected, block), rtol=error, atol=2e-5)
    (meant,) = operation.evaluate(specs)
    known = decode(np.asarray(meant.known), kind)
    np.testing.assert_allclose(known, to_blocks(expected, block), rtol=error, atol=2e-5)
