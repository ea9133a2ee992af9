"""Selection of the loop nest that resizes: Interpolate."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import KernelDeclined, compute_nothing_of, decline_if, same
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import WORDS, computed_type
from uncork.kernels.loops.resize_nest import PICKED, Resizing
from uncork.kernels.loops.resize_taps import KnownTaps, OpenAxis, OpenTaps, Taps
from uncork.kernels.stored_types import element_bytes
from uncork.ops._common.resize import Axis, taps_of_place
from uncork.ops.interpolate import Interpolate1, Interpolating, at_least_f32
from uncork.storage import decode
from uncork.symbolic import SizeLike
from uncork.types import Array, TensorSpec

_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
#: Whole numbers that f64 holds, with the modes whose sums it makes as the reference does.
_WHOLE = frozenset({"i8", "u8", "i16", "u16", "i32", "u32"})
_WHOLE_MODES = frozenset({"linear", "cubic"})
#: So many channels behind the last axis that changes are one axis with it.
_MOST_CHANNELS = 15


def select_resizing(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(Interpolating), layer.inputs, layer.target
    name = layer.input(0).element_type.name
    shape: Sequence[SizeLike] = layer.shape(0)
    result: Sequence[SizeLike] = layer.result()
    compute_nothing_of(result, "resize")
    decline_if(any(begin or end for begin, end in operation.pads(len(shape))), "no kernel for pads")
    how = operation.settings(is_padded=False, rank=len(shape))
    numbers, scales = _axes(operation, inputs, len(shape))
    if how.mode == "nearest":
        shape, result, size = _in_words(shape, result, element_bytes(name))
        name = WORDS[size]
    elif name not in (_WHOLE | _FLOATS if how.mode in _WHOLE_MODES else _FLOATS):
        return f"no kernel for {name}"
    computed = computed_type(name) if how.mode == "nearest" or name in _FLOATS else "f64"
    axes = [
        OpenAxis(a, shape[a], result[a], scale) for a, scale in zip(numbers, scales, strict=True)
    ]
    known = [
        Axis(a.axis, a.size, a.result, a.scale)
        for a in axes
        if isinstance(a.size, int) and isinstance(a.result, int)
    ]
    smoothed = how.antialias and any(axis.factor < 1 for axis in known)
    along: list[Taps] = []
    scratch: SizeLike = 0
    for axis in axes:
        if same(axis.size, axis.result):
            continue
        if (
            isinstance(axis.size, int)
            and isinstance(axis.result, int)
            and (len(known) == len(axes) or not how.antialias)
        ):
            fixed = Axis(axis.axis, axis.size, axis.result, axis.scale)
            # Cells and weights in 64 bits, and once more on the way.
            layer.require_room(fixed.result * taps_of_place(fixed, how, smoothed) * 32)
            along.append(KnownTaps(fixed, how, smoothed, computed))
        else:
            along.append(OpenTaps(axis, how, computed, scratch, target))
            scratch = scratch + along[-1].scratch
    along, shape, result = _with_channels(along, shape, result)
    decline_if(
        computed != computed_type(name) and not _as_the_reference(along, len(shape)),
        f"no kernel for {name} along these axes",
    )
    return Resizing(along, shape, result, name, computed).nest(target).native()


def _in_words(
    shape: Sequence[SizeLike], result: Sequence[SizeLike], size: int
) -> tuple[Sequence[SizeLike], Sequence[SizeLike], int]:
    """Shapes, and the bytes of an element, where neighbours along a last axis that stays are one
    element, of up to as many bytes as processors pick out of vectors.
    """
    last = shape[-1] if shape else 0
    while size < PICKED and isinstance(last, int) and same(last, result[-1]) and last % 2 == 0:
        size, last = size * 2, last // 2
        shape, result = [*shape[:-1], last], [*result[:-1], last]
    return shape, result, size


def _with_channels(
    along: Sequence[Taps], shape: Sequence[SizeLike], result: Sequence[SizeLike]
) -> tuple[list[Taps], Sequence[SizeLike], Sequence[SizeLike]]:
    """The last axis that changes, joined with a few channels behind it into one axis, which fills
    vectors.
    """
    channels = shape[-1] if shape else 0
    found = next((taps for taps in along if taps.axis == len(shape) - 2), None)
    if (
        not isinstance(found, KnownTaps)
        or not isinstance(channels, int)
        or channels > _MOST_CHANNELS
        or any(taps.axis == len(shape) - 1 for taps in along)
    ):
        return list(along), shape, result
    joined = [taps.of_channels(channels) if taps is found else taps for taps in along]
    sizes, counts = ([*of[:-2], of[-2] * channels] for of in (shape, result))
    return joined, sizes, counts


def _as_the_reference(along: Sequence[Taps], rank: int) -> bool:
    """Whether the sums are made in the order of the reference, so that halves are halves: one axis
    of rows, then the last one.
    """
    axes = [taps.axis for taps in along]
    return axes == sorted(axes) and sum(axis < rank - 1 for axis in axes) <= 1


def _axes(
    operation: Interpolating, inputs: Sequence[TensorSpec | None], rank: int
) -> tuple[list[int], Sequence[Array | None]]:
    """The axes that are resized, and the scale of each where scales say by how much."""
    if isinstance(operation, Interpolate1):
        return list(operation.axes), [None] * len(operation.axes)
    wanted, axes = operation.chosen(*inputs[1:])
    if axes is not None and axes.value is None:
        raise KernelDeclined("axes are known at the call only")
    numbers = list(range(rank)) if axes is None else axes.value.tolist()
    if operation.by_sizes:
        return numbers, [None] * len(numbers)
    if wanted.value is None:
        raise KernelDeclined("scales are known at the call only")
    return numbers, list(at_least_f32(decode(wanted.value, wanted.element_type)))
