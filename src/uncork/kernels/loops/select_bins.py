"""Selection of the loop nests that pool boxes which name their image: ROIPooling, PSROIPooling."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import compute_nothing_of, decline_if, is_empty, may_be_empty, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View, computed_type
from uncork.kernels.loops.regions import Rooms, pooled
from uncork.ops.psroi_pooling import PSROIPooling1
from uncork.ops.roi_pooling import ROIPooling1
from uncork.symbolic import SizeLike

#: Corners further outside, and larger images, are left to the reference: quotients of cells by bins
#: are to be exact in f32.
_FAR = 32000.0
_MOST_BINS = 128
#: Where a box begins and ends along an axis, among its numbers, with the image's size.
_NUMBERS = {"x": (1, 3, "w"), "y": (2, 4, "h")}


def select_pooling(layer: Layer) -> Selection:
    operation = layer.of(ROIPooling1)
    counts = operation.pooled_h, operation.pooled_w
    scale = literal(operation.spatial_scale)
    if operation.method == "max":
        lines = [line for axis in "xy" for line in _cells(axis, counts["yx".index(axis)], scale)]
    else:
        lines = [line for axis in "xy" for line in _places(axis, counts["yx".index(axis)])]
    weighted = operation.method == "bilinear"
    lines += pooled(weighted)
    return _selected(counts, weighted, lines, layer)


def select_position_sensitive(layer: Layer) -> Selection:
    operation = layer.of(PSROIPooling1)
    decline_if(operation.mode != "average", f"no kernel for {operation.mode}")
    size = operation.group_size
    lines = [line for axis in "xy" for line in _edges(axis, size, literal(operation.spatial_scale))]
    lines += [
        "c y x:",
        "  v=Ay[y]..By[y] o=Ax[x]..Bx[x]: s = sum(X[at(b), c, y, x, v, o])",
        "  cells = number(By[y] - Ay[y]) * number(Bx[x] - Ax[x])",
        "  both_sides = both(number(Ay[y]) < number(By[y]), number(Ax[x]) < number(Bx[x]))",
        "  Y[n, c, y, x] = where(both_sides, s / cells, 0.0)",
    ]
    return _selected((size, size), False, lines, layer, grouped=True)


def _selected(
    counts: tuple[int, int],
    weighted: bool,
    lines: Sequence[str],
    layer: Layer,
    grouped: bool = False,
) -> Selection:
    """The selection of the nest whose `lines` pool the box n of image b; `grouped`: each bin has
    channels of its own.
    """
    name, shape, result = layer.input(0).element_type.name, layer.shape(0), layer.result()
    compute_nothing_of(result, "bins")
    decline_if(is_empty(shape[:2]) or may_be_empty(shape[2:]), "no cells to look at")
    decline_if(max(counts) > _MOST_BINS, "no kernel for so many bins")
    boxes, (images, _, height, width) = result[0], shape
    # The boxes end where one has the image -1: what follows is 0.
    text = "\n".join(
        [
            f"refused = either(number(h) > {_FAR}, number(w) > {_FAR})",
            "n:",
            "  k*=0..n+first_n+1: ended = max(where(E[5*k] == -1.0, 1.0, 0.0))",
            "  here=0..1.0-ended:",
            "    b = R[n, 0]",
            "    refused = either(differs(b), either(b < 0.0, b >= number(images)))",
            "    refused = floor(b) < b",
            "    b = truncated(b)",
            *(f"    {line}" for line in lines),
            "  gone=0..ended:",
            "    z*: Z[n, z] = 0.0",
        ]
    )
    rooms = Rooms(computed_type(name))
    sizes = height, width
    channels = (result[1], *counts) if grouped else (shape[1],)
    views = {
        "X": View(In(0), name, (images, *channels, height, width)),
        "R": View(In(1), name, (boxes, 5)),
        "E": View(In(1), name, (boxes * 5,)),
        "Y": View(Out(0), name, result),
        "Z": View(Out(0), name, (boxes, product(result[1:]))),
        **rooms.bins(counts, sizes, weighted),
    }
    extent: dict[str, SizeLike] = {
        **{"n": boxes, "c": result[1], "y": counts[0], "x": counts[1], "first_n": 0},
        **{"images": images, "h": height, "w": width, "ey": height, "ex": width},
        "z": product(result[1:]),
    }
    return Call(
        "bins", text, extent, views, layer.target, 1, product(result) * 8, rooms.size, shared="n"
    ).native()


def _cells(axis: str, bins: int, scale: str) -> list[str]:
    """The lines that round corners to cells, halves away from zero, and tell where the cells of
    each bin begin and end (A, B).
    """
    first, last, size = _NUMBERS[axis]
    lines = []
    for word, number in (("f", first), ("l", last)):
        lines += [
            f"g = R[n, {number}] * {scale}",
            "g = where(differs(g), 0.0, g)",
            f"refused = abs(g) > {_FAR}",
            f"{word}{axis} = where(g < 0.0, -floor(0.5 - g), floor(g + 0.5))",
        ]
    begin = f"f{axis} + floor(number({axis}) * s{axis} / {float(bins)})"
    end = f"f{axis} - floor(-(number({axis}) + 1.0) * s{axis} / {float(bins)})"
    return [
        *lines,
        f"s{axis} = larger(l{axis} - f{axis} + 1.0, 1.0)",
        f"{axis}:",
        *_bounds(axis, begin, end, size),
    ]


def _edges(axis: str, bins: int, scale: str) -> list[str]:
    """The lines that round corners and scale them; bins reach from the floor to the ceiling of
    their edges.
    """
    first, last, size = _NUMBERS[axis]
    lines = []
    for word, number, more in (("f", first, "0.0"), ("l", last, "1.0")):
        lines += [
            f"g = R[n, {number}]",
            "g = where(g < 0.0, -floor(0.5 - g), floor(g + 0.5))",
            f"{word}{axis} = (g + {more}) * {scale}",
        ]
    step = f"p{axis} = larger(l{axis} - f{axis}, 0.1) / {float(bins)}"
    begin, end = (
        f"f{axis} + {turn} * p{axis}" for turn in (f"number({axis})", f"number({axis}+1)")
    )
    lines += [step, f"{axis}:", f"  g = {begin}", f"  e = {end}"]
    begin, end = (f"where(differs({v}), 0.0, {v})" for v in "ge")
    end = f"-floor(-smaller(larger({end}, 0.0), number({size})))"
    return [*lines, *_bounds(axis, begin, end, size)]


def _bounds(axis: str, begin: str, end: str, size: str) -> list[str]:
    """The first cell of a bin and the one behind its last, in the image."""
    inside = "truncated(smaller(larger({}, 0.0), number({})))"
    return [
        f"  A{axis}[{axis}] = {inside.format(begin, size)}",
        f"  B{axis}[{axis}] = {inside.format(end, size)}",
    ]


def _places(axis: str, bins: int) -> list[str]:
    """The lines of places between the cells, from corner to corner: the weights of both cells
    around each place (P); none where it lies outside.
    """
    first, last, size = _NUMBERS[axis]
    lines = [
        f"f{axis} = R[n, {first}]",
        f"l{axis} = R[n, {last}]",
        f"m{axis} = number({size} - 1)",
    ]
    place = f"0.5 * (f{axis} + l{axis}) * m{axis}"
    if bins > 1:
        lines.append(f"p{axis} = (l{axis} - f{axis}) * m{axis} / {float(bins - 1)}")
        last_one = f"number({axis}) == {float(bins - 1)}"
        place = f"number({axis}) * p{axis} + f{axis} * m{axis}"
        place = f"where({last_one}, l{axis} * m{axis}, {place})"
    cells = [
        f"e{axis}*: P{axis}[{axis}, e{axis}] = 0.0",
        f"g = {place}",
        f"i{axis} = both(g >= 0.0, g <= m{axis})",
        f"g = where(i{axis}, g, 0.0)",
        "q = floor(g)",
        "t = g - q",
        f"r = smaller(q + 1.0, m{axis})",
        f"next = both(i{axis}, q < m{axis})",
        "iq = truncated(q)",
        "ir = truncated(r)",
        f"P{axis}[{axis}, at(iq)] = where(i{axis}, 1.0 - t, 0.0)",
        f"P{axis}[{axis}, at(ir)] = P{axis}[{axis}, at(ir)] + where(next, t, 0.0)",
        f"A{axis}[{axis}] = truncated(q)",
        f"B{axis}[{axis}] = truncated(where(i{axis}, r + 1.0, q))",
    ]
    return [*lines, f"{axis}:", *(f"  {line}" for line in cells)]
