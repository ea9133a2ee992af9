"""The models that traffic goes through, built here: a sentence encoder, an image classifier, a
decoder with state, a detector's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork import Builder, Model, PartialShape
from uncork.ir.model import Source
from uncork.types import Array

#: The encoder and the decoder: numbers of a token, heads, layers, words, and positions at most.
WIDTH, HEADS, LAYERS, WORDS, POSITIONS = 256, 4, 4, 5000, 512


class _Net:
    """A model that grows, with random weights that depend on nothing but their order."""

    def __init__(self, name: str) -> None:
        self.builder = Builder(name)
        self._seeds = itertools.count()

    def constant(self, value: Any, dtype: Any = np.int64) -> Source:
        return self.builder.constant(np.asarray(value, dtype))

    def weights(self, *shape: int) -> Source:
        scale = np.float32(
            1 / np.sqrt(np.prod(shape[:-1]) if len(shape) == 2 else np.prod(shape[1:]))
        )
        return self.constant(
            np.random.default_rng(next(self._seeds)).standard_normal(shape) * scale, np.float32
        )

    def add(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.builder.add(type_name, opset, *inputs, **attributes)[0]

    # ---- what several models are made of

    def dense(self, x: Source, inner: int, outer: int, activation: str = "") -> Source:
        total = self.add(
            "Add", 1, self.add("MatMul", 1, x, self.weights(inner, outer)), self.weights(1, outer)
        )
        if activation == "Gelu":
            return self.add("Gelu", 7, total, approximation_mode="ERF")
        return self.add(activation, 1, total) if activation else total

    def normalised(self, x: Source) -> Source:
        centered = self.add(
            "MVN",
            6,
            x,
            self.constant([-1]),
            normalize_variance=True,
            eps=1e-5,
            eps_mode="INSIDE_SQRT",
        )
        return self.add(
            "Add",
            1,
            self.add("Multiply", 1, centered, self.weights(1, WIDTH)),
            self.weights(1, WIDTH),
        )

    def size(self, x: Source, axis: int) -> Source:
        """A size of a tensor, as a scalar."""
        shape = self.add("ShapeOf", 3, x, output_type="i64")
        return self.add("Gather", 8, shape, self.constant(axis), self.constant(0))

    def heads(self, x: Source) -> Source:
        """[b, s, width] as [b, heads, s, width / heads]."""
        apart = self.add(
            "Reshape", 1, x, self.constant([0, 0, HEADS, WIDTH // HEADS]), special_zero=True
        )
        return self.add("Transpose", 1, apart, self.constant([0, 2, 1, 3]))

    def together(self, x: Source) -> Source:
        turned = self.add("Transpose", 1, x, self.constant([0, 2, 1, 3]))
        return self.add("Reshape", 1, turned, self.constant([0, 0, WIDTH]), special_zero=True)

    def rest_of_layer(self, x: Source, attended: Source) -> Source:
        """What a layer does behind its attention."""
        x = self.normalised(
            self.add("Add", 1, x, self.dense(self.together(attended), WIDTH, WIDTH))
        )
        wide = self.dense(x, WIDTH, 4 * WIDTH, "Gelu")
        return self.normalised(self.add("Add", 1, x, self.dense(wide, 4 * WIDTH, WIDTH)))

    def embedded(self, ids: Source, first: Source, last: Source) -> Source:
        """Words and their positions from `first` to `last`."""
        zero, one = self.constant(0), self.constant(1)
        places = self.add("Range", 4, first, last, one, output_type="i64")
        words = self.add("Gather", 8, self.weights(WORDS, WIDTH), ids, zero)
        return self.normalised(
            self.add(
                "Add", 1, words, self.add("Gather", 8, self.weights(POSITIONS, WIDTH), places, zero)
            )
        )


def encoder() -> Model:
    """Word ids [batch, steps] to one vector of each sentence; BERT's layers."""
    net = _Net("encoder")
    ids = net.builder.parameter("ids", "i64", [None, None])
    x = net.embedded(ids, net.constant(0), net.size(ids, 1))
    scale = net.constant((WIDTH // HEADS) ** -0.5, np.float32)
    for _ in range(LAYERS):
        q, k, v = (net.heads(net.dense(x, WIDTH, WIDTH)) for _ in range(3))
        scores = net.add("Multiply", 1, net.add("MatMul", 1, q, k, transpose_b=True), scale)
        x = net.rest_of_layer(x, net.add("MatMul", 1, net.add("SoftMax", 8, scores, axis=-1), v))
    net.builder.result(net.add("ReduceMean", 1, x, net.constant([1]), keep_dims=False), "sentence")
    return net.builder.model()


def decoder() -> Model:
    """One token after the other: keys and values of those before are kept in variables, as
    OpenVINO's converters write it.
    """
    net = _Net("decoder")
    ids, beam = (
        net.builder.parameter("ids", "i64", [None, None]),
        net.builder.parameter("beam_idx", "i32", [None]),
    )
    batch = net.add("Unsqueeze", 1, net.size(ids, 0), net.constant(0))
    empty = net.add("Concat", 1, batch, net.constant([HEADS, 0, WIDTH // HEADS]), axis=0)
    zero = net.add("Broadcast", 3, net.constant(0, np.float32), empty, mode="numpy")
    pasts = [
        [_past(net, f"{layer}.{name}", zero, beam) for name in ("key", "value")]
        for layer in range(LAYERS)
    ]
    before = net.size(pasts[0][0], 2)
    x = net.embedded(ids, before, net.add("Add", 1, before, net.size(ids, 1)))
    for layer, past in enumerate(pasts):
        q, k, v = (net.heads(net.dense(x, WIDTH, WIDTH)) for _ in range(3))
        whole = [
            net.add("Concat", 1, old, new, axis=-2) for old, new in zip(past, (k, v), strict=True)
        ]
        for name, kept in zip(("key", "value"), whole, strict=True):
            net.builder.add("Assign", 6, kept, variable_id=f"{layer}.{name}")
        x = net.rest_of_layer(x, net.add("ScaledDotProductAttention", 13, q, *whole, causal=False))
    net.builder.result(net.dense(x, WIDTH, WORDS), "logits")
    return net.builder.model()


def _past(net: _Net, name: str, start: Source, beam: Source) -> Source:
    shape = PartialShape([None, HEADS, None, WIDTH // HEADS])
    old = net.add(
        "ReadValue", 6, start, variable_id=name, variable_type="f32", variable_shape=shape
    )
    return net.add("Gather", 8, old, beam, net.constant(0))


def classifier() -> Model:
    """Images [n, 3, height, width] to classes; a small ResNet."""
    net = _Net("classifier")
    image = net.builder.parameter("image", "f32", [None, 3, None, None])
    x = _pooled(net, _convolved(net, image, 3, 32, 7, 2))
    inner = 32
    for outer, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
        y = _convolved(net, x, inner, outer, 3, stride)
        y = _convolved(net, y, outer, outer, 3, 1, ended=False)
        short = x if stride == 1 else _convolved(net, x, inner, outer, 1, stride, ended=False)
        x, inner = net.add("ReLU", 1, net.add("Add", 1, y, short)), outer
    means = net.add("ReduceMean", 1, x, net.constant([2, 3]), keep_dims=False)
    net.builder.result(net.dense(means, inner, 100), "classes")
    return net.builder.model()


def _convolved(
    net: _Net, x: Source, inner: int, outer: int, taps: int, stride: int, ended: bool = True
) -> Source:
    pads = [taps // 2] * 2
    around = {"strides": [stride] * 2, "dilations": [1, 1], "pads_begin": pads, "pads_end": pads}
    y = net.add("Convolution", 1, x, net.weights(outer, inner, taps, taps), **around)
    y = net.add("Add", 1, y, net.weights(1, outer, 1, 1))
    return net.add("ReLU", 1, y) if ended else y


def _pooled(net: _Net, x: Source) -> Source:
    around: dict[str, Sequence[int]] = {
        "strides": [2, 2],
        "dilations": [1, 1],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "kernel": [3, 3],
    }
    return net.builder.add("MaxPool", 8, x, rounding_type="floor", **around)[0]


def masked_rows() -> Model:
    """Rows of a table that a mask names, through two dense layers: how many there are, the data
    tell.
    """
    net = _Net("masked")
    mask, table = (
        net.builder.parameter("mask", "f32", [None]),
        net.builder.parameter("table", "f32", [None, 32]),
    )
    places = net.add(
        "Squeeze", 1, net.builder.add("NonZero", 3, mask, output_type="i64")[0], net.constant([0])
    )
    rows = net.add("Gather", 8, table, places, net.constant(0))
    net.builder.result(net.dense(net.dense(rows, 32, 64, "ReLU"), 64, 8), "y")
    return net.builder.model()


def detections() -> Model:
    """What a detector does with its boxes: suppression, and two dense layers on what is left."""
    net = _Net("detections")
    boxes, scores = (
        net.builder.parameter("boxes", "f32", [1, None, 4]),
        net.builder.parameter("scores", "f32", [1, 8, None]),
    )
    numbers = [net.constant(50), net.constant(0.5, np.float32), net.constant(0.3, np.float32)]
    rows = net.builder.add("NonMaxSuppression", 9, boxes, scores, *numbers, output_type="i64")[0]
    taken = net.add("Gather", 8, rows, net.constant(2), net.constant(1))
    kept = net.add(
        "Gather", 8, net.add("Squeeze", 1, boxes, net.constant([0])), taken, net.constant(0)
    )
    net.builder.result(net.dense(net.dense(kept, 4, 64, "ReLU"), 64, 8), "y")
    return net.builder.model()


def boxes_of(generator: np.random.Generator, count: int) -> list[Array]:
    """Boxes and scores of 8 classes, many of which overlap."""
    centers = generator.uniform(0, 10, (1, count, 2))
    sizes = generator.uniform(0.5, 2, (1, count, 2))
    scores = generator.uniform(0, 1, (1, 8, count)) ** 2
    return [
        np.concatenate([centers - sizes / 2, centers + sizes / 2], 2).astype(np.float32),
        scores.astype(np.float32),
    ]
