"""RandomUniform-8: numbers that are equally likely anywhere in [minval, maxval).

    floats:   output = fraction * (maxval - minval) + minval
    integers: output = random % (maxval - minval) + minval

Page: operation-specs/generation/random-uniform-8, and `_random` for the generators. Every call
starts the sequence again: with seeds, calls give the same numbers. Without (both seeds 0) they are
drawn from the system's entropy. An empty range is refused. i64 takes two 32-bit numbers, the second
as the upper half (as OpenVINO's reference; the page names only one).
"""

from __future__ import annotations

import math
import secrets

from uncork.ops._common.random import fractions, integers
from uncork.ops._common.shapes import require_one
from uncork.ops._common.vectors import sizes, vector
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    I32_I64,
    REAL,
    Attribute,
    Input,
    Output,
    at_least,
    element_type,
    integer,
    one_of,
)
from uncork.types import Array, PartialShape, TensorSpec

_TYPES = REAL | I32_I64


@register("RandomUniform", 8)
class RandomUniform(Operation):
    """`shape [n]`, `minval` and `maxval` `[]` or `[1]` of the output's type."""

    shape = Input(I32_I64)
    minval = Input(_TYPES, "T")
    maxval = Input(_TYPES, "T")
    output = Output()
    output_type = Attribute(
        element_type,
        check=lambda t: None if t in _TYPES else "one of f16, bf16, f32, f64, i32, i64",
    )
    global_seed = Attribute(integer, default=0, check=at_least(0))
    op_seed = Attribute(integer, default=0, check=at_least(0))
    alignment = Attribute(one_of("tensorflow", "pytorch"), default="tensorflow")
    deterministic = False

    def infer(self, shape: TensorSpec, minval: TensorSpec, maxval: TensorSpec) -> TensorSpec:
        for name, spec in (("minval", minval), ("maxval", maxval)):
            require_one(self, name, spec)
            alike = spec.element_type is self.output_type
            self.require(
                alike,
                "input '{}': expected {}, the output_type, got {}",
                name,
                self.output_type,
                spec.element_type,
            )
        numbers = vector(self, "shape", shape)
        for position, size in enumerate(numbers or []):
            self.require(
                size is None or size >= 0,
                "input 'shape': shape[{}] is {}, expected at least 0",
                position,
                size,
            )
        return TensorSpec(
            self.output_type, PartialShape(None if numbers is None else sizes(self, "shape", shape))
        )

    def reference(self, shape: Array, minval: Array, maxval: Array) -> Array:
        low, high = minval.reshape(()), maxval.reshape(())
        if not low < high:
            self.refuse("expected minval below maxval, got {} and {}", low, high)
        sizes: list[int] = shape.tolist()
        count = math.prod(sizes)
        seeds = (
            (self.global_seed, self.op_seed)
            if self.global_seed or self.op_seed
            else (secrets.randbits(64), secrets.randbits(64))
        )
        as_pytorch = self.alignment == "pytorch"
        values: Array
        if self.output_type.is_float:
            values = fractions(count, self.output_type, *seeds, as_pytorch) * (high - low) + low
        else:
            values = integers(count, self.output_type, int(low), int(high), *seeds, as_pytorch)
        return values.reshape(sizes)
