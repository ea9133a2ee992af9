"""RegionYolo-1: the numbers of YOLO's last layer as places, sizes and probabilities.

The channels of `data` are R regions of coords + 1 + classes numbers. For each region and cell

    x, y (the first two coordinates)    sigmoid        the other coordinates    as they are
    objectness                          sigmoid
    classes                             softmax over them, or sigmoid with do_softmax = false

R is `num` with do_softmax, and then the axes from `axis` to `end_axis` become one; else R is the
number of `mask`. Page: operation-specs/detection/region-yolo-1, which gives shapes and names the
paper (YOLO9000) for the rest. Decided:

- the channels must be just those of R regions; OpenVINO takes more, and reads across images then;
- `anchors` do not matter here, as the page says.
"""

from __future__ import annotations

import math

import numpy as np

from uncork.ops._common.elementwise import sigmoid
from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.shapes import image_dims
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import (
    Attribute,
    at_least,
    boolean,
    integer,
    integers,
    numbers,
)
from uncork.ops.softmax import softmax
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("RegionYolo", 1)
class RegionYolo1(OfReals):
    """`data [N, R * (coords + 1 + classes), H, W]` to the same shape, or with do_softmax to one
    with fewer axes.
    """

    anchors = Attribute(numbers, default=())
    axis = Attribute(integer)
    coords = Attribute(integer, check=at_least(0))
    classes = Attribute(integer, check=at_least(0))
    end_axis = Attribute(integer)
    num = Attribute(integer, check=at_least(0))
    do_softmax = Attribute(boolean, default=True)
    mask: Attribute[tuple[int, ...]] = Attribute(integers, default=())

    def check_attributes(self) -> None:
        axis, end = (
            normalised_axis(self, number, 4, name)
            for number, name in ((self.axis, "axis"), (self.end_axis, "end_axis"))
        )
        self.require(
            axis <= end or not self.do_softmax,
            "expected end_axis not before axis, got axis {} and end_axis {}",
            self.axis,
            self.end_axis,
        )

    @property
    def regions(self) -> int:
        return self.num if self.do_softmax else len(self.mask)

    def infer(self, data: TensorSpec) -> PartialShape:
        images, channels, *sides = image_dims(self, "data", data)
        needed = self.regions * (self.coords + 1 + self.classes)
        self.require(
            channels.agrees(needed),
            "input 'data': expected {} channels for {} regions, got shape {}",
            needed,
            self.regions,
            data.shape,
        )
        dims = [images, Dimension.of(needed), *sides]
        if not self.do_softmax:
            return PartialShape(dims)
        first, last = self.axis % 4, self.end_axis % 4
        return PartialShape(
            [*dims[:first], PartialShape(dims[first : last + 1]).size, *dims[last + 1 :]]
        )

    def reference(self, data: Array) -> Array:
        images, _, *sides = data.shape
        regions = data.reshape(images, self.regions, self.coords + 1 + self.classes, *sides)
        places, sizes, objectness, classes = np.split(
            regions, [min(2, self.coords), self.coords, self.coords + 1], axis=2
        )
        probabilities = softmax(classes, 2) if self.do_softmax else sigmoid(classes)
        result = np.concatenate(
            [sigmoid(places), sizes, sigmoid(objectness), probabilities], axis=2
        ).reshape(data.shape)
        if not self.do_softmax:
            return result
        first, last = self.axis % 4, self.end_axis % 4
        return result.reshape(
            *data.shape[:first], math.prod(data.shape[first : last + 1]), *data.shape[last + 1 :]
        )
