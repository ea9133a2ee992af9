"""What is joined or moved and then rounded to levels is rounded first: a product ends with the
rounding then, and codes are joined.

    FakeQuantize(Concat(a, b)) = Concat(FakeQuantize(a), FakeQuantize(b))
    FakeQuantize(Transpose(a)) = Transpose(FakeQuantize(a))

Each element is the same. Nothing else may read what is moved, and what is only moved comes from a
product: elsewhere it makes no difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.ir.model import Model, Node, Source
from uncork.kernels.elementwise.lowering import has_lowering
from uncork.ops.convolution import Convolution1
from uncork.ops.fake_quantize import FakeQuantize
from uncork.ops.matmul import MatMul
from uncork.passes.match_moves import same_shape
from uncork.passes.quantized_values import MOVES, is_joined, rounding_of
from uncork.passes.rewrite import NewLayers, only_before, readers
from uncork.types import Array, ElementType

_PRODUCTS = (CompressedLinear, Convolution1, MatMul)


def round_first(model: Model) -> Model:
    """The model with each such rounding before what joins or moves tensors."""
    moves = _Moves(model)

    def rounded(node: Node) -> None:
        if isinstance(node.operation, FakeQuantize) and moves.change(node.inputs[0], node):
            moves.rounded(node, node.inputs[0], moves.limits(node))
            moves.layers.finish(node)

    return moves.layers.rewritten(rounded)


class _Moves:
    """The layers of a model that join or move what only roundings read."""

    def __init__(self, model: Model) -> None:
        self.model, self.layers = model, NewLayers(model)
        self.read_by: Mapping[Source, list[Node]] = readers(model)

    def change(self, source: Source, node: Node) -> bool:
        """Whether the rounding of a tensor by a FakeQuantize comes before what makes this."""
        grid = rounding_of(self.model, node)
        if grid is None:
            return False
        before = self._move(source)
        while before is not None and not self._joins(before):
            if grid.channels and not self._keeps(before):
                return False
            source = before.inputs[0]
            before = self._move(source)
        return before is not None or (source != node.inputs[0] and self._is_product(source))

    def _is_product(self, source: Source) -> bool:
        """Whether a tensor is a product, or made of one element by element and nothing else."""
        node: Node | None = self.model.by_id[source.node]
        while node is not None and has_lowering(node.operation) and node.inputs:
            node = only_before(self.model, self.read_by, node, 0)
        return node is not None and isinstance(node.operation, _PRODUCTS)

    def _move(self, source: Source) -> Node | None:
        """The layer that joins or moves tensors to make one that only roundings read."""
        node = self.model.by_id[source.node]
        moves = self._joins(node) or isinstance(node.operation, MOVES)
        return node if moves and self._only_rounded(node) else None

    def _joins(self, node: Node) -> bool:
        return is_joined(self.model, node)

    def _keeps(self, node: Node) -> bool:
        """Whether a layer keeps the shape: it is a view."""
        views = node.type_name == "View"
        return views and same_shape(self.model.spec(node.inputs[0]), node.outputs[0].spec)

    def _only_rounded(self, node: Node) -> bool:
        """Whether all that read a layer round it, or what they join or move is rounded so."""
        return all(
            rounding_of(self.model, reader) is not None and reader.inputs[0].node == node.id
            if isinstance(reader.operation, FakeQuantize)
            else (self._joins(reader) or isinstance(reader.operation, MOVES))
            and self._only_rounded(reader)
            for reader in self.read_by.get(Source(node.id, 0), ())
        )

    def limits(self, node: Node) -> list[Array]:
        """The limits of a FakeQuantize: numbers, or those of each channel."""
        values = [self.model.spec(source).known for source in node.inputs[1:]]
        return [value.reshape(()) if value.size == 1 else value for value in values]

    def rounded(self, node: Node, source: Source, limits: Sequence[Array]) -> Source:
        """A tensor that is rounded between limits as a FakeQuantize says, before the layers that
        join and move it.
        """
        move = self._move(source)
        if move is None or not (self._joins(move) or self._keeps(move) or _are_numbers(limits)):
            given = [self.layers.constant(limit, ElementType.f32) for limit in limits]
            name = f"{node.name}/{self.model.by_id[source.node].name}"
            return self.layers.put(node.checked_operation, source, *given, name=name)
        if self._keeps(move):
            return self.rounded(node, move.inputs[0], limits)
        name = f"{node.name}/{move.name}"
        if not self._joins(move):
            data, *others = move.inputs
            made = self.rounded(node, data, limits)
            return self.layers.put(move.checked_operation, made, *others, name=name)
        first, parts = 0, []
        for part in move.inputs:
            channels = slice(first, first + int(self.model.spec(part).shape[1]))
            own = [limit[:, channels] if limit.ndim else limit for limit in limits]
            first = channels.stop
            parts.append(self.rounded(node, part, own))
        return self.layers.put(move.checked_operation, *parts, name=name)


def _are_numbers(limits: Sequence[Array]) -> bool:
    """Whether limits hold for all elements."""
    return not any(limit.ndim for limit in limits)
