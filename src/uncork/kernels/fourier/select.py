"""Selection of the kernels of Fourier transforms: one call for each axis, or for all frames."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from uncork.kernels.extents import (
    KernelDeclined,
    always_same,
    as_number,
    certainly,
    decline_if,
    extents,
    is_empty,
    largest,
    product,
    same_extents,
    smallest,
)
from uncork.kernels.fourier.passes import Pass, planned
from uncork.kernels.fourier.spec import COMPLEX, HALF, REAL, WINDOWED
from uncork.kernels.kernel_plan import In, Operand, Out, Scratch, Selection, whole_lines
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.runtime.addresses import address_of
from uncork.ops.dft import DFT7, IDFT7, IRDFT9
from uncork.ops.stft import ISTFT16, STFT15
from uncork.symbolic import Size, SizeLike
from uncork.types import ElementType, TensorSpec

#: Bytes of a number.
_SIZES = {ElementType.f32: 4, ElementType.f64: 8}
#: NumPy's types of numbers of so many bytes.
_DTYPES = {4: np.float32, 8: np.float64}
#: The longest transform of a known length: its working memory is a few times that of the data.
_LONGEST = 1 << 22
#: A signal as the sum of its windowed pieces over that of the squared windows; zeros where no
#: window has a part in it, and past all pieces.
_OVERLAP = """n:
  z*: R[z] = 0.0; W[z] = 0.0
  f o*:
    A[f, o] = A[f, o] + P[n, f, o] * V[o]
    B[f, o] = B[f, o] + V[o] * V[o]
  t*: Y[n, t] = where(E[t] == 0.0, 0.0, D[t] / E[t] * S[0])
  u*: Z[n, u] = 0.0"""


def select_transform(layer: Layer) -> Selection:
    operation, outputs, data = layer.operation, layer.outputs, layer.input(0)
    transform = cast("DFT7 | IRDFT9", operation)
    axes = layer.constant(1, "axes are")
    size = _size_of(data)
    sizes, made = list(extents(data)), list(extents(outputs[0]))
    decline_if(is_empty(made), "no kernel for empty tensors")
    sizes, made = (
        sizes[: len(sizes) - transform.from_complex],
        made[: len(made) - transform.to_complex],
    )
    places = [int(axis) % len(sizes) for axis in axes.flat]
    decline_if(not places, "no kernel without axes")
    walk = list(zip(places, _wanted(layer.optional(2), len(places)), strict=True))
    if not transform.from_complex:  # the axis of real numbers comes first
        walk.reverse()
    passes: list[Pass] = []
    source: Operand = In(0)
    offset: SizeLike = 0
    for index, (axis, wanted) in enumerate(walk):
        last = index == len(walk) - 1
        kind = REAL if not transform.from_complex and not index else COMPLEX
        kind = HALF if not transform.to_complex and last else kind
        # What a model computes from a shape is that size, or the result's, which may be numbers.
        if isinstance(wanted, Size):
            wanted = -1 if always_same(wanted, sizes[axis]) and kind != HALF else wanted
        if isinstance(wanted, Size) and kind != REAL:
            wanted = made[axis]
        length = _length(sizes[axis], wanted, kind)
        kept = length // 2 + 1 if kind == REAL else length
        after = [*sizes[:axis], kept, *sizes[axis + 1 :]]
        pairs = kind != HALF
        to: Operand = Out(0)
        if not last and not (transform.to_complex and same_extents(after, made)):
            to = Scratch(offset)
            offset = offset + product(after) * 2 * size
        outer, inner = product(sizes[:axis]), product(sizes[axis + 1 :])
        count = outer * inner
        one, other = size * (1 if kind == REAL else 2), size * (2 if pairs else 1)
        half = smallest(length // 2 + 1, length)
        passes.append(
            Pass(
                kind,
                pairs,
                size,
                source,
                (sizes[axis] * inner * one, one, inner * one),
                to,
                (kept * inner * other, other, inner * other),
                count,
                inner,
                length,
                smallest(sizes[axis], half if kind == HALF else length),
                kept,
                inverse=isinstance(operation, (IDFT7, IRDFT9)),
            )
        )
        source, sizes = to, after
    return planned(layer, passes, offset)


def select_frames(layer: Layer) -> Selection:
    operation, outputs = layer.of(STFT15), layer.outputs
    size, length, step = _size_of(layer.input(0)), *_frame(layer)
    own = as_number(layer.shape(1)[0], "the length of the window is known at the call only")
    *lead, whole = layer.shape(0)
    made = extents(outputs[0])
    kept = length // 2 + 1
    frames = made[-2] if operation.transpose_frames else made[-3]
    count, pair = product(lead) * frames, 2 * size
    decline_if(is_empty(made), "no kernel for empty tensors")
    begin = (length - own) // 2
    inner: tuple[SizeLike, SizeLike] = (
        (pair, frames * pair) if operation.transpose_frames else (kept * pair, pair)
    )
    only = Pass(
        WINDOWED,
        True,
        size,
        In(0),
        (whole * size, step * size, size),
        Out(0),
        (frames * kept * pair, *inner),
        count,
        frames,
        length,
        begin + own,
        kept,
        begin,
        window=In(1),
    )
    return planned(layer, [only], 0)


def select_signal(layer: Layer) -> Selection:
    """Select the kernels of ISTFT: inverse transforms make the pieces, then a nest adds them."""
    operation = layer.of(ISTFT16)
    size, length, step = _size_of(layer.input(0)), *_frame(layer)
    *lead, kept, frames, _ = layer.shape(0)
    own = as_number(layer.shape(1)[0], "the length of the window is known at the call only")
    made = layer.result()
    decline_if(is_empty(made), "no kernel for empty tensors")
    _length(length, -1, COMPLEX)
    batch, pair = product(lead), 2 * size
    count, reached = batch * frames, (frames - 1) * step + length
    pieces = whole_lines(count * length * size)
    only = Pass(
        HALF,
        False,
        size,
        In(0),
        (kept * frames * pair, pair, frames * pair),
        Scratch(0),
        (frames * length * size, length * size, size),
        count,
        frames,
        length,
        length // 2 + 1,
        length,
        inverse=True,
    )
    scale = np.array([math.sqrt(length) if operation.normalized else 1], _DTYPES[size])
    begin, first = (length - own) // 2, length // 2 if operation.center else 0
    there = largest(smallest(reached - first, made[-1]), 0)
    name, room, frame = layer.input(0).element_type.name, reached * size, length * size
    steps, summed = (step * size, size), (frames, own)
    views = {
        "P": View(Scratch(begin * size), name, (batch, *summed), (frames * frame, frame, size)),
        "V": View(In(1), name, (own,)),
        "S": View(address_of(scale), name, (1,)),
        # Sums of pieces, and of squared windows: all, as frames add to them, and what is stored.
        "R": View(Scratch(pieces), name, (reached,)),
        "W": View(Scratch(pieces + room), name, (reached,)),
        "A": View(Scratch(pieces + begin * size), name, summed, steps),
        "B": View(Scratch(pieces + room + begin * size), name, summed, steps),
        "D": View(Scratch(pieces + first * size), name, (there,)),
        "E": View(Scratch(pieces + room + first * size), name, (there,)),
        "Y": View(Out(0), name, (batch, made[-1])),
        "Z": View(Out(0, there * size), name, (batch, made[-1] - there), (made[-1] * size, size)),
    }
    sizes = {"n": batch, "f": frames, "o": own, "z": reached, "t": there, "u": made[-1] - there}
    last = Call("overlap", _OVERLAP, sizes, views, layer.target, 4, scalar_type=name).kernel_call()
    return planned(layer, [only], pieces + 2 * room, [last], [scale])


def _frame(layer: Layer) -> tuple[int, int]:
    """How long the frames of a signal are, and from one to the next."""
    size, step = (layer.constant(position, "the size of a frame is") for position in (2, 3))
    return size.item(), step.item()


def _size_of(data: TensorSpec) -> int:
    size = _SIZES.get(data.element_type)
    if size is None:
        raise KernelDeclined(f"no kernel for {data.element_type}")
    return size


def _wanted(signal_size: TensorSpec | None, count: int) -> list[SizeLike]:
    """The size of each axis, -1 to keep it."""
    if signal_size is None:
        return [-1] * count
    if signal_size.value is not None:
        return [int(n) for n in signal_size.value.flat]
    result = [n for n in signal_size.elements or () if isinstance(n, (int, Size))]
    decline_if(len(result) < count, "sizes are known at the call only")
    return result


def _length(size: SizeLike, wanted: SizeLike, kind: str) -> SizeLike:
    """How long the transforms of an axis are."""
    length = wanted if not certainly(wanted, -1) else (size - 1) * 2 if kind == HALF else size
    if isinstance(length, int) and not 1 <= length <= _LONGEST:
        raise KernelDeclined(f"no kernel for axes of {length}")
    return length
