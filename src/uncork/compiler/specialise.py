"""A model for given input shapes: every size known, every step chosen, every buffer planned.

Sizes that only kernels look at (how many indices all bags have together) may be left open: then one specialisation serves
every call that differs in nothing else. What no kernel does is done by the reference, between two native programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Union

import numpy as np

from uncork.compiler import shared_work
from uncork.compiler.direct import Direct, Made, Refused
from uncork.compiler.lengths import lengths_agree
from uncork.compiler.memory import ALIGNMENT, Buffer, plan_buffers
from uncork.compiler.parallel import ParallelCalls
from uncork.compiler.plan import Plan, Step
from uncork.concurrency import lazy
from uncork.errors import UncorkError
from uncork.files import MappedFile, size_function
from uncork.ir.model import Model, Node, Source
from uncork.kernels import select
from uncork.kernels.kernel_plan import Alias, In, KernelCall, KernelPlan, Length, Operand, ReleaseGil, Scratch, Selection, Stages
from uncork.kernels.runtime.kernel_cache import STORE, CannotCompile
from uncork.kernels.runtime.program import WELL, Address, Call, Is, Like, Program, Size, Word
from uncork.kernels.runtime.target import Target, release_gil
from uncork.kernels.runtime.value_guard import ValueGuard, WholeFile
from uncork.ops._operation import check_memory
from uncork.ops.parameter import Const
from uncork.symbolic import Size as OpenSize
from uncork.types import Array, PartialShape, TensorSpec

#: Calls that take longer than this many nanoseconds let other threads run meanwhile; for shorter ones handing over costs more.
_RELEASE_COST = 50_000.0
#: Calls that take longer than this many nanoseconds look at the sizes of mapped files first: the system takes 100 to 400 to tell one.
_LOOK_COST = 4_000.0


@dataclass(frozen=True, slots=True)
class _Argument:
    """An array of the call, by number: inputs come first, then outputs, then what references give."""

    number: int


@dataclass(frozen=True, slots=True)
class _Planned:
    """A buffer in the working memory, by number."""

    number: int


@dataclass(frozen=True, slots=True)
class _Constant:
    """An array that is part of the model."""

    array: Array


_Place = Union[_Argument, _Planned, _Constant]


@dataclass(frozen=True, slots=True)
class _NativeStep:
    node: Node
    native: KernelPlan
    scratch: int | None  # the buffer that is the step's working memory
    stages: Stages | None = None  # where the step is large enough for several threads


@dataclass(frozen=True, slots=True)
class _ReferenceStep:
    node: Node


class Specialisation:
    """See the module. `model` has been inferred with the shapes of the call; every result's shape is static.

    Kernels are selected for `target`; without one references do everything. Nothing is compiled before the first call.
    `likes` is what the inputs of all its calls have in common; None when that cannot be told, and then nothing is `direct`.
    A call uses at most so many `threads`. `expected` are the numbers that it is for: (input, element, number). Nodes of the labels
    `unfit` were refused when the model was inferred: references run them, which look at what a call really gives. Constants may
    lie in `files`: who calls `run` has looked whether they are whole, a `direct` call looks itself, where that is cheap.
    """

    def __init__(
        self,
        model: Model,
        target: Target | None,
        likes: Sequence[Like] | None = None,
        threads: int = 1,
        expected: Sequence[tuple[int, int, int]] = (),
        unfit: Collection[str] = (),
        files: Sequence[MappedFile] = (),
    ) -> None:
        self.files = files
        self.expected = expected
        self.unfit = unfit
        self.model = model
        self.threads = threads
        self.target = target
        self.places: dict[Source, _Place] = {}
        self.steps: list[_NativeStep | _ReferenceStep] = []
        self.printed: list[Step] = []
        self._sizes: list[int] = []  # of the planned buffers
        self._numbers: Iterator[int] = count()
        self._uses: list[list[int]] = []  # the steps that use each planned buffer
        self.input_count, self.output_count = len(model.parameters), len(model.results)
        self.outputs = [model.spec(model.by_id[r].inputs[0]) for r in model.results]
        self._place_borders()
        for node in model.nodes:
            self._add(node)
        self._finish()
        self._idle: list[_Instance] = []
        self._likes = likes

    # ---- planning

    def _place_borders(self) -> None:
        """Inputs where the caller has them; results, where a step computes them and nobody else gives them, in the caller's arrays."""
        model = self.model
        for number, parameter in enumerate(model.parameters):
            self.places[Source(parameter, 0)] = _Argument(number)
        self._direct: dict[Source, int] = {}
        for number, result in enumerate(model.results):
            source = model.by_id[result].inputs[0]
            while self._is_view(model.by_id[source.node]):
                source = model.by_id[source.node].inputs[0]  # in its caller's array it is there in any shape
            self._direct.setdefault(source, self.input_count + number)
        self._arguments = self.input_count + self.output_count

    def _is_view(self, node: Node) -> bool:
        """The node's output lies where its first input does."""
        if not select.is_view(node.operation):
            return False
        return isinstance(self._choice(node, [port.spec for port in node.outputs]), Alias)

    def _add(self, node: Node) -> None:
        if node.type_name in ("Parameter", "Result"):
            return
        specs = [port.spec for port in node.outputs]
        if isinstance(node.operation, Const):  # which may keep its values packed until they are asked for, as now
            specs = [replace(specs[0], value=node.operation.value)]
        if all(spec.value is not None for spec in specs):
            for position, spec in enumerate(specs):
                assert spec.value is not None
                self.places[Source(node.id, position)] = _Constant(np.ascontiguousarray(spec.value).reshape(spec.value.shape))
            return
        try:
            check_memory(specs)
        except UncorkError as error:
            raise error.at(node.label) from None
        choice = self._choice(node, specs)
        if isinstance(choice, Alias):
            self.places[Source(node.id, 0)] = self.places[node.inputs[choice.position]]
            self._print(node, "view", "")
            return
        if isinstance(choice, KernelPlan):
            step = len(self.steps)
            for position, spec in enumerate(specs):
                self._place_output(Source(node.id, position), spec, step)
            shared = self.threads > 1 and choice.split and _known(choice.cost) > shared_work.SPLIT_COST
            stages = choice.split(self.threads) if shared and choice.split else None
            size = int(_known(stages.scratch if stages else choice.scratch))
            scratch = self._buffer(size, step) if size else None
            self.steps.append(_NativeStep(node, choice, scratch, stages))
            together = max(len(stage) for stage in stages.stages) if stages else 1
            self._print(node, choice.kernel + (f" in {together} threads" if together > 1 else ""), node.hints.note)
        else:
            for position in range(len(specs)):
                self.places[Source(node.id, position)] = _Argument(self._arguments)
                self._arguments += 1
            self.steps.append(_ReferenceStep(node))
            self._print(node, "reference", choice)
        for source in node.inputs:
            place = self.places[source]
            if isinstance(place, _Planned):
                self._uses[place.number].append(len(self.steps) - 1)

    def _choice(self, node: Node, outputs: Sequence[TensorSpec]) -> Selection:
        if self.target is None or node.operation is None:
            return select.unavailable() or "asked for"
        if not all(spec.shape.is_static for spec in outputs):
            return "the shape of the result is known at the call only"
        if any(spec.element_type.dtype == object for spec in outputs):
            return "no kernel for strings"
        if node.label in self.unfit:
            return "the shapes of the call alone do not tell that its inputs fit"
        if not lengths_agree(self.model, node):
            return "the shape of an input is known at the call only"
        return select.select_kernel(node.operation, [self.model.spec(source) for source in node.inputs], outputs, self.target, node.hints)

    def _place_output(self, source: Source, spec: TensorSpec, step: int) -> None:
        if source in self._direct:
            self.places[source] = _Argument(self._direct[source])
        else:
            size = int(spec.shape.size) * spec.element_type.dtype.itemsize
            self.places[source] = _Planned(self._buffer(size, step))

    def _buffer(self, size: int, step: int) -> int:
        self._sizes.append(size)
        self._uses.append([step])
        return len(self._sizes) - 1

    def _print(self, node: Node, kernel: str, reason: str) -> None:
        operation = node.operation.label() if node.operation else node.type_name
        self.printed.append(Step(node.name, operation, kernel, reason, " ".join(str(p.spec) for p in node.outputs), ""))

    def _finish(self) -> None:
        for result in self.model.results:
            place = self.places[self.model.by_id[result].inputs[0]]
            if isinstance(place, _Planned):  # copied out when everything is done
                self._uses[place.number].append(len(self.steps))
        buffers = [Buffer(size, uses[0], max(uses)) for size, uses in zip(self._sizes, self._uses)]
        self.offsets, self.working_bytes = plan_buffers(buffers)

    @property
    def references(self) -> int:
        """Steps that no kernel does."""
        return sum(isinstance(step, _ReferenceStep) for step in self.steps)

    @property
    def plan(self) -> Plan:
        """The steps, with where each result lies."""
        steps: list[Step] = []
        nodes = {node.name: node for node in self.model.nodes}
        for step in self.printed:
            place = self.places.get(Source(nodes[step.layer].id, 0))
            steps.append(Step(step.layer, step.operation, step.kernel, step.reason, step.outputs, self._printed_place(place)))
        return Plan(tuple(steps), self.working_bytes)

    def _printed_place(self, place: _Place | None) -> str:
        if isinstance(place, _Planned):
            return f"at {self.offsets[place.number]}"
        if isinstance(place, _Argument):
            if place.number < self.input_count:
                return f"input {place.number}"
            number = place.number - self.input_count
            return f"output {number}" if number < self.output_count else "own array"
        return "constant"

    # ---- running

    @lazy
    def direct(self) -> Direct | None:
        """The whole call as one native program; None when references do some of it, or a result is copied."""
        if self._likes is None:
            return None
        own = [_Argument(self.input_count + number) for number in range(self.output_count)]
        placed = [self.places[self.model.by_id[r].inputs[0]] for r in self.model.results]
        if placed != own or not all(isinstance(step, _NativeStep) and step.stages is None for step in self.steps):
            return None
        results = [(spec.shape.static, np.dtype(spec.element_type.dtype.char)) for spec in self.outputs]

        def make(likes: Sequence[Like | Is], results: Made, positions: Sequence[int]) -> Program:
            return _Instance(self, likes, results, positions).program()

        try:
            return Direct(make, self._likes, results)
        except CannotCompile as error:
            select.falls_back(error)
            return None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The results, in carrier types. Raises Refused when a kernel met values that it does not compute with."""
        try:
            instance = self._idle.pop()  # one step, also for threads and forks: there is no lock
        except IndexError:
            instance = _Instance(self)
        results = instance.run(inputs)
        self._idle.append(instance)
        return results


def _known(number: float | OpenSize) -> float:
    """A number that shapes of the call tell."""
    assert not isinstance(number, OpenSize)
    return number


class _Instance:
    """A specialisation with working memory of its own: one call at a time.

    With `likes` it is one program; see `Direct`.
    """

    def __init__(
        self, shared: Specialisation, likes: Sequence[Like | Is] = (), results: Made = (), positions: Sequence[int] | None = None
    ) -> None:
        self.shared = shared
        #: The numbers by which the parts know the inputs and results of the call.
        self._numbers: Sequence[int] = range(shared._arguments)
        if positions is not None:
            self._numbers = [*positions, *range(len(likes), len(likes) + len(results))]
        self.memory = np.empty(shared.working_bytes + ALIGNMENT, np.uint8)
        self.base = -(-self.memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.parts: list[Program | ParallelCalls | Node] = []
        self.keep: list[object] = []
        calls = [self._expecting(*numbers) for numbers in shared.expected]
        whole = sum(_known(step.native.cost) for step in shared.steps if isinstance(step, _NativeStep))
        if positions is not None and size_function() and whole > _LOOK_COST:
            calls += [Call(STORE.address(WholeFile()), (size_function(), file.handle, len(file))) for file in shared.files]
            self.keep += shared.files
        cost = 0.0
        for step in shared.steps:
            if isinstance(step, _NativeStep):
                self.keep += step.native.keep
            if isinstance(step, _NativeStep) and step.stages is None:
                calls += [self._call(step, call) for call in step.native.calls]
                cost += _known(step.native.cost)
            elif isinstance(step, _NativeStep):
                if calls:
                    self.parts.append(Program(calls, cost > _RELEASE_COST))
                self.parts += self._stages(step)
                calls, cost = [], 0.0
            else:
                if calls:
                    self.parts.append(Program(calls, cost > _RELEASE_COST))
                self.parts.append(step.node)
                calls, cost = [], 0.0
        if calls or likes:
            self.parts.append(Program(calls, cost > _RELEASE_COST, likes, results, keep=(self.memory, self.keep)))

    def _expecting(self, number: int, element: int, expected: int) -> Call:
        """Calls with another number there are not for this program."""
        element_type = self.shared.model.by_id[self.shared.model.parameters[number]].outputs[0].spec.element_type
        address = Address(self._numbers[number], element * element_type.dtype.itemsize)
        return Call(STORE.address(ValueGuard(element_type.name), self.shared.target), (address, expected))

    def _call(self, step: _NativeStep, call: KernelCall) -> Call:
        spec, words = call
        return Call(STORE.address(spec, self.shared.target), tuple(self._word(step, operand) for operand in words))

    def _stages(self, step: _NativeStep) -> Iterator[Program | ParallelCalls]:
        """The parts of a step that threads share."""
        assert step.stages is not None
        for stage in step.stages.stages:
            keep = self.memory, self.keep  # for as long as any thread is in any of them
            programs = [Program([self._call(step, call)], release=True, keep=keep) for call in stage]
            yield programs[0] if len(programs) == 1 else ParallelCalls(programs)

    def program(self) -> Program:
        """The only part, which keeps what it needs."""
        (program,) = self.parts
        assert isinstance(program, Program)
        return program

    def _word(self, step: _NativeStep, operand: Operand) -> Word:
        assert not isinstance(operand, OpenSize), "shapes are those of the call"
        if isinstance(operand, int):
            return operand
        if isinstance(operand, ReleaseGil):
            return release_gil()
        if isinstance(operand, Scratch):
            return 0 if step.scratch is None else self._planned(step.scratch) + int(_known(operand.offset))
        if isinstance(operand, Length):
            source = step.node.inputs[operand.position]
            place = self.shared.places[source]
            size = self.shared.model.spec(source).shape[operand.axis].static_size
            if size is not None:
                return size
            assert isinstance(place, _Argument), "what has an open size is given by the caller or a reference"
            return Size(self._numbers[place.number], operand.axis)
        source = step.node.inputs[operand.position] if isinstance(operand, In) else Source(step.node.id, operand.position)
        place = self.shared.places[source]
        if isinstance(place, _Argument):
            return Address(self._numbers[place.number], int(_known(operand.offset)))
        if isinstance(place, _Planned):
            return self._planned(place.number) + int(_known(operand.offset))
        self.keep.append(place.array)
        return int(place.array.ctypes.data) + int(_known(operand.offset))

    def _planned(self, number: int) -> int:
        return self.base + self.shared.offsets[number]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        shared = self.shared
        outputs = [np.empty(spec.shape.static, spec.element_type.dtype) if spec.shape.is_static else None for spec in shared.outputs]
        arrays: list[Array | None] = [*inputs, *outputs, *[None] * (shared._arguments - len(inputs) - len(outputs))]
        for part in self.parts:
            if isinstance(part, (Program, ParallelCalls)):
                if part.run(*arrays) != WELL:
                    raise Refused
            else:
                self._reference(part, arrays)
        return [self._result(number, arrays) for number in range(shared.output_count)]

    def _reference(self, node: Node, arrays: list[Array | None]) -> None:
        operation = node.operation
        assert operation is not None
        try:
            outputs = operation.evaluate([self._value(source, arrays) for source in node.inputs])
        except UncorkError:
            raise Refused from None  # the interpreter says it of the layers that were read, which this node may stand for
        for position, output in enumerate(outputs):
            place = self.shared.places[Source(node.id, position)]
            assert isinstance(place, _Argument) and output.value is not None
            array = output.value
            if not node.outputs[position].spec.shape.contains(array.shape):
                raise Refused  # some shapes are taken for what they mostly are, as that of a Squeeze whose axis may not be 1
            if np.may_share_memory(array, self.memory):  # which other results will take over
                array = array.copy()
            # With the shape kept: NumPy makes a vector of a scalar that it makes contiguous.
            arrays[place.number] = np.ascontiguousarray(array).reshape(array.shape)

    def _value(self, source: Source, arrays: Sequence[Array | None]) -> TensorSpec:
        """A tensor as a reference takes it. Its shape is the spec's: a view's place holds it in another."""
        spec = self.shared.model.spec(source)
        place = self.shared.places[source]
        if isinstance(place, _Planned):
            size = int(spec.shape.size) * spec.element_type.dtype.itemsize
            start = self._planned(place.number) - int(self.memory.ctypes.data)
            array = self.memory[start : start + size].view(spec.element_type.dtype)
        else:
            given = place.array if isinstance(place, _Constant) else arrays[place.number]
            assert given is not None
            array = given
        shape = spec.shape.static if spec.shape.is_static else array.shape
        return TensorSpec(spec.element_type, PartialShape(shape), array.reshape(shape))

    def _result(self, number: int, arrays: list[Array | None]) -> Array:
        shared = self.shared
        source = shared.model.by_id[shared.model.results[number]].inputs[0]
        place = shared.places[source]
        if isinstance(place, _Argument) and place.number == shared.input_count + number:
            array = arrays[place.number]
            assert array is not None
            return array
        value = self._value(source, arrays).value
        assert value is not None
        return value.copy() if isinstance(place, _Planned) else value
