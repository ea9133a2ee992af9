"""Sizes of a tensor that are sizes of the model's inputs are asked of these: the tensor may then be
part of a larger step.

    ShapeOf(MatMul(x, y)) -> Concat(size 0 of x, size 1 of x, size 1 of y)
"""

from __future__ import annotations

from uncork.ir.model import Model, Node, Source
from uncork.ops.concat import Concat1
from uncork.ops.gather import Gather8
from uncork.ops.shape_of import ShapeOf3
from uncork.passes.match_moves import sizes_of
from uncork.passes.rewrite import NewLayers, readers
from uncork.symbolic import SizeLike
from uncork.types import ElementType


def sizes_of_inputs(model: Model) -> Model:
    """The model, which has sizes, where no ShapeOf reads a tensor that others read, too, and whose
    sizes inputs before it have.
    """
    read_by, layers = readers(model), NewLayers(model)
    known: dict[SizeLike, tuple[Source, int]] = {}

    def asked(size: SizeLike, kind: ElementType) -> Source:
        """A size as a tensor of one element."""
        if isinstance(size, int):
            return layers.constant([size], kind)
        source, axis = known[size]
        shape = layers.put(ShapeOf3(output_type=kind), source)
        return layers.put(Gather8(batch_dims=0), shape, layers.constant([axis]), layers.constant(0))

    def rule(node: Node) -> None:
        if node.type_name == "Parameter":
            own = Source(node.id, 0)
            for axis, size in enumerate(sizes_of(model, own) or ()):
                known.setdefault(size, (own, axis))
        if node.type_name != "ShapeOf":
            return
        (source,), output = node.inputs, node.outputs[0].spec
        sizes = sizes_of(model, source)
        alone = all(reader.type_name == "ShapeOf" for reader in read_by[source])
        if not sizes or alone or model.by_id[source.node].type_name == "Parameter":
            return
        if output.value is not None or not all(isinstance(n, int) or n in known for n in sizes):
            return
        layers.put(Concat1(axis=0), *(asked(size, output.element_type) for size in sizes))
        layers.finish(node)

    return layers.rewritten(rule)
