"""Sums of embedding rows, dense or quantized: bags given by offsets or by a fixed size.

One bag at a time: the accumulators of a block of columns stay in registers while its rows stream
by, with the rows to come prefetched between the additions. Every index, offset and id is checked
where it is read (measured: 0 to 3 %).

Each kernel returns 0, or a positive number when some value must be refused; the reference then
finds and words the reason. Terms are added by increasing position, in as many chains as the reader
of the rows asks for, which are joined before the last ones are added. Short bags have one: the
processor does not expect where each of several loops ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from uncork.kernels.codegen.emit import I64, U64, Kernel, Value, Variable, emitter
from uncork.kernels.embedding.emit_ids import BagIds
from uncork.kernels.embedding.emit_rows import Parts, RowReader, reader_of
from uncork.kernels.embedding.spec_bags import Bag

#: Rows of a bag, one of several sizes, from which on it is summed in several chains. Bags of about
#: 10 rows of 64 bytes take 0.85 of the time with one, those of 80 as long with either.
_LONG_BAG = 32


@emitter
def emit_bag(k: Kernel, spec: Bag) -> None:
    """The LLVM text of a bag kernel."""
    a = k.named
    if spec.placed:
        read = a["indices"]
        a = {**a, "indices": k.load(read, I64), "weights": k.load(read + 8, I64)}
    ids, reader = BagIds(k, spec, a), reader_of(k, spec.rows, a)
    default, groups = ids.default_row(), reader.groups
    rows_ahead = reader.ahead_in_sums(ids.rows, ids.count)
    ids.look_ahead(rows_ahead)
    with k.loop(a["first"], a["last"]) as bag:
        start, end = ids.bounds(bag)
        target = a["output"] + bag * (groups * reader.row_bytes)
        sums = _BagSums(k, spec, ids, reader, rows_ahead, a["weights"], start, end)
        with k.if_else(start < end, likely=True) as (full, empty):
            one = nullcontext(k.integer(0))
            with full, k.loop(0, groups) if groups > 1 else one as group:
                sums.store_group(group, target + group * reader.row_bytes)
                if not reader.columns:  # rows without elements: their ids must exist all the same
                    with k.loop(start, end) as position:
                        ids.checked(position)
            with empty:
                ids.fill(
                    default,
                    lambda: reader.zeros(target),
                    lambda row: reader.copy_row(row, target),
                )


class _BagSums:
    """The sums of one bag: the terms at positions `start` to `end` - 1."""

    def __init__(
        self,
        k: Kernel,
        spec: Bag,
        ids: BagIds,
        reader: RowReader,
        rows_ahead: Value,
        weights: Value,
        start: Value,
        end: Value,
    ) -> None:
        self.k, self.spec, self.ids, self.reader = k, spec, ids, reader
        self.rows_ahead, self.weights = rows_ahead, weights
        self.start, self.end = start, end

    def store_group(self, group: Value, target: Value) -> None:
        """Sum one group of the columns."""
        self.reader.each_block(
            lambda column, parts: self._store_columns(group, column, parts, target)
        )

    def _store_columns(self, group: Value, column: Value, parts: Parts, target: Value) -> None:
        """Sum one block of columns of a group: its vectors are `parts`, it begins at `column`."""
        k, spec, reader, end = self.k, self.spec, self.reader, self.end
        # x + -0.0 is x, also for x = -0.0
        zero = -0.0 if reader.computed.kind == "float" else 0

        def sums() -> list[Variable]:
            return [k.variable(k.constant(zero, reader.computed, n)) for _, n in parts]

        def of_group(index: Value) -> Value:
            return index if reader.groups == 1 else index * reader.groups + group

        def add(position: Value, chain: Sequence[Variable], prefetch: bool) -> None:
            index = of_group(self.ids.checked(position))
            if prefetch:
                ahead = of_group(self.ids.ahead(position))
                reader.prefetch(ahead, column, sum(lanes for _, lanes in parts))
            weight = reader.weight(self.weights, position) if spec.weighted else None
            row = reader.row(index, column)
            for (first, lanes), total in zip(parts, chain, strict=True):
                x = reader.values(row, first, lanes)
                total.set(
                    total.get() + x if weight is None else reader.added(total.get(), x, weight)
                )

        # The last rows of all were prefetched by those before them. To look ahead no further than
        # there are indices by a loop of its own costs nothing; by a minimum in every turn it costs
        # up to 40 % where memory is slow (measured).
        done = k.variable(self.start)
        ahead = k.minimum(end, self.ids.count - self.rows_ahead)
        totals, chains = sums(), reader.chains(parts)
        if chains > 1:
            least = 0 if spec.bags == "fixed" else _LONG_BAG
            with k.if_(end - self.start >= least, likely=least == 0):
                others = [sums() for _ in range(chains - 1)]
                with k.loop(self.start, ahead - (chains - 1), chains) as position:
                    for number, chain in enumerate((totals, *others)):
                        add(position + number, chain, True)
                    done.set(position + chains)
                for chain in others:
                    for total, further in zip(totals, chain, strict=True):
                        total.set(total.get() + further.get())
        with k.loop(done.get(), ahead) as position:
            add(position, totals, True)
            done.set(position + 1)
        with k.loop(done.get(), end) as position:
            add(position, totals, False)
        for (first, _), total in zip(parts, totals, strict=True):
            made = total.get()
            if spec.mean:
                made = _mean(k, made, end - self.start)
            reader.store(made, target + (column + first) * reader.result.bytes)


def _mean(k: Kernel, total: Value, count: Value) -> Value:
    if total.type.kind == "float":
        return total / k.splat(count.to(total.type), total.lanes)
    wide = I64 if total.type.kind == "signed" else U64
    return (total.to(wide) // k.splat(count.to(wide), total.lanes)).to(total.type)
