"""Sequences over rows of a constant table look up the products of these rows with W.

A recurrent layer multiplies each step's X with W. Where X is looked up in a table of the model, as
items of a session or characters of a word are, there are no more different products than the table
has rows: they take the place of the table, and a step copies its row.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.internal_ops.final_states import LastStates
from uncork.internal_ops.looked_up_sequence import LookedUp
from uncork.ir.model import Model, Node, Source
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.gather import Gather7
from uncork.passes.match_parts import gathered_axis
from uncork.passes.rewrite import rewritten
from uncork.types import ElementType

#: Products of larger tables stay unmade: they would leave no cache to the rest, and making them
#: takes time (bytes, multiplications).
_MOST_BYTES = 16 << 20
_MOST_WORK = 1 << 30
#: Rows of fewer numbers are multiplied about as fast as their products are copied.
_FEWEST = 8


def precompute_input_projection(model: Model) -> Model:
    """The model with such sequences rewritten.

    Its shapes must be those of the call: others are left as they are.
    """
    by_output: Mapping[Source, Node] = {
        Source(node.id, 0): node for node in model.nodes if isinstance(node.operation, Gather7)
    }

    def looked_up(node: Node) -> Node | None:
        operation = node.operation
        sequence = operation.sequence if isinstance(operation, LastStates) else operation
        if not isinstance(sequence, RecurrentSequence) or node.hints.precision != "f32":
            return None
        gather = by_output.get(node.inputs[0])
        if gather is None or not _suits(model, gather, node, sequence):
            return None
        table, ids, axis = gather.inputs
        lookup = LookedUp(gather.checked_operation, node.checked_operation)
        return replace(node, operation=lookup, inputs=(ids, *node.inputs[1:], table, axis))

    return rewritten(model, looked_up)


def _suits(model: Model, gather: Node, node: Node, sequence: RecurrentSequence) -> bool:
    """Whether X is rows of a constant table of f32 that is small enough, and weights are known."""
    table, ids = (model.spec(source) for source in gather.inputs[:2])
    if table.value is None or table.value.ndim != 2 or table.element_type is not ElementType.f32:
        return False
    if gathered_axis(model, gather) != 0 or ids.rank != 2:
        return False
    weights = [model.spec(source) for source in node.inputs[-3:]]
    if any(weight.value is None for weight in weights):
        return False
    rows, columns = table.value.shape
    products = rows * weights[0].shape.static[0] * weights[0].shape.static[1]
    return bool(
        columns >= _FEWEST and products * 4 <= _MOST_BYTES and products * columns <= _MOST_WORK
    )
