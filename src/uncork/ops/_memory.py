"""The limit of memory that outputs are held against before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.errors import InputError
from uncork.memory import available
from uncork.types import TensorSpec


def is_beyond_arrays(spec: TensorSpec) -> bool:
    """Whether no array has the known dimensions: one that is empty has a limit, too."""
    sizes = [dim.low for dim in spec.shape.dims if dim.is_static]
    return _step(spec) * math.prod(n or 1 for n in sizes) >= 2**63


def _step(spec: TensorSpec) -> int:
    """Bytes of an element. Small floats are computed as f32 and rounded in steps: the result alone
    is not what it takes.
    """
    if spec.element_type.is_float and spec.element_type.bits < 32:
        return 16
    return int(spec.element_type.dtype.itemsize)


def check_memory(specs: Sequence[TensorSpec]) -> None:
    """Refuse, before anything is computed, outputs that this process cannot hold: overcommit would
    let the process be killed.
    """
    needed = 0
    for spec in specs:
        if spec.shape.is_static:
            sizes = [dim.low for dim in spec.shape.dims]
            needed += _step(spec) * math.prod(sizes)
            most, whose = available()
            if needed > most:
                raise InputError(
                    f"the output {spec} needs {needed:,} bytes, more than {whose} ({most:,} bytes)"
                )
            if 0 in sizes and is_beyond_arrays(spec):
                raise InputError(
                    f"the output {spec} is empty, but its other dimensions are more "
                    "than an array can have"
                )
