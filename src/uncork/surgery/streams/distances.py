"""Masks of attention by distance: how many frames a key is before its query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from uncork.errors import UncorkError
from uncork.ir.interpret import interpret
from uncork.ir.model import Port, Source, node_of
from uncork.ops.parameter import Result
from uncork.passes.rewrite import replaced
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.writer import Writer
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.surgery.streams.walk import Walk

#: Lengths for which masks are computed, to see how far back they reach.
_LENGTHS = 64, 128, 256, 512, 1024, 2048


@dataclass(frozen=True)
class Distances:
    """What a mask has for each distance: `past` along its last axis for 0, 1, .. frames before, of
    which there are as many as it was computed for; `future`, the least and the largest of what it
    has for frames that are later.
    """

    past: Array
    future: Array
    #: Which of these distances are shown, if that is known; whether the future is hidden.
    shown: Array | None = None
    hides_the_future: bool = False

    @staticmethod
    def causal() -> Distances:
        """All that is not later is shown."""
        return Distances(np.ones(2, bool), np.zeros(2, bool))

    @property
    def is_boolean(self) -> bool:
        return self.past.dtype == bool

    @property
    def reach(self) -> int | None:
        """How many frames before the query are seen at the most; None: as far as is known, all."""
        if self.shown is None or not self.hides_the_future:
            return None
        return _last(self.shown)

    @property
    def ends(self) -> bool:
        """Whether it has for what is long ago what it has for the future."""
        same = (self.past == self.future[..., :1]) & (self.past == self.future[..., 1:])
        return _last(~same.reshape(-1, same.shape[-1]).all(0)) is not None

    def shown_where(self, wanted: bool) -> Distances:
        """With what a condition shows that picks scores where it has this value."""
        past = self.past == wanted
        future = bool((self.future != wanted).all())
        return replace(self, shown=_any_head(past), hides_the_future=future)

    def shown_above(self, least: float, sign: int) -> Distances:
        """With what a mask shows that is added to scores."""
        past = sign * self.past.astype(np.float64) > least
        future = bool((sign * self.future.astype(np.float64) <= least).all())
        return replace(self, shown=_any_head(past), hides_the_future=future)


def _last(seen: Array) -> int | None:
    """The last distance of those that are seen, where enough beyond it are not; None: they may go
    on.
    """
    places = np.flatnonzero(seen)
    if not places.size:
        return None
    last = int(places[-1])
    return last if last < len(seen) * 7 // 8 else None


def _any_head(shown: Array) -> Array:
    return np.asarray(shown.reshape(-1, shown.shape[-1]).any(0))


def of_every_distance(walk: Walk, source: Source) -> Distances:
    """What a tensor with time in its last two axes has for each distance. Refused where data make
    it, or where it is not the same for all frames.
    """
    spec = walk.spec(source)
    if spec.rank is None or walk.time_axes(source) != [spec.rank - 2, spec.rank - 1]:
        raise Refusal("joins scores of attention with what is no mask of queries and keys")
    lengths = [*_LENGTHS]
    if walk.keep is not None:
        lengths = [16, walk.keep + 2, 2 * walk.keep + 4]
    found, why = None, ""
    for length in sorted(lengths):
        try:
            found = _by_distance(walk, source, length)
        except UncorkError as error:
            why = error.message  # a table of positions has an end
            break
        if found.ends:
            break
    if found is None:
        raise Refusal(f"has a mask that cannot be computed: {why}")
    return found


def _by_distance(walk: Walk, source: Source, length: int) -> Distances:
    one, other = (_computed(walk, source, length, seed) for seed in (1, 2))
    Refusal.when(
        not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"),
        "has a mask that the data tell",
        "a stream has one for all data: export the model without padding of its rows",
    )
    UncorkError.when(
        one.shape[-2:] != (length, length), f"it has shape {list(one.shape)} for {length} frames"
    )
    past = one[..., -1, ::-1]
    places = np.arange(length)
    distance = places[:, None] - places[None]
    later = one[..., distance < 0]
    expected = np.where(distance >= 0, past[..., np.abs(distance)], one)
    Refusal.when(
        not np.array_equal(expected, one, equal_nan=one.dtype.kind == "f"),
        "has a mask that is not the same for all frames, by their distance",
        "cut the model before that layer",
    )
    return Distances(np.ascontiguousarray(past), np.stack([later.min(-1), later.max(-1)], -1))


def _computed(walk: Walk, source: Source, length: int, seed: int) -> Array:
    """The tensor in a whole sequence of so many frames, of random data."""
    model = walk.model
    number = model.next_id
    result = node_of(number, "mask", Result(), [source], [Port(walk.spec(source))])
    part = structs.replace(model, nodes=(*model.nodes, result), results=(number,), sinks=())
    random, inputs = np.random.default_rng(seed), []
    for position, parameter in enumerate(model.parameters):
        spec = model.by_id[parameter].outputs[0].spec
        dims = [d.static_size or max(1, d.low) for d in model.inputs[position].shape]
        if position in walk.axes:
            dims[walk.axes[position]] = length * walk.frames_of(source)
        inputs.append(random.integers(0, 2, dims).astype(spec.element_type.dtype))
    (made,) = interpret(replaced(part, {}), inputs)
    return made


class Window:
    """The frames that queries of a call see: `keep` before each, and itself."""

    def __init__(self, writer: Writer, query: Flow, keep: int) -> None:
        self.keep, self._writer = keep, writer
        add, constant = writer.add, writer.constant
        count, _, frames = writer.counter(query, most=keep)
        none, one, most = (constant(np.int32(n)) for n in (0, 1, keep))
        length = writer.number(frames)
        rows = add("Range", 4, none, length, one, output_type="i32")
        columns = add("Range", 4, none, add("Add", 1, length, most), one, output_type="i32")
        rows = add("Unsqueeze", 1, add("Add", 1, rows, most), constant(np.array([1])))
        distance = add("Subtract", 1, rows, columns)
        near = add("LessEqual", 1, distance, most)
        past = add("GreaterEqual", 1, distance, none)
        there = add("GreaterEqual", 1, columns, add("Subtract", 1, most, count))
        #: Which columns, of the frames kept and those of the call, each row sees at the most.
        self.shown = add("LogicalAnd", 1, add("LogicalAnd", 1, near, past), there)
        self._past = past
        self._distance = add("Minimum", 1, add("Maximum", 1, distance, none), most)

    def tensor(self, distances: Distances) -> Source:
        """What a mask has for these rows and columns."""
        add, constant = self._writer.add, self._writer.constant
        past = distances.past[..., : self.keep + 1]
        if past.shape[-1] <= self.keep:  # a mask that goes on as it ends
            last = np.repeat(past[..., -1:], self.keep + 1 - past.shape[-1], -1)
            past = np.concatenate([past, last], -1)
        axis = constant(np.int64(past.ndim - 1))
        # What the future has is hidden, by this mask or another one, whatever it is here.
        table = constant(np.ascontiguousarray(past))
        made = add("Gather", 8, table, self._distance, axis, batch_dims=0)
        future = constant(np.ascontiguousarray(distances.future[..., :1, None]))
        return add("Select", 1, self._past, made, future)
