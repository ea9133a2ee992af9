"""`surgery.with_state`: states that were inputs and outputs are variables. Expected values are
those of the model as it was, whose outputs are given back by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from uncork.cli import main
from uncork.surgery import with_state

RANDOM = np.random.default_rng(0)


def cell(batch: int | None = 1) -> uncork.Model:
    """Two states: a GRU's, and how many calls there were."""
    b = uncork.Builder("cell")

    def w(*shape: int) -> Any:
        return b.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))

    x, h = b.parameter("x", "f32", [batch, 4]), b.parameter("h", "f32", [batch, 3])
    n = b.parameter("n", "i32", [1])
    (new,) = b.add("GRUCell", 3, x, h, w(9, 4), w(9, 3), w(9), hidden_size=3)
    (count,) = b.add("Add", 1, n, b.constant(np.ones(1, np.int32)))
    (number,) = b.add("Convert", 1, count, destination_type="f32")
    b.result(b.add("Multiply", 1, new, number)[0], "y")
    b.result(new, "hn")
    b.result(count, "count")
    return b.model()


def test_states_are_what_the_call_before_gave() -> None:
    plain = uncork.compile_model(cell())
    kept = uncork.compile_model(with_state(cell(), {"h": "hn", "n": "count"}))
    assert [port.name for port in (*kept.inputs, *kept.outputs)] == ["x", "y"]
    h, n = np.zeros((1, 3), np.float32), np.zeros(1, np.int32)
    for _ in range(5):
        x = RANDOM.standard_normal((1, 4)).astype(np.float32)
        expected, h, n = plain(x, h, n)
        np.testing.assert_array_equal(kept(x)["y"], expected)
    assert {v.name: v.state.tolist() for v in kept.query_state()}["n"] == [5]


def test_states_begin_as_they_are_said_to() -> None:
    begin = {"h": RANDOM.standard_normal((1, 3)).astype(np.float32), "n": [7]}
    kept = uncork.compile_model(with_state(cell(), {"h": "hn", "n": "count"}, begin))
    x = RANDOM.standard_normal((1, 4)).astype(np.float32)
    expected = uncork.compile_model(cell())(x, begin["h"], np.array([7], np.int32))["y"]
    np.testing.assert_array_equal(kept(x)["y"], expected)


def test_sessions_of_states() -> None:
    compiled = uncork.compile_model(with_state(cell(None), {"h": "hn", "n": "count"}))
    sessions, request = compiled.sessions(4), compiled.new_request()
    for name in "ab":
        sessions.open(name)
    for _ in range(3):
        x = RANDOM.standard_normal((2, 4)).astype(np.float32)
        got = sessions.step(["a", "b"], x)["y"]
        np.testing.assert_allclose(got[1:], request(x[1:])["y"], rtol=1e-5, atol=1e-6)
        sessions.step(["a"], x[:1])


def test_openvino_keeps_the_state_as_well(tmp_path: Path, openvino: OpenVino) -> None:
    begin = {"h": RANDOM.standard_normal((1, 3)).astype(np.float32), "n": [7]}
    made = with_state(cell(), {"h": "hn", "n": "count"}, begin)
    uncork.write_model(made, tmp_path / "m.xml")
    x = RANDOM.standard_normal((1, 4)).astype(np.float32)
    got = openvino.run(tmp_path / "m.xml", [x])[0]
    np.testing.assert_allclose(got, uncork.compile_model(made)(x)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("states", "initial", "message"),
    [
        ({}, None, "expected an output for each input that is a state, got none"),
        ({"z": "hn"}, None, "the model has no input 'z'"),
        ({"h": "z"}, None, "the model has no output 'z'"),
        ({"n": "hn"}, None, "state n=hn: the input takes i32, the output gives f32"),
        ({"x": "hn"}, None, r"state x=hn: the input takes shape \[1,4\], the output gives \[1,3\]"),
        ({"h": "hn", "1": "y"}, None, "state 1=y: is named twice"),
        ({"h": "hn"}, {"x": 0}, "input 'x': has an initial value and is no state"),
        ({"h": "hn"}, {"h": np.zeros(3)}, r"'h': expected an initial value of \[1,3\], got \[3\]"),
    ],
)
def test_what_does_not_fit_is_refused(states: Any, initial: Any, message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        with_state(cell(), states, initial)


def test_an_output_must_be_left() -> None:
    b = uncork.Builder("one")
    b.result(b.add("Tanh", 1, b.parameter("h", "f32", [2]))[0], "hn")
    with pytest.raises(uncork.InputError, match="every output is a state"):
        with_state(b.model(), {"h": "hn"})


def test_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uncork.write_model(cell(), tmp_path / "m.xml")
    given, made = str(tmp_path / "m.xml"), str(tmp_path / "s.xml")
    assert main(["stream", given, "--state", "h=hn", "--state", "n=count", "-o", made]) == 0
    assert "2 variables" in capsys.readouterr().out
    assert [port.name for port in uncork.read_model(made).inputs] == ["x"]
    for wrong in (["--state", "h"], ["--state", "h=hn", "--state", "h=y"], ["--state", "=hn"]):
        assert main(["stream", given, *wrong, "-o", str(tmp_path / "t.xml")]) == 2
        assert "expected --state IN=OUT" in capsys.readouterr().err
    both = ["--state", "h=hn", "--input", "x"]
    assert main(["stream", given, *both, "-o", str(tmp_path / "t.xml")]) == 2
    assert "leave out --state" in capsys.readouterr().err
    assert not (tmp_path / "t.xml").exists()
