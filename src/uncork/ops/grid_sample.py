"""GridSample-9: an image read at the places that a grid of coordinates says.

    output[n, :, y, x] = data[n, :] at the column c(grid[n, y, x, 0], W)
                         and the row c(grid[n, y, x, 1], H)
    c(v, size) = (v + 1) * (size - 1) / 2           with align_corners: -1 and 1 are the centres of
                                                    the border cells
               = ((v + 1) * size - 1) / 2           without: their outer edges

nearest takes the cell that c rounds to, bilinear the two and bicubic the four around it along each
axis (Keys' kernel, a = -3/4). A cell outside the image is 0 (zeros), the border cell (border), or
mirrored into the image as often as needed (reflection): at the border cells' centres with
align_corners, at their outer edges without.

Page: operation-specs/image/grid-sample-9 (its two lines on align_corners are exchanged; ONNX and
torch, where the operation comes from, say it as above). Decided:

- nearest rounds halves to even; coordinates are computed in the type of the grid, f32 at least;
- coordinates beyond +-2**40 cells are cut there; a NaN gives NaN in floating-point data, and 0 in
  integers;
- integers are computed in f64 and rounded to the nearest, halves to even, within their type's
  range;
- an image without cells gives zeros with padding_mode zeros and is refused with the others.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.resize import keys_kernel, whole
from uncork.ops._common.sampling import pixels
from uncork.ops._common.shapes import image_dims, suppose_pixels
from uncork.ops._operation import OfNumbers, register
from uncork.ops._ports import REAL, Attribute, Input, boolean, one_of
from uncork.types import Array, Dimension, PartialShape, TensorSpec


@register("GridSample", 9)
class GridSample9(OfNumbers):
    """`data [N, C, H, W]`, `grid [N, H_out, W_out, 2]` to `[N, C, H_out, W_out]`."""

    grid = Input(REAL)
    align_corners = Attribute(boolean, default=False)
    mode = Attribute(one_of("bilinear", "bicubic", "nearest"), default="bilinear")
    padding_mode = Attribute(one_of("zeros", "border", "reflection"), default="zeros")

    def infer(self, data: TensorSpec, grid: TensorSpec) -> PartialShape:
        image = image_dims(self, "data", data)
        places = image_dims(self, "grid", grid, "N, H, W, 2")
        self.require(
            places[3].agrees(2),
            "input 'grid': expected pairs of coordinates [N, H, W, 2], got shape {}",
            grid.shape,
        )
        suppose_pixels(image[2:])
        images = self.wanted(
            image[0].merge(places[0]),
            "expected a grid for each image, got data {} and grid {}",
            data.shape,
            grid.shape,
        )
        empty = any(d == 0 for d in image[2:]) and not any(
            d.contains(0) for d in (*image[:2], *places[:3])
        )
        self.require(
            not empty or self.padding_mode == "zeros",
            "data {} has no cells to read from",
            data.shape,
        )
        return PartialShape([images, image[1], Dimension.of(places[1]), places[2]])

    def reference(self, data: Array, grid: Array) -> Array:
        if 0 in data.shape:
            return np.zeros((*data.shape[:2], *grid.shape[1:3]), data.dtype)
        return np.stack(
            [
                self._read(image, places[..., 1], places[..., 0])
                for image, places in zip(data, grid, strict=True)
            ]
        )

    def _read(self, image: Array, rows: Array, columns: Array) -> Array:
        """The samples of an image [C, H, W] at coordinates from -1 to 1."""
        height, width = image.shape[1:]
        y, x = self._centre(rows, height), self._centre(columns, width)
        if self.mode == "nearest":
            found = pixels(image, self._cell(np.rint(y), height), self._cell(np.rint(x), width))
            return np.where(
                np.isnan(y + x), image.dtype.type(np.nan if image.dtype.kind == "f" else 0), found
            )
        work = image if image.dtype.kind == "f" else image.astype(np.float64)
        result = np.zeros((len(image), *y.shape), work.dtype)
        for row, row_weight in self._taps(y, height):
            for column, column_weight in self._taps(x, width):
                result += (row_weight * column_weight).astype(work.dtype) * pixels(
                    work, row, column
                )
        return whole(np.nan_to_num(result), image) if image.dtype.kind != "f" else result

    def _centre(self, values: Array, size: int) -> Array:
        """The coordinates c(v, size) of the module's formula, cut far outside the image."""
        centre = (
            (values + 1) * (size - 1) / 2 if self.align_corners else ((values + 1) * size - 1) / 2
        )
        return np.clip(centre, -(2.0**40), 2.0**40)

    def _taps(self, centre: Array, size: int) -> list[tuple[Array, Array]]:
        """The cells along an axis that each place reads, and their weights."""
        low = np.floor(centre)
        part = centre - low
        if self.mode == "bilinear":
            return [(self._cell(low, size), 1 - part), (self._cell(low + 1, size), part)]
        weights = [
            np.where(np.isnan(part), part, keys_kernel(part - i, -0.75)) for i in range(-1, 3)
        ]
        return [(self._cell(low + i, size), w) for i, w in zip(range(-1, 3), weights, strict=True)]

    def _cell(self, places: Array, size: int) -> Array:
        """Whole coordinates, moved into the image by the padding mode."""
        cells = np.where(np.isnan(places), 0, places).astype(np.int64)
        if self.padding_mode == "border":
            return np.clip(cells, 0, size - 1)
        if self.padding_mode == "reflection":
            if self.align_corners:
                return size - 1 - np.abs(cells % max(1, 2 * (size - 1)) - (size - 1))
            turned = cells % (2 * size)
            return np.minimum(turned, 2 * size - 1 - turned)
        return cells
