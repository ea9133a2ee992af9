"""BinaryConvolution-1: a 2-D convolution of data and filters of bits, which stand for the numbers
-1 (0) and 1.

    output[n, o, p] = sum over c, k of
        sign(filters[o, c, k]) * sign(data[n, c, p * stride - pad_begin + k * dilation])

This is the page's 2 * popcount(xnor) - B. Cells outside the data are the number pad_value. Page:
operation-specs/convolution/binary-convolution-1; the arithmetic of windows stands in `_spatial.py`.
Decided:

- pad_value is one of the numbers that are added up, not a bit: 0 adds nothing, -1 stands for bits 0
  (as OpenVINO has it);
- the filters' bits are packed with the first one in the lowest bit of its byte, as converters write
  and OpenVINO reads them here, while u1 constants have it in the highest everywhere else: so each
  eight values of `filters` stand in reverse. A number of values that is no multiple of 8 is
  unsupported: the last ones lie in bits that a u1 tensor of that shape does not have;
- a value of data that is neither 0 nor 1 is refused.
"""

from __future__ import annotations

from uncork.errors import UnsupportedError
from uncork.ops._common.indices import refuse_first
from uncork.ops._common.spatial import Sliding, all_at_least
from uncork.ops._operation import register
from uncork.ops._ports import Attribute, Input, integers, number, one_of
from uncork.ops.convolution import correlate
from uncork.types import Array, ElementType, PartialShape, TensorSpec


@register("BinaryConvolution", 1)
class BinaryConvolution1(Sliding):
    """`data [N, C, H, W]`, `filters [O, C, kH, kW]` of u1 to `[N, O, ..]`."""

    multiplies = True
    filters = Input(frozenset({ElementType.u1}))
    planar = True
    dilations = Attribute(integers, check=all_at_least(1))
    mode = Attribute(one_of("xnor-popcount"))
    pad_value = Attribute(number)

    def infer(self, data: TensorSpec, filters: TensorSpec) -> PartialShape:
        inputs, weights = (
            self.with_rank("data", data.shape, 2),
            self.with_rank("filters", filters.shape, 2),
        )
        self.require_channels(inputs, weights[1], filters)
        count = weights.size
        UnsupportedError.when(
            not count.is_multiple_of(8),
            f"BinaryConvolution-1 with {count} bits in 'filters': expected a multiple of 8",
        )
        return PartialShape(
            [inputs[0], weights[0], *self.window_counts(inputs.dims[2:], weights.dims[2:])]
        )

    def reference(self, data: Array, filters: Array) -> Array:
        refuse_first(self, "data", data, (data != 0) & (data != 1), "0 or 1")
        bits = filters.reshape(-1, 8)[:, ::-1].reshape(1, *filters.shape)
        sums = correlate(
            2.0 * data - 1, 2.0 * bits - 1, self.slides(data, filters.shape[2:]), self.pad_value
        )
        return sums.astype(data.dtype)
