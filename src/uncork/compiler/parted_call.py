"""A plan of several parts: native segments, and steps that Python makes between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

import numpy as np

from uncork.blas import at_most
from uncork.compiler.arguments import owned
from uncork.compiler.call_plan import (
    BodyRun,
    CallPlan,
    ConstantLocation,
    FoundSymbol,
    LocatedTensor,
    NativeStep,
    ReferenceStep,
    ResultSpec,
    Stop,
)
from uncork.compiler.policy import RELEASE_COST
from uncork.compiler.working_memory import grow
from uncork.errors import UncorkError
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import CHECK_FAILED, GUARD_FAILED, NO_MEMORY, OK
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArgumentAddress, IdentityGuard, TensorAddress
from uncork.ops._body import EndlessLoop
from uncork.types import Array, TensorSpec


class PartedCall:
    """Calls of a plan of several parts. May be used from several threads, each in memory of its
    own.
    """

    def __init__(self, plan: CallPlan) -> None:
        self.plan = plan
        self._idle: list[_Instance] = []

    def run(self, *inputs: Any) -> Any:
        """A list of new results, or a number where this plan does not make the call. Safe to call
        with anything.
        """
        found = self.attempt(inputs)
        return found.status if isinstance(found, Stop) else found

    def retry(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """None: a call for which `run` gave a number has no results."""
        return None

    def attempt(self, inputs: Sequence[Any]) -> list[Array] | Stop:
        """The results, or why there are none."""
        try:
            instance = self._idle.pop()  # one step, also for threads and forks: there is no lock
        except IndexError:
            instance = _Instance(self.plan)
        results = instance.run_parts(inputs)
        self._idle.append(instance)
        return results

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now, apart from that of running calls."""
        own = sum(instance.working_bytes for instance in tuple(self._idle))
        return own + sum(body.working_bytes for body in self._bodies())

    def release_memory(self) -> None:
        """Give working memory back; calls that run keep theirs until the model is gone or this is
        called again.
        """
        self._idle.clear()
        for segment in self.plan.segment_plans:
            segment.forget_memory()
        for body in self._bodies():
            body.release_memory()

    def first_segment(self) -> Segment:
        """The first segment of memory that was made for it."""
        return _Instance(self.plan).first_segment

    def _bodies(self) -> list[BodyRun]:
        return [
            part.body
            for part in self.plan.parts
            if isinstance(part, ReferenceStep) and part.body is not None
        ]


class _Instance:
    """A plan with memory of its own: one call at a time."""

    def __init__(self, plan: CallPlan) -> None:
        self.plan = plan
        self.context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        self._make()

    def _make(self) -> None:
        """The segments; made again where bodies that their steps run need more memory than they
        had.
        """
        plan = self.plan
        #: What one native call runs, by its first segment with the numbers of the arrays that it
        #: makes, and what Python does between them.
        self._parts: list[tuple[Segment, tuple[int, ...]] | ReferenceStep] = []
        self._segments: list[Segment] = []
        for is_native, parts in groupby(plan.parts, lambda part: isinstance(part, NativeStep)):
            if is_native:
                self._parts.append(self._native_call(cast("Iterator[NativeStep]", parts)))
            else:
                self._parts += cast("Iterator[ReferenceStep]", parts)
        only = self._parts[0]
        #: What gives the results of the model as they are, where one native call does all of it.
        self._whole = (
            only[0].run
            if len(self._parts) == 1 and isinstance(only, tuple) and plan.gives_what_is_made
            else None
        )
        self._nothing = (None,) * (plan.arguments - len(plan.array_guards))

    def _native_call(self, parts: Iterator[NativeStep]) -> tuple[Segment, tuple[int, ...]]:
        """The first of the segments that one native call runs, and the arrays that it makes."""
        plan, first = self.plan, len(self._segments)
        numbers: list[int] = []
        for part in parts:
            made_before = len(numbers)
            numbers += (len(plan.array_guards) + number for number, _ in part.makes)
            self._segments.append(self._segment(part, numbers, made_before))
        segment, *following = self._segments[first:]
        segment.go_on_with(following)
        return segment, tuple(numbers)

    @property
    def first_segment(self) -> Segment:
        """The segment by which calls begin."""
        return self._segments[0]

    def _lacks_memory(self) -> bool:
        return any(segment.lacks_memory() for segment in self._segments)

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return self.context.memory.nbytes + sum(segment.working_bytes for segment in self._segments)

    def _segment(self, part: NativeStep, made: Sequence[int], made_before: int) -> Segment:
        """A segment over all arrays of the call, and behind them those that its native call has
        `made` so far, by number. The first one looks at the inputs.
        """
        plan = self.plan
        inputs = len(plan.array_guards)
        before = self._segments[-1] if self._segments else None
        nothing = [IdentityGuard(None)] * (plan.arguments - inputs)
        return Segment(
            part.segment.with_arguments(
                {number: plan.arguments + i for i, number in enumerate(made)}
            ),
            self.context,
            array_guards=() if before else (*plan.array_guards, *nothing),
            results=[result for _, result in part.makes],
            before=before,
            first_result=made_before,
            release_cost=RELEASE_COST,
            keep=plan,
        )

    def run_parts(self, inputs: Sequence[Any]) -> list[Array] | Stop:
        """The results, in carrier types, or why there are none."""
        while True:
            result = self._run(inputs)
            if isinstance(result, list):
                return result
            if result >= 0 and self._lacks_memory():
                self._make()
                continue
            if result >= 0 and any(segment.misfits() for segment in self._segments):
                result = GUARD_FAILED
            if result != NO_MEMORY:
                return Stop(
                    result,
                    {
                        origin: self.context.value(slot)
                        for origin, slot in self.plan.symbols.items()
                    },
                )
            grow(self.plan, self.context)

    def _run(self, inputs: Sequence[Any]) -> list[Array] | int:
        if self._whole is not None:
            return cast("list[Array] | int", self._whole(*inputs, *self._nothing))
        arrays: list[Any] = [*inputs, *self._nothing]
        for part in self._parts:
            if isinstance(part, tuple):
                segment, made = part
                found = segment.run(*arrays)
                if type(found) is list:
                    for number, array in zip(made, found, strict=True):
                        arrays[number] = array
                elif found != OK:
                    return int(found)
            elif not self._reference(part, arrays):
                return CHECK_FAILED
        return owned(
            [self._result(result, arrays[result.argument]) for result in self.plan.results], inputs
        )

    def _result(self, result: ResultSpec, array: Array) -> Array:
        return (
            array
            if result.sizes is None
            else array.reshape(tuple(map(self.context.value, result.sizes)))
        )

    def _reference(self, step: ReferenceStep, arrays: list[Any]) -> bool:
        """Run a layer by its reference; False where it refuses its inputs or gives what no plan
        knows. The interpreter then says what is wrong, by the layers that were read, for which this
        one may stand.
        """
        try:
            given = [self._value(tensor, arrays) for tensor in step.inputs]
        except ValueError:  # sizes contradict each other: the next segment would have told
            return False
        try:
            with at_most(self.plan.threads):
                outputs = (
                    _evaluated(step, given) if step.body is None else step.body.evaluate(given)
                )
        except EndlessLoop as error:
            raise error.at(step.node.label) from None
        except UncorkError:
            return False
        values: list[Array] = []
        for number, shape, array in zip(step.outputs, step.shapes, outputs, strict=True):
            if shape is not None and not _fits(array, shape):
                return False
            if np.may_share_memory(array, self.context.memory) or np.may_share_memory(
                array, self.context.words
            ):
                array = array.copy()  # what it looks at is written again
            # With the shape kept: NumPy makes a vector of a scalar that it makes contiguous.
            values.append(np.ascontiguousarray(array).reshape(array.shape))
            arrays[number] = values[-1]
        self._bind(step.found, values)
        return True

    def _bind(self, found: Sequence[FoundSymbol], values: Sequence[Array]) -> None:
        for symbol in found:
            value = values[symbol.output]
            size = (
                value.reshape(-1)[symbol.position]
                if symbol.is_element
                else value.shape[symbol.position]
            )
            self.context.set_symbol(symbol.slot, int(size))

    def _value(self, tensor: LocatedTensor, arrays: Sequence[Any]) -> Array:
        """The current value of a tensor."""
        location, dtype = tensor.location, tensor.element_type.dtype
        sizes = None if tensor.sizes is None else tuple(map(self.context.value, tensor.sizes))
        result: Array
        if isinstance(location, (ArgumentAddress, ConstantLocation)):
            result = (
                arrays[location.argument]
                if isinstance(location, ArgumentAddress)
                else location.array
            )
            return result if sizes is None else result.reshape(sizes)
        assert sizes is not None
        if isinstance(location, TensorAddress):
            return self.context.tensor_array(location.first, dtype, sizes)
        start = self.context.location(location.buffer) + self.context.value(location.offset)
        count = int(np.prod(sizes, dtype=np.int64))
        result = (
            self.context.memory[start : start + count * dtype.itemsize].view(dtype).reshape(sizes)
        )
        return result


def _evaluated(step: ReferenceStep, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a layer's reference."""
    specs = [
        TensorSpec.of_array(tensor.element_type, value)
        for tensor, value in zip(step.inputs, inputs, strict=True)
    ]
    return [output.known for output in step.node.checked_operation.evaluate(specs)]


def _fits(array: Array, shape: Sequence[int | None]) -> bool:
    return array.ndim == len(shape) and all(
        want is None or want == got for want, got in zip(shape, array.shape, strict=True)
    )
