"""Variables: what a call assigns is there in the next one, and only when the call succeeded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from tests.ir._files import Net, edge, layer, parameter, port, result


def running_sum() -> uncork.Model:
    """sum += x, from 0.5; refuses ids outside its table of three rows."""
    builder = uncork.Builder("sum")
    x, ids = builder.parameter("x", "f32", [2]), builder.parameter("ids", "i64", [1])
    start = builder.constant(np.full(2, 0.5, np.float32))
    (old,) = builder.add(
        "ReadValue",
        6,
        start,
        variable_id="s",
        variable_type="f32",
        variable_shape=uncork.PartialShape([2]),
    )
    (new,) = builder.add("Add", 1, old, x)
    (kept,) = builder.add("Assign", 6, new, variable_id="s")
    (bag,) = builder.add(
        "EmbeddingBagOffsetsSum",
        3,
        builder.constant(np.ones((3, 2), np.float32)),
        ids,
        builder.constant(np.array([0])),
    )
    builder.result(new, "sum")
    builder.result(bag, "bag")
    del kept
    return builder.model()


X, GOOD, BAD = np.array([1, 2], np.float32), np.array([0]), np.array([7])


def test_state_is_kept_reset_and_independent(tmp_path: Path) -> None:
    uncork.write_model(running_sum(), tmp_path / "sum.xml")
    compiled = uncork.load(tmp_path / "sum.xml")
    assert compiled(X, GOOD)["sum"].tolist() == [1.5, 2.5]
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]
    other = compiled.new_request()
    assert other(X, GOOD)["sum"].tolist() == [1.5, 2.5]
    compiled.reset_state()
    assert compiled(X, GOOD)["sum"].tolist() == [1.5, 2.5]


def test_a_call_that_fails_changes_nothing() -> None:
    compiled = uncork.compile_model(running_sum())
    compiled(X, GOOD)
    with pytest.raises(uncork.InputError, match=r"indices\[0\] is 7"):
        compiled(X, BAD)
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]


def test_the_state_is_not_the_callers_array() -> None:
    compiled = uncork.compile_model(running_sum())
    given = X.copy()
    compiled(given, GOOD)["sum"][...] = np.nan
    given[...] = np.nan
    assert compiled(X, GOOD)["sum"].tolist() == [2.5, 4.5]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_every_read_of_a_variable_has_an_initial_value_of_its_own(backend: str) -> None:
    builder = uncork.Builder("reads")
    x = builder.parameter("x", "f32", [2])
    shape = uncork.PartialShape([2])
    for name, value in (("a", 1), ("b", 2)):
        start = builder.constant(np.full(2, value, np.float32))
        (old,) = builder.add(
            "ReadValue", 6, start, variable_id="v", variable_type="f32", variable_shape=shape
        )
        builder.result(builder.add("Add", 1, old, x)[0], name)
    builder.add("Assign", 6, x, variable_id="v")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    for a, b in (([2, 4], [3, 5]), ([2, 6], [2, 6])):  # what was assigned is read by both
        result = compiled(np.array([1, 3], np.float32))
        assert (result["a"].tolist(), result["b"].tolist()) == (a, b)


def test_an_assignment_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    uncork.write_model(running_sum(), tmp_path / "sum.xml")
    path = tmp_path / "sum.xml"
    text = path.read_text(encoding="utf-8")
    first = text.index('variable_id="s"')
    path.write_text(
        text[:first] + 'variable_id="t"' + text[first + len('variable_id="s"') :], encoding="utf-8"
    )
    with pytest.raises(
        uncork.ValidationError, match="assigns to variable 's', which no ReadValue reads"
    ):
        uncork.load(path)


# ---- variables whose type the file leaves open


def remembers(folder: Path, **changed: str) -> Path:
    """y = what x was in the first call: a variable that keeps its first value, as a decoder keeps
    its cross-attention.
    """
    said = {"variable_type": "dynamic", "variable_shape": "...", "precision": "FP32"} | changed
    variable = {
        "variable_id": "v",
        "variable_type": said["variable_type"],
        "variable_shape": said["variable_shape"],
    }
    ports = [port(0, [-1, 2])], [port(1, [-1, 2], said["precision"])]
    layers = [
        parameter(0, [-1, 2]),
        layer(1, "ReadValue", *ports, version="opset6", **variable),
        layer(2, "Assign", *ports, version="opset6", **variable),
        layer(3, "ReLU", *ports),
        result(4, [-1, 2]),
    ]
    return Net(
        layers, [edge("0:0", "1:0"), edge("1:1", "2:0"), edge("1:1", "3:0"), edge("3:1", "4:0")]
    ).save(folder)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    "changed",
    [{}, {"variable_type": "undefined"}, {"precision": "dynamic"}, {"variable_shape": "?,2"}],
    ids=str,
)
def test_a_type_left_open_is_that_of_the_initial_value(
    tmp_path: Path, backend: str, changed: dict[str, str]
) -> None:
    compiled = uncork.load(remembers(tmp_path, **changed), backend=backend)
    assert str(compiled.outputs[0].element_type) == "f32"
    assert compiled.outputs[0].shape.rank == 2
    first = np.array([[1, -2], [3, 4], [5, 6]], np.float32)
    for given in (first, first[:1] * 9, first[:2] * 0):
        np.testing.assert_array_equal(compiled(given)[0], np.maximum(first, 0))
    compiled.reset_state()
    np.testing.assert_array_equal(compiled(first[:1])[0], [[1, 0]])


@pytest.mark.oracle
def test_a_type_left_open_in_openvino(tmp_path: Path, openvino: OpenVino) -> None:
    path = remembers(tmp_path)
    given = np.array([[1, -2], [3, 4], [5, 6]], np.float32)
    np.testing.assert_array_equal(openvino.run(path, [given])[0], uncork.load(path)(given)[0])
    # Written again, the file still leaves it open.
    uncork.write_model(uncork.read_model(path), tmp_path / "again.xml")
    assert 'variable_type="dynamic"' in (tmp_path / "again.xml").read_text(encoding="utf-8")
    np.testing.assert_array_equal(
        openvino.run(tmp_path / "again.xml", [given])[0], np.maximum(given, 0)
    )


def test_a_type_that_nothing_says_is_refused(tmp_path: Path) -> None:
    path = remembers(tmp_path)
    text = (
        path.read_text(encoding="utf-8")
        .replace(edge("0:0", "1:0"), "")
        .replace("<input>" + port(0, [-1, 2]) + "</input>", "", 1)
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        uncork.ValidationError,
        match="variable 'v' has variable_type dynamic and no input 'init_value'",
    ) as caught:
        uncork.load(path)
    assert len(caught.value.problems) == 1


def test_a_variable_that_cannot_be_read_is_one_problem(tmp_path: Path) -> None:
    """Its Assign has a variable, though that is wrong for another reason."""
    with pytest.raises(
        uncork.ValidationError,
        match=r"attribute 'variable_type': expected an element type .*, got 'f99'",
    ) as caught:
        uncork.load(remembers(tmp_path, variable_type="f99"))
    assert len(caught.value.problems) == 1
