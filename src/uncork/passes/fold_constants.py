"""Constant folding: what constants and sizes alone decide is computed once.

These are weights that are stored as small numbers and converted, moved or scaled, and numbers that
are made of sizes. Small values are known since the model was read; here the large ones are
computed, and no pass looks again at the layers that gave the small ones. Look-ups in compressed
tables are not among them: their pass comes first and leaves nothing to fold.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.errors import UncorkError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node, Port, Source
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.passes.rewrite import replaced
from uncork.types import Array, TensorSpec

#: The most bytes of a constant that is made, and of all of them: a process has them for itself,
#: unlike those of the file.
_MOST, _MOST_IN_ALL = 64 << 20, 256 << 20
#: A constant is not made larger than so many times the largest that it comes from: repeating is
#: cheap, and memory is not.
_GROWTH = 2


def fold_constants(model: Model) -> Model:
    """The model with constants in place of layers with one output that have only constant inputs,
    or whose value is known.

    What cannot be computed is left to the call, which says why. A layer that would lose its last
    reader keeps it, since it may refuse a call.
    """
    made: dict[Source, TensorSpec] = {}
    new: dict[int, Node] = {}
    total = 0
    supposed = _supposed(model)
    for node in model.nodes:
        if node.id in supposed or not _may_fold(node):
            continue
        assert node.operation is not None
        known = node.outputs[0].spec
        if known.value is not None:
            new[node.id] = _constant(node, known, known.value)
            continue
        if not _is_constant(model, node, made):
            continue
        try:
            result = node.operation.evaluate(
                [_spec(model, source, made) for source in node.inputs]
            )[0]
        except UncorkError:
            continue
        assert result.value is not None
        total += result.value.nbytes
        if total > _MOST_IN_ALL:
            break
        made[Source(node.id, 0)] = result
        new[node.id] = _constant(node, result, result.value)
    if not new:
        return model
    folded = replaced(model, new)
    needed = _last_readers(model, new, folded)
    return replaced(model, {i: new[i] for i in new if i not in needed}) if needed else folded


def _last_readers(model: Model, new: Mapping[int, Node], folded: Model) -> set[int]:
    """The layers among the `new` constants without which nobody would read others, such as the
    ShapeOf of a look-up. These others run, since they may refuse a call; those whose numbers are
    known do not.
    """
    left = {node.id for node in folded.nodes}
    known = new.keys() | {
        node.id
        for node in model.nodes
        if node.outputs and all(port.spec.value is not None for port in node.outputs)
    }
    lost = {
        node.id
        for node in model.nodes
        if node.inputs and node.id not in left and node.id not in known
    }
    for node in model.nodes if lost else ():
        if node.id in known and not lost.isdisjoint(source.node for source in node.inputs):
            lost.add(node.id)
    return lost & new.keys()


def _supposed(model: Model) -> set[int]:
    """The layers whose shapes, and numbers made of them, follow from something that a call need not
    keep: plans have guards there.
    """
    found = {node.id for node in model.nodes if _supposes(model, node)}
    for node in model.nodes if found else ():
        if not found.isdisjoint(source.node for source in node.inputs):
            found.add(node.id)
    return found


def _supposes(model: Model, node: Node) -> bool:
    if isinstance(node.operation, SubGraphOperation):
        return any(
            isinstance(joined.body, GraphBody) and bool(_supposed(joined.body.model))
            for joined in node.operation.bodies.values()
        )
    return node.operation is not None and node.operation.supposes(
        [model.spec(source) for source in node.inputs]
    )


def _spec(model: Model, source: Source, made: Mapping[Source, TensorSpec]) -> TensorSpec:
    return made.get(source) or model.spec(source)


def _may_fold(node: Node) -> bool:
    return (
        node.operation is not None
        and node.operation.deterministic
        and bool(node.inputs)
        and len(node.outputs) == 1
        and node.type_name != "Result"
        and node.outputs[0].spec.shape.is_static
        and node.outputs[0].spec.element_type.dtype != object
    )


def _is_constant(model: Model, node: Node, made: Mapping[Source, TensorSpec]) -> bool:
    spec = node.outputs[0].spec
    inputs = [_spec(model, source, made) for source in node.inputs]
    if any(given.value is None for given in inputs):
        return False
    size = int(spec.shape.size)
    return size * spec.element_type.dtype.itemsize <= _MOST and size <= _GROWTH * max(
        int(given.shape.size) for given in inputs
    )


def _constant(node: Node, spec: TensorSpec, value: Array) -> Node:
    operation = Const(element_type=spec.element_type, shape=spec.shape, value=value)
    port = Port(spec, node.outputs[0].names, node.outputs[0].extras)
    return replace(
        node, opset="opset1", attributes={}, inputs=(), outputs=(port,), operation=operation
    )
