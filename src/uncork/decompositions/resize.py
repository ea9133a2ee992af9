"""Interpolate: the cells that each place of an axis reads, and their weights. Where the sizes are
known they are constants, by the operation's own rules; else layers compute them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.errors import UnsupportedError
from uncork.ir.model import Source
from uncork.ops._common.resize import (
    Axis,
    Settings,
    coordinates_in_f32,
    linear_onnx_taps,
    nearest_cells,
    taps,
)
from uncork.ops.interpolate import Interpolate1, Interpolating
from uncork.storage import decode
from uncork.types import Array, ElementType

T = ElementType
#: Cells and their weights: of each place [places] one, or [places, taps] several.
Taps = list[tuple[Source, Source]]
#: More taps than this are one product of matrices.
_TAPS = 8


class OpenAxis(NamedTuple):
    """The resizing of one axis, whose size, result and scale are computed, each [1]. `scale` is
    None where the sizes say it, `stretch` by how much shrinking widens what a place reads.
    """

    axis: int
    size: Source
    result: Source
    scale: Source | None
    stretch: Source | None = None


@composite("Interpolate", as_given=True)
def interpolate(g: Layers, op: Interpolating, data: Source, *inputs: Source | None) -> Source:
    """The data resized axis by axis."""
    rank, own = g.rank(data), g.type(data)
    pads = op.pads(rank)
    how = op.settings(any(map(any, pads)), rank)
    wanted, named = op.chosen(*inputs)
    places = list(op.axes) if isinstance(op, Interpolate1) else list(range(rank))
    places = places if named is None else [a % rank for a in g.numbers(named, "axes")]
    values = g.pad(data, *(g.i64([pair[end] for pair in pads]) for end in (0, 1)))
    sizes, numbers = g.sizes(values), g.known(wanted)
    axes: Sequence[Axis | OpenAxis]
    if numbers is not None and all(sizes[a] is not None for a in places):
        known = [n or 0 for n in sizes]
        changes = op.changes(known, places, decode(numbers, g.type(wanted)).reshape(-1))
        if any(a.result == 0 for a in changes):
            results = {a.axis: a.result for a in changes}
            shape = (results.get(axis, g.dim(values, axis)) for axis in range(rank))
            return g.broadcast(g.like(0, data), g.shape(*shape))
        smoothed = how.antialias and any(a.factor < 1 for a in changes)
        axes = [a for a in changes if a.size != a.result]
    else:
        smoothed, axes = False, _open_axes(g, op, how, values, wanted, places)
    if how.mode == "nearest" or not axes:
        for a in axes:
            values = g.take(values, _nearest(g, a, how), a.axis)
        return values
    UnsupportedError.when(own.is_integer and own.bits == 64, "an Interpolate of 64-bit integers")
    by_pillow, pictures = (
        how.mode.endswith("pillow"),
        how.mode == "linear_onnx" and own in (T.u8, T.i8),
    )
    exact = T.f32 if pictures or own in (T.f16, T.bf16) else T.f64 if own.is_integer else own
    values = g.convert(values, exact)
    for a in sorted(axes, key=lambda a: -a.axis) if by_pillow or pictures else axes:
        if pictures:
            values = _picture(g, values, a, how)
        elif isinstance(a, Axis):
            values = _by_constants(g, values, a.axis, *taps(a, how, smoothed))
        else:
            values = _weighted(g, values, a.axis, _kept(g, a, _taps(g, a, how)))
        if by_pillow and own.is_integer:
            values = limited(g, values, own)
    return g.exact(limited(g, values, own), own) if own.is_integer else g.convert(values, own)


def _open_axes(
    g: Layers,
    op: Interpolating,
    how: Settings,
    data: Source,
    wanted: Source,
    places: Sequence[int],
) -> list[OpenAxis]:
    """The axes that may change; of which one that shrinks has all smoothed, where that is asked."""
    axes, factors = [], []
    for axis, number in zip(places, _numbers(g, op, wanted, len(places)), strict=True):
        size = g.dim(data, axis)
        result = number if op.by_sizes else scaled_size(g, size, number)
        axes.append(OpenAxis(axis, size, result, None if op.by_sizes else number))
        ratio = g.over(*(g.convert(n, T.f64) for n in (result, size)))
        factors.append(ratio if op.by_sizes else g.convert(number, T.f64))
    if how.antialias:
        shrinks = (g.binary("Less", factor, 1) for factor in factors)
        some = functools.reduce(lambda a, b: g.make("LogicalOr", a, b), shrinks)
        stretches = (g.select(some, g.over(1, f), g.like(1, f)) for f in factors)
        axes = [a._replace(stretch=s) for a, s in zip(axes, stretches, strict=True)]
    return [a for a in axes if not _is_kept(g, a)]


def _numbers(g: Layers, op: Interpolating, wanted: Source, count: int) -> list[Source]:
    """The sizes or scales, each [1]; scales in f32 at least."""
    if op.by_sizes:
        return g.each(wanted, count)
    kind, known = T.f64 if g.type(wanted) is T.f64 else T.f32, g.known(wanted)
    if known is None:
        given = g.convert(wanted, kind)
        return [g.slice(given, k, k + 1, 0) for k in range(count)]
    numbers = decode(known, g.type(wanted)).reshape(-1).astype(kind.dtype)
    return [g.constant(numbers[k : k + 1]) for k in range(count)]


def _is_kept(g: Layers, axis: OpenAxis) -> bool:
    if axis.scale is not None:
        scale = g.known(axis.scale)
        return scale is not None and bool((scale == 1).all())
    size, result = g.known(axis.size), g.known(axis.result)
    return size is not None and result is not None and int(size[0]) == int(result[0])


def scaled_size(g: Layers, size: Source, scale: Source) -> Source:
    """floor(scale * size), where a product that misses a whole number by a millionth is that."""
    near = g.times(g.plus(scale, 1e-6), g.convert(size, g.type(scale)))
    exact = g.times(*(g.convert(n, T.f64) for n in (scale, size)))
    cells = g.least(g.exact(g.make("Floor", near)), g.exact(g.make("Ceiling", exact)))
    return g.select(g.binary("Equal", scale, 1), size, cells)


def limited(g: Layers, values: Source, kind: ElementType) -> Source:
    """Values rounded, halves to even, and limited to the range of an integer type."""
    limits = np.iinfo(kind.dtype)
    rounded = g.make("Round", values, mode="half_to_even")
    return g.clipped(rounded, int(limits.min), int(limits.max))


# ---- sums of cells


def _spread(g: Layers, data: Source, axis: int, weights: Source) -> Source:
    """Weights along an axis, and taps behind it, for what is read of the data."""
    behind = g.rank(data) - axis - 1
    known, kind = g.known(weights), g.type(data)
    if known is not None:
        return g.constant(known.astype(kind.dtype).reshape(*known.shape, *[1] * behind))
    return g.with_axes_behind(g.convert(weights, kind), behind)


def _weighted(g: Layers, data: Source, axis: int, taps: Taps) -> Source:
    """The weighted sums of cells along an axis."""
    terms = []
    for cells, weights in taps:
        term = g.times(g.take(data, cells, axis), _spread(g, data, axis, weights))
        several = g.rank(cells) > 1
        terms.append(g.reduce("ReduceSum", term, [axis + 1], keep=False) if several else term)
    return functools.reduce(g.plus, terms)


def _by_constants(g: Layers, data: Source, axis: int, cells: Array, weights: Array) -> Source:
    """The weighted sums of known cells: tap by tap, or with many taps by a matrix."""
    if cells.shape[1] <= _TAPS:
        return _weighted(g, data, axis, _constant_taps(g, cells, weights))
    rank, size = g.rank(data), g.sizes(data)[axis]
    matrix = np.zeros((size or 0, len(cells)))
    np.add.at(matrix, (cells, np.arange(len(cells))[:, np.newaxis]), weights)
    order = [*(i for i in range(rank) if i != axis), axis]
    factors = g.constant(matrix.astype(g.type(data).dtype))
    product = g.matmul(g.transpose(data, order), factors)
    return g.transpose(product, [order.index(i) for i in range(rank)])


def _constant_taps(g: Layers, cells: Array, weights: Array) -> Taps:
    """Known taps, those of weight 0 too: an infinity there gives no number."""
    return [(_row(g, c), _row(g, w)) for c, w in zip(cells.T, weights.T, strict=True)]


def _row(g: Layers, numbers: Array) -> Source:
    return g.constant(np.ascontiguousarray(numbers))


def _picture(g: Layers, values: Source, a: Axis | OpenAxis, how: Settings) -> Source:
    """Bytes resized by linear_onnx in f32. The second product of an axis is not rounded, which f64
    has exactly, as `linear_onnx_of_bytes` tells.
    """
    if isinstance(a, Axis):
        found = linear_onnx_taps(a, coordinates_in_f32(a, how.coordinate_transformation_mode))
        pairs = _constant_taps(g, *map(np.asarray, found))
    else:
        pairs = _kept(g, a, _between(g, a, _coordinates(g, a, how, single=True)))
    factors = [(g.take(values, c, a.axis), _spread(g, values, a.axis, w)) for c, w in pairs]
    exact, rounded = factors[::-1] if a.axis == g.rank(values) - 2 else factors
    product = g.times(*(g.convert(t, T.f64) for t in exact))
    return g.convert(g.plus(product, g.convert(g.times(*rounded), T.f64)), T.f32)


# ---- cells and weights that are computed


def _coordinates(g: Layers, a: OpenAxis, how: Settings, single: bool = False) -> Source:
    """The coordinate that each place of the result looks at, in f64, or with each step in f32; an
    axis that keeps its size is copied.
    """
    mode, scale = how.coordinate_transformation_mode, a.scale
    kind = T.f32 if single else T.f64
    if scale is not None and not single and mode != "align_corners":
        kind = g.type(scale)  # as the operation has it
    x, size, result = (g.convert(n, kind) for n in (g.range(a.result), a.size, a.result))
    if single:
        scale = g.over(result, size) if scale is None else g.convert(scale, kind)
    centre = 0.0 if mode == "asymmetric" else 0.5
    if mode == "align_corners":
        span, last = g.minus(size, 1), g.largest(g.minus(result, 1), 1)
        places = g.times(x, g.over(span, last)) if single else g.over(g.times(x, span), last)
    elif scale is None:
        places = g.over(g.times(g.plus(x, centre), size), result)
    else:
        places = g.over(g.plus(x, centre), scale)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        places = g.minus(places, centre)
    if mode == "pytorch_half_pixel":
        places = g.select(g.binary("Equal", result, 1), g.like(0, places), places)
    places = g.select(g.make("Equal", a.size, a.result), x, places)
    return places if single else g.convert(places, T.f64)


def rounded_places(g: Layers, places: Source, rounding: str) -> Source:
    """Coordinates rounded to whole ones: halves, or all, up or down."""
    up = rounding in ("ceil", "round_prefer_floor")
    shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(rounding, 0.0)
    return g.make("Ceiling" if up else "Floor", g.plus(places, shift) if shift else places)


def inside(g: Layers, cells: Source, size: Source) -> Source:
    """Places moved to the nearest cell."""
    last = g.minus(g.convert(size, g.type(cells)), 1)
    return g.least(g.largest(cells, 0), last)


def _nearest(g: Layers, a: Axis | OpenAxis, how: Settings) -> Source:
    """The cell that each place of the result reads."""
    if isinstance(a, Axis):
        known = a.coordinates(how.coordinate_transformation_mode)
        return _row(g, nearest_cells(a, known, how.nearest_mode))
    places = _coordinates(g, a, how)
    if how.nearest_mode == "simple":
        ways = (rounded_places(g, places, way) for way in ("ceil", "floor"))
        cells = g.select(g.make("Less", a.result, a.size), *ways)
    else:
        cells = rounded_places(g, places, how.nearest_mode)
    return g.exact(inside(g, cells, a.size))


def _kept(g: Layers, a: OpenAxis, taps: Taps) -> Taps:
    """The taps; of an axis that turns out to keep its size all are the cell of the place itself,
    with shares that are no 0: an infinity beside it must not reach it.
    """
    same, own = g.make("Equal", a.size, a.result), g.range(a.result)
    chosen = []
    for cells, weights in taps:
        share, place = g.like(1 / len(taps), weights), own
        if g.rank(cells) > 1:
            share = g.over(1, g.convert(g.dim(cells, 1), g.type(weights)))
            place = g.unsqueeze(own, 1)
        chosen.append((g.select(same, place, cells), g.select(same, share, weights)))
    return chosen


def _taps(g: Layers, a: OpenAxis, how: Settings) -> Taps:
    """The cells that each place reads, and their weights, of every mode but nearest."""
    if how.mode.endswith("pillow"):
        step = g.over(*(g.convert(n, T.f64) for n in (a.size, a.result)))
        x = g.convert(g.range(a.result), T.f64)
        centres = g.minus(g.times(g.plus(x, 0.5), step), 0.5)
        cubic, wide = how.mode == "bicubic_pillow", g.largest(step, 1)
        own = -0.5 if how.cube_coeff == -0.75 else how.cube_coeff
        reach = g.times(wide, 2) if cubic else wide
        return _mean(g, a, centres, reach, wide, own if cubic else None)
    places = _coordinates(g, a, how)
    if how.mode == "linear_onnx":
        return _between(g, a, places)
    if how.mode == "cubic":
        low = g.make("Floor", places)
        cells = [g.plus(low, k) for k in range(-1, 3)]
        apart = [g.make("Abs", g.minus(cell, places)) for cell in cells]
        pairs = zip(cells, apart, strict=True)
        return [
            (g.exact(inside(g, c, a.size)), cubic_weights(g, d, how.cube_coeff)) for c, d in pairs
        ]
    stretch = g.like(1, places) if a.stretch is None else a.stretch
    return _mean(g, a, places, stretch, stretch, None)


def _between(g: Layers, a: OpenAxis, places: Source) -> Taps:
    """The two cells around each place, which is moved into the data."""
    moved = inside(g, places, a.size)
    low = g.make("Floor", moved)
    part = g.minus(moved, low)
    high = inside(g, g.plus(low, 1), a.size)
    return [(g.exact(low), g.minus(1, part)), (g.exact(high), part)]


def _mean(
    g: Layers,
    a: OpenAxis,
    centres: Source,
    reach: Source,
    stretch: Source,
    coefficient: float | None,
) -> Taps:
    """The cells within reach of each centre, and weights by distance that sum up to 1."""
    count = g.exact(g.plus(g.make("Floor", g.times(reach, 2)), 1))
    first = g.unsqueeze(g.make("Ceiling", g.minus(centres, reach)), 1)
    cells = g.plus(first, g.convert(g.range(count), T.f64))
    apart = g.make("Abs", g.over(g.minus(cells, g.unsqueeze(centres, 1)), stretch))
    straight = coefficient is None
    weights = (
        g.largest(g.minus(1, apart), 0) if straight else cubic_weights(g, apart, coefficient or 0)
    )
    last = g.convert(a.size, T.f64)
    exists = g.make("LogicalAnd", g.binary("GreaterEqual", cells, 0), g.make("Less", cells, last))
    weights = g.select(exists, weights, g.like(0, weights))
    total = g.reduce("ReduceSum", weights, [1])
    none = g.binary("Equal", total, 0)
    shares = g.over(weights, g.select(none, g.like(1, total), total))
    return [(g.exact(inside(g, cells, a.size)), shares)]


def cubic_weights(g: Layers, apart: Source, a: float) -> Source:
    """The weight at a distance by Keys' cubic convolution kernel."""
    square = g.times(apart, apart)
    near = g.plus(g.times(g.minus(g.times(apart, a + 2), a + 3), square), 1)
    far = g.times(g.plus(g.times(g.minus(apart, 5), apart), 8), apart)
    far = g.minus(g.times(far, a), 4 * a)
    outer = g.select(g.binary("Less", apart, 2), far, g.like(0, apart))
    return g.select(g.binary("Less", apart, 1), near, outer)
