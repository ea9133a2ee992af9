"""Selection of copies by a table, for any operation that only moves values from known places to
known places.

The operation's own reference tells: run on the numbers of the elements instead of their values, its
result says of every output element where it comes from. Neighbours that stay neighbours make runs;
a table of runs is what the kernel walks through.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from msgspec import Struct

from uncork.errors import UncorkError
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.layer import Layer, staged
from uncork.kernels.movement.select_nd_copy import select_nd_copy
from uncork.kernels.movement.spec import CopyTable, NdCopy
from uncork.kernels.runtime.addresses import address_of
from uncork.ops import Operation
from uncork.types import Array, ElementType, TensorSpec

#: With more elements than this NumPy is as fast, and the table would be large.
_MOST = 1 << 20
#: Operations with more inputs than this are left to NumPy: each input is traced among all the
#: others.
_MOST_INPUTS = 64
#: Runs are copied by straight code up to this many bytes; a longer one is several runs.
_LONGEST_RUN = 1024
#: Tables of up to so many runs are taken. Strided copies are, where they make so many times fewer
#: turns: each of these costs more than a run of a table.
_MANY, _FEWER = 1024, 3
#: Bytes of a vector by which strided copies pick single elements.
_VECTOR = 16


def select_move(layer: Layer) -> Selection:
    """Select a kernel for an operation with `moved` inputs: a table of runs or, where that is not
    known, strided copies.
    """
    operation, inputs, outputs = layer.operation, layer.inputs, layer.outputs
    if any(spec is not None and spec.element_type is ElementType.string for spec in inputs):
        return "no kernel for strings"
    if not all(spec.shape.is_static for spec in (*(i for i in inputs if i is not None), *outputs)):
        return select_nd_copy(operation, inputs, outputs) or "no kernel for open shapes"
    runs = _select_runs(operation, inputs, outputs)
    if isinstance(runs, KernelPlan) and _turns(runs) <= _MANY:
        return runs
    copies = select_nd_copy(operation, inputs, outputs)
    if isinstance(runs, KernelPlan) and isinstance(copies, KernelPlan):
        return copies if _turns(copies) * _FEWER <= _turns(runs) else runs
    return copies or runs


def _turns(plan: KernelPlan) -> int:
    """How many pieces a plan moves, each a run of neighbours or a vector of single elements."""
    return sum(_turns_of(*call) for call in plan.calls)


def _turns_of(spec: KernelSpec, operands: Sequence[Operand]) -> int:
    if isinstance(spec, CopyTable):
        return cast(int, operands[-1])
    if not isinstance(spec, NdCopy):
        return 1
    counts = [cast(int, operands[2 + 3 * loop]) for loop in range(spec.loops)]
    if counts and spec.step != 1:
        counts[-1] = -(-counts[-1] * spec.run // _VECTOR)
    return prod(counts)


def _select_runs(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]
) -> Selection:
    """Select copies by tables, for static shapes where all inputs that are not moved are
    constants.
    """
    ports = [operation.inputs[min(i, len(operation.inputs) - 1)] for i in range(len(inputs))]
    total = 0
    for port, spec in zip(ports, inputs, strict=False):
        if spec is None:
            continue
        if not port.moved and spec.value is None:
            return "what is moved where is known at the call only"
        total += int(spec.shape.size)
    if max([total, *(int(o.shape.size) for o in outputs)]) > _MOST:
        return "NumPy moves large tensors as fast"
    moved_specs = {
        i: spec
        for i, (port, spec) in enumerate(zip(ports, inputs, strict=False))
        if port.moved and spec is not None
    }
    moved = list(moved_specs)
    if len(moved) > _MOST_INPUTS:
        return "NumPy moves that many tensors as fast"
    covered = [np.zeros(int(o.shape.size), bool) for o in outputs]
    moves: list[_Move] = []
    name = "move"
    for position in moved:
        traced = _traced(operation, inputs, moved, position)
        if traced is None:
            return "the reference moves values of these types only"
        size = moved_specs[position].element_type.dtype.itemsize
        for index, origin in enumerate(traced):
            if origin.shape != covered[index].shape:  # guards that no call keeps
                return "its sizes contradict each other"
            targets = np.flatnonzero(origin >= 0)
            covered[index][targets] = True
            if not len(targets):
                continue
            run, sources, places = _grouped(origin[targets], targets, size)
            in_order = bool((places == np.arange(len(places)) * run).all())
            kernel = CopyTable(run, in_order)
            name = kernel.name
            tables = [
                np.ascontiguousarray(sources, np.int32),
                np.ascontiguousarray(places, np.int32),
            ]
            moves.append(_Move(kernel, position, index, tables))
    if not all(c.all() for c in covered):
        return "the result has elements that come from no input"

    def split(threads: int) -> Stages:
        """The calls of so many threads, which share every move: no two write to one place."""
        return Stages([[move.part(*p) for move in moves for p in shares(move.runs, threads)]], 0)

    keep = [table for move in moves for table in move.tables]
    return staged(split, float(sum(c.size for c in covered)), keep, name)


class _Move(Struct, frozen=True):
    """The copies from one input to one output, with the tables of where their runs are read and
    written.
    """

    kernel: CopyTable
    source: int
    target: int
    tables: list[Array]

    @property
    def runs(self) -> int:
        return len(self.tables[0])

    def part(self, first: int, count: int) -> KernelCall:
        """The call for some of the runs."""
        begin = first * self.kernel.run if self.kernel.in_order else 0
        operands: list[Operand] = [In(self.source), Out(self.target, begin)]
        operands += [address_of(table) + first * table.itemsize for table in self.tables]
        return self.kernel, [*operands, count]


def _traced(
    operation: Operation, inputs: Sequence[TensorSpec | None], moved: list[int], position: int
) -> list[Array] | None:
    """The number of the element of one input that each output element is; negative when it is none
    of them.
    """
    arrays: list[Array | None] = []
    for i, spec in enumerate(inputs):
        if spec is None or i not in moved:
            arrays.append(None if spec is None else spec.value)
        elif i == position:
            arrays.append(np.arange(int(spec.shape.size)).reshape(spec.shape.static))
        else:
            arrays.append(np.full(spec.shape.static, -1))
    # A fill of 0 must not look like element 0: what a second trace without the input still gives is
    # a fill.
    blank = [
        np.full_like(a, -1) if i == position and a is not None else a for i, a in enumerate(arrays)
    ]
    filler = [0] if operation.fills else []
    try:
        origin, without = (_flat(operation.reference(*given, *filler)) for given in (arrays, blank))
    except (UncorkError, TypeError, ValueError, IndexError):
        return None
    return [np.where(b < 0, a, -1) for a, b in zip(origin, without, strict=True)]


def _flat(results: Array | Sequence[Array]) -> list[Array]:
    return [
        np.asarray(r).reshape(-1)
        for r in (results if isinstance(results, (list, tuple)) else [results])
    ]


def _grouped(origin: Array, targets: Array, size: int) -> tuple[int, Array, Array]:
    """The bytes of a run, the runs' sources, and their targets in bytes, for the longest run that
    all copies are made of.
    """
    breaks = np.flatnonzero((np.diff(origin) != 1) | (np.diff(targets) != 1)) + 1
    starts = np.concatenate([[0], breaks])
    lengths = np.diff(np.concatenate([starts, [len(origin)]]))
    length = int(np.gcd.reduce(lengths))
    while length * size > _LONGEST_RUN:
        divisor = next((d for d in range(2, 64) if length % d == 0), length)
        length //= divisor
    picks = np.arange(0, len(origin), length)
    return length * size, origin[picks] * size, targets[picks] * size
