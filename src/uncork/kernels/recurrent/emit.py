"""GRU, LSTM and RNN sequences in f32, one direction a call, on one microkernel.

The microkernel multiplies up to 8 rows by a panel of the weights: all gates of as many units as a vector has lanes, so that the
gates of a unit meet in registers and the step ends there, without a buffer of gates in memory. Rows are sorted by length,
longest first, and leave the batch when they end: the cost is the sum of the lengths. The products with X are made for some
time steps ahead by the same microkernel, as many as stay in the second-level cache.

Weights lie as `recurrent_spec.pack` puts them: panel by panel, and in a panel step by step of the inner product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, I64, INDEX_TYPES, Kernel, Value, Variable
from uncork.kernels.codegen.thread_team import Team
from uncork.kernels.gemm import microkernel_amx as tiles
from uncork.kernels.gemm.microkernel import End, Microkernel
from uncork.kernels.recurrent.emit_epilogue import Ends, store_parts
from uncork.kernels.recurrent.spec import TILE_ROOM, Recurrent


def emit_recurrent(spec: Recurrent, estimates: bool, pauses: bool = False) -> str:
    """The LLVM text of one direction of a sequence. `estimates`, `pauses`: see `Kernel`."""
    kernel = Kernel(spec.name, spec.arguments)
    kernel.estimates, kernel.pauses = estimates, pauses
    _Driver(kernel, spec).emit()
    return kernel.text()


class _Driver:
    """One direction: rows in order of length, the products with X ahead, then step by step."""

    def __init__(self, kernel: Kernel, spec: Recurrent) -> None:
        self.k, self.spec = kernel, spec
        self.a = dict(zip(spec.arguments, kernel.arguments))
        self.vector = spec.lanes * 4
        self.row = self.a["padded"] * 4
        #: Factors of the products with R and with X: f32, or pairs of bf16 in rows of their own.
        self.factors, self.inputs = self.a["hidden"], self.a["inputs"]
        #: A row of factors of the state, in bytes.
        self.pairs_row = (self.row >> 1) * spec.parts
        if spec.parts:
            self.factors, self.inputs = (self._blocks(count) >> 1 for count in (self.factors, self.inputs))
        self.ahead_row = self.row * spec.gates
        a, at = self.a, self.a["workspace"]
        rows = (a["batch"] + (tiles.ROWS - 1)) & -tiles.ROWS if spec.tiles else a["batch"]
        places: dict[str, Value] = {}
        words = a["batch"] * 8
        for name, size in (
            ("counts", (a["steps"] + 2) * 8),
            ("order", words),
            ("lengths", words),
            ("table_a", words),
            ("table_b", words),
            ("table_reset", words),
            ("state_a", a["batch"] * self.row),
            ("state_b", a["batch"] * self.row),
            ("extra", a["batch"] * self.row),  # z of "gru", c of "lstm"
            ("reset", a["batch"] * self.row),  # r * h of "gru"
            ("table_x", a["batch"] * a["ahead"] * 8),
            ("products", a["batch"] * a["ahead"] * self.ahead_row),
        ):
            places[name] = at
            at = at + ((size + 63) & -64)  # each at a cache line
        #: Two configurations of tiles, and the sums of a block of rows.
        self.tiles_ahead, self.tiles_step = at, at + tiles.CONFIGURATION_BYTES
        self.sums = at + 2 * tiles.CONFIGURATION_BYTES
        assert TILE_ROOM == 2 * tiles.CONFIGURATION_BYTES + tiles.SUMS_BYTES
        at = at + (TILE_ROOM if spec.tiles else 0)
        if spec.parts:
            for name in ("pairs_a", "pairs_b", "pairs_reset", "pairs_x"):
                places[name] = at
                at = at + ((rows * self.pairs_row + 63) & -64)

        self.p = places

    def _blocks(self, count: Value) -> Value:
        """So many factors, in whole blocks."""
        return (count + (self.spec.block - 1)) & -self.spec.block

    def emit(self) -> None:
        k, a, p = self.k, self.a, self.p
        self._microkernels()
        if self.spec.team:
            with k.when(a["member"] < 0):
                self._sort()
                self._begin()
                Team.clear(k, a["members"], a["lines"])
                k.leave(k.integer(0))
            self.team = Team(k, a["member"], a["members"], a["lines"], a["let_run"])
        else:
            self._sort()
            self._begin()
        if self.spec.tiles:
            self.layout.write(k, self.tiles_ahead, k.integer(tiles.ROWS))
            self.layout.write(k, self.tiles_step, k.minimum(a["batch"], k.integer(tiles.ROWS)))
        longest = k.variable(k.integer(0))
        with k.when(a["batch"] > 0):
            longest.set(k.load(p["lengths"], I64))
        self.live = k.variable(a["batch"])  # rows still in the batch at the step that is being prepared
        self.running = k.variable(a["batch"])  # and at the step that runs
        ahead = a["ahead"]
        chunks = (longest.get() + ahead - 1) // ahead
        with k.loop(0, chunks) as chunk:
            first = chunk * ahead
            last = k.minimum(first + ahead, longest.get())
            if self.spec.tiles:
                tiles.configure(k, self.tiles_ahead)
            self._multiply_ahead(first, last)
            if self.spec.tiles == "all":
                tiles.configure(k, self.tiles_step)
            base = k.variable(p["products"])
            with k.loop(first, last) as t:
                self._leave(self.running, t)
                self._step(t, self.running.get(), base.get())
                base.set(base.get() + self.running.get() * self.ahead_row)
        if self.spec.tiles:
            tiles.release(k)
        k.finish()

    # ---- rows

    def _sort(self) -> None:
        """Rows by length, longest first (a counting sort, so equal lengths keep their order); refuses bad lengths."""
        k, a, p = self.k, self.a, self.p
        type_ = INDEX_TYPES[self.spec.lengths]
        steps = a["steps"]
        with k.loop(0, steps + 1) as i:
            k.store(k.integer(0), p["counts"] + i * 8)
        with k.loop(0, a["batch"]) as b:
            length = k.load(a["lengths"] + b * type_.bytes, type_).to(I64)
            k.stop_unless(length.below(steps + 1), b + 1)
            place = p["counts"] + (steps - length) * 8
            k.store(k.load(place, I64) + 1, place)
        before = k.variable(k.integer(0))
        with k.loop(0, steps + 1) as i:
            count = k.load(p["counts"] + i * 8, I64)
            k.store(before.get(), p["counts"] + i * 8)
            before.set(before.get() + count)
        with k.loop(0, a["batch"]) as b:
            length = k.load(a["lengths"] + b * type_.bytes, type_).to(I64)
            place = p["counts"] + (steps - length) * 8
            position = k.load(place, I64)
            k.store(position + 1, place)
            k.store(b, p["order"] + position * 8)
            k.store(length, p["lengths"] + position * 8)

    def _begin(self) -> None:
        """Initial states in order, tables of addresses, zeros where Y and Ho have no step."""
        k, a, p = self.k, self.a, self.p
        if self.spec.strict:
            self._check_ids()
        hidden = a["hidden"] * 4
        with k.loop(0, a["batch"]) as row:
            original = k.load(p["order"] + row * 8, I64)
            length = k.load(p["lengths"] + row * 8, I64)
            for table, states, pairs in (
                ("table_a", "state_a", "pairs_a"),
                ("table_b", "state_b", "pairs_b"),
                ("table_reset", "reset", "pairs_reset"),
            ):
                factors = p[pairs] + row * self.pairs_row if self.spec.parts else p[states] + row * self.row
                k.store(factors, p[table] + row * 8)
            self._copy(a["h0"] + original * a["h0_row"], p["state_a"] + row * self.row)
            if self.spec.parts:
                # The last pair may reach past H, and what lies there is a factor of a weight that is 0: it must be a number.
                for states in ("state_a", "extra"):
                    with k.loop(a["hidden"], a["padded"]) as i:
                        k.store(k.number(0.0, F32), p[states] + row * self.row + i * 4)
                rounded = p["pairs_a"] + row * self.pairs_row
                self._round(a["h0"] + original * a["h0_row"], rounded, a["hidden"], self.factors * 2, self.row >> 1)
            if self.spec.cell == "lstm":
                self._copy(a["c0"] + original * a["c0_row"], p["extra"] + row * self.row)
            y = a["y"] + original * a["y_row"]
            with k.loop(length, a["steps"]) as t:
                self._copy(None, y + t * hidden)
            with k.when(length.equals(0), likely=False):
                self._copy(None, a["ho"] + original * a["ho_row"])
                if self.spec.cell == "lstm":
                    self._copy(None, a["co"] + original * a["co_row"])

    def _copy(self, source: Value | None, target: Value, count: Value | None = None) -> None:
        """One row of H values, or the first ones; zeros without a source."""
        k, lanes, hidden = self.k, self.spec.lanes, self.a["hidden"] if count is None else count
        whole = hidden & -lanes
        with k.loop(0, whole, lanes) as i:
            k.store(k.number(0.0, F32, lanes) if source is None else k.load(source + i * 4, F32, lanes), target + i * 4)
        with k.loop(whole, hidden) as i:
            k.store(k.number(0.0, F32) if source is None else k.load(source + i * 4, F32), target + i * 4)

    def _round(self, source: Value, target: Value, count: Value, blocks: Value, low: Value) -> None:
        """`count` f32 as bf16, and zeros up to whole blocks; second parts `low` bytes further on."""
        k, lanes = self.k, self.spec.lanes
        second = low if self.spec.parts == 2 else None
        whole = count & -lanes
        with k.loop(0, whole, lanes) as i:
            store_parts(k, k.load(source + i * 4, F32, lanes), target + i * 2, second)
        with k.loop(whole, count) as i:
            store_parts(k, k.load(source + i * 4, F32), target + i * 2, second)
        with k.loop(count, blocks) as i:
            store_parts(k, k.number(0.0, F32), target + i * 2, second)

    def _leave(self, live: Variable, t: Value) -> None:
        """Rows that have no step t leave the batch; they are the last ones."""
        k, p = self.k, self.p
        with k.during(lambda: (live.get() > 0) & (k.load(p["lengths"] + k.maximum(live.get() - 1, k.integer(0)) * 8, I64) <= t)):
            live.set(live.get() - 1)

    def _time(self, row: Value, t: Value) -> Value:
        """The time step that a row is at: backwards each row begins at its own end."""
        length = self.k.load(self.p["lengths"] + row * 8, I64)
        return t + self.a["backward"] * (length - 1 - t - t)

    # ---- products

    def _id(self, row: Value, step: Value) -> Value:
        """The row of the table that a step of a row takes; outside of it where there is none."""
        k, a, spec = self.k, self.a, self.spec
        index = k.load(a["x"] + row * a["x_row"] + step * a["x_step"], INDEX_TYPES[spec.lookup]).to(I64)
        return index + ((index >> 63) & a["inputs"]) if spec.wraps and spec.lookup.startswith("i") else index

    def _check_ids(self) -> None:
        """Refuses ids that are outside, also those of steps that no row runs."""
        k, a = self.k, self.a
        with k.loop(0, a["batch"]) as row, k.loop(0, a["steps"]) as step:
            k.stop_unless(self._id(row, step).below(a["inputs"]), k.integer(1))

    def _look_up(self, first: Value, last: Value, live: Variable) -> None:
        """The same from the table of all products."""
        k, a, p, spec = self.k, self.a, self.p, self.spec
        target = k.variable(p["products"])
        with k.loop(first, last) as t:
            self._leave(live, t)
            with k.loop(0, live.get()) as row:
                original = k.load(p["order"] + row * 8, I64)
                index = self._id(original, self._time(row, t))
                source = a["w"] + k.select(index.below(a["inputs"]), index, a["inputs"]) * self.ahead_row
                with k.loop(0, self.ahead_row, self.vector) as offset:
                    k.store(k.load(source + offset, F32, spec.lanes), target.get() + offset)
                target.set(target.get() + self.ahead_row)

    def _multiply_ahead(self, first: Value, last: Value) -> None:
        """Products with X, and biases, for all live rows of some steps: one row of gates after the other."""
        k, a, p = self.k, self.a, self.p
        if self.spec.lookup:
            if self.spec.team:
                before = self.live.get()
                with k.loop(first, last) as t:
                    self._leave(self.live, t)
                self.team.phase(k.integer(1), lambda _: self._look_up(first, last, k.variable(before)))
            else:
                self._look_up(first, last, self.live)
            return
        if self.spec.team:
            before, rows = self.live.get(), k.variable(k.integer(0))
            with k.loop(first, last) as t:
                self._leave(self.live, t)
                rows.set(rows.get() + self.live.get())
            self.team.phase(k.integer(1), lambda _: self._sources(first, last, k.variable(before)).set(rows.get()))
        else:
            rows = self._sources(first, last, self.live)
        width = self.gate_vectors * self.vector

        def run(panel: Value) -> None:
            self.products.run(
                k,
                p["table_x"],
                a["w"] + panel * self.inputs * (width * max(1, self.spec.parts)),
                self.inputs,
                rows.get(),
                lambda row: {
                    "target": p["products"] + row * self.ahead_row + panel * width,
                    "target_row": self.ahead_row,
                    "bias": a["bias"] + panel * width,
                    "low": self.inputs * 4,
                    "source_row": self.inputs * (4 * self.spec.parts),
                    "sums": self.sums,
                },
            )

        self._each(self.ahead_row // width, run)

    def _sources(self, first: Value, last: Value, live: Variable) -> Variable:
        """Where the rows of X lie that some steps take, one after the other; with bf16 they are rounded. How many there are."""
        k, a, p = self.k, self.a, self.p
        rows = k.variable(k.integer(0))
        with k.loop(first, last) as t:
            self._leave(live, t)
            with k.loop(0, live.get()) as row:
                original = k.load(p["order"] + row * 8, I64)
                source = a["x"] + original * a["x_row"] + self._time(row, t) * a["x_step"]
                if self.spec.parts:
                    rounded = p["pairs_x"] + rows.get() * (self.inputs * (4 * self.spec.parts))
                    self._round(source, rounded, a["inputs"], self.inputs * 2, self.inputs * 4)
                    source = rounded
                k.store(source, p["table_x"] + rows.get() * 8)
                rows.set(rows.get() + 1)
        return rows

    def _each(self, count: Value, run: Callable[[Value], None], backwards: Value | None = None) -> None:
        """Items 0 to `count`, by this thread or by the team."""
        k = self.k
        if self.spec.team:
            self.team.phase(count, run, backwards)
            return
        with k.loop(0, count) as i:
            run(i if backwards is None else k.select(backwards, count - 1 - i, i))

    def _microkernels(self) -> None:
        spec = self.spec
        vectors = 2 if spec.cell == "rnn" else spec.gates
        #: Vectors of a panel of W: all gates of `lanes` units, or two vectors of units of the only gate.
        self.gate_vectors = vectors
        self.layout = tiles.Layout(vectors, spec.parts)
        ends = Ends(spec, self.vector)
        self.products = self._microkernel(
            "products", vectors, ("target", "target_row", "bias", *(("low",) if spec.parts == 2 else ())), ends.products
        )
        common = (
            "ahead",
            "ahead_row",
            "unit",
            "new",
            "old",
            "row",
            "clip",
            *(("pairs",) if spec.parts else ()),
            *(("low",) if spec.parts == 2 else ()),
        )
        if spec.cell == "gru":
            self.first = self._microkernel("reset", 2, (*common, "extra", "reset"), ends.gru_reset)
            self.second = self._microkernel("new", 2, (*common, "extra"), ends.gru_new)
        elif spec.cell == "gru_after":
            self.first = self._microkernel("step", 3, (*common, "inner_bias"), ends.gru_after)
        elif spec.cell == "lstm":
            self.first = self._microkernel("step", 4, (*common, "extra"), ends.lstm)
        else:
            self.first = self._microkernel("step", 2, common, ends.rnn)

    def _microkernel(self, name: str, vectors: int, extra: Sequence[str], end: End) -> Microkernel | tiles.TileMicrokernel:
        if self.spec.tiles == "all" or (self.spec.tiles and name == "products"):
            return tiles.TileMicrokernel(self.k, name, self.layout, vectors, extra, end)
        return Microkernel(self.k, name, self.spec.lanes, vectors, extra, end, self.spec.parts > 0)

    # ---- steps

    def _step(self, t: Value, rows: Value, products: Value) -> None:
        """One time step of all live rows: from one of the two states to the other, then out to Y."""
        k, a, p = self.k, self.a, self.p
        odd = (t & 1).equals(1)
        old_table = k.select(odd, p["table_b"], p["table_a"])
        old, new = k.select(odd, p["state_b"], p["state_a"]), k.select(odd, p["state_a"], p["state_b"])
        pairs = k.select(odd, p["pairs_a"], p["pairs_b"]) if self.spec.parts else new

        def given(row: Value, panel: Value, units: int, gates: int, pairs: Value = pairs) -> dict[str, Value]:
            """The extra arguments of a block of rows: its part of the products, its units, where its new state goes."""
            offset = row * self.row
            return {
                "ahead": products + row * self.ahead_row + panel * (units * gates * 4),
                "ahead_row": self.ahead_row,
                "unit": panel * (units * 4),
                "new": new + offset,
                "row": self.row,
                "clip": a["clip"],
                "extra": p["extra"] + offset,
                "reset": p["reset"] + offset,
                "old": old + offset,
                "inner_bias": a["inner_bias"] + panel * (units * 4),
                "pairs": pairs + row * self.pairs_row,
                "low": self.row >> 1,
                "source_row": self.pairs_row,
                "sums": self.sums,
            }

        units = self.spec.units
        two_steps, parts = self.spec.cell == "gru" and self.spec.parts > 0, max(1, self.spec.parts)
        width = 2 * self.vector if self.spec.cell == "gru" else self.gate_vectors * self.vector
        # In odd steps panels are read the other way round, so that what the cache still holds comes first.
        wide = self.spec.wide

        def first(panel: Value) -> None:
            self.first.run(
                k,
                old_table,
                a["r"] + panel * self.factors * (width * parts),
                self.factors,
                rows,
                lambda row: given(row, panel, units, self.spec.gates, p["pairs_reset"] if two_steps else pairs),
            )
            if self.spec.team and self.spec.cell != "gru":
                self._give(t, rows, new, panel * units, units)

        def second(panel: Value) -> None:
            self.second.run(
                k,
                p["table_reset"],
                a["r_new"] + panel * self.factors * (wide * 4 * parts),
                self.factors,
                rows,
                lambda row: given(row, panel, wide, 3),
            )
            if self.spec.team:
                self._give(t, rows, new, panel * wide, wide)

        self._each(a["padded"] // units, first, odd)
        if self.spec.cell == "gru":
            self._each(a["padded"] // wide, second, odd)
        if not self.spec.team:
            self._give(t, rows, new)

    def _give(self, t: Value, rows: Value, new: Value, first: Value | None = None, units: int = 0) -> None:
        """New states to Y, and where a row ends to Ho and Co: all units, or some of a panel."""
        k, a, p = self.k, self.a, self.p
        start, count = k.integer(0), a["hidden"]
        if first is not None:
            start, count = first * 4, k.maximum(k.minimum(a["hidden"] - first, k.integer(units)), k.integer(0))
        with k.loop(0, rows) as row:
            original = k.load(p["order"] + row * 8, I64)
            offset = row * self.row + start
            self._copy(new + offset, a["y"] + original * a["y_row"] + self._time(row, t) * a["hidden"] * 4 + start, count)
            with k.when(k.load(p["lengths"] + row * 8, I64).equals(t + 1)):
                self._copy(new + offset, a["ho"] + original * a["ho_row"] + start, count)
                if self.spec.cell == "lstm":
                    self._copy(p["extra"] + offset, a["co"] + original * a["co_row"] + start, count)
