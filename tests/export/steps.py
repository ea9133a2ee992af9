"""Ends an export at its n-th step, for every n, and looks at what is left.

Run by `test_every_step.py` in a process of its own, which has no threads: each export is a fork of
it. A step is one on the file system (`tests._steps`), or a piece of the constants that was written.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import uncork
from tests._steps import count_steps, end, in_a_fork
from uncork.errors import UncorkError

#: What a folder has: names and contents.
Contents = dict[str, bytes]
#: What is written, the last of which tells of the others.
FILES = {
    "inline": ("model.onnx",),
    "external": ("model.onnx.data", "model.onnx"),
    "torch": ("weights.safetensors", "check.py", "sample.npz", "model.py"),
    "ir": ("copy.bin", "copy.xml"),
}


def made(value: float) -> uncork.Model:
    """x f32[2,64] @ table -> y; the table is more than ONNX keeps inside."""
    builder = uncork.Builder("model")
    table = builder.constant(np.full((64, 64), value, np.float32), name="table")
    x = builder.parameter("x", "f32", [2, 64])
    builder.result(builder.add("MatMul", 1, x, table, name="y")[0])
    return builder.model()


def export(kind: str, folder: Path, value: float, progress: Callable[[int, int], None]) -> None:
    model = made(value)
    if kind == "torch":
        x = np.ones((2, 64), np.float32)
        sample = [x], [np.full((2, 64), 64 * value, np.float32)]
        uncork.write_torch(model, folder / "out", sample=sample, progress=progress)
    elif kind == "ir":
        uncork.write_model(model, folder / "out" / "copy.xml")
    else:
        outside = kind == "external"
        path = folder / "out" / "model.onnx"
        uncork.write_onnx(model, path, external_data=outside, progress=progress)


def contents(folder: Path) -> Contents:
    if not folder.exists():
        return {}
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


class Case:
    """A kind of export, into a folder where something is or is not."""

    def __init__(self, folder: Path, kind: str, before: str) -> None:
        self.folder, self.kind = folder, kind
        self.out = folder / "out"
        self.old: Contents = {}
        self.prepare()
        export(kind, folder, 0, lambda *_: None)  # imported once, before the forks
        if before == "overwrite":
            self.prepare()
            assert not in_a_fork(lambda: export(kind, folder, 1, lambda *_: None))
            self.old = contents(self.out)
        self.number, self.new = self.whole()

    def prepare(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        if self.old or self.kind != "torch":
            self.out.mkdir()
        for name, data in self.old.items():
            (self.out / name).write_bytes(data)

    def whole(self) -> tuple[int, Contents]:
        """How many steps there are, and what is there after them."""
        self.prepare()
        file = self.folder / "steps"
        taken = [0]

        def one(*_: int) -> None:
            taken[0] += 1

        def body() -> None:
            count_steps(one)
            export(self.kind, self.folder, 2, one)
            os.write(os.open(file, os.O_CREAT | os.O_WRONLY), str(taken[0]).encode())

        assert in_a_fork(body) == 0
        number = int(file.read_text())
        file.unlink()
        return number, contents(self.out)

    def hurt(self, number: int, how: str) -> None:
        taken = [0]

        def step(*_: int) -> None:
            taken[0] += 1
            if taken[0] == number:
                end(how)

        count_steps(step)
        with contextlib.suppress(KeyboardInterrupt, UncorkError, OSError):
            export(self.kind, self.folder, 2, step)

    def wrong(self, how: str) -> str:
        """All files are the old ones or all are new; after a kill they may be without a head."""
        found = contents(self.out)
        assert set(self.new) == set(FILES[self.kind])
        if how == "killed" and FILES[self.kind][-1] not in found:
            mixed = [n for n in found if found[n] not in (self.old.get(n), self.new[n])]
            return f"half-written: {mixed}" if mixed else ""
        if found not in (self.old, self.new):
            return f"neither the old nor the new: {sorted(found)}"
        return f"left: {self.hidden()}" if how == "interrupted" and self.hidden() else ""

    def hidden(self) -> list[str]:
        names = os.listdir(self.out) if self.out.exists() else []
        return [name for name in names if name.startswith(".")]


def main(case: Case) -> None:
    failed, hidden = [], 0
    for how in ("killed", "interrupted", "denied"):
        for step in range(1, case.number + 1):
            case.prepare()
            status = in_a_fork(lambda how=how, step=step: case.hurt(step, how))  # type: ignore[misc]
            assert status == (-signal.SIGKILL if how == "killed" else 0), (how, step, status)
            if case.wrong(how):
                failed.append((how, step, case.wrong(how)))
            hidden += bool(case.hidden())
    print(json.dumps({"steps": case.number, "failed": failed, "hidden": hidden}))


if __name__ == "__main__":
    main(Case(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
