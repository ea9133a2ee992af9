"""Normalisation of batches, layers, groups, instances."""

from __future__ import annotations

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.operators.pooling import spatial
from uncork.onnx.registry import lowering
from uncork.onnx.types import element_type_of
from uncork.types import ElementType

T = ElementType


@lowering("BatchNormalization")
def _batch_normalization(call: Call) -> tuple[Source, ...]:
    graph, data = call.graph, call[0]
    epsilon, kind = call.number("epsilon", 1e-5), call.graph.type(call[0])
    scale, shift, mean, variance = (graph.convert(call[i], kind) for i in (1, 2, 3, 4))
    if not call.integer("training_mode"):
        return (
            graph.make(
                "BatchNormInference", data, scale, shift, mean, variance, epsilon=epsilon, opset=5
            ),
        )
    axes = [i for i in range(graph.rank(data)) if i != 1]
    momentum = call.number("momentum", 0.9)
    now = graph.reduce("ReduceMean", data, axes)
    apart = graph.minus(data, now)
    spread = graph.reduce("ReduceMean", graph.times(apart, apart), axes, keep=False)
    now = graph.reshape(now, [-1])
    kept = [
        graph.plus(graph.times(old, momentum), graph.times(new, 1 - momentum))
        for old, new in ((mean, now), (variance, spread))
    ]
    result = graph.make(
        "BatchNormInference", data, scale, shift, now, spread, epsilon=epsilon, opset=5
    )
    return result, *kept


def _of_channels(call: Call, values: Source, rank: int) -> Source:
    return call.graph.reshape(values, [1, -1] + [1] * (rank - 2))


@lowering("InstanceNormalization")
def _instance_normalization(call: Call) -> Source:
    graph, data = call.graph, call[0]
    axes = spatial(call, data)
    rank = graph.rank(data)
    normal = mvn(call, data, axes, call.number("epsilon", 1e-5))
    scale, shift = (_of_channels(call, call[i], rank) for i in (1, 2))
    return graph.plus(graph.times(normal, scale), shift)


def mvn(call: Call, data: Source, axes: list[int], epsilon: float) -> Source:
    """The data with mean 0 and variance 1 along axes."""
    return call.graph.make(
        "MVN",
        data,
        call.graph.i64(axes),
        normalize_variance=True,
        eps=epsilon,
        eps_mode="inside_sqrt",
    )


@lowering("MeanVarianceNormalization")
def _mean_variance(call: Call) -> Source:
    axes = call.integers("axes", (0, 2, 3))
    return call.graph.make(
        "MVN",
        call[0],
        call.graph.i64(axes),
        normalize_variance=True,
        eps=1e-9,
        eps_mode="outside_sqrt",
    )


@lowering("LayerNormalization")
def _layer_normalization(call: Call) -> tuple[Source, ...]:
    return layer_normalization(call, call[0], call.optional(1), call.optional(2))


def layer_normalization(
    call: Call, data: Source, scale: Source | None, shift: Source | None
) -> tuple[Source, ...]:
    """The normalised data, and where they are asked for their means and inverse deviations."""
    graph = call.graph
    rank = graph.rank(data)
    axis = call.axis(rank, default=-1)
    axes = list(range(axis, rank))
    kind, epsilon = graph.type(data), call.number("epsilon", 1e-5)
    inner = element_type_of(call.integer("stash_type", 1))
    wide = graph.convert(data, inner) if inner.bits > kind.bits else data
    normal = graph.convert(mvn(call, wide, axes, epsilon), kind)
    if scale is not None:
        normal = graph.times(normal, scale)
    if shift is not None:
        normal = graph.plus(normal, shift)
    if not (call.wants(1) or call.wants(2)):
        return (normal,)
    mean = graph.reduce("ReduceMean", wide, axes)
    apart = graph.minus(wide, mean)
    variance = graph.reduce("ReduceMean", graph.times(apart, apart), axes)
    inverse = graph.over(1.0, graph.make("Sqrt", graph.plus(variance, epsilon)))
    return normal, mean, inverse


@lowering("RMSNormalization")
def _rms_normalization(call: Call) -> Source:
    return rms_normalization(call, call[0], call[1])


def rms_normalization(call: Call, data: Source, scale: Source) -> Source:
    """The data over the root of the mean of their squares, times the scale."""
    graph = call.graph
    rank = graph.rank(data)
    axes = list(range(call.axis(rank, default=-1), rank))
    kind = graph.type(data)
    inner = element_type_of(call.integer("stash_type", 1))
    wide = graph.convert(data, inner) if inner.bits > kind.bits else data
    square = graph.reduce("ReduceMean", graph.times(wide, wide), axes)
    root = graph.make("Sqrt", graph.plus(square, call.number("epsilon", 1e-5)))
    normal = graph.convert(graph.over(wide, root), kind)
    product_kind = graph.type(scale)
    return graph.times(graph.convert(normal, product_kind), scale)


@lowering("GroupNormalization")
def _group_normalization(call: Call) -> Source:
    graph, data = call.graph, call[0]
    groups = call.integer("num_groups", 1)
    epsilon = call.number("epsilon", 1e-5)
    ValidationError.when(groups < 1, f"attribute 'num_groups': expected 1 or more, got {groups}")
    scale, shift = call[1], call[2]
    channels = graph.sizes(data)[1]
    if call.version < 21:
        # A number for each group, where later versions have one for each channel.
        known = call.wanted(
            channels, "an open number of channels", "export the model with its size"
        )
        each = known // groups
        scale, shift = (
            graph.reshape(graph.broadcast(graph.unsqueeze(s, 1), graph.i64([groups, each])), [-1])
            for s in (scale, shift)
        )
    return graph.make("GroupNormalization", data, scale, shift, num_groups=groups, epsilon=epsilon)


@lowering("LRN")
def _lrn(call: Call) -> Source:
    return call.graph.make(
        "LRN",
        call[0],
        call.graph.i64([1]),
        alpha=call.number("alpha", 1e-4),
        beta=call.number("beta", 0.75),
        bias=call.number("bias", 1.0),
        size=call.integer("size"),
    )
