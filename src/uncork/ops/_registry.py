"""Finding operations: which file declares a type, and which version is in force in an opset."""

from __future__ import annotations

import functools
import importlib
import os

from uncork.concurrency import unforked
from uncork.ops._modules import MODULES
from uncork.ops._operation import Operation, declared

_FOLDER = os.path.dirname(__file__)
_PACKAGE = __package__


@functools.lru_cache(maxsize=1)
def _import_all() -> None:
    with unforked():
        import pkgutil  # which a start can do without

        for module in pkgutil.iter_modules([_FOLDER]):
            if not module.name.startswith("_"):
                importlib.import_module(f"{_PACKAGE}.{module.name}")


@functools.cache
def _import_one(type_name: str) -> None:
    with unforked():
        importlib.import_module(f"{_PACKAGE}.{MODULES[type_name]}")


def versions_of(type_name: str) -> dict[int, type[Operation]]:
    """Every version of an operation by the opset that brought it; empty when there is none."""
    if type_name in MODULES:
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
