"""A plan with memory of its own: one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from uncork.compiler.call_plan import CallPlan, ConstantPlace, FoundSymbol, PlacedTensor, ReadStep, ReferenceStep, ResultSpec
from uncork.compiler.direct import Refused
from uncork.errors import UncorkError
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import BUSY, NO_MEMORY, OK
from uncork.kernels.runtime.program import Like
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArgumentAddress, MadeResult, SegmentPlan, TensorAddress, Word
from uncork.types import Array, PartialShape, TensorSpec

#: Calls that take longer than this many nanoseconds let other Python threads run meanwhile; for shorter ones handing over costs more.
RELEASE_COST = 50_000.0


class Instance:
    """Runs a plan part by part. `run` returns the results, or the number of why a segment did not run: see `runtime.layout`."""

    def __init__(self, plan: CallPlan) -> None:
        self.plan = plan
        self.context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        self._parts: list[tuple[Segment, tuple[int, ...]] | ReferenceStep | ReadStep] = []
        made: set[int] = set()
        before: Segment | None = None
        last = max((i for i, part in enumerate(plan.parts) if isinstance(part, SegmentPlan)), default=-1)
        for position, part in enumerate(plan.parts):
            if isinstance(part, SegmentPlan):
                segment, results = self._segment(part, made, before, position == last)
                made.update(results)
                self._parts.append((segment, results))
                before = segment
            else:
                self._parts.append(part)

    def _segment(self, part: SegmentPlan, made: set[int], before: Segment | None, last: bool) -> tuple[Segment, tuple[int, ...]]:
        """A segment and the arguments whose arrays it makes: results that no segment before has written to.

        The last segment also makes those without elements, which no step writes.
        """
        plan, inputs = self.plan, len(self.plan.input_shapes)
        own = range(inputs, inputs + len(plan.results))
        written = [w.argument for step in part.steps for w in step.every_word if isinstance(w, ArgumentAddress) and w.argument in own]
        if last:
            written += [number for number, result in zip(own, plan.results) if result.argument == number]
        results = tuple(n for n in dict.fromkeys(written) if n not in made)
        positions = {number: plan.arguments + i for i, number in enumerate(results)}
        made_results = [_made(plan, number - inputs) for number in results]
        segment = Segment(
            moved(part, positions),
            self.context,
            plan.buffers,
            results=made_results,
            before=before,
            release_cost=RELEASE_COST,
            keep=plan,
        )
        return segment, results

    def run(self, inputs: Sequence[Array]) -> list[Array] | int:
        """The results, in carrier types, or the number of why not."""
        while True:
            status = self._run(inputs)
            if status != NO_MEMORY:
                return status
            self.context.grow()

    def _run(self, inputs: Sequence[Array]) -> list[Array] | int:
        arrays: list[Array | None] = [*inputs, *[None] * (self.plan.arguments - len(inputs))]
        for part in self._parts:
            if isinstance(part, tuple):
                segment, results = part
                found = segment.run(*arrays)
                if type(found) is list:
                    for number, array in zip(results, found):
                        arrays[number] = array
                elif found != OK:
                    return int(found)
            elif isinstance(part, ReferenceStep):
                self._reference(part, arrays)
            else:
                self._bind(part.found, [self._value(tensor, arrays) for tensor in part.tensors])
        return [self._result(result, arrays[result.argument]) for result in self.plan.results]

    def _result(self, result: ResultSpec, array: Array | None) -> Array:
        assert array is not None
        return array if result.sizes is None else array.reshape(tuple(map(self.context.value, result.sizes)))

    def _reference(self, step: ReferenceStep, arrays: list[Array | None]) -> None:
        operation = step.node.operation
        assert operation is not None
        given = []
        for tensor in step.inputs:
            value = self._value(tensor, arrays)
            given.append(TensorSpec(tensor.element_type, PartialShape(value.shape), value))
        try:
            outputs = operation.evaluate(given)
        except UncorkError as error:
            raise error.at(step.node.label) from None
        values = []
        for number, output in zip(step.outputs, outputs):
            array = output.value
            assert array is not None
            if np.may_share_memory(array, self.context.memory) or np.may_share_memory(array, self.context.words):
                array = array.copy()  # what it looks at is written again
            # With the shape kept: NumPy makes a vector of a scalar that it makes contiguous.
            values.append(np.ascontiguousarray(array).reshape(array.shape))
            arrays[number] = values[-1]
        self._bind(step.found, values)

    def _bind(self, found: Sequence[FoundSymbol], values: Sequence[Array]) -> None:
        for symbol in found:
            value = values[symbol.output]
            size = value.reshape(-1)[symbol.position] if symbol.is_element else value.shape[symbol.position]
            self.context.set_symbol(symbol.slot, int(size))

    def _value(self, tensor: PlacedTensor, arrays: Sequence[Array | None]) -> Array:
        """A tensor as it is now."""
        place, dtype = tensor.place, tensor.element_type.dtype
        sizes = None if tensor.sizes is None else tuple(map(self.context.value, tensor.sizes))
        if isinstance(place, ArgumentAddress):
            array = arrays[place.argument]
            assert array is not None
            return array if sizes is None else array.reshape(sizes)
        if isinstance(place, ConstantPlace):
            return place.array if sizes is None else place.array.reshape(sizes)
        assert sizes is not None
        if isinstance(place, TensorAddress):
            return self.context.tensor_array(place.first, dtype, sizes)
        start = self.context.place(place.buffer)
        count = int(np.prod(sizes, dtype=np.int64))
        found: Array = self.context.memory[start : start + count * dtype.itemsize].view(dtype).reshape(sizes)
        return found


def _made(plan: CallPlan, number: int) -> MadeResult:
    result = plan.results[number]
    assert result.sizes is not None, "a kernel writes results of known sizes only"
    return MadeResult(np.dtype(result.dtype.char), result.sizes)


def moved(part: SegmentPlan, positions: dict[int, int]) -> SegmentPlan:
    """The segment for arrays that come as other arguments."""
    if all(number == position for number, position in positions.items()):
        return part

    def change(word: Word) -> Word:
        return replace(word, argument=positions.get(word.argument, word.argument)) if isinstance(word, ArgumentAddress) else word

    steps = tuple(step.with_words(change) for step in part.steps)
    binds = tuple(replace(bind, argument=positions.get(bind.argument, bind.argument)) for bind in part.binds)
    return replace(part, steps=steps, binds=binds)


class NativeCall:
    """A plan that is one segment, called without anything around it. May be used from several threads, each in memory of its own."""

    def __init__(self, plan: CallPlan) -> None:
        assert plan.is_native
        self.plan = plan
        self._spare: list[Segment] = []
        self._first, self._context = self._made()
        #: Called with the inputs it gives a list of new results, or a number: then ask `again`.
        self.run = self._first.run

    @property
    def inputs(self) -> tuple[Like, ...]:
        """What the inputs must be."""
        plan = self.plan
        return tuple(Like(np.dtype(dtype.char), shape) for dtype, shape in zip(plan.input_dtypes, plan.input_shapes))

    def again(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """What comes of a call for which `run` gave a number; None when this plan is not for these inputs.

        Raises Declined for values that kernels do not compute with.
        """
        result: Any = found
        if result == NO_MEMORY:
            # New memory comes with a new segment: another thread may be at work in the old one.
            self._first, self._context = self._made(self._context.get("needed"))
            self.run = self._first.run
            result = self.run(*inputs)
        tried = 0
        while type(result) is not list and result in (BUSY, NO_MEMORY):
            if result == NO_MEMORY or tried == len(self._spare):
                self._spare.append(self._made(self._context.get("needed"))[0])
                tried = len(self._spare) - 1
            result = self._spare[tried].run(*inputs)
            tried += 1
        if type(result) is list:
            return result
        if result < OK:
            return None
        raise Refused

    def _made(self, needed: int = 0) -> tuple[Segment, Context]:
        plan = self.plan
        (part,) = plan.parts
        assert isinstance(part, SegmentPlan)
        context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        if needed:
            context.grow(needed)
        results = [_made(plan, number) for number in range(len(plan.results))]
        segment = Segment(part, context, plan.buffers, likes=self.inputs, results=results, release_cost=RELEASE_COST, keep=plan)
        return segment, context

    def release_memory(self) -> None:
        """Give working memory back."""
        self._spare = []
        self._first, self._context = self._made()
        self.run = self._first.run
