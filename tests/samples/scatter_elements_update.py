"""ScatterElementsUpdate-3, -12. The numbered examples are those of the page of version 12."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.scatter_elements_update import ScatterElementsUpdate3, ScatterElementsUpdate12

I64 = np.int64
F32 = np.float32
LINE = np.array([2, 3, 4, 6], F32)
TARGETS = np.array([[1, 2], [0, 3]])
SAME = np.array([[1, 1], [0, 3]])
FOUR = np.array([[11, 12], [13, 14]], np.int32)


def mode(reduction: str, initial: bool = True) -> dict[str, object]:
    return {"reduction": reduction, "use_init_val": initial}


def line(
    reduction: str, initial: bool, expected: list[float], dtype: type = F32, openvino: str = ""
) -> Sample:
    """Place 0 gets 20 and 30, place 1 10, place 2 -7, place 3 nothing."""
    return Sample(
        f"{reduction}, {'with' if initial else 'without'} data, {np.dtype(dtype).name}",
        [LINE.astype(dtype), np.array([1, 0, 0, -2]), np.array([10, 20, 30, -7], dtype), I64(0)],
        [np.array(expected, dtype)],
        mode(reduction, initial),
        openvino=openvino,
    )


BOTH = [
    Sample(
        "page example 3: replaced",
        [np.zeros((3, 4), np.int32), TARGETS, FOUR, np.array([1])],
        [np.array([[0, 11, 12, 0], [13, 0, 0, 14], [0, 0, 0, 0]], np.int32)],
    ),
    Sample(
        "more updates than places",
        [np.zeros(2), np.array([1, 0, 1]), np.array([5.0, 6, 7]), I64(-1)],
        [np.array([6.0, 7])],
    ),
    Sample(
        "strings",
        [np.array(["a", "b"], object), np.array([1]), np.array(["日本"], object), I64(0)],
        [np.array(["a", "日本"], object)],
        openvino="not for strings",
    ),
    Sample(
        "bf16 moves its bits",
        [np.array([0x7FC1, 1], np.uint16), np.array([1]), np.array([0xFF81], np.uint16), I64(0)],
        [np.array([0x7FC1, 0xFF81], np.uint16)],
        types=["bf16", None, "bf16"],
        output_types=["bf16"],
        openvino="may quieten a NaN",
    ),
]
ONLY_12 = [
    Sample(
        "page example 1: sum",
        [
            LINE,
            np.array([1, 0, 0, -2, -1, 2]),
            np.array([10, 20, 30, 40, 70, 60], F32),
            np.array([0]),
        ],
        [np.array([52, 13, 104, 76], F32)],
        mode("sum"),
    ),
    Sample(
        "page example 2: sum without data",
        [
            LINE,
            np.array([1, 0, 0, 2, 3, 2]),
            np.array([10, 20, 30, 40, 70, 60], F32),
            np.array([0]),
        ],
        [np.array([50, 10, 100, 70], F32)],
        mode("sum", False),
    ),
    Sample(
        "page example 4: sum of rows",
        [np.ones((3, 4), np.int32), SAME, FOUR, np.array([1])],
        [np.array([[1, 24, 1, 1], [14, 1, 1, 15], [1, 1, 1, 1]], np.int32)],
        mode("sum"),
    ),
    Sample(
        "page example 5: prod of rows",
        [np.full((3, 4), 2, np.int32), SAME, FOUR, np.array([1])],
        [np.array([[2, 264, 2, 2], [26, 2, 2, 28], [2, 2, 2, 2]], np.int32)],
        mode("prod"),
    ),
    line("prod", True, [1200, 30, -28, 6]),
    line("prod", False, [600, 10, -7, 6]),
    line("min", True, [2, 3, -7, 6]),
    line("min", False, [20, 10, -7, 6]),
    line("max", True, [30, 10, 4, 6]),
    line("max", False, [30, 10, -7, 6]),
    line("mean", True, [52 / 3, 6.5, -1.5, 6]),
    line("mean", False, [25, 10, -7, 6]),
    line("mean", True, [17, 6, -2, 6], np.int32, "cuts towards zero"),
    line("max", False, [30, 10, -7, 6], np.int8),
    line("min", False, [20, 10, -7, 6], np.int64),
    Sample(
        "sums wrap",
        [np.array([100], np.int8), np.array([0, 0]), np.array([100, 1], np.int8), I64(0)],
        [np.array([-55], np.int8)],
        mode("sum"),
    ),
    Sample(
        "the mean's sum does not wrap",
        [np.array([2**63 - 1]), np.array([0, 0]), np.array([2**63 - 1, 2**63 - 4]), I64(0)],
        [np.array([2**63 - 2])],
        mode("mean"),
        openvino="narrows to 32 bits",
    ),
    Sample(
        "half-precision sums are rounded once",
        [
            np.array([2048], np.float16),
            np.array([0, 0, 0]),
            np.array([1, 1, 1], np.float16),
            I64(0),
        ],
        [np.array([2052], np.float16)],
        mode("sum"),
        openvino="may round every step",
    ),
    Sample(
        "booleans: sum is or",
        [np.array([True, False]), np.array([0, 1]), np.array([False, True]), I64(0)],
        [np.array([True, True])],
        mode("sum"),
    ),
    Sample(
        "booleans: prod is and",
        [np.array([True, True, False]), np.array([0, 1]), np.array([False, True]), I64(0)],
        [np.array([False, True, False])],
        mode("prod"),
    ),
    Sample(
        "booleans: min and max without data",
        [np.array([True, False]), np.array([0, 1]), np.array([False, True]), I64(0)],
        [np.array([False, True])],
        mode("min", False),
    ),
]
REFUSALS = [
    Refusal(
        "too large",
        [LINE, np.array([0, 4]), LINE[:2], I64(0)],
        r"indices\[1\] is 4, expected (-4|0) to 3",
    ),
    Refusal(
        "updates",
        [LINE, np.array([0, 1]), LINE, I64(0)],
        r"updates of the shape of indices \[2\], got \[4\]",
    ),
    Refusal(
        "ranks",
        [LINE, np.array([[0]]), LINE[:1, None], I64(0)],
        r"indices of the rank of data \[4\], got \[1,1\]",
    ),
    Refusal(
        "size",
        [np.zeros((2, 2)), np.zeros((3, 2), int), np.zeros((3, 2)), I64(1)],
        r"within data \[2,2\] but for axis 1, got \[3,2\]",
    ),
    Refusal("axis", [LINE, np.array([0]), LINE[:1], I64(1)], r"axis 1 is outside -1\.\.0"),
    Refusal("scalar data", [F32(1), I64(0), F32(1), I64(0)], "'data' is a scalar"),
]
NEGATIVE = [
    Refusal(
        "negative", [LINE, np.array([-1]), LINE[:1], I64(0)], r"indices\[0\] is -1, expected 0 to 3"
    )
]
REDUCING = [
    Refusal(
        "too small",
        [LINE, np.array([-5]), LINE[:1], I64(0)],
        r"indices\[0\] is -5, expected -4 to 3",
        mode("sum"),
    ),
    Refusal(
        "strings",
        [np.array(["a"], object), np.array([0]), np.array(["b"], object), I64(0)],
        "reduction max is not defined for string",
        mode("max"),
    ),
    Refusal(
        "mean of booleans",
        [np.array([True]), np.array([0]), np.array([True]), I64(0)],
        "reduction mean is not defined for boolean",
        mode("mean"),
    ),
]


@st.composite
def cases(draw: st.DrawFn, reducing: bool) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=3))
    axis = draw(st.integers(0, len(shape) - 1))
    sides = [draw(st.integers(0, s)) for s in shape]
    sides[axis] = draw(st.integers(0, 4)) if shape[axis] else 0
    low = -shape[axis] if reducing else 0
    indices = draw(integer_arrays(tuple(sides), low, max(shape[axis] - 1, 0), ("i4", "i8")))
    reduction = (
        draw(st.sampled_from(["none", "sum", "prod", "min", "max", "mean"])) if reducing else "none"
    )
    types = ["f32", "f64", "i8", "i64", "u16", "f16", "bf16", "i4"]
    types += ["boolean"] if reduction != "mean" else []
    types += ["string", "f8e4m3"] if reduction == "none" else []
    data, name = draw(arrays(shape, tuple(types)))
    updates, _ = draw(arrays(tuple(sides), (name,)))
    attributes = mode(reduction, draw(st.booleans())) if reducing else {}
    return Case([data, indices, updates, I64(axis)], attributes, [name, None, name])


def loop(case: Case) -> list[np.ndarray]:
    """Collects what each place gets, then reduces it in plain Python."""
    data, indices, updates, axis = case.inputs
    reduction, element_type = case.attributes.get("reduction", "none"), case.types[0]
    got: dict[tuple[int, ...], list[object]] = {}
    moves = reduction == "none"
    given, values = (a if moves else storage.decode(a, element_type) for a in (updates, data))
    for place in itertools.product(*map(range, indices.shape)):
        target = list(place)
        target[int(axis)] = int(indices[place]) % data.shape[int(axis)]
        got.setdefault(tuple(target), []).append(
            given[place].item() if not isinstance(given[place], str) else given[place]
        )
    output = values.copy() if moves else values.astype(object)
    for target, numbers in got.items():
        if moves:
            output[target] = numbers[-1]
            continue
        all_numbers = (
            [values[target].item(), *numbers] if case.attributes["use_init_val"] else numbers
        )
        if data.dtype == bool:
            result: object = {"sum": any, "prod": all, "min": all, "max": any}[reduction](
                all_numbers
            )
        elif reduction == "mean":
            total = sum(all_numbers)
            result = (
                total // len(all_numbers) if element_type.is_integer else total / len(all_numbers)
            )
        else:
            result = {"sum": sum, "prod": math.prod, "min": min, "max": max}[reduction](all_numbers)
        if element_type.is_integer:
            low = -(2 ** (element_type.bits - 1)) if element_type.kind == "signed" else 0
            result = (result - low) % 2**element_type.bits + low
        output[target] = result
    if moves:
        return [output]
    carrier = data.dtype if not element_type.is_float else np.float64
    return [
        storage.encode(output.astype(carrier), element_type)
        if element_type.is_float
        else output.astype(carrier)
    ]


SAMPLES = [
    Samples(ScatterElementsUpdate12, BOTH + ONLY_12, REFUSALS + REDUCING, cases(True), loop),
    Samples(ScatterElementsUpdate3, BOTH, REFUSALS + NEGATIVE, cases(False), loop),
]
