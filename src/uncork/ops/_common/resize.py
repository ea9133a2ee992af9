"""How one axis is resized: the coordinate that each cell of the output looks at, and the cells and
weights that follow from it.

The formulas, and what is decided about them, stand in `interpolate.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.types import Array

#: For each cell of the output some cells of the data and their weights: two arrays [output, taps].
Taps = tuple[Array, Array]


class Settings(Struct, frozen=True):
    """The attributes of Interpolate that say how it resizes; see its page."""

    mode: str
    coordinate_transformation_mode: str
    nearest_mode: str
    antialias: bool
    cube_coeff: float


class Axis(Struct, frozen=True):
    """The resizing of one axis. `scale` is None where the sizes say it."""

    axis: int
    size: int
    result: int
    scale: Array | None

    @property
    def factor(self) -> float:
        return self.result / self.size if self.scale is None else float(self.scale)

    def coordinates(self, mode: str) -> Array:
        """c(x) for each x of the output."""
        if self.size == self.result:
            return np.arange(self.result, dtype=np.float64)
        if mode == "align_corners":
            return np.arange(self.result) * (self.size - 1) / max(1, self.result - 1)
        if mode == "pytorch_half_pixel" and self.result == 1:
            return np.zeros(1)
        centre = 0.0 if mode == "asymmetric" else 0.5
        back = centre if mode != "tf_half_pixel_for_nn" else 0.0
        if self.scale is None:
            return (np.arange(self.result) + centre) * self.size / self.result - back
        places = np.arange(self.result, dtype=self.scale.dtype) + self.scale.dtype.type(centre)
        return np.asarray(places / self.scale - self.scale.dtype.type(back), np.float64)


def resize(data: Array, axes: Sequence[Axis], how: Settings) -> Array:
    """Padded data, resized along each of the axes."""
    results = list(data.shape)
    for a in axes:
        results[a.axis] = a.result
    if 0 in results:
        return np.zeros(results, data.dtype)
    changed = [a for a in axes if a.size != a.result]
    if how.mode == "nearest":
        for a in changed:
            cells = nearest_cells(
                a, a.coordinates(how.coordinate_transformation_mode), how.nearest_mode
            )
            data = data.take(cells, axis=a.axis)
        return data
    if how.mode == "linear_onnx" and data.dtype.kind != "f" and data.dtype.itemsize == 1:
        return linear_onnx_of_bytes(data, changed, how.coordinate_transformation_mode)
    smoothed = how.antialias and any(a.factor < 1 for a in axes)
    by_pillow = how.mode.endswith("pillow")
    values = data if data.dtype.kind == "f" else data.astype(np.float64)
    for a in sorted(changed, key=lambda a: -a.axis) if by_pillow else changed:
        values = weighted(values, a.axis, taps(a, how, smoothed))
        if by_pillow and data.dtype.kind != "f":
            values = whole(values, data).astype(np.float64)
    return whole(values, data)


def nearest_cells(axis: Axis, coordinates: Array, rounding: str) -> Array:
    if rounding == "simple":
        rounding = "ceil" if axis.factor < 1 else "floor"
    halves = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(rounding, 0.0)
    # halves down: what is more than half is rounded up
    up = rounding in ("ceil", "round_prefer_floor")
    rounded = np.ceil(coordinates + halves) if up else np.floor(coordinates + halves)
    return np.clip(rounded, 0, axis.size - 1).astype(np.int64)


def mean_taps(size: int, centres: Array, radius: float, kernel: Callable[[Array], Array]) -> Taps:
    """The cells of the data within `radius` of each centre, and their weights by distance, which
    are made to sum up to 1.
    """
    cells = np.ceil(centres - radius)[:, np.newaxis] + np.arange(int(2 * radius) + 1)
    weights = np.where((cells >= 0) & (cells < size), kernel(cells - centres[:, np.newaxis]), 0)
    total = weights.sum(axis=1, keepdims=True)
    return np.clip(cells, 0, size - 1).astype(np.int64), np.where(
        total == 0, 0, weights / np.where(total == 0, 1, total)
    )


def linear_onnx_taps(axis: Axis, coordinates: Array) -> Taps:
    inside = np.clip(coordinates, 0, axis.size - 1)
    low = np.floor(inside).astype(np.int64)
    part = inside - low
    return np.stack([low, np.minimum(low + 1, axis.size - 1)], axis=1), np.stack(
        [1 - part, part], axis=1
    )


def linear_onnx_of_bytes(data: Array, axes: Sequence[Axis], transformation: str) -> Array:
    """linear_onnx in the arithmetic that pictures are resized with elsewhere (decided in
    interpolate.py).
    """
    values = data.astype(np.float32)
    for axis in sorted(axes, key=lambda a: -a.axis):
        cells, weights = linear_onnx_taps(axis, coordinates_in_f32(axis, transformation))
        along = [1] * data.ndim
        along[axis.axis] = axis.result
        low, high = (values.take(c, axis=axis.axis) for c in cells.T)
        low_weight, high_weight = (w.astype(np.float32).reshape(along) for w in weights.T)
        # Rows round the product of the low cell and add the other unrounded; columns and depth the
        # other way round.
        products = [(low, low_weight), (high, high_weight)]
        if axis.axis == data.ndim - 2:
            products.reverse()
        values = fused_multiply_add(*products[0], products[1][0] * products[1][1])
    return whole(values, data)


def coordinates_in_f32(axis: Axis, transformation: str) -> Array:
    """`Axis.coordinates`, each step of it rounded to f32."""
    if transformation == "align_corners" and axis.result > 1:
        step = np.float32(axis.size - 1) / np.float32(axis.result - 1)
        return np.asarray(np.arange(axis.result, dtype=np.float32) * step)
    scale = np.float32(axis.factor) if axis.scale is None else axis.scale.astype(np.float32)
    return np.asarray(replace(axis, scale=scale).coordinates(transformation), np.float32)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of f32, rounded once: f64 holds the product exactly."""
    return np.asarray((a.astype(np.float64) * b + c).astype(np.float32))


def cubic_taps(axis: Axis, coordinates: Array, coefficient: float) -> Taps:
    cells = np.floor(coordinates)[:, np.newaxis] + np.arange(-1, 3)
    return np.clip(cells, 0, axis.size - 1).astype(np.int64), keys_kernel(
        cells - coordinates[:, np.newaxis], coefficient
    )


def pillow_taps(axis: Axis, kernel: Callable[[Array], Array], radius: float) -> Taps:
    step = axis.size / axis.result
    stretch = max(1.0, step)
    centres = (np.arange(axis.result) + 0.5) * step - 0.5
    return mean_taps(
        axis.size, centres, radius * stretch, lambda distance: kernel(distance / stretch)
    )


def taps_of_place(axis: Axis, how: Settings, smoothed: bool) -> int:
    """How many cells a place of the result is made of, at most."""
    if how.mode == "nearest":
        return 1
    narrow = 1 / axis.factor if smoothed or how.mode.endswith("pillow") else 1.0
    radius = 2.0 if how.mode in ("cubic", "bicubic_pillow") else 1.0
    return math.ceil(2 * radius * max(1.0, narrow)) + 2


def taps(axis: Axis, how: Settings, smoothed: bool) -> Taps:
    """The cells and weights of every mode but nearest."""
    if how.mode == "bilinear_pillow":
        return pillow_taps(axis, triangle_kernel, 1.0)
    if how.mode == "bicubic_pillow":
        # The attribute's default is cubic's; Pillow's own is the other (decided in interpolate.py).
        coefficient = -0.5 if how.cube_coeff == -0.75 else how.cube_coeff
        return pillow_taps(axis, lambda distance: keys_kernel(distance, coefficient), 2.0)
    coordinates = axis.coordinates(how.coordinate_transformation_mode)
    if how.mode == "linear_onnx":
        return linear_onnx_taps(axis, coordinates)
    if how.mode == "cubic":
        return cubic_taps(axis, coordinates, how.cube_coeff)
    a = axis.factor if smoothed else 1.0
    return mean_taps(axis.size, coordinates, 1 / a, lambda distance: triangle_kernel(a * distance))


def triangle_kernel(distance: Array) -> Array:
    return np.asarray(np.clip(1 - np.abs(distance), 0, None))


def keys_kernel(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d < 1, near, np.where(d < 2, far, 0))


def weighted(data: Array, axis: int, cells_and_weights: Taps) -> Array:
    """The weighted sums along an axis."""
    cells, weights = cells_and_weights
    along = [1] * data.ndim
    along[axis] = len(cells)
    total: Array = np.zeros(1, data.dtype)
    for cell, weight in zip(cells.T, weights.T, strict=True):
        total = total + data.take(cell, axis=axis) * weight.astype(data.dtype).reshape(along)
    return total


def whole(values: Array, like: Array) -> Array:
    """Values for the type of `like`: for an integer type rounded, halves to even, and limited to
    its range; floats as they are.
    """
    if like.dtype.kind == "f":
        return values
    limits = np.iinfo(like.dtype)
    rounded = np.rint(values)
    # Limits of 64 bits are no floats: the comparison finds what is beyond, the cast never sees it.
    inside = np.where(
        (rounded < float(limits.max)) & (rounded > float(limits.min)), rounded, 0
    ).astype(like.dtype)
    return np.where(
        rounded >= float(limits.max),
        limits.max,
        np.where(rounded <= float(limits.min), limits.min, inside),
    )
