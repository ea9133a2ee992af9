"""Which loop nest resizes: Interpolate, by cells and weights that lie in tables, which are those of the reference.

All axes but the last are joined into a row in working memory, cell by cell and weight by weight; then the row is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from uncork.kernels.extents import KernelDeclined, extents, is_empty
from uncork.kernels.kernel_plan import Choice, In, Native, Out, Room
from uncork.kernels.loops.nest_call import Call, View, computed_type, element_bytes, row_bytes, unsupported
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import chooses
from uncork.ops import Operation
from uncork.ops._common.resize import Axis, Settings, nearest_cells, taps
from uncork.ops.interpolate import Interpolate1, Interpolate4, InterpolateByInputs, Interpolating
from uncork.storage import decode
from uncork.types import Array, TensorSpec

_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_BY_BYTES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
#: So many taps are written out; more are loops.
_WRITTEN_OUT = 8
#: A row in working memory is followed by so many elements that may be read, though not used.
_SLACK = 32
#: Lanes of the vectors that are picked from two neighbours.
_NEAR = 16


@dataclass(frozen=True)
class _Taps:
    """Along an axis: for each place of the result its cells, and their weights (None: one cell, as it is)."""

    axis: int
    cells: Array
    weights: Array | None

    @property
    def count(self) -> int:
        return int(self.cells.shape[1])

    def repeats(self) -> int:
        """How often each cell comes, where all come as often, in order; else 0."""
        size, places = int(self.cells.max()) + 1, len(self.cells)
        times = places // size if self.count == 1 and places % size == 0 else 0
        if times not in (2, 4, 8):
            return 0
        return times if (self.cells[:, 0] == np.arange(places) // times).all() else 0

    def is_near(self) -> bool:
        """The cells of a vector of places lie within two vectors, from that of the first place on."""
        padded = np.concatenate([self.cells, np.repeat(self.cells[-1:], _NEAR, axis=0)])
        firsts = padded[: len(self.cells) : _NEAR]
        windows = np.lib.stride_tricks.sliding_window_view(padded, _NEAR, 0)[: len(self.cells) : _NEAR]
        return bool((windows.min(-1) >= firsts).all() and (windows.max(-1) < firsts + 2 * _NEAR).all())


@chooses("Interpolate")
def choose_resizing(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec], target: Target) -> Choice:
    data = inputs[0]
    assert data is not None
    name = data.element_type.name
    shape, result = extents(data), extents(outputs[0])
    if not all(isinstance(size, int) for size in (*shape, *result)):
        return "no kernel for sizes that only the call knows"
    if is_empty(result):
        return Native("resize_nothing", [])
    if why := unsupported([name], target):
        return why
    axes, how = _plan(operation, cast("list[int]", shape), cast("list[int]", result), inputs)
    changed = [axis for axis in axes if axis.size != axis.result]
    if how.mode == "nearest":
        name = _BY_BYTES.get(element_bytes(name), "")
        along = [_Taps(a.axis, _nearest(a, how), None) for a in changed]
    elif name not in _FLOATS:
        return f"no kernel for {name}"
    else:
        smoothed = how.antialias and any(a.factor < 1 for a in axes)
        along = [_Taps(a.axis, *taps(a, how, smoothed)) for a in changed]
    return _Resizing(along, cast("list[int]", shape), cast("list[int]", result), name, target).call().native()


def _nearest(axis: Axis, how: Settings) -> Array:
    cells = nearest_cells(axis, axis.coordinates(how.coordinate_transformation_mode), how.nearest_mode)
    return cells[:, np.newaxis]


def _plan(
    operation: Operation, shape: Sequence[int], result: Sequence[int], inputs: Sequence[TensorSpec | None]
) -> tuple[list[Axis], Settings]:
    """What happens to each axis, and how."""
    assert isinstance(operation, Interpolating)
    if any(begin or end for begin, end in operation.pads(len(shape))):
        raise KernelDeclined("no kernel for pads")
    if isinstance(operation, Interpolate1):
        return operation.plan(shape, False, [result[axis] for axis in operation.axes])
    assert isinstance(operation, InterpolateByInputs)
    wanted, axes = inputs[1], inputs[-1] if len(inputs) > len(operation.inputs) - 1 else None
    if isinstance(operation, Interpolate4) and operation.shape_calculation_mode == "scales":
        wanted = inputs[2]
    assert wanted is not None
    if axes is not None and axes.value is None:
        raise KernelDeclined("axes are known at the call only")
    numbers = list(range(len(shape))) if axes is None or axes.value is None else axes.value.tolist()
    if operation.shape_calculation_mode == "sizes":
        return operation.plan(shape, [result[axis] for axis in numbers], numbers)
    if wanted.value is None:
        raise KernelDeclined("scales are known at the call only")
    return operation.plan(shape, decode(wanted.value, wanted.element_type), numbers)


class _Resizing:
    """A nest under construction: the loops of the result, and the lines inside them."""

    def __init__(self, along: Sequence[_Taps], shape: Sequence[int], result: Sequence[int], name: str, target: Target) -> None:
        self.name, self.target, self.computed = name, target, computed_type(name)
        self.loops: list[str] = []
        self.cells: list[str] = []
        self.counts: list[int] = []
        self.extents: list[int] = []
        self.before: list[str] = []
        self.tables: dict[str, Array] = {}
        #: Terms of a cell of a row: indices of changed axes by their loop, and weights.
        self.terms: list[tuple[dict[str, str], list[str]]] = [({}, [])]
        self.last: _Taps | None = None
        changed = {taps.axis: taps for taps in along}
        merges = False
        for axis, (size, count) in enumerate(zip(shape, result)):
            found = changed.get(axis)
            if found is None and merges:
                self.counts[-1], self.extents[-1] = self.counts[-1] * count, self.extents[-1] * size
                continue
            merges = found is None
            if found is not None and axis == len(shape) - 1:
                self.last = found
            self._loop(size, count, None if found is self.last else found)

    def _loop(self, size: int, count: int, found: _Taps | None) -> None:
        loop = "abcdefgh"[len(self.loops)]
        self.loops.append(loop)
        self.counts.append(count)
        self.extents.append(size)
        if found is not None:
            self._joined(loop, found)

    def _joined(self, loop: str, found: _Taps) -> None:
        """Cells of an axis of rows: their numbers and weights are read before the row is."""
        if len(self.terms) * found.count > _WRITTEN_OUT:
            raise KernelDeclined("no kernel for so many cells")
        cells, weights = f"R{loop}", f"P{loop}"
        self.tables[cells] = np.ascontiguousarray(found.cells, np.int32)
        if found.weights is not None:
            self.tables[weights] = np.ascontiguousarray(found.weights, "f8" if self.computed == "f64" else "f4")
        terms: list[tuple[dict[str, str], list[str]]] = []
        for tap in range(found.count):
            self.before.append(f"r{loop}{tap} = {cells}[{loop}, {tap}]")
            if found.weights is not None:
                self.before.append(f"p{loop}{tap} = {weights}[{loop}, {tap}]")
            for places, factors in self.terms:
                more = [] if found.weights is None else [f"p{loop}{tap}"]
                terms.append(({**places, loop: f"at(r{loop}{tap})"}, factors + more))
        self.terms = terms

    def _row(self, column: str) -> str:
        """An element of the row that the changed axes before the last one make."""
        products: list[str] = []
        for places, factors in self.terms:
            cell = ", ".join([*(places.get(loop, loop) for loop in self.loops[:-1]), column])
            products.append(" * ".join([f"X[{cell}]", *factors]))
        return " + ".join(products)

    def call(self) -> Call:
        """The nest."""
        *outer, x = self.loops
        out = ", ".join(self.loops)
        head = [" ".join(outer) + ":"] if outer else []
        indent = "  " if outer else ""
        room = 0
        if self.last is None:
            lines = [f"{x}*: Y[{out}] = {self._row(x)}"]
        elif self.last.weights is None:
            lines = [f"{x}*: Y[{out}] = {self._row(self._column(self.last, x))}"]
        else:
            lines = ["u*: T[u] = " + self._row("u"), *self._columns(self.last, x, out)]
            room = (self.extents[-1] + _SLACK) * element_bytes(self.computed)
        text = "\n".join([*head, *(indent + line for line in (*self.before, *lines))])
        sizes = dict(zip(self.loops, self.counts)) | {"u": self.extents[-1], "t": self.last.count if self.last else 1}
        views = {
            "X": View(In(0), self.name, tuple(self.extents)),
            "Y": View(Out(0), self.name, tuple(self.counts)),
            "T": View(Room(), self.computed, (self.extents[-1],)),
        }
        types = {"int32": "i32", "float32": "f32", "float64": "f64"}
        for name, table in self.tables.items():
            views[name] = View(int(table.ctypes.data), types[table.dtype.name], table.shape)
        cost = math.prod(self.counts) * (len(self.terms) + (self.last.count if self.last else 0)) // 8
        # Loops with tables are not shared: what a table says of a place holds for the whole.
        shared = [loop for loop in outer if f"R{loop}" not in self.tables]
        return Call("resize", text, sizes, views, self.target, 2, cost, row_bytes(room, "u8"), shared, list(self.tables.values()))

    def _column(self, found: _Taps, x: str) -> str:
        """Where the only cell of a place of the row is."""
        if times := found.repeats():
            return f"{x} // {times}"
        self.tables["S"] = np.ascontiguousarray(found.cells[:, 0], np.int32)
        return f"S[{x}]"

    def _columns(self, found: _Taps, x: str, out: str) -> list[str]:
        assert found.weights is not None
        self.tables["S"] = np.ascontiguousarray(found.cells.T, np.int32)
        self.tables["Q"] = np.ascontiguousarray(found.weights.T, "f8" if self.computed == "f64" else "f4")
        cell = f"near(S[t, {x}])" if found.is_near() else f"S[t, {x}]"
        loop = f"t={found.count}" if found.count <= _WRITTEN_OUT else "t"
        return [f"{x}*:", f"  {loop}: s = sum(T[{cell}] * Q[t, {x}])", f"  Y[{out}] = s"]
