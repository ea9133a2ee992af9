"""RandomUniform-8. The Philox examples are those of the specification page; the page's examples of
the Mersenne Twister are not what
it describes, so those here are PyTorch's own numbers (torch.manual_seed, then rand or random_),
which the page names as the aim.
"""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.random_uniform import RandomUniform
from uncork.types import ElementType

F32, F64, I32, I64 = ElementType.f32, ElementType.f64, ElementType.i32, ElementType.i64
LOW = 2**32 - 1


def how(
    output_type: ElementType, global_seed: int = 0, op_seed: int = 0, **more: str
) -> dict[str, object]:
    return {"output_type": output_type, "global_seed": global_seed, "op_seed": op_seed} | more


def philox(n: int, key: int, counter: int) -> list[int]:
    """Four 32-bit numbers, by the rounds of the page."""
    words = [n & LOW, n >> 32, counter & LOW, counter >> 32]
    keys = [key & LOW, key >> 32]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            (second >> 32) ^ words[1] ^ keys[0],
            second & LOW,
            (first >> 32) ^ words[3] ^ keys[1],
            first & LOW,
        ]
        keys = [(keys[0] + 0x9E3779B9) & LOW, (keys[1] + 0xBB67AE85) & LOW]
    return words


def twister(count: int, seed: int) -> list[int]:
    """MT19937, by the recurrences of the page."""
    state = [seed & LOW]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & LOW)
    result = []
    for i in range(count):
        if i % 624 == 0:
            for k in range(624):
                mixed = (state[k] & 0x80000000) | (state[(k + 1) % 624] & 0x7FFFFFFF)
                state[k] = state[(k + 397) % 624] ^ (mixed >> 1) ^ (0x9908B0DF if mixed & 1 else 0)
        y = state[i % 624]
        y ^= y >> 11
        y ^= (y << 7) & 0x9D2C5680
        y ^= (y << 15) & 0xEFC60000
        result.append(y ^ (y >> 18))
    return result


@st.composite
def cases(draw: st.DrawFn) -> Case:
    name = draw(st.sampled_from(["f64", "f32", "f16", "bf16", "i32", "i64"]))
    element_type = ElementType.parse(name)
    low, high = draw(
        st.sampled_from([(0, 1), (-2, 6), (100, 200), (-(2**31), 2**31 - 1), (-(2**62), 2**62 + 5)])
    )
    if element_type.is_float or (name == "i32" and high > 2**31):
        low, high = draw(st.sampled_from([(0, 1), (-2, 6)]))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    limits = [np.array(v, np.int64 if name[0] == "i" else np.float32) for v in (low, high)]
    if name == "bf16":
        limits = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in limits]
    seed = st.integers(1, 2**64 - 1)
    attributes = how(
        element_type,
        draw(seed),
        draw(seed),
        alignment=draw(st.sampled_from(["tensorflow", "pytorch"])),
    )
    return Case([np.array(shape, np.int64), *limits], attributes, ["i64", name, name])


def loop(case: Case) -> list[np.ndarray]:
    shape, low, high = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    low, high = low.item(), high.item()
    a = case.attributes
    count, element_type = math.prod(shape.tolist()), a["output_type"]
    torch = a["alignment"] == "pytorch"
    pairs = element_type in (F64, I64) and not (torch and element_type is I64 and high < 2**32)
    wanted = 2 * count if pairs else count
    raw = (
        twister(wanted, a["global_seed"])
        if torch
        else [w for n in range(wanted) for w in philox(n, a["global_seed"], a["op_seed"])]
    )
    if pairs:
        raw = [
            (y << 32) + x if element_type is I64 and not torch else (x << 32) + y
            for x, y in zip(raw[0::2], raw[1::2], strict=True)
        ]
    values = []
    for x in raw[:count]:
        if element_type.is_integer:
            values.append(x % (high - low) + low)
        else:
            bits = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}[element_type.name] + torch
            values.append(x % 2**bits / 2**bits * (high - low) + low)
    return [of_type(values, shape.tolist(), element_type)]


SHAPE_33 = np.array([3, 3])
ZERO, ONE = np.float32(0), np.float32(1)
BITS_32 = "OpenVINO computes 64-bit types in 32 bits"
SAMPLES = [
    Samples(
        RandomUniform,
        [
            Sample(
                "page example 1",
                [SHAPE_33, ZERO, ONE],
                [
                    np.array(
                        [
                            [0.7011236, 0.30539632, 0.93931055],
                            [0.9456035, 0.11694777, 0.50770056],
                            [0.5197197, 0.22727466, 0.991374],
                        ],
                        np.float32,
                    )
                ],
                how(F32, 150, 10),
            ),
            Sample(
                "page example 2",
                [np.array([2, 2]), np.float64(2), np.float64(10)],
                [np.array([[5.65927959, 4.23122376], [2.67008206, 2.36423758]])],
                how(F64, 80, 100),
                openvino=BITS_32,
            ),
            Sample(
                "page example 3",
                [np.array([2, 3]), np.array(50, np.int32), np.array([100], np.int32)],
                [np.array([[65, 70, 56], [59, 82, 92]], np.int32)],
                how(I32, 80, 100),
            ),
            Sample(
                "PyTorch: rand",
                [SHAPE_33, ZERO, ONE],
                [
                    np.array(
                        [
                            [0.59748673, 0.544582, 0.04074067],
                            [0.5810562, 0.67971706, 0.3907653],
                            [0.1751616, 0.36466956, 0.70758903],
                        ],
                        np.float32,
                    )
                ],
                how(F32, 150, alignment="pytorch"),
            ),
            Sample(
                "PyTorch: rand in f64",
                [np.array([2, 2]), np.float64(0), np.float64(1)],
                [np.array([[0.88338455, 0.38423468], [0.69165523, 0.338869]])],
                how(F64, 80, alignment="pytorch"),
                openvino=BITS_32,
            ),
            Sample(
                "PyTorch: random_",
                [np.array([2, 3]), np.array(50), np.array(100)],
                [np.array([[77, 58, 62], [69, 60, 94]])],
                how(I64, 80, alignment="pytorch"),
            ),
            Sample(
                "PyTorch: random_ beyond 32 bits",
                [np.array([3]), np.array(-5), np.array(2**40)],
                [np.array([754479564643, 715179838295, 43593223299])],
                how(I64, 80, alignment="pytorch"),
                openvino=BITS_32,
            ),
            Sample(
                "empty", [np.array([2, 0]), ZERO, ONE], [np.zeros((2, 0), np.float32)], how(F32, 1)
            ),
            Sample(
                "a scalar",
                [np.zeros((0,), np.int64), np.array(7), np.array(8)],
                [np.array(7)],
                how(I64),
                openvino="OpenVINO leaves the range",
            ),
        ],
        [
            Refusal(
                "an empty range",
                [SHAPE_33, ONE, ONE],
                "expected minval below maxval, got 1.0 and 1.0",
                how(F32),
            ),
            Refusal(
                "NaN",
                [SHAPE_33, np.float32(np.nan), ONE],
                "expected minval below maxval, got nan and 1.0",
                how(F32),
            ),
            Refusal(
                "another type",
                [SHAPE_33, ZERO, ONE],
                "input 'minval': expected i32, the output_type, got f32",
                how(I32),
            ),
            Refusal(
                "two minima",
                [SHAPE_33, np.zeros(2, np.float32), ONE],
                r"'minval': expected a scalar or one element, got shape \[2\]",
                how(F32),
            ),
            Refusal(
                "two maxima",
                [SHAPE_33, ZERO, np.ones(2, np.float32)],
                r"'maxval': expected a scalar or one element, got shape \[2\]",
                how(F32),
            ),
            Refusal(
                "a negative size",
                [np.array([2, -1]), ZERO, ONE],
                r"'shape': shape\[1\] is -1, expected at least 0",
                how(F32),
            ),
            Refusal(
                "a shape of rank 2",
                [np.array([[2]]), ZERO, ONE],
                r"'shape': expected a 1-D tensor, got shape \[1,1\]",
                how(F32),
            ),
            Refusal(
                "u8",
                [SHAPE_33, ZERO, ONE],
                "'output_type': expected one of f16, bf16, f32, f64, i32, i64, got u8",
                how(ElementType.u8),
            ),
            Refusal(
                "a negative seed",
                [SHAPE_33, ZERO, ONE],
                "'op_seed': expected at least 0, got -1",
                how(F32, 1, -1),
            ),
            Refusal(
                "more than memory",
                [np.array([2**40, 2**20]), ZERO, ONE],
                "more than this machine's memory",
                how(F32, 1),
            ),
        ],
        cases(),
        loop,
    )
]
