"""A model's expressions held against a run of it by the references: every size and element of every
layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork.ir.interpret import State
from uncork.ir.model import Model, Source
from uncork.ir.symbols import infer_symbolic
from uncork.ops.state import Assign3, ReadValue3
from uncork.symbolic import Facts, Origin, Size, Symbol
from uncork.types import Array, PartialShape, TensorSpec


def observed(model: Model, inputs: Sequence[Array], state: State) -> dict[Source, TensorSpec]:
    """What every layer of one call gave; the state is that after the call then."""
    given = dict(zip(model.parameters, inputs, strict=True))
    specs: dict[Source, TensorSpec] = {}
    assigned: State = {}
    for node in model.nodes:
        operation = node.operation
        assert operation is not None
        if node.id in given:
            outputs: tuple[TensorSpec, ...] = (_spec(node.outputs[0].spec, given[node.id]),)
        elif isinstance(operation, ReadValue3) and operation.variable_id in state:
            outputs = (_spec(node.outputs[0].spec, state[operation.variable_id]),)
        else:
            outputs = operation.evaluate([specs[source] for source in node.inputs])
        if isinstance(operation, Assign3):
            assigned[operation.variable_id] = np.asarray(outputs[0].value)
        specs |= {Source(node.id, position): output for position, output in enumerate(outputs)}
    state.update(assigned)
    return specs


def _spec(like: TensorSpec, array: Array) -> TensorSpec:
    return TensorSpec(like.element_type, PartialShape(array.shape), array)


def origins(specs: dict[Source, TensorSpec]) -> dict[Origin, int]:
    """The values of all symbols that there can be."""
    found: dict[Origin, int] = {}
    for (node, output), spec in specs.items():
        found |= {Origin(node, output, axis): size for axis, size in enumerate(spec.shape.static)}
        if spec.value is not None and spec.element_type.is_integer and spec.value.size <= 8:
            found |= {
                Origin(node, output, i, True): v for i, v in enumerate(spec.value.ravel().tolist())
            }
    return found


@dataclass
class Plans:
    """The inferences of one model that its calls have needed: one for each way that questions were
    answered.
    """

    model: Model
    made: list[tuple[Model, Facts]]
    compared: int = 0

    def check(self, inputs: Sequence[Array], state: State) -> None:
        """One call: an inference whose guards it keeps, made when there is none, has the right size
        everywhere.
        """
        specs = observed(self.model, inputs, state)
        values = origins(specs)
        fitting = next((plan for plan in self.made if _keeps(plan[1], values)), None)
        if fitting is None:
            fitting = infer_symbolic(self.model, hints=values)
            assert _keeps(fitting[1], values), (
                f"guards by hints do not hold: {_broken(fitting[1], values)}"
            )
            self.made.append(fitting)
        model, facts = fitting
        bound = _bound(facts, values)
        for check in facts.checks:
            assert check.holds(bound), (
                f"{check.where}: the check {check} does not hold in a right call"
            )
        for node in model.nodes:
            for position, port in enumerate(node.outputs if node.type_name != "Result" else ()):
                self._compare(node.label, port.spec, specs[Source(node.id, position)], bound)

    def _compare(
        self, label: str, said: TensorSpec, seen: TensorSpec, values: dict[Symbol, int]
    ) -> None:
        assert said.rank is not None, f"{label}: the rank is unknown"
        for dim, size in zip(said.shape, seen.shape.static, strict=True):
            self.compared += 1
            assert dim.as_size().evaluate(values) == size, (
                f"{label}: {said} is {seen} with {values}"
            )
        for element, value in zip(
            said.elements or (),
            () if seen.value is None else seen.value.ravel().tolist(),
            strict=False,
        ):
            known = element.exact_value(values) if isinstance(element, Size) else element
            assert known is None or known == value, (
                f"{label}: element {element} is {value} with {values}"
            )


def _bound(facts: Facts, values: dict[Origin, int]) -> dict[Symbol, int]:
    return {symbol: values[symbol.origin] for symbol in facts.symbols if symbol.origin in values}


def _keeps(facts: Facts, values: dict[Origin, int]) -> bool:
    bound = _bound(facts, values)
    inside = all(s.low <= v and (s.high is None or v <= s.high) for s, v in bound.items())
    return inside and not _broken(facts, values)


def _broken(facts: Facts, values: dict[Origin, int]) -> list[str]:
    bound = _bound(facts, values)
    return [str(guard) for guard in facts.guards if not guard.holds(bound)]
