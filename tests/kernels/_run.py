"""Runs the kernels chosen for one operation, every array between canaries that show a write
outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.kernels.kernel_plan import Alias, In, KernelPlan, Out, ReleaseGil, Scratch, Selection
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import ArgumentAddress, SegmentPlan, Step
from uncork.kernels.runtime.target import Target, host_target, release_gil
from uncork.kernels.select import select_kernel
from uncork.ops import Operation
from uncork.types import PartialShape, TensorSpec

_GUARD = 256
_CANARY = 0xA5


class Guarded:
    """Room for an array between two canaries, at any alignment."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype, shift: int = 0) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.memory = np.full(size + 2 * _GUARD, _CANARY, np.uint8)
        self.begin = _GUARD + shift
        self.end = self.begin + size
        self.array = (
            np.frombuffer(
                self.memory, dtype, -1 if not size else size // dtype.itemsize, self.begin
            )
            if size
            else np.empty(shape, dtype)
        )
        self.array = self.array.reshape(shape)

    def check(self) -> None:
        assert (self.memory[: self.begin] == _CANARY).all(), "written before the array"
        assert (self.memory[self.end :] == _CANARY).all(), "written behind the array"


def run_native(
    operation: Operation,
    specs: Sequence[TensorSpec | None],
    shift: int = 0,
    target: Target | None = None,
) -> tuple[list[np.ndarray] | None, Selection]:
    """(outputs, the choice); outputs None when the kernel refused the values or there is no kernel.

    An output that is an input in another shape is that input.

    `shift` moves inputs and outputs off their natural alignment, by so many bytes. Kernels are
    selected for `target`, whose instructions this machine must have.
    """
    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    target = target or host_target()
    choice = select_kernel(operation, specs, outputs, target)
    if isinstance(choice, Alias):
        return [specs[choice.position].value.reshape(outputs[0].shape.static)], choice
    if not isinstance(choice, KernelPlan):
        return None, choice
    given: list[Guarded] = []
    for spec in specs:
        if spec is None:  # an optional input that is left out
            given.append(Guarded((0,), np.dtype(np.uint8)))
            continue
        guarded = Guarded(spec.value.shape, spec.value.dtype, shift)
        guarded.array[...] = spec.value
        given.append(guarded)
    made = [Guarded(o.shape.static, o.element_type.dtype, shift) for o in outputs]
    scratch = Guarded((choice.scratch,), np.dtype(np.uint8))

    def word(operand: object) -> object:
        if isinstance(operand, In):
            return ArgumentAddress(operand.position, operand.offset)
        if isinstance(operand, Out):
            return ArgumentAddress(len(given) + operand.position, operand.offset)
        if isinstance(operand, ReleaseGil):
            return release_gil()
        if isinstance(operand, Scratch):
            return ArgumentAddress(len(given) + len(made), operand.offset)
        return operand

    steps = [
        Step(STORE.address(spec, target), tuple(word(o) for o in words))
        for spec, words in choice.calls
    ]
    segment = Segment(SegmentPlan(tuple(steps)), Context([], 0))
    everything = [*given, *made, scratch]
    status = segment.run(*(g.array for g in everything))
    for guarded in everything:
        guarded.check()
    return ([g.array for g in made] if status < 0 else None), choice


def spec_of(array: np.ndarray, element_type: object) -> TensorSpec:
    return TensorSpec(element_type, PartialShape(array.shape), array)
