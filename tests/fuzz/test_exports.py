"""Exports of random graphs with a fixed seed, beside the references. `python -m
tests.fuzz.run_exports` does thousands.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("torch")

from tests.fuzz import run_exports
from tests.fuzz.graphs import case

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(sys.platform == "win32", reason="waits for a process with select"),
]


def test_exports_answer_as_references_do() -> None:
    report = run_exports.fuzz(2026, range(60))
    assert report.outcomes["ran"] == 60, "\n".join(
        f"{found}\n{found.traceback}" for found in report.findings
    )
    for name in ("onnx", "torch"):
        answered = report.outcomes[f"{name} calls"] - report.outcomes[f"{name} refused"]
        assert answered > 350, name
        assert report.outcomes[f"{name} not exported"] < 10, name
        assert report.outcomes[f"{name} refused alone"] < 60, name


def test_graphs_for_exports_have_layers_of_networks_and_those_that_find_sizes() -> None:
    layers: Counter[str] = Counter()
    for number in range(200):
        layers.update(node.type_name for node in case(f"exports2026:{number}").model.nodes)
    for name in (
        *("AvgPool", "Convolution", "FakeQuantize", "GroupNormalization", "MVN", "PReLU"),
        *("ScaledDotProductAttention", "Slice", "NonZero", "Gather", "Loop", "If"),
    ):
        assert layers[name] > 3, name
