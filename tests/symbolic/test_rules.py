"""The rules of every operation with sizes as symbols, held against the same rules with numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.ops.test_every_op import WITH_LOOP, _each
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import ops
from uncork.errors import UncorkError
from uncork.symbolic import Facts, Origin, Size, Symbol
from uncork.types import Element, ElementType, PartialShape, TensorSpec

#: Element types whose values shapes are computed from; of so many elements they may be symbols.
WHOLE, FEW = (ElementType.i32, ElementType.i64), 8


#: Inputs whose last dimension is a number of axes, by operation and version: the rank of what comes
#: out depends on it.
COUNTS_OF_AXES = {
    "GatherND": {5: 1, 8: 1},
    "ScatterNDUpdate": {3: 1, 4: 1, 15: 1},
    "Interpolate": {4: 2, 11: 1},
}


class Symbolic:
    """Specs with symbols in place of some sizes and of elements of small integer inputs; the hints
    are what was there.
    """

    def __init__(
        self,
        operation: ops.Operation,
        specs: Sequence[TensorSpec | None],
        share: float,
        values_too: bool,
        generator: random.Random,
    ) -> None:
        self.share, self.generator = share, generator
        self.counting = COUNTS_OF_AXES.get(operation.type_name, {}).get(operation.opset)
        self.values: dict[Symbol, int] = {}
        whole = [
            abs(n)
            for s in specs
            if s is not None and self._is_vector(s)
            for n in s.value.ravel().tolist()
        ]
        self.values_too = (
            values_too and max(whole, default=0) < 2**7
        )  # numbers of the size of sizes, which do not wrap
        self.facts = Facts(self._hints(specs))
        self.specs = [None if spec is None else self._open(i, spec) for i, spec in enumerate(specs)]

    def _hints(self, specs: Sequence[TensorSpec | None]) -> dict[Origin, int]:
        hints = {
            Origin(i, 0, axis): size
            for i, s in enumerate(specs)
            if s is not None
            for axis, size in enumerate(s.shape.static)
        }
        for i, spec in enumerate(specs):
            if spec is not None and spec.element_type in WHOLE:
                hints |= {
                    Origin(i, 0, k, True): v for k, v in enumerate(spec.value.ravel().tolist())
                }
        return hints

    def _open(self, i: int, spec: TensorSpec) -> TensorSpec:
        if self._is_vector(spec) and (not self.values_too or self.generator.random() > self.share):
            return spec
        if self._is_vector(spec):
            elements: list[Element] = spec.value.ravel().tolist()
            for k, value in enumerate(list(elements)):
                if self.generator.random() < 0.7:
                    elements[k] = self._symbol(
                        f"e{i}_{k}", -(2**63), "number", Origin(i, 0, k, True), value
                    )
            return TensorSpec(spec.element_type, spec.shape, None, tuple(elements))
        dims: list[int | Size] = list(spec.shape.static)
        for axis, size in enumerate(dims):
            if self.generator.random() < self.share and not (
                i == self.counting and axis == len(dims) - 1
            ):
                dims[axis] = self._symbol(f"d{i}_{axis}", 0, "input", Origin(i, 0, axis), size)
        return TensorSpec(spec.element_type, PartialShape(dims))

    def _is_vector(self, spec: TensorSpec) -> bool:
        """Axes, sizes, bounds: what is never of open length."""
        return spec.element_type in WHOLE and spec.shape.rank in (0, 1) and spec.value.size <= FEW

    def _symbol(self, name: str, low: int, kind: str, origin: Origin, value: int) -> Size:
        symbol = self.facts.symbol(name, low, None, kind, origin)
        self.values[symbol] = value
        return Size.of(symbol)


def check(
    operation: ops.Operation, case: Case, share: float, values_too: bool, generator: random.Random
) -> None:
    """Expressions give the sizes that numbers give, and a right call keeps every guard and
    check.
    """
    specs = case.specs()
    results = operation.evaluate(specs)
    symbolic = Symbolic(operation, specs, share, values_too, generator)
    outputs = operation.describe(symbolic.specs)
    values = symbolic.values
    for relation in (*symbolic.facts.guards, *symbolic.facts.checks):
        assert relation.holds(values), (
            f"{type(relation).__name__} {relation} does not hold for {values}"
        )
    assert len(outputs) == len(results)
    for output, result in zip(outputs, results, strict=True):
        assert output.element_type is result.element_type
        assert output.shape.contains(result.shape.static), (
            f"inferred {output.shape}, got {result.shape}"
        )
        for dim, size in zip(
            output.shape if output.rank is not None else (), result.shape.static, strict=False
        ):
            assert not dim.is_open or dim.as_size().evaluate(values) == size, (
                f"{dim} is not {size}: {output.shape}, {values}"
            )
        for element, value in zip(
            output.elements or (), result.value.ravel().tolist(), strict=False
        ):
            known = element.exact_value(values) if isinstance(element, Size) else element
            assert known is None or known == value, f"element {element} is not {value}"
        if output.value is not None:
            np.testing.assert_array_equal(output.value, result.value)


SHARES = (0.3, 1.0)


@pytest.mark.parametrize(("entry", "sample"), _each("samples"))
def test_sample(entry: Samples, sample: Sample) -> None:
    generator = random.Random(sample.name)
    for share in (*SHARES, *SHARES):
        for values_too in (False, True):
            check(
                entry.operation(**sample.case.attributes), sample.case, share, values_too, generator
            )


@pytest.mark.parametrize("entry", WITH_LOOP)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_cases(entry: Samples, data: st.DataObject) -> None:
    case = data.draw(entry.cases)
    for seed, share in enumerate(SHARES):
        check(
            entry.operation(**case.attributes),
            case,
            share,
            data.draw(st.booleans()),
            random.Random(seed),
        )


@pytest.mark.parametrize(("entry", "sample"), _each("samples"))
def test_other_sizes(entry: Samples, sample: Sample) -> None:
    """Expressions found for one call, with sizes of another that keeps the guards: right, or
    refused by a check where numbers are.
    """
    operation, specs = entry.operation(**sample.case.attributes), sample.case.specs()
    symbolic = Symbolic(operation, specs, 1.0, False, random.Random(0))
    outputs = operation.describe(symbolic.specs)
    for symbol, size in list(symbolic.values.items()):
        for other in {1, 2, size - 1, size + 1, 2 * size} - {size, -1}:
            values = {**symbolic.values, symbol: other}
            if not all(guard.holds(values) for guard in symbolic.facts.guards):
                continue
            kept = all(check.holds(values) for check in symbolic.facts.checks)
            try:
                numbers = operation.describe([_with_sizes(spec, values) for spec in symbolic.specs])
            except UncorkError:
                assert not kept or entry.operation.type_name in BY_REFERENCE, (
                    f"{symbol} = {other} is refused by no check"
                )
                continue
            for output, number in zip(outputs, numbers if kept else (), strict=False):
                for dim, found in zip(
                    output.shape if output.rank is not None else (), number.shape, strict=True
                ):
                    if dim.is_open and found.is_static:
                        assert dim.as_size().evaluate(values) == int(found), (
                            f"{dim} is not {found} with {values}"
                        )


def _with_sizes(spec: TensorSpec | None, values: dict[Symbol, int]) -> TensorSpec | None:
    """The spec with numbers in place of symbols."""
    if spec is None or all(d.is_static for d in spec.shape):
        return spec
    return TensorSpec(
        spec.element_type, PartialShape([d.as_size().evaluate(values) for d in spec.shape])
    )


#: Their references, which look at the sizes of each call, run them always.
BY_REFERENCE = (
    "DeformablePSROIPooling",
    "DetectionOutput",
    "GridSample",
    "MulticlassNms",
    "NonZero",
)


@pytest.mark.parametrize(
    ("entry", "refusal"), [p for p in _each("refusals") if not p.id.startswith(BY_REFERENCE)]
)
def test_refusal(entry: Samples, refusal: Refusal) -> None:
    """What sizes that are numbers tell to be wrong, a check tells where they are symbols."""
    specs = Case(refusal.inputs, {}, refusal.types).specs()
    try:
        operation = entry.operation(**refusal.attributes)
    except UncorkError:
        return
    symbolic = Symbolic(operation, specs, 1.0, False, random.Random(0))
    numbers = [
        s if s is None or s.value is t.value else TensorSpec(s.element_type, s.shape)
        for s, t in zip(specs, symbolic.specs, strict=True)
    ]
    try:
        operation.describe(numbers)
        return  # refused for its values alone
    except UncorkError:
        pass
    try:
        operation.describe(symbolic.specs)
    except UncorkError:
        return
    assert not all(relation.holds(symbolic.values) for relation in symbolic.facts.checks), (
        "no check is broken"
    )
