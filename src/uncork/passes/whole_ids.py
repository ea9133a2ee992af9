"""Ids that come straight from inputs are looked up uncut: conversions to fewer bits are bypassed.

Converters write `Convert i64 -> i32` before look-ups (OpenVINO's PyTorch frontend before every
Gather and every bag). Taken literally, id 2**32 + 1 reads row 1. This pass leads ids, offsets,
segment ids and lengths around conversions that could change them; moves on the way are done on the
uncut numbers. All else that reads the converted numbers still does. Bodies are looked into, as far
as ids reach them uncut. It is a matter of meaning: it runs for every backend, before anything that
only makes a model faster.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node, Source
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.ops.convert import convert_to, keeps_integers, limits
from uncork.passes.rewrite import NewLayers
from uncork.passes.straight_ids import (
    Inputs,
    converts_integers,
    given_to,
    moved_inputs,
    port_of,
    straight,
    with_values,
)
from uncork.types import ElementType


def whole_ids(model: Model, roots: Mapping[int, Inputs] | None = None) -> Model:
    """The model with such ids uncut. `roots`: see `straight`."""
    return _Uncut(model, roots).model()


class _Uncut(NewLayers):
    """The rewriting of one graph.

    `whole` says, for every output that comes straight from inputs, which one has the uncut numbers.
    """

    def __init__(self, model: Model, roots: Mapping[int, Inputs] | None) -> None:
        super().__init__(model)
        self.sources = straight(model, roots)
        self.whole: dict[Source, Source] = {}
        self.changed = False
        self._twins: dict[int, int] = {}  # new nodes, by id, and those of which they are copies

    def model(self) -> Model:
        """The graph rewritten; the very same when there was nothing to do."""
        for node in self.old.nodes:
            node = self._with_bodies(self._with_whole_ids(node))
            self.nodes.append(node)
            self._note(node)
        if not self.changed:
            return self.old
        return self._renumbered(super().model())

    # ---- what reads ids

    def _with_whole_ids(self, node: Node) -> Node:
        """The node reading uncut numbers where it reads ids."""
        inputs = list(node.inputs)
        variables: set[str] = set()
        for position, source in enumerate(node.inputs):
            whole = self.whole.get(source, source)
            if whole == source:
                continue
            port = port_of(node, position)
            if port is None or not port.ids:
                continue
            if self.spec(whole).element_type not in port.types:
                whole = self._as(whole, ElementType.i64, strict=True)
            inputs[position] = whole
            variables.add(port.type_variable)
        if tuple(inputs) == node.inputs:
            return node
        self.changed = True
        for variable in variables - {""}:
            self._agree(node, inputs, variable)
        return replace(node, inputs=tuple(inputs))

    def _agree(self, node: Node, inputs: list[Source], variable: str) -> None:
        """Convert the inputs of ports that must be of one type to i64, where their types differ."""
        positions = [p for p in range(len(inputs)) if self._variable(node, p) == variable]
        if len({self.spec(inputs[p]).element_type for p in positions}) > 1:
            for position in positions:
                inputs[position] = self._as(inputs[position], ElementType.i64, strict=True)

    def _variable(self, node: Node, position: int) -> str:
        port = port_of(node, position)
        return "" if port is None else port.type_variable

    def _as(self, source: Source, target: ElementType, strict: bool) -> Source:
        """A tensor's numbers in another type.

        With `strict`, one that the type does not have is refused: it is outside anything.
        """
        given = self.spec(source).element_type
        if given is target:
            return source
        operation = convert_to(target, strict and not keeps_integers(given, target))
        name = f"{self._name(source)} as {target}"
        return self.once((source, target), lambda: self.add(name, operation, [source]))

    def _name(self, source: Source) -> str:
        return self.old.by_id[self._twins.get(source.node, source.node)].name

    # ---- what passes ids on

    def _note(self, node: Node) -> None:
        """Say where the uncut numbers of the node's outputs are."""
        outputs = [Source(node.id, position) for position in range(len(node.outputs))]
        for output in outputs:
            if output in self.sources:
                self.whole[output] = output
        if not outputs or outputs[0] not in self.sources:
            return
        if converts_integers(self.old, node):
            whole = self.whole[node.inputs[0]]
            given, made = (self.spec(s).element_type for s in (node.inputs[0], outputs[0]))
            if whole != node.inputs[0] or not keeps_integers(given, made):
                self.whole[outputs[0]] = whole
        elif node.type_name != "Parameter":
            twin = self._twin(node)
            if twin is not None:
                self.whole.update((output, Source(twin, output.output)) for output in outputs)

    def _twin(self, node: Node) -> int | None:
        """A copy, on uncut numbers, of a node that moves values; None when there is no need."""
        inputs = list(node.inputs)
        moved = moved_inputs(node)
        for position in moved:
            inputs[position] = self.whole.get(inputs[position], inputs[position])
        if tuple(inputs) == node.inputs:
            return None
        ids = [inputs[p] for p in moved if node.inputs[p] in self.sources]
        types = {self.spec(source).element_type for source in ids}
        target = types.pop() if len(types) == 1 else ElementType.i64
        if not all(self._fits(inputs[p], target) for p in moved):
            return None
        for position in moved:
            inputs[position] = self._as(inputs[position], target, strict=False)
        twin = self.add(f"{node.name} (ids uncut)", node.checked_operation, inputs).node
        bare = self.nodes[-1]
        self.nodes[-1] = replace(
            node, id=twin, name=bare.name, inputs=bare.inputs, outputs=bare.outputs
        )
        self._twins[twin] = node.id
        return twin

    def _fits(self, source: Source, target: ElementType) -> bool:
        """Whether a type has every number that the output can hold; of a constant, those that it
        holds.
        """
        spec = self.spec(source)
        if spec.value is None or not spec.value.size:
            return keeps_integers(spec.element_type, target)
        low, high = limits(target)
        return low <= int(spec.value.min()) and int(spec.value.max()) <= high

    # ---- bodies

    def _with_bodies(self, node: Node) -> Node:
        """The node with bodies whose Parameters are inputs where uncut ids reach them."""
        operation = node.operation
        if not isinstance(operation, SubGraphOperation):
            return node
        after = operation.rewritten(lambda joined: self._body(node, joined))
        if after is operation:
            return node
        self.changed = True
        return replace(node, operation=after)

    def _body(self, node: Node, joined: BodyMap) -> BodyMap:
        given = given_to(node, joined)
        roots = {p: self.sources[s] for p, s in given.items() if self.whole.get(s) == s}
        if not roots or not isinstance(joined.body, GraphBody):
            return joined
        body = with_values(joined.body.model)
        rewritten = whole_ids(body, roots)
        return joined if rewritten is body else replace(joined, body=GraphBody(rewritten))

    # ---- the end

    def _renumbered(self, model: Model) -> Model:
        """The model with copies under the ids and names of originals that nothing reads any more.

        So messages speak of the layers of the file.
        """
        left = {node.id for node in model.nodes}
        ids = {new: old for new, old in self._twins.items() if new in left and old not in left}
        if not ids:
            return model
        nodes = []
        for node in model.nodes:
            inputs = tuple(Source(ids.get(s.node, s.node), s.output) for s in node.inputs)
            name = self.old.by_id[ids[node.id]].name if node.id in ids else node.name
            nodes.append(replace(node, id=ids.get(node.id, node.id), name=name, inputs=inputs))
        return replace(model, nodes=tuple(nodes))
