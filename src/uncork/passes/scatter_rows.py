"""Elements that are scattered row by row, by an index for each row that is stretched over it, are
rows that are scattered.

    ScatterElementsUpdate(data, Broadcast(rows, [N, 64]), updates, 0)
                                                 is ScatteredRows(data, rows [N, 1], updates, 0)

So sums, means and maxima over the edges of a graph come from PyTorch (`scatter_reduce` with an
index that `expand` has stretched, and that the converter makes i32 behind that; `index_add`).
"""

from __future__ import annotations

from uncork.internal_ops.scattered_rows import ScatteredRows
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, extents, has_extents, same_extents
from uncork.ops._operation import Operation
from uncork.ops.scatter_elements_update import ScatterElementsUpdate12
from uncork.passes.match_moves import same_shape, unstretched
from uncork.passes.rewrite import NewLayers


def scatter_rows(model: Model) -> Model:
    """The model, which has sizes, with every such layer as one of rows."""
    layers = NewLayers(model)

    def by_rows(node: Node) -> None:
        found = _rows(model, node)
        if found is None:
            return
        operation, rows, converts = found
        for number, convert in enumerate(converts):
            rows = layers.add(f"{node.name}/index{number or ''}", convert, [rows])
        data, _, updates, axis = node.inputs
        layers.add(node.name, ScatteredRows(elements=operation), [data, rows, updates, axis])
        layers.finish(node)

    return layers.rewritten(by_rows)


def _rows(
    model: Model, node: Node
) -> tuple[ScatterElementsUpdate12, Source, list[Operation]] | None:
    """The operation, its indices of rows, one for each, and what converts these; None where
    elements of a row have their own.
    """
    operation = node.operation
    if not isinstance(operation, ScatterElementsUpdate12):
        return None
    data, indices, updates, axis = node.inputs
    along = model.spec(axis).value
    if along is None or along.any():
        return None
    stretched, converts = _converted(model, indices)
    small = unstretched(model, stretched)
    specs = [model.spec(source) for source in (data, updates)]
    if small is None or not all(map(has_extents, specs)) or specs[0].rank == 1:
        return None
    whole, part = (extents(spec) for spec in specs)
    own = extents(model.spec(small))
    is_one_each = len(own) == len(part) and all(certainly(size, 1) for size in own[1:])
    if not is_one_each or not same_extents(whole[1:], part[1:]):
        return None
    is_whole = same_shape(model.spec(indices), specs[1])
    return (operation, small, converts) if is_whole else None


def _converted(model: Model, source: Source) -> tuple[Source, list[Operation]]:
    """What a tensor was before its types were changed, and the changes, the first one first."""
    converts: list[Operation] = []
    while (node := model.by_id[source.node]).type_name == "Convert":
        converts.insert(0, node.checked_operation)
        source = node.inputs[0]
    return source, converts
