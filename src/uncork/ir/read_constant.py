"""The values of a Const layer, which lie in model.bin."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from uncork import storage
from uncork.errors import ReadError
from uncork.internal_ops.packed_const import PackedConst
from uncork.ir.diagnostics import shown, unsigned
from uncork.ir.weights import Weights
from uncork.ops._operation import FOLD_LIMIT
from uncork.ops.parameter import Const


def read_constant(constant: Const, attributes: Mapping[str, str], weights: Weights) -> Const:
    """The constant with its value, as the attributes `offset` and `size` say. Raises ReadError."""
    numbers: list[int] = []
    for name in ("offset", "size"):
        number = unsigned(attributes.get(name))
        if number is None:
            raise ReadError(
                f"attribute '{name}': expected a number of bytes, got {shown(attributes.get(name))}"
            )
        numbers.append(number)
    offset, size = numbers
    needed = storage.packed_size(constant.element_type, constant.count)
    if size < needed:
        raise ReadError(
            f"expected {needed} bytes for "
            f"{constant.element_type}[{constant.shape.format()}], "
            f"the attribute 'size' says {size}"
        )
    # NumPy refuses shapes with a product beyond its index type even where a 0 among the
    # dimensions makes it empty.
    if (
        math.prod(max(d, 1) for d in constant.shape.static) * constant.element_type.dtype.itemsize
        >= 2**63
    ):
        raise ReadError(
            f"expected a shape of less than 2**63 bytes, got [{constant.shape.format()}]"
        )
    data = weights.slice(offset, size) if size else memoryview(b"")
    if constant.element_type.is_packed and constant.count > FOLD_LIMIT:
        # As arrays these would take twice the room or more, and memory of their own: they stay
        # mapped until somebody asks for values.
        return PackedConst.of(
            constant.element_type, constant.shape.static, np.frombuffer(data, np.uint8, needed)
        )
    values = storage.unpack(data, constant.element_type, constant.count)
    return constant.replace(value=values.reshape(constant.shape.static))
