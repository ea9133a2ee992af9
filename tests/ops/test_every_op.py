"""Every registered operation against what its samples file knows of it. An operation without
samples fails.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tests.samples
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import ops, storage
from uncork.errors import UncorkError, ValidationError
from uncork.ops._modules import MODULES
from uncork.types import ElementType, PartialShape, TensorSpec

ALL: dict[type[ops.Operation], Samples] = {}
for module in pkgutil.iter_modules(tests.samples.__path__):
    if not module.name.startswith("_"):
        for entry in importlib.import_module(f"tests.samples.{module.name}").SAMPLES:
            assert entry.operation not in ALL, f"{entry.operation.label()} has two entries"
            ALL[entry.operation] = entry


def _each(kind: str) -> list[object]:
    return [
        pytest.param(entry, item, id=f"{entry.operation.label()}: {item.name}")
        for entry in ALL.values()
        for item in getattr(entry, kind)
    ]


WITH_LOOP = [pytest.param(e, id=e.operation.label()) for e in ALL.values() if e.cases is not None]


#: These need a graph around them: tests/ir and tests/compiler/test_state.py have theirs.
WITHOUT_SAMPLES = ("Parameter", "Const", "If", "Loop", "TensorIterator", "ReadValue", "Assign")


def test_is_found_without_importing_the_others() -> None:
    modules = {op.type_name: op.__module__.rpartition(".")[2] for op in ops.registered()}
    assert modules == MODULES, "src/uncork/ops/_modules.py says which module declares a type"


@pytest.mark.parametrize(
    "operation",
    [o for o in ops.registered() if o.type_name not in WITHOUT_SAMPLES],
    ids=lambda o: o.label(),
)
def test_has_samples(operation: type[ops.Operation]) -> None:
    assert operation in ALL, f"{operation.label()} has no entry in tests/samples"
    entry = ALL[operation]
    assert entry.samples, "at least one worked example"
    assert (entry.cases is not None and entry.loop is not None) or entry.without_loop, (
        "an independent loop with random cases, or a reason"
    )


def agree(
    got: np.ndarray,
    expected: np.ndarray,
    element_type: object,
    rtol: float,
    atol: float,
    what: str = "",
) -> None:
    """Exact for everything but floats; floats by value within the tolerance, widened to the
    resolution of their type.
    """
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
    if not element_type.is_float:
        np.testing.assert_array_equal(got, expected, what)
        return
    resolution = {"f16": 1e-3, "bf16": 8e-3}.get(
        element_type.name, 0.0 if element_type.bits >= 32 else 0.25
    )
    with np.errstate(invalid="ignore"):  # widening a signalling NaN is no fault
        a, b = (storage.decode(x, element_type).astype(np.float64) for x in (got, expected))
    np.testing.assert_allclose(
        a, b, rtol=max(rtol, resolution), atol=max(atol, resolution * 0.1), err_msg=what
    )


@pytest.mark.parametrize(("entry", "sample"), _each("samples"))
def test_sample(entry: Samples, sample: Sample) -> None:
    case = sample.case
    results = entry.operation(**case.attributes).evaluate(case.specs())
    values, types = sample.expected
    assert len(results) == len(values)
    for position, (result, value, element_type) in enumerate(
        zip(results, values, types, strict=True)
    ):
        assert result.element_type is element_type, f"output {position}"
        agree(result.value, value, element_type, sample.rtol, sample.atol, f"output {position}")


@pytest.mark.parametrize(("entry", "refusal"), _each("refusals"))
def test_refusal(entry: Samples, refusal: Refusal) -> None:
    specs = Case(refusal.inputs, {}, refusal.types).specs()
    if refusal.strict:
        operation = entry.operation(**refusal.attributes)
        operation.evaluate(specs)  # tolerated
        with pytest.raises(UncorkError, match=refusal.message):
            operation.replace(strict=True).evaluate(specs)
    else:
        with pytest.raises(UncorkError, match=refusal.message):
            entry.operation(**refusal.attributes).evaluate(specs)


@pytest.mark.parametrize("entry", WITH_LOOP)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_against_loop(entry: Samples, data: st.DataObject) -> None:
    case = data.draw(entry.cases)
    results = entry.operation(**case.attributes).evaluate(case.specs())
    expected = entry.loop(case)
    assert len(results) == len(expected)
    for position, (result, value) in enumerate(zip(results, expected, strict=True)):
        carrier = (
            storage.encode(value, result.element_type)
            if result.element_type.is_float and value.dtype != result.value.dtype
            else value
        )
        agree(
            result.value,
            carrier,
            result.element_type,
            entry.rtol,
            entry.atol,
            f"output {position} of {case}",
        )


def _check_inference(operation: ops.Operation, case: Case, limit: int) -> None:
    """Whatever is left unknown, inference must not contradict what running gives."""
    specs = case.specs()
    operation = operation.specialised(specs)  # as a layer is once it is loaded
    results = operation.evaluate(specs)
    dims = [(i, d) for i, s in enumerate(specs) if s is not None for d in range(len(s.shape))]
    subsets = list(itertools.product([False, True], repeat=len(dims))) if len(dims) <= 10 else []
    generator = random.Random(len(dims))
    if not subsets or len(subsets) > limit:
        subsets = [tuple(generator.random() < p for _ in dims) for p in np.linspace(0.05, 1, limit)]
    described = [operation.describe(specs)]
    for hidden in subsets:
        for with_values in (False, True):
            partial: list[TensorSpec | None] = []
            for i, spec in enumerate(specs):
                if spec is None:
                    partial.append(None)
                    continue
                open_dims = [
                    None if hidden[dims.index((i, d))] else int(size)
                    for d, size in enumerate(spec.shape)
                ]
                keeps = with_values and None not in open_dims
                partial.append(
                    TensorSpec(
                        spec.element_type, PartialShape(open_dims), spec.value if keeps else None
                    )
                )
            described.append(operation.describe(partial))
    for i, spec in enumerate(specs):
        if spec is not None:
            described.append(
                operation.describe(
                    [
                        TensorSpec(s.element_type, PartialShape()) if j == i else s
                        for j, s in enumerate(specs)
                    ]
                )
            )
    described.append(
        operation.describe(
            [None if s is None else TensorSpec(s.element_type, PartialShape()) for s in specs]
        )
    )
    for outputs in described:
        assert len(outputs) == len(results)
        for output, result in zip(outputs, results, strict=True):
            assert output.element_type is result.element_type
            assert output.shape.contains(result.shape.static), (
                f"inferred {output.shape}, got {result.shape}"
            )
            if output.value is not None:
                agree(output.value, result.value, result.element_type, 1e-6, 1e-6)
            if output.partial is not None:
                value, known = output.partial
                np.testing.assert_array_equal(np.asarray(value)[known], result.value[known])


@pytest.mark.parametrize(("entry", "sample"), _each("samples"))
def test_inference_of_sample(entry: Samples, sample: Sample) -> None:
    _check_inference(entry.operation(**sample.case.attributes), sample.case, 64)


@pytest.mark.parametrize("entry", WITH_LOOP)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_inference_agrees_with_running(entry: Samples, data: st.DataObject) -> None:
    case = data.draw(entry.cases)
    _check_inference(entry.operation(**case.attributes), case, 32)


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.operation.label()) for e in ALL.values()])
def test_attributes_survive_the_file(entry: Samples) -> None:
    for sample in entry.samples:
        operation = entry.operation(**sample.attributes)
        again = entry.operation.from_text(operation.to_text())
        assert again.to_text() == operation.to_text()


@pytest.mark.parametrize("entry", [pytest.param(e, id=e.operation.label()) for e in ALL.values()])
def test_refuses_too_many_inputs(entry: Samples) -> None:
    if entry.operation.inputs and entry.operation.inputs[-1].variadic:
        pytest.skip("takes any number of inputs")
    sample = entry.samples[0]
    extra = TensorSpec(ElementType.f32, PartialShape([]))
    with pytest.raises(ValidationError, match="expected at most"):
        entry.operation(**sample.attributes).describe(
            [*sample.case.specs(), *[extra] * (len(entry.operation.inputs) + 1)]
        )
