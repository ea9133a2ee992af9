"""Losses: how far results are from what was wanted."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from uncork.functional._torch.activations import logsigmoid
from uncork.functional._torch.layered import (
    Classes,
    Ids,
    Layers,
    choice,
    ended,
    named,
    named_with,
    refuse,
    refuse_if,
)
from uncork.functional._torch.normalisation import cosine_similarity, norm
from uncork.ir.model import Source
from uncork.onnx.graph import Graph
from uncork.types import ElementType

#: What torch keeps for old programs, before the word by which losses are reduced.
_with_old = named_with(size_average="reduction", reduce="reduction")


def _loss(before: str | None = None) -> Callable[[Layers], Layers]:
    """Offer what is written as the layers of each loss, reduced as an argument says that comes
    before another of its own, or last.
    """

    def offer(layers: Layers) -> Layers:
        return _with_old(_reducing(layers, before))

    return offer


def _reducing(layers: Layers, before: str | None = None) -> Layers:
    return ended(layers, _reduced, ("reduction", "str", "mean"), before)


def _reduced(g: Graph, loss: Source, reduction: str) -> Source:
    """All losses, their mean or their sum."""
    choice("reduction", reduction, "none", "mean", "sum")
    if reduction == "none":
        return loss
    name = "ReduceMean" if reduction == "mean" else "ReduceSum"
    return g.reduce(name, loss, range(g.rank(loss)), False)


def _below(g: Graph, a: Source, limit: float) -> Source:
    return g.make("Less", a, g.like(limit, a))


def _product(g: Graph, a: Source, b: Source) -> Source:
    """A product of tensors of the same shape: nothing is stretched."""
    return g.make("Multiply", a, b, auto_broadcast="none")


def _positive(g: Graph, data: Source) -> Source:
    return g.make("ReLU", data)


def _weighted(g: Graph, loss: Source, weight: Source | None) -> Source:
    return loss if weight is None else g.times(loss, weight)


@_with_old
def l1_loss(
    g: Graph,
    input: Source,
    target: Source,
    reduction: str = "mean",
    weight: Source | None = None,
) -> Source:
    """|x - t|."""
    loss = g.make("Abs", g.minus(input, target))
    return _weighted_mean(g, loss, weight, reduction)


@_with_old
def mse_loss(
    g: Graph,
    input: Source,
    target: Source,
    reduction: str = "mean",
    weight: Source | None = None,
) -> Source:
    """(x - t)^2."""
    return _weighted_mean(g, g.make("SquaredDifference", input, target), weight, reduction)


def _weighted_mean(g: Graph, loss: Source, weight: Source | None, reduction: str) -> Source:
    """Losses with weights, by which a mean is divided."""
    if weight is None or reduction != "mean":
        return _reduced(g, _weighted(g, loss, weight), reduction)
    total = _reduced(g, g.times(loss, weight), "sum")
    return g.over(total, _reduced(g, g.broadcast(weight, g.shape_of(loss)), "sum"))


@_loss(before="beta")
def smooth_l1_loss(
    g: Graph,
    input: Source,
    target: Source,
    beta: float = 1.0,
) -> Source:
    """Squares below beta, and lines above."""
    refuse_if(beta < 0, f"beta: expected at least 0, got {beta}")
    far = g.make("Abs", g.minus(input, target))
    if not beta:
        return far
    near = g.times(g.times(far, far), 0.5 / beta)
    return g.select(_below(g, far, beta), near, g.minus(far, 0.5 * beta))


@named
def huber_loss(
    g: Graph,
    input: Source,
    target: Source,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Source | None = None,
) -> Source:
    """Squares up to delta, and lines above."""
    refuse_if(delta <= 0, f"delta: expected more than 0, got {delta}")
    far = g.make("Abs", g.minus(input, target))
    near = g.times(g.times(far, far), 0.5)
    loss = g.select(_below(g, far, delta), near, g.times(g.minus(far, 0.5 * delta), delta))
    return _weighted_mean(g, loss, weight, reduction)


# ---- probabilities


@_loss()
def binary_cross_entropy(
    g: Graph,
    input: Source,
    target: Source,
    weight: Source | None = None,
) -> Source:
    """Of probabilities; logarithms are at least -100."""
    lowest = g.like(-100.0, input)
    one = g.make("Maximum", g.make("Log", input), lowest)
    other = g.make("Maximum", g.make("Log", g.minus(1.0, input)), lowest)
    loss = g.plus(_product(g, target, one), g.times(g.minus(1.0, target), other))
    return _weighted(g, g.make("Negative", loss), weight)


@_loss(before="pos_weight")
def binary_cross_entropy_with_logits(
    g: Graph,
    input: Source,
    target: Source,
    weight: Source | None = None,
    pos_weight: Source | None = None,
) -> Source:
    """Of what a sigmoid makes probabilities."""
    log = logsigmoid(g, input)
    if pos_weight is not None:
        log = g.times(log, g.plus(g.times(g.minus(pos_weight, 1.0), target), 1.0))
    loss = g.minus(_product(g, g.minus(1.0, target), input), log)
    return _weighted(g, loss, weight)


@_with_old
def kl_div(
    g: Graph,
    input: Source,
    target: Source,
    reduction: str = "mean",
    log_target: bool = False,
) -> Source:
    """The divergence of distributions, of which the first is given as logarithms."""
    choice("reduction", reduction, "none", "mean", "sum", "batchmean")
    if log_target:
        loss = g.times(g.make("Exp", target), g.minus(target, input))
    else:
        none = g.make("Equal", target, g.like(0.0, target))
        safe = g.select(none, g.like(1.0, target), target)
        loss = g.minus(g.times(target, g.make("Log", safe)), g.times(target, input))
    if reduction != "batchmean":
        return _reduced(g, loss, reduction)
    count = g.convert(g.reshape(g.size_of(input, 0), []), g.type(loss))
    return g.over(_reduced(g, loss, "sum"), count)


@named_with(size_average="ignore_index", reduce="reduction")
def nll_loss(
    g: Graph,
    input: Source,
    target: Ids,
    weight: Source | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Source:
    """Less the logarithm of the probability of the class `target`: `input [N, C, ..]` or `[C]`."""
    axis = _class_axis(g, input, target)
    loss, share = _picked(g, g.make("Negative", input), target, weight, ignore_index, axis)
    if reduction != "mean":
        return _reduced(g, loss, reduction)
    return g.over(_reduced(g, loss, "sum"), _reduced(g, share, "sum"))


def _class_axis(g: Graph, data: Source, target: Source) -> int:
    rank = g.rank(data)
    refuse_if(
        rank < 1 or g.rank(target) != rank - 1,
        f"target: expected a class for each of input {g.spec(data).shape} without its axis of "
        f"classes, got shape {g.spec(target).shape}",
    )
    return 0 if rank == 1 else 1


def _picked(
    g: Graph, losses: Source, target: Source, weight: Source | None, ignored: int, axis: int
) -> tuple[Source, Source]:
    """The loss of each target's class, and by how much it counts."""
    wide = g.convert(target, ElementType.i64)
    none = g.make("Equal", wide, g.like(int(ignored), wide))
    known = g.select(none, g.like(0, wide), wide)
    count = g.size_of(losses, axis)
    _check_classes(g, known, count)
    # a negative class is none, and not one that is counted from the end
    known = g.select(_below(g, known, 0), g.reshape(count, []), known)
    taken = g.make("GatherElements", losses, g.unsqueeze(known, axis), axis=axis)
    kind = g.type(losses)
    share = g.convert(g.make("LogicalNot", none), kind)
    if weight is not None:
        share = g.times(share, g.gather(weight, known, 0))
    zero = g.like(0.0, losses)
    return g.select(none, zero, g.times(g.squeeze(taken, axis), share)), share


def _check_classes(g: Graph, classes: Source, count: Source) -> None:
    """Refuse classes that there are not, where they are known: in a call that is computed now."""
    values, number = g.known(classes), g.known(count)
    if values is None or number is None:
        return
    wrong = (values < 0) | (values >= int(number[0]))
    if wrong.any():
        place = [int(i) for i in np.argwhere(wrong)[0]]
        raise refuse(
            f"target{place or ''} is {values[tuple(place)]}, expected 0 to {int(number[0]) - 1}, "
            "or ignore_index"
        )


@named_with(size_average="ignore_index", reduce="reduction")
def cross_entropy(
    g: Graph,
    input: Source,
    target: Classes,
    weight: Source | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Source:
    """Of what softmax makes probabilities: `target` are classes, or probabilities of them."""
    refuse_if(
        not 0 <= label_smoothing <= 1, f"label_smoothing: expected 0 to 1, got {label_smoothing}"
    )
    choice("reduction", reduction, "none", "mean", "sum")
    axis = 0 if g.rank(input) == 1 else 1
    losses = g.make("Negative", g.make("LogSoftmax", input, axis=axis))
    count = g.convert(g.reshape(g.size_of(input, axis), []), g.type(input))
    by_class = None
    if weight is not None:
        by_class = g.reshape(weight, [-1] + [1] * (g.rank(input) - axis - 1))
    if g.type(target).is_float:
        refuse_if(
            g.rank(target) != g.rank(input),
            f"target: expected whole numbers, which are classes, or probabilities of shape "
            f"{g.spec(input).shape}, got shape {g.spec(target).shape}",
        )
        shares = g.times(target, 1 - label_smoothing)
        if label_smoothing:
            shares = g.plus(shares, g.over(g.like(label_smoothing, input), count))
        each = _weighted(g, _product(g, losses, shares), by_class)
        loss = g.reduce("ReduceSum", each, [axis], False)
        if reduction != "mean":
            return _reduced(g, loss, reduction)
        number = g.over(g.reshape(_size(g, input), []), count)
        return g.over(_reduced(g, loss, "sum"), number)
    _class_axis(g, input, target)
    loss, share = _picked(g, losses, target, weight, ignore_index, axis)
    total = _reduced(g, loss, reduction if reduction == "none" else "sum")
    weights = _reduced(g, share, "sum")
    if label_smoothing:
        smooth = g.reduce("ReduceSum", _weighted(g, losses, by_class), [axis], False)
        wide = g.convert(target, ElementType.i64)
        none = g.make("Equal", wide, g.like(int(ignore_index), wide))
        smooth = g.select(none, g.like(0.0, smooth), smooth)
        smooth = _reduced(g, smooth, reduction if reduction == "none" else "sum")
        part = g.over(g.like(label_smoothing, input), count)
        total = g.plus(g.times(total, 1 - label_smoothing), g.times(smooth, part))
    return g.over(total, weights) if reduction == "mean" else total


def _size(g: Graph, data: Source) -> Source:
    """How many elements there are, in the type of the data."""
    return g.convert(g.reduce("ReduceProd", g.shape_of(data), [0]), g.type(data))


@named
@_reducing
def gaussian_nll_loss(
    g: Graph,
    input: Source,
    target: Source,
    var: Source,
    full: bool = False,
    eps: float = 1e-6,
) -> Source:
    """Of normal distributions with these means and variances."""
    spread = g.make("Maximum", var, g.like(eps, var))
    square = g.make("SquaredDifference", input, target)
    loss = g.times(g.plus(g.make("Log", spread), g.over(square, spread)), 0.5)
    return g.plus(loss, 0.5 * math.log(2 * math.pi)) if full else loss


@named_with(size_average="eps", reduce="reduction")
@_reducing
def poisson_nll_loss(
    g: Graph,
    input: Source,
    target: Source,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
) -> Source:
    """Of Poisson distributions."""
    if log_input:
        loss = g.minus(g.make("Exp", input), g.times(target, input))
    else:
        loss = g.minus(input, g.times(target, g.make("Log", g.plus(input, eps))))
    if full:
        above = g.make("Greater", target, g.like(1.0, target))
        safe = g.select(above, target, g.like(1.0, target))
        more = g.minus(g.times(safe, g.make("Log", safe)), safe)
        more = g.plus(more, g.times(g.make("Log", g.times(safe, 2 * math.pi)), 0.5))
        loss = g.plus(loss, g.select(above, more, g.like(0.0, more)))
    return loss


# ---- margins


@_loss()
def soft_margin_loss(
    g: Graph,
    input: Source,
    target: Source,
) -> Source:
    """log(1 + exp(-t x))."""
    return g.make("Negative", logsigmoid(g, g.times(input, target)))


@_loss()
def multilabel_soft_margin_loss(
    g: Graph,
    input: Source,
    target: Source,
    weight: Source | None = None,
) -> Source:
    """The mean of the losses of each class, of which several may be right."""
    negative = g.make("Negative", input)
    one = g.times(target, logsigmoid(g, input))
    other = g.times(g.minus(1.0, target), logsigmoid(g, negative))
    loss = _weighted(g, g.make("Negative", g.plus(one, other)), weight)
    return g.reduce("ReduceMean", loss, [-1], False)


@_loss()
def multi_margin_loss(
    g: Graph,
    input: Source,
    target: Ids,
    p: int = 1,
    margin: float = 1.0,
    weight: Source | None = None,
) -> Source:
    """The mean of max(0, margin - x[target] + x)^p of all other classes."""
    refuse_if(
        p not in (1, 2) or g.rank(input) not in (1, 2),
        f"expected p=1 or 2 and an input [N, C] or [C], got p={p!r} and shape "
        f"{g.spec(input).shape}",
    )
    axis = _class_axis(g, input, target)
    # by an index that no class has, so that none is left out
    own, share = _picked(g, input, target, None, -(1 << 62), axis)
    if weight is not None:
        _, share = _picked(g, input, target, weight, -(1 << 62), axis)
    apart = _positive(g, g.plus(g.minus(input, g.unsqueeze(own, axis)), float(margin)))
    loss = g.power(apart, float(p))
    own_term = max(float(margin), 0.0) ** p  # of the class itself, which is no other
    total = g.minus(g.reduce("ReduceSum", loss, [axis], False), own_term)
    count = g.convert(g.reshape(g.size_of(input, axis), []), g.type(input))
    return g.over(g.times(total, share), count)


@_loss()
def margin_ranking_loss(
    g: Graph,
    input1: Source,
    input2: Source,
    target: Source,
    margin: float = 0,
) -> Source:
    """max(0, -t * (x1 - x2) + margin)."""
    apart = g.times(target, g.minus(input2, input1))
    return _positive(g, g.plus(apart, float(margin)))


@_loss()
def hinge_embedding_loss(
    g: Graph,
    input: Source,
    target: Source,
    margin: float = 1.0,
) -> Source:
    """x where the target is 1, max(0, margin - x) where it is -1."""
    return _by_sign(g, target, input, _positive(g, g.minus(float(margin), input)))


def _by_sign(g: Graph, target: Source, same: Source, other: Source) -> Source:
    zero = g.like(0.0, same)
    is_same, is_other = (g.make("Equal", target, g.like(n, target)) for n in (1, -1))
    return g.select(is_same, same, g.select(is_other, other, zero))


@_loss()
def cosine_embedding_loss(
    g: Graph,
    input1: Source,
    input2: Source,
    target: Source,
    margin: float = 0,
) -> Source:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    cosine = cosine_similarity(g, input1, input2, -1)
    return _by_sign(g, target, g.minus(1.0, cosine), _positive(g, g.minus(cosine, float(margin))))


@_loss()
def triplet_margin_loss(
    g: Graph,
    anchor: Source,
    positive: Source,
    negative: Source,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
) -> Source:
    """How much farther the positive is than the negative."""

    def apart(a: Source, b: Source) -> Source:
        return norm(g, g.plus(g.minus(a, b), eps), p, -1, False)

    far = apart(anchor, negative)
    if swap:
        far = g.make("Minimum", far, apart(positive, negative))
    loss = g.plus(g.minus(apart(anchor, positive), far), float(margin))
    return _positive(g, loss)
