"""Partial results joined into one: what a reduction begins with, how two parts are joined, and the
lanes of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from uncork.kernels.codegen import functions
from uncork.kernels.codegen.emit import Kernel, Type, Value

Combine = Callable[[Kernel, Value, Value], Value]


def plus(k: Kernel, a: Value, b: Value) -> Value:
    return a + b


def _multiply(k: Kernel, a: Value, b: Value) -> Value:
    return a * b


#: How two partial results are joined. A "top" may lose what is no number, which "max" keeps.
COMBINE: dict[str, Combine] = {
    "sum": plus,
    "max": functions.larger,
    "min": functions.smaller,
    "top": Kernel.maximum,
    "prod": _multiply,
}


def identity(word: str, type_: Type) -> float:
    """The neutral element of a reduction: joined with any number, it changes nothing."""
    if word in ("sum", "prod"):
        return int(word == "prod")
    if type_.kind == "float":
        return math.inf if word == "min" else -math.inf
    low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
    high = (1 << (type_.bits - (type_.kind == "signed"))) - 1
    return high if word == "min" else low


def joined(k: Kernel, value: Value, combine: Combine) -> Value:
    """The lanes of a vector joined into one number."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = combine(k, value.part(0, half), value.part(half, half))
    return value


def lane_sums(k: Kernel, parts: Iterable[Value], lanes: int) -> Value:
    """A vector whose lanes are the sums over the lanes of `lanes` vectors, which are made one after
    the other.
    """
    stack: list[tuple[int, Value]] = []
    for x in parts:
        step = 1
        while stack and stack[-1][0] == step:
            one = stack.pop()[1]
            low = k.picked(one, x, [i if not i & step else lanes + i - step for i in range(lanes)])
            high = k.picked(one, x, [i + step if not i & step else lanes + i for i in range(lanes)])
            x, step = low + high, step * 2
        stack.append((step, x))
    return stack[0][1]
