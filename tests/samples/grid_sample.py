"""GridSample-9: rows of hand-worked coordinates, and a loop that reflects cell by cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import carried, plain
from uncork.ops.grid_sample import GridSample9


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


ROW = f32([[[[1, 2, 3, 4]]]])


def row(*columns: float) -> np.ndarray:
    """A grid that reads a row of one image at some columns: 0 is the middle of the single row."""
    return f32([[[[column, 0] for column in columns]]])


def reads(
    name: str,
    columns: tuple[float, ...],
    expected: tuple[float, ...],
    openvino: str = "",
    **attributes: Any,
) -> Sample:
    return Sample(
        name,
        [ROW, row(*columns)],
        [f32([[expected]]).reshape(1, 1, 1, -1)],
        attributes,
        openvino=openvino,
    )


CENTRES, EDGES = {"align_corners": True}, {"align_corners": False}
#: Keys' kernel with a = -3/4 at the distances 1/2 and 3/2.
NEAR, FAR = 0.59375, -0.09375
NAN = math.nan
EXAMPLES = [
    # columns 0, 3, 1.5
    reads("corners are centres of cells", (-1, 1, 0), (1, 4, 2.5), **CENTRES),
    # columns -0.5, 3.5, 1.5, 1
    reads("corners are edges of cells", (-1, 1, 0, -0.25), (0.5, 2, 2.5, 2), **EDGES),
    reads("border", (-1, 1, 3), (1, 4, 4), **EDGES, padding_mode="border"),
    # columns -1, -2 .., mirrored between -0.5 and 3.5: 0, 1, 2, 3, 3
    reads(
        "reflection at the edges",
        (-1.25, -1.75, -2.25, -2.75, -3.25),
        (1, 2, 3, 4, 4),
        **EDGES,
        padding_mode="reflection",
    ),
    # columns -1.5, 4.5, -3, -4.5, mirrored at 0 and 3: 1.5, 1.5, 3, 1.5
    reads(
        "reflection at the centres",
        (-2, 2, -3, -4),
        (2.5, 2.5, 4, 2.5),
        **CENTRES,
        padding_mode="reflection",
    ),
    # columns 0.5, 1.5, 2.5, -0.5, -0.75
    reads(
        "nearest: halves to even",
        (-0.5, 0, 0.5, -1, -1.125),
        (1, 3, 3, 1, 0),
        **EDGES,
        mode="nearest",
    ),
    reads("bicubic", (0,), ((2 + 3) * NEAR + (1 + 4) * FAR,), **EDGES, mode="bicubic"),
    # column 0.5: cells -1, 0, 1, 2
    reads("bicubic at the side", (-0.5,), ((1 + 2) * NEAR + 3 * FAR,), **EDGES, mode="bicubic"),
    reads(
        "bicubic at the side, border",
        (-0.5,),
        ((1 + 2) * NEAR + (1 + 3) * FAR,),
        **EDGES,
        mode="bicubic",
        padding_mode="border",
    ),
    reads("far outside", (1e30, -math.inf), (0, 0), "overflows", **EDGES),
    reads(
        "far outside, border",
        (1e30, -math.inf),
        (4, 1),
        "overflows",
        **EDGES,
        padding_mode="border",
    ),
    reads("a coordinate that is no number", (NAN,), (NAN,), "reads some cell", **EDGES),
    reads(
        "a coordinate that is no number, nearest",
        (NAN,),
        (NAN,),
        "reads some cell",
        **EDGES,
        mode="nearest",
    ),
    reads(
        "a coordinate that is no number, bicubic",
        (NAN,),
        (NAN,),
        "reads some cell",
        **EDGES,
        mode="bicubic",
    ),
    Sample(
        "rows are the second coordinate",
        [f32([[[[1, 2], [3, 4]]]]), f32([[[[-1, 1], [0, 0]]]])],
        [f32([[[[3, 2.5]]]])],
        CENTRES,
    ),
    Sample(
        "one cell reflects into itself",
        [f32([[[[7]]]]), row(-3, 0.4)],
        [f32([[[[7, 7]]]])],
        {**CENTRES, "padding_mode": "reflection"},
    ),
    Sample(
        "i64 by the nearest is exact",
        [np.array([[[[2**53 + 1]]]]), row(0)],
        [np.array([[[[2**53 + 1]]]])],
        {"mode": "nearest"},
        openvino="narrows to 32 bits",
    ),
    Sample(
        "u8: halves to even",
        [np.array([[[[0, 1, 2]]]], "u1"), row(-0.5, 0.5)],
        [np.array([[[[0, 2]]]], "u1")],
        CENTRES,
        openvino="has no u8",
    ),
    Sample(
        "a NaN coordinate in integers",
        [np.array([[[[1]]]]), row(NAN)],
        [np.array([[[[0]]]])],
        openvino="reads some cell",
    ),
    Sample(
        "no cells to read",
        [ROW[..., :0], row(0)],
        [f32([[[[0]]]])],
        openvino="not for empty tensors",
    ),
    Sample(
        "no places",
        [ROW, np.zeros((1, 1, 0, 2), "f4")],
        [np.zeros((1, 1, 1, 0), "f4")],
        openvino="not for empty tensors",
    ),
    Sample(
        "no images",
        [ROW[:0], row(0)[:0]],
        [np.zeros((0, 1, 1, 1), "f4")],
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "data of rank 3", [ROW[0], row(0)], r"'data': expected \[N, C, H, W\], got shape \[1,1,4\]"
    ),
    Refusal("grid of rank 3", [ROW, row(0)[0]], r"'grid': expected \[N, H, W, 2\]"),
    Refusal(
        "triples",
        [ROW, np.zeros((1, 1, 1, 3), "f4")],
        r"'grid': expected pairs of coordinates \[N, H, W, 2\], got shape \[1,1,1,3\]",
    ),
    Refusal(
        "two grids",
        [ROW, np.zeros((2, 1, 1, 2), "f4")],
        r"a grid for each image, got data \[1,1,1,4\] and grid \[2,1,1,2\]",
    ),
    Refusal(
        "no cells",
        [ROW[..., :0], row(0)],
        r"data \[1,1,1,0\] has no cells to read from",
        {"padding_mode": "border"},
    ),
    Refusal(
        "a grid of integers",
        [ROW, np.zeros((1, 1, 1, 2), "i4")],
        "'grid' .port 1.: expected a floating-point type",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    images, channels, height, width, down, across = (
        draw(st.integers(low, 3)) for low in (0, 0, 1, 1, 0, 1)
    )
    mode = draw(st.sampled_from(["bilinear", "bicubic", "nearest"]))
    data, name = draw(
        arrays((images, channels, height, width), FLOATS + (INTEGERS if mode == "nearest" else ()))
    )
    grid, kind = draw(arrays((images, down, across, 2), FLOATS, -3, 3))
    attributes = {
        "mode": mode,
        "padding_mode": draw(st.sampled_from(["zeros", "border", "reflection"])),
        "align_corners": draw(st.booleans()),
    }
    return Case([data, grid], attributes, [name, kind])


def weights(place: float, mode: str) -> list[tuple[int, float]]:
    """The cells around a place, before padding, and their weights."""
    if mode == "nearest":
        return [(round(place), 1.0)]
    low = math.floor(place)
    if mode == "bilinear":
        return [(low, 1 - (place - low)), (low + 1, place - low)]
    pairs = []
    for cell in range(low - 1, low + 3):
        d = abs(place - cell)
        a = -0.75
        pairs.append(
            (
                cell,
                (a + 2) * d**3 - (a + 3) * d**2 + 1 if d < 1 else a * (d**3 - 5 * d**2 + 8 * d - 4),
            )
        )
    return pairs


def moved(cell: int, size: int, padding: str, align: bool) -> int | None:
    """A cell moved into the image; None for a cell that counts as 0."""
    if padding == "zeros":
        return cell if 0 <= cell < size else None
    if padding == "border":
        return min(max(cell, 0), size - 1)
    while not 0 <= cell < size:
        if align and size == 1:
            return 0
        cell = (
            (-cell if align else -1 - cell)
            if cell < 0
            else (2 * (size - 1) - cell if align else 2 * size - 1 - cell)
        )
    return cell


def loop(case: Case) -> list[np.ndarray]:
    data, grid = plain(case, 0), plain(case, 1)
    mode, padding, align = (case.attributes[n] for n in ("mode", "padding_mode", "align_corners"))
    height, width = data.shape[2:]
    result = np.zeros((*data.shape[:2], *grid.shape[1:3]), object)
    for n, c, y, x in np.ndindex(*result.shape):
        places = [
            (grid[n, y, x, i] + 1) * (size - 1) / 2
            if align
            else ((grid[n, y, x, i] + 1) * size - 1) / 2
            for i, size in ((1, height), (0, width))
        ]
        for row_cell, row_weight in weights(places[0], mode):
            for column_cell, column_weight in weights(places[1], mode):
                inside = (
                    moved(row_cell, height, padding, align),
                    moved(column_cell, width, padding, align),
                )
                if None not in inside:
                    value = data[(n, c, *inside)]
                    result[n, c, y, x] += (
                        value if mode == "nearest" else row_weight * column_weight * value
                    )
    return [carried(result, case.types[0])]


SAMPLES = [Samples(GridSample9, EXAMPLES, REFUSALS, cases(), loop)]
