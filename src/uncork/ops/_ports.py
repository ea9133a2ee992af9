"""How an operation declares its ports and attributes: `Input`, `Output`, `Attribute`, and the sets
of element types they take.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, overload

from msgspec import Struct

from uncork.errors import ValidationError
from uncork.types import DimensionLike, ElementType, PartialShape

V = TypeVar("V")
Self = TypeVar("Self", bound="Field[Any]")
Types = frozenset[ElementType]

ANY: Types = frozenset(ElementType)
FLOAT: Types = frozenset(t for t in ElementType if t.is_float)
INTEGER: Types = frozenset(t for t in ElementType if t.is_integer and t.bits >= 8)
NUMERIC: Types = frozenset(t for t in ElementType if t.is_float or t.is_integer)
#: What sums and products are defined on: every number of at least a byte.
ARITHMETIC: Types = (
    FLOAT
    - {
        ElementType.f4e2m1,
        ElementType.nf4,
        ElementType.f8e4m3,
        ElementType.f8e5m2,
        ElementType.f8e8m0,
    }
    | INTEGER
)
REAL: Types = frozenset({ElementType.f64, ElementType.f32, ElementType.f16, ElementType.bf16})
I32_I64: Types = frozenset({ElementType.i32, ElementType.i64})
BOOLEAN: Types = frozenset({ElementType.boolean})
STRING: Types = frozenset({ElementType.string})


def describe_types(types: Types) -> str:
    """How a message names a set of element types."""
    if types == INTEGER:
        return "an integer type (i8 to i64, u8 to u64)"
    if types == REAL:
        return "a floating-point type (f16, bf16, f32, f64)"
    names = [t.name for t in ElementType if t in types]
    return names[0] if len(names) == 1 else "one of " + ", ".join(names)


class Input(Struct, eq=False):
    """An input port. Inputs with the same `type_variable` must have the same element type.

    `types` is what the port takes; `moved` says that the operation moves this input's values
    without computing with them (its stored bits, so every element type passes exactly); a
    `variadic` input takes all that remain and must be last. `ids` says that its numbers choose
    rows, places or lengths: cut to fewer bits, they choose others.
    """

    types: Types
    type_variable: str = ""
    optional: bool = False
    variadic: bool = False
    moved: bool = False
    ids: bool = False
    name: str = ""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name


class Output(Struct, eq=False):
    """An output port. `type_of` is the type variable of an input, or a fixed element type, or None:
    `infer` returns whole specs.
    """

    type_of: str | ElementType | None = None
    name: str = ""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name


class _Required:
    pass


REQUIRED = _Required()


class Kind(Struct, Generic[V], eq=False):
    """How an attribute's value is read from and written to the file. `parse` raises ValueError or
    KeyError on other text.
    """

    expected: str
    parse: Callable[[str], V]
    format: Callable[[V], str]


class Field(Generic[V]):
    """A value that an operation has beside the attributes of the file: a constant's array, a loop's
    bodies.
    """

    def __init__(self, default: V | _Required = REQUIRED) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name

    @overload
    def __get__(self: Self, operation: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, operation: object, owner: type[object]) -> V: ...
    def __get__(self: Self, operation: object | None, owner: type[object]) -> Self | V:
        # An operation keeps its values under these names, where Python looks first.
        if operation is None:
            return self
        raise AttributeError(f"'{self.name}' of this {owner.__name__} was not given")

    def given(self, value: V) -> V:
        """A value from Python, as it is kept."""
        return value


class Several(Field[tuple[V, ...]]):
    """A field of several values."""

    def given(self, value: Sequence[V]) -> tuple[V, ...]:
        return tuple(value)


class Attribute(Field[V]):
    """An attribute of an operation, as the file spells it; an operation has the parsed value."""

    def __init__(
        self,
        kind: Kind[V],
        default: V | _Required = REQUIRED,
        check: Callable[[V], str | None] | None = None,
    ) -> None:
        """`check` returns what is expected instead when a value is not acceptable, else None."""
        super().__init__(default)
        self.kind = kind
        self.check = check

    def read(self, text: str | None) -> V:
        """The value from the file's text; the default when the file does not have the attribute."""
        if text is None:
            if isinstance(self.default, _Required):
                raise ValidationError(
                    f"attribute '{self.name}' is missing: expected {self.kind.expected}"
                )
            return self.default
        try:
            value = self.kind.parse(text)
        except (ValueError, KeyError, OverflowError):
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise ValidationError(
                f"attribute '{self.name}': expected {self.kind.expected}, got '{shown}'"
            ) from None
        return self.accept(value)

    def given(self, value: V) -> V:
        """A value from Python, as the file's text would have given it: numbers of NumPy, lists and
        other spellings are fine.
        """
        try:
            return self.read(self.kind.format(value))
        except (TypeError, AttributeError, ValueError) as error:
            if isinstance(error, ValidationError):
                raise
            raise ValidationError(
                f"attribute '{self.name}': expected {self.kind.expected}, got {value!r}"
            ) from None

    def accept(self, value: V) -> V:
        expected = self.check(value) if self.check else None
        if expected:
            raise ValidationError(f"attribute '{self.name}': expected {expected}, got {value}")
        return value


_INTEGER = re.compile(r"[+-]?\d{1,20}", re.ASCII)


def _parse_bool(text: str) -> bool:
    # OpenVINO takes every other word for false without a word; a typing error in a flag must not
    # change the model.
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
        text.strip().lower()
    ]


def _parse_int(text: str, end: int = 2**64) -> int:
    # Python would also take 1_000 and the digits of other scripts; the format's numbers have 64
    # bits.
    if _INTEGER.fullmatch(text.strip()) is None or not -(2**63) <= int(text) < end:
        raise ValueError(text)
    return int(text)


def _parse_float(text: str) -> float:
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


def _format_float(value: float) -> str:
    return "inf" if value == math.inf else "-inf" if value == -math.inf else repr(float(value))


def _join(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))


integer: Kind[int] = Kind("an integer", _parse_int, str)
number: Kind[float] = Kind("a number", _parse_float, _format_float)
boolean: Kind[bool] = Kind("true or false", _parse_bool, lambda v: "true" if v else "false")
text: Kind[str] = Kind("text", str, str)
integers: Kind[tuple[int, ...]] = Kind(
    "a list of integers", lambda t: tuple(_parse_int(p, 2**63) for p in _split(t)), _join
)
numbers: Kind[tuple[float, ...]] = Kind(
    "a list of numbers",
    lambda t: tuple(_parse_float(p) for p in _split(t)),
    lambda v: ", ".join(map(_format_float, v)),
)
names: Kind[tuple[str, ...]] = Kind("a list of names", lambda t: tuple(_split(t)), _join)
element_type: Kind[ElementType] = Kind("an element type such as f32 or i64", ElementType.parse, str)
#: None is `dynamic`, which OpenVINO writes for a variable of which it knows no type (`undefined`
#: before 2024).
element_type_or_dynamic: Kind[ElementType | None] = Kind(
    "an element type such as f32 or i64, or dynamic",
    lambda t: None if t.strip().lower() in ("dynamic", "undefined") else ElementType.parse(t),
    lambda v: "dynamic" if v is None else str(v),
)


def _shape_text(value: PartialShape | str | Iterable[DimensionLike]) -> str:
    """A shape, its text or its sizes as files have it."""
    if isinstance(value, str):
        return value
    return (value if isinstance(value, PartialShape) else PartialShape(value)).format()


shape: Kind[PartialShape] = Kind("a shape such as '1,?,2'", PartialShape.parse, _shape_text)


def one_of(*choices: str) -> Kind[str]:
    """The kind of an attribute that is one of some words, in any case; the value is the word as
    written here.
    """
    by_lower = {c.lower(): c for c in choices}
    return Kind("one of " + ", ".join(choices), lambda t: by_lower[t.strip().lower()], str)


def index_type(default: ElementType | _Required = ElementType.i64) -> Attribute[ElementType]:
    """The attribute that says the type of outputs that hold indices or counts."""
    return Attribute(element_type, default, lambda t: None if t in I32_I64 else "i32 or i64")


def at_least(minimum: int) -> Callable[[Any], str | None]:
    """A check for `Attribute(check=...)`: the value is at least `minimum`."""
    return lambda value: None if value >= minimum else f"at least {minimum}"
