"""GatherTree-1."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.gather_tree import GatherTree1

#: One row, three beams: [MAX_TIME, BATCH_SIZE = 1, BEAM_WIDTH]
STEPS = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]], np.int32)
PARENTS = np.array([[[0, 0, 0]], [[0, 1, 1]], [[2, 1, 2]]], np.int32)


def call(
    length: int, end: int, steps: np.ndarray = STEPS, parents: np.ndarray = PARENTS
) -> list[np.ndarray]:
    return [steps, parents, np.array([length], steps.dtype), np.array(end, steps.dtype)]


# Beam 0 came from beam 2, which came from beam 1: 2 6 7; beam 1 from 1 from 1: 2 5 8; beam 2 from 2
# from 1: 2 6 9.
WHOLE = np.array([[[2, 2, 2]], [[6, 5, 6]], [[7, 8, 9]]], np.int32)
EXAMPLES = [
    Sample("beams are followed back", call(3, 10), [WHOLE]),
    Sample("a length past the steps counts as all of them", call(30, 10), [WHOLE]),
    Sample(
        "after the end only the end",
        call(3, 6),
        [np.array([[[2, 2, 2]], [[6, 5, 6]], [[6, 8, 6]]], np.int32)],
    ),
    # From step 1 on: beam 0 from 0: 1 4; beam 1 from 1: 2 5; beam 2 from 1: 2 6.
    Sample(
        "past a row's length",
        call(2, 10),
        [np.array([[[1, 2, 2]], [[4, 5, 6]], [[10, 10, 10]]], np.int32)],
    ),
    Sample(
        "length 1 follows no parent",
        call(1, 10, parents=PARENTS + 50),
        [np.array([[[1, 2, 3]], [[10] * 3], [[10] * 3]], np.int32)],
    ),
    Sample(
        "length 0",
        call(0, 10),
        [np.full((3, 1, 3), 10, np.int32)],
        openvino="OpenVINO returns uninitialised memory",
    ),
    Sample(
        "parents that are not followed may be anything",
        call(2, 10, parents=np.array([[[-7, 99, 5]], [[0, 1, 1]], [[88, -1, 9]]], np.int32)),
        [np.array([[[1, 2, 2]], [[4, 5, 6]], [[10, 10, 10]]], np.int32)],
    ),
    Sample("floats", [a.astype(np.float32) for a in call(3, 10)], [WHOLE.astype(np.float32)]),
    Sample(
        "64-bit ids",
        [
            STEPS.astype(np.int64) + 2**40,
            PARENTS.astype(np.int64),
            np.array([3]),
            np.array(2**40 + 9),
        ],
        [WHOLE.astype(np.int64) + 2**40],
        openvino="OpenVINO computes i64 in 32 bits",
    ),
    Sample(
        "no steps",
        [np.zeros((0, 2, 3), "i4")] * 2 + [np.array([4, 0], "i4"), np.int32(1)],
        [np.zeros((0, 2, 3), "i4")],
    ),
    Sample(
        "the page's shapes: one step id, own parents, lengths of all",
        [
            np.full((100, 1, 10), 5, "i4"),
            np.zeros((100, 1, 10), "i4"),
            np.array([100], "i4"),
            np.int32(1),
        ],
        [np.full((100, 1, 10), 5, "i4")],
    ),
]


def with_parent(place: tuple[int, int, int], value: float, dtype: str = "i4") -> list[np.ndarray]:
    parents = PARENTS.astype(dtype)
    parents[place] = value
    return [STEPS.astype(dtype), parents, np.array([3], dtype), np.array(10, dtype)]


REFUSALS = [
    Refusal(
        "parent past the beams",
        with_parent((2, 0, 0), 3),
        r"parent_ids\[2, 0, 0\] is 3, expected a whole number, 0 to 2",
    ),
    Refusal("negative parent", with_parent((1, 0, 1), -1), r"parent_ids\[1, 0, 1\] is -1"),
    Refusal(
        "parents are not narrowed",
        with_parent((2, 0, 1), 2**32, "i8"),
        r"parent_ids\[2, 0, 1\] is 4294967296",
    ),
    Refusal(
        "half a parent",
        with_parent((2, 0, 0), 0.5, "f4"),
        r"parent_ids\[2, 0, 0\] is 0.5, expected a whole number",
    ),
    Refusal("no parent", with_parent((2, 0, 0), np.nan, "f4"), r"parent_ids\[2, 0, 0\] is nan"),
    Refusal(
        "negative length",
        call(-1, 10),
        r"max_seq_len\[0\] is -1, expected a whole number, 0 or more",
    ),
    Refusal(
        "half a length",
        [STEPS.astype("f4"), PARENTS.astype("f4"), np.array([1.5], "f4"), np.float32(1)],
        r"max_seq_len\[0\] is 1.5",
    ),
    Refusal(
        "other parents",
        call(3, 10, parents=PARENTS[:2]),
        r"'parent_ids': expected \[MAX_TIME = 3, BATCH_SIZE = 1, BEAM_WIDTH = 3\], got \[2,1,3\]",
    ),
    Refusal(
        "lengths of another batch",
        [*call(3, 10)[:2], np.array([1, 2], "i4"), np.int32(1)],
        r"'max_seq_len': expected \[BATCH_SIZE = 1\], got \[2\]",
    ),
    Refusal(
        "two ends",
        [*call(3, 10)[:3], np.array([1], "i4")],
        r"'end_token': expected \[\], got \[1\]",
    ),
    Refusal(
        "rank 2",
        [STEPS[0], PARENTS[0], np.array([1], "i4"), np.int32(1)],
        r"'step_ids': expected \[MAX_TIME = \?, .*got \[1,3\]",
    ),
    Refusal(
        "other types",
        [*call(3, 10)[:3], np.int64(1)],
        "'end_token' .port 3.: expected i32 as 'step_ids' has, got i64",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps, batch = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    beams = draw(st.integers(1, 3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from(["i4", "i8", "u1", "f4", "f8", "f2"]))
    shape = (steps, batch, beams)
    ids, parents = generator.integers(0, 5, shape), generator.integers(0, beams, shape)
    lengths = generator.integers(0, steps + 2, batch)
    return Case(
        [a.astype(dtype) for a in (ids, parents, lengths, np.array(draw(st.integers(0, 5))))]
    )


def loop(case: Case) -> list[np.ndarray]:
    """The page's pseudo-code."""
    step_ids, parent_ids, max_seq_len, end_token = case.inputs
    final = np.empty_like(step_ids)
    final[...] = end_token
    for batch in range(step_ids.shape[1]):
        for beam in range(step_ids.shape[2]):
            length = min(step_ids.shape[0], int(max_seq_len[batch]))
            if length == 0:
                continue
            parent = int(parent_ids[length - 1, batch, beam])
            final[length - 1, batch, beam] = step_ids[length - 1, batch, beam]
            for level in reversed(range(length - 1)):
                final[level, batch, beam] = step_ids[level, batch, parent]
                parent = int(parent_ids[level, batch, parent])
            finished = False
            for time in range(length):
                if finished:
                    final[time, batch, beam] = end_token
                elif final[time, batch, beam] == end_token:
                    finished = True
    return [final]


SAMPLES = [Samples(GatherTree1, EXAMPLES, REFUSALS, cases(), loop)]
