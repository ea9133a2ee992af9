"""Logic on booleans. The worked examples are truth tables."""

from __future__ import annotations

import numpy as np

from tests.samples._elementwise import binary, unary
from tests.samples._sample import Refusal, Sample
from uncork.ops.logical import LogicalAnd, LogicalNot, LogicalOr, LogicalXor, Xor

A = np.array([[False], [True]])
B = np.array([False, True])
REFUSALS = [
    Refusal(
        "integers", [np.array([1]), np.array([1])], r"'a' \(port 0\): expected boolean, got i64"
    )
]


def entry(operation, formula, table):
    return binary(
        operation,
        formula,
        [Sample("truth table", [A, B], [np.array(table)])],
        REFUSALS,
        types=("boolean",),
        dtype=bool,
    )


SAMPLES = [
    entry(LogicalAnd, lambda a, b: a and b, [[False, False], [False, True]]),
    entry(LogicalOr, lambda a, b: a or b, [[False, True], [True, True]]),
    entry(LogicalXor, lambda a, b: a != b, [[False, True], [True, False]]),
    entry(Xor, lambda a, b: a != b, [[False, True], [True, False]]),
    unary(
        LogicalNot,
        lambda x: not x,
        [
            Sample("both", [B], [np.array([True, False])]),
            Sample("scalar", [np.array(True)], [np.array(False)]),
        ],
        [Refusal("integers", [np.array([1])], r"'data' \(port 0\): expected boolean, got i64")],
        types=("boolean",),
    ),
]
