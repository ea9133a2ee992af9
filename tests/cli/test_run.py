"""`uncork run`: every kind of input, random ones, the summary, its JSON, and output files whole or
not at all.
"""

from __future__ import annotations

import errno
import math
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.cli._summary import summarise
from uncork.compiler.arguments import ModelPort, unique_names
from uncork.ir.ports import find_input
from uncork.types import ElementType, PartialShape

from .conftest import Command

Same = Callable[..., str]
IDS = np.array([[0, 1], [2, -1]])


# ---- inputs


def test_summary(command: Command, rows: Path):
    answer = command("run", "rows.xml", "-i", "ids=[[0,1],[2,-1]]", "--summary")
    assert (answer.status, answer.err) == (0, "")
    assert (
        answer.out
        == """\
output  type    shape    min   mean   max  first values
rows    f32     [2,2,3]    0  1.375  2.75  0, 0.25, 0.5, 0.75, 1, 1.25, ...
text    string  [2,2]                      "zero", "één", "twee", ""
"""
    )


@pytest.mark.parametrize(
    "words",
    [
        ["-i", "ids=ids.npy"],
        ["--input", "ids=ids.npy"],
        ["--input=ids=ids.npy"],
        ["-iids=ids.npy"],
        ["-i", "0=ids.npy"],
        ["-i", "ids.npy"],
        ["-i", "ids.npz"],
        ["-i", "ids=ids.npz"],
        ["-i", "ids=ids.npz:ids"],
        ["-i", "ids=several.npz:run0/0"],
        ["-i", "lr=0.1/ids.npz"],
        ["-i", "ids=lr=0.1/ids.npz:ids"],
        ["-i", "ids=./3"],
        ["-i", "ids=[[0, 1], [2, -1]]"],
    ],
)
def test_kinds_of_input(command: Command, rows: Path, tmp_path: Path, words: list[str]):
    (tmp_path / "lr=0.1").mkdir()
    np.save(tmp_path / "ids.npy", IDS)
    (tmp_path / "ids.npy").with_name("3").write_bytes((tmp_path / "ids.npy").read_bytes())
    np.savez(tmp_path / "ids.npz", ids=IDS)
    np.savez(tmp_path / "lr=0.1" / "ids.npz", ids=IDS)
    np.savez(tmp_path / "several.npz", **{"run0/0": IDS, "other": IDS[:1]})
    answer = command("run", "rows.xml", *words, "--json")
    assert (answer.status, answer.err) == (0, "")
    assert answer.json["outputs"][1]["first"] == ["zero", "één", "twee", ""]


def test_mixed_inputs(command: Command, same: Same, tmp_path: Path):
    np.savez(tmp_path / "some.npz", a=np.float32([1]), b=np.float32([2]))
    np.save(tmp_path / "c.npy", np.float32([3]))
    model = same(a="f32[1]", b="f32[1]", c="f32[1]", d="f32[1]")
    answer = command("run", model, "-i", "some.npz", "-i", "c=c.npy", "-i", "d=[4]", "--json")
    assert [output["first"] for output in answer.json["outputs"]] == [[1.0], [2.0], [3.0], [4.0]]


@pytest.mark.parametrize(
    ("port", "text", "first"),
    [
        ("f32[]", "0.1", [float(np.float32(0.1))]),
        ("f32[2]", "[1, 2]", [1.0, 2.0]),
        ("f64[1]", "[0.1]", [0.1]),
        ("f32[3]", "[NaN, Infinity, -Infinity]", ["NaN", "Infinity", "-Infinity"]),
        ("bf16[1]", "[1.5]", [1.5]),
        ("i64[]", "-9223372036854775808", [-(2**63)]),
        ("u64[1]", "[18446744073709551615]", [2**64 - 1]),
        ("boolean[2]", "[true, false]", [True, False]),
        ("boolean[]", "true", [True]),
        ("string[]", '"é\\u0000e"', ["é\0e"]),
        ("string[1,2]", '[["=", "a=b"]]', ["=", "a=b"]),
        ("i64[0]", "[]", []),
        ("string[0]", "[]", []),
        ("bf16[1,0]", "[[]]", []),
    ],
)
def test_values_on_the_command_line(
    command: Command, same: Same, port: str, text: str, first: list[Any]
):
    answer = command("run", same(x=port), "--json", "-i", f"x={text}")
    assert (answer.status, answer.err) == (0, "")
    assert answer.json["outputs"][0]["first"] == first


@pytest.mark.parametrize(
    ("port", "text", "message"),
    [
        (
            "i64[1]",
            "[1.0]",
            "input 'x': expected i64, got f64[1]; ids and counts are never rounded: convert them "
            "yourself",
        ),
        ("i64[2]", "[1", "input 'x': expected a value in JSON such as [[1,2],[3,4]], got [1: "),
        (
            "i64[2]",
            "[" * 100_000,
            "input 'x': expected a value in JSON such as [[1,2],[3,4]], got [[[",
        ),
        ("i64[2]", "[[1,2],[3]]", "input 'x': expected lists of equal lengths"),
        (
            "i64[2]",
            "null",
            "input 'x': expected a number, a text in quotes, true, false or a list of these",
        ),
        (
            "i64[2]",
            '{"a": 1}',
            "input 'x': expected a number, a text in quotes, true, false or a list of these",
        ),
        ("i64[2]", "", "input 'x': expected a file or a value after '='"),
        ("i64[2]", "[18446744073709551616, 1]", "input 'x': expected i64, got "),
        (
            "u8[1]",
            "[300]",
            "input 'x': expected u8, got i64[1], and 300 at [0] is not a value of u8",
        ),
        ("string[2]", '["a", 1]', "input 'x': expected strings, got int at element 1"),
        ("string[2]", '[["a"], ["b", "c"]]', "input 'x': expected strings, got list at element 0"),
        ("f32[2]", "[1]", "input 'x': expected shape [2], got [1]"),
    ],
)
def test_values_that_do_not_fit(command: Command, same: Same, port: str, text: str, message: str):
    answer = command("run", same(x=port), "-i", f"x={text}")
    assert answer.status == 1
    assert answer.message.startswith(message)


def test_names_with_an_equals_sign(command: Command, same: Same):
    model = same(**{"a": "i64[]", "a=b": "i64[]"})
    answer = command("run", model, "-i", "a=1", "-i", "a=b=2", "--json")
    assert [output["first"] for output in answer.json["outputs"]] == [[1], [2]]


def test_positions_are_for_names_that_nobody_has(command: Command, same: Same):
    answer = command(
        "run", same(**{"1": "i64[]", "x": "i64[]"}), "-i", "1=10", "-i", "x=20", "--json"
    )
    assert [output["first"] for output in answer.json["outputs"]] == [[10], [20]]
    assert find_input([ModelPort((), ElementType.i64, PartialShape([]))], "0") == 0
    assert find_input([ModelPort((), ElementType.i64, PartialShape([]))], "1") is None
    assert find_input([ModelPort((), ElementType.i64, PartialShape([]))], "²") is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            [],
            "2 of 2 inputs missing: ids i64[?], lengths i64[2]; "
            "give each with -i NAME=FILE.npy, all with -i FILE.npz, or random values with --random",
        ),
        (["-i", "ids=[1]"], "1 of 2 inputs missing: lengths i64[2]; give each "),
        (
            ["-i", "lenghts=[1,2]"],
            "no input is called 'lenghts'; did you mean 'lengths'?; inputs: ids i64[?], lengths "
            "i64[2]",
        ),
        (
            ["-i", "a=[1]", "-i", "b=[1]"],
            "2 problems:\n  1. no input is called 'a'; inputs: ids i64[?], lengths i64[2]\n"
            "  2. no input is called 'b'; inputs: ids i64[?], lengths i64[2]",
        ),
        (
            ["-i", "wrong.npz"],
            "no input is called 'idx'; did you mean 'ids'?; inputs: ids i64[?], lengths i64[2]",
        ),
        (
            ["-i", "ids=[1]", "-i", "right.npz"],
            "input 'ids' is given twice: by '-i ids=[1]' and by '-i right.npz'",
        ),
        (
            ["-i", "ids=[1]", "-i", "0=[2]"],
            "input 'ids' is given twice: by '-i ids=[1]' and by '-i 0=[2]'",
        ),
        (
            ["-i", "one.npy"],
            "one.npy: a file of one array has no name for it: write -i NAME=one.npy; inputs: ids "
            "i64[?], lengths i64[2]",
        ),
        (["-i", "none.npz"], f"none.npz: cannot be read: {os.strerror(errno.ENOENT)}"),
        (["-i", "ids=none.npy"], f"none.npy: cannot be read: {os.strerror(errno.ENOENT)}"),
        (
            ["-i", "ids=right.npz:idx"],
            "right.npz: has no array 'idx'; did you mean 'ids'?; arrays: ids, lengths",
        ),
        (
            ["-i", "ids=right.npz"],
            "input 'ids': which of its 2 arrays? Write right.npz:KEY, KEY one of: ids, lengths",
        ),
        (
            ["-i", "ids=empty.npz"],
            "input 'ids': which of its 0 arrays? Write empty.npz:KEY, KEY one of: none",
        ),
        (["-i", "ids=."], ".: is a folder without pictures: .jpg"),
    ],
)
def test_input_errors(command: Command, same: Same, tmp_path: Path, words: list[str], message: str):
    np.savez(tmp_path / "right.npz", ids=np.array([1]), lengths=np.array([1, 2]))
    np.savez(tmp_path / "wrong.npz", idx=np.array([1]), lengths=np.array([1, 2]))
    np.savez(tmp_path / "empty.npz")
    np.save(tmp_path / "one.npy", np.array([1]))
    answer = command("run", same(ids="i64[?]", lengths="i64[2]"), *words)
    assert answer.status == 1
    assert answer.message.startswith(message)


class Bomb:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("exploded", "w"))


def test_few_bytes_that_would_fill_the_memory_are_refused(
    command: Command, same: Same, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(1 << 20, np.float32))
    model = same(x="f32[?]")
    assert command("run", model, "-i", "zeros.npz").status == 0
    monkeypatch.setattr("uncork.cli._files.available", lambda: (1 << 22, "this machine's memory"))
    answer = command("run", model, "-i", "zeros.npz")
    assert answer.status == 1
    assert answer.err == (
        "uncork: error: zeros.npz: its arrays need 4,194,432 bytes, more than this machine's "
        "memory (4,194,304 bytes)\n"
    )


def test_pickles_are_refused(command: Command, same: Same, tmp_path: Path):
    bomb = np.array([Bomb(), "text"], object)
    np.save(tmp_path / "bomb.npy", bomb, allow_pickle=True)
    np.savez(tmp_path / "bomb.npz", x=bomb)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(bomb))
    model = same(x="string[2]")
    why = (
        "holds Python objects (pickled), which are refused: loading them can run any program; "
        "save numbers in an array of a numeric type and strings in one of type '<U'"
    )
    for words, message in (
        ("x=bomb.npy", f"bomb.npy: {why}"),
        ("bomb.npz", f"bomb.npz:x: {why}"),
        ("x=bomb.npz:x", f"bomb.npz:x: {why}"),
        ("x=raw.npy", "raw.npy: is neither a .npy, an .npz, a .wav file nor a picture"),
    ):
        answer = command("run", model, "-i", words)
        assert answer.status == 1
        assert answer.message == message
    assert not (tmp_path / "exploded").exists()


def test_damaged_files(command: Command, same: Same, tmp_path: Path):
    np.save(tmp_path / "whole.npy", np.arange(1000.0))
    np.savez_compressed(tmp_path / "whole.npz", x=np.arange(1000.0))
    whole, archive = (tmp_path / "whole.npy").read_bytes(), (tmp_path / "whole.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as file:
        file.writestr("x", "not an array")
    damaged = {
        "empty.npy": b"",
        "text.npy": b"1 2 3\n",
        "cut.npy": whole[:-8],
        "header.npy": whole[:20],
        "absurd.npy": whole[:10] + whole[10:].replace(b"(1000,)", b"(1<<9,)"),
        "huge.npy": whole.replace(b"(1000,), }" + b" " * 15, b"(1000000000000000000,), }"),
        "cut.npz": archive[:-30],
        "bits.npz": archive[:200] + bytes(200) + archive[400:],
        "other.npz": (tmp_path / "other.npz").read_bytes(),
    }
    model = same(x="f64[?]")
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
        answer = command("run", model, "-i", f"x={name}")
        assert answer.status == 1, name
        assert answer.message.startswith(name), name
    assert command("run", model, "-i", "x=whole.npz").status == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["-i", "ids"],
            "argument -i/--input: expected NAME=FILE.npy, NAME=PICTURE.jpg, NAME=VALUE or "
            "FILE.npz, got 'ids'",
        ),
        (
            ["-o", "out.csv"],
            "argument -o/--output: expected a file that ends in .npz or .npy, got 'out.csv'",
        ),
        (
            ["--shape", "ids"],
            "argument --shape: expected NAME= and sizes such as ids=2,50, got 'ids'",
        ),
        (
            ["--shape", "ids=2,?"],
            "argument --shape: expected NAME= and sizes such as ids=2,50, got 'ids=2,?'",
        ),
        (
            ["--shape", "ids=-1"],
            "argument --shape: expected NAME= and sizes such as ids=2,50, got 'ids=-1'",
        ),
        (
            ["--shape", "=2"],
            "argument --shape: expected NAME= and sizes such as ids=2,50, got '=2'",
        ),
        (
            ["--random-range", "ids=5"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH, such as "
            "ids=0:5000, got 'ids=5'",
        ),
        (
            ["--random-range", "ids=5:5"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH",
        ),
        (
            ["--random-range", "ids=a:b"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH",
        ),
        (
            ["--random-range", "ids=0:inf"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH",
        ),
        (
            ["--random-range", "ids=nan:1"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH",
        ),
        (
            ["--random-range", "0:1"],
            "argument --random-range: expected NAME=LOW:HIGH with LOW below HIGH",
        ),
        (["--seed", "-1"], "argument --seed: expected a whole number of at least 0, got '-1'"),
        (
            ["--loop-limit", "x"],
            "argument --loop-limit: expected a whole number of at least 0, got 'x'",
        ),
        (
            ["--backend", "refrence"],
            "argument --backend: expected cpu or reference, got 'refrence'; did you mean "
            "'reference'?",
        ),
        (["--seed", "1"], "--seed is for random inputs: give --random too"),
        (["--shape", "ids=1"], "--shape is for random inputs: give --random too"),
        (["--random-range", "ids=1:2"], "--random-range is for random inputs: give --random too"),
    ],
)
def test_usage_errors(command: Command, words: list[str], message: str):
    answer = command("run", "m.xml", *words)
    assert answer.status == 2
    assert answer.message.startswith(message)
    assert answer.message.endswith("\nTry 'uncork run --help'.")


# ---- random inputs


def random_inputs(command: Command, model: str, *words: str) -> list[dict[str, Any]]:
    answer = command("run", model, "--random", "--json", *words)
    assert (answer.status, answer.err) == (0, "")
    filled: list[dict[str, Any]] = answer.json["random_inputs"]
    return filled


def test_random_text(command: Command, same: Same):
    answer = command("run", same(x="boolean[2,2]"), "--random", "--summary")
    assert answer.status == 0
    first, _, second = answer.out.partition("\n\n")
    assert first.startswith("random input  type     shape  first values")
    assert second.startswith("output  type     shape  first values")


@pytest.mark.parametrize("element_type", ElementType, ids=str)
def test_random_values_of_every_type(command: Command, same: Same, element_type: ElementType):
    (filled,) = random_inputs(command, same(x=f"{element_type}[40,50]"))
    assert filled["shape"] == [40, 50]
    if element_type is ElementType.string:
        assert all(
            1 <= len(word) <= 8 and word.isascii() and word.islower() for word in filled["first"]
        )
    elif element_type is ElementType.boolean:
        assert 800 < filled["true"] < 1200
    elif element_type.is_integer:
        most = (1 << (element_type.bits - (element_type.kind == "signed"))) - 1
        assert (filled["min"], filled["max"]) == (0, min(9, most))
    else:
        assert filled["nan"] == filled["inf"] == 0
        assert -1 <= filled["min"] <= filled["max"] <= 1
        assert filled["min"] < filled["mean"] < filled["max"]


def test_random_depends_on_seed_and_name_only(command: Command, same: Same):
    model = same(a="f32[2]", b="f32[2]")
    a, b = random_inputs(command, model)
    assert random_inputs(command, model) == [a, b]
    assert random_inputs(command, model, "--seed", "0") == [a, b]
    assert random_inputs(command, model, "-i", "a=[1,2]") == [b]
    assert a["first"] != b["first"]
    assert random_inputs(command, model, "--seed", "1")[0]["first"] != a["first"]
    assert random_inputs(command, model, "-i", "a=[1,2]", "-i", "b=[1,2]") == []


@pytest.mark.parametrize(
    ("port", "bounds", "low", "high"),
    [
        ("i64[1000]", "5:7", 5, 6),
        ("i64[1000]", "-3:-1", -3, -2),
        ("i64[10]", f"{2**63 - 1}:{2**63}", 2**63 - 1, 2**63 - 1),
        ("i64[10]", f"{-(2**63)}:{-(2**63) + 1}", -(2**63), -(2**63)),
        ("u64[10]", f"{2**64 - 1}:{2**64}", 2**64 - 1, 2**64 - 1),
        ("i8[10000]", "-128:128", -128, 127),
        ("u4[1000]", "14:16", 14, 15),
        ("i4[1000]", "-8:8", -8, 7),
        ("i64[1000]", "1e3:1.002e3", 1000, 1001),
    ],
)
def test_random_range_of_integers(
    command: Command, same: Same, port: str, bounds: str, low: int, high: int
):
    (filled,) = random_inputs(command, same(x=port), "--random-range", f"x={bounds}")
    assert (filled["min"], filled["max"]) == (low, high)


def test_random_range_of_floats(command: Command, same: Same):
    (filled,) = random_inputs(command, same(x="f64[1000]"), "--random-range", "x=10:10.5")
    assert 10 <= filled["min"] < 10.01
    assert 10.49 < filled["max"] < 10.5


def test_shapes_of_random_inputs(command: Command, same: Same):
    model = same(a="i64[?,2..8]", b="f32[...]", c="f32[...]", d="f32[3]")
    words = ["--shape", "a=4,2", "--shape=b=", "--shape", "2=0,7", "--shape", "d=3"]
    assert [filled["shape"] for filled in random_inputs(command, model, *words)] == [
        [4, 2],
        [],
        [0, 7],
        [3],
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--shape", "c=2"],
            "--random: 2 inputs have dynamic shapes: give all sizes, a number for each N\n"
            "  --shape 'a=N,2..8,3'\n  --shape 'b=N,...'",
        ),
        (
            ["--shape", "b=1", "--shape", "a=2,2,2"],
            "--shape: input 'a' has shape [?,2..8,3], got [2, 2, 2]",
        ),
        (
            ["--shape", "b=1"],
            "--random: an input has a dynamic shape: give all sizes, a number for each N\n"
            "  --shape 'a=N,2..8,3'",
        ),
        (
            ["--shape", "x=1"],
            "no input is called 'x'; inputs: a f32[?,2..8,3], b f32[...], c i8[2]",
        ),
        (["--shape", "c=2", "--shape", "2=2"], "--shape: input '2' is given twice"),
        (
            ["--shape", "c=2", "-i", "c=[1,2]"],
            "--shape: input 'c' is given by -i; --shape is for inputs that --random fills",
        ),
        (
            ["--random-range", "c=0:2", "-i", "c=[1,2]"],
            "--random-range: input 'c' is given by -i; --random-range is for inputs",
        ),
        (
            ["--shape", "b=1000000000,1000000000", "--shape", "a=1,2,3"],
            "input 'b': shape [1000000000, 1000000000] of f32 is more than",
        ),
        (
            ["--shape", "b=", "--shape", "a=1,2,3", "--random-range", "c=0:256"],
            "input 'c': a range of i8 has whole numbers within -128:128",
        ),
        (
            ["--shape", "b=", "--shape", "a=1,2,3", "--random-range", "c=0.5:2"],
            "input 'c': a range of i8 has whole numbers within -128:128",
        ),
    ],
)
def test_random_errors(command: Command, same: Same, words: list[str], message: str):
    answer = command("run", same(a="f32[?,2..8,3]", b="f32[...]", c="i8[2]"), "--random", *words)
    assert answer.status == 1
    assert answer.message.startswith(message)


@pytest.mark.parametrize("element_type", ["string", "boolean"])
def test_no_range_of_what_has_none(command: Command, same: Same, element_type: str):
    answer = command("run", same(x=f"{element_type}[2]"), "--random", "--random-range", "x=0:2")
    assert answer.status == 1
    assert answer.message == f"input 'x': random {element_type} values have no range"


# ---- options


def test_strict_and_backend(command: Command, rows: Path):
    words = ["run", "rows.xml", "-i", "ids=[[7,0]]"]
    plain = command(*words)
    assert plain.status == 0
    assert command(*words, "--backend", "reference").out == plain.out
    assert command(*words, "--backend=cpu").out == plain.out
    answer = command(*words, "--strict")
    assert answer.status == 1
    assert "layer 'pick' (Gather-8, id 4): " in answer.message
    assert "7" in answer.message
    answer = command(*words, "--strict", "--json")
    assert answer.status == 1
    (problem,) = answer.json["problems"]
    assert (answer.json["schema"], answer.json["error"]) == ("uncork-error-1", "InputError")
    assert problem["message"] in answer.err
    assert {name: problem[name] for name in ("layer", "input", "position", "value")} == {
        "layer": "pick",
        "input": "indices",
        "position": [0, 0],
        "value": 7,
    }


def test_ids(command: Command, tmp_path: Path):
    builder = uncork.Builder("cut")
    (cut,) = builder.add("Convert", 1, builder.parameter("ids", "i64", [2]), destination_type="i32")
    (picked,) = builder.add(
        "Gather", 8, builder.constant(np.float32([5, 6, 7])), cut, builder.constant(np.int64(0))
    )
    builder.result(picked, "picked")
    uncork.write_model(builder.model(), tmp_path / "cut.xml")
    words = ["run", "cut.xml", "-i", "ids=[2, 4294967297]", "--json"]
    for more, expected in (
        ([], [7.0, 0.0]),
        (["--ids", "64-bit"], [7.0, 0.0]),
        (["--ids", "as-written"], [7.0, 6.0]),
    ):
        assert command(*words, *more).json["outputs"][0]["first"] == expected
    answer = command(*words, "--ids", "32-bit")
    assert answer.status == 2
    assert answer.message.startswith(
        "argument --ids: expected 64-bit or as-written, got '32-bit'\n"
    )


def test_loop_limit_is_passed_on(command: Command, rows: Path):
    assert command("run", "rows.xml", "-i", "ids=[[0,1]]", "--loop-limit", "3").status == 0


def test_weights(command: Command, rows: Path):
    rows.with_suffix(".bin").rename(rows.with_name("elsewhere.bin"))
    assert command("run", "rows.xml", "-i", "ids=[[0,1]]").status == 1
    assert command("run", "rows.xml", "-i", "ids=[[0,1]]", "--weights", "elsewhere.bin").status == 0


def test_a_model_that_cannot_be_run(command: Command, rows: Path):
    rows.write_text(rows.read_text().replace('type="Gather"', 'type="Gathre"'))
    answer = command("run", "rows.xml", "--random")
    assert answer.status == 1
    assert answer.message == (
        "rows.xml: operation Gathre@opset8 is not supported (layers 'pick', 'pick_words'); did "
        "the file mean Gather?"
    )


# ---- summaries


def test_json(command: Command, rows: Path):
    answer = command("run", "rows.xml", "-i", "ids=[[0,1],[2,-1]]", "--json")
    assert answer.json == {
        "schema": "uncork-run-1",
        "model": "rows.xml",
        "random_inputs": [],
        "outputs": [
            {
                "name": "rows",
                "names": ["rows", "rows/result", "pick"],
                "element_type": "f32",
                "shape": [2, 2, 3],
                "min": 0.0,
                "mean": 1.375,
                "max": 2.75,
                "nan": 0,
                "inf": 0,
                "true": None,
                "first": [0.0, 0.25, 0.5, 0.75, 1.0, 1.25],
            },
            {
                "name": "text",
                "names": ["text", "text/result", "pick_words"],
                "element_type": "string",
                "shape": [2, 2],
                "min": None,
                "mean": None,
                "max": None,
                "nan": 0,
                "inf": 0,
                "true": None,
                "first": ["zero", "één", "twee", ""],
            },
        ],
        "saved": None,
        "latency": None,
        "expected": None,
    }


def test_what_is_not_finite(command: Command, same: Same):
    words = [
        "run",
        same(x="f32[5]", y="f32[2]", z="f32[0]"),
        "-i",
        "x=[NaN,1,-Infinity,3,NaN]",
        "-i",
        "y=[NaN,NaN]",
        "-i",
        "z=[]",
    ]
    assert (
        command(*words, "--summary").out
        == """\
output  type  shape  min  mean  max  first values          remarks
x       f32   [5]      1     2    3  nan, 1, -inf, 3, nan  2 NaN, 1 infinite
y       f32   [2]                    nan, nan              2 NaN
z       f32   [0]                    (empty)
"""
    )
    x, y, _ = command(*words, "--json").json["outputs"]
    assert (x["min"], x["mean"], x["max"], x["nan"], x["inf"]) == (1, 2, 3, 2, 1)
    assert x["first"] == ["NaN", 1.0, "-Infinity", 3.0, "NaN"]
    assert (y["min"], y["mean"], y["max"]) == (None, None, None)


def test_booleans_and_strings(command: Command, same: Same):
    model = same(x="boolean[3]", y="string[2]")
    answer = command(
        "run",
        model,
        "-i",
        "x=[true,false,true]",
        "-i",
        'y=["a\\n\\u202eb", "1234567890123456789012345"]',
        "--summary",
    )
    lines = [line.split("  ") for line in re.sub(" {3,}", "  ", answer.out).splitlines()]
    assert lines == [
        ["output", "type", "shape", "first values", "remarks"],
        ["x", "boolean", "[3]", "true, false, true", "2 of 3 true"],
        ["y", "string", "[2]", '"a\\n\\u202eb", "123456789012345678901..."'],
    ]


def test_numbers_are_exact_or_near():
    def summary(values: Any, element_type: ElementType) -> dict[str, Any]:
        return summarise("x", (), element_type, np.array(values))

    big = summary(np.array([2**63 + 1, 2**64 - 1], np.uint64), ElementType.u64)
    assert (big["min"], big["max"], big["first"]) == (2**63 + 1, 2**64 - 1, [2**63 + 1, 2**64 - 1])
    assert big["mean"] == pytest.approx(0.75 * 2**64)
    far = summary([1.7e308, 1.5e308], ElementType.f64)
    assert far["mean"] == pytest.approx(1.6e308)
    assert math.isfinite(summary(np.full(10, 65504, np.float16), ElementType.f16)["mean"])
    assert summary(np.float32(3), ElementType.f32)["first"] == [3.0]


def test_unique_names():
    def port(*names: str) -> ModelPort:
        return ModelPort(names, ElementType.f32, PartialShape([]))

    assert unique_names([port("a", "b"), port("a", "b"), port("a"), port()]) == ["a", "b", "2", "3"]
    assert unique_names([port("1"), port()]) == ["1", "output 1"]
    assert unique_names([port("", "x")]) == ["x"]


# ---- output files


def test_saved_archive(command: Command, rows: Path, tmp_path: Path):
    answer = command("run", "rows.xml", "-i", "ids=[[0,1]]", "-o", "out.npz")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.endswith("\n\nsaved 2 outputs in out.npz\n")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as saved:
        assert saved.files == ["rows", "text"]
        assert saved["rows"].dtype == np.float32
        assert saved["rows"].tolist() == [[[0, 0.25, 0.5], [0.75, 1, 1.25]]]
        assert saved["text"].dtype == np.dtype("<U4")
        assert saved["text"].tolist() == [["zero", "één"]]
    before = (tmp_path / "out.npz").read_bytes()
    again = command(
        "run", "rows.xml", "-i", "ids=[[0,1]]", "--output", "out.npz", "--overwrite", "--json"
    )
    assert again.json["saved"] == "out.npz"
    assert (tmp_path / "out.npz").read_bytes() == before, "the same outputs make the same file"


def test_saved_array(command: Command, same: Same, tmp_path: Path):
    answer = command("run", same(x="i64[2]"), "-i", "x=[1,2]", "-o", "out.npy")
    assert answer.out.endswith("\nsaved 1 output in out.npy\n")
    assert np.load(tmp_path / "out.npy", allow_pickle=False).tolist() == [1, 2]


def test_an_output_may_have_any_name(command: Command, same: Same, tmp_path: Path):
    assert (
        command(
            "run", same(**{"file": "i64[]", "a/../b": "i64[]"}), "--random", "-o", "out.npz"
        ).status
        == 0
    )
    with np.load(tmp_path / "out.npz", allow_pickle=False) as saved:
        assert saved.files == ["file", "a/../b"]


def test_saved_outputs_are_inputs_again(command: Command, same: Same):
    model = same(x="bf16[2,3]", y="string[2]", z="u64[2]")
    first = command("run", model, "--random", "-o", "out.npz", "--json").json
    words = [word for name in "xyz" for word in ("-i", f"{name}=out.npz:{name}")]
    assert command("run", model, *words, "--json").json["outputs"] == first["outputs"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("none/out.npz", "none/out.npz: cannot be written: there is no such folder"),
        ("folder.npz", "folder.npz: cannot be written: it is not an ordinary file"),
        (
            "out.npy",
            "out.npy: a .npy file holds one output and the model has 2: rows, text; save an .npz "
            "file",
        ),
    ],
)
def test_output_errors_come_before_the_run(
    command: Command, rows: Path, tmp_path: Path, output: str, message: str
):
    (tmp_path / "folder.npz").mkdir()
    answer = command("run", "rows.xml", "-i", "ids=none.npy", "-o", output)
    assert answer.status == 1
    assert answer.message == message


def test_strings_that_no_file_can_hold(command: Command, same: Same, tmp_path: Path):
    answer = command("run", same(x="string[1]"), "-i", 'x=["a\\u0000"]', "-o", "out.npz")
    assert answer.status == 1
    assert (
        answer.message
        == "out.npz: output 'x' has strings that end in a NUL character, which NumPy's files "
        "cannot hold"
    )
    assert not (tmp_path / "out.npz").exists()


def earlier(path: Path) -> bytes:
    """A file that an earlier run may have written."""
    (np.save if path.suffix == ".npy" else np.savez)(path, np.arange(3))
    return path.read_bytes()


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["numpy.lib.format.write_array", "os.fsync", "os.replace"])
@pytest.mark.parametrize("name", ["out.npz", "out.npy"])
def test_failure_leaves_everything_as_it_was(
    command: Command,
    same: Same,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    name: str,
):
    model = same(x="i64[2]")
    before = earlier(tmp_path / name)
    files = set(os.listdir(tmp_path))
    monkeypatch.setattr(place, failing)
    answer = command("run", model, "-i", "x=[1,2]", "-o", name, "--overwrite")
    monkeypatch.undo()
    assert answer.status == 1
    assert answer.message == f"{name}: cannot be written: {os.strerror(errno.ENOSPC)}"
    assert (tmp_path / name).read_bytes() == before
    assert set(os.listdir(tmp_path)) == files


@pytest.mark.parametrize("name", ["out.npz", "out.npy"])
def test_full_disk(same: Same, tmp_path: Path, name: str):
    """A limit on the size of files, which fails in the middle of a write as a full disk does."""
    resource = pytest.importorskip("resource")
    before = earlier(tmp_path / name)
    model = same(x="f64[100000]")
    files = set(os.listdir(tmp_path))
    answer = subprocess.run(
        [sys.executable, "-m", "uncork", "run", model, "--random", "-o", name, "--overwrite"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    # NumPy writes a plain file by itself and has its own words for the failure.
    assert answer.stderr.startswith(f"uncork: error: {name}: cannot be written: ")
    assert answer.stderr.count("\n") == 1
    assert (tmp_path / name).read_bytes() == before
    assert set(os.listdir(tmp_path)) == files


def test_interrupted_while_saving(
    command: Command, same: Same, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    model = same(x="i64[2]")
    files = set(os.listdir(tmp_path))
    monkeypatch.setattr(os, "fsync", interrupt)
    assert command("run", model, "-i", "x=[1,2]", "-o", "out.npz").status == 130
    assert set(os.listdir(tmp_path)) == files


@pytest.mark.skipif(os.name != "posix", reason="links and permissions of POSIX")
def test_links_and_permissions_stay(command: Command, same: Same, tmp_path: Path):
    (tmp_path / "deep").mkdir()
    target = tmp_path / "deep" / "real.npz"
    target.write_bytes(b"")
    target.chmod(0o640)
    (tmp_path / "out.npz").symlink_to(target)
    assert (
        command("run", same(x="i64[2]"), "-i", "x=[1,2]", "-o", "out.npz", "--overwrite").status
        == 0
    )
    assert (tmp_path / "out.npz").is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    with np.load(target, allow_pickle=False) as saved:
        assert saved["x"].tolist() == [1, 2]


def test_the_readme_s_command(command: Command, monkeypatch: pytest.MonkeyPatch):
    root = Path(__file__).resolve().parents[2]
    words = [
        "run",
        "examples/word_language/model.xml",
        "--input",
        "examples/word_language/words.npz",
        "--beside",
        "examples/word_language/words.txt",
    ]
    if not (root / words[1]).exists() or not (root / words[3]).exists():
        pytest.skip("the example has no model yet")
    monkeypatch.chdir(root)
    answer = command(*words)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.startswith("probabilities f32[40,8]\n")
    assert re.search(r"(?m)^  Schmetterling German +German 99\.\d%  ", answer.out)


# ---- results as people read them


def classes(path: Path, labels: str) -> None:
    """p f32[?,3] as it is, with labels."""
    builder = uncork.Builder("classes")
    builder.result(builder.parameter("x", "f32", [None, 3]), "p")
    builder.info("model_info/labels", labels)
    uncork.write_model(builder.model(), path)


def test_rows_of_numbers(command: Command, rows: Path):
    answer = command("run", "rows.xml", "-i", "ids=[[0,1],[2,-1]]")
    assert (answer.status, answer.err) == (0, "")
    assert (
        answer.out
        == """\
rows f32[2,2,3]
  0    0  0.25  0.5  0.75    1  1.25
  1  1.5  1.75    2  2.25  2.5  2.75

text string[2,2]
  0  "zero"  "één"
  1  "twee"  ""
"""
    )


def test_long_results(command: Command, same: Same):
    answer = command(
        "run", same(x="i64[?,9]", y="f32[]", z="f32[0]", s="boolean[2]"), *words_of_long_results()
    )
    assert re.search(r"(?m)^  39 +0 .* and 1 more$", answer.out)
    assert answer.out.count("and 1 more") == 40 and "\n  and 2 rows more\n" in answer.out
    assert "\ny f32[]\n  0.5\n" in answer.out
    assert "(empty)" in answer.out and "true  false" in answer.out


def words_of_long_results() -> list[str]:
    zeros = ",".join(["[0,0,0,0,0,0,0,0,0]"] * 42)
    return ["-i", f"x=[{zeros}]", "-i", "y=0.5", "-i", "z=[]", "-i", "s=[true,false]"]


def test_the_best_classes(command: Command, tmp_path: Path):
    classes(tmp_path / "classes.xml", "cat dog guinea_pig")
    answer = command("run", "classes.xml", "-i", "x=[[0.25,0.75,0],[0.5,0.25,0.25]]")
    assert (
        answer.out
        == """\
x f32[2,3]
  0  dog 75.0%  cat 25.0%  guinea pig 0.0%
  1  cat 50.0%  dog 25.0%  guinea pig 25.0%
"""
    )
    scores = command("run", "classes.xml", "-i", "x=[[-1,2,7]]")
    assert "guinea pig 7  dog 2  cat -1\n" in scores.out
    classes(tmp_path / "other.xml", "only two")
    assert "  0.25  0.75  0\n" in command("run", "other.xml", "-i", "x=[[0.25,0.75,0]]").out, (
        "labels of something else"
    )


def test_words_beside(command: Command, tmp_path: Path):
    classes(tmp_path / "classes.xml", "cat dog guinea_pig")
    (tmp_path / "words.txt").write_text("# two animals\nRex   the first\n\nTom\n", encoding="utf-8")
    answer = command("run", "classes.xml", "-i", "x=[[0,1,0],[1,0,0]]", "--beside", "words.txt")
    assert re.search(r"(?m)^  Rex the first  dog 100\.0%", answer.out)
    assert re.search(r"(?m)^  Tom            cat 100\.0%", answer.out)
    assert (
        "Rex" not in command("run", "classes.xml", "-i", "x=[[0,1,0]]", "--beside", "words.txt").out
    ), "rows of another number"
    assert (
        "none.txt: cannot be read"
        in command("run", "classes.xml", "-i", "x=[[0,1,0]]", "--beside", "none.txt").message
    )
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9")
    assert (
        "is no text in UTF-8"
        in command("run", "classes.xml", "-i", "x=[[0,1,0]]", "--beside", "latin").message
    )
    assert (
        command("run", "classes.xml", "-i", "x=[[0,1,0]]", "--beside", "words.txt", "--json").status
        == 2
    )


def test_labels_stay_with_the_model(tmp_path: Path):
    from uncork.ir.labels import labels_of

    classes(tmp_path / "classes.xml", "cat dog guinea_pig")
    model = uncork.read_model(tmp_path / "classes.xml")
    assert labels_of(model) == ["cat", "dog", "guinea pig"]
    uncork.write_model(model, tmp_path / "again.xml")
    assert labels_of(uncork.read_model(tmp_path / "again.xml")) == ["cat", "dog", "guinea pig"]
