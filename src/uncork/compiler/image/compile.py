"""`compile_to`: a model compiled into one file, which runs without a compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from uncork._version import __version__
from uncork.compiler.call_plan import CallPlan, NativeStep
from uncork.compiler.execute import Executor
from uncork.compiler.image import format
from uncork.compiler.image.record import Code, Constants, RecordedPlan, Recorder, first_segment
from uncork.compiler.printed_plan import printed
from uncork.compiler.scope import Scope
from uncork.errors import UnsupportedError
from uncork.ir.model import Model
from uncork.ir.ports import ModelPort
from uncork.ir.replacement import Replacement
from uncork.kernels.runtime.addresses import Wanted, recorded
from uncork.kernels.runtime.entry_method import ENTRY
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.segment_plan import SizeOperand
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.thread_pool import Serve, wanted
from uncork.symbolic import Guard

#: Code begins at multiples of so many bytes: instructions of aarch64 count in pages.
_ALIGNMENT = {"x86_64": 64}
_WHOLE_PAGE = 4096


def write_compiled(
    path: Path,
    model: Model,
    executors: Mapping[str, Callable[[], Executor]],
    targets: Mapping[str, Target],
    shapes: Sequence[Mapping[int, Sequence[int | None]]],
    sources: Mapping[str, Path],
    with_source: bool,
    options: Mapping[str, str],
) -> format.Description:
    """Write a compiled file: for each target, by its level, a plan for calls of each of these
    shapes. Raises UnsupportedError for layers without a kernel, CompileError where LLVM fails.
    """
    constants = Constants()
    made: list[tuple[str, Target, Code, dict[str, int], list[tuple[RecordedPlan, list[str]]]]] = []
    for level, target in targets.items():
        code = Code(partial(_linked, target), _ALIGNMENT.get(target.arch, _WHOLE_PAGE))
        plans: list[tuple[RecordedPlan, list[str]]] = []
        with recorded() as recording:
            executor = executors[level]()
            for given in shapes or [{}]:
                plan = _planned(executor, given)
                recorder = Recorder(recording, constants, code)
                plans.append((recorder.image(plan, first_segment(plan)), recorder.symbols))
        functions = {"segment_entry": code.add(ENTRY), "serve": code.add(wanted(Serve(), target))}
        made.append((level, target, code, functions, plans))

    def images(writer: format.Writer) -> tuple[format.Image, ...]:
        return tuple(
            format.Image(
                level,
                target.arch,
                tuple(target.features.split(",")),
                writer.section([bytes(code.code)], format.PAGE),
                functions,
                tuple(_plan(writer, plan, symbols) for plan, symbols in plans),
            )
            for level, target, code, functions, plans in made
        )

    with Replacement() as files, files.open(path) as file:
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
            sources={name: format.digest_of_file(source) for name, source in sources.items()},
            source={
                name: writer.section(list(_pieces(source)))
                for name, source in (sources if with_source else {}).items()
            },
            options=dict(options),
        )
        writer.finish(description)
    return description


def _pieces(path: Path) -> Any:
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(1 << 24), b"")


def _linked(target: Target, one: Wanted) -> tuple[bytes, int]:
    return STORE.linked(one, target)


def _planned(executor: Executor, shapes: Mapping[int, Sequence[int | None]]) -> CallPlan:
    plans = executor.plans_for(shapes)
    if not plans:
        reason = "" if executor.plans is None else executor.plans.reason
        raise UnsupportedError(f"has no plan for every size: {reason}: give it sizes (--shape)")
    return plans[0]


def _port(port: ModelPort) -> format.Port:
    return format.Port(port.names, str(port.element_type), port.shape.format())


def _plan(writer: format.Writer, image: RecordedPlan, symbols: Sequence[str]) -> format.Plan:
    plan = image.plan
    inputs = len(plan.array_guards)
    shown = printed(plan, Scope.EVERY_SIZE, {}, 1)
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
            format.Step(s.layer, s.operation, s.kernel, s.outputs, s.place, s.note)
            for s in shown.steps
        ),
        tuple(
            (buffer.bytes.index, str(plan.buffer_layers[buffer.buffer]))
            for part in plan.parts
            if isinstance(part, NativeStep)
            for buffer in part.segment.buffers
        ),
        (),
        plan.threads,
    )


def _results(plan: CallPlan) -> tuple[format.Result, ...]:
    if plan.is_native:
        return tuple(format.Result(number) for number in range(len(plan.results)))
    inputs = len(plan.array_guards)
    made = [
        inputs + number
        for part in plan.parts
        if isinstance(part, NativeStep)
        for number, _ in part.makes
    ]
    known = [
        (inputs + number, result.sizes)
        for part in plan.parts
        if isinstance(part, NativeStep)
        for number, result in part.makes
    ]
    if known == [(result.argument, result.sizes) for result in plan.results]:
        return tuple(format.Result(number) for number in range(len(plan.results)))
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
