"""Selection of the kernels of Proposal and its likes: a loop nest decodes all boxes, then the best
are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.internal_ops.found_rows import TakenRegions
from uncork.kernels.detection.select import bits, zeros_in
from uncork.kernels.detection.spec import NUMBERS, Propose
from uncork.kernels.extents import (
    as_number,
    compute_nothing_of,
    decline_if,
    nanoseconds,
    product,
    smallest,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Workspace,
)
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import literal
from uncork.kernels.loops.nest_call import Call, View, row_bytes
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.target import Target
from uncork.ops.generate_proposals import LARGEST, GenerateProposalsSingleImage6
from uncork.ops.proposal import Proposal1
from uncork.symbolic import SizeLike
from uncork.types import ElementType

_F32 = 4
#: Why there is no kernel for an image of which it is open how much is told.
_SCALES = "no kernel for a number of scales that only the call knows"
#: The largest finite f32.
_HIGHEST = float(np.finfo(np.float32).max)


class _Regions(Struct, frozen=True):
    """Regions that are decoded and chosen: the images, anchors of a cell, and rows and columns of
    cells; boxes and scores are the first things in working memory.
    """

    images: SizeLike
    grid: tuple[SizeLike, SizeLike, SizeLike]
    target: Target
    #: Numbers of a decoded box.
    numbers: int = NUMBERS

    @property
    def count(self) -> SizeLike:
        """Boxes of an image."""
        return product(self.grid)

    @property
    def boxes(self) -> View:
        return View(Scratch(), "f32", (self.images, self.numbers, *self.grid))

    @property
    def scores(self) -> View:
        return View(Scratch(self._bytes), "f32", (self.images, *self.grid))

    @property
    def _bytes(self) -> SizeLike:
        return row_bytes(self.images * self.count * self.numbers, "f32")

    def decoded(
        self,
        lines: Sequence[str],
        views: dict[str, View],
        head: Sequence[str],
        keep: Sequence[object] = (),
    ) -> Call:
        """The loop nest that decodes all boxes: `head` runs once for each image."""
        sizes = dict(zip("nkyx", (self.images, *self.grid), strict=True))
        text = ["n:", *(f"  {line}" for line in head), "  k y x*:"]
        views = {"C": self.boxes, "S": self.scores, **views}
        text += [f"    {line}" for line in lines]
        return Call("regions", "\n".join(text), sizes, views, self.target, 1, keep=keep)

    def plan(
        self,
        spec: Propose,
        decoding: Call,
        limits: tuple[int, int, float],
        zeros: Sequence[KernelCall],
        **given: Operand,
    ) -> KernelPlan:
        """The plan: `given` are outputs of the kernel that chooses, and what it reads beside the
        boxes; `limits` how many boxes take part and are taken at most, and the largest overlap.
        """
        most = smallest(self.count, limits[0])
        rows = smallest(most, limits[1]) + spec.lanes
        room, (_, height, width) = Workspace(), self.grid
        memory: dict[str, Operand] = {"boxes": room.take(self._bytes)}
        if "scores" not in given:
            memory["scores"] = room.take(self.images * self.count * _F32)
        memory["heap"] = room.take(most * _F32)
        memory["chosen"] = room.take(rows * (NUMBERS * _F32))
        words: dict[str, Operand] = dict.fromkeys(spec.arguments, 0)  # what it has no need of
        words |= memory | given
        words |= {
            "images": self.images,
            "anchors": self.grid[0],
            "cells": height * width,
            "most": most,
            "keep": limits[1],
            "overlap": bits(limits[2]),
            "room": rows,
        }
        calls = [*zeros, decoding.kernel_call(), spec(**words)]
        cost = nanoseconds(self.images * self.count, 3.0)
        return KernelPlan(spec.name, calls, room.bytes, list(decoding.keep), cost)


def moved_lines(pixel: int, largest: float | None = None) -> list[str]:
    """The lines that move a box b0..b3 by the deltas d0..d3, as c0..c3: see
    `ops/_common/proposals.py`.
    """
    lines = []
    for low, high in ((0, 2), (1, 3)):
        growth = f"d{high}" if largest is None else f"smaller(d{high}, {literal(largest)})"
        lines += [
            f"s = b{high} - b{low}" + f" + {pixel}.0" * bool(pixel),
            f"m = b{low} + s / 2.0 + d{low} * s",
            f"t = exp({growth}) * s / 2.0",
            f"c{low} = m - t",
            f"c{high} = m + t",
        ]
    return lines


def _inside(name: str, width: str, height: str) -> list[str]:
    """The lines that cut a box to the image."""
    return [
        f"{name}{n} = larger(smaller({name}{n}, {(width, height)[n % 2]}), 0.0)" for n in range(4)
    ]


def _stored(pixel: int) -> list[str]:
    """The lines that store a box and its area."""
    more = f" + {pixel}.0" * bool(pixel)
    area = f"(c2 - c0{more}) * (c3 - c1{more})"
    return [*(f"C[n, {i}, k, y, x] = c{i}" for i in range(4)), f"C[n, 4, k, y, x] = {area}"]


def _enough(pixel: int, width: str, height: str) -> str:
    """Whether a box is large enough."""
    more = f" + {pixel}.0" * bool(pixel)
    return f"both(c2 - c0{more} >= {width}, c3 - c1{more} >= {height})"


def _anchored(boxes: _Regions, pixel: int) -> tuple[list[str], dict[str, View]]:
    """The lines and views that move given anchors `[H, W, A, 4]` by deltas `[.., 4 A, H, W]`, and
    cut them to the image.
    """
    count, rows, columns = boxes.grid
    shape = boxes.images, rows, columns, count, 4
    cell = 4 * _F32 * count
    views = {
        "B": View(In(1), "f32", shape, (0, columns * cell, cell, 4 * _F32, _F32)),
        "X": View(In(2), "f32", (boxes.images, 4 * count, rows, columns)),
    }
    lines = [f"b{i} = B[n, y, x, k, {i}]" for i in range(4)]
    lines += [f"d{i} = X[n, 4*k + {i}, y, x]" for i in range(4)]
    lines += moved_lines(pixel, LARGEST)
    if pixel:
        lines += [f"c{i} = c{i} - 1.0" for i in (2, 3)]
    return [*lines, *_inside("c", "w", "h")], views


def select_of_image(layer: Layer) -> Selection:
    operation, outputs, target = (
        layer.of(GenerateProposalsSingleImage6),
        layer.outputs,
        layer.target,
    )
    layer.require(3, ElementType.f32)
    compute_nothing_of(layer.result(), "propose")
    count, rows, columns = layer.shape(3)
    boxes = _Regions(1, (count, rows, columns), target)
    lines, views = _anchored(boxes, 1)
    least = repr(float(np.float32(operation.min_size)))
    lines += _stored(0)
    lines.append(f"S[n, k, y, x] = where({_enough(1, least, least)}, P[n, k, y, x], 0.0)")
    views["I"] = View(In(0), "f32", (1, 3))
    views["P"] = View(In(3), "f32", (1, count, rows, columns))
    head = ["w = I[n, 1] - 1.0", "h = I[n, 0] - 1.0"]
    return boxes.plan(
        Propose(target.lanes, pixel=False, scored=True),
        boxes.decoded(lines, views, head),
        (operation.pre_nms_count, operation.post_nms_count, operation.nms_threshold),
        zeros_in(outputs),
        rows=Out(0),
        row_scores=Out(1),
    )


def select_regions(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(TakenRegions), layer.outputs, layer.target
    means = operation.layer
    layer.require(3, ElementType.f32)
    decline_if(
        means.nms_eta < 1 and means.nms_threshold > 0.5, "no kernel for thresholds that fall"
    )
    images, count, rows, columns = layer.shape(3)
    numbers = as_number(layer.shape(0)[1], _SCALES)
    pixel = int(not means.normalized)
    boxes = _Regions(images, (count, rows, columns), target, NUMBERS + 1)
    lines, views = _anchored(boxes, pixel)
    lines += _stored(pixel)
    lines.append(f"C[n, 5, k, y, x] = where({_enough(pixel, 'e', 'f')}, 1.0, 0.0)")
    views["I"] = View(In(0), "f32", (images, numbers))
    less = f" - {pixel}.0" * bool(pixel)
    least = repr(float(np.float32(means.min_size)))
    head = [f"w = I[n, 1]{less}", f"h = I[n, 0]{less}"]
    head += [f"e = I[n, {numbers - 1}] * {least}", f"f = I[n, 2] * {least}"]
    counts = outputs[2].element_type.name
    return boxes.plan(
        Propose(target.lanes, bool(pixel), scored=True, counts=counts, sized=True),
        boxes.decoded(lines, views, head),
        (means.pre_nms_count, means.post_nms_count, means.nms_threshold),
        zeros_in(outputs[:2]),
        scores=In(3),
        rows=Out(0),
        row_scores=Out(1),
        numbers=Out(2),
        found=Out(3),
    )


def select_proposal(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(Proposal1), layer.outputs, layer.target
    layer.require(0, ElementType.f32)
    compute_nothing_of(layer.result(), "propose")
    images, _, rows, columns = layer.shape(0)
    numbers = as_number(layer.shape(2)[0], _SCALES)
    anchors = operation.cell_anchors()
    count, pixel, turned = len(anchors), operation.pixel, bool(operation.framework)
    boxes = _Regions(images, (count, rows, columns), target)
    probabilities = View(In(0), "f32", (images, 2 * count, rows, columns))
    views = {
        "A": View(address_of(anchors), "f32", (count, 4)),
        "I": View(In(2), "f32", (numbers,)),
        "P": probabilities,
        "X": View(In(1), "f32", (images, 4 * count, rows, columns)),
    }
    lines = _placed(operation)
    for index, scale in enumerate(
        [operation.box_coordinate_scale] * 2 + [operation.box_size_scale] * 2
    ):
        divided = "" if scale == 1 else f" / {float(np.float32(scale))!r}"
        lines.append(f"d{index} = X[n, 4*k + {index}, y, x]{divided}")
    lines += moved_lines(pixel)
    if operation.clip_before_nms:
        less = f" - {pixel}.0" * bool(pixel)
        lines += [f"u = w{less}", f"v = h{less}", *_inside("c", "u", "v")]
    lines += _stored(pixel)
    probability = f"P[n, k + {count}, y, x]"
    lines.append(f"S[n, k, y, x] = where({_enough(pixel, 'e', 'f')}, {probability}, 0.0)")
    spec = Propose(
        target.lanes,
        pixel=bool(pixel),
        scored=len(outputs) > 1,
        numbered=True,
        clip=operation.clip_after_nms,
        normalize=operation.normalize,
        turned=turned,
    )
    return boxes.plan(
        spec,
        boxes.decoded(lines, views, _image(operation, numbers), [anchors]),
        (operation.pre_nms_topn, operation.post_nms_topn, operation.nms_thresh),
        zeros_in(outputs),
        image=In(2),
        rows=Out(0),
        row_scores=Out(1) if spec.scored else 0,
    )


def _image(operation: Proposal1, numbers: int) -> list[str]:
    """The lines that look at the image: its sides as w and h, y first where boxes have it so, and
    the least sides of a box as e and f. What `infer` refuses is refused.
    """
    sides = ("w", "h") if operation.framework else ("h", "w")
    least = float(np.float32(operation.min_size))
    lines = [f"{side} = I[{place}]" for place, side in enumerate(sides)]
    lines += [f"z{place} = I[{place}]" for place in range(2, numbers)]
    for name, above in [("h", ">"), ("w", ">"), *((f"z{n}", ">=") for n in range(2, numbers))]:
        fine = f"both({name} {above} 0.0, {name} <= {_HIGHEST!r})"
        lines.append(f"refused = where({fine}, 0.0, 1.0) > 0.5")
    return [*lines, f"e = z{numbers - 1} * {least!r}", f"f = z2 * {least!r}"]


def _placed(operation: Proposal1) -> list[str]:
    """The lines that make the anchors b0..b3 of a cell."""
    stride = float(operation.feat_stride)
    places = [f"real(integer(x)) * {stride!r}", f"number(y) * {stride!r}"]
    places = places[::-1] if operation.framework else places
    lines = [f"b{n} = {places[n % 2]} + A[k, {n}]" for n in range(4)]
    return [*lines, *(_inside("b", "w", "h") if operation.framework else [])]
