"""The worked examples of every operation through torch: the answers are those of the
specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from tests.export.onnx._run import one_layer
from tests.ops.test_every_op import ALL, agree
from uncork.errors import UnsupportedError, ValidationError
from uncork.export.torch.registry import lowerings
from uncork.ops import Operation
from uncork.types import ElementType

from .otherwise import OTHERWISE

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

#: Operations of which no example can be exported: seeds name numbers that torch does not draw, and
#: the examples of priors have computed sizes.
NONE_EXPORTED = {"Multinomial", "PriorBox", "PriorBoxClustered"}


def run(module: Any, feeds: list[Any]) -> list[np.ndarray]:
    """The outputs of a module as arrays."""
    with torch.no_grad():
        given = module(*(torch.from_numpy(np.array(value)) for value in feeds))
    return [t.numpy() for t in (given if isinstance(given, tuple) else (given,))]


@pytest.mark.parametrize(
    "operation", [o for o in ALL if o.type_name in lowerings()], ids=lambda o: o.label()
)
def test_examples(operation: type[Operation]) -> None:
    entry, exported, different = ALL[operation], 0, []
    for sample in entry.samples:
        if (operation.type_name, sample.name) in OTHERWISE:
            continue
        values, types = sample.expected
        if any(not t.is_native for t in types):
            continue
        for constants, dynamic in ((False, False), (True, False), (True, True)):
            try:
                made = one_layer(operation, sample.case, constants, dynamic)
                module = None if made is None else uncork.to_torch(made[0])
            except (UnsupportedError, ValidationError):
                continue
            if made is None or module is None:
                continue
            exported += 1
            try:
                outputs = zip(run(module, list(made[1].values())), values, types)
                for position, (got, value, element_type) in enumerate(outputs):
                    rtol, atol = max(sample.rtol, 1e-4), max(sample.atol, 1e-5)
                    agree(got, value, element_type, rtol, atol, f"output {position}")
                    assert ElementType.of_dtype(got.dtype) is element_type
            except Exception as error:  # whatever torch raises: all examples are listed
                different.append(f"{sample.name} ({constants=}, {dynamic=}): {error!r}")
    assert not different, "\n".join(different)
    assert exported or operation.type_name in NONE_EXPORTED, "not one example was exported"
