"""`Walk`: follows the time axis through a model, layer by layer, and writes the stream.

Sizes are symbols (`ir/symbols.py`): the time axis of a tensor is the one whose size has the
sequence's length in it. What layers do with time beside that stands in the rules (`rules.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from uncork.errors import Problem, UncorkError, UnsupportedError, ValidationError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Node, Source
from uncork.ir.symbols import infer_symbolic
from uncork.ir.taken_branches import TakenBranches
from uncork.ops._operation import Operation
from uncork.ops.parameter import Parameter
from uncork.passes.drop_unread_layers import drop_unread_layers
from uncork.surgery.streams.attention import Scores, attended
from uncork.surgery.streams.flow import Flow, Refusal, refused
from uncork.surgery.streams.rules import NO_RULE, rule_of
from uncork.surgery.streams.writer import Writer, given_sources, numbers
from uncork.symbolic import Size, Symbol
from uncork.types import Array, Dimension, PartialShape, TensorSpec

#: Operations that only move the elements of their first input.
_MOVING = frozenset({"Broadcast", "Convert", "Reshape", "Squeeze", "Unsqueeze"})
#: Operations that may be told sizes of the sequence: a stream tells those of its frames.
_BY_SIZES = frozenset(
    {"Broadcast", "GRUSequence", "LSTMSequence", "RNNSequence", "Range", "Reshape", "Slice"}
    | {"StridedSlice"}
)
_RECKONS = "reckons with the length of the whole sequence, which a stream does not know"
#: Least lengths of a sequence, of which the first that the layers take is what is described.
_LONG = (1 << 16, 1 << 10, 64, 1)


class Walk:
    """One walk over a model whose inputs have time in some axes, by position."""

    def __init__(
        self,
        model: Model,
        axes: Mapping[int, int],
        frames: Dimension,
        initial: Mapping[int, Array] | None = None,
        keep: int | None = None,
    ) -> None:
        """`keep` is how many frames attention keeps, where its mask does not tell."""
        self.axes, self.frames = dict(axes), frames
        #: Values of inputs that are initial states: the stream has them inside.
        self.initial = dict(initial or {})
        self._given = model
        # What layers that no result needs could take does not count: they do not run.
        self.model = _of_long_sequences(drop_unread_layers(model), self.axes)
        self.by_id = {node.id: node for node in self.model.nodes}
        self.writer = Writer(model.name)
        self.flows: dict[Source, Flow] = {}
        self.keep = keep
        #: Scores of attention over time, by their tensors.
        self.scores: dict[Source, Scores] = {}
        #: For how many frames the stream is what the whole sequence is; None: for ever.
        self.limit: int | None = None
        #: Layers whose names are given to layers of the stream.
        self._named: set[int] = set()
        #: What numbers of frames of a call must be multiples of.
        self.multiple = 1
        self.time: frozenset[Symbol] = frozenset()
        for position, axis in self.axes.items():
            size = self._spec_of_input(position).shape[axis].as_size()
            if size.constant is not None:
                raise UnsupportedError(
                    f"input '{model.name_of_input(position)}': the layers take {size} frames and "
                    f"no other number in axis {axis}; export the model with an open sequence length"
                )
            self.time |= size.symbols

    # ---- what is known of the whole sequence

    def _spec_of_input(self, position: int) -> TensorSpec:
        return self.by_id[self.model.parameters[position]].outputs[0].spec

    def spec(self, source: Source) -> TensorSpec:
        """The spec of a tensor of the whole sequence, with sizes as expressions."""
        return self.by_id[source.node].outputs[source.output].spec

    def producer(self, source: Source) -> Node:
        return self.by_id[source.node]

    def time_axes(self, source: Source) -> list[int]:
        """The axes of a tensor whose sizes depend on the sequence's length."""
        spec = self.spec(source)
        if spec.rank is None:
            return []
        sizes = [dim.expression for dim in spec.shape]
        return [i for i, size in enumerate(sizes) if size is not None and size.symbols & self.time]

    def value(self, node: Node, position: int) -> Array | None:
        """The value of an input, where the layer has it and the model tells it."""
        if position >= len(node.inputs):
            return None
        known = self.spec(node.inputs[position]).value
        flow = self.flows[node.inputs[position]]
        return self.writer.value(flow.source) if known is None and flow.kind == "still" else known

    def numbers(self, node: Node, position: int) -> list[int] | None:
        return numbers(self.value(node, position))

    def known_numbers(self, node: Node, position: int, otherwise: str) -> list[int]:
        """The same; raises Refusal, in the words `otherwise`, where they are not known."""
        found = self.numbers(node, position)
        if found is None:
            raise Refusal(otherwise)
        return found

    # ---- the walk

    def follow(self) -> None:
        """Write the layers; what does not stream is noted, as some results may not need it."""
        for node in self.model.nodes:
            if node.type_name == "Result":
                continue
            try:
                flows = self._layer(node)
            except Refusal as refusal:
                refusal.label, refusal.layer = (
                    refusal.label or node.label,
                    refusal.layer or node.name,
                )
                flows = [refused(refusal) for _ in node.outputs]
            except UncorkError as error:
                why = f"does not take the frames of a stream: {error.message}"
                problem = Refusal(why, "", node.label, node.name)
                flows = [refused(problem) for _ in node.outputs]
            for output, flow in enumerate(flows):
                self.flows[Source(node.id, output)] = flow

    def results(self) -> list[Flow]:
        """What becomes of each result. Raises UnsupportedError with all that does not stream."""
        found: list[Flow] = []
        problems: dict[tuple[str, str], Problem] = {}
        for position, number in enumerate(self.model.results):
            source = self.by_id[number].inputs[0]
            flow = self.flows[source]
            name = self.model.name_of_output(position)
            refusal = flow.refusal
            if flow.kind == "size":
                refusal = Refusal(
                    "is a length of the whole sequence", "cut it off", f"output '{name}'"
                )
            elif flow.kind == "time" and flow.joined:
                why = "joins time with another axis: frames cannot be told apart"
                refusal = Refusal(why, "cut the model before that layer", f"output '{name}'")
            if refusal is not None:
                key = (refusal.label, refusal.text)
                problems[key] = Problem(refusal.label, refusal.text, refusal.layer)
            found.append(flow)
        if problems:
            raise UnsupportedError.of_all(self.model.source, problems.values())
        return found

    def _layer(self, node: Node) -> list[Flow]:
        """The outputs of a layer in the stream."""
        known = [port.spec.value for port in node.outputs]
        if node.inputs and known and all(v is not None for v in known):
            specs = [port.spec for port in node.outputs]
            return [
                Flow(self.writer.builder.constant(np.asarray(s.value), s.element_type))
                for s in specs
            ]
        if node.type_name == "Parameter":
            return [self._input(node)]
        Refusal.when(
            node.type_name in ("ReadValue", "Assign"),
            "has state already",
            "take the model without its variables",
        )
        given = [self.flows[source] for source in node.inputs]
        over_time = attended(self, node, given)
        if over_time is not None:
            return over_time
        refusals = [flow.refusal for flow in given if flow.refusal is not None]
        if refusals:  # masks have time in two axes, and come of no frames
            raise next((r for r in refusals if not r.is_mixed), refusals[0])
        kinds = {flow.kind for flow in given}
        if node.type_name == "ShapeOf" and kinds == {"time"}:
            return [self._size(node, given[0])]
        if kinds <= {"still"}:
            if node.operation is not None and not node.operation.deterministic:
                raise Refusal("gives other numbers in every call: nothing can be proved of it")
            return [Flow(source) for source in self.copy(node, given_sources(given))]
        rule = None if node.operation is None else rule_of(type(node.operation))
        if "time" not in kinds and "latest" in kinds:
            return [Flow(s, "latest") for s in self.copy(node, given_sources(given))]
        Refusal.when(
            "latest" in kinds,
            "gives every frame what is known after the last one only",
            "cut the model there, or make it of the frames so far",
        )
        if "time" not in kinds and node.type_name not in ("Range", "Slice", "StridedSlice"):
            return self.of_sizes(node, given)
        if rule is None:
            raise Refusal(NO_RULE.removeprefix("no: "))
        Refusal.when(
            "size" in kinds and node.type_name not in _BY_SIZES,
            _RECKONS,
            "make the model without it, or cut it before that layer",
        )
        return rule.apply(self, node, given)

    def _input(self, node: Node) -> Flow:
        position = self.model.parameters.index(node.id)
        port = node.outputs[0]
        if position in self.initial:
            return Flow(
                self.writer.builder.constant(self.initial[position], port.spec.element_type)
            )
        shape = self._given.inputs[position].shape
        axis = self.axes.get(position)
        if axis is not None:
            shape = shape.with_dimension(axis, self.frames)
        operation = Parameter(element_type=port.spec.element_type, shape=shape)
        names = port.names or self.model.names_of_input(position)[:1]
        source = self.writer.builder.add_operation(operation, name=node.name, tensor_names=names)[0]
        if axis is None:
            return Flow(source)
        return self.sized(Source(node.id, 0), Flow(source, "time", axis))

    def sized(self, whole: Source, flow: Flow) -> Flow:
        """The flow with the sizes that its tensor has in the whole sequence."""
        shape = self.spec(whole).shape
        size, within = shape[flow.axis].as_size(), product(shape[flow.axis + 1 :])
        return replace(flow, size=size, within=within, joined=False)

    def _size(self, node: Node, flow: Flow) -> Flow:
        """Sizes of a sequence: in the stream, those of the frames of the call."""
        history = None
        if flow.history is not None:
            history = self.copy(node, [flow.history])[0]
        source = self.copy(node, [flow.source])[0]
        return Flow(source, "size", shift=flow.shift, every=flow.every, history=history)

    def of_sizes(self, node: Node, given: Sequence[Flow]) -> list[Flow]:
        """What is reckoned with sizes of the sequence; shapes are made so."""
        grown = [self.time_axes(Source(node.id, i)) for i in range(len(node.outputs))]
        sources = self.copy(node, given_sources(given))
        first = next(flow for flow in given if flow.kind == "size")
        history: Sequence[Source | None] = [None] * len(sources)
        if any(flow.history is not None for flow in given):
            history = self.copy(node, [flow.history or flow.source for flow in given])
        if node.type_name == "Broadcast" and len(grown[0]) == 1:
            # The same whatever the frame.
            axis, flow = grown[0][0], given[1]
            past = history[0] if flow.shift > 0 else None
            made = Flow(sources[0], "time", axis, flow.shift, flow.every, past)
            return [self.sized(Source(node.id, 0), made)]
        told = [port.spec.elements for port in node.outputs]
        if not any(grown) and all(elements is not None for elements in told):
            timed = [
                any(isinstance(e, Size) and e.symbols & self.time for e in elements or ())
                for elements in told
            ]
            return [
                replace(first, source=source, history=past) if is_timed else Flow(source)
                for source, past, is_timed in zip(sources, history, timed, strict=True)
            ]
        if node.type_name in _MOVING and not any(grown):
            # Too many to be known one by one, such as a length for each row.
            kept = zip(sources, history, strict=True)
            still = given[0].kind == "still"
            return [
                Flow(s) if still else replace(first, source=s, history=past) for s, past in kept
            ]
        raise Refusal(_RECKONS, "make the model without it, or cut it before that layer")

    # ---- what rules share

    def copy(
        self, node: Node, inputs: Sequence[Source], operation: Operation | None = None
    ) -> list[Source]:
        """The layer once more, on tensors of the stream."""
        operation = operation or node.operation
        assert operation is not None
        name = node.name if node.id not in self._named else ""
        self._named.add(node.id)
        return list(self.writer.builder.add_operation(operation, *inputs, name=name))

    def aligned(self, given: Sequence[Flow]) -> tuple[list[Flow], int, int]:
        """The inputs with the same shift: those that are ahead wait in a buffer. The shift, and
        how many frames of the input make one.
        """
        times = [flow for flow in given if flow.kind == "time"]
        rates = sorted({flow.every for flow in times})
        Refusal.when(
            len(rates) > 1, f"meets frames of different rates: one of {rates} of the input each"
        )
        shift = min(flow.shift for flow in times)
        return [self.with_shift(flow, shift) for flow in given], shift, rates[0]

    def with_shift(self, flow: Flow, shift: int) -> Flow:
        late = flow.shift - shift
        if flow.kind != "time" or not late:
            return flow
        Refusal.when(flow.joined, "joins time with another axis behind a delay")
        both = self.writer.kept(flow, late)
        history = None
        if shift > 0 and flow.history is not None:
            history = self.writer.cut(flow.history, flow.axis, 0, shift)
        return flow.moved(self.writer.cut(both, flow.axis, 0, -late), history, shift)

    def at_once(
        self, node: Node, given: Sequence[Flow], operation: Operation | None = None
    ) -> list[Flow]:
        """The outputs of a layer that makes each frame of the same frames of its inputs."""
        given, shift, every = self.aligned(given)
        sources = self.copy(node, given_sources(given), operation)
        history: Sequence[Source | None] = [None] * len(sources)
        if shift > 0:
            history = self.copy(node, [f.history or f.source for f in given], operation)
        first = next(flow for flow in given if flow.kind == "time")
        return [
            self._output(Source(node.id, output), first, source, past, shift, every)
            for output, (source, past) in enumerate(zip(sources, history, strict=True))
        ]

    def _output(
        self,
        whole: Source,
        first: Flow,
        source: Source,
        past: Source | None,
        shift: int,
        every: int,
    ) -> Flow:
        axes = self.time_axes(whole)
        if len(axes) != 1:
            shape = self.spec(whole).shape
            where = "no axis" if not axes else "the axes " + " and ".join(map(str, axes))
            refusal = Refusal(f"leaves time in {where} of {shape}: frames are mixed")
            refusal.is_mixed = True
            raise refusal
        shape = self.spec(whole).shape
        size = shape[axes[0]].as_size()
        joined = size != first.size
        Refusal.when(joined and shift, "joins time with another axis behind a delay or padding")
        within = first.within if joined else product(shape[axes[0] + 1 :])
        return Flow(source, "time", axes[0], shift, every, past, first.size, within, joined=joined)

    def separate(self, flow: Flow) -> Flow:
        """The flow, whose frames a layer moves or keeps: its axis must be time alone."""
        Refusal.when(
            flow.kind == "time" and flow.joined, "takes an axis in which time is joined with others"
        )
        return flow

    def last(self, node: Node, flow: Flow, sources: Sequence[Source]) -> list[Flow]:
        """What a layer gives of the last frame so far. It is refused where the whole sequence's
        last frame is another one: where it is padded, cut or looked ahead at its end.
        """
        frames = (1 << 16) * self.multiple * flow.every
        assert flow.size is not None
        size = flow.size.evaluate(dict.fromkeys(self.time, frames))
        if flow.shift < 0 or size != frames // flow.every + flow.shift:
            why = "gives the last frame of a sequence whose end is padded, cut or looked at ahead"
            refusal = Refusal(why, "take all frames as output", node.label, node.name)
            return [refused(refusal) for _ in sources]
        return [Flow(source, "latest") for source in sources]

    def must_be_multiple(self, number: int) -> None:
        """Every call must have a multiple of so many frames."""
        self.multiple = math.lcm(self.multiple, number)

    def limited(self, frames: int) -> None:
        """The stream is the whole sequence for so many frames; later ones see fewer of those before
        than there.
        """
        self.limit = frames if self.limit is None else min(self.limit, frames)

    def frames_of(self, source: Source) -> int:
        """How many frames of the input make one of a tensor with time in its last axis."""
        size = self.spec(source).shape[-1].as_size()
        long = 1 << 20
        return max(1, round(long / max(1, size.evaluate(dict.fromkeys(self.time, long)))))

    # ---- moves of a whole flow along time

    def led(self, flow: Flow, frames: Source, count: int) -> Flow:
        """The flow behind `count` frames that are known."""
        Refusal.when(flow.shift < 0, "puts frames before those of a layer that looks ahead")
        history = frames
        if flow.history is not None:
            history = self.writer.join(flow.axis, frames, flow.history)
        return flow.moved(flow.source, history, flow.shift + count)

    def padded(self, flow: Flow, count: int, value: float = 0) -> Flow:
        """The flow behind `count` frames of one value."""
        if not count:
            return flow
        self.separate(flow)
        flow = self.cleaned(flow, value)
        shift = flow.shift + count
        if flow.shift < 0:
            past = self.writer.filled(flow.source, flow.axis, shift, value) if shift > 0 else None
            return flow.moved(flow.source, past, shift)
        filling = self.writer.filled(flow.source, flow.axis, count, value)
        return self.led(flow, filling, count)

    def sliced(self, flow: Flow, start: int) -> Flow:
        """The flow without its first `start` frames."""
        if not start:
            return flow
        self.separate(flow)
        shift = flow.shift - start
        history = None
        if shift > 0 and flow.history is not None:
            history = self.writer.cut(flow.history, flow.axis, start)
        return flow.moved(flow.source, history, shift)

    def cleaned(self, flow: Flow, value: float) -> Flow:
        """The flow with `value` in the frames that are nothing yet, for layers that look back at
        them.
        """
        if flow.shift >= 0:
            return flow
        writer = self.writer
        count, after, _ = writer.counter(flow, most=-flow.shift)
        one = writer.constant(np.int32(1))
        places = writer.add(
            "Range", 4, writer.number(count), writer.number(after), one, output_type="i32"
        )
        begun = writer.add("GreaterEqual", 1, places, writer.constant(np.int32(-flow.shift)))
        shape = np.ones(writer.rank(flow.source), np.int64)
        shape[flow.axis] = -1
        begun = writer.add("Reshape", 1, begun, writer.constant(shape), special_zero=False)
        kind = writer.spec(flow.source).element_type
        filling = writer.constant(np.array(value, kind.dtype))
        source = writer.add("Select", 1, begun, flow.source, filling)
        return replace(flow, source=source)

    def each(self, flow: Flow, make: Callable[[Source], Source]) -> Flow:
        """The flow with a layer put behind it and its history, which leaves frames what they
        are.
        """
        history = None if flow.history is None else make(flow.history)
        return replace(flow, source=make(flow.source), history=history)

    def flowing(self, whole: Source, flow: Flow) -> Flow:
        """The flow with the sizes that the whole sequence has there."""
        axes = self.time_axes(whole)
        if axes != [flow.axis]:
            raise Refusal(f"leaves time in the axes {axes} of {self.spec(whole).shape}")
        return self.sized(whole, flow)


def _of_long_sequences(model: Model, axes: Mapping[int, int]) -> Model:
    """The model with sizes as expressions, for sequences that are as long as the layers let them
    be: what only a few frames would do otherwise (a slice that leaves out more than there is) does
    not count.
    """
    for least in _LONG:
        given = {}
        for position, axis in axes.items():
            node = model.by_id[model.parameters[position]]
            spec = node.outputs[0].spec
            long = spec.shape.with_dimension(axis, Dimension(least))
            given[node.id] = TensorSpec(spec.element_type, long)
        try:
            branches = TakenBranches(model, _graph_of)
            return infer_symbolic(model, given, branches=branches)[0]
        except ValidationError:
            if least == _LONG[-1]:
                raise
    raise AssertionError("there is a last one")


def product(dims: Sequence[Dimension] | PartialShape) -> Size:
    """The number of elements of some axes."""
    result = Size.of(1)
    for dim in dims:
        result = result * dim.as_size()
    return result


def _graph_of(body: object) -> Model | None:
    """The graph of a branch, which takes the place of its If where sizes tell the condition."""
    return body.model if isinstance(body, GraphBody) else None
