"""Constant folding: what constants and sizes alone decide is computed once.

These are weights that are stored as small numbers and converted, moved or scaled, and numbers that
are made of sizes. Small values are known since the model was read; here the large ones are
computed, and no pass looks again at the layers that gave the small ones. Look-ups in compressed
tables are not among them: their pass comes first and leaves nothing to fold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from itertools import count, islice

from msgspec.structs import replace

from uncork.errors import UncorkError
from uncork.ir.bodies import GraphBody
from uncork.ir.constants import stored_arrays
from uncork.ir.model import Model, Node, Port, Source
from uncork.memory import available
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.passes.known_values import is_known, known_value
from uncork.passes.rewrite import all_readers, readers, replaced
from uncork.types import TensorSpec

#: A constant has at most so many times the elements of those that it is made of, and no more than
#: they have where that is more than this many bytes: repeating is cheap, and memory is not.
_GROWTH, _MOST = 2, 64 << 20
#: Bytes of all constants that are made, whatever the model, and for each byte that it stores (codes
#: of one bit as f32). A process has them for itself, unlike those of the file, and kernels may have
#: them once more in another order: they take a quarter of its memory at most.
_ALWAYS, _FOR_A_BYTE = 256 << 20, 32


def fold_constants(model: Model) -> Model:
    """The model with constants in place of layers that have only constant inputs, or whose values
    are known.

    What cannot be computed is left to the call, which says why. A layer that would lose its last
    reader keeps it, since it may refuse a call.
    """
    new: dict[int, Sequence[TensorSpec]] = {}
    made_of: dict[int, Node] = {}
    supposed = _supposed(model)
    for node in model.nodes:
        if node.id in supposed or not _may_fold(node):
            continue
        known = [port.spec for port in node.outputs]
        if all(spec.value is not None for spec in known):
            new[node.id] = known
        elif _is_constant(model, node, made_of):
            made_of[node.id] = node
    folding = _Folding(model, made_of)
    new.update(folding.made())
    if not new:
        return model
    folded = _folded(model, new)
    needed = _last_readers(model, new.keys() | folding.computed, folded)
    return _folded(model, {i: new[i] for i in new if i not in needed}) if needed else folded


def _folded(model: Model, new: Mapping[int, Sequence[TensorSpec]]) -> Model:
    """The model with constants in place of the outputs of these layers."""
    nodes: dict[int, list[Node]] = {}
    moved: dict[Source, Source] = {}
    free = count(model.next_id)
    for i, specs in new.items():
        places = [i, *islice(free, len(specs) - 1)]
        moved |= {Source(i, n): Source(place, 0) for n, place in enumerate(places) if n}
        nodes[i] = [
            _constant(model.by_id[i], n, spec, place)
            for n, (spec, place) in enumerate(zip(specs, places, strict=True))
        ]
    return replaced(model, nodes, moved)


class _Folding:
    """Makes constants of layers, one after the other, each with all that only it needs: that is in
    memory no longer.
    """

    def __init__(self, model: Model, made_of: Mapping[int, Node]) -> None:
        """`made_of`: the layers that are made of constants."""
        self._model, self._made_of = model, made_of
        read_by = readers(model)
        #: Layers that others read, which are not made of constants, or failed.
        self._outside = {
            i
            for i, node in made_of.items()
            if any(reader.id not in made_of for reader in all_readers(read_by, node))
        }
        self._uses = Counter(
            s.node for n in made_of.values() for s in n.inputs if s.node in made_of
        )
        self._places = {i: place for place, i in enumerate(made_of)}
        self._values: dict[int, Sequence[TensorSpec]] = {}
        self._computed: set[int] = set()
        self._failed: set[int] = set()

    @property
    def computed(self) -> set[int]:
        """The layers that were computed."""
        return self._computed - self._failed

    def made(self) -> dict[int, Sequence[TensorSpec]]:
        """The values of the layers that others read, as many as there is memory for."""
        result: dict[int, Sequence[TensorSpec]] = {}
        total, most = 0, _most_in_all(self._model)
        waiting = [i for i in list(self._made_of)[::-1] if i in self._outside]
        while waiting:
            target = waiting.pop()
            size = _bytes(self._made_of[target])
            if target in result or total + size > most:
                continue
            waiting += self._make(target)
            if target in self._values:
                result[target] = self._values[target]
                total += size
        return result

    def _make(self, target: int) -> list[int]:
        """Compute a layer and all that it needs; the layers that calls need now, since what reads
        them failed.
        """
        needed: list[int] = []
        for node in _needed(self._made_of, self._places, target, self._values):
            before = [source.node for source in node.inputs if source.node in self._made_of]
            if self._evaluates(node, before):
                self._computed.add(node.id)
                self._forget(before)
            else:
                self._failed.add(node.id)
                self._outside.update(before)
                needed += [i for i in before if i not in self._failed]
        return needed

    def _evaluates(self, node: Node, before: Iterable[int]) -> bool:
        """Whether a layer has values, which are in `_values` then."""
        if node.id in self._failed or not self._failed.isdisjoint(before):
            return False
        try:
            given = [_spec(self._model, source, self._values) for source in node.inputs]
            self._values[node.id] = node.checked_operation.evaluate(given)
        except UncorkError:
            return False
        return True

    def _forget(self, before: Iterable[int]) -> None:
        """Forget values that nobody else reads."""
        for i in before:
            self._uses[i] -= 1
            if not self._uses[i] and i not in self._outside:
                del self._values[i]


def _needed(
    made_of: Mapping[int, Node], places: Mapping[int, int], target: int, values: Container[int]
) -> list[Node]:
    """The layers that a value is computed by, in their order (`places`), without those that have
    been.
    """
    found: set[int] = set()
    look = [target]
    while look:
        i = look.pop()
        if i in made_of and i not in values and i not in found:
            found.add(i)
            look += [source.node for source in made_of[i].inputs]
    return [made_of[i] for i in sorted(found, key=places.__getitem__)]


def _bytes(node: Node) -> int:
    specs = [port.spec for port in node.outputs]
    return sum(int(spec.shape.size) * spec.element_type.dtype.itemsize for spec in specs)


def _most_in_all(model: Model) -> int:
    """How many bytes the constants that are made may have together."""
    stored = sum(array.nbytes for array in stored_arrays(model))
    return min(max(_ALWAYS, _FOR_A_BYTE * stored), available()[0] // 4)


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


def _spec(model: Model, source: Source, values: Mapping[int, Sequence[TensorSpec]]) -> TensorSpec:
    if source.node in values:
        return values[source.node][source.output]
    return replace(model.spec(source), value=known_value(model, source))


def _may_fold(node: Node) -> bool:
    return (
        node.operation is not None
        and node.operation.deterministic
        and bool(node.inputs)
        and bool(node.outputs)
        and node.type_name != "Result"
        and all(port.spec.shape.is_static for port in node.outputs)
        and all(port.spec.element_type.dtype != object for port in node.outputs)
    )


def _is_constant(model: Model, node: Node, made_of: Container[int]) -> bool:
    """Whether a layer gives a constant that is worth its memory, of constants of the model and of
    layers `made_of` constants.
    """
    if not all(source.node in made_of or is_known(model, source) for source in node.inputs):
        return False
    size = sum(int(port.spec.shape.size) for port in node.outputs)
    given = sum(int(model.spec(source).shape.size) for source in {*node.inputs})
    grows = size > given and _bytes(node) > _MOST
    return not grows and size <= _GROWTH * given


def _constant(node: Node, number: int, spec: TensorSpec, place: int) -> Node:
    """The constant in place of an output of a layer."""
    operation = Const.of_array(spec.element_type, spec.known)
    old = node.outputs[number]
    return replace(
        node,
        id=place,
        opset="opset1",
        attributes={},
        inputs=(),
        outputs=(Port(spec, old.names, old.extras),),
        operation=operation,
    )
