"""Interpolate-1, -4, -11: resizes along some axes, one after the other.

Along an axis, cell x of the output looks at the coordinate c(x) of the padded data, by
coordinate_transformation_mode, with scale = output size / input size, or the number given as the
scale:

    half_pixel            (x + 0.5) / scale - 0.5
    pytorch_half_pixel    the same, 0 when the output has one cell
    asymmetric            x / scale
    tf_half_pixel_for_nn  (x + 0.5) / scale
    align_corners         x * (input - 1) / (output - 1)

    nearest           the cell at c rounded by nearest_mode, the border cell when that is outside
    linear            the mean of the cells inside by the weights max(0, 1 - |a * (c - cell)|);
                      a = 1, or the scale when antialias is set and some axis shrinks
    linear_onnx       c is moved into the data, then the two cells around it by their distances
    cubic             the four cells around c by Keys' kernel with `cube_coeff`;
                      border cells repeat outside
    *_pillow          the mean by a triangle (bilinear) or Keys' kernel (bicubic), stretched by
                      input / output when that shrinks

Pages: operation-specs/image/interpolate-1, -4, -11. Decided where they are silent or contradict
themselves:

- an axis that keeps its size is copied, whatever the transformation mode and the scale
  (tf_half_pixel_for_nn would shift it);
- with `sizes` the scale is exact, so that a coordinate that should be whole is; with `scales`
  coordinates are computed in the type of `scales` (f32 at least), as everywhere;
- scales are rounded quotients, and 10**-6 is added before the size is cut to a whole number, as
  OpenVINO does and files rely on: 21 * (57 / 21) is 57 cells and not 56. No more than that: a
  product that is whole, or a million cells, gain none;
- round_prefer_floor and round_prefer_ceil round halves down and up, as the text says (the page's
  code rounds them to even);
- linear where no cell has a weight gives 0, as the page's code does;
- linear_onnx takes any axes; the pages' lists of ranks and axes are those of one implementation;
- pads shorter than the rank are continued with zeros; Interpolate-1's single number holds for each
  of its axes;
- bicubic_pillow with a cube_coeff of -0.75, the default "applicable for cubic", means Pillow's own
  -0.5: converters leave the default there (OpenVINO takes -0.5 whatever is written);
- integers are computed in f64 and rounded to the nearest, halves to even, once (*_pillow: after
  each axis, the last axis first, as Pillow does); values beyond the type's range become its limits;
- linear_onnx of u8 and i8 (pictures) is computed in f32 as OpenVINO does it: the innermost axis
  first, coordinates in f32, the last product of an axis added without rounding it. A value just
  between two integers goes where these roundings move it;
- antialias changes linear only, as in the page's code (OpenVINO's CPU plugin ignores it there too);
- Interpolate-1 names no coordinates. It means align_corners, or without that asymmetric; but
  half_pixel for linear without padding unless the axes are 2 and 3 of four. nearest rounds by
  `simple`. Its mode `area` is defined nowhere: unsupported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from uncork.errors import UnsupportedError
from uncork.ops._common.resize import Axis, Settings, resize
from uncork.ops._common.shapes import check_array_fits
from uncork.ops._common.spatial import all_at_least
from uncork.ops._common.vectors import Numbers, demand_size, vector
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    ARITHMETIC,
    INTEGER,
    REAL,
    Attribute,
    Input,
    Output,
    boolean,
    describe_types,
    integers,
    number,
    one_of,
)
from uncork.storage import decode
from uncork.symbolic import Size, floor
from uncork.types import DYNAMIC, Array, Dimension, Element, ElementType, PartialShape, TensorSpec

_TRANSFORMATIONS = one_of(
    "half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"
)
_ROUNDINGS = one_of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


class Interpolating(Operation):
    """The base of all versions."""

    output = Output("T")
    antialias = Attribute(boolean, default=False)
    pads_begin: Attribute[tuple[int, ...]] = Attribute(
        integers, default=(0,), check=all_at_least(0)
    )
    pads_end: Attribute[tuple[int, ...]] = Attribute(integers, default=(0,), check=all_at_least(0))

    def pads(self, rank: int) -> list[tuple[int, int]]:
        """The padding of each dimension: its begin and its end."""
        for name, given in (("pads_begin", self.pads_begin), ("pads_end", self.pads_end)):
            self.require(
                len(given) <= rank,
                "attribute '{}': expected at most {} numbers, got {}",
                name,
                rank,
                list(given),
            )
        filled = (
            list(given) + [0] * (rank - len(given)) for given in (self.pads_begin, self.pads_end)
        )
        return list(zip(*filled, strict=True))

    def padded_shape(self, shape: PartialShape) -> list[Dimension]:
        return [
            dim + begin + end
            for dim, (begin, end) in zip(shape, self.pads(len(shape)), strict=True)
        ]

    def settings(self, is_padded: bool, rank: int) -> Settings:
        """The attributes that say how data of a rank is resized."""
        raise NotImplementedError

    @property
    def by_sizes(self) -> bool:
        """Whether sizes say how axes are resized, not scales."""
        raise NotImplementedError

    def chosen(self, *inputs: Any) -> tuple[Any, Any]:
        """Of the inputs behind the data that with the sizes or scales, and that with the axes, None
        where no input says these.
        """
        return inputs[0], None if len(inputs) < 2 else inputs[1]

    def changes(self, sizes: Sequence[int], axes: Sequence[int], wanted: Array) -> list[Axis]:
        """How padded data of these sizes changes along each of the axes."""
        if self.by_sizes:
            return [Axis(a, sizes[a], int(n), None) for a, n in zip(axes, wanted, strict=True)]
        return [
            Axis(a, sizes[a], scaled_size(sizes[a], scale), scale)
            for a, scale in zip(axes, at_least_f32(wanted), strict=True)
        ]

    def interpolated(self, data: Array, axes: Sequence[int], wanted: Array) -> Array:
        padded = self.padded(data)
        how = self.settings(padded.shape != data.shape, data.ndim)
        return resize(padded, self.changes(padded.shape, axes, wanted), how)

    def padded(self, data: Array) -> Array:
        pads = self.pads(data.ndim)
        check_array_fits(
            [begin + size + end for size, (begin, end) in zip(data.shape, pads, strict=True)], data
        )
        return np.pad(data, pads)

    def sized(self, name: str, position: int, size: Dimension, wanted: Element) -> Dimension:
        """The size of a resized axis, from the number that is wanted."""
        if isinstance(wanted, Size):
            demand_size(self, name, wanted)
            # A wanted size of 0 would do for open data, too; no model asks for it.
            self.require(
                size.covers(1) or Dimension.of(wanted).agrees(0),
                "an axis without cells cannot be resized to {} cells",
                wanted,
            )
            return Dimension.of(wanted)
        self.require(
            wanted is None or wanted >= 0,
            "input '{}': {}[{}] is {}, expected a size",
            name,
            name,
            position,
            wanted,
        )
        self.require(
            not wanted or size.covers(1),
            "an axis without cells cannot be resized to {} cells",
            wanted,
        )
        return Dimension.of(wanted)


@register("Interpolate", 1)
class Interpolate1(Interpolating):
    """`data`, the sizes of the `axes`."""

    data = Input(REAL, "T")
    target_spatial_shape = Input(INTEGER)
    axes = Attribute(integers, check=all_at_least(0))
    mode = Attribute(one_of("nearest", "linear", "cubic", "area"))
    align_corners = Attribute(boolean, default=True)

    def check_attributes(self) -> None:
        self.require(
            len(set(self.axes)) == len(self.axes),
            "attribute 'axes': {} name an axis twice",
            list(self.axes),
        )
        UnsupportedError.when(
            self.mode == "area", "Interpolate-1 with mode 'area': its page does not define it"
        )

    def pads(self, rank: int) -> list[tuple[int, int]]:
        if len(self.pads_begin) == len(self.pads_end) == 1:
            return [
                (self.pads_begin[0], self.pads_end[0]) if axis in self.axes else (0, 0)
                for axis in range(rank)
            ]
        return super().pads(rank)

    def infer(self, data: TensorSpec, target_spatial_shape: TensorSpec) -> PartialShape:
        sizes = vector(self, "target_spatial_shape", target_spatial_shape)
        self.require(
            sizes is None or len(sizes) == len(self.axes),
            "input 'target_spatial_shape': expected one number for each of the axes {}, got {}",
            list(self.axes),
            sizes,
        )
        if data.rank is None:
            return PartialShape()
        outside = [a for a in self.axes if a >= len(data.shape)]
        self.require(not outside, "attribute 'axes': {} are outside data {}", outside, data.shape)
        results = self.padded_shape(data.shape)
        wanted = target_spatial_shape.sizes()
        for position, axis in enumerate(self.axes):
            results[axis] = self.sized(
                "target_spatial_shape",
                position,
                results[axis],
                wanted[position] if wanted else None,
            )
        return PartialShape(results)

    def reference(self, data: Array, target_spatial_shape: Array) -> Array:
        return self.interpolated(data, self.axes, target_spatial_shape)

    @property
    def by_sizes(self) -> bool:
        return True

    def settings(self, is_padded: bool, rank: int) -> Settings:
        centred = (
            self.mode == "linear" and not is_padded and not (rank == 4 and set(self.axes) == {2, 3})
        )
        transformation = (
            "align_corners" if self.align_corners else "half_pixel" if centred else "asymmetric"
        )
        return Settings(self.mode, transformation, "simple", self.antialias, -0.75)


class InterpolateByInputs(Interpolating):
    """The base of Interpolate-4 and -11, where sizes or scales, and axes, are inputs."""

    shape_calculation_mode = Attribute(one_of("sizes", "scales"))
    coordinate_transformation_mode = Attribute(_TRANSFORMATIONS, default="half_pixel")
    nearest_mode = Attribute(_ROUNDINGS, default="round_prefer_floor")
    cube_coeff = Attribute(number, default=-0.75)
    mode: str

    def inferred(
        self, data: TensorSpec, name: str, wanted: TensorSpec, axes: TensorSpec | None
    ) -> PartialShape:
        """The output's shape. `wanted` is the input called `name`, which holds sizes or scales."""
        by_sizes = self.by_sizes
        # Scales are no integers, but as many as there are: their values are read below.
        vector(self, name, wanted if by_sizes else TensorSpec(ElementType.i64, wanted.shape))
        known = None if axes is None else vector(self, "axes", axes)
        if axes is not None:
            self._check_count(name, wanted, None if known is None else len(known))
        if data.rank is None:
            return PartialShape()
        places = self._axes(known, data.shape, axes is None)
        results = self.padded_shape(data.shape)
        if places is None:
            return PartialShape([DYNAMIC] * len(results))
        self._check_count(name, wanted, len(places))
        scales = (
            None
            if by_sizes or wanted.value is None
            else at_least_f32(decode(wanted.value, wanted.element_type))
        )
        sizes = wanted.sizes() if by_sizes else None
        for position, axis in enumerate(places):
            if axis is None:
                return PartialShape([DYNAMIC] * len(results))
            if by_sizes:
                results[axis] = self.sized(
                    name, position, results[axis], sizes[position] if sizes else None
                )
            else:
                results[axis] = self._scaled(
                    name, position, results[axis], None if scales is None else scales[position]
                )
        return PartialShape(results)

    def _check_count(self, name: str, given: TensorSpec, axes: int | None) -> None:
        self.require(
            axes is None or given.rank is None or given.shape[0].agrees(axes),
            "input '{}': expected one number for each of {} axes, got {}",
            name,
            axes,
            given.shape[0] if given.rank else None,
        )

    def _axes(
        self, known: Numbers | None, shape: PartialShape, all_of_them: bool
    ) -> Numbers | None:
        if all_of_them:
            return list(range(len(shape)))
        if known is None:
            return None
        for axis in known:
            self.require(
                axis is None or 0 <= axis < len(shape),
                "input 'axes': {} is outside 0..{} for data {}",
                axis,
                len(shape) - 1,
                shape,
            )
        given = [a for a in known if a is not None]
        self.require(len(set(given)) == len(given), "input 'axes': {} name an axis twice", known)
        return known

    def _scaled(self, name: str, position: int, size: Dimension, scale: Array | None) -> Dimension:
        if scale is None:
            return DYNAMIC
        self.require(
            bool(np.isfinite(scale) and scale > 0),
            "input '{}': {}[{}] is {}, expected a positive number",
            name,
            name,
            position,
            scale,
        )
        if size.is_open and (scaled := scaled_open(size, scale)) is not None:
            return scaled
        return Dimension(
            scaled_size(size.low, scale),
            None if size.high is None else scaled_size(size.high, scale),
        )

    @property
    def by_sizes(self) -> bool:
        return self.shape_calculation_mode == "sizes"

    def reference(self, data: Array, *inputs: Any) -> Array:
        wanted, axes = self.chosen(*inputs)
        return self.interpolated(data, range(data.ndim) if axes is None else axes.tolist(), wanted)

    def settings(self, is_padded: bool, rank: int) -> Settings:
        return Settings(
            self.mode,
            self.coordinate_transformation_mode,
            self.nearest_mode,
            self.antialias,
            self.cube_coeff,
        )


def at_least_f32(scales: Array) -> Array:
    return scales if scales.dtype == np.float64 else np.asarray(scales, np.float32)


def scaled_size(size: int, scale: Array) -> int:
    """floor(scale * size), but a product that misses a whole number by at most size / 10**6 is that
    number.
    """
    kind = scale.dtype.type
    return (
        size
        if scale == 1
        else min(math.floor((scale + kind(1e-6)) * kind(size)), math.ceil(float(scale) * size))
    )


#: Sizes up to this one are tried to find the fraction that a scale stands for.
_LONGEST = 2**14


def scaled_open(size: Dimension, scale: Array) -> Dimension | None:
    """The `scaled_size` of a size that is an expression: floor(p / q * size), for as long as that
    is equal to it; None when there is no such p / q.

    A scale is a rounded quotient. Which sizes the quotient fits is found by trying, and a guard
    holds the call to them.
    """
    expression = size.expression
    facts = None if expression is None else expression.facts
    if expression is None or facts is None:
        return None
    ratio = Fraction(float(scale)).limit_denominator(1000)
    if ratio == Fraction(float(scale)) and ratio.denominator == 1:
        # whatever is added to a whole scale is cut off again
        return Dimension.of(expression * ratio.numerator)
    sizes = np.arange(_LONGEST + 1)
    sought = np.minimum(
        np.floor((scale + scale.dtype.type(1e-6)) * sizes.astype(scale.dtype)),
        np.ceil(float(scale) * sizes),
    )
    wrong = np.flatnonzero(sought != sizes * ratio.numerator // ratio.denominator)
    longest = int(wrong[0]) - 1 if len(wrong) else _LONGEST
    if longest < 1 or not facts.suppose_at_least(longest, expression):
        return None
    return Dimension.of(floor(expression * ratio))


@register("Interpolate", 4)
class Interpolate4(InterpolateByInputs):
    """`data`, `sizes` and `scales` of which shape_calculation_mode says one, `axes` (all when
    absent).
    """

    data = Input(ARITHMETIC, "T")
    sizes = Input(INTEGER)
    scales = Input(REAL)
    axes = Input(INTEGER, optional=True)
    mode = Attribute(one_of("nearest", "linear", "linear_onnx", "cubic"))

    def chosen(self, *inputs: Any) -> tuple[Any, Any]:
        sizes, scales, *axes = inputs
        return sizes if self.by_sizes else scales, axes[0] if axes else None

    def infer(self, data: TensorSpec, *inputs: TensorSpec | None) -> PartialShape:
        wanted, axes = self.chosen(*inputs)
        return self.inferred(data, self.shape_calculation_mode, wanted, axes)


@register("Interpolate", 11)
class Interpolate11(InterpolateByInputs):
    """`image`, sizes or scales, `axes` (all when absent)."""

    image = Input(ARITHMETIC, "T")
    scales_or_sizes = Input(INTEGER | REAL)
    axes = Input(INTEGER, optional=True)
    mode = Attribute(
        one_of("nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow")
    )

    def infer(
        self, image: TensorSpec, scales_or_sizes: TensorSpec, axes: TensorSpec | None
    ) -> PartialShape:
        expected = INTEGER if self.by_sizes else REAL
        self.require(
            scales_or_sizes.element_type in expected,
            "input 'scales_or_sizes': expected {} by shape_calculation_mode '{}', got {}",
            describe_types(expected),
            self.shape_calculation_mode,
            scales_or_sizes.element_type,
        )
        return self.inferred(image, "scales_or_sizes", scales_or_sizes, axes)
