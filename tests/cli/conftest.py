"""Small models as files, and the command line called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.cli import main


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, by a parser that takes no NaN."""

        def refuse(token: str) -> None:
            raise AssertionError(f"{token} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def message(self) -> str:
        """The text of the error, which is all there is."""
        assert self.out == ""
        assert self.err.startswith("uncork: error: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("uncork: error: ").removesuffix("\n")


Command = Callable[..., Answer]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """`command("run", "model.xml")`, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Answer:
        capsys.readouterr()
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return run


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """rows.xml: `ids` i64[?,2] picks rows of a table of 4 rows, and of 4 words."""
    builder = uncork.Builder("rows")
    table = builder.constant(np.arange(12, dtype=np.float32).reshape(4, 3) / 4, name="table")
    words = builder.constant(np.array(["zero", "één", "twee", ""], object), name="words")
    ids = builder.parameter("ids", "i64", [None, 2])
    axis = builder.constant(np.int64(0), name="axis")
    (numbers,) = builder.add("Gather", 8, table, ids, axis, name="pick")
    (texts,) = builder.add("Gather", 8, words, ids, axis, name="pick_words")
    builder.result(numbers, "rows")
    builder.result(texts, "text")
    uncork.write_model(builder.model(), tmp_path / "rows.xml")
    return tmp_path / "rows.xml"


@pytest.fixture
def same(tmp_path: Path) -> Callable[..., str]:
    """`same(x="f32[?,3]")`: a model file whose outputs `x_out` are its inputs; `...` for an unknown
    rank.
    """

    def build(**inputs: str) -> str:
        builder = uncork.Builder("same")
        for name, text in inputs.items():
            element_type, _, shape = text.rstrip("]").partition("[")
            builder.result(
                builder.parameter(name, element_type, uncork.PartialShape.parse(shape)),
                f"{name}_out",
            )
        uncork.write_model(builder.model(), tmp_path / "same.xml")
        return "same.xml"

    return build
