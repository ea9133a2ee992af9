"""Random graphs whose sizes the data tell, one after the other: kernels give what the references
give, in call after call of other sizes.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.compiler.rooms import found_axes
from uncork.errors import UncorkError
from uncork.ir.model import Source
from uncork.symbolic import Facts, Origin, Size
from uncork.types import ElementType, PartialShape, TensorSpec

_GRAPHS, _CALLS = 60, 5


class _Graph:
    """Vectors of i64 that layers make of each other. All elements are small and not negative."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.b = uncork.Builder(f"graph {seed}")
        self.vectors = [self.b.parameter(f"x{i}", "i64", [None]) for i in range(2)]
        self.table = self.b.constant(self.random.standard_normal((12, 3)).astype(np.float32))
        self.zero = self.b.constant(np.int64(0))

    def model(self) -> uncork.Model:
        for _ in range(self.random.integers(2, 7)):
            self.vectors.append(self._made())
        chosen = self.random.permutation(len(self.vectors))[: self.random.integers(1, 4)]
        for number in sorted({*chosen.tolist(), len(self.vectors) - 1}):
            self.b.result(self._end(self.vectors[number]), f"y{number}")
        return self.b.model()

    def _one(self) -> Source:
        """One of the vectors, a late one rather than an early one."""
        count = len(self.vectors)
        return self.vectors[max(self.random.integers(0, count), self.random.integers(0, count))]

    def _add(self, kind: str, opset: int, *inputs: Source, **attributes: object) -> Source:
        return self.b.add(kind, opset, *inputs, **attributes)[0]

    def _places(self, vector: Source) -> Source:
        flat = self.b.constant(np.array([-1]))
        found = self._add("NonZero", 3, vector, output_type="i64")
        return self._add("Reshape", 1, found, flat, special_zero=False)

    def _unique(self, vector: Source) -> list[Source]:
        return list(self.b.add("Unique", 10, vector, sorted=bool(self.random.integers(0, 2))))

    def _made(self) -> Source:
        vector, kind = self._one(), self.random.integers(0, 7)
        if kind == 0:
            return self._places(vector)
        if kind == 1:
            return self._add("Gather", 8, vector, self._places(vector), self.zero)
        if kind == 2:
            return self._unique(vector)[self.random.integers(0, 4)]
        if kind == 3:  # the vector itself
            different, _, places, _ = self._unique(vector)
            return self._add("Gather", 8, different, places, self.zero)
        if kind == 4:  # how often each number occurs
            different, _, _, counts = self._unique(vector)
            room = self.b.constant(np.array([self.random.integers(60, 70)]))
            zeros = self._add("Broadcast", 3, self.zero, room)
            return self._add("ScatterUpdate", 3, zeros, different, counts, self.zero)
        if kind == 5:
            return self._add("Concat", 1, vector, self._one(), axis=0)
        length = self._add("ShapeOf", 3, vector, output_type="i64")
        size = self._add("Gather", 8, length, self.zero, self.zero)
        one = self.b.constant(np.int64(1))
        return self._add("Range", 4, self.zero, size, one, output_type="i64")

    def _end(self, vector: Source) -> Source:
        """A vector, or rows of the table that it names."""
        kind = self.random.integers(0, 3)
        if kind == 0:
            return vector
        most = self.b.constant(np.int64(11))
        ids = self._add("Minimum", 1, vector, most)
        if kind == 1:
            return self._add("Gather", 8, self.table, ids, self.zero)
        different, _, places, _ = self._unique(ids)
        rows = self._add("Gather", 8, self.table, different, self.zero)
        return self._add("Gather", 8, rows, places, self.zero)


def outcome(compiled: CompiledModel, given: list[np.ndarray]) -> object:
    try:
        return [result.tolist() for result in compiled(*given).values()]
    except UncorkError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(_GRAPHS))
def test_random_graphs(seed: int) -> None:
    model = _Graph(seed).model()
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    random = np.random.default_rng(1000 + seed)
    calls = [
        [random.integers(0, 6, random.integers(1, 9)) for _ in range(2)] for _ in range(_CALLS)
    ]
    calls.append([np.zeros(3, np.int64), np.ones(2, np.int64)])  # nothing is found
    for given in [*calls, *calls[::-1]]:
        assert outcome(fast, given) == outcome(slow, given)
    assert not any(step.kernel == "reference" for step in fast.plan.steps)


def test_a_size_that_became_a_number_is_not_found() -> None:
    """The lengths that a loop was to find may be known when its outputs are."""
    facts = Facts()
    rows = facts.symbol("rows", 0, None, "found", Origin(1, 0, 0))
    columns = facts.symbol("columns", 0, None, "found", Origin(1, 0, 1))
    open_columns = TensorSpec(ElementType.f32, PartialShape([Size.of(rows), Size.of(columns)]))
    known_columns = TensorSpec(ElementType.f32, PartialShape([Size.of(rows), 8]))
    assert found_axes([open_columns], [rows, columns]) == {0: {0: rows, 1: columns}}
    assert found_axes([known_columns], [rows]) == {0: {0: rows}}
    assert found_axes([known_columns], [rows, columns]) is None
