"""`Type`: an element type as programs for OpenVINO name it, `Type.f32`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from uncork.openvino._attribute import attribute
from uncork.types import ElementType

#: Types in which OpenVINO keeps quantized numbers.
_QUANTIZED = ("i8", "u8", "i4", "nf4", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1")
#: Types that OpenVINO shows by their names in C.
_C_NAMES = {
    "f64": "double64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "nf4": "nfloat4",
    "boolean": "char",
}


class Type:
    """An element type. `Type(np.float32)` is that of NumPy's type; `Type.dynamic` is none yet."""

    f64: ClassVar[Type]
    f32: ClassVar[Type]
    f16: ClassVar[Type]
    bf16: ClassVar[Type]
    f8e4m3: ClassVar[Type]
    f8e5m2: ClassVar[Type]
    f8e8m0: ClassVar[Type]
    f4e2m1: ClassVar[Type]
    nf4: ClassVar[Type]
    i64: ClassVar[Type]
    i32: ClassVar[Type]
    i16: ClassVar[Type]
    i8: ClassVar[Type]
    i4: ClassVar[Type]
    u64: ClassVar[Type]
    u32: ClassVar[Type]
    u16: ClassVar[Type]
    u8: ClassVar[Type]
    u6: ClassVar[Type]
    u4: ClassVar[Type]
    u3: ClassVar[Type]
    u2: ClassVar[Type]
    u1: ClassVar[Type]
    boolean: ClassVar[Type]
    string: ClassVar[Type]
    dynamic: ClassVar[Type]

    _element: ElementType | None

    def __new__(cls, dtype: npt.DTypeLike) -> Type:
        """The type of NumPy's `dtype`. Raises TypeError where there is none."""
        return type_of_dtype(np.dtype(dtype))

    def get_type_name(self) -> str:
        """The name, such as "f32"."""
        return "dynamic" if self._element is None else self._element.name

    def to_string(self) -> str:
        """The name, such as "f32"."""
        return self.get_type_name()

    type_name = attribute(get_type_name)

    def to_dtype(self) -> np.dtype[Any]:
        """The type of the arrays that hold such values.

        Where NumPy has none, their bits: float16 for bf16, (u)int8 for what is smaller than a byte.
        """
        if self._element is None:
            raise IndexError("a dynamic type has no type of NumPy")
        if self._element is ElementType.string:
            return np.dtype("S")
        if self._element is ElementType.bf16:
            return np.dtype(np.float16)
        return self._element.dtype

    def get_bitwidth(self) -> int:
        """Bits of a value."""
        return 0 if self._element is None else self._element.bits or 256

    def get_size(self) -> int:
        """Bytes of a value; 1 for those of fewer bits."""
        return (self.get_bitwidth() + 7) // 8

    bitwidth = attribute(get_bitwidth)

    size = attribute(get_size)

    def is_static(self) -> bool:
        """Whether it is a type."""
        return self._element is not None

    def is_dynamic(self) -> bool:
        """Whether it is not known yet."""
        return self._element is None

    def is_real(self) -> bool:
        """Whether it is one of floats."""
        return self._element is not None and self._element.is_float

    def is_integral(self) -> bool:
        """Whether it is no type of floats: integers, booleans, strings."""
        return not self.is_real()

    def is_integral_number(self) -> bool:
        """Whether it is a type of integers."""
        return self._element is not None and self._element.is_integer

    def is_signed(self) -> bool:
        """Whether it has negative values; OpenVINO counts boolean in."""
        return self._element is not None and self._element.kind in ("float", "signed", "boolean")

    def is_quantized(self) -> bool:
        """Whether it is one in which quantized numbers are kept."""
        return self.get_type_name() in _QUANTIZED

    real = attribute(is_real)

    integral = attribute(is_integral)

    integral_number = attribute(is_integral_number)

    signed = attribute(is_signed)

    quantized = attribute(is_quantized)

    def compatible(self, other: Type) -> bool:
        """Whether both may be the same type."""
        return self is other or self._element is None or other._element is None

    def merge(self, other: Type) -> Type | None:
        """The type that both are; None where they differ."""
        if not self.compatible(other):
            return None
        return other if self._element is None else self

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self.get_type_name())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_named, (self.get_type_name(),))

    def __repr__(self) -> str:
        name = self.get_type_name()
        if self.is_integral_number():
            name = f"{'int' if name[0] == 'i' else 'uint'}{name[1:]}_t"
        return f"<Type: '{_C_NAMES.get(name, name)}'>"

    __str__ = __repr__


def _made(element: ElementType | None) -> Type:
    made = object.__new__(Type)
    made._element = element
    setattr(Type, made.get_type_name(), made)
    return made


_OF: dict[ElementType | None, Type] = {e: _made(e) for e in (*ElementType, None)}


def _named(name: str) -> Type:
    found: Type = getattr(Type, name)
    return found


def of_element(element: ElementType | None) -> Type:
    """The Type of uncork's element type; None is dynamic."""
    return _OF[element]


def type_of_dtype(dtype: np.dtype[Any]) -> Type:
    """The Type of NumPy's. Raises TypeError where there is none."""
    if dtype.kind in "USTO":
        return Type.string
    if dtype.name == "bfloat16":
        return Type.bf16
    element = ElementType.of_dtype(dtype)
    if element is None:
        raise TypeError(f"there is no element type for arrays of {dtype}")
    return of_element(element)


def element_of(value: Any) -> ElementType:
    """The element type that a program means: a Type, its name, or a type of NumPy.

    Raises TypeError for anything else.
    """
    if isinstance(value, ElementType):
        return value
    if isinstance(value, str):
        try:
            return ElementType.parse(value)
        except KeyError:
            pass  # "float32": NumPy's name
    made = value if isinstance(value, Type) else type_of_dtype(np.dtype(value))
    if made._element is None:
        raise TypeError("expected an element type such as Type.f32, got Type.dynamic")
    return made._element
