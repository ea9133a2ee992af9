"""Layers on codes without products, as loop nests: means of pixels, and operations element by
element between roundings to levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike

from uncork.internal_ops.fused import Fused, FusedMember
from uncork.internal_ops.quantized import (
    PLAIN,
    Grid,
    Held,
    QuantizedElements,
    QuantizedMean,
    in_words,
)
from uncork.kernels.elementwise.lowering import Lowered, has_lowering, lowered
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    decline_if,
    extents,
    is_empty,
    product,
    same,
)
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer, present
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.quantized.epilogues import TAME
from uncork.kernels.quantized.grids import grid_of
from uncork.kernels.runtime.addresses import address_of
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: How an operand lies on images of channels: it has all elements, a number for each channel of each
#: image, one for each channel, or one; or it lies on them in another way.
ELEMENTS, IMAGES, CHANNELS, ONE, OTHER = "n p c", "n c", "c", "", "?"
#: Rough elements of one operation in a nanosecond, per lane of a vector.
_RATE = 4
#: The product of two numbers below this is finite.
_SMALL = 1e18


def lies(shape: PartialShape, result: PartialShape) -> str:
    """How an operand of this shape lies on a result whose channels are along axis 1."""
    if shape.rank is None or result.rank is None or shape.rank > result.rank:
        return OTHER
    sizes = [*[1] * (result.rank - shape.rank), *(dim.size for dim in shape.dims)]
    whole = [dim.size for dim in result.dims]
    if any(size is None for size in (*sizes, *whole)):
        return OTHER
    alike = [same(a, b) for a, b in zip(sizes, whole, strict=True)]  # type: ignore[arg-type]
    once = [certainly(size, 1) for size in sizes]  # type: ignore[arg-type]
    if all(alike):
        return ELEMENTS
    if all(once):
        return ONE
    if not alike[1] or not all(once[2:]):
        return OTHER
    return CHANNELS if once[0] else IMAGES if alike[0] else OTHER


def is_over_pixels(data: TensorSpec, axes: TensorSpec) -> bool:
    """Whether a reduction is over all that lies between images and channels."""
    rank = data.rank
    if axes.value is None or rank is None or rank < 3:
        return False
    return {int(axis) % rank for axis in axes.value.reshape(-1)} == set(range(2, rank))


def select_mean(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(QuantizedMean), layer.inputs, layer.target
    held = operation.held[0]
    data = present(operation.plain(inputs)[0])
    grid = held.grid
    if grid is None:
        raise KernelDeclined("no kernel for data that are no codes")
    sizes = extents(data)
    decline_if(is_empty(sizes), "no kernel for empty tensors")
    images, channels, rows, columns = sizes[0], held.channels, sizes[2], product(sizes[3:])
    text = (
        "n c*:\n"
        "  y:\n"
        "    x: r = sum(real(X[n, y, x, c]))\n"
        "    t = sum(r)\n"
        "  M[n, c] = fused(t / (size(y) * size(x)), S[0, c], S[1, c])"
    )
    numbers = _table(channels, grid.step, grid.output_low)
    words = in_words(channels)
    views = {
        "X": View(In(0), "u8", (images, rows, columns, words)),
        "S": View(address_of(numbers), "f32", numbers.shape),
        "M": View(Out(0), "f32", (images, channels)),
    }
    lengths = {"n": images, "c": channels, "y": rows, "x": columns}
    cost = images * rows * columns * words // (_RATE * target.lanes)
    return Call(
        "mean_of_codes", text, lengths, views, target, 4, cost,
        shared=("n",), keep=[numbers], scalar_type="f32",
    ).native()  # fmt: skip


class _Text:
    """The text of a nest for operations on codes, with its views."""

    def __init__(
        self, held: Sequence[Held], specs: Sequence[TensorSpec], sizes: dict[str, SizeLike]
    ) -> None:
        self.held, self.specs, self.sizes = held, specs, sizes
        self.before: list[str] = []
        self.lines: list[str] = []
        self.numbers: list[float] = []
        self.views: dict[str, View] = {}
        self.keep: list[object] = []
        #: The names of inputs, and of what operations made.
        self.named: dict[int, str] = {}
        #: Names of finite numbers, and those of inputs that are small enough for a product to be.
        self.finite: set[str] = set()
        self.small: set[str] = set()

    def number(self, value: ArrayLike) -> str:
        """The name of a number that the kernel reads before its loops."""
        name = f"s{len(self.numbers)}"
        self.before.append(f"{name} = S[{len(self.numbers)}]")
        self.numbers.append(float(np.asarray(value, np.float64)))
        return name

    def operand(self, index: int, kind: str) -> None:
        """Name an input's numbers, which lie so on the result."""
        if index in self.named:
            return
        self.named[index] = f"v{len(self.named)}"
        known, held = self.specs[index].value, self.held[index]
        if held.grid is not None:
            limits = held.grid.output_low, held.grid.output_high
            known = np.concatenate([np.ravel(limit) for limit in limits])
        if known is not None and (np.abs(known) < _SMALL).all():
            self.finite.add(self.named[index])
            self.small.add(self.named[index])
        self._read(index, kind, held)

    def _read(self, index: int, kind: str, held: Held) -> None:
        axes, view = kind.split(), f"X{index}"
        sizes = [self.sizes[axis] for axis in axes] or [1]
        place = f"{view}[{', '.join(axes) or '0'}]"
        if held.grid is None:
            self.views[view] = View(In(index), "f32", tuple(sizes))
            lines = self.lines if axes else self.before
            lines.append(f"{self.named[index]} = {place}")
            return
        sizes[-1] = in_words(held.channels)
        self.views[view] = View(In(index), "u8", tuple(sizes))
        step, low = self.pair(f"T{index}", held.grid.step, held.grid.output_low)
        self.lines.append(f"{self.named[index]} = fused(real({place}), {step}, {low})")

    def pair(self, view: str, *numbers: ArrayLike) -> list[str]:
        """A factor and an addend, each of which is one number or one for each channel."""
        if all(np.size(number) == 1 for number in numbers):
            return [self.number(number) for number in numbers]
        table = _table(self.sizes["c"], *numbers)
        self.keep.append(table)
        self.views[view] = View(address_of(table), "f32", table.shape)
        return [f"{view}[{n}, c]" for n in range(len(numbers))]

    def operation(self, index: int, found: Lowered, given: Sequence[str]) -> None:
        """What becomes of such arguments."""
        decline_if(
            not all(math.isfinite(number) for number in found.constants),
            "no kernel for numbers that are not finite",
        )
        name = self.named[index] = f"m{len(self.named)}"
        words = [*given, *(repr(number) for number in found.constants)]
        self.lines.append(f"{name} = do_{found.op}({', '.join(words)})")
        if (found.op in TAME and self.finite.issuperset(given)) or (
            found.op == "multiply" and self.small.issuperset(given)
        ):
            self.finite.add(name)

    def rounded(self, value: str, grid: Grid) -> None:
        """The last lines, which make codes of a value: none stands for NaN."""
        scale, shift = self.pair("T", *grid.scaling)
        least, most = self.number(0), self.number(grid.levels - 1)
        if value not in self.finite:
            self.lines.append(f"refused = differs({value})")
        self.lines += [
            f"a = fused({value}, {scale}, {shift})",
            f"b = where(a > {least}, a, {least})",
            f"y = where(b < {most}, b, {most})",
            "Y[n, p, c] = truncated(rint(y))",
        ]


def elements_of(operation: QuantizedElements, inputs: Sequence[TensorSpec | None]) -> _Nest:
    """The nest of such a layer. Raises KernelDeclined where there is none."""
    fused, into = operation.operation, operation.result
    assert isinstance(fused, Fused)
    plain = [present(spec) for spec in operation.plain(inputs)]
    (result,) = fused.describe(plain)
    sizes = extents(result)
    decline_if(is_empty(sizes), "no kernel for empty tensors")
    *members, last = fused.members
    grid = grid_of(last.operation, [plain[n] for n in last.arguments[1:]], result.rank)
    if grid is None or grid != into.grid:
        raise KernelDeclined("no kernel for what is not rounded to a grid")
    lengths: dict[str, SizeLike] = {"n": sizes[0], "p": product(sizes[2:]), "c": into.channels}
    text, specs = _Text(operation.held, plain, lengths), list(plain)
    for member in members:
        found = _lowered(member, specs, result)
        given = []
        for n in (member.arguments[position] for position in found.inputs):
            if n < len(plain):
                text.operand(n, _kind(operation, n, specs, result))
            given.append(text.named[n])
        text.operation(len(specs), found, given)
        specs += member.operation.describe([specs[n] for n in member.arguments])
    (rounds, *_) = last.arguments
    if rounds < len(plain):
        text.operand(rounds, _kind(operation, rounds, specs, result))
    whole = any(view.element_type == "u8" and len(view.sizes) == 3 for view in text.views.values())
    decline_if(not whole, "no kernel without elements on codes")
    text.rounded(text.named[rounds], grid)
    table = np.array(text.numbers, np.float32)
    text.views["S"] = View(address_of(table), "f32", table.shape)
    words = in_words(into.channels)
    text.views["Y"] = View(Out(0), "u8", (lengths["n"], lengths["p"], words))
    lines = "\n".join([*text.before, "n p c*:", *(f"  {line}" for line in text.lines)])
    cost = lengths["n"] * lengths["p"] * words * len(text.lines)
    return _Nest(lines, lengths, text.views, cost, [table, *text.keep])


def _kind(
    operation: QuantizedElements, index: int, specs: Sequence[TensorSpec], result: TensorSpec
) -> str:
    """How an input lies on the result. Raises KernelDeclined where no kernel reads it so."""
    kind, coded = lies(specs[index].shape, result.shape), operation.held[index] != PLAIN
    decline_if(
        kind == OTHER or (coded and kind == ONE) or (kind == ELEMENTS and not coded),
        "no kernel for numbers that lie so on codes",
    )
    return kind


def _table(channels: SizeLike, *numbers: ArrayLike) -> Array:
    """Numbers of each channel, one line for each of the arguments."""
    assert isinstance(channels, int)
    return np.array([np.broadcast_to(number, channels) for number in numbers], np.float32)


class _Nest(Struct, frozen=True):
    """A nest: its text, the sizes of axes, the views, its cost, and what is kept for it."""

    text: str
    sizes: dict[str, SizeLike]
    views: dict[str, View]
    cost: SizeLike
    keep: Sequence[object]


def _lowered(member: FusedMember, specs: Sequence[TensorSpec], result: TensorSpec) -> Lowered:
    """The scalar operation of a layer element by element."""
    given = [specs[n] for n in member.arguments]
    alike = all(spec.element_type is ElementType.f32 for spec in given)
    if not alike or not has_lowering(member.operation):
        raise KernelDeclined(f"no kernel for {member.operation.type_name} on codes")
    return lowered(member.operation, given, result)


def select_elements(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(QuantizedElements), layer.inputs, layer.target
    nest = elements_of(operation, inputs)
    return Call(
        "codes", nest.text, nest.sizes, nest.views, target, 2,
        nest.cost // (_RATE * target.lanes * 2),
        shared=("n", "p"), keep=nest.keep, scalar_type="f32",
    ).native()  # fmt: skip
