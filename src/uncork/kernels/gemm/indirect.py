"""Products of packed matrices with rows that lie anywhere: where each row begins, and where its
result goes, stands in tables.

Convolutions of few pixels and einsums are such products; no operation has the kernel for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.kernels.gemm.address_table import RowTables
from uncork.kernels.gemm.spec_indirect import IndirectGemm
from uncork.kernels.kernel_plan import KernelCall, Operand, Out, Scratch, grid
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import PackedWeights, panels_of
from uncork.kernels.select_epilogue import operands_for
from uncork.symbolic import SizeLike
from uncork.types import Array


def panels(spec: IndirectGemm, matrices: Array) -> Array:
    """`matrices [B, N, K]` as panels `[B, P, K, width]`, zeros past N."""
    if len(matrices) == 1:
        return panels_of(matrices[0], spec.width)[None]
    return np.stack([panels_of(matrix, spec.width) for matrix in matrices])


class RowProducts(Struct, frozen=True):
    """Products of rows with `batches` of packed matrices of so many columns. Threads share rows, by
    blocks of so many, and of one matrix the panels, each of which has addresses of rows of its own.
    """

    spec: IndirectGemm
    packed_weights: PackedWeights
    batches: int
    inner: int
    columns: int
    #: Bytes from one column of a result to the next, and from the rows, and the results, of one
    #: matrix to those of the next.
    column: SizeLike
    source_batch: SizeLike
    target_batch: SizeLike
    #: Rows that stay together, as blocks of the microkernel do.
    block: int = 8

    def _panels(self, threads: int) -> int:
        """Panels that threads may share."""
        return 1 if threads < 2 or self.batches > 1 else -(-self.columns // self.spec.width)

    def scratch(self, rows: SizeLike, threads: int) -> SizeLike:
        """Bytes of working memory for so many rows."""
        return self._panels(threads) * (rows * 8) + threads * self.spec.scratch_bytes

    def calls(
        self,
        source: Operand,
        result: SizeLike,
        tables: RowTables,
        rows: tuple[SizeLike, SizeLike],
        memory: SizeLike,
        threads: int,
        matrix: SizeLike = 0,
        others: Sequence[int] = (),
    ) -> list[KernelCall]:
        """The calls of so many threads for some rows (how many, and the most that there is room
        for), whose results begin so many bytes behind the output's. Working memory is that from
        `memory` on, the matrices are those from a byte on, `others` the operands of the end.
        """
        (count, most), shared = rows, self._panels(threads)
        panel = self.spec.width if shared > 1 else self.columns
        calls: list[KernelCall] = []
        for share, ((first, some), (column, number)) in enumerate(
            grid([(count, self.block), (self.columns, panel)], threads)
        ):
            made = result + column * self.column
            addresses = column // self.spec.width * (most * 8) + first * 8
            own = shared * (most * 8) + share * self.spec.scratch_bytes
            calls.append(
                self.spec(
                    source=source,
                    target=Out(0, made),
                    matrix=matrix + column * self.inner * 4 + address_of(self._packed),
                    **tables.operands(first),
                    rows=some,
                    inner=self.inner,
                    columns=number,
                    column=self.column,
                    batches=self.batches,
                    source_batch=self.source_batch,
                    target_batch=self.target_batch,
                    row_addresses=Scratch(memory + addresses),
                    scratch=Scratch(memory + own),
                    **operands_for(self.spec.end, others, column * 4, made),
                )
            )
        return calls

    @property
    def _packed(self) -> Array:
        return self.packed_weights.arrays[0]
