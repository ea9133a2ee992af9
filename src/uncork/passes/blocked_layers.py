"""Which layers and tensors may lie in blocks of channels, as passes ask it."""

from __future__ import annotations

from itertools import islice

from uncork.internal_ops.channel_norm import ChannelNormalization
from uncork.internal_ops.fused import product_of
from uncork.ir.model import Model, Node
from uncork.kernels.extents import extents, has_extents, same
from uncork.ops import Operation
from uncork.ops.batch_norm import GroupNormalization
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.mvn import MVN6
from uncork.storage import decode
from uncork.types import ElementType, TensorSpec

#: The fewest dimensions: images, channels and one more.
LEAST = 3
#: Reductions that leave blocks as they are, where they are over all spatial dimensions.
REDUCTIONS = frozenset({"ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"})
CONVOLUTIONS = Convolution1, ConvolutionBackpropData1
#: What normalises each pixel, the pixels of groups of channels, and those of each channel.
NORMALISATIONS = ChannelNormalization, GroupNormalization, MVN6


def product_of_node(node: Node) -> Operation | None:
    """The product that a layer is, or begins with; None where its operation is not known."""
    return None if node.operation is None else product_of(node.operation)


def channels_of(spec: TensorSpec) -> int:
    """The channels of a tensor of f32, of known or open sizes; 0 where it has none of a known
    number.
    """
    if spec.element_type is not ElementType.f32 or not has_extents(spec):
        return 0
    sizes = extents(spec)
    return sizes[1] if len(sizes) >= LEAST and isinstance(sizes[1], int) else 0


def resizes_pixels(model: Model, node: Node) -> bool:
    """Whether a layer resizes the pixels of each channel, and leaves images and channels alone."""
    operation, specs = node.operation, [model.spec(source) for source in node.inputs]
    if not isinstance(operation, InterpolateByInputs) or specs[0].rank is None:
        return False
    if any(begin or end for begin, end in operation.pads(specs[0].rank)):
        return False
    wanted, axes = operation.chosen(*specs[1:])
    if axes is not None:
        return axes.value is not None and bool((axes.value > 1).all())
    if wanted.value is None:
        return False
    if operation.by_sizes:
        sizes = zip(extents(specs[0]), extents(node.outputs[0].spec), strict=True)
        return all(same(*pair) for pair in islice(sizes, 2))
    return bool((decode(wanted.value[:2], wanted.element_type) == 1).all())


def is_depthwise(model: Model, node: Node) -> bool:
    """Whether each channel of a convolution is a group by itself, of one output."""
    product, filters = product_of_node(node), model.spec(node.inputs[1]).shape
    lead = getattr(product, "lead", 2)
    return lead > 2 and all(dim.static_size == 1 for dim in filters.dims[1:lead])
