"""`python -m tools.check`: which tests a change brings in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tools.tests_of
from tools.check import EVERY_OPERATION, LONG, QUICK, ROOT, named_tests, run_of_tests, steps
from tools.tests_of import lowered, types_of

MODULES = sorted(
    str(path.relative_to(ROOT / "src" / "uncork")) for path in ROOT.glob("src/uncork/**/*.py")
)


def test_tests_are_found_by_the_names_of_files_and_folders() -> None:
    assert named_tests(["src/uncork/score/negative_ids.py"]) == ["tests/score/test_negative_ids.py"]
    assert named_tests(["src/uncork/functional/_call.py"]) == [
        "tests/functional/test_functional.py"
    ]
    assert named_tests(["src/uncork/types.py", "README.md", ""]) == ["tests/test_types.py"]
    of_blocks = named_tests(["src/uncork/kernels/convolution/microkernel_blocks.py"])
    assert {"tests/kernels/test_blocks.py", "tests/kernels/test_convolution.py"} <= {*of_blocks}
    of_best = named_tests(["src/uncork/kernels/detection/emit_best.py"])
    assert "tests/kernels/test_proposals.py" in of_best
    of_winograd = named_tests(["src/uncork/kernels/convolution/emit_winograd.py"])
    assert "tests/kernels/test_blocks.py::test_winograd" in of_winograd
    assert named_tests(["src/uncork/passes/whole_ids.py"]) == ["tests/passes/test_whole_ids.py"]
    files = ["tests/compiler/test_state.py", "tests/conftest.py", "tests/test_that_was_deleted.py"]
    assert named_tests(files) == ["tests/compiler/test_state.py"]


def test_every_step_is_there() -> None:
    assert all((ROOT / path).is_file() for path in QUICK)
    names = [name for name, _ in steps(["src/uncork/types.py"], 3)]
    assert names == ["lint", "format", "tests", "types"]
    command = dict(steps(["src/uncork/types.py", *QUICK], 3))["tests"]
    assert "tests/test_types.py" in command
    assert len(set(command)) == len(command), "nothing twice"
    command = dict(steps(["tests/score/test_faults.py", "tests/processes/test_forks.py"], 3))[
        "tests"
    ]
    assert not any(word.startswith(LONG) for word in command), "they take minutes"


def test_examples_come_first_and_are_those_of_what_has_changed() -> None:
    of_kernels = run_of_tests(["src/uncork/kernels/loops/select_rows.py"])
    assert of_kernels[3] == "tests/kernels/test_every_kernel.py"
    chosen = of_kernels[-1]
    assert "(not (kernels and test_every_kernel.py) or (test_sample and (" in chosen
    assert "SoftMax-" in chosen
    assert "test_every_kernel" not in run_of_tests(["src/uncork/types.py"])[-1]
    # A file of examples that has changed itself is run whole.
    assert run_of_tests([EVERY_OPERATION])[-1] == ""


def test_operations_are_held_where_one_may_have_changed() -> None:
    apart = ["src/uncork/passes/rewrite.py", "tests/passes/test_codes.py", "CHANGELOG.md"]
    assert EVERY_OPERATION not in run_of_tests(apart)
    for file in ("src/uncork/ops/gather.py", "src/uncork/types.py", "src/uncork/__init__.py"):
        assert EVERY_OPERATION in run_of_tests([*apart, file])
    for file in ("tests/samples/gather.py", "tests/conftest.py", "pyproject.toml"):
        assert EVERY_OPERATION in run_of_tests([*apart, file])
    assert EVERY_OPERATION in run_of_tests([]), "nobody can tell what has changed"


def test_examples_of_each_file_are_chosen_by_its_folder_and_name(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / "test_samples.py").write_text(
            "def test_first(): pass\ndef test_second(): pass\n", encoding="utf-8"
        )
    chosen = "(not (one and test_samples.py) or (first)) and (not (two and test_x.py) or (none))"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-k", chosen, "one", "two"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if "::" in line] == [
        "one/test_samples.py::test_first",
        "two/test_samples.py::test_first",
        "two/test_samples.py::test_second",
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_tests_that_are_there(module: str) -> None:
    """None is held by the rules of the layout alone, but what only says something."""
    tests = [test.partition("::")[0] for test in tools.tests_of.tests_of(module)]
    assert tests and all((ROOT / test).is_file() for test in tests)
    assert named_tests([f"src/uncork/{module}"]) or types_of(module)


def test_kernels_and_lowerings_bring_the_examples_of_their_operations() -> None:
    assert {"ReduceMean", "SoftMax"} <= types_of("kernels/loops/select_rows.py")
    assert "MaxPool" not in types_of("kernels/loops/select_rows.py"), "another file selects for it"
    assert {"ReduceMean", "MaxPool"} <= types_of("kernels/loops/emit.py")
    assert {"Convolution", "BlockedConvolution"} <= types_of("kernels/convolution/emit_direct.py")
    assert {"ReduceMean", "GRUSequence"} <= types_of("kernels/codegen/emit.py")
    assert types_of("passes/whole_ids.py") == frozenset()
    assert {"MaxPool", "AvgPool"} <= set(lowered("export/onnx/families/pooling.py"))
    assert {"Add", "Subtract"} <= set(lowered("export/onnx/families/arithmetic.py"))
    assert {"Equal", "LogicalAnd"} <= set(lowered("export/onnx/families/comparison.py"))
    assert {"MaxPool", "AvgPool"} <= set(lowered("export/torch/helpers/sliding.py"))


@pytest.mark.parametrize(
    "module", [m for m in MODULES if re.match(r"export/\w+/(families|helpers)/", m)]
)
def test_every_file_of_lowerings_brings_the_examples_of_its_operations(module: str) -> None:
    assert lowered(module) or module.endswith("/__init__.py")


def test_the_whole_check_names_tests_that_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert named
    assert [path for path in sorted(set(named)) if not (ROOT / path).is_file()] == []
