"""How kernels read rows of tables: as they are stored, or computed as f32 from codes.

Every element of a quantized row is computed in the order of the layers that it stands for: the code
as f32, minus the zero point, times the scale, each step rounded. A bag's terms are added one by one
by increasing position, products rounded before they are added: the result is that of the
references, bit for bit. Additions that wait for each other cost less here than the conversions
between them. Rows that are summed as they are stored have several chains and fused additions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.bit_planes import BLOCK_BYTES, BitPlanes
from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import (
    F16,
    F32,
    I8,
    I32,
    I64,
    U8,
    U16,
    U32,
    Kernel,
    Type,
    Value,
    pieces,
)
from uncork.kernels.codegen.scalar_ops import COMPUTED, to_bf16
from uncork.kernels.elementwise.emit import STORED, decoded, narrowed, widened
from uncork.kernels.elementwise.emit_planes import words_at
from uncork.kernels.elementwise.emit_steps import Operand, stepped
from uncork.kernels.embedding.spec_bags import DenseRows, QuantizedRows
from uncork.kernels.runtime.target import LINE
from uncork.kernels.stored_form import form_of_planes

#: The vectors of some columns: of each the first column and the number of columns.
Parts = list[tuple[int, int]]
_TYPES = {"u8": U8, "i8": I8, "f16": F16, "bf16": U16, "u16": U16, "f8e4m3": U8, "f8e5m2": U8}
#: A block of columns has no more vectors than this, nor than registers hold as sums beside others:
#: a term and its weight, or all that a term of codes is computed from. Sums that go to memory and
#: back with every row take 1.1 to 3.2 times as long (measured with 16 registers): by where the
#: stack lies, for vectors on it may cross cache lines.
_BLOCK_VECTORS, _OF_TERM, _OF_CODES = 16, 4, 8
#: Registers for vectors where there are few.
_FEW_REGISTERS = 16
#: Vectors that are added to by turns, in one chain or in several.
_ACCUMULATORS = 4
#: Dense rows ahead that are prefetched; fewer of long rows, which fill the line buffers by
#: themselves. Rows that are summed are those of vectors of so many lanes: by shorter ones they take
#: longer.
_AHEAD, _AHEAD_LONG, _LONG_ROW, _LANES = 32, 16, 256, 16
#: Rows ahead that are prefetched of quantized tables, and of dense ones that are summed and are
#: larger than `_FAR`: so many that about this many cache lines are under way, parameters included.
#: Rows of one line take a third of the time that they take with 16 rows ahead; long ones fill what
#: the processor has for loads under way sooner. Where a few rows come often, those between them
#: that come out of memory have less time, for the others take little: sums of such rows take 0.75
#: of the time that they take with `_AHEAD`. Rows out of the last cache are near enough for that.
_LINES_AHEAD, _LEAST_AHEAD, _MOST_AHEAD = 256, 16, 96
#: Bytes of the largest table that the last cache is taken to hold, and indices in calls whose first
#: rows, which nobody asks for, do not count.
_FAR, _MANY = 16 << 20, 8192


class RowInTable(Struct, frozen=True):
    """A row from a column on, with what its values are computed from: zero point and scale, where
    there are such, operands of later steps, or all 16 values that it may have.
    """

    index: Value
    column: Value
    zero_point: Value | None = None
    scale: Value | None = None
    later: tuple[Value, ...] = ()
    values: Value | None = None


class RowReader:
    """Reads rows of a table, whose elements have so many `bits`, by blocks of columns; sums are
    vectors of `lanes`, and `together` columns are read at once. `others`: registers that a term
    takes.
    """

    #: Rows ahead that are prefetched where rows are copied; where they are summed those of tables
    #: that are near, and of others.
    ahead: int
    ahead_of_sums: tuple[int, int]
    #: The type of sums and of the elements of results.
    computed: Type
    result: Type

    def __init__(
        self,
        k: Kernel,
        rows: DenseRows | QuantizedRows,
        table: Value,
        bits: int,
        lanes: int,
        together: int,
        others: int,
    ) -> None:
        self.k, self.table, self.bits, self.columns = k, table, bits, rows.columns
        self.groups = rows.groups
        registers = k.target.vector_registers if k.target else _FEW_REGISTERS
        self.block = min(_BLOCK_VECTORS, registers - others) * lanes
        #: How many whole blocks of the same parts, and the parts of the rest.
        self.whole, rest = divmod(rows.columns, self.block)
        self.block_parts, self.rest_parts = pieces(self.block, together), pieces(rest, together)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the result, or of one of its groups."""
        return self.columns * self.result.bytes

    def each_block(self, do: Callable[[Value, Parts], None]) -> None:
        """Emit `do(first column, vectors)` for all blocks of columns."""
        if self.whole:
            with self.k.loop(0, self.whole) as number:
                do(number * self.block, self.block_parts)
        if self.rest_parts:
            do(self.k.integer(self.whole * self.block), self.rest_parts)

    def address(self, index: Value, column: Value) -> Value:
        """Where an element lies; of two elements in a byte, the byte."""
        if self.bits == 4:
            return self.table + ((index * self.columns + column) >> 1)
        size = self.bits // 8
        return self.table + index * (self.columns * size) + column * size

    def prefetch(self, index: Value, column: Value, columns: int) -> None:
        """Ask for some columns of a row. Any index is safe. A row that begins within a cache line
        may end in one more (without it up to 2.7 times slower).
        """
        size, first = -(-columns * self.bits // 8), self.address(index, column)
        for byte in (*range(0, size, 64), size - 1):
            self.k.prefetch(first + byte)

    def ahead_in_sums(self, rows: Value, count: Value) -> Value:
        """The rows ahead that are prefetched of a table of so many rows, of which so many are
        summed.
        """
        near, far = (self.k.integer(ahead) for ahead in self.ahead_of_sums)
        if self.ahead_of_sums[0] == self.ahead_of_sums[1]:
            return near
        row_bytes = max(1, self.groups * self.columns * self.bits // 8)
        return self.k.select((rows > _FAR // row_bytes) & (count >= _MANY), far, near)

    def chains(self, parts: Parts) -> int:
        """The sums in turn of each vector of a block."""
        return 1

    def weight(self, weights: Value, position: Value) -> Value:
        """The weight of a term."""
        return self.k.load(weights + position * self.result.bytes, self.result)

    def row(self, index: Value, column: Value) -> RowInTable:
        """The row at an index from a column on, with its parameters loaded."""
        return RowInTable(index, column)

    def values(self, row: RowInTable, first: int, lanes: int) -> Value:
        """Consecutive elements of a row; `store` brings their lanes, or those of their sums, into
        the order of the columns.
        """
        raise NotImplementedError

    def added(self, total: Value, x: Value, weight: Value) -> Value:
        """A sum and a term more, times its weight."""
        return total + x * weight

    def store(self, x: Value, address: Value) -> None:
        """Store a vector of values, or of sums of values, as elements of the result."""
        raise NotImplementedError

    def copy_row(self, index: Value, target: Value) -> None:
        """Write a row of the result to memory."""
        raise NotImplementedError

    def zeros(self, target: Value) -> None:
        """Write a row of zeros to memory."""
        self._bytes(None, target)

    def _bytes(self, source: Value | None, target: Value) -> None:
        """A row of the result, or zeros, byte for byte."""
        k, size = self.k, self.groups * self.row_bytes

        def move(offset: Value | int, type_: Type) -> None:
            value = k.constant(0, type_) if source is None else k.load(source + offset, type_)
            k.store(value, target + offset)

        with k.loop(0, size // 8) as word:
            move(word * 8, I64)
        for rest in range(size // 8 * 8, size):
            move(rest, I8)


class _DenseReader(RowReader):
    """Reads rows that are summed as they are stored."""

    def __init__(self, k: Kernel, rows: DenseRows, table: Value) -> None:
        self.stored = rows.stored
        self.result, self.computed = STORED[rows.stored], COMPUTED[rows.stored]
        self.lanes = lanes = max(1, rows.lanes * 4 // self.computed.bytes)
        together = 2 * lanes if self.stored == "bf16" and lanes > 1 else lanes
        super().__init__(k, rows, table, self.result.bytes * 8, lanes, together, _OF_TERM)
        self.ahead = _AHEAD if self.row_bytes <= _LONG_ROW else _AHEAD_LONG
        at_once = min(self.columns, self.block) * self.result.bytes
        near, far = self.ahead, _rows_ahead(-(-at_once // LINE))
        self.ahead_of_sums = near * rows.lanes // _LANES, far * rows.lanes // _LANES

    def chains(self, parts: Parts) -> int:
        # Additions wait for the one before: few columns need several chains to keep the adders
        # busy.
        vectors = sum(-(-lanes // self.lanes) for _, lanes in parts)
        return max(1, _ACCUMULATORS // vectors)

    def weight(self, weights: Value, position: Value) -> Value:
        return widened(self.k, self.stored, super().weight(weights, position))

    def values(self, row: RowInTable, first: int, lanes: int) -> Value:
        address = self.address(row.index, row.column) + first * self.result.bytes
        if not self._in_pairs(lanes):
            return widened(self.k, self.stored, self.k.load(address, self.result, lanes))
        words = self.k.load(address, U32, self.lanes)
        even, odd = (bits.bits_as(F32) for bits in (words << 16, words & 0xFFFF0000))
        return self.k.picked(even, odd, range(lanes))

    def added(self, total: Value, x: Value, weight: Value) -> Value:
        if total.type.kind != "float":
            return total + x * weight
        return self.k.fma(x, self.k.splat(weight, x.lanes), total)

    def store(self, x: Value, address: Value) -> None:
        if not self._in_pairs(x.lanes):
            self.k.store(narrowed(self.k, x, self.stored), address)
            return
        even, odd = (to_bf16(self.k, x.part(first, self.lanes)) for first in (0, self.lanes))
        self.k.store(even | (odd << 16), address)

    def _in_pairs(self, lanes: int) -> bool:
        """Whether so many bf16 are widened as the halves of words, those of even columns and those
        of odd ones: with 64 columns rows out of the last cache take 0.85 of the time so. (Products
        of bf16 by the processor's own instructions, of two rows and their weights, would take 0.97
        of that, but know no small numbers and round elsewhere.)
        """
        return self.stored == "bf16" and self.lanes > 1 and lanes == 2 * self.lanes

    def copy_row(self, index: Value, target: Value) -> None:
        self._bytes(self.address(index, self.k.integer(0)), target)


class _QuantizedReader(RowReader):
    """Reads rows that are computed from codes."""

    computed, result = F32, F32

    def __init__(self, k: Kernel, rows: QuantizedRows, arguments: Mapping[str, Value]) -> None:
        self.rows, self.parameters = rows, arguments["parameters"]
        self.later = [
            Operand(arguments[name], step.kind)
            for name, step in zip(rows.arguments, rows.later, strict=False)
        ]
        self.long = arguments["numbers"] if rows.long else None
        self.nibbles = rows.stored in ("u4", "i4")
        #: Rows of an odd number of 4-bit values begin in the middle of a byte: they are read one by
        #: one.
        self.odd = self.nibbles and rows.columns % 2 == 1
        self.type: Type = U8 if self.nibbles else _TYPES[rows.stored]
        bits = 4 if self.nibbles else self.type.bits
        # 4-bit values are taken apart two vectors at a time: as many bytes as one has lanes.
        lanes = 1 if self.odd else rows.lanes
        together = 2 * lanes if self.nibbles and not self.odd else lanes
        super().__init__(k, rows, arguments["table"], bits, lanes, together, _OF_CODES)
        lines = -(-rows.columns * bits // 512) + rows.per_row
        self.ahead = _rows_ahead(lines)
        self.ahead_of_sums = self.ahead, self.ahead
        form = form_of_planes(rows.planes)
        if form is not None:
            #: Where rows of bit planes begin, and room for the codes of one.
            self.rows_begin = self.table
            self.line = k.stack_bytes(-(-self._count // form.count) * BLOCK_BYTES)

    def prefetch(self, index: Value, column: Value, columns: int) -> None:
        form = form_of_planes(self.rows.planes)
        if form is None:
            super().prefetch(index, column, columns)
        else:
            row = self.rows_begin + index // self.groups * form.row(self._count)
            for byte in range(0, form.row(min(self._count, columns)), 64):
                self.k.prefetch(row + byte)
        if self.rows.per_row:
            self.k.prefetch(self._place(index))
        for operand in self.later:
            if operand.of_columns:
                self.k.prefetch(self._later(operand, index).begin)

    def row(self, index: Value, column: Value) -> RowInTable:
        place = self._place(index) if self.rows.per_row else self.parameters
        zero_point = self.k.load(place, F32) if self.rows.zero_point else None
        after = F32.bytes if self.rows.zero_point else 0
        scale = self.k.load(place + after, F32) if self.rows.scale else None
        later = tuple(self._later(operand, index).at(self.k) for operand in self.later)
        row = RowInTable(index, column, zero_point, scale, later)
        return replace(row, values=self._computed(self._book(), row)) if self.rows.permutes else row

    def values(self, row: RowInTable, first: int, lanes: int) -> Value:
        column = row.column + first
        if row.values is not None and lanes == 32:
            return self._looked_up(row.values, self.address(row.index, column))
        codes = self._codes(row.index, column, lanes)
        return self._computed(self._numbers(codes), row)

    def _widened(self, form: BitPlanes, index: Value) -> Value:
        """Where a table would begin, of which a row of bit planes is made in working memory."""
        k, lanes, count = self.k, min(self.rows.lanes, BLOCK_BYTES // 4), self._count
        row = self.rows_begin + index * form.row(count)
        vectors = -(-count // form.count) * (BLOCK_BYTES // (4 * lanes))
        with k.loop(0, vectors) as number:
            words = words_at(k, form, row, number, lanes)
            k.store(words, self.line + number * (4 * lanes))
        return self.line - index * (count * self.bits // 8)

    @property
    def _count(self) -> int:
        """The numbers of a row of all groups."""
        return self.groups * self.columns

    def _place(self, index: Value) -> Value:
        """Where the parameters of a row lie."""
        count = self.rows.zero_point + self.rows.scale
        return self.parameters + index * (count * F32.bytes)

    def _later(self, operand: Operand, index: Value) -> Operand:
        """The operand of a group, by its number among those of all rows."""
        row = index // self.groups
        if operand.of_columns:
            return operand.of_column(index if operand.of_groups else row, self.k.integer(1))
        after = index - row * self.groups if operand.of_groups else self.k.integer(0)
        return replace(operand, begin=operand.begin + after * operand.type_.bytes)

    def _book(self) -> Value:
        """The number of every code of 4 bits."""
        codes = [code - 16 if code > 7 and self.rows.stored == "i4" else code for code in range(16)]
        numbers = [ir.Constant(F32.llvm, float(number)) for number in self.rows.numbers or codes]
        return Value(self.k, ir.Constant(ir.VectorType(F32.llvm, 16), numbers), F32, 16)

    def _numbers(self, codes: Value) -> Value:
        """What codes stand for."""
        k, stored = self.k, self.rows.stored
        if self.long is not None:
            wide = codes.to(I32)
            parts = [wide.part(lane, 1) if codes.lanes > 1 else wide for lane in range(codes.lanes)]
            found = [k.load(self.long + part.to(I64) * F32.bytes, F32) for part in parts]
            return k.gathered(found) if codes.lanes > 1 else found[0]
        if self.rows.numbers:
            return _chosen(k, self.rows.numbers, codes, 8)
        return codes.to(F32) if stored == "f16" else decoded(k, stored, codes)

    def store(self, x: Value, address: Value) -> None:
        if self.rows.permutes and x.lanes == 32:
            x = _interleaved(x.part(0, 16), x.part(16, 16))
        self.k.store(x, address)

    def copy_row(self, index: Value, target: Value) -> None:
        form = form_of_planes(self.rows.planes)
        if form is not None:
            self.table = self._widened(form, index)
        with self.k.loop(0, self.groups) as group:
            row = self.row(index * self.groups + group, self.k.integer(0))
            place = target + group * self.row_bytes

            def copy(column: Value, parts: Parts) -> None:
                found = replace(row, column=column)
                for first, lanes in parts:
                    self.store(self.values(found, first, lanes), place + (column + first) * 4)

            self.each_block(copy)

    def _computed(self, x: Value, row: RowInTable) -> Value:
        if row.zero_point is not None:
            x = self._rounded(x - row.zero_point)
        if row.scale is not None:
            x = self._rounded(x * row.scale)
        for step, operand in zip(self.rows.later, row.later, strict=True):
            x = stepped(x, step, operand)
        return x

    def _rounded(self, x: Value) -> Value:
        return x.to(F16).to(F32) if self.rows.half else x

    def _looked_up(self, values: Value, address: Value) -> Value:
        """32 elements by their codes: those of even columns, then those of odd ones."""
        k = self.k
        codes = k.load(address, U8, 16).to(U32)
        # The instruction looks at the lowest 4 bits of each lane only.
        even, odd = (k.looked_up(values, c) for c in (codes, codes >> 4))
        return k.picked(even, odd, range(32))

    def _codes(self, index: Value, column: Value, lanes: int) -> Value:
        k, address = self.k, self.address(index, column)
        if not self.nibbles:
            return k.load(address, self.type, lanes)
        if self.odd:
            byte, place = k.load(address, U8), index * self.columns + column
            codes = k.select((place & 1).equals(0), byte & 15, byte >> 4)
        else:
            packed = k.load(address, U8, lanes // 2)
            codes = _interleaved(packed & 15, packed >> 4)
        return codes if self.rows.stored == "u4" else Value(k, (codes << 4).llvm, I8, lanes) >> 4


def reader_of(
    k: Kernel, rows: DenseRows | QuantizedRows, arguments: Mapping[str, Value]
) -> RowReader:
    """What reads the rows of a kernel's table."""
    if isinstance(rows, DenseRows):
        return _DenseReader(k, rows, arguments["table"])
    return _QuantizedReader(k, rows, arguments)


def _rows_ahead(lines: int) -> int:
    """How many rows of so many cache lines are prefetched ahead."""
    return max(_LEAST_AHEAD, min(_MOST_AHEAD, _LINES_AHEAD // max(1, lines)))


def _chosen(k: Kernel, numbers: Sequence[float], codes: Value, bit: int) -> Value:
    """Of some numbers those that the lower bits of codes choose, up to this bit."""
    if len(numbers) == 1:
        return k.constant(numbers[0], F32, codes.lanes)
    low, high = (_chosen(k, some, codes, bit // 2) for some in (numbers[:bit], numbers[bit:]))
    return k.select((codes & bit).equals(0), low, high)


def _interleaved(low: Value, high: Value) -> Value:
    """The lanes of two vectors by turns."""
    k, lanes = low.kernel, low.lanes
    if lanes == 1:
        vector = ir.VectorType(low.type.llvm, 2)
        both = ir.Constant(vector, ir.Undefined)
        for index, value in enumerate((low, high)):
            both = k.builder.insert_element(both, value.llvm, ir.Constant(ir.IntType(32), index))
        return Value(k, both, low.type, 2)
    return k.picked(low, high, [lane + side * lanes for lane in range(lanes) for side in (0, 1)])
