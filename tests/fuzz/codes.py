"""Random networks whose tensors are rounded to levels, of layers that compute with codes, and of
those that join, cut, choose and move codes.

All numbers are whole ones and a quarter, and steps are 1, 3 or 9: no number lies in the middle of
two levels, so that all results are those of the reference. A case depends on its seed alone.

    python -m tests.fuzz.codes [SEED [COUNT]]
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import numpy as np

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Model, Source

#: Steps of grids.
_STEPS = (1, 3, 9)
#: Numbers of channels: whole words of codes, vectors, and others.
_CHANNELS = (4, 8, 16, 20, 6, 3)
_LAYERS = 8
#: What f32 loses of sums is less, another code makes more of a difference.
_NEAR = 0.25


class Network:
    """A network that grows by one layer after the other."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.generator = np.random.default_rng(self.random.getrandbits(32))
        self.b = uncork.Builder("codes")
        open_sizes = self.random.random() < 0.3
        self.sizes = (self.random.choice([1, 2]), 4, *self.random.choices([4, 5, 8], k=2))
        shape = (None, 4, None, None) if open_sizes else self.sizes
        #: The tensors that there are, each with its channels and whether it has been halved.
        self.tensors: list[tuple[Source, int, int]] = []
        self._put(self._rounded(self.b.parameter("x", "f32", shape), 4), 4, 0)
        for _ in range(self.random.randint(3, _LAYERS)):
            self.random.choice(
                [
                    *(self.convolve, self.convolve, self.join, self.join, self.cut, self.pool),
                    *(self.double, self.chain, self.chain, self.add, self.gate),
                ]
            )()
        for number, (source, channels, _) in enumerate(self.tensors[-2:]):
            self.b.result(self._convolution(source, channels, 4), f"y{number}")

    def model(self) -> Model:
        return self.b.model()

    def data(self) -> np.ndarray:
        """Numbers of the input."""
        return self.generator.integers(-140, 260, self.sizes).astype(np.float32) + 0.25

    def _put(self, source: Source, channels: int, halved: int) -> None:
        self.tensors.append((source, channels, halved))

    def _add(self, name: str, opset: int, *inputs: Source, **given: Any) -> Source:
        return self.b.add(name, opset, *inputs, **given)[0]

    def _numbers(self, *values: float) -> Source:
        return self.b.constant(np.array(values, np.float32).reshape(-1, 1, 1)[None])

    def _rounded(self, x: Source, channels: int) -> Source:
        """To levels of one grid, or at times of one for each channel."""
        some = self.random.choices(_STEPS, k=channels if self.random.random() < 0.2 else 1)
        first = self.random.choice([0, -128])
        limits = [self._numbers(*(step * n for step in some)) for n in (first, first + 255)]
        return self._add("FakeQuantize", 1, x, *limits, *limits, levels=256)

    def _convolution(self, x: Source, channels: int, outputs: int) -> Source:
        taps = self.random.choice([1, 3])
        codes = self.generator.integers(-2, 3, (outputs, channels, taps, taps))
        whole = self._add(
            "Convert", 1, self.b.constant(codes.astype(np.int8)), destination_type="f32"
        )
        weights = self._add(
            "Multiply", 1, whole, self.b.constant(np.ones((outputs, 1, 1, 1), np.float32))
        )
        pads = {"pads_begin": [taps // 2] * 2, "pads_end": [taps // 2] * 2}
        y = self._add("Convolution", 1, x, weights, strides=[1, 1], dilations=[1, 1], **pads)
        return self._add(
            "Add", 1, y, self._numbers(*self.generator.integers(-9, 9, outputs) + 0.25)
        )

    def _any(self) -> tuple[Source, int, int]:
        return self.random.choice(self.tensors[-4:])

    # ---- the layers

    def convolve(self) -> None:
        x, channels, halved = self._any()
        outputs = self.random.choice(_CHANNELS)
        y = self._convolution(x, channels, outputs)
        if self.random.random() < 0.5:
            y = self._add("ReLU", 1, y)
        self._put(self._rounded(y, outputs), outputs, halved)

    def join(self) -> None:
        """Some tensors, or products that are rounded once they are joined."""
        _, _, halved = self._any()
        parts = [part for part in self.tensors if part[2] == halved]
        parts = self.random.choices(parts, k=self.random.randint(2, 3))
        sources, rounds = [part[0] for part in parts], self.random.random() < 0.5
        if rounds and self.random.random() < 0.5:
            sources[0] = self._convolution(sources[0], parts[0][1], parts[0][1])
        channels = sum(part[1] for part in parts)
        y = self._add("Concat", 1, *sources, axis=1)
        self._put(self._rounded(y, channels) if rounds else y, channels, halved)

    def cut(self) -> None:
        x, channels, halved = self._any()
        if channels < 2:
            return
        first = self.random.choice([n for n in (1, 4, 8) if n < channels])
        lengths = self.b.constant(np.array([first, channels - first]))
        parts = self.b.add("VariadicSplit", 1, x, self.b.constant(np.array(1)), lengths)
        for part, count in zip(parts, (first, channels - first), strict=True):
            self._put(part, count, halved)

    def pool(self) -> None:
        x, channels, halved = self._any()
        if halved:
            return
        around = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
        self._put(self._add("MaxPool", 1, x, **around, rounding_type="floor"), channels, 1)

    def double(self) -> None:
        x, channels, halved = self._any()
        y = self._add(
            "Interpolate", 11, x, self.b.constant(np.array([2, 2], np.float32)),
            self.b.constant(np.array([2, 3])), mode="nearest", shape_calculation_mode="scales",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip
        y = self._rounded(y, channels) if self.random.random() < 0.5 else y
        # of other sizes than all that is not doubled, too
        self._put(y, channels, halved + 10)

    def chain(self) -> None:
        x, channels, halved = self._any()
        y = self._add("Multiply", 1, x, self._numbers(*self.random.choices([1, 2, -1], k=channels)))
        y = self._add("Add", 1, y, self._numbers(0.25))
        if self.random.random() < 0.5:
            y = self._add("Clamp", 1, y, min=-40.0, max=300.0)
        self._put(self._rounded(y, channels), channels, halved)

    def add(self) -> None:
        x, channels, halved = self._any()
        same = [part[0] for part in self.tensors if part[1:] == (channels, halved)]
        y = self._add("Add", 1, x, self.random.choice(same))
        self._put(self._rounded(y, channels), channels, halved)

    def gate(self) -> None:
        x, channels, halved = self._any()
        mean = self._add("ReduceMax", 1, x, self.b.constant(np.array([2, 3])), keep_dims=True)
        mean = self._add("Clamp", 1, mean, min=0.0, max=2.0)
        self._put(self._rounded(self._add("Multiply", 1, x, mean), channels), channels, halved)


def finding(seed: str, counts: Counter[str] | None = None, **options: Any) -> str:
    """What is wrong with the case of a seed; nothing where all is well."""
    network = Network(seed)
    model, data = network.model(), network.data()
    fast = compile_model(model, threads=1, **options)
    slow = compile_model(model, backend="reference")
    if counts is not None:
        counts.update(step.operation.partition("-")[0] for step in fast.plan.steps)
    expected = slow(data)
    for name, got, wanted in zip(expected.keys(), fast(data), expected, strict=True):
        if got.shape != wanted.shape:
            return f"{seed}: {name} is {got.shape}, expected {wanted.shape}"
        apart = np.abs(got - wanted)
        if not (apart < _NEAR).all():
            return f"{seed}: {name} differs by {apart.max()} in {(apart >= _NEAR).mean():.1%}"
    return ""


def main(seed: str = "0", count: str = "100") -> None:
    counts: Counter[str] = Counter()
    for number in range(int(count)):
        found = finding(f"{seed}:{number}", counts)
        if found:
            print(found, flush=True)
    print(dict(counts.most_common()))


if __name__ == "__main__":
    main(*sys.argv[1:])
