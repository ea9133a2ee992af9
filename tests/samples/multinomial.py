"""Multinomial-13. The loop draws by the page's rules with the numbers of RandomUniform's own loop;
the worked examples have one
possible answer, whatever the numbers.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._elementwise import numbers
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples.random_uniform import philox
from uncork.ops.multinomial import Multinomial
from uncork.types import ElementType

I32, I64 = ElementType.i32, ElementType.i64


def how(
    convert_type: ElementType = I32,
    with_replacement: bool = True,
    log_probs: bool = False,
    **more: int,
) -> dict[str, object]:
    return {
        "convert_type": convert_type,
        "with_replacement": with_replacement,
        "log_probs": log_probs,
        "global_seed": 7,
    } | more


@st.composite
def cases(draw: st.DrawFn) -> Case:
    logarithms = draw(st.booleans())
    shape = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    probs, name = draw(arrays(shape, FLOATS, -2 if logarithms else 0.125, 2))
    if not logarithms:
        # Zeros too, but never in the first class: every row has a chance.
        probs[:, 1:] = np.where(
            np.array(
                draw(st.lists(st.booleans(), min_size=shape[1] - 1, max_size=shape[1] - 1)), bool
            ),
            0,
            probs[:, 1:],
        )
    replaced = draw(st.booleans())
    count = draw(st.integers(0, 5 if replaced else 1))
    attributes = how(
        draw(st.sampled_from([I32, I64])),
        replaced,
        logarithms,
        op_seed=draw(st.integers(0, 2**64 - 1)),
    )
    return Case(
        [probs, draw(st.sampled_from([np.array(count), np.array([count], np.int32)]))],
        attributes,
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    probs = numbers(case.inputs[0], case.types[0])
    count, a = int(case.inputs[1].reshape(-1)[0]), case.attributes
    raw = [
        w for n in range(probs.shape[0] * count) for w in philox(n, a["global_seed"], a["op_seed"])
    ]
    random = [((x << 32) + y) % 2**52 / 2**52 for x, y in zip(raw[0::2], raw[1::2], strict=True)]
    output = np.empty((probs.shape[0], count), a["convert_type"].dtype)
    for row in range(probs.shape[0]):
        left = [math.exp(p) if a["log_probs"] else p for p in probs[row]]
        for sample in range(count):
            aim = random[row * count + sample] * math.fsum(left)
            reached = [math.fsum(left[: i + 1]) for i in range(len(left))]
            index = next(i for i, chance in enumerate(left) if chance and reached[i] >= aim)
            output[row, sample] = index
            if not a["with_replacement"]:
                left[index] = 0.0
    return [output]


def f32(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


TWO = np.array(2)
CERTAIN = f32([0, 1, 0], [2, 0, 0])
SAMPLES = [
    Samples(
        Multinomial,
        [
            Sample(
                "certain classes", [CERTAIN, TWO], [np.array([[1, 1], [0, 0]], np.int32)], how()
            ),
            Sample("i64", [CERTAIN, np.array([1])], [np.array([[1], [0]])], how(I64)),
            Sample(
                "logarithms",
                [f32([-np.inf, 800, 0]), TWO],
                [np.array([[1, 1]], np.int32)],
                how(log_probs=True),
                openvino="OpenVINO overflows",
            ),
            Sample(
                "without replacement, one class is left",
                [f32([0, 3]), np.array(1)],
                [np.array([[1]], np.int32)],
                how(with_replacement=False),
            ),
            Sample(
                "no samples",
                [CERTAIN, np.array(0)],
                [np.zeros((2, 0), np.int32)],
                how(),
                openvino="not for empty tensors",
            ),
            Sample(
                "no rows",
                [CERTAIN[:0], TWO],
                [np.zeros((0, 2), np.int32)],
                how(),
                openvino="not for empty tensors",
            ),
        ],
        [
            Refusal(
                "one dimension",
                [CERTAIN[0], TWO],
                r"'probs': expected rank 2, got shape \[3\]",
                how(),
            ),
            Refusal(
                "a negative count",
                [CERTAIN, np.array(-1)],
                "'num_samples' is -1, expected at least 0",
                how(),
            ),
            Refusal(
                "two counts",
                [CERTAIN, np.array([1, 1])],
                r"'num_samples': expected a scalar or one element, got shape \[2\]",
                how(),
            ),
            Refusal(
                "a negative probability",
                [f32([1, -1]), TWO],
                r"probs\[0, 1\] is -1.0, expected a finite number of at least 0",
                how(),
            ),
            Refusal(
                "infinity",
                [f32([1, np.inf]), TWO],
                r"probs\[0, 1\] is inf, expected a finite number of at least 0",
                how(),
            ),
            Refusal(
                "NaN",
                [f32([1, np.nan]), TWO],
                r"probs\[0, 1\] is nan, expected a finite number",
                how(),
            ),
            Refusal(
                "no logarithm",
                [f32([1, np.inf]), TWO],
                r"probs\[0, 1\] is inf, expected a logarithm of a probability",
                how(log_probs=True),
            ),
            Refusal(
                "no chance",
                [f32([1, 0], [0, 0]), TWO],
                "2 samples from row 1, which has 0 classes with a chance",
                how(),
            ),
            Refusal(
                "no chance, logarithms",
                [f32([-np.inf, -np.inf]), TWO],
                "2 samples from row 0, which has 0 classes",
                how(log_probs=True),
            ),
            Refusal(
                "more samples than classes",
                [f32([1, 1]), np.array(3)],
                "3 samples without replacement, but only 2 classes",
                how(with_replacement=False),
            ),
            Refusal(
                "more samples than chances",
                [f32([1, 0]), TWO],
                "2 samples from row 0, which has 1 classes",
                how(with_replacement=False),
            ),
            Refusal(
                "another type",
                [CERTAIN, TWO],
                "'convert_type': expected i32 or i64, got f32",
                how(ElementType.f32),
            ),
        ],
        cases(),
        loop,
    )
]
