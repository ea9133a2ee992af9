"""Loop-5 and TensorIterator-1: a sub-graph run once an iteration, on slices of tensors, with values
carried along.

Pages: operation-specs/infrastructure/loop-5, tensor-iterator-1. Decisions where the pages are
silent:
- A Parameter that is the end of a back edge takes the layer's input first and the body's result
  afterwards.
- An output without slicing is the last iteration's value. When there was no iteration it is the
  initial value of what is carried along; an output that is not carried along has no value then,
  which is refused.
- `end` is exclusive for slices, and -1 means the end of the axis; with a negative stride `start`
  -1 means the end.
- The condition that the body computes is looked at after each iteration, as a while-loop's at the
  next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.errors import UncorkError
from uncork.ops._body import (
    CONDITION,
    BodyInput,
    BodyOutput,
    JoinedOutput,
    SlicedInput,
    TurnNumber,
    maybe_run,
    union,
)
from uncork.ops._operation import register
from uncork.ops._ports import ANY, BOOLEAN, I32_I64, Input, Output
from uncork.ops._size_arithmetic import certainly_at_least
from uncork.ops._slicing import SlicingOperation
from uncork.ops._turns import Turns
from uncork.symbolic import Size
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec


class Iteration(SlicingOperation):
    """The base of Loop and TensorIterator: it infers shapes and runs the body, and each of the two
    says how often the body runs.
    """

    # ---- shapes

    def _inferred(
        self, inputs: Sequence[TensorSpec], iterations: Element, at_least_one: bool
    ) -> list[TensorSpec]:
        """The specs of the outputs. `iterations` is the number of iterations, where it is known and
        the body does not end the loop.

        Carried values may have another shape after the first iteration (a list that is filled) and
        keep that one. Those that grow with every iteration are widened until another one changes
        nothing.
        """
        carried = self.map.carried
        given: dict[int, TensorSpec] = {}
        for entry in self.map.inputs:
            given[entry.parameter] = self._body_input(entry, inputs, entry.parameter in carried)
        with maybe_run(inputs, at_least_one):
            results: Sequence[TensorSpec] = self.map.body.describe(
                [given[i] for i in range(len(given))]
            )
            later = self._steady(given, carried, results) if at_least_one else None
            if later is not None:
                given = later
            else:
                results = self._widened(given, carried, results)
        if not _is_zero(iterations) and not self._goes_on(results):
            iterations = None
        outputs = {
            o.port: self._output(o, results[o.result], iterations, at_least_one, given, carried)
            for o in self.map.given
        }
        return [outputs[port] for port in range(len(outputs))]

    def _goes_on(self, results: Sequence[TensorSpec]) -> bool:
        """Whether the body never ends the loop: it has no condition, or one that is always true."""
        conditions = [results[o.result].value for o in self.map.outputs if o.purpose == CONDITION]
        return all(value is not None and bool(value.reshape(-1)[0]) for value in conditions)

    def _steady(
        self,
        given: dict[int, TensorSpec],
        carried: Mapping[int, int],
        results: Sequence[TensorSpec],
    ) -> dict[int, TensorSpec] | None:
        """The specs that the body takes from the second iteration on, when with them it gives the
        same shapes again; None when it does not.
        """
        if any(results[r].element_type is not given[p].element_type for p, r in carried.items()):
            return None
        if all(results[r].shape == given[p].shape for p, r in carried.items()):
            return given
        later = given | {
            p: TensorSpec(results[r].element_type, results[r].shape) for p, r in carried.items()
        }
        try:
            again = self.map.body.describe([later[i] for i in range(len(later))])
        except UncorkError:
            return None
        return (
            later if all(a.shape == b.shape for a, b in zip(results, again, strict=True)) else None
        )

    def _widened(
        self,
        given: dict[int, TensorSpec],
        carried: Mapping[int, int],
        results: Sequence[TensorSpec],
    ) -> Sequence[TensorSpec]:
        """The specs of the body's results when carried values may have the shape of any iteration;
        `given` is set to these shapes.
        """
        for attempt in range(4):
            if attempt:
                results = self.map.body.describe([given[i] for i in range(len(given))])
            wider = {p: self._carried(p, given[p], results[r], attempt) for p, r in carried.items()}
            if all(wider[p].shape == given[p].shape for p in carried):
                break
            given.update(wider)
        return results

    def _body_input(
        self, entry: BodyInput | TurnNumber, inputs: Sequence[TensorSpec], is_carried: bool
    ) -> TensorSpec:
        declared = self.map.body.input_specs[entry.parameter]
        if isinstance(entry, TurnNumber):
            return TensorSpec(declared.element_type, declared.shape)
        spec = self.external(inputs, entry)
        if isinstance(entry, SlicedInput):
            if spec.rank is None:
                return TensorSpec(spec.element_type, PartialShape())
            axis = self.axis(entry.slicing, spec.rank)
            part = spec.shape.with_dimension(axis, entry.slicing.part_size)
            return TensorSpec(spec.element_type, part)
        return TensorSpec(spec.element_type, spec.shape) if is_carried else spec

    def _carried(
        self, parameter: int, before: TensorSpec, after: TensorSpec, attempt: int
    ) -> TensorSpec:
        both = self.wanted(
            union(before, after),
            "the value carried to parameter {} of the body starts as {} and becomes {}",
            parameter,
            before.element_type,
            after.element_type,
        )
        if attempt == 0 or both.rank is None:
            return both
        # Still changing: sizes that grow with every iteration have no bound.
        return TensorSpec(
            both.element_type,
            PartialShape(
                [d if d == b else DYNAMIC for d, b in zip(both.shape, before.shape, strict=True)]
            ),
        )

    def _output(
        self,
        entry: BodyOutput,
        result: TensorSpec,
        iterations: Element,
        at_least_one: bool,
        given: dict[int, TensorSpec],
        carried: dict[int, int],
    ) -> TensorSpec:
        if not isinstance(entry, JoinedOutput):
            # Without an iteration a carried value keeps its initial shape; `given` holds that shape
            # too.
            starts = [given[p] for p, r in carried.items() if r == entry.result]
            spec = TensorSpec(result.element_type, result.shape)
            return (union(spec, starts[0]) or spec) if starts and not at_least_one else spec
        if result.rank is None:
            return TensorSpec(result.element_type, PartialShape())
        axis = self.axis(entry.slicing, result.rank)
        part = entry.slicing.part_size
        self.require(
            not at_least_one or result.shape[axis].agrees(part),
            "output {}: the body's result is {}, expected {} (part_size) along axis {}: give the "
            "output the part_size that the body makes",
            entry.port,
            result,
            part,
            axis,
        )
        joined = DYNAMIC if iterations is None else Dimension.of(iterations) * part
        return TensorSpec(result.element_type, result.shape.with_dimension(axis, joined))

    # ---- values

    def begin(self, inputs: Sequence[Array]) -> Turns:
        """The loop before its first turn, on these inputs of the layer."""
        raise NotImplementedError

    def _iterated(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the layer, by running the body turn by turn."""
        turns = self.begin(inputs)
        while turns.go_on():
            turns.make(self.map.body)
        return turns.outputs()


def _is_zero(size: Element) -> bool:
    return isinstance(size, int) and size == 0


@register("Loop", 5)
class Loop5(Iteration):
    """`trip_count` (negative: no limit) and `execution_condition` are scalars or have one element;
    then the body's inputs.
    """

    trip_count = Input(I32_I64)
    execution_condition = Input(BOOLEAN)
    values = Input(ANY, variadic=True, optional=True, moved=True)
    results = Output()

    def infer(
        self, trip_count: TensorSpec, execution_condition: TensorSpec, *values: TensorSpec | None
    ) -> Sequence[TensorSpec]:
        for name, spec in (
            ("trip_count", trip_count),
            ("execution_condition", execution_condition),
        ):
            self.require(
                spec.shape.size.agrees(1),
                "input '{}': expected one element, got shape {}",
                name,
                spec.shape,
            )
        inputs = [trip_count, execution_condition, *(v for v in values if v is not None)]
        iterations: Element = None
        condition = (
            None
            if execution_condition.value is None
            else bool(execution_condition.value.reshape(-1)[0])
        )
        count = self._trips(trip_count)
        if condition is False:
            iterations = 0
        else:
            iterations = count
        # The condition that the body computes is looked at after the first iteration only.
        begins = condition is True and (
            self._is_unlimited(trip_count)
            or (count is not None and certainly_at_least(Size.of(count), 1))
        )
        return self._inferred(inputs, iterations, begins)

    def _trips(self, trip_count: TensorSpec) -> Element:
        """The limit of iterations; None when it is not known, or there is none."""
        element = (trip_count.sizes() or [None])[0]
        if isinstance(element, Size):
            facts = element.facts
            return element if facts is not None and facts.suppose_at_least(element, 0) else None
        return element if element is not None and element >= 0 else None

    def _is_unlimited(self, trip_count: TensorSpec) -> bool:
        return trip_count.value is not None and int(trip_count.value.reshape(-1)[0]) < 0

    def begin(self, inputs: Sequence[Array]) -> Turns:
        count = int(inputs[0].reshape(-1)[0])
        return Turns(self, inputs, count if count >= 0 else None, bool(inputs[1].reshape(-1)[0]))

    def reference(
        self, trip_count: Array, execution_condition: Array, *values: Array
    ) -> list[Array]:
        return self._iterated([trip_count, execution_condition, *values])


@register("TensorIterator", 1)
class TensorIterator1(Iteration):
    """A loop with as many iterations as the sliced inputs have parts; at least one input must be
    sliced.
    """

    values = Input(ANY, variadic=True, moved=True)
    results = Output()

    def infer(self, *values: TensorSpec | None) -> Sequence[TensorSpec]:
        self.require(
            len(self.map.sliced) > 0,
            "no input is sliced: the number of iterations is not given",
        )
        inputs = [v for v in values if v is not None]
        iterations = self._sliced_iterations(inputs)
        return self._inferred(
            inputs,
            iterations,
            iterations is not None and certainly_at_least(Size.of(iterations), 1),
        )

    def begin(self, inputs: Sequence[Array]) -> Turns:
        counts: dict[int, int] = {}
        for entry in self.map.sliced:
            shape = inputs[entry.port].shape
            counts[entry.port] = len(
                self.parts(entry.slicing, shape[self.axis(entry.slicing, len(shape))])
            )
        self._require_alike(len(set(counts.values())) == 1, counts)
        return Turns(self, inputs, next(iter(counts.values())), True)

    def reference(self, *values: Array) -> list[Array]:
        return self._iterated(values)
