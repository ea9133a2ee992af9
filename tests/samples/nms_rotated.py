"""NMSRotated-13. Hand work on boxes whose common areas are simple: the same box, a square in a
turned one, two crossed bars.
"""

from __future__ import annotations

import math

import numpy as np

from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._suppression import all_outputs, cases
from uncork import storage
from uncork.ops.nms_rotated import NMSRotated13
from uncork.types import ElementType

EDGE = "OpenVINO takes scores above the threshold only"
QUARTER = math.pi / 2
Point = tuple[float, float]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def limits(most: int, iou: float, score: float = 0.0) -> list[np.ndarray]:
    return [np.array(most), f32(iou).reshape(()), f32(score).reshape(())]


def outputs(*triples: tuple[int, int, int, float], dtype: type = np.int64) -> list[np.ndarray]:
    indices = np.array([t[:3] for t in triples], dtype).reshape(-1, 3)
    return [
        indices,
        f32(*[v for b, c, _, s in triples for v in (b, c, s)]).reshape(-1, 3),
        np.array([len(triples)], dtype),
    ]


def one(boxes: list[list[float]], *scores: float) -> list[np.ndarray]:
    return [f32(*[v for b in boxes for v in b]).reshape(1, -1, 5), f32(*scores).reshape(1, 1, -1)]


# Two bars of 4 x 2 that cross at right angles share 4 of 12: 1/3. Turned by half a turn a box is
# itself again.
CROSS = one([[5, 5, 4, 2, 0], [5, 5, 4, 2, QUARTER]], 0.5, 0.75)
# A square with sides of 2 inside the same one turned by 45 degrees: an octagon of 8 * (sqrt(2) - 1)
# = 3.3137; 3.3137 / 4.6863 = 0.7071.
OCTAGON = one([[0, 0, 2, 2, 0], [0, 0, 2, 2, QUARTER / 2]], 0.75, 0.5)
# The corner of a square meets the middle of a long edge only if it turns one way: the bar from (0,
# 0) falls or rises to the right.
BAR, SQUARE = [0, 0, 8, 1, math.atan2(3, 4)], [3.2, 2.4, 1, 1, 0]
WAY = one([BAR, SQUARE], 0.75, 0.5)

EXAMPLES = [
    Sample(
        "crossed bars under the threshold",
        [*CROSS, *limits(9, 0.34)],
        outputs((0, 0, 1, 0.75), (0, 0, 0, 0.5)),
    ),
    Sample("crossed bars over the threshold", [*CROSS, *limits(9, 0.33)], outputs((0, 0, 1, 0.75))),
    Sample(
        "octagon under the threshold",
        [*OCTAGON, *limits(9, 0.708)],
        outputs((0, 0, 0, 0.75), (0, 0, 1, 0.5)),
    ),
    Sample("octagon over the threshold", [*OCTAGON, *limits(9, 0.706)], outputs((0, 0, 0, 0.75))),
    Sample(
        "half a turn changes nothing",
        [*one([[1, 2, 4, 2, 0.3], [1, 2, 4, 2, 0.3 + 2 * QUARTER]], 0.75, 0.5), *limits(9, 0.99)],
        outputs((0, 0, 0, 0.75)),
    ),
    Sample(
        "a quarter of a turn swaps the sides",
        [*one([[1, 2, 4, 2, 0], [1, 2, 2, 4, QUARTER]], 0.5, 0.75), *limits(9, 0.99)],
        outputs((0, 0, 1, 0.75)),
    ),
    Sample(
        "clockwise the bar meets the square", [*WAY, *limits(9, 0.01)], outputs((0, 0, 0, 0.75))
    ),
    Sample(
        "the other way it does not",
        [*WAY, *limits(9, 0.01)],
        outputs((0, 0, 0, 0.75), (0, 0, 1, 0.5)),
        {"clockwise": False},
    ),
    Sample("at most one", [*CROSS, *limits(1, 0.5)], outputs((0, 0, 1, 0.75))),
    Sample("scores from 0.6", [*CROSS, *limits(9, 0.5, 0.6)], outputs((0, 0, 1, 0.75))),
    Sample(
        "a score of just the threshold is taken",
        [*CROSS, *limits(9, 0.5, 0.5)],
        outputs((0, 0, 1, 0.75), (0, 0, 0, 0.5)),
        openvino=EDGE,
    ),
    Sample(
        "without area nothing overlaps",
        [*one([[0, 0, 4, 4, 0], [0, 0, 4, 0, 1]], 0.5, 0.75), *limits(9, 0.1)],
        outputs((0, 0, 1, 0.75), (0, 0, 0, 0.5)),
    ),
    Sample(
        "none wanted",
        [*CROSS, *limits(0, 0.5)],
        outputs(),
        openvino="OpenVINO leaves the count uninitialised",
    ),
    Sample(
        "no boxes",
        [np.zeros((1, 0, 5), "f4"), np.zeros((1, 2, 0), "f4"), *limits(4, 0.4)],
        outputs(),
        openvino="OpenVINO leaves the count uninitialised",
    ),
    Sample(
        "far from the origin",
        [*[CROSS[0] + f32(65536, -65536, 0, 0, 0), CROSS[1]], *limits(9, 0.34)],
        outputs((0, 0, 1, 0.75), (0, 0, 0, 0.5)),
    ),
    Sample(
        "images and classes apart, not sorted, i32",
        [
            np.concatenate([CROSS[0], OCTAGON[0]]),
            f32(0.5, 0.75, 1, 0.25, 0.125, 0.375, 0.625, 0.875).reshape(2, 2, 2),
            *limits(9, 0.5),
        ],
        outputs(
            (0, 0, 1, 0.75),
            (0, 0, 0, 0.5),
            (0, 1, 0, 1),
            (0, 1, 1, 0.25),
            (1, 0, 1, 0.375),
            (1, 1, 1, 0.875),
            dtype=np.int32,
        ),
        {"sort_result_descending": False, "output_type": ElementType.i32},
    ),
]
REFUSALS = [
    Refusal(
        "boxes of 4 numbers",
        [CROSS[0][..., :4], CROSS[1], *limits(9, 0.5)],
        r"'boxes': expected .*5 = 5\], got \[1,2,4\]",
    ),
    Refusal(
        "thresholds are required",
        [*CROSS, np.array(1), np.array(0.5, "f4")],
        r"input 'score_threshold' \(port 4\) is missing",
    ),
    Refusal(
        "output type",
        [*CROSS, *limits(9, 0.5)],
        "'output_type': expected i32 or i64, got u8",
        {"output_type": ElementType.u8},
    ),
    Refusal(
        "strict: a negative limit",
        [*CROSS, *limits(-1, 0.5)],
        "'max_output_boxes_per_class' is -1",
        strict=True,
    ),
]


def corners(box: list[float], sign: int) -> list[Point]:
    x, y, width, height, angle = box
    points = []
    for across, down in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
        dx, dy = across * width / 2, down * height / 2
        turn = complex(dx, dy) * complex(math.cos(sign * angle), math.sin(sign * angle))
        points.append((x + turn.real, y + turn.imag))
    return points


def clipped(polygon: list[Point], a: Point, b: Point) -> list[Point]:
    """What of a polygon lies to the right of the line from a to b (seen with y down)."""

    def side(p: Point) -> float:
        return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])

    result = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        here, there = side(p), side(q)
        if here >= 0:
            result.append(p)
        if (here > 0 > there) or (here < 0 < there):
            t = here / (here - there)
            result.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
    return result


def rotated_iou(a: list[Point], b: list[Point]) -> float:
    def area(polygon: list[Point]) -> float:
        return (
            sum(
                p[0] * q[1] - q[0] * p[1]
                for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True)
            )
            / 2
        )

    if area(a) <= 0 or area(b) <= 0:
        return 0.0
    common = a
    for p, q in zip(b, b[1:] + b[:1], strict=True):
        common = clipped(common, p, q)
    return area(common) / (area(a) + area(b) - area(common))


def loop(case: Case) -> list[np.ndarray]:
    boxes = storage.decode(case.inputs[0], case.types[0]).astype(float)
    sign = 1 if case.attributes.get("clockwise", True) else -1
    # Only boxes with sides that are not negative: a negative side would turn the corners round.
    return all_outputs(
        case, [[corners(box, sign) for box in image] for image in boxes.tolist()], rotated_iou
    )


def positive(case: Case) -> Case:
    boxes, name = case.inputs[0].copy(), case.types[0]
    values = storage.decode(boxes, name)
    values = np.concatenate([values[..., :2], np.abs(values[..., 2:4]), values[..., 4:]], axis=-1)
    return Case(
        [storage.encode(values, name), *case.inputs[1:]],
        case.attributes,
        [t and t.name for t in case.types],
    )


CHOICES = {
    "sort_result_descending": [True, False],
    "clockwise": [True, False],
    "output_type": [ElementType.i32, ElementType.i64],
}
SAMPLES = [
    Samples(
        NMSRotated13, EXAMPLES, REFUSALS, cases(5, 2, CHOICES, required=True).map(positive), loop
    )
]
