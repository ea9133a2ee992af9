"""Variables become rows of tables: a call reads the rows whose numbers it is given, and writes what
it assigns into other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.state_rows import StoreRows
from uncork.ir.model import Model, Source
from uncork.ops.broadcast import Broadcast3
from uncork.ops.concat import Concat1
from uncork.ops.gather import Gather8
from uncork.ops.parameter import Parameter, Result
from uncork.ops.shape_of import ShapeOf3
from uncork.ops.squeeze import Squeeze1, Unsqueeze1
from uncork.ops.transpose import Transpose1
from uncork.passes.rewrite import NewLayers, pruned, with_bodies
from uncork.types import ElementType, PartialShape, TensorSpec


class Kept(Struct, frozen=True):
    """What a session keeps of a variable: an array of `shape`, in which `axis` is of size 1 and
    counts sessions in a batch.

    Without such an axis all rows of a batch share the value: sessions in which it differs are not
    of one batch.
    """

    name: str
    element_type: ElementType
    shape: tuple[int, ...]
    axis: int | None

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row of the table."""
        axis = self.axis
        return self.shape if axis is None else (*self.shape[:axis], *self.shape[axis + 1 :])


def state_rows(
    model: Model, results: int, kept: Sequence[Kept], taken: Sequence[int], given: Sequence[int]
) -> Model:
    """The model with tables in the place of its last parameters, which are values of variables, and
    of what it gives behind so many `results`, which is assigned to them.

    `taken` says which of `kept` each of these parameters is, and `given` which result each of
    `kept` is assigned. The parameters become: the numbers of the rows that are read, those of the
    rows that are written, the tables that are read, the tables that are written. Behind the results
    comes what the layers that write give.
    """
    return _Rows(model, results, kept).made(taken, given)


def rows_alike(model: Model) -> Model:
    """The model whose layers, those in bodies included, add up the products of every row in one
    order, in any batch.
    """
    nodes = []
    for node in model.nodes:
        node = with_bodies(node, rows_alike)
        nodes.append(replace(node, hints=replace(node.hints, rows_alike=True)))
    return replace(model, nodes=tuple(nodes))


def with_front_axis(model: Model, shared: Collection[int]) -> Model:
    """The model with an axis of size 1 in front of every input and result, but for the `shared`
    inputs, by number.
    """
    new = NewLayers(model)
    front = new.constant([0])
    parameters = list(model.parameters)
    moved = {p for number, p in enumerate(parameters) if number not in shared}
    for number, old in enumerate(parameters):
        if old in moved:
            spec = model.by_id[old].outputs[0].spec
            shape = PartialShape([1, *spec.shape.dims])
            given = new.put(Parameter(element_type=spec.element_type, shape=shape))
            new.put(Squeeze1(), given, front, place=old)
            parameters[number] = given.node
    before = new.taken()
    for result in model.results:
        value = new.put(Unsqueeze1(), model.by_id[result].inputs[0], front)
        new.put(Result(), value, place=result)
    gone = {*moved, *model.results}
    own = [node for node in model.nodes if node.id not in gone]
    return replace(model, nodes=(*before, *own, *new.nodes), parameters=tuple(parameters))


class _Rows:
    """The nodes before and behind those of the model."""

    def __init__(self, model: Model, results: int, kept: Sequence[Kept]) -> None:
        self.model, self.results, self.kept = model, results, kept
        self.new = NewLayers(model)
        numbers = TensorSpec(ElementType.i64, PartialShape([None]))
        tables = [TensorSpec(k.element_type, PartialShape([None, *k.row])) for k in kept]
        self.rows, self.targets = (
            self._parameter(name, numbers) for name in ("rows", "rows written")
        )
        self.tables, self.written = (
            [
                self._parameter(f"{k.name} {what}", spec)
                for k, spec in zip(kept, tables, strict=True)
            ]
            for what in ("table", "table written")
        )

    def made(self, taken: Sequence[int], given: Sequence[int]) -> Model:
        model = self.model
        count = len(model.parameters) - len(taken)
        for parameter, number in zip(model.parameters[count:], taken, strict=True):
            self._read(number, parameter)
        before = self.new.taken()
        stored = [
            self._stored(number, model.by_id[model.results[result]].inputs[0])
            for number, result in enumerate(given)
        ]
        gone = {*model.parameters[count:]}
        own = [node for node in model.nodes if node.id not in gone]
        parameters = (self.rows, self.targets, *self.tables, *self.written)
        rewritten = replace(
            model,
            nodes=(*before, *own, *self.new.nodes),
            parameters=(*model.parameters[:count], *(source.node for source in parameters)),
            results=(*model.results[: self.results], *stored),
        )
        return pruned(rewritten)

    def _read(self, number: int, place: int) -> None:
        """The rows of a table as the variable's value in a batch, in the place of a node."""
        kept, table, new = self.kept[number], self.tables[number], self.new
        zero = new.constant(0)
        if kept.axis is None:
            first = new.put(Gather8(), self.rows, new.constant([0]), zero)
            row = new.put(Gather8(), table, first, zero)
            new.put(Squeeze1(), row, new.constant([0]), place=place)
        elif kept.axis == 0:
            new.put(Gather8(), table, self.rows, zero, place=place)
        else:
            found = new.put(Gather8(), table, self.rows, zero)
            order = [*range(1, kept.axis + 1), 0, *range(kept.axis + 1, len(kept.shape))]
            new.put(Transpose1(), found, new.constant(order), place=place)

    def _stored(self, number: int, value: Source) -> int:
        """The Result of the layer that writes what a variable is assigned."""
        kept, new = self.kept[number], self.new
        axis = kept.axis
        if axis is None:
            one = new.put(Unsqueeze1(), value, new.constant([0]))
            count = new.put(ShapeOf3(output_type=ElementType.i64), self.targets)
            sizes = new.constant(kept.shape)
            value = new.put(Broadcast3(), one, new.put(Concat1(axis=0), count, sizes))
        elif axis:
            order = [axis, *(i for i in range(len(kept.shape)) if i != axis)]
            value = new.put(Transpose1(), value, new.constant(order))
        written = new.put(StoreRows(kept.name), self.written[number], self.targets, value)
        return new.put(Result(), written).node

    def _parameter(self, name: str, spec: TensorSpec) -> Source:
        return self.new.put(Parameter(element_type=spec.element_type, shape=spec.shape), name=name)
