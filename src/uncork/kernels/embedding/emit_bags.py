"""Sums of embedding rows: bags given by offsets or by a fixed size, and segments.

One bag at a time: the accumulators of a block of columns stay in registers while its rows stream
by, with the rows to come prefetched between the additions. Every index, offset and id is checked
where it is read (measured: 0 to 3 %).

Each kernel returns 0, or a positive number when some value must be refused; the reference then
finds and words the reason. Terms are added by increasing position, in up to four chains that are
joined at the end of the bag.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import (
    F16,
    F32,
    F64,
    I8,
    I64,
    INDEX_TYPES,
    U16,
    U32,
    U64,
    Kernel,
    Value,
    pieces,
)
from uncork.kernels.embedding.emit_ids import BagIds
from uncork.kernels.embedding.spec_bags import Bag, Segments
from uncork.kernels.runtime.target import Target

#: Table types by the element type's name. bf16 travels as its bits.
TABLE_TYPES = {"f32": F32, "f16": F16, "bf16": U16, "f64": F64, **INDEX_TYPES}

#: Vector accumulators that stay in registers beside the operands: a block of columns has no more
#: vectors than this.
_BLOCK_VECTORS = 16
#: Rows ahead that are prefetched; fewer of long rows, which fill the line buffers by themselves.
_AHEAD, _AHEAD_LONG, _LONG_ROW = 32, 16, 256
#: Ids that are compared with their neighbours at once.
_NEIGHBOURS = 16
#: Vectors that are added to by turns, in one chain or in several.
_ACCUMULATORS = 4


def emit_bag(spec: Bag, machine: Target) -> str:
    """The LLVM text of a bag kernel."""
    return _BagKernel(spec, machine).text()


class _BagKernel:
    def __init__(self, spec: Bag, machine: Target) -> None:
        self.spec = spec
        self.type = TABLE_TYPES[spec.table]
        self.accumulator = F32 if spec.table in ("f16", "bf16") else self.type
        self.row_bytes = spec.columns * self.type.bytes
        #: Full vectors of the accumulator's type.
        self.lanes = max(1, spec.lanes * 4 // self.accumulator.bytes)
        self.ahead = _AHEAD if self.row_bytes <= _LONG_ROW else _AHEAD_LONG
        k = self.k = Kernel(spec.name, spec.arguments, machine)
        (
            self.table,
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
        self._bags()
        k.finish()

    def text(self) -> str:
        return self.k.text()

    def _bags(self) -> None:
        k, spec = self.k, self.spec
        block = self.lanes * _BLOCK_VECTORS
        whole, rest = divmod(spec.columns, block)
        default = self.ids.default_row()
        with k.loop(self.first, self.last) as bag:
            start, end = self.ids.bounds(bag)
            with k.if_((start < end).equals(0), likely=False):
                target = self.output + bag * self.row_bytes
                self.ids.fill(
                    default,
                    lambda: self._copy(None, target),
                    lambda row: self._copy(self.table + row * self.row_bytes, target),
                )
            with k.if_(start < end, likely=True):
                target = self.output + bag * self.row_bytes
                if whole:
                    with k.loop(0, whole) as number:
                        offset = number * (block * self.type.bytes)
                        self._columns(start, end, offset, pieces(block, self.lanes), target)
                if rest:
                    self._columns(
                        start,
                        end,
                        k.integer(whole * block * self.type.bytes),
                        pieces(rest, self.lanes),
                        target,
                    )
                if not spec.columns:  # rows without elements: their ids must exist all the same
                    with k.loop(start, end) as position:
                        self.ids.checked(position)

    def _copy(self, source: Value | None, target: Value) -> None:
        """A row, or zeros, byte for byte."""
        k = self.k
        words = self.row_bytes // 8
        with k.loop(0, words) as i:
            k.store(k.integer(0) if source is None else k.load(source + i * 8, I64), target + i * 8)
        for rest in range(words * 8, self.row_bytes):
            k.store(
                k.constant(0, I8) if source is None else k.load(source + rest, I8), target + rest
            )

    def _columns(
        self, start: Value, end: Value, offset: Value, parts: list[tuple[int, int]], target: Value
    ) -> None:
        """Sum one block of columns of one bag: `parts` are its vectors, `offset` where it begins in
        the row, in bytes.
        """
        k, spec = self.k, self.spec
        # Additions wait for the one before: few columns need several chains to keep the adders
        # busy.
        accumulators = max(1, _ACCUMULATORS // len(parts))
        zero = -0.0 if self.accumulator.kind == "float" else 0  # x + -0.0 is x, also for x = -0.0
        sums = [
            [k.variable(k.constant(zero, self.accumulator, n)) for _, n in parts]
            for _ in range(accumulators)
        ]

        def add(position: Value, chain: int, prefetch: bool) -> None:
            index = self.ids.checked(position)
            weight = self._weight(position) if spec.weighted else None
            row = self.table + index * self.row_bytes + offset
            if prefetch:
                self._prefetch(
                    self.table + self.ids.at(position + self.ahead) * self.row_bytes + offset, parts
                )
            for (first, n), total in zip(parts, sums[chain], strict=True):
                begins = first * self.type.bytes
                x = self._wide(k.load(row + begins, self.type, n))
                if weight is None:
                    total.set(total.get() + x)
                elif self.accumulator.kind == "float":
                    total.set(k.fma(x, k.splat(weight, n), total.get()))
                else:
                    total.set(total.get() + x * weight)

        # The last rows of all were prefetched by those before them. To look ahead no further than
        # there are indices by a loop of its own costs nothing; by a minimum in every turn it costs
        # up to 40 % where memory is slow (measured).
        done, ahead = k.variable(start), k.minimum(end, self.ids.count - self.ahead)
        if accumulators > 1:
            with k.loop(start, ahead - (accumulators - 1), accumulators) as position:
                for chain in range(accumulators):
                    add(position + chain, chain, True)
                done.set(position + accumulators)
        with k.loop(done.get(), ahead) as position:
            add(position, 0, True)
            done.set(position + 1)
        with k.loop(done.get(), end) as position:
            add(position, 0, False)
        for i, (first, _) in enumerate(parts):
            total = sums[0][i].get()
            for further in sums[1:]:
                total = total + further[i].get()
            if spec.mean:
                total = self._mean(total, end - start)
            self._store(total, target + offset + first * self.type.bytes)

    def _prefetch(self, row: Value, parts: list[tuple[int, int]]) -> None:
        """Prefetch the cache lines of a block of columns. Tables begin anywhere, so there may be
        one more line at the end (without it up to 2.7 times slower).
        """
        size = (parts[-1][0] + parts[-1][1]) * self.type.bytes
        for byte in (*range(0, size, 64), *([] if self.spec.at_lines else [size - 1])):
            self.k.prefetch(row + byte)

    def _weight(self, position: Value) -> Value:
        return self._wide(self.k.load(self.weights + position * self.type.bytes, self.type))

    def _wide(self, value: Value) -> Value:
        if self.spec.table == "bf16":
            return (value.to(U32) << 16).bits_as(F32)
        return value.to(self.accumulator)

    def _mean(self, total: Value, count: Value) -> Value:
        if total.type.kind == "float":
            return total / self.k.splat(count.to(total.type), total.lanes)
        wide = I64 if total.type.kind == "signed" else U64
        return (total.to(wide) // self.k.splat(count.to(wide), total.lanes)).to(total.type)

    def _store(self, total: Value, address: Value) -> None:
        k = self.k
        if self.spec.table == "bf16":
            bits = total.bits_as(U32)
            rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
            quiet = (bits >> 16) | 0x40
            magnitude = bits & 0x7FFFFFFF
            k.store(k.select(magnitude > 0x7F800000, quiet, rounded).to(U16), address)
        else:
            k.store(total.to(self.type), address)


def emit_segments(spec: Segments, machine: Target) -> str:
    """The LLVM text of the kernel that writes where each segment begins, in the ids' own type. The
    kernel returns 1 at an id that is outside or not sorted.

    Sorted ids are within bounds when the first and the last are. Neighbours are compared a vector
    at a time; only where they differ a segment ends, and those that begin there are written.
    """
    k = Kernel(spec.name, spec.arguments, machine)
    ids, count, segments, offsets = k.arguments
    type_ = INDEX_TYPES[spec.index]

    def id_at(position: Value) -> Value:
        return k.load(ids + position * type_.bytes, type_).to(I64)

    def open_segments(first: Value, end: Value, position: Value) -> None:
        with k.loop(first, end) as segment:
            k.store(position.to(type_), offsets + segment * type_.bytes)

    with k.if_else(count > 0, likely=True) as (some, none):
        with none:
            open_segments(k.integer(0), segments, k.integer(0))
        with some:
            first, last = id_at(k.integer(0)), id_at(count - 1)
            k.stop_unless(first.below(segments) & last.below(segments), k.integer(1))
            open_segments(k.integer(0), first + 1, k.integer(0))
            done = k.variable(k.integer(0))
            with k.loop(0, count - _NEIGHBOURS, _NEIGHBOURS) as position:
                here = k.load(ids + position * type_.bytes, type_, _NEIGHBOURS)
                following = k.load(ids + (position + 1) * type_.bytes, type_, _NEIGHBOURS)
                # Nothing is written for ids above the last, which is known to be within bounds.
                k.stop_unless(
                    k.all_of(here <= following) & (id_at(position + _NEIGHBOURS) <= last),
                    k.integer(1),
                )
                ends = k.variable(k.bits_of(here < following))
                with k.while_(lambda ends=ends: ends.get() > 0):  # type: ignore[misc]
                    end = position + k.trailing_zeros(ends.get())
                    open_segments(id_at(end) + 1, id_at(end + 1) + 1, end + 1)
                    ends.set(ends.get() & (ends.get() - 1))
                done.set(position + _NEIGHBOURS)
            with k.loop(done.get(), count - 1) as position:
                here, following = id_at(position), id_at(position + 1)
                k.stop_unless((here <= following) & (following <= last), k.integer(1))
                open_segments(here + 1, following + 1, position + 1)
            open_segments(last + 1, segments, count)
    k.finish()
    return k.text()
