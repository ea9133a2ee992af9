"""Products of f32 matrices by the microkernel, with the bias added and the activation applied before a sum is first stored."""

from __future__ import annotations

from typing import Protocol

from uncork.kernels.codegen.activations import STANDALONE
from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.gemm.microkernel import End, Microkernel, Row, finished
from uncork.kernels.gemm.spec_matmul import ARGUMENTS, MASKED, Linear
from uncork.kernels.runtime.target import Target


class Ending(Protocol):
    """What a kernel of products is specialised for at the end of a row."""

    @property
    def lanes(self) -> int: ...
    @property
    def bias(self) -> bool: ...
    @property
    def activation(self) -> str: ...


#: What the end of a row is told besides its sums: `left` columns of the row exist from this panel on.
_EXTRA = ("target", "target_row", "bias", "left")


def emit_linear(spec: Linear, machine: Target) -> str:
    """The LLVM text of a linear kernel."""
    k = Kernel(spec.name, ARGUMENTS, machine)
    a = dict(zip(ARGUMENTS, k.arguments))
    full = Microkernel(k, "full", spec.lanes, spec.vectors, _EXTRA, row_end(spec, spec.width))
    last = masked_end(spec) if spec.tail == MASKED else row_end(spec, spec.tail)
    tail = Microkernel(k, "tail", spec.lanes, spec.vectors, _EXTRA, last) if spec.tail else None
    whole = a["columns"] // spec.width
    row_bytes = a["columns"] * 4
    panel_bytes = a["inner"] * (spec.width * 4)

    with k.loop(0, a["batches"]) as batch:
        with k.loop(0, a["rows"]) as row:
            k.store(a["a"] + batch * a["a_batch"] + row * a["a_row"], a["table"] + row * 8)
        if not spec.packed:
            _pack(k, spec, a, a["b"] + batch * a["b_batch"])
        matrix = a["b"] if spec.packed else a["panels"]
        output = a["output"] + batch * a["rows"] * row_bytes

        def run(kernel: Microkernel, panel: Value, matrix: Value = matrix, output: Value = output) -> None:
            kernel.run(
                k,
                a["table"],
                matrix + panel * panel_bytes,
                a["inner"],
                a["rows"],
                lambda row: {
                    "target": output + row * row_bytes + panel * (spec.width * 4),
                    "target_row": row_bytes,
                    "bias": a["bias"] + panel * (spec.width * 4),
                    "left": a["columns"] - panel * spec.width,
                },
            )

        with k.loop(0, whole) as panel:
            run(full, panel)
        if tail is not None:
            with k.when(whole * spec.width < a["columns"]):
                run(tail, whole)
    k.finish()
    return k.text()


def row_end(spec: Ending, columns: int) -> End:
    """A row of the result; only the first `columns` of the panel exist in memory."""

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + row.extra["target_row"] * row.number
        for column, part in finished(k, row, spec.lanes, columns, spec.bias, spec.activation):
            k.store(part, target + column * 4)

    return end


def masked_end(spec: Ending) -> End:
    """A row of the last panel, of which `left` columns exist in memory."""

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + row.extra["target_row"] * row.number
        for v, total in enumerate(row.sums):
            mask = k.lanes_below(row.extra["left"] - v * spec.lanes, spec.lanes)
            if spec.bias:
                total = total + k.load_masked(row.extra["bias"] + v * spec.lanes * 4, F32, mask)
            activated = STANDALONE[spec.activation](k, total) if spec.activation else total
            k.store_masked(activated, target + v * spec.lanes * 4, mask)

    return end


def _pack(k: Kernel, spec: Linear, a: dict[str, Value], matrix: Value) -> None:
    """The second matrix as panels; columns that do not exist are zeros."""
    panels = (a["columns"] + (spec.width - 1)) // spec.width
    with k.loop(0, panels) as panel:
        first = panel * spec.width
        last = k.minimum(first + spec.width, a["columns"])
        base = a["panels"] + panel * a["inner"] * (spec.width * 4)
        with k.loop(0, a["inner"]) as inner:
            target = base + inner * (spec.width * 4)
            for v in range(spec.vectors):
                k.store(k.number(0.0, F32, spec.lanes), target + v * spec.lanes * 4)
            with k.loop(first, last) as column:
                source = matrix + inner * a["b_inner"] + column * a["b_column"]
                k.store(k.load(source, F32), target + (column - first) * 4)
