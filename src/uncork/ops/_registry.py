"""Finding operations: which file declares a type, and which version is in force in an opset."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from pathlib import Path

from uncork.concurrency import unforked
from uncork.ops._operation import Operation, declared

_FOLDER = Path(__file__).parent
_PACKAGE = __package__
_DECLARATION = re.compile(r'^@register\("(\w+)", \d+\)$', re.MULTILINE)


@functools.lru_cache(maxsize=1)
def _files() -> Mapping[str, str]:
    """The module of each operation type, read off the source: importing a hundred modules would
    cost what a whole start may.

    Only a short cut. A type that is not here is looked for in all modules, so an installation
    without source works too.
    """
    files: dict[str, str] = {}
    for path in _FOLDER.glob("[!_]*.py"):
        files.update(
            dict.fromkeys(_DECLARATION.findall(path.read_text(encoding="utf-8")), path.stem)
        )
    return files


@functools.lru_cache(maxsize=1)
def _import_all() -> None:
    with unforked():
        import pkgutil  # which a start can do without

        for module in pkgutil.iter_modules([str(_FOLDER)]):
            if not module.name.startswith("_"):
                importlib.import_module(f"{_PACKAGE}.{module.name}")


@functools.cache
def _import_one(type_name: str) -> None:
    with unforked():
        importlib.import_module(f"{_PACKAGE}.{_files()[type_name]}")


def versions_of(type_name: str) -> dict[int, type[Operation]]:
    """Every version of an operation by the opset that brought it; empty when there is none."""
    if type_name in _files():
        _import_one(type_name)
    if type_name not in declared:
        _import_all()
    return dict(declared.get(type_name, {}))


def find(type_name: str, opset: int) -> type[Operation] | None:
    """The version of an operation that is in force in an opset: the newest that is not newer than
    the opset.
    """
    versions = versions_of(type_name)
    usable = [version for version in versions if version <= opset]
    return versions[max(usable)] if usable else None


def registered() -> list[type[Operation]]:
    """Every operation, by type and version."""
    return [versions[v] for versions in map(versions_of, type_names()) for v in sorted(versions)]


def type_names() -> list[str]:
    """The types of all operations, in order."""
    _import_all()
    return sorted(declared)
