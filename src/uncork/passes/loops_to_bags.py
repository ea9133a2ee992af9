"""Loops whose turns sum rows of a table by a part of the ids become bags.

    for i: ids[marks[i]:marks[i + 1]] -> Gather -> Multiply by weights, cut so too -> ReduceSum

is EmbeddingBagOffsets, as torch's exporter to ONNX writes an EmbeddingBag; with ReduceMean the sums
are divided by their numbers of rows, so that the mean of none stays NaN. Marks that are no offsets
are refused by the kernels of bags, and the loop answers.
"""

from __future__ import annotations

from msgspec import Struct

from uncork.ir.bodies import GraphBody, graph_of
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation, find
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    SubGraphOperation,
    TurnNumber,
)
from uncork.ops.parameter import Const
from uncork.passes.match_parts import gathered_axis, known_integers, only_cut
from uncork.passes.rewrite import NewLayers
from uncork.types import ElementType

_MOVED = ("Convert", "Reshape", "Squeeze", "Unsqueeze")


class _Bags(Struct):
    """What the loop reads: the table as a tensor or as a constant of the body."""

    table: Source | Const
    ids: Source
    marks: Source
    weights: Source | None
    is_mean: bool


def loops_to_bags(model: Model) -> Model:
    """The model with bags in the place of such loops."""
    layers = NewLayers(model)

    def put(node: Node) -> None:
        bags = _Loop(model, node).bags() if _is_plain(model, node) else None
        if bags is not None:
            _put(layers, node, bags)

    return layers.rewritten(put)


def _is_plain(model: Model, node: Node) -> bool:
    """Whether a node is a loop of as many turns as it says, with one output, stacked."""
    if node.type_name != "Loop" or len(node.outputs) != 1:
        return False
    body = node.of(SubGraphOperation).bodies["body"]
    return isinstance(body.body, GraphBody) and _is_true(model, node.inputs[1])


def _is_true(model: Model, source: Source) -> bool:
    value = model.spec(source).value
    return value is not None and bool(value.all())


class _Loop:
    """A loop, and what its body's tensors are."""

    def __init__(self, model: Model, node: Node) -> None:
        self.outer, self.node = model, node
        self.map: BodyMap = node.of(SubGraphOperation).bodies["body"]
        self.body = graph_of(self.map)
        self.carried = self.map.carried

    def bags(self) -> _Bags | None:
        """The bags that the loop's turns give; None where they do anything else."""
        total = self._result()
        if total is None or not self._made(total, "ReduceSum", "ReduceMean"):
            return None
        reduction = self.body.by_id[total.node]
        rows, weights = reduction.inputs[0], None
        if getattr(reduction.operation, "keep_dims", True) or not self._is(reduction.inputs[1], 0):
            return None
        if product := self._made(rows, "Multiply"):
            rows, column = sorted(
                product.inputs, key=lambda source: self.body.by_id[source.node].type_name
            )
            weights = self._before(column, "Unsqueeze", 1)
            if weights is None:
                return None
        gather = self.body.by_id[rows.node]
        if gathered_axis(self.body, gather) != 0:
            return None
        table = self._table(gather.inputs[0])
        ids = self._part(gather.inputs[1])
        cut = None if weights is None else self._part(weights)
        if table is None or ids is None or (weights is not None and cut is None):
            return None
        if cut is not None and cut[1] != ids[1]:
            return None
        is_mean = reduction.type_name == "ReduceMean"
        return _Bags(table, ids[0], ids[1], None if cut is None else cut[0], is_mean)

    # ---- what a turn gives

    def _result(self) -> Source | None:
        """What is stacked, before the axis that it is stacked along."""
        made: Source | None = None
        for output in self.map.outputs:
            result = self.body.by_id[self.body.results[output.result]].inputs[0]
            if isinstance(output, InnerResult):
                if output.purpose and not _is_true(self.body, result):
                    return None
                continue
            if not isinstance(output, JoinedOutput):
                return None
            slicing = output.slicing
            if (slicing.axis, slicing.start, slicing.stride) != (0, 0, 1):
                return None
            made = self._before(result, "Unsqueeze", 0)
        return made

    def _table(self, source: Source) -> Source | Const | None:
        spec = self.body.spec(source)
        if spec.rank != 2 or spec.element_type is not ElementType.f32:
            return None
        operation = self.body.by_id[source.node].operation
        return operation if isinstance(operation, Const) else self._given(source)

    def _part(self, source: Source) -> tuple[Source, Source] | None:
        """A vector from outside and the marks, where this is the part between two of them."""
        cut = self._made(source, "Slice")
        if cut is None or len(cut.inputs) != 5 or self.body.spec(source).rank != 1:
            return None
        if not self._is(cut.inputs[3], 1) or not self._is(cut.inputs[4], 0):
            return None
        data, start, stop = (
            self._given(cut.inputs[0]),
            self._mark(cut.inputs[1]),
            self._mark(cut.inputs[2]),
        )
        if data is None or start is None or stop is None:
            return None
        shifted = self.outer.by_id[stop.node]
        counted = _size(self.outer, self.node.inputs[0])
        if not _is_shifted(self.outer, shifted, start) or counted != stop:
            return None
        return data, start

    def _mark(self, source: Source) -> Source | None:
        """The vector from outside of which this is the element of the turn."""
        gather = self.body.by_id[self._unmoved(source).node]
        if gathered_axis(self.body, gather) != 0:
            return None
        turn = self.body.by_id[self._unmoved(gather.inputs[1]).node]
        entry = self._entry(turn)
        if entry is None or entry.purpose != TurnNumber.purpose:
            return None
        vector = self._given(gather.inputs[0])
        return vector if vector and self.outer.spec(vector).rank == 1 else None

    # ---- the body's tensors

    def _made(self, source: Source, *type_names: str) -> Node | None:
        node = self.body.by_id[source.node]
        return node if node.type_name in type_names else None

    def _before(self, source: Source, type_name: str, axis: int) -> Source | None:
        """What a layer that adds an axis was given."""
        node = self._made(source, type_name)
        return node.inputs[0] if node and self._is(node.inputs[1], axis) else None

    def _unmoved(self, source: Source) -> Source:
        while node := self._made(source, "Unsqueeze", "Reshape", "Squeeze"):
            source = node.inputs[0]
        return source

    def _is(self, source: Source, number: int) -> bool:
        return known_integers(self.body, source) == [number]

    def _entry(self, node: Node) -> BodyInput | TurnNumber | None:
        if node.type_name != "Parameter":
            return None
        return self.map.input_of(self.body.parameters.index(node.id))

    def _given(self, source: Source) -> Source | None:
        """The tensor from outside that is the same in each turn."""
        entry = self._entry(self.body.by_id[source.node])
        if not isinstance(entry, BodyInput) or isinstance(entry, SlicedInput):
            return None
        return None if entry.parameter in self.carried else self.node.inputs[entry.port]


def _is_shifted(model: Model, node: Node, marks: Source) -> bool:
    """Whether a node gives the marks without the first."""
    cut = only_cut(model, node)
    is_shifted = cut is not None and cut.start == 1 and cut.goes_to_the_end
    return is_shifted and node.inputs[0] == marks


def _size(model: Model, source: Source) -> Source | None:
    """The vector whose length this is."""
    node = model.by_id[source.node]
    while node.type_name in _MOVED:
        node = model.by_id[node.inputs[0].node]
    if node.type_name == "Gather":
        index = model.spec(node.inputs[1]).value
        node = model.by_id[node.inputs[0].node]
        if index is None or index.any():
            return None
    if node.type_name != "ShapeOf" or model.spec(node.inputs[0]).rank != 1:
        return None
    return node.inputs[0]


# ---- the bags


def _put(layers: NewLayers, node: Node, bags: _Bags) -> None:
    """The layers that give what the loop gives."""

    def part(data: Source, start: Source, stop: Source) -> Source:
        return layers.put(_operation("Slice", 8), data, start, stop, one, zero)

    zero, one, last, end = map(layers.constant, ([0], [1], [-1], [2**62]))
    table = bags.table if isinstance(bags.table, Source) else layers.put(bags.table)
    joined, ids, weights = layers.old.by_id[bags.marks.node], bags.ids, bags.weights
    if (
        joined.type_name == "Concat"
        and len(joined.inputs) == 2
        and _size(layers.old, joined.inputs[1]) == ids
    ):
        starts = joined.inputs[0]
    else:
        starts, stop = part(bags.marks, zero, last), part(bags.marks, last, end)
        ids = part(ids, zero, stop)
        weights = None if weights is None else part(weights, zero, stop)
    inputs = [table, ids, starts]
    if weights is not None:
        inputs += [layers.constant(-1), weights]
    summed = _operation("EmbeddingBagOffsets", 15)
    if not bags.is_mean:
        layers.put(summed, *inputs, name=node.name, place=node.id)
    else:
        sums = layers.put(summed, *inputs)
        ends = part(bags.marks, one, end)
        counts = layers.put(_operation("Subtract", 1), ends, starts)
        counts = layers.put(_operation("Convert", 1, destination_type=ElementType.f32), counts)
        column = layers.put(_operation("Unsqueeze", 1), counts, one)
        layers.put(_operation("Divide", 1), sums, column, name=node.name, place=node.id)


def _operation(type_name: str, opset: int, **attributes: object) -> Operation:
    kind = find(type_name, opset)
    assert kind is not None, type_name
    return kind(**attributes)
