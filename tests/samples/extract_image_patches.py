"""ExtractImagePatches-3. The numbered examples are the page's."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.extract_image_patches import ExtractImagePatches3

IMAGE = np.arange(1, 101, dtype=np.float32).reshape(1, 1, 10, 10)
MAPS = np.arange(1, 51, dtype=np.float32).reshape(1, 2, 5, 5)


def patches(sizes: int, strides: int, rates: int = 1, auto_pad: str = "valid") -> dict[str, object]:
    return {
        "sizes": (sizes, sizes),
        "strides": (strides, strides),
        "rates": (rates, rates),
        "auto_pad": auto_pad,
    }


def stacked(*squares: tuple[int, int, int, int]) -> np.ndarray:
    return np.array(squares, np.float32).reshape(1, -1, 2, 2)


EXAMPLES = [
    Sample(
        "page example 1",
        [IMAGE],
        [stacked(*((a, a + 5, a + 50, a + 55) for a in (1, 2, 3, 11, 12, 13, 21, 22, 23)))],
        patches(3, 5),
    ),
    Sample(
        "page example 2",
        [IMAGE],
        [
            np.array(
                [1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34], np.float32
            ).reshape(1, 16, 1, 1)
        ],
        patches(4, 8),
    ),
    Sample(
        "page example 3: same_upper",
        [IMAGE],
        [
            stacked(
                *((0, 0, 0, 89), (0, 0, 81, 90), (0, 0, 82, 0), (0, 0, 83, 0)),
                *((0, 9, 0, 99), (1, 10, 91, 100), (2, 0, 92, 0), (3, 0, 93, 0)),
                *((0, 19, 0, 0), (11, 20, 0, 0), (12, 0, 0, 0), (13, 0, 0, 0)),
                *((0, 29, 0, 0), (21, 30, 0, 0), (22, 0, 0, 0), (23, 0, 0, 0)),
            )
        ],
        patches(4, 9, auto_pad="same_upper"),
    ),
    Sample(
        "page example 4: rates",
        [IMAGE],
        [stacked(*((a, a + 5, a + 50, a + 55) for a in (1, 3, 5, 21, 23, 25, 41, 43, 45)))],
        patches(3, 5, 2),
    ),
    Sample(
        "page example 5: two maps",
        [MAPS],
        [stacked(*((a, a + 3, a + 15, a + 18) for a in (1, 26, 2, 27, 6, 31, 7, 32)))],
        patches(2, 3),
    ),
    Sample(
        "same_lower pads the start",
        [np.array([[[[1, 2], [3, 4]]]], np.int32)],
        [
            np.array(
                [[[[0, 0], [0, 1]], [[0, 0], [1, 2]], [[0, 1], [0, 3]], [[1, 2], [3, 4]]]], np.int32
            )
        ],
        patches(2, 1, auto_pad="same_lower"),
    ),
    Sample(
        "no patch fits", [MAPS[..., :1, :1]], [np.zeros((1, 18, 0, 0), np.float32)], patches(3, 5)
    ),
    Sample("no images", [MAPS[:0]], [np.zeros((0, 8, 2, 2), np.float32)], patches(2, 3)),
]
REFUSALS = [
    Refusal(
        "rank", [MAPS[0]], r"'data': expected \[N, C, H, W\], got shape \[2,5,5\]", patches(2, 3)
    ),
    Refusal("stride 0", [MAPS], r"'strides': expected numbers of at least 1", patches(2, 0)),
    Refusal("rate 0", [MAPS], r"'rates': expected numbers of at least 1", patches(2, 1, 0)),
    Refusal("size 0", [MAPS], r"'sizes': expected numbers of at least 1", patches(0, 1)),
    Refusal(
        "one size",
        [MAPS],
        r"'sizes': expected 2 numbers, for rows and columns, got \[2\]",
        patches(2, 3) | {"sizes": (2,)},
    ),
    Refusal(
        "strings",
        [np.full((1, 1, 1, 1), "a", object)],
        r"'data' \(port 0\): expected .* got string",
        patches(1, 1),
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pair = st.tuples(st.integers(1, 3), st.integers(1, 3))
    attributes = {name: draw(pair) for name in ("sizes", "strides", "rates")}
    shape = (
        draw(st.integers(0, 2)),
        draw(st.integers(0, 2)),
        draw(st.integers(0, 6)),
        draw(st.integers(0, 6)),
    )
    data, name = draw(arrays(shape, FLOATS + INTEGERS + ("boolean", "nf4", "i4")))
    return Case(
        [data],
        attributes | {"auto_pad": draw(st.sampled_from(["valid", "same_upper", "same_lower"]))},
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    (data,) = case.inputs
    (kh, kw), strides, rates = (case.attributes[name] for name in ("sizes", "strides", "rates"))
    counts, begins = [], []
    for side, k, stride, rate in zip(data.shape[2:], (kh, kw), strides, rates, strict=True):
        places = range(side)
        if case.attributes["auto_pad"] == "valid":
            counts.append(sum(p % stride == 0 and p + (k - 1) * rate < side for p in places))
            begins.append(0)
            continue
        counts.append(sum(p % stride == 0 for p in places))
        total = max(0, (counts[-1] - 1) * stride + (k - 1) * rate + 1 - side)
        begins.append(
            total // 2 + (total % 2 if case.attributes["auto_pad"] == "same_lower" else 0)
        )
    batch, channels = data.shape[:2]
    zero = 7 if case.types[0].name == "nf4" else 0
    output = np.full((batch, kh * kw * channels, *counts), zero, data.dtype)
    for n, y, x, c, i, j in itertools.product(
        range(batch), range(kh), range(kw), range(channels), *map(range, counts)
    ):
        row, column = (
            i * strides[0] + y * rates[0] - begins[0],
            j * strides[1] + x * rates[1] - begins[1],
        )
        if 0 <= row < data.shape[2] and 0 <= column < data.shape[3]:
            output[n, (y * kw + x) * channels + c, i, j] = data[n, c, row, column]
    return [output]


SAMPLES = [Samples(ExtractImagePatches3, EXAMPLES, REFUSALS, cases(), loop)]
