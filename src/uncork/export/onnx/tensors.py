"""Values as ONNX's TensorProto: element types, bytes, and constants that are filled in late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from uncork.files import let_go
from uncork.internal_ops.packed_const import PackedConst
from uncork.onnx.types import ONNX_TYPES
from uncork.ops.parameter import Const
from uncork.storage import pack, packed_size
from uncork.types import Array, ElementType

T = ElementType
#: Types of four bits, which constants keep: ONNX packs them as the IR does.
_FOUR_BITS = {T.u4: 21, T.i4: 22, T.nf4: 21, T.f4e2m1: 21}
#: Elements that are written at a time.
_BLOCK = 1 << 22


def small_tensor(name: str, array: Array, element_type: ElementType) -> Any:
    """A TensorProto with its values, which are in the carrier type."""
    from onnx import TensorProto

    tensor = TensorProto(name=name, data_type=ONNX_TYPES[element_type], dims=array.shape)
    if element_type is T.string:
        tensor.string_data.extend(str(v).encode() for v in array.reshape(-1))
    else:
        tensor.raw_data = np.ascontiguousarray(
            array.astype(array.dtype.newbyteorder("<"), copy=False)
        ).tobytes()
    return tensor


def stored_as(element_type: ElementType) -> int:
    """The data type of an initializer that holds a constant of this type."""
    from uncork.export.onnx.signatures import carrier

    return _FOUR_BITS.get(element_type) or ONNX_TYPES[carrier(element_type)]


def is_packed(element_type: ElementType) -> bool:
    """Whether initializers of this type hold two values a byte, which are cast to a byte each."""
    return element_type in _FOUR_BITS


def stored_size(constant: Const) -> int:
    """Bytes that a constant takes in the ONNX file; strings by their texts."""
    if constant.element_type is T.string:
        return sum(len(str(v).encode()) for v in constant.value.reshape(-1))
    if is_packed(constant.element_type):
        return packed_size(constant.element_type, constant.count)
    return constant.count * constant.element_type.dtype.itemsize


def stored_bytes(constant: Const) -> Iterator[Any]:
    """The bytes of a constant in pieces, each good until the next; strings have none.

    Of a mapped file no more is in memory than a piece.
    """
    if isinstance(constant, PackedConst):
        yield constant.packed.data
        return
    flat = constant.value.reshape(-1)
    for start in range(0, constant.count, _BLOCK):
        part = flat[start : start + _BLOCK]
        if is_packed(constant.element_type):
            yield pack(part, constant.element_type)
        else:
            yield (
                np.ascontiguousarray(part.astype(part.dtype.newbyteorder("<"), copy=False))
                .view(np.uint8)
                .data
            )
        let_go(part)
