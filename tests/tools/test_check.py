"""`python -m tools.check`: which tests a change brings in."""

from __future__ import annotations

import re

from tools.check import LONG, QUICK, ROOT, named_tests, steps


def test_tests_are_found_by_the_names_of_files_and_folders() -> None:
    assert named_tests(["src/uncork/score/negative_ids.py"]) == ["tests/score/test_negative_ids.py"]
    assert named_tests(["src/uncork/functional/_call.py"]) == [
        "tests/functional/test_functional.py"
    ]
    assert named_tests(["src/uncork/types.py", "README.md", ""]) == ["tests/test_types.py"]
    assert named_tests(["src/uncork/passes/whole_ids.py"]) == ["tests/passes/test_whole_ids.py"]
    files = ["tests/compiler/test_state.py", "tests/conftest.py", "tests/test_that_was_deleted.py"]
    assert named_tests(files) == ["tests/compiler/test_state.py"]


def test_every_step_is_there() -> None:
    assert all((ROOT / path).is_file() for path in QUICK)
    names = [name for name, _ in steps(["src/uncork/types.py"], 3)]
    assert names == ["lint", "format", "types", "every operation", "tests"]
    (*_, (_, command)) = steps(["src/uncork/types.py", *QUICK], 3)
    assert "tests/test_types.py" in command
    assert len(set(command)) == len(command), "nothing twice"
    (*_, (_, command)) = steps(["tests/score/test_faults.py", "tests/processes/test_forks.py"], 3)
    assert not any(word.startswith(LONG) for word in command), "they take minutes"


def test_the_whole_check_names_tests_that_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert named
    assert [path for path in sorted(set(named)) if not (ROOT / path).is_file()] == []
