"""Element types, dimensions and shapes: the single description of a tensor that all layers share.

Names are OpenVINO's: `ElementType.f32`, `PartialShape`. A dimension may be an interval, a rank may
be unknown. Where sizes are inferred as symbols (`uncork.symbolic`), an open dimension and an
element of a small tensor may be a `Size`.
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, Union, overload

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from uncork.dimension import DYNAMIC as DYNAMIC
from uncork.dimension import Dimension as Dimension
from uncork.dimension import DimensionLike as DimensionLike
from uncork.symbolic import Size, plain

Array = npt.NDArray[Any]
#: The most dimensions of a tensor: NumPy's arrays have at most 32 before version 2, and some of its
#: functions still do.
MAX_RANK = 32


class ElementType(enum.Enum):
    """An element type of the IR.

    `bits` is the size of one value in `model.bin`; `dtype` is the NumPy type of the arrays that
    carry it in memory. Types that NumPy lacks are carried by their bits: bf16 as uint16, f8 and
    4-bit floats as uint8 codes; integers below a byte as one (u)int8 a value; strings as Python str
    in object arrays.
    """

    f64 = ("float", 64, "f8")
    f32 = ("float", 32, "f4")
    f16 = ("float", 16, "f2")
    bf16 = ("float", 16, "u2")
    f8e4m3 = ("float", 8, "u1", 0)
    f8e5m2 = ("float", 8, "u1", 1)
    f8e8m0 = ("float", 8, "u1", 2)
    f4e2m1 = ("float", 4, "u1", 0)
    nf4 = ("float", 4, "u1", 1)
    i64 = ("signed", 64, "i8")
    i32 = ("signed", 32, "i4")
    i16 = ("signed", 16, "i2")
    i8 = ("signed", 8, "i1")
    i4 = ("signed", 4, "i1")
    u64 = ("unsigned", 64, "u8")
    u32 = ("unsigned", 32, "u4")
    u16 = ("unsigned", 16, "u2")
    u8 = ("unsigned", 8, "u1")
    u6 = ("unsigned", 6, "u1")
    u4 = ("unsigned", 4, "u1")
    u3 = ("unsigned", 3, "u1")
    u2 = ("unsigned", 2, "u1")
    u1 = ("unsigned", 1, "u1")
    boolean = ("boolean", 8, "?")
    string = ("string", 0, "O")

    # The last field of some values only keeps types of equal layout apart: an enum would make them
    # aliases.
    def __init__(self, kind: str, bits: int, carrier: str, _distinct: int = 0) -> None:
        self._kind = kind
        self._bits = bits
        self._dtype: np.dtype[Any] = np.dtype(carrier)

    @property
    def kind(self) -> str:
        """The kind of the type: float, signed, unsigned, boolean or string."""
        return self._kind

    @property
    def bits(self) -> int:
        """The size of one value in the file, in bits; 0 for strings."""
        return self._bits

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the arrays that carry values of this type."""
        return self._dtype

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type, signed or unsigned, of any width; boolean is none."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_native(self) -> bool:
        """Whether NumPy has this very type, so that the carrier holds values and not codes."""
        return self in _NATIVE

    @property
    def is_packed(self) -> bool:
        """Whether several values share a byte in `model.bin`."""
        return 0 < self.bits < 8

    @property
    def ir_name(self) -> str:
        """The spelling used on ports of the XML (`FP32`); everywhere else the file uses the plain
        name.
        """
        return _PORT_NAMES.get(self, self.name.upper())

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ElementType.{self.name}"

    def __eq__(self, other: object) -> bool:
        """Whether it is the same type; the name of a type is equal to it too: `port.element_type ==
        "f32"`.
        """
        return self is other or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    @staticmethod
    def parse(text: str) -> ElementType:
        """An element type by either spelling of the file format, `f32` or `FP32`, in any case.
        Raises KeyError.
        """
        return _BY_NAME[text.strip().lower()]

    @staticmethod
    def of_dtype(dtype: npt.DTypeLike) -> ElementType | None:
        """The element type whose values NumPy's `dtype` holds, or None (bf16 and smaller floats
        have no NumPy type).
        """
        dtype = np.dtype(dtype)
        if dtype.kind in "UTO":
            return ElementType.string
        return _BY_DTYPE.get(dtype.newbyteorder("=") if dtype.byteorder == ">" else dtype)


#: Types of the `ml_dtypes` package (JAX, TensorFlow), known by name: NumPy has none for them.
ML_DTYPES = {
    "bfloat16": ElementType.bf16,
    "float8_e4m3fn": ElementType.f8e4m3,
    "float8_e5m2": ElementType.f8e5m2,
    "float8_e8m0fnu": ElementType.f8e8m0,
}


def type_of_dtype(dtype: npt.DTypeLike) -> ElementType | None:
    """The element type of a dtype, or of its name, those of `ml_dtypes` among them; else None."""
    name = str(getattr(dtype, "name", dtype))
    return ML_DTYPES.get(name) or ElementType.of_dtype(dtype)


_NATIVE = frozenset(
    t
    for t in ElementType
    if t.kind == "boolean"
    or (
        t.kind != "string"
        and t.bits >= 8
        and t.dtype.kind == {"float": "f", "signed": "i", "unsigned": "u"}[t.kind]
    )
)
_PORT_NAMES = {
    ElementType.f64: "FP64",
    ElementType.f32: "FP32",
    ElementType.f16: "FP16",
    ElementType.boolean: "BOOL",
    ElementType.u1: "BIN",
}
_BY_NAME = (
    {t.name: t for t in ElementType}
    | {t.ir_name.lower(): t for t in ElementType}
    | {"bool": ElementType.boolean}
)
_BY_DTYPE = {t.dtype: t for t in ElementType if t in _NATIVE}


_DIMENSION = re.compile(r"\s*(?:(\?|-1)|(\d+)|(\d*)\.\.(\d*))\s*", re.ASCII)


def _dimension(value: DimensionLike | tuple[int, int | None]) -> Dimension:
    """The Dimension of what `Dimension.of` takes, or of a pair of bounds of which the upper may be
    None or -1, for none.
    """
    if not isinstance(value, tuple):
        return Dimension.of(value)
    if len(value) != 2:
        raise ValueError(f"expected a pair of bounds for a dimension, got {value}")
    low, high = value
    return Dimension(index(low), None if high is None or high == -1 else index(high))


class PartialShape(Sequence[Dimension]):
    """A shape whose dimensions, or even rank, may be unknown. A slice of it is again a
    PartialShape.
    """

    __slots__ = ("_dims",)

    def __init__(
        self, dims: Iterable[DimensionLike | tuple[int, int | None]] | None = None
    ) -> None:
        """`PartialShape()` has unknown rank; `PartialShape([])` is a scalar. `(2, 8)` is a
        dimension from 2 to 8.
        """
        self._dims: tuple[Dimension, ...] | None = (
            None if dims is None else tuple(map(_dimension, dims))
        )

    @property
    def rank(self) -> int | None:
        return None if self._dims is None else len(self._dims)

    @property
    def dims(self) -> tuple[Dimension, ...]:
        """The dimensions; raises ValueError when the rank is unknown."""
        if self._dims is None:
            raise ValueError("the rank of this shape is unknown")
        return self._dims

    @property
    def is_static(self) -> bool:
        return self._dims is not None and all(d.low == d.high for d in self._dims)

    @property
    def static(self) -> tuple[int, ...]:
        """The sizes of a static shape; raises ValueError when it is dynamic."""
        return tuple(map(int, self.dims))

    @property
    def size(self) -> Dimension:
        """Number of elements."""
        if self._dims is None:
            return DYNAMIC
        product = Dimension(1, 1)
        for dim in self._dims:
            product = product * dim
        return product

    def __len__(self) -> int:
        return len(self.dims)

    @overload
    def __getitem__(self, index: int) -> Dimension: ...
    @overload
    def __getitem__(self, index: slice) -> PartialShape: ...
    def __getitem__(self, index: int | slice) -> Dimension | PartialShape:
        return PartialShape(self.dims[index]) if isinstance(index, slice) else self.dims[index]

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self.dims)

    def __add__(self, other: Iterable[DimensionLike]) -> PartialShape:
        return PartialShape((*self.dims, *other))

    def with_dimension(self, axis: int, size: DimensionLike) -> PartialShape:
        """The shape with another dimension at an axis, which is counted from 0."""
        return PartialShape((*self.dims[:axis], size, *self.dims[axis + 1 :]))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartialShape):
            return self._dims == other._dims
        return (
            isinstance(other, (tuple, list))
            and self._dims is not None
            and self._dims == PartialShape(other)._dims
        )

    def __hash__(self) -> int:
        return hash(self._dims)

    def compatible(self, other: PartialShape) -> bool:
        """Whether some static shape fits both, by the bounds."""
        if self._dims is None or other._dims is None:
            return True
        return len(self._dims) == len(other._dims) and all(
            a.compatible(b) for a, b in zip(self._dims, other._dims, strict=True)
        )

    def agrees(self, other: PartialShape) -> bool:
        """Whether some static shape fits both; where sizes are symbols, that they are equal is
        demanded of every call.
        """
        return self.merge(other) is not None

    def contains(self, shape: Sequence[int]) -> bool:
        """Whether the static `shape` is one of those described."""
        return self._dims is None or (
            len(shape) == len(self._dims)
            and all(d.contains(s) for d, s in zip(self._dims, shape, strict=True))
        )

    def merge(self, other: PartialShape) -> PartialShape | None:
        """The shapes that fit both; None when there is none."""
        if self._dims is None:
            return other
        if other._dims is None:
            return self
        if not self.compatible(other):
            return None
        merged = [a.merge(b) for a, b in zip(self._dims, other._dims, strict=True)]
        return None if None in merged else PartialShape(merged)

    def __str__(self) -> str:
        return "[...]" if self._dims is None else "[" + ",".join(map(str, self._dims)) + "]"

    def __repr__(self) -> str:
        return f"PartialShape({self})"

    @staticmethod
    def parse(text: str) -> PartialShape:
        """The shape that a text in the file's spelling means: `1,?,2`, `1..8`, `..8`, `-1`, `...`
        (unknown rank), empty for a scalar. Raises ValueError.
        """
        text = text.strip()
        if text == "...":
            return PartialShape()
        if not text:
            return PartialShape([])
        dims: list[Dimension] = []
        for part in text.split(","):
            match = _DIMENSION.fullmatch(part)
            if match is None or part.strip() == "..":
                raise ValueError(f"expected dimensions such as '1,?,2' or '1..8', got {text!r}")
            unknown, size, low, high = match.groups()
            if max(len(number or "") for number in (size, low, high)) > 19 or any(
                int(n or 0) >= 2**63 for n in (size, low, high)
            ):
                raise ValueError(f"expected dimensions below 2**63, got {part!r}")
            if unknown:
                dims.append(DYNAMIC)
            elif size:
                dims.append(Dimension(int(size), int(size)))
            else:
                dims.append(Dimension(int(low or 0), int(high) if high else None))
        return PartialShape(dims)

    def format(self) -> str:
        """The shape in the file's spelling; `PartialShape.parse` reads it back."""
        return "..." if self._dims is None else ",".join(map(str, self._dims))


#: An element of a small tensor as far as it is known: a number, an expression or neither.
Element = Union[int, Size, None]


class TensorSpec(Struct, frozen=True, eq=False):
    """What is known of a tensor: element type, shape and, for small integer tensors that shapes are
    computed from, values.

    `value` is the whole value (in the carrier dtype) or None. `elements` are, in C order, those
    elements of a tensor of static shape that are known where not all are numbers, as for the result
    of ShapeOf on a shape with open dimensions. An element of a boolean tensor is 0 or 1; one of a
    float tensor may be a Size that is no whole number. A spec has one of the two or neither.
    """

    element_type: ElementType
    shape: PartialShape
    value: Array | None = None
    elements: tuple[Element, ...] | None = None

    @staticmethod
    def of_array(element_type: ElementType, array: Array) -> TensorSpec:
        """The spec of a tensor whose values are known: an array in the carrier dtype."""
        return TensorSpec(element_type, PartialShape(array.shape), array)

    @property
    def rank(self) -> int | None:
        return self.shape.rank

    @property
    def known(self) -> Array:
        """The value, where the caller has seen that there is one."""
        assert self.value is not None, self
        return self.value

    @property
    def partial(self) -> tuple[Array, npt.NDArray[np.bool_]] | None:
        """`elements` as a pair (values, mask of those that are numbers)."""
        if self.elements is None:
            return None
        known = np.array([isinstance(e, int) for e in self.elements], bool)
        values = np.array(
            [e if isinstance(e, int) else 0 for e in self.elements], self.element_type.dtype
        )
        return values.reshape(self.shape.static), known.reshape(self.shape.static)

    @property
    def has_all_elements(self) -> bool:
        """Whether every element is a number or an expression."""
        return self.elements is not None and all(element is not None for element in self.elements)

    def dimensions(self) -> list[Dimension] | None:
        """The sizes that a 1-D or scalar integer tensor holds, unknown ones dynamic; None when its
        length is unknown.

        Negative values have no meaning as a size: callers that give -1 a meaning look at `integers`
        instead.
        """
        numbers = self.integers()
        if numbers is None:
            return None
        return [DYNAMIC if n is None or n < 0 else Dimension(n, n) for n in numbers]

    def integers(self) -> list[int | None] | None:
        """The elements of an integer tensor in order, None for each that is no known number; None
        when their count is unknown.
        """
        numbers = self.sizes()
        return None if numbers is None else [n if isinstance(n, int) else None for n in numbers]

    def sizes(self) -> list[Element] | None:
        """The elements as `integers` gives them, with expressions where sizes are symbols."""
        if self.value is not None:
            return [int(v) for v in np.asarray(self.value).ravel()]
        if self.elements is not None:
            return [
                e
                if not isinstance(e, Size) or (facts := e.facts) is None
                else plain(facts.canonical(e))
                for e in self.elements
            ]
        count = self.shape.size
        return [None] * int(count) if count.is_static and int(count) <= 64 else None

    def __str__(self) -> str:
        return f"{self.element_type}{self.shape}"


def is_masked(value: object) -> bool:
    """Whether the value is a masked array. NumPy's module of them takes long to import: where
    nobody has imported it, there are none.
    """
    kind = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return kind is not None and isinstance(value, kind)


def dtype_name(array: Array) -> str:
    """The name of an array's type in messages: the element type's name where there is one, else
    NumPy's.
    """
    element_type = ElementType.of_dtype(array.dtype)
    return element_type.name if element_type else str(array.dtype)


def describe_array(array: Array) -> str:
    """The type and shape of an array as messages show them: `i64[2,3]`."""
    order = "" if array.dtype.isnative else " in the byte order of other processors"
    return f"{dtype_name(array)}[{','.join(map(str, array.shape))}]{order}"
