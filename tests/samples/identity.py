"""Identity-16."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Sample, Samples
from uncork.ops.identity import Identity16

MATRIX = np.arange(9, dtype=np.float32).reshape(3, 3)
EXAMPLES = [
    Sample("page example 1", [MATRIX], [MATRIX]),
    Sample(
        "bits of bf16, a signalling NaN too",
        [np.array([0x7F81, 0x3F80], np.uint16)],
        [np.array([0x7F81, 0x3F80], np.uint16)],
        types=["bf16"],
        output_types=["bf16"],
        openvino="OpenVINO quietens the NaN",
    ),
    Sample(
        "strings",
        [np.array(["日本", ""], object)],
        [np.array(["日本", ""], object)],
        openvino="OpenVINO may abort",
    ),
    Sample("nothing", [np.zeros((2, 0))], [np.zeros((2, 0))]),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes())))
    return Case([data], {}, [name])


def loop(case: Case) -> list[np.ndarray]:
    (data,) = case.inputs
    output = np.empty_like(data)
    for place in np.ndindex(*data.shape):
        output[place] = data[place]
    return [output]


SAMPLES = [Samples(Identity16, EXAMPLES, (), cases(), loop)]
