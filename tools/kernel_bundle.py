"""Compiles the kernels that come with the package (`tools/kernels.txt`), a file for each level.

    python -m tools.kernel_bundle                 # for the level of this machine
    python -m tools.kernel_bundle --level x86-64-v3 --level aarch64
    python -m tools.kernel_bundle --all           # for all levels that have a bundle

The files go to src/uncork/kernels/bundled, where whoever imports that uncork finds them; they are
used as long as the kernels' sources are those that they were made of. `pip install .` does the same
(`tools/packaging/build_backend.py`).
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

import uncork.kernels
from uncork.compiler.branch_steps import BRANCH_FUNCTION
from uncork.compiler.loop_words import LOOP_FUNCTION
from uncork.compiler.rooms import JOINING
from uncork.errors import UncorkError
from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime import bundle, llvm
from uncork.kernels.runtime.dispatch import POOL_KERNELS
from uncork.kernels.runtime.elf_link import link
from uncork.kernels.runtime.entries import entry_functions
from uncork.kernels.runtime.kernel_cache import Wanted
from uncork.kernels.runtime.side_by_side import SideBySide
from uncork.kernels.runtime.target import LEVELS, Target, level_of, levels_here
from uncork.kernels.runtime.turns import RELEASED, TURNS
from uncork.kernels.runtime.whole_file import WholeFile
from uncork.types import ElementType

LIST = Path(__file__).with_name("kernels.txt")
#: The levels for which there are bundles: machines of others run the kernels of one of these.
BUNDLED = (
    "x86-64-v3",
    "x86-64-v3-avxvnni",
    "x86-64-v4",
    "x86-64-v4-vnni",
    "x86-64-v4-bf16",
    "aarch64",
    "aarch64-dotprod",
)
#: What calls and loops are made of, whatever the model is.
FUNCTIONS = (*entry_functions(), TURNS, RELEASED, JOINING, BRANCH_FUNCTION, LOOP_FUNCTION)
FIXED = (*POOL_KERNELS, WholeFile())


class Unreadable(Exception):
    """A line of the list that is no spec of a kernel, or of one that has changed."""


#: How files begin that have records of which specs are made.
_WITH_RECORDS = ("spec", "select", "epilogue", "language", "read_size")


@functools.lru_cache(maxsize=1)
def _classes() -> Mapping[str, Sequence[Any]]:
    """All records of the package's kernels, by name: what specs are made of. Few share one."""
    for module in pkgutil.walk_packages(uncork.kernels.__path__, "uncork.kernels."):
        if module.name.rpartition(".")[2].startswith(_WITH_RECORDS):
            importlib.import_module(module.name)
    found: dict[str, list[Any]] = {}
    waiting: list[type] = [Struct]
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            if one.__module__.startswith("uncork.kernels."):
                found.setdefault(one.__name__, []).append(one)
    return found


def spec_of(text: str) -> KernelSpec:
    """The spec that a text describes, which is its `repr`. Raises Unreadable."""
    try:
        made = _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError, KeyError) as error:
        raise Unreadable(f"{text[:200]}: {error!r}") from None
    if not isinstance(made, KernelSpec) or repr(made) != text:
        raise Unreadable(f"{text[:200]}: it is read as {made!r:.200}")
    return made


def _value(node: ast.expr) -> Any:
    """The value of an expression of records, tuples and literals; nothing else is evaluated."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        values = {word.arg: _value(word.value) for word in node.keywords if word.arg is not None}
        if node.func.id == "frozenset":
            return frozenset(*map(_value, node.args))
        classes = _classes()[node.func.id]
        fitting = [one for one in classes if set(one.__struct_fields__) == set(values)]
        return (fitting or classes)[0](**values)
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.Set):
        return {_value(item) for item in node.elts}
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return {"ElementType": ElementType}[node.value.id][node.attr]
    if isinstance(node, ast.Name):
        return {"inf": float("inf"), "nan": float("nan")}[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    return ast.literal_eval(node)


def listed(level: str, path: Path = LIST) -> Iterator[KernelSpec]:
    """The kernels that the list has for a level."""
    for line in path.read_text(encoding="utf-8").splitlines():
        levels, text = line.split("\t")
        if level.removesuffix("-windows") in levels.split(","):
            yield spec_of(text)


def compiled(level: str, threads: int) -> tuple[dict[bytes, tuple[bytes, int]], list[str]]:
    """The linked kernels of a level, by their keys, and which could not be made."""
    target = LEVELS[level]
    specs = dict.fromkeys((*FIXED, *listed(level)))
    wanted = [Wanted(s.name, repr(s), partial(llvm_text, s, target)) for s in specs]
    llvm.load(target.arch)
    with llvm.compiling():
        work: SideBySide[Wanted, tuple[bytes, int]] = SideBySide(
            lambda one: one.make(), partial(_linked, target), threads, None
        )
        for one in (*FUNCTIONS, *wanted):
            work.add(one)
        work.finish()
    made = {bundle.key_of(one.name, one.description): code for one, code in work.made.items()}
    return made, [f"{one.name}: {error}" for one, error in work.failed.items()]


def _linked(target: Target, one: Wanted, text: str) -> tuple[bytes, int]:
    return link(llvm.compiled(text, target), one.name)


def host_level() -> str | None:
    """The largest level with a bundle that this machine runs; None where it runs none."""
    names = map(level_of, levels_here())
    return next((name for name in names if name and name.removesuffix("-windows") in BUNDLED), None)


def make(levels: Sequence[str], folder: Path = bundle.FOLDER, threads: int = 0) -> None:
    """Write the bundles of levels; what cannot be made is told."""
    for level in levels:
        begun = time.perf_counter()
        kernels, problems = compiled(level, threads or os.cpu_count() or 1)
        path = bundle.path_of(level, folder)
        bundle.write(path, LEVELS[level], kernels)
        print(
            f"{level}: {len(kernels):,} kernels, {path.stat().st_size / 1e6:.2f} MB, "
            f"{time.perf_counter() - begun:.1f} s",
            *(f"cannot be made: {problem}" for problem in problems),
            sep="\n  ",
            file=sys.stderr,
        )


def make_missing(choice: str) -> list[str]:
    """The levels of this architecture and system that have bundles now: the host's ("host"), or
    "all". Those that were made of these sources are left as they are.
    """
    system = next(levels_here(), None)
    if choice == "all":
        levels = [n for n in BUNDLED if system and LEVELS[n].arch == system.arch]
        levels = [named_for(system, n) for n in levels if system]
    else:
        levels = [level for level in [host_level()] if level]
    missing = [level for level in levels if bundle.bundle_of(LEVELS[level]) is None]
    for path in bundle.FOLDER.glob("*"):  # what other sources or another system have left
        if path.stem not in levels or path.stem in missing:
            path.unlink()
    make(missing)
    return levels


def named_for(host: Target, level: str) -> str:
    """The name of a level for the system of this machine."""
    return f"{level}-windows" if host.system == "windows" else level


def main() -> int:

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--level", action="append", choices=[*LEVELS], help="default: this machine")
    parser.add_argument("--all", action="store_true", help="every level that has a bundle")
    parser.add_argument("--out", type=Path, default=bundle.FOLDER, metavar="FOLDER")
    options = parser.parse_args()
    host = host_level()
    levels = [*BUNDLED] if options.all else options.level or [host] * (host is not None)
    try:
        make(levels, options.out)
    except (Unreadable, UncorkError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
