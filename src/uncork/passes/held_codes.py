"""Models in which some tensors are held in other ways: as codes, or with their channels last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.fused import FusedProduct
from uncork.internal_ops.quantized import (
    PLAIN,
    WORD,
    Grid,
    Held,
    QuantizedPool,
    Reheld,
    in_words,
)
from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import has_extents
from uncork.ops import Operation
from uncork.ops.activation import Clamp, ReLU
from uncork.ops.arithmetic import Multiply
from uncork.ops.concat import Concat1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.parameter import Result
from uncork.ops.split import VariadicSplit1
from uncork.ops.transpose import Transpose1
from uncork.passes.match_moves import transpose_order
from uncork.passes.match_parts import SPLITS, split_axis
from uncork.passes.quantized_values import (
    CHOOSING,
    POOLS,
    is_joined,
    of_values,
    rounding_of,
)
from uncork.passes.rewrite import NewLayers

#: Limits further apart, and those that are nearer than its inverse, have no factor that f32 holds.
_MOST_WIDTH = 2.0**100


class Step(Struct, frozen=True):
    """A node's new operation, what it reads and how it takes that, and how its result is held."""

    operation: Operation
    inputs: Sequence[Source]
    held: Sequence[Held]
    result: Held
    #: Layers that are part of it.
    within: Sequence[int] = ()
    #: How further results are held.
    more: Sequence[Held] = ()
    #: The numbers that inputs by their position are for it, which are axes and lengths.
    numbers: Mapping[int, Sequence[int]] = {}


def choosing(model: Model, node: Node, grids: Mapping[Source, Grid]) -> Step | None:
    """The step of a layer that chooses among numbers of a grid, or joins them, on codes.

    Channels are last. None where it cannot.
    """
    operation = node.operation
    if not isinstance(operation, (*CHOOSING, Concat1)):
        return None
    read = node.inputs if isinstance(operation, Concat1) else node.inputs[:1]
    made = [Source(node.id, n) for n in range(len(node.outputs))]
    specs = [model.spec(source) for source in (*read, *made)]
    rank = specs[0].rank
    if rank is None or rank < 3 or not all(map(has_extents, specs)):
        return None
    if not all(spec.shape[1].is_static for spec in specs):
        return None
    held, results = (
        [Held(grids.get(source), True, int(model.spec(source).shape[1])) for source in sources]
        for sources in (read, made)
    )
    if isinstance(operation, SPLITS):
        return _split(model, node, held, results)
    if len(results) > 1:
        return None
    if isinstance(operation, POOLS):
        return Step(QuantizedPool(operation, held, held[0]), read, held, results[0])
    if isinstance(operation, InterpolateByInputs):
        return _repeated(model, node, held, results[0])
    if not is_joined(model, node) or not _fill_words(held):
        return None
    return Step(Concat1(axis=rank - 1), read, held, results[0])


def _fill_words(parts: Sequence[Held]) -> bool:
    """Whether parts that lie one after the other in a pixel all begin with a word."""
    return all(part.channels % WORD == 0 for part in parts[:-1])


def _split(model: Model, node: Node, held: Sequence[Held], parts: Sequence[Held]) -> Step | None:
    """The step that cuts codes of channels."""
    if split_axis(model, node) != 1 or not _fill_words(parts):
        return None
    last = len(model.spec(node.inputs[0]).shape.dims) - 1
    lengths = [in_words(part.channels) for part in parts]
    operation = VariadicSplit1(parts=len(parts))
    return Step(
        operation,
        (node.inputs[0], node.inputs[1], node.inputs[1]),
        [*held, PLAIN, PLAIN],
        parts[0],
        more=parts[1:],
        numbers={1: [last], 2: lengths},
    )


def _repeated(model: Model, node: Node, held: Sequence[Held], result: Held) -> Step | None:
    """The step of an Interpolate that takes the nearest pixel, on codes."""
    assert isinstance(node.operation, InterpolateByInputs)
    _, axes = node.operation.chosen(*node.inputs[1:])
    numbers = None if axes is None else model.spec(axes).value
    if numbers is None:
        return None
    places = [int(axis) for axis in numbers.reshape(-1)]
    if min(places, default=0) < 2:
        return None
    others = [PLAIN] * (len(node.inputs) - 1)
    return Step(
        node.checked_operation,
        node.inputs,
        [*held, *others],
        result,
        numbers={len(others): [place - 1 for place in places]},
    )


class Rewriting(NewLayers):
    """The rewriting of a model: each tensor is converted once into every form that layers want."""

    def __init__(self, model: Model, new: Mapping[int, Step]) -> None:
        super().__init__(model)
        self.new = new
        self.within = {number for step in new.values() for number in step.within}
        #: How tensors are held that are not as they were.
        self.states: dict[Source, Held] = {}

    def model(self) -> Model:
        for node in self.old.nodes:
            if node.id in self.within:
                continue
            step = self.new.get(node.id)
            if step is None:
                # A result of the model keeps its layer, which has its names.
                named = isinstance(node.operation, Result)
                inputs = tuple(self._held(source, PLAIN, moved=not named) for source in node.inputs)
                self.nodes.append(replace(node, inputs=inputs) if inputs != node.inputs else node)
                continue
            self._rewrite(node, step)
        return super().model()

    def _rewrite(self, node: Node, step: Step) -> None:
        """Add the step of a layer."""
        inputs = [
            self.constant(step.numbers[place])
            if place in step.numbers
            else self._held(source, held)
            for place, (source, held) in enumerate(zip(step.inputs, step.held, strict=True))
        ]
        outputs = list(node.outputs)
        for number, result in enumerate((step.result, *step.more)):
            if result != PLAIN:
                self.states[Source(node.id, number)] = _as_read(result)
                spec = result.spec(outputs[number].spec.shape)
                outputs[number] = replace(outputs[number], spec=spec)
        self.nodes.append(
            replace(node, inputs=tuple(inputs), outputs=tuple(outputs), operation=step.operation)
        )

    def _held(self, source: Source, wanted: Held, moved: bool = True) -> Source:
        """The tensor in the wanted form, converted where it is in another. What was `moved` is
        read where it lies.
        """
        wanted = _as_read(wanted)
        before = self._before_move(source, wanted) if moved else None
        if before is not None:
            return self._held(*before)
        state = self.states.get(source, PLAIN)
        if state == wanted:
            return source
        return self.once((source, wanted), lambda: self._made(source, state, wanted))

    def _before_move(self, source: Source, wanted: Held) -> tuple[Source, Held] | None:
        """What a Transpose moves, in the form in which it lies as its result does in the wanted
        one; None where it moves other axes than the channels, or to where nothing lies so.
        """
        node = self.old.by_id[source.node]
        if node.id in self.new or not isinstance(node.operation, Transpose1):
            return None
        order, given = transpose_order(self.old, node), node.inputs[0]
        plain = self.old.spec(given).shape
        if order is None or len(order) < 3:
            return None
        places = range(1, len(order))
        if order == (0, *places[1:], 1) and not wanted.last and plain[1].is_static:
            last = Held(wanted.grid, True, int(plain[1]))
            return (given, last) if self.states.get(given, PLAIN).last else None
        if order == (0, places[-1], *places[:-1]) and wanted.last:
            return given, PLAIN if wanted.grid is None else replace(wanted, last=False)
        return None

    def _made(self, source: Source, state: Held, wanted: Held) -> Source:
        node = self.old.by_id[source.node]
        rounding = (
            rounding_of(self.old, node)
            if node.id not in self.new and not isinstance(node.operation, FusedProduct)
            else None
        )
        if (
            wanted.grid is not None and rounding is not None
        ):  # the codes of what is rounded, without its numbers
            given = _before_clamps(self.old, node.inputs[0], rounding)
            given, rounding = _before_factors(self.old, given, rounding, 1 if wanted.last else -1)
            before = self.states.get(given, PLAIN)
            if before.grid is not None or (before.last and not wanted.last):
                before = replace(wanted, grid=None) if wanted.last else PLAIN
                given = self._held(given, before)
            return self._reheld(source, given, before, replace(wanted, grid=rounding))
        straight = (state.grid is None or wanted.grid is None) and (
            state.last == wanted.last or PLAIN in (state, wanted)
        )
        if state != PLAIN and wanted != PLAIN and not straight:
            return self._reheld(source, self._held(source, PLAIN), PLAIN, wanted)
        return self._reheld(source, source, state, wanted)

    def _reheld(self, source: Source, given: Source, state: Held, wanted: Held) -> Source:
        spec, operation = self.old.spec(source), Reheld(state, wanted)
        how = "as codes" if wanted.grid is not None else "as numbers"
        name = (
            f"{self.old.by_id[source.node].name} ({how}{', channels last' if wanted.last else ''})"
        )
        return self.add(name, operation, [given], wanted.spec(spec.shape))


def _before_clamps(model: Model, source: Source, grid: Grid) -> Source:
    """What is rounded to a grid, before layers that clamp it no further than the grid does."""
    while True:
        node = model.by_id[source.node]
        operation = node.operation
        if isinstance(operation, ReLU):
            low, high = 0.0, math.inf
        elif isinstance(operation, Clamp):
            low, high = operation.min, operation.max
        else:
            return source
        if np.min(grid.input_low) < low or np.max(grid.input_high) > high:
            return source
        source = node.inputs[0]


def _before_factors(model: Model, source: Source, grid: Grid, axis: int) -> tuple[Source, Grid]:
    """What is multiplied by a positive constant of each channel and then rounded to a grid, with
    the grid of its own numbers; both as they are where it is made in another way.
    """
    node = model.by_id[source.node]
    if not isinstance(node.operation, Multiply) or node.hints.in_f32:
        return source, grid
    data, other = node.inputs
    factors, spec = model.spec(other).value, model.spec(data)
    if factors is None or spec.rank is None or factors.ndim > spec.rank:
        return source, grid
    factors = factors.reshape((1,) * (spec.rank - factors.ndim) + factors.shape)
    channels = spec.shape[axis].size
    if (
        not factors.size == factors.shape[axis] == channels
        or spec.shape != node.outputs[0].spec.shape
    ):
        return source, grid
    by_channel = factors.reshape(-1).astype(np.float64)
    if not (np.isfinite(by_channel) & (by_channel > 0)).all():
        return source, grid
    limits = [np.asarray(limit) / by_channel for limit in (grid.input_low, grid.input_high)]
    width = np.subtract(*limits[::-1])
    if width.min() < 1 / _MOST_WIDTH or np.abs(limits).max() > _MOST_WIDTH:
        return source, grid
    low, high = (tuple(limit.tolist()) for limit in limits)
    return data, replace(grid, input_low=low, input_high=high)


def _as_read(held: Held) -> Held:
    """The form of a tensor for those who read it: the numbers from which its codes were made do not
    matter.
    """
    return held if held.grid is None else replace(held, grid=of_values(held.grid))
