"""Selection of the kernels of Fourier transforms: one call for each axis, or for all frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec import Struct

from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    extents,
    is_empty,
    nanoseconds,
    product,
    same,
    same_extents,
    smallest,
)
from uncork.kernels.fourier.spec import COMPLEX, HALF, REAL, WINDOWED, Fourier
from uncork.kernels.fourier.spec_overlap import Overlap
from uncork.kernels.fourier.tables import LARGEST_PRIME, dtype_of, factors_of, tables
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.ops import Operation
from uncork.ops.dft import DFT7, IDFT7, IRDFT9, RDFT9
from uncork.ops.stft import ISTFT16, STFT15
from uncork.symbolic import Size, SizeLike, facts_of
from uncork.types import Array, ElementType, TensorSpec

#: Bytes of a number.
_SIZES = {ElementType.f32: 4, ElementType.f64: 8}
#: The longest transform: its working memory is a few times that of the data.
_LONGEST = 1 << 22
#: Bytes of working memory of several transforms, so that it stays in the second-level cache.
_NEAR = 1 << 21
#: Nanoseconds of a number in a step.
_EACH = 0.4
#: Working memory begins at a cache line.
_LINE = 64
#: Bytes from a transform to the next outer and inner one, and from a number to the next.
_Strides = tuple[SizeLike, SizeLike, SizeLike]


class _Pass(Struct, frozen=True):
    """A pass: transforms of one length, with the arguments that `spec.Fourier` describes."""

    spec: Fourier
    source: Operand
    source_strides: _Strides
    target: Operand
    target_strides: _Strides
    count: SizeLike
    inner: SizeLike
    length: int
    radices: Sequence[int]
    end: SizeLike
    kept: int
    begin: int = 0
    inverse: bool = False
    window: Operand = 0

    def tables(self) -> list[Array]:
        """The table of the steps, the scale, and the arrays whose addresses are in the table."""
        steps, keep = tables(self.length, self.radices, self.spec.size)
        scale = 1 / self.length if self.inverse else 1.0
        return [steps, np.array([scale], dtype_of(self.spec.size)), *keep]

    def call(
        self, made: Sequence[Array], room: SizeLike, first: SizeLike, some: SizeLike
    ) -> KernelCall:
        """The call for some of the transforms, with these tables."""
        spec = self.spec
        steps, scale = (int(array.ctypes.data) for array in made[:2])
        operands: dict[str, Operand] = {
            "source": self.source,
            "target": self.target,
            "begin": self.begin,
            "end": self.end,
            "kept": self.kept,
            "inner": self.inner,
            "first": first,
            "last": first + some,
            "length": self.length,
            "swapped": spec.size if self.inverse else 0,
            "scale": scale,
            "window": self.window,
            "steps": steps,
            "count": len(self.radices),
            "room": Scratch(room),
        }
        for side, strides in (("source", self.source_strides), ("target", self.target_strides)):
            operands.update({f"{side}_{n}": s for n, s in zip(("outer", "inner", "step"), strides)})
        return spec, [operands[name] for name in spec.arguments]


@selects(DFT7, IDFT7, RDFT9, IRDFT9)
def select_transform(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    data, axes, signal_size = (*inputs, None)[:3]
    assert data is not None and axes is not None
    transform = cast("DFT7 | IRDFT9", operation)
    if axes.value is None:
        return "axes are known at the call only"
    size = _size_of(data)
    sizes, made = list(extents(data)), list(extents(outputs[0]))
    if is_empty(made):
        return "no kernel for empty tensors"
    sizes, made = (
        sizes[: len(sizes) - transform.from_complex],
        made[: len(made) - transform.to_complex],
    )
    places = [int(axis) % len(sizes) for axis in axes.value.flat]
    if not places:
        return "no kernel without axes"
    walk = list(zip(places, _wanted(signal_size, len(places))))
    if not transform.from_complex:  # the axis of real numbers comes first
        walk.reverse()
    passes: list[_Pass] = []
    source: Operand = In(0)
    offset: SizeLike = 0
    for index, (axis, wanted) in enumerate(walk):
        last = index == len(walk) - 1
        kind = REAL if not transform.from_complex and not index else COMPLEX
        kind = HALF if not transform.to_complex and last else kind
        # What a model computes from a shape is that size, or the result's, which may be numbers.
        if isinstance(wanted, Size):
            wanted = -1 if _equal(wanted, sizes[axis]) and kind != HALF else wanted
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
        half = min(length // 2 + 1, length)
        passes.append(
            _Pass(
                Fourier(kind, pairs, _lanes(target, count, length, size), size),
                source,
                (sizes[axis] * inner * one, one, inner * one),
                to,
                (kept * inner * other, other, inner * other),
                count,
                inner,
                length,
                _radices(length),
                smallest(sizes[axis], half if kind == HALF else length),
                kept,
                inverse=isinstance(operation, (IDFT7, IRDFT9)),
            )
        )
        source, sizes = to, after
    return _planned(passes, offset)


@selects(STFT15)
def select_frames(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    signal, window, frame_size, frame_step = inputs
    assert signal is not None and window is not None and isinstance(operation, STFT15)
    assert frame_size is not None and frame_step is not None
    if frame_size.value is None or frame_step.value is None:
        return "the size of a frame is known at the call only"
    size, length, step = _size_of(signal), frame_size.value.item(), frame_step.value.item()
    (own,) = extents(window)
    *lead, whole = extents(signal)
    made = extents(outputs[0])
    kept = length // 2 + 1
    frames = made[-2] if operation.transpose_frames else made[-3]
    count, pair = product(lead) * frames, 2 * size
    if not isinstance(own, int):
        return "the length of the window is known at the call only"
    if is_empty(made):
        return "no kernel for empty tensors"
    begin = (length - own) // 2
    inner: tuple[SizeLike, SizeLike] = (
        (pair, frames * pair) if operation.transpose_frames else (kept * pair, pair)
    )
    only = _Pass(
        Fourier(WINDOWED, True, _lanes(target, count, length, size), size),
        In(0),
        (whole * size, step * size, size),
        Out(0),
        (frames * kept * pair, *inner),
        count,
        frames,
        length,
        _radices(length),
        begin + own,
        kept,
        begin,
        window=In(1),
    )
    return _planned([only], 0)


@selects(ISTFT16)
def select_signal(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    """Select the kernels of ISTFT: inverse transforms make the pieces, then one kernel adds
    them.
    """
    data, window, frame_size, frame_step = inputs[:4]
    assert data is not None and window is not None and isinstance(operation, ISTFT16)
    assert frame_size is not None and frame_step is not None
    if frame_size.value is None or frame_step.value is None:
        return "the size of a frame is known at the call only"
    size, length, step = _size_of(data), frame_size.value.item(), frame_step.value.item()
    *lead, kept, frames, _ = extents(data)
    (own,), made = extents(window), extents(outputs[0])
    if not isinstance(own, int):
        return "the length of the window is known at the call only"
    if is_empty(made):
        return "no kernel for empty tensors"
    _length(length, -1, COMPLEX)
    batch, pair = product(lead), 2 * size
    count, reached = batch * frames, (frames - 1) * step + length
    pieces = (count * length * size + (_LINE - 1)) // _LINE * _LINE
    only = _Pass(
        Fourier(HALF, False, _lanes(target, count, length, size), size),
        In(0),
        (kept * frames * pair, pair, frames * pair),
        Scratch(0),
        (frames * length * size, length * size, size),
        count,
        frames,
        length,
        _radices(length),
        length // 2 + 1,
        length,
        inverse=True,
    )
    scale = np.array([math.sqrt(length) if operation.normalized else 1], dtype_of(size))
    operands: dict[str, Operand] = {
        "pieces": Scratch(0),
        "window": In(1),
        "target": Out(0),
        "batch": batch,
        "frames": frames,
        "frame": length,
        "step": step,
        "begin": (length - own) // 2,
        "own": own,
        "first": length // 2 if operation.center else 0,
        "length": made[-1],
        "reached": reached,
        "scale": int(scale.ctypes.data),
        "room": Scratch(pieces),
    }
    spec = Overlap(max(1, target.lanes * 4 // size), size)
    last = spec, [operands[name] for name in spec.arguments]
    return _planned([only], pieces + 2 * reached * size, [last], [scale])


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
    if len(result) < count:
        raise KernelDeclined("sizes are known at the call only")
    return result


def _equal(a: SizeLike, b: SizeLike) -> bool:
    """Whether both sizes are one number in every call of this plan."""
    facts = facts_of([a, b])
    return same(a, b) if facts is None else facts.certainly_equal(a, b)


def _length(size: SizeLike, wanted: SizeLike, kind: str) -> int:
    """How long the transforms of an axis are."""
    length = wanted if not certainly(wanted, -1) else (size - 1) * 2 if kind == HALF else size
    if not isinstance(length, int):
        raise KernelDeclined("the length of an axis is known at the call only")
    if not 1 <= length <= _LONGEST:
        raise KernelDeclined(f"no kernel for axes of {length}")
    return length


def _radices(length: int) -> list[int]:
    radices = factors_of(length)
    if radices is None:
        raise KernelDeclined(f"no kernel for lengths with a prime factor above {LARGEST_PRIME}")
    return radices


def _lanes(target: Target, count: SizeLike, length: int, size: int) -> int:
    """How many transforms are made at a time: no more than there are, and than fit in the cache."""
    lanes = max(1, target.lanes * 4 // size)
    while lanes > 1 and (
        (isinstance(count, int) and lanes > count) or 4 * length * lanes * size > _NEAR
    ):
        lanes //= 2
    return lanes


def _planned(
    passes: Sequence[_Pass],
    memory: SizeLike,
    then: Sequence[KernelCall] = (),
    keep: Sequence[Array] = (),
) -> KernelPlan:
    """The plan of the passes, one after the other, and of the calls `then`, with `memory` bytes for
    what is between them.
    """
    made = [each.tables() for each in passes]
    room = max(each.spec.room(each.length) for each in passes) + 2 * _LINE
    first = (memory + (_LINE - 1)) // _LINE * _LINE

    def stages(threads: int) -> Stages:
        found: list[list[KernelCall]] = []
        for each, own in zip(passes, made):
            parts = (
                shares(each.count, threads, each.spec.lanes) if threads > 1 else [(0, each.count)]
            )
            found.append([each.call(own, first + n * room, *part) for n, part in enumerate(parts)])
        return Stages([*found, *([call] for call in then)], first + threads * room)

    alone = stages(1)
    cost = sum(
        nanoseconds(each.count, each.length * max(1.0, math.log2(each.length)) * _EACH)
        for each in passes
    )
    return KernelPlan(
        passes[0].spec.name,
        [call for stage in alone.stages for call in stage],
        alone.scratch,
        [*keep, *(array for own in made for array in own)],
        cost,
        stages,
    )
