"""Products of matrices of f32 or f64 by the microkernel, with the bias added and the activation
applied before a sum is first stored.
"""

from __future__ import annotations

from itertools import product

from uncork.kernels.codegen.emit import F32, F64, U16, Kernel, Type, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, is_long, relative_operands
from uncork.kernels.elementwise.emit import widened
from uncork.kernels.gemm.emit_few import multiply_few
from uncork.kernels.gemm.emit_tile_panels import TilePanels
from uncork.kernels.gemm.microkernel import (
    AHEAD,
    MANY,
    NEVER,
    EpilogueEmitter,
    Microkernel,
    PanelSpec,
    RegisterTile,
    Row,
    of_panels,
    row_results,
)
from uncork.kernels.gemm.microkernel_blocks import RESUMED, InnerBlocks, ProductPart
from uncork.kernels.gemm.spec_matmul import (
    DOUBLE,
    EITHER,
    FEW_ROWS,
    MASKED,
    Matmul,
)
from uncork.kernels.movement.emit_transpose import columns_of
from uncork.kernels.runtime.target import LINE

#: What the end of a row is told besides its sums: `left` columns of the row exist from this panel
#: on.
_EXTRA = ("target", "target_row", "left")


@emitter
def emit_matmul(k: Kernel, spec: Matmul) -> None:
    """The LLVM text of a product of two matrices."""
    a = k.named
    type_ = F64 if spec.size == DOUBLE else F32
    places = relative_operands(spec.end, a, a["output"])
    panels: _Panels | TilePanels | None = None
    if spec.tiles:
        panels = TilePanels(
            k, spec, places, _EXTRA, row_epilogue(spec, spec.width, F32, spec.narrow)
        )
    elif spec.rows != FEW_ROWS:
        panels = _Panels(k, spec, type_, places)
    end = row_epilogue(spec, spec.lanes, type_, spec.narrow)
    with k.loop(0, a["outer"]) as outer, k.loop(0, a["batches"]) as batch:
        first = a["a"] + outer * a["a_outer"] + batch * a["a_batch"]
        second = a["b"] + outer * a["b_outer"] + batch * a["b_batch"]
        output = a["output"] + (outer * a["batches"] + batch) * a["output_batch"]

        def store(row: Value, column: Value, sums: Value, output: Value = output) -> None:
            """Store a vector of results, which begins at a column."""
            left = a["columns"] - column
            extra = {
                "target": output + row * a["output_row"] + column * spec.result_size,
                "target_row": a["output_row"],
                "left": left,
                **advanced_operands(spec.end, places, column * spec.size),
            }
            masks = [k.lanes_below(left, spec.lanes)]
            k.either(
                left >= spec.lanes,
                lambda: end(k, Row(0, a["a"], [sums], extra)),
                lambda: end(k, Row(0, a["a"], [sums], extra, masks)),
                likely=True,
            )

        def few(first: Value = first, second: Value = second) -> None:
            multiply_few(k, spec, type_, first, second, store)

        def many(first: Value = first, second: Value = second, output: Value = output) -> None:
            if panels is not None:
                panels.multiply(first, second, output)

        if spec.rows == EITHER:
            k.either(a["rows"] <= spec.most_few, few, many)
        elif panels is None:
            few()
        else:
            many()


class _Panels:
    """The product by panels of the second matrix, which are made first unless they are packed."""

    def __init__(self, k: Kernel, spec: Matmul, type_: Type, places: dict[str, Value]) -> None:
        self.k, self.spec, self.type, self.places = k, spec, type_, places
        extra = (*(RESUMED if spec.deep else ()), *_EXTRA, *(AHEAD if spec.ahead else ()))
        masked = 1 if spec.tail == MASKED else MANY if spec.masks_are_free else NEVER
        tile = RegisterTile(
            spec.lanes,
            spec.vectors,
            type_,
            resumed=spec.deep,
            most_rows=1 if spec.one_row else 8,
            long=is_long(spec.end),
            prefetches=spec.ahead,
            pairs=spec.pairs,
            alike=spec.alike,
            streams=spec.streams,
            results=self._ask_for_results,
        )
        self.blocks = InnerBlocks(k, tile, k.named["sums"] if spec.deep else None)
        self.full, self.tail = of_panels(
            k,
            tile,
            (*extra, *spec.end.arguments),
            spec.tail,
            masked,
            lambda columns: row_epilogue(spec, columns, type_, spec.narrow),
        )

    def _ask_for_results(self, k: Kernel, rows: int, extra: dict[str, Value]) -> None:
        """Ask for the lines of a panel's results of some rows."""
        for row, column in product(
            range(rows), range(0, self.spec.width * self.spec.result_size, LINE)
        ):
            k.prefetch(extra["target"] + (extra["target_row"] * row + column))

    def multiply(self, first: Value, second: Value, output: Value) -> None:
        """Multiply all rows, of which the first one, the second matrix and the result lie at these
        addresses.
        """
        k, spec, a = self.k, self.spec, self.k.named
        with k.loop(0, a["rows"]) as row:
            k.store(first + row * a["a_row"], a["table"] + row * 8)
        if not spec.packed:
            _pack(k, spec, self.type, a, second)
        matrix = a["b"] if spec.packed else a["packed_weights"]
        panels = (a["columns"] + (spec.width - 1)) // spec.width
        whole = panels if self.tail is self.full else a["columns"] // spec.width
        for part in self.blocks.parts(a["rows"], a["inner"]):
            with k.loop(0, whole) as panel:
                self._panel(self.full, panel, matrix, output, part)
            if self.tail is not None and self.tail is not self.full:
                with k.if_(whole * spec.width < a["columns"]):
                    self._panel(self.tail, whole, matrix, output, part)

    def _panel(
        self, kernel: Microkernel, panel: Value, matrix: Value, output: Value, part: ProductPart
    ) -> None:
        """Multiply a part of all rows by its block of a panel."""
        spec, a = self.spec, self.k.named
        line = spec.width * spec.size
        block = matrix + (panel * a["inner"] + part.begin) * line

        def extra_of(row: Value) -> dict[str, Value]:
            return {
                "target": output + row * a["output_row"] + panel * (spec.width * spec.result_size),
                "target_row": a["output_row"],
                "left": a["columns"] - panel * spec.width,
                **self._ahead_of(row - part.first, block, part),
                **advanced_operands(spec.end, self.places, panel * line),
            }

        self.blocks.multiply(part, kernel, a["table"], (panel, block), extra_of)

    def _ahead_of(self, row: Value, block: Value, part: ProductPart) -> dict[str, Value]:
        """What the rows of a part from this one on ask for: their share of the next panel."""
        spec, inner = self.spec, self.k.named["inner"]
        if not spec.ahead:
            return {}
        line = spec.width * spec.size
        return self.full.asked_ahead(
            self.k, block + inner * line, part.inner * line, row, part.rows, part.inner
        )


def row_epilogue(
    spec: PanelSpec, columns: int, type_: Type = F32, narrow: bool = False
) -> EpilogueEmitter:
    """The epilogue of a row; only the first `columns` of the panel exist in memory. Where `narrow`,
    results and operands of elements are bf16 there.
    """
    held = U16 if narrow else type_

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + row.extra["target_row"] * row.number

        def element(name: str, column: int, lanes: int, mask: Value | None) -> Value:
            place = target + row.extra[name] + column * held.bytes
            there = k.load(place, held, lanes, mask)
            return widened(k, "bf16", there) if narrow else there

        for column, part, mask in row_results(k, row, spec.lanes, columns, spec.end, element):
            rounded = k.to_bf16(part) if narrow else part
            k.store(rounded, target + column * held.bytes, mask)

    return end


def _pack(k: Kernel, spec: Matmul, type_: Type, a: dict[str, Value], matrix: Value) -> None:
    """The second matrix as panels, vector by vector of columns; in the place of columns that do not
    exist are zeros or another column. Numbers that lie side by side, along either axis, are brought
    by vectors.
    """
    panels = (a["columns"] + (spec.width - 1)) // spec.width
    with k.loop(0, panels) as panel, k.loop(0, spec.vectors) as within:
        column = panel * spec.width + within * spec.lanes
        target = a["packed_weights"] + panel * a["inner"] * (spec.width * spec.size)
        target = target + within * (spec.lanes * spec.size)
        along_columns = a["b_column"].equals(spec.size)
        if not spec.masks_are_free:
            along_columns = along_columns & (column + spec.lanes <= a["columns"])
        along_inner = a["b_inner"].equals(spec.size) & (a["inner"] >= spec.lanes)
        k.either(
            along_columns,
            lambda: _pack_rows(k, spec, type_, matrix, column, target),
            lambda: k.either(
                along_inner,
                lambda: _pack_turned(k, spec, type_, matrix, column, target),
                lambda: _pack_numbers(k, spec, type_, matrix, column, target),
            ),
        )


def _pack_rows(
    k: Kernel, spec: Matmul, type_: Type, matrix: Value, column: Value, target: Value
) -> None:
    """A vector of columns that lie side by side: all of them exist, or masks cost nothing."""
    a, line, source = k.named, spec.width * spec.size, matrix + column * spec.size
    mask = k.lanes_below(a["columns"] - column, spec.lanes) if spec.masks_are_free else None
    with k.loop(0, a["inner"]) as inner:
        row = k.load(source + inner * a["b_inner"], type_, spec.lanes, mask)
        k.store(row, target + inner * line)


def _pack_turned(
    k: Kernel, spec: Matmul, type_: Type, matrix: Value, column: Value, target: Value
) -> None:
    """A vector of columns, each of which lies side by side, by square blocks; what is left of the
    inner dimension with some of what is before.
    """
    a, side, line = k.named, spec.lanes, spec.width * spec.size
    last = a["columns"] - 1
    places = [k.minimum(column + n, last) * a["b_column"] + matrix for n in range(side)]
    with k.loop(0, a["inner"], side) as some:
        first = k.minimum(some, a["inner"] - side)
        rows = [k.load(place + first * spec.size, type_, side) for place in places]
        for n, turned in enumerate(columns_of(rows)):
            k.store(turned, target + (first + n) * line)


def _pack_numbers(
    k: Kernel, spec: Matmul, type_: Type, matrix: Value, column: Value, target: Value
) -> None:
    """A vector of columns, number by number; zeros where there are none."""
    a, line = k.named, spec.width * spec.size
    there = k.minimum(a["columns"] - column, k.integer(spec.lanes))
    with k.loop(0, a["inner"]) as inner:
        k.store(k.constant(0.0, type_, spec.lanes), target + inner * line)
        with k.loop(0, there) as n:
            source = matrix + inner * a["b_inner"] + (column + n) * a["b_column"]
            k.store(k.load(source, type_), target + inner * line + n * spec.size)
