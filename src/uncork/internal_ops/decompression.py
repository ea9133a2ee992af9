"""What layers do to numbers that are stored in few bits, once codes are numbers."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.types import Array

#: Scales that are powers of 2, each a byte: the exponent of its f32, by which f8e8m0 has it too.
#: The type has a name of its own, as bytes are numbers elsewhere.
POWERS = np.dtype([("exponent", "u1")])
_DIGITS = np.uint32(23)


def numbers_of(operand: Array) -> Array:
    """The numbers of an operand, f32."""
    if operand.dtype == POWERS:
        exponents = np.asarray(operand["exponent"]).astype(np.uint32)
        return np.asarray((exponents << _DIGITS).view(np.float32))
    return operand.astype(np.float32, copy=False)


class Step(Struct, frozen=True, eq=False):
    """A Subtract or a Multiply by a constant, in f32; `rounds`: its result is rounded to f16.

    `operand` is [columns or 1, groups or 1] of a matrix, or [rows or 1, groups or 1] of a table, of
    f32 or of a type (u8, f16, `POWERS`) that holds the same numbers in fewer bytes.
    """

    operand: Array
    subtracts: bool = False
    rounds: bool = False

    def applied(self, values: Array, operand: Array) -> Array:
        """The numbers after this step, with as much of the operand as they take."""
        wide = numbers_of(operand)
        with np.errstate(all="ignore"):  # infinite scales are the model's business
            result = values - wide if self.subtracts else values * wide
            return result.astype(np.float16).astype(np.float32) if self.rounds else result
