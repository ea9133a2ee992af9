"""Interval arithmetic over exact numbers, with infinite ends."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Union

#: An exact number; `End` may be infinite too. A float is never anything but infinite.
Exact = Union[int, Fraction]
End = Union[int, Fraction, float]
Interval = tuple[End, End]

INF = math.inf


def exact(value: Exact) -> Exact:
    """A whole number as int, any other as Fraction."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def is_finite(end: End) -> bool:
    return not isinstance(end, float)


def add(a: Interval, b: Interval) -> Interval:
    """The interval of all sums of numbers of two intervals."""
    return _add(a[0], b[0], -INF), _add(a[1], b[1], INF)


def multiply(a: Interval, b: Interval) -> Interval:
    """The interval of all products of numbers of two intervals."""
    ends = [_multiply(x, y) for x in a for y in b]
    return _least(ends), -_least(-end for end in ends)


def floor_end(end: End) -> End:
    """The floor of a finite end; an infinite one as it is."""
    return end if isinstance(end, float) else math.floor(end)


def largest(ends: Iterable[End]) -> End:
    """The largest; also of numbers that no float holds."""
    return -_least(-end for end in ends)


def _add(x: End, y: End, infinite: float) -> End:
    return x + y if is_finite(x) and is_finite(y) else infinite


def _multiply(x: End, y: End) -> End:
    if not x or not y:
        return 0  # also beside an infinite end: the sizes themselves are finite
    if is_finite(x) and is_finite(y):
        return x * y
    return INF if (x > 0) == (y > 0) else -INF


def _least(ends: Iterable[End]) -> End:
    known = list(ends)
    if any(end == -INF for end in known):
        return -INF
    return min((end for end in known if is_finite(end)), default=INF)
