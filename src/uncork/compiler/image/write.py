"""The writer of compiled files: plans of a model for each target, and what they need."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from uncork._version import __version__
from uncork.compiler.call_plan import CallPlan
from uncork.compiler.execute import Executor
from uncork.compiler.image import format
from uncork.compiler.image.origins import Origins
from uncork.compiler.image.record import Code, Constants, RecordedPlan, Recorder, first_segment
from uncork.compiler.policy import (
    MOST_SAVED_PLANS,
    MOST_TRIED_SIZES,
    MOST_TRIED_VAINLY,
    TRIED_SIZES,
)
from uncork.compiler.printed_plan import printed_steps
from uncork.compiler.state import constant_value, is_computed
from uncork.errors import UncorkError, UnsupportedError
from uncork.internal_ops.coded_rows import CodedRead
from uncork.ir.constants import stored_arrays
from uncork.ir.model import Model, Node
from uncork.ir.ports import ModelPort
from uncork.ir.replacement import Replacement
from uncork.kernels.runtime import wasm
from uncork.kernels.runtime.addresses import Wanted, recorded
from uncork.kernels.runtime.dispatch import Serve, wanted
from uncork.kernels.runtime.entries import ENTRY
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import SizeOperand
from uncork.kernels.runtime.target import Target
from uncork.ops.gather import Gather, Gather7, Gather8
from uncork.ops.state import Assign3, ReadValue3
from uncork.passes.functionalize_variables import initial_values
from uncork.passes.match_appends import Append
from uncork.symbolic import Guard, Origin, Relation
from uncork.types import TensorSpec

#: Code begins at multiples of so many bytes: instructions of aarch64 count in pages.
_ALIGNMENT = {"x86_64": 64, "wasm32": 1}
_WHOLE_PAGE = 4096


class _Made(Struct):
    """What was made for a target: its code, and images of plans with their symbols."""

    level: str
    target: Target
    code: Code
    functions: dict[str, int]
    plans: list[tuple[RecordedPlan, list[str]]]
    initial: list[tuple[RecordedPlan, list[str]]]


def _without_variables(
    executor: Executor,
) -> tuple[Executor, Executor | None, format.Variables | None]:
    """The executors of a model without its variables and of what these begin with, and what is to
    be known of them. Raises UnsupportedError where they begin with what other variables hold.
    """
    model, made = executor.model, executor.stateful
    if not model.sinks:
        return executor, None, None
    if made is None:
        raise UnsupportedError("its variables have contradicting types", model.source)
    lifted = made.lifted
    reads = (*lifted.reads, *(append.read for append in lifted.appended))
    computed = [node for node in reads if is_computed(model, node)]
    begins = initial_values(model, computed) if computed else None
    if computed and begins is None:
        raise UnsupportedError("a variable begins with what others hold", model.source)

    def read(node: Node, spec: TensorSpec) -> format.Read:
        assert isinstance(node.operation, (ReadValue3, Assign3))
        name = node.operation.variable_id
        begin = None
        if isinstance(node.operation, ReadValue3) and not is_computed(model, node):
            value = constant_value(model, node)
            begin = format.Begin(value.shape, value.tobytes())
        coding = str(spec.element_type) if isinstance(node.operation, CodedRead) else ""
        return format.Read(
            name, node.name, str(spec.element_type), spec.shape.format(), begin, coding
        )

    last = {
        node.operation.variable_id: node
        for node in model.nodes
        if isinstance(node.operation, Assign3)
    }
    grown = tuple(append.variable for append in lifted.appended)
    known = format.Variables(
        tuple(read(node, node.outputs[0].spec) for node in reads),
        tuple(
            read(last[name], model.spec(last[name].inputs[0]))
            for name in (*lifted.assigned, *grown)
        ),
        tuple(map(_grown, lifted.appended)),
    )
    main = made.executor
    assert isinstance(main, Executor)
    first = None if begins is None else Executor(begins, executor.target, executor.threads)
    return main, first, known


def _grown(append: Append) -> format.Grown:
    picked, selection = None, append.selection
    if selection is not None:
        operation = selection.node.operation
        assert isinstance(operation, Gather)
        opset = 8 if isinstance(operation, Gather8) else 7 if isinstance(operation, Gather7) else 1
        picked = format.Picked(selection.input, selection.axis, opset, operation.strict)
    return format.Grown(append.variable, append.axis, picked, append.shape_is_read)


def write_compiled(
    to: Path | BinaryIO,
    model: Model,
    executors: Mapping[str, Sequence[Callable[[], Executor]]],
    targets: Mapping[str, Target],
    sources: Mapping[str, Path],
    with_source: bool,
    options: Mapping[str, Any],
) -> format.Description:
    """Write a compiled file, or into one that is open: for each target, by its level, the plans of
    these executors. Raises UnsupportedError for layers without a kernel, CannotCompile where LLVM
    fails.
    """
    origins = Origins(model)
    constants = Constants(origins.add)
    made: list[_Made] = []
    variables: format.Variables | None = None
    for level, target in targets.items():
        code = Code(partial(_linked, target), _ALIGNMENT.get(target.arch, _WHOLE_PAGE))
        plans: list[tuple[RecordedPlan, list[str]]] = []
        begins: list[tuple[RecordedPlan, list[str]]] = []
        with recorded() as recording:
            for make in executors[level]:
                main, initial, variables = _without_variables(make())
                usual, *others = _plans(main)
                begun = [(usual, first_segment(usual))]
                for plan in others:
                    with contextlib.suppress(UnsupportedError):  # calls of it are refused, by name
                        begun.append((plan, first_segment(plan)))
                origins.look_at(main.model)
                plans += [_image(*one, Recorder(recording, constants, code)) for one in begun]
                if initial is not None and not begins:
                    first = _plans(initial)[0]
                    origins.look_at(initial.model)
                    recorder = Recorder(recording, constants, code)
                    begins.append(_image(first, first_segment(first), recorder))
        functions: dict[str, int] = {}
        if target.arch != "wasm32":  # which has neither Python nor threads
            functions = {
                "segment_entry": code.add(ENTRY),
                "serve": code.add(wanted(Serve(), target)),
            }
        made.append(_Made(level, target, code, functions, plans, begins))

    def images(writer: format.Writer) -> tuple[format.Image, ...]:
        return tuple(
            format.Image(
                one.level,
                one.target.arch,
                tuple(one.target.features.split(",")),
                writer.code(bytes(one.code.code), one.target.arch),
                one.functions,
                tuple(_plan(writer, plan, symbols) for plan, symbols in one.plans),
                tuple(_plan(writer, plan, symbols) for plan, symbols in one.initial),
            )
            for one in made
        )

    with contextlib.ExitStack() as written:
        if isinstance(to, Path):
            file = written.enter_context(written.enter_context(Replacement()).open(to))
        else:
            file = to
        writer = format.Writer(file)
        section, digest = writer.constants(constants.arrays)
        description = format.Description(
            model.name,
            __version__,
            tuple(map(_port, model.inputs)),
            tuple(map(_port, model.outputs)),
            section,
            digest,
            images(writer),
            variables,
            model.extras,
            sources={name: format.digest_of_file(source) for name, source in sources.items()},
            source={
                name: writer.section(list(_pieces(source)))
                for name, source in (sources if with_source else {}).items()
            },
            settings=dict(options),
            weights=format.Weights(
                sum(array.nbytes for array in stored_arrays(model)),
                dict(origins.bytes),
                origins.repeated,
            ),
        )
        writer.finish(description)
    return description


def _pieces(path: Path) -> Any:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 24), b"")


def _linked(target: Target, one: Wanted) -> tuple[bytes, int]:
    """The code of a function; an object of WebAssembly, which is linked elsewhere."""
    if target.arch == "wasm32":
        return wasm.compiled(one, target), 0
    return STORE.linked(one, target)


def _plans(executor: Executor) -> list[CallPlan]:
    """The plan that an executor makes first, and those for calls for which its guards on inputs,
    or those of these, fail.
    """
    made = executor.plans_for({})[:1]
    if not made or executor.plans is None:
        reason = "" if executor.plans is None else executor.plans.reason
        raise UnsupportedError(f"has no plan for every size: {reason}: give it sizes (--shape)")
    for plan in made:  # which grows
        for guard in plan.relations:
            in_vain = 0
            for hints in _breaking(guard) if _is_of_inputs(guard, executor.model) else ():
                if len(made) >= MOST_SAVED_PLANS or in_vain >= MOST_TRIED_VAINLY:
                    break
                try:
                    made += [p for p in executor.plans.serving(hints)[:1] if p not in made]
                except UncorkError:  # there is no such call
                    in_vain += 1
    return made


def _is_of_inputs(relation: Relation, model: Model) -> bool:
    """Whether it is a guard that the arguments of a call alone decide."""
    parameters = {*model.parameters}
    return isinstance(relation, Guard) and all(
        symbol.origin.node in parameters for symbol in relation.symbols
    )


def _breaking(guard: Relation) -> Iterator[dict[Origin, int]]:
    """Some numbers for which a guard fails."""
    symbols = sorted(guard.symbols, key=lambda symbol: symbol.name)
    tried = [
        [n for n in TRIED_SIZES if s.low <= n and (s.high is None or n <= s.high)] for s in symbols
    ]
    for numbers in itertools.product(*tried) if len(symbols) <= MOST_TRIED_SIZES else ():
        if not guard.holds(dict(zip(symbols, numbers, strict=True))):
            yield {s.origin: number for s, number in zip(symbols, numbers, strict=True)}


def _image(plan: CallPlan, segment: Segment, recorder: Recorder) -> tuple[RecordedPlan, list[str]]:
    """The image of a plan whose calls begin with this segment, and the symbols in it."""
    return recorder.image(plan, segment), recorder.symbols


def _port(port: ModelPort) -> format.Port:
    return format.Port(port.names, str(port.element_type), port.shape.format())


def _plan(writer: format.Writer, image: RecordedPlan, symbols: Sequence[str]) -> format.Plan:
    plan = image.plan
    inputs = len(plan.array_guards)
    steps = printed_steps(plan, {})
    return format.Plan(
        writer.section([image.words]),
        writer.section([image.relocated]),
        writer.section([image.bases]),
        tuple(symbols),
        image.contexts,
        image.turns,
        image.rooms,
        tuple(format.Argument(g.dtype.str, g.shape) for g in plan.array_guards),
        0 if plan.is_native else plan.arguments - inputs,
        _results(plan),
        tuple(
            format.Condition(str(relation), str(relation.where), isinstance(relation, Guard))
            for relation in plan.relations
        ),
        tuple(
            format.Step(s.layer, s.operation, s.kernel, s.outputs, s.place, s.note) for s in steps
        ),
        tuple(
            (buffer.bytes.index, str(plan.buffer_layers[buffer.buffer]))
            for segment in plan.segment_plans
            for buffer in segment.buffers
        ),
        tuple((number, tuple(map(_size, sizes))) for number, _, sizes in plan.extended),
        plan.threads,
    )


def _results(plan: CallPlan) -> tuple[format.Result, ...]:
    if plan.is_native or plan.gives_what_is_made:
        return tuple(format.Result(number) for number in range(len(plan.results)))
    inputs, made = len(plan.array_guards), [number for number, _ in plan.made]
    return tuple(
        format.Result(
            result.argument if result.argument < inputs else made.index(result.argument),
            result.argument < inputs,
            None if result.sizes is None else tuple(map(_size, result.sizes)),
        )
        for result in plan.results
    )


def _size(size: SizeOperand) -> int:
    return size if isinstance(size, int) else -1 - size.index
