"""Resize and Upsample.

What Interpolate has is an Interpolate. The rest (crops, windows that are left out at borders, cubic
smoothing, a policy of aspects) is said as what it is for data of known size: a product with the
weights of each axis, or a look-up of the nearest cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import lowering
from uncork.types import Array, ElementType

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
    if (scales is None) == (sizes is None):
        raise ValidationError("expected either scales or sizes")
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
    )
    if not plain:
        return _by_weights(call, data, axes, scales, sizes, mode, how, policy, smooth)
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


def _by_weights(
    call: Call,
    data: Source,
    axes: Sequence[int],
    scales: Source | None,
    sizes: Source | None,
    mode: str,
    how: str,
    policy: str,
    smooth: bool,
) -> Source:
    """The data resized axis by axis, by numbers that are computed now."""
    graph = call.graph
    before = graph.sizes(data)
    lengths = [before[a] for a in axes]
    if None in lengths:
        raise call.refuse("this Resize of data of open size", "export the model with its sizes")
    known = [n or 0 for n in lengths]
    factors = (
        [float(s) for s in _values(call, scales, "scales")]
        if scales is not None
        else [n / o for n, o in zip(_values(call, sizes, "sizes"), known, strict=True)]
    )
    if scales is not None:
        results = [math.floor(n * f) for n, f in zip(known, factors, strict=True)]
    else:
        results = [int(n) for n in _values(call, sizes, "sizes")]
    if sizes is not None and policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        results = [math.floor(n * factor + 0.5) for n in known]
    if any(not 0 < n <= 1 << 20 for n in results):
        raise ValidationError(f"expected positive sizes, got {results}")
    region = _region(call, before, axes, how)
    kind = graph.type(data)
    if kind.is_integer and mode != "nearest":
        data = graph.convert(data, T.f32)
    outside: Source | None = None
    for i, axis in enumerate(axes):
        if (known[i], factors[i]) == (results[i], 1.0) and how != "tf_crop_and_resize":
            continue
        places = _coordinates(how, known[i], results[i], factors[i], region[i])
        if mode == "nearest":
            cells = _nearest(call.text("nearest_mode", "round_prefer_floor"), places, known[i])
            data = graph.gather(data, cells, axis)
        else:
            weights = _weights(call, mode, places, known[i], factors[i], smooth)
            data = _product(call, data, weights, axis)
        if how == "tf_crop_and_resize":
            out = (places < 0) | (places > known[i] - 1)
            shape = [-1 if d == axis else 1 for d in range(len(before))]
            mask = graph.constant(out.reshape(shape), T.boolean)
            outside = mask if outside is None else graph.make("LogicalOr", outside, mask)
    if outside is not None:
        beyond = graph.like(call.number("extrapolation_value"), data)
        data = graph.select(outside, beyond, data)
    if graph.type(data) is not kind:
        data = graph.convert(graph.make("Round", data), kind)
    return data


def _values(call: Call, source: Source | None, what: str) -> list[float]:
    assert source is not None
    value = call.graph.known(source)
    if value is None:
        call.graph.integers(source, what)  # which says that it is not known
        raise AssertionError
    return [float(v) for v in value.reshape(-1)]


def _region(
    call: Call, before: Sequence[int | None], axes: Sequence[int], how: str
) -> list[tuple[float, float]]:
    if how != "tf_crop_and_resize":
        return [(0.0, 1.0)] * len(axes)
    values = _values(call, call[1], "roi")
    half = len(values) // 2
    return list(zip(values[:half], values[half:], strict=True))


def _coordinates(
    how: str, size: int, result: int, scale: float, region: tuple[float, float]
) -> Array:
    """Where each cell of the result looks at the data."""
    x = np.arange(result, dtype=np.float64)
    if how == "align_corners":
        return x * (size - 1) / max(1, result - 1)
    if how == "asymmetric":
        return x / scale
    if how == "tf_half_pixel_for_nn":
        return (x + 0.5) / scale
    if how == "tf_crop_and_resize":
        start, end = region
        if result > 1:
            step = (end - start) * (size - 1) / (result - 1)
            return np.asarray(start * (size - 1) + x * step)
        return np.full(1, 0.5 * (start + end) * (size - 1))
    if how == "pytorch_half_pixel" and result == 1:
        return np.full(1, -0.5)
    if how == "half_pixel_symmetric":
        centre = size / 2
        return np.asarray(centre * (1 - result / (scale * size)) + (x + 0.5) / scale - 0.5)
    if how in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / scale - 0.5
    raise ValidationError(f"attribute 'coordinate_transformation_mode': got '{how:.60}'")


def _nearest(rounding: str, places: Array, size: int) -> list[int]:
    if rounding == "round_prefer_floor":
        cells = np.ceil(places - 0.5)
    elif rounding == "round_prefer_ceil":
        cells = np.floor(places + 0.5)
    elif rounding in ("floor", "ceil"):
        cells = np.floor(places) if rounding == "floor" else np.ceil(places)
    else:
        raise ValidationError(f"attribute 'nearest_mode': got '{rounding:.60}'")
    return [int(c) for c in np.clip(cells, 0, size - 1)]


def _weights(
    call: Call, mode: str, places: Array, size: int, scale: float, smooth: bool
) -> Array:
    """For each cell of the result, the weights of the cells of the data, [result, size]."""
    stretch = min(scale, 1.0) if smooth else 1.0
    a = call.number("cubic_coeff_a", -0.75)
    reach = math.ceil((2 if mode == "cubic" else 1) / stretch)
    weights = np.zeros((len(places), size))
    for row, place in enumerate(places):
        if mode == "linear" and not smooth:
            place = min(max(place, 0.0), size - 1.0)
        cells = np.arange(math.floor(place) - reach, math.floor(place) + reach + 2)
        distances = np.abs(cells - place) * stretch
        if mode == "linear":
            each = np.maximum(0.0, 1.0 - distances)
        else:
            near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
            far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
            each = np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))
        if call.integer("exclude_outside"):
            each = np.where((cells >= 0) & (cells < size), each, 0.0)
        np.add.at(weights[row], np.clip(cells, 0, size - 1), each / each.sum())
    return weights


def _product(call: Call, data: Source, weights: Array, axis: int) -> Source:
    graph = call.graph
    rank = graph.rank(data)
    order = [i for i in range(rank) if i != axis] + [axis]
    matrix = graph.constant(weights.astype(graph.type(data).dtype), graph.type(data))
    moved = graph.matmul(graph.transpose(data, order), matrix, tb=True)
    return graph.transpose(moved, [order.index(i) for i in range(rank)])
