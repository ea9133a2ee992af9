"""Element types in torch: the type that carries each, and its name in the source."""

from __future__ import annotations

import math

import numpy as np

from uncork.errors import UnsupportedError
from uncork.storage import decode
from uncork.types import Array, ElementType

T = ElementType
#: Types of torch that take part in its arithmetic.
TORCH_TYPES = {
    T.f64: "torch.float64",
    T.f32: "torch.float32",
    T.f16: "torch.float16",
    T.bf16: "torch.bfloat16",
    T.i64: "torch.int64",
    T.i32: "torch.int32",
    T.i16: "torch.int16",
    T.i8: "torch.int8",
    T.u8: "torch.uint8",
    T.boolean: "torch.bool",
}
#: Unsigned types that torch stores and hardly computes with: inside the module they are int64.
WIDE = {T.u16: "torch.uint16", T.u32: "torch.uint32", T.u64: "torch.uint64"}
#: Numbers of fewer bits than eight, and codes of small floats, one a byte.
CODES = (T.u1, T.u2, T.u3, T.u4, T.u6, T.nf4, T.f4e2m1, T.f8e8m0, T.f8e4m3, T.f8e5m2)
_LARGEST = float(np.finfo(np.float32).max)
_FLOAT8 = {T.f8e4m3: "torch.float8_e4m3fn", T.f8e5m2: "torch.float8_e5m2"}


def dtype(element_type: ElementType) -> str:
    """The torch type that carries values of this type in the module, as its source says."""
    if element_type in TORCH_TYPES:
        return TORCH_TYPES[element_type]
    if element_type in WIDE:
        return "torch.int64"
    if element_type in CODES:
        return "torch.uint8"
    if element_type is T.i4:
        return "torch.int8"
    raise UnsupportedError(f"torch has no tensors of {element_type}")


def float8(element_type: ElementType) -> str | None:
    """Torch's own type of these codes."""
    return _FLOAT8.get(element_type)


def stored(element_type: ElementType, value: Array) -> Array:
    """A constant's array as numbers of the type that carries it; bf16 as its bits in i16."""
    if element_type is T.bf16:
        return value.view(np.int16)
    if element_type in WIDE:
        return value.astype(np.int64)
    return value


def literal(element_type: ElementType, value: Array) -> str:
    """The source of one number. f32 by its shortest text, which torch rounds to f32 again; where
    that text lies beyond the largest f32, by its exact value.
    """
    number = decode(value, element_type).reshape(-1)[0]
    if element_type is T.boolean:
        return str(bool(number))
    if not element_type.is_float:
        whole = int(number)
        return str(whole - 2**64 if whole >= 2**63 else whole)
    if not math.isfinite(float(number)):
        return f'float("{float(number)}")'
    short = float(str(number)) if element_type is T.f32 else float(number)
    return repr(short if abs(short) <= _LARGEST else float(number))
