"""Which strided copies make several moves at once: what the last one looks at is found in the
inputs, piece by piece, so that nothing is copied twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.fused import Moved
from uncork.kernels.extents import extents
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.layer import Layer
from uncork.kernels.movement.looks import (
    Piece,
    Unclear,
    beside,
    copied,
    look_of,
    looked_at,
    whole,
)
from uncork.kernels.movement.nd_copy import Copy, go_by_rows
from uncork.kernels.movement.select_nd_copy import select_nd_copy
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]
#: A result of more pieces is made by one move after the other.
_MOST_PIECES = 64


def select_moved(layer: Layer) -> Selection:
    """Strided copies for several moves, which take rows or vectors of elements."""
    copies = moved_copies(layer.operation, [spec for spec in layer.inputs if spec], layer.outputs)
    if copies is None:
        return "what is moved where is known at the call only"
    if not go_by_rows(copies):
        return "one move after the other has longer rows"
    return select_nd_copy(layer.operation, layer.inputs, layer.outputs) or "too many loops"


def moved_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """The copies of several moves: each piece of the result from the input where it lies."""
    try:
        pieces = _moved(operation, inputs)
    except Unclear:
        return None
    if len(pieces) > _MOST_PIECES:
        return None
    element = outputs[0].element_type.dtype.itemsize
    return [copied(piece, extents(outputs[0]), element) for piece in pieces]


def seen_through(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Piece | None:
    """Where an output of a move lies in the first input; None where it is not a part of that alone,
    or the other inputs do not tell enough.
    """
    try:
        if isinstance(operation, Moved):
            pieces = _moved(operation, inputs)
        else:
            pieces = _pieces(operation, _whole(inputs), outputs, number)
    except Unclear:
        return None
    return pieces[0] if [piece.source for piece in pieces] == [0] else None


def _moved(operation: Operation, inputs: Specs) -> list[Piece]:
    """The pieces of the result of several moves."""
    assert isinstance(operation, Moved)
    known = _whole(inputs)
    for member in operation.members:
        given = [known[number] for number in member.arguments]
        made = member.operation.describe([spec for spec, _ in given])
        known += [
            (spec, _pieces(member.operation, given, made, number))
            for number, spec in enumerate(made)
        ]
    return known[-1][1]


def _whole(inputs: Specs) -> list[tuple[TensorSpec, list[Piece]]]:
    """Inputs, each as one piece."""
    return [
        (spec, [whole(n, extents(spec), spec.element_type.dtype.itemsize)])
        for n, spec in enumerate(inputs)
    ]


def _pieces(
    operation: Operation,
    given: Sequence[tuple[TensorSpec, list[Piece]]],
    made: Specs,
    number: int,
) -> list[Piece]:
    """The pieces of an output of one move."""
    if operation.type_name == "Concat":
        axis = normalised_axis(operation, getattr(operation, "axis", 0), len(extents(made[0])))
        return beside([(pieces, extents(spec)) for spec, pieces in given], axis)
    data, pieces = given[0]
    look = look_of(operation, [spec for spec, _ in given], made, number)
    if look is None:
        raise Unclear
    return looked_at(look, extents(data), pieces)
