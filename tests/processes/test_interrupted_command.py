"""Ctrl-C while the command `uncork` is still imported ends it in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The command, whose import of some module is interrupted.
COMMAND = """
import builtins, sys
real = builtins.__import__
def interrupted(name, *more):
    if name == {module!r}:
        raise KeyboardInterrupt
    return real(name, *more)
builtins.__import__ = interrupted
sys.argv = ["uncork", "--version"]
from _uncork_command import main
sys.exit(main())
"""

STOP = "raise KeyboardInterrupt"


@pytest.mark.parametrize("module", ["uncork.cli", "numpy", "uncork.compiler.arguments"])
def test_interrupted_while_it_is_imported(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(module=module)],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_interrupted_while_a_class_is_made() -> None:
    """Python before 3.12 makes a RuntimeError of what `__set_name__` raises."""
    raised = "raise RuntimeError('while a class is made') from KeyboardInterrupt()"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(module="numpy").replace(STOP, raised)],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_another_error_is_shown() -> None:
    wrong = "raise RuntimeError('a mistake of ours')"
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(module="numpy").replace(STOP, wrong)],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: a mistake of ours\n")


def test_the_command_is_the_one_of_the_package() -> None:
    environment = {**os.environ, "PYTHONPATH": os.fspath(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND.format(module="nothing")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("uncork ")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'uncork = "_uncork_command:main"' in text
    assert 'py-modules = ["_uncork_command"]' in text
