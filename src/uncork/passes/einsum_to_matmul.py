"""Einsum of two tensors becomes a MatMul, with views and transposes around it, or a Multiply where
nothing is summed; that of one tensor a sum and a transpose.

A label is a batch dimension (in both operands and the output), summed (in both operands alone), or
a row or column (in one operand and the output). Operands come in the order batch, rows, columns;
where they lie so already, or with rows and columns exchanged, nothing is moved. What else there is
stays as it is: more operands, a label twice in one operand, or summed in one alone, dimensions
that stretch, sums of integers; and products by a constant for which data would have to be moved, if
a kernel of their own reads them as they lie. A constant itself is put in order here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import has_extents, same
from uncork.kernels.runtime.target import Target
from uncork.ops._common.product_labels import Label, Roles, roles_of
from uncork.ops.arithmetic import Multiply
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul
from uncork.ops.reduce import ReduceSum
from uncork.passes.rewrite import NewLayers, has_kernel
from uncork.types import Dimension, PartialShape

_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_Labels = Sequence[Label]


class _Product(Struct, frozen=True):
    """The two operands with their labels, what the labels are, and the size of each."""

    operands: tuple[tuple[Source, _Labels], tuple[Source, _Labels]]
    roles: Roles
    output: _Labels
    sizes: Mapping[Label, Dimension]

    def moves(self, model: Model) -> bool:
        """Whether data of the call, or the result, change the order of their dimensions."""
        batch, rows, columns = self.roles.batch, self.roles.rows, self.roles.columns
        summed = self.roles.summed
        wanted = [*batch, *rows, *summed], [*batch, *summed, *columns]
        lies = [
            model.spec(source).value is not None or list(labels) == order
            for (source, labels), order in zip(self.operands, wanted, strict=True)
        ]
        return not all(lies) or list(self.output) != [*batch, *rows, *columns]


def einsum_to_matmul(model: Model, target: Target) -> Model:
    """The model with a MatMul in place of every such Einsum."""
    layers = _Layers(model, target)
    return layers.rewritten(layers.take)


def _product(model: Model, node: Node, target: Target) -> _Product | None:
    """The product that the layer computes; None where it is not one of two matrices."""
    operation = node.operation
    if not isinstance(operation, Einsum) or len(node.inputs) != 2:
        return None
    specs = [model.spec(source) for source in node.inputs]
    output = node.outputs[0].spec
    if not all(map(has_extents, (*specs, output))):
        return None
    ranks = [len(spec.shape) for spec in specs]
    (a, b), result = operation.spread_all(ranks, len(output.shape))
    sources = node.inputs
    if _is_turned(a, b, result):
        a, b, specs, sources = b, a, specs[::-1], (sources[1], sources[0])
    roles = roles_of(a, b, result)
    if roles is None:
        return None
    sizes = {
        **dict(zip(b, specs[1].shape.dims, strict=True)),
        **dict(zip(a, specs[0].shape.dims, strict=True)),
    }
    constant = [spec.value is not None for spec in specs]
    if all(constant):
        return None
    if roles.summed and output.element_type.name not in _FLOATS:
        return None
    both = [*roles.batch, *roles.summed]
    if not all(_same(sizes[n], specs[1].shape[b.index(n)]) for n in both):
        return None
    product = _Product(((sources[0], a), (sources[1], b)), roles, result, sizes)
    if any(constant) and roles.summed and product.moves(model) and has_kernel(model, node, target):
        return None
    return product


def _single(model: Model, node: Node) -> tuple[_Labels, _Labels] | None:
    """The labels of the one operand and of the output; None where the layer has more operands, or
    one with a diagonal.
    """
    operation = node.operation
    if not isinstance(operation, Einsum) or len(node.inputs) != 1:
        return None
    spec, output = model.spec(node.inputs[0]), node.outputs[0].spec
    if spec.value is not None or not has_extents(spec) or not has_extents(output):
        return None
    (labels,), result = operation.spread_all([len(spec.shape)], len(output.shape))
    sums = len(result) < len(labels)
    if len(set(labels)) < len(labels) or (sums and output.element_type.name not in _FLOATS):
        return None
    return labels, result


def _same(one: Dimension, other: Dimension) -> bool:
    return one.size is not None and other.size is not None and same(one.size, other.size)


def _is_turned(a: _Labels, b: _Labels, output: _Labels) -> bool:
    """Whether the output has the labels of the second operand alone before those of the first."""
    own = [label in a for label in output if (label in a) != (label in b)]
    return bool(own) and not own[0] and own == sorted(own)


class _Layers(NewLayers):
    """The layers of the new model."""

    def __init__(self, model: Model, target: Target) -> None:
        super().__init__(model)
        self.target = target

    def take(self, node: Node) -> None:
        """Put others in the place of a layer."""
        product, single = _product(self.old, node, self.target), _single(self.old, node)
        if product is not None:
            self.multiply(node, product)
        elif single is not None:
            self.rearrange(node, *single)

    def multiply(self, node: Node, product: _Product) -> None:
        """Put the product in the place of a layer."""
        (a, of_a), (b, of_b) = product.operands
        batch, rows = product.roles.batch, product.roles.rows
        summed, columns = product.roles.summed, product.roles.columns
        # A matrix multiplies all rows where they lie, along whichever axes.
        lead = [] if batch or list(of_a) != [*rows, *summed] else rows[:-1]
        last = rows[len(lead) :]
        first, turn_a = self._matrix(node, a, of_a, product.sizes, ([*batch, *lead], last, summed))
        second, turn_b = self._matrix(node, b, of_b, product.sizes, (batch, summed, columns))
        matmul = MatMul(transpose_a=turn_a, transpose_b=turn_b)
        multiply = matmul if summed else Multiply()
        made = self.add(f"{node.name}/product", multiply, [first, second])
        labels = [*batch, *rows, *columns]
        if len(last) != 1 or len(columns) != 1:
            made = self.viewed(node, made, [product.sizes[label] for label in labels])
        self.ordered(node, made, labels, product.output)
        self.finish(node)

    def rearrange(self, node: Node, labels: _Labels, output: _Labels) -> None:
        """Put a sum over the labels that the output has not, and a transpose, in the place of a
        layer.
        """
        (source,) = node.inputs
        summed = [axis for axis, label in enumerate(labels) if label not in output]
        kept = [label for label in labels if label in output]
        if summed:
            axes = self.constant(summed, name=f"{node.name}/axes")
            source = self.add(f"{node.name}/sum", ReduceSum(keep_dims=False), [source, axes])
        if not summed or kept != list(output):
            self.transposed(node, source, [kept.index(label) for label in output])
        self.finish(node)

    def _matrix(
        self,
        node: Node,
        source: Source,
        labels: _Labels,
        of: Mapping[Label, Dimension],
        parts: tuple[_Labels, _Labels, _Labels],
    ) -> tuple[Source, bool]:
        """An operand as matrices of the labels in `parts`, which are those of the batch, of rows
        and of columns, and whether these have their columns first; `of` are the sizes of labels.
        """
        batch, rows, columns = parts
        turned = list(labels) == [*batch, *columns, *rows] and bool(rows and columns)
        wanted = list(labels) if turned else [*batch, *rows, *columns]
        sizes = [of[label] for label in batch]
        for part in (columns, rows) if turned else (rows, columns):
            sizes.append(math.prod((of[label] for label in part), start=Dimension.of(1)))
        spec = self.old.spec(source)
        if spec.value is not None:
            value = spec.value.transpose([list(labels).index(label) for label in wanted])
            shape = PartialShape(sizes).static
            return self.constant(value.reshape(shape), spec.element_type, node.name), turned
        source = self.ordered(node, source, labels, wanted)
        if len(rows) != 1 or len(columns) != 1:
            source = self.viewed(node, source, sizes)
        return source, turned
