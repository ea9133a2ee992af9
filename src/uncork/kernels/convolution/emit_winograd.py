"""Winograd's convolutions over blocks of channels, some tiles at a time that stay in the
second-level cache.

The data of these tiles are transformed, multiplied with the filters at each position of a tile, and
the products transformed to pixels. Tiles at the borders see zeros outside, and give the pixels that
exist. The kernel gives up where a result is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.epilogue import advanced_operands, apply_epilogue, relative_operands
from uncork.kernels.codegen.functions import negated
from uncork.kernels.convolution.emit_numbers import held_type, read, write
from uncork.kernels.convolution.microkernel_blocks import tile
from uncork.kernels.convolution.spec_blocks import KINDS, Winograd
from uncork.kernels.convolution.tiles import TileShape
from uncork.kernels.convolution.winograd import Matrix, transforms
from uncork.kernels.epilogue import CHANNEL, ELEMENT


class _Strip(Struct, frozen=True):
    """Some tiles that are computed together: the first one, how many, and where their data,
    products and a tile of pixels lie.
    """

    first: Value
    count: Value
    data: Value
    data_block: Value
    data_position: Value
    made: Value
    made_block: Value
    made_position: Value
    patch: Value


@emitter
def emit_winograd(k: Kernel, spec: Winograd) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    functions = [_products(k, spec, width) for width in spec.widths]
    into, out = _into(k, spec), _out(k, spec)
    side = spec.outputs + 2
    places = relative_operands(spec.end, a, a["target"])
    group = k.variable(a["first"])
    with k.while_(lambda: group.get() < a["end"]):
        last = k.minimum(group.get() + a["strip"], a["end"])
        strip = _strip(k, spec, a, _begin(k, spec, a, group.get()), _begin(k, spec, a, last))
        _each_tile(k, spec, a, strip, into, None)
        with k.loop(0, side * side) as position, k.loop(0, a["groups"]) as outputs:
            _multiply(k, spec, strip, functions, group.get(), last, position, outputs)
        _each_tile(k, spec, a, strip, out, places)
        group.set(last)


def _begin(k: Kernel, spec: Winograd, a: dict[str, Value], group: Value) -> Value:
    """The first tile of a group: groups of each kind follow those of the kind before."""
    begin, left = k.integer(0), group
    for kind, width in enumerate(spec.widths):
        of_kind = k.maximum(k.minimum(left, a[f"tiles_{kind}"]), k.integer(0))
        begin, left = begin + of_kind * width, left - a[f"tiles_{kind}"]
    return begin


def _strip(k: Kernel, spec: Winograd, a: dict[str, Value], first: Value, end: Value) -> _Strip:
    side = spec.outputs + 2
    patch = a["scratch"]
    data = patch + side * side * max(spec.lanes, spec.inner) * 4
    # `scratch` tiles, and an odd number of cache lines from position to position: else all of them
    # would meet in a few sets of the cache.
    data_block, made_block = (
        a["strip_tiles"] * (spec.inner * spec.inside),
        a["strip_tiles"] * (spec.lanes * 4),
    )
    data_position = _seen_blocks(k, spec) * data_block + 64
    made_position = a["groups"] * spec.blocks * made_block + 64
    made = data + data_position * (side * side)
    return _Strip(
        first, end - first, data, data_block, data_position, made, made_block, made_position, patch
    )


def _each_tile(
    k: Kernel,
    spec: Winograd,
    a: dict[str, Value],
    strip: _Strip,
    function: Kernel,
    ends: dict[str, Value] | None,
) -> None:
    """The transform of every tile, for all blocks: of the data, or with `ends` of the products."""
    m = spec.outputs
    blocks = _seen_blocks(k, spec) if ends is None else a["groups"] * spec.blocks
    # What is computed past the last tile is that one again.
    count = strip.count if ends is None else k.minimum(strip.count, a["all_tiles"] - strip.first)
    with k.loop(0, blocks) as block, k.loop(0, count) as number:
        place = k.minimum(strip.first + number, a["all_tiles"] - 1)
        line = place // a["across"]
        image = line // a["down"]
        y, x = (line - image * a["down"]) * m, (place - line * a["across"]) * m
        if ends is None:
            source, height = _seen(k, spec, image, block)
            target = strip.data + block * strip.data_block + number * (spec.inner * spec.inside)
            where = [y - a["top"], x - a["left"], height, a["width"], a["source_row"]]
            k.call(function, [source, target, strip.data_position, strip.patch, *where])
        else:
            source = strip.made + block * strip.made_block + number * (spec.lanes * 4)
            target = a["target"] + _of_image(k, spec, image) + block * a["target_block"]
            target = target + y * a["target_row"] + x * (spec.lanes * spec.size)
            where = [
                k.minimum(a["result_height"] - y, k.integer(m)),
                k.minimum(a["result_width"] - x, k.integer(m)),
                a["target_row"],
            ]
            own = advanced_operands(spec.end, ends, block * (spec.lanes * 4))
            status = k.call(
                function, [source, target, strip.made_position, strip.patch, *where, *own.values()]
            )
            k.stop_unless(status.equals(0), k.integer(1))


def _seen_blocks(k: Kernel, spec: Winograd) -> Value:
    """The blocks of data that a tile sees."""
    a = k.named
    return a["channels"] * a["plane_taps"] if spec.volumes else a["channels"]


def _plane(k: Kernel, image: Value) -> tuple[Value, Value]:
    """The image and the plane of it, where planes count as images."""
    whole = image // k.named["planes"]
    return whole, image - whole * k.named["planes"]


def _of_image(k: Kernel, spec: Winograd, image: Value) -> Value:
    """Bytes to an image of the result, or to a plane of it."""
    a = k.named
    if not spec.volumes:
        return image * a["target_image"]
    whole, plane = _plane(k, image)
    return whole * a["target_image"] + plane * a["target_plane"]


def _seen(k: Kernel, spec: Winograd, image: Value, block: Value) -> tuple[Value, Value]:
    """Where a block of what tiles of an image see lies, and its height: 0 outside of the data."""
    a = k.named
    if not spec.volumes:
        return a["source"] + image * a["source_image"] + block * a["source_block"], a["height"]
    whole, plane = _plane(k, image)
    tap = block // a["channels"]
    place = a["front"] + plane * a["plane_stride"] + tap * a["plane_dilation"]
    source = a["source"] + whole * a["source_image"] + place * a["source_plane"]
    source = source + (block - tap * a["channels"]) * a["source_block"]
    return source, k.select(place.below(a["depth"]), a["height"], k.integer(0))


def _multiply(
    k: Kernel,
    spec: Winograd,
    strip: _Strip,
    functions: Sequence[Kernel],
    first: Value,
    last: Value,
    position: Value,
    outputs: Value,
) -> None:
    """All tiles of a strip at a position, for a group of outputs."""
    a = k.named
    step = spec.inner * spec.blocks * spec.lanes * spec.inside
    all_channels = a["channels"] * a["all_taps"] if spec.volumes else a["channels"]
    filters = a["filters"] + (position * a["all_groups"] + outputs) * all_channels * step
    source = strip.data + position * strip.data_position
    target = strip.made + position * strip.made_position + outputs * strip.made_block * spec.blocks
    begun, tiles = k.variable(k.integer(0)), k.variable(k.integer(0))
    for kind, (width, function) in enumerate(zip(spec.widths, functions, strict=True)):
        begin, end = begun.get(), begun.get() + a[f"tiles_{kind}"]
        with k.loop(k.maximum(first, begin), k.minimum(last, end)):
            place = tiles.get()
            given = [
                source + place * (spec.inner * spec.inside),
                filters,
                strip.data_block,
                target + place * (spec.lanes * 4),
                strip.made_block,
            ]
            k.call(function, [_seen_blocks(k, spec), *given])
            tiles.set(place + width)
        begun.set(end)
    assert len(spec.widths) <= KINDS


def _products(outer: Kernel, spec: Winograd, width: int) -> Kernel:
    step = spec.inner * spec.blocks * spec.lanes * spec.inside

    def places(k: Kernel, number: Value, a: dict[str, Value]) -> tuple[Value, Value]:
        return a["source"] + number * a["source_block"], a["filters"] + number * step

    def end(k: Kernel, pixel: int, block: int, total: Value, a: dict[str, Value]) -> None:
        k.store(total, a["target"] + a["target_block"] * block + pixel * spec.lanes * 4)

    arguments = ("source", "filters", "source_block", "target", "target_block")
    return tile(
        outer,
        f"products_{width}",
        TileShape(spec.lanes, spec.inner, spec.blocks, width, spec.inner * spec.inside, spec.pairs),
        arguments,
        places,
        end,
    )


def _into(outer: Kernel, spec: Winograd) -> Kernel:
    """A function that transforms the data that a tile sees, of one block; cells outside the data
    are zeros.
    """
    side, lanes = spec.outputs + 2, spec.inner
    arguments = ["source", "target", "position", "patch", "top", "left", "height", "width", "row"]
    k = Kernel("into", arguments, inside=outer)
    source, target, position, patch, top, left, height, width, row = k.arguments
    within = (top >= 0) & (left >= 0) & (top + side <= height) & (left + side <= width)
    pixel, held = lanes * spec.size, held_type(spec.half)
    where, line = k.variable(source + top * row + left * pixel), k.variable(row)
    with k.if_(negated(k, within), likely=False):
        with k.loop(0, side) as y, k.loop(0, side) as x:
            cell = patch + (y * side + x) * pixel
            seen = (top + y).below(height) & (left + x).below(width)
            with k.if_else(seen) as (inside, outside):
                with inside:
                    here = source + (top + y) * row + (left + x) * pixel
                    k.store(k.load(here, held, lanes), cell)
                with outside:
                    write(k, k.constant(0.0, F32, lanes), cell, spec.half)
        where.set(patch)
        line.set(k.integer(side * pixel))
    square = [
        [read(k, where.get() + line.get() * r + x * pixel, lanes, spec.half) for x in range(side)]
        for r in range(side)
    ]
    place = k.variable(target)
    for value in _flat(_both_sides(k, transforms(spec.outputs)[2], square)):
        write(k, value, place.get(), spec.pairs)
        place.set(place.get() + position)
    k.finish()
    return k


def _out(outer: Kernel, spec: Winograd) -> Kernel:
    """A function that transforms the products of a tile, of one block, to pixels and applies the
    epilogue.
    """
    side, lanes, m = spec.outputs + 2, spec.lanes, spec.outputs
    arguments = [
        "source",
        "target",
        "position",
        "patch",
        "rows",
        "columns",
        "row",
        *spec.end.arguments,
    ]
    k = Kernel("out", arguments, inside=outer)
    source, target, position, patch, rows, columns, row, *others = k.arguments
    ends = dict(zip(spec.end.arguments, others, strict=True))
    cells: list[list[Value]] = []
    place: Variable = k.variable(source)
    for _ in range(side):
        cells.append([])
        for _ in range(side):
            cells[-1].append(k.load(place.get(), F32, lanes))
            place.set(place.get() + position)
    # An infinity or NaN of the data would spread over the pixels of its tile: the call is the
    # reference's then.
    rest = k.constant(0.0, F32, lanes)
    for index, value in enumerate(_flat(_both_sides(k, transforms(m)[0], cells))):
        k.store(value, patch + index * lanes * 4)
        rest = k.fma(value, k.constant(0.0, F32, lanes), rest)
    k.stop_unless(k.all_of(rest.equals(0.0)), k.integer(1))
    held = {
        name: k.load(ends[name], F32, lanes if kind == CHANNEL else 1)
        for name, kind in zip(spec.end.arguments, spec.end.operands, strict=True)
        if kind != ELEMENT
    }
    with k.loop(0, rows) as y, k.loop(0, columns) as x:
        pixel = target + y * row + x * (lanes * spec.size)

        def operand(name: str, kind: str) -> Value:
            if kind == ELEMENT:
                return read(k, pixel + ends[name], lanes, spec.half)
            return held[name]

        total = k.load(patch + (y * m + x) * (lanes * 4), F32, lanes)
        write(k, apply_epilogue(k, spec.end, total, operand), pixel, spec.half)
    k.finish()
    return k


def _flat(square: list[list[Value]]) -> list[Value]:
    return [value for line in square for value in line]


def _both_sides(k: Kernel, matrix: Matrix, square: list[list[Value]]) -> list[list[Value]]:
    """matrix @ square @ matrix^T"""
    columns = [_combined(k, matrix, [line[c] for line in square]) for c in range(len(square))]
    return [_combined(k, matrix, [column[r] for column in columns]) for r in range(len(matrix))]


def _combined(k: Kernel, matrix: Matrix, values: list[Value]) -> list[Value]:
    """matrix @ values; rows of opposite points share their even and odd parts."""
    done: list[Value] = []
    while len(done) < len(matrix):
        row, other = matrix[len(done)], matrix[min(len(done) + 1, len(matrix) - 1)]
        opposite = row is not other and all(
            abs(c) == abs(d) for c, d in zip(row, other, strict=True)
        )
        if not opposite:
            done.append(_total(k, [(c, v) for c, v in zip(row, values, strict=True)]))
            continue
        even = _total(k, [(c, v) for c, d, v in zip(row, other, values, strict=True) if c == d])
        odd = _total(k, [(c, v) for c, d, v in zip(row, other, values, strict=True) if c != d])
        done += [even + odd, even - odd]
    return done


def _total(k: Kernel, terms: list[tuple[float, Value]]) -> Value:
    (first, result), *others = [(factor, value) for factor, value in terms if factor != 0]
    result = result if first == 1 else result * first
    for factor, value in others:
        if abs(factor) == 1:
            result = result + value if factor == 1 else result - value
        else:
            result = k.fma(value, k.constant(factor, F32, value.lanes), result)
    return result
