"""Operators of com.microsoft and ai.onnx.ml, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork

pytest.importorskip("onnx")

from tests.onnx.microsoft_cases import CASES, Case


def expected(case: Case) -> list[Any]:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(case.model().SerializeToString(), options)
    return list(session.run(None, case.fed))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.oracle
def test_operators(case: Case) -> None:
    wanted = expected(case)
    for backend in ("reference", "cpu"):
        compiled = uncork.load(case.model().SerializeToString(), backend=backend)
        results = list(compiled(**case.fed))
        assert len(results) == len(wanted)
        for result, other in zip(results, wanted, strict=True):
            assert result.shape == other.shape
            assert result.dtype == other.dtype
            np.testing.assert_allclose(
                result.astype(np.float64), other.astype(np.float64), rtol=1e-4, atol=case.tolerance
            )
