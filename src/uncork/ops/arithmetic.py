"""The arithmetic of two tensors: Add, Subtract, Multiply, Divide, Mod, FloorMod, Power,
SquaredDifference, Maximum, Minimum.

Pages: operation-specs/arithmetic/<name>-1. Decided where they are silent:

- integers wrap modulo 2**bits; the lowest integer divided by -1 wraps to itself;
- integer division by zero (Divide, Mod, FloorMod, and Power of 0 to a negative exponent) is refused
  with its position; floats follow IEEE 754;
- a negative integer exponent gives the exact power cut towards zero: 0 unless the base is 1 or -1;
- Maximum and Minimum of a NaN and anything is NaN.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.elementwise import Binary, refuse_zero
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import register
from uncork.ops._ports import REAL, Attribute, Input, boolean
from uncork.ops._size_arithmetic import computed, divided, larger, rest
from uncork.symbolic import Size
from uncork.types import Array, Element, ElementType


@register("Add", 1)
class Add(Binary):
    """a + b"""

    function = np.add

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return computed(source, a + b, a, b)


@register("Subtract", 1)
class Subtract(Binary):
    """a - b"""

    function = np.subtract

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return computed(source, a - b, a, b)


@register("Multiply", 1)
class Multiply(Binary):
    """a * b"""

    function = np.multiply

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return computed(source, a * b, a, b)


@register("Divide", 1)
class Divide(Binary):
    """a / b; of integers the floor, or with m_pythondiv = false the quotient cut towards zero."""

    m_pythondiv = Attribute(boolean, default=True)

    def function(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.true_divide(a, b)
        refuse_zero(self, b, np.broadcast(a, b).size)
        floor = np.floor_divide(a, b)
        if self.m_pythondiv:
            return floor
        # The floor is one too low where the division leaves a rest and the signs differ.
        return np.asarray(floor + ((floor * b != a) & ((a < 0) != (b < 0))).astype(a.dtype))

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return divided(source, a, b, cut=not self.m_pythondiv)


@register("Mod", 1)
class Mod(Binary):
    """The rest of the division that is cut towards zero: the sign is that of a."""

    def function(self, a: Array, b: Array) -> Array:
        refuse_zero(self, b, np.broadcast(a, b).size)
        return np.fmod(a, b)

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return rest(source, a, b, cut=True)


@register("FloorMod", 1)
class FloorMod(Binary):
    """The rest of the division that is rounded down: the sign is that of b."""

    def function(self, a: Array, b: Array) -> Array:
        refuse_zero(self, b, np.broadcast(a, b).size)
        return np.mod(a, b)

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return rest(source, a, b, cut=False)


@register("Power", 1)
class Power(Binary):
    """a to the power of b"""

    def function(self, a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.power(a, b)
        a, b = np.broadcast_arrays(a, b)
        inverted = b < 0
        refuse_first(
            self, "b", b, inverted & (a == 0), "an exponent of at least 0 where a is 0 (integers)"
        )
        odd = (b & b.dtype.type(1)) == 1
        unit = np.where(a == 1, 1, np.where(odd, -1, 1))
        of_inverse = np.where(np.abs(a) == 1, unit, 0).astype(a.dtype)
        return np.where(inverted, of_inverse, np.power(a, np.where(inverted, b.dtype.type(0), b)))


@register("SquaredDifference", 1)
class SquaredDifference(Binary):
    """(a - b)^2"""

    def function(self, a: Array, b: Array) -> Array:
        difference = np.subtract(a, b)
        return np.multiply(difference, difference)


@register("Maximum", 1)
class Maximum(Binary):
    """The larger of a and b"""

    function = np.maximum

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return computed(source, larger(a, b), a, b)


@register("Minimum", 1)
class Minimum(Binary):
    """The smaller of a and b"""

    function = np.minimum

    def of_sizes(self, source: ElementType, a: Size, b: Size) -> Element:
        return computed(source, -larger(-a, -b), a, b)


@register("Atan2", 17)
class Atan2(Binary):
    """The angle of the point (b, a) against the positive x axis, in [-pi, pi]; page:
    arithmetic/atan2-17.
    """

    a = Input(REAL, "T")
    b = Input(REAL, "T")

    function = np.arctan2
