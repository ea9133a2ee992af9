"""Layers of f16 and bf16 are computed by kernels of f32.

What such a layer means is: its inputs widened to f32, computed, and rounded once. Here this is
spelled out. From a layer on whose kernels read f32 alone, tensors are held as f32 numbers that the
narrow type has, too: what reads only those is computed on them, and `Rounded` does the rounding,
which ends a product like any other operation element by element. Constants are converted; what
leaves the layers is converted back.

Layers that have kernels for halves and do not come after such a layer stay as they are.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.errors import UncorkError
from uncork.internal_ops.rounded import Rounded
from uncork.ir.model import Model, Node, Source
from uncork.kernels.select import ONLY_SINGLES, family_of
from uncork.ops import Operation
from uncork.ops._body import SubGraphOperation
from uncork.ops.convert import Convert1
from uncork.passes.rewrite import NewLayers
from uncork.types import ElementType, TensorSpec

_SINGLE = ElementType.f32
_HALVES = (ElementType.f16, ElementType.bf16)
#: What is bound to a type elsewhere: by a variable of the model, or by another input.
_BOUND = frozenset({"Assign", "ConvertLike", "ReadValue", "Result"})
#: Operations that compute nothing but numbers of their inputs: these need no rounding.
EXACT = frozenset(
    {
        *("Abs", "AdaptiveMaxPool", "Ceiling", "Floor", "MaxPool", "Maximum", "Minimum"),
        *("Negative", "ReLU", "ReduceMax", "ReduceMin", "Round", "Select", "Sign", "TopK"),
    }
)


def widen_halves(model: Model) -> Model:
    """The model with these layers in f32, where it has one whose kernels read f32 alone."""
    if not any(_begins(model, node) for node in model.nodes):
        return model
    layers = _Layers(model)
    for node in model.nodes:
        layers.take(node)
    return layers.model()


def _begins(model: Model, node: Node) -> bool:
    """Whether the kernels of this layer, which reads f16 or bf16, take f32 alone."""
    return family_of(node.type_name) in ONLY_SINGLES and any(
        model.spec(source).element_type in _HALVES for source in node.inputs
    )


class _Layers(NewLayers):
    """The layers of the new model."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        #: By a tensor of halves: the same numbers as f32, and what they were rounded from.
        self._wide: dict[Source, Source] = {}
        self._sums: dict[Source, Source] = {}
        #: Tensors of f32 that are conversions of others.
        self._same: dict[Source, Source] = {}

    def take(self, node: Node) -> None:
        """The layer, in f32 where it can be."""
        made = self._widened(node)
        if made is None:
            inputs = tuple(self._as_it_was(source) for source in node.inputs)
            self.nodes.append(replace(node, inputs=inputs))
            return
        self.nodes.append(made)
        if isinstance(node.operation, Convert1) and made.outputs[0].spec.element_type is _SINGLE:
            self._same[Source(node.id, 0)] = made.inputs[0]
        for index, (port, was) in enumerate(zip(made.outputs, node.outputs, strict=True)):
            if port.spec.element_type is was.spec.element_type:
                continue
            source = Source(node.id, index)
            self._wide[source] = self._sums[source] = source
            if not (node.operation and node.operation.moves_values) and (
                node.type_name not in EXACT
            ):
                rounded = Rounded(was.spec.element_type)
                (spec,) = rounded.describe([port.spec])
                self._wide[source] = self.add(f"{node.name}/rounded", rounded, [source], spec)

    def _widened(self, node: Node) -> Node | None:
        """The layer on f32; None where it has to stay as it is."""
        operation = node.operation
        halves = [s for s in node.inputs if self.old.spec(s).element_type in _HALVES]
        if operation is None or not halves or not _computes_plainly(operation):
            return None
        known = [source for source in halves if source in self._wide]
        others = [source for source in halves if source not in self._wide]
        follows = known and all(self._is_constant(source) for source in others)
        if not follows and not _begins(self.old, node):
            return None
        specs: list[TensorSpec | None] = [
            replace(spec, element_type=_SINGLE, value=None, elements=None)
            if spec.element_type in _HALVES
            else spec
            for spec in map(self.old.spec, node.inputs)
        ]
        try:
            outputs = operation.describe(specs)
        except UncorkError:
            return None
        ports = node.ports(outputs)
        if not all(
            _stands_for(port.spec, was.spec) for port, was in zip(ports, node.outputs, strict=True)
        ):
            return None
        inputs = tuple(self._in_f32(source) for source in node.inputs)
        return replace(node, inputs=inputs, outputs=ports)

    def _is_constant(self, source: Source) -> bool:
        return self.old.by_id[source.node].type_name == "Const"

    def _in_f32(self, source: Source) -> Source:
        """The tensor, halves as f32."""
        spec = self.old.spec(source)
        if spec.element_type not in _HALVES:
            return self._same.get(source, source)
        if source not in self._wide:
            self._wide[source] = self.converted(source, spec, _SINGLE)
        return self._wide[source]

    def _as_it_was(self, source: Source) -> Source:
        """The tensor in the type that it has in the model."""
        if source not in self._sums:
            return source
        spec = self.old.spec(source)
        wide = replace(spec, element_type=_SINGLE, value=None, elements=None)
        return self.once(
            source, lambda: self.converted(self._sums[source], wide, spec.element_type)
        )


def _computes_plainly(operation: Operation) -> bool:
    """Whether the reference of an operation computes in f32 for f16 and bf16, and rounds once."""
    return (
        type(operation).evaluate is Operation.evaluate
        and operation.deterministic
        and operation.type_name not in _BOUND
        and not isinstance(operation, SubGraphOperation)
    )


def _stands_for(made: TensorSpec, was: TensorSpec) -> bool:
    """Whether the result of a layer on f32 can stand for its result on f16 or bf16: the same shape,
    and f32 where these were halves.
    """
    same = made.element_type is was.element_type
    return made.shape == was.shape and (
        same or (was.element_type in _HALVES and made.element_type is _SINGLE)
    )
