"""Normalisations over blocks of channels, against NumPy's in f64, between forbidden pages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._fences import run_fenced
from tests.kernels._run import spec_of
from uncork.internal_ops.blocks import BlockedNormalization, to_blocks
from uncork.internal_ops.channel_norm import ChannelNormalization
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
    _check(operation, specs, expected)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("pixels", [(1,), (3, 3), (17, 10)])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize(("channels", "block"), [(32, 32), (96, 32), (16, 16), (48, 16), (40, 8)])
def test_channels_in_blocks(
    channels: int, block: int, centred: bool, pixels: tuple[int, ...], half: bool
) -> None:
    """Each pixel over blocks as long as a vector, longer and shorter ones."""
    generator = np.random.default_rng(channels)
    kind = ElementType.bf16 if half else ElementType.f32
    stored = encode(generator.standard_normal((2, channels, *pixels)) * 3 + 1, kind)
    x = decode(stored, kind).astype(np.float64)
    scale, bias = (generator.standard_normal(channels).astype("f4") for _ in range(2))
    left = x - x.mean(1, keepdims=True) if centred else x
    by_channel = (-1, *[1] * len(pixels))
    y = left / np.sqrt((left**2).mean(1, keepdims=True) + 1e-3)
    y = y * scale.reshape(by_channel) + bias.reshape(by_channel)
    expected = y / (1 + np.exp(-y)) + x

    norm = ChannelNormalization(epsilon=1e-3, centred=centred)
    members = [FusedMember(find("Swish", 4)(), (0,)), FusedMember(find("Add", 1)(), (2, 1))]
    ended = FusedNormalization(norm, 3, members)
    operation = BlockedNormalization(ended, (True, False, False, True), block, half)
    laid = spec_of(to_blocks(stored, block), kind)
    _check(operation, [laid, *(spec_of(a, ElementType.f32) for a in (scale, bias)), laid], expected)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("block", [8, 16])
def test_each_channel_in_blocks(block: int, half: bool) -> None:
    """MVN of the pixels."""
    kind = ElementType.bf16 if half else ElementType.f32
    stored = encode(np.random.default_rng(1).standard_normal((2, 48, 5, 7)) * 3 + 1, kind)
    x = decode(stored, kind).astype(np.float64)
    left = x - x.mean((2, 3), keepdims=True)
    expected = left / np.sqrt((left**2).mean((2, 3), keepdims=True) + 1e-3)
    norm = find("MVN", 6)(normalize_variance=True, eps=1e-3, eps_mode="inside_sqrt")
    operation = BlockedNormalization(norm, (True, False), block, half)
    axes = spec_of(np.array([-1, 2]), ElementType.i64)
    _check(operation, [spec_of(to_blocks(stored, block), kind), axes], expected)


def _check(operation: BlockedNormalization, specs: list[TensorSpec], expected: np.ndarray) -> None:
    """Run the kernel beside forbidden pages, and the reference."""
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    kind = ElementType.bf16 if operation.half else ElementType.f32
    assert outputs[0].element_type is kind
    chosen = select_kernel(operation, specs, outputs, host_target())
    assert isinstance(chosen, KernelPlan), chosen
    wanted = to_blocks(expected, operation.block)
    error = 2**-8 if operation.half else 2e-5
    for threads, first in itertools.product((1, 2), (False, True)):
        results = run_fenced(chosen, specs, outputs, first, threads)
        assert results is not None
        np.testing.assert_allclose(decode(results[0], kind), wanted, rtol=error, atol=2e-5)
    (meant,) = operation.evaluate(specs)
    known = decode(np.asarray(meant.known), kind)
    np.testing.assert_allclose(known, wanted, rtol=error, atol=2e-5)
