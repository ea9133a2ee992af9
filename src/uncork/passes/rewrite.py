"""Helpers of passes: the readers of a tensor, its value, and a model with some of its nodes
replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from uncork.internal_ops.packed_const import PackedConst
from uncork.ir.model import Model, Node, Port, Source
from uncork.ops import Operation
from uncork.ops.convert import Convert1
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: Layers of constants behind each other, which converters write two or three of.
_DEEP = 16


def readers(model: Model) -> Mapping[Source, list[Node]]:
    """The nodes that read each output, once for each time they do."""
    result: dict[Source, list[Node]] = {}
    for node in model.nodes:
        for source in node.inputs:
            result.setdefault(source, []).append(node)
    return result


def only_reader(read_by: Mapping[Source, list[Node]], node: Node) -> Node | None:
    """The only node that reads the first output of a node, and reads it once; None where there is
    none.
    """
    found = read_by.get(Source(node.id, 0), [])
    return found[0] if len(found) == 1 else None


def is_known(model: Model, source: Source) -> bool:
    """Whether the value of a tensor is known at load: whether `known_value` gives it."""
    operation = model.by_id[source.node].operation
    return model.spec(source).value is not None or isinstance(operation, PackedConst)


def known_value(model: Model, source: Source) -> Array | None:
    """The value of a tensor that is known at load, of any size; None where there is none.

    That of a packed constant, whose spec has none, is unpacked for the caller alone.
    """
    operation = model.by_id[source.node].operation
    if isinstance(operation, PackedConst):
        return operation.unpacked()
    return model.spec(source).value


def computed_value(model: Model, source: Source, depth: int = _DEEP) -> Array | None:
    """The value of a tensor that layers compute of constants alone, at most so many behind each
    other; None where it is none. Nobody keeps it.
    """
    if is_known(model, source):
        return known_value(model, source)
    node = model.by_id[source.node]
    operation = node.operation
    if operation is None or not node.inputs or not operation.deterministic or not depth:
        return None
    given: list[TensorSpec | None] = []
    for before in node.inputs:
        value = computed_value(model, before, depth - 1)
        if value is None:
            return None
        given.append(TensorSpec(model.spec(before).element_type, PartialShape(value.shape), value))
    return operation.evaluate(given)[source.output].value


def constant_of_floats(model: Model, source: Source) -> Array | None:
    """The value of a constant of f32 or f16, or of one that is converted to these."""
    if model.spec(source).element_type not in (ElementType.f32, ElementType.f16):
        return None
    node = model.by_id[source.node]
    if not is_known(model, source) and isinstance(node.operation, Convert1):
        before = node.inputs[0]
        value = known_value(model, before)
        if value is None:
            return None
        spec = replace(model.spec(before), value=value)
        return node.operation.evaluate([spec])[0].value
    return known_value(model, source)


class NewNodes:
    """Nodes of one output that a pass adds to those of a model, in order."""

    def __init__(self, model: Model) -> None:
        self.nodes: list[Node] = []
        #: What is known of each tensor, those of the model included.
        self.specs = {
            Source(node.id, n): port.spec
            for node in model.nodes
            for n, port in enumerate(node.outputs)
        }
        self._next = max(node.id for node in model.nodes) + 1

    def add(
        self, operation: Operation, *inputs: Source, name: str = "", place: int | None = None
    ) -> Source:
        """The output of a new node, or of one that takes the `place` of a node of the model."""
        outputs = operation.describe([self.specs[source] for source in inputs])
        number = self._next if place is None else place
        self._next += place is None
        self.nodes.append(
            Node(
                number,
                name or f"{operation.type_name} {number}",
                operation.type_name,
                "opset1",
                {},
                inputs,
                tuple(map(Port, outputs)),
                operation,
            )
        )
        self.specs.update({Source(number, n): spec for n, spec in enumerate(outputs)})
        return Source(number, 0)


def replaced(model: Model, new: Mapping[int, Node]) -> Model:
    """The model with new nodes under old ids, and without what nothing needs any more."""
    nodes = [new.get(node.id, node) for node in model.nodes]
    uses = Counter(source.node for node in nodes for source in node.inputs)
    borders = {*model.parameters, *model.results, *model.sinks}
    kept: list[Node] = []
    # readers come after what they read, so one pass backwards is enough
    for node in reversed(nodes):
        if node.id in borders or uses[node.id]:
            kept.append(node)
        else:
            uses.subtract(source.node for source in node.inputs)
    return replace(model, nodes=tuple(reversed(kept)))
