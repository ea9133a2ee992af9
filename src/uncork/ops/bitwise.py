"""Logic and shifts on the bits of integers: BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot,
BitwiseLeftShift, BitwiseRightShift.

Pages: operation-specs/bitwise/<name>. Of booleans the first four are the logical operations.
Decided where the pages leave the result undefined: the shifts multiply by 2**b and divide by 2**b
rounding down, whatever b, and wrap: shifting out all bits gives 0, or -1 for a negative number
shifted right. A negative number of places is refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.elementwise import Binary, Unary
from uncork.ops._common.indices import refuse_first
from uncork.ops._operation import register
from uncork.ops._ports import BOOLEAN, INTEGER, Input
from uncork.types import Array


class _Bitwise(Binary):
    a = Input(INTEGER | BOOLEAN, "T")
    b = Input(INTEGER | BOOLEAN, "T")


@register("BitwiseAnd", 13)
class BitwiseAnd(_Bitwise):
    """The bits set in both"""

    function = np.bitwise_and


@register("BitwiseOr", 13)
class BitwiseOr(_Bitwise):
    """The bits set in any of the two"""

    function = np.bitwise_or


@register("BitwiseXor", 13)
class BitwiseXor(_Bitwise):
    """The bits set in exactly one of the two"""

    function = np.bitwise_xor


@register("BitwiseNot", 13)
class BitwiseNot(Unary):
    """Every bit the other way"""

    data = Input(INTEGER | BOOLEAN, "T")

    reference = np.invert


class _Shift(Binary):
    a = Input(INTEGER, "T")
    b = Input(INTEGER, "T")

    def places(self, a: Array, b: Array) -> tuple[Array, Array]:
        """The number of places to shift by, at most bits - 1, and where `b` asks for more than
        that.
        """
        if np.broadcast(a, b).size:
            refuse_first(self, "b", b, b < 0, "at least 0 places", 0)
        bits = 8 * a.dtype.itemsize
        # Constants of the array's own type: mixed with a signed one, u64 would become f64.
        return np.minimum(b, b.dtype.type(bits - 1)), b >= bits


@register("BitwiseLeftShift", 15)
class BitwiseLeftShift(_Shift):
    """a * 2**b, modulo 2**bits"""

    def function(self, a: Array, b: Array) -> Array:
        places, all_out = self.places(a, b)
        return np.where(all_out, a.dtype.type(0), np.left_shift(a, places))


@register("BitwiseRightShift", 15)
class BitwiseRightShift(_Shift):
    """a / 2**b, rounded down"""

    def function(self, a: Array, b: Array) -> Array:
        places, all_out = self.places(a, b)
        return np.where(all_out, np.where(a < 0, -1, 0).astype(a.dtype), np.right_shift(a, places))
