"""Products with several stored matrices and a batch of open size before them: the axes of the
matrices come first, and the batch is more rows of each.

A kernel is called for each matrix, so their number has to be known; how many rows they have does
not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Model, Node
from uncork.kernels.extents import has_extents
from uncork.passes.rewrite import NewLayers
from uncork.types import Dimension, TensorSpec


def axes_of_matrices(data: TensorSpec, lead: Sequence[int]) -> list[int] | None:
    """The axes, of data that have as many as the matrices at least, along which these lie; None
    where rows that all matrices share, or each has of its own, cannot be told apart at load.
    """
    batch = _batch(data, lead)
    axes = [axis for axis, size in enumerate(lead, len(batch) - len(lead)) if size != 1]
    sizes = [size for size in lead if size != 1]
    known = all(batch[axis].size in (1, size) for axis, size in zip(axes, sizes, strict=True))
    return axes if known else None


def _batch(data: TensorSpec, lead: Sequence[int]) -> list[Dimension]:
    """The sizes before rows and columns, at least as many as those of the matrices."""
    batch = data.shape.dims[:-2]
    return [Dimension.of(1)] * (len(lead) - len(batch)) + list(batch)


def experts_first(model: Model) -> Model:
    """The model with such products between transposes of their data and of their result."""
    layers = _Layers(model)
    return layers.rewritten(layers.moved)


class _Layers(NewLayers):
    """The layers of the new model."""

    def moved(self, node: Node) -> None:
        """Put a layer that is moved in its place."""
        linear = node.operation
        if isinstance(linear, CompressedLinear) and math.prod(linear.lead) > 1:
            data = self.old.spec(node.inputs[0])
            is_open = not all(dim.is_static for dim in data.shape.dims[:-2])
            axes = axes_of_matrices(data, linear.lead) if is_open and has_extents(data) else None
            if axes is not None:
                self._move(node, linear, data, axes)

    def _move(
        self, node: Node, linear: CompressedLinear, data: TensorSpec, axes: Sequence[int]
    ) -> None:
        """Put a product there with the axes of its matrices first."""
        source, sizes = node.inputs[0], [*_batch(data, linear.lead), *data.shape.dims[-2:]]
        rows = [axis for axis in range(len(sizes) - 1) if axis not in axes]
        order = [*axes, *rows, len(sizes) - 1]
        stays = order == list(range(len(sizes)))
        if len(sizes) > len(data.shape):
            source = self.viewed(node, source, sizes)
        if not stays:
            source = self.transposed(node, source, order)
        count = math.prod((sizes[axis] for axis in rows), start=Dimension.of(1))
        source = self.viewed(node, source, [*(sizes[axis] for axis in axes), count, sizes[-1]])
        lead = tuple(size for size in linear.lead if size != 1)
        product = linear.replace(lead=lead)
        made = self.add(f"{node.name}/product", product, [source, *node.inputs[1:]])
        columns = self.spec(made).shape.dims[-1]
        result = [*map(Dimension.of, lead), *(sizes[axis] for axis in rows), columns]
        made = self.viewed(node, made, result)
        if not stays:
            self.transposed(node, made, [order.index(axis) for axis in range(len(sizes))])
        self.finish(node)
