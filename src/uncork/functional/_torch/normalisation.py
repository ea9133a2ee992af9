"""Normalisation, by means and variances or by norms; how near vectors are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.functional._torch.layered import (
    Fixed,
    fixed,
    named,
    named_with,
    one_each,
    place,
    rank_from,
    refuse,
    refuse_if,
    sizes,
)
from uncork.ir.model import Source
from uncork.onnx.graph import Graph


def _of_channels(g: Graph, values: Source, rank: int) -> Source:
    return g.reshape(values, [1, -1] + [1] * (rank - 2))


def _scaled(g: Graph, data: Source, weight: Source | None, bias: Source | None) -> Source:
    data = data if weight is None else g.times(data, weight)
    return data if bias is None else g.plus(data, bias)


def _by_channel(g: Graph, data: Source, weight: Source | None, bias: Source | None) -> Source:
    rank = g.rank(data)
    for name, values in (("weight", weight), ("bias", bias)):
        one_each(g, name, values, g.sizes(data)[1], "channel")
    parts = [None if own is None else _of_channels(g, own, rank) for own in (weight, bias)]
    return _scaled(g, data, *parts)


def _normal(g: Graph, data: Source, axes: Sequence[int], eps: float) -> Source:
    """Mean 0 and variance 1 along axes."""
    return g.make(
        "MVN", data, g.i64(list(axes)), normalize_variance=True, eps=eps, eps_mode="inside_sqrt"
    )


@named_with(momentum="eps")
def batch_norm(
    g: Graph,
    input: Source,
    running_mean: Fixed | None,
    running_var: Fixed | None,
    weight: Fixed | None = None,
    bias: Fixed | None = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Source:
    """By the mean and the variance of every channel that are given."""
    rank = rank_from(g, input, 2)
    if training:
        if running_mean is not None or running_var is not None:
            raise refuse(
                "training=True changes running_mean and running_var, and arrays are not changed: "
                "give training=False, or None for both"
            )
        normal = _normal(g, input, [i for i in range(rank) if i != 1], eps)
        return _by_channel(g, normal, weight, bias)
    if running_mean is None or running_var is None:
        raise refuse("running_mean and running_var: expected both where training=False")
    parts = {"running_mean": running_mean, "running_var": running_var}
    for name, values in {**parts, "weight": weight, "bias": bias}.items():
        one_each(g, name, values, g.sizes(input)[1], "channel")
    ones, zeros = (
        g.broadcast(g.like(number, running_mean), g.shape_of(running_mean)) for number in (1.0, 0.0)
    )
    return g.make(
        "BatchNormInference",
        input,
        ones if weight is None else weight,
        zeros if bias is None else bias,
        running_mean,
        running_var,
        epsilon=eps,
        opset=5,
    )


@named_with(momentum="eps")
def instance_norm(
    g: Graph,
    input: Source,
    running_mean: Fixed | None = None,
    running_var: Fixed | None = None,
    weight: Fixed | None = None,
    bias: Fixed | None = None,
    use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Source:
    """By the mean and the variance of every channel of every image."""
    if not use_input_stats:
        return batch_norm(g, input, running_mean, running_var, weight, bias, eps=eps)
    if running_mean is not None or running_var is not None:
        raise refuse(
            "use_input_stats=True changes running_mean and running_var, and arrays are not "
            "changed: give None for both, or use_input_stats=False"
        )
    rank = rank_from(g, input, 3)
    return _by_channel(g, _normal(g, input, range(2, rank), eps), weight, bias)


@named
def group_norm(
    g: Graph,
    input: Source,
    num_groups: int,
    weight: Fixed | None = None,
    bias: Fixed | None = None,
    eps: float = 1e-5,
) -> Source:
    """By the mean and the variance of every group of channels."""
    rank_from(g, input, 2)
    channels = fixed(g, input, 1)
    (groups,) = sizes("num_groups", num_groups, 1, 1)
    refuse_if(channels % groups, f"num_groups: {groups} do not divide {channels} channels")
    weight, bias = (
        g.broadcast(g.like(number, input), g.i64([channels])) if own is None else own
        for own, number in ((weight, 1.0), (bias, 0.0))
    )
    return g.make("GroupNormalization", input, weight, bias, num_groups=groups, epsilon=eps)


def _last_axes(g: Graph, data: Source, normalized_shape: Any) -> list[int]:
    """The axes that a normalized_shape names."""
    shape = normalized_shape if isinstance(normalized_shape, tuple) else (normalized_shape,)
    wanted = sizes("normalized_shape", tuple(shape), len(shape), 0)
    rank = g.rank(data)
    refuse_if(
        not wanted or len(wanted) > rank,
        f"normalized_shape: expected 1 to {rank} sizes, got {normalized_shape!r}",
    )
    axes = list(range(rank - len(wanted), rank))
    own = [fixed(g, data, axis) for axis in axes]
    refuse_if(
        own != wanted,
        f"normalized_shape: expected the last sizes of the input, {own}, got {wanted}",
    )
    return axes


@named
def layer_norm(
    g: Graph,
    input: Source,
    normalized_shape: Any,
    weight: Fixed | None = None,
    bias: Fixed | None = None,
    eps: float = 1e-5,
) -> Source:
    """By the mean and the variance along the last axes."""
    axes = _last_axes(g, input, normalized_shape)
    return _scaled(g, _normal(g, input, axes, eps), weight, bias)


@named
def rms_norm(
    g: Graph,
    input: Source,
    normalized_shape: Any,
    weight: Fixed | None = None,
    eps: float | None = None,
) -> Source:
    """By the root of the mean of squares along the last axes."""
    axes = _last_axes(g, input, normalized_shape)
    if eps is None:
        kind = g.type(input)
        eps = float(np.finfo(kind.dtype).eps) if kind.is_native else 2.0**-7
    mean = g.reduce("ReduceMean", g.times(input, input), axes)
    return _scaled(g, g.over(input, g.make("Sqrt", g.plus(mean, eps))), weight, None)


@named
def local_response_norm(
    g: Graph, input: Source, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Source:
    """By the squares of so many channels around."""
    rank = rank_from(g, input, 3)
    (count,) = sizes("size", size, 1, 1)
    channels = fixed(g, input, 1)
    around = [[0] * rank, [0] * rank]
    around[0][1], around[1][1] = count // 2, (count - 1) // 2
    squares = g.make(
        "Pad",
        g.times(input, input),
        *map(g.i64, around),
        g.like(0.0, input),
        pad_mode="constant",
        opset=12,
    )
    parts = [g.slice(squares, i, i + channels, 1) for i in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = g.plus(total, part)
    return g.over(input, g.power(g.plus(g.times(total, alpha / count), k), beta))


# ---- norms


def norm(g: Graph, data: Source, p: float, axis: int, keep: bool) -> Source:
    """The norm of vectors along an axis."""
    if p == 2:
        return g.reduce("ReduceL2", data, [axis], keep)
    if p == 1:
        return g.reduce("ReduceL1", data, [axis], keep)
    sizes_of = g.make("Abs", data)
    if math.isinf(p):
        return g.reduce("ReduceMax" if p > 0 else "ReduceMin", sizes_of, [axis], keep)
    if p == 0:
        some = g.convert(g.make("NotEqual", data, g.like(0, data)), g.type(data))
        return g.reduce("ReduceSum", some, [axis], keep)
    return g.power(g.reduce("ReduceSum", g.power(sizes_of, p), [axis], keep), 1.0 / p)


@named
def normalize(
    g: Graph, input: Source, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None
) -> Source:
    """Vectors over their norms."""
    long = norm(g, input, p, place(g, input, dim), True)
    return g.over(input, g.make("Maximum", long, g.like(eps, long)))


@named
def cosine_similarity(g: Graph, x1: Source, x2: Source, dim: int = 1, eps: float = 1e-8) -> Source:
    """The cosine of the angles between vectors."""
    rank = max(g.rank(x1), g.rank(x2))
    axis = place(g, x1 if g.rank(x1) == rank else x2, dim) - rank
    unit = []
    for own in (x1, x2):
        long = norm(g, own, 2, axis, True)
        unit.append(g.over(own, g.make("Maximum", long, g.like(eps, long))))
    return g.reduce("ReduceSum", g.times(*unit), [axis], False)


@named
def pairwise_distance(
    g: Graph, x1: Source, x2: Source, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Source:
    """How far apart vectors are."""
    return norm(g, g.plus(g.minus(x1, x2), eps), p, -1, bool(keepdim))


@named
def pdist(g: Graph, input: Source, p: float = 2.0) -> Source:
    """How far apart every two rows are."""
    refuse_if(g.rank(input) != 2, f"input: expected a matrix, got shape {g.spec(input).shape}")
    first, second = np.triu_indices(fixed(g, input, 0), 1)
    rows = [g.gather(input, g.constant(own.astype(np.int64)), 0) for own in (first, second)]
    return norm(g, g.minus(*rows), p, 1, False)
