"""PriorBox-1, -8, PriorBoxClustered-1: boxes of given sizes around every cell of a grid, as parts
of an image.

    box = [center_x - width / 2, center_y - height / 2,
           center_x + width / 2, center_y + height / 2] / [W, H, W, H]

Cell (h, w) of a grid of `output_size` has its center at (w + offset, h + offset) * step, without a
step at (w + 0.5) * W / grid width and (h + 0.5) * H / grid height; W, H = `image_size`. Row 0 of
the output has the boxes, cell by cell, row 1 as many variances.

The boxes of a cell of PriorBox, with 1 and the numbers of `aspect_ratio` (`flip`: each followed by
1 / ratio) as ratios, are

    for each fixed_size s with density d, at d * d places:
        for each of fixed_ratio, or of the ratios:   s * sqrt(ratio), s / sqrt(ratio)
    for each min_size s:
        s, s;    sqrt(s * max_size) twice;
        for each ratio but 1:   s * sqrt(ratio), s / sqrt(ratio)

Pages: operation-specs/detection/prior-box-1, -8, prior-box-clustered-1; their formulas put the
brackets wrong and leave out the step of a cell. Decided as OpenVINO does:

- sizes of fixed boxes are cut to whole pixels for their places, as is the distance size / density;
  low ends are cut at 0, high ones at 1;
- without `scale_all_sizes` step and min_size are parts of the image's height (a step of -1 is image
  height / grid height), and the boxes of other ratios come once, after the last min_size, with the
  first one's size;
- the number of boxes of a cell, from which the output has its length, counts fixed_ratio and
  max_size in its own way. Where that is less than what the lists above give, the whole sequence of
  boxes is cut at the end; where it is more, zeros follow;
- no variance means 0.1, one is repeated. The output is f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from uncork.ops._common.vectors import sizes, vector
from uncork.ops._operation import Operation, register
from uncork.ops._ports import INTEGER, Attribute, Input, Output, boolean, number, numbers
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec


def _positive(values: Iterable[float]) -> str | None:
    return None if all(0 < v < math.inf for v in values) else "a list of positive numbers"


def _variances(values: tuple[float, ...]) -> str | None:
    return None if len(values) in (0, 1, 4) else "0, 1 or 4 numbers"


class Priors(Operation):
    """The base of PriorBox and PriorBoxClustered: `output_size [2]` and `image_size [2]`, both
    height and width.
    """

    output_size = Input(INTEGER)
    image_size = Input(INTEGER)
    boxes = Output(ElementType.f32)
    offset = Attribute(number)
    step = Attribute(number, default=0.0)
    variance: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_variances)

    def boxes_per_cell(self) -> int:
        raise NotImplementedError

    def infer(self, output_size: TensorSpec, image_size: TensorSpec) -> PartialShape:
        grid = self._size("output_size", output_size, 0)
        self._size("image_size", image_size, 1)
        return PartialShape([2, grid[0] * grid[1] * (4 * self.boxes_per_cell())])

    def _size(self, name: str, spec: TensorSpec, least: int) -> list[Dimension]:
        found = vector(self, name, spec)
        self.require(
            spec.rank is None or spec.shape[0].agrees(2),
            "input '{}': expected height and width, got shape {}",
            name,
            spec.shape,
        )
        for value in found or []:
            self.require(
                value is None or value >= least,
                "input '{}' is {}, expected numbers of at least {}",
                name,
                found,
                least,
            )
        elements = sizes(self, name, spec)
        return [DYNAMIC if v is None else Dimension.of(v) for v in elements or [None, None]]

    def with_variances(self, boxes: Array) -> Array:
        """The output's two rows, boxes and variances, from boxes [.., 4]."""
        variances = np.broadcast_to(np.array(self.variance or 0.1, np.float32), boxes.shape)
        return np.stack([boxes.reshape(-1), variances.reshape(-1)])

    def on_grid(
        self,
        output_size: Array,
        steps: tuple[Any, Any],
        offset: float,
        places: Array,
        halves: Array,
        image: Array,
    ) -> Array:
        """The boxes [height, width, n, 4] of a grid: n around each cell's center, `places` away
        from it and with half sides of `halves` (both x, y).
        """
        height, width = (int(n) for n in output_size)
        across = (np.arange(width, dtype=np.float32) + np.float32(offset)) * np.float32(steps[0])
        down = (np.arange(height, dtype=np.float32) + np.float32(offset)) * np.float32(steps[1])
        centers = (
            np.stack(np.broadcast_arrays(across, down[:, np.newaxis]), axis=-1)[:, :, np.newaxis]
            + places
        )
        size = image[::-1].astype(np.float32)
        return np.concatenate([(centers - halves) / size, (centers + halves) / size], axis=-1)


@register("PriorBox", 1)
class PriorBox1(Priors):
    min_size: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_positive)
    max_size: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_positive)
    aspect_ratio: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_positive)
    flip = Attribute(boolean, default=False)
    clip = Attribute(boolean, default=False)
    scale_all_sizes = Attribute(boolean, default=True)
    fixed_ratio: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_positive)
    fixed_size: Attribute[tuple[float, ...]] = Attribute(numbers, default=(), check=_positive)
    density: Attribute[tuple[float, ...]] = Attribute(
        numbers,
        default=(),
        check=lambda v: (
            None if all(1 <= d < math.inf for d in v) else "a list of numbers of at least 1"
        ),
    )
    #: An attribute of the next version.
    min_max_aspect_ratios_order: Any = True

    def check_attributes(self) -> None:
        sizes, densities = len(self.fixed_size), len(self.density)
        self.require(
            sizes == densities,
            "attribute 'density': expected as many numbers as 'fixed_size', {}, got {}",
            sizes,
            densities,
        )

    def ratios(self) -> list[float]:
        """The aspect ratios: 1 and those of the attribute (with `flip` their inverses too), each
        once.
        """
        found = {1.0: 1.0}  # by what is left of them after the sixth digit, as OpenVINO counts them
        for ratio in self.aspect_ratio:
            if round(ratio, 6) not in found:
                found |= {round(r, 6): r for r in ([ratio, 1 / ratio] if self.flip else [ratio])}
        return list(found.values())

    def boxes_per_cell(self) -> int:
        ratios = len(self.ratios())
        if self.fixed_size:
            count = ratios * len(self.fixed_size)
        elif self.scale_all_sizes:
            count = ratios * len(self.min_size) + len(self.max_size)
        else:
            count = max(0, ratios + len(self.min_size) - 1)
        for density in self.density:
            count += (len(self.fixed_ratio) or ratios) * (int(density) ** 2 - 1)
        return count

    def reference(self, output_size: Array, image_size: Array) -> Array:
        if not output_size.all():
            return np.zeros((2, 0), np.float32)
        scale = 1.0 if self.scale_all_sizes else float(image_size[0])
        step, offset = self.step * scale, self.offset
        if self.step == -1 and not self.scale_all_sizes:
            step = float(image_size[0]) / int(output_size[0])
        steps = step, step
        if step == 0:
            offset = 0.5
            steps = (
                float(image_size[1]) / int(output_size[1]),
                float(image_size[0]) / int(output_size[0]),
            )
        places, halves, fixed_boxes = self.cell(scale)
        boxes = self.on_grid(output_size, steps, offset, places, halves, image_size)
        fixed = boxes[:, :, :fixed_boxes]
        fixed[..., :2] = np.maximum(fixed[..., :2], 0)
        fixed[..., 2:] = np.minimum(fixed[..., 2:], 1)
        counted = np.zeros((boxes.shape[0] * boxes.shape[1] * self.boxes_per_cell(), 4), np.float32)
        found = boxes.reshape(-1, 4)[: len(counted)]
        counted[: len(found)] = found
        return self.with_variances(np.clip(counted, 0, 1) if self.clip else counted)

    def cell(self, scale: float = 1.0) -> tuple[Array, Array, int]:
        """The offsets from the center and the half sides of all boxes of a cell, and how many of
        them are of fixed_size, which come first.
        """
        fixed_places, fixed_halves = self._fixed()
        sized = self._sized([s * scale for s in self.min_size])
        places = np.concatenate([fixed_places, np.zeros_like(sized)])
        return places, np.concatenate([fixed_halves, sized]), len(fixed_places)

    def _fixed(self) -> tuple[Array, Array]:
        """The offsets from the center and the half sides of the boxes of fixed_size."""
        places, halves = [np.zeros((0, 2), np.float32)], [np.zeros((0, 2), np.float32)]
        for size, density in zip(self.fixed_size, map(int, self.density), strict=True):
            shift = int(size / density)
            along = (np.arange(density) * shift + (shift / 2 - int(size) // 2)).astype(np.float32)
            around = np.stack(np.broadcast_arrays(along, along[:, np.newaxis]), axis=-1).reshape(
                -1, 2
            )
            for ratio in self.fixed_ratio or self.ratios():
                half = (
                    [int(size) / 2] * 2
                    if ratio == 1 and not self.fixed_ratio
                    else [size / 2 * math.sqrt(ratio), size / 2 / math.sqrt(ratio)]
                )
                places.append(around)
                halves.append(np.broadcast_to(np.array(half, np.float32), around.shape))
        return np.concatenate(places), np.concatenate(halves)

    def _sized(self, sizes: list[float]) -> Array:
        """The half sides of the boxes of min_size and max_size."""
        halves: list[list[float]] = []
        for index, size in enumerate(sizes):
            larger = (
                [[math.sqrt(size * self.max_size[index]) / 2] * 2]
                if index < len(self.max_size)
                else []
            )
            of_ratios: list[list[float]] = []
            if self.scale_all_sizes or index == len(sizes) - 1:
                base = size if self.scale_all_sizes else sizes[0]
                of_ratios = [
                    [base / 2 * math.sqrt(r), base / 2 / math.sqrt(r)]
                    for r in self.ratios()
                    if abs(r - 1) >= 1e-6
                ]
            halves += [
                [size / 2] * 2,
                *(larger + of_ratios if self.min_max_aspect_ratios_order else of_ratios + larger),
            ]
        return np.array(halves, np.float32).reshape(-1, 2)


@register("PriorBox", 8)
class PriorBox8(PriorBox1):
    """With a choice whether the box of max_size comes before those of other ratios."""

    min_max_aspect_ratios_order = Attribute(boolean, default=True)


@register("PriorBoxClustered", 1)
class PriorBoxClustered1(Priors):
    """One box for each width and height."""

    width: Attribute[tuple[float, ...]] = Attribute(numbers, default=(1.0,), check=_positive)
    height: Attribute[tuple[float, ...]] = Attribute(numbers, default=(1.0,), check=_positive)
    clip = Attribute(boolean, default=True)
    step_w = Attribute(number, default=0.0)
    step_h = Attribute(number, default=0.0)

    def check_attributes(self) -> None:
        widths, heights = len(self.width), len(self.height)
        self.require(
            widths == heights,
            "attribute 'height': expected as many numbers as 'width', {}, got {}",
            widths,
            heights,
        )

    def boxes_per_cell(self) -> int:
        return len(self.width)

    def reference(self, output_size: Array, image_size: Array) -> Array:
        if not output_size.all():
            return np.zeros((2, 0), np.float32)
        steps = self.step_w or self.step, self.step_h or self.step
        if steps == (0, 0):
            steps = (
                float(image_size[1]) / int(output_size[1]),
                float(image_size[0]) / int(output_size[0]),
            )
        places, halves, _ = self.cell()
        boxes = self.on_grid(output_size, steps, self.offset, places, halves, image_size)
        return self.with_variances(np.clip(boxes, 0, 1) if self.clip else boxes)

    def cell(self, scale: float = 1.0) -> tuple[Array, Array, int]:
        """The offsets from the center and the half sides of all boxes of a cell; none is of a fixed
        size, and nothing is scaled.
        """
        halves = np.array([self.width, self.height], np.float32).T.reshape(-1, 2) / 2
        return np.zeros_like(halves), halves, 0
