"""Operators of com.microsoft and ai.onnx.ml, held against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.internal_ops.packed_const import PackedConst

pytest.importorskip("onnx")

from tests.onnx.microsoft_cases import CASES, Case, f, u8


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


@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits_stay_as_they_are_stored(bits: int) -> None:
    """In the model, where large ones are not unpacked, and in what runs."""
    rows, columns, block = 512, 1024, 32
    case = Case(
        "MatMulNBits",
        [
            f(1, rows),
            u8(columns, rows // block, block * bits // 8),
            abs(f(columns * rows // block)),
        ],
        {"N": columns, "K": rows, "bits": bits, "block_size": block},
        constants=[1, 2],
    )
    model = uncork.read_model(case.model().SerializeToString())
    stored = [
        p.spec.element_type.name
        for node in model.nodes
        if node.type_name == "Const"
        for p in node.outputs
        if p.spec.shape.size == rows * columns
    ]
    assert stored == [f"u{bits}"]
    assert any(isinstance(n.operation, PackedConst) for n in model.nodes) == (bits == 4)
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(model)
    compiled(**case.fed)
    assert f"weights in u{bits}" in str(compiled.plan)


def test_weights_of_another_size_are_refused() -> None:
    case = Case(
        "MatMulNBits",
        [f(1, 32), u8(4, 1, 15), abs(f(4))],
        {"N": 4, "K": 32, "bits": 4, "block_size": 32},
        constants=[1, 2],
    )
    with pytest.raises(uncork.ValidationError, match=r"input 1: expected 64 bytes .* got 60"):
        uncork.read_model(case.model().SerializeToString())


def test_what_attention_refuses() -> None:
    three = [f(2, 3, 32), f(2, 3, 16), f(2, 3, 16), None, None]
    lengths = [np.array([2, 2], np.int32), np.array(3, np.int32)]
    odd = Case("GroupQueryAttention", [*three, *lengths], {"num_heads": 4, "kv_num_heads": 3})
    with pytest.raises(uncork.ValidationError, match="4 heads cannot share 3 heads of keys"):
        uncork.read_model(odd.model().SerializeToString())
    packed = Case(
        "GroupQueryAttention",
        [f(2, 3, 33), None, None, None, None, *lengths],
        {"num_heads": 4, "kv_num_heads": 2},
    )
    with pytest.raises(uncork.ValidationError, match=r"numbers of 4 \+ 2 \* 2 heads, got 33"):
        uncork.read_model(packed.model().SerializeToString())
    starts = np.array([3, 3, 0, 0], np.int32)
    case = Case("Attention", [f(2, 3, 8), f(8, 24), f(24), starts], {"num_heads": 2})
    with pytest.raises(uncork.UnsupportedError, match="a mask of starts and ends"):
        uncork.read_model(case.model().SerializeToString())
