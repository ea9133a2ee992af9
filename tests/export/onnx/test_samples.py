"""The worked examples of every operation, exported and run by onnxruntime: the answers are those of
the specification.
"""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from tests.ops.test_every_op import ALL, agree
from uncork.errors import UnsupportedError, ValidationError
from uncork.export.onnx.registry import lowerings
from uncork.ops import Operation
from uncork.types import ElementType

from ._run import one_layer, run
from .otherwise import OTHERWISE

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

#: Operations of which no example can be exported: their numbers are random, or they speak of types
#: that ONNX does not have.
NONE_EXPORTED = {"RandomUniform", "Multinomial"}


@pytest.mark.parametrize(
    "operation", [o for o in ALL if o.type_name in lowerings()], ids=lambda o: o.label()
)
def test_examples(operation: type[Operation]) -> None:
    entry, exported, different = ALL[operation], 0, []
    for sample in entry.samples:
        if (operation.type_name, sample.name) in OTHERWISE:
            continue
        values, types = sample.expected
        if any(not t.is_native and t is not ElementType.string for t in types):
            continue
        for constants, dynamic in ((False, False), (True, False), (True, True)):
            try:
                made = one_layer(operation, sample.case, constants, dynamic)
                proto = None if made is None else uncork.to_onnx(made[0])
            except (UnsupportedError, ValidationError):
                continue
            if made is None or proto is None:
                continue
            exported += 1
            try:
                for position, (got, value, element_type) in enumerate(
                    zip(run(proto, made[1]), values, types)
                ):
                    what = f"output {position}"
                    if element_type is ElementType.string:
                        np.testing.assert_array_equal(got.astype(str), value.astype(str), what)
                    else:
                        agree(
                            got,
                            value,
                            element_type,
                            max(sample.rtol, 2e-4),
                            max(sample.atol, 1e-5),
                            what,
                        )
            except Exception as error:  # whatever onnxruntime raises: all examples are listed
                different.append(f"{sample.name} ({constants=}, {dynamic=}): {error}")
    assert not different, "\n".join(different)
    assert exported or operation.type_name in NONE_EXPORTED, "not one example was exported"
