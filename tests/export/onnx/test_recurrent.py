"""Recurrent layers of f64, which onnxruntime has no nodes for: the same answers, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from tests.ops.test_every_op import ALL
from tests.samples._sample import Case, Sample
from uncork.ops import Operation

from ._run import one_layer, run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

KINDS = [f"{name}{kind}" for name in ("GRU", "LSTM", "RNN") for kind in ("Cell", "Sequence")]
EXAMPLES = [
    (operation, sample)
    for operation, entry in ALL.items()
    if operation.type_name in KINDS
    for sample in entry.samples
    if not any(sample.types)
    and all(a is None or (a.size and a.dtype != np.float16) for a in sample.case.inputs)
]


def wide(arrays: tuple[np.ndarray | None, ...]) -> list[np.ndarray | None]:
    return [a.astype(np.float64) if a is not None and a.dtype.kind == "f" else a for a in arrays]


@pytest.mark.parametrize(
    ("operation", "sample"), EXAMPLES, ids=lambda v: v.name if isinstance(v, Sample) else v.label()
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_examples(operation: type[Operation], sample: Sample, dynamic: bool) -> None:
    case = Case(wide(sample.case.inputs), sample.attributes)
    made = one_layer(operation, case, False, dynamic)
    if made is None:
        pytest.skip("an input is left out between others")
    proto = uncork.to_onnx(made[0])
    assert not {"GRU", "LSTM", "RNN"} & {node.op_type for node in proto.graph.node}
    outputs = run(proto, made[1])
    for got, expected in zip(outputs, wide(sample.expected[0]), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, expected, 1e-6, 1e-6)
