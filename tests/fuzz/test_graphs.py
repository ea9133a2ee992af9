"""Random graphs with a fixed seed, and what they are made of. `python -m tests.fuzz.run_graphs`
does thousands.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.fuzz import run_graphs
from tests.fuzz.graph_layers import FINDERS, LAYERS
from tests.fuzz.graphs import case
from tests.fuzz.run import heap_checks
from uncork.passes.functionalize_variables import functionalize_variables

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="waits for a process with select")


def test_backends_agree_where_sizes_are_found() -> None:
    report = run_graphs.fuzz(2026, range(150))
    assert report.outcomes["ran"] == 150, "\n".join(
        f"{found}\n{found.traceback}" for found in report.findings
    )
    assert report.outcomes["calls"] == 1650
    assert 250 < report.outcomes["calls refused"] < 825
    # The others are by references on both sides: those of sizes that a step finds, and of what
    # kernels refuse.
    assert report.outcomes["calls by plans"] > 500


def test_backends_agree_where_variables_grow() -> None:
    report = run_graphs.fuzz("states2026", range(100))
    assert report.outcomes["ran"] == 100, "\n".join(
        f"{found}\n{found.traceback}" for found in report.findings
    )
    assert report.outcomes["calls"] == 1100
    assert 250 < report.outcomes["calls refused"] < 700
    assert report.outcomes["calls by plans"] > 400


def test_graphs_with_variables_have_some_that_grow_and_some_whose_rows_are_picked() -> None:
    layers: Counter[str] = Counter()
    for number in range(60):
        lifted = functionalize_variables(case(f"states2026:{number}").model)
        for append in () if lifted is None else lifted.appended:
            layers["grown"] += 1
            layers["picked"] += append.selection is not None
            layers["asked for its shape"] += append.shape_is_read
    assert layers["grown"] > 60
    assert layers["picked"] > 15
    assert layers["asked for its shape"] > 3


def test_graphs_have_open_sizes_in_front_of_every_kind_of_layer() -> None:
    """Of every layer there are some, and most of them have an input whose size the shapes of the
    call do not tell.
    """
    behind: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for number in range(600):
        model = case(f"2026:{number}").model
        for node in model.nodes:
            layers[node.type_name] += 1
            inputs = [model.by_id[source.node] for source in node.inputs]
            behind[node.type_name] += any(
                giver.type_name != "Parameter"
                and not giver.outputs[source.output].spec.shape.is_static
                for giver, source in zip(inputs, node.inputs, strict=True)
            )
    assert len(FINDERS) + len(LAYERS) > 30
    kinds = (
        "EmbeddingBagOffsetsSum",
        "EmbeddingBagPackedSum",
        "EmbeddingSegmentsSum",
        "Gather",
        "Add",
        "Reshape",
        "Squeeze",
        "Concat",
    )
    for name in (
        "ScatterElementsUpdate",
        "ScatterNDUpdate",
        "GatherND",
        "OneHot",
        "TopK",
        *kinds,
        "MatMul",
        "GRUSequence",
        "ReduceSum",
        "SoftMax",
        "Select",
        "Transpose",
        "Split",
        "ShapeOf",
        "Loop",
        "TensorIterator",
    ):
        assert behind[name] > 4, (name, layers[name], behind[name])


def test_a_case_is_always_the_same() -> None:
    first, second = (case("7:3") for _ in range(2))
    assert [node.type_name for node in first.model.nodes] == [
        node.type_name for node in second.model.nodes
    ]
    assert len(first.calls) == 11
    for one, other in zip(first.calls, second.calls, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_calls_are_of_several_sizes_zero_among_them() -> None:
    """Of most graphs the calls have at least four combinations of sizes, and one of them has
    nothing in it.
    """
    several = empty = 0
    for number in range(100):
        calls = case(f"2026:{number}").calls
        shapes = {tuple(array.shape for array in inputs) for inputs in calls}
        several += len(shapes) >= 4
        empty += any(0 in shape for combination in shapes for shape in combination)
    assert several > 60
    assert empty > 60


def test_what_disagrees_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker that always sees another number is reported with its graph, by the command line
    too.
    """
    real = run_graphs.Worker.run

    def wrong(self: run_graphs.Worker, job: dict[str, str]) -> dict[str, object]:
        return {
            **real(self, job),
            "outcome": "differs",
            "detail": "call 3: 1 and 2",
            "traceback": "0: Parameter()",
        }

    monkeypatch.setattr(run_graphs.Worker, "run", wrong)
    assert run_graphs.main(["--seed", "2026", "--only", "5"]) == 1
    shown = capsys.readouterr().out
    assert "case 5 of graphs: differs" in shown
    assert "0: Parameter()" in shown


@pytest.mark.skipif(not heap_checks(), reason="a C library that cannot check its heap")
def test_a_write_past_memory_is_found() -> None:
    worker = run_graphs.Worker(8 << 30, 60, "tests.fuzz.writing_worker")
    try:
        assert worker.run({"past": 0})["outcome"] == "ran"
        answer = worker.run({"past": 1})
        assert answer["outcome"] == "crash"
        assert "free(): invalid pointer" in answer["traceback"]
        assert worker.run({"past": 0})["outcome"] == "ran", "by the next process"
    finally:
        worker.close()
        worker.errors.close()
