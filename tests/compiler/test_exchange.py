"""`CompiledModel.exchange`: tables, rows and whole models exchanged while threads call."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork import Builder, InputError, PartialShape

ROWS, WIDTH = 3000, 16


def filled(value: float) -> np.ndarray:
    return np.full((ROWS, WIDTH), value, np.float32)


def two_tables(first: float = 0, second: float = 0, name: str = "rows") -> uncork.Model:
    """A model that looks the same ids up in two tables, and multiplies one by a matrix."""
    builder = Builder("two")
    ids = builder.parameter("ids", "i64", [None])
    axis = builder.constant(np.int64(0))
    (a,) = builder.add("Gather", 8, builder.constant(filled(first), name="a"), ids, axis)
    (b,) = builder.add("Gather", 8, builder.constant(filled(second), name="b"), ids, axis)
    matrix = builder.constant(np.eye(WIDTH, dtype=np.float32), name="matrix")
    builder.result(builder.add("MatMul", 1, a, matrix)[0], name)
    builder.result(b, "others")
    return builder.model()


def counter(step: float, start: float = 0) -> uncork.Model:
    """A model whose variable grows by its input times `step`."""
    builder = Builder("counter")
    x = builder.parameter("x", "f32", [1])
    before = builder.add(
        "ReadValue",
        6,
        builder.constant(np.full(1, start, np.float32), name="start"),
        variable_id="total",
        variable_type="f32",
        variable_shape=PartialShape([1]),
    )[0]
    (more,) = builder.add("Multiply", 1, x, builder.constant(np.float32([step]), name="step"))
    (total,) = builder.add("Add", 1, before, more)
    builder.add("Assign", 6, total, variable_id="total")
    builder.result(total, "total")
    return builder.model()


IDS = np.array([0, 7, ROWS - 1])
ONE = np.ones(1, np.float32)


@pytest.fixture(params=["cpu", "reference"])
def compiled(request: pytest.FixtureRequest) -> uncork.CompiledModel:
    return uncork.compile_model(two_tables(1, 2), backend=request.param)


def test_a_whole_table(compiled: uncork.CompiledModel) -> None:
    table = filled(5)
    compiled(IDS)
    compiled.exchange(tables={"a": table})
    table[:] = 9  # which is the caller's
    for _ in range(2):
        result = compiled(IDS)
        assert (result["rows"] == 5).all() and (result["others"] == 2).all()


def test_rows_of_tables(compiled: uncork.CompiledModel) -> None:
    old = compiled.model
    rows = np.arange(2 * WIDTH, dtype=np.float32).reshape(2, WIDTH)
    compiled.exchange(
        tables={
            "a": {"rows": [7, 3], "values": rows},
            "b": {"rows": np.array([], np.int64), "values": np.empty((0, WIDTH), np.float32)},
        }
    )
    result = compiled(IDS)
    np.testing.assert_array_equal(result["rows"], [[1] * WIDTH, rows[0], [1] * WIDTH])
    assert (compiled([3])["rows"] == rows[1]).all() and (result["others"] == 2).all()
    assert (uncork.compile_model(old)(IDS)["rows"] == 1).all()  # that one is as it was


def test_rows_are_given_to_load_and_from_files(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", filled(4)[:1])
    given = {"rows": [7], "values": tmp_path / "rows.npy"}
    compiled = uncork.compile_model(two_tables(), tables={"a": given})
    assert compiled(IDS)["rows"][:, 0].tolist() == [0, 4, 0]


def test_the_whole_model(compiled: uncork.CompiledModel) -> None:
    request = compiled.new_request()
    compiled.exchange(uncork.compile_model(two_tables(8, 9)))
    assert (request(IDS)["rows"] == 8).all() and (compiled(IDS)["others"] == 9).all()
    compiled.exchange(uncork.compile_model(two_tables(3, 4)), tables={"b": filled(6)})
    assert (request(IDS)["rows"] == 3).all() and (compiled(IDS)["others"] == 6).all()


def test_requests_and_queues_change_too(compiled: uncork.CompiledModel) -> None:
    request, queue = compiled.create_infer_request(), uncork.AsyncInferQueue(compiled, 2)
    found: list[float] = []
    queue.set_callback(lambda request, _: found.append(request.results["rows"][0, 0]))
    request.infer([IDS])
    compiled.exchange(tables={"a": filled(6)})
    for _ in range(4):
        queue.start_async([IDS])
    queue.wait_all()
    assert found == [6] * 4 and (request.infer([IDS])["rows"] == 6).all()


def test_a_bound_call_goes_on(compiled: uncork.CompiledModel) -> None:
    rows, others = np.empty((2, 3, WIDTH), np.float32)
    bound = compiled.bind(IDS, outputs=[rows, others])
    free = compiled.bind(IDS)
    bound()
    compiled.exchange(tables={"a": filled(6)})
    assert bound()[0] is rows and (rows == 6).all() and (others == 2).all()
    assert (free()["rows"] == 6).all()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_variables_keep_their_values(backend: str) -> None:
    compiled = uncork.compile_model(counter(1), backend=backend)
    request = compiled.new_request()
    compiled(ONE), compiled(ONE), request(ONE)
    variable = compiled.query_state()[0]
    compiled.exchange(tables={"step": np.float32([10]), "start": np.float32([100])})
    assert compiled(ONE)["total"] == [12] and request(ONE)["total"] == [11]
    compiled.reset_state()
    assert variable.state == [100] and compiled(ONE)["total"] == [110]


def test_what_grows_in_place_keeps_its_values() -> None:
    builder = Builder("grows")
    x = builder.parameter("x", "f32", [None, 4])
    before = builder.add(
        "ReadValue",
        6,
        builder.constant(np.zeros((0, 4), np.float32)),
        variable_id="all",
        variable_type="f32",
        variable_shape=PartialShape([None, 4]),
    )[0]
    factor = builder.constant(np.float32([1]), name="factor")
    (all_of_them,) = builder.add("Concat", 1, before, x, axis=0)
    builder.add("Assign", 6, all_of_them, variable_id="all")
    builder.result(builder.add("Multiply", 1, all_of_them, factor)[0], "y")
    compiled = uncork.compile_model(builder.model())
    row = np.ones((1, 4), np.float32)
    compiled(row), compiled(2 * row)
    fork = compiled.fork()
    compiled.exchange(tables={"factor": np.float32([10])})
    assert compiled(3 * row)["y"][:, 0].tolist() == [10, 20, 30]
    assert fork(4 * row)["y"][:, 0].tolist() == [10, 20, 40]


def test_the_old_constants_are_let_go() -> None:
    compiled = uncork.compile_model(two_tables(1, 2))
    compiled(IDS)
    old = compiled.executor
    names = {node.name: node.operation for node in compiled.model.nodes}
    gone = weakref.ref(old)
    matrix = names["matrix"].value
    del old, names
    compiled.exchange(tables={"a": filled(3)})
    kept = {node.name: node.operation for node in compiled.model.nodes}
    assert kept["matrix"].value is matrix  # what stays is not copied
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"a": filled(1)[:5]}, r"layer 'a'.*expected f32\[3000,16\], the array has f32\[5,16\]"),
        ({"nobody": filled(1)}, "no constant or layer is called 'nobody'"),
        ({"a": {"rows": [1]}}, "expected a table, or .'rows': ids, 'values': array., got keys 'ro"),
        (
            {"a": {"rows": [1, 5, 1], "values": filled(1)[:3]}},
            "rows: row 1 is given 2 times",
        ),
        ({"a": {"rows": [-1], "values": filled(1)[:1]}}, "expected numbers from 0 to 2999, got -1"),
        ({"a": {"rows": [3000], "values": filled(1)[:1]}}, "from 0 to 2999, got 3000"),
        ({"a": {"rows": [0.5], "values": filled(1)[:1]}}, r"whole numbers in one dim.*float64\[1"),
        (
            {"a": {"rows": [4, 5], "values": filled(1)[:1]}},
            r"expected f32\[2,16\], the array has f32\[1,16\]",
        ),
        ({"a": {"rows": [4], "values": [1.0] * 16}}, "expected an array, the path of a file"),
        ({"a": 7}, "expected an array, the path of a file"),
        (7, "expected a mapping"),
        ({}, "expected tables="),
    ],
)
def test_what_does_not_fit_changes_nothing(
    compiled: uncork.CompiledModel, tables: dict, message: str
) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        compiled.exchange(tables=tables)
    if tables and isinstance(tables, dict):
        with pytest.raises(InputError, match=f"(?s){message}"):
            compiled.exchange(tables={"b": filled(8), **tables})
    assert (compiled(IDS)["others"] == 2).all()


def test_another_model_must_be_called_alike(compiled: uncork.CompiledModel) -> None:
    with pytest.raises(InputError, match=r"output 'rows'.*as the model in use has, got other"):
        compiled.exchange(uncork.compile_model(two_tables(name="other")))
    with pytest.raises(InputError, match="outputs: expected 2, as the model in use has, got 1"):
        compiled.exchange(uncork.compile_model(counter(1)))
    with pytest.raises(InputError, match=r"expected a compiled model .*, got str"):
        compiled.exchange("model.xml")  # type: ignore[arg-type]
    assert (compiled(IDS)["rows"] == 1).all()


def test_a_table_that_shapes_follow_from_must_keep_them() -> None:
    builder = Builder("shape")
    x = builder.parameter("x", "f32", [6])
    sizes = builder.constant(np.array([2, 3]), name="sizes")
    builder.result(builder.add("Reshape", 1, x, sizes, special_zero=False)[0], "y")
    compiled = uncork.compile_model(builder.model())
    with pytest.raises(uncork.ValidationError, match=r"output 0.*\[2,3\].*\[3,2\]"):
        compiled.exchange(tables={"sizes": np.array([3, 2])})
    assert compiled(np.zeros(6, np.float32))["y"].shape == (2, 3)


def test_not_in_the_middle_of_the_threads_own_call() -> None:
    compiled = uncork.compile_model(counter(1))
    with compiled._turn.held(), pytest.raises(InputError, match="of this very thread"):
        compiled.exchange(tables={"step": np.float32([10])})
    assert compiled(ONE)["total"] == [1]


def test_threads_see_the_old_or_the_new() -> None:
    """Both tables always hold one number, and numbers only rise for each thread."""
    compiled = uncork.compile_model(two_tables(0, 0), threads=1)
    ids = np.arange(ROWS)[::-1].copy()
    wrong: list[object] = []
    done = threading.Event()
    seen = [0, 0, 0]

    def calls(number: int, calls_of: uncork.CompiledModel) -> None:
        last = 0.0
        try:
            while not done.is_set():
                size = ROWS if number else 1 + int(last) % 5
                result = calls_of(ids[:size])
                values = {*np.unique(result["rows"]), *np.unique(result["others"])}
                if len(values) != 1 or min(values) < last:
                    wrong.append((last, values))
                last = min(values)
                seen[number] += 1
        except BaseException as error:
            wrong.append(error)

    threads = [
        threading.Thread(target=calls, args=(n, compiled if n < 2 else compiled.new_request()))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for step in range(1, 13):
        compiled.exchange(tables={"a": filled(step), "b": filled(step)})
        assert (compiled(IDS)["rows"] == step).all()
    while min(seen) < 3 and not wrong:
        done.wait(0.01)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_exchanges_of_several_threads_all_count() -> None:
    compiled = uncork.compile_model(two_tables())

    def exchanges(row: int) -> Iterator[threading.Thread]:
        table = {"rows": [row], "values": filled(row)[:1]}
        thread = threading.Thread(target=compiled.exchange, kwargs={"tables": {"a": table}})
        thread.start()
        yield thread

    for thread in [thread for row in range(1, 7) for thread in exchanges(row)]:
        thread.join()
    assert compiled(np.arange(8))["rows"][:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
