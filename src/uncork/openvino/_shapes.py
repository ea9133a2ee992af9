"""`Dimension`, `PartialShape` and `Shape`, as programs for OpenVINO make and ask them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import index
from typing import Any, overload

from uncork import types
from uncork.openvino._attribute import attribute
from uncork.openvino._errors import invalid, not_offered

_MOST = 2**63 - 1


class Dimension:
    """One size of a shape: a number, an interval (`Dimension(2, 8)`), or open (`Dimension()`)."""

    __slots__ = ("_size",)

    def __init__(self, low: Any = None, high: int | None = None) -> None:
        """`-1` is open, below or above; a text is read as in "2..8"."""
        self._size = _dimension(low) if high is None else _interval(low, high)

    @staticmethod
    def dynamic() -> Dimension:
        """An open one."""
        return Dimension()

    @property
    def is_dynamic(self) -> bool:
        """Whether it is no single number."""
        return not self._size.is_static

    @property
    def is_static(self) -> bool:
        """Whether it is a single number."""
        return self._size.is_static

    def get_length(self) -> int:
        """The number. Raises RuntimeError for a dynamic one."""
        if not self._size.is_static:
            raise invalid(f"expected a static dimension, got {self}: it has no length")
        return self._size.low

    def get_min_length(self) -> int:
        """The least number."""
        return self._size.low

    def get_max_length(self) -> int:
        """The greatest number; -1 where there is none."""
        return -1 if self._size.high is None else self._size.high

    min_length = attribute(get_min_length)

    max_length = attribute(get_max_length)

    def compatible(self, other: Any) -> bool:
        """Whether some number is both."""
        return self._size.compatible(_dimension(other))

    def same_scheme(self, other: Any) -> bool:
        """Whether both are open, or both the same number."""
        mine, yours = self._size, _dimension(other)
        return mine.is_static == yours.is_static and (not mine.is_static or mine.low == yours.low)

    def refines(self, other: Any) -> bool:
        """Whether every number that it may be is one of the other."""
        mine, yours = self._size, _dimension(other)
        return mine.low >= yours.low and (
            yours.high is None or (mine.high is not None and mine.high <= yours.high)
        )

    def relaxes(self, other: Any) -> bool:
        """Whether every number of the other is one of its own."""
        return Dimension(other).refines(self)

    has_symbol = get_symbol = set_symbol = not_offered(
        "sizes have no symbols in this API: compare their bounds"
    )

    def to_string(self) -> str:
        """As files spell it: "3", "?", "2..8"."""
        low, high = self._size.low, self._size.high
        if self._size.is_static:
            return str(low)
        if high is None:
            return f"{low}.." if low else "?"
        return f"{low or ''}..{high}"

    def __len__(self) -> int:
        return self.get_length()

    def __index__(self) -> int:
        return self.get_length()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Dimension, int)) and not isinstance(other, bool):
            size = _dimension(other)
            return (self._size.low, self._size.high) == (size.low, size.high)
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self._size.low, self._size.high))

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<Dimension: {self}>"


def _interval(low: Any, high: int) -> types.Dimension:
    try:
        return types.Dimension(
            max(index(low), 0), None if high == -1 or high == _MOST else index(high)
        )
    except ValueError as error:
        raise invalid(str(error)) from None


def _dimension(value: Any) -> types.Dimension:
    """uncork's dimension of what a program gives for one."""
    if isinstance(value, Dimension):
        return value._size
    if isinstance(value, types.Dimension):
        return value
    if isinstance(value, str):
        value = value.strip()
        try:
            (only,) = types.PartialShape.parse(f"{value}2147483647" if value == ".." else value)
        except ValueError as error:
            raise invalid(f"expected a dimension such as '3', '?' or '2..8': {error}") from None
        return only
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise invalid(f"expected a pair of bounds for a dimension, got {value!r}")
        return _interval(*value)
    try:
        return types.Dimension.of(value)
    except ValueError as error:
        raise invalid(str(error)) from None


class PartialShape:
    """A shape of which sizes, or even their number, may be open.

    `PartialShape([1, -1, (2, 8)])`, `PartialShape("1,?,2..8")`, `PartialShape.dynamic()`.
    """

    __slots__ = ("_sizes",)

    def __init__(self, shape: Any) -> None:
        self._sizes: list[Dimension] | None = _sizes(shape)

    @staticmethod
    def dynamic(rank: Any = None) -> PartialShape:
        """A shape of which nothing is known; of a `rank`, that many open sizes."""
        made = PartialShape([])
        if rank is None or Dimension(rank).is_dynamic:
            made._sizes = None
        else:
            made._sizes = [Dimension() for _ in range(index(rank))]
        return made

    @property
    def rank(self) -> Dimension:
        """The number of sizes."""
        return Dimension() if self._sizes is None else Dimension(len(self._sizes))

    @property
    def is_dynamic(self) -> bool:
        """Whether anything is open."""
        return not self.is_static

    @property
    def is_static(self) -> bool:
        """Whether every size is a number."""
        return self._sizes is not None and all(d.is_static for d in self._sizes)

    @property
    def all_non_negative(self) -> bool:
        """Whether no size is negative: none can be."""
        return True

    def get_shape(self) -> Shape:
        """The numbers. Raises RuntimeError for a dynamic shape."""
        if self._sizes is None or not self.is_static:
            raise invalid(f"expected a static shape, got {self}: ask is_static, or partial_shape")
        return Shape([d.get_length() for d in self._sizes])

    def to_shape(self) -> Shape:
        """The numbers. Raises RuntimeError for a dynamic shape."""
        return self.get_shape()

    def get_min_shape(self) -> Shape:
        """The least numbers."""
        return Shape([d.get_min_length() for d in self._sizes or ()])

    def get_max_shape(self) -> Shape:
        """The greatest numbers, 2**63 - 1 where there is none."""
        lengths = [d.get_max_length() for d in self._sizes or ()]
        return Shape([_MOST if length == -1 else length for length in lengths])

    def get_dimension(self, position: int) -> Dimension:
        """A size."""
        return self._known[position]

    def compatible(self, other: Any) -> bool:
        """Whether some shape is both."""
        yours = PartialShape(other)._sizes
        if self._sizes is None or yours is None:
            return True
        return len(yours) == len(self._sizes) and all(
            a.compatible(b) for a, b in zip(self._sizes, yours, strict=True)
        )

    def same_scheme(self, other: Any) -> bool:
        """Whether the same sizes are open, and the others equal."""
        yours = PartialShape(other)._sizes
        if self._sizes is None or yours is None:
            return self._sizes is yours
        return len(yours) == len(self._sizes) and all(
            a.same_scheme(b) for a, b in zip(self._sizes, yours, strict=True)
        )

    def refines(self, other: Any) -> bool:
        """Whether every shape that it may be is one of the other."""
        yours = PartialShape(other)._sizes
        if yours is None:
            return True
        return (
            self._sizes is not None
            and len(yours) == len(self._sizes)
            and all(a.refines(b) for a, b in zip(self._sizes, yours, strict=True))
        )

    def relaxes(self, other: Any) -> bool:
        """Whether every shape of the other is one of its own."""
        return PartialShape(other).refines(self)

    def to_string(self) -> str:
        """As in "[1,?,2..8]"."""
        return "[...]" if self._sizes is None else "[" + ",".join(map(str, self._sizes)) + "]"

    @property
    def _known(self) -> list[Dimension]:
        if self._sizes is None:
            raise invalid("the rank of this shape is open: it has no sizes")
        return self._sizes

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Dimension]:
        return iter(self._known)

    @overload
    def __getitem__(self, key: int) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> PartialShape: ...
    def __getitem__(self, key: int | slice) -> Dimension | PartialShape:
        if isinstance(key, slice):
            return PartialShape(self._known[key])
        self._check(key)
        return self._known[key]

    def __setitem__(self, key: int, value: Any) -> None:
        self._check(key)
        self._known[key] = Dimension(value)

    def _check(self, key: int) -> None:
        if not -len(self._known) <= key < len(self._known):
            raise invalid(f"{self} has {len(self._known)} sizes, none at {key}")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (PartialShape, Shape, list, tuple)):
            return self._sizes == PartialShape(other)._sizes
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its sizes may be set

    def __copy__(self) -> PartialShape:
        return PartialShape(self)

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<PartialShape: {self}>"


def _sizes(shape: Any) -> list[Dimension] | None:
    if isinstance(shape, PartialShape):
        return None if shape._sizes is None else list(shape._sizes)
    if isinstance(shape, types.PartialShape):
        return None if shape.rank is None else [Dimension(d) for d in shape]
    if isinstance(shape, str):
        text = shape.strip()
        if text.startswith("[") and text.endswith("]"):
            text = text[1:-1]
        if text.strip() == "...":
            return None
        return [Dimension(part) for part in text.split(",")] if text.strip() else []
    if isinstance(shape, Dimension):
        raise TypeError("expected a shape such as [1, -1], got one Dimension")
    return [Dimension(size) for size in shape]


def core_shape(shape: Any) -> types.PartialShape:
    """uncork's shape of what a program gives for one."""
    sizes = _sizes(shape)
    return types.PartialShape(None if sizes is None else [d._size for d in sizes])


class Shape(Sequence[int]):
    """A shape of numbers."""

    __slots__ = ("_sizes",)

    def __init__(self, sizes: Iterable[int] | str = ()) -> None:
        given = PartialShape(sizes).get_shape() if isinstance(sizes, str) else sizes
        self._sizes = [index(size) for size in given]

    def to_string(self) -> str:
        """As in "[1,3]"."""
        return "[" + ",".join(map(str, self._sizes)) + "]"

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Shape: ...
    def __getitem__(self, key: int | slice) -> int | Shape:
        return Shape(self._sizes[key]) if isinstance(key, slice) else self._sizes[key]

    def __setitem__(self, key: int, value: int) -> None:
        self._sizes[key] = index(value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Shape, list, tuple)):
            return self._sizes == list(other)
        if isinstance(other, PartialShape):
            return other == self
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # its sizes may be set

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"


class Strides(Shape):
    """Steps along the axes, as operations take them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self._sizes))


class Coordinate(Shape):
    """A place in a tensor."""


class CoordinateDiff(Shape):
    """Distances along the axes, as operations take them for padding."""


class AxisSet(frozenset[int]):
    """Some axes."""


class AxisVector(Shape):
    """Axes in an order."""
