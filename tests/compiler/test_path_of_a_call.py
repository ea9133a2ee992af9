"""The path of a call as ARCHITECTURE.md numbers it is the one that calls take."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork

SOURCE = Path(uncork.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
#: A file of the package, and the name of a function in it.
Place = tuple[str, str]


def numbered() -> list[Place]:
    """The functions that the page numbers, each with its file, up to the native entry."""
    text = PAGE.read_text(encoding="utf-8")
    (path,) = re.findall(r"### The path of a call.*?\n\n(.*?)\n\nBack in 1", text, re.DOTALL)
    steps = [step.partition(":") for step in re.split(r"(?m)^\d+\. ", path)[1:]]
    return [
        (file.strip("`"), name.rpartition(".")[2])
        for file, _, words in steps
        for name in re.findall(r"`([\w.]+)`", words)
        if not name.endswith(".py")
    ]


def place(frame: FrameType) -> Place:
    path = Path(frame.f_code.co_filename)
    inside = path.is_relative_to(SOURCE)
    return path.relative_to(SOURCE).as_posix() if inside else "elsewhere", frame.f_code.co_name


@pytest.mark.parametrize("rows", [2, None])
def test_calls_take_the_path(rows: int | None) -> None:
    """A call that is like no other enters the functions in their order, and is in no other files
    when it comes to the native entry.
    """
    builder = uncork.Builder("sum")
    x = builder.parameter("x", "f32", [rows, 3])
    builder.result(builder.add("Add", 1, x, x)[0], "y")
    compiled = uncork.compile_model(builder.model())
    data = np.ones((2, 3), np.float32)
    compiled(data)  # makes the plan, and takes memory
    executor: Any = compiled.executor
    native = executor.plans.last.run
    executor.last = None  # as if another call had been before
    entered: list[Place] = []
    files: list[str] = []

    def watch(frame: FrameType, event: str, what: Any) -> None:
        if event == "call":
            entered.append(place(frame))
        elif event == "c_call" and what is native:
            above: FrameType | None = frame
            while above is not None and place(above)[0] != "elsewhere":
                files.insert(0, place(above)[0])
                above = above.f_back

    sys.setprofile(watch)
    try:
        compiled(data)
    finally:
        sys.setprofile(None)
    path = numbered()
    on_it = dict.fromkeys(at for at in entered if at in path)
    # What is entered natively is no function of Python; `_run` is a function of the first file.
    assert list(on_it) == [at for at in path if at[1] not in ("_run", "run") or "execute" in at[0]]
    walked = list(dict.fromkeys(files))
    assert len(walked) == 5
    assert walked == [file for file in dict.fromkeys(file for file, _ in path) if file in walked]
    assert len({file for file, _ in path}) == 8
