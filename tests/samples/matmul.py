"""MatMul-1. Worked by hand; the shape rules are the specification page's table."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._elementwise import (
    NUMBERS,
    common_shape,
    numbers,
    of_type,
    stretched,
    stretching_shapes,
)
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.matmul import MatMul

A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, 0], [0, 1], [2, 2]], np.float32)
AB = np.array([[7, 8], [16, 17]], np.float32)
ROW = np.array([1, 2, 3], np.float32)
NARROW = "OpenVINO computes 64-bit types in 32 bits"

EXAMPLES = [
    Sample("matrices", [A, B], [AB]),
    Sample("a transposed", [A.T.copy(), B], [AB], {"transpose_a": True}),
    Sample("b transposed", [A, B.T.copy()], [AB], {"transpose_b": True}),
    Sample(
        "both transposed",
        [A.T.copy(), B.T.copy()],
        [AB],
        {"transpose_a": True, "transpose_b": True},
    ),
    Sample("vector and vector", [ROW, ROW], [np.float32(14)]),
    Sample("vector and matrix", [ROW, B], [np.array([7, 8], np.float32)]),
    Sample("matrix and vector", [A, ROW], [np.array([14, 32], np.float32)]),
    Sample(
        "flags leave vectors alone",
        [ROW, ROW],
        [np.float32(14)],
        {"transpose_a": True, "transpose_b": True},
    ),
    Sample(
        "vector and batch", [ROW, np.stack([B, 2 * B])], [np.array([[7, 8], [14, 16]], np.float32)]
    ),
    Sample("batches stretch", [np.stack([A, 2 * A]), B], [np.stack([AB, 2 * AB])]),
    Sample(
        "batches of 1 stretch both ways",
        [np.stack([A, 2 * A])[:, None], np.stack([B, 3 * B])[None]],
        [np.stack([np.stack([AB, 3 * AB]), np.stack([2 * AB, 6 * AB])])],
    ),
    Sample(
        "an empty sum is 0",
        [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)],
        [np.zeros((2, 3), np.float32)],
    ),
    Sample(
        "i8 wraps",
        [np.array([[100, 100]], np.int8), np.array([[1], [1]], np.int8)],
        [np.array([[-56]], np.int8)],
        openvino="OpenVINO saturates",
    ),
    Sample(
        "i64 in full width",
        [np.array([[2**53, 1]]), np.array([[1], [1]])],
        [np.array([[2**53 + 1]])],
        openvino=NARROW,
    ),
    Sample(
        "f16 adds in f32",
        [np.array([[2048, 1, 1]], np.float16), np.ones((3, 1), np.float16)],
        [np.array([[2050]], np.float16)],
    ),
]
REFUSALS = [
    Refusal(
        "inner dimensions",
        [A, A],
        r"inner dimensions differ: 3 of a, 2 of b \(a \[2,3\], b \[2,3\]\)",
    ),
    Refusal(
        "inner dimensions, transposed",
        [A, A],
        r"2 of a, 3 of b \(a \[2,3\], b \[2,3\], a transposed, b transposed\)",
        {"transpose_a": True, "transpose_b": True},
    ),
    Refusal(
        "batches",
        [np.ones((2, 1, 1)), np.ones((3, 1, 1))],
        r"fit by numpy broadcasting, got 'batch of a' \[2\], 'batch of b' \[3\]",
    ),
    Refusal(
        "scalar a",
        [np.float32(1), ROW],
        r"input 'a': expected at least one dimension, got a scalar",
    ),
    Refusal(
        "scalar b",
        [ROW, np.float32(1)],
        r"input 'b': expected at least one dimension, got a scalar",
    ),
    Refusal(
        "unequal types",
        [A, B.astype(np.float64)],
        r"'b' \(port 1\): expected f32 as 'a' has, got f64",
    ),
    Refusal("booleans", [A > 0, B > 0], r"'a' \(port 0\): expected one of .* got boolean"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    i, k, j = draw(shapes(3, 3, max_side=3))
    batch_a, batch_b = draw(stretching_shapes())
    flags = {"transpose_a": draw(st.booleans()), "transpose_b": draw(st.booleans())}
    shape_a = (
        (k,)
        if draw(st.integers(0, 4)) == 0
        else (*batch_a[-2:], *((k, i) if flags["transpose_a"] else (i, k)))
    )
    shape_b = (
        (k,)
        if draw(st.integers(0, 4)) == 0
        else (*batch_b[-2:], *((j, k) if flags["transpose_b"] else (k, j)))
    )
    a, name = draw(arrays(shape_a, NUMBERS))
    b, _ = draw(arrays(shape_b, (name,)))
    return Case([a, b], flags, [name, name])


def loop(case: Case) -> list[np.ndarray]:
    a, b = (numbers(x, t) for x, t in zip(case.inputs, case.types, strict=True))
    row_a, column_b = a.ndim == 1, b.ndim == 1
    if row_a:
        a = a.reshape(1, -1)
    elif case.attributes["transpose_a"]:
        a = a.swapaxes(-1, -2)
    if column_b:
        b = b.reshape(-1, 1)
    elif case.attributes["transpose_b"]:
        b = b.swapaxes(-1, -2)
    lead = common_shape(a.shape[:-2], b.shape[:-2])
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    values = []
    for n in itertools.product(*map(range, lead)):
        at_a, at_b = stretched(n, a.shape[:-2]), stretched(n, b.shape[:-2])
        for i, j in itertools.product(range(rows), range(columns)):
            values.append(sum(a[(*at_a, i, k)] * b[(*at_b, k, j)] for k in range(inner)))
    shape = lead + (() if row_a else (rows,)) + (() if column_b else (columns,))
    return [of_type(values, shape, case.types[0])]


SAMPLES = [Samples(MatMul, EXAMPLES, REFUSALS, cases(), loop)]
