"""Counts of a Unique that are scattered to the places that its numbers name become one step without
the Unique.

    numbers, _, _, counts = Unique(keys)
    ScatterUpdate(data, numbers, counts, 0)     how often each place occurs among the keys

and so for ScatterElementsUpdate that does not reduce.
"""

from __future__ import annotations

from msgspec.structs import replace

from uncork.internal_ops.scattered_counts import COUNTED, ScatteredCounts
from uncork.ir.model import Model, Node, Source
from uncork.ops.unique import Unique10
from uncork.passes.rewrite import rewritten

_SCATTERS = frozenset({"ScatterElementsUpdate", "ScatterUpdate"})


def scatter_counts(model: Model) -> Model:
    """The model with every such layer as `ScatteredCounts`."""
    return rewritten(
        model, lambda node: _counted(model, node) if node.type_name in _SCATTERS else None
    )


def _counted(model: Model, node: Node) -> Node | None:
    data, numbers, counts, axis = node.inputs
    along = model.spec(axis).value
    spec, unique = model.spec(data), model.by_id[numbers.node]
    if along is None or along.any() or spec.rank != 1 or spec.element_type not in COUNTED:
        return None
    if getattr(node.operation, "reduction", "none") != "none":
        return None
    if not isinstance(unique.operation, Unique10) or numbers.output != 0:
        return None
    keys = model.spec(unique.inputs[0])
    if keys.rank is None or not keys.element_type.is_integer:
        return None
    if len(unique.inputs) > 1 and keys.rank != 1:
        return None
    if _unconverted(model, counts) != Source(unique.id, 3):
        return None
    operation = ScatteredCounts(node.checked_operation, unique.operation)
    return replace(node, operation=operation, inputs=(data, unique.inputs[0]))


def _unconverted(model: Model, source: Source) -> Source:
    """The counts from before their conversion to the type of the data."""
    node = model.by_id[source.node]
    return node.inputs[0] if node.type_name in ("Convert", "ConvertLike") else source
