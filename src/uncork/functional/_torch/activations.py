"""What is done to each element, and along one axis: activations, softmax, dropout."""

from __future__ import annotations

from typing import Any

from uncork.functional._torch.layered import choice, element_type, named, place, refuse_if
from uncork.ir.model import Source
from uncork.onnx.graph import Graph

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _one_layer(name: str, type_name: str) -> None:
    """Offer an operation of one input."""

    def layers(g: Graph, input: Source, inplace: bool = False) -> Source:
        return g.make(type_name, input)

    def without_inplace(g: Graph, input: Source) -> Source:
        return g.make(type_name, input)

    chosen = without_inplace if name in ("sigmoid", "tanh", "softsign") else layers
    chosen.__name__, chosen.__doc__ = name, f"{type_name} of every element."
    named(chosen)


for _name, _type_name in {
    "hardsigmoid": "HSigmoid",
    "hardswish": "HSwish",
    "mish": "Mish",
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "silu": "Swish",
    "softsign": "SoftSign",
    "tanh": "Tanh",
}.items():
    _one_layer(_name, _type_name)


@named
def relu6(g: Graph, input: Source, inplace: bool = False) -> Source:
    """From 0 to 6."""
    return hardtanh(g, input, 0.0, 6.0)


@named
def hardtanh(
    g: Graph, input: Source, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Source:
    """Cut to the range from `min_val` to `max_val`."""
    refuse_if(min_val > max_val, f"min_val is {min_val}, above max_val, {max_val}")
    return g.make("Clamp", input, min=float(min_val), max=float(max_val))


@named
def elu(g: Graph, input: Source, alpha: float = 1.0, inplace: bool = False) -> Source:
    """x, or alpha * (exp(x) - 1) below 0."""
    return g.make("Elu", input, alpha=float(alpha))


@named
def selu(g: Graph, input: Source, inplace: bool = False) -> Source:
    """An ELU whose results keep mean and variance."""
    return g.make("Selu", input, g.like(_SELU_ALPHA, input), g.like(_SELU_SCALE, input))


@named
def celu(g: Graph, input: Source, alpha: float = 1.0, inplace: bool = False) -> Source:
    """x, or alpha * (exp(x / alpha) - 1) below 0."""
    refuse_if(not alpha, "alpha: expected a number other than 0")
    below = g.times(g.minus(g.make("Exp", g.over(input, alpha)), 1.0), alpha)
    zero = g.like(0.0, input)
    return g.plus(g.make("Maximum", input, zero), g.make("Minimum", below, zero))


@named
def leaky_relu(
    g: Graph, input: Source, negative_slope: float = 0.01, inplace: bool = False
) -> Source:
    """x, or negative_slope * x below 0."""
    return g.make("PReLU", input, g.reshape(g.like(negative_slope, input), [1]))


@named
def rrelu(
    g: Graph,
    input: Source,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Source:
    """A leaky ReLU whose slope is the middle of `lower` and `upper`."""
    refuse_if(training, "training=True draws random slopes: give training=False")
    return leaky_relu(g, input, (lower + upper) / 2)


@named
def prelu(g: Graph, input: Source, weight: Source) -> Source:
    """x, or weight * x below 0: one weight, or one a channel."""
    refuse_if(
        g.rank(weight) > 1, f"weight: expected one dimension, got shape {g.spec(weight).shape}"
    )
    rank = g.rank(input)
    count = g.sizes(g.reshape(weight, [-1]))[0]
    channels = 1 if rank < 2 else g.sizes(input)[1]
    refuse_if(
        None not in (count, channels) and count not in (1, channels),
        f"weight: expected 1 number or {channels}, one a channel, got {count}",
    )
    return g.make("PReLU", input, g.reshape(weight, [-1] + [1] * max(rank - 2, 0)))


@named
def glu(g: Graph, input: Source, dim: int = -1) -> Source:
    """The first half along an axis, times the sigmoid of the second."""
    axis = g.i64(place(g, input, dim))
    first, second = g.several("Split", input, axis, num_splits=2)
    return g.times(first, g.make("Sigmoid", second))


@named
def gelu(g: Graph, input: Source, approximate: str = "none") -> Source:
    """x times the normal distribution's share below x."""
    mode = {"none": "erf", "tanh": "tanh"}[choice("approximate", approximate, "none", "tanh")]
    return g.make("Gelu", input, approximation_mode=mode)


@named
def logsigmoid(g: Graph, input: Source) -> Source:
    """log(sigmoid(x))."""
    # -softplus(-x), whose exponential never becomes infinite
    zero = g.like(0.0, input)
    small = g.make("Exp", g.make("Negative", g.make("Abs", input)))
    return g.minus(g.make("Minimum", input, zero), g.make("Log", g.plus(small, 1.0)))


@named
def hardshrink(g: Graph, input: Source, lambd: float = 0.5) -> Source:
    """0 from -lambd to lambd, else x."""
    near = g.make("LessEqual", g.make("Abs", input), g.like(lambd, input))
    return g.select(near, g.like(0.0, input), input)


@named
def softshrink(g: Graph, input: Source, lambd: float = 0.5) -> Source:
    """x brought nearer to 0 by lambd, and 0 where it is nearer already."""
    refuse_if(lambd < 0, f"lambd: expected at least 0, got {lambd}")
    cut = g.make("Clamp", input, min=-float(lambd), max=float(lambd))
    return g.minus(input, cut)


@named
def tanhshrink(g: Graph, input: Source) -> Source:
    """x - tanh(x)."""
    return g.minus(input, g.make("Tanh", input))


@named
def softplus(g: Graph, input: Source, beta: float = 1.0, threshold: float = 20.0) -> Source:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""
    refuse_if(not beta, "beta: expected a number other than 0")
    scaled = input if beta == 1 else g.times(input, beta)
    soft = g.make("SoftPlus", scaled)
    soft = soft if beta == 1 else g.over(soft, beta)
    return g.select(g.make("Greater", scaled, g.like(threshold, input)), input, soft)


@named
def threshold(
    g: Graph, input: Source, threshold: float, value: float, inplace: bool = False
) -> Source:
    """x where it is above the threshold, else the value."""
    low = g.make("LessEqual", input, g.like(threshold, input))
    return g.select(low, g.like(value, input), input)


# ---- along an axis


@named
def softmax(
    g: Graph, input: Source, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Source:
    """exp(x) over its sum along an axis."""
    return _soft(g, "SoftMax", input, dim, dtype)


@named
def log_softmax(
    g: Graph, input: Source, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Source:
    """The logarithm of softmax."""
    return _soft(g, "LogSoftmax", input, dim, dtype)


@named
def softmin(
    g: Graph, input: Source, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Source:
    """Softmax of -x."""
    return _soft(g, "SoftMax", g.make("Negative", input), dim, dtype)


def _soft(g: Graph, type_name: str, data: Source, dim: int | None, dtype: Any) -> Source:
    rank = g.rank(data)
    if dtype is not None:
        data = g.convert(data, element_type(dtype))
    # the axis that torch takes where none is given
    dim = (0 if rank in (0, 1, 3) else 1) if dim is None else place(g, data, dim)
    if rank == 0:
        return g.reshape(g.make(type_name, g.reshape(data, [1]), axis=0), [])
    return g.make(type_name, data, axis=dim)


# ---- dropout, which does nothing but in training


def _dropout(name: str, training: bool) -> None:
    def layers(
        g: Graph, input: Source, p: float = 0.5, training: bool = training, inplace: bool = False
    ) -> Source:
        refuse_if(not 0 <= p <= 1, f"p: expected a probability, got {p}")
        refuse_if(training and p, "training=True draws random numbers: give training=False")
        return g.make("Identity", input, opset=16)

    layers.__name__, layers.__doc__ = name, "The data as they are: only training drops some."
    named(layers)


for _name, _training in {
    "dropout": True,
    "dropout1d": True,
    "dropout2d": True,
    "dropout3d": True,
    "alpha_dropout": False,
    "feature_alpha_dropout": False,
}.items():
    _dropout(_name, _training)
