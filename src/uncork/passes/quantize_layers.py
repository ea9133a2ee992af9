"""Layers between FakeQuantize layers are computed on codes, which pass from layer to layer.

The rule, for a product or convolution whose data hold levels of a FakeQuantize:

1. at most 256 levels, with limits that are constants, the lower ones first: one for all elements,
   or for each channel of a depthwise convolution, as NNCF writes them for these;
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

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, FusedCompressedLinear
from uncork.internal_ops.decompression import numbers_of
from uncork.internal_ops.fused import FusedConvolution, FusedLinear, product_of
from uncork.internal_ops.quantized import (
    PLAIN,
    WORD,
    Held,
    QuantizedConstant,
    QuantizedProduct,
    QuantizedWeights,
    as_held,
)
from uncork.ir.model import Model, Node, Source
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.extents import KernelDeclined, extents, has_extents
from uncork.kernels.quantized.select import work_of
from uncork.kernels.select_epilogue import kind_of
from uncork.ops import Operation
from uncork.ops.convolution import Convolution1
from uncork.ops.matmul import MatMul
from uncork.passes.fuse_epilogue import ended
from uncork.passes.held_codes import Rewriting, Step, choosing
from uncork.passes.layers_of_codes import averaging, element_by_element
from uncork.passes.quantized_values import grids, rounding_of
from uncork.passes.rewrite import readers, replaced
from uncork.types import ElementType, TensorSpec


def quantize_layers(model: Model) -> Model:
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
    """The quantized weights of a compressed matrix; None where it cannot be held in i8."""
    matrix, product = operation.weights, operation.product
    parameters = [array for array in (matrix.zero_points, matrix.scales) if array is not None]
    if (
        matrix.half
        or matrix.later
        or matrix.stack > 1
        or operation.lead
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
        else np.broadcast_to(numbers_of(matrix.scales[:, 0]), columns)
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
        self.model = replaced(model, {fused.id: fused for _, fused in ending})
        self.grids = grids(self.model)
        self.read_by = readers(self.model)
        #: The new operation of each layer, and products that have none.
        self.new: dict[int, Step] = {}
        self.declined: list[int] = []
        #: The step that each layer is part of.
        self.parts: dict[int, Step] = {}
        for node in self.model.nodes:
            if node.id in weights:
                number, found = weights[node.id]
                operation = self._quantized(node, found)
                if operation is None:
                    self.declined.append(number)
                else:
                    self.new[node.id] = Step(
                        operation, _inputs(node), operation.held, operation.result
                    )
        if not self.declined:
            self._pass_codes_on()
            self._leave_numbers()

    def _quantized(self, node: Node, weights: QuantizedWeights) -> QuantizedProduct | None:
        """A layer on codes, which gives codes where it rounds to levels; None without a kernel."""
        operation = _with_matrix(node.checked_operation)
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
        for source, spec in zip(_inputs(node)[1:], specs[1:], strict=True):
            if kind_of(extents(spec), result.shape, axis) != ELEMENT:
                held.append(PLAIN)
                continue
            grid = self.grids.get(source) if outputs % WORD == 0 else None
            grid = None if grid is None or grid.channels else grid
            held.append(Held(grid, windows, outputs) if grid is not None or windows else PLAIN)
        rounds = rounding_of(self.model, node)
        for grid in (rounds, None) if rounds is not None else (None,):
            into = Held(grid, windows, outputs) if grid is not None or windows else PLAIN
            made = QuantizedProduct(operation, held, into, weights)
            if _has_kernel(made, specs):
                return made
        return None

    def _pass_codes_on(self) -> None:
        """Layers that choose among codes, join them, or compute element by element what is rounded
        to codes again, do so where a later layer reads codes; means are taken of codes that there
        are.
        """
        for node in reversed(self.model.nodes):
            if node.id in self.new:
                continue
            made = [Source(node.id, n) for n in range(len(node.outputs))]
            step = None
            if any(source in self.grids and self._read_as_codes(source) for source in made):
                step = choosing(self.model, node, self.grids) or element_by_element(
                    self.model, self.read_by, node, self.grids
                )
            elif node.inputs and (
                node.inputs[0].node in self.new or self._read_as_codes(node.inputs[0])
            ):
                step = averaging(self.model, node, self.grids)
            if step is not None:
                self.new[node.id] = step
                self.parts |= dict.fromkeys(step.within, step)

    def _leave_numbers(self) -> None:
        """Results that no layer reads as codes stay numbers, where a kernel gives such."""
        for node in self.model.nodes:
            step = self.new.get(node.id)
            if (
                step is None
                or not isinstance(step.operation, QuantizedProduct)
                or step.result.grid is None
            ):
                continue
            if not self._read_as_codes(Source(node.id, 0), step.result.last):
                result = replace(step.result, grid=None) if step.result.last else PLAIN
                made = QuantizedProduct(
                    step.operation.operation, step.held, result, step.operation.weights
                )
                if _has_kernel(made, [self.model.spec(source) for source in step.inputs]):
                    self.new[node.id] = Step(made, step.inputs, step.held, result)

    def _read_as_codes(self, source: Source, last: bool = True) -> bool:
        for reader in self.read_by.get(source, ()):
            step = self.new.get(reader.id) or self.parts.get(reader.id)
            given = () if step is None else zip(step.inputs, step.held, strict=True)
            if any(
                own == source and held.grid is not None and held.last == last for own, held in given
            ):
                return True
        return False

    def rewritten(self) -> Model:
        """The model on codes."""
        return Rewriting(self.model, self.new).model()


def _has_kernel(made: QuantizedProduct, specs: Sequence[TensorSpec]) -> bool:
    """Whether a kernel makes the product of these tensors as they are held."""
    try:
        work_of(made, as_held(made.held, specs))
    except KernelDeclined:
        return False
    return True


def _with_matrix(operation: Operation) -> Operation:
    """The operation on two tensors, where its matrix is stored in it; others as they are."""
    if isinstance(operation, CompressedLinear):
        return operation.product
    if isinstance(operation, FusedCompressedLinear):
        assert isinstance(operation.product, CompressedLinear)
        return FusedLinear(operation.product.product, 2, operation.members)
    return operation


def _inputs(node: Node) -> tuple[Source, ...]:
    """The inputs of a layer, of a product without its weights."""
    product = product_of(node.checked_operation)
    return (
        (node.inputs[0], *node.inputs[2:])
        if isinstance(product, (Convolution1, MatMul))
        else node.inputs
    )
