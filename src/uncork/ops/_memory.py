"""The limit of memory that outputs are held against before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.errors import InputError
from uncork.memory import available
from uncork.types import TensorSpec


def check_memory(specs: Sequence[TensorSpec]) -> None:
    """Refuse, before anything is computed, outputs that this process cannot hold: overcommit would
    let the process be killed.
    """
    needed = 0
    for spec in specs:
        if spec.shape.is_static:
            # Small floats are computed as f32 and rounded in steps: the result alone is not what it
            # takes.
            size = (
                16
                if spec.element_type.is_float and spec.element_type.bits < 32
                else spec.element_type.dtype.itemsize
            )
            sizes = [dim.low for dim in spec.shape.dims]
            needed += size * math.prod(sizes)
            most, whose = available()
            if needed > most:
                raise InputError(
                    f"the output {spec} needs {needed:,} bytes, more than {whose} ({most:,} bytes)"
                )
            if 0 in sizes and size * math.prod(n or 1 for n in sizes) >= 2**63:
                raise InputError(
                    f"the output {spec} is empty, but its other dimensions are more "
                    "than an array can have"
                )
