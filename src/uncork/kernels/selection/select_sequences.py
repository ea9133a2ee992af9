"""Selection of the kernels of CTCGreedyDecoder and GatherTree."""

from __future__ import annotations

from uncork.kernels.extents import decline_if, extents, nanoseconds, product
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Selection
from uncork.kernels.layer import Layer, one_call
from uncork.kernels.loops.nest_call import vector_lanes
from uncork.kernels.movement.spec import FillBytes
from uncork.kernels.selection.spec import FollowBeams, GreedyPath
from uncork.ops.ctc_greedy_decoder import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6


def select_decoded(layer: Layer) -> Selection:
    operation, target = layer.of(CTCGreedyDecoder1), layer.target
    data = layer.input(0)
    decline_if(operation.strict, "no kernel that looks at whole masks")
    name = data.element_type.name
    steps, rows, classes = extents(data)
    lanes = vector_lanes([name], target)
    merged = operation.ctc_merge_repeated
    spec = GreedyPath(name, name, True, "", name, "", merged, lanes)
    line = classes * data.element_type.dtype.itemsize
    words: list[Operand] = [In(0), In(1), 0, Out(0), 0, rows, steps, classes, line, rows * line]
    return _plan((spec, words), layer)


def select_decoded_by_lengths(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(CTCGreedyDecoderSeqLen6), layer.outputs, layer.target
    data, lengths, blank = layer.input(0), layer.input(1), layer.optional(2)
    name = data.element_type.name
    rows, steps, classes = extents(data)
    spec = GreedyPath(
        name,
        lengths.element_type.name,
        False,
        "" if blank is None else blank.element_type.name,
        outputs[0].element_type.name,
        outputs[1].element_type.name,
        operation.merge_repeated,
        vector_lanes([name], target),
    )
    line = classes * data.element_type.dtype.itemsize
    given: list[Operand] = [In(0), In(1), 0 if blank is None else In(2), Out(0), Out(1)]
    return _plan((spec, [*given, rows, steps, classes, steps * line, line]), layer)


def _plan(call: KernelCall, layer: Layer) -> Selection:
    return one_call(call, nanoseconds(product(layer.shape(0)), 0.3))


def select_tree(layer: Layer) -> Selection:
    ids = layer.input(0)
    name = layer.stored(0)
    steps, rows, beams = extents(ids)
    whole = product((steps, rows, beams))
    item = ids.element_type.dtype.itemsize
    spec = FollowBeams(name)
    words: list[Operand] = [*(In(n) for n in range(4)), Out(0), steps, rows, beams]
    return KernelPlan(
        spec.name,
        [(FillBytes(item), [In(3), Out(0), whole * item]), (spec, words)],
        cost=nanoseconds(whole, 4.0),
    )
