"""Which kernel multiplies f32 matrices: with constant weights, a bias and an activation, or two
matrices of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from uncork.internal_ops.fused import FusedLinear
from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.extents import certainly, extents, is_empty, nanoseconds
from uncork.kernels.gemm.matmul_shape import MatMulShape, Run, matmul_shape
from uncork.kernels.gemm.spec_matmul import MASKED, Linear
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.movement.select_transpose import arranged
from uncork.kernels.movement.strided_copy import Loop, placing
from uncork.kernels.runtime.packed_weights import packed, panels_of
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.kernels.select_epilogue import epilogue_of, operands_for
from uncork.ops import Operation
from uncork.ops.matmul import MatMul
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: A panel of the second matrix takes at most so many bytes, so that it stays in the second-level
#: cache.
_PANEL = 3 << 18
#: Threads share rows by whole blocks of the microkernel.
_BLOCK = 8


def specialised(
    width: int, columns: SizeLike, end: Epilogue = PLAIN, packed: bool = True, inner: SizeLike = 1
) -> Linear:
    """The kernel for vectors of `width` lanes and a number of columns; where only the call knows
    it, the last panel is masked.
    """
    most = max(1, min(3, _PANEL // (inner * width * 4))) if isinstance(inner, int) else 3
    if not isinstance(columns, int):
        return Linear(min(2, most), MASKED, width, end, packed)
    vectors = max(1, min(most, -(-columns // width)))
    return Linear(vectors, columns % (vectors * width), width, end, packed)


def pack(spec: Linear, matrix: Array) -> Array:
    """`matrix [K, N]` as panels `[P, K, width]`, zeros past N."""
    return panels_of(matrix.T, spec.width)


def unsuited(matmul: MatMul, left: Sequence[SizeLike], right: Sequence[SizeLike]) -> str:
    """Why no kernel multiplies matrices of these sizes; nothing where one does."""
    if is_empty((*left, *right)):
        return "no kernel for empty matrices"
    shape = matmul_shape(matmul, left, right)
    return shape if isinstance(shape, str) else ""


@selects(MatMul, FusedLinear)
def select_linear(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    a, b = inputs[0], inputs[1]
    assert a is not None and b is not None
    matmul = operation.product if isinstance(operation, FusedLinear) else operation
    assert isinstance(matmul, MatMul)
    if a.element_type is not ElementType.f32:
        return f"no kernel for {a.element_type}"
    left, right = extents(a), extents(b)
    if is_empty((*left, *right)):
        return "no kernel for empty matrices"
    shape = matmul_shape(matmul, left, right)
    if isinstance(shape, str):
        return shape
    end, others = epilogue_of(operation, inputs, outputs[0], -1)
    constant = b.value if shape.batches == 1 and len(shape.runs) == 1 else None
    return _Maker(shape, constant, end, others, target).native()


class _Maker:
    """The calls of one product."""

    def __init__(
        self,
        shape: MatMulShape,
        constant: Array | None,
        end: Epilogue,
        others: Sequence[int],
        target: Target,
    ) -> None:
        self.shape, self.others, self.target = shape, others, target
        #: One matrix is brought into panels before all rows are multiplied; of several, each by the
        #: call that needs it.
        self.alone = certainly(shape.batches, 1) and len(shape.runs) == 1
        self.spec = spec = specialised(
            target.lanes, shape.columns, end, packed=self.alone, inner=shape.inner
        )
        self.packing = None
        if constant is not None:
            matrix = constant.reshape(constant.shape[-2:] if constant.ndim > 1 else (-1, 1))
            turned = matrix.T if shape.turned_second else matrix
            self.packing = packed(
                [constant],
                (replace(spec, end=PLAIN), shape.turned_second),
                lambda: [pack(spec, turned)],
            )
        panels = (shape.columns + (spec.width - 1)) // spec.width
        #: Bytes in the step's memory: of the first matrices the right way round, of panels, of
        #: addresses of rows.
        self.turned = shape.firsts * shape.rows * shape.inner * 4 if shape.turned_first else 0
        self.panels = 0 if self.packing else panels * spec.width * shape.inner * 4
        self.scratch = self.turned + self.panels + shape.rows * 8

    def turn_first(self) -> Iterator[KernelCall]:
        """The first matrices the right way round."""
        if self.shape.turned_first:
            rows, inner = self.shape.rows, self.shape.inner
            loops: list[Loop] = [(1, 0, 0), (self.shape.firsts, rows * inner * 4, rows * inner * 4)]
            yield arranged(
                self.target.lanes, In(0), Scratch(0), loops, (inner, rows * 4), (rows, inner * 4)
            )

    def pack_second(self) -> Iterator[KernelCall]:
        """The only second matrix, where it is one of the call, as panels: whole ones, then what is
        left.
        """
        if self.packing or not self.alone:
            return
        inner, columns, width = self.shape.inner, self.shape.columns, self.spec.width
        whole = columns // width
        panel = inner * width * 4
        for first, number, wide in ((0, whole, width), (whole, 1, columns - whole * width)):
            if is_empty((number, wide)):
                continue
            target = Scratch(self.turned + first * panel)
            if self.shape.turned_second:
                loops: list[Loop] = [(1, 0, 0), (number, width * inner * 4, panel)]
                source = In(1, first * width * inner * 4)
                yield arranged(
                    self.target.lanes, source, target, loops, (wide, inner * 4), (inner, width * 4)
                )
            else:
                nest: list[Loop] = [
                    (1, 0, 0),
                    (number, width * 4, panel),
                    (inner, columns * 4, width * 4),
                    (wide, 4, 4),
                ]
                yield placing(self.target.lanes, In(1, first * width * 4), target, nest)

    def multiply(self, run: Run, first: SizeLike, count: SizeLike) -> KernelCall:
        """Some rows of every batch of a run."""
        shape, inner, columns = self.shape, self.shape.inner, self.shape.columns
        matrix = shape.rows * inner * 4
        begin = run.first * matrix + first * inner * 4
        source = Scratch(begin) if shape.turned_first else In(0, begin)
        if self.packing:
            second: list[Operand] = [self.packing.arrays[0].ctypes.data, 0, 0, 0]
        elif self.alone:
            second = [Scratch(self.turned), 0, 0, 0]
        else:
            strides = (4, inner * 4) if shape.turned_second else (columns * 4, 4)
            each = inner * columns * 4
            second = [In(1, run.second * each), *strides, 0 if run.one_second else each]
        made = (run.result * shape.rows + first) * columns * 4
        words: list[Operand] = [
            source,
            inner * 4,
            0 if run.one_first else matrix,
            *second,
            Out(0, made),
        ]
        words += [
            shape.batches,
            count,
            inner,
            columns,
            Scratch(self.turned + self.panels + first * 8),
            Scratch(self.turned),
        ]
        words += operands_for(self.spec.end, self.others, 0, made)
        assert len(words) == len(self.spec.arguments)
        return self.spec, words

    def stages(self, threads: int) -> Stages:
        before = [[call] for call in (*self.turn_first(), *self.pack_second())]
        rows = self.shape.rows
        parts = shares(rows, threads, _BLOCK) if threads > 1 and self.alone else [(0, rows)]
        runs = [
            [self.multiply(run, first, count) for first, count in parts] for run in self.shape.runs
        ]
        return Stages([*before, *runs], self.scratch)

    def native(self) -> KernelPlan:
        """The product."""
        shape = self.shape
        alone = self.stages(1)
        calls = [call for stage in alone.stages for call in stage]
        cost = nanoseconds(
            len(shape.runs) * shape.batches * shape.rows * shape.inner * shape.columns, 1 / 30
        )
        keep = [self.packing] if self.packing else []
        # A matrix of several is brought into order by every call of the kernel, and rows of a batch
        # lie apart.
        return KernelPlan(
            self.spec.name, calls, self.scratch, keep, cost, self.stages if self.alone else None
        )
