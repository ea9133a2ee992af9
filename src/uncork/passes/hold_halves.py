"""Tensors between layers are held as bf16 where products and attention read them.

Where the caller allows products of bf16 (`precision="bf16"`), what multiplies reads bf16: products
with constant weights, and attention. Moves have the type of what they move. All else computes in
f32 and is rounded once, at the end of its chain: a Convert stands before it and after it, which
`fuse_elementwise` takes into the chain.

Two kinds of tensors stay f32, on which errors hang: sums of two tensors outside of products
(residual streams), and everything behind the last product. A product is moved only where it saves
more time than conversions of its data and its result may take.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.internal_ops.attention import FusedAttention
from uncork.internal_ops.blocks import FromBlocks, ToBlocks
from uncork.internal_ops.fused import Fused, FusedLinear
from uncork.internal_ops.held import HALF, HeldAttention, HeldProduct
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.gemm.select_matmul import refused_pairs
from uncork.kernels.layer import Layer
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import is_view, select_kernel
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops import Operation
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.convert import Convert1
from uncork.ops.matmul import MatMul
from uncork.passes.rewrite import NewLayers, readers
from uncork.types import ElementType, TensorSpec

_SINGLE = ElementType.f32
#: Products in a nanosecond that bf16 saves of those in f32, and numbers that are converted in one.
_SAVED, _CONVERTED = 1 / 220, 1 / 20


def hold_halves(model: Model, target: Target) -> Model:
    """The model with products that may be rounded to bf16, and attention between them, on tensors
    of bf16.
    """
    if not multiplies_pairs(target):
        return model
    products = {node.id for node in model.nodes if _is_product(model, node, target)}
    if not products:
        return model
    layers = _Layers(model, target, products)
    for node in model.nodes:
        layers.take(node)
    return layers.model()


def _is_product(model: Model, node: Node, target: Target) -> bool:
    """Whether a node is a product with constant weights that is worth its conversions."""
    operation = node.operation
    if not isinstance(operation, (MatMul, FusedLinear)) or node.hints.precision != "bf16":
        return False
    specs = [model.spec(source) for source in node.inputs]
    if specs[0].value is not None or not all(s.element_type is _SINGLE for s in specs[:2]):
        return False
    held = HeldProduct(operation, _SINGLE)
    given = [replace(specs[0], element_type=HALF), *specs[1:]]
    layer = Layer(held, given, [node.outputs[0].spec], target)
    if refused_pairs(layer):
        return False
    inner, columns = specs[1].shape.static[-2:]
    return inner * columns * _SAVED > (inner + columns) * _CONVERTED


def _singles(model: Model) -> set[Source]:
    """The tensors that stay f32: residual sums with what they add, and what is made of products on
    the way to a result.
    """
    found: set[Source] = set()
    for node in model.nodes:
        added = _added(model, node)
        if added:
            found.update(added, [Source(node.id, 0)])
    waiting = [
        source for node in model.nodes if node.type_name == "Result" for source in node.inputs
    ]
    seen: set[Source] = set()
    while waiting:
        source = waiting.pop()
        if source in seen:
            continue
        seen.add(source)
        node = model.by_id[source.node]
        if node.operation is None or not node.operation.multiplies:
            waiting += node.inputs
    return found | seen


def _added(model: Model, node: Node) -> list[Source]:
    """The tensors of the result's shape that a layer adds, where it is a sum of two tensors: of a
    product the result is one of them.
    """
    operation = node.operation
    if len(node.outputs) != 1 or node.outputs[0].spec.element_type is not _SINGLE:
        return []
    if isinstance(operation, (Fused, FusedLinear)):
        adds = any(member.operation.type_name == "Add" for member in operation.members)
    else:
        adds = node.type_name == "Add"
    if not adds or operation is None:
        return []
    given = operation.given if isinstance(operation, FusedLinear) else 0
    shape = node.outputs[0].spec.shape
    whole = [
        source
        for source in node.inputs[given:]
        if model.spec(source).value is None and model.spec(source).shape == shape
    ]
    return whole if len(whole) + bool(given) > 1 else []


class _Layers(NewLayers):
    """The layers of the new model."""

    def __init__(self, model: Model, target: Target, products: set[int]) -> None:
        super().__init__(model)
        self._target, self._products = target, products
        self._singles = _singles(model)
        self._readers = readers(model)
        #: Tensors that are bf16 in the new model, and those converted to a type.
        self._halves: set[Source] = set()
        self._wanted: dict[Source, bool] = {}

    def take(self, node: Node) -> None:
        """The layer as it is in the new model."""
        made = self._product(node) or self._attention(node) or self._moved(node) or self._same(node)
        if made is None:
            inputs = tuple(self._as(source, self._type(source)) for source in node.inputs)
            made = replace(node, inputs=inputs)
        else:
            for index, port in enumerate(made.outputs):
                if port.spec.element_type is HALF:
                    self._halves.add(Source(node.id, index))
        self.nodes.append(made)

    def _type(self, source: Source) -> ElementType:
        """The type of a tensor in the model as it was."""
        return self.old.spec(source).element_type

    # ---- layers

    def _product(self, node: Node) -> Node | None:
        """One of the products, on bf16; None where it is none."""
        if node.id not in self._products or node.operation is None:
            return None
        result = HALF if self._is_wanted(Source(node.id, 0)) else _SINGLE
        data, *others = node.inputs
        inputs = [self._as(data, HALF)]
        shape = node.outputs[0].spec.shape
        for number, source in enumerate(others, 1):
            spec = self.old.spec(source)
            whole = number > 1 and spec.value is None and spec.shape == shape
            inputs.append(self._as(source, result if whole else spec.element_type))
        return self._held(node, HeldProduct(node.operation, result), inputs)

    def _attention(self, node: Node) -> Node | None:
        """Attention over bf16, where one of its tensors is bf16 already and its result is read so;
        None where it is none.
        """
        operation = node.operation
        if (
            not _is_attention(operation)
            or not any(source in self._halves for source in node.inputs[:3])
            or not self._is_wanted(Source(node.id, 0))
        ):
            return None
        assert operation is not None
        held = HeldAttention(operation, HALF)
        specs: list[TensorSpec | None] = [self.old.spec(source) for source in node.inputs]
        specs[:3] = [
            replace(spec, element_type=HALF, value=None, elements=None)
            for spec in specs[:3]
            if spec is not None
        ]
        made = replace(node.outputs[0].spec, element_type=HALF, value=None, elements=None)
        if isinstance(select_kernel(held, specs, [made], self._target), str):
            return None
        inputs = [
            self._as(source, HALF if number < 3 else self._type(source))
            for number, source in enumerate(node.inputs)
        ]
        return self._held(node, held, inputs)

    def _moved(self, node: Node) -> Node | None:
        """A move of tensors that are bf16; None where it is none, or moves others."""
        operation = node.operation
        if operation is None or not _moves(operation) or operation.fills:
            return None
        singles = [s for s in node.inputs if self._type(s) is _SINGLE]
        if not any(source in self._halves for source in singles) or not all(
            self._is_wanted(Source(node.id, index)) for index in range(len(node.outputs))
        ):
            return None
        inputs = tuple(
            self._as(source, HALF if source in singles else self._type(source))
            for source in node.inputs
        )
        ports = tuple(_half(port) for port in node.outputs)
        return replace(node, inputs=inputs, outputs=ports)

    def _same(self, node: Node) -> Node | None:
        """The view in the place of a conversion of bf16 whose result is bf16, or is read so; None
        where it is none. One that a chain of operations element by element reads is a part of it.
        """
        if not isinstance(node.operation, Convert1):
            return None
        made, (source,) = Source(node.id, 0), node.inputs
        given = HALF if source in self._halves else self._type(source)
        chained = any(_is_chained(reader.operation) for reader in self._readers.get(made, []))
        read_so = self._is_wanted(made) and not chained
        if given is not HALF or not (self._type(made) is HALF or read_so):
            return None
        view = View(node.outputs[0].spec.shape)
        return replace(node, operation=view, attributes={}, outputs=(_half(node.outputs[0]),))

    def _held(self, node: Node, operation: Operation, inputs: Sequence[Source]) -> Node:
        assert isinstance(operation, (HeldAttention, HeldProduct))
        ports = tuple(_half(p) if operation.result is HALF else p for p in node.outputs)
        return replace(node, operation=operation, inputs=tuple(inputs), outputs=ports)

    # ---- types

    def _is_wanted(self, source: Source) -> bool:
        """Whether a tensor is held as bf16 where a layer can make it so: all that read it take it,
        and none of them is a sum on which errors hang.
        """
        if source not in self._wanted:
            self._wanted[source] = False  # of what comes back to itself
            read_by = self._readers.get(source, [])
            self._wanted[source] = (
                source not in self._singles
                and self._type(source) is _SINGLE
                and bool(read_by)
                and all(self._takes(node, source) for node in read_by)
            )
        return self._wanted[source]

    def _takes(self, node: Node, source: Source) -> bool:
        """Whether a layer that reads a tensor reads it as bf16 for nothing."""
        operation = node.operation
        if node.id in self._products:
            weights, others = node.inputs[1], node.inputs[2:]
            return source != weights and (
                source not in others or self._is_wanted(Source(node.id, 0))
            )
        if _is_attention(operation):
            return source in node.inputs[:3] and self._is_wanted(Source(node.id, 0))
        if operation is None or isinstance(operation, FusedAttention):
            return False
        if _moves(operation):
            return all(self._is_wanted(Source(node.id, i)) for i in range(len(node.outputs)))
        return _is_chained(operation)

    def _as(self, source: Source, element_type: ElementType) -> Source:
        """A tensor in a type: itself, or converted."""
        there = HALF if source in self._halves else self._type(source)
        if there is element_type:
            return source
        spec = replace(self.old.spec(source), element_type=there, value=None, elements=None)
        return self.once((source, element_type), lambda: self.converted(source, spec, element_type))


def _is_chained(operation: Operation | None) -> bool:
    """Whether it computes element by element, so that a chain takes the conversions beside it."""
    return operation is not None and (operation.elementwise or isinstance(operation, Fused))


def _is_attention(operation: Operation | None) -> bool:
    """Whether it is attention over tensors of one type."""
    coded = isinstance(operation, FusedAttention) and operation.coding is not None
    return isinstance(operation, (FusedAttention, ScaledDotProductAttention)) and not coded


def _moves(operation: Operation) -> bool:
    """Whether it moves numbers of any type. Changes of layout do not: they have kernels of words of
    four bytes alone.
    """
    if isinstance(operation, (FromBlocks, ToBlocks)):
        return False
    return is_view(operation) or (operation.moves_values and operation.deterministic)


def _half(port: Port) -> Port:
    spec = replace(port.spec, element_type=HALF, value=None, elements=None)
    return replace(port, spec=spec)
