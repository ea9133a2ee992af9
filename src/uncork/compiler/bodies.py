"""Bodies of If, Loop and TensorIterator, run by kernels: a body is planned like a model, once for
all sizes that it is run with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace

from uncork.compiler.base_executor import RunsModel
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.plan import Plan, Step
from uncork.concurrency import lazy
from uncork.ir.bodies import GraphBody
from uncork.ir.interpret import interpret
from uncork.ir.model import Model, Node
from uncork.ir.validate import infer
from uncork.ops._body import Body, SubGraphOperation
from uncork.types import Array, TensorSpec

#: Specs whose descriptions are kept; then all are forgotten.
_DESCRIBED = 64
#: Values up to this many elements may tell a shape inside a body.
_SMALL = 64


class BodyExecutor(RunsModel, Protocol):
    """Runs the model of a body; see `Executor`."""

    prepared: Model

    def plans_for(self, shapes: Mapping[int, Sequence[int | None]]) -> list[CallPlan]: ...

    def call_plans(self) -> list[CallPlan]: ...


#: Makes what runs a body, of its checked model.
ExecutorOf = Callable[[Model], BodyExecutor]


class KernelBody:
    """A body that runs by kernels. Its meaning, and what it refuses, are those of the graph that it
    is made of.
    """

    def __init__(self, body: GraphBody, executor_of: ExecutorOf) -> None:
        self.body = body
        self._executor_of = executor_of
        self._described: dict[object, tuple[TensorSpec, ...]] = {}
        #: One plan makes all its calls, as far as anybody knows, so that it may be part of a step.
        self.may_be_step = True

    @lazy
    def executor(self) -> BodyExecutor | None:
        """The executor of the body, made at its first run, so that bodies in bodies take no stack
        before; None when the body alone cannot be inferred.
        """
        model, problems = infer(self.body.model, trust_ports=True)
        return None if problems else self._executor_of(model)

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]:
        """The specs of the Parameters, as the file declares them."""
        return self.body.input_specs

    @property
    def output_count(self) -> int:
        """The number of Results."""
        return self.body.output_count

    def describe(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """The specs of the results; see `GraphBody`. Only the values of small integers are looked
        at: other values decide no shape that matters.
        """
        plain = [
            spec if _tells(spec) else TensorSpec(spec.element_type, spec.shape) for spec in inputs
        ]
        if any(spec.elements is not None for spec in plain):
            return self.body.describe(plain)
        key = tuple(
            (
                s.element_type,
                s.shape,
                None if s.value is None else (s.value.shape, s.value.tobytes()),
            )
            for s in plain
        )
        known = self._described.get(key)
        if known is None:
            known = self.body.describe(plain)
            if len(self._described) >= _DESCRIBED:  # each step by itself: there is no lock
                self._described.clear()
            self._described[key] = known
        return known

    def refuse_steps(self) -> None:
        """Note that the body cannot be part of a step any more: a call needed another plan than the
        step has.
        """
        self.may_be_step = False

    def evaluate(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, as carrier arrays."""
        executor = self.executor
        if executor is not None and (results := executor.run_as_before(inputs)) is not None:
            return results
        self.body.check(inputs)
        if executor is None:
            return interpret(self.body.model, inputs)
        arrays = [
            array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
            for array in inputs
        ]
        return executor.run(arrays)


def _tells(spec: TensorSpec) -> bool:
    return (
        spec.value is not None
        and spec.value.size <= _SMALL
        and (spec.element_type.is_integer or spec.value.dtype == bool)
    )


def with_their_plans(plan: Plan, model: Model) -> Plan:
    """The plan with the steps of each body listed after the layer that has it, as far as they are
    known before a call.
    """
    steps: list[Step] = []
    bodies = {
        node.name: node.operation.bodies
        for node in model.nodes
        if isinstance(node.operation, SubGraphOperation)
    }
    for step in plan.steps:
        found = bodies.get(step.layer, {})
        steps.append(replace(step, kernel="bodies", reason="") if found else step)
        for name, body in found.items():
            executor = body.body.executor if isinstance(body.body, KernelBody) else None
            inner = executor.plan().steps if executor is not None else ()
            steps += [replace(s, layer=f"{step.layer} <{name}> {s.layer}") for s in inner]
    return replace(plan, steps=tuple(steps))


def executors_of_bodies(model: Model) -> Iterator[BodyExecutor]:
    """The executors of the bodies of a model's layers that run by kernels."""
    for node in model.nodes:
        if isinstance(node.operation, SubGraphOperation):
            for body in node.operation.bodies.values():
                if isinstance(body.body, KernelBody) and body.body.executor is not None:
                    yield body.body.executor


def with_kernel_bodies(model: Model, executor_of: ExecutorOf) -> Model:
    """The model with all its bodies run by kernels."""
    nodes = [
        _with_kernels(node, node.operation, executor_of)
        if isinstance(node.operation, SubGraphOperation)
        else node
        for node in model.nodes
    ]
    return (
        model
        if all(a is b for a, b in zip(nodes, model.nodes, strict=True))
        else replace(model, nodes=tuple(nodes))
    )


def graph_to_plan(body: Body) -> Model | None:
    """The graph of a body as its executor plans it; None for one that is not planned."""
    executor = body.executor if isinstance(body, KernelBody) else None
    return None if executor is None else executor.prepared


def with_checked_bodies(node: Node) -> Node:
    """The layer with its bodies as they were checked: those that run by kernels are of one model,
    after passes of which others know nothing.
    """
    operation = node.operation
    if not isinstance(operation, SubGraphOperation):
        return node
    checked = operation.rewritten(
        lambda joined: (
            replace(joined, body=joined.body.body)
            if isinstance(joined.body, KernelBody)
            else joined
        )
    )
    return replace(node, operation=checked)


def _with_kernels(node: Node, operation: SubGraphOperation, executor_of: ExecutorOf) -> Node:
    compiled = operation.rewritten(
        lambda joined: (
            replace(joined, body=KernelBody(joined.body, executor_of))
            if isinstance(joined.body, GraphBody)
            else joined
        )
    )
    return replace(node, operation=compiled)
