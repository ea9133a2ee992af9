"""Normalisation of batches, layers, groups, instances."""

from __future__ import annotations

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.operators.pooling import spatial
from uncork.onnx.registry import MICROSOFT, lowering
from uncork.onnx.types import element_type_of
from uncork.types import ElementType

T = ElementType


@lowering("BatchNormalization")
def _batch_normalization(g: Graph, call: Call, data: Source) -> tuple[Source, ...]:
    epsilon, kind = call.number("epsilon", 1e-5), g.type(data)
    scale, shift, mean, variance = (g.convert(call[i], kind) for i in (1, 2, 3, 4))
    if not call.integer("training_mode"):
        return (
            g.make(
                "BatchNormInference", data, scale, shift, mean, variance, epsilon=epsilon, opset=5
            ),
        )
    axes = [i for i in range(g.rank(data)) if i != 1]
    momentum = call.number("momentum", 0.9)
    now = g.reduce("ReduceMean", data, axes)
    apart = g.minus(data, now)
    spread = g.reduce("ReduceMean", g.times(apart, apart), axes, keep=False)
    now = g.reshape(now, [-1])
    kept = [
        g.plus(g.times(old, momentum), g.times(new, 1 - momentum))
        for old, new in ((mean, now), (variance, spread))
    ]
    result = g.make("BatchNormInference", data, scale, shift, now, spread, epsilon=epsilon, opset=5)
    return result, *kept


def _of_channels(g: Graph, values: Source, rank: int) -> Source:
    return g.reshape(values, [1, -1] + [1] * (rank - 2))


@lowering("InstanceNormalization")
def _instance_normalization(g: Graph, call: Call, data: Source) -> Source:
    axes = spatial(g, data)
    rank = g.rank(data)
    normal = mvn(g, data, axes, call.number("epsilon", 1e-5))
    scale, shift = (_of_channels(g, call[i], rank) for i in (1, 2))
    return g.plus(g.times(normal, scale), shift)


def mvn(g: Graph, data: Source, axes: list[int], epsilon: float) -> Source:
    """The data with mean 0 and variance 1 along axes."""
    return g.make(
        "MVN",
        data,
        g.i64(axes),
        normalize_variance=True,
        eps=epsilon,
        eps_mode="inside_sqrt",
    )


@lowering("MeanVarianceNormalization")
def _mean_variance(g: Graph, call: Call, data: Source) -> Source:
    axes = call.integers("axes", (0, 2, 3))
    return g.make(
        "MVN",
        data,
        g.i64(axes),
        normalize_variance=True,
        eps=1e-9,
        eps_mode="outside_sqrt",
    )


@lowering("LayerNormalization")
@lowering("LayerNormalization", domain=MICROSOFT)
def layer_normalization(
    g: Graph, call: Call, data: Source, scale: Source | None = None, shift: Source | None = None
) -> tuple[Source, ...]:
    """The normalised data, and where they are asked for their means and inverse deviations."""
    rank = g.rank(data)
    axis = call.axis(rank, default=-1)
    axes = list(range(axis, rank))
    kind, epsilon = g.type(data), call.number("epsilon", 1e-5)
    inner = element_type_of(call.integer("stash_type", 1))
    wide = g.convert(data, inner) if inner.bits > kind.bits else data
    normal = g.convert(mvn(g, wide, axes, epsilon), kind)
    if scale is not None:
        normal = g.times(normal, scale)
    normal = g.added(normal, shift)
    if not (call.wants(1) or call.wants(2)):
        return (normal,)
    mean = g.reduce("ReduceMean", wide, axes)
    apart = g.minus(wide, mean)
    variance = g.reduce("ReduceMean", g.times(apart, apart), axes)
    inverse = g.over(1.0, g.make("Sqrt", g.plus(variance, epsilon)))
    return normal, mean, inverse


@lowering("RMSNormalization", "SimplifiedLayerNormalization")
@lowering("SimplifiedLayerNormalization", domain=MICROSOFT)
def rms_normalization(g: Graph, call: Call, data: Source, scale: Source) -> Source:
    """The data over the root of the mean of their squares, times the scale."""
    rank = g.rank(data)
    axes = list(range(call.axis(rank, default=-1), rank))
    kind = g.type(data)
    inner = element_type_of(call.integer("stash_type", 1))
    wide = g.convert(data, inner) if inner.bits > kind.bits else data
    square = g.reduce("ReduceMean", g.times(wide, wide), axes)
    root = g.make("Sqrt", g.plus(square, call.number("epsilon", 1e-5)))
    normal = g.convert(g.over(wide, root), kind)
    product_kind = g.type(scale)
    return g.times(g.convert(normal, product_kind), scale)


@lowering("GroupNormalization")
def _group_normalization(
    g: Graph, call: Call, data: Source, scale: Source, shift: Source
) -> Source:
    groups = call.integer("num_groups", 1)
    epsilon = call.number("epsilon", 1e-5)
    ValidationError.when(groups < 1, f"attribute 'num_groups': expected 1 or more, got {groups}")
    channels = g.sizes(data)[1]
    if call.version < 21:
        # A number for each group, where later versions have one for each channel.
        known = call.wanted(
            channels, "an open number of channels", "export the model with its size"
        )
        each = known // groups
        scale, shift = (
            g.reshape(g.broadcast(g.unsqueeze(s, 1), g.i64([groups, each])), [-1])
            for s in (scale, shift)
        )
    return g.make("GroupNormalization", data, scale, shift, num_groups=groups, epsilon=epsilon)


@lowering("LRN")
def _lrn(g: Graph, call: Call, data: Source) -> Source:
    return g.make(
        "LRN",
        data,
        g.i64([1]),
        alpha=call.number("alpha", 1e-4),
        beta=call.number("beta", 0.75),
        bias=call.number("bias", 1.0),
        size=call.integer("size"),
    )
