"""Which tests hold a module: by its name, by the layers that its kernels or lowerings are for, by
what imports it, or by its room.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

from uncork.export.torch.helper_source import helper_sources
from uncork.kernels import select

ROOT = Path(__file__).resolve().parents[1]
#: Tests that kill, fork and wait, or make thousands of cases: `pytest` runs them.
LONG = (
    "tests/processes/",
    "tests/fuzz/",
    "tests/score/test_faults.py",
    "tests/score/test_every_step.py",
    "tests/score/test_ray",
    "tests/kernels/test_canaries.py",
    "tests/benchmarks/",
)
#: The families that stand for all where something changes that every kernel is made by.
EVERY_FAMILY = (
    "convolution",
    "elementwise",
    "embedding.bags",
    "gemm.matmul",
    "movement.gather",
    "recurrent",
    "loops.rows",
)
#: Tests of rooms of kernels that have other names than theirs.
KERNELS = {
    "detection": ("test_proposals.py", "test_detections.py", "test_soft_suppression.py"),
    "finding": ("test_count_first.py",),
    "gemm": ("test_matmul.py",),
    "movement": ("test_gather_elements.py", "test_transpose.py"),
    "quantized": ("test_quantized_layers.py",),
    "recurrent": ("test_cells.py",),
    "scatter": ("test_open_places.py",),
}
#: Tests of what has none of its own, by the beginning of its path; the first that fits.
ROOMS = {
    "_": ("tests/test_habits.py",),
    "cli/": ("tests/cli/test_main.py", "tests/cli/test_run.py"),
    "compare/": ("tests/compare/test_compare.py",),
    "compiler/": (
        "tests/compiler/test_compiled_model.py",
        "tests/compiler/test_execute.py",
        "tests/compiler/test_open_sizes.py",
        "tests/compiler/test_plans.py",
    ),
    "export/onnx/": ("tests/export/onnx/test_model.py", "tests/export/onnx/test_answers.py"),
    "export/torch/": ("tests/export/torch/test_module.py", "tests/test_hostile_names.py"),
    "export/": ("tests/export/test_promises.py",),
    "functional/": ("tests/functional/test_functional.py",),
    "internal_ops/": ("tests/compiler/test_plans.py", "tests/passes/test_pipeline.py"),
    "ir/": ("tests/ir/test_read.py", "tests/ir/test_write.py"),
    "ops/": ("tests/ops/test_every_op.py",),
    "passes/": ("tests/passes/test_pipeline.py", "tests/compiler/test_plans.py"),
    "score/": ("tests/score/test_score.py",),
    "shrink/": ("tests/shrink/test_shrink.py",),
    "surgery/streams/": ("tests/surgery/test_streams.py",),
    "surgery/": ("tests/surgery/test_surgery.py",),
    "symbolic/": ("tests/symbolic/test_rules.py",),
    "": ("tests/test_habits.py", "tests/test_layers.py"),
}
#: At most so many files are taken of those that import a module.
_FEW = 4


def tests_of(module: str) -> list[str]:
    """What pytest is asked for when a module, a path below src/uncork, has changed: files of tests,
    and single ones of them.
    """
    path = Path(module)
    found = [*_named(path), *_of_layers(path)] or _importing(path)
    if not found:
        found = next(list(tests) for begin, tests in ROOMS.items() if module.startswith(begin))
    return list(dict.fromkeys(found))


def types_of(module: str) -> frozenset[str]:
    """The types of operations whose worked examples a change of a module's kernels or lowerings
    asks for.
    """
    path = Path(module)
    if path.parts[0] == "kernels":
        return frozenset().union(*map(select.types_of, families_of(path)))
    return frozenset()


def lowered(module: str) -> list[str]:
    """The types that a file of lowerings, or of helpers of them, is for: where it has no lowering
    of its own, those of the families that use it.
    """
    path = Path(module)
    if path.parts[0] != "export" or len(path.parts) < 4:
        return []
    package = f"uncork.export.{path.parts[1]}"
    lowerings = importlib.import_module(f"{package}.registry").lowerings()
    by_family: dict[str, list[str]] = {}
    for name, lowering in lowerings.items():
        by_family.setdefault(lowering.__module__, []).append(name)
    own = by_family.get(f"{package}.families.{path.stem}") if path.parts[2] == "families" else None
    return own or [
        name
        for family, names in by_family.items()
        if _uses(family, path, f"{package}.families.{path.stem}")
        for name in names
    ]


def _uses(family: str, path: Path, module: str) -> bool:
    """Whether a family of lowerings imports a module, or names what a file of helpers has."""
    text = (ROOT / "src" / Path(*family.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    if path.parts[2] == "helpers":
        return not _helped(path.stem).isdisjoint(re.findall(r'"(\w+)"', text))
    return f"from {module} import" in text


@functools.cache
def _helped(name: str) -> frozenset[str]:
    """The helpers of lowerings to torch that a file has, and those that call one of them."""
    file = ROOT / "src" / "uncork" / "export" / "torch" / "helpers" / f"{name}.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    found = more = set(re.findall(r"^def (\w+)", text, re.M))
    while more:
        more = {by for by, (_, calls) in helper_sources().items() if calls & found} - found
        found = found | more
    return frozenset(found)


def families_of(path: Path) -> list[str]:
    """The families of kernels that a file belongs to: the one that it selects for, else those of
    its room; some of all for what all are made by.
    """
    own = path.parts[1] if len(path.parts) > 2 else ""
    of_file = f"{own}.{path.stem.removeprefix('select_')}".removesuffix(".select")
    if path.stem.startswith("select") and of_file in select.families():
        return [of_file]
    found = sorted(f for f in select.families() if f.partition(".")[0] == own)
    return found or list(EVERY_FAMILY)


def _named(path: Path) -> list[str]:
    folder, name = Path("tests", *path.parts[:-1]), path.stem.strip("_")
    if path.parts[0] == "kernels" and len(path.parts) > 2:  # they have one folder
        room = KERNELS.get(path.parts[1], (f"test_{path.parts[1]}.py",))
        files = [
            f"tests/kernels/{file}" for file in room if (ROOT / "tests/kernels" / file).is_file()
        ]
        own = _of_words(set(name.split("_")))
        return [*(test for test in own if test.partition("::")[0] not in files), *files]
    tests = [folder / f"test_{name}.py", folder / f"test_{folder.name}.py"]
    return [str(test) for test in tests if (ROOT / test).is_file()][:1]


def _of_words(words: set[str]) -> list[str]:
    """The tests of kernels that have one of these words in their names: files, and few single
    ones. `test_blocks.py` holds `emit_blocks.py` and `microkernel_blocks.py`, and its
    `test_winograd` holds `emit_winograd.py`.
    """
    files: list[str] = []
    single: list[str] = []
    for path in sorted(ROOT.glob("tests/kernels/test_*.py")):
        file = str(path.relative_to(ROOT))
        if file.startswith(LONG):
            continue
        if words & {*path.stem.split("_")}:
            files.append(file)
            continue
        names = re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M)
        single += [f"{file}::{name}" for name in names if words & {*name.split("_")}]
    return files + (single if len(single) <= _FEW else [])


def _of_layers(path: Path) -> list[str]:
    """Golden plans of the families of a kernel."""
    if path.parts[0] != "kernels":
        return []
    return [f"tests/compiler/test_plans.py::test_family[{f}]" for f in families_of(path)]


def _importing(path: Path) -> list[str]:
    name = ".".join(("uncork", *path.with_suffix("").parts)).removesuffix(".__init__")
    found = [test for test, names in _imports().items() if name in names]
    return [test for test in found if not test.startswith(LONG)][:_FEW]


@functools.cache
def _imports() -> dict[str, frozenset[str]]:
    """The modules that each file of tests imports."""
    pattern = re.compile(r"^\s*(?:from (uncork[\w.]*) import (.+)|import (uncork[\w.]*))", re.M)
    found: dict[str, frozenset[str]] = {}
    for test in sorted(ROOT.glob("tests/**/test_*.py")):
        text = test.read_text(encoding="utf-8")
        found[str(test.relative_to(ROOT))] = frozenset(_modules(pattern, text))
    return found


def _modules(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for package, names, alone in pattern.findall(text):
        yield alone or package
        yield from (f"{package}.{name.strip()}" for name in names.split(",") if package)
