"""Helpers of passes: the readers of a tensor, whether a layer has a kernel, and a model with some
of its nodes replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from uncork.internal_ops.fused import FusedMember
from uncork.internal_ops.made_constant import MadeConstant
from uncork.internal_ops.view import View
from uncork.ir.bodies import with_graphs
from uncork.ir.hints import NO_HINTS
from uncork.ir.model import Model, Node, Port, Source
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import select_kernel
from uncork.ops import Operation
from uncork.ops._body import SubGraphOperation
from uncork.ops.convert import Convert1
from uncork.ops.parameter import Const
from uncork.ops.transpose import Transpose1
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec


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


def only_before(
    model: Model, read_by: Mapping[Source, list[Node]], node: Node, position: int
) -> Node | None:
    """The layer that makes an input, when nothing else reads it."""
    before = model.by_id[node.inputs[position].node]
    return before if only_reader(read_by, before) is node and len(before.outputs) == 1 else None


def all_readers(read_by: Mapping[Source, list[Node]], node: Node) -> list[Node]:
    """The nodes that read an output of a node, once for each time they do."""
    outputs = (Source(node.id, number) for number in range(len(node.outputs)))
    return [reader for output in outputs for reader in read_by.get(output, [])]


def has_kernel(model: Model, node: Node, target: Target) -> bool:
    """Whether there is a kernel for a layer that reads tensors of the model."""
    specs = [model.spec(source) for source in node.inputs]
    outputs = [port.spec for port in node.outputs]
    choice = select_kernel(node.checked_operation, specs, outputs, target, node.hints)
    return not isinstance(choice, str)


def as_members(
    nodes: Sequence[Node], first: Iterable[Source] = ()
) -> tuple[tuple[Source, ...], list[FusedMember]]:
    """What layers read from outside, behind what comes `first`, and each layer as a member of one:
    each comes after those that it reads.
    """
    made = {node.id for node in nodes}
    outside = dict.fromkeys(s for node in nodes for s in node.inputs if s.node not in made)
    outside = dict.fromkeys([*first, *outside])
    numbers = {source: number for number, source in enumerate(outside)}
    members: list[FusedMember] = []
    for node in nodes:
        arguments = tuple(numbers[source] for source in node.inputs)
        members.append(FusedMember(node.checked_operation, arguments))
        count = len(numbers)
        numbers |= {Source(node.id, n): count + n for n in range(len(node.outputs))}
    return tuple(outside), members


def replaced(
    model: Model,
    new: Mapping[int, Node | Sequence[Node]],
    moved: Mapping[Source, Source] | None = None,
) -> Model:
    """The model with a new node, or several, in the place of each of these, whose readers read
    other tensors in place of those that are `moved`, and without what nothing needs any more; the
    very same model where there is nothing to do.
    """
    if not new and not moved:
        return model
    nodes: list[Node] = []
    for node in model.nodes:
        made = new.get(node.id, node)
        nodes += [made] if isinstance(made, Node) else made
    if moved:
        nodes = [node.reading(moved) for node in nodes]
    return pruned(replace(model, nodes=tuple(nodes)))


def rewritten(model: Model, rule: Callable[[Node], Node | None]) -> Model:
    """The model with what a rule makes of a layer in its place; None, or the very layer, leaves it
    as it is.
    """
    made = {node.id: after for node in model.nodes if (after := rule(node) or node) is not node}
    return replaced(model, made)


def as_constant(node: Node, operation: Const) -> Node:
    """A layer whose only tensor is a constant from now on, of the same names."""
    old = node.outputs[0]
    port = Port(operation.infer(), old.names, old.extras)
    return replace(node, attributes={}, inputs=(), outputs=(port,), operation=operation)


def made_constants(model: Model, kind: type[MadeConstant]) -> Model:
    """The model with constants of f32 of a kind, whose values are made when somebody asks for them,
    as plain numbers.
    """

    def number(node: Node) -> Node | None:
        if not isinstance(node.operation, kind):
            return None
        return as_constant(node, Const.of_array(ElementType.f32, node.operation.value))

    return rewritten(model, number)


class NewLayers:
    """The layers of a model that is made anew, one after the other, with others between them, which
    have numbers from `first` on where that is given. They have the hints that all layers have.
    """

    def __init__(self, model: Model, first: int | None = None) -> None:
        self.old = model
        self._hints = replace(model.nodes[0].hints, note="") if model.nodes else NO_HINTS
        self.nodes: list[Node] = []
        self._added: dict[Source, TensorSpec] = {}
        self._once: dict[Hashable, Source] = {}
        self._next = model.next_id if first is None else first

    def spec(self, source: Source) -> TensorSpec:
        """What is known of a tensor of the old model, or of a layer that was added."""
        return self._added.get(source) or self.old.spec(source)

    def number(self) -> int:
        """The number of a layer that the old model does not have."""
        self._next += 1
        return self._next - 1

    def add(
        self,
        name: str,
        operation: Operation,
        inputs: Sequence[Source],
        *specs: TensorSpec,
        place: int | None = None,
    ) -> Source:
        """The first output of a layer in the `place` of one of the old model, or of one more, whose
        outputs are these specs, or what the operation says.
        """
        number = self.number() if place is None else place
        specs = specs or operation.describe([self.spec(source) for source in inputs])
        name, version = name or f"{operation.type_name} {number}", "opset1"
        self.nodes.append(
            Node(
                number,
                name,
                operation.type_name,
                version if operation.opset else "",
                {},
                tuple(inputs),
                tuple(map(Port, specs)),
                operation,
                hints=self._hints,
            )
        )
        self.know(number, specs)
        return Source(number, 0)

    def put(
        self, operation: Operation, *inputs: Source, name: str = "", place: int | None = None
    ) -> Source:
        """The output of such a layer, called by its operation and number unless it has a `name`."""
        return self.add(name, operation, inputs, place=place)

    def again(self, node: Node, *inputs: Source) -> Source:
        """The first output of a layer of the old model on other inputs, in its place."""
        specs = node.checked_operation.describe([self.spec(source) for source in inputs])
        self.nodes.append(replace(node, inputs=inputs, outputs=node.ports(specs)))
        self.know(node.id, specs)
        return Source(node.id, 0)

    def constant(
        self, value: ArrayLike, element_type: ElementType = ElementType.i64, name: str = ""
    ) -> Source:
        """A constant of these numbers, in the type that carries them."""
        held = np.asarray(value, element_type.dtype)
        return self.put(Const.of_array(element_type, held), name=name)

    # What becomes of one layer is several, which are called after it.

    def viewed(self, node: Node, source: Source, sizes: Sequence[Dimension]) -> Source:
        """A tensor with these sizes."""
        return self.add(f"{node.name}/view", View(PartialShape(sizes)), [source])

    def transposed(self, node: Node, source: Source, order: Sequence[int]) -> Source:
        """A tensor with its axes in this order."""
        axes = self.constant(order, name=f"{node.name}/order")
        return self.add(f"{node.name}/transposed", Transpose1(), [source, axes])

    def ordered(
        self, node: Node, source: Source, labels: Sequence[object], wanted: Sequence[object]
    ) -> Source:
        """A tensor with its axes, which have labels, in the order of these labels."""
        if list(labels) == list(wanted):
            return source
        return self.transposed(node, source, [list(labels).index(label) for label in wanted])

    def finish(self, node: Node) -> None:
        """Give the last layer the place of the old one, and its name."""
        last = self.nodes.pop()
        self.nodes.append(
            replace(
                node,
                inputs=last.inputs,
                input_extras=(),
                outputs=node.ports([last.outputs[0].spec]),
                operation=last.operation,
                attributes={},
            )
        )

    def know(self, number: int, specs: Sequence[TensorSpec]) -> None:
        """Take the outputs of a layer by its number for these."""
        self._added |= {Source(number, position): spec for position, spec in enumerate(specs)}

    def taken(self) -> list[Node]:
        """The layers since this was last asked, for whoever puts them in the place of one node."""
        nodes, self.nodes = self.nodes, []
        return nodes

    def rewritten(self, rule: Callable[[Node], object]) -> Model:
        """The old model with the layers that a rule adds for one, if any, in its place."""
        made: dict[int, list[Node]] = {}
        for node in self.old.nodes:
            rule(node)
            if self.nodes:
                made[node.id] = self.taken()
        return replaced(self.old, made)

    def once(self, key: Hashable, make: Callable[[], Source]) -> Source:
        """The tensor that is made for a key, however often it is asked for."""
        if key not in self._once:
            self._once[key] = make()
        return self._once[key]

    def converted(self, source: Source, spec: TensorSpec, to: ElementType) -> Source:
        """A tensor that is of such a `spec`, in another type."""
        name, operation = f"{self.old.by_id[source.node].name}/{to}", Convert1(destination_type=to)
        return self.add(name, operation, [source], *operation.describe([spec]))

    def model(self) -> Model:
        """The new model, without what nothing needs."""
        return pruned(replace(self.old, nodes=tuple(self.nodes)))


def pruned(model: Model) -> Model:
    """The model without what nothing needs; the very same where there is no such layer."""
    nodes = model.nodes
    uses = Counter(source.node for node in nodes for source in node.inputs)
    borders = {*model.parameters, *model.results, *model.sinks}
    kept: list[Node] = []
    # readers come after what they read, so one pass backwards is enough
    for node in reversed(nodes):
        if node.id in borders or uses[node.id]:
            kept.append(node)
        else:
            uses.subtract(source.node for source in node.inputs)
    return model if len(kept) == len(nodes) else replace(model, nodes=tuple(reversed(kept)))


def with_bodies(node: Node, rewrite: Callable[[Model], Model]) -> Node:
    """The layer with its bodies rewritten; the very same where it has none, or nothing changes."""
    operation = node.operation
    if not isinstance(operation, SubGraphOperation):
        return node
    after = with_graphs(operation, rewrite)
    return node if after is operation else replace(node, operation=after)
