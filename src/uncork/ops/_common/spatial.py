"""What convolutions and poolings share: a kernel that slides over the spatial axes of `data [N, C,
d_1, ..]`.

Along one axis, with the kernel stretched by its dilation to e = (kernel - 1) * dilation + 1, the
windows start at -pad_begin, -pad_begin + stride, .. and their number is

    explicit, valid   round((size + pad_begin + pad_end - e) / stride) + 1        valid: no padding
    same_*            ceil(size / stride), with just the padding that this needs, the odd cell at
                      the end (upper) or the start

Pages: operation-specs/convolution/convolution-1, operation-specs/pooling/pooling_shape_rules. They
leave open or contradict:

- same_*: "H_out = H" of the pooling pages holds for stride 1; for others it is what "the input is
  padded to match" needs, ceil(H / stride), with every rounding type;
- valid with rounding_type ceil rounds up, as the pages' example does and their formula does not;
- rounding up may put the end of the last window, or all of it, past the padding: those cells hold
  nothing;
- a stride or dilation of 0 is refused although the pages' ranges begin at 0;
- lists of pads that the file leaves out are zeros ("ignored when auto_pad is specified").
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from uncork.ops._common.shapes import check_array_fits
from uncork.ops._operation import OfNumbers
from uncork.ops._ports import Attribute, integers, one_of
from uncork.symbolic import maximum, minimum
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec

#: Elements of a block.
_BLOCK = 1 << 18
#: What the attributes are, for each axis, where a file leaves them out.
_NEUTRAL = {"pads_begin": 0, "pads_end": 0, "dilations": 1, "output_padding": 0}


def all_at_least(minimum: int) -> Callable[[Any], str | None]:
    """A check for `Attribute(check=...)`: every number of a list is at least `minimum`."""
    return lambda values: (
        None if all(v >= minimum for v in values) else f"numbers of at least {minimum}"
    )


auto_pad_kind = one_of("explicit", "same_upper", "same_lower", "valid")


class Slide(Struct, frozen=True):
    """The windows along one axis: `count` of them, `stride` apart, the first one starting at
    -pad_begin.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int
    count: int

    @property
    def extent(self) -> int:
        """Cells from the first to the last one of a window."""
        return extent(self.kernel, self.dilation)

    @property
    def windows_extent(self) -> int:
        """Cells from the start of the first window to the end of the last one."""
        return max(0, self.count - 1) * self.stride + self.extent

    def starts(self) -> Array:
        """Where each window begins, counted from the first cell of the data."""
        return np.arange(self.count) * self.stride - self.pad_begin


def extent(kernel: int, dilation: int) -> int:
    """The extent of a kernel with dilation: dilation - 1 other cells lie between two of its own."""
    return (kernel - 1) * dilation + 1


class Sliding(OfNumbers):
    """An operation whose kernel slides over the spatial axes; `strides` says how many axes there
    are.
    """

    strides = Attribute(integers, check=all_at_least(1))
    pads_begin: Attribute[tuple[int, ...]] = Attribute(integers, default=(), check=all_at_least(0))
    pads_end: Attribute[tuple[int, ...]] = Attribute(integers, default=(), check=all_at_least(0))
    auto_pad = Attribute(auto_pad_kind, default="explicit")
    #: There are just two spatial axes.
    planar: ClassVar[bool] = False
    #: floor, ceil or ceil_torch; an attribute of the poolings.
    rounding_type: Any = "floor"
    #: One for each axis; an attribute of most of these operations. Without it the cells of a window
    #: are neighbours.
    dilations: Any = ()

    @property
    def axes(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    def check_attributes(self) -> None:
        expected = "2 numbers" if self.planar else "1 to 3 numbers, one for each spatial axis"
        fits = self.axes == 2 if self.planar else 1 <= self.axes <= 3
        self.require(fits, "attribute 'strides': expected {}, got {}", expected, list(self.strides))
        for name in _NEUTRAL:
            if name not in self.attributes:
                continue
            values = getattr(self, name)
            self.require(
                len(values) in (0, self.axes),
                "attribute '{}': expected {} numbers, one for each of the strides {}, got {}",
                name,
                self.axes,
                list(self.strides),
                list(values),
            )

    def implied_attributes(self) -> Mapping[str, Any]:
        # A list that the file leaves out is written in full: OpenVINO crashes on an empty one.
        empty = (n for n in _NEUTRAL if n in self.attributes and not getattr(self, n))
        return {name: (_NEUTRAL[name],) * self.axes for name in empty}

    def dilation(self, axis: int) -> int:
        return self.dilations[axis] if self.dilations else 1

    def stretched(self, axis: int, kernel: Dimension) -> Dimension:
        """The extents that a kernel size can have."""
        return (kernel - 1) * self.dilation(axis) + 1

    def fixed_pads(self, axis: int) -> tuple[int, int]:
        """The padding of an axis where it does not depend on the data's size."""
        if self.auto_pad == "valid":
            return 0, 0
        return self.pads_begin[axis], self.pads_end[axis]

    def with_rank(self, name: str, shape: PartialShape, lead: int) -> PartialShape:
        """`shape` with its rank known: `lead` dimensions before the spatial ones. Refused when it
        has another.
        """
        expected = lead + self.axes
        self.require(
            shape.rank in (None, expected),
            "input '{}': expected rank {} for {} strides, got shape {}",
            name,
            expected,
            self.axes,
            shape,
        )
        return PartialShape([DYNAMIC] * expected) if shape.rank is None else shape

    def require_channels(self, data: PartialShape, needed: Dimension, filters: TensorSpec) -> None:
        """Refuse data [N, C, ..] whose channels are not as many as the filters need."""
        rule = "expected 'data' with {} channels as 'filters' {} need, got {} in data {}"
        self.require(data[1].agrees(needed), rule, needed, filters.shape, data[1], data)

    def window_counts(
        self, sizes: Sequence[Dimension], kernels: Sequence[Dimension]
    ) -> list[Dimension]:
        """The number of windows along each axis; refused where not even one fits."""
        counts: list[Dimension] = []
        for axis, (size, kernel) in enumerate(zip(sizes, kernels, strict=True)):
            self.require(kernel.covers(1), "the kernel is empty along spatial axis {}", axis)
            if self.auto_pad.startswith("same"):
                counts.append(size.ceil_div(self.strides[axis]))
                continue
            begin, end = self.fixed_pads(axis)
            padded = size + begin + end
            window = self.stretched(
                axis, kernel if kernel.low or kernel.is_open else Dimension(1, kernel.high)
            )
            self.require(
                padded.covers(window),
                "the kernel spans {} cells along spatial axis {}, the padded data has {}",
                window,
                axis,
                padded,
            )
            # Sizes that the window does not fit in would be refused, so `-` stopping at 0 is right.
            counts.append(self._rounded(padded - window, size + begin, axis))
        return counts

    def _rounded(self, free: Dimension, start_limit: Dimension, axis: int) -> Dimension:
        stride = self.strides[axis]
        if self.rounding_type == "floor":
            return free // stride + 1
        count = free.ceil_div(stride) + 1
        if self.rounding_type == "ceil":
            return count
        # ceil_torch: a last window that would start past the data, in the padding at its end, is
        # left out.
        if count.static_size is not None and start_limit.static_size is not None:
            return (
                count - 1 if (count.static_size - 1) * stride >= start_limit.static_size else count
            )
        if (
            count.is_open
            and (begun := start_limit.expression) is not None
            and (most := count.expression) is not None
        ):
            # Where stride * (count - 1) is not below the limit there are more windows than limit /
            # stride, rounded up.
            return Dimension.of(maximum([most - 1, minimum([most, -(-begun // stride)])]))
        return Dimension(max(1, count.low - 1), count.high)

    def slides(self, data: Array, kernel: Sequence[int]) -> list[Slide]:
        """How the kernel slides along each axis of this data."""
        sizes = data.shape[data.ndim - self.axes :]
        counts = self.window_counts(
            [Dimension(s, s) for s in sizes], [Dimension(k, k) for k in kernel]
        )
        slides: list[Slide] = []
        for axis, (size, cells, count) in enumerate(
            zip(sizes, kernel, map(int, counts), strict=True)
        ):
            stride, dilation = self.strides[axis], self.dilation(axis)
            begin, end = self.fixed_pads(axis)
            if self.auto_pad.startswith("same"):
                total = max(0, (count - 1) * stride + extent(cells, dilation) - size)
                less, more = total // 2, total - total // 2
                begin, end = (less, more) if self.auto_pad == "same_upper" else (more, less)
            slides.append(Slide(size, cells, stride, dilation, begin, end, count))
        return slides


def block_ranges(count: int, size: int) -> Iterator[slice]:
    """The slices that divide 0 to `count` into blocks: each has so many items of `size` elements
    that it stays in a core's own cache; at least one.
    """
    step = max(1, _BLOCK // max(1, size))
    return (slice(start, start + step) for start in range(0, count, step))


def padded(data: Array, slides: Sequence[Slide], fill: Any) -> Array:
    """The data with `fill` in all cells outside it that windows along its last axes reach. Not a
    copy where there are none.
    """
    lead = data.ndim - len(slides)
    pads = [(s.pad_begin, max(0, s.windows_extent - s.pad_begin - s.size)) for s in slides]
    if not any(begin or end for begin, end in pads):
        return data
    check_array_fits(
        data.shape[:lead] + tuple(b + s.size + e for s, (b, e) in zip(slides, pads, strict=True)),
        data,
    )
    return np.pad(data, [(0, 0)] * lead + pads, constant_values=fill)


def windows(data: Array, slides: Sequence[Slide], fill: Any) -> Array:
    """A view [.., count_1, .., kernel_1, ..] of the data's last axes; `fill` outside of them."""
    lead = data.ndim - len(slides)
    view = np.lib.stride_tricks.sliding_window_view(
        padded(data, slides, fill), tuple(s.extent for s in slides), tuple(range(lead, data.ndim))
    )
    starts = tuple(slice(0, s.count * s.stride, s.stride) for s in slides)
    cells = tuple(slice(None, None, s.dilation) for s in slides)
    return np.asarray(view[(slice(None),) * lead + starts + cells])


def reduced(data: Array, slides: Sequence[Slide], fill: Any, function: np.ufunc) -> Array:
    """`function` (np.maximum, np.add) of all cells of each window [.., count_1, ..]: one axis after
    the other, the last one first.
    """
    result = data
    for axis, slide in reversed(list(enumerate(slides, data.ndim - len(slides)))):
        cells = np.moveaxis(windows(np.moveaxis(result, axis, -1), [slide], fill), -1, 0)
        result = functools.reduce(function, cells[1:], cells[0])
        result = np.moveaxis(result, -1, axis)
    return result
