"""Conversions of colour planes, and the regions of detectors."""

from __future__ import annotations

import itertools

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops.region_yolo import RegionYolo1
from uncork.ops.yuv_to_rgb import I420toRGB8, _Planes
from uncork.types import ElementType

T = ElementType


@composite("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR")
def colours(g: Layers, op: _Planes, *planes: Source | None) -> Source:
    """Planes Y, U and V as RGB or BGR, by the formula on planes of equal size."""
    light, *rest = (p for p in planes if p is not None)
    own = g.type(light)
    exact = T.f64 if own is T.f64 else T.f32
    if len(rest) == 2:
        u, v = (g.squeeze(p, 3) for p in rest)
    elif rest:
        u, v = (g.picked(rest[0], k, 3) for k in (0, 1))
    else:
        light, u, v = _single(g, op, light)
    u, v = (g.minus(g.convert(_doubled(g, p), exact), 128) for p in (u, v))
    bright = g.times(g.minus(g.convert(g.squeeze(light, 3), exact), 16), 1.164)
    red = g.plus(bright, g.times(v, 1.596))
    green = g.minus(g.minus(bright, g.times(u, 0.391)), g.times(v, 0.813))
    blue = g.plus(bright, g.times(u, 2.018))
    order = [blue, green, red] if op.blue_first else [red, green, blue]
    inside = g.clipped(g.concat([g.unsqueeze(c, 3) for c in order], 3), 0, 255)
    return g.make("Round", inside, mode="half_to_even") if own is T.u8 else inside


def _single(g: Layers, op: _Planes, plane: Source) -> tuple[Source, Source, Source]:
    """Y, U and V of one plane [N, H * 3 / 2, W, 1]."""
    third = g.over(g.dim(plane, 1), 3)
    height = g.times(third, 2)
    light = g.part(plane, g.i64([0]), height, 1)
    below = g.part(plane, height, g.times(third, 3), 1)
    below, half = g.squeeze(below, 3), g.over(g.dim(plane, 2), 2)
    if isinstance(op, I420toRGB8):
        pairs, axis = g.shaped(below, g.dim(plane, 0), 2, third, half), 1
    else:
        pairs, axis = g.shaped(below, g.dim(plane, 0), third, half, 2), 3
    return light, g.picked(pairs, 0, axis), g.picked(pairs, 1, axis)


def _doubled(g: Layers, plane: Source) -> Source:
    """Every element of a plane [N, h, w] repeated as a square of four."""
    wide = g.make("Tile", g.unsqueeze(plane, 2, 4), g.i64([1, 1, 2, 1, 2]))
    return g.shaped(wide, g.dim(plane, 0), *(g.times(g.dim(plane, k), 2) for k in (1, 2)))


@composite("RegionYolo")
def region_yolo(g: Layers, op: RegionYolo1, data: Source) -> Source:
    """Sigmoid of places and objectness, softmax or sigmoid of classes, each split off."""
    sizes: list[Source | int] = [g.dim(data, i) for i in range(4)]
    count = op.coords + 1 + op.classes
    regions = g.shaped(data, sizes[0], op.regions, count, *sizes[2:])
    cuts = [0, min(2, op.coords), op.coords, op.coords + 1, count]
    lengths = [b - a for a, b in itertools.pairwise(cuts)]
    places, scales, objectness, classes = g.split(regions, lengths, 2)
    chances = g.make("SoftMax", classes, axis=2) if op.do_softmax else g.make("Sigmoid", classes)
    parts = [g.make("Sigmoid", places), scales, g.make("Sigmoid", objectness), chances]
    joined = g.concat([p for p, n in zip(parts, lengths, strict=True) if n], 2)
    if op.do_softmax:
        first, end = op.axis % 4, op.end_axis % 4 + 1
        whole = [g.dim(data, i) for i in range(first, end)]
        sizes[first:end] = [g.product(whole)]
    return g.shaped(joined, *sizes)
