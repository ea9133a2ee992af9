"""`GraphBody`: a graph as the body of If, Loop or TensorIterator.

It is described for the inputs of a call, and run by the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from msgspec.structs import replace

from uncork.concurrency import lazy
from uncork.errors import ValidationError
from uncork.ir.hints import NO_HINTS, Hints
from uncork.ir.interpret import interpret
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.ops import Operation
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.symbolic import facts_of
from uncork.types import Array, TensorSpec


class GraphBody:
    """A `Model` as the body of a layer."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._described: dict[Hashable, tuple[TensorSpec, ...]] = {}

    @lazy
    def input_specs(self) -> tuple[TensorSpec, ...]:
        return tuple(self.model.by_id[p].outputs[0].spec for p in self.model.parameters)

    @property
    def output_count(self) -> int:
        return len(self.model.results)

    def describe(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The specs of the results for these inputs; where the inputs do not fit, the error names
        the inner layers.
        """
        for index, (given, declared) in enumerate(zip(inputs, self.input_specs, strict=True)):
            name = self.model.by_id[self.model.parameters[index]].name
            merged = given.shape.merge(declared.shape)  # which demands what the body declares
            if given.element_type is not declared.element_type or merged is None:
                raise ValidationError(
                    f"parameter '{name}' of the body: expected {declared}, got {given}"
                )
        # Bodies in bodies are described several times by each layer around them: without this
        # memory the cost is exponential.
        key = (id(self), *((s.element_type, s.shape) for s in inputs))
        facts = facts_of(d.expression for s in inputs if s.rank is not None for d in s.shape)
        memory = self._described if facts is None else facts.described
        plain = all(s.value is None and s.elements is None for s in inputs)
        if plain and key in memory:
            return memory[key]
        checked, problems = infer(
            self.model, dict(zip(self.model.parameters, inputs, strict=True)), trust_ports=True
        )
        ValidationError.when_any("", problems)
        results = tuple(checked.spec(checked.by_id[r].inputs[0]) for r in checked.results)
        if plain:
            memory[key] = results
        return results

    def check(self, inputs: Sequence[Array]) -> None:
        """Refuse arrays that the body's parameters do not take."""
        for array, declared, parameter in zip(
            inputs, self.input_specs, self.model.parameters, strict=True
        ):
            if not declared.shape.contains(array.shape):
                name = self.model.by_id[parameter].name
                raise ValidationError(
                    f"parameter '{name}' of the body: "
                    f"expected shape {declared.shape}, got {list(array.shape)}"
                )

    def evaluate(self, inputs: Sequence[Array]) -> list[Array]:
        """Carrier arrays of the results."""
        self.check(inputs)
        return interpret(self.model, inputs)


def configure(model: Model, strict: bool, loop_limit: int | None, hints: Hints = NO_HINTS) -> Model:
    """The model with options of `compile_model` for every layer, those in bodies included."""
    if not strict and loop_limit is None and hints == NO_HINTS:
        return model
    nodes = []
    variable: set[int] = set()  # nodes whose results differ from call to call
    for node in model.nodes:
        operation = node.operation
        varies = operation is None or not operation.deterministic or node.type_name == "Parameter"
        if varies or any(source.node in variable for source in node.inputs):
            variable.add(node.id)
        if isinstance(operation, SubGraphOperation):
            operation = with_graphs(
                operation, lambda body: configure(body, strict, loop_limit, hints)
            ).replace(strict=strict, loop_limit=loop_limit)
        elif (
            operation is not None
            and strict
            and (operation.strict_on_constants or node.id in variable)
        ):
            operation = operation.replace(strict=True)
        nodes.append(replace(node, operation=operation, hints=hints))
    return replace(model, nodes=tuple(nodes))


def with_graphs(
    operation: SubGraphOperation, rewrite: Callable[[Model], Model]
) -> SubGraphOperation:
    """The operation with the graph of each of its bodies rewritten, before bodies get kernels; the
    very same where all stay.
    """

    def rewritten(joined: BodyMap) -> BodyMap:
        model = graph_of(joined)
        after = rewrite(model)
        return joined if after is model else replace(joined, body=GraphBody(after))

    return operation.rewritten(rewritten)


def graph_of(joined: BodyMap) -> Model:
    """The graph of a body, before bodies get kernels."""
    assert isinstance(joined.body, GraphBody), "bodies have kernels already"
    return joined.body.model


def graphs_of(operation: Operation) -> tuple[tuple[str, Model], ...]:
    """The graphs of an operation's bodies with their names, as the file has them."""
    bodies = operation.bodies if isinstance(operation, SubGraphOperation) else {}
    return tuple((name, graph_of(joined)) for name, joined in bodies.items())
