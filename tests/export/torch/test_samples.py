"""The worked examples of every operation through torch: the answers are those of the
specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import uncork
from tests.export.samples import check_examples, lowered
from tests.ops.test_every_op import agree
from tests.samples._sample import Sample
from uncork.export.torch.registry import lowerings
from uncork.ops import Operation
from uncork.types import Array, ElementType

from .otherwise import OTHERWISE

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

#: Operations of which no example can be exported: seeds name numbers that torch does not draw, and
#: the examples of priors have computed sizes.
NONE_EXPORTED = {"Multinomial", "PriorBox", "PriorBoxClustered"}


def run(module: Any, feeds: Mapping[str, Any]) -> list[Array]:
    """The outputs of a module as arrays."""
    with torch.no_grad():
        given = module(*(torch.from_numpy(np.array(value)) for value in feeds.values()))
    return [t.numpy() for t in (given if isinstance(given, tuple) else (given,))]


def agreed(
    sample: Sample, position: int, got: Array, value: Array, element_type: ElementType
) -> None:
    rtol, atol = max(sample.rtol, 1e-4), max(sample.atol, 1e-5)
    agree(got, value, element_type, rtol, atol, f"output {position}")
    assert ElementType.of_dtype(got.dtype) is element_type


@lowered(lowerings())
def test_examples(operation: type[Operation]) -> None:
    exported = check_examples(
        operation,
        uncork.to_torch,
        run,
        agreed,
        OTHERWISE,
        lambda element_type: element_type.is_native,
    )
    assert exported or operation.type_name in NONE_EXPORTED, "not one example was exported"
