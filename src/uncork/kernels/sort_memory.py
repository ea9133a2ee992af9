"""The working memory of a kernel that sorts: see `codegen/radix_sort.py`."""

from __future__ import annotations

from uncork.kernels.kernel_plan import Operand, Workspace
from uncork.symbolic import SizeLike

#: The names of its arguments: the entries, as many again, and what digits are counted in.
SORTS = ("entries", "others", "counts")
#: Bytes of an entry, and of the counts.
ENTRY, _COUNTS = 8, 4096


def sort_memory(room: Workspace, rows: SizeLike, prefix: str = "") -> dict[str, Operand]:
    """The memory in which so many rows are sorted, by the names of the arguments, which begin with
    `prefix`.
    """
    sizes = (rows * ENTRY, rows * ENTRY, _COUNTS)
    return {prefix + name: room.take(size) for name, size in zip(SORTS, sizes, strict=True)}
