"""Reductions. Worked by hand; the shapes of the first example of each are those of the
specification pages, made small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._elementwise import NUMBERS, numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops import reduce as ops
from uncork.types import ElementType

LOWEST = np.iinfo(np.int64).min
NARROW = "OpenVINO computes 64-bit types in 32 bits"
NO_AXES = "OpenVINO refuses an empty constant"
EMPTY = "the page leaves it undefined"
GRID = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
#: Of four numbers each along the middle axis: 1, -2, 5, 6 and 3, 4, -7, 8.
CUBE = np.array([[[1, -2], [3, 4]], [[5, 6], [-7, 8]]], np.float32)
BOTH = np.array([0, 1])
OUTER = np.array([0, 2])
LAST = np.array([-1])
NONE = np.zeros((0,), np.int64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@st.composite
def cases(draw: st.DrawFn, types: tuple[str, ...], min_side: int = 0) -> Case:
    shape = draw(shapes(max_rank=4, max_side=3, min_side=min_side))
    data, name = draw(arrays(shape, types, -3, 3))
    rank = len(shape)
    axes = (
        draw(st.lists(st.integers(0, max(rank - 1, 0)), max_size=rank, unique=True)) if rank else []
    )
    axes = [a - rank if draw(st.booleans()) else a for a in axes]
    given = np.array(axes, draw(st.sampled_from([np.int32, np.int64])))
    if len(axes) == 1 and draw(st.booleans()):
        given = given.reshape(())
    attributes = draw(st.sampled_from([{}, {"keep_dims": True}, {"keep_dims": False}]))
    return Case([data, given], attributes, [name])


def loop(formula: Callable[[list[Any], ElementType], Any], case: Case) -> list[np.ndarray]:
    data, axes = numbers(case.inputs[0], case.types[0]), case.inputs[1]
    along = {int(a) % data.ndim for a in axes.reshape(-1)}
    values = []
    for kept in itertools.product(
        *(range(1 if i in along else d) for i, d in enumerate(data.shape))
    ):
        sides = [range(d) if i in along else [kept[i]] for i, d in enumerate(data.shape)]
        items = [data[place] for place in itertools.product(*sides)]
        values.append(formula(items, case.types[0]) if along else items[0])
    keep = case.attributes.get("keep_dims", False)
    shape = [1 if i in along else d for i, d in enumerate(data.shape) if keep or i not in along]
    return [of_type(values, shape, case.types[0])]


def mean(items: list[Any], element_type: ElementType) -> Any:
    if element_type.is_float:
        return math.fsum(items) / len(items) if items else math.nan
    return math.trunc(sum(items) / len(items))


def extreme(
    select_kernel: Callable[..., Any], sign: int
) -> Callable[[list[Any], ElementType], Any]:
    def formula(items: list[Any], element_type: ElementType) -> Any:
        limits = None if element_type.is_float else np.iinfo(element_type.dtype)
        nothing = sign * math.inf if limits is None else int(limits.max if sign > 0 else limits.min)
        return select_kernel(items, default=nothing)

    return formula


def norm(items: list[Any], element_type: ElementType) -> Any:
    root = math.sqrt(sum(x * x for x in items))
    return root if element_type.is_float else math.floor(root + 0.5)


def entry(
    operation: Any,
    formula: Any,
    samples: Sequence[Sample],
    types: tuple[str, ...] = NUMBERS,
    refusals: Sequence[Refusal] = (),
) -> Samples:
    data = GRID > 0 if types == ("boolean",) else GRID
    other = np.array([1]) if types == ("boolean",) else np.array([True])
    return Samples(
        operation,
        samples,
        [
            Refusal(
                "axis past the rank",
                [data, np.array([0, 2])],
                r"axes 2 is outside -2\.\.1 for rank 2",
            ),
            Refusal("axis twice", [data, np.array([1, -1])], r"axes \[1, -1\] name an axis twice"),
            Refusal(
                "axes of rank 2",
                [data, np.array([[0]])],
                r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
            ),
            Refusal(
                "axes that are no integers",
                [data, f32(0)],
                r"'axes' \(port 1\): expected an integer type .* got f32",
            ),
            Refusal(
                "another type", [other, LAST], r"'data' \(port 0\): expected .* got (boolean|i64)"
            ),
            *refusals,
        ],
        cases(
            types, min_side=1 if operation is ops.ReduceMean else 0
        ),  # integers have no mean of nothing
        lambda case: loop(formula, case),
    )


def basic(everything: float, last: Sequence[float], apart: Sequence[float]) -> list[Sample]:
    return [
        Sample("axes that are apart", [CUBE, OUTER], [f32(*apart)]),
        Sample("all axes", [GRID, BOTH], [np.float32(everything)]),
        Sample("the last axis, kept", [GRID, LAST], [f32(*last)[:, None]], {"keep_dims": True}),
        Sample("a scalar axis", [GRID, np.array(1)], [f32(*last)]),
    ]


SAMPLES = [
    entry(
        ops.ReduceSum,
        lambda items, t: sum(items),
        [
            *basic(5, [2, 3], [10, 8]),
            Sample("no axes", [GRID, NONE], [GRID], openvino=NO_AXES),
            Sample("over nothing", [np.zeros((2, 0), np.float32), np.array([1])], [f32(0, 0)]),
            Sample(
                "nothing",
                [np.zeros((2, 0), np.float32), np.array([0])],
                [np.zeros((0,), np.float32)],
            ),
            Sample(
                "i8 wraps",
                [np.array([100, 100], np.int8), np.array([0])],
                [np.array(-56, np.int8)],
                openvino="OpenVINO saturates",
            ),
            Sample(
                "i64 in full width",
                [np.array([2**53, 1]), np.array([0])],
                [np.array(2**53 + 1)],
                openvino=NARROW,
            ),
            Sample(
                "f16 is summed in f32",
                [np.array([2048, 1, 1, 1], np.float16), np.array([0])],
                [np.array(2052, np.float16)],
            ),
        ],
    ),
    entry(
        ops.ReduceProd,
        lambda items, t: math.prod(items),
        [
            *basic(720, [-6, -120], [-60, -672]),
            Sample("over nothing", [np.zeros((2, 0), np.float32), np.array([1])], [f32(1, 1)]),
            Sample("wraps", [np.array([2**40, 2**30]), np.array([0])], [np.array(0)]),
        ],
    ),
    entry(
        ops.ReduceMean,
        mean,
        [
            *basic(5 / 6, [2 / 3, 1], [2.5, 2]),
            Sample(
                "over nothing",
                [np.zeros((1, 0), np.float32), np.array([1])],
                [f32(np.nan)],
                openvino=EMPTY,
            ),
            Sample(
                "integers are cut towards zero, the sum is exact",
                [np.array([[100, 101], [-100, -101]], np.int8), LAST],
                [np.array([100, -100], np.int8)],
                openvino="OpenVINO adds in the narrow type",
            ),
            Sample(
                "i64 in full width",
                [np.array([LOWEST, LOWEST]), np.array([0])],
                [np.array(LOWEST)],
                openvino=NARROW,
            ),
            Sample(
                "empty integers", [np.zeros((0, 2), np.int32), LAST], [np.zeros((0,), np.int32)]
            ),
        ],
        refusals=[
            Refusal(
                "integers over nothing",
                [np.zeros((1, 0), np.int32), LAST],
                r"expected at least one element to average .* got shape \[1, 0\]",
            )
        ],
    ),
    entry(
        ops.ReduceMax,
        extreme(max, -1),
        [
            *basic(5, [3, 5], [6, 8]),
            Sample(
                "NaN wins",
                [f32(1, np.nan, 2), np.array([0])],
                [np.float32(np.nan)],
                openvino="OpenVINO loses the NaN",
            ),
            Sample(
                "over nothing", [np.zeros((1, 0), np.float32), LAST], [f32(-np.inf)], openvino=EMPTY
            ),
            Sample(
                "over nothing, integers",
                [np.zeros((1, 0), np.int8), LAST],
                [np.array([-128], np.int8)],
            ),
            Sample(
                "u64",
                [np.array([2**63, 2**63 + 1], np.uint64), LAST],
                [np.array(2**63 + 1, np.uint64)],
                openvino=NARROW,
            ),
        ],
    ),
    entry(
        ops.ReduceMin,
        extreme(min, 1),
        [
            *basic(-6, [-2, -6], [-2, -7]),
            Sample(
                "over nothing", [np.zeros((1, 0), np.float32), LAST], [f32(np.inf)], openvino=EMPTY
            ),
            Sample(
                "over nothing, integers",
                [np.zeros((1, 0), np.uint8), LAST],
                [np.array([255], np.uint8)],
            ),
        ],
    ),
    entry(
        ops.ReduceL1,
        lambda items, t: sum(map(abs, items)),
        [*basic(21, [6, 15], [14, 22]), Sample("no axes", [GRID, NONE], [GRID], openvino=NO_AXES)],
    ),
    entry(
        ops.ReduceL2,
        norm,
        [
            *basic(math.sqrt(91), [math.sqrt(14), math.sqrt(77)], [math.sqrt(66), math.sqrt(138)]),
            Sample("no axes", [GRID, NONE], [GRID], openvino=NO_AXES),
            Sample(
                "integers, rounded to the nearest",
                [np.array([[3, 4], [1, 2], [100, 60]], np.int8), LAST],
                [np.array([5, 2, 117], np.int8)],
                openvino="OpenVINO cuts",
            ),
            Sample(
                "integers that wrap",
                [np.array([100, 100], np.int8), LAST],
                [np.array(141 - 256, np.int8)],
                openvino="OpenVINO saturates",
            ),
        ],
    ),
    entry(
        ops.ReduceLogicalAnd,
        lambda items, t: all(items),
        [
            Sample(
                "rows", [np.array([[True, False], [True, True]]), LAST], [np.array([False, True])]
            ),
            Sample("over nothing", [np.zeros((1, 0), bool), LAST], [np.array([True])]),
            Sample("axes that are apart", [CUBE > -3, OUTER], [np.array([True, False])]),
        ],
        ("boolean",),
    ),
    entry(
        ops.ReduceLogicalOr,
        lambda items, t: any(items),
        [
            Sample(
                "rows", [np.array([[True, False], [False, False]]), LAST], [np.array([True, False])]
            ),
            Sample("over nothing", [np.zeros((1, 0), bool), LAST], [np.array([False])]),
            Sample("axes that are apart", [CUBE > 6, OUTER], [np.array([False, True])]),
        ],
        ("boolean",),
    ),
]
