"""Every worked example as a one-layer model, in OpenVINO, where it follows the specification.

A sample says so itself (`openvino="why"`) when OpenVINO is known to refuse it, to crash on it or to
differ from the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from tests.ops.test_every_op import ALL, agree
from tests.samples._sample import Sample, Samples
from uncork import storage
from uncork.kernels.runtime import processor
from uncork.types import ElementType

pytestmark = pytest.mark.oracle
#: Types that cannot cross NumPy: the model converts them at its borders.
BEHIND_CONVERT = {t for t in ElementType if not t.is_native and t is not ElementType.string}
CASES = [
    pytest.param(entry, sample, id=f"{entry.operation.label()}: {sample.name}")
    for entry in ALL.values()
    for sample in entry.samples
    if not sample.openvino and not any(a is None for a in sample.inputs)
]


def one_layer(entry: Samples, sample: Sample) -> uncork.Model:
    """A model of one operation; integer scalars and vectors that give shapes or axes are constants,
    as converters write them.
    """
    case = sample.case
    builder = uncork.Builder("sample")
    sources = []
    for position, (array, element_type) in enumerate(zip(case.inputs, case.types, strict=True)):
        port = entry.operation.inputs[min(position, len(entry.operation.inputs) - 1)]
        gives_a_shape = (
            position > 0 and not port.moved and element_type.is_integer and array.ndim <= 1
        )
        if gives_a_shape or element_type in BEHIND_CONVERT:
            sources.append(builder.constant(array, element_type))
        else:
            sources.append(builder.parameter(f"in{position}", element_type, array.shape))
    outputs = builder.add(
        entry.operation.type_name, entry.operation.opset, *sources, **case.attributes
    )
    for position, output in enumerate(outputs):
        element_type = sample.expected[1][position]
        if element_type in BEHIND_CONVERT:
            wide = ElementType.f32 if element_type.is_float else ElementType.i32
            (output,) = builder.add("Convert", 1, output, destination_type=wide)
        builder.result(output, f"out{position}")
    return builder.model()


@pytest.mark.parametrize(("entry", "sample"), CASES)
def test_sample_in_openvino(
    entry: Samples, sample: Sample, openvino: OpenVino, tmp_path: Path
) -> None:
    model = one_layer(entry, sample)
    path = tmp_path / "model.xml"
    uncork.write_model(model, path)
    given = [a for a, n in zip(_by_position(model, sample), model.parameters, strict=True)]
    results = openvino.run(path, given)
    again = uncork.load(path, backend="reference")(*given)
    values, types = sample.expected
    # Without instructions of bf16 OpenVINO computes such layers in f32 and rounds nothing.
    rounds = "avx512bf16" in processor.features() or not any(
        port.spec.element_type is ElementType.bf16 for node in model.nodes for port in node.outputs
    )
    for position, (result, value, element_type) in enumerate(
        zip(results, values, types, strict=True)
    ):
        if element_type in BEHIND_CONVERT:
            value = (
                storage.decode(value, element_type)
                if element_type.is_float
                else value.astype(np.int32)
            )
            element_type = ElementType.f32 if element_type.is_float else ElementType.i32
        if element_type is ElementType.string:
            result, value = result.astype(str), value.astype(str)
        if rounds:
            agree(
                np.asarray(result),
                value,
                element_type,
                max(sample.rtol, 1e-4),
                max(sample.atol, 1e-5),
                f"OpenVINO's output {position}",
            )
        agree(
            again[position],
            value,
            element_type,
            sample.rtol,
            sample.atol,
            f"the file's output {position}",
        )


def _by_position(model: uncork.Model, sample: Sample) -> list[np.ndarray]:
    """The arrays of the inputs that became parameters, in order."""
    wanted = [int(model.by_id[p].name.removeprefix("in")) for p in model.parameters]
    return [sample.case.inputs[i] for i in wanted]
