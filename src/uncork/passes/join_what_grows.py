"""Values that a loop carries along, and to which each turn only adds a part, are joined of the
parts once, behind the loop.

    out = Concat(out, part)      as programs collect what turns give: x = torch.cat([x, y], 1)

becomes an output of the loop that is put together of the parts, and one Concat of what was there
before and of that. A turn that adds in front gives parts in the opposite order. What a turn reads
of the end that grows (the last token) is read of the last part, which is carried in its place. So
no turn copies what the others gave, and a plan knows the sizes of all that a turn takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from uncork.errors import UncorkError, UnsupportedError
from uncork.ir.bodies import GraphBody, graph_of
from uncork.ir.model import Model, Node, Source
from uncork.ir.validate import infer
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, Slicing
from uncork.ops.concat import Concat1
from uncork.ops.iteration import Iteration
from uncork.ops.slice import Slice8
from uncork.passes.match_parts import cuts_of, gathered_axis, known_integers, only_cut
from uncork.passes.rewrite import NewLayers, readers
from uncork.types import PartialShape, TensorSpec

#: Where a Slice ends that goes to the end.
_END = 2**62


class _Growth(Struct, frozen=True):
    """A carried value that grows: the Parameter and the Results that it is, the input and the
    outputs of the loop, the Concat, what that adds, and along which axis.
    """

    parameter: int
    port: int
    results: tuple[int, ...]
    outputs: tuple[int, ...]
    concat: Node
    added: tuple[Source, ...]
    axis: int
    size: int
    in_front: bool
    #: Whether turns read the end that grows.
    is_read: bool

    @property
    def slicing(self) -> Slicing:
        """How an output is put together of the parts."""
        if self.in_front:
            return Slicing(self.axis, -1, 0, -self.size, self.size)
        return Slicing(self.axis, 0, -1, self.size, self.size)


def join_what_grows(model: Model) -> Model:
    """The model with such values joined behind their loops."""
    layers, moved = NewLayers(model), dict[Source, Source]()
    for node in model.nodes:
        node = node.reading(moved)
        starts: dict[int, tuple[Source, _Growth]] = {}
        while (growth := _growth(node)) is not None:
            start = node.inputs[growth.port]
            if (after := _without(layers, node, growth)) is None:
                break
            starts |= dict.fromkeys(growth.outputs, (start, growth))
            node = after
        layers.nodes.append(node)
        for port, (start, growth) in starts.items():
            moved[Source(node.id, port)] = _joined(layers, node, port, start, growth)
    return layers.model() if moved else model


def _growth(node: Node) -> _Growth | None:
    """The first value of a loop that grows; None where there is none, or the layer is no loop."""
    operation = node.operation
    if not isinstance(operation, Iteration) or not isinstance(operation.map.body, GraphBody):
        return None
    joined, body = operation.map, operation.map.body.model
    read_by = readers(body)
    may_grow = [
        parameter
        for _, parameter in joined.back_edges
        if any(
            node.type_name == "Concat"
            for node in read_by.get(Source(body.parameters[parameter], 0), [])
        )
    ]
    if may_grow:  # bodies of files have no values of constants yet
        body, problems = infer(body, trust_ports=True)
        may_grow = [] if problems else may_grow
    found = (_grown(joined, body, parameter) for parameter in may_grow)
    return next((growth for growth in found if growth is not None), None)


def _grown(joined: BodyMap, body: Model, parameter: int) -> _Growth | None:
    """How the value of a Parameter grows; None where turns do anything else with it."""
    read_by = readers(body)
    entry = joined.input_of(parameter)
    value = Source(body.parameters[parameter], 0)
    concats = [n for n in read_by.get(value, []) if n.type_name == "Concat"]
    rank = body.spec(value).rank
    if len(concats) != 1 or not isinstance(entry, BodyInput) or not rank:
        return None
    (concat,) = concats
    whole = Source(concat.id, 0)
    results = tuple(n for n, r in enumerate(body.results) if body.by_id[r].inputs[0] == whole)
    outputs = [o for o in joined.outputs if o.result in results]
    carried = [p for r, p in joined.back_edges if r in results]
    if carried != [parameter] or any(o.purpose or isinstance(o, JoinedOutput) for o in outputs):
        return None
    in_front = concat.inputs[0] != value
    added = concat.inputs[:-1] if in_front else concat.inputs[1:]
    if concat.inputs[-1 if in_front else 0] != value or value in added:
        return None
    axis = int(getattr(concat.operation, "axis", 0)) % rank
    sizes = [body.spec(s).shape[axis].static_size for s in added if body.spec(s).rank == rank]
    size = sum(n or 0 for n in sizes)
    if len(sizes) < len(added) or None in sizes or not size:
        return None
    peeks = [*_peeks(body, read_by, value), *_peeks(body, read_by, whole)]
    others = [
        n for n in peeks if n is not concat and (n.type_name, n.inputs[0]) != ("Result", whole)
    ]
    if not all(_is_of_the_end(body, n, axis, size, in_front) for n in others):
        return None
    is_read = len(read_by[value]) > 1
    return _Growth(
        parameter, entry.port, results, tuple(o.port for o in joined.given if o in outputs),
        concat, added, axis, size, in_front, is_read,
    )  # fmt: skip


def _peeks(body: Model, read_by: Mapping[Source, list[Node]], value: Source) -> Iterator[Node]:
    """The layers that read a tensor, behind slices that leave it as it is."""
    for node in read_by.get(value, []):
        if node.inputs[0] == value and _is_whole(body, node):
            yield from _peeks(body, read_by, Source(node.id, 0))
        else:
            yield node


def _is_whole(body: Model, node: Node) -> bool:
    """Whether a Slice takes all there is: `x[:, -1]` is one of all rows and a Gather."""
    cuts = cuts_of(body, node)
    return bool(cuts) and all(cut.is_whole for cut in cuts or ())


def _is_of_the_end(body: Model, node: Node, axis: int, size: int, in_front: bool) -> bool:
    """Whether a layer reads, of its first input, what the last part has."""
    inside = range(size) if in_front else range(-size, 0)
    if gathered_axis(body, node) == axis:
        places = known_integers(body, node.inputs[1])
        return places is not None and all(place in inside for place in places)
    cut = only_cut(body, node)
    if cut is None or cut.axis != axis or cut.step != 1:
        return False
    if in_front:
        return cut.start == 0 and 0 < cut.stop <= size
    return cut.start in inside and cut.goes_to_the_end


# ---- the loop without it


def _without(layers: NewLayers, node: Node, growth: _Growth) -> Node | None:
    """The loop that gives the parts; None where it does not take that."""
    assert isinstance(node.operation, Iteration)
    joined, inputs, number = node.operation.map, list(node.inputs), growth.parameter
    entries, back = joined.inputs, joined.back_edges
    if growth.is_read:
        entries = tuple(
            replace(e, port=len(inputs)) if e.parameter == number else e for e in entries
        )
        inputs.append(_end(layers, inputs[growth.port], growth))
    else:
        entries = tuple(
            replace(e, parameter=e.parameter - (e.parameter > number))
            for e in entries
            if e.parameter != number
        )
        back = tuple((r, p - (p > number)) for r, p in back if p != number)
    outputs = tuple(
        JoinedOutput(o.port, o.result, growth.slicing)
        if isinstance(o, BodyOutput) and o.port in growth.outputs
        else o
        for o in joined.outputs
    )
    try:
        body = GraphBody(_body(graph_of(joined), growth))
        bodies = {"body": BodyMap(body, entries, outputs, back)}
        operation = node.operation.replace(bodies=bodies)
        specs = operation.describe([layers.spec(source) for source in inputs])
    except UncorkError:  # what is wrong with the loop is said of it as it was
        return None
    layers.know(node.id, specs)
    return replace(node, inputs=tuple(inputs), operation=operation, outputs=node.ports(specs))


def _body(body: Model, growth: _Growth) -> Model:
    """The body that gives the part alone."""
    parameter, concat = body.parameters[growth.parameter], growth.concat
    part = growth.added[0] if len(growth.added) == 1 else Source(concat.id, 0)
    nodes: list[Node] = []
    for node in body.nodes:
        inputs = tuple(part if s == Source(concat.id, 0) else s for s in node.inputs)
        if node.id == parameter:
            if not growth.is_read:
                continue
            spec = node.outputs[0].spec
            dims = [None if a == growth.axis else d for a, d in enumerate(spec.shape)]
            port = replace(node.outputs[0], spec=TensorSpec(spec.element_type, PartialShape(dims)))
            node = replace(node, outputs=(port,))
        if node.id == concat.id:
            if len(growth.added) == 1:
                continue
            inputs = growth.added
        nodes.append(replace(node, inputs=inputs))
    kept = tuple(p for p in body.parameters if growth.is_read or p != parameter)
    after, problems = infer(replace(body, nodes=tuple(nodes), parameters=kept), trust_ports=True)
    UnsupportedError.when(bool(problems), "the body does not take a part")
    return after


def _end(layers: NewLayers, initial: Source, growth: _Growth) -> Source:
    """The part of the first value that a turn may read."""
    start, stop = (0, growth.size) if growth.in_front else (-growth.size, _END)
    numbers = [layers.constant([n]) for n in (start, stop, 1, growth.axis)]
    return layers.put(Slice8(), initial, *numbers)


def _joined(layers: NewLayers, loop: Node, port: int, initial: Source, growth: _Growth) -> Source:
    """What an output was: what was there before, and the parts."""
    parts = Source(loop.id, port)
    tensors = (parts, initial) if growth.in_front else (initial, parts)
    return layers.put(Concat1(axis=growth.axis), *tensors, name=f"{loop.name}/grown {port}")
