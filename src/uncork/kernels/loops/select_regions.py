"""Selection of the loop nests that sample images within boxes: ROIAlign."""

from __future__ import annotations

from typing import cast

from uncork.kernels.extents import compute_nothing_of, decline_if, may_be_empty, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View, computed_type
from uncork.kernels.loops.regions import Rooms, pooled
from uncork.ops.roi_align import ROIAlign3
from uncork.symbolic import SizeLike

#: A bin of more cells along an axis is left to the reference, which looks for memory first.
_MOST_CELLS = 65536
#: So many cells of a bin are written out; more are a loop.
_WRITTEN_OUT = 2
#: Sizes of images beyond which whole coordinates are no numbers of f32.
MOST_SIZE = 1 << 24
#: Numbers of a box as rows and columns: where it begins and ends.
_CORNERS = {"x": (0, 2), "y": (1, 3)}


def select_align(layer: Layer) -> Selection:
    align = cast("ROIAlign3", layer.operation)
    data, images = layer.input(0), layer.input(2)
    name, shape, result = data.element_type.name, layer.shape(0), layer.result()
    compute_nothing_of(result, "align")
    decline_if(may_be_empty(shape[2:]), "no cells to look at")
    mean = align.mode == "avg"
    lines = ["n:", *_begin(align), *(mean_lines(align) if mean else _largest(align))]
    computed = computed_type(name)
    boxes, channels, height, width = result[0], shape[1], shape[2], shape[3]
    rooms = Rooms(computed)
    views = {
        "X": View(In(0), name, shape),
        "R": View(In(1), name, (boxes, 4)),
        "I": View(In(2), images.element_type.name, (boxes,)),
        "Y": View(Out(0), name, result),
        "Z": View(Out(0), name, (boxes, product(result[1:]))),
    }
    if mean:
        views |= rooms.bins((align.pooled_h, align.pooled_w), (height, width), weighted=True)
    else:
        views["T"] = rooms.view((channels,))
    sizes: dict[str, SizeLike] = {
        **{"n": boxes, "c": channels, "y": align.pooled_h, "x": align.pooled_w},
        **{
            "z": product(result[1:]),
            "images": shape[0],
            "h": height,
            "w": width,
            "ey": height,
            "ex": width,
        },
    }
    taps = max(1, align.sampling_ratio) * 8
    return Call(
        "align",
        "\n".join(lines),
        sizes,
        views,
        layer.target,
        1,
        product(result) * taps,
        rooms.size,
        shared="n",
    ).native()


def _begin(align: ROIAlign3) -> list[str]:
    """The lines that find the image of a box and, along each axis, where the box begins (sx), a
    bin's side (px), its cells (cx) and a cell's side (dx).
    """
    lines = [
        "b = real(I[n])",
        f"refused = either(number(h) > {MOST_SIZE}.0, number(w) > {MOST_SIZE}.0)",
        "refused = either(b < 0.0, b >= number(images))",
        "b = truncated(b)",
    ]
    least = 1.0 if align.aligned_mode == "asymmetric" else None
    for axis in "xy":
        low, high = (_corner(align, number) for number in _CORNERS[axis])
        lines += frame(align, axis, low, high, least)
    return [f"  {line}" for line in lines]


def frame(align: ROIAlign3, axis: str, low: str, high: str, least: float | None) -> list[str]:
    """The lines that find, along an axis, where a box begins (sx), a bin's side (px), its cells
    (cx) and a cell's side (dx). The box is at least `least` long.
    """
    bins = align.pooled_w if axis == "x" else align.pooled_h
    lines = [f"s{axis} = {low}", f"g = {high} - s{axis}"]
    if least is not None:
        lines.append(f"g = larger(g, {least})")
    lines.append(f"p{axis} = g / {float(bins)}")
    if not align.sampling_ratio:  # a side that is no number has no cells
        is_finite = f"p{axis} - p{axis} == 0.0"
        lines.append(f"c{axis} = where({is_finite}, larger(-floor(-p{axis}), 0.0), 0.0)")
        lines.append(f"refused = c{axis} > {_MOST_CELLS}.0")
    lines.append(f"d{axis} = p{axis} / {_count(align, axis)}")
    return lines


def _count(align: ROIAlign3, axis: str) -> str:
    """The cells of a bin along an axis as a divisor."""
    return f"{float(align.sampling_ratio)}" if align.sampling_ratio else f"larger(c{axis}, 1.0)"


def _cells(align: ROIAlign3, axis: str) -> str:
    """The loop over the cells of a bin."""
    return (
        f"k{axis}={align.sampling_ratio}:"
        if 0 < align.sampling_ratio <= _WRITTEN_OUT
        else (f"k{axis}=0..{align.sampling_ratio or f'c{axis}'}:")
    )


def _corner(align: ROIAlign3, number: int) -> str:
    """The expression of a box's corner in the coordinates of the image."""
    moved = f"(R[n, {number}] + 0.5)" if align.aligned_mode == "half_pixel" else f"R[n, {number}]"
    scaled = f"{moved} * {literal(align.spatial_scale)}"
    return scaled if align.aligned_mode == "asymmetric" else f"({scaled} - 0.5)"


def _cell(axis: str, turn: str, size: str) -> list[str]:
    """The lines of a cell along an axis: whether it is near the image (ix), the cell of the image
    below its middle (lx), how far it is behind it (fx), and whether there is a next one (jx).
    """
    last = f"number({size} - 1)"
    return [
        f"z = s{axis} + number({axis}) * p{axis} + d{axis} * (number({turn}) + 0.5)",
        f"i{axis} = both(z >= -1.0, z <= number({size}))",
        f"z = where(i{axis}, smaller(larger(z, 0.0), {last}), 0.0)",
        f"l{axis} = floor(z)",
        f"f{axis} = z - l{axis}",
        f"j{axis} = both(i{axis}, l{axis} < {last})",
        f"q{axis} = truncated(l{axis})",
        f"r{axis} = truncated(smaller(l{axis} + 1.0, {last}))",
    ]


def _weights(align: ROIAlign3, axis: str, size: str) -> list[str]:
    """The mean of a bin's cells is a sum of the image's cells by weights: those of each bin (Px),
    and from where to where they are (Ax, Bx).
    """
    zeros = f"  e{axis}*: P{axis}[{axis}, e{axis}] = 0.0"
    lines = [f"{axis}:", zeros, f"  {_cells(align, axis)}"]
    inside = [
        *_cell(axis, f"k{axis}", size),
        f"first = min(where(i{axis}, l{axis}, number({size})))",
        f"last = max(where(i{axis}, smaller(l{axis} + 2.0, number({size})), 0.0))",
    ]
    for place, condition, weight in (
        ("q", "i", f"(1.0 - f{axis})"),
        ("r", "j", f"f{axis}"),
    ):
        share = f"{weight} / {_count(align, axis)}"
        cell = f"P{axis}[{axis}, at({place}{axis})]"
        inside.append(f"{cell} = {cell} + where({condition}{axis}, {share}, 0.0)")
    lines += [f"    {line}" for line in inside]
    lines += [
        f"  A{axis}[{axis}] = truncated(smaller(first, number({size})))",
        f"  B{axis}[{axis}] = truncated(larger(last, 0.0))",
    ]
    return lines


def mean_lines(align: ROIAlign3) -> list[str]:
    """The lines that pool means of bins."""
    weights = [*_weights(align, "x", "w"), *_weights(align, "y", "h")]
    return [f"  {line}" for line in (*weights, *pooled(weighted=True))]


def _largest(align: ROIAlign3) -> list[str]:
    """The lines that pool the largest values, cell by cell, all channels together: the largest of a
    bin's values and 0.
    """
    rows = []
    for index, (row, inside) in enumerate((("qy", ""), ("ry", "jy"))):
        cells = []
        for column, condition in (("qx", inside), ("rx", "both(jx, jy)" if inside else "jx")):
            cell = f"X[at(b), c, at({row}), at({column})]"
            cells.append(f"where({condition}, {cell}, 0.0)" if condition else cell)
        weight = "fy" if index else "(1.0 - fy)"
        rows.append(f"{weight} * ((1.0 - fx) * {cells[0]} + fx * {cells[1]})")
    value = f"where(both(ix, iy), {rows[0]} + {rows[1]}, 0.0)"
    lines = [
        "y x:",
        "  c*: T[c] = 0.0",
        f"  {_cells(align, 'y')}",
        *(f"    {line}" for line in _cell("y", "ky", "h")),
        f"    {_cells(align, 'x')}",
        *(f"      {line}" for line in _cell("x", "kx", "w")),
        f"      c*: T[c] = larger(T[c], {value})",
        "  c: Y[n, c, y, x] = T[c]",
    ]
    return [f"  {line}" for line in lines]
