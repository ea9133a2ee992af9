"""The import rules of ARCHITECTURE.md: who may import whom, rooms of the kernels included, and no
circles, late imports counted.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import uncork
from uncork.ops import Operation

ROOT = Path(uncork.__file__).parent
#: From the ground up. What stands together may not import each other.
LAYERS: list[set[str]] = [
    {"_version", "collector", "errors", "concurrency", "progress", "quoting"},
    {"_html"},
    {"blas"},
    {"destination"},
    {"symbolic"},
    {"dimension"},
    {"types"},
    {"storage", "files", "memory"},
    {"ops"},
    {"internal_ops"},
    {"ir"},
    {"decompositions"},
    {"onnx"},
    {"compiled_head"},
    {"reading"},
    {"kernels"},
    {"passes"},
    {"compiler"},
    {"export", "functional", "preprocessing", "random_inputs", "_names"},
    {"score", "compare", "shrink", "surgery", "openvino", "graph_page"},
    {"cli"},
]
#: The rooms of the kernels. A family imports from those above it, and from another family's room
#: what stands in a layer before.
ROOMS: list[set[str]] = [
    {
        "names",
        "extents",
        "epilogue",
        "kernel_spec",
        "kernel_plan",
        "layer",
        "register_tiles",
        "select",
        "select_epilogue",
        "steps",
        "stored_form",
        "stored_types",
        "runtime",
        "codegen",
    },
    {"movement"},
    {"elementwise"},
    {"gemm"},
    {"loops"},
    {"compressed"},
    {
        "attention",
        "convolution",
        "detection",
        "embedding",
        "finding",
        "fourier",
        "generation",
        "recurrent",
        "scatter",
        "search",
        "selection",
    },
    {"quantized"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ROOM_RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
FILES = sorted(
    p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py" and p != ROOT / "__main__.py"
)
KERNELS = ROOT / "kernels"


def part(path: Path) -> str:
    """The part a file belongs to: its folder or, at the top, itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    """The name by which a file is imported."""
    parts = ("uncork", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in ROOT.rglob("*.py")}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything that may run: what stands under `if TYPE_CHECKING` does not."""
    for node in ast.iter_child_nodes(tree):
        if (
            isinstance(node, ast.If)
            and isinstance(node.test, ast.Name)
            and node.test.id == "TYPE_CHECKING"
        ):
            continue
        yield node
        yield from statements(node)


def imported(path: Path, run_only: bool = False) -> set[str]:
    """Every module a file imports, at any depth of it; with `run_only` without those that only the
    type checker sees.
    """
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in statements(tree) if run_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names} & (
                MODULES.keys() | {f"uncork.{name}" for name in RANK}
            )
            names.update(inner)
            if len(inner) < len(node.names):
                names.add(module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            # A name that is computed belongs to a registry; one that is written is an import.
            first = node.args[0]
            if isinstance(first, ast.Constant) and str(first.value).startswith("uncork."):
                names.add(str(first.value))
    return names


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other, directly or by others."""
    reached = {module: _reached(graph, module) for module in graph}
    found = {
        frozenset(m for m in own if module in reached[m])
        for module, own in reached.items()
        if module in own
    }
    return sorted(sorted(circle) for circle in found)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_from_above(path: Path) -> None:
    own = part(path)
    assert own in RANK, f"say in LAYERS where '{own}' belongs"
    for module in imported(path):
        names = module.split(".")
        if names[0] == "uncork" and len(names) > 1 and names[1] in RANK:
            assert RANK[names[1]] <= RANK[own], f"{own} must not import {module}"
            assert RANK[names[1]] < RANK[own] or names[1] == own, (
                f"{own} and {names[1]} stand side by side: neither may import the other"
            )


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if KERNELS in p.parents and p.parent != KERNELS],
    ids=lambda p: str(p.relative_to(KERNELS)),
)
def test_rooms_of_the_kernels(path: Path) -> None:
    """Only the runtime knows llvmlite, only emitters know emitters, and a spec knows no other
    room.
    """
    room, name = path.relative_to(KERNELS).parts[0], path.stem
    assert room in ROOM_RANK, f"say in ROOMS where '{room}' belongs"
    ground = ROOM_RANK[room] == 0
    emits = name.startswith(("emit", "microkernel"))
    for module in imported(path):
        assert room == "runtime" or not module.startswith("llvmlite"), (
            "kernels are written by codegen/llvm_ir.py"
        )
        if not module.startswith("uncork.kernels."):
            assert not name.startswith("spec") or not module.startswith("uncork"), (
                f"a spec must not import {module}"
            )
            continue
        other, *inside = module.split(".")[2:]
        assert other == room or ROOM_RANK[other] < ROOM_RANK[room] or ground, (
            f"{room} must not import {module}"
        )
        assert not name.startswith("spec") or other in (
            *("names", "epilogue", "kernel_spec", "steps", "stored_form"),
            room,
        ), f"a spec must not import {module}"
        assert emits or ground or not inside or not inside[-1].startswith("emit"), (
            f"an emitter is found by the name in its spec: {module}"
        )


def test_no_import_circles() -> None:
    """Late imports count: they hide a circle, they do not open it."""
    graph = {
        module: (imported(path, run_only=True) & MODULES.keys()) - {module}
        for module, path in MODULES.items()
    }
    assert circles(graph) == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_needs_only_numpy_and_msgspec(path: Path) -> None:
    """They are the only hard dependencies (the kernels need llvmlite too), and no option is read
    from the environment. What only a type checker sees is none.

    Scoring is an extra of its own; what it takes is imported when it is used."""
    extras = {
        "cli": {"PIL"},
        "export": {"onnx", "torch"},
        "kernels": {"llvmlite"},
        "onnx": {"onnx", "torch"},
        "score": {"pyarrow", "ray", "rich", "tomllib", "tomli"},
    }
    allowed = {"msgspec", "numpy", "uncork"} | extras.get(part(path), set())
    for module in imported(path, run_only=True):
        top = module.split(".")[0]
        assert top in sys.stdlib_module_names or top in allowed, f"{path} imports {module}"
    assert "environ" not in path.read_text(encoding="utf-8"), (
        "options are arguments, never environment variables"
    )


def test_operations_are_declared_in_two_places() -> None:
    """Those of files in `ops`, those that passes and exporters make in `internal_ops`."""
    for module in MODULES:
        with contextlib.suppress(ImportError):  # of extras that are not installed
            importlib.import_module(module)
    declaring = {kind.__module__.split(".")[1] for kind in _kinds(Operation)}
    assert declaring == {"ops", "internal_ops"}


def _kinds(kind: type[Operation]) -> Iterator[type[Operation]]:
    """The operations of the project that are of this kind."""
    for inner in kind.__subclasses__():
        if inner.__module__.startswith("uncork."):
            yield inner
        yield from _kinds(inner)


def test_every_public_name_is_documented() -> None:
    for name in uncork.__all__:
        assert getattr(uncork, name).__doc__, f"uncork.{name} has no docstring"


def test_every_part_stands_on_the_page() -> None:
    """Each part and each room of the kernels has its place in the tables, parts in the order in
    which they may import.
    """
    page = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts, rooms = (
        [
            name.removesuffix("/").removesuffix(".py")
            for row in re.findall(r"(?m)^\| (`.+?) \| ", section)
            for name in re.findall(r"`([\w/.]+)`", row)
        ]
        for section in re.findall(r"(?ms)^##+ (?:Layers|Kernels)\n(.*?)(?=^##)", page)
    )
    own = [name for name in parts if "/" not in name]
    assert {*own} == RANK.keys() - {"_version"}
    assert [*map(RANK.get, own)] == sorted(map(RANK.get, own))
    assert {*rooms} == ROOM_RANK.keys()


def test_classes_of_kernels_have_names_of_their_own() -> None:
    """So that a search for one finds one."""
    found: dict[str, list[str]] = {}
    for path in sorted(KERNELS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(KERNELS)))
    assert len(found) > 100
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_kernels_decline_what_is_not_given() -> None:
    """An assertion would stop the compilation of a model that its reference could run."""
    asserted = [
        f"{path.relative_to(KERNELS)}:{node.lineno}"
        for path in sorted(KERNELS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assert) and "is not None" in ast.unparse(node.test)
    ]
    assert asserted == []
