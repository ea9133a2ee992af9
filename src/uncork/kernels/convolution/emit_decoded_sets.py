"""The filters of a set of outputs, or of a slice of one, decoded into working memory."""

from __future__ import annotations

from math import gcd

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.compressed.emit_stored import Column, Decoder
from uncork.kernels.convolution.spec_blocks import Dense
from uncork.kernels.elementwise.emit_steps import Operand
from uncork.kernels.stored_form import Stored

#: Rows of a set that are decoded in a turn of the loop.
_ROWS = 4


def decode_set(k: Kernel, spec: Dense, stored: Stored, turn: Value) -> None:
    """Decode the filters of a pass: rows of as many numbers as the set has outputs, whose zero
    points and scales are in registers.
    """
    a, lanes, vectors = k.named, spec.vector, spec.vectors
    wide, size = lanes * vectors, stored.bits // 8
    operands = [bool(stored.zeros), bool(stored.scales), *(True for _ in stored.later)]
    group = turn // a["slices"] if spec.sliced else turn
    begin = a["steps"] + group * (sum(operands) * wide * F32.bytes)
    none = Operand(begin, "")

    def of_vector(vector: int) -> Column:
        """The codes of a vector of outputs, with what is done with them."""
        given: list[Value | None] = []
        for there in operands:
            number = sum(value is not None for value in given)
            place = begin + (number * vectors + vector) * (lanes * F32.bytes)
            given.append(k.load(place, F32, lanes) if there else None)
        zero, scale, *later = given
        codes = a["filters"] + turn * a["group"]
        steps = [value for value in later if value is not None]
        return Column(codes, none, none, (), (zero, scale, steps))

    decoder = Decoder(k, stored, a["group"], a["numbers"])
    columns = [of_vector(vector) for vector in range(vectors)]
    rows = gcd(spec.inner, _ROWS)
    with k.loop(0, a["group"] // size, rows * wide) as first:
        for row in range(rows):
            for vector, column in enumerate(columns):
                place = first + (row * wide + vector * lanes)
                (number,) = decoder.block(column, place, False)
                k.store(number, a["decoded"] + place * F32.bytes)
