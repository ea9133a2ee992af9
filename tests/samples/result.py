"""Result-1."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.parameter import Result


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes())))
    return Case([data], types=[name])


SAMPLES = [
    Samples(
        Result,
        [
            Sample(
                "passes its input",
                [np.array([1, 2], np.int8)],
                [np.array([1, 2], np.int8)],
                openvino="untested: part of every other model",
            )
        ],
        [Refusal("needs an input", [], r"input 'data' \(port 0\) is missing")],
        cases(),
        lambda case: [case.inputs[0]],
    )
]
