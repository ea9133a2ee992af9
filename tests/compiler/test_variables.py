"""`query_state`: variables by their names, read, set and reset, of models and of requests."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork import PartialShape
from uncork.ir.model import Source

Array = np.ndarray[Any, Any]
BACKENDS = pytest.mark.parametrize("backend", ["cpu", "reference"])


def read(
    builder: uncork.Builder,
    name: str,
    shape: list[int | None],
    *initial: Source,
    element_type: str = "f32",
) -> Source:
    (old,) = builder.add(
        "ReadValue",
        6,
        *initial,
        variable_id=name,
        variable_type=element_type,
        variable_shape=PartialShape(shape),
    )
    return old


def rows_and_sum() -> uncork.Model:
    """`rows` grows by x [n, 2], `sum` adds its columns up from 10; the size of `last` is open."""
    builder = uncork.Builder("rows and sum")
    x = builder.parameter("x", "f32", [None, 2])
    none = builder.constant(np.zeros((0, 2), np.float32))
    (whole,) = builder.add("Concat", 1, read(builder, "rows", [None, 2], none), x, axis=0)
    builder.add("Assign", 6, whole, variable_id="rows")
    ten = builder.constant(np.full(2, 10, np.float32))
    (new,) = builder.add("ReduceSum", 1, x, builder.constant(np.array([0])), keep_dims=False)
    (total,) = builder.add("Add", 1, read(builder, "sum", [2], ten), new)
    builder.add("Assign", 6, total, variable_id="sum")
    last = read(builder, "last", [None, 2])
    builder.add("Assign", 6, x, variable_id="last")
    for source, name in ((whole, "whole"), (total, "total"), (last, "before")):
        builder.result(source, name)
    return builder.model()


def rows(*values: float) -> Array:
    return np.array([[value, -value] for value in values], np.float32).reshape(-1, 2)


def by_name(of: Any) -> dict[str, uncork.VariableState]:
    return {variable.name: variable for variable in of.query_state()}


@BACKENDS
def test_what_calls_leave_is_read(backend: Any) -> None:
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    variables = compiled.query_state()
    assert [variable.name for variable in variables] == ["rows", "sum", "last"]
    assert [v.state.tolist() for v in variables] == [[], [10, 10], []]
    assert [v.state.shape for v in variables] == [(0, 2), (2,), (0, 2)]
    compiled(rows(1, 2))
    compiled(rows(3))
    assert [v.state.tolist() for v in variables] == [
        rows(1, 2, 3).tolist(),
        [16, 4],
        rows(3).tolist(),
    ]
    assert repr(variables[0]) == "<VariableState 'rows': f32[?,2]>"


@BACKENDS
def test_what_is_set_is_read_by_the_next_call(backend: Any) -> None:
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    variables = by_name(compiled)
    given = rows(7, 8, 9)
    variables["rows"].state = given
    given[:] = np.nan
    variables["sum"].state = [1, 2]
    result = compiled(rows(1))
    assert result["whole"].tolist() == rows(7, 8, 9, 1).tolist()
    assert result["total"].tolist() == [2, 1]
    compiled(rows(2))
    variables["rows"].state = rows(5)
    assert compiled(rows(6))["whole"].tolist() == rows(5, 6).tolist()


@BACKENDS
def test_a_session_goes_on_from_what_was_kept(backend: Any) -> None:
    """Of every length, and in a request other than that which it was kept of."""
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    request, other = compiled.create_infer_request(), compiled.create_infer_request()
    kept = []
    for number in range(5):
        kept.append({name: variable.state for name, variable in by_name(request).items()})
        request.infer([rows(number)])
    for number in reversed(range(5)):
        for name, variable in by_name(other).items():
            variable.state = kept[number][name]
        result = other.infer([rows(100)])
        assert result["whole"].tolist() == rows(*range(number), 100).tolist()
        assert result["before"].tolist() == (rows(number - 1) if number else rows()).tolist()
    assert by_name(request)["rows"].state.tolist() == rows(0, 1, 2, 3, 4).tolist()
    assert by_name(compiled)["rows"].state.tolist() == []


@BACKENDS
def test_one_variable_is_reset(backend: Any) -> None:
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    compiled(rows(1))
    by_name(compiled)["sum"].reset()
    by_name(compiled)["sum"].reset()
    result = compiled(rows(2))
    assert result["whole"].tolist() == rows(1, 2).tolist()
    assert result["total"].tolist() == [12, 8]
    by_name(compiled)["rows"].reset()
    result = compiled(rows(3))
    assert result["whole"].tolist() == rows(3).tolist()
    assert result["total"].tolist() == [15, 5]


@BACKENDS
def test_what_is_read_is_a_copy(backend: Any) -> None:
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    compiled(rows(1))
    for variable in compiled.query_state():
        variable.state[...] = np.nan
    result = compiled(rows(2))
    assert result["whole"].tolist() == rows(1, 2).tolist()
    assert result["total"].tolist() == [13, 7]


@BACKENDS
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows", np.zeros((2, 3), np.float32), r"expected shape \[\?,2\], got \[2, 3\]"),
        ("rows", np.zeros(2, np.float32), r"expected shape \[\?,2\], got \[2\]"),
        ("sum", np.zeros(3, np.float32), r"expected shape \[2\], got \[3\]"),
        ("sum", np.full(2, 0.1), r"expected f32, got f64\[2\].* convert the array yourself"),
        ("sum", ["a", "b"], "expected f32, got "),
        ("sum", None, "expected an array of f32, got None"),
    ],
)
def test_what_a_variable_cannot_hold(backend: Any, name: str, value: Any, message: str) -> None:
    compiled = uncork.compile_model(rows_and_sum(), backend=backend)
    compiled(rows(1))
    with pytest.raises(uncork.InputError, match=f"variable '{name}': {message}"):
        by_name(compiled)[name].state = value
    result = compiled(rows(2))
    assert result["whole"].tolist() == rows(1, 2).tolist()
    assert result["total"].tolist() == [13, 7]


def two_that_grow() -> uncork.Model:
    """Two lists that grow by the same rows, and their sum, which needs them to be equally long."""
    builder = uncork.Builder("two")
    x = builder.parameter("x", "f32", [None, 2])
    none = builder.constant(np.zeros((0, 2), np.float32))
    grown = []
    for name in ("a", "b"):
        (whole,) = builder.add("Concat", 1, read(builder, name, [None, 2], none), x, axis=0)
        builder.add("Assign", 6, whole, variable_id=name)
        grown.append(whole)
    builder.result(builder.add("Add", 1, *grown)[0], "y")
    return builder.model()


@BACKENDS
def test_values_that_do_not_go_together(backend: Any) -> None:
    """The call is refused, and nothing has changed."""
    compiled = uncork.compile_model(two_that_grow(), backend=backend)
    compiled(rows(1))
    by_name(compiled)["a"].state = rows(1, 2, 3, 4)
    with pytest.raises(uncork.InputError, match=r"layer .*Add"):
        compiled(rows(5))
    assert [v.state.tolist() for v in compiled.query_state()] == [
        rows(1, 2, 3, 4).tolist(),
        rows(1).tolist(),
    ]
    by_name(compiled)["b"].state = rows(4, 3, 2, 1)
    assert compiled(rows(5))["y"].tolist() == rows(5, 5, 5, 5, 10).tolist()


@BACKENDS
def test_an_initial_value_that_is_computed(backend: Any) -> None:
    builder = uncork.Builder("computed")
    x = builder.parameter("x", "f32", [2])
    old = read(builder, "v", [2], builder.add("Add", 1, x, x)[0])
    (new,) = builder.add("Add", 1, old, x)
    builder.add("Assign", 6, new, variable_id="v")
    builder.result(new, "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    (variable,) = compiled.query_state()
    message = "variable 'v': has no value before the first call, which computes its initial value"
    with pytest.raises(uncork.InputError, match=message):
        _ = variable.state
    assert compiled(np.array([1, 2], np.float32))["y"].tolist() == [3, 6]
    assert variable.state.tolist() == [3, 6]
    variable.state = [5, 5]
    assert compiled(np.array([1, 2], np.float32))["y"].tolist() == [6, 7]
    variable.reset()
    with pytest.raises(uncork.InputError, match=message):
        _ = variable.state
    assert compiled(np.array([1, 2], np.float32))["y"].tolist() == [3, 6]


@BACKENDS
def test_a_variable_that_nobody_reads(backend: Any) -> None:
    builder = uncork.Builder("unread")
    x = builder.parameter("x", "i64", [None])
    builder.add("Assign", 6, x, variable_id="v")
    builder.result(x, "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    (variable,) = compiled.query_state()
    with pytest.raises(uncork.InputError, match="variable 'v': has no value before the first call"):
        _ = variable.state
    compiled(np.array([4, 5]))
    assert variable.state.tolist() == [4, 5]


@BACKENDS
def test_a_type_that_numpy_lacks(backend: Any) -> None:
    builder = uncork.Builder("bf16")
    x = builder.parameter("x", "bf16", [2])
    (new,) = builder.add("Add", 1, read(builder, "v", [2], element_type="bf16"), x)
    builder.add("Assign", 6, new, variable_id="v")
    builder.result(new, "y")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    (variable,) = compiled.query_state()
    compiled(np.array([1, 2.5], np.float32))
    assert variable.state.dtype == np.float32 and variable.state.tolist() == [1, 2.5]
    variable.state = np.array([0.5, -3], np.float32)
    assert compiled(np.array([1, 2.5], np.float32))["y"].tolist() == [1.5, -0.5]
    with pytest.raises(uncork.InputError, match=r"variable 'v': expected bf16, .* 0\.1"):
        variable.state = np.array([0.1, 0], np.float32)


def test_no_variables() -> None:
    """One that is never assigned is none: every call reads its initial value."""
    builder = uncork.Builder("constant")
    x = builder.parameter("x", "f32", [2])
    old = read(builder, "v", [2], builder.constant(np.ones(2, np.float32)))
    builder.result(builder.add("Add", 1, old, x)[0], "y")
    assert uncork.compile_model(builder.model()).query_state() == []


def test_a_busy_request_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is held up until somebody has asked."""
    request = uncork.compile_model(rows_and_sum()).create_infer_request()
    asked = threading.Event()
    call = uncork.CompiledModel.__call__

    def held_up(self: uncork.CompiledModel, *inputs: Any, **named: Any) -> Any:
        assert asked.wait(30)
        return call(self, *inputs, **named)

    monkeypatch.setattr(uncork.CompiledModel, "__call__", held_up)
    request.start_async([rows(1)])
    with pytest.raises(uncork.InputError, match="is busy"):
        request.query_state()
    asked.set()
    request.wait()
    assert by_name(request)["rows"].state.tolist() == rows(1).tolist()


def doubled_rows_and_sum() -> uncork.Model:
    """Variables that OpenVINO keeps as well: none of them is an input or a result as it is."""
    builder = uncork.Builder("doubled")
    x = builder.parameter("x", "f32", [None, 2])
    (new,) = builder.add("Multiply", 1, x, builder.constant(np.float32(2)))
    none = builder.constant(np.zeros((0, 2), np.float32))
    (whole,) = builder.add("Concat", 1, read(builder, "rows", [None, 2], none), new, axis=0)
    builder.add("Assign", 6, whole, variable_id="rows")
    ten = builder.constant(np.full(2, 10, np.float32))
    (sums,) = builder.add("ReduceSum", 1, new, builder.constant(np.array([0])), keep_dims=False)
    (total,) = builder.add("Add", 1, read(builder, "sum", [2], ten), sums)
    builder.add("Assign", 6, total, variable_id="sum")
    builder.result(builder.add("Abs", 1, whole)[0], "whole")
    builder.result(builder.add("Abs", 1, total)[0], "total")
    return builder.model()


@pytest.mark.oracle
def test_openvino_has_the_same_variables(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    uncork.write_model(doubled_rows_and_sum(), tmp_path / "model.xml")
    ours = uncork.load(tmp_path / "model.xml").create_infer_request()
    theirs = openvino.Core().compile_model(tmp_path / "model.xml", "CPU").create_infer_request()
    for number in range(4):
        results = ours.infer([rows(number, 1)]), theirs.infer([rows(number, 1)])
        for output, value in enumerate(results[0]):
            np.testing.assert_array_equal(value, results[1][output])
        found, wanted = by_name(ours), {v.name: v for v in theirs.query_state()}
        assert found.keys() == wanted.keys()
        for name, variable in found.items():
            tensor = wanted[name].state  # its array does not keep it
            np.testing.assert_array_equal(variable.state, tensor.data.copy(), name)
        if number == 1:
            found["rows"].state = rows(3, 4, 5)
            wanted["rows"].state = openvino.Tensor(rows(3, 4, 5))
            found["sum"].reset()
            wanted["sum"].reset()
