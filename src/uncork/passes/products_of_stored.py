"""Layers that multiply by weights that are stored in few bits, other than rows by a matrix, become
a MatMul of rows, which reads them as they are stored; the sizes of the data may be open.

    Einsum of two tensors
    MatMul whose weights come first, or whose data are turned, or a vector
    Convolution whose windows do not overlap

    data [.. rows and sums ..], weights -> Transpose -> Reshape [.., rows, inner] -> MatMul
        -> Reshape [.., rows, columns] -> Transpose

The weights are led through a Transpose and a Reshape of their own, which `compressed_products`
follows back to the constant. Labels of both operands that are not summed are matrices of a stack.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from uncork.dimension import DYNAMIC, Dimension
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.tiles import FEWEST_PIXELS, block_of
from uncork.kernels.extents import TYPICAL
from uncork.kernels.runtime.target import Target
from uncork.ops._common.product_labels import Label, Roles, roles_of
from uncork.ops.convolution import Convolution1
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul
from uncork.ops.reshape import Reshape1
from uncork.passes.quantized_values import grids
from uncork.passes.rewrite import NewLayers
from uncork.passes.stored_values import stored_values
from uncork.types import ElementType, TensorSpec

#: The bits of codes for which a convolution becomes a product: wider ones are half of f32.
_FEW_BITS = 8
_Labels = Sequence[Label]


class _Product(Struct, frozen=True):
    """The data and the weights with their labels.

    `cut` are the sizes that the data are given first, with a label each; 0 is the size that they
    have, and -1 what is left.
    """

    data: Source
    weights: Source
    of_data: _Labels
    of_weights: _Labels
    output: _Labels
    cut: Sequence[int] = ()

    @property
    def roles(self) -> Roles | None:
        """What the labels are; None where that is no sum of products, or each of several matrices
        multiplies rows along more than one axis.
        """
        roles = roles_of(self.of_data, self.of_weights, self.output)
        if roles is None or not roles.summed or (roles.batch and len(roles.rows) > 1):
            return None
        return roles


def products_of_stored(model: Model, target: Target) -> Model:
    """The model with a MatMul in place of every such layer."""
    layers = _Layers(model, target)
    return layers.rewritten(layers.take)


def _product(
    model: Model, node: Node, quantized: Collection[Source], target: Target
) -> tuple[_Product, Roles] | None:
    """The product that the layer computes; None where it is not one by stored weights."""
    operation = node.operation
    if not isinstance(operation, (Einsum, MatMul, Convolution1)) or len(node.inputs) != 2:
        return None
    specs = [model.spec(source) for source in node.inputs]
    result = node.outputs[0].spec
    if result.element_type is not ElementType.f32 or result.rank is None:
        return None
    if any(spec.rank is None or spec.value is not None for spec in specs):
        return None
    if isinstance(operation, Einsum):
        found = _of_einsum(operation, node, specs, result)
    elif isinstance(operation, MatMul):
        found = _of_matmul(operation, node, specs)
    else:
        windows = _of_windows(operation, node, specs)
        other = node.inputs[0] in quantized or _over_blocks(operation, node, specs, target)
        found = iter(()) if other else windows
    for product in found:
        weights, roles = model.spec(product.weights).shape, product.roles
        if not weights.is_static or roles is None:
            continue
        sizes = dict(zip(product.of_weights, weights.static, strict=True))
        dims: Sequence[Dimension] = model.spec(product.data).shape.dims
        if product.cut:
            dims = [Dimension(size, size) if size > 0 else DYNAMIC for size in product.cut]
        given = dict(zip(product.of_data, dims, strict=True))
        both = [*roles.batch, *roles.summed]
        same = all(given[n].is_static and given[n].size == sizes[n] for n in both)
        stored = stored_values(model, product.weights) if same else None
        wide = isinstance(operation, Convolution1) and stored is not None
        if stored is not None and not (wide and stored.element_type.bits > _FEW_BITS):
            return product, roles
    return None


def _of_einsum(
    operation: Einsum, node: Node, specs: Sequence[TensorSpec], result: TensorSpec
) -> Iterator[_Product]:
    """An Einsum, with either operand for the weights."""
    labels, output = operation.spread_all([spec.rank or 0 for spec in specs], result.rank or 0)
    for data, weights in ((0, 1), (1, 0)):
        yield _Product(
            node.inputs[data], node.inputs[weights], labels[data], labels[weights], output
        )


def _of_matmul(operation: MatMul, node: Node, specs: Sequence[TensorSpec]) -> Iterator[_Product]:
    """A MatMul that is none of rows by a second matrix, with either operand for the weights."""
    ranks = [spec.rank or 0 for spec in specs]
    turned = operation.transpose_a, operation.transpose_b
    lead: list[Label] = [f"batch {i}" for i in range(max(ranks) - 2)]
    labels: list[list[Label]] = []
    for place, own in enumerate(("row", "column")):
        # rows come first in the first matrix, columns last in the second one
        last: list[Label] = [own, "inner"] if turned[place] == bool(place) else ["inner", own]
        few = lead[len(lead) - max(0, ranks[place] - 2) :]
        labels.append(["inner"] if ranks[place] == 1 else [*few, *last])
    output = [*lead, *(own for own in ("row", "column") if own in labels[0] + labels[1])]
    for data, weights in ((0, 1), (1, 0)):
        rows = data == 0 and not turned[0] and ranks[0] > 1
        if not rows and ranks[weights] > 1 and ranks[weights] in (2, ranks[data]):
            yield _Product(
                node.inputs[data], node.inputs[weights], labels[data], labels[weights], output
            )


def _of_windows(
    operation: Convolution1, node: Node, specs: Sequence[TensorSpec]
) -> Iterator[_Product]:
    """A convolution whose windows lie one beside the other, where there are no more of them than
    outputs: the data that are turned then take less than filters of f32 would.
    """
    data, filters = specs[0].shape, specs[1].shape
    if operation.lead != 2 or not filters.is_static or not data.dims[1].is_static:
        return
    outputs, channels, *kernel = filters.static
    sizes, cut, of_data, of_weights = data.dims[2:], [0, channels], ["image", "channel"], []
    windows = 1
    for axis, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
        same = operation.auto_pad.startswith("same")
        known = size.static_size
        whole = taps == 1 or (known is not None and known % taps == 0)
        if operation.strides[axis] != taps or not whole:
            return
        if (taps > 1 and operation.dilation(axis) > 1) or (
            not same and any(operation.fixed_pads(axis))
        ):
            return
        count = TYPICAL if known is None else known // taps
        windows *= count
        of_data += [f"window {axis}", f"tap {axis}"]
        of_weights.append(f"tap {axis}")
        cut += [-1 if known is None else count, taps]
    if windows > outputs or cut.count(-1) > 1:
        return
    weights = ["output", "channel", *of_weights]
    output = ["image", "output", *(f"window {axis}" for axis in range(len(kernel)))]
    yield _Product(node.inputs[0], node.inputs[1], of_data, weights, output, cut)


def _over_blocks(
    operation: Convolution1, node: Node, specs: Sequence[TensorSpec], target: Target
) -> bool:
    """Whether a convolution of single pixels is left to kernels over blocks of channels, which read
    stored filters, too, and take no turned data: they sum in f32, and need whole blocks and pixels
    enough.
    """
    data, filters = specs[0].shape, specs[1].shape
    hints = node.hints
    if hints.activations != "f32" or hints.precision != "f32" or not data.is_static:
        return False
    outputs, channels, *taps = filters.static
    pixels = math.prod(data.static[2:])
    blocks = all(block_of(size, target) for size in (outputs, channels))
    return blocks and set(taps) == {1} and pixels >= FEWEST_PIXELS


class _Layers(NewLayers):
    """The layers of the new model."""

    def __init__(self, model: Model, target: Target) -> None:
        super().__init__(model)
        self.target = target
        convolves = any(isinstance(node.operation, Convolution1) for node in model.nodes)
        #: Data of convolutions that are multiplied as codes of their own.
        self.quantized: Collection[Source] = grids(model) if convolves else ()

    def take(self, node: Node) -> None:
        """Put the product that a layer computes in its place."""
        found = _product(self.old, node, self.quantized, self.target)
        if found is None:
            return
        product, roles = found
        # Operands keep the order that they have.
        matrices, rows = roles.batch, [n for n in product.of_data if n in roles.rows]
        summed = [n for n in product.of_weights if n in roles.summed]
        columns = [n for n in product.of_weights if n in roles.columns]
        shape = self.spec(product.weights).shape.static
        sizes = dict(zip(product.of_weights, shape, strict=True))
        lead = [sizes[label] for label in matrices]
        inner, width = (math.prod(sizes[n] for n in part) for part in (summed, columns))

        data = product.data
        if product.cut:
            data = self._shaped(node, data, product.cut)
        data = self.ordered(node, data, product.of_data, [*matrices, *rows, *summed])
        kept = [0] * (len(matrices) + len(rows))
        data = self._shaped(node, data, [*kept, inner] if rows else [*lead, 1, inner])
        weights = [*matrices, *summed, *columns]
        matrix = self.ordered(node, product.weights, product.of_weights, weights)
        matrix = self._shaped(node, matrix, [*lead, inner, width])
        made = self.add(f"{node.name}/product", MatMul(), [data, matrix])
        own = [sizes[label] for label in columns]
        made = self._shaped(node, made, [*kept, *own] if rows else [*lead, *own])
        last = [*matrices, *rows, *columns]
        self.ordered(node, made, last, product.output)
        self.finish(node)

    def _shaped(self, node: Node, source: Source, sizes: Sequence[int]) -> Source:
        """A tensor with these sizes; 0 is the size that it has."""
        shape = self.constant(sizes, name=f"{node.name}/shape")
        return self.add(f"{node.name}/shaped", Reshape1(special_zero=True), [source, shape])
