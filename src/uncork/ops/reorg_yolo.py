"""ReorgYolo-2: blocks of an image moved into its channels, in the order of Darknet's reorg layer.

With an image `[N, C, H, W]`, the stride s and B = C / s^2 the input is read as `[N, B, H * s, W *
s]`, whatever its shape:

    output[n, c, h, w] = input[n, c mod B, h * s + (c div B) div s, w * s + (c div B) mod s]

and the output, so far of the input's shape, is given the shape `[N, C * s^2, H / s, W / s]`. Page:
operation-specs/detection/reorg-yolo-1 (files say opset2), which has the shapes only; the order is
that of Darknet and OpenVINO. C that is at least s^2 but no multiple is tolerated: as there B is cut
to an integer and images share elements (refused with `strict`).
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.shapes import divided, image_dims
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ANY, Attribute, Input, Output, at_least, integer
from uncork.types import Array, PartialShape, TensorSpec


@register("ReorgYolo", 2)
class ReorgYolo2(Operation):
    """`input [N, C, H, W]`; `stride` divides H and W."""

    input = Input(ANY, "T", moved=True)
    output = Output("T")
    stride = Attribute(integer, check=at_least(1))

    def infer(self, image: TensorSpec) -> PartialShape:
        batch, channels, *sides = image_dims(self, "input", image)
        block = self.stride**2
        self.require(
            channels.covers(block),
            "expected at least {} channels, stride^2, got {}",
            block,
            image.shape,
        )
        self.require(
            not self.strict or channels.is_multiple_of(block),
            "expected a multiple of {} channels, stride^2, got {}",
            block,
            image.shape,
        )
        parts = [
            divided(
                self,
                side,
                self.stride,
                "expected sides that stride {} divides, got {}",
                self.stride,
                image.shape,
            )
            for side in sides
        ]
        return PartialShape([batch, channels * block, *parts])

    def reference(self, image: Array) -> Array:
        s = self.stride
        batch, channels, height, width = image.shape
        n, c, h, w = np.ogrid[:batch, :channels, :height, :width]
        base = channels // s**2
        shift = c // base
        place = (
            ((n * base + c % base) * height * s + h * s + shift // s) * width * s
            + w * s
            + shift % s
        )
        return np.asarray(
            image.reshape(-1)[place].reshape(batch, channels * s**2, height // s, width // s)
        )
