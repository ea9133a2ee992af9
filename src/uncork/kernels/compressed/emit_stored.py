"""Stored weights as f32 vectors along the inner dimension, or of several columns, exactly as the
layers that decompress them would make them.

Along the inner dimension codes of eight bits and more lie as the vectors do. Of four bits, a word
of 32 has eight codes of one lane: lane d of vector j is weight 8 d + j of the block. Where a block
has one zero point and one scale, the sixteen values that its codes may have are a table in a
register. Values of f16 are two such tables, of bytes, in which codes are looked up as they lie;
each vector of those has every second one of 16 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F16, F32, I8, I32, I64, U8, U16, Kernel, Value
from uncork.kernels.compressed.spec import BOOK, HALF_BLOCK, HALVED, SPLIT, FewRows, ManyRows
from uncork.kernels.compressed.spec_dots import DotFew, DotRows
from uncork.kernels.elementwise.emit import UNIT_OF_E4M3, decoded, of_halves, widened
from uncork.kernels.elementwise.emit_planes import words_at
from uncork.kernels.elementwise.emit_steps import Operand, stepped
from uncork.kernels.movement.emit_transpose import columns_of
from uncork.kernels.stored_form import FOUR_BITS, PER_WORD, Stored

#: A zero point and a scale, where there are such, and operands of later steps, lane by lane.
Steps = tuple[Value | None, Value | None, list[Value]]


class Column(Struct, frozen=True):
    """Where the codes, zero points and scales of a column begin. `whole`: its zero point and its
    scales, lane by lane, where it has one of each.
    """

    codes: Value
    zeros: Operand
    scales: Operand
    later: tuple[Operand, ...] = ()
    whole: Steps | None = None


def arguments_of(k: Kernel, spec: FewRows | ManyRows | DotRows | DotFew) -> dict[str, Value]:
    """The arguments of a kernel by their names. Of several matrices those of the chosen one; where
    there is none such, the kernel gives up.
    """
    a = dict(k.named)
    stored = spec.stored
    if stored.chosen:
        number = k.load(a["matrix"], I64)
        k.stop_unless(number > 0, k.integer(1))
        before = (number - 1) * a["columns"]
        a["codes"] = a["codes"] + before * a["code_row"]
        for name, kind in operands_of(stored):
            a[name] = Operand(a[name], kind).of_column(before, a["groups"]).begin
    return a


def operands_of(stored: Stored) -> list[tuple[str, str]]:
    """The names of the arguments that say where operands are, and the kinds of these."""
    later = zip(stored.later_names, stored.later, strict=True)
    return [("zeros", stored.zeros), ("scales", stored.scales), *((n, s.kind) for n, s in later)]


def column_at(a: Mapping[str, Value], number: Value, stored: Stored) -> Column:
    """A column by its number, of a kernel with these arguments."""
    zeros, scales, *later = (
        Operand(a[name], kind).of_column(number, a["groups"]) for name, kind in operands_of(stored)
    )
    return Column(a["codes"] + number * a["code_row"], zeros, scales, tuple(later))


def codes_of(k: Kernel, a: Mapping[str, Value], first: Value, count: int) -> list[Value]:
    """Where the codes of so many columns from the first on begin; columns that do not exist are the
    last one again.
    """
    numbers = (k.minimum(first + c, a["columns"] - 1) for c in range(count))
    return [a["codes"] + number * a["code_row"] for number in numbers]


def words_of(k: Kernel, stored: Stored, codes: Value, position: Value, mask: Value | None) -> Value:
    """A vector of words of a column, from one on that is a multiple of the lanes; of those in a
    mask, where not all are.
    """
    if stored.form is None:
        return k.load(codes + position * 4, I32, stored.lanes, mask)
    return words_at(k, stored.form, codes, position // stored.lanes, stored.lanes)


def turned_words(
    k: Kernel, stored: Stored, columns: Sequence[Value], begin: Value, end: Value
) -> Iterator[tuple[Value, bool, list[Value]]]:
    """The bodies of a loop over words of as many columns as a vector has lanes: the number of the
    first word, whether there are fewer than lanes, and words of all columns, one after the other.
    """
    lanes = len(columns)
    for position, partly in k.blocks(end, lanes, begin):
        there = k.lanes_below(end - position, lanes) if partly else None
        rows = [words_of(k, stored, place, position, there) for place in columns]
        yield position, partly, columns_of(rows)


def bytes_of(k: Kernel, words: Value) -> Value:
    """The bytes of words, without signs."""
    kind = ir.VectorType(ir.IntType(8), 4 * words.lanes)
    return Value(k, k.builder.bitcast(words.llvm, kind), U8, 4 * words.lanes)


def turned_operands(
    k: Kernel,
    stored: Stored,
    a: Mapping[str, Value],
    panel: tuple[Value, int],
    groups: tuple[Value, Value],
    keep: Callable[[Value, Sequence[Value | None]], None],
) -> None:
    """Hand the zero points, the scales and the operands of later steps of a panel (its first
    column, and how many) to `keep`, with the bytes at which they lie in `[group, column]`: of as
    many groups as columns at once, as far as there are so many, or masks load the last ones.
    Columns past the last one repeat it.
    """
    first, width = panel
    begin, end = groups
    lanes = stored.lanes
    if not any(kind for _, kind in operands_of(stored)):
        return

    def columns(start: Value, count: int) -> list[list[Operand]]:
        numbers = (k.minimum(first + start + c, a["columns"] - 1) for c in range(count))
        found = [column_at(a, number, stored) for number in numbers]
        return [[column.zeros, column.scales, *column.later] for column in found]

    def turned(some: Sequence[Operand], group: Value, mask: Value | None) -> list[Value | None]:
        if not some[0]:
            return [None] * lanes
        if not some[0].of_groups:
            return [*columns_of([operand.everywhere(k, 0, lanes) for operand in some])]
        if mask is None:
            return [*columns_of([operand.at(k, group, lanes) for operand in some])]
        return [*columns_of([operand.some(k, group, mask) for operand in some])]

    def together(start: Value, group: Value, mask: Value | None) -> None:
        each = [turned(some, group, mask) for some in zip(*columns(start, lanes), strict=True)]
        for d, found in enumerate(zip(*each, strict=True)):
            keep((group + d) * (4 * width) + start * 4, found)

    def alone(start: Value) -> None:
        with k.loop(0, width) as c, k.loop(start, end) as group:
            (some,) = columns(c, 1)
            found = [x.at(k, group if x.of_groups else 0) if x else None for x in some]
            keep(group * (4 * width) + c * 4, found)

    if not stored.group:
        alone(begin)
        return
    whole = begin + (end - begin) // lanes * lanes
    with k.loop(0, width, lanes) as start, k.loop(begin, whole, lanes) as group:
        together(start, group, None)
    with k.if_(whole < end):
        if k.target is not None and k.target.has("avx512bw"):
            mask = k.lanes_below(end - whole, lanes)
            with k.loop(0, width, lanes) as start:
                together(start, whole, mask)
        else:
            alone(whole)


class Decoder:
    """Decodes blocks of a column; `numbers` is the address of a table of 16, where codes are
    numbers of one. `halves`: the address of memory where f16 lies that was made of codes of a byte.
    """

    def __init__(
        self, k: Kernel, stored: Stored, inner: Value, numbers: Value, halves: Value | None = None
    ) -> None:
        self.k, self.stored, self.inner, self.numbers = k, stored, inner, numbers
        self.halves = halves
        self.four_bits = stored.element_type in FOUR_BITS
        #: Weights that are decoded at once, and from one to the next in a vector of them.
        self.length = stored.block if halves is None else HALVED
        self.step = PER_WORD if self.four_bits else 1 if halves is None else 2
        #: Vectors of 16 lanes look all codes up; those of 8 where that spares the steps.
        wide = stored.lanes == 16 or (self._permutes() and stored.book and self._is_alone)
        self.by_table = self.four_bits and wide
        #: What decoded numbers are multiples of before scales, which are small enough.
        small = stored.scales in ("f16", "f8e8m0")
        unit = stored.element_type == "f8e4m3" and small and not stored.zeros
        self.unit = UNIT_OF_E4M3 if unit else 1.0

    def unscaled(self, column: Column, position: Value, partly: bool) -> tuple[list[Value], Value]:
        """The vectors of a block before their scales, which are the same for all, lane by lane: 1
        where there are none.
        """
        left = self.inner - position if partly else None
        _, scale, _ = column.whole or self._parameters(column, position, left)
        nothing = replace(column, whole=(None, None, []))
        one = self.k.constant(1.0, F32, self.stored.lanes)
        return self.block(nothing, position, partly), one if scale is None else scale

    def block(self, column: Column, position: Value, partly: bool) -> list[Value]:
        """The decoded vectors of the block that begins at a position; past the last weight codes
        are 0, with any zero point and scale.
        """
        k, stored = self.k, self.stored
        left = self.inner - position if partly else None
        if self.halves is not None:
            count = self.length // stored.lanes
            return [self.half(column, position, partly, number) for number in range(count)]
        if not self.four_bits and stored.planes:
            return self._of_bytes(column, position, partly)
        if not self.four_bits:
            steps = column.whole or self._parameters(column, position, left)
            return [self._chain(self._loaded(column.codes, position, left), steps)]
        there = None if left is None else k.lanes_below(left >> 3, stored.lanes)
        words = words_of(k, stored, column.codes, position >> 3, there)
        if stored.by_bytes:
            return self._by_bytes(words, column, position)
        if stored.group % PER_WORD:  # which begin within words: each vector meets others
            each = [self._parameters(column, position, left, j) for j in range(PER_WORD)]
        else:
            each = [column.whole or self._parameters(column, position, left)] * PER_WORD
        if self.by_table:
            book = self._book()
            if self._is_alone:
                table = self._table(book, each[0])
                return [
                    k.looked_up(table, words >> (4 * j) if j else words) for j in range(PER_WORD)
                ]
            return [
                self._chain(k.looked_up(book, words >> (4 * j) if j else words), each[j])
                for j in range(PER_WORD)
            ]
        signed = stored.element_type == "i4"
        codes = [
            (words << (28 - 4 * j)) >> 28 if signed else (words >> (4 * j)) & 15
            for j in range(PER_WORD)
        ]
        return [
            self._chain(self._number(code), steps) for code, steps in zip(codes, each, strict=True)
        ]

    def half(self, column: Column, position: Value, partly: bool, number: int) -> Value:
        """A vector of a block whose codes lie as f16 where those of the column begin."""
        k, stored, lanes = self.k, self.stored, self.stored.lanes
        pair, odd = divmod(number, 2)
        left = self.inner - position if partly else None
        steps = column.whole or self._parameters(column, position, left, 2 * lanes * pair + odd)
        # Of four vectors of words those at even places come first.
        place = 4 * (number // 4) + 2 * odd + number // 2 % 2
        halves = k.load(column.codes + place * lanes * 2, U16, lanes)
        return self._chain(of_halves(k, stored.element_type, halves, self.unit), steps)

    def _of_bytes(self, column: Column, position: Value, partly: bool) -> list[Value]:
        """The numbers of a block of codes that become bytes, in their order."""
        k, lanes = self.k, self.stored.lanes
        left = self.inner - position if partly else None
        codes = bytes_of(k, words_of(k, self.stored, column.codes, position >> 2, None))
        steps, vectors = column.whole, []
        for first in range(0, codes.lanes, lanes):
            if steps is None or not (column.whole or self._is_alone):
                steps = self._parameters(column, position, left, first)
            vectors.append(self._chain(self._number(codes.part(first, lanes).to(I32)), steps))
        return vectors

    def of_columns(self, words: Value, each: Sequence[Steps]) -> list[Value]:
        """The first numbers of words, each of which is of a column of its own: as many vectors as
        `each` has zero points and scales, column by column.
        """
        k, bits = self.k, self.stored.bits
        numbers = []
        for number, steps in enumerate(each):
            shift = number * bits
            down = words >> shift if shift else words
            if bits == 4 and words.lanes == 16:  # looked up by the lowest bits
                value = k.looked_up(self._book(), down)
            elif self.stored.element_type in ("i4", "i8"):
                value = self._number((words << (32 - bits - shift)) >> (32 - bits))
            elif self.stored.element_type in ("f16", "bf16", "f8e4m3", "f8e5m2"):
                code = down.to(U16 if bits == 16 else U8)
                value = decoded(k, self.stored.element_type, code, self.unit)
            else:
                value = self._number(down & ((1 << bits) - 1))
            numbers.append(self._chain(value, steps))
        return numbers

    def _by_bytes(self, words: Value, column: Column, position: Value) -> list[Value]:
        """The numbers of a block that are bytes of f16 in tables, one for each half of it."""
        k, lanes, group = self.k, words.lanes, self.stored.group

        def table(position: Value) -> Value:
            """All bits that codes may stand for in the group of a position, or of the last one."""

            def of(operand: Operand) -> Value:
                number = k.minimum(position, self.inner - 1) // group if group else 0
                return operand.everywhere(k, number if operand.of_groups else 0, lanes)

            steps = column.whole or (
                of(column.zeros) if column.zeros else None,
                of(column.scales) if column.scales else None,
                [of(operand) for operand in column.later],
            )
            return self._table(self._book(), steps, rounded=False).to(F16).bits_as(U16)

        halves = 1 if self._is_alone else 2
        tables = [table(position + half * HALF_BLOCK) for half in range(halves)]

        bytes_ = ir.VectorType(ir.IntType(8), 4 * lanes)
        name = "llvm.x86.avx2.pshuf.b"
        look_up = k.declared(name, bytes_, [bytes_, bytes_])
        planes = [[(table >> shift).to(U8) for table in tables] for shift in (0, 8)]
        low, high = (k.picked(plane[0], plane[-1], range(2 * BOOK)) for plane in planes)
        # The numbers of a half lie one after the other: bytes of the first eight, then the others.
        of_pairs = [
            [
                16 * half + 8 * part + i + 32 * side
                for half in (0, 1)
                for i in range(8)
                for side in (0, 1)
            ]
            for part in (0, 1)
        ]
        vectors: dict[int, Value] = {}
        for odd, codes in enumerate((words, words >> 4)):
            picked = k.builder.bitcast((codes & 0x0F0F0F0F).llvm, bytes_)
            first, second = (
                Value(k, k.builder.call(look_up, [plane.llvm, picked]), U8, 4 * lanes)
                for plane in (low, high)
            )
            for part, picks in enumerate(of_pairs):
                pairs = k.picked(first, second, picks)
                kind = ir.VectorType(ir.IntType(16), 2 * lanes)
                numbers = Value(k, k.builder.bitcast(pairs.llvm, kind), U16, 2 * lanes)
                for half in (0, 1):
                    some = numbers.part(half * lanes, lanes)
                    vectors[(2 * half + part) * 2 + odd] = widened(k, "f16", some)
        return [vectors[number] for number in range(PER_WORD)]

    def _table(self, book: Value, steps: Steps, rounded: bool = True) -> Value:
        """All sixteen numbers that codes of a block may be."""
        k, lanes = self.k, self.stored.lanes
        parts = [self._chain(book.part(at, lanes), steps, rounded) for at in range(0, BOOK, lanes)]
        if len(parts) == 1:
            return parts[0]
        return k.picked(parts[0], parts[1], range(BOOK))

    def loaded(self, column: Column, position: Value | None = None, length: int = 0) -> Column:
        """The column, with its zero point and scale in registers where it has one of each, or has
        for so many numbers from a position on, which is a multiple of that.
        """
        group = self.stored.group
        if column.whole or (group and (not length or group % length)):
            return column
        at = self.inner if position is None else position
        return replace(column, whole=self._parameters(column, at, None))

    def _parameters(
        self, column: Column, position: Value, left: Value | None, first: int = 0
    ) -> Steps:
        """The zero points and the scales of the vector of a block whose first lane is so many codes
        behind its position.
        """
        zero, scale = (
            self._parameter(operand, position, left, first) if operand else None
            for operand in (column.zeros, column.scales)
        )
        later = [self._parameter(operand, position, left, first) for operand in column.later]
        return zero, scale if self.unit == 1 or scale is None else scale * self.unit, later

    def _loaded(self, codes: Value, position: Value, left: Value | None) -> Value:
        k, name, lanes = self.k, self.stored.element_type, self.stored.lanes
        type_ = {"i8": I8, "f16": U16, "bf16": U16, "u16": U16}.get(name, U8)
        address = codes + position * type_.bytes
        there = None if left is None else k.lanes_below(left, lanes)
        value = k.load(address, type_, lanes, there)
        if not self.stored.book and (type_ == U16 or name.startswith("f8")):
            return decoded(k, name, value, self.unit)
        return self._number(value.to(I32))

    def _number(self, code: Value) -> Value:
        """What codes stand for."""
        if not self.stored.book:
            return code.to(F32)
        k, lanes = self.k, code.lanes
        if self._permutes() and not self.stored.long:
            return k.looked_up(self._book(), code)
        places = [self.numbers + code.part(lane, 1).to(I64) * 4 for lane in range(lanes)]
        return k.gathered([k.load(place, F32) for place in places])

    def _permutes(self) -> bool:
        """Whether the processor looks numbers up in registers."""
        target, lanes = self.k.target, self.stored.lanes
        return lanes == 16 or (lanes == 8 and target is not None and target.has("avx2"))

    @property
    def _is_alone(self) -> bool:
        """Whether all codes of a block have the same zero point and scales."""
        return self.stored.groups_in(self.length) == 1

    def _book(self) -> Value:
        """The value of every code."""
        if self.stored.book:
            return self.k.load(self.numbers, F32, 16)
        signed = self.stored.element_type == "i4"
        values = [float(code - 16 if signed and code > 7 else code) for code in range(16)]
        numbers = [ir.Constant(F32.llvm, x) for x in values]
        return Value(self.k, ir.Constant(ir.VectorType(F32.llvm, 16), numbers), F32, 16)

    def _parameter(self, column: Operand, position: Value, left: Value | None, first: int) -> Value:
        """The zero points or scales of a vector, lane by lane."""
        k, stored = self.k, self.stored
        if not stored.group or not column.of_groups:
            return column.everywhere(k, 0, stored.lanes)
        count, step = stored.groups_in(self.length), self.step
        # Loads of more than a vector that are masked become single ones anyhow, and wrong ones of
        # 64 numbers of 16 bits (LLVM 20, AVX2).
        if not count or (left is not None and count > stored.lanes):
            last = self.inner - 1
            places = [
                k.minimum(position + (lane * step + first), last) for lane in range(stored.lanes)
            ]
            return k.gathered([column.at(k, p // stored.group) for p in places])
        group = position // stored.group
        if count == 1:
            return column.everywhere(k, group, stored.lanes)
        if left is None:
            some = column.at(k, group, count)
        else:
            some = column.some(
                k, group, k.lanes_below((left + (stored.group - 1)) // stored.group, count)
            )
        return k.picked(
            some, some, [(lane * step + first) // stored.group for lane in range(stored.lanes)]
        )

    def _chain(self, value: Value, steps: Steps, rounded: bool = True) -> Value:
        """The steps of the decompression; the last one without its rounding where that is left to
        others.
        """
        zero, scale, operands = steps
        later = list(self.stored.later)
        value = self._scaled(value, zero, scale, rounded or bool(later))
        if later and not rounded:
            later[-1] = replace(later[-1], rounds=False)
        for step, operand in zip(later, operands, strict=True):
            value = stepped(value, step, operand)
        return value

    def _scaled(
        self, value: Value, zero: Value | None, scale: Value | None, rounded: bool
    ) -> Value:
        """The zero point taken off, and the first scale."""
        if zero is not None:
            value = value - zero
            if self.stored.rounds_difference:
                value = value.to(F16).to(F32)
        if scale is None:
            return value
        if self.stored.rounds_product != SPLIT:
            value = value * scale
            rounds = rounded and self.stored.rounds_product
            return value.to(F16).to(F32) if rounds else value
        # Both factors have 11 digits, so their product has an even last one of 24; 8192 times it is
        # cut off where f16 ends.
        large = value * (scale * 8192.0)
        return self.k.fma(value, scale, large) - large
