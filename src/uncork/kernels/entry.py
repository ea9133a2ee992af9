"""The method table of native calls, by its former name.

It lives in `runtime/entry_method.py`; scripts that try to break first calls by several threads look
from here whether every function that runs has the one table that is kept.
"""

from uncork.kernels.runtime.entry_method import _definition

__all__ = ["_definition"]
