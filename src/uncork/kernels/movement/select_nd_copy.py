"""Selection of strided copies for operations that move values along axes, for open sizes as well.

Each rule gives the copies of one operation as `Copy`s, or None where its other inputs do not tell
enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from uncork.kernels.extents import (
    bytes_of,
    certainly,
    elements_of,
    extents,
    nanoseconds,
    same,
    total,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Out,
    Selection,
    Stages,
)
from uncork.kernels.kernel_spec import writer_of
from uncork.kernels.layer import staged
from uncork.kernels.movement.looks import Piece, beside, copied, whole
from uncork.kernels.movement.nd_copy import (
    MOST_LOOPS,
    Copy,
    Fill,
    Loop,
    merged,
    nd_copy,
    strides,
    zeros,
)
from uncork.kernels.movement.shared_moves import parted
from uncork.kernels.movement.spec import FillBytes
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]
Rule = Callable[[Operation, Specs, Specs], "Sequence[Copy | Fill] | None"]


def select_nd_copy(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Specs
) -> Selection | None:
    """Strided copies for an operation; None where there is no rule for it, or it does not know
    enough.
    """
    rule = _rule(operation.type_name)
    given = [spec for spec in inputs if spec is not None]
    copies = None if rule is None or len(given) < len(inputs) else rule(operation, given, outputs)
    if copies is None or not outputs:  # an axis of nothing is split into no parts
        return None
    if any(
        isinstance(copy, Copy) and len(merged(copy.loops, copy.run)[0]) > MOST_LOOPS
        for copy in copies
    ):
        return None
    sizes = [bytes_of(spec) for spec in outputs]

    def split(threads: int) -> Stages:
        """Fills first, one after the other; then all copies at once, of which no two write to one
        place.
        """
        fills = [[_fill(copy, sizes[0])] for copy in copies if isinstance(copy, Fill)]
        whole = [copy for copy in copies if isinstance(copy, Copy)]
        moves = [part for copy in whole for part in parted(_call(copy), threads)]
        return Stages([*fills, moves] if moves else fills, 0)

    cost = nanoseconds(total(sizes), 1 / 8)
    return staged(split, cost, name="" if copies else "nd_copy_nothing")


def _fill(fill: Fill, output_bytes: SizeLike) -> KernelCall:
    if fill.value is None:
        return zeros(Out(0), output_bytes)
    return FillBytes(fill.element), [In(fill.value), Out(0), output_bytes]


def _call(copy: Copy) -> KernelCall:
    source, target = In(copy.source, copy.source_offset), Out(copy.target, copy.target_offset)
    return nd_copy(source, target, copy.loops, copy.run)


def concat_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy]:
    """The copies of Concat. Sizes that must be the result's are told as those."""
    result, element = extents(outputs[0]), outputs[0].element_type.dtype.itemsize
    axis = normalised_axis(operation, getattr(operation, "axis", 0), len(result))
    shapes = [(*result[:axis], extents(spec)[axis], *result[axis + 1 :]) for spec in inputs]
    parts = (([whole(n, shape, element)], shape) for n, shape in enumerate(shapes))
    return [copied(piece, result, element) for piece in beside(parts, axis)]


def tile_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """The copy of Tile."""
    repeats = elements_of(inputs[1])
    result = extents(outputs[0])
    if repeats is None:
        return None
    shape = (*(1,) * (len(result) - len(extents(inputs[0]))), *extents(inputs[0]))
    times = [*(1,) * (len(result) - len(repeats)), *repeats]
    element = inputs[0].element_type.dtype.itemsize
    source, target = strides(shape, element), strides(result, element)
    loops: list[Loop] = []
    for axis, size in enumerate(shape):
        loops += [Loop(times[axis], 0, target[axis] * size), Loop(size, source[axis], target[axis])]
    return [Copy(0, 0, 0, 0, tuple(loops), element)]


def broadcast_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """The copy of Broadcast, of explicit axes too: along an axis that is stretched the source's
    step is 0.
    """
    if not all(spec.value is not None or spec.has_all_elements for spec in inputs[1:]):
        return None
    shape, result = extents(inputs[0]), extents(outputs[0])
    places = list(range(len(result) - len(shape), len(result)))
    if getattr(operation, "mode", "") == "explicit":
        mapping = inputs[2].value
        if mapping is None:
            return None
        places = [int(axis) for axis in mapping.reshape(-1)]
    element = inputs[0].element_type.dtype.itemsize
    own = dict(zip(places, zip(shape, strides(shape, element), strict=True), strict=True))
    steps: list[SizeLike] = []
    for place, size in enumerate(result):
        given, step = own.get(place, (1, 0))
        if not certainly(given, 1) and not same(given, size):
            return None
        steps.append(0 if certainly(given, 1) else step)
    piece = Piece(0, (0,) * len(result), tuple(result), 0, tuple(steps))
    return [copied(piece, result, element)]


#: The rules by the types of operations. Those of other modules are imported for models that have
#: such layers.
_RULES: Mapping[str, str] = {
    "Broadcast": "select_nd_copy:broadcast_copies",
    "Concat": "select_nd_copy:concat_copies",
    "DepthToSpace": "select_rearranged:depth_to_space_copies",
    "Gather": "looks:look_copies",
    "Moved": "select_moved:moved_copies",
    "Pad": "select_slices:pad_copies",
    "Roll": "select_roll:roll_copies",
    "ShuffleChannels": "select_rearranged:shuffle_channels_copies",
    "Slice": "looks:look_copies",
    "SpaceToDepth": "select_rearranged:space_to_depth_copies",
    "Split": "looks:look_copies",
    "StridedSlice": "looks:look_copies",
    "Tile": "select_nd_copy:tile_copies",
    "Transpose": "looks:look_copies",
    "VariadicSplit": "looks:look_copies",
}


def _rule(type_name: str) -> Rule | None:
    """The rule of an operation type; None where there is none."""
    place = _RULES.get(type_name)
    return None if place is None else writer_of(f"{__package__}.{place}")
