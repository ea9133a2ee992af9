"""Moves of what other moves made: which of them are one layer, what stays as it is, and results,
which are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.ir.model import Node, Source
from uncork.passes import join_moves

Sizes = list[Any]
Body = Callable[[uncork.Builder, Source], Source]
_FAR = 1 << 40


def c(b: uncork.Builder, *value: int) -> Source:
    return b.constant(np.array(value, np.int64))


def cut(b: uncork.Builder, x: Source, axis: int, begin: int, end: int, step: int = 1) -> Source:
    return b.add("Slice", 8, x, c(b, begin), c(b, end), c(b, step), c(b, axis))[0]


def joined(b: uncork.Builder, axis: int, *parts: Source) -> Source:
    return b.add("Concat", 1, *parts, axis=axis)[0]


def turned(b: uncork.Builder, x: Source, *order: int) -> Source:
    return b.add("Transpose", 1, x, c(b, *order))[0]


def rolled(b: uncork.Builder, x: Source, axis: int, by: int) -> Source:
    return joined(b, axis, cut(b, x, axis, -by, _FAR), cut(b, x, axis, 0, -by))


def blocks(b: uncork.Builder, x: Source) -> Source:
    """Every other pixel of both axes, four times, as channels."""
    parts = [cut(b, cut(b, x, 2, i, _FAR, 2), 3, j, _FAR, 2) for j in (0, 1) for i in (0, 1)]
    return joined(b, 1, *parts)


def halves_turned(b: uncork.Builder, x: Source) -> Source:
    one, other = b.add("Split", 1, x, b.constant(np.int64(-1)), num_splits=2)
    return joined(b, -1, other, one)


def strided(b: uncork.Builder, x: Source) -> Source:
    """A row of each item from behind, a new axis, and the last columns of that."""
    y = b.add(
        *("StridedSlice", 1, x, c(b, 0, 2, 0, -1), c(b, 0, 0, 0, -_FAR), c(b, 1, 1, 1, -1)),
        begin_mask=[1, 0, 0, 0],
        end_mask=[1, 0, 0, 0],
        new_axis_mask=[0, 0, 1, 0],
        shrink_axis_mask=[0, 1, 0, 0],
    )[0]
    return cut(b, y, 2, -30, _FAR)


def compiled(body: Body, sizes: Sizes, name: str = "f32") -> CompiledModel:
    b = uncork.Builder("moved")
    b.result(body(b, b.parameter("x", name, sizes)), "y")
    return compile_model(b.model())


def kinds(model: CompiledModel) -> list[str]:
    return [step.operation.partition("-")[0] for step in model.plan.steps if step.kernel != "view"]


def draw(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize(
    ("body", "sizes", "function"),
    [
        (lambda b, x: rolled(b, x, 1, 3), [None, 50], lambda x: np.roll(x, 3, 1)),
        (
            lambda b, x: rolled(b, rolled(b, x, 1, 3), 2, 2),
            [None, 7, 9, 16],
            lambda x: np.roll(x, (3, 2), (1, 2)),
        ),
        (
            lambda b, x: rolled(b, rolled(b, x, 1, 2), 2, 3),
            [2, None, None, 8],
            lambda x: np.roll(x, (2, 3), (1, 2)),
        ),
        (
            blocks,
            [None, 3, 10, 80],
            lambda x: np.concatenate([x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], axis=1),
        ),
        (halves_turned, [None, 3, 40], lambda x: np.roll(x, 20, -1)),
        (strided, [None, 4, 40], lambda x: x[:, None, 2, ::-1][..., -30:]),
        (
            lambda b, x: cut(b, cut(b, x, 0, -2, -_FAR, -1), 1, 1, -1),
            [20, None, 12],
            lambda x: x[-2::-1, 1:-1],
        ),
        (
            lambda b, x: turned(b, cut(b, x, 1, 1, 4), 1, 0, 2),
            [None, 5, 20],
            lambda x: x[:, 1:4].transpose(1, 0, 2),
        ),
        (
            lambda b, x: cut(b, joined(b, 1, x, x), 1, 5, 17, 3),
            [None, 9, 16],
            lambda x: np.concatenate([x, x], 1)[:, 5:17:3],
        ),
    ],
    ids=[
        *("roll", "roll twice", "roll open axes", "blocks", "halves", "strided", "backwards"),
        *("transposed", "across"),
    ],
)
def test_moves_are_one(
    body: Body, sizes: Sizes, function: Callable[[np.ndarray], np.ndarray]
) -> None:
    for given in (sizes, [6 if size is None else size for size in sizes]):
        model = compiled(body, given)
        for open_size in (6, 4, 11) if None in given else (6,):
            x = draw(*(open_size if size is None else size for size in given))
            np.testing.assert_array_equal(model(x)["y"], function(x))
        assert kinds(model) == ["Moved"]


def test_layers_element_by_element_read_through_several_moves() -> None:
    def body(b: uncork.Builder, x: Source) -> Source:
        y = cut(b, cut(b, x, 1, 1, 4), 2, 4, 36)
        return b.add("Tanh", 1, y)[0]

    model = compiled(body, [None, 5, 40])
    for rows in (3, 8):
        x = draw(rows, 5, 40) / 100
        np.testing.assert_allclose(model(x)["y"], np.tanh(x[:, 1:4, 4:36]), rtol=1e-6, atol=1e-6)
    assert kinds(model) == ["Fused"]


def _columns(b: uncork.Builder, x: Source) -> Source:
    """Columns become rows, which a transpose moves by blocks."""
    return turned(b, cut(b, x, 1, 1, _FAR), 1, 0)


def _made_in_place(b: uncork.Builder, x: Source) -> Source:
    """Whole tensors beside each other, which are made in their places."""
    made = [b.add(name, 1, x)[0] for name in ("Tanh", "Exp", "Abs", "Sqrt")]
    return joined(b, 1, joined(b, 1, *made[:2]), joined(b, 1, *made[2:]))


def _one_computed(b: uncork.Builder, x: Source) -> Source:
    """What is computed is made in its place beside a slice."""
    return joined(b, 1, b.add("Tanh", 1, x)[0], cut(b, x, 1, 2, 20))


@pytest.mark.parametrize("body", [_columns, _made_in_place, _one_computed])
def test_moves_that_stay(body: Body) -> None:
    model = compiled(body, [40, 50])
    x = draw(40, 50)
    reference = compile_model(model.model, backend="reference")
    np.testing.assert_allclose(model(x)["y"], reference(x)["y"], rtol=1e-6)
    assert "Moved" not in kinds(model)


def test_results_that_others_read_are_made() -> None:
    b = uncork.Builder("moved")
    x = b.parameter("x", "f32", [4, 50])
    one = cut(b, x, 1, 3, _FAR)
    b.result(one, "one")
    b.result(joined(b, 1, one, cut(b, x, 1, 0, 3)), "y")
    model = compile_model(b.model())
    data = draw(4, 50)
    found = model(data)
    np.testing.assert_array_equal(found["one"], data[:, 3:])
    np.testing.assert_array_equal(found["y"], np.roll(data, -3, 1))


class _Chain:
    """Moves drawn at random, made in a model and by NumPy."""

    def __init__(self, seed: int, is_open: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.name, dtype = [("f32", np.float32), ("u8", np.uint8), ("i64", np.int64)][seed % 3]
        shape = [int(n) for n in self.random.integers(1, 9, 3)] + [40]
        self.sizes: Sizes = [None, *shape[1:]] if is_open else [*shape]
        self.x = draw(*shape, dtype=dtype)
        self.b = uncork.Builder("moves")
        made = self.b.parameter("x", self.name, self.sizes), self.x
        for _ in range(self.random.integers(2, 6)):
            made = self.random.choice([self.cut, self.turn, self.join])(*made)  # type: ignore[arg-type]
        source, self.expected = made
        self.b.result(source, "y")

    def cut(self, source: Source, x: np.ndarray) -> tuple[Source, np.ndarray]:
        axis = int(self.random.integers(x.ndim))
        first, last = (int(n) for n in self.random.integers(-5, 6, 2))
        step = int(self.random.choice([-3, -2, -1, 1, 1, 1, 2, 3, 5]))
        end = _FAR * (1 if step > 0 else -1) if self.random.random() < 0.6 else last
        # NumPy takes an end far before the first element for that before it.
        stop = None if end == -_FAR else end
        index = (slice(None),) * axis + (slice(first, stop, step),)
        if x[index].size == 0:
            return source, x
        return cut(self.b, source, axis, first, end, step), x[index]

    def turn(self, source: Source, x: np.ndarray) -> tuple[Source, np.ndarray]:
        order = [*self.random.permutation(x.ndim - 1), x.ndim - 1]
        return turned(self.b, source, *order), x.transpose(order)

    def join(self, source: Source, x: np.ndarray) -> tuple[Source, np.ndarray]:
        axis = int(self.random.integers(x.ndim))
        parts = [self.cut(source, x) for _ in range(self.random.integers(1, 4))]
        like = [
            (part, values)
            for part, values in parts
            if values.shape[:axis] + values.shape[axis + 1 :]
            == x.shape[:axis] + x.shape[axis + 1 :]
        ]
        if not like:
            return source, x
        return (
            joined(self.b, axis, *(part for part, _ in like)),
            np.concatenate([values for _, values in like], axis),
        )


@pytest.mark.parametrize("is_open", [False, True])
def test_random_moves(is_open: bool) -> None:
    found = 0
    for seed in range(60):
        chain = _Chain(seed, is_open)
        model = compile_model(chain.b.model())
        np.testing.assert_array_equal(model(chain.x)["y"], chain.expected, err_msg=str(seed))
        found += "Moved" in kinds(model)
    assert found > 10


def test_a_tensor_joined_with_itself_again_and_again() -> None:
    """Each join is looked at once, though there are 4**16 ways to the first."""
    builder = uncork.Builder("joined")
    (joined,) = builder.add("Concat", 1, *[builder.parameter("x", "f32", [None])] * 4, axis=0)
    for _ in range(15):
        (joined,) = builder.add("Concat", 1, *[joined] * 4, axis=0)
    builder.result(joined)
    compiled = uncork.compile_model(builder.model())
    assert compiled(np.zeros(0, np.float32))[0].shape == (0,)


def test_a_long_chain_costs_each_of_its_layers_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that is too long to be one layer is not walked to its end from each of its layers."""
    walked: list[int] = []
    data = join_moves._data

    def counted(node: Node) -> tuple[Source, ...]:
        walked[-1] += 1
        return data(node)

    monkeypatch.setattr(join_moves, "_data", counted)
    for pairs in (100, 200):
        b = uncork.Builder("chain")
        x = tail = b.parameter("x", "f32", [2, 8])
        for _ in range(pairs):
            tail = cut(b, joined(b, 1, tail, x), 1, 1, 9)
        b.result(tail, "y")
        walked.append(0)
        _ = compile_model(b.model()).plan_for([2, 8])
    assert 0 < walked[1] < 2.5 * walked[0]
