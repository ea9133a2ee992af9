"""Col2Im-15. The page's examples have shapes only."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.col2im import Col2Im15

I32 = np.int32


def sizes(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ONES = np.ones((1, 4, 4), np.float32)
EDGES = np.array([1] + [2] * 14 + [1], np.int32)
EXAMPLES = [
    # Four 2 x 2 patches over 3 x 3: the middle is in all of them.
    Sample(
        "overlaps add up",
        [ONES, sizes(3, 3), sizes(2, 2)],
        [np.array([[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]], np.float32)],
    ),
    Sample(
        "two patches of two channels, without a batch",
        [np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32), sizes(1, 3), sizes(1, 2)],
        [np.array([[[1, 2 + 3, 4]], [[5, 6 + 7, 8]]], np.float32)],
    ),
    Sample(
        "strides, dilations and pads",
        [np.arange(1, 9, dtype=np.int32).reshape(1, 2, 4), sizes(1, 6), np.array([1, 2])],
        # Places -1, 1, 3, 5 of the padded image for kw = 0 and 1, 3, 5, 7 for kw = 1.
        [np.array([[[[0, 2 + 5, 0, 3 + 6, 0, 4 + 7]]]], np.int32)],
        {"strides": (1, 2), "dilations": (1, 2), "pads_begin": (0, 1), "pads_end": (0, 2)},
    ),
    Sample(
        "page example 1's shape",
        [np.ones((3, 12, 225), np.int32), sizes(16, 16).astype(I32), sizes(2, 2).astype(I32)],
        [
            np.broadcast_to(
                np.array([[a * b for b in EDGES] for a in EDGES]), (3, 3, 16, 16)
            ).astype(np.int32)
        ],
    ),
    Sample(
        "cells that no patch covers",
        [np.ones((1, 1, 4), np.float32), sizes(3, 4), sizes(1, 1)],
        [np.array([[[[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0]]]], np.float32)],
        {"strides": (2, 2)},
    ),
    Sample(
        "no images",
        [np.zeros((0, 4, 4), np.float32), sizes(2, 2), sizes(1, 1)],
        [np.zeros((0, 4, 2, 2), np.float32)],
    ),
    Sample(
        "no channels",
        [np.zeros((1, 0, 1), np.float32), sizes(2, 2), sizes(2, 2)],
        [np.zeros((1, 0, 2, 2), np.float32)],
    ),
    Sample(
        "i8 wraps",
        [np.full((1, 2, 2), 100, np.int8), sizes(1, 3), sizes(1, 2)],
        [np.array([[[[100, 200 - 256, 100]]]]).astype(np.int8)],
    ),
    Sample(
        "f16 is summed in f32",
        [np.array([[[1, 1, 2048], [1, 1, 1], [1, 1, 1]]], np.float16), sizes(1, 5), sizes(1, 3)],
        [np.array([[[[1, 2, 2050, 2, 1]]]], np.float16)],
    ),
]
REFUSALS = [
    Refusal(
        "rank",
        [ONES[None], sizes(3, 3), sizes(2, 2)],
        r"'data': expected \[N, C \* kernel, L\] .* got shape \[1,1,4,4\]",
    ),
    Refusal(
        "channels",
        [ONES[:, :3], sizes(3, 3), sizes(2, 2)],
        r"'data': expected a multiple of 4 = 2 x 2 rows, got \[1,3,4\]",
    ),
    Refusal(
        "patches",
        [ONES[..., :3], sizes(3, 3), sizes(2, 2)],
        r"expected 2 x 2 patches for output_size \[3, 3\] .* got shape \[1,4,3\]",
    ),
    Refusal(
        "kernel",
        [ONES, sizes(3, 1), sizes(2, 2)],
        "the kernel spans 2 cells along spatial axis 1, the padded image has 1",
    ),
    Refusal(
        "kernel 0",
        [ONES, sizes(3, 3), sizes(0, 2)],
        r"'kernel_size': expected numbers of at least 1, got \[0, 2\]",
    ),
    Refusal(
        "size",
        [ONES, sizes(3, -3), sizes(2, 2)],
        r"'output_size': expected numbers of at least 0, got \[3, -3\]",
    ),
    Refusal(
        "three sizes",
        [ONES, sizes(3, 3, 3), sizes(2, 2)],
        r"'output_size': expected 2 numbers, got shape \[3\]",
    ),
    Refusal(
        "a scalar size",
        [ONES, np.int64(3), sizes(2, 2)],
        r"'output_size': expected a 1-D tensor, got shape \[\]",
    ),
    Refusal(
        "three strides",
        [ONES, sizes(3, 3), sizes(2, 2)],
        "'strides': expected 2 numbers, for rows and columns",
        {"strides": (1, 1, 1)},
    ),
    Refusal(
        "stride 0",
        [ONES, sizes(3, 3), sizes(2, 2)],
        "'strides': expected numbers of at least 1",
        {"strides": (0, 1)},
    ),
    Refusal(
        "a negative pad",
        [ONES, sizes(3, 3), sizes(2, 2)],
        "'pads_end': expected numbers of at least 0",
        {"pads_end": (0, -1)},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    names = {"strides": (1, 3), "dilations": (1, 2), "pads_begin": (0, 2), "pads_end": (0, 2)}
    attributes = {
        name: (draw(st.integers(*ends)), draw(st.integers(*ends)))
        for name, ends in names.items()
        if draw(st.booleans())
    }
    image, kernel, counts = [], [], []
    for axis in range(2):
        stride, dilation, begin, end = (
            attributes.get(n, (d, d))[axis] for n, d in zip(names, (1, 1, 0, 0), strict=True)
        )
        kernel.append(draw(st.integers(1, 3)))
        image.append(draw(st.integers(max(0, (kernel[-1] - 1) * dilation + 1 - begin - end), 7)))
        last = image[-1] + begin + end - (kernel[-1] - 1) * dilation - 1
        counts.append(sum(p % stride == 0 for p in range(last + 1)))
    lead = draw(st.sampled_from([(), (1,), (2,)]))
    data, name = draw(
        arrays(
            (*lead, draw(st.integers(0, 2)) * kernel[0] * kernel[1], counts[0] * counts[1]),
            FLOATS + INTEGERS,
        )
    )
    dtype = draw(st.sampled_from([np.int32, np.int64]))
    return Case([data, np.array(image, dtype), np.array(kernel, dtype)], attributes, [name])


def loop(case: Case) -> list[np.ndarray]:
    """Walks over all places of all patches, in the order of the rows of data."""
    data, image, kernel = case.inputs
    data = storage.decode(data, case.types[0])
    strides, dilations, begins, ends = (
        case.attributes.get(n, d)
        for n, d in (
            ("strides", (1, 1)),
            ("dilations", (1, 1)),
            ("pads_begin", (0, 0)),
            ("pads_end", (0, 0)),
        )
    )
    tops, lefts = (
        [
            p - begins[a]
            for p in range(
                0,
                int(image[a]) + begins[a] + ends[a] - (int(kernel[a]) - 1) * dilations[a],
                strides[a],
            )
        ]
        for a in range(2)
    )
    cells = [(y, x) for y in range(int(kernel[0])) for x in range(int(kernel[1]))]
    batched = data[None] if data.ndim == 2 else data
    wide = np.float64 if data.dtype.kind == "f" else data.dtype
    output = np.zeros((len(batched), data.shape[-2] // len(cells), *image.tolist()), wide)
    for n, row in itertools.product(range(len(batched)), range(data.shape[-2])):
        channel, (ky, kx) = row // len(cells), cells[row % len(cells)]
        for patch, (top, left) in enumerate(itertools.product(tops, lefts)):
            y, x = top + ky * dilations[0], left + kx * dilations[1]
            if 0 <= y < image[0] and 0 <= x < image[1]:
                with np.errstate(over="ignore"):
                    output[n, channel, y, x] += batched[n, row, patch]
    return [output[0] if data.ndim == 2 else output]


SAMPLES = [Samples(Col2Im15, EXAMPLES, REFUSALS, cases(), loop)]
