"""The method table of native calls, by its former name.

It lives in `runtime/segment.py`; scripts that people keep to attack first calls by several threads look from here whether
every function that runs has the one table that is kept.
"""

from uncork.kernels.runtime.segment import _definition

__all__ = ["_definition"]
