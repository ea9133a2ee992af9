"""The store of compiled kernels, by its former name.

It lives in `runtime/kernel_cache.py`; scripts that people keep to attack the store import it from here.
"""

from uncork.kernels.runtime.kernel_cache import ObjectStore

__all__ = ["ObjectStore"]
