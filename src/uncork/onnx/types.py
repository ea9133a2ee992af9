"""The numbers that ONNX has for element types, for reading and for writing."""

from __future__ import annotations

from uncork.errors import UnsupportedError, ValidationError
from uncork.types import ElementType

T = ElementType
#: Numbers of onnx.TensorProto.DataType of the types that the exporter writes.
ONNX_TYPES = {
    T.f32: 1,
    T.u8: 2,
    T.i8: 3,
    T.u16: 4,
    T.i16: 5,
    T.i32: 6,
    T.i64: 7,
    T.string: 8,
    T.boolean: 9,
    T.f16: 10,
    T.f64: 11,
    T.u32: 12,
    T.u64: 13,
    T.bf16: 16,
    T.f8e4m3: 17,
    T.f8e5m2: 19,
}
#: The types that are only read: the rest of what the IR has.
_READ = {21: T.u4, 22: T.i4, 23: T.f4e2m1, 24: T.f8e8m0, 25: T.u2}
ELEMENT_TYPES = {number: kind for kind, number in ONNX_TYPES.items()} | _READ
_OTHERS = {
    14: "complex64",
    15: "complex128",
    18: "float8e4m3fnuz",
    20: "float8e5m2fnuz",
    26: "int2",
    27: "float6e2m3",
    28: "float6e3m2",
}


def element_type_of(number: int) -> ElementType:
    """The element type of a number of ONNX. Raises UnsupportedError, ValidationError."""
    if number in ELEMENT_TYPES:
        return ELEMENT_TYPES[number]
    if number in _OTHERS:
        raise UnsupportedError(
            f"tensors of {_OTHERS[number]} are not supported, the IR has no such type: "
            "export the model with another type"
        )
    raise ValidationError(f"expected the number of an element type, got {number}")
