"""`uncork shrink`: rows as small integers, the layers that are written, the command, and OpenVINO's
answer to the same file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import uncork
from tests._openvino import OpenVino
from uncork import Builder, ElementType, Model, UncorkError, ValidationError
from uncork.cli import main
from uncork.shrink import Shrunk, output_errors, shrink
from uncork.shrink.rows import as_codes, dequantized, quantized

ROWS, COLUMNS = 3000, 12


def test_codes_of_a_row_by_hand() -> None:
    """The range of a row is cut into equal steps: 15 of 1, 255 of 2; the zero point is where 0
    lies.
    """
    codes, zero_point, scale = quantized(
        np.array([[-3.0, 0, 4.4, 12], [0, 1, 2, 15], [5, 6, 7.4, 20]]), 15
    )
    np.testing.assert_array_equal(codes, [[0, 3, 7, 15], [0, 1, 2, 15], [0, 1, 2, 15]])
    np.testing.assert_array_equal(zero_point, [3, 0, -5])
    np.testing.assert_array_equal(scale, [1, 1, 1])
    codes, zero_point, scale = quantized(np.array([[-10.0, 500, 100.9]]), 255)
    assert (codes.tolist(), zero_point.tolist(), scale.tolist()) == ([[0, 255, 55]], [5], [2])


@pytest.mark.parametrize("value", [0.0, -7.25, 1e-30, 3e38])
def test_a_row_of_one_value_is_exact(value: float) -> None:
    row = np.full((1, 5), value, np.float32).astype(np.float64)
    np.testing.assert_array_equal(dequantized(*quantized(row, 15)), row)


@given(
    arrays.arrays(
        np.float32,
        (3, 7),
        elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False),
    ),
    st.sampled_from([15, 255]),
)
def test_half_a_step_at_most(rows: np.ndarray, levels: int) -> None:
    exact = rows.astype(np.float64)
    back = dequantized(*quantized(exact, levels)).astype(np.float64)
    low, high = exact.min(1, keepdims=True), exact.max(1, keepdims=True)
    # f32 arithmetic on the way back adds some units in the last place of the row's largest value.
    assert (
        np.abs(back - exact)
        <= (high - low) / levels * 0.5001 + np.abs(exact).max(1, keepdims=True) * 2e-6 + 1e-37
    ).all()


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (np.nan, ElementType.u8, "row 2, column 1 is nan, expected finite values"),
        (-np.inf, ElementType.u4, "row 2, column 1 is -inf, expected finite values"),
        (
            1e6,
            ElementType.f16,
            "row 2, column 1 is 1e.06, expected a value of f16, -65504 to 65504",
        ),
    ],
)
def test_values_that_cannot_be_stored_are_refused(
    value: float, kind: ElementType, message: str
) -> None:
    table = np.ones((4, 3), np.float32)
    table[2, 1] = value
    with pytest.raises(ValidationError, match=message):
        as_codes(table, ElementType.f32, kind)


def test_blocks_of_rows_do_not_show() -> None:
    """A table of several blocks, with an odd number of 4-bit values in a row."""
    table = np.random.default_rng(0).standard_normal((9001, 301)).astype(np.float32)
    codes = as_codes(table, ElementType.f32, ElementType.u4)
    values = (
        np.stack([codes.codes & 15, codes.codes >> 4], 1)
        .reshape(-1)[: table.size]
        .reshape(table.shape)
    )
    whole, zero_point, scale = quantized(table.astype(np.float64), 15)
    np.testing.assert_array_equal(values, whole)
    error = np.abs(dequantized(whole, zero_point, scale).astype(np.float64) - table)
    assert codes.max_error == error.max() and codes.rms_error == pytest.approx(
        math.sqrt((error**2).mean())
    )


# ---- the model


def model(rows: int = ROWS, columns: int = COLUMNS, stored: str = "f32") -> Model:
    """Bags, segments and Gather on one table, and a small table beside it."""
    generator = np.random.default_rng(2)
    builder = Builder("tables")
    values = generator.standard_normal((rows, columns)).astype(np.float32)
    if stored == "f32":
        table = builder.constant(values, name="users")
    else:
        codes = (
            values.astype(np.float16)
            if stored == "f16"
            else (values.view(np.uint32) >> 16).astype(np.uint16)
        )
        (table,) = builder.add(
            "Convert",
            1,
            builder.constant(codes, stored, name="users"),
            destination_type=ElementType.f32,
        )
    small = builder.constant(generator.standard_normal((10, 3)).astype(np.float32), name="days")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    segments, places = (
        builder.parameter("segments", "i64", [None]),
        builder.parameter("places", "i32", [None, 2]),
    )
    axis = builder.constant(np.int64(0))
    builder.result(
        builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bags")[0], "sums"
    )
    builder.result(
        builder.add(
            "EmbeddingSegmentsSum",
            3,
            table,
            ids,
            segments,
            builder.constant(np.int64(4)),
            name="parts",
        )[0],
        "part_sums",
    )
    builder.result(builder.add("Gather", 8, table, places, axis, name="pick")[0], "rows")
    builder.result(builder.add("Gather", 8, small, places, axis, name="pick_days")[0], "days_out")
    return builder.model()


INPUTS = {
    "ids": np.array([0, 2999, 17, 5, 5, 1000, 2, 77]),
    "offsets": np.array([0, 3, 3, 7]),
    "segments": np.array([0, 0, 1, 1, 1, 3, 3, 3]),
    "places": np.array([[0, 9], [5, 5], [1, 2]], np.int32),
}


def chain_of(shrunk: Shrunk) -> list[tuple[str, str]]:
    """Types and what they give, from the constant of the table on."""
    nodes = [n for n in shrunk.model.nodes if n.name == "users" or n.name.startswith("users/")]
    return [(n.type_name, str(n.outputs[0].spec)) for n in nodes]


@pytest.mark.parametrize(("kind", "element_type"), [("int8", "u8"), ("int4", "u4")])
@pytest.mark.parametrize("stored", ["f32", "f16", "bf16"])
def test_layers_that_are_written(kind: str, element_type: str, stored: str) -> None:
    shrunk = shrink(model(columns=40, stored=stored), kind)
    assert chain_of(shrunk) == [
        ("Const", f"{element_type}[3000,40]"),
        ("Convert", "f32[3000,40]"),
        ("Const", "f32[3000,1]"),
        ("Subtract", "f32[3000,40]"),
        ("Const", "f32[3000,1]"),
        ("Multiply", "f32[3000,40]"),
    ]
    (table,), (skipped,) = shrunk.tables, shrunk.skipped
    bits = 8 if kind == "int8" else 4
    assert (table.name, table.bytes_before) == ("users", 3000 * 40 * (4 if stored == "f32" else 2))
    assert table.bytes_after == 3000 * 40 * bits // 8 + 3000 * 8
    assert str(skipped) == "days f32[10,3]: 10 rows, fewer than 1,024"


def test_f16_is_a_constant_and_a_convert() -> None:
    shrunk = shrink(model(), "f16")
    assert chain_of(shrunk) == [("Const", "f16[3000,12]"), ("Convert", "f32[3000,12]")]
    assert shrunk.tables[0].bytes_after == 3000 * 12 * 2
    (again,) = shrink(shrunk.model, "f16", min_rows=3000).skipped[:1]
    assert again.reason == "would be no smaller as f16"


@pytest.mark.parametrize("kind", ["int8", "int4", "f16"])
def test_outputs_are_those_of_the_stored_values(kind: str, tmp_path: Path) -> None:
    """What the file gives, in memory and read again, against the sums of the values that its codes
    stand for.
    """
    before = model()
    values = next(n for n in before.nodes if n.name == "users").operation.value
    shrunk = shrink(before, kind)
    levels = {"int8": 255, "int4": 15}.get(kind)
    table = (
        values.astype(np.float16).astype(np.float32)
        if levels is None
        else dequantized(*quantized(values.astype(np.float64), levels))
    )
    uncork.write_model(shrunk.model, tmp_path / "small.xml")
    for compiled in (
        uncork.compile_model(shrunk.model),
        uncork.load(tmp_path / "small.xml"),
        uncork.load(tmp_path / "small.xml", backend="reference"),
    ):
        results = compiled(INPUTS)
        np.testing.assert_array_equal(results["rows"], table[INPUTS["places"]])
        ids = INPUTS["ids"]
        expected = [table[ids[:3]].sum(0), np.zeros(COLUMNS), table[ids[3:7]].sum(0), table[ids[7]]]
        np.testing.assert_allclose(results["sums"], expected, rtol=1e-5, atol=1e-6)
    assert len(shrunk.tables) == 1, "three look-ups share one table"


def test_tables_that_stay_and_why() -> None:
    builder = Builder("others")
    generator = np.random.default_rng(0)

    def constant(name: str, shape: tuple[int, ...] = (2000, 8)) -> object:
        return builder.constant(generator.standard_normal(shape).astype(np.float32), name=name)

    ids = builder.parameter("ids", "i64", [3])
    zero, one = builder.constant(np.int64(0)), builder.constant(np.int64(1))
    tied, across, narrow, out, half = (
        constant("tied"),
        constant("across"),
        constant("narrow", (2000, 2)),
        constant("out"),
        None,
    )
    half = builder.constant(generator.standard_normal((2000, 8)).astype(np.float16), name="half")
    for table, axis in ((tied, zero), (across, one), (narrow, zero), (out, zero), (half, zero)):
        builder.result(builder.add("Gather", 8, table, ids, axis, name=f"pick_{table.node}")[0])
    builder.result(
        builder.add(
            "MatMul",
            1,
            builder.parameter("x", "f32", [1, 8]),
            tied,
            transpose_b=True,
            name="scores",
        )[0]
    )
    builder.result(out, "everything")
    shrunk = shrink(builder.model(), "int8")
    assert not shrunk.tables and shrunk.model.nodes == builder.model().nodes
    reasons = {s.name: s.reason for s in shrunk.skipped}
    assert reasons["tied"].startswith("is also read by layer 'scores' (MatMul-1")
    assert reasons["across"].startswith("is not looked up by rows in layer 'pick_")
    assert reasons["narrow"] == "would be no smaller as u8"
    assert reasons["out"].startswith("is also read by layer 'everything/result'")
    assert reasons["half"] == "is looked up as f16: its results would be others"


def test_bad_options_and_values_are_refused() -> None:
    with pytest.raises(ValidationError, match="tables: expected int8, int4, f16, got 'int2'"):
        shrink(model(), "int2")
    with pytest.raises(ValidationError, match="min_rows: expected a number of at least 1, got 0"):
        shrink(model(), "int8", 0)
    builder = Builder("nan")
    table = np.zeros((2000, 20), np.float32)
    table[1999, 3] = np.nan
    ids = builder.parameter("ids", "i64", [1])
    builder.result(
        builder.add(
            "Gather", 8, builder.constant(table, name="users"), ids, builder.constant(np.int64(0))
        )[0]
    )
    with pytest.raises(
        UncorkError, match=r"layer 'users' \(Const-1, id \d\): row 1999, column 3 is nan"
    ):
        shrink(builder.model(), "int8")


def test_errors_of_outputs() -> None:
    nan, inf = np.nan, np.inf
    expected = [
        np.array([1.0, -4]),
        np.array([nan, inf]),
        np.array([nan, 1]),
        np.array([0, 0]),
        np.array(["a"]),
        np.array([1, 2]),
        np.zeros(2),
    ]
    got = [
        np.array([1.5, -4]),
        np.array([nan, inf]),
        np.array([2.0, 1]),
        np.array([0, 1]),
        np.array(["b"]),
        np.array([1, 2]),
        np.zeros(3),
    ]
    errors = output_errors([str(i) for i in range(7)], expected, got)
    assert [(e.max_abs, e.relative) for e in errors] == [
        (0.5, 0.125),
        (0, 0),
        (inf, inf),
        (1, inf),
        (inf, inf),
        (0, 0),
        (inf, inf),
    ]


# ---- the command


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    uncork.write_model(model(), tmp_path / "model.xml")
    np.savez(tmp_path / "inputs.npz", **INPUTS)
    return tmp_path


def written(folder: Path) -> list[str]:
    return sorted(
        p.name for p in folder.iterdir() if p.name not in ("model.xml", "model.bin", "inputs.npz")
    )


def test_command(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "shrink",
                "model.xml",
                "small.xml",
                "--tables",
                "int8",
                "-i",
                "inputs.npz",
                "--max-error",
                "1%",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    before, after = ((file / name).stat().st_size for name in ("model.bin", "small.bin"))
    assert f"weights {before:,} -> {after:,} bytes" in out and "saved small.xml" in out
    assert "left as it is: days f32[10,3]: 10 rows, fewer than 1,024" in out
    assert [line.split()[:4] for line in out.splitlines() if line.startswith("users")] == [
        ["users", "f32", "[3000,", "12]"]
    ]
    assert 0.4 < after / before < 0.5  # 12 codes and 8 bytes of parameters where 48 bytes were


def test_command_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shapes = [
        "--shape",
        "ids=50",
        "--shape",
        "segments=50",
        "--shape",
        "offsets=6",
        "--shape",
        "places=4,2",
    ]
    assert (
        main(
            ["shrink", "model.xml", "small.xml", "--tables", "int4", "--random", *shapes, "--json"]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["saved"]) == ("uncork-shrink-1", "small.xml")
    assert found["bytes_after"] == (file / "small.bin").stat().st_size
    (table,) = found["tables"]
    assert (table["name"], table["from"], table["to"], table["shape"]) == (
        "users",
        "f32",
        "u4",
        [3000, 12],
    )
    assert [s["name"] for s in found["skipped"]] == ["days"]
    inputs = {i["name"]: i for i in found["random_inputs"]}
    assert inputs["ids"]["max"] > 2000, "random ids are spread over the table"
    assert inputs["places"]["max"] <= 9, "but within the smallest table"
    assert (
        inputs["offsets"]["first"] == sorted(inputs["offsets"]["first"])
        and inputs["offsets"]["first"][0] == 0
    )
    assert (
        inputs["segments"]["first"] == sorted(inputs["segments"]["first"])
        and inputs["segments"]["max"] == 3
    )
    errors = {o["name"]: o for o in found["outputs"]}
    assert (
        errors["days_out"]["max_error"] == 0
        and 0 < errors["rows"]["max_error"] <= table["max_error"]
    )


@pytest.mark.parametrize("bound", ["1%", "0.05"])
def test_nothing_is_written_beyond_the_bound(
    file: Path, capsys: pytest.CaptureFixture[str], bound: str
) -> None:
    assert (
        main(
            [
                "shrink",
                "model.xml",
                "small.xml",
                "--tables",
                "int4",
                "-i",
                "inputs.npz",
                "--max-error",
                bound,
            ]
        )
        == 1
    )
    answer = capsys.readouterr()
    assert answer.out == "" and written(file) == []
    assert (
        f"more than --max-error {'1.000%' if bound == '1%' else '0.05'} (3 outputs are beyond "
        "it); nothing was written" in answer.err
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["small.xml"], 2, "the following arguments are required: --tables"),
        (["small.xml", "--tables", "int2"], 2, "expected int8 or int4 or f16, got 'int2'"),
        (
            ["small.onnx", "--tables", "int8"],
            2,
            "expected a file that ends in .xml, got 'small.onnx'",
        ),
        (
            ["small.xml", "--tables", "int8", "--max-error", "much"],
            2,
            "expected a number of at least 0, such as 0.01 or 1%, got 'much'",
        ),
        (
            ["small.xml", "--tables", "int8", "--max-error", "1%"],
            2,
            "--max-error needs outputs to compare",
        ),
        (["small.xml", "--tables", "int8", "--shape", "ids=3"], 2, "--shape is for random inputs"),
        (
            ["small.xml", "--tables", "int8", "--min-rows", "0"],
            2,
            "--min-rows: expected a number of at least 1",
        ),
        (["model.xml", "--tables", "int8"], 1, "would be written over the model"),
        (["no/small.xml", "--tables", "int8"], 1, "there is no such folder"),
        (
            ["small.xml", "--tables", "int8", "--min-rows", "9999"],
            1,
            "users f32[3000,12]: 3,000 rows, fewer than 9,999",
        ),
        (["small.xml", "--tables", "int8", "-i", "ids=[1]"], 1, "3 of 4 inputs missing"),
        (["small.xml", "--tables", "int8", "--random"], 1, "--shape 'ids=N'"),
    ],
)
def test_refusals(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, message: str
) -> None:
    assert main(["shrink", "model.xml", *words]) == status
    answer = capsys.readouterr()
    assert answer.out == "" and message in answer.err and written(file) == []


def test_a_model_without_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder("none")
    builder.result(builder.parameter("x", "f32", [2]), "y")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    assert (
        main(
            ["shrink", str(tmp_path / "model.xml"), str(tmp_path / "small.xml"), "--tables", "int8"]
        )
        == 1
    )
    assert (
        "no table to store smaller; nothing was written: no constant of floats is looked up by rows"
        in capsys.readouterr().err
    )


# ---- OpenVINO


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["int8", "int4", "f16"])
@pytest.mark.parametrize("columns", [12, 13, 64])
def test_openvino_runs_the_file(
    kind: str, columns: int, openvino: OpenVino, tmp_path: Path
) -> None:
    shrunk = shrink(model(columns=columns), kind, min_rows=5)
    uncork.write_model(shrunk.model, tmp_path / "small.xml")
    arrays_in_order = [INPUTS[name] for name in ("ids", "offsets", "segments", "places")]
    expected = openvino.run(tmp_path / "small.xml", arrays_in_order)
    for got, wanted in zip(
        uncork.load(tmp_path / "small.xml")(*arrays_in_order), expected, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
