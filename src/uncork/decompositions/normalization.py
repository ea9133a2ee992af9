"""Normalisations by computed means and variances, and by norms."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops.batch_norm import GroupNormalization
from uncork.ops.mvn import MVN1, MVN6
from uncork.ops.normalization import GRN, LRN, NormalizeL2


def standardised(
    g: Layers,
    x: Source,
    axes: Source | Sequence[int],
    eps: float,
    divide: bool = True,
    inside: bool = True,
) -> Source:
    """Data less its mean and, if wanted, over its deviation; eps is in the root or added to it."""
    centred = g.minus(x, g.reduce("ReduceMean", g.filled(x), axes))
    if not divide:
        return centred
    variance = g.reduce("ReduceMean", g.filled(g.times(centred, centred)), axes)
    root = g.root(g.plus(variance, eps)) if inside else g.plus(g.root(variance), eps)
    return g.over(centred, root)


@composite("MVN")
def mvn(g: Layers, op: MVN1 | MVN6, data: Source, axes: Source | None = None) -> Source:
    """Data less its mean, over its deviation if wanted."""
    along = list(op.axes(g.rank(data))) if isinstance(op, MVN1) else axes
    assert along is not None
    inside = isinstance(op, MVN1) or op.eps_mode == "inside_sqrt"
    return standardised(g, data, along, op.eps, op.normalize_variance, inside)


@composite("GroupNormalization")
def group_norm(
    g: Layers, op: GroupNormalization, data: Source, scale: Source, bias: Source
) -> Source:
    """The channels of a group less their mean, over their deviation. onnxruntime's own takes the
    square of the mean from the mean of the squares, of which little is left where it is large.
    """
    inner = g.product([g.dim(data, axis) for axis in range(1, g.rank(data))])
    groups = int(op.num_groups)
    table = g.shaped(data, g.dim(data, 0), groups, g.over(inner, groups))
    normal = g.reshape(standardised(g, table, [2], op.epsilon), g.sizes_of(data))
    factor, shift = (g.unsqueeze(t, *range(1, g.rank(data) - 1)) for t in (scale, bias))
    return g.plus(g.times(normal, factor), shift)


@composite("NormalizeL2")
def normalize_l2(g: Layers, op: NormalizeL2, data: Source, axes: Source) -> Source:
    """Data divided by its L2 norm along axes; without axes each element by its own."""
    squares = g.reduce("ReduceSum", g.times(data, data), axes)
    added = g.plus(squares, op.eps) if op.eps_mode == "add" else g.largest(squares, op.eps)
    return g.over(data, g.root(added))


@composite("GRN")
def grn(g: Layers, op: GRN, data: Source) -> Source:
    """Data divided by its L2 norm over the channels."""
    squares = g.reduce("ReduceSum", g.times(data, data), [1])
    return g.over(data, g.root(g.plus(squares, op.bias)))


@composite("LRN")
def lrn(g: Layers, op: LRN, data: Source, axes: Source) -> Source:
    """Data over a power of the sums of squares in a window along one axis after the other."""
    along = sorted({a % g.rank(data) for a in g.numbers(axes, "axes")})
    total = g.times(data, data)
    for axis in along:
        total = _window_sum(g, total, axis, op.size // 2)
    scaled = g.times(total, op.alpha / op.size ** len(along))
    return g.over(data, g.power(g.plus(scaled, op.bias), op.beta))


def _window_sum(g: Layers, data: Source, axis: int, radius: int) -> Source:
    """The sums of the elements up to a distance along an axis."""
    size = g.dim(data, axis)
    known = g.sizes(data)[axis]
    if known is not None:
        radius = min(radius, max(known - 1, 0))
    if not radius:
        return data
    pads = g.i64([radius if i == axis else 0 for i in range(g.rank(data))])
    padded = g.pad(data, pads, pads)
    starts = [g.i64([shift]) for shift in range(2 * radius + 1)]
    parts = [g.part(padded, n, g.plus(size, n), axis) for n in starts]
    return functools.reduce(g.plus, parts)
