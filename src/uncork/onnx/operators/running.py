"""Running products, which the IR has no layer of: a loop that carries the product so far."""

from __future__ import annotations

import numpy as np

from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import OWN, lowering
from uncork.ops._body import BodyInput, BodyMap, InnerResult, JoinedOutput, SlicedInput, Slicing
from uncork.types import ElementType, PartialShape

T = ElementType


@lowering("CumProd")
def _cumprod(g: Graph, call: Call, data: Source, axis: Source) -> Source:
    rank = g.rank(data)
    exclusive, reverse = bool(call.integer("exclusive")), bool(call.integer("reverse"))
    known = g.known(axis)
    if known is not None:
        place = call.place(int(np.reshape(known, -1)[0]), rank)
        return running_product(g, data, place, exclusive, reverse)
    # Which axis it is only a call knows: it goes in front, and back again.
    axis_number = g.make("FloorMod", g.reshape(axis, [1]), g.like(rank, axis))
    axis_number = g.convert(axis_number, T.i64)
    every = g.i64(list(range(rank)))
    others = g.make("NonZero", g.make("NotEqual", every, axis_number), output_type=T.i64)
    order = g.concat([axis_number, g.reshape(others, [-1])], 0)
    back = g.scatter(every, order, every, 0)
    product = running_product(g, g.make("Transpose", data, order), 0, exclusive, reverse)
    return g.make("Transpose", product, back)


@lowering("CumProd", domain=OWN)
def _cumprod_of_torch(g: Graph, call: Call, data: Source) -> Source:
    """torch.cumprod, which takes a scalar too."""
    rank = g.rank(data)
    return data if rank == 0 else running_product(g, data, call.axis(rank))


def running_product(
    graph: Graph, data: Source, axis: int, exclusive: bool = False, reverse: bool = False
) -> Source:
    """The products of all elements up to each one along an axis."""
    kind = graph.type(data)
    sizes = [1 if d == axis else size for d, size in enumerate(graph.sizes(data))]
    body = Graph("running_product", graph)
    part = body.body_parameter("part", kind, PartialShape(sizes))
    before = body.body_parameter("before", kind, PartialShape(sizes))
    product = body.make("Multiply", before, part)
    body.typed_result(product)
    body.typed_result(before if exclusive else product)
    one = graph.scatter(graph.shape_of(data), graph.i64([axis]), graph.i64([1]), 0)
    first = graph.make("Broadcast", graph.like(1, data), one, mode="numpy")
    walk = Slicing(axis, -1, 0, -1) if reverse else Slicing(axis)
    joined = BodyMap(
        GraphBody(body.model()),
        (SlicedInput(0, 0, walk), BodyInput(1, 1)),
        (InnerResult(0), JoinedOutput(0, 1, walk)),
        ((0, 1),),
    )
    (made,) = graph.add_with_bodies("TensorIterator", 1, data, first, bodies={"body": joined})
    return made
