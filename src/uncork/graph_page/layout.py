"""Where the boxes of a graph lie: in ranks from top to bottom, few crossings, arrows straight.

The method is Sugiyama's: ranks by the longest path, long arrows as chains of points that take part
as boxes do, orders by barycentres, and places that are the least squares for an order. Each part
takes about linear time and nothing recurses, so a graph of ten thousand layers in a chain has a
layout, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

#: Sweeps over all ranks that look for an order, and for places.
_ORDER_SWEEPS, _PLACE_SWEEPS = 12, 16
#: Room between boxes of a rank, between a box and an arrow that passes, and between ranks.
_BETWEEN, _PASSING, _RANKS = 18.0, 12.0, 34.0
#: How straight arrows are to be: between boxes of neighbouring ranks, where a long one leaves or
#: reaches a box, and where it passes ranks.
_STRAIGHT = (4.0, 1.0, 8.0)
#: Places that are as good as the same.
_SAME = 0.05
#: Points of long arrows at the most; beyond, arrows cross boxes.
_MOST_POINTS = 100_000


class Box(Struct, frozen=True):
    """The size of a box."""

    width: float
    height: float


class Layout(Struct, frozen=True):
    """The middle of each box, the points that each arrow passes, from its begin to its end, and
    the size of the whole.
    """

    places: list[tuple[float, float]]
    routes: list[list[tuple[float, float]]]
    width: float
    height: float


def laid_out(boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]) -> Layout:
    """The layout of boxes with arrows between them, by their numbers. A box comes after those that
    have arrows to it.
    """
    if not boxes:
        return Layout([], [], 0.0, 0.0)
    ranks = _ranks(len(boxes), arrows)
    chart = _Chart(boxes, arrows, ranks)
    chart.order()
    chart.place()
    return chart.layout()


def _ranks(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The rank of each box: below all that have arrows to it; what begins is near its readers."""
    rank = [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    begins = [True] * count
    for source, target in sorted(arrows):
        readers[source].append(target)
        begins[target] = False
    for box in range(count):
        for reader in readers[box]:
            rank[reader] = max(rank[reader], rank[box] + 1)
    for box in range(count):
        if begins[box] and readers[box]:
            rank[box] = max(rank[box], min(rank[reader] for reader in readers[box]) - 1)
    return rank


class _Chart:
    """Boxes, and points of long arrows, in ranks. Points have numbers behind those of boxes."""

    def __init__(
        self, boxes: Sequence[Box], arrows: Sequence[tuple[int, int]], ranks: list[int]
    ) -> None:
        self.boxes, self.arrows, self.rank = boxes, arrows, [*ranks]
        self.above: list[list[int]] = [[] for _ in boxes]
        self.below: list[list[int]] = [[] for _ in boxes]
        #: What each arrow passes. Those of one source have a chain in common.
        self.passes: list[list[int]] = []
        chains: dict[int, list[int]] = {}
        for source, target in arrows:
            chain = chains.setdefault(source, [])
            length = self.rank[target] - self.rank[source] - 1
            while len(chain) < length and len(self.rank) - len(boxes) < _MOST_POINTS:
                self._add_point(chain[-1] if chain else source, self.rank[source] + len(chain) + 1)
                chain.append(len(self.rank) - 1)
            self.passes.append(chain[:length])
            self._join(chain[length - 1] if 0 < length <= len(chain) else source, target)
        rows: list[list[int]] = [[] for _ in range(max(self.rank) + 1)]
        for one, rank in enumerate(self.rank):
            rows[rank].append(one)
        self.rows = rows
        self.x = [0.0] * len(self.rank)

    def _add_point(self, above: int, rank: int) -> None:
        self.rank.append(rank)
        self.above.append([])
        self.below.append([])
        self._join(above, len(self.rank) - 1)

    def _join(self, above: int, below: int) -> None:
        self.below[above].append(below)
        self.above[below].append(above)

    def _is_point(self, one: int) -> bool:
        return one >= len(self.boxes)

    def _half(self, one: int) -> float:
        return 0.0 if self._is_point(one) else self.boxes[one].width / 2

    # ---- orders

    def order(self) -> None:
        """Find an order of each rank with few crossings."""
        at = [0.0] * len(self.rank)
        self._first_order(at)
        best, fewest = [[*row] for row in self.rows], self._crossings(at)
        for sweep in range(_ORDER_SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            others = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                keys = {
                    one: sum(at[other] for other in others[one]) / len(others[one])
                    if others[one]
                    else at[one]
                    for one in row
                }
                row.sort(key=keys.__getitem__)
                for position, one in enumerate(row):
                    at[one] = float(position)
            crossings = self._crossings(at)
            if crossings < fewest:
                best, fewest = [[*row] for row in self.rows], crossings
        self.rows = best

    def _first_order(self, at: list[float]) -> None:
        """The order in which a walk along arrows comes by."""
        number: dict[int, int] = {}
        for begin in range(len(self.boxes)):
            todo = [] if self.above[begin] else [begin]
            while todo:
                one = todo.pop()
                if one not in number:
                    number[one] = len(number)
                    todo.extend(reversed(self.below[one]))
        for row in self.rows:
            row.sort(key=lambda one: number.get(one, one))
            for position, one in enumerate(row):
                at[one] = float(position)

    def _crossings(self, at: Sequence[float]) -> int:
        """How many pairs of arrows cross: inversions, counted by a tree of sums."""
        total = 0
        for row, next_row in pairwise(self.rows):
            size = len(next_row)
            sums = [0] * (size + 1)
            seen = 0
            for one in row:
                ends = sorted(int(at[other]) for other in self.below[one])
                for end in ends:
                    if end >= size:
                        continue  # to a rank farther below: it has no points
                    index, before = end + 1, 0
                    while index:
                        before += sums[index]
                        index &= index - 1
                    total += seen - before
                for end in ends:
                    index = end + 1
                    while index <= size:
                        sums[index] += 1
                        index += index & -index
                    seen += 1
        return total

    # ---- places

    def place(self) -> None:
        """Find where each box lies in its rank: near what it is joined to, in the order found."""
        for row in self.rows:
            self._settle(row, [0.0] * len(row), [1.0] * len(row))
        for sweep in range(_PLACE_SWEEPS):
            down = sweep % 2 == 0
            last = sweep >= _PLACE_SWEEPS - 2
            for row in self.rows if down else reversed(self.rows):
                wanted, weights = [], []
                for one in row:
                    sides = self.above[one] if down else self.below[one]
                    near = [*self.above[one], *self.below[one]] if last else sides
                    links = [self._straight(one, other) for other in near]
                    weight = sum(links) or 0.2
                    places = [link * self.x[o] for link, o in zip(links, near, strict=True)]
                    wanted.append(sum(places) / weight if near else self.x[one])
                    weights.append(weight)
                self._settle(row, wanted, weights)

    def _straight(self, one: int, other: int) -> float:
        """How straight an arrow, or a part of one, is to be: what passes ranks first of all, where
        it leaves a box last, so that the next box stays below.
        """
        return _STRAIGHT[self._is_point(one) + self._is_point(other)]

    def _settle(
        self, row: Sequence[int], wanted: Sequence[float], weights: Sequence[float]
    ) -> None:
        """Places in the order of a rank, far enough from each other, with the least sum of weighted
        squares from those that are wanted: neighbours that are too near become one block (the
        pool-adjacent-violators method).
        """
        offsets, offset = [0.0], 0.0
        for one, other in pairwise(row):
            passing = self._is_point(one) or self._is_point(other)
            offset += self._half(one) + self._half(other) + (_PASSING if passing else _BETWEEN)
            offsets.append(offset)
        blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
        for place, weight, off in zip(wanted, weights, offsets, strict=True):
            mean, total, count = place - off, weight, 1
            while blocks and blocks[-1][0] > mean:
                other_mean, other_total, other_count = blocks.pop()
                mean = (mean * total + other_mean * other_total) / (total + other_total)
                total, count = total + other_total, count + other_count
            blocks.append((mean, total, count))
        position = 0
        for mean, _, count in blocks:
            for _ in range(count):
                self.x[row[position]] = mean + offsets[position]
                position += 1

    # ---- the result

    def layout(self) -> Layout:
        """Places with the whole to the right of 0, and the routes of arrows."""
        left = min(self.x[one] - self._half(one) for one in range(len(self.x))) - _BETWEEN
        right = max(self.x[one] + self._half(one) for one in range(len(self.x))) + _BETWEEN
        tops, y = [], _BETWEEN
        for row in self.rows:
            height = max((self.boxes[o].height for o in row if not self._is_point(o)), default=0.0)
            tops.append((y, height))
            y += height + _RANKS
        middle = [tops[rank][0] + tops[rank][1] / 2 for rank in self.rank]
        places = [(x - left, middle[one]) for one, x in enumerate(self.x[: len(self.boxes)])]
        routes = []
        for (source, target), passed in zip(self.arrows, self.passes, strict=True):
            below = middle[source] + self.boxes[source].height / 2
            above = middle[target] - self.boxes[target].height / 2
            route = [(self.x[source] - left, below)]
            for point in passed:  # straight past boxes
                x, (top, height) = self.x[point] - left, tops[self.rank[point]]
                if (
                    len(route) > 1
                    and abs(route[-1][0] - x) < _SAME
                    and abs(route[-2][0] - x) < _SAME
                ):
                    route.pop()
                else:
                    route.append((x, top))
                route.append((x, top + height))
            routes.append([*route, (self.x[target] - left, above)])
        return Layout(places, routes, right - left, y - _RANKS + _BETWEEN)
