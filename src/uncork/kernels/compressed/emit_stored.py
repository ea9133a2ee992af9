"""Stored weights as f32 vectors along the inner dimension, exactly as the layers that decompress
them would make them.

Codes of eight bits and more lie as the vectors do. Of four bits, a word of 32 has eight codes of
one lane: lane d of vector j is weight 8 d + j of the block. Where a block has one zero point and
one scale, the sixteen values that its codes may have are a table in a register.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import F16, F32, I8, I32, I64, U8, U16, Kernel, Value
from uncork.kernels.codegen.scalar_types import Type
from uncork.kernels.compressed.spec import FOUR_BITS, PER_WORD, SPLIT, FewRows, ManyRows, Stored
from uncork.kernels.compressed.spec_dots import DotFew, DotRows
from uncork.kernels.elementwise.emit import UNIT_OF_E4M3, decoded, widened


class Operand(Struct, frozen=True):
    """The zero points or the scales of a column: where they begin, and their type, which is nothing
    where there are none.
    """

    begin: Value
    kind: str

    def __bool__(self) -> bool:
        return bool(self.kind)

    @property
    def type_(self) -> Type:
        """The type in which they lie."""
        return {"f32": F32, "f16": U16, "u8": U8}[self.kind]

    def at(self, k: Kernel, group: Value | int = 0, lanes: int = 1) -> Value:
        """Those of some groups that follow each other, as f32."""
        return self._wide(k, k.load(self._address(group), self.type_, lanes))

    def some(self, k: Kernel, group: Value, mask: Value) -> Value:
        """Those of the groups in a mask, as f32; 0 for the others."""
        return self._wide(k, k.load(self._address(group), self.type_, mask.lanes, mask))

    def _address(self, group: Value | int) -> Value:
        return self.begin + group * self.type_.bytes

    def _wide(self, k: Kernel, value: Value) -> Value:
        if self.kind == "f16":
            return widened(k, "f16", value)
        return value.to(I32).to(F32) if self.kind == "u8" else value


#: A zero point, a scale and a second one, lane by lane, where there are such.
_Steps = tuple[Value | None, Value | None, Value | None]


class Column(Struct, frozen=True):
    """Where the codes, zero points and scales of a column begin. `whole`: its zero point and its
    scales, lane by lane, where it has one of each.
    """

    codes: Value
    zeros: Operand
    scales: Operand
    second: Operand
    whole: _Steps | None = None


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
        for name in ("zeros", "scales", "second"):
            if kind := getattr(stored, name):
                size = Operand(a[name], kind).type_.bytes
                a[name] = a[name] + before * a["groups"] * size
    return a


def column_at(a: Mapping[str, Value], number: Value, stored: Stored) -> Column:
    """A column by its number, of a kernel with these arguments."""
    first = number * a["groups"]

    def operand(name: str) -> Operand:
        kind = getattr(stored, name)
        begin = Operand(a[name], kind)
        return Operand(a[name] + first * begin.type_.bytes, kind) if kind else begin

    codes = a["codes"] + number * a["code_row"]
    return Column(codes, operand("zeros"), operand("scales"), operand("second"))


class Decoder:
    """Decodes blocks of a column; `numbers` is the address of a table of 16, where codes are
    numbers of one.
    """

    def __init__(self, k: Kernel, stored: Stored, inner: Value, numbers: Value) -> None:
        self.k, self.stored, self.inner, self.numbers = k, stored, inner, numbers
        self.four_bits = stored.element_type in FOUR_BITS
        self.by_table = self.four_bits and stored.lanes == 16
        #: What decoded numbers are multiples of before scales, which are small enough.
        unit = stored.element_type == "f8e4m3" and stored.scales == "f16" and not stored.zeros
        self.unit = UNIT_OF_E4M3 if unit else 1.0

    def block(self, column: Column, position: Value, partly: bool) -> list[Value]:
        """The decoded vectors of the block that begins at a position; past the last weight codes
        are 0, with any zero point and scale.
        """
        k, stored = self.k, self.stored
        left = self.inner - position if partly else None
        steps = column.whole or self._parameters(column, position, left)
        if not self.four_bits:
            return [self._chain(self._loaded(column.codes, position, left), steps)]
        address = column.codes + (position >> 1)
        there = None if left is None else k.lanes_below(left >> 3, stored.lanes)
        words = k.load(address, I32, stored.lanes, there)
        if self.by_table:
            book = self._book()
            if stored.groups_in_block == 1:
                table = self._chain(book, steps)
                return [
                    k.looked_up(table, words >> (4 * j) if j else words) for j in range(PER_WORD)
                ]
            return [
                self._chain(k.looked_up(book, words >> (4 * j) if j else words), steps)
                for j in range(PER_WORD)
            ]
        signed = stored.element_type == "i4"
        codes = [
            (words << (28 - 4 * j)) >> 28 if signed else (words >> (4 * j)) & 15
            for j in range(PER_WORD)
        ]
        return [self._chain(self._number(code), steps) for code in codes]

    def loaded(self, column: Column, position: Value | None = None, length: int = 0) -> Column:
        """The column, with its zero point and scale in registers where it has one of each, or has
        for so many numbers from a position on, which is a multiple of that.
        """
        group = self.stored.group
        if column.whole or (group and (not length or group % length)):
            return column
        at = self.inner if position is None else position
        return replace(column, whole=self._parameters(column, at, None))

    def _parameters(self, column: Column, position: Value, left: Value | None) -> _Steps:
        """The zero points and the scales of a block."""
        zero, scale, second = (
            self._parameter(operand, position, left) if operand else None
            for operand in (column.zeros, column.scales, column.second)
        )
        return zero, scale if self.unit == 1 or scale is None else scale * self.unit, second

    def _loaded(self, codes: Value, position: Value, left: Value | None) -> Value:
        k, name, lanes = self.k, self.stored.element_type, self.stored.lanes
        type_ = {"i8": I8, "f16": U16, "bf16": U16}.get(name, U8)
        address = codes + position * type_.bytes
        there = None if left is None else k.lanes_below(left, lanes)
        value = k.load(address, type_, lanes, there)
        if type_ == U16 or name.startswith("f8"):
            return decoded(k, name, value, self.unit)
        return self._number(value.to(I32))

    def _number(self, code: Value) -> Value:
        """What codes stand for."""
        if not self.stored.book:
            return code.to(F32)
        k, lanes = self.k, code.lanes
        wide = lanes == 16 or (lanes == 8 and k.target is not None and k.target.has("avx2"))
        if wide and not self.stored.long:
            return k.looked_up(self._book(), code)
        places = [self.numbers + code.part(lane, 1).to(I64) * 4 for lane in range(lanes)]
        return k.gathered([k.load(place, F32) for place in places])

    def _book(self) -> Value:
        """The value of every code."""
        if self.stored.book:
            return self.k.load(self.numbers, F32, 16)
        signed = self.stored.element_type == "i4"
        values = [float(code - 16 if signed and code > 7 else code) for code in range(16)]
        numbers = [ir.Constant(F32.llvm, x) for x in values]
        return Value(self.k, ir.Constant(ir.VectorType(F32.llvm, 16), numbers), F32, 16)

    def _parameter(self, column: Operand, position: Value, left: Value | None) -> Value:
        """The zero points or scales of a block, lane by lane."""
        k, stored = self.k, self.stored
        if not stored.group:
            return k.splat(column.at(k), stored.lanes)
        count = stored.groups_in_block
        if not count:
            step = PER_WORD if self.four_bits else 1
            last = self.inner - 1
            places = [k.minimum(position + lane * step, last) for lane in range(stored.lanes)]
            return k.gathered([column.at(k, p // stored.group) for p in places])
        group = position // stored.group
        if count == 1:
            return k.splat(column.at(k, group), stored.lanes)
        if left is None:
            some = column.at(k, group, count)
        else:
            some = column.some(
                k, group, k.lanes_below((left + (stored.group - 1)) // stored.group, count)
            )
        each = stored.lanes // count
        picks = ir.Constant(
            ir.VectorType(ir.IntType(32), stored.lanes),
            [lane // each for lane in range(stored.lanes)],
        )
        return Value(k, k.builder.shuffle_vector(some.llvm, some.llvm, picks), F32, stored.lanes)

    def _chain(self, value: Value, steps: _Steps) -> Value:
        """The steps of the decompression."""
        zero, scale, second = steps
        value = self._scaled(value, zero, scale)
        if second is None:
            return value
        value = value * second
        return value.to(F16).to(F32) if self.stored.rounds_second else value

    def _scaled(self, value: Value, zero: Value | None, scale: Value | None) -> Value:
        """The zero point taken off, and the first scale."""
        if zero is not None:
            value = value - zero
            if self.stored.rounds_difference:
                value = value.to(F16).to(F32)
        if scale is None:
            return value
        if self.stored.rounds_product != SPLIT:
            value = value * scale
            return value.to(F16).to(F32) if self.stored.rounds_product else value
        # Both factors have 11 digits, so their product has an even last one of 24; 8192 times it is
        # cut off where f16 ends.
        large = value * (scale * 8192.0)
        return self.k.fma(value, scale, large) - large
