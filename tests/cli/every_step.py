"""Ends a command that writes at its n-th step on the file system, and looks at what is left.

Run by `test_every_step.py` in a process of its own: each command is a fork of it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np

import uncork
from tests._steps import count_steps, end, in_a_fork
from uncork.cli import main as command

#: Commands by what they write.
COMMANDS = {
    "out.npz": ["run", "model.xml", "-i", "x=[1,2]", "-o", "work/out.npz"],
    "out.html": ["show", "model.xml", "--html", "work/out.html"],
    "out.uncork": ["compile", "model.xml", "-o", "work/out.uncork"],
    "out": ["compile", "model.xml", "--c", "-o", "work/out"],
}
#: Steps that are tried, at most: others are as these.
MOST = 10


def write_model() -> None:
    """x i64[?] -> the rows of a table that it names."""
    builder = uncork.Builder("model")
    table = builder.constant(np.ones((8, 8), np.float32), name="table")
    x, axis = builder.parameter("x", "i64", [-1]), builder.constant(np.array(0, np.int64))
    builder.result(builder.add("Gather", 8, table, x, axis, batch_dims=0, name="y")[0])
    uncork.write_model(builder.model(), "model.xml")


def names(folder: str) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*"))


def run(words: list[str], said: Path, ends_at: int = 0, how: str = "") -> int:
    """The status of a command that may end at a step; `said` gets its steps and its errors."""

    def body() -> None:
        errors, steps = StringIO(), 0

        def count(number: int) -> None:
            nonlocal steps
            steps = number
            if number == ends_at:
                end(how)

        count_steps(count)
        with redirect_stderr(errors):
            status = command(words)
        os.write(os.open(said, os.O_CREAT | os.O_TRUNC | os.O_WRONLY), b"%d " % steps)
        os.write(os.open(said, os.O_APPEND | os.O_WRONLY), errors.getvalue().encode())
        os._exit(status)

    return in_a_fork(body)


def prepare(old: str) -> None:
    shutil.rmtree("work", ignore_errors=True)
    if old:
        shutil.copytree(old, "work")
    else:
        os.mkdir("work")


def wrong(words: list[str], how: str, step: int, old: str, whole: list[str]) -> str:
    """What is wrong after a command that ended so at a step."""
    said = Path("said")
    prepare(old)
    status = run(words, said, step, how)
    expected = {"killed": [-signal.SIGKILL], "interrupted": [130, 0], "full": [1, 0]}[how]
    if status not in expected:
        return f"status {status}: {said.read_text()}"
    found = names("work")
    if how != "killed" and found not in (names(old) if old else [], whole):
        return f"left {sorted({*found} - {*whole})}, no longer there {sorted({*whole} - {*found})}"
    shown = {name for name in found if not Path(name).name.startswith(".")}
    if not shown <= {*whole}:
        return f"left {sorted(shown - {*whole})}"
    headless = "out" in whole and "out/model.uncork" not in found
    if how == "killed" and headless and not all(map(os.path.isdir, Path("work/out").rglob("*"))):
        return ""  # what tells of the others comes last: until then it is nobody's folder
    return f"the next says {said.read_text()}" if run([*words, "--overwrite"], said) else ""


def main(folder: str, kind: str, before: str) -> None:
    os.chdir(folder)
    write_model()
    words, said = [*COMMANDS[kind]], Path("said")
    prepare("")
    assert command(words) == 0  # what it imports, and its kernels
    whole, old = names("work"), ""
    if before == "overwrite":
        old = "before"
        shutil.copytree("work", old)
        words.append("--overwrite")
    prepare(old)
    assert run(words, said) == 0, said.read_text()
    steps = int(said.read_text().split()[0])
    tried = range(1, steps + 1, 1 + steps // MOST)
    failed, hidden = [], 0
    for how in ("killed", "interrupted", "full"):
        for step in tried:
            why = wrong(words, how, step, old, whole)
            hidden += any(Path(name).name.startswith(".") for name in names("work"))
            if why:
                failed.append((how, step, why))
    print(json.dumps({"steps": len(tried), "failed": failed, "hidden": hidden}))


if __name__ == "__main__":
    main(*sys.argv[1:])
