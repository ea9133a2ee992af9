"""Convolutions with zeros for the channels and outputs that are zeros in their layouts: what they
multiply by, what ends them, and that zeros are what they make of these, whatever the data are.
"""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.blocks import ChannelLayout
from uncork.internal_ops.fused import FusedConvolution, FusedMember, product_of
from uncork.internal_ops.kept_channels import KeptChannels
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.ir.model import Node
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.passes.block_candidates import Candidate
from uncork.types import Array

#: The filters are the second input.
_FILTERS = 1


def filled(node: Node, candidate: Candidate, position: int, value: Array) -> Array:
    """A constant that a convolution reads, with zeros; the very same where there are none."""
    if position == _FILTERS:
        return _filters(node, candidate, value)
    # Of what ends it numbers of channels have one axis that is longer than 1.
    made = candidate.made[0]
    axes = [axis for axis, size in enumerate(value.shape) if size == sum(made.runs)]
    return made.filled(value, axes[0]) if len(axes) == 1 else value


def with_kept(operation: Operation, count: int) -> FusedConvolution:
    """A convolution of `count` inputs that ends with `KeptChannels`, which reads one more input."""
    given = operation.given if isinstance(operation, FusedConvolution) else count
    members = operation.members if isinstance(operation, FusedConvolution) else ()
    # Results of members are numbered behind the inputs.
    kept = count - given + 1
    moved = [
        FusedMember(m.operation, tuple(n + 1 if n >= kept else n for n in m.arguments))
        for m in members
    ]
    last = kept + len(moved) if moved else 0
    return FusedConvolution(
        product=product_of(operation),
        given=given,
        members=(*moved, FusedMember(KeptChannels(), (last, kept))),
    )


def kept_channels(node: Node, candidate: Candidate) -> Array:
    """What `KeptChannels` reads of the channels of a result."""
    made, rank = candidate.made[0], node.outputs[0].spec.rank
    assert rank is not None
    return made.filled(np.ones((1, sum(made.runs), *[1] * (rank - 2)), np.float32), 1)


def stored_filled(node: Node, candidate: Candidate, filters: StoredFilters) -> StoredFilters:
    """Filters with zeros as they are stored; the very same where there are none."""
    data, made = _layouts(candidate)
    if data.is_full and made.is_full:
        return filters
    return filters.with_zeros(
        lambda codes: _filters(node, candidate, codes), lambda numbers: made.filled(numbers, 0)
    )


def _filters(node: Node, candidate: Candidate, value: Array) -> Array:
    data, made = _layouts(candidate)
    product = product_of(node.checked_operation)
    assert isinstance(product, (Convolution1, ConvolutionBackpropData1))
    if product.lead > 2 and value.shape[0] > 1:
        return made.filled(value, 0)  # each channel is a group
    outputs, channels = product.lead - 2, product.lead - 1
    if isinstance(product, ConvolutionBackpropData1):
        outputs, channels = channels, outputs
    return made.filled(data.filled(value, channels), outputs)


def _layouts(candidate: Candidate) -> tuple[ChannelLayout, ChannelLayout]:
    """The layouts of the data and of the result."""
    data = candidate.given[0]
    assert data is not None
    return data, candidate.made[0]
