"""PriorBox-1, -8, PriorBoxClustered-1. Hand work in an image of 20 (width) x 10 pixels with a grid
of 2 x 1 cells.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.prior_box import PriorBox1, PriorBox8, PriorBoxClustered1

GRID, IMAGE = np.array([1, 2]), np.array([10, 20])
UNSET = "OpenVINO leaves what it does not write uninitialised"


def out(*boxes: list[float], variance: list[float] | None = None) -> list[np.ndarray]:
    """The output from boxes in pixels of the image."""
    flat = [v / s for box in boxes for v, s in zip(box, (20, 10, 20, 10), strict=True)]
    return [np.array([flat, (variance or [0.1] * 4) * len(boxes)], np.float32)]


def around(x: float, y: float, *sizes: tuple[float, float]) -> list[list[float]]:
    return [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for w, h in sizes]


TWO = math.sqrt(2)
ALL = [
    Sample(
        "one size, the centers of both cells",
        [GRID, IMAGE],
        out(*around(5, 5, (4, 4)), *around(15, 5, (4, 4))),
        {"offset": 0.25, "min_size": [4]},
    ),
    Sample(
        "a step",
        [GRID, IMAGE],
        out(*around(2, 2, (4, 4)), *around(10, 2, (4, 4))),
        {"offset": 0.25, "step": 8.0, "min_size": [4]},
    ),
    Sample(
        "two sizes, the first with a larger one, and a ratio",
        [np.array([1, 1]), IMAGE],
        out(*around(10, 5, (4, 4), (6, 6), (4 * TWO, 4 / TWO), (8, 8), (8 * TWO, 8 / TWO))),
        {"offset": 0.5, "min_size": [4, 8], "max_size": [9], "aspect_ratio": [2]},
    ),
    Sample(
        "flipped ratios, repeated ones once",
        [np.array([1, 1]), IMAGE],
        out(*around(10, 5, (4, 4), (8, 2), (2, 8))),
        {"offset": 0.5, "min_size": [4], "aspect_ratio": [1, 4, 4, 0.25], "flip": True},
    ),
    Sample(
        "cut to the image",
        [np.array([1, 1]), IMAGE],
        out([4, 0, 16, 10]),
        {"offset": 0.5, "min_size": [12], "clip": True},
    ),
    Sample(
        "four variances",
        [np.array([1, 1]), IMAGE],
        out([8, 3, 12, 7], variance=[0.5, 1, 2, 4]),
        {"offset": 0.5, "min_size": [4], "variance": [0.5, 1, 2, 4]},
    ),
    Sample(
        "one variance",
        [np.array([1, 1]), IMAGE],
        out([8, 3, 12, 7], variance=[0.25] * 4),
        {"offset": 0.5, "min_size": [4], "variance": [0.25]},
    ),
    Sample(
        # Sizes are parts of the height 10: 4 and 2; the ratio comes once, with the first. A step of
        # 0 stays 0.
        "sizes as parts of the image",
        [np.array([1, 1]), IMAGE],
        out(*around(10, 5, (4, 4), (2, 2), (8, 2))),
        {"offset": 0.5, "min_size": [0.4, 0.2], "aspect_ratio": [4], "scale_all_sizes": False},
    ),
    Sample(
        "a step of its own size",
        [GRID, IMAGE],
        out(*around(5, 5, (4, 4)), *around(15, 5, (4, 4))),
        {"offset": 0.5, "min_size": [0.4], "step": -1.0, "scale_all_sizes": False},
    ),
    Sample(
        # Four places, 4 apart, around the center (10, 5); what leaves the image is cut.
        "a fixed size, twice as dense",
        [np.array([1, 1]), IMAGE],
        out([4, 0, 12, 7], [8, 0, 16, 7], [4, 3, 12, 10], [8, 3, 16, 10]),
        {"offset": 0.5, "fixed_size": [8], "density": [2]},
    ),
    Sample(
        "fixed sizes of other ratios",
        [np.array([1, 1]), IMAGE],
        out([8, 3, 12, 7], [6, 4, 14, 6]),
        {"offset": 0.5, "fixed_size": [4], "density": [1], "aspect_ratio": [4]},
    ),
    Sample(
        # OpenVINO counts 1 + 2 * 3 = 7 boxes for the 8 that two ratios at four places make.
        "fixed ratios: the last box is cut off",
        [np.array([1, 1]), np.array([40, 40])],
        [
            np.array(
                [
                    [
                        v / 40
                        for b in [
                            *[
                                [x - 4, y - 4, x + 4, y + 4]
                                for y, x in itertools.product((18, 22), (18, 22))
                            ],
                            *[
                                [x - 8, y - 2, x + 8, y + 2]
                                for y, x in [(18, 18), (18, 22), (22, 18)]
                            ],
                        ]
                        for v in b
                    ],
                    [0.1] * 28,
                ],
                np.float32,
            )
        ],
        {"offset": 0.5, "fixed_size": [8], "density": [2], "fixed_ratio": [1, 4]},
    ),
    Sample(
        "more boxes counted than made: zeros",
        [np.array([1, 1]), IMAGE],
        out([8, 3, 12, 7], [0] * 4),
        {"offset": 0.5, "fixed_size": [4], "density": [1], "fixed_ratio": [1], "aspect_ratio": [2]},
        openvino=UNSET,
    ),
    Sample(
        "no cells",
        [np.array([0, 3]), IMAGE],
        [np.zeros((2, 0), "f4")],
        {"offset": 0.5, "min_size": [4]},
    ),
    Sample(
        "32 bits",
        [GRID.astype("i4"), IMAGE.astype("i4")],
        out(*around(5, 5, (4, 4)), *around(15, 5, (4, 4))),
        {"offset": 0.25, "min_size": [4]},
    ),
]
LAST = Sample(
    "the larger size after the ratios",
    [np.array([1, 1]), IMAGE],
    out(*around(10, 5, (4, 4), (4 * TWO, 4 / TWO), (6, 6))),
    {
        "offset": 0.5,
        "min_size": [4],
        "max_size": [9],
        "aspect_ratio": [2],
        "min_max_aspect_ratios_order": False,
    },
    openvino="OpenVINO refuses this order unless both sizes are constants",
)
CLUSTERED = [
    Sample(
        "two boxes in each cell",
        [GRID, IMAGE],
        out(*around(5, 5, (4, 2), (2, 6)), *around(15, 5, (4, 2), (2, 6))),
        {"offset": 0.5, "width": [4, 2], "height": [2, 6]},
    ),
    Sample(
        "a step",
        [GRID, IMAGE],
        out(*around(2, 2, (4, 2)), *around(10, 2, (4, 2))),
        {"offset": 0.25, "step": 8.0, "width": [4], "height": [2]},
    ),
    Sample(
        "a step along x",
        [GRID, IMAGE],
        out(*around(2, 1, (4, 2)), *around(10, 1, (4, 2))),
        {"offset": 0.25, "step": 4.0, "step_w": 8.0, "width": [4], "height": [2]},
    ),
    Sample(
        "cut to the image",
        [np.array([1, 1]), IMAGE],
        out([0, 3, 20, 7]),
        {"offset": 0.5, "width": [30], "height": [4]},
    ),
    Sample(
        "not cut",
        [np.array([1, 1]), IMAGE],
        out([-5, 3, 25, 7], variance=[1, 2, 3, 4]),
        {"offset": 0.5, "width": [30], "height": [4], "clip": False, "variance": [1, 2, 3, 4]},
    ),
    Sample("no cells", [np.array([0, 3]), IMAGE], [np.zeros((2, 0), "f4")], {"offset": 0.5}),
    Sample(
        "the page's shapes",
        [np.array([10, 19]), np.array([10, 19])],
        [np.tile(np.array([[0.0], [0.1]], "f4"), 4 * 190)],
        {"offset": -90.0, "width": [1], "height": [1]},
    ),
]
REFUSALS = [
    Refusal(
        "one number",
        [np.array([1]), IMAGE],
        r"'output_size': expected height and width, got shape \[1\]",
        {"offset": 0.5},
    ),
    Refusal(
        "a matrix",
        [GRID, IMAGE[None]],
        r"'image_size': expected a 1-D tensor, got shape \[1,2\]",
        {"offset": 0.5},
    ),
    Refusal(
        "negative grid",
        [np.array([1, -2]), IMAGE],
        r"'output_size' is \[1, -2\], expected numbers of at least 0",
        {"offset": 0.5},
    ),
    Refusal(
        "empty image",
        [GRID, np.array([0, 2])],
        r"'image_size' is \[0, 2\], expected numbers of at least 1",
        {"offset": 0.5},
    ),
    Refusal(
        "float sizes",
        [GRID.astype("f4"), IMAGE],
        "'output_size' .port 0.: expected an integer type",
        {"offset": 0.5},
    ),
    Refusal(
        "three variances",
        [GRID, IMAGE],
        "'variance': expected 0, 1 or 4 numbers",
        {"offset": 0.5, "variance": [1, 2, 3]},
    ),
    Refusal(
        "too many cells",
        [np.array([2**40, 2**40]), IMAGE],
        "needs .* bytes, more than this machine's memory",
        {"offset": 0.5, "min_size": [4], "width": [4]},
    ),
]
NORMAL_REFUSALS = [
    *[
        Refusal(
            r.name, r.inputs, r.message, {k: v for k, v in r.attributes.items() if k != "width"}
        )
        for r in REFUSALS
    ],
    Refusal(
        "a size of 0",
        [GRID, IMAGE],
        "'min_size': expected a list of positive numbers",
        {"offset": 0.5, "min_size": [4, 0]},
    ),
    Refusal(
        "densities",
        [GRID, IMAGE],
        "'density': expected as many numbers as 'fixed_size', 1, got 0",
        {"offset": 0.5, "fixed_size": [4]},
    ),
    Refusal(
        "density of 0",
        [GRID, IMAGE],
        "'density': expected a list of numbers of at least 1",
        {"offset": 0.5, "fixed_size": [4], "density": [0]},
    ),
]
CLUSTERED_REFUSALS = [
    *[
        Refusal(
            r.name, r.inputs, r.message, {k: v for k, v in r.attributes.items() if k != "min_size"}
        )
        for r in REFUSALS
    ],
    Refusal(
        "heights",
        [GRID, IMAGE],
        "'height': expected as many numbers as 'width', 2, got 1",
        {"offset": 0.5, "width": [4, 2]},
    ),
]


@st.composite
def cases(draw: st.DrawFn, clustered: bool, ordered: bool = False) -> Case:
    def numbers_of(count: int, *values: float) -> list[float]:
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    attributes: dict[str, Any] = {
        "offset": draw(st.sampled_from([0.0, 0.5])),
        "variance": numbers_of(draw(st.sampled_from([0, 1, 4])), 0.1, 0.5),
    }
    attributes |= {"step": draw(st.sampled_from([0.0, 2.0])), "clip": draw(st.booleans())}
    if clustered:
        count = draw(st.integers(0, 3))
        attributes |= {
            "width": numbers_of(count, 1, 2.5, 8),
            "height": numbers_of(count, 1, 2.5, 8),
        }
        attributes |= {
            "step_w": draw(st.sampled_from([0.0, 3.0])),
            "step_h": draw(st.sampled_from([0.0, 3.0])),
        }
    else:
        sizes, fixed = draw(st.sampled_from([(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)]))
        attributes |= {
            "min_size": numbers_of(sizes, 0.5, 2.5, 8),
            "fixed_size": numbers_of(fixed, 1, 2.5, 8),
            "density": numbers_of(fixed, 1, 2, 2.5),
        }
        attributes |= {
            "max_size": numbers_of(draw(st.integers(0, sizes)), 2, 9),
            "fixed_ratio": numbers_of(draw(st.integers(0, 2)) if fixed else 0, 1, 4),
        }
        attributes |= {
            "aspect_ratio": numbers_of(draw(st.integers(0, 2)), 1, 2, 0.5),
            "flip": draw(st.booleans()),
            "scale_all_sizes": draw(st.booleans()),
        }
        if ordered:
            attributes["min_max_aspect_ratios_order"] = draw(st.booleans())
    grid = [draw(st.integers(0, 3)), draw(st.integers(0, 3))]
    dtype = draw(st.sampled_from(["i4", "i8", "u1"]))
    return Case(
        [
            np.array(grid, dtype),
            np.array([draw(st.integers(1, 9)), draw(st.integers(1, 9))], dtype),
        ],
        attributes,
    )


def written(boxes: list[list[float]], at: dict[str, Any], clip: bool) -> list[np.ndarray]:
    flat = [min(max(v, 0.0), 1.0) if clip else v for box in boxes for v in box]
    variance = at["variance"] or [0.1]
    return [
        np.array(
            [flat, (variance if len(variance) == 4 else variance * 4) * len(boxes)], np.float32
        )
    ]


def loop_clustered(case: Case) -> list[np.ndarray]:
    at = case.attributes
    (rows, columns), (height, width) = (a.astype(int).tolist() for a in case.inputs)
    step_x, step_y = at["step_w"] or at["step"], at["step_h"] or at["step"]
    boxes = []
    for y, x in itertools.product(range(rows), range(columns)):
        own = (width / columns, height / rows) if step_x == step_y == 0 else (step_x, step_y)
        for w, h in zip(at["width"], at["height"], strict=True):
            box = around((x + at["offset"]) * own[0], (y + at["offset"]) * own[1], (w, h))[0]
            boxes.append([v / s for v, s in zip(box, (width, height, width, height), strict=True)])
    return written(boxes, at, at["clip"])


def loop(case: Case) -> list[np.ndarray]:
    at = case.attributes
    (rows, columns), (height, width) = (a.astype(int).tolist() for a in case.inputs)
    ratios = [1.0]
    for ratio in at["aspect_ratio"]:
        if ratio not in ratios:
            ratios += [ratio, 1 / ratio] if at["flip"] else [ratio]
    scale = 1 if at["scale_all_sizes"] else height
    sizes = [s * scale for s in at["min_size"]]
    boxes = []
    for y, x in itertools.product(range(rows), range(columns)):
        step = at["step"] * scale
        center = (
            ((x + at["offset"]) * step, (y + at["offset"]) * step)
            if step
            else ((x + 0.5) * width / columns, (y + 0.5) * height / rows)
        )
        here = []
        for size, density in zip(at["fixed_size"], map(int, at["density"]), strict=True):
            apart = int(size / density)
            for ratio in at["fixed_ratio"] or ratios:
                root = math.sqrt(ratio)
                shape = (
                    (size * root, size / root)
                    if ratio != 1 or at["fixed_ratio"]
                    else (int(size), int(size))
                )
                for r, c in itertools.product(range(density), range(density)):
                    place = (
                        center[0] - int(size) // 2 + apart / 2 + c * apart,
                        center[1] - int(size) // 2 + apart / 2 + r * apart,
                    )
                    left, top, right, bottom = around(*place, shape)[0]
                    here.append([max(left, 0), max(top, 0), min(right, width), min(bottom, height)])
        for place, size in enumerate(sizes):
            here += around(*center, (size, size))
            larger = (
                [(math.sqrt(size * at["max_size"][place]),) * 2]
                if place < len(at["max_size"])
                else []
            )
            base = size if at["scale_all_sizes"] else sizes[0]
            others = (
                [(base * math.sqrt(r), base / math.sqrt(r)) for r in ratios if r != 1]
                if at["scale_all_sizes"] or place == len(sizes) - 1
                else []
            )
            here += around(
                *center,
                *(
                    larger + others
                    if at.get("min_max_aspect_ratios_order", True)
                    else others + larger
                ),
            )
        boxes += [
            [v / s for v, s in zip(box, (width, height, width, height), strict=True)]
            for box in here
        ]
    if at["fixed_size"]:
        count = len(ratios) * len(at["fixed_size"])
        count += sum(
            (len(at["fixed_ratio"]) or len(ratios)) * (int(d) * int(d) - 1) for d in at["density"]
        )
    else:
        count = (
            len(ratios) * len(sizes) + len(at["max_size"])
            if at["scale_all_sizes"]
            else len(ratios) + len(sizes) - 1
        )
    count *= rows * columns
    return written([*boxes, *[[0.0] * 4] * max(0, count - len(boxes))][:count], at, at["clip"])


SAMPLES = [
    Samples(PriorBox1, ALL, NORMAL_REFUSALS, cases(False), loop),
    Samples(PriorBox8, [*ALL, LAST], NORMAL_REFUSALS, cases(False, ordered=True), loop),
    Samples(PriorBoxClustered1, CLUSTERED, CLUSTERED_REFUSALS, cases(True), loop_clustered),
]
