"""Partial results joined into one: what a reduction begins with, how two parts are joined, and the
lanes of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from uncork.kernels.codegen import functions
from uncork.kernels.codegen.emit import Kernel, Type, Value

Combine = Callable[[Kernel, Value, Value], Value]


def plus(k: Kernel, a: Value, b: Value) -> Value:
    return a + b


def _multiply(k: Kernel, a: Value, b: Value) -> Value:
    return a * b


#: How two partial results are joined; all other words are sums.
COMBINE: dict[str, Combine] = {
    "sum": plus,
    "max": functions.larger,
    "min": functions.smaller,
    "prod": _multiply,
    "all": functions.smaller,
    "any": functions.larger,
}


def identity(word: str, type_: Type) -> float:
    """The neutral element of a reduction: joined with any number, it changes nothing. The numbers
    of "all" and "any" are 0 and 1.
    """
    if word not in ("max", "min"):
        return 1 if word in ("prod", "all") else 0
    if type_.kind == "float":
        return -math.inf if word == "max" else math.inf
    low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
    high = (1 << (type_.bits - (type_.kind == "signed"))) - 1
    return low if word == "max" else high


def joined(k: Kernel, value: Value, combine: Combine) -> Value:
    """The lanes of a vector joined into one number."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = combine(k, value.part(0, half), value.part(half, half))
    return value
