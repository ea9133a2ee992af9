"""If, Loop and TensorIterator as ONNX nodes with sub-graphs. A sub-graph reads values of the graph
around it by name.

A sliced input is cut inside the loop, a sliced output is stacked by ONNX along a new first axis and
joined afterwards, and an output
that is the last iteration's value is carried along.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from uncork.errors import UnsupportedError
from uncork.export.onnx.graph import BOOLEAN, I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ir.bodies import graph_of
from uncork.ir.model import Source
from uncork.ir.validate import infer
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)
from uncork.ops.branch import If8
from uncork.ops.iteration import Loop5, TensorIterator1
from uncork.types import PartialShape, TensorSpec

ONE = np.ones(1, np.int64)


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.type, tensor.shape, tensor.value, tensor.elements)


def _results(child: Graph, body: BodyMap, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What a body gives for these inputs, written into a graph."""
    from uncork.export.onnx.model import lower_nodes

    model = graph_of(body)
    specs = {p: _spec(t) for p, t in zip(model.parameters, inputs, strict=True)}
    checked, problems = infer(model, specs, trust_ports=True)
    UnsupportedError.when(problems, "; ".join(map(str, problems)))
    values = {Source(p, 0): t for p, t in zip(model.parameters, inputs, strict=True)}
    layer, label = child.layer, child.label
    lower_nodes(child, checked, values)
    child.layer, child.label = layer, label
    return [values[checked.by_id[r].inputs[0]] for r in checked.results]


def _proto(child: Graph, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Any:
    """A GraphProto with these inputs and outputs."""
    from onnx import helper

    from uncork.export.onnx.model import named, pruned, value_info

    infos = [value_info(t.name, t.type, t.shape, inner=True) for t in inputs]
    given = []
    for tensor in outputs:
        output = named(child, tensor, child.settings.names.unique(f"{name}/result"))
        given.append(value_info(output, tensor.type, tensor.shape, inner=True))
    nodes, used = pruned(child, {o.name for o in given})
    return helper.make_graph(
        nodes, name, infos, given, [t for n, t in child.initializers.items() if n in used]
    )


# ---- If


def branches(
    g: Graph,
    condition: Tensor,
    then: Sequence[Tensor],
    other: Sequence[Tensor],
    specs: Sequence[TensorSpec],
) -> list[Tensor]:
    """The tensors of one of two branches, chosen by a condition; both are computed already."""
    graphs = []
    for kind, tensors in (("then", then), ("else", other)):
        child = g.child()
        graphs.append(_proto(child, f"{g.layer}/{kind}", [], tensors))
    return _if(g, condition, graphs, specs)


def _if(
    g: Graph, condition: Tensor, graphs: Sequence[Any], specs: Sequence[TensorSpec]
) -> list[Tensor]:
    outputs = g.ops(
        "If",
        condition,
        types=[s.element_type for s in specs],
        then_branch=graphs[0],
        else_branch=graphs[1],
        shape=None,
    )
    return outputs


@lowers("If")
def if_(g: Graph, op: If8, condition: Tensor, *values: Tensor) -> list[Tensor]:
    """ONNX's If, whose sub-graphs read values of the graph around them by name."""
    inputs = [condition, *values]
    graphs = []
    outer = g.outputs
    for name in op.body_names:
        body = op.bodies[name]
        child = g.child()
        results = body.outputs_of(_results(child, body, body.arguments(inputs)))
        graphs.append(_proto(child, f"{g.layer}/{name.removesuffix('_body')}", [], results))
    return _if(g, g.scalar(condition), graphs, outer)


# ---- loops


#: What an iteration gives: the next values, and what is stacked along a new first axis.
Parts = tuple[Sequence[Tensor], Sequence[Tensor]]
#: One iteration, from its graph, its number and the values so far.
Step = Callable[[Graph, Tensor, Sequence[Tensor]], Parts]


def repeated(g: Graph, count: Tensor, starts: Sequence[Tensor], step: Step) -> list[Tensor]:
    """A Loop of `count` iterations: returns the last values, and the stacked parts."""
    child, names = g.child(), g.settings.names
    iteration = Tensor(names.unique(f"{g.layer}/iteration"), I64, PartialShape([]))
    condition = Tensor(names.unique(f"{g.layer}/condition"), BOOLEAN, PartialShape([]))
    values = [Tensor(names.unique(f"{g.layer}/value"), s.type, s.shape) for s in starts]
    after, stacked = step(child, iteration, values)
    inputs, outputs = [iteration, condition, *values], [condition, *after, *stacked]
    graph = _proto(child, f"{g.layer}/body", inputs, outputs)
    types = [t.type for t in (*starts, *stacked)]
    return g.ops("Loop", count, g.constant(np.array(True)), *starts, types=types, body=graph)


class _Iteration:
    """A loop under construction."""

    def __init__(self, g: Graph, body: BodyMap, inputs: Sequence[Tensor]) -> None:
        self.g, self.body, self.inputs = g, body, inputs
        self.child = g.child()
        self.back = body.carried
        self.iteration = self._own("iteration", I64, PartialShape([]))
        self.condition = self._own("condition", BOOLEAN, PartialShape([]))
        self.starts: list[Tensor] = []
        self.carried: list[Tensor] = []
        self.entries: list[int] = []

    def _own(self, name: str, element_type: Any, shape: PartialShape) -> Tensor:
        return Tensor(self.g.settings.names.unique(f"{self.g.layer}/{name}"), element_type, shape)

    def parameters(self) -> list[Tensor]:
        """The values of the body's Parameters."""
        model = graph_of(self.body)
        given: dict[int, Tensor] = {}
        for entry in self.body.inputs:
            declared = self.body.body.input_specs[entry.parameter]
            given[entry.parameter] = self._parameter(
                entry, declared, model.by_id[model.parameters[entry.parameter]].name
            )
        return [given[i] for i in range(len(given))]

    def _parameter(self, entry: BodyInput | TurnNumber, declared: TensorSpec, name: str) -> Tensor:
        if isinstance(entry, TurnNumber):
            count = self.child.cast(self.iteration, declared.element_type)
            return count if not declared.rank else self.child.reshape(count, [1] * declared.rank)
        outer = self.inputs[entry.port]
        if isinstance(entry, SlicedInput):
            return self._part(entry.slicing, outer)
        if entry.parameter not in self.back:
            return outer
        tensor = self._own(name, declared.element_type, declared.shape)
        self.carried.append(tensor)
        self.starts.append(outer)
        self.entries.append(entry.parameter)
        return tensor

    def _part(self, slicing: Slicing, data: Tensor) -> Tensor:
        """The slice of an input that this iteration takes."""
        child = self.child
        first, _ = bounds(child, slicing, data)
        if slicing.stride < 0:
            first = child.op("Sub", first, child.constant(slicing.part_size * ONE))
        moved = child.op(
            "Mul", child.reshape(self.iteration, [1], [1]), child.constant(slicing.stride * ONE)
        )
        start = child.op("Add", first, moved)
        end = child.op("Add", start, child.constant(slicing.part_size * ONE))
        axis = slicing.axis % child.rank(data)
        dims = PartialShape(
            [slicing.part_size if i == axis else d for i, d in enumerate(data.shape)]
        )
        return child.op("Slice", data, start, end, [axis], shape=dims)

    def finish(self, trip_count: Tensor | None, condition: Tensor) -> list[Tensor]:
        """Add the Loop node; returns the layer's outputs."""
        g = self.g
        results = _results(self.child, self.body, self.parameters())
        condition_of = self.body.condition
        go_on = self.condition if condition_of is None else self.child.scalar(results[condition_of])
        after = [results[self.back[p]] for p in self.entries]
        lasts = [o for o in self.body.last if o.result not in self.back.values()]
        for output in lasts:
            result = results[output.result]
            blank = [d.static_size or 0 for d in result.shape] if result.rank is not None else []
            self.carried.append(self._own("last", result.type, PartialShape([None] * len(blank))))
            self.starts.append(g.constant(np.zeros(blank, result.type.dtype), result.type))
            after.append(result)
        scans = self.body.joined
        stacked = [self._part_of(o, results[o.result]) for o in scans]
        inputs = [self.iteration, self.condition, *self.carried]
        graph = _proto(self.child, f"{g.layer}/body", inputs, [go_on, *after, *stacked])
        types = [t.type for t in (*self.carried, *stacked)]
        outputs = g.ops("Loop", trip_count, condition, *self.starts, types=types, body=graph)
        return self._outputs(outputs, lasts, scans, stacked)

    def _part_of(self, output: JoinedOutput, part: Tensor) -> Tensor:
        """A part with the sizes that the whole tells: without a turn no part tells them."""
        whole = self.g.outputs[output.port].shape
        if part.rank is None or whole.rank != part.rank:
            return part
        axis = output.slicing.axis % part.rank
        dims = [
            b if i != axis and b.is_static and not a.is_static else a
            for i, (a, b) in enumerate(zip(part.shape, whole, strict=True))
        ]
        return replace(part, shape=PartialShape(dims))

    def _outputs(
        self,
        outputs: list[Tensor],
        lasts: list[BodyOutput],
        scans: list[JoinedOutput],
        stacked: list[Tensor],
    ) -> list[Tensor]:
        final = {self.back[p]: outputs[i] for i, p in enumerate(self.entries)}
        final.update((o.result, outputs[len(self.entries) + i]) for i, o in enumerate(lasts))
        collected = outputs[len(self.carried) :]
        by_port = {o.port: final[o.result] for o in self.body.last}
        for output, tensor, part in zip(scans, collected, stacked, strict=True):
            by_port[output.port] = self._joined(tensor, part, output.slicing)
        return [by_port[i] for i in range(len(by_port))]

    def _joined(self, stacked: Tensor, part: Tensor, slicing: Slicing) -> Tensor:
        """The parts, stacked [iterations, ..], joined along an axis."""
        g, rank = self.g, self.g.rank(part)
        axis = slicing.axis % rank
        if slicing.stride < 0:
            stacked = g.op("Slice", stacked, [-1], [-(2**62)], [0], [-1])
        moved = (
            g.op("Transpose", stacked, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
            if axis
            else stacked
        )
        sizes = g.op("Shape", moved, type=I64, shape=[rank + 1])
        joined = g.op("ReduceProd", g.slice(sizes, axis, axis + 2, 0), keepdims=1)
        shape = g.op(
            "Concat",
            g.slice(sizes, 0, axis, 0),
            joined,
            g.slice(sizes, axis + 2, rank + 1, 0),
            axis=0,
        )
        return g.op("Reshape", moved, shape, allowzero=1)


def bounds(g: Graph, slicing: Slicing, data: Tensor) -> tuple[Tensor, Tensor]:
    """Where the first slice of an input begins, and the number of slices; both are vectors of one
    element.
    """
    size = data.shape[slicing.axis % g.rank(data)].static_size
    if size is not None:
        first, last = (n + size + 1 if n < 0 else n for n in (slicing.start, slicing.end))
        return g.constant(first * ONE), g.constant(abs(last - first) // abs(slicing.stride) * ONE)
    length = g.dim(data, slicing.axis)
    start, end = (
        g.op("Add", length, g.constant((n + 1) * ONE)) if n < 0 else g.constant(n * ONE)
        for n in (slicing.start, slicing.end)
    )
    distance = g.op("Abs", g.op("Sub", end, start))
    return start, g.op("Div", distance, g.constant(abs(slicing.stride) * ONE))


@lowers("Loop")
def loop(
    g: Graph, op: Loop5, trip_count: Tensor, condition: Tensor, *values: Tensor
) -> list[Tensor]:
    """ONNX's Loop; sliced inputs are cut inside it, concatenated outputs joined after it."""
    inputs = [trip_count, condition, *values]
    limit: Tensor | None = g.scalar(g.cast(trip_count, I64))
    known = trip_count.known()
    if known is not None and known[0] < 0:
        limit = None
    elif known is None and limit is not None:
        limit = g.op(
            "Where", g.op("Less", limit, g.constant(0, I64)), g.constant(2**62, I64), limit
        )
    return _Iteration(g, op.map, inputs).finish(limit, g.scalar(condition))


@lowers("TensorIterator")
def tensor_iterator(g: Graph, op: TensorIterator1, *values: Tensor) -> list[Tensor]:
    """ONNX's Loop, with as many iterations as the sliced inputs have parts."""
    entry = op.map.sliced[0]
    _, count = bounds(g, entry.slicing, values[entry.port])
    return _Iteration(g, op.map, values).finish(g.scalar(count), g.constant(np.array(True)))
