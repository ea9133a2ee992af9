"""StridedSlice-1. The page's examples that agree with OpenVINO, smaller where only shapes are
given.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.strided_slice import StridedSlice1

FOUR = np.arange(4, dtype=np.float32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PLAIN = {"begin_mask": (), "end_mask": ()}
MASKS = ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask")


def sample(
    name: str,
    data: np.ndarray,
    bounds: list[list[int]],
    expected: object,
    openvino: str = "",
    **masks: tuple[int, ...],
) -> Sample:
    """Masks are filled up to one length, as OpenVINO asks; the sample that says otherwise is
    not.
    """
    if not openvino:
        longest = len(bounds[0])
        masks = {n: (*masks.get(n, ()), *[0] * (longest - len(masks.get(n, ())))) for n in MASKS}
    inputs = [data, *[np.array(n, np.int64) for n in bounds]]
    return Sample(name, inputs, [np.array(expected, data.dtype)], PLAIN | masks, openvino=openvino)


EXAMPLES = [
    sample(
        "page example: strides both ways",
        np.arange(16).reshape(4, 4),
        [[1, 3], [4, 0], [2, -2]],
        [[7, 5], [15, 13]],
    ),
    sample(
        "page example: end from the end",
        CUBE,
        [[0, 0, 0], [2, 2, -1], [1, 1, 1]],
        [[[0, 1, 2], [4, 5, 6]], [[12, 13, 14], [16, 17, 18]]],
    ),
    sample(
        "page example: begin_mask and end_mask, the [1:, :, ::-1] of its text",
        CUBE,
        [[1, 1, 123], [0, 0, 2], [1, 1, -1]],
        [[[15, 14, 13, 12], [19, 18, 17, 16], [23, 22, 21, 20]]],
        begin_mask=(0, 1, 1),
        end_mask=(1, 1, 1),
    ),
    sample(
        "page example: new_axis_mask",
        CUBE[0, :2],
        [[1234, 0, -1, 0], [1234, 2, 9876, 4], [132, 1, 241, 1]],
        [[[[0, 1, 2, 3]], [[4, 5, 6, 7]]]],
        new_axis_mask=(1, 0, 1, 0),
    ),
    sample(
        "page example: shrink_axis_mask",
        CUBE,
        [[0, 0, 0], [1, 0, 4], [1, 1, 1]],
        [[0, 1, 2, 3]],
        shrink_axis_mask=(0, 1, 0),
    ),
    sample(
        "page example: ellipsis_mask",
        CUBE,
        [[0, 0, 0], [1, 0, 2], [1, -1, 1]],
        [[[0, 1], [4, 5], [8, 9]]],
        ellipsis_mask=(0, 1, 0),
    ),
    sample(
        "page example: masks of unequal length",
        CUBE,
        [[1, 1, 10, 10], [123, 1, 10, 2], [1, -1, 1, 1]],
        [[[[12, 13]], [[16, 17]], [[20, 21]]]],
        begin_mask=(0, 0, 1, 1),
        end_mask=(1, 1, 0, 0),
        new_axis_mask=(0, 0, 1),
        shrink_axis_mask=(0,),
        ellipsis_mask=(0, 1),
        openvino="asks for masks of one length",
    ),
    sample("no stride", FOUR, [[1], [3]], [1, 2]),
    sample("fewer bounds than dimensions", CUBE[0], [[1], [2], [1]], [[4, 5, 6, 7]]),
    sample("equal bounds are empty", FOUR, [[1], [1], [1]], np.zeros(0)),
    sample("backwards from before the start", FOUR, [[-10], [-20], [-1]], [0]),
    sample(
        "backwards over everything",
        FOUR,
        [[0], [0], [-1]],
        [3, 2, 1, 0],
        begin_mask=(1,),
        end_mask=(1,),
    ),
    sample("bounds beyond the dimension", FOUR, [[1234], [4321], [1]], np.zeros(0)),
    sample("shrink from the end to a scalar", FOUR, [[-1], [0], [1]], 3.0, shrink_axis_mask=(1,)),
    sample(
        "shrink with begin_mask", FOUR, [[2], [3], [1]], 0.0, begin_mask=(1,), shrink_axis_mask=(1,)
    ),
    sample(
        "new axis before an ellipsis",
        CUBE[0, 0],
        [[0, 0, 1], [0, 0, 2], [1, 1, 1]],
        [[1]],
        new_axis_mask=(1,),
        ellipsis_mask=(0, 1),
    ),
    sample("an empty ellipsis", FOUR, [[0, 1], [0, 2], [1, 1]], [1], ellipsis_mask=(1,)),
    sample(
        "new axis on a scalar",
        np.float32(5),
        [[0], [0], [1]],
        [5],
        new_axis_mask=(1,),
        openvino="not on scalars",
    ),
    Sample(
        "strings",
        [np.array(["a", "", "日本"], object), np.array([-1]), np.array([0]), np.array([-2])],
        [np.array(["日本"], object)],
        PLAIN,
        openvino="not for strings",
    ),
]
ONE = [np.array([0]), np.array([1]), np.array([1])]
REFUSALS = [
    Refusal(
        "stride 0",
        [FOUR, np.array([0]), np.array([1]), np.array([0])],
        r"'stride': expected strides other than 0, got \[0\]",
        PLAIN,
    ),
    Refusal(
        "lengths",
        [FOUR, np.array([0]), np.array([1, 1])],
        r"of one length, got 'begin' \[1\], 'end' \[2\]",
        PLAIN,
    ),
    Refusal(
        "too many",
        [FOUR, np.array([0, 0]), np.array([1, 1])],
        "bounds for at most 1 axes, got 2",
        PLAIN,
    ),
    Refusal(
        "shrink outside",
        [FOUR, np.array([4]), *ONE[1:]],
        r"begin\[0\] is 4, which lies outside axis 0 of data \[4\]",
        PLAIN | {"shrink_axis_mask": (1,)},
    ),
    Refusal(
        "shrink before",
        [FOUR, np.array([-5]), *ONE[1:]],
        r"begin\[0\] is -5, which lies outside axis 0",
        PLAIN | {"shrink_axis_mask": (1,)},
    ),
    Refusal(
        "two ellipses",
        [FOUR, *ONE],
        "'ellipsis_mask': expected at most one 1",
        PLAIN | {"ellipsis_mask": (1, 1)},
    ),
    Refusal(
        "mask of 2",
        [FOUR, *ONE],
        "'end_mask': expected a list of 0 and 1, got",
        {"begin_mask": (), "end_mask": (2,)},
    ),
    Refusal(
        "scalar begin",
        [FOUR, np.int64(0), np.array([1])],
        r"'begin': expected a 1-D tensor, got shape \[\]",
        PLAIN,
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(
        st.lists(st.sampled_from(["slice", "slice", "shrink", "new", "whole"]), max_size=4)
    )
    kinds = [k for i, k in enumerate(kinds) if k != "whole" or "whole" not in kinds[:i]]
    real = kinds.count("slice") + kinds.count("shrink")
    shape = list(draw(shapes(min_rank=real, max_rank=max(real, 3), max_side=4)))
    masks = {
        name: [draw(st.integers(0, 1)) for _ in range(draw(st.integers(0, 4)))]
        for name in ("begin_mask", "end_mask")
    }
    for kind, name in (
        ("shrink", "shrink_axis_mask"),
        ("new", "new_axis_mask"),
        ("whole", "ellipsis_mask"),
    ):
        masks[name] = [int(k == kind) for k in kinds]
    begin = [draw(st.integers(-6, 6)) for _ in kinds]
    end = [draw(st.integers(-6, 6)) for _ in kinds]
    stride = [draw(st.sampled_from([-2, -1, 1, 1, 2, 3])) for _ in kinds]
    axis = 0
    for i, kind in enumerate(kinds):
        if kind == "shrink":
            shape[axis] = max(shape[axis], 1)
            begin[i] = draw(st.integers(-shape[axis], shape[axis] - 1))
        axis += {"new": 0, "whole": len(shape) - real}.get(kind, 1)
    data, name = draw(arrays(tuple(shape)))
    bounds = [np.array(n, np.int64) for n in (begin, end, stride)]
    if all(s == 1 for s in stride) and draw(st.booleans()):
        bounds.pop()
    return Case([data, *bounds], {n: tuple(m) for n, m in masks.items()}, [name])


def chosen(size: int, begin: int | None, end: int | None, stride: int) -> list[int]:
    """The places visited; None is a masked bound."""
    backwards = stride < 0
    if begin is None:
        begin = size - 1 if backwards else 0
    else:
        begin += size if begin < 0 else 0
        begin = max(0, min(begin, size - 1 if backwards else size))
    if end is None:
        end = -1 if backwards else size
    else:
        end += size if end < 0 else 0
        end = max(-1 if backwards else 0, min(end, size))
    visited = []
    while 0 <= begin < size and (begin > end if backwards else begin < end):
        visited.append(begin)
        begin += stride
    return visited


def loop(case: Case) -> list[np.ndarray]:
    """For each output dimension the places of data that it visits, then element by element."""
    data, begin, end = case.inputs[:3]
    stride = case.inputs[3] if len(case.inputs) > 3 else np.ones(len(begin), np.int64)
    masks = {n: [*m, *[0] * len(begin)] for n, m in case.attributes.items()}
    free = sum(masks["new_axis_mask"]) + sum(masks["ellipsis_mask"])
    hidden = data.ndim - (len(begin) - free)
    shape: list[int] = []
    visited: list[list[int]] = []  # for each axis of data
    where: list[int | None] = []  # for each axis of data its dimension in the output
    for i in range(len(begin)):
        axis = len(visited)
        if masks["ellipsis_mask"][i]:
            for size in data.shape[axis : axis + hidden]:
                where.append(len(shape))
                shape.append(size)
                visited.append(list(range(size)))
        elif masks["new_axis_mask"][i]:
            shape.append(1)
        elif masks["shrink_axis_mask"][i]:
            where.append(None)
            visited.append([0 if masks["begin_mask"][i] else int(begin[i])])
        else:
            first = None if masks["begin_mask"][i] else int(begin[i])
            last = None if masks["end_mask"][i] else int(end[i])
            where.append(len(shape))
            visited.append(chosen(data.shape[axis], first, last, int(stride[i])))
            shape.append(len(visited[-1]))
    for size in data.shape[len(visited) :]:
        where.append(len(shape))
        shape.append(size)
        visited.append(list(range(size)))
    output = np.empty(shape, data.dtype)
    for place in itertools.product(*map(range, shape)):
        output[place] = data[
            tuple(v[0 if w is None else place[w]] for v, w in zip(visited, where, strict=True))
        ]
    return [output]


SAMPLES = [Samples(StridedSlice1, EXAMPLES, REFUSALS, cases(), loop)]
