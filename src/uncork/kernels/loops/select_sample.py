"""Which loop nest reads images between their cells: GridSample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from uncork.kernels.extents import (
    compute_nothing_of,
    decline_if,
    is_empty,
    may_be_empty,
    product,
)
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View, computed_type
from uncork.ops.grid_sample import GridSample9
from uncork.symbolic import SizeLike

#: Coordinates are cut so far outside: an image has no such cells; only where it is mirrored without
#: end, a cell is still one of its own, and the reference cuts there.
_FAR, _FAR_MIRRORED = float(1 << 30), float(1 << 40)
#: Cells of an image that 32 bits count, the bytes of each included.
_MOST_CELLS = 1 << 28
#: Of mirrored images: the period must be a whole number of f32.
_MOST_MIRRORED = 1 << 22
#: Rows of less than so many vectors are joined, where they do not fill whole ones.
_SHORT = 4
#: How far Keys' kernel goes below zero.
_CUBIC = -0.75


def select_sampling(layer: Layer) -> Selection:
    sample = cast("GridSample9", layer.operation)
    name, places = (layer.input(position).element_type.name for position in (0, 1))
    decline_if(
        computed_type(name) != "f32" or computed_type(places) != "f32",
        f"no kernel for {name} at places of {places}",
    )
    shape, result = layer.shape(0), layer.result()
    compute_nothing_of(result, "sample")
    decline_if(is_empty(shape[:2]) or may_be_empty(shape[2:]), "no cells to look at")
    cells = product(shape[2:])
    # Rows that fill no vectors are one row: each of their places is looked at by itself.
    lanes, columns = layer.target.lanes, result[3]
    joined = isinstance(columns, int) and columns < _SHORT * lanes and columns % lanes != 0
    axes = "nx" if joined else "nyx"
    rows = (product(result[2:]),) if joined else result[2:]
    where = ", ".join(axes[1:])
    lines = [f"{' '.join(axes)}*:", *(f"  {line}" for line in _lines(sample, where))]
    sizes = dict(zip(f"nc{axes[1:]}", (*result[:2], *rows), strict=True))
    views = {
        "F": View(In(0), name, (*shape[:2], cells)),
        "Y": View(Out(0), name, (*result[:2], *rows)),
        "G": View(In(1), places, (result[0], *rows[:-1], 2 * rows[-1])),
    }
    taps = {"nearest": 1, "bilinear": 4, "bicubic": 16}[sample.mode]
    return Call(
        "sample",
        "\n".join([*_limits(sample, shape), *lines]),
        sizes | {"h": shape[2], "w": shape[3]},
        views,
        layer.target,
        1,
        product(result) * taps,
        shared=("n", "c") if joined else ("n", "y"),
        scalar_type=computed_type(name),
    ).native()


def _limits(sample: GridSample9, shape: Sequence[SizeLike]) -> list[str]:
    """The lines that refuse an image which is too large; of known sizes, that is known here."""
    height, width = shape[2:]
    mirrored = sample.padding_mode == "reflection"
    if isinstance(height, int) and isinstance(width, int):
        decline_if(height * width > _MOST_CELLS, "no kernel for so large an image")
        decline_if(
            mirrored and max(height, width) > _MOST_MIRRORED,
            "no kernel for mirrored images of that size",
        )
        return []
    limits = [f"refused = number(h) * number(w) > {float(_MOST_CELLS)}"]
    if mirrored:
        limits.append(f"refused = larger(number(h), number(w)) > {float(_MOST_MIRRORED)}")
    return limits


def _lines(sample: GridSample9, where: str) -> list[str]:
    """The cells around the place of each pixel, which is `where`, and their sum by weights, channel
    by channel.

    Columns have names with x, rows with y; a row is counted by the cells before it.
    """
    grid = f"G[n, {where.replace('x', '2*x')} + "
    lines = [_coordinate(sample, "u", f"{grid}0]", "w"), _coordinate(sample, "v", f"{grid}1]", "h")]
    if sample.mode == "nearest":
        # of a NaN there is no cell: adding 0 times it makes a NaN of what is read
        lines += ["l = rint(u)", "t = rint(v)", *_cell(sample, "x0", "l", "w")]
        lines += [*_cell(sample, "y0", "t", "h"), "o = y0 + x0"]
        lines += ["b = either(differs(u), differs(v))", "r = u + v"]
        return [*lines, f"c: Y[n, c, {where}] = where(b, r, {_read(sample, 'o', 0, 0)})"]
    taps = range(2) if sample.mode == "bilinear" else range(-1, 3)
    lines += ["l = floor(u)", "t = floor(v)", "p = u - l", "q = v - t"]
    for name, part, place, size in (("x", "p", "l", "w"), ("y", "q", "t", "h")):
        for index, tap in enumerate(taps):
            lines += _cell(sample, f"{name}{index}", f"({place} + {float(tap)})", size)
            lines.append(f"w{name}{index} = {_weight(sample, part, tap)}")
    count = len(taps)
    lines += [f"o{r}{c} = y{r} + x{c}" for r in range(count) for c in range(count)]
    rows = []
    for r in range(count):
        cells = [f"wx{c} * {_read(sample, f'o{r}{c}', r, c)}" for c in range(count)]
        rows.append(f"wy{r} * ({' + '.join(cells)})")
    return [*lines, f"c: Y[n, c, {where}] = {' + '.join(rows)}"]


def _coordinate(sample: GridSample9, name: str, place: str, size: str) -> str:
    raised = f"({place} + 1.0)"
    centre = (
        f"{raised} * number({size} - 1)"
        if sample.align_corners
        else f"({raised} * number({size}) - 1.0)"
    )
    far = _FAR_MIRRORED if sample.padding_mode == "reflection" else _FAR
    return f"{name} = smaller(larger({centre} / 2.0, {-far}), {far})"


def _weight(sample: GridSample9, part: str, tap: int) -> str:
    """The expression of the weight of a cell, `tap` cells from the one below the place."""
    if sample.mode == "bilinear":
        return part if tap else f"1.0 - {part}"
    distance = {-1: f"({part} + 1.0)", 0: part, 1: f"(1.0 - {part})", 2: f"(2.0 - {part})"}[tap]
    if tap in (0, 1):
        return f"({_CUBIC + 2} * {distance} - {_CUBIC + 3}) * {distance} * {distance} + 1.0"
    return f"(({distance} - 5.0) * {distance} + 8.0) * {distance} * {_CUBIC} - {4 * _CUBIC}"


def _cell(sample: GridSample9, name: str, place: str, size: str) -> list[str]:
    """The lines that make a whole coordinate an integer. NaN becomes 0; its weight is NaN. With
    zeros around the image they also tell whether it is inside.
    """
    whole, last = f"where(differs({place}), 0.0, {place})", f"number({size} - 1)"
    lines = [f"z = {whole}"]
    if sample.padding_mode == "zeros":
        lines.append(f"in{name} = both(z >= 0.0, z <= {last})")
    if sample.padding_mode != "reflection":
        lines.append(f"z = smaller(larger(z, 0.0), {last})")
    elif sample.align_corners:
        lines.append(f"z = {last} - abs(remainder(z, larger(2.0 * {last}, 1.0)) - {last})")
    else:
        lines += [f"z = remainder(z, 2.0 * number({size}))"]
        lines += [f"z = smaller(z, 2.0 * number({size}) - 1.0 - z)"]
    number = "truncated(z)"
    return [*lines, f"{name} = {number} * integer(w)" if size == "h" else f"{name} = {number}"]


def _read(sample: GridSample9, place: str, row: int, column: int) -> str:
    cell = f"F[n, c, at({place})]"
    if sample.padding_mode != "zeros":
        return cell
    return f"where(both(iny{row}, inx{column}), {cell}, 0.0)"
