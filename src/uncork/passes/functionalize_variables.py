"""A model with variables becomes one without: values read become inputs, and values assigned become
results.

Of a variable that only grows the storage comes in, with its length, and only the new length goes
out: see `match_appends`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.appended_state import AppendState, LengthAfter, StateLength, StateValue
from uncork.ir.model import Model, Node, Port, Source, node_of
from uncork.ops.concat import Concat1
from uncork.ops.parameter import Parameter, Result
from uncork.ops.state import Assign3, ReadValue3
from uncork.passes.match_appends import Append, appends
from uncork.passes.rewrite import NewLayers, pruned
from uncork.types import ElementType, PartialShape


class Lifted(Struct, frozen=True):
    """A model whose variables became inputs and results: `model` takes more after its own inputs
    and gives more after its own results.

    It takes the values of `reads` (ReadValue nodes of the model it was), then the storages of what
    is `appended`, then the lengths of these. It gives the values of the variables `assigned`, by
    id, then the new lengths.
    """

    model: Model
    reads: tuple[Node, ...]
    assigned: tuple[str, ...]
    appended: tuple[Append, ...] = ()


def functionalize_variables(model: Model, in_place: bool = True) -> Lifted | None:
    """The model without variables; None when the variables' types contradict each other: the
    interpreter says what comes of it.

    A variable that is never assigned stays as it is: every call reads its initial value. With
    `in_place` variables that only grow do so in their storage.
    """
    values, passed = assignments(model)
    reads = [node for node in model.nodes if isinstance(node.operation, ReadValue3)]
    types = {variable: model.spec(source).element_type for variable, source in values.items()}
    if any(types.get(variable_of(node), _type(node)) is not _type(node) for node in reads):
        return None
    return _Lifting(model, values, passed, appends(model, values) if in_place else ()).lifted()


def growing_axes(model: Model) -> dict[str, int]:
    """The axes along which variables of a checked model grow, by their ids."""
    return {append.variable: append.axis for append in appends(model, assignments(model)[0])}


def assignments(model: Model) -> tuple[dict[str, Source], dict[Source, Source]]:
    """What variables are assigned, by their ids, and what Assign layers pass on."""
    values: dict[str, Source] = {}  # the last assignment of a variable is the one that holds
    passed: dict[Source, Source] = {}  # an Assign also passes its value on
    for node in model.nodes:
        if isinstance(node.operation, Assign3):
            source = node.inputs[0]
            values[node.operation.variable_id] = passed[Source(node.id, 0)] = passed.get(
                source, source
            )
    return values, passed


def initial_values(model: Model, reads: Sequence[Node]) -> Model | None:
    """The part of the model that computes what `reads` begin with; None: it depends on a
    variable.
    """
    first = model.next_id
    results = [
        node_of(
            index,
            f"initial value {index}",
            Result(),
            node.inputs,
            [Port(model.spec(node.inputs[0]))],
        )
        for index, node in enumerate(reads, first)
    ]
    ids = tuple(result.id for result in results)
    part = pruned(replace(model, nodes=(*model.nodes, *results), results=ids, sinks=()))
    return (
        None
        if any(isinstance(node.operation, (ReadValue3, Assign3)) for node in part.nodes)
        else part
    )


class _Lifting:
    """The nodes of the new model, made in the order of the old one's."""

    def __init__(
        self,
        model: Model,
        values: Mapping[str, Source],
        passed: Mapping[Source, Source],
        grown: Sequence[Append],
    ) -> None:
        self.model, self.values = model, values
        #: What is read in place of an output.
        self.instead = dict(passed)
        self.new = NewLayers(model)
        self.nodes = self.new.nodes
        self.reads: list[Node] = []
        self.appended: list[Append] = []
        #: The lengths of the variables that grow, before the call and after it.
        self.before: dict[str, Source] = {}
        self.after: dict[str, Source] = {}
        self.by_read = {append.read.id: append for append in grown}
        self.by_join = {append.join.id: append for append in grown}

    def lifted(self) -> Lifted:
        for node in self.model.nodes:
            operation = node.operation
            node = replace(node, inputs=tuple(map(self._instead, node.inputs)))
            if node.id in self.by_read:
                self._read(self.by_read[node.id])
            elif node.id in self.by_join:
                self._join(self.by_join[node.id], node)
            elif isinstance(operation, ReadValue3) and operation.variable_id in self.values:
                self.reads.append(node)
                self._parameter(node, node.outputs[0].spec.shape)
            elif not isinstance(operation, Assign3):
                self.nodes.append(node)
        plain = {
            variable: source
            for variable, source in self.values.items()
            if variable not in self.after
        }
        given = {
            **plain,
            **{append.variable: self.after[append.variable] for append in self.appended},
        }
        results = [
            self.new.put(Result(), self._instead(source), name=f"{variable} assigned").node
            for variable, source in given.items()
        ]
        parameters = [node.id for node in (*self.reads, *(append.read for append in self.appended))]
        parameters += [self.before[append.variable].node for append in self.appended]
        lifted = replace(
            self.model,
            nodes=tuple(self.nodes),
            parameters=(*self.model.parameters, *parameters),
            results=(*self.model.results, *results),
            sinks=(),
        )
        return Lifted(pruned(lifted), tuple(self.reads), tuple(plain), tuple(self.appended))

    def _read(self, append: Append) -> None:
        """Replace the read of a variable that grows by its storage, its length, and its value for
        whoever reads it.
        """
        spec = append.read.outputs[0].spec
        shape = PartialShape(
            [None if axis == append.axis else dim for axis, dim in enumerate(spec.shape)]
        )
        storage, name = self._parameter(append.read, shape), append.variable
        self.before[name] = self.new.put(StateLength(), name=f"{name} length")
        value = self.new.put(
            StateValue(append.axis), storage, self.before[name], name=f"{name} value"
        )
        self.instead[Source(append.read.id, 0)] = value
        if append.selection is not None:  # whoever runs the model has done it
            self.instead[Source(append.selection.node.id, 0)] = value
        self.appended.append(append)

    def _parameter(self, node: Node, shape: PartialShape) -> Source:
        """An input in the place of a node."""
        parameter = Parameter(element_type=_type(node), shape=shape)
        return self.new.put(parameter, name=node.name, place=node.id)

    def _join(self, append: Append, node: Node) -> None:
        """Append the new elements to the storage; the variable's value from there on takes the
        place of the Concat.
        """
        name, before = append.variable, self.before[append.variable]
        new = node.inputs[1]
        if len(node.inputs) > 2:
            new = self.new.put(Concat1(axis=append.axis), *node.inputs[1:], name=f"{name} new")
        picks = (
            () if append.selection is None else (self._instead(append.selection.node.inputs[1]),)
        )
        axis = 0 if append.selection is None else append.selection.axis
        storage = self.new.put(
            AppendState(append.axis, axis),
            Source(append.read.id, 0),
            before,
            new,
            *picks,
            name=f"{name} appended",
        )
        self.after[name] = self.new.put(
            LengthAfter(append.axis), before, new, name=f"{name} length after"
        )
        value = StateValue(append.axis)
        inputs = (storage, self.after[name])
        self.nodes.append(replace(node, inputs=inputs, operation=value, attributes={}))

    def _instead(self, source: Source) -> Source:
        while source in self.instead:
            source = self.instead[source]
        return source


def variable_of(node: Node) -> str:
    """The variable that a ReadValue reads."""
    return node.of(ReadValue3).variable_id


def _type(node: Node) -> ElementType:
    return node.outputs[0].spec.element_type
