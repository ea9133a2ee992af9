"""Internal operation: floats that are whole numbers of a type, as such. Composites make it, where a
Convert would have to look at every number.
"""

from __future__ import annotations

from uncork.ops.convert import Convert1


class Whole(Convert1):
    """Convert of floats that are whole numbers of the type."""
