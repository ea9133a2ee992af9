"""Random networks of layers that may be computed in bf16, and of what stands between them: images
(one to three axes) and sequences, of channels that fill blocks and of others.
"""

from __future__ import annotations

import random

import numpy as np

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, SlicedInput, Slicing
from uncork.types import Array

#: Numbers of channels: whole blocks, multiples of 8 and of 4, and others.
_CHANNELS = (8, 16, 24, 32, 32, 48, 64, 20, 36, 44, 58, 72, 100)
#: Lengths of rows.
_WIDTHS = (16, 24, 32, 50, 64, 20, 36, 44, 60, 72, 100)


class Network:
    """A model that grows by random layers."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(32))
        self.builder = uncork.Builder(seed)
        #: Spatial axes of an image.
        self.axes = self.random.choice([1, 1, 2, 2, 2, 2, 3])
        #: The data of a sequence.
        self.first: Source | None = None

    def model(self) -> uncork.Model:
        return self.image() if self.random.random() < 0.5 else self.sequence()

    def constant(self, *shape: int, inner: int = 1) -> Source:
        value = self.numbers.standard_normal(shape) / np.sqrt(inner)
        return self.builder.constant(value.astype(np.float32))

    def add(self, kind: str, opset: int, *inputs: Source, **given: object) -> Source:
        return self.builder.add(kind, opset, *inputs, **given)[0]

    def sizes(self, *sizes: int) -> Source:
        return self.builder.constant(np.array(sizes, np.int64))

    def activated(self, x: Source) -> Source:
        kinds = ["ReLU", "Sigmoid", "Tanh", "Gelu", "Swish", "HSwish", "Mish", "Elu", "", ""]
        kind = self.random.choice(kinds)
        if kind == "Gelu":
            return self.add(kind, 7, x, approximation_mode=self.random.choice(["ERF", "TANH"]))
        if kind == "Elu":
            return self.add(kind, 1, x, alpha=1.0)
        fourth = ("HSwish", "Mish", "Swish")
        return self.add(kind, 4 if kind in fourth else 1, x) if kind else x

    # ---- images

    def windows(self, taps: int, stride: int = 1, dilation: int = 1) -> dict[str, object]:
        """The attributes of windows that keep sizes but for the stride: around a pixel, or all of
        them before it.
        """
        whole = (taps - 1) * dilation
        begin = self.random.choice([whole // 2, whole // 2, whole])
        strides, dilations = (stride,) * self.axes, (dilation,) * self.axes
        given = {"strides": strides, "dilations": dilations}
        ends = {"pads_begin": (begin,) * self.axes, "pads_end": (whole - begin,) * self.axes}
        return {**given, **ends}

    def ended(self, x: Source, channels: int) -> Source:
        if self.random.random() < 0.8:
            x = self.add("Add", 1, x, self.constant(1, channels, *[1] * self.axes))
        return self.activated(x)

    def convolution(self, x: Source, inner: int, outer: int, stride: int = 1) -> Source:
        taps = self.random.choice([1, 1, 2, 3, 3, 3, 5])
        dilation = self.random.choice([1, 1, 1, 2, 3])
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
        some = (1, 1, 1, 2, 4, 12, 18, 24, 25, 29, 32, 36)
        members = self.random.choice([m for m in some if channels % m == 0])
        taps = self.random.choice([2, 3, 3, 5])
        inner = taps**self.axes * members
        groups = channels // members
        filters = self.constant(groups, members, members, *[taps] * self.axes, inner=inner)
        given = self.windows(taps, dilation=self.random.choice([1, 1, 2]))
        return self.activated(self.add("GroupConvolution", 1, x, filters, **given))

    def pooled(self, x: Source) -> Source:
        ones = (1,) * self.axes
        given = {"strides": ones, "pads_begin": ones, "pads_end": ones, "kernel": (3,) * self.axes}
        if self.random.random() < 0.5:
            return self.add("MaxPool", 1, x, **given)
        return self.add("AvgPool", 1, x, **given, exclude_pad=True)

    def gated(self, x: Source) -> Source:
        mean = self.add("ReduceMean", 1, x, self.spatial, keep_dims=True)
        return self.add("Multiply", 1, x, self.add("Sigmoid", 1, mean))

    def image_norm(self, x: Source, channels: int) -> Source:
        """Of groups, of each channel, of all channels of a pixel, or of the training's."""
        kind = self.random.choice(["group", "batch", "channel", "pixel"])
        scale, shift = self.constant(channels), self.constant(channels)
        if kind == "group":
            groups = self.random.choice(
                [n for n in (1, 2, 4, 8, 29, channels) if channels % n == 0]
            )
            given = {"num_groups": groups, "epsilon": 1e-2}
            return self.add("GroupNormalization", 12, x, scale, shift, **given)
        if kind == "batch":
            spread = self.builder.constant(
                self.numbers.uniform(0.5, 2, channels).astype(np.float32)
            )
            return self.add(
                "BatchNormInference", 5, x, scale, shift, self.constant(channels), spread,
                epsilon=1e-3,
            )  # fmt: skip
        axes = self.spatial if kind == "channel" else self.sizes(1)
        given = {"normalize_variance": True, "eps": 1e-2, "eps_mode": "inside_sqrt"}
        y = self.add("MVN", 6, x, axes, **given)
        shape = (1, channels, *[1] * self.axes)
        y = self.add("Multiply", 1, y, self.constant(*shape))
        return self.add("Add", 1, y, self.constant(*shape))

    def cut_and_joined(self, x: Source, channels: int) -> Source:
        """The channels in two parts, one of which is computed, in turned order or not."""
        first = self.random.choice([channels // 2, channels // 4])
        lengths = self.sizes(first, channels - first)
        axis = self.builder.constant(np.array(1))
        parts = [*self.builder.add("VariadicSplit", 1, x, axis, lengths)]
        parts[0] = self.convolution(parts[0], first, first)
        if self.random.random() < 0.5:
            parts.reverse()
        return self.add("Concat", 1, *parts, axis=1)

    @property
    def spatial(self) -> Source:
        return self.sizes(*range(2, 2 + self.axes))

    def image(self) -> uncork.Model:
        channels = self.random.choice(_CHANNELS)
        first = self.random.choice([1, 3, 5, channels])
        batch = self.random.choice([None, 1, 2, 3])
        x = self.builder.parameter("x", "f32", [batch, first, *[None] * self.axes])
        x = self.convolution(x, first, channels)
        for _ in range(self.random.randint(2, 6)):
            kind = self.random.choice(
                [
                    *("conv", "conv", "conv", "apart", "apart", "pool", "gate", "sum", "cat"),
                    *("down", "up", "norm", "norm", "cut", "body"),
                ]
            )
            if kind == "conv":
                outer = self.random.choice([channels, 16, 32, 40, 58, 72])
                x, channels = self.convolution(x, channels, outer), outer
            elif kind == "down":
                x = self.convolution(x, channels, channels, 2)
            elif kind == "up" and self.axes < 3:
                x = self.enlarged(x, channels, channels)
            elif kind == "apart":
                x = self.apart(x, channels)
            elif kind == "pool":
                x = self.pooled(x)
            elif kind == "gate":
                x = self.gated(x)
            elif kind == "norm":
                x = self.activated(self.image_norm(x, channels))
            elif kind == "cut":
                x = self.cut_and_joined(x, channels)
            elif kind == "sum":
                x = self.add("Add", 1, x, self.convolution(x, channels, channels))
            elif kind == "body":
                x = self.image_by_image(x, channels)
            elif kind == "cat" and channels <= 64:
                x = self.add("Concat", 1, x, self.convolution(x, channels, channels), axis=1)
                channels *= 2
            self.middle(x)
        if self.random.random() < 0.3:  # pixels as rows
            rows = self.add("Reshape", 1, x, self.sizes(0, channels, -1), special_zero=True)
            x = self.add("Transpose", 1, rows, self.sizes(0, 2, 1))
            x = self.linear(self.attention(self.norm(x, channels), channels), channels, 24)
        elif self.random.random() < 0.5:
            mean = self.add("ReduceMean", 1, x, self.spatial, keep_dims=False)
            x = self.linear(mean, channels, 24)
        self.builder.result(x, "y")
        return self.builder.model()

    def middle(self, x: Source) -> None:
        """Now and then a tensor is a result, too."""
        if self.random.random() < 0.15:
            self.builder.result(x, f"middle{self.random.getrandbits(40)}")

    def image_by_image(self, x: Source, channels: int) -> Source:
        """A loop over the batch, of a network for one image."""
        inside = self._inside()
        y = inside.builder.parameter("part", "f32", [1, channels, *[None] * self.axes])
        inside.builder.result(
            inside.convolution(inside.convolution(y, channels, channels), channels, channels), "y"
        )
        maps = BodyMap(
            GraphBody(inside.builder.model()),
            (SlicedInput(0, 0, Slicing(0)),),
            (JoinedOutput(0, 0, Slicing(0)),),
        )
        return self.builder.add_with_bodies("TensorIterator", 1, x, bodies={"body": maps})[0]

    def _inside(self) -> Network:
        inside = Network(f"inside {self.random.getrandbits(32)}")
        inside.axes = self.axes
        return inside

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
        """Of all places, of those before, or of those that no mask hides."""
        heads = self.random.choice([h for h in (1, 2, 3, 4, 5, 9) if size % h == 0])

        def head(x: Source) -> Source:
            apart = self.add(
                "Reshape",
                1,
                self.linear(x, size, size),
                self.sizes(0, 0, heads, size // heads),
                special_zero=True,
            )
            return self.add("Transpose", 1, apart, self.sizes(0, 2, 1, 3))

        kind = self.random.choice(["all", "causal", "masked" if self.first else "all"])
        q, k, v = head(x), head(x), head(x)
        scale = self.builder.constant(np.float32((size // heads) ** -0.5))
        if kind == "masked":  # by the data, which are not rounded
            mask = self._mask(self.first)
        if self.random.random() < 0.5:
            given = [mask] if kind == "masked" else []
            seen = self.add(
                "ScaledDotProductAttention", 13, q, k, v, *given, causal=kind == "causal"
            )
        else:
            scores = self.add("MatMul", 1, self.add("Multiply", 1, q, scale), k, transpose_b=True)
            if kind == "masked":
                scores = self.add("Add", 1, scores, mask)
            seen = self.add("MatMul", 1, self.add("SoftMax", 8, scores, axis=-1), v)
        turned = self.add("Transpose", 1, seen, self.sizes(0, 2, 1, 3))
        return self.add("Reshape", 1, turned, self.sizes(0, 0, size), special_zero=True)

    def _mask(self, x: Source) -> Source:
        """What is added to scores: -1e4 or less where the first number of a place is negative, of
        shape [batch, 1, 1, places].
        """
        first = self.add(
            "Gather", 8, x, self.builder.constant(np.array(0)), self.builder.constant(np.array(2))
        )
        hidden = self.add("Less", 1, first, self.builder.constant(np.float32(0)))
        low = np.float32(self.random.choice([-1e4, np.finfo(np.float32).min, -50]))
        added = self.add(
            "Select", 1, hidden, self.builder.constant(low), self.builder.constant(np.float32(0))
        )
        return self.add("Unsqueeze", 1, added, self.sizes(1, 2))

    def recurrent(self, x: Source, size: int) -> tuple[Source, int]:
        """An LSTM or GRU of one direction or both."""
        kind, gates = self.random.choice([("LSTMSequence", 4), ("GRUSequence", 3)])
        directions = self.random.choice([1, 1, 2])
        hidden = self.random.choice(_WIDTHS)
        direction = "bidirectional" if directions == 2 else self.random.choice(
            ["forward", "reverse"]
        )  # fmt: skip
        shape = self.add("ShapeOf", 3, x, output_type="i64")
        zero = self.builder.constant(np.array(0))
        batch, steps = (self.add("Gather", 8, shape, self.sizes(n), zero) for n in (0, 1))
        given = self.add("Concat", 1, batch, self.sizes(directions, hidden), axis=0)
        state = self.add("Broadcast", 3, self.builder.constant(np.float32(0)), given)
        lengths = self.add("Broadcast", 3, self.add("Squeeze", 1, steps), batch)
        before = self.random.random() < 0.5
        rows = hidden * (gates + (kind == "GRUSequence" and before))
        weights = [
            self.constant(directions, gates * hidden, size, inner=size),
            self.constant(directions, gates * hidden, hidden, inner=hidden),
            self.constant(directions, rows, inner=4),
        ]
        attributes: dict[str, object] = {"hidden_size": hidden, "direction": direction}
        if kind == "GRUSequence":
            attributes["linear_before_reset"] = before
        states = [state] * (2 if kind == "LSTMSequence" else 1)
        y = self.add(kind, 5, x, *states, lengths, *weights, **attributes)
        y = self.add("Transpose", 1, y, self.sizes(0, 2, 1, 3))
        wide = directions * hidden
        return self.add("Reshape", 1, y, self.sizes(0, 0, wide), special_zero=True), wide

    def along(self, x: Source, size: int) -> Source:
        """Convolutions along the sequence."""
        inside, self.axes = self.axes, 1
        y = self.add("Transpose", 1, x, self.sizes(0, 2, 1))
        y = self.convolution(y, size, size)
        if self.random.random() < 0.5:
            y = self.apart(y, size)
        self.axes = inside
        return self.add("Transpose", 1, y, self.sizes(0, 2, 1))

    def step_by_step(self, x: Source, size: int) -> Source:
        """A loop over places that hands a state on: h' = tanh(x W + h U)."""
        inside = self._inside()
        b = inside.builder
        part, state = (
            b.parameter("part", "f32", [None, 1, size]),
            b.parameter("state", "f32", [None, 1, size]),
        )
        both = [inside.linear(one, size, size) for one in (part, state)]
        b.result(inside.add("Tanh", 1, inside.add("Add", 1, *both)), "new")
        maps = BodyMap(
            GraphBody(b.model()),
            (SlicedInput(0, 0, Slicing(1)), BodyInput(1, 1)),
            (JoinedOutput(0, 0, Slicing(1)), BodyOutput(1, 0)),
            ((0, 1),),
        )
        mean = self.add("ReduceMean", 1, x, self.sizes(1), keep_dims=True)
        return self.builder.add_with_bodies("TensorIterator", 1, x, mean, bodies={"body": maps})[0]

    def either(self, x: Source, size: int) -> Source:
        """One of two branches, by the sum of the data."""
        maps = {}
        for name in ("then_body", "else_body"):
            inside = self._inside()
            y = inside.builder.parameter("x", "f32", [None, None, size])
            y = inside.linear(inside.activated(inside.linear(y, size, 2 * size)), 2 * size, size)
            inside.builder.result(y, "y")
            body = GraphBody(inside.builder.model())
            maps[name] = BodyMap(body, (BodyInput(1, 0),), (BodyOutput(0, 0),))
        assert self.first is not None
        total = self.add("ReduceSum", 1, self.first, self.sizes(0, 1, 2))
        positive = self.add("Greater", 1, total, self.builder.constant(np.float32(0)))
        return self.builder.add_with_bodies("If", 8, positive, x, bodies=maps)[0]

    def sequence(self) -> uncork.Model:
        size = self.random.choice(_WIDTHS)
        batch = self.random.choice([None, 1, 3])
        x = self.first = self.builder.parameter("x", "f32", [batch, None, size])
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(
                [
                    *("attention", "attention", "wide", "gate", "norm", "split", "recurrent"),
                    *("along", "steps", "either"),
                ]
            )
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
            elif kind == "recurrent":
                x, size = self.recurrent(x, size)
            elif kind == "along":
                x = self.along(x, size)
            elif kind == "steps":
                x = self.step_by_step(x, size)
            elif kind == "either":
                x = self.either(x, size)
            else:
                both = self.builder.add(
                    "Split",
                    1,
                    self.linear(x, size, 2 * size),
                    self.builder.constant(np.int64(2)),
                    num_splits=2,
                )
                x = self.linear(self.add("Concat", 1, *both, axis=2), 2 * size, size)
            self.middle(x)
        self.builder.result(self.linear(x, size, self.random.choice([3, 32])), "y")
        return self.builder.model()


def inputs(model: uncork.Model, generator: random.Random, least: int = 1) -> Array:
    """An input whose open sizes are drawn."""
    shape = next(n for n in model.nodes if n.type_name == "Parameter").outputs[0].spec.shape
    some = [1, 2, 3, 7, 13, 24, 27] if len(shape) < 5 else [1, 2, 3, 7, 13]
    sizes = [generator.choice(some) if d.size is None else int(d) for d in shape]
    if shape[0].size is None:
        sizes[0] = generator.choice([least, 1, 2, 3])
    numbers = np.random.default_rng(generator.getrandbits(32))
    return numbers.standard_normal(sizes).astype(np.float32)
