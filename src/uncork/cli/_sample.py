"""Inputs that an exported module is checked with, and what the model answers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np

from uncork.cli._input_options import collect
from uncork.compiler.compile import CompiledModel, compile_model
from uncork.compiler.options import Ids
from uncork.errors import UncorkError
from uncork.export.torch.folder import Sample, agree
from uncork.ir.model import Model
from uncork.random_inputs import RandomBounds, random_array
from uncork.types import Array

#: What open dimensions are tried with: small ones, and what networks that halve them again and
#: again take.
_SIZES = (3, 16, 64, 32, 1)
_SEEDS = (0, 1, 2)
#: How much of themselves floats are changed by, to see whether the answers only round.
_NUDGE = 2.0**-21


def given_sample(model: Model, arguments: argparse.Namespace) -> Sample:
    """The inputs that the command line gives."""
    compiled = compile_model(model, ids=arguments.ids)
    values, _ = collect(compiled.inputs, arguments, RandomBounds(compiled.model))
    inputs = [np.asarray(values[i]) for i in range(len(compiled.inputs))]
    return inputs, _answers(compiled, inputs)


def found_sample(model: Model, ids: Ids) -> Sample | None:
    """Random inputs that the model takes, of sizes that it takes; None where there are none.

    Answers that change when the last digits of the inputs do, such as the order of the boxes that a
    detector finds in noise, compare rounding: other inputs are tried.
    """
    try:
        compiled = compile_model(model, ids=ids)
        candidates = list(_candidates(compiled))
    except (UncorkError, KeyError):
        return None
    for inputs in candidates:
        try:
            answers = _answers(compiled, inputs)
            nudged = _answers(compiled, [_nudged(array) for array in inputs])
        except UncorkError:
            continue
        if all(map(agree, nudged, answers)):
            return inputs, answers
    return None


def _candidates(compiled: CompiledModel) -> Iterator[list[Array]]:
    random_bounds = RandomBounds(compiled.model)
    ports = compiled.inputs
    is_open = not all(port.shape.is_static for port in ports)
    for size in _SIZES if is_open else _SIZES[:1]:
        shapes = {
            i: tuple(
                d.static_size if d.static_size is not None else max(d.low, size) for d in port.shape
            )
            for i, port in enumerate(ports)
            if port.shape.rank is not None
        }
        for seed in _SEEDS:
            inputs = [
                random_bounds.ordered(
                    i,
                    random_array(
                        str(i), port.element_type, shapes[i], seed, random_bounds.bounds(i, shapes)
                    ),
                    shapes,
                )
                for i, port in enumerate(ports)
            ]
            yield inputs
            # Where random numbers are refused, all ones may do: lengths, and places in them.
            yield [np.ones_like(a) if a.dtype.kind in "iu" else a for a in inputs]


def _nudged(array: Array) -> Array:
    if array.dtype.kind != "f":
        return array
    nudged: Array = (array * array.dtype.type(1 + _NUDGE)).astype(array.dtype)
    return nudged


def _answers(compiled: CompiledModel, inputs: Sequence[Array]) -> list[Array]:
    """What the model answers as it is loaded: variables have their first values."""
    compiled.reset_state()
    results = compiled(*inputs)
    return [np.asarray(results[i]) for i in range(len(results))]
