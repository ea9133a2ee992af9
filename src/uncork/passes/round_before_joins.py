"""What is joined and then rounded to levels is rounded before it is joined: a product ends with the
rounding then, and codes are joined.

    FakeQuantize(Concat(a, b)) = Concat(FakeQuantize(a), FakeQuantize(b))

Each element is the same. Nothing else may read what is joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.ir.model import Model, Node, Source
from uncork.ops.concat import Concat1
from uncork.ops.fake_quantize import FakeQuantize
from uncork.passes.match_moves import same_shape
from uncork.passes.quantized_values import joins_channels, rounding_of
from uncork.passes.rewrite import NewLayers, readers
from uncork.types import ElementType


def round_before_joins(model: Model) -> Model:
    """The model with each such rounding before what joins tensors."""
    joins = _Joins(model)

    def rounded(node: Node) -> bool:
        join = joins.rounded_by(node)
        if join is None:
            return False
        joins.round(node, join, node.inputs[1:])
        joins.layers.finish(node)
        return True

    return joins.layers.rewritten(rounded)


class _Joins:
    """The Concat layers of a model that only roundings read."""

    def __init__(self, model: Model) -> None:
        self.model, self.layers = model, NewLayers(model)
        self.read_by: Mapping[Source, list[Node]] = readers(model)

    def rounded_by(self, node: Node) -> Node | None:
        """The Concat whose result a FakeQuantize rounds, perhaps behind views that keep its shape;
        None where it is another layer, or others read it.
        """
        if not isinstance(node.operation, FakeQuantize) or rounding_of(self.model, node) is None:
            return None
        return self._join(node.inputs[0])

    def _join(self, source: Source) -> Node | None:
        node = self.model.by_id[source.node]
        while self._keeps(node):
            node = self.model.by_id[node.inputs[0].node]
        joins = joins_channels(self.model, node) and self._only_rounded(node)
        return node if joins else None

    def _keeps(self, node: Node) -> bool:
        """Whether a layer is a view that keeps the shape."""
        if node.type_name != "View":
            return False
        return same_shape(self.model.spec(node.inputs[0]), node.outputs[0].spec)

    def _only_rounded(self, node: Node) -> bool:
        """Whether all that read a layer round it, or what they join or view is rounded so."""
        return all(
            rounding_of(self.model, reader) is not None and reader.inputs[0].node == node.id
            if isinstance(reader.operation, FakeQuantize)
            else (isinstance(reader.operation, Concat1) or self._keeps(reader))
            and self._only_rounded(reader)
            for reader in self.read_by.get(Source(node.id, 0), ())
        )

    def round(self, node: Node, join: Node, limits: Sequence[Source]) -> Source:
        """What a Concat joins, each part rounded between its limits as a FakeQuantize says, and
        joined again.
        """
        first, parts = 0, []
        for number, source in enumerate(join.inputs):
            channels = slice(first, first + int(self.model.spec(source).shape[1]))
            own, first = [self._some(limit, channels) for limit in limits], channels.stop
            inner = self._join(source)
            if inner is not None:
                parts.append(self.round(node, inner, own))
                continue
            name = f"{node.name}/{join.name}/{number}"
            parts.append(self.layers.put(node.checked_operation, source, *own, name=name))
        return self.layers.put(join.checked_operation, *parts, name=f"{node.name}/{join.name}")

    def _some(self, limit: Source, channels: slice) -> Source:
        """The limit of some channels."""
        value = self.layers.spec(limit).known
        if value.size == 1:
            return limit
        return self.layers.constant(value[:, channels], ElementType.f32)
