"""Pages that are run: their Python code and commands, in order, and what they say is printed.

A block ```python is run, ```text behind it is what it prints; in ```console the lines that begin
with "$ " are run, and the others are what these print. `...` stands for anything. Blocks behind
`<!-- needs a b -->` are run with those modules only, together.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"(?:<!-- needs ([\w ]+) -->\n)?```(python|text|console)\n(.*?)```", re.DOTALL)
_MARK = "---- step {} ----"


@dataclass
class Step:
    """Source of Python, and what it is said to print; None where nothing is said."""

    source: str
    expected: str | None = None


def steps(page: Path) -> dict[tuple[str, ...], list[Step]]:
    """The steps of a page by the modules that they need. What needs more than the first does comes
    after it.
    """
    found: dict[tuple[str, ...], list[Step]] = {}
    needs: tuple[str, ...] = ()
    for named, kind, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        needs = tuple(named.split()) if named else needs
        here = found.setdefault(needs, [])
        if kind == "python":
            here.append(Step(text))
        elif kind == "text":
            assert here[-1].expected is None, "a second output of one block"
            here[-1].expected = text
        else:
            here += _commands(text)
    return found


def _commands(text: str) -> list[Step]:
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    assert commands, "a console block without a command"
    return [
        Step(
            f"import subprocess\nprint(subprocess.run({command!r}, shell=True, check=True, "
            "text=True, stdout=-1).stdout)\n",
            shown or None,
        )
        for command, shown in commands
    ]


def run(found: list[Step], folder: Path) -> None:
    """The steps in one process, in a folder; each must succeed and print what is said."""
    source = "".join(
        f"print({_MARK.format(number)!r}, flush=True)\n{step.source}\n"
        for number, step in enumerate(found)
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for number, step in enumerate(found):
        if step.expected is not None:
            printed = done.stdout.partition(_MARK.format(number))[2].partition(
                _MARK.format(number + 1)
            )[0]
            assert matches(printed, step.expected), (
                f"printed:\n{printed}\nexpected:\n{step.expected}"
            )


def matches(printed: str, expected: str) -> bool:
    """Whether that is what was printed, `...` being anything and spaces at the ends of lines
    nothing.
    """
    lines = (
        "\n".join(line.rstrip() for line in text.strip().splitlines())
        for text in (printed, expected)
    )
    got, wanted = lines
    return re.fullmatch(".*?".join(map(re.escape, wanted.split("..."))), got, re.DOTALL) is not None
