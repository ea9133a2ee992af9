"""Which kernel convolves: over planes of pixels, or window by window where an image has few of them."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.fused_convolution import FusedConvolution
from uncork.kernels.convolution import direct as convolution_planes
from uncork.kernels.convolution import im2col as convolution_rows
from uncork.kernels.convolution.geometry import Work, geometry
from uncork.kernels.runtime.kernel_cache import lanes
from uncork.kernels.select import Choice, chooses
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1, GroupConvolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1, GroupConvolutionBackpropData1
from uncork.types import ElementType, TensorSpec

#: Bytes of an image's data: tables of the kernels have 32 bits for a place in it.
_LARGEST = 1 << 31


@chooses(Convolution1, GroupConvolution1, ConvolutionBackpropData1, GroupConvolutionBackpropData1, FusedConvolution)
def choose_convolution(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data, filters = inputs[0], inputs[1]
    assert data is not None and filters is not None
    fused = isinstance(operation, FusedConvolution)
    product = operation.product if isinstance(operation, FusedConvolution) else operation
    bias = fused and len(inputs) > 2 and inputs[2] is not None
    sized = len(inputs) > (3 if fused else 2)
    activation = operation.activation if isinstance(operation, FusedConvolution) else None
    if data.element_type is not ElementType.f32:
        return f"no kernel for {data.element_type}"
    if not data.shape.is_static or not outputs[0].shape.is_static:
        return "shapes are known at the call only"
    if filters.value is None:
        return "no kernel for filters that are known at the call only"
    sizes, output = data.shape.static, outputs[0].shape.static
    if 0 in sizes or 0 in output or 0 in filters.value.shape:
        return "no kernel for empty tensors"
    found = geometry(product, sizes, filters.value, output, sized)
    if isinstance(found, str):
        return found
    g, ordered = found
    seen = max(g.cells, g.rows.reach(g.rows.count) * g.columns.reach(g.columns.count))
    if g.groups * g.channels * seen * 4 >= _LARGEST:
        return "no kernel for images of 2 GB and more"
    work = Work(g, ordered, filters.value, product.type_name, bias, "" if activation is None else activation.type_name.lower())
    widest = lanes()
    few_pixels = not convolution_planes.for_themselves(g) and convolution_rows.cost(g, widest) < convolution_planes.cost(g, widest)
    return (convolution_rows.by_rows if few_pixels else convolution_planes.over_planes)(work, widest)
