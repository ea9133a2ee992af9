"""Products and convolutions of what FakeQuantize rounded, with weights of 8 bits, are computed on
codes, which pass from layer to layer.

The rule, for a product whose data hold levels of a FakeQuantize:

1. at most 256 levels, with limits that are constants, one for all elements, the lower ones first;
2. weights of whole numbers of one byte times a scale for each output (`quantized_weights`,
   `compressed_products`);
3. where windows reach out of the data, a code stands for 0;
4. sums fit 32 bits;
5. between the FakeQuantize and the product there are only layers that choose among numbers or
   move them.

Sums are exact then. A result differs from that of f32 by at most what f32 itself loses, and where
that is rounded to levels again, by one level for numbers at the border of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from uncork.internal_ops.compressed_linear import CompressedLinear, FusedCompressedLinear
from uncork.internal_ops.fused import FusedConvolution, FusedLinear, FusedProduct
from uncork.internal_ops.quantized import (
    PLAIN,
    WORD,
    Held,
    QuantizedConstant,
    QuantizedProduct,
    QuantizedWeights,
    Reheld,
)
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import KernelDeclined, extents, has_extents
from uncork.kernels.quantized.select import work_of
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import kind_of
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1
from uncork.ops.matmul import MatMul
from uncork.passes.fuse_epilogue import ended
from uncork.passes.quantized_values import grids, of_values, rounding_of
from uncork.passes.rewrite import readers, replaced
from uncork.types import ElementType


def quantize_layers(model: Model, target: Target) -> Model:
    """The model with such layers on codes."""
    known = grids(model)
    products: dict[int, QuantizedWeights] = {}
    for node in model.nodes:
        weights = _weights(model, node) if node.inputs and node.inputs[0] in known else None
        if weights is not None:
            products[node.id] = weights
    while products:
        layers = _Layers(model, products)
        if not layers.declined:
            return layers.rewritten()
        for number in layers.declined:
            del products[number]
    return model


def _weights(model: Model, node: Node) -> QuantizedWeights | None:
    """The weights of a product that are whole numbers of a byte."""
    operation = node.operation
    if isinstance(operation, CompressedLinear):
        return _of_stored(operation)
    if not isinstance(operation, (Convolution1, MatMul)):
        return None
    constant = model.by_id[node.inputs[1].node].operation
    if not isinstance(constant, QuantizedConstant):
        return None
    last = constant.weights.outputs_last == (
        isinstance(operation, MatMul) and not operation.transpose_b
    )
    return constant.weights if last else None


def _of_stored(operation: CompressedLinear) -> QuantizedWeights | None:
    """The same of a matrix as it is stored."""
    matrix, product = operation.weights, operation.product
    parameters = [array for array in (matrix.zero_points, matrix.scales) if array is not None]
    if (
        matrix.half
        or not matrix.element_type.is_integer
        or any(array.shape[1] != 1 for array in parameters)
    ):
        return None
    columns, inner = matrix.columns, matrix.inner
    whole = replace(matrix, scales=None).values()
    codes = np.rint(whole)
    if (codes != whole).any() or codes.min() < -128 or codes.max() > 127:
        return None
    scales = (
        np.ones(columns, np.float32)
        if matrix.scales is None
        else np.broadcast_to(matrix.scales[:, 0], columns)
    )
    last = not getattr(product, "transpose_b", False)
    shape = (inner, columns) if last else (columns, inner)
    return QuantizedWeights(
        codes.astype(np.int8), np.ascontiguousarray(scales, np.float32), shape, last
    )


class _Layers:
    """The layers of a model that are to be on codes, with what ends them."""

    def __init__(self, model: Model, products: Mapping[int, QuantizedWeights]) -> None:
        ending = ended(
            model,
            [node for node in model.nodes if node.id in products],
            lambda s: model.spec(s).value is None,
        )
        last = {product.id: fused.id for product, fused in ending}
        weights = {last.get(number, number): (number, found) for number, found in products.items()}
        self.model = replaced(model, {fused.id: fused for _, fused in ending}) if ending else model
        self.grids = grids(self.model)
        self.read_by = readers(self.model)
        #: The new operation of each layer, and products that have none.
        self.new: dict[int, QuantizedProduct] = {}
        self.declined: list[int] = []
        for node in self.model.nodes:
            if node.id in weights:
                number, found = weights[node.id]
                operation = self._quantized(node, found)
                if operation is None:
                    self.declined.append(number)
                else:
                    self.new[node.id] = operation
        if not self.declined:
            self._leave_numbers()

    def _quantized(self, node: Node, weights: QuantizedWeights) -> QuantizedProduct | None:
        """A layer on codes, which gives codes where it rounds to levels; None where no kernel
        computes it.
        """
        operation = _with_matrix(node.operation)
        specs = [self.model.spec(source) for source in _inputs(node)]
        result = node.outputs[0].spec
        if not all(
            has_extents(spec) and spec.element_type is ElementType.f32 for spec in (*specs, result)
        ):
            return None
        windows = isinstance(operation, (FusedConvolution, Convolution1))
        axis = 1 if windows else -1
        if not all(spec.shape[axis].is_static for spec in (specs[0], result)):
            return None
        channels, outputs = (int(spec.shape[axis]) for spec in (specs[0], result))
        held = [Held(self.grids[node.inputs[0]], windows, channels)]
        for source, spec in zip(_inputs(node)[1:], specs[1:]):
            if kind_of(extents(spec), result.shape, axis) != ELEMENT:
                held.append(PLAIN)
                continue
            grid = self.grids.get(source) if outputs % WORD == 0 else None
            held.append(Held(grid, windows, outputs) if grid is not None or windows else PLAIN)
        rounds = rounding_of(self.model, node)
        for grid in (rounds, None) if rounds is not None else (None,):
            into = Held(grid, windows, outputs) if grid is not None or windows else PLAIN
            made = QuantizedProduct(operation, weights, held, into)
            try:
                work_of(
                    made,
                    [
                        held.spec(spec.shape) if held != PLAIN else spec
                        for held, spec in zip(made.held, specs)
                    ],
                )
            except KernelDeclined:
                continue
            return made
        return None

    def _leave_numbers(self) -> None:
        """Results that no layer reads as codes stay numbers."""
        for node in self.model.nodes:
            operation = self.new.get(node.id)
            if operation is None or operation.result.grid is None:
                continue
            source = Source(node.id, 0)
            if not any(
                self._takes_codes(reader, source) for reader in self.read_by.get(source, ())
            ):
                result = replace(operation.result, grid=None)
                plain = result if result.last else PLAIN
                self.new[node.id] = QuantizedProduct(
                    operation.operation, operation.weights, operation.held, plain
                )

    def _takes_codes(self, reader: Node, source: Source) -> bool:
        operation = self.new.get(reader.id)
        if operation is None:
            return False
        return any(
            own == source and held.grid is not None
            for own, held in zip(_inputs(reader), operation.held)
        )

    def rewritten(self) -> Model:
        """The model on codes."""
        return _Rewriting(self.model, self.new).model()


def _with_matrix(operation: Operation | None) -> Operation:
    """The operation as one of two tensors, where its matrix is stored in it."""
    assert operation is not None
    if isinstance(operation, CompressedLinear):
        return operation.product
    if isinstance(operation, FusedCompressedLinear):
        assert isinstance(operation.product, CompressedLinear)
        return FusedLinear(operation.product.product, 2, operation.members)
    return operation


def _inputs(node: Node) -> tuple[Source, ...]:
    """The inputs of a product but its weights."""
    operation = node.operation
    product = operation.product if isinstance(operation, FusedProduct) else operation
    return (
        node.inputs if isinstance(product, CompressedLinear) else (node.inputs[0], *node.inputs[2:])
    )


class _Rewriting:
    """Makes the other model: each tensor is brought into every way in which layers want it held,
    once.
    """

    def __init__(self, model: Model, new: Mapping[int, QuantizedProduct]) -> None:
        self.old, self.new = model, new
        self.nodes: list[Node] = []
        #: How tensors are held that are not as they were, and tensors held otherwise.
        self.states: dict[Source, Held] = {}
        self.made: dict[tuple[Source, Held], Source] = {}
        self.next_id = max(node.id for node in model.nodes) + 1

    def model(self) -> Model:
        for node in self.old.nodes:
            operation = self.new.get(node.id)
            if operation is None:
                inputs = tuple(self._held(source, PLAIN) for source in node.inputs)
                self.nodes.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
                continue
            inputs = tuple(
                self._held(source, held) for source, held in zip(_inputs(node), operation.held)
            )
            port = node.outputs[0]
            if operation.result != PLAIN:
                self.states[Source(node.id, 0)] = _as_read(operation.result)
                port = replace(port, spec=operation.result.spec(port.spec.shape))
            self.nodes.append(replace(node, inputs=inputs, outputs=(port,), operation=operation))
        return replaced(replace(self.old, nodes=tuple(self.nodes)), {})

    def _held(self, source: Source, wanted: Held) -> Source:
        """A tensor as it is wanted."""
        wanted = _as_read(wanted)
        state = self.states.get(source, PLAIN)
        if state == wanted:
            return source
        key = source, wanted
        if key not in self.made:
            self.made[key] = self._made(source, state, wanted)
        return self.made[key]

    def _made(self, source: Source, state: Held, wanted: Held) -> Source:
        node = self.old.by_id[source.node]
        rounding = (
            rounding_of(self.old, node)
            if node.id not in self.new and not isinstance(node.operation, FusedProduct)
            else None
        )
        if (
            wanted.grid is not None and rounding is not None
        ):  # the codes of what is rounded, without its numbers
            given = node.inputs[0]
            before = self.states.get(given, PLAIN)
            if before.grid is not None or (before.last and not wanted.last):
                before = replace(wanted, grid=None) if wanted.last else PLAIN
                given = self._held(given, before)
            return self._reheld(source, given, before, replace(wanted, grid=rounding))
        straight = (state.grid is None or wanted.grid is None) and (
            state.last == wanted.last or PLAIN in (state, wanted)
        )
        if state != PLAIN and wanted != PLAIN and not straight:
            return self._reheld(source, self._held(source, PLAIN), PLAIN, wanted)
        return self._reheld(source, source, state, wanted)

    def _reheld(self, source: Source, given: Source, state: Held, wanted: Held) -> Source:
        spec, operation = self.old.spec(source), Reheld(state, wanted)
        how = "as codes" if wanted.grid is not None else "as numbers"
        name = (
            f"{self.old.by_id[source.node].name} ({how}{', channels last' if wanted.last else ''})"
        )
        number, self.next_id = self.next_id, self.next_id + 1
        port = Port(wanted.spec(spec.shape))
        self.nodes.append(
            Node(number, name, operation.type_name, "", {}, (given,), (port,), operation)
        )
        return Source(number, 0)


def _as_read(held: Held) -> Held:
    """How a tensor is held, for its readers: what was rounded to its codes does not matter."""
    return held if held.grid is None else replace(held, grid=of_values(held.grid))
