"""Einsum by weights that are stored in few bits becomes a MatMul, which reads them as they are
stored; the sizes of the data may be open.

    data [.. rows and sums ..], weights -> Transpose -> Reshape [.., rows, inner] -> MatMul
        -> Reshape [.., rows, columns] -> Transpose

The weights are led through a Transpose and a Reshape of their own, which `compressed_products`
follows back to the constant. Labels of both operands that are not summed are matrices of a stack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.ir.model import Model, Node, Source
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul
from uncork.ops.reshape import Reshape1
from uncork.passes.rewrite import NewLayers
from uncork.passes.stored_values import stored_values
from uncork.types import ElementType

#: A letter of the equation, or a dimension of its ellipsis.
_Labels = Sequence[object]


class _Product(Struct, frozen=True):
    """The data and the weights with their labels, and the labels by what they are."""

    data: Source
    weights: Source
    of_data: _Labels
    of_weights: _Labels
    output: _Labels

    @property
    def matrices(self) -> list[object]:
        """The labels along which there are several matrices."""
        return [n for n in self.output if n in self.of_data and n in self.of_weights]

    @property
    def rows(self) -> list[object]:
        return [label for label in self.of_data if label not in self.of_weights]

    @property
    def summed(self) -> list[object]:
        return [label for label in self.of_weights if label not in self.output]

    @property
    def columns(self) -> list[object]:
        return [label for label in self.of_weights if label not in self.of_data]


def einsum_of_stored(model: Model) -> Model:
    """The model with a MatMul in place of every such Einsum."""
    layers = _Layers(model)
    return layers.rewritten(layers.take)


def _product(model: Model, node: Node) -> _Product | None:
    """The product that the layer computes; None where it is not one by stored weights."""
    operation = node.operation
    if not isinstance(operation, Einsum) or len(node.inputs) != 2:
        return None
    specs = [model.spec(source) for source in node.inputs]
    result = node.outputs[0].spec
    if result.element_type is not ElementType.f32 or result.rank is None:
        return None
    if any(spec.rank is None or spec.value is not None for spec in specs):
        return None
    labels, output = operation.spread_all([spec.rank or 0 for spec in specs], result.rank)
    for data, weights in ((0, 1), (1, 0)):
        product = _Product(
            node.inputs[data], node.inputs[weights], labels[data], labels[weights], output
        )
        if not specs[weights].shape.is_static or not _is_linear(product):
            continue
        sizes = dict(zip(product.of_weights, specs[weights].shape.static, strict=True))
        given = dict(zip(product.of_data, specs[data].shape.dims, strict=True))
        both = [*product.matrices, *product.summed]
        same = all(given[n].is_static and given[n].size == sizes[n] for n in both)
        if same and stored_values(model, product.weights) is not None:
            return product
    return None


def _is_linear(product: _Product) -> bool:
    """Whether each label is of rows, columns, sums or matrices, and no operand has one twice."""
    given, weights = set(product.of_data), set(product.of_weights)
    once = len(given) == len(product.of_data) and len(weights) == len(product.of_weights)
    alone = given ^ weights
    # Each of several matrices multiplies rows along one axis at most.
    few = not product.matrices or len(product.rows) <= 1
    return once and few and bool(product.summed) and alone <= set(product.output)


class _Layers(NewLayers):
    """The layers of the new model."""

    def take(self, node: Node) -> bool:
        """Put the product that a layer computes in its place; whether it does."""
        product = _product(self.old, node)
        if product is None:
            return False
        matrices, rows = product.matrices, product.rows
        summed, columns = product.summed, product.columns
        shape = self.spec(product.weights).shape.static
        sizes = dict(zip(product.of_weights, shape, strict=True))
        lead = [sizes[label] for label in matrices]
        inner, width = (math.prod(sizes[n] for n in part) for part in (summed, columns))

        data = self.ordered(node, product.data, product.of_data, [*matrices, *rows, *summed])
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
        self.nodes[:] = [replace(layer, hints=node.hints) for layer in self.nodes]
        return True

    def _shaped(self, node: Node, source: Source, sizes: Sequence[int]) -> Source:
        """A tensor with these sizes; 0 is the size that it has."""
        shape = self.constant(sizes, name=f"{node.name}/shape")
        return self.add(f"{node.name}/shaped", Reshape1(special_zero=True), [source, shape])
