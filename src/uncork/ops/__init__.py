"""The operations: meaning only, no speed, no file format. One file per operation, all its versions
inside.

Every file of this folder that does not begin with an underscore registers the operations it
declares; there is no list of names to keep. A model needs a dozen of them, so a file is imported
when its operation is first asked for.
"""

from uncork.ops._operation import Operation
from uncork.ops._registry import find, registered, type_names, versions_of

__all__ = ["Operation", "find", "registered", "type_names", "versions_of"]
