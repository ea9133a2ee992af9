"""Every composite against the worked examples of its operation: the layers that it is made of, each
by its reference, give what the specification says.
"""

from __future__ import annotations

import pytest

from tests.ops.test_every_op import ALL, agree
from tests.samples._sample import Sample
from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composites, decomposed
from uncork.errors import UnsupportedError
from uncork.ir.model import Source
from uncork.ops import Operation
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsetsSum3
from uncork.types import ElementType, PartialShape, TensorSpec

COMPOSED = [operation for operation in ALL if operation.type_name in composites()]


def test_there_are_composites() -> None:
    assert {operation.type_name for operation in COMPOSED} == composites().keys()


def opened(spec: TensorSpec) -> TensorSpec:
    """What is known of a tensor of open sizes."""
    return TensorSpec(spec.element_type, PartialShape([None] * len(spec.shape)))


def composed(operation: Operation, sample: Sample, dynamic: bool) -> list[TensorSpec]:
    """The outputs by the layers of the composite; `dynamic`: made for sizes and values that are not
    known, small integers aside.
    """
    given = sample.case.specs()
    small = [s is not None and s.element_type.is_integer and s.value.size < 20 for s in given]
    known = [
        opened(spec) if dynamic and spec is not None and not (i and small[i]) else spec
        for i, spec in enumerate(given)
    ]
    layers = decomposed(operation, known, operation.describe(known))
    values = {s: spec for s, spec in zip(layers.inputs, given, strict=False) if s is not None}
    for node in layers.nodes:
        assert node.operation is not None
        made = node.operation.evaluate([values[source] for source in node.inputs])
        values.update((Source(node.id, i), spec) for i, spec in enumerate(made))
    return [values[source] for source in layers.outputs]


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("operation", COMPOSED, ids=lambda o: o.label())
def test_examples(operation: type[Operation], dynamic: bool) -> None:
    agreed = 0
    for sample in ALL[operation].samples:
        try:
            found = composed(operation(**sample.case.attributes), sample, dynamic)
        except UnsupportedError:
            continue
        agreed += 1
        for got, value, kind in zip(found, *sample.expected, strict=False):
            assert got.element_type is kind and got.value is not None, sample.name
            rtol, atol = max(sample.rtol, 1e-4), max(sample.atol, 1e-5)
            agree(got.value, value, kind, rtol, atol, sample.name)
    assert agreed, "not one example is taken apart"


def test_a_size_of_an_unknown_rank_is_refused() -> None:
    ids = TensorSpec(ElementType.i64, PartialShape([None]))
    table, unknown = PartialShape([4, 2]), TensorSpec(ids.element_type, PartialShape())
    inputs = [TensorSpec(ElementType.f32, table), unknown, ids]
    operation = EmbeddingBagOffsetsSum3()
    with pytest.raises(UnsupportedError, match="the rank of its input is not known"):
        decomposed(operation, inputs, operation.describe(inputs))


def test_a_number_beyond_the_largest_of_a_type_is_an_infinity() -> None:
    layers = Layers("numbers")
    constant = layers.of_type(1e5, ElementType.f16)
    assert layers.known(constant) == float("inf")
