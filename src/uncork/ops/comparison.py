"""Comparisons: Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual of two tensors; IsNaN,
IsInf, IsFinite of one.

Pages: operation-specs/comparison/<name>. The output is boolean. Every element type compares by
value (f8 and 4-bit floats by the numbers that their codes mean, strings by Unicode code points,
false before true); a NaN is unequal to everything.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.elementwise import Binary, Unary
from uncork.ops._operation import register
from uncork.ops._ports import ANY, FLOAT, Attribute, Input, Output, boolean
from uncork.ops._size_arithmetic import at_least, equal, negated
from uncork.symbolic import Size
from uncork.types import Array, Element, ElementType


class _Comparison(Binary):
    a = Input(ANY, "T")
    b = Input(ANY, "T")
    output = Output(ElementType.boolean)


@register("Equal", 1)
class Equal(_Comparison):
    """a == b"""

    function = np.equal

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return equal(source, a, b)


@register("NotEqual", 1)
class NotEqual(_Comparison):
    """a != b"""

    function = np.not_equal

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return negated(equal(source, a, b))


@register("Less", 1)
class Less(_Comparison):
    """a < b"""

    function = np.less

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return negated(at_least(source, a, b))


@register("LessEqual", 1)
class LessEqual(_Comparison):
    """a <= b"""

    function = np.less_equal

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return at_least(source, b, a)


@register("Greater", 1)
class Greater(_Comparison):
    """a > b"""

    function = np.greater

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return negated(at_least(source, b, a))


@register("GreaterEqual", 1)
class GreaterEqual(_Comparison):
    """a >= b"""

    function = np.greater_equal

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return at_least(source, a, b)


class _Test(Unary):
    data = Input(FLOAT, "T")
    output = Output(ElementType.boolean)


@register("IsNaN", 10)
class IsNaN(_Test):
    """Whether a value is not a number"""

    reference = np.isnan


@register("IsFinite", 10)
class IsFinite(_Test):
    """Whether a value is neither infinite nor NaN"""

    reference = np.isfinite


@register("IsInf", 10)
class IsInf(_Test):
    """Whether a value is infinite, of the signs asked for"""

    detect_negative = Attribute(boolean, default=True)
    detect_positive = Attribute(boolean, default=True)

    def reference(self, data: Array) -> Array:
        negative = np.isneginf(data) & self.detect_negative
        positive = np.isposinf(data) & self.detect_positive
        return np.logical_or(negative, positive)
