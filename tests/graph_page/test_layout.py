"""Where boxes of a graph lie: by properties that every layout has to have."""

from __future__ import annotations

import random

import pytest

from uncork.graph_page.layout import Box, Layout, laid_out


def lies_well(layout: Layout, boxes: list[Box], arrows: list[tuple[int, int]]) -> None:
    """No two boxes touch, arrows go down from box to box, and all is inside the page."""
    edges = [
        (x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2)
        for (x, y), box in zip(layout.places, boxes, strict=True)
    ]
    for i, a in enumerate(edges):
        assert a[0] >= 0 and a[1] >= 0 and a[2] <= layout.width and a[3] <= layout.height
        for b in edges[:i]:
            assert a[0] > b[2] or b[0] > a[2] or a[1] > b[3] or b[1] > a[3]
    for (source, target), route in zip(arrows, layout.routes, strict=True):
        assert route[0] == pytest.approx((layout.places[source][0], edges[source][3]))
        assert route[-1] == pytest.approx((layout.places[target][0], edges[target][1]))
        heights = [y for _, y in route]
        assert heights == sorted(heights) and heights[0] < heights[-1]
        for x, y in route[1:-1]:  # past boxes, not through them
            assert not any(a[0] < x < a[2] and a[1] < y < a[3] for a in edges)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 60)
    boxes = [Box(chance.randint(20, 200), chance.choice([20, 40])) for _ in range(count)]
    pairs = {tuple(sorted(chance.sample(range(count), 2))) for _ in range(count) if count > 1}
    arrows = [(a, b) for a, b in pairs]
    lies_well(laid_out(boxes, arrows), boxes, arrows)


def test_a_chain_is_straight() -> None:
    boxes = [Box(50 + n % 7 * 20, 40) for n in range(200)]
    layout = laid_out(boxes, [(n, n + 1) for n in range(199)])
    assert {round(x, 6) for x, _ in layout.places} == {round(layout.places[0][0], 6)}


def test_nothing_crosses_where_nothing_has_to() -> None:
    """A full binary tree whose boxes are given in an order that would cross, left alone."""
    arrows = [((n - 1) // 2, n) for n in range(1, 31)]
    shuffled = [(a, b) for a, b in arrows]
    random.Random(0).shuffle(shuffled)
    boxes = [Box(40, 20)] * 31
    layout = laid_out(boxes, shuffled)
    lies_well(layout, boxes, shuffled)
    lines = [(layout.places[a], layout.places[b]) for a, b in arrows]
    for i, (a, b) in enumerate(lines):
        for c, d in lines[:i]:
            if a[1] == c[1]:
                assert (a[0] - c[0]) * (b[0] - d[0]) >= 0


def test_a_skip_keeps_the_way_straight() -> None:
    """Residual blocks: the main way stays within a box's width of one line."""
    boxes, arrows = [Box(100, 40)] * 400, [(n, n + 1) for n in range(399)]
    arrows += [(n, n + 4) for n in range(0, 396, 4)]
    layout = laid_out(boxes, arrows)
    across = [x for x, _ in layout.places]
    assert max(across) - min(across) < 100


def test_what_begins_is_near_its_readers() -> None:
    layout = laid_out([Box(40, 20)] * 7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 5)][:5])
    assert layout.places[0][1] < layout.places[5][1]
    layout = laid_out([Box(40, 20)] * 6, [(0, 2), (2, 3), (3, 4), (4, 5), (1, 5)])
    assert layout.places[1][1] == layout.places[4][1]


def test_no_boxes() -> None:
    assert laid_out([], []).routes == []


def test_ten_thousand_in_a_chain() -> None:
    count = 10_000
    layout = laid_out([Box(40, 20)] * count, [(n, n + 1) for n in range(count - 1)])
    assert len(layout.places) == count
