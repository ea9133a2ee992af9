"""Layers with a window that slides along time: convolutions, poolings, the transform of pieces of a
signal. What the window needs of earlier calls is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from uncork.ir.model import Node, Source
from uncork.ops._operation import Operation
from uncork.surgery.streams.flow import Flow, Refusal, refused
from uncork.surgery.streams.rules import streams
from uncork.surgery.streams.walk import Walk

_HOW = "keeps the frames that its window needs; look-ahead is a delay"


def window(
    walk: Walk,
    flow: Flow,
    span: int,
    stride: int,
    make: Callable[[Source], Source],
    value: float = 0,
) -> Flow:
    """The outputs of windows that begin at every `stride`th frame and end `span` frames later.

    Output frame j of the whole sequence covers its frames j * stride to j * stride + span; the
    first one of the stream is the last whose window ends within the first `stride` frames.
    """
    walk.must_be_multiple(flow.every * stride)
    shift = (flow.shift - span - 1 + stride) // stride
    keep = flow.shift - stride * shift
    writer = walk.writer
    source = flow.source
    if keep > 0:
        source = writer.kept(flow, keep, value)
    elif keep < 0:
        source = writer.cut(source, flow.axis, -keep)
    past = None
    if shift > 0 and flow.history is not None:
        past = make(flow.history)
    return replace(flow.moved(make(source), past, shift), every=flow.every * stride)


def _sliding(
    walk: Walk, node: Node, given: Sequence[Flow], kernel: Sequence[int | None], value: float = 0
) -> list[Flow]:
    """A layer whose window slides over spatial axes, one of which is time."""
    flow, operation = walk.separate(given[0]), node.operation
    Refusal.when(
        flow.kind != "time" or any(other.kind != "still" for other in given[1:]),
        "has weights that the sequence tells",
    )
    if flow.axis == 0:
        return walk.at_once(node, given)
    Refusal.when(flow.axis == 1, "has time as its channels", "transpose its input")
    assert operation is not None
    at = flow.axis - 2
    begins, ends = _pads(operation, kernel)
    strides = list(operation.strides)  # type: ignore[attr-defined]
    dilations = list(getattr(operation, "dilations", None) or [1] * len(strides))
    size = kernel[at]
    if size is None:
        raise Refusal("has a kernel whose size is not known")
    lead = begins[at]
    if node.type_name == "AvgPool" and operation.exclude_pad and lead:  # type: ignore[attr-defined]
        raise Refusal("counts fewer frames at the beginning", "set exclude-pad to false")
    begins[at] = ends[at] = 0
    changes: dict[str, object] = {"auto_pad": "explicit", "pads_begin": begins, "pads_end": ends}
    if "rounding_type" in operation.attributes and at == len(strides) - 1 == 0:
        changes["rounding_type"] = "floor"  # past the end there is nothing in a stream
    plain = operation.replace(**changes)
    rest = [f.source for f in given[1:]]
    flow = walk.padded(flow, lead, value)
    made = window(
        walk,
        flow,
        (size - 1) * dilations[at],
        strides[at],
        lambda source: walk.copy(node, [source, *rest], plain)[0],
        value,
    )
    return [walk.flowing(Source(node.id, 0), made)]


def _pads(operation: Operation, kernel: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """The padding of each axis as numbers."""
    axes = len(kernel)
    mode = operation.auto_pad  # type: ignore[attr-defined]
    if mode == "explicit":
        begins, ends = operation.pads_begin, operation.pads_end  # type: ignore[attr-defined]
        return list(begins or [0] * axes), list(ends or [0] * axes)
    begins, ends = [0] * axes, [0] * axes
    if mode == "valid":
        return begins, ends
    dilations = getattr(operation, "dilations", None) or [1] * axes
    for i, size in enumerate(kernel):
        if operation.strides[i] != 1 or size is None:  # type: ignore[attr-defined]
            raise Refusal(f"has auto_pad {mode} with strides", "export it with explicit pads")
        span = (size - 1) * dilations[i]
        low, high = span // 2, span - span // 2
        begins[i], ends[i] = (low, high) if mode == "same_upper" else (high, low)
    return begins, ends


@streams("Convolution", "GroupConvolution", how=_HOW)
def _convolution(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    lead: int = node.operation.lead  # type: ignore[union-attr]
    shape = walk.spec(node.inputs[1]).shape
    return _sliding(walk, node, given, [dim.static_size for dim in shape[lead:]])


@streams("MaxPool", how=_HOW + "; not where the places of the largest are read")
def _max_pool(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    kind = walk.spec(node.inputs[0]).element_type
    Refusal.when(
        not kind.is_float, "takes the largest of whole numbers", "convert them to floats before it"
    )
    kernel = node.operation.kernel  # type: ignore[union-attr]
    values = _sliding(walk, node, given, list(kernel), -math.inf)
    why, remedy = "gives places in the whole sequence", "take the largest values only"
    places = refused(Refusal(why, remedy, node.label, node.name))
    return values + [places for _ in node.outputs[1:]]


@streams("AvgPool", how=_HOW)
def _avg_pool(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    return _sliding(walk, node, given, list(node.operation.kernel))  # type: ignore[union-attr]


@streams("STFT", how="keeps the overlap of its pieces")
def _stft(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow = walk.separate(given[0])
    open_pieces = "has pieces whose size is not known"
    Refusal.when(flow.kind != "time", open_pieces)
    size, step = (walk.known_numbers(node, position, open_pieces) for position in (2, 3))
    if flow.axis != walk.writer.rank(flow.source) - 1:
        return walk.at_once(node, given)
    rest = [f.source for f in given[1:]]
    made = window(
        walk, flow, size[0] - 1, step[0], lambda source: walk.copy(node, [source, *rest])[0]
    )
    turned = node.operation.transpose_frames  # type: ignore[union-attr]
    made = replace(made, axis=flow.axis + (1 if turned else 0))
    return [walk.flowing(Source(node.id, 0), made)]


@streams(
    "ConvolutionBackpropData",
    "GroupConvolutionBackpropData",
    how="keeps the frames whose kernels overlap; not where it makes more frames than go in",
)
def _backprop(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    """The outputs that overlap are computed again of the frames that are kept: the order of sums
    is the same whatever the frames of a call are.
    """
    flow, operation = walk.separate(given[0]), node.operation
    assert operation is not None
    Refusal.when(
        flow.kind != "time" or given[1].kind != "still", "has weights that the sequence tells"
    )
    if flow.axis == 0:
        return walk.at_once(node, given)
    Refusal.when(flow.axis == 1, "has time as its channels", "transpose its input")
    lead: int = operation.lead  # type: ignore[attr-defined]
    at = flow.axis - 2
    kernel = walk.spec(node.inputs[1]).shape[lead + at].static_size
    stride = operation.strides[at]  # type: ignore[attr-defined]
    dilation = (operation.dilations or [1] * 3)[at]  # type: ignore[attr-defined]
    begins, ends = list(operation.pads_begin), list(operation.pads_end)  # type: ignore[attr-defined]
    if operation.auto_pad != "explicit" or not begins:  # type: ignore[attr-defined]
        begins, ends = [0] * len(operation.strides), [0] * len(operation.strides)  # type: ignore[attr-defined]
    if kernel is None:
        raise Refusal("has a kernel whose size is not known")
    span = (kernel - 1) * dilation
    extra = (operation.output_padding or [0] * 3)[at]  # type: ignore[attr-defined]
    plain_in_time = span == 0 and stride == 1 and begins[at] == 0 and extra == 0
    if len(node.inputs) > 2:
        Refusal.when(
            not plain_in_time, "has an output shape as input", "export it with explicit pads"
        )
        return walk.at_once(node, given)
    if plain_in_time:
        return walk.at_once(node, given)
    Refusal.when(extra, "has output padding along time")
    Refusal.when(
        flow.every % stride,
        "makes more frames than go into the model",
        "make several samples of a frame outside, or reshape a frame of them",
    )
    first = begins[at]
    begins[at] = ends[at] = 0
    plain = operation.replace(pads_begin=begins, pads_end=ends)
    flow = walk.cleaned(flow, 0)
    writer, rest = walk.writer, [f.source for f in given[1:]]

    def made(source: Source, skipped: int) -> Source:
        result = walk.copy(node, [source, *rest], plain)[0]
        if span + 1 < stride:  # no kernel reaches the cells behind the last one
            result = writer.join(
                flow.axis, result, writer.filled(result, flow.axis, stride - span - 1)
            )
        beyond = span + 1 - stride
        return writer.cut(result, flow.axis, skipped, -beyond if beyond > 0 else None)

    need = span // stride
    source = writer.kept(flow, need) if need else flow.source
    past = None if flow.history is None else made(flow.history, 0)
    result = flow.moved(made(source, need * stride), past, flow.shift * stride)
    result = replace(result, every=flow.every // stride)
    return [walk.flowing(Source(node.id, 0), walk.sliced(result, first))]
