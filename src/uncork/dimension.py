"""`Dimension`: one size of a shape, as an interval or, where sizes are symbols, as an
expression.
"""

from __future__ import annotations

import math
from operator import index
from typing import Union

from uncork.symbolic import Size, facts_of, intervals, maximum


class Dimension:
    """A size that is known to lie in [low, high]; `high` None means no upper bound. Static when
    both are equal.

    Where sizes are symbols, an open dimension has a `size`, an expression, and the bounds follow
    from it.
    """

    __slots__ = ("_size", "high", "low")

    def __init__(self, low: int = 0, high: int | None = None) -> None:
        if low < 0 or (high is not None and high < low):
            raise ValueError(
                f"a dimension's bounds must satisfy 0 <= low <= high, got {low}..{high}"
            )
        self.low = low
        self.high = high
        self._size: Size | None = None

    @staticmethod
    def of(value: DimensionLike) -> Dimension:
        """From an int (-1 is dynamic), None (dynamic), a Size or a Dimension.

        Raises TypeError for anything else, such as 2.5.
        """
        if isinstance(value, Dimension):
            return value
        if isinstance(value, Size):
            return _of_size(value)
        if value is None or value == -1:
            return DYNAMIC
        size = index(value)
        return Dimension(size, size)

    @property
    def is_static(self) -> bool:
        return self.low == self.high

    @property
    def size(self) -> int | Size | None:
        """The size: a number when static, an expression where sizes are symbols, None while only
        the bounds are known.
        """
        return self.low if self.low == self.high else self._size

    @property
    def static_size(self) -> int | None:
        """The size when static, else None."""
        return self.low if self.low == self.high else None

    @property
    def expression(self) -> Size | None:
        """The size as an expression, a number too; None while only the bounds are known."""
        return Size.of(self.low) if self.low == self.high else self._size

    def as_size(self) -> Size:
        """The size as an expression; raises ValueError while only the bounds are known."""
        size = self.expression
        if size is None:
            raise ValueError(f"dimension {self} has bounds and no expression")
        return size

    @property
    def is_open(self) -> bool:
        """Whether the size is an expression and no number."""
        return self._size is not None

    def __int__(self) -> int:
        if self.low != self.high:
            raise ValueError(f"dimension {self} is dynamic")
        return self.low

    def __eq__(self, other: object) -> bool:
        """Whether two dimensions have the same bounds and, where sizes are symbols, the same
        expression.
        """
        if isinstance(other, Dimension):
            return self.low == other.low and self.high == other.high and self._size == other._size
        return isinstance(other, int) and self.low == self.high == other

    def __hash__(self) -> int:
        return hash((self.low, self.high, self._size))

    def __add__(self, other: DimensionLike) -> Dimension:
        o = Dimension.of(other)
        if (open_sizes := _open_sizes(self, o)) is not None:
            return _of_size(open_sizes[0] + open_sizes[1])
        return Dimension(
            self.low + o.low, None if self.high is None or o.high is None else self.high + o.high
        )

    __radd__ = __add__

    def __sub__(self, other: DimensionLike) -> Dimension:
        """The difference of two dimensions. Sizes cannot become negative: the caller checks that,
        the bounds are cut at 0.
        """
        o = Dimension.of(other)
        if (open_sizes := _open_sizes(self, o)) is not None:
            return _of_size(_at_least_0(open_sizes[0] - open_sizes[1]))
        low = 0 if o.high is None else max(0, self.low - o.high)
        return Dimension(low, None if self.high is None else max(low, self.high - o.low))

    def __mul__(self, other: DimensionLike) -> Dimension:
        o = Dimension.of(other)
        if self.high == 0 or o.high == 0:
            return Dimension(0, 0)
        if (open_sizes := _open_sizes(self, o)) is not None:
            return _of_size(open_sizes[0] * open_sizes[1])
        return Dimension(
            self.low * o.low, None if self.high is None or o.high is None else self.high * o.high
        )

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Dimension:
        if self._size is not None:
            return _of_size(self._size // divisor)
        return Dimension(self.low // divisor, None if self.high is None else self.high // divisor)

    def ceil_div(self, divisor: int) -> Dimension:
        if self._size is not None:
            return _of_size(-(-self._size // divisor))
        return Dimension(
            -(-self.low // divisor), None if self.high is None else -(-self.high // divisor)
        )

    def contains(self, size: int) -> bool:
        """Whether the size may be this one, by the bounds."""
        return self.low <= size and (self.high is None or size <= self.high)

    def compatible(self, other: DimensionLike) -> bool:
        """Whether some size fits both, by the bounds."""
        o = Dimension.of(other)
        return (o.high is None or self.low <= o.high) and (self.high is None or o.low <= self.high)

    def is_always(self, other: DimensionLike) -> bool:
        """Whether both are one size in every call. Where sizes are symbols, what `infer` has
        supposed and demanded is known; nothing is, of sizes that only bounds tell.
        """
        o = Dimension.of(other)
        a, b = self.expression, o.expression
        if a is None or b is None:
            return False
        facts = facts_of([a, b])
        return a == b if facts is None else facts.certainly_equal(a, b)

    def may_be(self, other: DimensionLike) -> bool:
        """Whether some size fits both; where sizes are symbols, that they are equal is supposed
        where it is not certain, and is a condition of the plan.
        """
        o = Dimension.of(other)
        a, b = self.expression, o.expression
        facts = facts_of([a, b])
        if facts is None or a is None or b is None:
            return self.compatible(o)
        return facts.suppose_equal(a, b)

    def agrees(self, other: DimensionLike) -> bool:
        """Whether some size fits both; where sizes are symbols, every call is required to make them
        equal.
        """
        return self.merge(other) is not None

    def covers(self, other: DimensionLike) -> bool:
        """Whether some size of this dimension is at least some size of the other; where sizes are
        symbols, every call is required to keep to it.
        """
        o = Dimension.of(other)
        if self.high is not None and self.high < o.low:
            return False
        open_sizes = _open_sizes(self, o)
        facts = None if open_sizes is None else facts_of(open_sizes)
        return facts is None or open_sizes is None or facts.require_at_least(*open_sizes)

    def is_multiple_of(self, number: int) -> bool:
        """Whether the size may be a multiple of the number; where sizes are symbols, every call is
        demanded to make it one.
        """
        if self._size is not None and (facts := self._size.facts) is not None:
            facts.require_multiple(self._size, number)
        return self.low != self.high or self.low % number == 0

    def merge(self, other: DimensionLike) -> Dimension | None:
        """The sizes that fit both; None when there is none. Where sizes are symbols, they are equal
        from here on.
        """
        o = Dimension.of(other)
        if not self.compatible(o):
            return None
        if self._size is not None or o._size is not None:
            return _same(self, o)
        highs = [h for h in (self.high, o.high) if h is not None]
        return Dimension(max(self.low, o.low), min(highs) if highs else None)

    def union(self, other: DimensionLike) -> Dimension:
        """An interval that holds every size of both; no expression, unless they have the same."""
        o = Dimension.of(other)
        if (open_sizes := _open_sizes(self, o)) is not None:
            facts = facts_of(open_sizes)
            if facts is not None and facts.certainly_equal(*open_sizes):
                return self
        return Dimension(
            min(self.low, o.low),
            None if self.high is None or o.high is None else max(self.high, o.high),
        )

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        if self._size is not None:
            return str(self._size)
        if self.high is None:
            return f"{self.low}.." if self.low else "?"
        return f"{self.low}..{self.high}"

    def __repr__(self) -> str:
        return f"Dimension({self})"


def _of_size(size: Size) -> Dimension:
    """A dimension of this size, which is never negative."""
    facts = size.facts
    low, high = size.bounds if facts is None else (size := facts.canonical(size)).bounds
    least = max(0, math.ceil(low)) if intervals.is_finite(low) else 0
    result = Dimension(least, max(least, math.floor(high)) if intervals.is_finite(high) else None)
    result._size = None if result.low == result.high else size
    return result


def _open_sizes(a: Dimension, b: Dimension) -> tuple[Size, Size] | None:
    """The sizes of both as expressions; None where neither is open, or one is known by its bounds
    only.
    """
    if a._size is None and b._size is None:
        return None
    x, y = a.expression, b.expression
    return None if x is None or y is None else (x, y)


def _at_least_0(size: Size) -> Size:
    """The larger of a size and 0; the size itself where it is known never to be negative."""
    facts = size.facts
    return (
        size
        if facts is not None and facts.certainly_at_least(size, 0)
        else maximum([size, Size.of(0)])
    )


def _same(a: Dimension, b: Dimension) -> Dimension | None:
    """One dimension for two, at least one of them open, that every call has to make equal; None
    where they cannot be equal.
    """
    open_sizes = _open_sizes(a, b)
    if open_sizes is None:
        return a if a._size is not None else b
    facts = facts_of(open_sizes)
    if facts is None or not facts.require_equal(*open_sizes):
        return None
    return a if a.is_static else b if b.is_static else _of_size(open_sizes[0])


DYNAMIC = Dimension()
DimensionLike = Union[int, None, Size, Dimension]
