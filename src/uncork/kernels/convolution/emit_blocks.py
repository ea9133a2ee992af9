"""Kernel of direct convolutions over blocks of channels, by tiles of pixels; a table says where
each tap finds its data and filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, I64, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, apply_epilogue, relative_operands
from uncork.kernels.convolution import microkernel_blocks_amx
from uncork.kernels.convolution.emit_decoded_sets import decode_set
from uncork.kernels.convolution.emit_numbers import read as read_held
from uncork.kernels.convolution.emit_numbers import write
from uncork.kernels.convolution.microkernel_blocks import AHEAD_TILES, tile
from uncork.kernels.convolution.spec_blocks import ENTRY, Dense
from uncork.kernels.convolution.tiles import CHOSEN, KIND_BITS, TileShape, next_tiles
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.gemm import microkernel_amx as amx
from uncork.kernels.runtime.target import LINE

_ARGUMENTS = ("source", "step", "filters", "table", "ahead", "target", "target_block")
#: Which outputs a tile stores, where that is not all.
_STORED = ("low", "high")


@emitter
def emit_dense(k: Kernel, spec: Dense) -> None:
    """The LLVM text of the kernel."""
    rows, a = _Rows(k, spec), k.named
    with k.loop(0, a["images"]) as image, k.loop(0, a["rows"], a["strip"]) as first:
        end = k.minimum(first + a["strip"], a["rows"])
        with k.loop(0, a["passes"]) as turn:
            with k.if_(a["asks_ahead"] > 0):
                rows.ahead.set(a["filters"] + (turn + 1) * a["group"])
            if spec.stored:
                decode_set(k, spec, spec.stored, turn)
            lines = end - first
            for which in rows.slices(turn, a["planes"] * lines):
                with k.loop(0, a["planes"]) as plane, k.loop(first, end) as y:
                    rows.row(image, plane, y, plane * lines + (y - first), which)
    if spec.amx:
        amx.release(k)


class _Slice(Struct, frozen=True):
    """Some channels of a set of outputs."""

    #: Its number among those of all sets, that of the set, and that within the set.
    turn: Value
    group: Value
    number: Value
    #: Whether this is the last one of the set, after which results are stored.
    ends: bool


class _Rows:
    """Rows of the result, tile by tile."""

    def __init__(self, k: Kernel, spec: Dense) -> None:
        self.k, self.spec = k, spec
        self.a = a = k.named
        self.tiles = [_tile(k, spec, width) for width in spec.widths]
        #: Tiles whose sums wait for the next slice.
        self.adding = [_tile(k, spec, width, waits=True) for width in spec.widths if spec.sliced]
        #: Where the configuration of each kind of tiles is, where those are AMX's.
        self.configurations = [
            k.stack_bytes(amx.CONFIGURATION_BYTES) for _ in (spec.widths if spec.amx else ())
        ]
        for width, place in zip(spec.widths, self.configurations, strict=False):
            microkernel_blocks_amx.write_configuration(k, place, _shape(spec, width))
        #: Bytes of a pixel's sums that wait.
        self.pixel_of_sums = spec.blocks * spec.lanes * F32.bytes
        self.target_operands = relative_operands(spec.end, a, a["target"])
        #: The filters of the next set of outputs that were not yet asked for; 0: nobody asks.
        self.ahead = k.variable(k.integer(0))

    def slices(self, turn: Value, rows: Value) -> Iterator[_Slice]:
        """The bodies of a pass over so many rows: that of a slice whose sums wait, and that of the
        last or only one.
        """
        k, a, spec = self.k, self.a, self.spec
        if not spec.sliced:
            yield _Slice(turn, turn, k.integer(0), True)
            return
        group = turn // a["slices"]
        number = turn - group * a["slices"]
        with k.if_(number.equals(0)), k.loop(0, rows * a["columns"] * spec.blocks) as vector:
            zero = k.constant(0.0, F32, spec.lanes)
            k.store(zero, a["sums"] + vector * (spec.lanes * F32.bytes))
        with k.if_else(number + 1 < a["slices"]) as (waits, ends):
            with waits:
                yield _Slice(turn, group, number, False)
            with ends:
                yield _Slice(turn, group, number, True)

    def row(self, image: Value, plane: Value, y: Value, in_strip: Value, which: _Slice) -> None:
        """The tiles of a row of a plane, the number of which in its strip is known too, for one
        slice of one set of outputs.
        """
        k, a, spec = self.k, self.a, self.spec
        source = a["source"] + image * a["source_image"] + plane * a["source_plane"]
        source = source + y * a["source_row"]
        if spec.sliced:
            source = source + which.number * a["slice_source"]
        sums = a["sums"] + in_strip * a["columns"] * self.pixel_of_sums
        target = a["target"] + image * a["target_image"] + plane * a["target_plane"]
        target = target + y * a["target_row"]
        first, count = _taps(k, a, plane, y)
        x = k.variable(k.integer(0))

        def take_tiles(kind: int) -> None:
            seen, made = source + x.get() * a["step"], target + x.get() * spec.pixel
            waiting = sums + x.get() * self.pixel_of_sums
            self._tile(kind, which, seen, made, waiting, first, count)
            x.set(x.get() + spec.widths[kind])

        if not spec.open:
            for kind in range(len(spec.widths)):
                if spec.amx:
                    with k.if_(a[f"tiles_{kind}"] > 0):
                        self._configure(kind)
                with k.loop(0, a[f"tiles_{kind}"]):
                    take_tiles(kind)
            return
        chosen = k.integer(next_tiles(spec.widths))
        with k.while_(lambda: x.get() < a["columns"]):
            left = a["columns"] - x.get()
            next_tile = chosen >> k.minimum(left, k.integer(CHOSEN)) * KIND_BITS
            next_tile = next_tile & (1 << KIND_BITS) - 1
            next_tile = k.select(left > CHOSEN, k.integer(0), next_tile)
            for kind in range(len(spec.widths)):
                with k.if_(next_tile.equals(kind)):
                    if spec.amx:
                        self._configure(kind)
                    take_tiles(kind)

    def _configure(self, kind: int) -> None:
        """Make the registers of AMX ready for tiles of a kind."""
        amx.configure(self.k, self.configurations[kind])

    def _tile(
        self,
        kind: int,
        which: _Slice,
        seen: Value,
        made: Value,
        sums: Value,
        first: Value,
        count: Value,
    ) -> None:
        """A tile of a slice of a set of outputs, by `count` taps from the `first` on."""
        k, a, spec, group = self.k, self.a, self.spec, which.group
        own = advanced_operands(
            spec.end, self.target_operands, group * (spec.blocks * spec.lanes * 4)
        )
        given = [
            count,
            seen,
            a["step"],
            a["decoded"] if spec.stored else a["filters"] + which.turn * a["group"],
            a["table"] + first * ENTRY,
            self.ahead.get(),
            made + group * a["target_block"] * spec.blocks,
            a["target_block"],
        ]
        if spec.partial:
            passed = group * (spec.blocks * spec.lanes)
            given += [a["low"] - passed, a["high"] - passed]
        if spec.sliced:
            given.append(sums)
        if which.ends:
            k.call(self.tiles[kind], [*given, *own.values()])
        else:
            k.call(self.adding[kind], given)
        with k.if_(a["asks_ahead"] > 0):  # what is left of the next set, then its last part again
            size = spec.stored.bits // 8 if spec.stored else spec.size
            part = count * (spec.inner * spec.blocks * spec.lanes * size // AHEAD_TILES)
            last = a["filters"] + (which.turn + 2) * a["group"] - part
            self.ahead.set(k.minimum(self.ahead.get() + part, last))


def _taps(k: Kernel, a: dict[str, Value], plane: Value, y: Value) -> tuple[Value, Value]:
    """The taps of a row of a plane that are on the data: the first one, and how many."""
    taps, dilation = a["taps"], a["tap_dilation"]
    line = a["line"] + plane * a["tap_plane"] + y * a["tap_stride"]
    first = k.minimum(k.maximum(dilation - 1 - line, k.integer(0)) // dilation, taps)
    end = k.maximum(a["height"] - line + (dilation - 1), k.integer(0)) // dilation
    number = k.maximum(k.minimum(end, taps) - first, k.integer(0))
    return first * a["count"], number * a["count"]


def _tile(outer: Kernel, spec: Dense, width: int, waits: bool = False) -> Kernel:
    """A tile of so many pixels; where it `waits`, its sums are stored for the next slice."""

    def places(k: Kernel, number: Value, a: dict[str, Value]) -> tuple[Value, Value]:
        entry = a["table"] + number * ENTRY
        return a["source"] + k.load(entry, I64), a["filters"] + k.load(entry + 8, I64)

    read: dict[tuple[str, int], Value] = {}

    def waiting(k: Kernel, pixel: int, vector: int, a: dict[str, Value]) -> Value:
        """The sum that waits."""
        return k.load(waiting_place(pixel, vector, a), F32, wide)

    def waiting_place(pixel: int, vector: int, a: dict[str, Value]) -> Value:
        return a["sums"] + (pixel * shape.blocks + vector) * wide * F32.bytes

    def ask_for_results(k: Kernel, number: Value, a: dict[str, Value]) -> None:
        """Ask for a line of each block where results are stored and operands are read, one line
        with each step.
        """
        kinds = zip(spec.end.arguments, spec.end.operands, strict=True)
        beside = [a[name] for name, kind in kinds if kind == ELEMENT]
        with k.if_(number < -(-width * spec.lanes * spec.size // LINE)):
            for block in range(spec.blocks):
                place = a["target"] + a["target_block"] * block + number * LINE
                for where in (place, *[place + distance for distance in beside]):
                    k.prefetch(where)

    def wait(k: Kernel, pixel: int, vector: int, total: Value, a: dict[str, Value]) -> None:
        """Store a sum for the next slice."""
        k.store(total, waiting_place(pixel, vector, a))

    def end(k: Kernel, pixel: int, vector: int, total: Value, a: dict[str, Value]) -> None:
        """Store the result of a sum."""
        block, part = divmod(vector, spec.block_vectors)
        first, lane = block * spec.vector_members, part * own
        in_block = pixel * spec.pixel + lane * spec.size
        places = [
            a["target"] + a["target_block"] * (first + n) + in_block
            for n in range(spec.vector_members)
        ]

        def operand(name: str, kind: str) -> Value:
            if kind == ELEMENT:
                return side_by_side(
                    [read_held(k, place + a[name], own, spec.half) for place in places]
                )
            # Read once for all pixels: results are stored between them, so LLVM may not do that.
            if kind == CHANNEL:
                if (name, vector) not in read:
                    read[name, vector] = k.load(a[name] + vector * wide * F32.bytes, F32, wide)
                return read[name, vector]
            if (name, 0) not in read:
                read[name, 0] = k.splat(k.load(a[name], F32), wide)
            return read[name, 0]

        made = apply_epilogue(k, spec.end, total, operand)
        for n, place in enumerate(places):
            stored = made.part(n * own, own)
            if spec.partial:
                passed = (first + n) * spec.lanes + lane
                before, end = (k.lanes_below(a[name] - passed, own) for name in _STORED)
                write(k, stored, place, spec.half, before ^ end)
            else:
                write(k, stored, place, spec.half)

    #: Outputs of a vector, and those of them that lie in one block.
    wide, own, shape = spec.vector, spec.lanes // spec.block_vectors, _shape(spec, width)
    arguments = (
        *_ARGUMENTS,
        *(_STORED if spec.partial else ()),
        *(("sums",) if spec.sliced else ()),
        *(() if waits else spec.end.arguments),
    )
    return tile(
        outer,
        f"adding_{width}" if waits else f"tile_{width}",
        shape,
        arguments,
        places,
        wait if waits else end,
        waiting if spec.sliced else None,
        None if waits else ask_for_results,
    )


def _shape(spec: Dense, width: int) -> TileShape:
    """What a tile of so many pixels multiplies."""
    stored = spec.stored.bits // 8 if spec.stored else 0
    return TileShape(
        spec.vector, spec.inner, spec.vectors, width, None, spec.half, spec.amx, stored
    )


def side_by_side(parts: Sequence[Value]) -> Value:
    """Two vectors joined end to end; one vector as it is."""
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    return one.kernel.picked(one, other, range(2 * one.lanes))
