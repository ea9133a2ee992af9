"""Windows that slide over spatial axes, as loop nests see them: sizes and pads may be open."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.extents import certainly, largest, same
from uncork.ops._common.spatial import Sliding, extent
from uncork.symbolic import SizeLike

#: The names of spatial axes: of the output, of the taps, and the padding at the begin of each; the
#: last ones for fewer axes.
AXES, TAPS, PADS = ("z", "y", "x"), ("l", "j", "i"), ("pl", "pj", "pi")
#: So many taps are written out; more are loops.
_WRITTEN_OUT = 16


class Window(Struct, frozen=True):
    """How a kernel slides along one axis: see `Slide`, of which `begin` and `end` are the pads."""

    spatial_axis: int
    size: SizeLike
    count: SizeLike
    kernel: int
    stride: int
    dilation: int
    begin: SizeLike
    end: SizeLike

    @property
    def axis(self) -> str:
        return AXES[self.spatial_axis]

    @property
    def tap(self) -> str:
        return TAPS[self.spatial_axis]

    def loop(self, written_out: bool) -> str:
        """The loop over its taps."""
        return f"{self.tap}={self.kernel}" if written_out else self.tap

    def tap_index(self, shift: bool = True) -> str:
        """The index of a tap; without the `shift` counted from the begin of the padding."""
        text = f"{self.stride}*{self.axis} + {self.dilation}*{self.tap}"
        if not shift or certainly(self.begin, 0):
            return text
        return f"{text} - {self.pad}"

    @property
    def pad(self) -> str:
        """The padding at the begin, as the text says it."""
        return str(self.begin) if isinstance(self.begin, int) else PADS[self.spatial_axis]

    @property
    def windows_extent(self) -> SizeLike:
        """Cells from the begin of the first window to the end of the last one."""
        return (self.count - 1) * self.stride + extent(self.kernel, self.dilation)

    @property
    def stays_inside(self) -> bool:
        """No window reaches past the padded data."""
        beyond = self.windows_extent - (self.begin + self.size + self.end)
        return isinstance(beyond, int) and beyond <= 0

    @property
    def is_padded(self) -> bool:
        """A window may hold cells outside the data."""
        return not (certainly(self.begin, 0) and certainly(self.end, 0) and self.stays_inside)

    @property
    def is_pointwise(self) -> bool:
        """Each window is the cell at its own place."""
        return self.kernel == self.stride == 1 and not self.is_padded


def windows_of(
    operation: Sliding, sizes: Sequence[SizeLike], counts: Sequence[SizeLike], kernel: Sequence[int]
) -> list[Window]:
    """The windows along each spatial axis."""
    result: list[Window] = []
    for axis, (size, count, taps) in enumerate(zip(sizes, counts, kernel, strict=True)):
        stride, dilation = operation.strides[axis], operation.dilation(axis)
        begin: SizeLike
        end: SizeLike
        begin, end = operation.fixed_pads(axis)
        if operation.auto_pad.startswith("same"):
            total = largest((count - 1) * stride + extent(taps, dilation) - size, 0)
            less, more = total // 2, total - total // 2
            begin, end = (less, more) if operation.auto_pad == "same_upper" else (more, less)
        spatial_axis = axis + len(AXES) - len(kernel)
        result.append(Window(spatial_axis, size, count, taps, stride, dilation, begin, end))
    return result


def covers_all(windows: Sequence[Window]) -> bool:
    """Whether there is one window, of all the data."""
    return all(
        certainly(w.count, 1)
        and w.dilation == 1
        and same(w.size, w.kernel)
        and certainly(w.begin, 0)
        and certainly(w.end, 0)
        for w in windows
    )


def taps_written_out(windows: Sequence[Window]) -> bool:
    """Whether the taps are so few that a loop over them is not worth its steps."""
    total = 1
    for window in windows:
        total *= window.kernel
    return total <= _WRITTEN_OUT


def sizes_of(windows: Sequence[Window]) -> dict[str, SizeLike]:
    """The numbers of windows, of taps, and the pads, by the names that texts have for them."""
    sizes: dict[str, SizeLike] = {}
    for window in windows:
        sizes |= {window.axis: window.count, window.tap: window.kernel}
        sizes[PADS[window.spatial_axis]] = window.begin
    return sizes


def tap_loops(windows: Sequence[Window]) -> str:
    """The loops over the taps of windows."""
    written_out = taps_written_out(windows)
    return " ".join(window.loop(written_out) for window in windows)


def padded(cell: str, windows: Sequence[Window], value: str) -> str:
    """The cell of a view, or the value where windows may hold cells outside of it."""
    return f"pad({cell}, {value})" if any(window.is_padded for window in windows) else cell
