"""Which kernel multiplies matrices of f32 or f64: with constant weights, a bias and an activation,
or two matrices of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace

from uncork.internal_ops.fused import product_of
from uncork.internal_ops.held import HALF, HeldProduct, widened
from uncork.kernels.epilogue import CHANNEL, ELEMENT, NUMBER, PLAIN, Epilogue
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    decline_if,
    extents,
    is_empty,
    largest,
    nanoseconds,
)
from uncork.kernels.gemm.matmul_shape import MatMulShape, Run, matmul_shape
from uncork.kernels.gemm.microkernel_blocks import bytes_of_sums, has_blocks
from uncork.kernels.gemm.spec_matmul import (
    DOUBLE,
    EITHER,
    FEW_ROWS,
    MANY_ROWS,
    MASKED,
    MOST_STRAIGHT,
    MOST_TURNED,
    SINGLE,
    TILE_PAIRS,
    TILE_ROWS,
    Matmul,
)
from uncork.kernels.gemm.streams import streams
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    grid,
    shares,
    whole_lines,
)
from uncork.kernels.layer import Layer, present, staged
from uncork.kernels.movement.nd_copy import Loop, layout_copy, nd_copy
from uncork.kernels.movement.transpose import arranged
from uncork.kernels.register_tiles import rows_of_parts
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed, panels_of
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import epilogue_of, operands_for, roughened
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops.matmul import MatMul
from uncork.storage import encode
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType

#: Larger matrices than a second-level cache are asked for ahead: in a cache that costs nothing,
#: from memory 16 rows take 0.7 of the time and 197 rows the same.
SECOND_CACHE = 1 << 20
#: Bytes of a number, by the type.
_SIZES = {ElementType.f32: SINGLE, ElementType.f64: DOUBLE}
#: So many rows of a part are worth a matrix in panels.
_MANY_ROWS = 128


class ProductNumbers(Struct, frozen=True):
    """The numbers of a product: their bytes, whether they are pairs of bf16, whether those are
    multiplied in tiles, whether results are bf16, and whether those of all rows are added up in one
    order.
    """

    size: int = SINGLE
    pairs: bool = False
    tiles: bool = False
    narrow: bool = False
    alike: bool = False


SINGLES = ProductNumbers()


def specialised(
    width: int,
    columns: SizeLike,
    end: Epilogue = PLAIN,
    packed: bool = True,
    inner: SizeLike = 1,
    rows: SizeLike = 0,
    numbers: ProductNumbers = SINGLES,
) -> Matmul:
    """The kernel for vectors of `width` lanes and a number of columns; where only the call knows
    it, the last panel is masked.
    """
    size, pairs, tiles, narrow, alike = astuple(numbers)
    one_row = certainly(rows, 1)
    tiles = tiles and not one_row
    vectors = min(2 if tiles else 3, -(-columns // width)) if isinstance(columns, int) else 2
    tail = columns % (vectors * width) if isinstance(columns, int) else MASKED
    deep = has_blocks(inner) and not tiles and not one_row
    whole = inner * columns
    large = isinstance(whole, int) and whole * size > SECOND_CACHE
    ahead = packed and large and not one_row
    spec = Matmul(
        vectors, tail, width, end, packed, size, deep, one_row, ahead, pairs, tiles, narrow, alike
    )
    return replace(spec, streams=not (one_row or tiles) and streams(inner, spec.width, size))


def pack(spec: Matmul, matrix: Array) -> Array:
    """`matrix [K, N]` as panels `[P, K, width]`, zeros past N."""
    return panels_of(matrix.T, spec.width, np.float64 if spec.size == DOUBLE else np.float32)


def unsuited(matmul: MatMul, left: Sequence[SizeLike], right: Sequence[SizeLike]) -> str:
    """Why no kernel multiplies matrices of these sizes; nothing where one does."""
    try:
        matmul_shape(matmul, left, right)
    except KernelDeclined as declined:
        return str(declined)
    return ""


def select_linear(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    a, b = layer.input(0), layer.input(1)
    matmul = product_of(operation)
    assert isinstance(matmul, MatMul)
    size = _SIZES.get(a.element_type)
    if size is None:
        return f"no kernel for {a.element_type}"
    left, right = extents(a), extents(b)
    shape = matmul_shape(matmul, left, right)
    end, others = epilogue_of(operation, inputs, outputs[0], -1)
    constant = b.value if shape.is_one_product else None
    numbers = ProductNumbers(size, alike=layer.hints.rows_alike)
    if shape.is_column:
        kinds = tuple(NUMBER if kind == CHANNEL else kind for kind in end.operands)
        row, along = shape.as_row(), replace(end, operands=kinds)
        return _Maker(row, None, along, others, target, numbers, (1, 0)).native()
    return _Maker(shape, constant, end, others, target, numbers).native()


def select_held(layer: Layer) -> Selection:
    """The product of a tensor of bf16, whose numbers are taken in pairs, and constant weights."""
    held, target = layer.of(HeldProduct), layer.target
    if refused := refused_pairs(layer):
        return refused
    shape, end, others = _held_product(layer)
    for kind, position in zip(end.operands, others, strict=True):
        wanted = held.result if kind == ELEMENT else ElementType.f32
        decline_if(
            layer.input(position).element_type is not wanted,
            f"an operand of {layer.input(position).element_type} where {wanted} is read",
        )
    assert isinstance(shape.inner, int)
    words = replace(shape, inner=shape.inner // 2)
    weights = layer.constant(1, "weights")
    narrow = held.result is HALF
    if narrow:
        end = roughened(end)
    numbers = ProductNumbers(pairs=True, tiles=target.tiles, narrow=narrow)
    return _Maker(words, weights, end, others, target, numbers).native()


def refused_pairs(layer: Layer) -> str:
    """Why no kernel multiplies a tensor of bf16 by constant weights, whatever the types of its
    other inputs and its result; nothing where one does.
    """
    if not multiplies_pairs(layer.target):
        return "no products of bf16 on this machine"
    if layer.input(0).element_type is not HALF or layer.input(1).value is None:
        return "no kernel in bf16 for weights known at the call only"
    try:
        shape, _, _ = _held_product(layer)
    except KernelDeclined as declined:
        return str(declined)
    if not shape.is_one_product or shape.turned_first:
        return "no kernel in bf16 for this product"
    if not isinstance(shape.inner, int) or shape.inner % 2:
        return "no kernel in bf16 for rows of an odd number of elements"
    return ""


def _held_product(layer: Layer) -> tuple[MatMulShape, Epilogue, list[int]]:
    """The shape of a product of bf16, its epilogue, and the input that each operand of it is.
    Raises KernelDeclined where no kernel has such an epilogue, or knows how batches meet.
    """
    operation = layer.of(HeldProduct).operation
    matmul = product_of(operation)
    assert isinstance(matmul, MatMul)
    shape = matmul_shape(matmul, layer.shape(0), layer.shape(1))
    result = present(widened(layer.outputs[0]))
    end, others = epilogue_of(operation, [widened(spec) for spec in layer.inputs], result, -1)
    return shape, end, others


def pack_pairs(spec: Matmul, matrix: Array) -> Array:
    """`matrix [K, N]` of f32, K even, as panels of pairs of bf16 `[P, K / 2, width]`: of two
    numbers below each other the upper one is in the low bits of a word. For tiles zeros follow.
    """
    columns = np.empty((matrix.shape[1], matrix.shape[0]), np.uint16)
    for first in range(0, len(columns), spec.width):  # rounding takes several times the room
        part = slice(first, first + spec.width)
        columns[part] = encode(np.ascontiguousarray(matrix.T[part]), HALF)
    words: Array = columns.view("<u4")
    return panels_of(words, spec.width, np.uint32, TILE_PAIRS if spec.tiles else 1)


def _few(shape: MatMulShape) -> str:
    """Whether there are few rows for a second matrix of the call."""
    if not isinstance(shape.rows, int):
        return EITHER
    return (
        FEW_ROWS
        if shape.rows <= (MOST_TURNED if shape.turned_second else MOST_STRAIGHT)
        else MANY_ROWS
    )


class _Part(Struct, frozen=True):
    """Some of a product, each (first, number): rows of every batch, batches for each of `outer`,
    and columns; `memory` is where its part of the working memory begins, `sums` where its sums do.
    """

    rows: tuple[SizeLike, SizeLike]
    batches: tuple[SizeLike, SizeLike]
    outer: tuple[SizeLike, SizeLike]
    columns: tuple[SizeLike, SizeLike]
    memory: SizeLike = 0
    sums: SizeLike = 0


class _Maker:
    """The calls of one product."""

    def __init__(
        self,
        shape: MatMulShape,
        constant: Array | None,
        end: Epilogue,
        others: Sequence[int],
        target: Target,
        numbers: ProductNumbers,
        inputs: tuple[int, int] = (0, 1),
    ) -> None:
        """`inputs` are the numbers of both operands. Of a column, as a row, every result is a sum
        of its own.
        """
        self.shape, self.others, self.target = shape, others, target
        self.first, self.second = inputs
        self.size = size = numbers.size
        is_column = self.first == 1
        few = MANY_ROWS
        if is_column or (constant is None and not numbers.alike):
            few = _few(shape)
        #: One matrix is brought into panels before all rows are multiplied; of several, and of f64
        #: matrices of the call, each by the call that needs it, if it is.
        self.alone = shape.is_one_product and (
            constant is not None or (size == SINGLE and few != FEW_ROWS)
        )
        self.spec = spec = specialised(
            max(1, target.lanes * SINGLE // size),
            shape.columns,
            end,
            packed=self.alone,
            inner=shape.inner,
            rows=shape.rows,
            numbers=numbers,
        )
        if not self.alone and few != MANY_ROWS:
            self.spec = spec = replace(spec, rows=few, turned=shape.turned_second)
        self.packed_weights = None
        if constant is not None:
            columns = shape.columns
            assert isinstance(columns, int)
            turned = (
                constant.reshape(columns, -1).T
                if shape.turned_second
                else constant.reshape(-1, columns)
            )
            self.packed_weights = packed(
                [constant],
                (self._packing(), shape.turned_second),
                lambda: [(pack_pairs if numbers.pairs else pack)(spec, turned)],
            )
        panels = (shape.columns + (spec.width - 1)) // spec.width
        inner: SizeLike = shape.inner
        if spec.rows == FEW_ROWS:
            spec = self.spec = replace(
                spec, vectors=1, tail=0, deep=False, one_row=False, streams=False
            )
            panels = (shape.columns + (spec.width - 1)) // spec.width
            inner = 0 if spec.turned else shape.rows
        elif spec.rows == EITHER:  # working memory is of panels, or of the sums of few rows
            inner = largest(inner, spec.most_few)
        #: Bytes in the step's memory: of the first matrices the right way round, of panels, of
        #: addresses of rows.
        self.turned = shape.firsts * shape.rows * shape.inner * size if shape.turned_first else 0
        self.panels = 0 if self.packed_weights else panels * spec.width * inner * size
        #: Of each row: its address, or its last pairs.
        self.of_row = TILE_PAIRS * size if spec.tiles else 8
        self.scratch = self.turned + self.panels + shape.rows * self.of_row

    def _packing(self) -> Matmul:
        """What packed weights depend on."""
        return replace(
            self.spec,
            end=PLAIN,
            deep=False,
            one_row=False,
            ahead=False,
            narrow=False,
            alike=False,
            streams=False,
        )

    def turn_first(self) -> Iterator[KernelCall]:
        """The call that transposes the first matrices, where they are given transposed."""
        if self.shape.turned_first:
            rows, inner, size = self.shape.rows, self.shape.inner, self.size
            matrix = rows * inner * size
            firsts = Loop(self.shape.firsts, matrix, matrix)
            across, along = (inner, rows * size), (rows, inner * size)
            if size == SINGLE:
                lanes = self.target.lanes
                yield arranged(lanes, In(self.first), Scratch(0), [firsts], across, along)
                return
            nest = [firsts, Loop(*across, size), Loop(rows, size, inner * size)]
            yield layout_copy(In(self.first), Scratch(0), nest, size)

    def pack_second(self, threads: int) -> list[KernelCall]:
        """The calls that pack the second matrix as panels, where it is the only one and known at
        the call only: whole panels, then the last one.
        """
        return [
            call
            for first, number, wide in self._panels_to_pack()
            for begin, some in shares(number, threads)
            for call in self._pack(first + begin, some, wide)
        ]

    def _panels_to_pack(self) -> Iterator[tuple[SizeLike, SizeLike, SizeLike]]:
        """Panels of the call: the first one, how many, and their columns."""
        if self.packed_weights or not self.alone:
            return
        columns, width = self.shape.columns, self.spec.width
        whole = columns // width
        for first, number, wide in ((0, whole, width), (whole, 1, columns - whole * width)):
            if not is_empty((number, wide)):
                yield first, number, wide

    def _pack(self, first: SizeLike, number: SizeLike, wide: SizeLike) -> Iterator[KernelCall]:
        """The call that packs some panels of `wide` columns."""
        inner, columns, width = self.shape.inner, self.shape.columns, self.spec.width
        panel = inner * width * 4
        target = Scratch(self.turned + first * panel)
        if self.shape.turned_second:
            loops = [Loop(number, width * inner * 4, panel)]
            source = In(self.second, first * width * inner * 4)
            yield arranged(
                self.target.lanes, source, target, loops, (wide, inner * 4), (inner, width * 4)
            )
        else:
            nest = [Loop(number, width * 4, panel), Loop(inner, columns * 4, width * 4)]
            yield nd_copy(In(self.second, first * width * 4), target, nest, wide * 4)

    def multiply(self, run: Run, part: _Part) -> KernelCall:
        """The call that multiplies a part of a run."""
        shape, inner = self.shape, self.shape.inner
        batches, outer = shape.batches, shape.outer
        (row, rows), (column, columns) = part.rows, part.columns
        (batch, _), (group, _) = part.batches, part.outer
        #: Matrices from one of `outer` to the next.
        firsts = 0 if outer.one_first else 1 if batches.one_first else batches.count
        seconds = 0 if outer.one_second else 1 if batches.one_second else batches.count
        size = self.size
        matrix, each = shape.rows * inner * size, inner * shape.columns * size
        begin = run.first + group * firsts + (0 if batches.one_first else batch)
        address = begin * matrix + row * inner * size
        source = Scratch(address) if shape.turned_first else In(self.first, address)
        steps: tuple[SizeLike, ...] = 0, 0, 0, 0
        if self.packed_weights:
            panels = self.packed_weights.arrays[0]
            second: Operand = address_of(panels) + column * panels.shape[1] * size
        elif self.alone:
            second = Scratch(self.turned + column * inner * size)
        else:
            across, along = (1, inner) if shape.turned_second else (shape.columns, 1)
            which = run.second + group * seconds + (0 if batches.one_second else batch)
            second = In(self.second, which * each + column * along * size)
            steps = across * size, along * size, 0 if batches.one_second else each, seconds * each
        result = run.result + group * batches.count + batch
        stored = self.spec.result_size
        made = ((result * shape.rows + row) * shape.columns + column) * stored
        return self.spec(
            a=source,
            a_row=inner * size,
            a_batch=0 if batches.one_first else matrix,
            a_outer=firsts * matrix,
            b=second,
            **dict(zip(("b_inner", "b_column", "b_batch", "b_outer"), steps, strict=True)),
            output=Out(0, made),
            output_row=shape.columns * stored,
            output_batch=shape.rows * shape.columns * stored,
            outer=part.outer[1],
            batches=part.batches[1],
            rows=rows,
            inner=inner,
            columns=columns,
            table=Scratch(self.turned + self.panels + part.memory),
            packed_weights=Scratch(self.turned + part.memory),
            sums=Scratch(part.sums),
            **operands_for(self.spec.end, self.others, column * size, made),
        )

    def stages(self, threads: int) -> Stages:
        """The stages of a product: transposing and packing, then multiplications, run by run."""
        shape = self.shape
        before = [[call] for call in self.turn_first()]
        packing = self.pack_second(threads)
        before += [packing] if threads > 1 and packing else [[call] for call in packing]
        batches, outer = shape.batches.count, shape.outer.count
        whole = _Part((0, shape.rows), (0, batches), (0, outer), (0, shape.columns))
        parts, scratch = [whole], self.scratch
        if threads > 1:
            parts = self._parts(whole, threads)
            own = shape.rows * self.of_row
            if self.alone:  # what a part has of its rows, beside each other for its columns
                columns = list(dict.fromkeys(part.columns for part in parts))
                begins = [
                    part.rows[0] * self.of_row + columns.index(part.columns) * own for part in parts
                ]
                scratch = self.scratch + (len(columns) - 1) * own
            else:  # and a matrix in panels
                own = whole_lines(self.panels + own)
                begins = [own * index for index in range(len(parts))]
                scratch = self.turned + own * len(parts)
            parts = [replace(part, memory=begin) for part, begin in zip(parts, begins, strict=True)]
        for index, part in enumerate(parts):
            parts[index] = replace(part, sums=scratch)
            scratch += self._bytes_of_sums(part)
        runs = [[self.multiply(run, part) for part in parts] for run in shape.runs]
        return Stages([*before, *runs], scratch)

    def _bytes_of_sums(self, part: _Part) -> SizeLike:
        """The working memory for sums of a part that go from block to block."""
        if not self.spec.deep:
            return 0
        inner, width = self.shape.inner, self.spec.width
        assert isinstance(inner, int)
        columns = (part.columns[1] + (width - 1)) // width * width
        return whole_lines(bytes_of_sums(inner, part.rows[1], columns, self.size))

    def _parts(self, whole: _Part, threads: int) -> list[_Part]:
        """The parts for a number of threads: one product is divided by columns and rows, so that
        the larger matrix is read in parts. Several products are divided by batches, and by many
        rows at a time, since each part packs its own second matrix.
        """
        shape, registers = self.shape, self.target.vector_registers
        if shape.is_one_product and (self.alone or self.spec.rows == FEW_ROWS):
            columns = (shape.columns, self.spec.width)
            least = TILE_ROWS if self.spec.tiles else rows_of_parts(registers, self.spec.vectors)
            rows = (shape.rows, least)
            by_rows = isinstance(shape.columns, Size) or (
                isinstance(shape.rows, int) and shape.rows >= shape.columns
            )
            if by_rows:
                return [
                    replace(whole, rows=some, columns=others)
                    for some, others in grid([rows, columns], threads)
                ]
            return [
                replace(whole, rows=some, columns=others)
                for others, some in grid([columns, rows], threads)
            ]
        flat = certainly(whole.outer[1], 1)
        many = rows_of_parts(registers, self.spec.vectors, _MANY_ROWS)
        axes = [((whole.batches if flat else whole.outer)[1], 1), (shape.rows, many)]
        return [
            replace(whole, batches=some, rows=rows)
            if flat
            else replace(whole, outer=some, rows=rows)
            for some, rows in grid(axes, threads)
        ]

    def native(self) -> KernelPlan:
        """The product."""
        shape = self.shape
        cost = nanoseconds(
            shape.products * shape.rows * shape.inner * shape.columns, self.size / 120
        )
        keep = [self.packed_weights] if self.packed_weights else []
        return staged(self.stages, cost, keep, self.spec.name)
