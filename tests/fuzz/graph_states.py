"""Layers with variables that grow from one call of a random graph to the next."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs import Graph, Value, drawn
from uncork.types import ElementType, PartialShape


def grown(g: Graph) -> object:
    """A value that there is, appended along some axis of a variable; its rows along another may be
    picked.
    """
    new = g.pick(least=1)
    rank = new.array.ndim
    axis = g.random.randrange(rank)
    picked = g.random.choice([None, *(a for a in range(rank) if a != axis)])
    shape = list(new.array.shape)
    shape[axis] = g.random.choice([0, 0, 2])
    if picked is not None:
        shape[picked] = g.random.choice([1, 2, 3])
    return _grown(g, new, axis, picked, shape)


def attended(g: Graph) -> object:
    """Attention over keys and values of all calls so far, whose heads may serve several queries."""
    batch, heads, steps, size = (g.random.choice(n) for n in ((1, 2), (1, 2), (1, 1, 3), (4, 8)))
    groups = g.random.choice([1, 1, 2])
    query = g.input("x", batch, heads * groups, steps, size)
    kept = []
    picks = g.random.choice([None, 0])
    for _ in range(2):
        new = g.input("x", batch, heads, steps, size)
        whole = _grown(g, new, 2, picks, [batch, heads, 0, size])
        if groups > 1:
            (wide,) = g.layer("Unsqueeze", 1, whole, g.constant(np.array([2])))
            (wide,) = g.layer(
                "Broadcast",
                3,
                wide,
                g.constant(np.array([1, 1, groups, 1, 1])),
                mode="bidirectional",
            )
            target = g.constant(np.array([0, heads * groups, -1, size]))
            (whole,) = g.layer("Reshape", 1, wide, target, special_zero=True)
        kept.append(whole)
    return g.layer("ScaledDotProductAttention", 13, query, *kept, causal=False, exact=False)


def multiplied(g: Graph) -> object:
    """A product with rows, or columns, of all calls so far."""
    batch, steps, size = (g.random.choice(n) for n in ((1, 2), (1, 3), (4, 8)))
    groups, turned = g.random.choice([1, 1, 2]), g.random.random() < 0.4
    new = g.input("x", batch, *((size, steps) if turned else (steps, size)))
    whole = _grown(g, new, 2 if turned else 1, g.random.choice([None, 0]), _before(new, turned))
    if groups > 1:
        (wide,) = g.layer("Unsqueeze", 1, whole, g.constant(np.array([1])))
        (wide,) = g.layer(
            "Broadcast", 3, wide, g.constant(np.array([1, groups, 1, 1])), mode="bidirectional"
        )
        target = g.constant(
            np.array([batch * groups, size, -1] if turned else [batch * groups, -1, size])
        )
        (whole,) = g.layer("Reshape", 1, wide, target, special_zero=True)
    other = g.input("x", batch * groups, g.random.choice([1, 3, 5]), size)
    return g.layer("MatMul", 1, other, whole, transpose_b=not turned, exact=False)


def _before(new: Value, turned: bool) -> list[int]:
    shape = list(new.array.shape)
    shape[2 if turned else 1] = 0
    return shape


def _grown(g: Graph, new: Value, axis: int, picked: int | None, before: list[int]) -> Value:
    """The value of a new variable, which begins with such a shape, and what is appended."""
    name = f"variable {len(g.builder.model().nodes)}"
    element_type = ElementType.of_dtype(new.array.dtype)
    assert element_type is not None
    static = g.random.random() < 0.5
    shape = [n if static and a not in (axis, picked) else None for a, n in enumerate(before)]
    initial = _initial(g, new, before)
    (old,) = g.layer(
        "ReadValue",
        6,
        *initial,
        variable_id=name,
        variable_type=element_type.name,
        variable_shape=PartialShape(shape),
    )
    if g.random.random() < 0.3:
        g.layer("ShapeOf", 3, old, output_type="i64")
    if picked is not None:
        rows = max(1, old.array.shape[picked])
        numbers = np.array(
            [g.random.randrange(rows) for _ in range(new.array.shape[picked])], np.int64
        )
        picks = g.parameter("ids", numbers)
        (old,) = g.layer("Gather", 8, old, picks, g.constant(np.array(picked)))
    (whole,) = g.layer("Concat", 1, old, new, axis=axis)
    g.builder.add("Assign", 6, whole.source, variable_id=name)
    return whole


def _initial(g: Graph, new: Value, shape: list[int]) -> list[Value]:
    """None at all, a constant, or what the model computes of an input."""
    way = g.random.random()
    if way < 0.2:
        return []
    numbers = drawn(g.random, "ids", shape).astype(new.array.dtype)
    if way < 0.6:
        return [g.constant(numbers)]
    return g.layer("Add", 1, g.parameter("ids", numbers), g.constant(np.array(1, numbers.dtype)))


STATES = (grown, grown, attended, multiplied)
