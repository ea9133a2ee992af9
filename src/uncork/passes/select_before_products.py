"""Products of which only some rows are read: the rows are taken before they are multiplied.

    Slice(MatMul(x, weights))          becomes        MatMul(Slice(x), weights)

A language model gives the words' scores of every position, of which whoever generates reads the
last: a quarter of the work of a small model's prompt is for nothing.

Recognised: a Slice, a StridedSlice that keeps all axes, or a Gather of constant places, of a
product with constant weights; between them operations element by element with numbers that are the
same along the axes that are cut. Of each nothing else is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.ops.gather import Gather8
from uncork.ops.matmul import MatMul
from uncork.ops.slice import Slice8
from uncork.ops.strided_slice import StridedSlice1
from uncork.passes.match_parts import cuts_of, gathered_axis
from uncork.passes.rewrite import NewLayers, only_reader, readers, replaced
from uncork.types import Array, Element

#: What no axis has more places than: exporters write it for the end.
_BEYOND = 2**31 - 1


def select_before_products(model: Model) -> Model:
    """The model with selections before the products whose rows they take."""
    layers, read_by = NewLayers(model), readers(model)
    taken: set[int] = set()
    made: dict[int, list[Node]] = {}
    for node in model.nodes:
        axes = _selected(model, node)
        if not axes:
            continue
        chain = _chain(model, node, axes, read_by)
        if chain and not taken & {step.id for step in chain}:
            taken |= {step.id for step in chain}
            made[node.id] = _moved(layers, node, chain)
    return replaced(model, made | {number: [] for number in taken})


def _constants(model: Model, sources: Sequence[Source]) -> list[Array] | None:
    """The values of constants; None where one is none."""
    values = [model.spec(source).value for source in sources]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _selected(model: Model, node: Node) -> frozenset[int]:
    """The axes of its first input of which a layer takes some places; empty where it does not, or
    something else besides.
    """
    operation = node.operation
    if isinstance(operation, Slice8):
        cuts = cuts_of(model, node) or ()
        return frozenset(cut.axis for cut in cuts if not cut.is_whole)
    if not isinstance(operation, (Gather8, StridedSlice1)):
        return frozenset()
    rank, given = model.spec(node.inputs[0]).rank, _constants(model, node.inputs[1:])
    if rank is None or given is None or node.outputs[0].spec.rank is None:
        return frozenset()
    if isinstance(operation, Gather8):
        places, number = given[0], gathered_axis(model, node)
        if number is None or places.ndim > 1 or not places.size:
            return frozenset()
        rows = model.spec(node.inputs[0]).shape[number]
        fewer = places.size == 1 or (rows.low == rows.high and places.size <= rows.low)
        return frozenset({number} if fewer else ())
    bounds = [array.reshape(-1).tolist() for array in given]
    kinds = list(operation.steps(len(bounds[0]), rank))
    if any(kind in ("new", "shrink") for kind, _, _ in kinds):
        return frozenset()
    strides = bounds[2] if len(bounds) == 3 else [1] * len(bounds[0])
    return frozenset(
        axis
        for kind, i, axis in kinds
        if kind == "slice"
        and not _is_whole(*operation.bounds(i, bounds[0][i], bounds[1][i], strides[i]), strides[i])
    )


def _is_whole(begin: Element, end: Element, step: int) -> bool:
    """Whether a part of an axis is all of it, whatever its size is."""
    return begin == 0 and step == 1 and isinstance(end, int) and end >= _BEYOND


def _chain(
    model: Model, node: Node, axes: frozenset[int], read_by: Mapping[Source, list[Node]]
) -> list[Node]:
    """The layers that a selection is moved before, the last one first; none where no product is
    among them.
    """
    chain: list[Node] = []
    products = 0
    source, last = node.inputs[0], node
    while True:
        before = model.by_id[source.node]
        if len(before.outputs) != 1 or only_reader(read_by, before) is not last:
            break
        main = _passed(model, before, axes)
        # Places beyond the end are zeros, which sums that follow a product would change.
        if main is None or (isinstance(node.operation, Gather8) and not _multiplies(before)):
            break
        chain.append(before)
        products = len(chain) if _multiplies(before) else products
        source, last = before.inputs[main], before
    return chain[:products]


def _multiplies(node: Node) -> bool:
    return isinstance(node.operation, (MatMul, CompressedLinear))


def _passed(model: Model, node: Node, axes: frozenset[int]) -> int | None:
    """The input of which the selection may be taken in place of the layer's result; None where the
    layer needs more of it.
    """
    operation, result = node.operation, node.outputs[0].spec
    rank = result.rank
    known = [model.spec(source).value is not None for source in node.inputs]
    if operation is None or rank is None or result.value is not None:
        return None
    if _multiplies(node):
        data = model.spec(node.inputs[0])
        weights = (isinstance(operation, CompressedLinear) and not operation.lead) or (
            isinstance(operation, MatMul)
            and not operation.transpose_a
            and known[1]
            and model.spec(node.inputs[1]).rank == 2
        )
        return 0 if weights and data.rank == rank and rank - 1 not in axes else None
    if not operation.elementwise or known.count(False) != 1:
        return None
    if len(known) > 1 and getattr(operation, "auto_broadcast", "") != "numpy":
        return None
    main = known.index(False)
    if model.spec(node.inputs[main]).shape != result.shape:
        return None
    for source in node.inputs[:main] + node.inputs[main + 1 :]:
        shape = model.spec(source).shape
        cut = [axis - rank + len(shape) for axis in axes]
        if any(axis >= 0 and shape[axis] != 1 for axis in cut):
            return None
    return main


def _moved(layers: NewLayers, node: Node, chain: Sequence[Node]) -> list[Node]:
    """The selection, then the layers that it was taken of; the last gives what the selection
    gave.
    """
    model, first = layers.old, chain[-1]
    others = node.inputs[1:]
    drops = isinstance(node.operation, Gather8) and model.spec(node.inputs[1]).rank == 0
    if drops:  # the axis stays until all is computed
        spec = model.spec(node.inputs[1])
        place = layers.constant([spec.known], spec.element_type, f"{node.name} (place)")
        others = (place, *others[1:])
    selection = replace(node, id=layers.number())
    source = layers.again(selection, first.inputs[_main(model, first)], *others)
    for step in reversed(chain):
        inputs = list(step.inputs)
        inputs[_main(model, step)] = source
        source = layers.again(step, *inputs)
    if drops:
        layers.put(View(node.outputs[0].spec.shape), source, name=node.name, place=node.id)
    else:
        layers.nodes[-1] = replace(layers.nodes[-1], id=node.id, outputs=node.outputs)
    return layers.taken()


def _main(model: Model, node: Node) -> int:
    """The input of which the selection is taken."""
    if _multiplies(node):
        return 0
    return next(i for i, source in enumerate(node.inputs) if model.spec(source).value is None)
