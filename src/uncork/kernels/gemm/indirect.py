"""Products of packed matrices with rows that lie anywhere: where each row begins, and where its result goes, stands in tables.

Convolutions of few pixels and einsums are such products; no operation has the kernel for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uncork.kernels.runtime.kernel_cache import STORE, has_feature
from uncork.kernels.select import KernelCall, Operand
from uncork.types import Array


@dataclass(frozen=True, slots=True)
class Products:
    """What a kernel is specialised for. A panel is `vectors` vectors of columns; `tail` columns are left for the last one."""

    vectors: int
    tail: int
    lanes: int
    #: The numbers of a row of the result are neighbours.
    neighbours: bool
    bias: bool = False
    activation: str = ""

    @property
    def name(self) -> str:
        flags = f"{'' if self.neighbours else '_apart'}{'_bias' if self.bias else ''}{'_' + self.activation if self.activation else ''}"
        return f"products_{self.vectors}x{self.lanes}_{self.tail}{flags}"

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def scratch_bytes(self) -> int:
        """Room for a row of a panel, before its numbers go apart."""
        return 0 if self.neighbours else self.width * 4


#: `batches` products, each with a matrix and a bias of its own; the tables hold bytes from `source` and `target`, i64, one for each row.
#: `column` is the bytes between numbers of a result; `room` takes the addresses of all rows, `scratch` what `scratch_bytes` says.
ARGUMENTS = (
    "source", "target", "matrix", "bias", "sources", "targets", "rows", "inner", "columns", "column",
    "batches", "source_batch", "target_batch", "room", "scratch",
)  # fmt: skip


def products(columns: int, lanes: int, neighbours: bool, bias: bool = False, activation: str = "") -> Products:
    """The kernel for a number of columns."""
    vectors = max(1, min(3, -(-columns // lanes)))
    return Products(vectors, columns % (vectors * lanes), lanes, neighbours, bias, activation)


def panels(spec: Products, matrices: Array) -> Array:
    """`matrices [B, N, K]` as panels `[B, P, K, width]`, zeros past N."""
    batches, columns, inner = matrices.shape
    count = -(-columns // spec.width)
    packed = np.zeros((batches, count * spec.width, inner), np.float32)
    packed[:, :columns] = matrices
    return np.ascontiguousarray(packed.reshape(batches, count, spec.width, inner).transpose(0, 1, 3, 2))


def multiplied(spec: Products, operands: dict[str, Operand]) -> KernelCall:
    """A call of the kernel."""

    def make() -> str:
        from uncork.kernels.gemm.emit_indirect import emit_products

        return emit_products(spec, has_feature("avx512f"))

    words: Sequence[Operand] = [operands[name] for name in ARGUMENTS]
    return STORE.function(spec.name, repr(spec), make), words
