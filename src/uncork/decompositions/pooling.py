"""Adaptive pooling: the windows of an axis by their cells, of which short ones leave some out."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.errors import UnsupportedError
from uncork.ir.model import Source
from uncork.ops._operation import Operation
from uncork.types import ElementType

T = ElementType


def _bounds(g: Layers, size: Source, count: Source) -> tuple[Source, Source]:
    """Where each window begins and ends."""
    number, count = g.range(count), g.largest(count, 1)  # of no windows nothing is divided
    past = g.plus(g.times(g.plus(number, 1), size), g.minus(count, 1))
    return g.over(g.times(number, size), count), g.over(past, count)


def _windows(
    g: Layers, data: Source, axis: int, starts: Source, ends: Source, blank: float
) -> tuple[Source, Source]:
    """The cells of windows, which an axis becomes two of, and how many the longest has; `blank`
    stands where a window has no more.
    """
    lengths, last = g.minus(ends, starts), g.minus(g.dim(data, axis), 1)
    longest = g.largest(g.reduce("ReduceMax", lengths, [0]), 0)
    cells = g.plus(g.unsqueeze(starts, 1), g.range(longest))
    inside = g.make("Less", cells, g.unsqueeze(ends, 1))
    found, all_inside = g.take(data, g.least(cells, last), axis), g.known(inside)
    if all_inside is not None and all_inside.all():
        return found, longest
    mask = g.with_axes_behind(inside, g.rank(data) - axis - 1)
    return g.select(mask, found, g.like(blank, found)), longest


def _is(g: Layers, number: Source, value: int) -> bool:
    known = g.known(number)
    return known is not None and int(known[0]) == value


@composite("AdaptiveAvgPool")
def adaptive_mean(g: Layers, op: Operation, data: Source, output_shape: Source) -> Source:
    """The means of windows along one axis after the other."""
    rank = g.rank(data)
    counts = g.each(output_shape, rank - 2)
    if any(_is(g, count, 0) for count in counts):
        return g.broadcast(g.like(0, data), g.shape(g.dim(data, 0), g.dim(data, 1), *counts))
    for axis, count in enumerate(counts, 2):
        if _is(g, count, 1):
            data = g.reduce("ReduceMean", g.filled(data), [axis])
            continue
        starts, ends = _bounds(g, g.dim(data, axis), count)
        cells, _ = _windows(g, data, axis, starts, ends, 0)
        sizes = g.convert(g.minus(ends, starts), g.type(data))
        total = g.reduce("ReduceSum", cells, [axis + 1], keep=False)
        data = g.over(total, g.with_axes_behind(sizes, rank - axis - 1))
    return data


@composite("AdaptiveMaxPool")
def adaptive_max(g: Layers, op: Operation, data: Source, output_shape: Source) -> Sequence[Source]:
    """The largest cells of windows, and their places in the flattened spatial axes."""
    UnsupportedError.when(
        g.known(output_shape) is None, "input 'output_shape' is computed as the model runs"
    )
    kind, spatial = g.type(data), g.rank(data) - 2
    counts = g.each(output_shape, spatial)
    shape = g.shape(g.dim(data, 0), g.dim(data, 1), *counts)
    if any(_is(g, count, 0) for count in counts):
        return g.broadcast(g.like(0, data), shape), g.broadcast(g.i64(0), shape)
    lowest = -np.inf if kind.is_float else int(np.iinfo(kind.dtype).min)
    cells, begins, lengths = data, [], []
    for k, count in enumerate(counts):
        starts, ends = _bounds(g, g.dim(data, k + 2), count)
        cells, longest = _windows(g, cells, 2 + 2 * k, starts, ends, lowest)
        begins.append(g.with_axes_behind(starts, spatial - k - 1))
        lengths.append(longest)
    within = 2 + 2 * spatial
    cells = g.transpose(cells, [0, 1, *range(2, within, 2), *range(3, within, 2)])
    flat = g.shaped(cells, shape, g.product(lengths))
    largest, rest = (g.squeeze(t, 2 + spatial) for t in g.best(flat, 2 + spatial))
    terms, step = [], g.i64([1])
    for k in reversed(range(spatial)):
        here = g.plus(g.make("FloorMod", rest, lengths[k]), begins[k])
        terms.append(g.times(here, step))
        rest, step = g.over(rest, lengths[k]), g.times(step, g.dim(data, k + 2))
    return largest, functools.reduce(g.plus, terms)
