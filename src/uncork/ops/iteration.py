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
from fractions import Fraction

import numpy as np

from uncork.errors import UncorkError
from uncork.memory import available
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    EndlessLoop,
    Slicing,
    SubGraphOperation,
    maybe_run,
    union,
)
from uncork.ops._common.indices import normalised_axis
from uncork.ops._operation import register
from uncork.ops._ports import ANY, BOOLEAN, I32_I64, Input, Output
from uncork.ops._size_arithmetic import certainly_at_least
from uncork.symbolic import Size, SizeLike, facts_of, plain
from uncork.types import DYNAMIC, Array, Dimension, Element, PartialShape, TensorSpec

#: After so many turns, again and again, somebody looks at the memory that outputs take.
_LOOK = 4096


class Turns:
    """A loop under way: what its next turn takes, and what its outputs are made of so far.

    `iterations` is how many turns it makes at most (None: no limit); it ends when `condition` is
    false. Whoever runs turns may `take` them one by one, or set what several have left here:
    `turn`, `carried`, `pieces`, `results`, `condition`.
    """

    def __init__(
        self, operation: Iteration, inputs: Sequence[Array], iterations: int | None, condition: bool
    ) -> None:
        self.operation, self.inputs = operation, inputs
        self.iterations, self.condition = iterations, condition
        self.map = operation.map
        purposes = {i.purpose: i for i in self.map.inputs} | {
            o.purpose: o for o in self.map.outputs
        }
        #: The Parameter that is the number of the turn; the Result that says whether there is
        #: another.
        counter, decides = purposes.get("current_iteration"), purposes.get("execution_condition")
        self.counter = counter.parameter if isinstance(counter, BodyInput) else None
        self.decides = decides.result if isinstance(decides, BodyOutput) else None
        self.turn = 0
        #: What goes to Parameters that are not sliced, by their numbers.
        self.carried = {
            e.parameter: inputs[e.port]
            for e in self.map.inputs
            if e.port is not None and e.slicing is None
        }
        #: The parts of outputs that are put together, by their ports.
        self.pieces: dict[int, list[Array]] = {
            o.port: [] for o in self.map.outputs if o.port is not None and o.slicing is not None
        }
        #: Those of the last turn.
        self.results: list[Array] | None = None

    def go_on(self) -> bool:
        """There is another turn. Raises InputError when there may not be one."""
        if not self.condition or (self.iterations is not None and self.turn >= self.iterations):
            return False
        limit = self.operation.loop_limit
        if limit is not None and self.turn >= limit:
            raise EndlessLoop(
                f"still running after {limit} iterations, the limit given by loop_limit"
            )
        if self.turn and self.turn % _LOOK == 0:
            self.look_at_memory(0)
        return True

    def look_at_memory(self, more: int) -> None:
        """Refuse pieces of outputs that take more memory than there is, with so many bytes more."""
        needed = more + sum(piece.nbytes for pieces in self.pieces.values() for piece in pieces)
        limit, what = available()
        if needed > limit:
            raise EndlessLoop(
                f"its outputs need {needed:,} bytes after {self.turn} iterations, more than "
                f"{what} ({limit:,} bytes)"
            )

    def arguments(self) -> list[Array]:
        """What the body takes in this turn."""
        found = dict(self.carried)
        if self.counter is not None:
            spec = self.map.body.input_specs[self.counter]
            # Converters declare the counter as a scalar or as one element.
            found[self.counter] = np.full(
                [1] * (spec.rank or 0), self.turn, spec.element_type.dtype
            )
        for entry in self.map.inputs:
            if (
                entry.slicing is not None
                and entry.port is not None
                and entry.parameter != self.counter
            ):
                found[entry.parameter] = self.operation.part(
                    entry.slicing, self.inputs[entry.port], self.turn
                )
        return [found[i] for i in range(len(found))]

    def take(self, results: list[Array]) -> None:
        """What the body gave in this turn."""
        self.results = results
        for output in self.map.outputs:
            if output.port in self.pieces:
                self.pieces[output.port].append(results[output.result])
        self.carried.update(
            {parameter: results[result] for result, parameter in self.map.back_edges}
        )
        if self.decides is not None:
            self.condition = bool(np.asarray(results[self.decides]).reshape(-1)[0])
        self.turn += 1

    def outputs(self) -> list[Array]:
        """The layer's, when all turns are done."""
        outputs = {o.port: self._output(o, o.port) for o in self.map.outputs if o.port is not None}
        return [outputs[port] for port in range(len(outputs))]

    def _output(self, entry: BodyOutput, port: int) -> Array:
        """Put together from the parts of all turns, or what the last turn gave."""
        refuse = self.operation.refuse
        if entry.slicing is not None:
            return (
                self._joined(entry.slicing, port)
                if self.pieces[port]
                else self._without_turns(entry.slicing, entry)
            )
        if self.results is not None:
            return self.results[entry.result]
        initial = [
            self.carried[p]
            for result, p in self.map.back_edges
            if result == entry.result and p in self.carried
        ]
        if not initial:
            refuse(
                "output {} has no value: there was no iteration, and it is not carried from one "
                "to the next",
                port,
            )
        return initial[0]

    def _joined(self, slicing: Slicing, port: int) -> Array:
        pieces = self.pieces[port]
        first, axis = pieces[0], self.operation.axis(slicing, pieces[0].ndim)
        others = (*first.shape[:axis], *first.shape[axis + 1 :])
        for piece in pieces:
            if (*piece.shape[:axis], *piece.shape[axis + 1 :]) != others:
                self.operation.refuse(
                    "the pieces of output {} cannot be joined: {} and {}",
                    port,
                    first.shape,
                    piece.shape,
                )
        if len(pieces) == 1 and first.base is None:
            return first  # of all turns already
        return np.concatenate(pieces if slicing.stride > 0 else pieces[::-1], axis)

    def _without_turns(self, slicing: Slicing, entry: BodyOutput) -> Array:
        """An output put together from no parts: empty along its axis."""
        body = self.map.body
        given = list(body.input_specs)
        for taken in self.map.inputs:
            if taken.port is not None:
                sizes: list[int] = list(self.inputs[taken.port].shape)
                if taken.slicing is not None:
                    sizes[self.operation.axis(taken.slicing, len(sizes))] = taken.slicing.part_size
                given[taken.parameter] = TensorSpec(
                    given[taken.parameter].element_type, PartialShape(sizes)
                )
        result = body.describe(given)[entry.result]
        if result.rank is None:
            self.operation.refuse(
                "output {} has no shape: there was no iteration, and the body's rank is unknown",
                entry.port,
            )
        axis = self.operation.axis(slicing, len(result.shape))
        # A size that no iteration decided can only be 0: no element exists that would contradict
        # it.
        return np.zeros(
            [0 if d == axis else dim.static_size or 0 for d, dim in enumerate(result.shape)],
            result.element_type.dtype,
        )


class Iteration(SubGraphOperation):
    """What both loops do; how many iterations there are, they say themselves."""

    body_names = ("body",)

    @property
    def map(self) -> BodyMap:
        return self.bodies["body"]

    # ---- shapes

    def _inferred(
        self, inputs: Sequence[TensorSpec], iterations: Element, at_least_one: bool
    ) -> list[TensorSpec]:
        """Specs of the outputs; `iterations` is their number, where it is known.

        Carried values may have another shape after the first iteration (a list that is filled) and
        keep that one. Those that grow with every iteration are widened until another one changes
        nothing.
        """
        carried = {parameter: result for result, parameter in self.map.back_edges}
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
        outputs = {
            o.port: self._output(o, results[o.result], iterations, at_least_one, given, carried)
            for o in self.map.outputs
            if o.port is not None
        }
        return [outputs[port] for port in range(len(outputs))]

    def _steady(
        self,
        given: dict[int, TensorSpec],
        carried: Mapping[int, int],
        results: Sequence[TensorSpec],
    ) -> dict[int, TensorSpec] | None:
        """What the body takes from the second iteration on, when that gives the same shapes as the
        first; None when it does not.
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
        return later if all(a.shape == b.shape for a, b in zip(results, again)) else None

    def _widened(
        self,
        given: dict[int, TensorSpec],
        carried: Mapping[int, int],
        results: Sequence[TensorSpec],
    ) -> Sequence[TensorSpec]:
        """The results when carried values may have every shape of any iteration, which `given` is
        set to.
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
        self, entry: BodyInput, inputs: Sequence[TensorSpec], is_carried: bool
    ) -> TensorSpec:
        declared = self.map.body.input_specs[entry.parameter]
        if entry.port is None:
            return TensorSpec(declared.element_type, declared.shape)
        spec = self.external(inputs, entry)
        if entry.slicing is not None:
            if spec.rank is None:
                return TensorSpec(spec.element_type, PartialShape())
            axis = self.axis(entry.slicing, spec.rank)
            sizes = [
                Dimension.of(entry.slicing.part_size) if d == axis else dim
                for d, dim in enumerate(spec.shape)
            ]
            return TensorSpec(spec.element_type, PartialShape(sizes))
        return TensorSpec(spec.element_type, spec.shape) if is_carried else spec

    def _carried(
        self, parameter: int, before: TensorSpec, after: TensorSpec, attempt: int
    ) -> TensorSpec:
        both = union(before, after)
        self.require(
            both is not None,
            "the value carried to parameter {} of the body starts as {} and becomes {}",
            parameter,
            before.element_type,
            after.element_type,
        )
        assert both is not None
        if attempt == 0 or both.rank is None:
            return both
        # Still changing: sizes that grow with every iteration have no bound.
        return TensorSpec(
            both.element_type,
            PartialShape([d if d == b else DYNAMIC for d, b in zip(both.shape, before.shape)]),
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
        if entry.slicing is None:
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
            "output {}: the body's result is {}, expected {} (part_size) along axis {}",
            entry.port,
            result,
            part,
            axis,
        )
        joined = DYNAMIC if iterations is None else Dimension.of(iterations) * part
        return TensorSpec(
            result.element_type,
            PartialShape([joined if d == axis else dim for d, dim in enumerate(result.shape)]),
        )

    def axis(self, slicing: Slicing, rank: int) -> int:
        """The axis that is sliced, counted from the first."""
        self.require(
            slicing.stride != 0 and slicing.part_size > 0,
            "stride must not be 0 and part_size at least 1, got {}",
            slicing,
        )
        return normalised_axis(self, slicing.axis, rank)

    def parts(self, slicing: Slicing, size: int) -> range:
        """Where each iteration's part begins, along an axis of `size`."""
        start = slicing.start + size + 1 if slicing.start < 0 else slicing.start
        end = slicing.end + size + 1 if slicing.end < 0 else slicing.end
        self.require(
            0 <= start <= size and 0 <= end <= size and (end - start) * slicing.stride >= 0,
            "slices {} reach outside an axis of {}, or run against their stride",
            slicing,
            size,
        )
        length, step = abs(end - start), abs(slicing.stride)
        self.require(
            length % step == 0, "{} elements do not divide into strides of {}", length, step
        )
        self.require(
            slicing.part_size <= step or length == 0,
            "part_size {} overlaps the next part (stride {})",
            slicing.part_size,
            step,
        )
        starts = range(start, end, slicing.stride)
        return (
            starts
            if slicing.stride > 0
            else range(start - slicing.part_size, end - slicing.part_size, slicing.stride)
        )

    def _sliced_iterations(self, inputs: Sequence[TensorSpec]) -> Element:
        """The number of iterations that the sliced inputs ask for; None when none is known."""
        counts: dict[int, SizeLike] = {}
        for entry in self.map.inputs:
            if entry.slicing is None or entry.port is None:
                continue
            spec = self.external(inputs, entry)
            if spec.rank is not None:
                size = spec.shape[self.axis(entry.slicing, spec.rank)].size
                if isinstance(size, int):
                    counts[entry.port] = len(self.parts(entry.slicing, size))
                elif size is not None:
                    counts[entry.port] = self._open_parts(entry.slicing, size)
        first = next(iter(counts.values()), None)
        facts = facts_of(counts.values())
        if facts is None or first is None:
            alike = len(set(counts.values())) <= 1
        else:
            alike = all(facts.require_equal(count, first) for count in counts.values())
        self._require_alike(alike, counts)
        return first

    def _require_alike(self, alike: bool, counts: Mapping[int, SizeLike]) -> None:
        self.require(
            alike,
            "the sliced inputs ask for different numbers of iterations (input: number): {}",
            counts,
        )

    def _open_parts(self, slicing: Slicing, size: Size) -> SizeLike:
        """How many parts there are along an axis whose size is an expression."""
        start = size + slicing.start + 1 if slicing.start < 0 else Size.of(slicing.start)
        end = size + slicing.end + 1 if slicing.end < 0 else Size.of(slicing.end)
        length = end - start if slicing.stride > 0 else start - end
        facts = size.facts
        assert facts is not None
        rule = "slices {} reach outside an axis of {}, or run against their stride"
        self.require(facts.require_at_least(length, 0), rule, slicing, size)
        self.require(
            facts.require_at_least(size, start if slicing.stride < 0 else end), rule, slicing, size
        )
        facts.require_multiple(length, abs(slicing.stride))
        return plain(facts.canonical(length * Fraction(1, abs(slicing.stride))))

    # ---- values

    def begin(self, inputs: Sequence[Array]) -> Turns:
        """The loop before its first turn, on these inputs of the layer."""
        raise NotImplementedError

    def _iterated(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the body turn by turn."""
        turns = self.begin(inputs)
        while turns.go_on():
            turns.take(self.map.body.run(turns.arguments()))
        return turns.outputs()

    def part(self, slicing: Slicing, data: Array, iteration: int) -> Array:
        """What one turn takes of an input that is sliced."""
        axis = self.axis(slicing, data.ndim)
        starts = self.parts(slicing, data.shape[axis])
        if iteration >= len(starts):
            self.refuse(
                "iteration {} has no slice: the axis of {} gives {}",
                iteration,
                data.shape[axis],
                len(starts),
            )
        return data[
            (slice(None),) * axis
            + (slice(starts[iteration], starts[iteration] + slicing.part_size),)
        ]


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
        elif not any(o.purpose == "execution_condition" for o in self.map.outputs):
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
    """As many iterations as the sliced inputs have parts; at least one input must be sliced."""

    values = Input(ANY, variadic=True, moved=True)
    results = Output()

    def infer(self, *values: TensorSpec | None) -> Sequence[TensorSpec]:
        self.require(
            any(i.slicing is not None for i in self.map.inputs),
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
        for entry in self.map.inputs:
            if entry.slicing is not None and entry.port is not None:
                shape = inputs[entry.port].shape
                counts[entry.port] = len(
                    self.parts(entry.slicing, shape[self.axis(entry.slicing, len(shape))])
                )
        self._require_alike(len(set(counts.values())) == 1, counts)
        return Turns(self, inputs, next(iter(counts.values())), True)

    def reference(self, *values: Array) -> list[Array]:
        return self._iterated(values)
