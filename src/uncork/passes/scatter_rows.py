"""Elements that are scattered row by row, by an index for each row that is stretched over it, are
rows that are scattered.

    ScatterElementsUpdate(data, Broadcast(rows, [N, 64]), updates, 0)
                                                 is ScatterNDUpdate(data, rows [N, 1], updates)

So sums over the edges of a graph come from PyTorch (`scatter_add` with an index that `expand` has
stretched, `index_add`).
"""

from __future__ import annotations

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, extents, has_extents, same_extents
from uncork.ops.scatter_elements_update import ScatterElementsUpdate12
from uncork.ops.scatter_nd_update import ScatterNDUpdate15
from uncork.passes.match_moves import same_shape, unstretched
from uncork.passes.rewrite import NewLayers
from uncork.types import Dimension

_REDUCTIONS = frozenset({"none", "sum", "prod", "min", "max"})


def scatter_rows(model: Model) -> Model:
    """The model, which has sizes, with every such layer as one of rows."""
    layers = NewLayers(model)

    def by_rows(node: Node) -> bool:
        rows = _rows(model, node) if node.type_name == "ScatterElementsUpdate" else None
        if rows is None:
            return False
        data, _, updates, _ = node.inputs
        (count, *_) = model.spec(rows).shape.dims or ()
        tuples = layers.viewed(node, rows, [count, Dimension.of(1)])
        operation = ScatterNDUpdate15(reduction=getattr(node.operation, "reduction", "none"))
        layers.add(node.name, operation, [data, tuples, updates])
        layers.finish(node)
        return True

    return layers.rewritten(by_rows)


def _rows(model: Model, node: Node) -> Source | None:
    """The indices of rows, one for each; None where elements of a row have their own."""
    operation = node.operation
    if not isinstance(operation, ScatterElementsUpdate12) or not operation.use_init_val:
        return None
    data, indices, updates, axis = node.inputs
    along = model.spec(axis).value
    if operation.reduction not in _REDUCTIONS or along is None or along.any():
        return None
    small = unstretched(model, indices)
    specs = [model.spec(source) for source in (data, updates)]
    if small is None or not all(map(has_extents, specs)) or specs[0].rank == 1:
        return None
    whole, part = (extents(spec) for spec in specs)
    own = extents(model.spec(small))
    is_one_each = len(own) == len(part) and all(certainly(size, 1) for size in own[1:])
    if not is_one_each or not same_extents(whole[1:], part[1:]):
        return None
    return small if same_shape(model.spec(indices), specs[1]) else None
