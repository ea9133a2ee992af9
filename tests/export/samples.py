"""The worked examples of every operation as models of one layer, for each system they go to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from tests.export.onnx._run import one_layer
from tests.ops.test_every_op import ALL
from tests.samples._sample import Sample
from uncork.errors import UnsupportedError, ValidationError
from uncork.ir.model import Model
from uncork.ops import Operation
from uncork.types import Array, ElementType

#: Holds an output against what it must be: sample, position, got, expected, element type.
Agree = Callable[[Sample, int, Array, Array, ElementType], None]


def lowered(types: Collection[str]) -> pytest.MarkDecorator:
    """A test for every operation of these types."""
    found = [o for o in ALL if o.type_name in types]
    return pytest.mark.parametrize("operation", found, ids=lambda o: o.label())


def check_examples(
    operation: type[Operation],
    export: Callable[[Model], Any],
    run: Callable[[Any, Mapping[str, Any]], Sequence[Array]],
    agree: Agree,
    otherwise: Collection[tuple[str, str]],
    takes: Callable[[ElementType], bool],
) -> int:
    """Every example of an operation, as inputs, as constants and with open sizes: how many were
    exported. All that differ are told of together.
    """
    exported, different = 0, list[str]()
    for sample in ALL[operation].samples:
        values, types = sample.expected
        if (operation.type_name, sample.name) in otherwise or not all(map(takes, types)):
            continue
        for constants, dynamic in ((False, False), (True, False), (True, True)):
            try:
                made = one_layer(operation, sample.case, constants, dynamic)
                target = None if made is None else export(made[0])
            except (UnsupportedError, ValidationError):
                continue
            if made is None:
                continue
            exported += 1
            try:
                outputs = zip(run(target, made[1]), values, types, strict=True)
                for position, (got, value, element_type) in enumerate(outputs):
                    agree(sample, position, got, value, element_type)
            except Exception as error:  # whatever the other system raises
                different.append(f"{sample.name} ({constants=}, {dynamic=}): {error!r}")
    assert not different, "\n".join(different)
    return exported
