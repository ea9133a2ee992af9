"""The thirty layers of TensorFlow's `safe_embedding_lookup_sparse` become one operation.

    kept = NonZero(values >= 0)           entries with a negative id are left out; may be absent
    places, ids, empty = SparseFillEmptyRows(values[kept], dense_shape, indices[kept], default)
    unique, _, inverse, _ = Unique(ids)
    rows = places[:, 0]
    sums = EmbeddingSegmentsSum(Gather(table, unique), inverse, rows, rows[-1] + 1)
    counts = ScatterUpdate(ones, Unique(rows).values, Unique(rows).counts)
    Select(empty of each row along all columns, zeros, sums / counts)

Every layer is looked at; where one is another than here, all stay as they are. Of what is read only
for its shape it counts that the order of the elements stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uncork.internal_ops.sparse_lookup import SparseLookup
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.passes.rewrite import replaced
from uncork.types import Array, ElementType

#: Layers whose result has the elements of their first input in the same order.
_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze"})


def sparse_lookups(model: Model) -> Model:
    """The model with every such lookup as one node, under the id of its Select."""
    if not any(node.type_name == "SparseFillEmptyRows" for node in model.nodes):
        return model
    new: dict[int, Node] = {}
    for node in model.nodes:
        if node.type_name == "Select" and (found := _Lookup(model).found(node)) is not None:
            inputs, operation = found
            new[node.id] = replace(node, inputs=inputs, operation=operation)
    return replaced(model, new) if new else model


class _Unlike(Exception):
    """A layer that is not as it should be."""


class _Lookup:
    """The search for one look-up, from its end to its beginning."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def found(self, select: Node) -> tuple[tuple[Source, ...], SparseLookup] | None:
        try:
            return self._lookup(select)
        except _Unlike:
            return None

    # ---- what a source is

    def node(self, source: Source, *types: str, output: int | None = None) -> Node:
        node = self.model.by_id[source.node]
        self.need(node.type_name in types and (output is None or source.output == output))
        return node

    def need(self, condition: bool) -> None:
        if not condition:
            raise _Unlike

    def value(self, source: Source) -> Array:
        value = self.model.spec(source).value
        if value is None:
            raise _Unlike
        return value

    def numbers(self, source: Source) -> list[int | None]:
        return self.model.spec(source).integers() or []

    def is_number(self, source: Source, number: float) -> bool:
        """A constant of nothing but this number."""
        value = self.model.spec(source).value
        return value is not None and bool((value == number).all()) and value.size > 0

    def behind(self, source: Source, *types: str) -> Source:
        """The source without views and layers of these types after it."""
        while (
            node := self.model.by_id[source.node]
        ).type_name in _VIEWS or node.type_name in types:
            source = node.inputs[0]
        return source

    # ---- the layers

    def _lookup(self, select: Node) -> tuple[tuple[Source, ...], SparseLookup]:
        condition, zeros, looked_up = select.inputs
        self.need(self.model.spec(looked_up).element_type is ElementType.f32)
        mean = self.model.by_id[looked_up.node].type_name == "Divide"
        division = self.node(looked_up, "Divide", "EmbeddingSegmentsSum", output=0)
        sums = self.node(
            division.inputs[0] if mean else looked_up, "EmbeddingSegmentsSum", output=0
        )
        self.need(len(sums.inputs) == 4)
        gathered, inverse, rows, count = sums.inputs
        gather = self.node(gathered, "Gather")
        table, unique, axis = gather.inputs
        self.need(
            self._plain(gather) and self.is_number(axis, 0) and self.model.spec(table).rank == 2
        )
        self.value(table)
        ids = self.node(unique, "Unique", output=0)
        self.need(len(ids.inputs) == 1)
        self.need(self._widened(inverse) == Source(ids.id, 2))
        fill = self.node(ids.inputs[0], "SparseFillEmptyRows", output=1)
        self._first_column(rows, Source(fill.id, 0))
        self._behind_last(count, rows)
        columns = self.model.spec(table).shape[1]
        shape = self.model.spec(looked_up).shape
        self.need(columns.is_static and shape.rank == 2 and shape[1] == columns)
        if mean:
            self._counts(division.inputs[1], rows)
        self._emptiness(condition, Source(fill.id, 2), columns.static_size or 0)
        self._zeros(zeros, {looked_up, Source(sums.id, 0)})
        values, dense_shape, indices, default = fill.inputs
        assert fill.operation is not None and gather.operation is not None
        self.need(0 <= int(self.value(default).reshape(-1)[0]) < len(self.value(table)))
        values, indices, pick = self._unfiltered(values, indices)
        self.need(
            all(
                self.model.spec(source).element_type in (ElementType.i32, ElementType.i64)
                for source in (values, indices)
            )
        )
        operation = SparseLookup(fill.operation, gather.operation, pick, mean)
        return (table, values, indices, dense_shape), operation

    def _plain(self, gather: Node) -> bool:
        """Whether the indices are the same for all batches."""
        return getattr(gather.operation, "batch_dims", 0) == 0

    def _widened(self, source: Source) -> Source:
        """Behind a conversion of i32 to i64, which keeps every number."""
        node = self.model.by_id[source.node]
        wide = self.model.spec(source).element_type is ElementType.i64
        return node.inputs[0] if node.type_name == "Convert" and wide else source

    def _first_column(self, rows: Source, places: Source) -> None:
        node = self.node(rows, "StridedSlice")
        operation = node.operation
        self.need(node.inputs[0] == places and len(node.inputs) == 4 and operation is not None)
        begin, _, strides = (self.value(source).tolist() for source in node.inputs[1:])
        masks = {
            name: [*getattr(operation, f"{name}_mask"), 0, 0][:2]
            for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
        }
        self.need(
            len(begin) == 2 and strides == [1, 1] and masks["begin"][0] == masks["end"][0] == 1
        )
        self.need(
            begin[1] == 0
            and masks["shrink_axis"] == [0, 1]
            and masks["new_axis"] == masks["ellipsis"] == [0, 0]
        )

    def _behind_last(self, count: Source, rows: Source) -> None:
        """`rows[-1] + 1`, of which there is one."""
        last = self._plus(self.behind(count), 1)
        gather = self.node(last, "Gather")
        data, index, axis = gather.inputs
        self.need(self._plain(gather) and data == rows and self.is_number(axis, 0))
        if self.model.spec(index).value is None:
            length = self.node(self._plus(self.behind(index), -1), "ShapeOf")
            self.need(length.inputs[0] == rows)
        else:
            self.need(self.is_number(index, -1))
        self.need(self.model.spec(last).shape.size == 1)

    def _plus(self, source: Source, number: int) -> Source:
        """What a number is added to."""
        node = self.node(source, "Add")
        first, second = node.inputs
        first, second = (second, first) if self.is_number(first, number) else (first, second)
        self.need(self.is_number(second, number) and self.model.spec(second).shape.size == 1)
        return first

    def _counts(self, source: Source, rows: Source) -> None:
        """How many entries each row has, as a column: ones, with the counts of the rows that there
        are written over them.
        """
        shape = self.model.spec(source).shape
        self.need(shape.rank == 2 and shape[1] == 1)
        update = self.node(self.behind(source, "ConvertLike", "Convert"), "ScatterUpdate")
        ones, places, counts, axis = update.inputs
        self.need(self.is_number(axis, 0) and self.model.spec(ones).rank == 1)
        unique = self.node(places, "Unique", output=0)
        self.need(unique.inputs == (rows,) and counts == Source(unique.id, 3))
        broadcast = self.node(ones, "Broadcast")
        self.need(len(broadcast.inputs) == 2 and self.is_number(broadcast.inputs[0], 1))
        self._behind_last(broadcast.inputs[1], rows)

    def _emptiness(self, condition: Source, empty: Source, columns: int) -> None:
        """Whether a row is empty, the same along all its columns."""
        node = self.model.by_id[condition.node]
        if node.type_name == "NotEqual":
            self.need(self.is_number(node.inputs[1], 0))
            converted = self.node(node.inputs[0], "Convert")
            self.need(self.model.spec(converted.inputs[0]).element_type is ElementType.boolean)
            condition = converted.inputs[0]
        shape = self.model.spec(condition).shape
        self.need(shape.rank == 2 and shape[1] == columns)
        tile = self.node(self.behind(condition), "Tile")
        column = self.model.spec(tile.inputs[0]).shape
        self.need(
            column.rank == 2 and column[1] == 1 and self.numbers(tile.inputs[1]) == [1, columns]
        )
        self.need(self.behind(tile.inputs[0]) == empty)

    def _zeros(self, source: Source, like: set[Source]) -> None:
        """Zeros in the shape of what is looked up, or a single one."""
        source = self.behind(source)
        if self.model.spec(source).value is None:
            broadcast = self.node(source, "Broadcast")
            self.need(len(broadcast.inputs) == 2)
            source, target = broadcast.inputs
            node = self.node(target, "Concat", "ShapeOf")
            if node.type_name == "Concat":
                self.need(len(node.inputs) == 2 and self.is_number(node.inputs[0], 1))
                node = self.node(node.inputs[1], "ShapeOf")
            self.need(node.inputs[0] in like)
        zero = self.value(source)
        self.need(zero.size == 1 and not np.signbit(zero).any() and self.is_number(source, 0))

    def _unfiltered(
        self, values: Source, indices: Source
    ) -> tuple[Source, Source, Operation | None]:
        """Values and indices before those of negative values were left out, and what takes the
        indices; None when none are.
        """
        picks = [self.model.by_id[source.node] for source in (values, indices)]
        if any(pick.type_name != "Gather" for pick in picks):
            return values, indices, None
        self.need(all(self._plain(pick) for pick in picks))
        self.need(
            picks[0].inputs[1] == picks[1].inputs[1]
            and all(self.is_number(pick.inputs[2], 0) for pick in picks)
        )
        kept = self.node(self.behind(picks[0].inputs[1]), "NonZero")
        self.need(self.model.spec(picks[0].inputs[1]).rank == 1)
        condition = self.node(kept.inputs[0], "GreaterEqual")
        own, bound = condition.inputs
        self.need(own == picks[0].inputs[0] and self.is_number(bound, 0))
        self.need(
            self.model.spec(own).rank == self.model.spec(kept.inputs[0]).rank == 1
            and self.model.spec(bound).shape.size == 1
        )
        return own, picks[1].inputs[0], picks[1].operation
