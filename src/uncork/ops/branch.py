"""If-8: one of two sub-graphs, by a condition.

Page: operation-specs/condition/if-8. The outputs of both bodies must have the same element types;
their shapes may differ, also in rank: what comes out is exactly what the chosen body gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from uncork.errors import ValidationError
from uncork.ops._body import BodyMap, SubGraphOperation, maybe_run, union
from uncork.ops._operation import register
from uncork.ops._ports import ANY, BOOLEAN, Input, Output
from uncork.symbolic import facts_of
from uncork.types import Array, TensorSpec


@register("If", 8)
class If8(SubGraphOperation):
    """`condition` is a boolean scalar or has one element; then come the inputs that the bodies'
    port maps name by number.
    """

    body_names = ("then_body", "else_body")
    condition = Input(BOOLEAN)
    values = Input(ANY, variadic=True, optional=True, moved=True)
    results = Output()

    def infer(self, condition: TensorSpec, *values: TensorSpec | None) -> Sequence[TensorSpec]:
        self.require(
            condition.shape.size.agrees(1),
            "input 'condition': expected one element, got shape {}",
            condition.shape,
        )
        inputs = [condition, *(v for v in values if v is not None)]
        if condition.value is not None:
            return self._described(self._chosen(condition.value), inputs)
        found = [self._if_it_runs(self.bodies[name], inputs) for name in self.body_names]
        refusals = [one for one in found if isinstance(one, ValidationError)]
        if len(refusals) == len(found):
            raise refusals[0]
        if refusals:
            return next(one for one in found if not isinstance(one, ValidationError))
        then, other = cast("list[list[TensorSpec]]", found)
        merged: list[TensorSpec] = []
        for position, (a, b) in enumerate(zip(then, other, strict=True)):
            merged.append(
                self.wanted(
                    union(a, b),
                    "output {}: <then_body> gives {}, <else_body> {}",
                    position,
                    a.element_type,
                    b.element_type,
                )
            )
        return merged

    def _chosen(self, condition: Array) -> BodyMap:
        return self.bodies[
            self.body_names[0] if bool(condition.reshape(-1)[0]) else self.body_names[1]
        ]

    def _if_it_runs(
        self, branch: BodyMap, inputs: Sequence[TensorSpec]
    ) -> list[TensorSpec] | ValidationError:
        """What a branch gives where it runs. Where sizes are symbols, the error of one that takes
        no such inputs: a call that chooses it is refused then, and others need not be.
        """
        try:
            with maybe_run(inputs, certain=False):
                return self._described(branch, inputs)
        except ValidationError as error:
            if facts_of(d.expression for s in inputs if s.rank is not None for d in s.shape):
                return error
            raise

    def _described(self, branch: BodyMap, inputs: Sequence[TensorSpec]) -> list[TensorSpec]:
        for entry in branch.fed:
            self.external(inputs, entry)
        return branch.outputs_of(branch.body.describe(branch.arguments(inputs)))

    def reference(self, condition: Array, *values: Array) -> list[Array]:
        branch = self._chosen(condition)
        given = branch.arguments([condition, *values])
        return branch.outputs_of(branch.body.evaluate(given))
