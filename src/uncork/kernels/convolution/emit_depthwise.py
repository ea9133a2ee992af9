"""Convolutions of groups that are parts of a block of channels: some pixels of a row at a time,
filters of few taps in registers.

A lane sees its own channel or, where groups have several members, each member of its group in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from uncork.kernels.codegen.emit import F32, Kernel, Value, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, apply_epilogue, relative_operands
from uncork.kernels.convolution.emit_blocks import side_by_side
from uncork.kernels.convolution.emit_numbers import read, write
from uncork.kernels.convolution.emit_rows import PixelRow, Pixels, columns_seen, walk_rows
from uncork.kernels.convolution.spec_blocks import Depthwise, holds_filters
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.register_tiles import FEW_REGISTERS


@emitter
def emit_depthwise(k: Kernel, spec: Depthwise) -> None:
    """The LLVM text of the kernel."""
    a, own = k.named, spec.lanes * F32.bytes
    places = relative_operands(spec.end, a, a["target"])
    count, wide = spec.lines * spec.columns * spec.members, spec.lanes * spec.vector_members

    target = k.target
    registers = FEW_REGISTERS if target is None else target.vector_registers
    vectors = 1 if target is None else max(1, wide // target.lanes)
    holds = holds_filters(registers, count, vectors)

    def of_plane(plane: Value) -> tuple[Pixels, Pixels]:
        whole = plane // a["result_depth"] if spec.deep else plane
        block = whole - whole // a["channels"] * a["channels"]
        filters = a["filters"] + block * (count * own * spec.vector_members)
        ends = advanced_operands(spec.end, places, block * own)
        held = (
            [k.load(filters + tap * wide * 4, F32, wide) for tap in range(count)] if holds else []
        )

        def border(row: PixelRow, x: Value) -> None:
            _border(k, spec, row, filters, x, ends)

        def inside(row: PixelRow, x: Value) -> None:
            _inside(k, spec, row, filters, held, x, ends)

        return border, inside

    nothing = k.constant(0.0, F32, spec.lanes), a["zeros"]
    walk_rows(k, spec, nothing, spec.width * spec.vector_members, of_plane)


def _inside(
    k: Kernel,
    spec: Depthwise,
    own: PixelRow,
    filters: Value,
    held: list[Value],
    x: Value,
    ends: Mapping[str, Value],
) -> None:
    """Pixels of which all columns of taps are on the data."""
    pixel = spec.lanes * spec.size
    column = (x * spec.stride[1] - k.named["left"]) * pixel
    wide = spec.lanes * spec.vector_members
    sums = [k.constant(0.0, F32, wide)] * spec.width
    # Several windows see a pixel: what a member has there is brought to all lanes once for them.
    sees = columns_seen(spec, spec.vector_members)
    for row, line in enumerate(own.lines):
        here = line + column
        for member in range(spec.members):
            first, step = row * spec.columns * spec.members + member, spec.members
            weights = [
                held[index] if held else k.load(filters + index * wide * 4, F32, wide)
                for index in range(first, first + spec.columns * step, step)
            ]
            for place, windows in sees.items():
                cell = _member(k, spec, here + place * pixel, wide, member)
                for p, tap in windows:
                    sums[p] = k.fma(cell, weights[tap], sums[p])
    for p, total in enumerate(sums):
        _store(k, spec, total, own.made + x * pixel + p * spec.vector_members * pixel, ends)


def _border(
    k: Kernel,
    spec: Depthwise,
    own: PixelRow,
    filters: Value,
    x: Value,
    ends: Mapping[str, Value],
) -> None:
    """A pixel of which some columns of taps may be outside."""
    a, pixel = k.named, spec.lanes * spec.size
    # A sum for each row of taps: one alone would wait for each of its products.
    totals = [k.variable(k.constant(0.0, F32, spec.lanes)) for _ in own.lines]
    with k.loop(0, spec.columns) as tap:
        column = x * spec.stride[1] - a["left"] + tap * spec.dilation[1]
        with k.if_(column.below(a["width"])):
            for member, (row, line) in product(range(spec.members), enumerate(own.lines)):
                seen = _member(k, spec, line + column * pixel, spec.lanes, member)
                number = (tap + row * spec.columns) * spec.members + member
                apart = number * (spec.lanes * F32.bytes * spec.vector_members)
                weight = k.load(filters + apart, F32, spec.lanes)
                totals[row].set(k.fma(seen, weight, totals[row].get()))
    total = totals[0].get()
    for other in totals[1:]:
        total = total + other.get()
    _store(k, spec, total, own.made + x * pixel, ends)


def _member(k: Kernel, spec: Depthwise, place: Value, lanes: int, member: int) -> Value:
    """A vector that has, in each lane, the member with number `member` of that lane's group, from
    the numbers at a place.
    """
    members = spec.members
    if members == lanes:
        return k.splat(read(k, place + member * spec.size, 1, spec.half), lanes)
    cell = read(k, place, lanes, spec.half)
    if members == 1:
        return cell
    return k.picked(cell, cell, [lane // members * members + member for lane in range(lanes)])


def _store(
    k: Kernel, spec: Depthwise, total: Value, place: Value, ends: Mapping[str, Value]
) -> None:
    def operand(name: str, kind: str) -> Value:
        if kind == ELEMENT:
            return read(k, place + ends[name], total.lanes, spec.half)
        own = k.load(ends[name], F32, spec.lanes if kind == CHANNEL else 1)
        return side_by_side([own] * (total.lanes // spec.lanes)) if kind == CHANNEL else own

    write(k, apply_epilogue(k, spec.end, total, operand), place, spec.half)
