"""NV12toRGB-8, NV12toBGR-8, I420toRGB-8, I420toBGR-8. Hand work by the formulas of the page on
images of 2 x 2 and 4 x 2 pixels.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.yuv_to_rgb import I420toBGR8, I420toRGB8, NV12toBGR8, NV12toRGB8
from uncork.types import ElementType


def plane(rows: list[list[float]], dtype: Any = np.float32) -> np.ndarray:
    """[1, H, W, 1]"""
    return np.array(rows, dtype)[None, :, :, None]


def image(rows: list[list[list[float]]], bgr: bool = False, dtype: Any = np.float32) -> np.ndarray:
    """[1, H, W, 3] from pixels R, G, B."""
    pixels = np.array(rows, dtype)[None]
    return pixels[..., ::-1].copy() if bgr else pixels


# No colour: 1.164 * (Y - 16) in all three, cut to 0..255.
GREY, GREY_PIXELS = [[16, 116], [0, 255]], [[[0] * 3, [116.4] * 3], [[0] * 3, [255] * 3]]
# U = 138, V = 118 on Y = 116: 116.4 - 15.96, 116.4 - 3.91 + 8.13, 116.4 + 20.18
TINT, TINTED = [100.44, 120.62, 136.58], [[116, 116], [116, 116]]
BYTES = [[[100, 121, 137]] * 2] * 2
ROUNDED = [[[141, 141, 141], [142, 142, 142]], [[146, 146, 146], [146, 146, 146]]]


def nv12(bgr: bool) -> list[Sample]:
    pairs = np.array([[[[138, 118]]]], np.float32)
    wide = [[[*TINT], [*TINT], [116.4] * 3, [116.4] * 3]] * 2
    return [
        Sample("grey", [plane(GREY), np.full((1, 1, 1, 2), 128, "f4")], [image(GREY_PIXELS, bgr)]),
        Sample("a tint", [plane(TINTED), pairs], [image([[TINT] * 2] * 2, bgr)]),
        Sample(
            "a tint in one plane", [plane([*TINTED, [138, 118]])], [image([[TINT] * 2] * 2, bgr)]
        ),
        Sample(
            "two pairs in one plane",
            [plane([[116] * 4, [116] * 4, [138, 118, 128, 128]])],
            [image(wide, bgr)],
        ),
        Sample(
            "bytes",
            [plane(TINTED, np.uint8), pairs.astype(np.uint8)],
            [image(BYTES, bgr, np.uint8)],
        ),
        # 1.164 * 121 = 140.844, * 122 = 142.008, * 125 = 145.5, which goes to the even 146
        Sample(
            "rounded bytes",
            [plane([[137, 138], [141, 141], [128, 128]], np.uint8)],
            [image(ROUNDED, bgr, np.uint8)],
        ),
        Sample(
            "f64",
            [plane([*TINTED, [138, 118]], np.float64)],
            [image([[TINT] * 2] * 2, bgr, np.float64)],
            rtol=1e-12,
        ),
        Sample("no images", [np.zeros((0, 3, 2, 1), "f4")], [np.zeros((0, 2, 2, 3), "f4")]),
    ]


def i420(bgr: bool) -> list[Sample]:
    u, v = plane([[138]]), plane([[118]])
    wide = [[[*TINT], [*TINT], [116.4] * 3, [116.4] * 3]] * 2
    return [
        Sample("grey", [plane(GREY), plane([[128]]), plane([[128]])], [image(GREY_PIXELS, bgr)]),
        Sample("a tint", [plane(TINTED), u, v], [image([[TINT] * 2] * 2, bgr)]),
        Sample(
            "a tint in one plane", [plane([*TINTED, [138, 118]])], [image([[TINT] * 2] * 2, bgr)]
        ),
        Sample(
            "two of each in one plane",
            [plane([[116] * 4, [116] * 4, [138, 128, 118, 128]])],
            [image(wide, bgr)],
        ),
        Sample(
            "bytes",
            [plane(TINTED, np.uint8), u.astype(np.uint8), v.astype(np.uint8)],
            [image(BYTES, bgr, np.uint8)],
        ),
        Sample(
            "rounded bytes",
            [plane([[137, 138], [141, 141], [128, 128]], np.uint8)],
            [image(ROUNDED, bgr, np.uint8)],
        ),
        Sample("no images", [np.zeros((0, 3, 2, 1), "f4")], [np.zeros((0, 2, 2, 3), "f4")]),
    ]


ONE = [
    Refusal("rank 3", [plane(GREY)[0]], r"'y': expected a shape \[N, H, W, 1\], got \[2,2,1\]"),
    Refusal(
        "three channels",
        [np.zeros((1, 3, 2, 3), "f4")],
        r"'y': expected a shape \[N, H, W, 1\], got \[1,3,2,3\]",
    ),
    Refusal(
        "height of one plane",
        [np.zeros((1, 4, 2, 1), "f4")],
        "'y': expected a height that is a multiple of 3, got 4",
    ),
    Refusal(
        "odd width",
        [np.zeros((1, 3, 3, 1), "f4")],
        "'y': expected a width that is a multiple of 2, got 3",
    ),
    Refusal("words", [np.zeros((1, 3, 2, 1), "u2")], "'y' .port 0.: expected one of"),
]
PAIRS = [
    Refusal(
        "odd height",
        [np.zeros((1, 3, 2, 1), "f4"), np.zeros((1, 1, 1, 2), "f4")],
        "'y': expected a height that is a multiple of 2, got 3",
    ),
    Refusal(
        "colours of another size",
        [plane(GREY), np.zeros((1, 2, 1, 2), "f4")],
        r"'uv': expected a plane of images .N, H, W. = \[1,2,2\], got",
    ),
    Refusal(
        "single colours",
        [plane(GREY), np.zeros((1, 1, 1, 1), "f4")],
        r"'uv': expected a shape \[N, H, W, 2\], got \[1,1,1,1\]",
    ),
]
TRIPLES = [
    Refusal("two planes", [plane(GREY), plane([[128]])], "expected 1 input or 3, got 2"),
    Refusal(
        "colours of another batch",
        [plane(GREY), plane([[128]]), np.zeros((2, 1, 1, 1), "f4")],
        r"'v': expected a plane of images .N, H, W. = \[1,2,2\]",
    ),
]


@st.composite
def cases(draw: st.DrawFn, pairs: bool) -> Case:
    batch, height, width = (
        draw(st.integers(0, 2)),
        2 * draw(st.integers(0, 2)),
        2 * draw(st.integers(0, 2)),
    )
    name = draw(st.sampled_from([*FLOATS, "u8"]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if draw(st.booleans()):
        shapes = [(batch, height * 3 // 2, width, 1)]
    else:
        half = (batch, height // 2, width // 2)
        shapes = [(batch, height, width, 1), *([(*half, 2)] if pairs else [(*half, 1), (*half, 1)])]
    element_type = ElementType.parse(name)
    # No sum of products with multiples of 8 ends in exactly a half, which single precision may take
    # for a little more or less.
    inputs = [8 * generator.integers(0, 32, shape) for shape in shapes]
    return Case(
        [storage.encode(a.astype("u1" if name == "u8" else "f4"), element_type) for a in inputs],
        {},
        [name] * len(inputs),
    )


def loop(case: Case, pairs: bool, bgr: bool) -> list[np.ndarray]:
    planes = [
        storage.decode(a, t).astype(float) for a, t in zip(case.inputs, case.types, strict=True)
    ]
    batch, height, width, _ = planes[0].shape
    if len(planes) == 1:
        height = height * 2 // 3
    output = np.zeros((batch, height, width, 3))
    for n, h, w in itertools.product(range(batch), range(height), range(width)):
        at = (h // 2) * (width // 2) + w // 2
        if len(planes) == 1:
            rest = planes[0][n, height:].ravel()
            u, v = (
                (rest[2 * at], rest[2 * at + 1]) if pairs else (rest[at], rest[at + len(rest) // 2])
            )
        elif pairs:
            u, v = planes[1][n, h // 2, w // 2]
        else:
            u, v = planes[1][n, h // 2, w // 2, 0], planes[2][n, h // 2, w // 2, 0]
        # In whole thousandths, so that a half is a half.
        y, u, v = int(planes[0][n, h, w, 0]) - 16, int(u) - 128, int(v) - 128
        pixel = [1164 * y + 1596 * v, 1164 * y - 813 * v - 391 * u, 1164 * y + 2018 * u]
        pixel = [min(max(p, 0), 255000) / 1000 for p in pixel]
        output[n, h, w] = pixel[::-1] if bgr else pixel
    return [np.round(output).astype(np.uint8) if case.types[0] is ElementType.u8 else output]


SAMPLES = [
    Samples(
        NV12toRGB8,
        nv12(False),
        ONE + PAIRS,
        cases(True),
        lambda c: loop(c, True, False),
        rtol=1e-5,
        atol=1e-4,
    ),
    Samples(
        NV12toBGR8,
        nv12(True),
        ONE + PAIRS,
        cases(True),
        lambda c: loop(c, True, True),
        rtol=1e-5,
        atol=1e-4,
    ),
    Samples(
        I420toRGB8,
        i420(False),
        ONE + TRIPLES,
        cases(False),
        lambda c: loop(c, False, False),
        rtol=1e-5,
        atol=1e-4,
    ),
    Samples(
        I420toBGR8,
        i420(True),
        ONE + TRIPLES,
        cases(False),
        lambda c: loop(c, False, True),
        rtol=1e-5,
        atol=1e-4,
    ),
]
