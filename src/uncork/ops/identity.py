"""Identity-16: the input as it is, of any element type.

Page: operation-specs/activation/identity-16.
"""

from __future__ import annotations

from uncork.ops._operation import Passing, register
from uncork.ops._ports import ANY, Input


@register("Identity", 16)
class Identity16(Passing):
    """`input` of any shape."""

    input = Input(ANY, "T", moved=True)
