"""Models of known layers whose inputs are opened at random, and calls of them with sizes that agree
and with sizes that contradict each other.

A case depends on its seed alone. The layers are the worked examples of all operations.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np

import uncork
from tests.fuzz.graphs import Array, Case
from tests.ops.test_every_op import ALL
from tests.samples._sample import Samples
from uncork.types import ElementType, TensorSpec

#: Sizes that an axis may get: around vectors, blocks and threads.
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64)
#: No input of a case has more elements.
MOST = 1 << 16
#: Element types that an array of a call has; others are constants.
FED = frozenset(t for t in ElementType if t.is_native and t is not ElementType.string)
#: What may follow a layer, so that kernels end with more than it.
ENDINGS = ("ReLU", "Sigmoid", "Negative", "Abs")
_KNOWN = [entry for entry in ALL.values() if entry.samples and entry.operation.deterministic]


def case(seed: str, calls: int = 6, empty: bool = False) -> Case | None:
    """A model and calls of it; None where there is no such model. `empty`: axes of calls may be
    0, and so may those that a model gives.
    """
    generator = random.Random(seed)
    entry = generator.choice(_KNOWN)
    sample = generator.choice(entry.samples).case
    specs = sample.specs()
    if any(spec is None for spec in specs):
        return None
    sizes = (0, 0, 0, *SIZES) if empty else SIZES
    grown = _resized([spec.value for spec in specs if spec is not None], generator, sizes, 0.3)
    try:
        model, fed = _model(entry, sample.attributes, specs, grown, generator)
    except uncork.UncorkError:  # the example of larger sizes is none, or needs a constant
        return None
    first = [grown[position] for position in fed]
    open_axes = [
        [dim.size is None for dim in model.by_id[parameter].outputs[0].spec.shape]
        for parameter in model.parameters
    ]
    made = [first]
    for _ in range(calls - 1):
        chance = generator.choice((0.0, 0.0, 0.15, 0.5))
        made.append(_resized(first, generator, sizes, chance, open_axes))
    return Case(model, made)


def _model(
    entry: Samples,
    attributes: dict[str, Any],
    specs: list[TensorSpec | None],
    arrays: list[Array],
    generator: random.Random,
) -> tuple[uncork.Model, list[int]]:
    """A model of the layer, and which of its inputs are fed. Small integers are often constants."""
    builder, inputs, fed = uncork.Builder("opened"), [], []
    constants, opened = generator.choice((0.0, 0.5, 0.9)), generator.choice((0.3, 0.7, 1.0))
    for position, (spec, array) in enumerate(zip(specs, arrays, strict=True)):
        assert spec is not None
        small = spec.element_type.is_integer and array.size <= 64 and position > 0
        fixed = spec.element_type not in FED or generator.random() < constants * (
            1.0 if small else 0.3
        )
        if fixed and not (position == 0 and spec.element_type in FED):
            inputs.append(builder.constant(array, spec.element_type))
            continue
        shape = [None if generator.random() < opened else size for size in array.shape]
        inputs.append(builder.parameter(f"in{position}", spec.element_type, shape))
        fed.append(position)
    outputs = builder.add(entry.operation.type_name, entry.operation.opset, *inputs, **attributes)
    for position, output in enumerate(outputs):
        if generator.random() < 0.3:
            with contextlib.suppress(uncork.UncorkError):  # what it does not take ends as it is
                (output,) = builder.add(generator.choice(ENDINGS), 1, output)
        builder.result(output, f"out{position}")
    return builder.model(), fed


def _resized(
    arrays: list[Array],
    generator: random.Random,
    sizes: tuple[int, ...],
    alone: float,
    may_change: list[list[bool]] | None = None,
) -> list[Array]:
    """The arrays with other sizes: axes that were of one size mostly stay so; with the chance
    `alone` an axis goes its own way. What is in them is repeated.
    """
    together: dict[int, int] = {}
    made = []
    for position, array in enumerate(arrays):
        shape = []
        for axis, size in enumerate(array.shape):
            if may_change is not None and not may_change[position][axis]:
                shape.append(size)
                continue
            if size not in together:
                together[size] = size if generator.random() < 0.4 else generator.choice(sizes)
            shape.append(generator.choice(sizes) if generator.random() < alone else together[size])
        few = array.size and np.prod(shape, dtype=object) <= MOST
        made.append(np.resize(array, shape) if few else array)
    return made
