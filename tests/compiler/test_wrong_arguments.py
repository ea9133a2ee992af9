"""Arguments of a wrong kind: a message says what was expected and what was got."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import Backend


@pytest.mark.parametrize("wrong", [None, 3, [], {}, True])
@pytest.mark.parametrize("read", [uncork.load, uncork.read_model, uncork.compile_model])
def test_what_is_no_path(read: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"the model: expected the path .*'model.xml', got"):
        read(wrong)


def test_weights_that_are_no_path() -> None:
    with pytest.raises(TypeError, match=r"weights: expected the path .*'model.bin', got 3 \(int\)"):
        uncork.read_model("model.xml", weights=3)  # type: ignore[arg-type]


def _negative() -> uncork.Model:
    builder = uncork.Builder("negative")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Negative", 1, x)[0], "y")
    return builder.model()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("text", [["abc"], ["1.5"], np.array(["abc"]), [b"abc"]])
def test_text_where_numbers_are_wanted(backend: Backend, text: Any) -> None:
    compiled = uncork.compile_model(_negative(), backend=backend)
    with pytest.raises(uncork.InputError, match=r"input 'x': expected f32, got .*text.*numbers"):
        compiled(text)


@pytest.mark.parametrize("wrong", [3, ["users.npy"]])
def test_tables_that_are_no_mapping(wrong: Any) -> None:
    with pytest.raises(uncork.InputError, match="tables: expected a mapping such as"):
        uncork.compile_model(_negative(), tables=wrong)


def test_config_that_is_no_mapping() -> None:
    with pytest.raises(
        uncork.ValidationError, match="config: expected nothing or an empty mapping"
    ):
        uncork.compile_model(_negative(), "CPU", 3)  # type: ignore[arg-type]


def test_an_empty_path() -> None:
    with pytest.raises(uncork.ReadError, match=r"the model: expected the path .* got ''"):
        uncork.load("")


@pytest.mark.parametrize("wrong", [[2.5], ["a"], [(1.5, 8)], [("a", 8)], [np.float64(2)]])
def test_sizes_that_are_no_integers(wrong: Any) -> None:
    model = _negative()
    with pytest.raises(uncork.InputError, match=r"expected a shape such as \[1, None, \(2, 8\)\]"):
        model.reshape(wrong)
    assert str(model.reshape([np.int32(2)]).inputs[0].shape) == "[2]"


@pytest.mark.parametrize("wrong", [True, 2.0, "2", 0])
def test_threads_that_are_no_number(wrong: Any) -> None:
    with pytest.raises(uncork.ValidationError, match="threads: expected a number of at least 1"):
        uncork.compile_model(_negative(), threads=wrong)


@pytest.mark.parametrize("option", ["memory_limit", "loop_limit"])
@pytest.mark.parametrize("wrong", [True, 2.0, "2", -1])
def test_limits_that_are_no_number(option: str, wrong: Any) -> None:
    with pytest.raises(uncork.ValidationError, match=f"{option}: expected a number of"):
        uncork.compile_model(_negative(), **{option: wrong})
