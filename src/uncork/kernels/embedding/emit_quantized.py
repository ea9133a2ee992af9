"""The emitter of kernels of quantized tables: rows as f32 in registers, there summed (bags) or
stored (Gather).

Every element is computed in the order of the layers that it stands for: the code as f32, minus the
zero point, times the scale, each step rounded. A bag's terms are added one by one by increasing
position, products rounded before they are added: the result is that of the references, bit for bit.
Additions that wait for each other cost less here than the conversions between them.

Each kernel returns 0, or a positive number when some value must be refused; the reference then
finds and words the reason.
"""

from __future__ import annotations

from msgspec import Struct

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import (
    F16,
    F32,
    I8,
    I32,
    I64,
    INDEX_TYPES,
    U8,
    U16,
    U32,
    Kernel,
    Type,
    Value,
    pieces,
)
from uncork.kernels.embedding.emit_ids import BagIds
from uncork.kernels.embedding.spec_quantized import QuantizedBag, QuantizedGather, Rows
from uncork.kernels.runtime.target import Target

_TYPES = {"u8": U8, "i8": I8, "f16": F16, "bf16": U16}
#: Vector accumulators that stay in registers beside the operands: a block of columns has no more
#: vectors than this.
_BLOCK_VECTORS = 16
#: Rows ahead that are prefetched: so many that about this many cache lines are under way,
#: parameters included. Rows of one line take a third of the time that they take with 16 rows ahead;
#: long ones fill what the processor has for loads under way sooner.
_LINES_AHEAD, _LEAST_AHEAD, _MOST_AHEAD = 256, 16, 96
#: At most so many columns of a row to be copied: the machine's own prefetcher follows a long one.
_PREFETCHED = 1024


def emit_bag(spec: QuantizedBag, machine: Target) -> str:
    """The LLVM text of a bag kernel."""
    return _BagKernel(spec, machine).k.text()


def emit_gather(spec: QuantizedGather, machine: Target) -> str:
    """The LLVM text of a gather kernel: an index outside the table gives zeros, or is refused by a
    strict kernel.
    """
    k = Kernel(spec.name, spec.arguments, machine)
    table, parameters, rows, indices, count, output = k.arguments
    type_ = INDEX_TYPES[spec.index]
    reader = _Reader(k, spec.rows, table, parameters)
    groups, row_bytes = spec.rows.groups, spec.rows.columns * 4

    def place(position: Value) -> Value:
        raw = k.load(indices + position * type_.bytes, type_).to(I64)
        return raw + ((raw >> 63) & rows) if spec.wraps and type_.kind == "signed" else raw

    with k.loop(0, count) as position:
        ahead = place(k.minimum(position + reader.ahead, count - 1)) * groups
        for group in range(min(groups, max(1, _PREFETCHED // spec.rows.columns))):
            reader.prefetch(ahead + group, k.integer(0), min(spec.rows.columns, _PREFETCHED))
        index = place(position)
        target = output + position * (groups * row_bytes)
        with k.if_else(index.below(rows), likely=True) as (inside, outside):
            with inside:
                reader.copy_groups(index, target)
            with outside:
                if spec.strict:
                    k.stop_unless(index.below(rows), k.integer(1))
                reader.zeros(target)
    k.finish()
    return k.text()


class _Row(Struct, frozen=True):
    """A row with what its values are computed from: zero point and scale, where there are such, or
    all 16 values that it may have.
    """

    index: Value
    zero_point: Value | None
    scale: Value | None
    values: Value | None


class _Reader:
    """Reads rows of a table."""

    def __init__(self, k: Kernel, rows: Rows, table: Value, parameters: Value) -> None:
        self.k, self.rows, self.table, self.parameters = k, rows, table, parameters
        self.nibbles = rows.stored in ("u4", "i4")
        #: Rows of an odd number of 4-bit values begin in the middle of a byte: they are read one by
        #: one.
        self.odd = self.nibbles and rows.columns % 2 == 1
        self.type: Type = U8 if self.nibbles else _TYPES[rows.stored]
        self.row_bits = rows.columns * (4 if self.nibbles else self.type.bits)
        # 4-bit values are taken apart two vectors at a time: as many bytes as one has lanes.
        lanes = 1 if self.odd else rows.lanes * 2 if self.nibbles else rows.lanes
        block = _BLOCK_VECTORS * (1 if self.odd else rows.lanes)
        #: Blocks of columns: how many whole ones of the same parts, and the parts of the rest.
        self.whole, rest = divmod(rows.columns, block)
        self.block, self.block_parts, self.rest_parts = (
            block,
            pieces(block, lanes),
            pieces(rest, lanes),
        )
        self.ahead = max(
            _LEAST_AHEAD,
            min(_MOST_AHEAD, _LINES_AHEAD // (-(-self.row_bits // 512) + rows.per_row)),
        )

    def prefetch(self, index: Value, column: Value, columns: int) -> None:
        """Ask for some columns of a row and for its parameters. Any index is safe."""
        k = self.k
        bits = columns * self.row_bits // self.rows.columns
        first = self.table + (
            (index * self.row_bits + column * (self.row_bits // self.rows.columns)) >> 3
        )
        for byte in range(0, bits // 8, 64):
            k.prefetch(first + byte)
        if not self.rows.aligned:
            k.prefetch(first + bits // 8)  # a row that begins within a line ends in one more
        if self.rows.per_row:
            k.prefetch(self.parameters + index * 8)

    def row(self, index: Value) -> _Row:
        """The row at an index, with its parameters loaded."""
        k = self.k
        place = self.parameters + index * 8 if self.rows.per_row else self.parameters
        zero_point = k.load(place, F32) if self.rows.zero_point else None
        scale = k.load(place + 4, F32) if self.rows.scale else None
        if not self.rows.permutes:
            return _Row(index, zero_point, scale, None)
        codes = [code - 16 if code > 7 and self.rows.stored == "i4" else code for code in range(16)]
        vector = ir.VectorType(F32.llvm, 16)
        numbers = Value(
            k, ir.Constant(vector, [ir.Constant(F32.llvm, float(code)) for code in codes]), F32, 16
        )
        return _Row(index, zero_point, scale, self._computed(numbers, zero_point, scale))

    def values(self, row: _Row, column: Value, lanes: int) -> Value:
        """Consecutive elements of a row from `column` on, as f32; `ordered` brings their lanes into
        the order of the columns.
        """
        if row.values is not None and lanes == 32:
            return self._looked_up(row.values, row.index, column)
        codes = self._codes(row.index, column, lanes)
        x = (codes.to(U32) << 16).bits_as(F32) if self.rows.stored == "bf16" else codes.to(F32)
        return self._computed(x, row.zero_point, row.scale)

    def ordered(self, x: Value) -> Value:
        """A vector of `values`, or a sum of such vectors, with its lanes in the order of the
        columns.
        """
        return (
            _interleaved(x.part(0, 16), x.part(16, 16))
            if self.rows.permutes and x.lanes == 32
            else x
        )

    def _computed(self, x: Value, zero_point: Value | None, scale: Value | None) -> Value:
        if zero_point is not None:
            x = self._rounded(x - zero_point)
        if scale is not None:
            x = self._rounded(x * scale)
        return x

    def _looked_up(self, values: Value, index: Value, column: Value) -> Value:
        """32 elements by their codes: those of even columns, then those of odd ones."""
        k = self.k
        place = self.table + ((index * self.rows.columns + column) >> 1)
        codes = k.load(place, U8, 16).to(U32)
        # The instruction looks at the lowest 4 bits of each lane only.
        even, odd = (_permuted(values, c) for c in (codes, codes >> 4))
        picks = ir.Constant(ir.VectorType(ir.IntType(32), 32), list(range(32)))
        return Value(k, k.builder.shuffle_vector(even.llvm, odd.llvm, picks), F32, 32)

    def _rounded(self, x: Value) -> Value:
        return x.to(F16).to(F32) if self.rows.half else x

    def _codes(self, index: Value, column: Value, lanes: int) -> Value:
        k = self.k
        if not self.nibbles:
            return k.load(
                self.table + (index * self.rows.columns + column) * self.type.bytes,
                self.type,
                lanes,
            )
        place = index * self.rows.columns + column
        if self.odd:
            byte = k.load(self.table + (place >> 1), U8)
            codes = k.select((place & 1).equals(0), byte & 15, byte >> 4)
        else:
            packed = k.load(self.table + (place >> 1), U8, lanes // 2)
            codes = _interleaved(packed & 15, packed >> 4)
        return codes if self.rows.stored == "u4" else Value(k, (codes << 4).llvm, I8, lanes) >> 4

    def copy(self, index: Value, target: Value) -> None:
        """Write a row to memory, as f32."""
        row = self.row(index)

        def store(start: Value, parts: list[tuple[int, int]]) -> None:
            for first, lanes in parts:
                self.k.store(
                    self.ordered(self.values(row, start + first, lanes)),
                    target + (start + first) * 4,
                )

        if self.whole:
            with self.k.loop(0, self.whole) as number:
                store(number * self.block, self.block_parts)
        store(self.k.integer(self.whole * self.block), self.rest_parts)

    def copy_groups(self, index: Value, target: Value) -> None:
        """Write a row of the look-up to memory, as f32."""
        groups = self.rows.groups
        if groups == 1:
            self.copy(index, target)
        else:
            with self.k.loop(0, groups) as group:
                self.copy(index * groups + group, target + group * (self.rows.columns * 4))

    def zeros(self, target: Value) -> None:
        """Write a row of zeros to memory."""
        k = self.k
        words, rest = divmod(self.rows.groups * self.rows.columns, 2)
        with k.loop(0, words) as i:
            k.store(k.integer(0), target + i * 8)
        if rest:
            k.store(k.constant(0, I32), target + words * 8)


def _permuted(values: Value, places: Value) -> Value:
    """16 of the numbers in a register, by place (AVX-512)."""
    k = values.kernel
    types = [values.llvm.type, places.llvm.type]
    name = "llvm.x86.avx512.permvar.sf.512"
    function = k.declared(name, types[0], types)
    return Value(k, k.builder.call(function, [values.llvm, places.llvm]), F32, 16)


def _interleaved(low: Value, high: Value) -> Value:
    """The lanes of two vectors by turns."""
    k, lanes = low.kernel, low.lanes
    if lanes == 1:
        vector = ir.VectorType(low.type.llvm, 2)
        both = ir.Constant(vector, ir.Undefined)
        for index, value in enumerate((low, high)):
            both = k.builder.insert_element(both, value.llvm, ir.Constant(ir.IntType(32), index))
        return Value(k, both, low.type, 2)
    picks = [lane + side * lanes for lane in range(lanes) for side in (0, 1)]
    return Value(
        k,
        k.builder.shuffle_vector(
            low.llvm, high.llvm, ir.Constant(ir.VectorType(ir.IntType(32), 2 * lanes), picks)
        ),
        low.type,
        2 * lanes,
    )


class _BagKernel:
    def __init__(self, spec: QuantizedBag, machine: Target) -> None:
        self.spec = spec
        k = self.k = Kernel(spec.name, spec.arguments, machine)
        (
            table,
            parameters,
            rows,
            indices,
            count,
            offsets,
            bags,
            default,
            self.weights,
            self.output,
            self.first,
            self.last,
        ) = k.arguments
        self.ids = BagIds(k, spec, rows, indices, count, offsets, bags, default)
        self.reader = _Reader(k, spec.rows, table, parameters)
        self._bags()
        k.finish()

    def _bags(self) -> None:
        k, reader = self.k, self.reader
        default, groups = self.ids.default_row(), self.spec.rows.groups
        row_bytes = self.spec.rows.columns * 4
        with k.loop(self.first, self.last) as bag:
            start, end = self.ids.bounds(bag)
            target = self.output + bag * (groups * row_bytes)
            with k.if_else(start < end, likely=True) as (full, empty):
                with full:
                    if groups == 1:
                        self._group(start, end, k.integer(0), target)
                    else:
                        with k.loop(0, groups) as group:
                            self._group(start, end, group, target + group * row_bytes)
                with empty:
                    self.ids.fill(
                        default,
                        lambda: reader.zeros(target),
                        lambda row: reader.copy_groups(row, target),
                    )

    def _group(self, start: Value, end: Value, group: Value, target: Value) -> None:
        """Sum one group of the columns of one bag."""
        k, reader = self.k, self.reader
        if reader.whole:
            with k.loop(0, reader.whole) as number:
                column = number * reader.block
                self._columns(start, end, group, column, reader.block_parts, target)
        if reader.rest_parts:
            column = k.integer(reader.whole * reader.block)
            self._columns(start, end, group, column, reader.rest_parts, target)

    def _columns(
        self,
        start: Value,
        end: Value,
        group: Value,
        column: Value,
        parts: list[tuple[int, int]],
        target: Value,
    ) -> None:
        """Sum one block of columns of one group of one bag: `parts` are its vectors, `column` where
        it begins.
        """
        k, spec, reader = self.k, self.spec, self.reader
        # x + -0.0 is x, also for x = -0.0
        sums = [k.variable(k.constant(-0.0, F32, lanes)) for _, lanes in parts]

        def add(position: Value, prefetch: bool) -> None:
            index = self._part(self.ids.checked(position), group)
            if prefetch:
                ahead = self._part(self.ids.at(position + reader.ahead), group)
                reader.prefetch(ahead, column, sum(lanes for _, lanes in parts))
            weight = k.load(self.weights + position * 4, F32) if spec.weighted else None
            row = reader.row(index)
            for (first, lanes), total in zip(parts, sums, strict=True):
                x = reader.values(row, column + first, lanes)
                total.set(total.get() + (x if weight is None else x * weight))

        # As plain bags do: rows are asked for ahead as long as there are indices, and the last ones
        # of all were asked for before.
        done, ahead = k.variable(start), k.minimum(end, self.ids.count - reader.ahead)
        with k.loop(start, ahead) as position:
            add(position, True)
            done.set(position + 1)
        with k.loop(done.get(), end) as position:
            add(position, False)
        for (first, _), total in zip(parts, sums, strict=True):
            result = reader.ordered(total.get())
            if spec.mean:
                result = result / k.splat((end - start).to(F32), result.lanes)
            k.store(result, target + (column + first) * 4)

    def _part(self, index: Value, group: Value) -> Value:
        """The place of a group of a row among all groups."""
        groups = self.spec.rows.groups
        return index if groups == 1 else index * groups + group
