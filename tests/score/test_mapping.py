"""The mapping language and what is checked before a row is read."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import uncork
from uncork.compiler.arguments import ModelPort
from uncork.errors import InputError
from uncork.score.expression import Expression, parse
from uncork.score.mapping import BoundInput, Mapping, bind, read_toml
from uncork.types import ElementType, PartialShape


def ports(**texts: str) -> list[ModelPort]:
    return [
        ModelPort(
            (name,),
            ElementType.parse(text.partition("[")[0]),
            PartialShape.parse(text.partition("[")[2].rstrip("]")),
        )
        for name, text in texts.items()
    ]


SCHEMA = pa.schema(
    {
        "items": pa.list_(pa.int64()),
        "age": pa.int32(),
        "price": pa.float64(),
        "day": pa.date32(),
        "triple": pa.list_(pa.float32(), 3),
        "word": pa.string(),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age", Expression("column", ("age",))),
        ("  user age ", Expression("column", ("user age",))),
        ('"a,b(c)="', Expression("column", ("a,b(c)=",))),
        ("column(age, fill=3)", Expression("column", ("age",), fill=3)),
        ("values(items,fill=empty)", Expression("values", ("items",), fill_empty=True)),
        ("padded(items, 50)", Expression("padded", ("items",), 50)),
        (
            "padded( items , 50 , side = left, keep=first, pad=-1)",
            Expression("padded", ("items",), 50, "left", "first", -1),
        ),
        ("length(items, 50)", Expression("length", ("items",), 50)),
        ('stack(a, "b, c", round=true)', Expression("stack", ("a", "b, c"), rounded=True)),
        ("rows()", Expression("rows")),
        ("0.5", Expression("constant", constant="0.5")),
        ("[[1, 2]]", Expression("constant", constant="[[1, 2]]")),
        ("true", Expression("constant", constant="true")),
        ('constant("a")', Expression("constant", constant='"a"')),
    ],
)
def test_parse(text: str, expected: Expression) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@given(
    st.text(min_size=1),
    st.sampled_from(["column", "values", "padded"]),
    st.sampled_from([None, 0, -2.5, "", "empty", True]),
)
def test_what_is_printed_reads_the_same(
    name: str, function: str, fill: int | float | str | None
) -> None:
    expression = Expression(function, (name,), 7 if function == "padded" else None, fill=fill)
    assert parse(str(expression)) == expression


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the name of a column"),
        ("valeus(items)", "there is no function 'valeus'; did you mean 'values'?"),
        ("values()", "values() takes 1 column, got 0 arguments"),
        ("values(a, b)", "values() takes 1 column, got 2 arguments"),
        ("padded(a)", "padded() needs a number of values, such as padded(items, 50)"),
        ("padded(a, b)", "expected a number of values from 1 to 100000000, got 'b'"),
        ("padded(a, 0)", "expected a number of values from 1 to 100000000, got '0'"),
        ("padded(a, 5, side=up)", "side: expected left or right, got 'up'"),
        ("padded(a, 5, sied=left)", "padded() has no option 'sied'; did you mean 'side'?"),
        ("padded(a, 5, pad=x)", "pad: expected a number, true, false or a text in quotes, got 'x'"),
        ("padded(a, 5, pad=1, pad=2)", "'pad' is given twice"),
        ("rows(a)", "rows() takes nothing, got 1 arguments"),
        ("constant(a)", "expected a constant in JSON"),
        ("values(items", "one that is not a plain word in double quotes, got values(items"),
    ],
)
def test_parse_refusals(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        parse(text, "input 'x'")
    assert str(caught.value).startswith("input 'x': ")
    assert str(caught.value).endswith(f", in '{text}'")


def test_equal_names_map_by_default_and_positions_are_names() -> None:
    mapping = bind(
        ports(age="i64[?]", x="f32[?,3]", n="i64[]"), SCHEMA, {"x": "triple", "2": "rows()"}
    )
    assert mapping.to_text() == {"age": "age", "x": "triple", "n": "rows()"}
    assert mapping.columns == ("age", "triple")
    assert mapping.batch is None


@pytest.mark.parametrize(
    ("port", "text", "message"),
    [
        (
            "i64[?]",
            "itmes",
            "there is no column 'itmes'; did you mean 'items'?; columns: items, age, price",
        ),
        (
            "i64[?]",
            "items",
            "column 'items' has lists of any length (list<element: int64>), and the input is x "
            "i64[?]; see values(items), offsets(items)",
        ),
        ("i64[?,?]", "age", "expected shape [?,?], and age gives [rows]"),
        (
            "i64[?,4]",
            "padded(items, 5)",
            "expected shape [?,4], and padded(items, 5) gives [rows,5]",
        ),
        ("i64[?,1]", "values(items)", "expected shape [?,1], and values(items) gives [values]"),
        (
            "i64[?,3]",
            "padded(age, 3)",
            "padded() needs a column of lists, and column 'age' has int32",
        ),
        (
            "i64[?]",
            "price",
            "expected i64, and column 'price' has double; ids and counts are never rounded: "
            "convert the column itself",
        ),
        ("f32[?]", "word", "expected f32, and column 'word' has string"),
        ("string[?]", "age", "expected string, and column 'age' has int32"),
        ("i64[?]", "day", "column 'day' has date32[day], which is no input's type"),
        ("f32[?]", "offsets(items)", "expected f32, and offsets(items) gives whole numbers"),
        ("i64[?]", "column(age, round=true)", "round=true is for floats, and the input is i64"),
        (
            "f32[?,2]",
            "stack(age, items)",
            "stack() takes columns of single values, and column 'items' has list",
        ),
        ("f32[?,2]", "triple", "expected shape [?,2], and triple gives [rows,3]"),
        ("i64[?]", "0.5", "expected i64, got f64[]; ids and counts are never rounded"),
        ("f32[?,2]", "[1, 2, 3]", "expected shape [2], got [3]"),
    ],
)
def test_what_does_not_fit_is_refused(port: str, text: str, message: str) -> None:
    with pytest.raises(
        InputError, match=re.escape(message).replace("element:\\ ", r"(element|item):\ ")
    ):
        bind(ports(x=port), SCHEMA, {"x": text})


def test_every_problem_is_in_one_error() -> None:
    with pytest.raises(InputError) as caught:
        bind(
            ports(a="i64[?]", b="i64[?]", c="f32[?]"),
            SCHEMA,
            {"aa": "age", "b": "price", "a": "age"},
        )
    assert [str(problem) for problem in caught.value.problems] == [
        "no input is called 'aa'; did you mean 'a'?; inputs: a i64[?], b i64[?], c f32[?]",
        "input 'b': expected i64, and column 'price' has double; ids and counts are never "
        "rounded: convert the column itself",
        "input 'c': f32[?] is not mapped, and no column has its name; columns: items, age, "
        "price, day, triple, word",
    ]


def test_one_mistake_is_one_problem() -> None:
    """An input that was meant by a name that is none is not said to lack its column, too."""
    for wrong in ({"aeg": "age"}, {"itmes": "padded(items, 2)"}):
        with pytest.raises(InputError) as caught:
            bind(ports(age="f32[?]", items="i64[?,2]"), SCHEMA, {"age": "price", **wrong})
        (problem,) = caught.value.problems
        assert problem.message.startswith(f"no input is called '{next(iter(wrong))}'; did you mean")


def test_an_expression_that_is_none_is_one_problem() -> None:
    with pytest.raises(InputError) as caught:
        bind(ports(items="i64[?,2]"), SCHEMA, {"items": "paded(items, 2)"})
    (problem,) = caught.value.problems
    assert problem.message.startswith("there is no function 'paded'; did you mean 'padded'")


def test_inputs_by_position() -> None:
    assert bind(ports(x="f32[?,3]"), SCHEMA, {0: "triple"}).columns == ("triple",)
    with pytest.raises(InputError, match="inputs: expected a name or a position, got None"):
        bind(ports(x="f32[?,3]"), SCHEMA, {None: "triple"})


def test_fixed_numbers_of_rows() -> None:
    assert bind(ports(a="i64[8]", b="f32[8,3]"), SCHEMA, {"a": "age", "b": "triple"}).batch == 8
    with pytest.raises(
        InputError, match=re.escape("the inputs fix different numbers of rows: 8 ('a'), 4 ('b')")
    ):
        bind(ports(a="i64[8]", b="f32[4,3]"), SCHEMA, {"a": "age", "b": "triple"})


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(
        'keep = ["user"]\ntop_k = 5\n[inputs]\na = "padded(items, 50)"\nn = 3\nv = [1, 2]\n'
        '[outputs]\nscores = "0"\n'
    )
    assert read_toml(path) == {
        "keep": ["user"],
        "top_k": 5,
        "inputs": {"a": "padded(items, 50)", "n": 3, "v": [1, 2]},
        "outputs": {"scores": "0"},
    }
    for text, message in [
        (
            "[input]\n",
            "has no meaning for 'input'; did you mean 'inputs'?; known: inputs, outputs, keep, "
            "top_k",
        ),
        ("keep = 3\n", "'keep': expected a list, got 3"),
        ("keep = \n", "is not TOML: "),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=re.escape(message)):
            read_toml(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("lengths", "value", "advice"),
    [
        (
            "length(items)",
            25,
            "; write length(items, 20), as padded(items, 20, side=left) keeps no more",
        ),
        ("length(items)", 20, ""),
        ("length(items, 30)", 25, ""),
        ("length(other)", 25, ""),
    ],
)
def test_a_length_that_padded_cuts(lengths: str, value: int, advice: str) -> None:
    texts = {"items": "padded(items, 20, side=left)", "lengths": lengths}
    inputs = tuple(
        BoundInput(name, ElementType.i64, PartialShape([None]), parse(text))
        for name, text in texts.items()
    )
    assert Mapping(inputs, None).advice(parse(lengths), value) == advice


def test_the_advice_stands_in_the_message(tmp_path: Path) -> None:
    model = Path(__file__).resolve().parents[2] / "examples" / "session_recommender" / "model.xml"
    table = pa.table({"items": pa.array([[1, 2], [3] * 25])})
    mapping = {"items": "padded(items, 20)", "lengths": "length(items)"}
    message = (
        r"row 1, .*expected 0 to 20.*; write length\(items, 20\), as padded\(items, 20\) keeps"
    )
    with pytest.raises(uncork.UncorkError, match=message):
        uncork.score(model, table, inputs=mapping)
