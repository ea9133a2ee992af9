"""If, Loop and Scan: graphs in nodes become bodies of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from uncork.errors import ValidationError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.lower import Scope
from uncork.onnx.registry import Added, Rows, Value, lowering
from uncork.ops._body import (
    CONDITION,
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    SlicedInput,
    Slicing,
    TurnNumber,
)
from uncork.types import DYNAMIC, ElementType, PartialShape

T = ElementType


class _Body:
    """A graph in a node, lowered into a graph of its own."""

    def __init__(self, call: Call, proto: Any) -> None:
        self.call, self.proto = call, proto
        self.graph = Graph(proto.name or "body", call.graph)
        self.scope = Scope(call.scope.lowerer, self.graph, call.scope)
        self.parameters: list[Source] = []

    def take(self, name: str, kind: ElementType, shape: PartialShape) -> Source:
        """Give a name of the graph a parameter."""
        source = self.graph.body_parameter(self.graph.named(name or "unused"), kind, shape)
        self.parameters.append(source)
        self.scope.values[name] = source
        return source

    def lower(self) -> list[Source]:
        """The outputs of the graph, which are tensors."""
        return [_tensor(self.call, value) for value in self.values()]

    def values(self) -> list[Value]:
        """The outputs of the graph. Raises Failed where a node of it was refused."""
        return self.call.scope.lowerer.graph(self.scope, self.proto)

    def map(
        self,
        inputs: Sequence[BodyInput | TurnNumber],
        outputs: Sequence[BodyOutput | InnerResult],
        edges: list[tuple[int, int]],
        more: list[Source],
    ) -> BodyMap:
        """The body joined to the layer; what it captures is added to the layer's inputs `more`."""
        joined = list(inputs)
        for source, inner in self.graph.captured.items():
            if source not in more:
                more.append(source)
            joined.append(BodyInput(more.index(source), self.graph.position_of(inner)))
        return BodyMap(GraphBody(self.graph.model()), tuple(joined), tuple(outputs), tuple(edges))


def _tensor(call: Call, value: Value) -> Source:
    if isinstance(value, Source):
        return value
    raise call.refuse(
        "a sequence or an optional that a graph in a node gives", "give tensors of equal shapes"
    )


# ---- If


@lowering("If")
def _if(g: Graph, call: Call, condition: Source) -> tuple[Value, ...]:
    value = g.known(condition)
    if value is not None:
        proto = call.need("then_branch" if bool(value.reshape(-1)[0]) else "else_branch")
        return _in_place(g, call, proto)
    bodies: dict[str, BodyMap] = {}
    more = [condition]
    for tag in ("then", "else"):
        body = _Body(call, call.need(f"{tag}_branch"))
        results = body.lower()
        for source in results:
            body.graph.typed_result(source)
        outputs = [BodyOutput(i, i) for i in range(len(results))]
        bodies[f"{tag}_body"] = body.map([], outputs, [], more)
    return g.add_with_bodies("If", 8, *more, bodies=bodies)


def _in_place(g: Graph, call: Call, proto: Any) -> tuple[Value, ...]:
    """The nodes of a branch that is known to be taken, in place of the node."""
    lowerer = call.scope.lowerer
    scope = Scope(lowerer, g, call.scope)
    scope.prefix = f"{call.name}/"
    return tuple(lowerer.graph(scope, proto))


# ---- Loop


@lowering("Loop")
def _loop(
    g: Graph, call: Call, m: Source | None = None, cond: Source | None = None
) -> tuple[Value, ...]:
    proto = call.need("body")
    carried = max(0, call.count - 2)
    ValidationError.when(
        len(proto.input) != carried + 2 or len(proto.output) < carried + 1,
        f"its body has {len(proto.input)} inputs and {len(proto.output)} outputs, "
        f"expected {carried + 2} and {carried + 1} or more",
    )
    filled = [i for i in range(carried) if isinstance(call.values[i + 2], (list, Rows))]
    kept = [i for i in range(carried) if i not in filled]
    initial = [call[i + 2] for i in kept]
    trips = g.i64(-1) if m is None else g.reshape(m, [])
    goes_on = g.constant(True) if cond is None else g.reshape(cond, [])
    specs = [g.spec(source) for source in initial]
    shapes = [spec.shape for spec in specs]
    for attempt in range(4):
        body = _Body(call, proto)
        body.take(proto.input[0].name, T.i64, PartialShape([]))
        body.take(proto.input[1].name, T.boolean, PartialShape([]))
        for i, spec, shape in zip(kept, specs, shapes, strict=True):
            body.take(proto.input[i + 2].name, spec.element_type, shape)
        body.scope.values.update((proto.input[i + 2].name, Added()) for i in filled)
        values = body.values()
        added = [_added(call, values[i + 1]) for i in filled]
        results = [_tensor(call, v) for i, v in enumerate(values) if i - 1 not in filled]
        wider = [
            _wider(shape, body.graph.spec(result).shape, attempt)
            for shape, result in zip(shapes, results[1:], strict=False)
        ]
        if wider == shapes:
            break
        shapes = wider
    inner, count = body.graph, len(initial)
    inner.typed_result(inner.reshape(results[0], []))
    for source in results[1 : count + 1]:
        inner.typed_result(source)
    for source in results[count + 1 :]:
        inner.typed_result(inner.unsqueeze(source, 0))
    for rows in added:
        inner.typed_result(inner.concat([inner.unsqueeze(source, 0) for source in rows], 0))
    inputs: list[BodyInput | TurnNumber] = [TurnNumber(0)]
    inputs += [BodyInput(i + 1, i + 1) for i in range(count + 1)]
    outputs: list[BodyOutput | InnerResult] = [InnerResult(0, purpose=CONDITION)]
    outputs += [BodyOutput(i, i + 1) for i in range(count)]
    outputs += [JoinedOutput(i, i + 1, Slicing(0)) for i in range(count, len(results) - 1)]
    outputs += [
        JoinedOutput(i, i + 1, Slicing(0, stride=len(rows), part_size=len(rows)))
        for i, rows in enumerate(added, len(results) - 1)
    ]
    edges = [(i, i + 1) for i in range(count + 1)]
    more = [trips, goes_on, *initial]
    joined = body.map(inputs, outputs, edges, more)
    made = g.add_with_bodies("Loop", 5, *more, bodies={"body": joined})
    tensors: list[Value] = list(made[: len(results) - 1])
    for i, source in zip(filled, made[len(results) - 1 :], strict=True):
        tensors.insert(i, _behind(g, call, call.values[i + 2], source))
    return tuple(tensors)


def _added(call: Call, value: Value) -> tuple[Source, ...]:
    """What a turn has added to a sequence."""
    if isinstance(value, Added) and value.tensors:
        return value.tensors
    raise call.refuse(
        "a sequence that a turn of a loop does not add tensors to", "give tensors of equal shapes"
    )


def _behind(g: Graph, call: Call, before: Value, rows: Source) -> Rows:
    """The sequence of what there was before a loop, and of the rows that its turns gave."""
    if isinstance(before, Rows):
        return Rows(g.concat([before.tensor, rows], 0))
    assert isinstance(before, list)
    first = [g.unsqueeze(_tensor(call, value), 0) for value in before]
    return Rows(g.concat([*first, rows], 0) if first else rows)


def _wider(before: PartialShape, after: PartialShape, attempt: int) -> PartialShape:
    """The shape of what is carried from turn to turn, which may change."""
    if before.rank is None or after.rank is None or before.rank != after.rank:
        return PartialShape()
    if attempt > 2:
        return PartialShape()
    return PartialShape([a if a == b else DYNAMIC for a, b in zip(before, after, strict=True)])


# ---- Scan


@lowering("Scan")
def _scan_of_batches(
    g: Graph, call: Call, sequence_lens: Source | None = None
) -> tuple[Value, ...]:
    call.refuse_if(
        sequence_lens is not None,
        "sequence_lens of Scan-8",
        "convert the model to opset 9 or newer",
    )
    proto = call.need("body")
    scanned = call.integer("num_scan_inputs")
    values = [call[i] for i in range(1, call.count)]
    batch = call.wanted(
        g.sizes(values[0])[0] if values else None,
        "Scan-8 with an open batch",
        "convert the model to opset 9 or newer",
    )
    directions = call.integers("directions", [0] * scanned)
    states = len(values) - scanned
    results: list[list[Source]] = []
    for row in range(batch):
        rows = [g.gather(v, row, 0) for v in values]
        results.append(_scan(g, call, proto, rows[:states], rows[states:], directions))
    columns = list(zip(*results, strict=True))
    return tuple(g.concat([g.unsqueeze(v, 0) for v in column], 0) for column in columns)


@lowering("Scan", since=9)
def _scan_of_axes(g: Graph, call: Call) -> tuple[Value, ...]:
    proto, scanned = call.need("body"), call.integer("num_scan_inputs")
    values = call.tensors
    states = len(values) - scanned
    ValidationError.when(
        not 0 < scanned <= len(values),
        f"attribute 'num_scan_inputs': got {scanned} of {len(values)}",
    )
    directions = call.integers("scan_input_directions", [0] * scanned)
    return tuple(_scan(g, call, proto, values[:states], values[states:], directions))


def _scan(
    g: Graph,
    call: Call,
    proto: Any,
    states: Sequence[Source],
    scanned: Sequence[Source],
    directions: Sequence[int],
) -> list[Source]:
    """The outputs of a loop over parts of what is scanned. Version 8 has no axes: they are 0."""
    axes = call.integers("scan_input_axes", [0] * len(scanned))
    output_axes = call.integers("scan_output_axes")
    output_directions = call.integers("scan_output_directions")
    ValidationError.when(
        len(proto.input) != len(states) + len(scanned) or len(proto.output) < len(states),
        f"its body has {len(proto.input)} inputs, expected {len(states) + len(scanned)}",
    )
    body = _Body(call, proto)
    inputs: list[BodyInput] = []
    for i, source in enumerate(states):
        spec = g.spec(source)
        body.take(proto.input[i].name, spec.element_type, spec.shape)
        inputs.append(BodyInput(i, i))
    for i, source in enumerate(scanned):
        rank = g.rank(source)
        axis = call.place(axes[i], rank)
        shape = [1 if d == axis else n for d, n in enumerate(g.sizes(source))]
        position = len(states) + i
        name = proto.input[position].name
        part = body.take(name, g.type(source), PartialShape(shape))
        body.scope.values[name] = body.graph.squeeze(part, axis)
        inputs.append(SlicedInput(position, position, _walk(axis, directions[i])))
    results = body.lower()
    outputs: list[BodyOutput] = []
    for i, source in enumerate(results):
        if i < len(states):
            outputs.append(BodyOutput(i, i))
            body.graph.typed_result(source)
            continue
        k = i - len(states)
        rank = body.graph.rank(source) + 1
        axis = call.place(output_axes[k] if k < len(output_axes) else 0, rank)
        back = output_directions[k] if k < len(output_directions) else 0
        body.graph.typed_result(body.graph.unsqueeze(source, axis))
        outputs.append(JoinedOutput(i, i, _walk(axis, back)))
    edges = [(i, i) for i in range(len(states))]
    more = [*states, *scanned]
    joined = body.map(inputs, outputs, edges, more)
    return list(g.add_with_bodies("TensorIterator", 1, *more, bodies={"body": joined}))


def _walk(axis: int, backwards: int) -> Slicing:
    return Slicing(axis, -1, 0, -1) if backwards else Slicing(axis)
