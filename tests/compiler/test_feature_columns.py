"""Look-ups of sparse matrices of ids (feature columns), as converters and people write them: by
kernels alone, with the results and the refusals of the references.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.compiler._feature_columns import SPELLINGS, combined, spelled
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.errors import UncorkError
from uncork.ir.model import Source

TABLE = np.random.default_rng(4).standard_normal((7, 5)).astype(np.float32)
Details = dict[str, Any]


def layers(b: uncork.Builder, name: str, table: np.ndarray, **other: Any) -> Source:
    """The layers that OpenVINO's TensorFlow frontend writes; `other` changes a detail of them."""
    detail: Details = {
        "ids": "i64", "lengths": [None, None], "filtered": True, "mean": True,
        "bound": 0, "default": 0, "column": 0, "last": -1, "behind": 1, "one": 1, "zero": 0.0,
        "counts": 3, "axis": 0, "repeats": table.shape[1], "like": "mean", "begin_mask": [1, 0],
    }  # fmt: skip
    detail.update(other)

    def constant(value: Any, dtype: str = "i8") -> Source:
        return b.constant(np.array(value, dtype))

    def add(kind: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return b.add(kind, opset, *inputs, **attributes)[0]

    lengths = detail["lengths"]
    values, indices = (
        b.parameter(f"{name}_values", detail["ids"], lengths[:1]),
        b.parameter(f"{name}_indices", "i64", [lengths[1], 2]),
    )
    shape = b.parameter(f"{name}_shape", "i64", [2])
    axis, columns = constant(detail["axis"]), table.shape[1]
    if detail["filtered"]:
        bound = constant([detail["bound"]], "i8" if detail["ids"] == "i64" else "i4")
        condition = add("GreaterEqual", 1, values, bound)
        kept = add(
            "Reshape",
            1,
            add("NonZero", 3, condition, output_type="i64"),
            constant([-1]),
            special_zero=False,
        )
        values, indices = (
            add("Gather", 8, values, kept, axis),
            add("Gather", 8, indices, kept, axis),
        )
    default = constant(detail["default"], "i8" if detail["ids"] == "i64" else "i4")
    places, filled, empty = b.add("SparseFillEmptyRows", 16, values, shape, indices, default)
    unique = b.add("Unique", 10, filled, sorted=False, index_element_type="i32")
    looked_up = add("Gather", 8, b.constant(table), unique[0], axis)
    inverse = add("Convert", 1, unique[2], destination_type="i64")
    rows = add(
        "StridedSlice", 1, places, constant([0, detail["column"]]),
        constant([0, detail["column"] + 1]), constant([1, 1]), begin_mask=detail["begin_mask"],
        end_mask=[1, 0], new_axis_mask=[], shrink_axis_mask=[0, 1], ellipsis_mask=[],
    )  # fmt: skip
    length = add("ShapeOf", 3, rows, output_type="i64")
    last = add("Gather", 8, rows, add("Add", 1, length, constant([detail["last"]])), axis)
    behind = add("Add", 1, last, constant([detail["behind"]]))
    result = sums = add(
        "EmbeddingSegmentsSum",
        3,
        looked_up,
        inverse,
        rows,
        add("Squeeze", 1, behind, constant([0])),
    )
    if detail["mean"]:
        rows_there = b.add("Unique", 10, rows, sorted=False)
        ones = add("Broadcast", 3, constant([detail["one"]]), behind)
        counts = add("ScatterUpdate", 3, ones, rows_there[0], rows_there[detail["counts"]], axis)
        column = add("ScatterUpdate", 3, constant([1, 1]), constant([0]), behind, constant(0))
        result = add(
            "Divide",
            1,
            sums,
            add("Reshape", 1, add("ConvertLike", 1, counts, looked_up), column, special_zero=False),
        )
    shape_of = add(
        "ShapeOf",
        3,
        {"mean": result, "sums": sums, "table": looked_up}[detail["like"]],
        output_type="i32",
    )
    repeats = add("Concat", 1, constant([1], "i4"), constant([detail["repeats"]], "i4"), axis=0)
    tiled = add("Tile", 1, add("Reshape", 1, empty, constant([-1, 1]), special_zero=False), repeats)
    flags = add(
        "Squeeze",
        1,
        add("Reshape", 1, tiled, constant([1, -1, columns]), special_zero=False),
        constant([0]),
    )
    flags = add("NotEqual", 1, add("Convert", 1, flags, destination_type="i32"), constant(0, "i4"))
    target = add("Concat", 1, constant([1], "i4"), shape_of, axis=0)
    zeros = add(
        "Squeeze", 1, add("Broadcast", 3, constant(detail["zero"], "f4"), target), constant([0])
    )
    return add("Select", 1, flags, zeros, result)


def model(**detail: Any) -> uncork.Model:
    builder = uncork.Builder("feature")
    builder.result(layers(builder, "x", TABLE, **detail), "y")
    return builder.model()


def sorts(compiled: CompiledModel) -> int:
    """Layers that find equal numbers."""
    return sum("Unique" in step.operation for step in compiled.plan.steps)


def by_hand(
    values: np.ndarray, indices: np.ndarray, rows: int, mean: bool, table: np.ndarray = TABLE
) -> np.ndarray:
    result = np.zeros((rows, table.shape[1]))
    for row in range(rows):
        ids = [int(v) for v, (r, _) in zip(values, indices, strict=True) if r == row and v >= 0]
        for id_ in ids:
            if id_ < len(table):
                result[row] += table[id_]
        if ids and mean:
            result[row] /= len(ids)
    return result


Entries = tuple[np.ndarray, np.ndarray, np.ndarray]


def entries(rows: list[list[int]], width: int = 9) -> Entries:
    """Ids of each row, as values, indices and shape."""
    values = np.array([id_ for row in rows for id_ in row], np.int64)
    indices = np.array(
        [(r, c) for r, row in enumerate(rows) for c in range(len(row))], np.int64
    ).reshape(-1, 2)
    return values, indices, np.array([len(rows), width])


def outcome(compiled: CompiledModel, given_: Entries) -> Any:
    """The result, rounded, or what is refused."""
    try:
        return np.round(compiled(*given_)["y"], 4).tolist()
    except UncorkError as error:
        return str(error)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("columns", [1, 4, 15, 16, 17, 40, 130, 200])
def test_widths(columns: int, filtered: bool, mean: bool) -> None:
    table = np.random.default_rng(columns).standard_normal((7, columns)).astype(np.float32)
    builder = uncork.Builder("widths")
    builder.result(layers(builder, "x", table, filtered=filtered, mean=mean), "y")
    compiled = compile_model(builder.model())
    given = entries([[1, 2, 6, 1], [], [5], [0, 0, 3], []])
    for _ in range(3):
        got = compiled(*given)["y"]
        np.testing.assert_allclose(
            got, by_hand(given[0], given[1], 5, mean, table), rtol=1e-6, atol=1e-6
        )
    assert not any(step.kernel == "reference" for step in compiled.plan.steps)
    assert not sorts(compiled)


@pytest.mark.parametrize("ids", ["i64", "i32"])
def test_random_against_the_layers(ids: str) -> None:
    """Also entries in any order, at the same place, with ids outside of the table, and more rows
    than are filled.
    """
    built = model(ids=ids)
    fast, slow = compile_model(built), compile_model(built, backend="reference")

    @settings(max_examples=150, deadline=None)
    @given(
        rows=st.lists(st.lists(st.integers(-2, 7), max_size=4), min_size=1, max_size=6),
        order=st.sampled_from(["", "", "reverse", "twice"]),
        out=st.sampled_from([None, None, (0, 9), (9, 0), (-1, 0), (0, -1)]),
    )
    def run(rows: list[list[int]], order: str, out: tuple[int, int] | None) -> None:
        values, indices, shape = entries(rows)
        if order == "reverse":
            values, indices = values[::-1].copy(), indices[::-1].copy()
        elif order == "twice":
            indices[:, 1] = 0
        if out is not None and len(indices):
            indices[-1] = out
        given_ = [values.astype({"i64": np.int64, "i32": np.int32}[ids]), indices, shape]
        assert outcome(fast, given_) == outcome(slow, given_)

    run()


def test_no_rows_and_no_entries() -> None:
    built = model()
    fast, slow = compile_model(built), compile_model(built, backend="reference")
    for rows in ([], [[]], [[], [], []]):
        given_ = entries(rows)
        np.testing.assert_array_equal(fast(*given_)["y"], slow(*given_)["y"])


def test_calls_with_other_rows_take_turns() -> None:
    """Whoever came before, the results are those of the call."""
    compiled = compile_model(model())
    generator = np.random.default_rng(0)
    given_ = [
        entries([generator.integers(0, 7, generator.integers(0, 4)).tolist() for _ in range(n)])
        for n in (3, 1, 8, 3, 5)
    ]
    for _ in range(3):
        for values, indices, shape in given_:
            got = compiled(values, indices, shape)["y"]
            np.testing.assert_allclose(
                got, by_hand(values, indices, int(shape[0]), True), rtol=1e-6, atol=1e-6
            )
    # for every number of rows, and of entries; and where there may be no entry
    assert compiled.plan.made == 2


def test_a_width_that_differs_needs_no_other_program() -> None:
    compiled = compile_model(model())
    for width in (4, 5, 70):
        compiled(*entries([[1], [2, 3]], width))
    assert compiled.plan.made == 1


def test_one_plan_for_many_numbers_of_rows() -> None:
    compiled = compile_model(model())
    for rows in range(1, 30):
        values, indices, shape = entries([[1, 2]] * rows)
        np.testing.assert_allclose(
            compiled(values, indices, shape)["y"], by_hand(values, indices, rows, True), rtol=1e-6
        )
    assert compiled.plan.made == 1


def test_bound_calls_and_lengths_that_differ() -> None:
    compiled = compile_model(model())
    values, indices, shape = entries([[1, 2], [3]])
    call = compiled.bind(values, indices, shape)
    for id_ in (4, 5):
        values[0] = id_
        np.testing.assert_allclose(call()[0], by_hand(values, indices, 2, True), rtol=1e-6)
    shape[0] = 1  # the second row lies outside now
    with pytest.raises(UncorkError, match="an index within dense_shape"):
        call()


@pytest.mark.parametrize(("values", "indices"), [(3, 2), (2, 3)])
@pytest.mark.parametrize(("filtered", "static"), [(True, True), (True, False), (False, False)])
def test_more_indices_than_values_or_fewer(
    values: int, indices: int, filtered: bool, static: bool
) -> None:
    """The layers look at as many indices as there are values that are kept; where none is left out
    they refuse.
    """
    built = model(filtered=filtered, lengths=[values, indices] if static else [None, None])
    rows = entries([[1, 2], [3]])
    given_ = (rows[0][:values], rows[1][:indices], rows[2])
    assert outcome(compile_model(built), given_) == outcome(
        compile_model(built, backend="reference"), given_
    )


def test_two_features_of_one_model() -> None:
    builder = uncork.Builder("two")
    tables = {
        name: np.random.default_rng(i).standard_normal((9, 3)).astype(np.float32)
        for i, name in enumerate("ab")
    }
    found = [layers(builder, name, table) for name, table in tables.items()]
    builder.result(builder.add("Concat", 1, *found, axis=1)[0], "y")
    compiled = compile_model(builder.model())
    a, b = entries([[1], [8, 2], []]), entries([[4, 4, 4], [], [0]])
    expected = np.concatenate(
        [by_hand(a[0], a[1], 3, True, tables["a"]), by_hand(b[0], b[1], 3, True, tables["b"])], 1
    )
    for _ in range(2):
        np.testing.assert_allclose(compiled(*a, *b)["y"], expected, rtol=1e-6)
    assert compiled.plan.made


@pytest.mark.parametrize(
    "detail",
    [
        {"bound": 1},
        {"default": 7},  # outside of the table
        {"column": 1},
        {"last": -2},
        {"behind": 2},
        {"one": 2},
        {"zero": 1.0},
        {"zero": -0.0},
        {"counts": 1},
        {"counts": 2},
        {"like": "table"},
        {"begin_mask": [0, 0]},
    ],
    ids=str,
)
def test_layers_that_differ_in_a_detail(detail: Details) -> None:
    """They are computed as they are written: the references say the same, or refuse the same."""
    built = model(**detail)
    fast, slow = compile_model(built), compile_model(built, backend="reference")
    for rows in ([[1, 2], [3, 6, 6], [0]], [[], [4, -1, 0], [5, 5, 5, 5]]):
        assert outcome(fast, entries(rows)) == outcome(slow, entries(rows))


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize("columns", [1, 5, 24])
def test_spellings(name: str, columns: int) -> None:
    spelling, generator = SPELLINGS[name], np.random.default_rng(columns)
    table = generator.standard_normal((11, columns)).astype(np.float32)
    compiled = compile_model(spelled(name, table))
    for rows in (4, 1, 30, 4, 9):
        ids = [generator.integers(-1, 11, generator.integers(0, 5)).tolist() for _ in range(rows)]
        values, indices, shape = entries([*ids[:-1], [3, 3, 10]])
        weights = generator.standard_normal(len(values)).astype(np.float32)
        given = [values, indices, shape, *([weights] if spelling.weighted else [])]
        np.testing.assert_allclose(
            compiled(*given)["y"],
            combined(spelling, table, values, indices, rows, weights),
            rtol=2e-6,
            atol=2e-6,
        )
    assert not any(step.kernel == "reference" for step in compiled.plan.steps)
    assert not sorts(compiled), "nobody has to know which ids are equal"
    assert compiled.plan.made == 1, "one plan for all of these"


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_refuse_as_the_references_do(name: str) -> None:
    """Ids outside of the table, and rows outside of the matrix."""
    spelling = SPELLINGS[name]
    built = spelled(name, TABLE)
    fast, slow = compile_model(built), compile_model(built, backend="reference")
    good = entries([[1, 2], [0]])
    for place, wrong in ((0, 7), (0, -8), (1, 2)):
        given = [array.copy() for array in good]
        given[place].reshape(-1)[1 if place == 0 else -2] = wrong
        given += [np.ones(3, np.float32)] if spelling.weighted else []
        assert outcome(fast, given) == outcome(slow, given)
    given = [*good, *([np.ones(3, np.float32)] if spelling.weighted else [])]
    assert outcome(fast, given) == outcome(slow, given), "it is usable as before"
