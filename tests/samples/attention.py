"""ScaledDotProductAttention-13. Worked by hand: keys that fit a query by ln 2 more get twice the
weight.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._elementwise import common_shape, numbers, of_type, stretched, stretching_shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.attention import ScaledDotProductAttention

LN2 = math.log(2)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def tensor(rows) -> np.ndarray:
    return np.array([rows], np.float32)


QUERY = tensor([[1], [0]])
KEY = tensor([[0], [LN2]])
VALUE = tensor([[3, 0], [0, 3]])
FREE = {"causal": False}
BOTH = tensor([[1, 2], [1.5, 1.5]])
ZERO, ONE = np.float32(0), np.float32(1)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    targets, sources, size, depth = (draw(st.integers(low, 3)) for low in (0, 1, 0, 0))
    first, second = draw(stretching_shapes())
    # A third shape that fits both: either of them, in front of the matrix.
    third = draw(st.sampled_from([first, second]))
    leads = [lead or (1,) for lead in (first, second, third)]
    name = draw(st.sampled_from(FLOATS))
    inputs = [
        draw(arrays((*lead, *matrix), (name,), -2, 2))[0]
        for lead, matrix in zip(
            leads, [(targets, size), (sources, size), (sources, depth)], strict=True
        )
    ]
    types = [name] * 3
    full = (*common_shape(*leads), targets, sources)
    given = draw(st.integers(0, 3))
    if given > 0:
        kept = draw(st.integers(0, len(full)))
        shape = tuple(1 if draw(st.integers(0, 2)) == 0 else d for d in full[kept:])
        mask, mask_type = draw(arrays(shape, (name, "boolean"), -2, 2))
        inputs.append(mask)
        types.append(mask_type)
    if given > 1:
        inputs.append(draw(arrays(draw(st.sampled_from([(), (1,)])), (name,), 0, 2))[0])
        types.append(name)
    if given > 2:
        inputs.append(
            draw(
                arrays((*(1 if draw(st.booleans()) else d for d in full[:-1]), 1), (name,), -2, 2)
            )[0]
        )
        types.append(name)
    return Case(inputs, {"causal": draw(st.booleans())}, types)


def loop(case: Case) -> list[np.ndarray]:
    query, key, value, *rest = (numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    mask, scale, sink = (rest + [None] * 3)[:3]
    boolean = len(case.inputs) > 3 and case.inputs[3].dtype == bool
    (targets, size), (sources, depth) = query.shape[-2:], value.shape[-2:]
    factor = scale.ravel()[0] if scale is not None else 1 / math.sqrt(max(size, 1))
    leads = [a.shape[:-2] for a in (query, key, value)]
    lead = common_shape(*leads)
    values = []
    for n in itertools.product(*map(range, lead)):
        q, k, v = (stretched(n, own) for own in leads)
        for i in range(targets):
            logits = []
            for j in range(sources):
                logit = factor * sum(query[(*q, i, e)] * key[(*k, j, e)] for e in range(size))
                if case.attributes["causal"]:
                    logit = logit if j <= i else -math.inf
                elif mask is not None:
                    own = mask[stretched((*n, i, j), mask.shape)]
                    logit = (logit if own else -math.inf) if boolean else logit + own
                logits.append(logit)
            extra = [] if sink is None else [sink[stretched((*n, i, 0), sink.shape)]]
            total = sum(math.exp(x) for x in logits + extra)
            for d in range(depth):
                # Without any weight the formula divides 0 by 0.
                summed = sum(math.exp(x) * value[(*v, j, d)] for j, x in enumerate(logits))
                values.append(summed / total if total else math.nan)
    return [of_type(values, (*lead, targets, depth), case.types[0])]


SAMPLES = [
    Samples(
        ScaledDotProductAttention,
        [
            Sample("two keys", [QUERY, KEY, VALUE], [BOTH], FREE),
            Sample("causal", [QUERY, KEY, VALUE], [tensor([[3, 0], [1.5, 1.5]])], {"causal": True}),
            Sample(
                "causal ignores the mask",
                [QUERY, KEY, VALUE, np.zeros((1, 2, 2), bool)],
                [tensor([[3, 0], [1.5, 1.5]])],
                {"causal": True},
            ),
            Sample(
                "the default scale",
                [np.repeat(QUERY, 4, 2), np.repeat(KEY, 4, 2) / 2, VALUE],
                [BOTH],
                FREE,
            ),
            Sample(
                "a scale",
                [QUERY, KEY, VALUE, ZERO, np.float32(2)],
                [tensor([[0.6, 2.4], [1.5, 1.5]])],
                FREE,
            ),
            Sample(
                "a scale of one element",
                [QUERY, KEY, VALUE, ZERO, f32(2)],
                [tensor([[0.6, 2.4], [1.5, 1.5]])],
                FREE,
            ),
            Sample(
                "a mask that is added",
                [QUERY, KEY, VALUE, tensor([[LN2, 0], [0, LN2]])],
                [tensor([[1.5, 1.5], [1, 2]])],
                FREE,
            ),
            Sample(
                "a boolean mask",
                [QUERY, KEY, VALUE, np.array([[[True, True], [False, True]]])],
                [tensor([[1, 2], [0, 3]])],
                FREE,
            ),
            Sample(
                "a mask of two dimensions stretches",
                [QUERY, KEY, VALUE, np.array([[True, False]])],
                [tensor([[3, 0], [3, 0]])],
                FREE,
            ),
            Sample(
                "nothing to look at",
                [QUERY, KEY, VALUE, np.zeros((1, 2, 2), bool)],
                [np.full((1, 2, 2), np.nan, np.float32)],
                FREE,
            ),
            Sample(
                "batches stretch",
                [np.concatenate([QUERY, 0 * QUERY]), KEY, VALUE],
                [np.concatenate([BOTH, np.full((1, 2, 2), 1.5, np.float32)])],
                FREE,
            ),
            Sample(
                "a sink",
                [QUERY, KEY, VALUE, ZERO, ONE, np.zeros((1, 1, 1), np.float32)],
                [tensor([[0.75, 1.5], [1, 1]])],
                FREE,
            ),
            Sample(
                "no keys",
                [QUERY, KEY[:, :0], VALUE[:, :0]],
                [np.zeros((1, 2, 2), np.float32)],
                FREE,
                openvino="not for empty tensors",
            ),
        ],
        [
            Refusal(
                "two dimensions",
                [QUERY[0], KEY, VALUE],
                r"'query': expected at least 3 dimensions, got shape \[2,1\]",
                FREE,
            ),
            Refusal(
                "embedding sizes",
                [QUERY, VALUE, VALUE],
                r"embedding sizes differ: 1 of query, 2 of key",
                FREE,
            ),
            Refusal(
                "lengths",
                [QUERY, KEY, VALUE[:, :1]],
                r"lengths of key and value differ: key \[1,2,1\], value \[1,1,2\]",
                FREE,
            ),
            Refusal(
                "batches",
                [np.zeros((2, 1, 1)), np.zeros((3, 1, 1)), np.zeros((1, 1, 1))],
                r"got 'batch of query' \[2\], 'batch of key' \[3\]",
                FREE,
            ),
            Refusal(
                "a mask that does not fit",
                [QUERY, KEY, VALUE, np.zeros((1, 2, 3), bool)],
                r"fit by numpy broadcasting to 'the weights', got .*'attention_mask' \[1,2,3\]",
                FREE,
            ),
            Refusal(
                "a mask of another type",
                [QUERY, KEY, VALUE, np.zeros((2, 2))],
                r"'attention_mask': expected f32 as 'query' has, or boolean, got f64",
                FREE,
            ),
            Refusal(
                "two scales",
                [QUERY, KEY, VALUE, ZERO, f32(1, 2)],
                r"'scale': expected a scalar or one element, got shape \[2\]",
                FREE,
            ),
            Refusal(
                "a sink that does not fit",
                [QUERY, KEY, VALUE, ZERO, ONE, np.zeros((1, 2, 2), np.float32)],
                r"'sink' \[1,2,2\]",
                FREE,
            ),
            Refusal("causal is missing", [QUERY, KEY, VALUE], "attribute 'causal' is missing"),
        ],
        cases(),
        loop,
    )
]
