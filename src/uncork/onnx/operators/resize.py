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
def _upsample_by_attribute(call: Call) -> Source:
    scales = call.graph.constant(np.array(call.numbers("scales"), np.float32))
    return _asymmetric(call, scales)


@lowering("Upsample", since=9)
@lowering("Resize", since=10)
def _upsample(call: Call) -> Source:
    return _asymmetric(call, call[1])


def _asymmetric(call: Call, scales: Source) -> Source:
    mode = call.one_of("mode", "nearest", "nearest", "linear", "bilinear")
    return call.graph.make(
        "Interpolate",
        call[0],
        scales,
        call.graph.i64(list(range(call.graph.rank(call[0])))),
        mode="nearest" if mode == "nearest" else "linear_onnx",
        shape_calculation_mode="scales",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        opset=11,
    )


@lowering("Resize", since=11)
def _resize(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    axes = [call.place(a, rank) for a in call.integers("axes", range(rank))]
    scales, sizes = call.optional(2), call.optional(3)
    if scales is not None and graph.spec(scales).shape.size == 0:
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
        and graph.type(data).is_float
        and not (how == "align_corners" and scales is not None and not _whole(call, scales))
        and not (scales is not None and _keeps_size(call, axes, scales, mode, how))
    )
    if not plain:
        return _by_weights(call, axes, scales, sizes, _Settings(mode, how, policy, smooth))
    wanted = sizes if scales is None else scales
    assert wanted is not None
    return graph.make(
        "Interpolate",
        data,
        wanted,
        graph.i64(axes),
        mode=_MODES[mode],
        shape_calculation_mode="sizes" if scales is None else "scales",
        coordinate_transformation_mode=how,
        nearest_mode=call.text("nearest_mode", "round_prefer_floor"),
        cube_coeff=call.number("cubic_coeff_a", -0.75),
        opset=11,
    )


def _keeps_size(call: Call, axes: Sequence[int], scales: Source, mode: str, how: str) -> bool:
    """Whether an axis may keep its size and be resized all the same, by a scale above 1: an
    Interpolate copies it. Where the size is open, this is taken to be meant where torch copies it,
    too.
    """
    value = call.graph.known(scales)
    if value is None:
        return False
    sizes = call.graph.sizes(call[0])
    pictures = mode == "nearest" and how == "asymmetric" and len(sizes) == 4
    copied = pictures or (mode == "linear" and how == "half_pixel")
    for axis, scale in zip(axes, np.reshape(value, -1).tolist(), strict=False):
        size = sizes[axis]
        if 1 < scale < 2 and (not copied if size is None else int(size * scale) == size):
            return True
    return False


def _whole(call: Call, scales: Source) -> bool:
    """Whether scales make whole numbers of the sizes, before they are cut to such."""
    value = call.graph.known(scales)
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
    call: Call,
    axes: Sequence[int],
    scales: Source | None,
    sizes: Source | None,
    settings: _Settings,
) -> Source:
    """The data resized axis by axis, by look-ups or by products with weights."""
    graph, data = call.graph, call[0]
    mode, how, policy = settings.mode, settings.coordinates, settings.policy
    rank, kind = graph.rank(data), graph.type(data)
    shape = graph.gather(graph.shape_of(data), list(axes), 0)
    before = graph.convert(shape, T.f64)
    if scales is not None:
        factors = graph.convert(scales, T.f64)
        results = graph.convert(graph.make("Floor", graph.times(before, factors)), T.i64)
    else:
        assert sizes is not None
        results = graph.convert(sizes, T.i64)
        factors = graph.over(graph.convert(sizes, T.f64), before)
        if policy != "stretch":
            name = {"not_larger": "ReduceMin", "not_smaller": "ReduceMax"}.get(policy)
            if name is None:
                raise ValidationError(f"attribute 'keep_aspect_ratio_policy': got '{policy:.60}'")
            factor = graph.reduce(name, factors, [0])
            factors = graph.broadcast(factor, graph.i64([len(axes)]))
            near = graph.make("Floor", graph.plus(graph.times(before, factor), 0.5))
            results = graph.convert(near, T.i64)
    if kind.is_integer and mode != "nearest":
        data = graph.convert(data, T.f32)
    outside: Source | None = None
    for i, axis in enumerate(axes):
        size, result, factor = (graph.gather(v, i, 0) for v in (before, results, factors))
        if _is_one(call, factor) and how != "tf_crop_and_resize":
            continue
        places = _places(call, how, size, result, factor, _region(call, how, i, len(axes)))
        if mode == "nearest":
            cells = _nearest(call, places, size)
            data = graph.gather(data, cells, axis)
        else:
            weights = _weights(call, mode, places, size, factor, settings.smooth)
            data = _product(call, data, weights, axis)
        if how == "tf_crop_and_resize":
            low = graph.make("Less", places, graph.like(0.0, places))
            high = graph.make("Greater", places, graph.minus(size, 1.0))
            mask = graph.make("LogicalOr", low, high)
            mask = graph.reshape(mask, [-1 if d == axis else 1 for d in range(rank)])
            outside = mask if outside is None else graph.make("LogicalOr", outside, mask)
    if outside is not None:
        beyond = graph.like(call.number("extrapolation_value"), data)
        data = graph.select(outside, beyond, data)
    if graph.type(data) is not kind:
        data = graph.convert(graph.make("Round", data), kind)
    return data


def _is_one(call: Call, factor: Source) -> bool:
    value = call.graph.known(factor)
    return value is not None and float(value) == 1.0


def _region(call: Call, how: str, i: int, count: int) -> tuple[Source, Source] | None:
    """Where a crop begins and ends along an axis, as parts of it."""
    if how != "tf_crop_and_resize":
        return None
    region = call.graph.convert(call[1], T.f64)
    return call.graph.gather(region, i, 0), call.graph.gather(region, i + count, 0)


def _places(
    call: Call,
    how: str,
    size: Source,
    result: Source,
    scale: Source,
    region: tuple[Source, Source] | None,
) -> Source:
    """Where each cell of the result looks at the data."""
    graph = call.graph
    x = graph.convert(graph.range(result), T.f64)
    count = graph.convert(result, T.f64)
    one = graph.of_type(1.0, T.f64)
    single = graph.make("LessEqual", count, one)
    half_pixel = graph.minus(graph.over(graph.plus(x, 0.5), scale), 0.5)
    if how == "align_corners":
        # The length is the one before it is cut to a whole number.
        span = graph.minus(graph.times(size, scale), 1.0)
        safe = graph.select(single, one, span)
        places = graph.over(graph.times(x, graph.minus(size, 1.0)), safe)
        return graph.select(single, graph.times(x, 0.0), places)
    if how == "asymmetric":
        return graph.over(x, scale)
    if how == "tf_half_pixel_for_nn":
        return graph.over(graph.plus(x, 0.5), scale)
    if region is not None:
        start, end = region
        last = graph.minus(size, 1.0)
        steps = graph.make("Maximum", graph.minus(count, 1.0), one)
        step = graph.over(graph.times(graph.minus(end, start), last), steps)
        places = graph.plus(graph.times(start, last), graph.times(x, step))
        middle = graph.times(graph.times(graph.plus(start, end), 0.5), last)
        return graph.select(single, graph.plus(graph.times(x, 0.0), middle), places)
    if how == "pytorch_half_pixel":
        return graph.select(single, graph.minus(graph.times(x, 0.0), 0.5), half_pixel)
    if how == "half_pixel_symmetric":
        cut = graph.minus(1.0, graph.over(count, graph.times(scale, size)))
        return graph.plus(graph.times(graph.times(size, 0.5), cut), half_pixel)
    if how == "half_pixel":
        return half_pixel
    raise ValidationError(f"attribute 'coordinate_transformation_mode': got '{how:.60}'")


def _nearest(call: Call, places: Source, size: Source) -> Source:
    graph = call.graph
    rounding = call.one_of(
        "nearest_mode",
        "round_prefer_floor",
        "round_prefer_floor",
        "round_prefer_ceil",
        "floor",
        "ceil",
    )
    return graph.convert(inside(graph, rounded_places(graph, places, rounding), size), T.i64)


def _weights(
    call: Call, mode: str, places: Source, size: Source, scale: Source, smooth: bool
) -> Source:
    """For each cell of the result the weights of the cells of the data, [result, size]. Cells
    before and behind the data repeat those at the border.
    """
    graph = call.graph
    one = graph.of_type(1.0, T.f64)
    stretch = graph.make("Minimum", scale, one) if smooth else one
    last = graph.minus(size, 1.0)
    if mode == "linear" and not smooth:
        places = inside(graph, places, size)
    reach = graph.plus(graph.make("Ceiling", graph.over(2.0, stretch)), 2.0)
    stop = graph.convert(graph.plus(size, graph.times(reach, 2.0)), T.i64)
    cells = graph.minus(graph.convert(graph.range(stop), T.f64), reach)
    apart = graph.make("Abs", graph.minus(graph.unsqueeze(cells, 0), graph.unsqueeze(places, 1)))
    apart = graph.times(apart, stretch)
    zero = graph.of_type(0.0, T.f64)
    if mode == "linear":
        each = graph.make("Maximum", graph.minus(1.0, apart), zero)
    else:
        each = cubic_weights(graph, apart, call.number("cubic_coeff_a", -0.75))
    if call.integer("exclude_outside"):
        exists = graph.make(
            "LogicalAnd",
            graph.make("GreaterEqual", cells, zero),
            graph.make("LessEqual", cells, last),
        )
        each = graph.select(exists, each, zero)
    each = graph.over(each, graph.reduce("ReduceSum", each, [1]))
    border = inside(graph, cells, size)
    own = graph.convert(graph.range(graph.convert(size, T.i64)), T.f64)
    same = graph.make("Equal", graph.unsqueeze(border, 1), graph.unsqueeze(own, 0))
    return graph.matmul(each, graph.convert(same, T.f64))


def _product(call: Call, data: Source, weights: Source, axis: int) -> Source:
    graph = call.graph
    rank = graph.rank(data)
    order = [i for i in range(rank) if i != axis] + [axis]
    matrix = graph.convert(weights, graph.type(data))
    moved = graph.matmul(graph.transpose(data, order), matrix, tb=True)
    return graph.transpose(moved, [order.index(i) for i in range(rank)])
