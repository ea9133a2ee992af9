"""What a kernel that pools data in blocks of channels is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar, Union

from uncork.kernels.convolution.row_tiles import Around
from uncork.kernels.convolution.spec_blocks import Deep
from uncork.kernels.kernel_spec import KernelSpec

#: Planes of results from `first` to `end`, `result_depth` for each block of each image, and rows of
#: these; `outside` has room for a row of the data.
ARGUMENTS = (
    "source",
    "target",
    "outside",
    "first",
    "end",
    "first_row",
    "end_row",
    "height",
    "width",
    "result_height",
    "result_width",
    "top",
    "left",
    "depth",
    "result_depth",
    "front",
)


class Pooled(KernelSpec, frozen=True):
    """The spec of a pooling: `op` ("max", or "sum" for means) over windows of `rows` x `columns`
    cells, `width` pixels of a row at a time.
    """

    emitter: ClassVar[str] = "uncork.kernels.convolution.emit_pool:emit_pool"
    arguments: ClassVar[tuple[str, ...]] = ARGUMENTS
    op: str
    lanes: int
    rows: int
    columns: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    width: int
    around: Union[Around, None] = None
    #: Cells outside of the data count for a mean.
    counts_all: bool = False
    #: Data and results are bf16.
    half: bool = False
    deep: Deep | None = None

    @property
    def pixels(self) -> int:
        """Pixels of a tile."""
        return self.width

    @property
    def size(self) -> int:
        """Bytes of a number."""
        return 2 if self.half else 4
