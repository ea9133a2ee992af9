"""Random graphs with a time axis, made into streams: each streams right, or is refused by a layer's
name.

    python -m tests.fuzz.streams --count 1000 --seed 1

The whole sequence is answered by the references of the model as it was, frames by the stream, and
both are compared here, beside the proof of the pass itself. A case depends on its seed alone.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import uncork
from uncork.ir.model import Source
from uncork.surgery import stream_info, streaming

Array = np.ndarray[Any, Any]
#: Channels of every tensor, [1, CHANNELS, frames].
CHANNELS = 4
#: Frames of the whole sequence, and of those that are streamed: its end does not count.
WHOLE, STREAMED = 128, 64


class Graph:
    """A graph that grows: tensors with time in their last axis, and how many frames of the input
    make one of theirs.
    """

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.builder = uncork.Builder("stream")
        self.live = [(self.builder.parameter("x", "f32", [1, CHANNELS, None]), 1)]

    def constant(self, value: Any) -> Source:
        return self.builder.constant(np.asarray(value))

    def weights(self, *shape: int) -> Source:
        return self.constant((self.numbers.standard_normal(shape) * 0.5).astype(np.float32))

    def add(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.builder.add(type_name, opset, *inputs, **attributes)[0]

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def length(self, source: Source, axis: int) -> Source:
        shape = self.add("ShapeOf", 3, source, output_type="i64")
        return self.add("Gather", 8, shape, self.constant([axis]), self.constant(0), batch_dims=0)

    def turned(self, source: Source) -> Source:
        return self.add("Transpose", 1, source, self.constant([0, 2, 1]))


Layer = Callable[[Graph, Source], Source]


def pad(g: Graph, x: Source) -> Source:
    begin, end = [0, 0, g.random.randrange(4)], [0, 0, g.random.randrange(3)]
    value = g.constant(np.float32(g.random.randrange(2)))
    return g.add("Pad", 12, x, g.constant(begin), g.constant(end), value, pad_mode="constant")


def cut(g: Graph, x: Source) -> Source:
    stop = g.random.choice([-1, -2, 2**31 - 1])
    start, one, axis = g.constant([g.random.randrange(3)]), g.constant([1]), g.constant([2])
    return g.add("Slice", 8, x, start, g.constant([stop]), one, axis)


def strided(g: Graph, x: Source) -> Source:
    begin, end = g.constant([0, 0, g.random.randrange(3)]), g.constant([0, 0, -1])
    masks: dict[str, Any] = {"begin_mask": [1, 1, 0], "end_mask": [1, 1, g.random.randrange(2)]}
    return g.add("StridedSlice", 1, x, begin, end, g.constant([1, 1, 1]), **masks)


def convolution(g: Graph, x: Source) -> Source:
    kernel, options = g.random.randint(1, 3), windows(g)
    if g.chance(2):
        return g.add("GroupConvolution", 1, x, g.weights(CHANNELS, 1, 1, kernel), **options)
    return g.add("Convolution", 1, x, g.weights(CHANNELS, CHANNELS, kernel), **options)


def windows(g: Graph) -> dict[str, Any]:
    mode = g.random.choice(
        ["explicit", "explicit", "explicit", "same_upper", "same_lower", "valid"]
    )
    return {
        "strides": [1],
        "dilations": [g.random.randint(1, 2)],
        "pads_begin": [g.random.randrange(4)],
        "pads_end": [g.random.randrange(3)],
        "auto_pad": mode,
    }


def pool(g: Graph, x: Source) -> Source:
    options: dict[str, Any] = {
        "strides": [1],
        "kernel": [g.random.randint(2, 3)],
        "pads_begin": [g.random.randrange(2)],
        "pads_end": [g.random.randrange(2)],
        "auto_pad": "explicit",
        "rounding_type": g.random.choice(["floor", "ceil"]),
    }
    if g.chance(2):
        return g.add("AvgPool", 1, x, exclude_pad=g.chance(3), **options)
    return g.add("MaxPool", 1, x, **options)


def bias(g: Graph, x: Source) -> Source:
    return g.add("Tanh", 1, g.add("Add", 1, x, g.weights(1, CHANNELS, 1)))


def cumsum(g: Graph, x: Source) -> Source:
    options = {"exclusive": g.chance(3), "reverse": g.chance(8)}
    sums = g.add("CumSum", 3, x, g.constant(2), **options)
    return g.add("Multiply", 1, sums, g.constant(np.float32(0.1)))


def recurrent(g: Graph, x: Source) -> Source:
    """A recurrent layer of one kind, its lengths all frames."""
    turned = g.turned(x)
    type_name, opset, gates, states = g.random.choice(
        [("GRUSequence", 5, 3, 1), ("LSTMSequence", 5, 4, 2), ("RNNSequence", 5, 1, 1)]
    )
    both = g.chance(10)
    ways = 2 if both else 1
    initial = [g.weights(1, ways, CHANNELS) for _ in range(states)]
    weights = [g.weights(ways, gates * CHANNELS, CHANNELS) for _ in range(2)]
    y = g.add(
        type_name,
        opset,
        turned,
        *initial,
        g.length(turned, 1),
        *weights,
        g.weights(ways, gates * CHANNELS),
        hidden_size=CHANNELS,
        direction="bidirectional" if both else "forward",
    )
    if both:
        y = g.add("ReduceMean", 1, y, g.constant([1]), keep_dims=True)
    return g.turned(g.add("Squeeze", 1, y, g.constant([1])))


def softmax(g: Graph, x: Source) -> Source:
    return g.add("SoftMax", 8, x, axis=2 if g.chance(6) else 1)


def normalised(g: Graph, x: Source) -> Source:
    axes = g.constant([2] if g.chance(6) else [1])
    return g.add("MVN", 6, x, axes, normalize_variance=True, eps=0.1, eps_mode="inside_sqrt")


def reduced(g: Graph, x: Source) -> Source:
    kind = g.random.choice(["ReduceMean", "ReduceMax", "ReduceSum"])
    axes = g.constant([2] if g.chance(6) else [1])
    return g.add("Multiply", 1, x, g.add(kind, 1, x, axes, keep_dims=True))


def heads(g: Graph, x: Source) -> Source:
    """Channels in two groups, in another order, and back."""
    shape = g.constant([0, 2, CHANNELS // 2, -1])
    split = g.add("Reshape", 1, x, shape, special_zero=True)
    moved = g.add("Transpose", 1, split, g.constant([0, 2, 1, 3]))
    return g.add("Reshape", 1, moved, g.constant([0, CHANNELS, -1]), special_zero=True)


def rows(g: Graph, x: Source) -> Source:
    """A dense layer on rows of frames, joined with the batch."""
    flat = g.add("Reshape", 1, g.turned(x), g.constant([-1, CHANNELS]), special_zero=False)
    made = g.add("MatMul", 1, flat, g.weights(CHANNELS, CHANNELS), transpose_b=True)
    back = g.add("Reshape", 1, made, g.constant([1, -1, CHANNELS]), special_zero=False)
    return g.turned(back)


def scrambled(g: Graph, x: Source) -> Source:
    """A Reshape in the place of a Transpose: frames are mixed."""
    if not g.chance(3):
        return bias(g, x)
    made = g.add("Reshape", 1, x, g.constant([1, -1, CHANNELS]), special_zero=False)
    return g.turned(made)


def parts(g: Graph, x: Source) -> Source:
    made = g.builder.add("Split", 1, x, g.constant(1), num_splits=2)
    return g.add("Concat", 1, made[1], made[0], axis=1)


def before(g: Graph, x: Source) -> Source:
    """Frames of constants in front."""
    return g.add("Concat", 1, g.weights(1, CHANNELS, g.random.randint(1, 2)), x, axis=2)


def positions(g: Graph, x: Source) -> Source:
    """Rows of a table by the place of each frame."""
    count = g.add("Squeeze", 1, g.length(x, 2), g.constant([0]))
    zero, one = g.constant(0), g.constant(1)
    places = g.add("Range", 4, zero, count, one, output_type="i64")
    table = g.weights(2 * WHOLE, CHANNELS)
    found = g.add("Gather", 8, table, places, g.constant(0), batch_dims=0)
    turned = g.add("Transpose", 1, found, g.constant([1, 0]))
    return g.add("Add", 1, x, g.add("Unsqueeze", 1, turned, g.constant([0])))


def table(g: Graph, x: Source) -> Source:
    """A table cut to the length of the sequence."""
    rows_of = g.weights(1, CHANNELS, 2 * WHOLE)
    one, axis, zero = g.constant([1]), g.constant([2]), g.constant([0])
    cut_to = g.add("Slice", 8, rows_of, zero, g.length(x, 2), one, axis)
    return g.add("Add", 1, x, cut_to)


def mask(g: Graph, x: Source) -> Source:
    """Numbers made of the shape alone."""
    shape = g.add("ShapeOf", 3, x, output_type="i64")
    return g.add("Add", 1, x, g.add("Broadcast", 3, g.constant(np.float32(0.5)), shape))


def scaled(g: Graph, x: Source) -> Source:
    """Numbers that the length of the sequence tells: a stream does not know them."""
    if not g.chance(6):
        return mask(g, x)
    count = g.add("Convert", 1, g.length(x, 2), destination_type="f32")
    return g.add("Divide", 1, x, count)


#: Layers that leave the rate as it is.
LAYERS: list[Layer] = [
    *(pad, cut, strided, convolution, convolution, pool, bias, cumsum, recurrent, softmax),
    *(normalised, reduced, heads, rows, scrambled, parts, before, positions, table, mask, scaled),
]


def grown(seed: str) -> uncork.Model:
    """The random graph of a seed."""
    g = Graph(seed)
    for _ in range(g.random.randint(2, 8)):
        x, rate = g.random.choice(g.live)
        kind = g.random.randrange(10)
        if kind == 0 and rate < 4:
            options = {**windows(g), "strides": [2], "auto_pad": "explicit"}
            x = g.add("Convolution", 1, x, g.weights(CHANNELS, CHANNELS, 3), **options)
            rate *= 2
        elif kind == 1 and rate > 1:
            kernel = g.random.randint(1, 4)
            pads = [g.random.randrange(min(kernel, 2))]
            options = {"strides": [2], "dilations": [1], "pads_begin": pads, "pads_end": [0]}
            weights = g.weights(CHANNELS, CHANNELS, kernel)
            x, rate = g.add("ConvolutionBackpropData", 1, x, weights, **options), rate // 2
        elif kind in (2, 3):
            others = [other for other, its in g.live if its == rate]
            x = g.add(g.random.choice(["Add", "Maximum"]), 1, x, g.random.choice(others))
        else:
            x = g.random.choice(LAYERS)(g, x)
        g.live.append((x, rate))
    last = g.live[-1][0]
    if g.chance(6):
        last = g.add("Gather", 8, last, g.constant([-1]), g.constant(2), batch_dims=0)
    g.builder.result(last, "y")
    return g.builder.model()


def outcome(seed: str) -> str:
    """What came of one graph: "right", "refused: .." or "no model". Raises AssertionError where a
    stream is wrong.
    """
    try:
        model = grown(seed)
        x = np.random.default_rng(7).standard_normal((1, CHANNELS, WHOLE)).astype(np.float32)
        whole = uncork.compile_model(model, backend="reference")
        expected = np.asarray(whole(x)[0])
    except uncork.UncorkError:
        return "no model"  # two lengths that differ, or none that is left
    try:
        made = streaming(model, "x", 2)
    except uncork.UnsupportedError as error:
        return "refused: " + refusal(error)
    info = stream_info(made)
    kind = info.outputs[0].kind
    played = uncork.compile_model(made)
    q = info.multiple
    for sizes in ([q] * (STREAMED // q), [2 * q, q, STREAMED // q * q - 3 * q]):
        played.reset_state()
        got, at = [], 0
        for size in sizes:
            got.append(np.array(played(x[:, :, at : at + size])[0]))
            at += size
        if kind == "latest":
            compare(got[-1], np.asarray(whole(x[:, :, :at])[0]), seed)
        elif kind == "still":
            compare(got[-1], expected, seed)
        else:
            shift = info.outputs[0].shift
            streamed = np.concatenate(got, 2)
            assert streamed.shape[2] == at // info.outputs[0].every, seed
            streamed = streamed[:, :, max(0, -shift) :]
            compare(streamed, expected[:, :, max(0, shift) :][:, :, : streamed.shape[2]], seed)
    late = "" if kind != "time" else " ahead" if info.delay else " early" if shift > 0 else ""
    return f"right, {kind}{late}"


def refusal(error: uncork.UnsupportedError) -> str:
    """The layer's type and the reason, which a refusal must have."""
    found = re.search(r"layer '[^']+' \((\w+)-\d+, id \d+\): (\w+ \S+ \S+)", str(error))
    if found is None:
        raise AssertionError(f"no layer is named: {error}")
    return f"{found[1]} {found[2]}"


def compare(got: Array, expected: Array, seed: str) -> None:
    assert got.shape == expected.shape, (seed, got.shape, expected.shape)
    limit = 2e-5 * max(1.0, float(np.abs(expected).max(initial=0)))
    assert float(np.abs(got - expected).max(initial=0)) <= limit, seed


def fuzz(seed: str, count: int) -> Counter[str]:
    """How many graphs came to what."""
    found: Counter[str] = Counter()
    for number in range(count):
        found[outcome(f"{seed}:{number}")] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="one case: its seed")
    given = parser.parse_args()
    if given.only:
        for node in grown(given.only).nodes:
            print(node)
        print(outcome(given.only))
        return
    wrong = 0
    found: Counter[str] = Counter()
    for number in range(given.count):
        try:
            found[outcome(f"{given.seed}:{number}")] += 1
        except Exception as error:
            wrong += 1
            print(f"{given.seed}:{number}: {type(error).__name__}: {str(error)[:200]}")
    for what, times in found.most_common():
        print(f"{times:6} {what}")
    print(f"{wrong:6} wrong")


if __name__ == "__main__":
    main()
