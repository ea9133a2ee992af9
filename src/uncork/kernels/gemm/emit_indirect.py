"""Rows found by a table, multiplied with panels by the microkernel; bias and activation before a sum is first stored."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I64, Kernel, Value
from uncork.kernels.gemm.indirect import ARGUMENTS, Products
from uncork.kernels.gemm.microkernel import End, Microkernel, Row, finished

_EXTRA = ("target", "targets", "column", "bias", "scratch")
#: Numbers that go apart in one turn of a loop.
_UNROLLED = 4


def emit_products(spec: Products, estimates: bool) -> str:
    """The LLVM text of the kernel. `estimates`: the machine has AVX-512's reciprocal estimate."""
    k = Kernel(spec.name, ARGUMENTS)
    k.estimates = estimates
    a = dict(zip(ARGUMENTS, k.arguments))
    full = Microkernel(k, "full", spec.lanes, spec.vectors, _EXTRA, _end(spec, spec.width))
    tail = Microkernel(k, "tail", spec.lanes, spec.vectors, _EXTRA, _end(spec, spec.tail)) if spec.tail else None
    whole = a["columns"] // spec.width
    panel_bytes = a["inner"] * (spec.width * 4)
    matrix_bytes = (a["columns"] + (spec.width - 1)) // spec.width * panel_bytes

    with k.loop(0, a["batches"]) as batch:
        source = a["source"] + batch * a["source_batch"]
        target = a["target"] + batch * a["target_batch"]
        matrix = a["matrix"] + batch * matrix_bytes
        bias = a["bias"] + batch * a["columns"] * 4
        with k.loop(0, a["rows"]) as row:
            k.store(source + k.load(a["sources"] + row * 8, I64), a["room"] + row * 8)

        def run(kernel: Microkernel, panel: Value, matrix: Value = matrix, target: Value = target, bias: Value = bias) -> None:
            given = {
                "target": target + panel * a["column"] * spec.width,
                "column": a["column"],
                "bias": bias + panel * (spec.width * 4),
                "scratch": a["scratch"],
            }
            kernel.run(
                k,
                a["room"],
                matrix + panel * panel_bytes,
                a["inner"],
                a["rows"],
                lambda row: given | {"targets": a["targets"] + row * 8},
            )

        with k.loop(0, whole) as panel:
            run(full, panel)
        if tail is not None:
            run(tail, whole)
    k.finish()
    return k.text()


def _end(spec: Products, columns: int) -> End:
    """A row of the result; only the first `columns` of the panel exist in memory."""

    def end(k: Kernel, row: Row) -> None:
        target = row.extra["target"] + k.load(row.extra["targets"] + row.number * 8, I64)
        whole = target if spec.neighbours else row.extra["scratch"]
        for column, part in finished(k, row, spec.lanes, columns, spec.bias, spec.activation):
            k.store(part, whole + column * 4)
        if not spec.neighbours:
            _apart(k, whole, target, columns, row.extra["column"])

    return end


def _apart(k: Kernel, source: Value, target: Value, columns: int, step: Value) -> None:
    """Neighbours to places that are `step` bytes apart: by a loop, for written out it would be most of the kernel."""
    unrolled = columns // _UNROLLED * _UNROLLED
    place = k.variable(target)
    with k.loop(0, unrolled, _UNROLLED) as first:
        for column in range(_UNROLLED):
            k.store(k.load(source + (first + column) * 4, F32), place.get())
            place.set(place.get() + step)
    for column in range(unrolled, columns):
        k.store(k.load(source + column * 4, F32), place.get())
        place.set(place.get() + step)
