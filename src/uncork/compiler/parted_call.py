"""A plan of several parts: native segments, and steps that Python makes between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.blas import at_most
from uncork.compiler.arguments import owned
from uncork.compiler.call_plan import (
    BodyRun,
    CallPlan,
    ConstantPlace,
    FoundSymbol,
    NativeStep,
    PlacedTensor,
    ReadStep,
    ReferenceStep,
    ResultSpec,
    Stop,
)
from uncork.compiler.policy import RELEASE_COST
from uncork.compiler.working_memory import grow
from uncork.errors import UncorkError
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import CHECK_FAILED, NO_MEMORY, OK
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArgumentAddress, IdentityGuard, TensorAddress
from uncork.ops._body import EndlessLoop
from uncork.types import Array, PartialShape, TensorSpec


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
        found = self.call(inputs)
        return found.status if isinstance(found, Stop) else found

    def retry(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """None: a call for which `run` gave a number has no results."""
        return None

    def call(self, inputs: Sequence[Any]) -> list[Array] | Stop:
        """The results, or why there are none."""
        try:
            instance = self._idle.pop()  # one step, also for threads and forks: there is no lock
        except IndexError:
            instance = _Instance(self.plan)
        results = instance.run(inputs)
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
        for body in self._bodies():
            body.release_memory()

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
        #: Each segment with the numbers of the arrays that it makes.
        self._parts: list[tuple[Segment, tuple[int, ...]] | ReferenceStep | ReadStep] = []
        before: Segment | None = None
        for part in plan.parts:
            if isinstance(part, NativeStep):
                before = self._segment(part, before)
                self._parts.append(
                    (before, tuple(len(plan.array_guards) + number for number, _ in part.makes))
                )
            else:
                self._parts.append(part)

    def _segments(self) -> list[Segment]:
        return [part[0] for part in self._parts if isinstance(part, tuple)]

    def _lacks_memory(self) -> bool:
        return any(segment.lacks_memory() for segment in self._segments())

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return self.context.memory.nbytes + sum(
            segment.working_bytes for segment in self._segments()
        )

    def _segment(self, part: NativeStep, before: Segment | None) -> Segment:
        """A segment over all arrays of the call. The first one looks at the inputs."""
        plan = self.plan
        inputs = len(plan.array_guards)
        nothing = [IdentityGuard(None)] * (plan.arguments - inputs)
        return Segment(
            part.segment.with_arguments(
                {inputs + number: plan.arguments + i for i, (number, _) in enumerate(part.makes)}
            ),
            self.context,
            plan.buffers,
            array_guards=() if before else (*plan.array_guards, *nothing),
            results=[made for _, made in part.makes],
            before=before,
            release_cost=RELEASE_COST,
            keep=plan,
        )

    def run(self, inputs: Sequence[Any]) -> list[Array] | Stop:
        """The results, in carrier types, or why there are none."""
        while True:
            found = self._run(inputs)
            if isinstance(found, list):
                return found
            if found >= 0 and self._lacks_memory():
                self._make()
                continue
            if found != NO_MEMORY:
                return Stop(
                    found,
                    {
                        origin: self.context.value(slot)
                        for origin, slot in self.plan.symbols.items()
                    },
                )
            grow(self.plan, self.context)

    def _run(self, inputs: Sequence[Any]) -> list[Array] | int:
        arrays: list[Any] = [*inputs, *[None] * (self.plan.arguments - len(self.plan.array_guards))]
        for part in self._parts:
            if isinstance(part, tuple):
                segment, made = part
                found = segment.run(*arrays)
                if type(found) is list:
                    for number, array in zip(made, found):
                        arrays[number] = array
                elif found != OK:
                    return int(found)
            elif isinstance(part, ReferenceStep):
                if not self._reference(part, arrays):
                    return CHECK_FAILED
            else:
                self._bind(part.found, [self._value(tensor, arrays) for tensor in part.tensors])
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
                outputs = _evaluated(step, given) if step.body is None else step.body.run(given)
        except EndlessLoop as error:
            raise error.at(step.node.label) from None
        except UncorkError:
            return False
        values: list[Array] = []
        for number, shape, array in zip(step.outputs, step.shapes, outputs):
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

    def _value(self, tensor: PlacedTensor, arrays: Sequence[Any]) -> Array:
        """A tensor as it is now."""
        place, dtype = tensor.place, tensor.element_type.dtype
        sizes = None if tensor.sizes is None else tuple(map(self.context.value, tensor.sizes))
        found: Array
        if isinstance(place, (ArgumentAddress, ConstantPlace)):
            found = arrays[place.argument] if isinstance(place, ArgumentAddress) else place.array
            return found if sizes is None else found.reshape(sizes)
        assert sizes is not None
        if isinstance(place, TensorAddress):
            return self.context.tensor_array(place.first, dtype, sizes)
        start = self.context.place(place.buffer)
        count = int(np.prod(sizes, dtype=np.int64))
        found = (
            self.context.memory[start : start + count * dtype.itemsize].view(dtype).reshape(sizes)
        )
        return found


def _evaluated(step: ReferenceStep, inputs: Sequence[Array]) -> list[Array]:
    """What the reference of a layer gives."""
    operation = step.node.operation
    assert operation is not None
    specs = [
        TensorSpec(tensor.element_type, PartialShape(value.shape), value)
        for tensor, value in zip(step.inputs, inputs)
    ]
    return [_value_of(output) for output in operation.evaluate(specs)]


def _value_of(spec: TensorSpec) -> Array:
    assert spec.value is not None
    return spec.value


def _fits(array: Array, shape: Sequence[int | None]) -> bool:
    return array.ndim == len(shape) and all(
        want is None or want == got for want, got in zip(shape, array.shape)
    )
