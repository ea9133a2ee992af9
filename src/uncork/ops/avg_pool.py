"""AvgPool-1, -14, -16: the mean of the cells under a window that slides over 1 to 3 spatial axes.

    output[n, c, p..] = sum over k.. of
        data[n, c, p * stride - pad_begin + k * dilation] / count[p..]

`count` is the number of cells of the window that lie in the data, with `exclude-pad` false in the
data or its padding. Cells that rounding up puts past the padding count in neither case. Pages:
operation-specs/pooling/avg-pool-1, -14 (adds ceil_torch), -16 (adds dilations),
pooling_shape_rules; what they leave open about windows is decided in `_spatial.py`. Decided here:

- the cells past the padding, as torch and ONNX have it (OpenVINO counts them when there is padding,
  and not when there is none);
- a window without a cell to count gives 0;
- integers are summed exactly, and the mean is rounded to the nearest, halves to even.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from uncork.ops._common.spatial import Slide, Sliding, all_at_least, reduced
from uncork.ops._operation import Operation, register
from uncork.ops._ports import Attribute, boolean, integers, one_of
from uncork.types import Array, Dimension, PartialShape, TensorSpec


class Pooling(Sliding):
    """The base of AvgPool and MaxPool: `data [N, C, d_1, ..]` to one value for each window of each
    channel.
    """

    kernel = Attribute(integers, check=all_at_least(1))

    def check_attributes(self) -> None:
        super().check_attributes()
        self.require(
            len(self.kernel) == self.axes,
            "attribute 'kernel': expected {} numbers, got {}",
            self.axes,
            list(self.kernel),
        )

    def pooled_shape(self, data: TensorSpec) -> PartialShape:
        shape = self.with_rank("data", data.shape, 2)
        return shape[:2] + self.window_counts(
            shape.dims[2:], [Dimension(k, k) for k in self.kernel]
        )


@register("AvgPool", 1)
class AvgPool1(Pooling):
    exclude_pad = Attribute(boolean)
    rounding_type = Attribute(one_of("floor", "ceil"), default="floor")

    # The file's name of the attribute has a dash, which no Python name can have.
    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Operation:
        return super().from_text(
            {name.replace("exclude-pad", "exclude_pad"): text for name, text in texts.items()}
        )

    def to_text(self) -> dict[str, str]:
        return {
            name.replace("exclude_pad", "exclude-pad"): text
            for name, text in super().to_text().items()
        }

    def infer(self, data: TensorSpec) -> PartialShape:
        return self.pooled_shape(data)

    def reference(self, data: Array) -> Array:
        slides = self.slides(data, self.kernel)
        # integers are summed in 64 bits
        wide = data if data.dtype.kind == "f" else data.astype(f"{data.dtype.kind}8")
        return mean(reduced(wide, slides, 0, np.add), self._counts(slides))

    def _counts(self, slides: Sequence[Slide]) -> Array:
        """The number of cells of each window that count: the product, over the axes, of those
        between two bounds.
        """
        along: list[Array] = []
        for s in slides:
            places = s.starts()[:, np.newaxis] + np.arange(s.kernel) * s.dilation
            low, high = (0, s.size) if self.exclude_pad else (-s.pad_begin, s.size + s.pad_end)
            along.append(((low <= places) & (places < high)).sum(axis=1))
        return functools.reduce(np.multiply.outer, along)


def mean(total: Array, count: Array) -> Array:
    """total / count, 0 where nothing is counted; of integers the nearest, halves to even."""
    divisor = np.maximum(count, 1).astype(total.dtype)
    if total.dtype.kind == "f":
        return np.where(count > 0, total / divisor, 0)
    floor, rest = np.divmod(total, divisor)
    double = rest * total.dtype.type(2)
    up = (double > divisor) | ((double == divisor) & (floor % 2 == 1))
    return np.where(count > 0, floor + up, 0)


@register("AvgPool", 14)
class AvgPool14(AvgPool1):
    rounding_type = Attribute(one_of("floor", "ceil", "ceil_torch"), default="floor")


@register("AvgPool", 16)
class AvgPool16(AvgPool14):
    dilations: Attribute[tuple[int, ...]] = Attribute(integers, default=(), check=all_at_least(1))
