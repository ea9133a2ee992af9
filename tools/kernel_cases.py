"""The cases for which `tools.kernel_digests` looks at the kernels that are selected."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compiler import test_plans
from tests.kernels import _fences
from tests.kernels.test_every_kernel import in_f32
from tests.ops.test_every_op import ALL

import uncork
from tools.kernel_recorder import Recorder, text_digest
from uncork.compiler.compile import compile_for
from uncork.ir.hints import NO_HINTS, Hints
from uncork.kernels import select
from uncork.kernels.recurrent.select import supports
from uncork.kernels.runtime.emit_entry import emit_entry
from uncork.kernels.runtime.read_size import ReadSize
from uncork.kernels.runtime.whole_file import WholeFile
from uncork.ops import Operation
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.types import TensorSpec

ROOT = Path(__file__).resolve().parent.parent
#: What is selected is the same for many threads; four show how work is shared.
_THREADS = 4
Line = tuple[str, str, str]


def call_kernels(recorder: Recorder) -> Iterator[Line]:
    """The kernels that no operation selects: what looks at files, what reads sizes, the entry."""
    yield "calls", "whole file", recorder.digest(WholeFile())
    for element in ("i8", "u8", "i32", "u32", "i64", "u64"):
        yield "calls", f"read size of {element}", recorder.digest(ReadSize(element))
    yield "calls", "entry", text_digest(emit_entry())


def everything(recorder: Recorder, folders: Sequence[Path]) -> Iterator[Line]:
    """All cases: (source, case, what is selected)."""
    yield from call_kernels(recorder)
    yield from samples(recorder)
    yield from edges(recorder)
    yield from built(recorder)
    yield from files("examples", recorder, sorted(ROOT.glob("examples/*/model.xml")))
    for folder in folders:
        yield from files("models", recorder, sorted(folder.glob("*/model.xml")))


def selected(
    recorder: Recorder,
    operation: Operation,
    specs: Sequence[TensorSpec],
    known: Any = None,
    hints: Hints = NO_HINTS,
) -> str:
    """What is selected for an operation on these values; `known` is all that selection may see."""
    try:
        outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(specs)]
    except uncork.UncorkError as error:
        return f"refused: {error}"
    return recorder.described(
        select.select_kernel(operation, known or specs, outputs, recorder.target, hints)
    )


def samples(recorder: Recorder) -> Iterator[Line]:
    """The worked examples of every operation, as they are and with their floats in f32."""
    for entry in ALL.values():
        for sample in entry.samples:
            with np.errstate(over="ignore"):
                wide = in_f32(sample.case)
            for case, types in ((sample.case, ""), (wide, " (f32)")):
                operation = entry.operation(**case.attributes)
                name = f"{operation.label()}: {sample.name}{types}"
                yield "samples", name, selected(recorder, operation, case.specs())


def edges(recorder: Recorder) -> Iterator[Line]:
    """Sizes around the edges of blocks, for every family of kernels."""
    for family, cases in _fences.EDGES.items():
        for label, operation, specs in cases(np.random.default_rng(1)):
            for variant, known, hints in _variants(family, operation, specs):
                with pytest.MonkeyPatch.context() as patch:
                    if variant == "team":
                        patch.setattr(
                            "uncork.kernels.recurrent.sequence_calls._suits_team", lambda *_: True
                        )
                    found = selected(recorder, operation, specs, known, hints)
                yield f"edges of {family}", f"{label} {variant}".strip(), found


def _variants(
    family: str, operation: Operation, specs: Sequence[TensorSpec]
) -> Iterator[tuple[str, Sequence[TensorSpec], Hints]]:
    yield "", specs, NO_HINTS
    if family == "gemm.matmul":
        yield "unknown", _unknown(specs, len(specs)), NO_HINTS
    if family not in ("recurrent", "recurrent.final_states") or not isinstance(
        operation, RecurrentSequence
    ):
        return
    yield "team", specs, NO_HINTS
    yield "unknown weights", _unknown(specs, 3), NO_HINTS
    for precision in ("bf16", "bf16x3"):
        yield precision, specs, Hints(precision=precision)


def _unknown(specs: Sequence[TensorSpec], last: int) -> list[TensorSpec]:
    """The same without the values of the last few."""
    first = len(specs) - last
    return [*specs[:first], *(TensorSpec(s.element_type, s.shape) for s in specs[first:])]


def built(recorder: Recorder) -> Iterator[Line]:
    """The models that tests/compiler/test_plans.py builds."""
    for family, layers in test_plans.FAMILIES.items():
        builder = uncork.Builder(family)
        for number, source in enumerate(layers(builder)):
            builder.result(source, f"result_{number}")
        compiled = compile_for(builder.model(), recorder.target, _THREADS)
        sizes = {port.name: _sizes(port, test_plans.SIZES) for port in compiled.inputs}
        yield from steps(f"model {family}", recorder, compiled, _ones(compiled, sizes))


def _sizes(port: Any, known: dict[str, int]) -> list[int]:
    return [known[port.name] if size.size is None else size.size for size in port.shape]


def _ones(compiled: uncork.CompiledModel, sizes: Any) -> list[np.ndarray]:
    return [np.ones(sizes[port.name], port.element_type.dtype) for port in compiled.inputs]


def files(source: str, recorder: Recorder, paths: Sequence[Path]) -> Iterator[Line]:
    """Models on disk, in every precision, for the inputs that lie beside them."""
    for path in paths:
        name, model = path.parent.name, uncork.read_model(path)
        for precision in ("f32", "bf16", "bf16x3"):
            if not supports(precision, recorder.target):
                continue
            compiled = compile_for(model, recorder.target, _THREADS, precision)
            for number, inputs in enumerate(_inputs(path, compiled)):
                for _, case, found in steps(name, recorder, compiled, inputs):
                    yield f"{source} {name}", f"{precision} {number} {case}", found


def _inputs(path: Path, compiled: uncork.CompiledModel) -> Iterator[list[np.ndarray]]:
    """Arrays for one call or several: of given shapes, or those of inputs.npz."""
    if path.parent.name in test_plans.EXAMPLES:
        yield _ones(compiled, test_plans.EXAMPLES[path.parent.name])
    beside = path.with_name("inputs.npz")
    if beside.exists():
        with np.load(beside) as stored:
            arrays = {key: stored[key] for key in stored.files}  # run/number of the input
        for run in sorted({key.split("/")[0] for key in arrays}):
            yield [arrays[f"{run}/{number}"] for number in range(len(compiled.inputs))]


def steps(
    source: str, recorder: Recorder, compiled: uncork.CompiledModel, inputs: list[np.ndarray]
) -> Iterator[Line]:
    """The steps of a call of a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = compiled.executor.as_it_runs(inputs)
    for node in model.nodes:
        if (
            node.operation is None
            or node.type_name in ("Parameter", "Const", "Result")
            or all(p.spec.value is not None for p in node.outputs)
        ):
            continue
        outputs = [port.spec for port in node.outputs]
        known = all(
            spec.shape.is_static
            for spec in (*outputs, *(model.spec(source) for source in node.inputs))
        )
        choice = (
            select.select_kernel(
                node.operation, [model.spec(s) for s in node.inputs], outputs, recorder.target
            )
            if known
            else "a found size"
        )
        yield source, node.name, recorder.described(choice)
    yield (
        source,
        "plan",
        " ".join(str(compiled.plan_for(*(array.shape for array in inputs))).split()),
    )
