"""A short campaign of changed ONNX models: each runs, or is refused in words."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from tests.fuzz import run_onnx


def test_changed_models_run_or_are_refused() -> None:
    report = run_onnx.fuzz(28, range(250), backends=("reference",))
    assert not report.findings, "\n".join(map(str, report.findings))
    assert report.outcomes["ran"] > 30
    assert report.outcomes["refused"] > 100


def test_a_case_depends_on_its_number_alone() -> None:
    first = {number: mutation for number, _, mutation in run_onnx.cases(7, range(60))}
    ((_, _, alone),) = run_onnx.cases(7, [33])
    assert (alone.data, alone.log) == (first[33].data, first[33].log)


def test_every_kind_of_change_happens() -> None:
    words = " ".join(text for _, _, m in run_onnx.cases(1, range(800)) for text in m.log)
    for kind in (
        *("is dropped", "becomes", "repeat", "swap", "clear", "add", "lies elsewhere"),
        *("NodeProto.input", "NodeProto.op_type", "TensorProto.dims", "AttributeProto.type"),
        *("bytes: flip", "bytes: cut", "bytes: insert"),
    ):
        assert kind in words, kind
