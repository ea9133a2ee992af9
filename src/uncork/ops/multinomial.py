"""Multinomial-13: classes drawn with given probabilities.

    output[b, s] = the first class whose cumulative probability reaches a random number in [0, 1)

Page: operation-specs/generation/multinomial-13, whose text says "less or equal to the generated
value" where its examples, and the sense, want "reaches". The random numbers are those of
RandomUniform-8 in f64 with these seeds. A class of probability 0 is never drawn. Without
replacement a drawn class gets probability 0 and the rest is scaled up. Refused: negative, infinite
or NaN probabilities, rows without any, and more samples without replacement than there are classes
with a chance.
"""

from __future__ import annotations

import secrets

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.random import fractions
from uncork.ops._common.shapes import require_one, require_rank
from uncork.ops._common.vectors import count
from uncork.ops._operation import Operation, register
from uncork.ops._ports import (
    I32_I64,
    REAL,
    REQUIRED,
    Attribute,
    Input,
    Output,
    at_least,
    boolean,
    index_type,
    integer,
)
from uncork.types import Array, ElementType, PartialShape, TensorSpec


def _drawn(weights: Array, random: Array) -> Array:
    """The class drawn by each random number: the first of a probability above 0 whose cumulative
    probability reaches it.
    """
    classes = np.flatnonzero(weights)
    cumulative = np.cumsum(weights[classes])
    # The product may be rounded up past the end: that is the last class.
    return np.asarray(
        classes[np.minimum(np.searchsorted(cumulative, random * cumulative[-1]), len(classes) - 1)]
    )


@register("Multinomial", 13)
class Multinomial(Operation):
    """`probs [batch, classes]`, `num_samples []` or `[1]`."""

    probs = Input(REAL)
    num_samples = Input(I32_I64)
    output = Output()
    convert_type = index_type(REQUIRED)
    with_replacement = Attribute(boolean)
    log_probs = Attribute(boolean)
    global_seed = Attribute(integer, default=0, check=at_least(0))
    op_seed = Attribute(integer, default=0, check=at_least(0))
    deterministic = False

    def infer(self, probs: TensorSpec, num_samples: TensorSpec) -> TensorSpec:
        require_rank(self, "probs", probs, 2)
        require_one(self, "num_samples", num_samples)
        samples = count(self, "num_samples", num_samples)
        batch, classes = (None, None) if probs.rank is None else probs.shape
        if isinstance(samples, int) and classes is not None and not self.with_replacement:
            enough = classes.covers(samples)
            self.require(
                enough, "{} samples without replacement, but only {} classes", samples, classes
            )
        return TensorSpec(self.convert_type, PartialShape([batch, samples]))

    def reference(self, probs: Array, num_samples: Array) -> Array:
        count = int(num_samples.reshape(-1)[0])
        seeds = (
            (self.global_seed, self.op_seed)
            if self.global_seed or self.op_seed
            else (secrets.randbits(64), secrets.randbits(64))
        )
        random = fractions(probs.shape[0] * count, ElementType.f64, *seeds).reshape(
            probs.shape[0], count
        )
        weights = self.weights(probs, count) if count else probs
        output = np.empty((probs.shape[0], count), np.int64)
        for row in range(probs.shape[0] if count else 0):
            left = weights[row].copy()
            if self.with_replacement:
                output[row] = _drawn(left, random[row])
                continue
            for sample in range(count):
                output[row, sample] = chosen = _drawn(left, random[row, sample])
                left[chosen] = 0
        return output

    def weights(self, probs: Array, count: int) -> Array:
        """The probabilities in f64, not scaled to a sum of 1; wrong ones are refused."""
        exact = probs.astype(np.float64)
        if self.log_probs:
            refuse_first(
                self,
                "probs",
                probs,
                np.isnan(exact) | (exact == np.inf),
                "a logarithm of a probability",
            )
            top = np.max(exact, 1, keepdims=True, initial=-np.inf)
            exact = np.exp(exact - np.where(np.isfinite(top), top, 0))
        else:
            refuse_first(
                self,
                "probs",
                probs,
                ~(exact >= 0) | np.isinf(exact),
                "a finite number of at least 0",
            )
        for row, chances in enumerate(np.count_nonzero(exact, 1).tolist()):
            if chances < (1 if self.with_replacement else count):
                self.refuse(
                    "input 'probs': {} samples from row {}, which has {} classes with a chance",
                    count,
                    row,
                    chances,
                )
        return exact
