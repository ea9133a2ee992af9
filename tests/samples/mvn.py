"""MVN-1 and -6. Worked by hand: 1, 3 has mean 2 and variance 1; 0, 4 has mean 2 and variance 4."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, shapes
from tests.samples._elementwise import numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.mvn import MVN1, MVN6

DATA = np.array([[[1, 3], [0, 4]]], np.float32)
CENTRED = np.array([[[-1, 1], [-2, 2]]], np.float32)
LAST = np.array([-1])


def one(**more):
    return {"normalize_variance": True, "eps": 0.0} | more


def six(**more):
    return one(eps_mode="inside_sqrt") | more


def standardised(
    data: np.ndarray, axes: set[int], divide: bool, eps: float, inside: bool
) -> list[float]:
    values = []
    for place in itertools.product(*map(range, data.shape)):
        sides = [range(d) if i in axes else [place[i]] for i, d in enumerate(data.shape)]
        items = [data[p] for p in itertools.product(*sides)]
        mean = math.fsum(items) / len(items)
        variance = math.fsum((x - mean) ** 2 for x in items) / len(items)
        deviation = math.sqrt(variance + eps) if inside else math.sqrt(variance) + eps
        values.append((data[place] - mean) / (deviation if divide else 1))
    return values


def loop(case: Case) -> list[np.ndarray]:
    data = numbers(case.inputs[0], case.types[0])
    given = case.attributes
    if len(case.inputs) > 1:
        axes = {int(a) % data.ndim for a in case.inputs[1].reshape(-1)}
    elif given.get("reduction_axes"):
        axes = {a % data.ndim for a in given["reduction_axes"]}
    else:
        axes = set(range(1 if given.get("across_channels", True) else 2, data.ndim))
    inside = given.get("eps_mode", "inside_sqrt") == "inside_sqrt"
    return [
        of_type(
            standardised(data, axes, given["normalize_variance"], given["eps"], inside),
            data.shape,
            case.types[0],
        )
    ]


@st.composite
def cases(draw: st.DrawFn, version: int) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=4, max_side=3))
    data, name = draw(arrays(shape, FLOATS))
    attributes = one(
        normalize_variance=draw(st.booleans()), eps=draw(st.sampled_from([0.5, 0.125]))
    )
    axes = draw(
        st.lists(st.integers(0, len(shape) - 1), min_size=1, max_size=len(shape), unique=True)
    )
    axes = [a - len(shape) if draw(st.booleans()) else a for a in axes]
    if version == 6:
        attributes["eps_mode"] = draw(st.sampled_from(["inside_sqrt", "outside_sqrt"]))
        return Case(
            [data, np.array(axes, draw(st.sampled_from([np.int32, np.int64])))], attributes, [name]
        )
    if draw(st.booleans()):
        return Case([data], attributes | {"reduction_axes": tuple(axes)}, [name])
    return Case([data], attributes | {"across_channels": draw(st.booleans())}, [name])


MISSING = [
    Refusal(
        "no eps",
        [DATA],
        "attribute 'eps' is missing: expected a number",
        {"normalize_variance": True},
    )
]
FOUR = DATA[..., None]
SAMPLES = [
    Samples(
        MVN1,
        [
            Sample(
                "each channel",
                [FOUR],
                [np.array([[[-1, 1], [-1, 1]]], np.float32)[..., None]],
                one(across_channels=False),
            ),
            Sample(
                "mean only",
                [FOUR],
                [CENTRED[..., None]],
                one(across_channels=False, normalize_variance=False),
            ),
            Sample("across channels", [FOUR], [FOUR - 2], one(normalize_variance=False)),
            Sample(
                "eps goes inside the root",
                [FOUR],
                [np.array([[[-0.5, 0.5], [-2 / 7**0.5, 2 / 7**0.5]]], np.float32)[..., None]],
                one(across_channels=False, eps=3.0),
            ),
            Sample(
                "given axes",
                [FOUR],
                [CENTRED[..., None]],
                one(reduction_axes=(2, -1), normalize_variance=False),
            ),
            Sample(
                "given axes win",
                [FOUR],
                [CENTRED[..., None]],
                one(reduction_axes=(2, 3), across_channels=True, normalize_variance=False),
            ),
            Sample(
                "empty",
                [np.zeros((0, 2, 2, 2), np.float32)],
                [np.zeros((0, 2, 2, 2), np.float32)],
                one(),
            ),
        ],
        [
            *MISSING,
            Refusal(
                "axis past the rank",
                [DATA],
                r"reduction_axes 3 is outside -3\.\.2 for rank 3",
                one(reduction_axes=(3,)),
            ),
            Refusal(
                "axis twice",
                [DATA],
                r"reduction_axes \[2, -1\] name an axis twice",
                one(reduction_axes=(2, -1)),
            ),
            Refusal(
                "integers",
                [np.array([[1]])],
                r"'data' \(port 0\): expected a floating-point type .* got i64",
                one(),
            ),
        ],
        cases(1),
        loop,
    ),
    Samples(
        MVN6,
        [
            Sample(
                "the last axis", [DATA, LAST], [np.array([[[-1, 1], [-1, 1]]], np.float32)], six()
            ),
            Sample("mean only", [DATA, LAST], [CENTRED], six(normalize_variance=False)),
            Sample(
                "eps outside the root",
                [DATA, LAST],
                [np.array([[[-0.5, 0.5], [-2 / 3, 2 / 3]]], np.float32)],
                six(eps=1.0, eps_mode="outside_sqrt"),
            ),
            Sample(
                "all axes", [DATA, np.array([0, 1, 2])], [DATA - 2], six(normalize_variance=False)
            ),
            Sample(
                "f16 in f32: the sum is beyond f16",
                [np.array([40000, 60000], np.float16), LAST],
                [np.array([-1, 1], np.float16)],
                six(),
            ),
        ],
        [
            *[
                Refusal(r.name, [DATA, LAST], r.message, r.attributes | {"eps_mode": "inside_sqrt"})
                for r in MISSING
            ],
            Refusal(
                "axis past the rank",
                [DATA, np.array([3])],
                r"axes 3 is outside -3\.\.2 for rank 3",
                six(),
            ),
            Refusal(
                "axis twice", [DATA, np.array([0, 0])], r"axes \[0, 0\] name an axis twice", six()
            ),
            Refusal(
                "axes of rank 2",
                [DATA, np.array([[0]])],
                r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
                six(),
            ),
            Refusal("an unknown mode", [DATA, LAST], "'eps_mode' is missing", one()),
        ],
        cases(6),
        loop,
    ),
]
