"""The element types for which each operation runs by kernels, found by planning models of one
layer: the tests' samples, with their data in one type after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from tests.ops.test_every_op import ALL
from tests.samples._sample import Case

import uncork
from tools.kernel_recorder import TARGETS
from uncork import ops, storage
from uncork.compiler.compile import compile_for
from uncork.types import Array, ElementType

#: What plans are made for, on any machine.
_TARGET = TARGETS["x86-64-v4"]


def kernel_types(operation: type[ops.Operation]) -> list[ElementType]:
    """The types of the first input for which some sample of the operation runs by kernels alone."""
    entry = ALL.get(operation)
    if entry is None or not operation.inputs:
        return []
    cases = [sample.case for sample in entry.samples]
    return [
        element_type
        for element_type in ElementType
        if element_type in operation.inputs[0].types
        and any(_runs_by_kernels(operation, case) for case in _in(cases, element_type))
    ]


def _in(cases: Sequence[Case], element_type: ElementType) -> Iterator[Case]:
    """The cases whose data have that type, then others with their data brought to it."""
    yield from (case for case in cases if case.types and case.types[0] == element_type)
    for case in cases:
        first = case.types[0] if case.types else None
        if first not in (None, element_type) and "string" not in (first.name, element_type.name):
            yield _converted(case, element_type, len(case.types))
            yield _converted(case, element_type, 1)


def _converted(case: Case, element_type: ElementType, count: int) -> Case:
    """The case with those of its first `count` inputs that have the type of the first one in
    another type.
    """
    inputs, names = list(case.inputs), [None if t is None else t.name for t in case.types]
    for position in range(count):
        array = inputs[position]
        if array is not None and case.types[position] == case.types[0]:
            inputs[position] = _as(array, case.types[0], element_type)
            names[position] = element_type.name
    return Case(inputs, case.attributes, names)


def _as(array: Array, own: ElementType, other: ElementType) -> Array:
    """Numbers of one type in another: rounded, and no larger than it holds."""
    with np.errstate(invalid="ignore"):  # a NaN that signals
        numbers = np.nan_to_num(storage.decode(array, own).astype(np.float64))
    if other.is_float:
        with np.errstate(over="ignore"):
            return storage.encode(numbers.astype(np.float32), other)
    least, most = (0, 1) if other.name == "boolean" else _range(other)
    return np.clip(np.rint(numbers), least, most).astype(other.dtype)


def _range(element_type: ElementType) -> tuple[int, int]:
    bits = min(element_type.bits, 31)  # larger numbers say nothing more about types
    signed = element_type.name.startswith("i")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _runs_by_kernels(operation: type[ops.Operation], case: Case) -> bool:
    """Whether no step of the layer's plan is a reference, with constants beside its data or
    without.
    """
    return any(_planned(operation, case, constants) for constants in (True, False))


def _planned(operation: type[ops.Operation], case: Case, constants: bool) -> bool:
    builder = uncork.Builder("layer")
    try:
        sources: list[uncork.Source | None] = []
        for number, (array, type_) in enumerate(zip(case.inputs, case.types, strict=True)):
            if array is None or type_ is None:
                sources.append(None)
            elif number and constants:
                sources.append(builder.constant(array, type_.name))
            else:
                name = f"input_{number}"
                sources.append(builder.parameter(name, type_.name, list(array.shape)))
        version = next(v for v, o in ops.versions_of(operation.type_name).items() if o is operation)
        results = builder.add(operation.type_name, version, *sources, **case.attributes)
        for number, source in enumerate(results):
            builder.result(source, f"result_{number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plan = compile_for(builder.model(), _TARGET, 1).plan
    except uncork.UncorkError:  # values that the type cannot have, or that the layer refuses
        return False
    steps = [step for step in plan.steps if step.operation not in ("Parameter", "Const", "Result")]
    return bool(steps) and all(step.kernel != "reference" for step in steps)
