"""Resize and Upsample.

What Interpolate has is an Interpolate. The rest (crops, windows that are left out at borders, cubic
smoothing, a policy of aspects) is said as what it is: a product with the weights of each axis, or a
look-up of the nearest cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.decompositions.resize import cubic_weights, inside, rounded_places
from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import lowering
from uncork.types import ElementType

T = ElementType
_MODES = {"nearest": "nearest", "linear": "linear_onnx", "cubic": "cubic"}
_COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "align_corners",
)


@lowering("Upsample")
def _upsample_by_attribute(g: Graph, call: Call) -> Source:
    scales = g.constant(np.array(call.numbers("scales"), np.float32))
    return _asymmetric(g, call, scales)


@lowering("Upsample", since=9)
@lowering("Resize", since=10)
def _upsample(g: Graph, call: Call) -> Source:
    return _asymmetric(g, call, call[1])


def _asymmetric(g: Graph, call: Call, scales: Source) -> Source:
    mode = call.one_of("mode", "nearest", "nearest", "linear", "bilinear")
    return g.make(
        "Interpolate",
        call[0],
        scales,
        g.i64(list(range(g.rank(call[0])))),
        mode="nearest" if mode == "nearest" else "linear_onnx",
        shape_calculation_mode="scales",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        opset=11,
    )


@lowering("Resize", since=11)
def _resize(g: Graph, call: Call, data: Source) -> Source:
    rank = g.rank(data)
    axes = [call.place(a, rank) for a in call.integers("axes", range(rank))]
    scales, sizes = call.optional(2), call.optional(3)
    if scales is not None and g.spec(scales).shape.size == 0:
        scales = None
    ValidationError.when((scales is None) == (sizes is None), "expected either scales or sizes")
    mode = call.one_of("mode", "nearest", *_MODES)
    how = call.text("coordinate_transformation_mode", "half_pixel")
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    smooth = bool(call.integer("antialias")) and mode != "nearest"
    plain = (
        how in _COORDINATES
        and policy == "stretch"
        and not call.integer("exclude_outside")
        and not smooth
        and g.type(data).is_float
        and not (how == "align_corners" and scales is not None and not _whole(g, scales))
        and not (scales is not None and _keeps_size(g, data, axes, scales, mode, how))
    )
    if not plain:
        return _by_weights(g, call, axes, scales, sizes, _Settings(mode, how, policy, smooth))
    wanted = sizes if scales is None else scales
    assert wanted is not None
    return g.make(
        "Interpolate",
        data,
        wanted,
        g.i64(axes),
        mode=_MODES[mode],
        shape_calculation_mode="sizes" if scales is None else "scales",
        coordinate_transformation_mode=how,
        nearest_mode=call.text("nearest_mode", "round_prefer_floor"),
        cube_coeff=call.number("cubic_coeff_a", -0.75),
        opset=11,
    )


def _keeps_size(
    g: Graph, data: Source, axes: Sequence[int], scales: Source, mode: str, how: str
) -> bool:
    """Whether an axis may keep its size and be resized all the same, by a scale above 1: an
    Interpolate copies it. Where the size is open, this is taken to be meant where torch copies it,
    too.
    """
    value = g.known(scales)
    if value is None:
        return False
    sizes = g.sizes(data)
    pictures = mode == "nearest" and how == "asymmetric" and len(sizes) == 4
    copied = pictures or (mode == "linear" and how == "half_pixel")
    for axis, scale in zip(axes, np.reshape(value, -1).tolist(), strict=False):
        size = sizes[axis]
        if 1 < scale < 2 and (not copied if size is None else int(size * scale) == size):
            return True
    return False


def _whole(g: Graph, scales: Source) -> bool:
    """Whether scales make whole numbers of the sizes, before they are cut to such."""
    value = g.known(scales)
    if value is None:
        return False
    return bool((np.asarray(value) == np.floor(value)).all())


class _Settings(Struct, frozen=True):
    """How a node resizes: its mode, its coordinates, its policy of aspects, whether shrinking
    smooths.
    """

    mode: str
    coordinates: str
    policy: str
    smooth: bool


def _by_weights(
    g: Graph,
    call: Call,
    axes: Sequence[int],
    scales: Source | None,
    sizes: Source | None,
    settings: _Settings,
) -> Source:
    """The data resized axis by axis, by look-ups or by products with weights."""
    data = call[0]
    mode, how, policy = settings.mode, settings.coordinates, settings.policy
    rank, kind = g.rank(data), g.type(data)
    shape = g.gather(g.shape_of(data), list(axes), 0)
    before = g.convert(shape, T.f64)
    if scales is not None:
        factors = g.convert(scales, T.f64)
        results = g.convert(g.make("Floor", g.times(before, factors)), T.i64)
    else:
        assert sizes is not None
        results = g.convert(sizes, T.i64)
        factors = g.over(g.convert(sizes, T.f64), before)
        if policy != "stretch":
            name = {"not_larger": "ReduceMin", "not_smaller": "ReduceMax"}.get(policy)
            if name is None:
                raise ValidationError(f"attribute 'keep_aspect_ratio_policy': got '{policy:.60}'")
            factor = g.reduce(name, factors, [0])
            factors = g.broadcast(factor, g.i64([len(axes)]))
            near = g.make("Floor", g.plus(g.times(before, factor), 0.5))
            results = g.convert(near, T.i64)
    if kind.is_integer and mode != "nearest":
        data = g.convert(data, T.f32)
    outside: Source | None = None
    for i, axis in enumerate(axes):
        size, result, factor = (g.gather(v, i, 0) for v in (before, results, factors))
        if _is_one(g, factor) and how != "tf_crop_and_resize":
            continue
        places = _places(g, how, size, result, factor, _region(g, call, how, i, len(axes)))
        if mode == "nearest":
            cells = _nearest(g, call, places, size)
            data = g.gather(data, cells, axis)
        else:
            weights = _weights(g, call, mode, places, size, factor, settings.smooth)
            data = _product(g, data, weights, axis)
        if how == "tf_crop_and_resize":
            low = g.make("Less", places, g.like(0.0, places))
            high = g.make("Greater", places, g.minus(size, 1.0))
            mask = g.make("LogicalOr", low, high)
            mask = g.reshape(mask, [-1 if d == axis else 1 for d in range(rank)])
            outside = mask if outside is None else g.make("LogicalOr", outside, mask)
    if outside is not None:
        beyond = g.like(call.number("extrapolation_value"), data)
        data = g.select(outside, beyond, data)
    if g.type(data) is not kind:
        data = g.convert(g.make("Round", data), kind)
    return data


def _is_one(g: Graph, factor: Source) -> bool:
    value = g.known(factor)
    return value is not None and float(value) == 1.0


def _region(g: Graph, call: Call, how: str, i: int, count: int) -> tuple[Source, Source] | None:
    """Where a crop begins and ends along an axis, as parts of it."""
    if how != "tf_crop_and_resize":
        return None
    region = g.convert(call[1], T.f64)
    return g.gather(region, i, 0), g.gather(region, i + count, 0)


def _places(
    g: Graph,
    how: str,
    size: Source,
    result: Source,
    scale: Source,
    region: tuple[Source, Source] | None,
) -> Source:
    """Where each cell of the result looks at the data."""
    x = g.convert(g.range(result), T.f64)
    count = g.convert(result, T.f64)
    one = g.of_type(1.0, T.f64)
    single = g.make("LessEqual", count, one)
    half_pixel = g.minus(g.over(g.plus(x, 0.5), scale), 0.5)
    if how == "align_corners":
        # The length is the one before it is cut to a whole number.
        span = g.minus(g.times(size, scale), 1.0)
        safe = g.select(single, one, span)
        places = g.over(g.times(x, g.minus(size, 1.0)), safe)
        return g.select(single, g.times(x, 0.0), places)
    if how == "asymmetric":
        return g.over(x, scale)
    if how == "tf_half_pixel_for_nn":
        return g.over(g.plus(x, 0.5), scale)
    if region is not None:
        start, end = region
        last = g.minus(size, 1.0)
        steps = g.make("Maximum", g.minus(count, 1.0), one)
        step = g.over(g.times(g.minus(end, start), last), steps)
        places = g.plus(g.times(start, last), g.times(x, step))
        middle = g.times(g.times(g.plus(start, end), 0.5), last)
        return g.select(single, g.plus(g.times(x, 0.0), middle), places)
    if how == "pytorch_half_pixel":
        return g.select(single, g.minus(g.times(x, 0.0), 0.5), half_pixel)
    if how == "half_pixel_symmetric":
        cut = g.minus(1.0, g.over(count, g.times(scale, size)))
        return g.plus(g.times(g.times(size, 0.5), cut), half_pixel)
    if how == "half_pixel":
        return half_pixel
    raise ValidationError(f"attribute 'coordinate_transformation_mode': got '{how:.60}'")


def _nearest(g: Graph, call: Call, places: Source, size: Source) -> Source:
    rounding = call.one_of(
        "nearest_mode",
        "round_prefer_floor",
        "round_prefer_floor",
        "round_prefer_ceil",
        "floor",
        "ceil",
    )
    return g.convert(inside(g, rounded_places(g, places, rounding), size), T.i64)


def _weights(
    g: Graph, call: Call, mode: str, places: Source, size: Source, scale: Source, smooth: bool
) -> Source:
    """For each cell of the result the weights of the cells of the data, [result, size]. Cells
    before and behind the data repeat those at the border.
    """
    one = g.of_type(1.0, T.f64)
    stretch = g.make("Minimum", scale, one) if smooth else one
    last = g.minus(size, 1.0)
    if mode == "linear" and not smooth:
        places = inside(g, places, size)
    reach = g.plus(g.make("Ceiling", g.over(2.0, stretch)), 2.0)
    stop = g.convert(g.plus(size, g.times(reach, 2.0)), T.i64)
    cells = g.minus(g.convert(g.range(stop), T.f64), reach)
    apart = g.make("Abs", g.minus(g.unsqueeze(cells, 0), g.unsqueeze(places, 1)))
    apart = g.times(apart, stretch)
    zero = g.of_type(0.0, T.f64)
    if mode == "linear":
        each = g.make("Maximum", g.minus(1.0, apart), zero)
    else:
        each = cubic_weights(g, apart, call.number("cubic_coeff_a", -0.75))
    if call.integer("exclude_outside"):
        exists = g.make(
            "LogicalAnd",
            g.make("GreaterEqual", cells, zero),
            g.make("LessEqual", cells, last),
        )
        each = g.select(exists, each, zero)
    each = g.over(each, g.reduce("ReduceSum", each, [1]))
    border = inside(g, cells, size)
    own = g.convert(g.range(g.convert(size, T.i64)), T.f64)
    same = g.make("Equal", g.unsqueeze(border, 1), g.unsqueeze(own, 0))
    return g.matmul(each, g.convert(same, T.f64))


def _product(g: Graph, data: Source, weights: Source, axis: int) -> Source:
    rank = g.rank(data)
    order = [i for i in range(rank) if i != axis] + [axis]
    matrix = g.convert(weights, g.type(data))
    moved = g.matmul(g.transpose(data, order), matrix, tb=True)
    return g.transpose(moved, [order.index(i) for i in range(rank)])
