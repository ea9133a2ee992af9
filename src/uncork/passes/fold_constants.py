"""Constant folding: what constants and sizes alone decide is computed once.

These are weights that are stored as small numbers and converted, moved or scaled, and numbers that
are made of sizes. Small values are known since the model was read; here the large ones are
computed, and no pass looks again at the layers that gave the small ones. Look-ups in compressed
tables are not among them: their pass comes first and leaves nothing to fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set

from msgspec.structs import replace

from uncork.errors import UncorkError
from uncork.ir.bodies import GraphBody
from uncork.ir.constants import stored_arrays
from uncork.ir.model import Model, Node, Port, Source
from uncork.memory import available
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.passes.rewrite import is_known, known_value, replaced
from uncork.types import Array, TensorSpec

#: A constant is not made of more than so many times the elements of the largest that it comes from,
#: nor of more at all where it has more than this many bytes: repeating is cheap, and memory is not.
_GROWTH, _MOST = 2, 64 << 20
#: Bytes of all constants that are made, whatever the model, and for each byte that it stores (codes
#: of two bits as f32). A process has them for itself, unlike those of the file: they take half of
#: its memory at most.
_ALWAYS, _FOR_A_BYTE = 256 << 20, 16


def fold_constants(model: Model) -> Model:
    """The model with constants in place of layers with one output that have only constant inputs,
    or whose value is known.

    What cannot be computed is left to the call, which says why. A layer that would lose its last
    reader keeps it, since it may refuse a call.
    """
    made: dict[Source, TensorSpec] = {}
    new: dict[int, Node] = {}
    passed: set[int] = set()
    total, most = 0, _most_in_all(model)
    supposed = _supposed(model)
    #: How often each is still to be read: what only folded layers read is not kept.
    uses = Counter(source for node in model.nodes for source in node.inputs)
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
        size = int(known.shape.size) * known.element_type.dtype.itemsize
        if total + size > most:
            continue
        try:
            result = node.operation.evaluate(
                [_spec(model, source, made) for source in node.inputs]
            )[0]
        except UncorkError:
            continue
        assert result.value is not None
        total += size
        made[Source(node.id, 0)] = result
        new[node.id] = _constant(node, result, result.value)
        for source in node.inputs:
            uses[source] -= 1
            if not uses[source] and source in made:
                done = made.pop(source)
                total -= int(done.shape.size) * done.element_type.dtype.itemsize
                del new[source.node]
                passed.add(source.node)
    if not new:
        return model
    folded = replaced(model, new)
    needed = _last_readers(model, new.keys() | passed, folded)
    return replaced(model, {i: new[i] for i in new if i not in needed}) if needed else folded


def _most_in_all(model: Model) -> int:
    """How many bytes the constants that are made may have together."""
    stored = sum(array.nbytes for array in stored_arrays(model))
    return min(max(_ALWAYS, _FOR_A_BYTE * stored), available()[0] // 2)


def _last_readers(model: Model, new: Set[int], folded: Model) -> set[int]:
    """The layers among the `new` constants without which nobody would read others, such as the
    ShapeOf of a look-up. These others run, since they may refuse a call; those whose numbers are
    known do not.
    """
    left = {node.id for node in folded.nodes}
    known = new | {
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
    return lost & new


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
    if source in made:
        return made[source]
    return replace(model.spec(source), value=known_value(model, source))


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
    if not all(source in made or is_known(model, source) for source in node.inputs):
        return False
    spec = node.outputs[0].spec
    size = int(spec.shape.size)
    largest = max(int(model.spec(source).shape.size) for source in node.inputs)
    grows = size > largest and size * spec.element_type.dtype.itemsize > _MOST
    return not grows and size <= _GROWTH * largest


def _constant(node: Node, spec: TensorSpec, value: Array) -> Node:
    operation = Const(element_type=spec.element_type, shape=spec.shape, value=value)
    port = Port(spec, node.outputs[0].names, node.outputs[0].extras)
    return replace(
        node, opset="opset1", attributes={}, inputs=(), outputs=(port,), operation=operation
    )
