"""The worked examples of every operation, exported and run by onnxruntime: the answers are those of
the specification.
"""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from tests.export.samples import check_examples, lowered
from tests.ops.test_every_op import agree
from tests.samples._sample import Sample
from uncork.export.onnx.registry import lowerings
from uncork.ops import Operation
from uncork.types import Array, ElementType

from ._run import FED, run
from .otherwise import OTHERWISE

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

#: Operations of which no example can be exported: their numbers are random, or they speak of types
#: that ONNX does not have.
NONE_EXPORTED = {"RandomUniform", "Multinomial"}


def agreed(
    sample: Sample, position: int, got: Array, value: Array, element_type: ElementType
) -> None:
    what = f"output {position}"
    if element_type is ElementType.string:
        np.testing.assert_array_equal(got.astype(str), value.astype(str), what)
    else:
        agree(got, value, element_type, max(sample.rtol, 2e-4), max(sample.atol, 1e-5), what)


@lowered(lowerings())
def test_examples(operation: type[Operation]) -> None:
    exported = check_examples(operation, uncork.to_onnx, run, agreed, OTHERWISE, FED.__contains__)
    assert exported or operation.type_name in NONE_EXPORTED, "not one example was exported"
