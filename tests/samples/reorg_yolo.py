"""ReorgYolo-2. The page has shapes only; expected values are traced by hand through Darknet's
loop.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.reorg_yolo import ReorgYolo2

STRIDE = {"stride": 2}


def image(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


EXAMPLES = [
    # B = 1: channels 0 to 3 of the result so far are the places (0, 0), (0, 1), (1, 0), (1, 1) of
    # the 2 x 2 blocks in [1, 4, 4].
    Sample(
        "four channels",
        [image(1, 4, 2, 2)],
        [
            np.array([0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15], np.float32).reshape(
                1, 16, 1, 1
            )
        ],
        STRIDE,
    ),
    # B = 2: each of them for two channels, 16 elements apart.
    Sample(
        "eight channels of i32",
        [image(1, 8, 2, 2).astype(np.int32)],
        [
            np.array([[p + q for q in (0, 16)] for p in range(16)], np.int32)
            .reshape(2, 2, 2, 2, 2)  # y, dy, x, dx, channel
            .transpose(1, 3, 4, 0, 2)
            .reshape(1, 32, 1, 1)
        ],
        STRIDE,
    ),
    Sample("stride 1", [image(2, 3, 1, 2)], [image(2, 3, 1, 2)], {"stride": 1}),
    Sample("no images", [image(0, 4, 2, 2)], [np.zeros((0, 16, 1, 1), np.float32)], STRIDE),
    # B = 1: the fifth channel is the place (2, 0), which is the next block's (0, 0).
    Sample(
        "channels that are no multiple",
        [image(1, 5, 2, 2)],
        [
            np.array(
                [0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15, 8, 10, 16, 18], np.float32
            ).reshape(1, 20, 1, 1)
        ],
        STRIDE,
    ),
]
REFUSALS = [
    Refusal(
        "few channels",
        [image(1, 3, 2, 2)],
        r"expected at least 4 channels, stride\^2, got \[1,3,2,2\]",
        STRIDE,
    ),
    Refusal(
        "odd sides",
        [image(1, 4, 2, 3)],
        r"expected sides that stride 2 divides, got \[1,4,2,3\]",
        STRIDE,
    ),
    Refusal(
        "rank", [image(4, 2, 2)], r"'input': expected \[N, C, H, W\], got shape \[4,2,2\]", STRIDE
    ),
    Refusal("stride", [image(1, 4, 2, 2)], "'stride': expected at least 1, got 0", {"stride": 0}),
    Refusal(
        "no multiple",
        [image(1, 5, 2, 2)],
        r"expected a multiple of 4 channels, stride\^2, got \[1,5,2,2\]",
        STRIDE,
        strict=True,
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    stride = draw(st.integers(1, 3))
    channels = draw(st.integers(stride**2, 2 * stride**2 + 1))
    sides = [stride * draw(st.integers(0, 2)) for _ in range(2)]
    data, name = draw(arrays((draw(st.integers(0, 2)), channels, *sides)))
    return Case([data], {"stride": stride}, [name])


def loop(case: Case) -> list[np.ndarray]:
    """Darknet's loop: element by element, with its names."""
    (data,) = case.inputs
    stride = case.attributes["stride"]
    batch, c, h, w = data.shape
    source, output = data.ravel(), np.empty(data.size, data.dtype)
    out_c = c // (stride * stride)
    for b in range(batch):
        for k in range(c):
            for j in range(h):
                for i in range(w):
                    c2, offset = k % out_c, k // out_c
                    w2, h2 = i * stride + offset % stride, j * stride + offset // stride
                    output[i + w * (j + h * (k + c * b))] = source[
                        w2 + w * stride * (h2 + h * stride * (c2 + out_c * b))
                    ]
    return [output.reshape(batch, c * stride * stride, h // stride, w // stride)]


SAMPLES = [Samples(ReorgYolo2, EXAMPLES, REFUSALS, cases(), loop)]
