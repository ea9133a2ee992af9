"""Layers that make each frame of the same frame, or would but for the axes that they join."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.ir.model import Node
from uncork.ops.gather import Gather8
from uncork.ops.mvn import MVN1
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.rules import stream_at_once, streams
from uncork.surgery.streams.walk import Walk

#: Axes of the first input along which a layer joins elements; None where that is not known.
Axes = Callable[[Walk, Node, int], "Sequence[int] | None"]

stream_at_once(
    (
        *("Bucketize", "ConvertLike", "ConvertPromoteTypes", "FakeConvert", "FakeQuantize"),
        *("HardSigmoid", "Identity", "OneHot", "PReLU", "Select", "Selu", "Swish"),
    )
)


def _along(*types: str, what: str, axes: Axes, remedy: str = "") -> None:
    """The rule of types that join elements along some axes of their first input."""
    remedy = remedy or "normalise each frame by itself, or cut the model before that layer"

    def apply(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
        first = given[0]
        if first.kind == "time":
            rank = walk.writer.rank(first.source)
            found = axes(walk, node, rank)
            if found is None:
                raise Refusal(f"{what} along axes that are not known")
            Refusal.when(
                first.axis in {axis % rank for axis in found},
                f"{what} along time: known after the last frame only",
                remedy,
            )
        return walk.at_once(node, given)

    streams(*types, how=f"at once; not where it {what} along time")(apply)


def _attribute(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    return [node.operation.axis]  # type: ignore[union-attr]


def _second(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    return walk.numbers(node, 1)


def _from_second_on(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    return range(1, rank)


def _of_mvn(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    operation = node.operation
    if not isinstance(operation, MVN1):
        return walk.numbers(node, 1)
    return operation.reduction_axes or range(1 if operation.across_channels else 2, rank)


def _channels(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    return [1]


def _last_two(walk: Walk, node: Node, rank: int) -> Sequence[int] | None:
    return [rank - 2, rank - 1]


_along("SoftMax", "LogSoftmax", what="makes probabilities", axes=_attribute)
_along("MVN", what="normalises", axes=_of_mvn)
_along("NormalizeL2", what="normalises", axes=_second)
_along("LRN", what="normalises", axes=_second)
_along("GRN", what="normalises", axes=_channels)
_along("GroupNormalization", what="normalises", axes=_from_second_on)
_along("TopK", what="takes the best", axes=_attribute, remedy="take what it reads as output")
_along("Split", "VariadicSplit", what="cuts", axes=_second, remedy="slice the frames outside")
_along("DFT", "IDFT", "RDFT", "IRDFT", what="transforms", axes=_second, remedy="use STFT")
_along("Inverse", what="inverts", axes=_last_two)
_along("ShuffleChannels", what="shuffles", axes=_attribute)
_along("Roll", what="rolls", axes=lambda walk, node, rank: walk.numbers(node, 2))
_along("Reverse", what="reverses", axes=_second, remedy="a stream has no end to begin from")


@streams("BatchNormInference", how="at once; not with time as its channels")
def _batch_norm(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    Refusal.when(
        any(flow.kind == "time" and flow.axis != 0 and flow.axis < 2 for flow in given),
        "has time as its channels",
        "transpose its input",
    )
    return walk.at_once(node, given)


_REDUCED = {
    "ReduceMean": "the mean",
    "ReduceSum": "the sum",
    "ReduceMax": "the largest",
    "ReduceMin": "the smallest",
    "ReduceProd": "the product",
    "ReduceL1": "the norm",
    "ReduceL2": "the norm",
    "ReduceLogicalAnd": "whether all are true",
    "ReduceLogicalOr": "whether one is true",
}


def _reduce(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    first, axes = given[0], walk.known_numbers(node, 1, "reduces axes that are not known")
    if first.kind == "time" and first.axis in {a % walk.writer.rank(first.source) for a in axes}:
        raise Refusal(
            f"takes {_REDUCED[node.type_name]} of all frames: known after the last one only",
            "cut the model before that layer and do it outside, or use a running sum (CumSum)",
        )
    return walk.at_once(node, given)


streams(*_REDUCED, how="at once; not over time: that is known after the last frame only")(_reduce)


@streams("MatMul", how="at once, with time among the rows; causal attention keeps keys and values")
def _matmul(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    operation = node.operation
    turned = (operation.transpose_a, operation.transpose_b)  # type: ignore[union-attr]
    for position, (flow, turn) in enumerate(zip(given, turned, strict=True)):
        if flow.kind != "time":
            continue
        rank = walk.writer.rank(flow.source)
        inner = rank - 1 if (position == 0) != turn else rank - 2
        Refusal.when(
            rank == 1 or flow.axis == inner,
            "adds up over all frames (a dense layer over the whole sequence, or attention that "
            "is none of queries and keys)",
            "only the frames so far are known in a stream: cut the model before that layer",
        )
    return walk.at_once(node, given)


@streams("Einsum", how="at once; not where it sums over time")
def _einsum(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    equation = node.operation.equation.replace(" ", "")  # type: ignore[union-attr]
    left, arrow, result = equation.partition("->")
    for flow, letters in zip(given, left.split(","), strict=True):
        if flow.kind != "time":
            continue
        Refusal.when(
            not arrow or "." in letters, "has an equation without its result, or with dots"
        )
        Refusal.when(letters[flow.axis] not in result, "adds up over all frames")
    return walk.at_once(node, given)


@streams("RNNCell", "GRUCell", "LSTMCell", how="at once: frames are rows, each with its own state")
def _cell(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    Refusal.when(
        any(flow.kind == "time" and flow.axis != 0 for flow in given),
        "has time in an axis that is not that of its rows",
    )
    return walk.at_once(node, given)


@streams(
    "EmbeddingBagPacked",
    "EmbeddingBagPackedSum",
    how="at once: a bag for each frame; not bags of frames",
)
def _bags(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    Refusal.when(
        given[0].kind == "time" or any(f.kind == "time" and f.axis != 0 for f in given[1:3]),
        "makes one bag of all frames: known after the last one only",
    )
    return walk.at_once(node, given)


@streams("Gather", how="at once; the last frame (-1) as it is then; not by other places in time")
def _gather(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    first = given[0]
    axes = walk.known_numbers(node, 2, "gathers along an axis that is not known")
    if first.kind == "time" and axes[0] % walk.writer.rank(first.source) == first.axis:
        places = walk.numbers(node, 1)
        counts = isinstance(node.operation, Gather8) or getattr(
            node.operation, "counts_from_end", False
        )
        if places == [-1] and counts and not first.joined:
            return latest(walk, node, given)
        where = "their place from the beginning" if places else "numbers from outside"
        raise Refusal(
            f"picks frames by {where}",
            "take what it reads as output, and pick the frame there",
        )
    return walk.at_once(node, given)


@streams("GatherElements", "GatherND", how="at once; not by places in time")
def _gather_elements(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    first, operation = given[0], node.operation
    if first.kind == "time":
        rank = walk.writer.rank(first.source)
        picked = (
            first.axis == operation.axis % rank  # type: ignore[union-attr]
            if node.type_name == "GatherElements"
            else first.axis >= operation.batch_dims  # type: ignore[union-attr]
        )
        Refusal.when(
            picked,
            "picks frames by numbers from outside",
            "take what it reads as output, and pick the frame there",
        )
    return walk.at_once(node, given)


def latest(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    """What the last frame so far gives."""
    Refusal.when(
        any(flow.kind == "time" for flow in given[1:]), "picks frames by numbers of other frames"
    )
    walk.separate(given[0])
    return walk.last(node, given[0], walk.copy(node, [f.source for f in given]))
