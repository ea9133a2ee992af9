"""Pictures as inputs: layers that make what a model takes of a picture as it is read, in u8, its
axes N, H, W, C in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.errors import InputError
from uncork.ir.model import Model, Source
from uncork.ir.ports import ModelPort
from uncork.onnx.graph import Graph
from uncork.preprocessing import steps
from uncork.preprocessing.formats import ColorFormat
from uncork.preprocessing.layouts import Layout
from uncork.types import Array, ElementType, PartialShape, TensorSpec

FITS = ("stretch", "crop", "pad")
_CHANNELS = (1, 3, 4)
_WHOLE = (ElementType.u8, ElementType.i16, ElementType.i32, ElementType.i64)
T = ElementType


@dataclass(frozen=True)
class Pictures:
    """What is made of a picture: how its axes are called in the order of the model's ("" follows
    from the shape), what is subtracted from channels and what they are divided by, whether blue
    comes first, and how it is brought to the model's size: "stretch", "crop" to its middle or
    "pad" with black.
    """

    layout: str = ""
    mean: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    bgr: bool = False
    fit: str = "stretch"


@dataclass(frozen=True)
class Plan:
    """How pictures become a certain input: the order of its axes, and its sizes by their names,
    None for those that are open.
    """

    port: ModelPort
    how: Pictures
    layout: str
    sizes: dict[str, int | None]

    @property
    def channels(self) -> int:
        """The number of channels."""
        return (self.sizes["C"] or 3) if "C" in self.sizes else 1

    @property
    def picture_axes(self) -> str:
        """The axes of a picture as it is given."""
        return "".join(axis for axis in "NHWC" if axis in self.layout)

    @property
    def picture_shape(self) -> PartialShape:
        """The shape of a picture as it is given: of any height and width."""
        known = {"H": None, "W": None, "C": self.channels, "N": self.sizes.get("N")}
        return PartialShape([known[axis] for axis in self.picture_axes])

    def prepared(self, graph: Graph, picture: Source) -> Source:
        """What the input takes of a picture."""
        kind = self.port.element_type
        stage = steps.Stage(
            _GraphWriter(graph), picture, Layout(self.picture_axes), ColorFormat.UNDEFINED
        )
        if self.sizes["H"] is not None or self.sizes["W"] is not None:
            steps.converted(T.f32)(stage)
            stage.output = _fitted(graph, stage.output, self)
            if not kind.is_float:
                stage.add("Round", 5, mode="half_to_even")
        if kind.is_float:
            steps.converted(T.f32)(stage)
        if self.how.bgr and self.channels > 1:
            order = np.array([2, 1, 0, 3][: self.channels], np.int64)
            stage.add("Gather", 8, order, np.array(stage.axis("C", "bgr"), np.int64))
        for step, numbers in ((steps.less, self.how.mean), (steps.divided, self.how.scale)):
            if numbers:
                step(numbers[0] if len(numbers) == 1 else numbers)(stage)
        steps.converted(kind)(stage)
        steps.laid_out(Layout(self.layout))(stage)
        result: Source = stage.output
        return result

    def model(self) -> Model:
        """What prepares pictures, as a model of its own."""
        graph = Graph("pictures")
        picture = graph.parameter("picture", "u8", self.picture_shape)
        graph.result(self.prepared(graph, picture), "prepared")
        return graph.model()


def plan(port: ModelPort, how: Pictures) -> Plan:
    """How pictures become an input. Raises InputError where it takes none."""
    where = f"input '{port.name}'"
    layout = how.layout or _found_layout(port, where)
    sizes = _sizes(port, layout, where)
    found = Plan(port, how, layout, sizes)
    InputError.when(
        found.channels not in _CHANNELS,
        f"expected 1, 3 or 4 channels for a picture, got {found.channels}",
        where,
    )
    kind = port.element_type
    if not kind.is_float:
        InputError.when(
            how.mean or how.scale,
            f"is of {kind}, which takes pixels as they are: leave out --mean and --scale",
            where,
        )
        InputError.when(
            kind not in _WHOLE, f"is of {kind}, which holds no pixels of 0 to 255", where
        )
    for option, numbers in (("--mean", how.mean), ("--scale", how.scale)):
        InputError.when(
            len(numbers) not in (0, 1, found.channels),
            f"{option}: expected 1 number or {found.channels}, one a channel, got {len(numbers)}",
            where,
        )
    return found


def _found_layout(port: ModelPort, where: str) -> str:
    """The layout that a shape tells: of one axis it can be that it counts channels."""
    shape = port.shape
    if shape.rank in (3, 4):
        axes = "NCHW"[4 - shape.rank :], "NHWC"[4 - shape.rank :]
        for channels in (3, 1, 4):
            fit = [a for a in axes if shape.dims[a.index("C")].static_size == channels]
            if fit:
                if len(fit) == 1:
                    return fit[0]
                break
    raise InputError(
        f"has shape {shape}, which does not tell its layout: give --layout, such as NCHW or NHWC",
        where,
    )


def _sizes(port: ModelPort, layout: str, where: str) -> dict[str, int | None]:
    """The sizes of the input by the names of axes; None for those that are open."""
    shape = port.shape
    if shape.rank is None:
        return dict.fromkeys(layout)
    InputError.when(shape.rank != len(layout), f"has shape {shape}, got the layout {layout}", where)
    return {axis: dim.static_size for axis, dim in zip(layout, shape.dims, strict=True)}


class _GraphWriter:
    """Steps as layers of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def spec(self, tensor: Source) -> TensorSpec:
        """What is known of a tensor."""
        return self._graph.spec(tensor)

    def constant(self, value: Array, element_type: ElementType | None) -> Source:
        """A constant."""
        made = self._graph.constant(value)
        return made if element_type is None else self._graph.convert(made, element_type)

    def layer(self, type_name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Source:
        """The output of a new layer."""
        return self._graph.add(type_name, opset, *inputs, **attributes)[0]


def _fitted(g: Graph, data: Source, plan: Plan) -> Source:
    """Pictures in the height and the width of the input; a side that is open stays as it is."""
    axes = [plan.picture_axes.index(axis) for axis in "HW"]
    wanted = [plan.sizes[axis] for axis in "HW"]
    own = g.gather(g.shape_of(data), axes, 0)
    if plan.how.fit == "stretch" or None in wanted:
        parts = [
            g.slice(own, i, i + 1, 0) if size is None else g.i64([size])
            for i, size in enumerate(wanted)
        ]
        return _resized(g, data, g.concat(parts, 0), axes)
    target = g.i64([size or 0 for size in wanted])
    # Both sides that keep the shape of the picture, one of which is the input's own:
    # h * W / w and w * H / h, to the nearest whole number.
    turned, other = g.gather(own, [1, 0], 0), g.i64([size or 0 for size in wanted[::-1]])
    twice = g.times(turned, 2)
    kept = g.make("Divide", g.plus(g.times(g.times(own, other), 2), turned), twice)
    is_crop = plan.how.fit == "crop"
    sides = g.make("Maximum" if is_crop else "Minimum", kept, target)
    sides = g.make("Maximum", sides, g.i64(1))
    data = _resized(g, data, sides, axes)
    apart = g.minus(sides, target) if is_crop else g.minus(target, sides)
    begin = g.make("Divide", apart, g.i64(2))
    if is_crop:
        data = g.make("Slice", data, begin, g.plus(begin, target), g.i64([1, 1]), g.i64(axes))
    else:
        rank = len(plan.picture_axes)
        places = [
            g.concat([g.i64([0] * axes[0]), amount, g.i64([0] * (rank - axes[1] - 1))], 0)
            for amount in (begin, g.minus(apart, begin))
        ]
        data = g.make("Pad", data, *places, g.like(0.0, data), pad_mode="constant", opset=12)
    shape = [0] * len(plan.picture_axes)
    for axis, size in zip(axes, wanted, strict=True):
        shape[axis] = size or 0
    return g.make("Reshape", data, g.i64(shape), special_zero=True)


def _resized(g: Graph, data: Source, sides: Source, axes: Sequence[int]) -> Source:
    return g.make(
        "Interpolate",
        data,
        sides,
        g.i64(list(axes)),
        mode="bilinear_pillow",
        shape_calculation_mode="sizes",
        opset=11,
    )
