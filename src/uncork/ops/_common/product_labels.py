"""What the labels of dimensions are in a product of two tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from msgspec import Struct

#: A letter of an equation, or the dimension of its ellipsis that is so many from its right end.
Label = Union[str, int]


class Roles(Struct, frozen=True):
    """The labels by where they are: in both operands and the output, in one operand and the output,
    or in both operands alone. They come in the order of the output, what is summed in that of the
    first operand.
    """

    batch: list[Label]
    rows: list[Label]
    columns: list[Label]
    summed: list[Label]


def roles_of(
    first: Sequence[Label], second: Sequence[Label], output: Sequence[Label]
) -> Roles | None:
    """The roles of labels; None where an operand has one twice, or one that is summed in it alone,
    for such a layer is no product of matrices.
    """
    a, b, kept = set(first), set(second), set(output)
    if len(a) < len(first) or len(b) < len(second) or not a ^ b <= kept:
        return None
    return Roles(
        batch=[label for label in output if label in a and label in b],
        rows=[label for label in output if label not in b],
        columns=[label for label in output if label not in a],
        summed=[label for label in first if label not in kept],
    )
