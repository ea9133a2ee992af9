"""Products of f32 matrices by the microkernel, with the bias added and the activation applied
before a sum is first stored.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.codegen.epilogue import advanced_operands, relative_operands
from uncork.kernels.gemm.microkernel import (
    MANY,
    NEVER,
    EpilogueEmitter,
    Microkernel,
    PackWeights,
    Row,
    loaded,
    of_panels,
    row_results,
    stored,
)
from uncork.kernels.gemm.spec_matmul import FREE_MASKS, MASKED, Matmul
from uncork.kernels.runtime.target import Target

#: What the end of a row is told besides its sums: `left` columns of the row exist from this panel
#: on.
_EXTRA = ("target", "target_row", "left")


def emit_matmul(spec: Matmul, machine: Target) -> str:
    """The LLVM text of a product of two matrices."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments))
    extra = (*_EXTRA, *spec.end.arguments)
    masked = 1 if spec.tail == MASKED else MANY if spec.lanes == FREE_MASKS else NEVER
    full, tail = of_panels(
        k, spec, extra, spec.tail, masked, lambda columns: row_epilogue(spec, columns)
    )
    places = relative_operands(spec.end, a, a["output"])
    panels = (a["columns"] + (spec.width - 1)) // spec.width
    whole = panels if tail is full else a["columns"] // spec.width
    row_bytes = a["output_row"]
    panel_bytes = a["inner"] * (spec.width * 4)

    with k.loop(0, a["outer"]) as outer, k.loop(0, a["batches"]) as batch:
        first = a["a"] + outer * a["a_outer"] + batch * a["a_batch"]
        with k.loop(0, a["rows"]) as row:
            k.store(first + row * a["a_row"], a["table"] + row * 8)
        if not spec.packed:
            _pack(k, spec, a, a["b"] + outer * a["b_outer"] + batch * a["b_batch"])
        matrix = a["b"] if spec.packed else a["packed_weights"]
        output = a["output"] + (outer * a["batches"] + batch) * a["output_batch"]

        def run(
            kernel: Microkernel, panel: Value, matrix: Value = matrix, output: Value = output
        ) -> None:
            kernel.run(
                k,
                a["table"],
                matrix + panel * panel_bytes,
                a["inner"],
                a["rows"],
                lambda row: {
                    "target": output + row * row_bytes + panel * (spec.width * 4),
                    "target_row": row_bytes,
                    "left": a["columns"] - panel * spec.width,
                    **advanced_operands(spec.end, places, panel * (spec.width * 4)),
                },
            )

        with k.loop(0, whole) as panel:
            run(full, panel)
        if tail is not None and tail is not full:
            with k.if_(whole * spec.width < a["columns"]):
                run(tail, whole)
    k.finish()
    return k.text()


def row_epilogue(spec: PackWeights, columns: int) -> EpilogueEmitter:
    """The epilogue of a row; only the first `columns` of the panel exist in memory."""

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + row.extra["target_row"] * row.number

        def element(name: str, column: int, lanes: int, mask: Value | None) -> Value:
            return loaded(k, target + row.extra[name] + column * 4, lanes, mask)

        for column, part, mask in row_results(k, row, spec.lanes, columns, spec.end, element):
            stored(k, part, target + column * 4, mask)

    return end


def _pack(k: Kernel, spec: Matmul, a: dict[str, Value], matrix: Value) -> None:
    """The second matrix as panels; columns that do not exist are zeros. Numbers that lie side by
    side are brought by vectors.
    """
    panels = (a["columns"] + (spec.width - 1)) // spec.width
    with k.loop(0, panels) as panel:
        first = panel * spec.width
        last = k.minimum(first + spec.width, a["columns"])
        base = a["packed_weights"] + panel * a["inner"] * (spec.width * 4)
        whole = (a["b_column"].equals(4)) & (first + spec.width <= a["columns"])
        with k.if_else(whole, likely=True) as (side_by_side, apart):
            with side_by_side, k.loop(0, a["inner"]) as inner:
                source = matrix + inner * a["b_inner"] + first * 4
                for v in range(spec.vectors):
                    place = (inner * spec.vectors + v) * (spec.lanes * 4)
                    k.store(k.load(source + v * spec.lanes * 4, F32, spec.lanes), base + place)
            with apart, k.loop(0, a["inner"]) as inner:
                target = base + inner * (spec.width * 4)
                for v in range(spec.vectors):
                    k.store(k.constant(0.0, F32, spec.lanes), target + v * spec.lanes * 4)
                with k.loop(first, last) as column:
                    source = matrix + inner * a["b_inner"] + column * a["b_column"]
                    k.store(k.load(source, F32), target + (column - first) * 4)
