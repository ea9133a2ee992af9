"""The operations: meaning only, no speed, no file format. One file per operation, all its versions inside.

Importing this package registers every operation found in its folder; there is no list of names to keep.
"""

import importlib
import pkgutil

from uncork.ops._operation import Operation, find, registered, type_names, versions_of

for _module in pkgutil.iter_modules(__path__):
    if not _module.name.startswith("_"):
        importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["Operation", "find", "registered", "type_names", "versions_of"]
