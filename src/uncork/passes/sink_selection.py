"""Sequences of which only one step of each row is read: they stop at that step.

A recurrent layer gives the states of all steps, Y. Where a model then takes one step of each row,
as session models do with the last item of each session, two things are for nothing: the steps
behind it, and whatever layers make of all the other steps. The state at step p is the last state of
a row of length p + 1, so `StepLengths` tells these lengths, `LastStates` runs up to them, and the
layers between are given one step. Where only the last states are used as it is, Y is not handed out
either.

Recognised: one direction, forward; between Y and what takes the step only views, transpositions,
products with constant matrices and arithmetic with constants, each the only reader of the one
before; the step is taken by Gather, GatherElements or GatherND, at one place for all rows or one
for each. What the step's number means outside of the sequence stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.final_states import LastStates, StepLengths
from uncork.internal_ops.view import View
from uncork.ir.model import Model, Node, Source
from uncork.kernels import select
from uncork.kernels.extents import certainly, extents, has_extents, same_extents
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.matmul import MatMul
from uncork.ops.transpose import Transpose1, order_of
from uncork.passes.match_selection import Axes, StepSelection, match_step_selection
from uncork.passes.rewrite import NewLayers, readers, replaced
from uncork.symbolic import SizeLike
from uncork.types import ElementType, PartialShape, TensorSpec


def sink_selection(model: Model) -> Model:
    """The model with such sequences rewritten.

    Its shapes must be those of the call: others are left as they are.
    """
    sequences = [node for node in model.nodes if isinstance(node.operation, RecurrentSequence)]
    if not sequences:
        return model
    read_by = readers(model)
    rewrite = _Rewrite(model)
    for node in sequences:
        operation = node.operation
        assert isinstance(operation, RecurrentSequence)
        if not read_by.get(Source(node.id, 0)):
            rewrite.without_y(node, operation)
            continue
        found = _found(model, node, operation, read_by)
        if isinstance(found, str):
            rewrite.note(node, found)
        elif found is not None:
            rewrite.to_step(node, operation, found)
    return rewrite.made()


# ---- what is between a sequence and the step that is taken of it


class _Match(Struct, frozen=True):
    """A match: the layers behind Y, each with its axes of Y, and the layer that takes a step."""

    between: tuple[tuple[Node, Axes], ...]
    node: Node
    selection: StepSelection


def _found(
    model: Model, sequence: Node, operation: RecurrentSequence, read_by: Mapping[Source, list[Node]]
) -> _Match | str | None:
    """The match of the layer that takes one step of a sequence, or the reason why all steps run
    though something takes one.

    None where nothing does.
    """
    y = sequence.outputs[0].spec
    if (
        operation.direction != "forward"
        or y.element_type is not ElementType.f32
        or y.value is not None
        or not has_extents(y)
    ):
        return None
    batch, _, steps, _ = extents(y)
    if isinstance(steps, int) and steps < 2:
        return None
    found: list[_Match] = []
    shared = 0
    start = Axes(2, None if certainly(batch, 1) else 0)
    waiting: list[tuple[Source, Axes, tuple[tuple[Node, Axes], ...]]] = [
        (Source(sequence.id, 0), start, ())
    ]
    while waiting:
        source, axes, between = waiting.pop()
        following = read_by.get(source, [])
        shared = shared or (len(following) if len(following) > 1 else 0)
        for node in following:
            selection = match_step_selection(model, node, source, axes)
            if selection is not None:
                found.append(_Match(between, node, selection))
            elif (passed := _passed(model, node, source, axes)) is not None:
                waiting.append((Source(node.id, 0), passed, (*between, (node, passed))))
    if not found:
        return None
    if shared:
        return f"every step runs: what '{found[0].node.name}' takes one of has {shared} readers"
    if any(read_by.get(Source(sequence.id, index)) for index in range(1, len(sequence.outputs))):
        return "every step runs: the last states are read, too"
    (only,) = found
    if all(_moves(node) for node, _ in only.between):
        return only
    if only.selection.zeros and not only.selection.counts_from_end:
        return (
            f"every step runs: '{only.node.name}' may give zeros, "
            "of which the layers before it would make something else"
        )
    # Where negative numbers count from the end, numbers outside are so rare that the whole call may
    # be left to the references.
    return replace(only, selection=replace(only.selection, zeros=False))


def _moves(node: Node) -> bool:
    return select.is_view(node.operation) or isinstance(node.operation, Transpose1)


def _passed(model: Model, node: Node, source: Source, axes: Axes) -> Axes | None:
    """The axes of the sequence in a layer's result, when each step of it comes from that step of
    the input alone; else None.
    """
    operation = node.operation
    spec = model.spec(source)
    if (
        operation is None
        or len(node.outputs) != 1
        or not node.inputs
        or not has_extents(node.outputs[0].spec)
    ):
        return None
    before, after = extents(spec), extents(node.outputs[0].spec)
    others = [model.spec(other) for other in node.inputs if other != source]
    first = node.inputs[0] == source
    if len(others) != len(node.inputs) - 1:
        return None
    if select.is_view(operation):
        return (
            _viewed(before, after, axes)
            if first and all(o.value is not None or o.has_all_elements for o in others)
            else None
        )
    if any(other.value is None for other in others):
        return None
    if isinstance(operation, Transpose1):
        order = order_of(others[0].known, len(before))
        return (
            Axes(order.index(axes.step), None if axes.batch is None else order.index(axes.batch))
            if first
            else None
        )
    if isinstance(operation, MatMul):
        rows = (
            first
            and not operation.transpose_a
            and others[0].rank == 2
            and len(before) == len(after)
        )
        return axes if rows and len(before) - 1 not in (axes.step, axes.batch) else None
    if (
        not operation.elementwise
        or not same_extents(before, after)
        or (others and getattr(operation, "auto_broadcast", "") != "numpy")
    ):
        return None
    from_end = len(before) - axes.step
    return (
        axes
        if all(len(o.shape) < from_end or o.shape[len(o.shape) - from_end] == 1 for o in others)
        else None
    )


def _viewed(before: Sequence[SizeLike], after: Sequence[SizeLike], axes: Axes) -> Axes | None:
    """The axes of the sequence in another shape of the same elements, when that only adds or drops
    dimensions of size 1; else None.
    """
    old, new = (
        [axis for axis, size in enumerate(shape) if not certainly(size, 1)]
        for shape in (before, after)
    )
    if not same_extents([before[axis] for axis in old], [after[axis] for axis in new]):
        return None
    place = dict(zip(old, new, strict=True))
    return Axes(place[axes.step], None if axes.batch is None else place[axes.batch])


# ---- the other model


class _Rewrite:
    """Collects what changes; the model is made once, at the end."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.layers = NewLayers(model)
        self.new: dict[int, list[Node]] = {}  # what comes instead of a node
        self.moved: dict[Source, Source] = {}

    def made(self) -> Model:
        """The model with all changes."""
        return replaced(self.model, self.new, self.moved)

    def note(self, sequence: Node, reason: str) -> None:
        """Note in the plan why all steps of a sequence run."""
        self.new[sequence.id] = [replace(sequence, hints=replace(sequence.hints, note=reason))]

    def without_y(self, sequence: Node, operation: RecurrentSequence) -> None:
        """Replace a sequence whose Y nobody reads by one without it."""
        self.new[sequence.id] = [self._states(sequence, operation)]
        self.moved |= {
            Source(sequence.id, n): Source(sequence.id, n - 1)
            for n in range(1, len(sequence.outputs))
        }

    def _states(self, sequence: Node, operation: RecurrentSequence) -> Node:
        return replace(sequence, operation=LastStates(operation), outputs=sequence.outputs[1:])

    def to_step(self, sequence: Node, operation: RecurrentSequence, found: _Match) -> None:
        """The sequence and all layers behind it with one step, where the step was taken."""
        y, selection = sequence.outputs[0].spec, found.selection
        batch, _, steps, hidden = extents(y)
        given = [port.name for port in operation.inputs].index("sequence_lengths")
        lengths = StepLengths(steps, selection.stride, selection.counts_from_end, selection.zeros)
        spec = TensorSpec(ElementType.i64, PartialShape([batch]))
        layers, name = self.layers, f"{found.node.name} (lengths)"
        length = layers.add(name, lengths, (selection.indices, sequence.inputs[given]), spec)
        inputs = (*sequence.inputs[:given], length, *sequence.inputs[given + 1 :])
        source = layers.again(self._states(sequence, operation), *inputs)
        was, wanted = Source(sequence.id, 0), PartialShape([batch, 1, 1, hidden])
        for node, axes in found.between:
            if select.is_view(node.operation):
                after = extents(node.outputs[0].spec)
                wanted = PartialShape([*after[: axes.step], 1, *after[axes.step + 1 :]])
            else:
                if layers.spec(source).shape != wanted:
                    source = layers.add(f"{node.name} (step)", View(wanted), [source])
                step = (source if given == was else given for given in node.inputs)
                source = layers.again(node, *step)
                wanted = layers.spec(source).shape
            was = Source(node.id, 0)
        last = View(found.node.outputs[0].spec.shape)
        layers.put(last, source, name=found.node.name, place=found.node.id)
        self.new |= {node.id: [] for node, _ in found.between} | {
            sequence.id: [],
            found.node.id: layers.taken(),
        }
