"""Layers of networks for random graphs: those whose exports choose between several forms by what is
known of sizes and constants. Graphs of seeds that begin with "exports" have them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.graphs import SIZES, Graph, Value, drawn

NETWORKS: list[Callable[[Graph], object]] = []
#: Of one number, and exact in every system or nearly so.
_FUNCTIONS = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceiling", "Cos", "Cosh", "Erf"),
    *("Exp", "Floor", "Log", "Negative", "ReLU", "Sigmoid", "Sign", "Sin", "Sinh", "Sqrt", "Tan"),
    *("Tanh",),
)
_LATER = {
    **dict.fromkeys(("Asinh", "Acosh", "Atanh", "HSwish", "Mish", "SoftPlus", "Swish"), 4),
    "Gelu": 7,
    "HSigmoid": 5,
    "SoftSign": 9,
    "IsFinite": 10,
    "IsInf": 10,
    "IsNaN": 10,
}


def network(layer: Callable[[Graph], object]) -> Callable[[Graph], object]:
    """Declare a layer that graphs for exports begin with, and have one in three of."""
    NETWORKS.append(layer)
    return layer


def _weights(g: Graph, *shape: int) -> Value:
    return g.constant(drawn(g.random, "x", shape))


def _either(g: Graph, *shape: int) -> Value:
    """Numbers of a shape: a constant or an input."""
    return _weights(g, *shape) if g.random.random() < 0.5 else g.input("x", *shape)


def _image(g: Graph) -> Value:
    """A tensor [batch, channels, height, width]; channels are open as any other dimension."""
    if g.random.random() < 0.3:
        there = g.pick(kind="f", rank=4)
        if there.array.size:  # of no channels, onnxruntime's optimizer makes what it cannot load
            return there
    height, width = (g.random.choice([1, 2, 3, 4, 8]) for _ in range(2))
    return g.input("x", g.random.choice([1, 1, 2, 3]), g.random.choice([1, 2, 4]), height, width)


@network
def function(g: Graph) -> object:
    name = g.random.choice([*_FUNCTIONS, *_LATER])
    return g.layer(name, _LATER.get(name, 1), g.pick(kind="f"), exact=False)


@network
def wide_function(g: Graph) -> object:
    """The same of f64, and back."""
    (wide,) = g.layer("Convert", 1, g.pick(kind="f"), destination_type="f64")
    name = g.random.choice(["Exp", "Log", "Sqrt", "Tanh", "Gelu", "SoftPlus", "ReLU", "Sigmoid"])
    (found,) = g.layer(name, _LATER.get(name, 1), wide, exact=False)
    return g.layer("Convert", 1, found, exact=False, destination_type="f32")


@network
def look_up(g: Graph) -> object:
    """Rows of ids that a Convert cuts on their way, as converters write it."""
    ids = g.pick(kind="i", rank=g.random.choice([1, 2]))
    if g.random.random() < 0.7:
        (ids,) = g.layer("Convert", 1, ids, destination_type=g.random.choice(["i32", "i64"]))
    if g.random.random() < 0.3:
        (ids,) = g.layer("Unsqueeze", 1, ids, g.constant(np.array([0])))
    return g.layer("Gather", 8, _weights(g, 7, 3), ids, g.constant(np.int64(0)))


@network
def slopes(g: Graph) -> object:
    """PReLU with a slope by channel, along the last axis, or one."""
    data = _image(g) if g.random.random() < 0.6 else g.pick(kind="f", least=1)
    shape = data.array.shape
    lengths = [1, shape[-1], shape[1] if len(shape) > 1 else 1]
    return g.layer("PReLU", 1, data, _either(g, g.random.choice(lengths)))


@network
def groups(g: Graph) -> object:
    data = _image(g) if g.random.random() < 0.5 else g.pick(kind="f", rank=3)
    channels = data.array.shape[1]
    count = g.random.choice([n for n in (1, 2, 4, channels) if n and channels % n == 0])
    scale, bias = _either(g, channels), _either(g, channels)
    return g.layer(
        "GroupNormalization", 12, data, scale, bias, exact=False, num_groups=count, epsilon=1e-3
    )


@network
def normalised(g: Graph) -> object:
    """A mean and variance of axes, or norms along them."""
    data = g.pick(kind="f", least=1)
    axes = g.constant(np.array([g.random.randrange(-1, data.array.ndim)]))
    if g.random.random() < 0.5:
        return g.layer(
            "MVN",
            6,
            data,
            axes,
            exact=False,
            normalize_variance=g.random.random() < 0.7,
            eps=1e-3,
            eps_mode=g.random.choice(["inside_sqrt", "outside_sqrt"]),
        )
    return g.layer(
        "NormalizeL2",
        1,
        data,
        axes,
        exact=False,
        eps=1e-3,
        eps_mode=g.random.choice(["add", "max"]),
    )


@network
def attention(g: Graph) -> object:
    """With a mask of 0 and -inf, of truths, or none; or causal."""
    batch, heads = g.random.choice([1, 2]), g.random.choice([1, 2])
    asked, seen, width = (g.random.choice([1, 2, 3]) for _ in range(3))
    lead = (batch, heads) if g.random.random() < 0.5 else (batch,)
    query = g.input("x", *lead, asked, width)
    key, value = (g.input("x", *lead, seen, width) for _ in range(2))
    way = g.random.choice(["none", "numbers", "infinite", "truths", "causal"])
    given = [query, key, value]
    if way == "numbers":
        given.append(_either(g, asked, seen))
    elif way in ("infinite", "truths"):
        shape = g.random.choice([(asked, seen), (1, seen), (*lead[:1], *lead[1:], asked, seen)])
        kept = g.input("mask", *shape)
        (kept,) = g.layer("Convert", 1, kept, destination_type="boolean")
        if way == "infinite":
            low = g.constant(np.float32(-np.inf))
            (kept,) = g.layer("Select", 1, kept, g.constant(np.float32(0)), low)
        given.append(kept)
    return g.layer("ScaledDotProductAttention", 13, *given, exact=False, causal=way == "causal")


@network
def convolution(g: Graph) -> object:
    data = _image(g)
    channels, made = data.array.shape[1], g.random.choice([1, 3])
    size = g.random.choice([1, 2, 3])
    (found,) = g.layer(
        "Convolution",
        1,
        data,
        _weights(g, made, channels, size, size),
        exact=False,
        strides=[g.random.choice([1, 2])] * 2,
        pads_begin=[g.random.choice([0, 1])] * 2,
        pads_end=[g.random.choice([0, 1])] * 2,
        dilations=[1, 1],
        auto_pad=g.random.choice(["explicit", "same_upper", "same_lower", "valid"]),
    )
    bias = _weights(g, 1, made, 1, 1)
    return g.layer("Add", 1, found, bias, exact=False)


@network
def pooling(g: Graph) -> object:
    given = {
        "kernel": [g.random.choice([1, 2, 3])] * 2,
        "strides": [g.random.choice([1, 2])] * 2,
        "pads_begin": [g.random.choice([0, 1])] * 2,
        "pads_end": [g.random.choice([0, 1])] * 2,
        "rounding_type": g.random.choice(["floor", "ceil"]),
        "auto_pad": g.random.choice(["explicit", "same_upper", "valid"]),
    }
    data = _image(g)
    if g.random.random() < 0.5:
        return g.layer(
            "AvgPool", 14, data, exact=False, exclude_pad=g.random.random() < 0.5, **given
        )
    return g.layer("MaxPool", 8, data, dilations=[1, 1], **given)[0]


@network
def head(g: Graph) -> object:
    """A product with weights and a bias, of one output too."""
    data = g.pick(kind="f", least=1)
    width = g.random.choice([1, 1, 3])
    weights = _weights(g, width, data.array.shape[-1])
    (found,) = g.layer("MatMul", 1, data, weights, exact=False, transpose_b=True)
    (found,) = g.layer("Add", 1, found, _weights(g, width), exact=False)
    return g.layer("Multiply", 1, found, g.constant(np.float32(0.5)), exact=False)


@network
def masked(g: Graph) -> object:
    """A constant or an input of which some numbers are infinite, added, and a SoftMax."""
    data = g.pick(kind="f", least=1)
    mask = drawn(g.random, "mask", data.array.shape[-1:])
    infinite = np.where(mask > 0, np.float32(0), np.float32(-np.inf))
    (found,) = g.layer("Add", 1, data, g.constant(infinite), exact=False)
    if g.random.random() < 0.5:
        return found
    name, opset = g.random.choice([("SoftMax", 8), ("LogSoftmax", 5)])
    return g.layer(name, opset, found, exact=False, axis=-1)


@network
def sliced(g: Graph) -> object:
    """By bounds whose number is open, of which steps or axes tell how many there are."""
    data = g.pick(least=1)
    size = data.array.shape[0]
    start, stop = sorted(g.random.randint(0, size) for _ in range(2))
    bounds = [g.parameter("sizes", np.array([n], np.int64)) for n in (start, stop)]
    step = g.constant(np.array([g.random.choice([1, 1, 2])]))
    if g.random.random() < 0.5:
        return g.layer("Slice", 8, data, *bounds, step, g.constant(np.array([0])))
    return g.layer("StridedSlice", 1, data, *bounds, step, begin_mask=[0], end_mask=[0])


@network
def rounded(g: Graph) -> object:
    limits = [g.constant(np.float32(n)) for n in (-1, 1, -1, 1)]
    return g.layer(
        "FakeQuantize",
        1,
        g.pick(kind="f"),
        *limits,
        exact=False,
        levels=g.random.choice([2, 16, 255]),
    )


@network
def clamped(g: Graph) -> object:
    return g.layer("Clamp", 1, g.pick(kind="f"), min=-1.0, max=g.random.choice([0.5, 6.0]))


@network
def resized(g: Graph) -> object:
    """An image resized by scales or to sizes that are known."""
    data = _image(g)
    by_scales = g.random.random() < 0.5
    scales = [g.random.choice([0.5, 1.0, 2.0]) for _ in range(2)]
    sizes = [max(1, int(n * s)) for n, s in zip(data.array.shape[2:], scales, strict=True)]
    given = g.constant(np.array(scales, np.float32)) if by_scales else g.constant(np.array(sizes))
    return g.layer(
        "Interpolate",
        11,
        data,
        given,
        g.constant(np.array([2, 3])),
        exact=False,
        mode=g.random.choice(["nearest", "linear_onnx"]),
        shape_calculation_mode="scales" if by_scales else "sizes",
        coordinate_transformation_mode=g.random.choice(
            ["half_pixel", "asymmetric", "align_corners"]
        ),
        nearest_mode=g.random.choice(["round_prefer_floor", "floor"]),
    )


@network
def table(g: Graph) -> object:
    """A constant that is an output."""
    return g._kept(_weights(g, g.random.choice(SIZES), 2))
