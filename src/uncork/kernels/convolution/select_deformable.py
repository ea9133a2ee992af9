"""Selection of a deformable convolution's kernels: a loop nest reads the cells of all windows into
columns, which a convolution of one tap multiplies with the filters.

Rows of the output are computed strip by strip, so that the columns of a strip stay in a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from uncork.kernels.convolution.by_planes import Moved
from uncork.kernels.convolution.geometry import Axis, Geometry, Work
from uncork.kernels.convolution.select import planar
from uncork.kernels.extents import extents, is_empty, largest, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Out,
    Scratch,
    Selection,
    Stages,
    grid,
    shares,
)
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.loops.windows import Window, windows_of
from uncork.kernels.movement.strided_copy import Loop, strided_copy_call
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.ops import Operation
from uncork.ops.deformable_convolution import DeformableConvolution1
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: Bytes of the columns of a strip: more, and products wait for them; fewer, and the filters are
#: read again for a few pixels.
_STRIP_BYTES = 2 << 20
#: Cells along an axis, padding included: places of f32 are to be exact.
_MOST_CELLS = 1 << 22
#: Cells of an image that 32 bits count, the bytes of each included.
_LARGEST = 1 << 28
#: Places are cut so far away from their window, which is outside.
_FAR = float(1 << 23)
_LINE = 64


@selects("DeformableConvolution")
def select_deformable(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    assert isinstance(operation, DeformableConvolution1)
    data, filters = inputs[0], inputs[2]
    assert data is not None and filters is not None
    if data.element_type is not ElementType.f32:
        return f"no kernel for {data.element_type}"
    if filters.value is None:
        return "no kernel for filters that are known at the call only"
    shape, result = extents(data), extents(outputs[0])
    if is_empty((*shape, *result, *filters.value.shape)):
        return "no kernel for empty tensors"
    known = [size for size in (*shape[1:], *result[1:]) if isinstance(size, int)]
    if len(known) < 6:
        return "no kernel for images whose size is known at the call only"
    sizes, counts = known[1:3], known[4:]
    windows = windows_of(operation, sizes, counts, filters.value.shape[2:])
    if sizes[0] * sizes[1] > _LARGEST or any(_reach(window) > _MOST_CELLS for window in windows):
        return "no kernel for so large an image"
    made = _Deformable(
        operation, windows, shape[0], known[0], filters.value, len(inputs) > 3, target
    )
    return made.selected()


def _reach(window: Window) -> int:
    """Cells along an axis that windows may begin or end at, in or before the data."""
    sizes = (window.size, window.begin, window.windows_extent)
    assert all(isinstance(size, int) for size in sizes)
    return sum(size for size in sizes if isinstance(size, int))


def _count(window: Window) -> int:
    assert isinstance(window.count, int)
    return window.count


@dataclass(frozen=True)
class _Deformable:
    """The work of a deformable convolution: `images` of `channels`, and filters `[O, C / group, kH,
    kW]`.
    """

    operation: DeformableConvolution1
    windows: Sequence[Window]
    images: SizeLike
    channels: int
    filters: Array
    masked: bool
    target: Target

    @property
    def taps(self) -> int:
        return int(self.filters.shape[2] * self.filters.shape[3])

    @property
    def outputs(self) -> int:
        return int(self.filters.shape[0])

    def column_bytes(self, rows: int) -> SizeLike:
        """The bytes of the columns of so many rows of the output."""
        size = self.images * (self.channels * self.taps * rows * _count(self.windows[1]) * 4)
        return (size + (_LINE - 1)) // _LINE * _LINE

    def selected(self) -> Selection:
        height, width = map(_count, self.windows)
        images = self.images if isinstance(self.images, int) else 1
        row = images * self.channels * self.taps * width * 4
        strips = shares(height, -(-height * row // _STRIP_BYTES))
        products: dict[int, KernelPlan] = {}
        for _, rows in strips:
            if rows not in products:
                found = self._product(rows)
                if not isinstance(found, KernelPlan):
                    return found
                products[rows] = found
        # Tables that only some number of threads wants are there once its stages are made.
        keep: list[object] = []

        def stages(threads: int) -> Stages:
            found = [self._strip(strip, products, threads) for strip in strips]
            keep[:] = [kept for native in products.values() for kept in native.keep]
            scratch = reduce(largest, (size for _, size in found))
            return Stages([stage for strip, _ in found for stage in strip], scratch)

        alone = stages(1)
        calls = [call for stage in alone.stages for call in stage]
        kernel = products[strips[0][1]].kernel
        cells = product((self.images, self.channels, self.taps, height, width))
        cost = reduce(add, (products[rows].cost for _, rows in strips), nanoseconds(cells, 1.0))
        return KernelPlan(kernel, calls, alone.scratch, keep, cost, stages)

    def _product(self, rows: int) -> Selection:
        """The columns of so many rows multiplied with the filters."""
        groups = self.operation.group
        pixels = rows * _count(self.windows[1])
        inner = self.channels // groups * self.taps
        g = Geometry(
            self.images,
            groups,
            inner,
            self.outputs // groups,
            Axis(1, 1, 1),
            Axis(pixels, 1, pixels),
        )
        ordered = np.ascontiguousarray(
            self.filters.reshape(groups, self.outputs // groups, inner, 1, 1)
        )
        work = Work(g, ordered, self.filters, self.operation.type_name)
        return planar(work, self.target.lanes)

    def _strip(
        self, strip: tuple[int, int], products: dict[int, KernelPlan], threads: int
    ) -> tuple[list[list[KernelCall]], SizeLike]:
        """The stages of a strip of rows (first, number), and the working memory that they take."""
        first, rows = strip
        height, width = map(_count, self.windows)
        columns = self.column_bytes(rows)
        whole = rows == height
        pixels = rows * width
        made: SizeLike = 0 if whole else self.images * (self.outputs * pixels * 4)
        moved = Moved(products[rows], 0, None if whole else columns, columns + made)
        inner, scratch = moved.stages(threads)
        stages = [self._sampled(strip, threads), *inner]
        if not whole:
            stages.append([])
            for begin, number in shares(self.images * self.outputs, threads):
                loops: list[Loop] = [
                    (1, 0, 0),
                    (1, 0, 0),
                    (number, pixels * 4, height * width * 4),
                    (pixels, 4, 4),
                ]
                target = Out(0, (begin * height + first) * (width * 4))
                source = Scratch(columns + begin * (pixels * 4))
                stages[-1].append(strided_copy_call(self.target.lanes, source, target, loops))
        return stages, columns + made + scratch

    def _sampled(self, strip: tuple[int, int], threads: int) -> list[KernelCall]:
        """The calls that fill the columns of a strip."""
        height, width = map(_count, self.windows)
        blocks, (first, rows) = self.operation.deformable_group, strip
        taps = self.filters.shape[2:]
        each = self.channels // blocks
        sizes = [window.size for window in self.windows]
        views = {
            "F": View(In(0), "f32", (self.images, blocks, each, product(sizes))),
            "O": View(In(1), "f32", (self.images, blocks, *taps, 2, height, width)),
            "Y": View(Scratch(0), "f32", (self.images, blocks, each, *taps, rows, width)),
        }
        if self.masked:
            views["M"] = View(In(3), "f32", (self.images, blocks, *taps, height, width))
        # Images and rows of each view, and where its rows begin.
        places = {"F": ([0], [], 0), "O": ([0], [5], first), "Y": ([0], [5], 0)}
        places["M"] = ([0], [4], first)
        extent: dict[str, SizeLike] = dict(zip("dcjix", (blocks, each, *taps, width)))
        extent |= dict(zip("hw", sizes))
        calls: list[KernelCall] = []
        for (image, images), (row, some) in grid([(self.images, 1), (rows, 1)], threads):
            part = {
                name: view.along(places[name][0], image).along(
                    places[name][1], row + places[name][2]
                )
                for name, view in views.items()
            }
            own = extent | {"n": images, "y": some, "first_y": first + row}
            text = "\n".join(self._lines())
            call = Call("columns", text, own, part, self.target, scalar_type="f32")
            calls.append(call.kernel_call())
        return calls

    def _lines(self) -> list[str]:
        """The four cells around the place of each tap of each window, and their sum by weights,
        channel by channel.
        """
        rows, columns = self.windows
        position = f"{rows.stride}*(y + first_y) + {rows.dilation}*j - {rows.begin}"
        lines = self._places(0, "y", f"number({position})", "h")
        position = f"{columns.stride}*x + {columns.dilation}*i - {columns.begin}"
        lines += self._places(1, "x", f"real(integer({position}))", "w")
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            lines += [
                f"at{row}{column} = y{row} * integer(w) + x{column}",
                f"in{row}{column} = both(iny{row}, inx{column})",
            ]
        upper, lower = (
            " + ".join(
                f"{weight} * where(in{row}{column}, F[n, d, c, at(at{row}{column})], 0.0)"
                for column, weight in enumerate(("(1.0 - px)", "px"))
            )
            for row in range(2)
        )
        value = f"(1.0 - py) * ({upper}) + py * ({lower})"
        if self.masked:
            lines.append("m = M[n, d, j, i, y, x]")
            value = f"({value}) * m"
        lines.append(f"c: Y[n, d, c, j, i, y, x] = {value}")
        return ["n d j i y x*:", *(f"  {line}" for line in lines)]

    def _places(self, which: int, axis: str, position: str, size: str) -> list[str]:
        """The lines that find both cells around a place along an axis, whether each is there, and
        how far behind the first one the place lies. The whole part of an offset is taken off
        before it is added, so that no digit of the rest is lost.
        """
        last = f"number({size} - 1)"
        lines = [
            f"a = smaller(larger(O[n, d, j, i, {which}, y, x], {-_FAR}), {_FAR})",
            "f = floor(a)",
            f"u = f + {position}",
            "p = a - f",
        ]
        begin = "u >= 0.0"
        if self.operation.bilinear_interpolation_pad:
            begin = "either(u >= 0.0, both(u == -1.0, p > 0.0))"
        lines.append(f"o = both({begin}, u <= {last})")  # of a NaN there is no place
        moved = "o" if self.operation.bilinear_interpolation_pad else f"both(o, u < {last})"
        return [
            *lines,
            f"p{axis} = where({moved}, p, 0.0)",
            f"in{axis}0 = both(o, u >= 0.0)",
            f"in{axis}1 = both(o, u < {last})",
            f"{axis}0 = truncated(where(in{axis}0, u, 0.0))",
            f"{axis}1 = truncated(where(in{axis}1, u + 1.0, 0.0))",
        ]
