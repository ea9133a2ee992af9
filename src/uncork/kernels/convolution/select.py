"""Selection of a convolution's kernel: over planes of pixels, or window by window where an image
has few.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.internal_ops.blocks import BlockedConvolution
from uncork.internal_ops.fused import FusedConvolution, product_of
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.kernels.convolution import direct, im2col
from uncork.kernels.convolution.blocked_work import BlockedWork, Filters
from uncork.kernels.convolution.blocks import direct_over_blocks, transposed_over_blocks
from uncork.kernels.convolution.blocks_apart import (
    are_blocks,
    depthwise_over_blocks,
    groups_fit,
    winograd_over_blocks,
)
from uncork.kernels.convolution.by_nest import by_nest
from uncork.kernels.convolution.by_pixels import by_pixels
from uncork.kernels.convolution.by_planes import by_phases, over_volumes, phases_pay
from uncork.kernels.convolution.geometry import (
    Geometry,
    Work,
    all_finite,
    geometry_of,
    known,
    plan_bytes,
    typical,
    windows,
)
from uncork.kernels.convolution.phases import are_spread, have_phases
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import decline_if, extents, is_empty
from uncork.kernels.kernel_plan import KernelPlan, Selection
from uncork.kernels.layer import Layer, present
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import bounded, epilogue_of, roughened
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.types import ElementType, TensorSpec

#: Bytes of an image's data: tables of the kernels have 32 bits for a place in it.
_LARGEST = 1 << 31


def select_convolution(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    data, filters = layer.input(0), layer.input(1)
    product = product_of(operation)
    sized = given_sizes(operation, inputs)
    if isinstance(operation, Convolution1) and (
        filters.value is None or data.element_type is not ElementType.f32
    ):
        return by_nest(operation, inputs, outputs[0], target)
    decline_if(data.element_type is not ElementType.f32, f"no kernel for {data.element_type}")
    source = layer.constant(1, "no kernel for filters that are")
    sizes, output = extents(data), extents(outputs[0])
    decline_if(is_empty((*sizes, *output, *source.shape)), "no kernel for empty tensors")
    result = windows(product, sizes, source, output, sized)
    channels = result.filters.shape[0] * result.filters.shape[2]
    layer.require_room(plan_bytes(result.images, channels, result.axes))
    end, others = epilogue_of(operation, inputs, outputs[0], 1)
    ordered = result.filters

    def work(g: Geometry) -> Work:
        """The work of a geometry, with the filters as they are."""
        return Work(g, ordered, source, product.type_name, end, others)

    def planes(work: Work) -> KernelPlan:
        return planar(work, target)

    if len(result.axes) > 2:
        return over_volumes(result, work, planes, target.lanes)
    if phases_pay(result, end.operands):
        return by_phases(result, work, planes, target.lanes)
    whole = work(result.geometry)
    whole = replace(whole, filters=result.ordered(whole.geometry))
    few = _few_pixels(whole.geometry, target.lanes)
    return (by_pixels(whole, target) if few else None) or planes(whole)


def given_sizes(operation: Operation, inputs: Sequence[TensorSpec | None]) -> bool:
    """Whether the sizes of a transposed convolution's result are an input, the third one."""
    given = operation.given if isinstance(operation, FusedConvolution) else len(inputs)
    return given > 2


def planar(work: Work, target: Target) -> KernelPlan:
    """The plan of a convolution over planes of pixels, or by im2col where that is cheaper."""
    g = work.geometry
    decline_if(
        not g.is_open and g.groups * g.channels * _seen(g) * 4 >= _LARGEST,
        "no kernel for images of 2 GB and more",
    )
    if _few_pixels(g, target.lanes):
        return im2col.by_rows(work, target.lanes)
    return direct.over_planes(work, target)


def _few_pixels(g: Geometry, widest: int) -> bool:
    """Whether a convolution goes window by window, with typical numbers for open sizes."""
    one = typical(g)
    return (
        not direct.is_depthwise(g)
        and im2col.serves(g)
        and im2col.cost(one, widest) < direct.cost(one, widest)
    )


def select_blocked(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(BlockedConvolution), layer.inputs, layer.target
    held = operation.stored or layer.constant(1, "filters are")
    plain = operation.plain(inputs)
    (result,) = operation.operation.describe(plain)
    own = operation.operation
    product = product_of(own)
    data = layer.shape(0)
    inner, lanes = data[-1], operation.block
    assert isinstance(inner, int)
    taps = present(plain[1]).shape.static
    sized = given_sizes(own, plain)
    g = geometry_of(product, extents(present(plain[0])), taps, extents(result), sized)
    transposed = isinstance(product, ConvolutionBackpropData1)
    filters = Filters(g, held, transposed)
    kind = ("transposed",) if transposed else ()
    if transposed:
        finite = isinstance(held, StoredFilters) or all_finite(held)
        decline_if(not finite, "no kernel for filters with infinities or NaN")
    spread = are_spread(g.axes)
    decline_if(
        spread and not have_phases(g.axes),
        "no kernel for transposed windows of dilated or fewer taps than the strides",
    )
    layer.require_room(plan_bytes(g.images, g.groups * g.channels, (g.rows, g.columns)))
    ends = epilogue_of(own, plain, result, 1)
    decline_if(
        operation.half
        and any(
            (kind == ELEMENT) != operation.lies[position]
            for kind, position in zip(ends[0].operands, ends[1], strict=True)
        ),
        "no kernel for channels in bf16 at the end of a convolution",
    )
    if operation.half:
        ends = roughened(ends[0]), ends[1]
    half = operation.half
    if groups_fit(g, inner, lanes) and not spread and not (half and are_blocks(g, lanes)):
        return depthwise_over_blocks(
            BlockedWork(g, filters, inner, lanes, *ends, kind=kind, half=half), target
        )
    work = BlockedWork(g, filters, inner, lanes, *bounded(*ends), kind=kind, half=half)
    decline_if(
        work.half and work.step % 2, "no kernel in bf16 for steps of an odd number of channels"
    )
    if spread:
        return transposed_over_blocks(work, target)
    return (
        winograd_over_blocks(work, operation.side, target)
        if operation.side
        else direct_over_blocks(work, target)
    )


def _seen(g: Geometry) -> int:
    """Cells of an image that is known, with what is around it."""
    return max(
        known(g.data_size),
        known(g.rows.windows_extent(g.rows.count) * g.columns.windows_extent(g.columns.count)),
    )
