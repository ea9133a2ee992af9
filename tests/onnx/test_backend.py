"""The tests of single operators that the package onnx ships, with the results that they expect."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.types import ElementType

pytest.importorskip("onnx")

from tools.onnx_page import table
from tools.onnx_types import retyped

from tests.onnx._run import values_of
from tests.onnx.skipped import SKIPPED

#: Floats of two bytes are rounded at other places than by the code that made the expected values.
_HALVES = {ElementType.f16: 2.0**-9, ElementType.bf16: 2.0**-6}


def _reason(name: str) -> str:
    found = (r for r, patterns in SKIPPED.items() if any(re.fullmatch(p, name) for p in patterns))
    return next(found, "")


def _cases() -> list[Any]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(collect_testcases(None), key=lambda case: str(case.name))


CASES = _cases()
RUN = [case for case in CASES if not _reason(case.name)]
#: So many tests are one here: each takes a few milliseconds.
_PARTS = 16


def check(case: Any) -> None:
    """One test: every result has its type, its shape and, within the test's bounds, its values."""
    compiled = uncork.load(case.model.SerializeToString(), backend="reference")
    for inputs, outputs in case.data_sets:
        results = compiled(*[values_of(i)[0] for i in inputs])
        assert len(results) == len(outputs)
        for i, given in enumerate(outputs):
            expected, kind = values_of(given)
            result = np.asarray(results[i])
            assert compiled.outputs[i].element_type is kind
            assert result.shape == expected.shape
            if kind.is_float:
                np.testing.assert_allclose(
                    result.astype(np.float64),
                    expected.astype(np.float64),
                    rtol=max(case.rtol, _HALVES.get(kind, 0)),
                    atol=max(case.atol, _HALVES.get(kind, 0) / 4),
                )
            else:
                np.testing.assert_array_equal(result, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(_PARTS))
def test_operators(part: int) -> None:
    wrong = []
    for case in RUN[part::_PARTS]:
        try:
            check(case)
        except Exception as error:  # whatever it is, the test is named
            wrong.append(f"{case.name}: {type(error).__name__}: {error!s:.300}")
    assert not wrong, "\n".join(wrong)


def test_most_are_run() -> None:
    """Nothing is skipped but what is named, and nothing named is missing."""
    assert len(RUN) > 1650
    for reason, patterns in SKIPPED.items():
        matched = [c for c in CASES if any(re.fullmatch(p, c.name) for p in patterns)]
        assert matched, f"no test is skipped because {reason}"


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_stored_models(kind: str) -> None:
    """Models that lie in the package, with their values as files."""
    import onnx
    from onnx import numpy_helper

    root = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", kind)
    wrong, ran = [], 0
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name)
        path = os.path.join(folder, "model.onnx")
        if not os.path.exists(path) or _STORED_SKIPPED.fullmatch(name):
            continue
        try:
            compiled = uncork.load(path, backend="reference")
            ran += 1
            for data in sorted(d for d in os.listdir(folder) if d.startswith("test_data_set")):
                given = {
                    f: _tensor(os.path.join(folder, data, f))
                    for f in os.listdir(os.path.join(folder, data))
                }
                arrays = [given[f"input_{i}.pb"] for i in range(len(compiled.inputs))]
                results = compiled(*[numpy_helper.to_array(a) for a in arrays])
                for i in range(len(results)):
                    expected = numpy_helper.to_array(given[f"output_{i}.pb"])
                    np.testing.assert_allclose(results[i], expected, rtol=1e-3, atol=1e-5)
        except Exception as error:  # whatever it is, the test is named
            wrong.append(f"{name}: {type(error).__name__}: {error!s:.300}")
    assert not wrong, "\n".join(wrong)
    assert ran >= 5


#: Those with a gradient, or that split a sequence by what a call gives, or compute with texts.
_STORED_SKIPPED = re.compile(r"test_(gradient_.*|sequence_model8|strnorm_.*)")


def _tensor(path: str) -> Any:
    from onnx import TensorProto

    with open(path, "rb") as file:
        return TensorProto.FromString(file.read())


@pytest.mark.filterwarnings("ignore")
def test_types_are_those_that_the_page_tells() -> None:
    known, _ = table()
    for case in [case for case in RUN if len(case.model.graph.node) == 1][::25]:
        node = case.model.graph.node[0]
        told = known.get((node.domain, node.op_type))
        for name, model in retyped(case.model) if told else ():
            try:
                uncork.read_model(model.SerializeToString())
            except uncork.UncorkError:
                continue
            assert name in told.types, (case.name, name)
