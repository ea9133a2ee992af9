"""A Loop or a TensorIterator as a step of a segment, where its outputs have known sizes before it
runs: one plan of the body makes all iterations ("turns").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from uncork.compiler.bodies import KernelBody
from uncork.compiler.branch_steps import ShapeOf
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.loop_call import turn_plan
from uncork.compiler.planned_parts import dimensions
from uncork.compiler.step_bodies import COST, known_cost, native_plan, step_body, takes
from uncork.errors import UncorkError
from uncork.kernels.kernel_plan import In, Out
from uncork.kernels.runtime.cpython_entry import loop_functions
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.loop_layout import LOOP, LOOP_FUNCTIONS
from uncork.kernels.runtime.segment_plan import BodyAddress, KernelArgument, StepBody
from uncork.kernels.runtime.turns import TurnPlan, turns_function
from uncork.kernels.runtime.turns_layout import NEVER
from uncork.ops._body import BodyOutput, Slicing
from uncork.ops.iteration import Iteration, Loop5
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

Sizes = tuple[SizeLike, ...]


@dataclass(frozen=True, slots=True)
class LoopBody:
    """The body of a loop with the plan that makes its turns.

    `sliced` and `stacked` of `turns` are the Parameters and Results whose parts lie in the tensors
    of the layer one behind the other; those of others are copied.
    """

    operation: Iteration
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    plan: CallPlan
    turns: TurnPlan
    body: StepBody
    #: By result, the sizes of what a turn gives.
    results: tuple[Sizes, ...]

    @property
    def cost(self) -> int:
        """The cost of a turn in nanoseconds, as far as it is known: how many turns there are is
        known to the loop only.
        """
        return COST + known_cost(self.plan)


def native_loop(
    operation: Iteration,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shape_of: ShapeOf,
) -> LoopBody | None:
    """The body of a loop as a step runs it; None where it has no plan that is native as a whole, or
    native code cannot know where its outputs go.
    """
    body = operation.map.body
    if not isinstance(body, KernelBody) or not all(map(_is_placed, (*inputs, *outputs))):
        return None
    results = _result_sizes(operation, inputs, outputs)
    if results is None:
        return None
    ports = {e.parameter: e.port for e in operation.map.inputs if e.port is not None}
    given = {e.parameter: _taken(operation, e.slicing, inputs[e.port])
             for e in operation.map.inputs if e.port is not None}  # fmt: skip
    shapes = {n: shape_of(spec) for n, spec in given.items()}
    plan = native_plan(
        body,
        shapes,
        lambda plan: (
            all(takes(plan, n, inputs[port]) for n, port in ports.items())
            and _gives(operation, plan, outputs, results)
            and turn_plan(operation.map, plan) is not None
        ),
    )
    turns = None if plan is None else turn_plan(operation.map, plan)
    if plan is None or turns is None:
        return None
    turns = replace(
        turns,
        sliced=tuple(n for n in turns.sliced if _lies_apart(operation, n, inputs)),
        stacked=frozenset(n for n in turns.stacked if _is_direct(operation, n, outputs)),
    )
    return LoopBody(
        operation,
        tuple(inputs),
        tuple(outputs),
        plan,
        turns,
        step_body(body, plan, turns),
        results,
    )


def _is_placed(spec: TensorSpec) -> bool:
    """Whether the sizes of a tensor are expressions, and its elements are of a type that native
    code reads.
    """
    return (
        spec.rank is not None
        and spec.element_type.dtype != object
        and all(dim.size is not None for dim in spec.shape.dims)
    )


def _taken(operation: Iteration, slicing: Slicing | None, spec: TensorSpec) -> TensorSpec:
    """The spec of what a Parameter takes in one turn: the input, or a part of it."""
    if slicing is None:
        return spec
    dims = list(spec.shape.dims)
    axis = operation.axis(slicing, len(dims))
    dims[axis] = type(dims[axis]).of(slicing.part_size)
    return TensorSpec(spec.element_type, type(spec.shape)(dims))


def _gives(
    operation: Iteration, plan: CallPlan, outputs: Sequence[TensorSpec], results: Sequence[Sizes]
) -> bool:
    return (
        len(results) == len(plan.results)
        and all(
            len(result.sizes or ()) == len(sizes) for result, sizes in zip(plan.results, results)
        )
        and all(
            outputs[o.port].element_type.dtype == plan.results[o.result].dtype
            for o in operation.map.outputs
            if o.port is not None
        )
    )


def _result_sizes(
    operation: Iteration, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[Sizes, ...] | None:
    """The sizes of what a turn gives, by result: those of the output that it goes to, or of the
    input that it replaces in the next turn. None where one has neither.
    """
    found: dict[int, Sizes] = {}
    for output in operation.map.outputs:
        if output.port is not None:
            sizes = list(dimensions(outputs[output.port]))
            if output.slicing is not None:
                axis = operation.axis(output.slicing, len(sizes))
                sizes[axis] = output.slicing.part_size
            if found.setdefault(output.result, tuple(sizes)) != tuple(sizes):
                return None
    ports = {e.parameter: e.port for e in operation.map.inputs if e.slicing is None}
    for result, parameter in operation.map.back_edges:
        port = ports.get(parameter)
        if port is not None:
            found.setdefault(result, dimensions(inputs[port]))
    for output in operation.map.outputs:
        if output.purpose == "execution_condition" and output.result not in found:
            rank = _declared_rank(operation, output.result)
            if rank is None:
                return None
            found[output.result] = (1,) * rank
    count = operation.map.body.output_count
    return tuple(found[n] for n in range(count)) if set(found) == set(range(count)) else None


def _declared_rank(operation: Iteration, result: int) -> int | None:
    """The rank of a result as the body alone tells it; None where it does not."""
    body = operation.map.body
    try:
        return body.describe(body.input_specs)[result].rank
    except UncorkError:
        return None


class _Parts(NamedTuple):
    """The parts of a tensor along an axis, and how they lie. In elements of the axis: where the
    `first` part begins, and the `step` from one to the next; `turns` is how many parts there are. A
    part consists of `runs` of neighbouring bytes, each of `bytes` bytes and with `stride` bytes
    from one to the next. An element of the axis takes `element` bytes.
    """

    first: SizeLike
    step: int
    turns: SizeLike
    runs: SizeLike
    bytes: SizeLike
    stride: SizeLike
    element: SizeLike


def _parts(operation: Iteration, slicing: Slicing, spec: TensorSpec, joined: bool) -> _Parts:
    """The parts of an input, or where it is `joined` of them, of an output."""
    sizes = dimensions(spec)
    axis = operation.axis(slicing, len(sizes))
    size, step = sizes[axis], slicing.stride
    element: SizeLike = spec.element_type.dtype.itemsize
    for inner in sizes[axis + 1 :]:
        element = element * inner
    runs: SizeLike = 1
    for outer in sizes[:axis]:
        runs = runs * outer
    count: SizeLike = 0
    first: SizeLike
    if joined:
        step = slicing.part_size if step > 0 else -slicing.part_size
        first = 0 if step > 0 else size - slicing.part_size
    else:
        first = size + slicing.start + 1 if slicing.start < 0 else slicing.start
        first = first if step > 0 else first - slicing.part_size
        count = operation.count_parts(slicing, size)
    return _Parts(first, step, count, runs, element * slicing.part_size, element * size, element)


def _lies_apart(operation: Iteration, parameter: int, inputs: Sequence[TensorSpec]) -> bool:
    """Whether the parts of a sliced input are contiguous, so that nobody has to copy them."""
    entry = next(e for e in operation.map.inputs if e.parameter == parameter)
    assert entry.slicing is not None and entry.port is not None
    return _is_one(_parts(operation, entry.slicing, inputs[entry.port], False).runs)


def _is_direct(operation: Iteration, result: int, outputs: Sequence[TensorSpec]) -> bool:
    """Whether turns write a result directly into the only output that is put together of it."""
    joined = [o for o in operation.map.outputs if o.result == result and o.slicing is not None]
    (first, *others) = joined
    assert first.slicing is not None and first.port is not None
    parts = _parts(operation, first.slicing, outputs[first.port], True)
    return not others and parts.step > 0 and _is_one(parts.runs)


def _is_one(size: SizeLike) -> bool:
    return isinstance(size, int) and size == 1


def _bytes(sizes: Sizes, width: int) -> SizeLike:
    total: SizeLike = width
    for size in sizes:
        total = total * size
    return total


@dataclass(slots=True)
class LoopWords:
    """Writes the words of the step of a loop.

    `word` gives that of an operand of the layer, `number` that of a size, and `scratch` that of new
    memory of so many bytes.
    """

    loop: LoopBody
    word: Callable[[In | Out], KernelArgument]
    number: Callable[[SizeLike], KernelArgument]
    scratch: Callable[[SizeLike], KernelArgument]
    _rows: dict[str, list[KernelArgument]] = field(
        default_factory=lambda: {
            name: [] for name in ("pairs", "parts", "inward", "outward", "ends", "kept")
        }
    )

    def step(self) -> tuple[int, tuple[KernelArgument, ...]]:
        """The function and the arguments of the step."""
        for entry in self.loop.operation.map.inputs:
            if entry.port is not None:
                self._give(entry.parameter, entry.port, entry.slicing)
        for result in range(len(self.loop.results)):
            self._take(result)
        width = {"pairs": 2, "parts": 1, "inward": 6, "outward": 6, "ends": 7, "kept": 2}
        head: dict[str, KernelArgument] = {
            "turns": turns_function(),
            "control": BodyAddress(self.loop.body),
            **self._limits(),
            **{name: len(words) // width[name] for name, words in self._rows.items()},
            **dict(zip(LOOP_FUNCTIONS, loop_functions())),
        }
        rows = [word for words in self._rows.values() for word in words]
        return loop_function(), (*(head[name] for name in LOOP), *rows)

    def _limits(self) -> dict[str, KernelArgument]:
        operation = self.loop.operation
        limit = operation.loop_limit
        result: dict[str, KernelArgument] = {
            "count_at": 0, "count_width": 0, "count": NEVER, "condition": 0,
            "limit": NEVER if limit is None else limit,
            "whole": int(any(o.slicing is not None for o in operation.map.outputs)),
        }  # fmt: skip
        if isinstance(operation, Loop5):
            width = self.loop.inputs[0].element_type.dtype.itemsize
            return result | {
                "count_at": self.word(In(0)), "count_width": width, "condition": self.word(In(1))
            }  # fmt: skip
        for entry in operation.map.inputs:
            if entry.slicing is not None and entry.port is not None:
                parts = _parts(operation, entry.slicing, self.loop.inputs[entry.port], False)
                return result | {"count": self.number(parts.turns)}
        return result

    def _at(self, kind: str, number: int, axis: int = 0) -> KernelArgument:
        return BodyAddress(self.loop.body, kind, number, axis)

    def _pair(self, address: KernelArgument, value: KernelArgument) -> None:
        self._rows["pairs"] += address, value

    def _give(self, parameter: int, port: int, slicing: Slicing | None) -> None:
        """Write the words that say what a Parameter takes."""
        loop, spec = self.loop, self.loop.inputs[port]
        taken = dimensions(_taken(loop.operation, slicing, spec))
        for axis, size in enumerate(taken):
            self._pair(self._at("size", parameter, axis), self.number(size))
        if slicing is None:
            self._pair(self._at("parameter", parameter), self.word(In(port)))
            return
        parts = _parts(loop.operation, slicing, spec, False)
        self._rows["parts"].append(self.number(parts.turns))
        first = self.word(In(port, parts.first * parts.element))
        step = self.number(parts.step * parts.element)
        if parameter in loop.turns.sliced:
            self._pair(self._at("parameter", parameter), first)
            self._pair(self._at("step", parameter), step)
            return
        part = self.scratch(_bytes(taken, spec.element_type.dtype.itemsize))
        self._pair(self._at("parameter", parameter), part)
        self._copy("inward", part, first, step, parts)

    def _copy(
        self,
        way: str,
        part: KernelArgument,
        first: KernelArgument,
        step: KernelArgument,
        parts: _Parts,
    ) -> None:
        number = self.number
        self._rows[way] += (
            part, first, step, number(parts.runs), number(parts.bytes), number(parts.stride)
        )  # fmt: skip

    def _take(self, result: int) -> None:
        """Write the words that say where a result goes."""
        loop, sizes = self.loop, self.loop.results[result]
        size = _bytes(sizes, loop.turns.results[result].dtype.itemsize)
        outputs = [o for o in loop.operation.map.outputs if o.result == result]
        joined = [o for o in outputs if o.slicing is not None]
        last = [o for o in outputs if o.slicing is None and o.port is not None]
        self._pair(self._at("buffer", result), self.number(size))
        for axis, number in enumerate(sizes):
            at = self._at("kept", result, axis)
            if result in loop.turns.stacked:
                self._pair(at, self.number(number))
            if joined or last:
                self._rows["kept"] += at, self.number(number)
        direct = False
        if result in loop.turns.stacked:
            port = joined[0].port
            assert port is not None
            self._pair(self._at("result", result), self.word(Out(port)))
        else:
            direct = bool(last)
            self._pair(
                self._at("result", result),
                self.word(Out(last[0].port or 0)) if direct else self.scratch(size),
            )
            self._pair(self._at("other", result), self.scratch(size))
            for output in joined:
                self._join(result, output)
        for number, output in enumerate(last):
            self._end(result, output, size, direct and number == 0)

    def _join(self, result: int, output: BodyOutput) -> None:
        assert output.port is not None and output.slicing is not None
        spec = self.loop.outputs[output.port]
        parts = _parts(self.loop.operation, output.slicing, spec, True)
        first = self.word(Out(output.port, parts.first * parts.element))
        step = self.number(parts.step * parts.element)
        self._copy("outward", self._at("other", result), first, step, parts)

    def _end(self, result: int, output: BodyOutput, size: SizeLike, direct: bool) -> None:
        assert output.port is not None
        stacked = result in self.loop.turns.stacked
        ports = {e.parameter: e.port for e in self.loop.operation.map.inputs}
        starts = [p for r, p in self.loop.operation.map.back_edges if r == result]
        initial = ports.get(starts[0]) if starts else None
        self._rows["ends"] += (
            self._at("result", result),
            0 if stacked else self._at("other", result),
            self.number(-1 * size) if stacked else 0,
            self.word(Out(output.port)),
            self.number(size),
            0 if initial is None else self.word(In(initial)),
            int(direct),
        )


def loop_function() -> int:
    """The address of the function that makes the turns of a loop as a step."""

    def make() -> str:
        from uncork.kernels.runtime.emit_loop import emit_loop

        return emit_loop()

    return STORE.function("loop", "loop", make)
