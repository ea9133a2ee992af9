"""Random networks in bf16: convolutions, products, attention and what stands between them, held
against the same network in f32.

    python -m tests.fuzz.halves --count 1000 --seed 1

Every network is called with sizes that change from call to call, by one thread and by two; all that
may be rounded is, whether it pays or not. What differs by more than rounding explains is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
from collections.abc import Iterator
from unittest import mock

import numpy as np

import uncork
from uncork.ir.model import Source
from uncork.types import Array

#: The largest error, as a share of the results' root mean square: layers add theirs.
_MOST = 0.06


@contextlib.contextmanager
def everything_pays() -> Iterator[None]:
    """Round all that may be rounded."""
    with (
        mock.patch("uncork.passes.hold_halves._CONVERTED", 0.0),
        mock.patch("uncork.passes.block_choice._CONVERTED", 1e9),
    ):
        yield


def off_by(got: Array, right: Array) -> tuple[float, float]:
    """The root mean squares of a difference, and of what is right."""
    pair = got.astype(np.float64) - right, right.astype(np.float64)
    error, size = (float(np.sqrt(np.mean(x**2))) if x.size else 0.0 for x in pair)
    return error, size


class _Network:
    """A model that grows by random layers."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(32))
        self.builder = uncork.Builder(seed)
        #: Spatial axes of an image.
        self.axes = self.random.choice([1, 2, 2, 2, 2, 3])

    def constant(self, *shape: int, inner: int = 1) -> Source:
        value = self.numbers.standard_normal(shape) / np.sqrt(inner)
        return self.builder.constant(value.astype(np.float32))

    def add(self, kind: str, opset: int, *inputs: Source, **given: object) -> Source:
        return self.builder.add(kind, opset, *inputs, **given)[0]

    def sizes(self, *sizes: int) -> Source:
        return self.builder.constant(np.array(sizes, np.int64))

    def activated(self, x: Source) -> Source:
        kinds = ["ReLU", "Sigmoid", "Tanh", "Gelu", "Swish", "HSwish", "Mish", "", ""]
        kind = self.random.choice(kinds)
        if kind == "Gelu":
            return self.add(kind, 7, x, approximation_mode=self.random.choice(["ERF", "TANH"]))
        fourth = ("HSwish", "Mish", "Swish")
        return self.add(kind, 4 if kind in fourth else 1, x) if kind else x

    # ---- images

    def windows(self, taps: int, stride: int = 1, dilation: int = 1) -> dict[str, object]:
        """The attributes of windows of an odd number of taps, which keep sizes but for the
        stride.
        """
        around = (taps // 2 * dilation,) * self.axes
        strides, dilations = (stride,) * self.axes, (dilation,) * self.axes
        given = {"strides": strides, "dilations": dilations}
        return {**given, "pads_begin": around, "pads_end": around}

    def ended(self, x: Source, channels: int) -> Source:
        if self.random.random() < 0.8:
            x = self.add("Add", 1, x, self.constant(1, channels, *[1] * self.axes))
        return self.activated(x)

    def convolution(self, x: Source, inner: int, outer: int, stride: int = 1) -> Source:
        taps = self.random.choice([1, 1, 3, 3, 5])
        dilation = self.random.choice([1, 1, 1, 2])
        filters = self.constant(outer, inner, *[taps] * self.axes, inner=inner * taps**self.axes)
        given = self.windows(taps, stride, dilation)
        return self.ended(self.add("Convolution", 1, x, filters, **given), outer)

    def enlarged(self, x: Source, inner: int, outer: int) -> Source:
        """A transposed convolution that doubles sizes."""
        taps, cut = self.random.choice([(2, 0), (4, 1)])
        filters = self.constant(inner, outer, *[taps] * self.axes, inner=inner * taps)
        around = (cut,) * self.axes
        given = {"strides": (2,) * self.axes, "dilations": (1,) * self.axes}
        given |= {"pads_begin": around, "pads_end": around}
        return self.ended(self.add("ConvolutionBackpropData", 1, x, filters, **given), outer)

    def apart(self, x: Source, channels: int) -> Source:
        members = self.random.choice([m for m in (1, 1, 2, 4, 12, 24, 32) if channels % m == 0])
        taps, inner = [3] * self.axes, 3**self.axes * members
        filters = self.constant(channels // members, members, members, *taps, inner=inner)
        return self.activated(self.add("GroupConvolution", 1, x, filters, **self.windows(3)))

    def pooled(self, x: Source) -> Source:
        ones = (1,) * self.axes
        given = {"strides": ones, "pads_begin": ones, "pads_end": ones, "kernel": (3,) * self.axes}
        if self.random.random() < 0.5:
            return self.add("MaxPool", 1, x, **given)
        return self.add("AvgPool", 1, x, **given, exclude_pad=True)

    def gated(self, x: Source) -> Source:
        mean = self.add("ReduceMean", 1, x, self.spatial, keep_dims=True)
        return self.add("Multiply", 1, x, self.add("Sigmoid", 1, mean))

    @property
    def spatial(self) -> Source:
        return self.sizes(*range(2, 2 + self.axes))

    def image(self) -> uncork.Model:
        channels = self.random.choice([8, 16, 24, 32, 32, 48, 64, 20])
        first = self.random.choice([1, 3, 5, channels])
        batch = self.random.choice([None, 1, 2])
        x = self.builder.parameter("x", "f32", [batch, first, *[None] * self.axes])
        x = self.convolution(x, first, channels)
        for _ in range(self.random.randint(2, 6)):
            kind = self.random.choice(
                ["conv", "conv", "conv", "apart", "pool", "gate", "sum", "cat", "down", "up"]
            )
            if kind == "conv":
                outer = self.random.choice([channels, 16, 32, 40])
                x, channels = self.convolution(x, channels, outer), outer
            elif kind == "down":
                x = self.convolution(x, channels, channels, 2)
            elif kind == "up":
                x = self.enlarged(x, channels, channels)
            elif kind == "apart":
                x = self.apart(x, channels)
            elif kind == "pool":
                x = self.pooled(x)
            elif kind == "gate":
                x = self.gated(x)
            elif kind == "sum":
                x = self.add("Add", 1, x, self.convolution(x, channels, channels))
            elif kind == "cat" and channels <= 64:
                x = self.add("Concat", 1, x, self.convolution(x, channels, channels), axis=1)
                channels *= 2
            if self.random.random() < 0.15:
                self.builder.result(x, f"middle{self.random.getrandbits(40)}")
        if self.random.random() < 0.5:
            mean = self.add("ReduceMean", 1, x, self.spatial, keep_dims=False)
            x = self.linear(mean, channels, 24)
        self.builder.result(x, "y")
        return self.builder.model()

    # ---- sequences

    def linear(self, x: Source, inner: int, outer: int) -> Source:
        if self.random.random() < 0.5:
            weights = self.constant(inner, outer, inner=inner)
            y = self.add("MatMul", 1, x, weights)
        else:
            y = self.add("MatMul", 1, x, self.constant(outer, inner, inner=inner), transpose_b=True)
        return self.add("Add", 1, y, self.constant(outer)) if self.random.random() < 0.7 else y

    def norm(self, x: Source, size: int) -> Source:
        y = self.add(
            "MVN", 6, x, self.sizes(-1), normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt"
        )
        return self.add(
            "Add", 1, self.add("Multiply", 1, y, self.constant(size)), self.constant(size)
        )

    def attention(self, x: Source, size: int) -> Source:
        heads = self.random.choice([h for h in (1, 2, 4) if size % h == 0])

        def head() -> Source:
            apart = self.add(
                "Reshape",
                1,
                self.linear(x, size, size),
                self.sizes(0, 0, heads, size // heads),
                special_zero=True,
            )
            return self.add("Transpose", 1, apart, self.sizes(0, 2, 1, 3))

        causal = self.random.random() < 0.5
        q, k, v = head(), head(), head()
        if self.random.random() < 0.5:
            seen = self.add("ScaledDotProductAttention", 13, q, k, v, causal=causal)
        else:
            scale = self.builder.constant(np.float32((size // heads) ** -0.5))
            scores = self.add("MatMul", 1, self.add("Multiply", 1, q, scale), k, transpose_b=True)
            seen = self.add("MatMul", 1, self.add("SoftMax", 8, scores, axis=-1), v)
        turned = self.add("Transpose", 1, seen, self.sizes(0, 2, 1, 3))
        return self.add("Reshape", 1, turned, self.sizes(0, 0, size), special_zero=True)

    def sequence(self) -> uncork.Model:
        size = self.random.choice([16, 24, 32, 50, 64])
        x = self.builder.parameter("x", "f32", [self.random.choice([None, 1]), None, size])
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(["attention", "wide", "gate", "norm", "split"])
            if kind == "attention":
                y = self.linear(self.attention(self.norm(x, size), size), size, size)
                x = self.add("Add", 1, x, y) if self.random.random() < 0.7 else y
            elif kind == "wide":
                y = self.activated(self.linear(x, size, 2 * size))
                y = self.linear(y, 2 * size, size)
                x = self.add("Add", 1, x, y) if self.random.random() < 0.7 else y
            elif kind == "gate":
                y = self.activated(self.linear(x, size, size))
                x = self.linear(self.add("Multiply", 1, y, self.linear(x, size, size)), size, size)
            elif kind == "norm":
                x = self.norm(x, size)
            else:
                both = self.builder.add(
                    "Split",
                    1,
                    self.linear(x, size, 2 * size),
                    self.builder.constant(np.int64(2)),
                    num_splits=2,
                )
                x = self.linear(self.add("Concat", 1, *both, axis=2), 2 * size, size)
            if self.random.random() < 0.15:
                self.builder.result(x, f"middle{self.random.getrandbits(40)}")
        self.builder.result(self.linear(x, size, self.random.choice([3, 32])), "y")
        return self.builder.model()


def _inputs(model: uncork.Model, generator: random.Random) -> Array:
    """An input whose open sizes are drawn."""
    shape = next(n for n in model.nodes if n.type_name == "Parameter").outputs[0].spec.shape
    some = [1, 2, 3, 7, 13, 24, 27] if len(shape) < 5 else [1, 2, 3, 7, 13]
    sizes = [generator.choice(some) if d.size is None else int(d) for d in shape]
    if shape[0].size is None:
        sizes[0] = generator.choice([1, 2, 3])
    numbers = np.random.default_rng(generator.getrandbits(32))
    return numbers.standard_normal(sizes).astype(np.float32)


def finding(seed: str) -> tuple[str, bool]:
    """What is wrong with the network of a seed, empty where nothing is; and whether any of its
    tensors was held as bf16.
    """
    made = _Network(seed)
    model = made.image() if made.random.random() < 0.5 else made.sequence()
    with everything_pays():
        plain = uncork.compile_model(model, threads=1)
        rounded = [uncork.compile_model(model, precision="bf16", threads=n) for n in (1, 2)]
        for number in range(4):
            x = _inputs(model, made.random)
            expected = plain(x)
            for compiled in rounded:
                for port, right, got in zip(
                    plain.outputs, expected.values(), compiled(x).values(), strict=True
                ):
                    if got.shape != right.shape or got.dtype != right.dtype:
                        return f"call {number}, {port.name}: {got.dtype}{got.shape}", True
                    error, size = off_by(got, right)
                    if not error <= _MOST * size + 1e-6:
                        return f"call {number} {x.shape}, {port.name}: {error / size:.1e}", True
        return "", "bf16[" in str(rounded[0].plan)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args(arguments)
    wrong = held = 0
    for number in range(options.start, options.start + options.count):
        found, halves = finding(f"{options.seed}:{number}")
        held += halves
        wrong += bool(found)
        if found:
            print(f"{options.seed}:{number} {found}", flush=True)
    print(f"{options.count} networks, {held} with tensors of bf16, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
