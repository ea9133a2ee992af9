"""Reshape-1. The numbered examples are those of the page."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.reshape import Reshape1


def ramp(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def example(
    name: str, before: list[int], pattern: list[int], after: list[int], zero: bool, **more: str
) -> Sample:
    return Sample(
        name,
        [ramp(*before), np.array(pattern, np.int64)],
        [ramp(*after)],
        {"special_zero": zero},
        **more,
    )


EXAMPLES = [
    example("page example 1: empty", [2, 5, 5, 0], [0, 4], [0, 4], False),
    example("page example 2: copy, compute, fix", [2, 5, 5, 24], [0, -1, 4], [2, 150, 4], True),
    example("page example 3: two copies", [2, 2, 3], [0, 0, 1, -1], [2, 2, 1, 3], True),
    example("page example 4: compute, copy", [3, 1, 1], [-1, 0], [3, 1], True),
    example("page example 5: copy, compute", [3, 1, 1], [0, -1], [3, 1], True),
    example("to a scalar", [1, 1], [], [], False),
    example("from a scalar", [], [1, -1], [1, 1], True),
    example("an empty batch keeps its width", [0, 3], [0, -1], [0, 3], True),
    example("nothing over something", [0, 3], [-1, 7], [0, 7], False),
    example("an empty batch and other widths", [0, 3], [0, 2, 2], [0, 2, 2], True),
    Sample(
        "strings",
        [np.array(["a", "b"], object), np.array([2, 1])],
        [np.array([["a"], ["b"]], object)],
        {"special_zero": False},
    ),
    Sample(
        "4-bit values stay one a place",
        [np.array([1, 15, 7, 0], np.uint8), np.array([2, -1], np.int32)],
        [np.array([[1, 15], [7, 0]], np.uint8)],
        {"special_zero": True},
        types=["u4"],
        output_types=["u4"],
    ),
]
REFUSALS = [
    Refusal("no special_zero", [ramp(2), np.array([2])], "attribute 'special_zero' is missing"),
    Refusal(
        "below -1",
        [ramp(2), np.array([-2])],
        r"sizes of at least -1, got \[-2\]",
        {"special_zero": True},
    ),
    Refusal(
        "two -1",
        [ramp(2), np.array([-1, -1])],
        r"at most one -1, got \[-1, -1\]",
        {"special_zero": True},
    ),
    Refusal(
        "nothing to copy",
        [ramp(2), np.array([2, 0])],
        r"0 at position 1 copies a dimension that data \[2\]",
        {"special_zero": True},
    ),
    Refusal(
        "count",
        [ramp(2, 3), np.array([4])],
        r"as many elements as data \[2,3\], got \[4\]",
        {"special_zero": True},
    ),
    Refusal(
        "count beside a copy",
        [ramp(2, 3), np.array([0, 4])],
        r"as many elements as data \[2,3\], got \[0, 4\]",
        {"special_zero": True},
    ),
    Refusal(
        "does not divide",
        [ramp(2, 3), np.array([4, -1])],
        r"divide the elements of data \[2,3\], got \[4, -1\]",
        {"special_zero": True},
    ),
    Refusal(
        "-1 beside 0",
        [ramp(0, 3), np.array([0, -1])],
        "-1 has no size beside a dimension of 0",
        {"special_zero": False},
    ),
    Refusal(
        "shape of shape",
        [ramp(2), np.array([[2]])],
        r"'shape': expected a 1-D tensor, got shape \[1,1\]",
        {"special_zero": False},
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes())
    count = int(np.prod(shape, dtype=int))
    sizes: list[int] = []
    rest = count
    while rest > 1 and draw(st.booleans()):
        sizes.append(draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0])))
        rest //= sizes[-1]
    sizes.append(rest)
    zero = draw(st.booleans())
    pattern = [0 if zero and i < len(shape) and shape[i] == s else s for i, s in enumerate(sizes)]
    if count and draw(st.booleans()):
        pattern[draw(st.integers(0, len(pattern) - 1))] = -1
    if 0 in shape and zero and 0 in sizes and sizes.index(0) >= len(shape):
        zero = False  # that 0 is a size
    if (
        0 in pattern
        and zero
        and any(n == 0 and (i >= len(shape) or shape[i] != sizes[i]) for i, n in enumerate(pattern))
    ):
        zero = False
    data, name = draw(arrays(shape))
    return Case(
        [data, np.array(pattern, draw(st.sampled_from(["i4", "i8"])))],
        {"special_zero": zero},
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    """Element k in row-major order stays element k."""
    data, pattern = case.inputs
    sizes = [
        data.shape[i] if n == 0 and case.attributes["special_zero"] else int(n)
        for i, n in enumerate(pattern)
    ]
    if -1 in sizes:
        others = 1
        for size in sizes:
            others *= size if size != -1 else 1
        sizes[sizes.index(-1)] = data.size // others
    output = np.empty(sizes, data.dtype)
    for k in range(data.size):
        output.flat[k] = data.flat[k]
    return [output]


SAMPLES = [Samples(Reshape1, EXAMPLES, REFUSALS, cases(), loop)]
