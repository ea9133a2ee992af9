"""Soft-NMS of a class: with each box taken the scores of boxes that overlap it fall, and the best
box of those left is taken next.

Candidates come with the highest score first, and a score above 0 only falls. So only the first ones
have to be up to date: as many as could be the best. Equal scores are taken in the order of boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct

from uncork.kernels.codegen.activations import exp
from uncork.kernels.codegen.emit import F32, I64, Kernel, Value
from uncork.kernels.codegen.functions import negated
from uncork.kernels.detection.emit_boxes import Boxes, overlap_of


class Decay(Struct, frozen=True):
    """How scores fall: `factor` is -1 / (2 sigma). Where boxes are removed past a threshold it is
    `most`, else None. Boxes with scores that are not `least` or more are removed.
    """

    factor: Value
    most: Value | None
    least: Value


class SoftClass:
    """The candidates of a class. The score of a box that is no candidate any more is NaN."""

    def __init__(
        self,
        k: Kernel,
        lanes: int,
        decay: Decay,
        place_of: Callable[[Value], Value],
        live: Boxes,
        scores: Value,
    ) -> None:
        """`place_of` gives the boxes of candidates in order; `live` and `scores` are room for the
        boxes and scores of those that are up to date.
        """
        self.k, self.lanes, self.decay = k, lanes, decay
        self.place_of, self.live, self.scores = place_of, live, scores
        #: How many are up to date, and the highest score of each lane of theirs.
        self.ready = k.variable(k.integer(0))
        self.best = k.variable(k.constant(-math.inf, F32, lanes))

    def take(
        self,
        candidates: Value,
        limit: Value,
        given: Value,
        corners: Boxes,
        chosen: Boxes,
        record: Callable[[Value, Value], None],
    ) -> None:
        """Take at most `limit` of the candidates: `record(score, box)` for each."""
        k = self.k
        taken, goes_on = k.variable(k.integer(0)), k.variable((candidates > 0).to(I64))
        with k.while_(lambda: (taken.get() < limit) & (goes_on.get() > 0)):
            highest = k.variable(k.constant(-math.inf, F32))
            more = k.variable(k.integer(1))
            with k.while_(lambda: more.get() > 0):
                highest.set(self._highest())
                more.set(self._needs_more(candidates, given, highest.get()).to(I64))
                with k.if_(more.get() > 0):
                    self._bring_more(candidates, given, corners, chosen, taken.get())
            at = self._first_with(highest.get())
            goes_on.set((at >= 0).to(I64))
            with k.if_(at >= 0):
                box = self.place_of(at)
                record(highest.get(), box)
                k.store(k.constant(math.nan, F32), self.scores + at * F32.bytes)
                own = corners.at(box)
                chosen.put(own, taken.get())
                taken.set(taken.get() + 1)
                self.best.set(k.constant(-math.inf, F32, self.lanes))
                with k.loop(0, self.ready.get(), self.lanes) as first:
                    self._let_fall(first, own)
                    self._look_at(first)

    def _needs_more(self, candidates: Value, given: Value, highest: Value) -> Value:
        """Whether a candidate that is not up to date could be the best."""
        k, ready = self.k, self.ready.get()
        last = k.maximum(k.minimum(ready, candidates - 1), k.integer(0))
        box = self.place_of(last)
        following = k.load(given + box * F32.bytes, F32)
        certain = (highest > following) & (highest > 0.0)
        return (ready < candidates) & negated(k, certain)

    def _bring_more(
        self, candidates: Value, given: Value, corners: Boxes, chosen: Boxes, taken: Value
    ) -> None:
        """Bring the next candidates up to date, as many as a vector has lanes."""
        k, first = self.k, self.ready.get()
        k.store(k.constant(math.nan, F32, self.lanes), self.scores + first * F32.bytes)
        with k.loop(first, k.minimum(first + self.lanes, candidates)) as i:
            box = self.place_of(i)
            k.store(k.load(given + box * F32.bytes, F32), self.scores + i * F32.bytes)
            self.live.put(corners.at(box), i)
        with k.loop(0, taken) as i:
            self._let_fall(first, chosen.at(i))
        self._look_at(first)
        self.ready.set(first + self.lanes)

    def _let_fall(self, first: Value, own: list[Value]) -> None:
        """Let the scores of a vector of candidates fall by a box that was taken."""
        k, lanes, decay = self.k, self.lanes, self.decay
        place = self.scores + first * F32.bytes
        other = self.live.at(first, lanes)
        share = overlap_of(k, other, [k.splat(number, lanes) for number in own])
        apart = share.equals(0.0)
        if decay.most is not None:  # a threshold of 0 or below removes what is apart, too
            apart = apart & (k.splat(decay.most, lanes) > 0.0)
        with k.if_(negated(k, k.all_of(apart))):
            weight = exp(k, k.splat(decay.factor, lanes) * share * share)
            stays = negated(k, weight.equals(0.0))
            if decay.most is not None:
                most = k.splat(decay.most, lanes)
                stays = stays & (share <= most) & (most > 0.0)
            score = k.load(place, F32, lanes) * weight
            stays = stays & (score >= k.splat(decay.least, lanes))
            k.store(k.select(stays, score, k.constant(math.nan, F32, lanes)), place)

    def _look_at(self, first: Value) -> None:
        """Keep the highest scores, lane by lane, with those of a vector of candidates."""
        score = self.k.load(self.scores + first * F32.bytes, F32, self.lanes)
        self.best.set(self.k.select(score > self.best.get(), score, self.best.get()))

    def _highest(self) -> Value:
        """The highest score of those that are up to date."""
        best = self.best.get()
        while best.lanes > 1:
            half = best.lanes // 2
            low, high = best.part(0, half), best.part(half, half)
            best = self.k.select(low > high, low, high)
        return best

    def _first_with(self, score: Value) -> Value:
        """The candidate of this score whose box comes first; -1 where there is none."""
        k, lanes = self.k, self.lanes
        at, box = k.variable(k.integer(-1)), k.variable(k.integer(2**31))
        with k.loop(0, self.ready.get(), lanes) as first:
            scores = k.load(self.scores + first * F32.bytes, F32, lanes)
            with k.set_bits(k.bits_of(scores.equals(k.splat(score, lanes)))) as bit:
                own = self.place_of(first + bit)
                nearer = own < box.get()
                at.set(k.select(nearer, first + bit, at.get()))
                box.set(k.select(nearer, own, box.get()))
        return at.get()
