"""Rows found by a table, multiplied with panels by the microkernel; bias and activation before a
sum is first stored.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I64, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, is_long, relative_operands
from uncork.kernels.epilogue import ELEMENT
from uncork.kernels.gemm.microkernel import (
    NEVER,
    EpilogueEmitter,
    Microkernel,
    RegisterTile,
    Row,
    of_panels,
    row_results,
)
from uncork.kernels.gemm.spec_indirect import IndirectGemm
from uncork.kernels.gemm.spec_matmul import FREE_MASKS

_EXTRA = ("target", "targets", "column", "scratch", "left")
#: Numbers that go apart in one turn of a loop.
_UNROLLED = 4


@emitter
def emit_indirect(k: Kernel, spec: IndirectGemm) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    extra = (*_EXTRA, *spec.end.arguments)
    masked = 1 if spec.lanes == FREE_MASKS else NEVER
    long = not spec.neighbours or is_long(spec.end)
    tile = RegisterTile(spec.lanes, spec.vectors, long=long)
    full, tail = of_panels(
        k, tile, extra, spec.tail, masked, lambda columns: _row_epilogue(spec, columns)
    )
    places = relative_operands(spec.end, a, a["target"])
    panels = (a["columns"] + (spec.width - 1)) // spec.width
    whole = panels if tail is full else a["columns"] // spec.width
    panel_bytes = a["inner"] * (spec.width * 4)
    matrix_bytes = panels * panel_bytes

    with k.loop(0, a["batches"]) as batch:
        source = a["source"] + batch * a["source_batch"]
        target = a["target"] + batch * a["target_batch"]
        matrix = a["matrix"] + batch * matrix_bytes
        ends = advanced_operands(spec.end, places, batch * a["columns"] * 4)
        with k.loop(0, a["rows"]) as row:
            k.store(source + k.load(a["sources"] + row * 8, I64), a["row_addresses"] + row * 8)

        def multiply(
            kernel: Microkernel, panel: Value, matrix: Value = matrix, target: Value = target
        ) -> None:
            given = {
                "target": target + panel * a["column"] * spec.width,
                "column": a["column"],
                "scratch": a["scratch"],
                "left": a["columns"] - panel * spec.width,
                **advanced_operands(spec.end, ends, panel * (spec.width * 4)),
            }
            kernel.multiply_rows(
                k,
                a["row_addresses"],
                matrix + panel * panel_bytes,
                a["inner"],
                a["rows"],
                lambda row: given | {"targets": a["targets"] + row * 8},
            )

        with k.loop(0, whole) as panel:
            multiply(full, panel)
        if tail is not None and tail is not full:
            with k.if_(whole * spec.width < a["columns"]):
                multiply(tail, whole)


def _row_epilogue(spec: IndirectGemm, columns: int) -> EpilogueEmitter:
    """A row of the result; only the first `columns` of the panel exist in memory."""

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + k.load(row.extra["targets"] + row.number * 8, I64)
        whole = target if spec.neighbours else row.extra["scratch"]
        there: int | Value = columns
        if row.masks and not spec.neighbours:
            there = k.minimum(row.extra["left"], k.integer(columns))
        rows: dict[str, Value] = {}  # where a row of each operand lies that is like the result
        for name, kind in zip(spec.end.arguments, spec.end.operands, strict=True):
            if kind == ELEMENT:
                place = target + row.extra[name]
                rows[name] = place if spec.neighbours else whole + spec.width * 4 * (1 + len(rows))
                if not spec.neighbours:
                    _moved(k, place, row.extra["column"], rows[name], k.integer(4), there)

        def element(name: str, column: int, lanes: int, mask: Value | None) -> Value:
            return k.load(rows[name] + column * 4, F32, lanes, mask)

        for column, part, mask in row_results(k, row, spec.lanes, columns, spec.end, element):
            k.store(part, whole + column * 4, mask)
        if not spec.neighbours:
            _moved(k, whole, k.integer(4), target, row.extra["column"], there)

    return end


def _moved(
    k: Kernel, source: Value, step: Value, target: Value, to: Value, columns: int | Value
) -> None:
    """Copy numbers that are `step` bytes apart to places `to` bytes apart. A loop does it, since
    the copies written out would be most of the kernel.
    """
    read, place = k.variable(source), k.variable(target)
    for _ in k.unrolled(columns, _UNROLLED):
        k.store(k.load(read.get(), F32), place.get())
        read.set(read.get() + step)
        place.set(place.get() + to)
