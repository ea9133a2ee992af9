"""The steps of a processor, each as layers behind an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.openvino._errors import invalid, unsupported
from uncork.openvino._layout import Layout
from uncork.openvino._node import Constant, Node, as_output
from uncork.openvino._ports import Output
from uncork.openvino._types import element_of
from uncork.openvino.preprocess._formats import ColorFormat, PaddingMode, ResizeAlgorithm
from uncork.types import ElementType


class Stage(Struct):
    """A tensor on its way, with what its axes and channels are."""

    output: Output
    layout: Layout
    color: ColorFormat

    @property
    def rank(self) -> int:
        """The number of axes."""
        rank = self.output.spec.rank
        if rank is None:
            raise invalid(f"{self.output!r}: its number of axes is open; give the tensor a shape")
        return rank

    def axis(self, name: str, what: str) -> int:
        """An axis by what it is."""
        if not self.layout.has_name(name):
            raise invalid(
                f"{what} needs a layout with {name}, got {self.layout}: "
                "tensor().set_layout(Layout('NHWC'))"
            )
        return self.layout.get_index_by_name(name) % self.rank


Step = Callable[[Stage], None]


def layer(type_name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Output:
    """The output of a new layer."""
    return Node.of_type(type_name, opset, [as_output(v) for v in inputs], attributes).output(0)


def converted(to: Any) -> Step:
    """To another element type."""
    element = element_of(to)

    def step(stage: Stage) -> None:
        if stage.output.spec.element_type is not element:
            stage.output = layer("Convert", 1, [stage.output], destination_type=element)

    return step


def _by_channel(type_name: str, value: Any, what: str) -> Step:
    def step(stage: Stage) -> None:
        element = stage.output.spec.element_type
        if not element.is_float:
            raise invalid(
                f"{what} needs floats, got {element}: convert_element_type(Type.f32) goes before it"
            )
        numbers = np.asarray(value, np.float32)
        if numbers.ndim:
            axis = stage.axis("C", what)
            channels = stage.output.spec.shape[axis].static_size
            if channels is not None and channels != numbers.size:
                raise invalid(f"{what}: expected {channels} numbers, got {numbers.size}")
            shape = [1] * stage.rank
            shape[axis] = numbers.size
            numbers = numbers.reshape(shape)
        other = Constant(numbers, element_type=element)
        stage.output = layer(type_name, 1, [stage.output, other])

    return step


def less(value: Any) -> Step:
    """Less a mean, of all or of every channel."""
    return _by_channel("Subtract", value, "mean")


def divided(value: Any) -> Step:
    """Divided by a scale, of all or of every channel."""
    return _by_channel("Divide", value, "scale")


def permuted(order: Sequence[int]) -> Step:
    """With its axes in another order."""

    def step(stage: Stage) -> None:
        axes = [int(axis) for axis in order]
        if sorted(axes) != list(range(stage.rank)):
            raise invalid(
                f"convert_layout: expected an order of {stage.rank} axes, got {list(order)}"
            )
        stage.output = layer("Transpose", 1, [stage.output, np.array(axes, np.int64)])
        names = stage.layout.to_string()[1:-1].split(",")
        if not stage.layout.empty and "..." not in names:
            stage.layout = Layout("[" + ",".join(names[axis] for axis in axes) + "]")

    return step


def order_between(source: Layout, target: Layout, rank: int) -> list[int] | None:
    """The axes of `source` in the order of `target`; None where they are in it already."""
    if source.empty or target.empty or source == target:
        return None
    from_names, to_names = (_full(layout, rank) for layout in (source, target))
    if set(from_names) != set(to_names):
        raise invalid(f"layout {source} cannot become {target}: they name other axes")
    order = [from_names.index(name) for name in to_names]
    return None if order == sorted(order) else order


def _full(layout: Layout, rank: int) -> list[str]:
    """The names of all axes; those that have none are numbered."""
    names = layout.to_string()[1:-1].split(",")
    if "..." in names:
        at = names.index("...")
        names[at : at + 1] = ["?"] * (rank - len(names) + 1)
    if len(names) != rank:
        raise invalid(f"layout {layout} has {len(names)} axes, the tensor {rank}")
    count = iter(range(rank))
    return [f"?{next(count)}" if name == "?" else name for name in names]


def laid_out(target: Layout) -> Step:
    """With its axes as another layout names them."""

    def step(stage: Stage) -> None:
        order = order_between(stage.layout, target, stage.rank)
        if order is not None:
            stage.output = layer("Transpose", 1, [stage.output, np.array(order, np.int64)])
        if not target.empty:
            stage.layout = target

    return step


_MODES = {
    ResizeAlgorithm.RESIZE_LINEAR: "linear",
    ResizeAlgorithm.RESIZE_CUBIC: "cubic",
    ResizeAlgorithm.RESIZE_NEAREST: "nearest",
    ResizeAlgorithm.RESIZE_BILINEAR_PILLOW: "bilinear_pillow",
    ResizeAlgorithm.RESIZE_BICUBIC_PILLOW: "bicubic_pillow",
}


def resized(algorithm: Any, sizes: Callable[[], tuple[int, int]]) -> Step:
    """With another height and width."""
    if algorithm not in _MODES:
        raise TypeError(f"resize: expected a ResizeAlgorithm, got {algorithm!r}")

    def step(stage: Stage) -> None:
        height, width = stage.axis("H", "resize"), stage.axis("W", "resize")
        target = np.array(sizes(), np.int64)
        stage.output = layer(
            "Interpolate",
            11,
            [stage.output, target, np.array([height, width], np.int64)],
            mode=_MODES[algorithm],
            shape_calculation_mode="sizes",
        )

    return step


def cropped(begin: Sequence[int], end: Sequence[int]) -> Step:
    """A part, from `begin` to before `end` along each axis; negative is from the end."""

    def step(stage: Stage) -> None:
        if len(begin) != stage.rank or len(end) != stage.rank:
            raise invalid(f"crop: expected {stage.rank} begins and ends, got {begin} and {end}")
        steps = np.ones(len(begin), np.int64)
        bounds = [np.array(begin, np.int64), np.array(end, np.int64)]
        stage.output = layer("Slice", 8, [stage.output, *bounds, steps])

    return step


def padded(begin: Sequence[int], end: Sequence[int], value: Any, mode: Any) -> Step:
    """With so many more along each axis."""
    if not isinstance(mode, PaddingMode):
        raise TypeError(f"pad: expected a PaddingMode, got {mode!r}")

    def step(stage: Stage) -> None:
        if len(begin) != stage.rank or len(end) != stage.rank:
            raise invalid(f"pad: expected {stage.rank} begins and ends, got {begin} and {end}")
        pads = [np.array(begin, np.int64), np.array(end, np.int64)]
        numbers = np.asarray(value)
        if numbers.ndim:
            raise unsupported("pad: one value for all channels; several are not supported")
        fill = Constant(numbers, element_type=stage.output.spec.element_type)
        stage.output = layer("Pad", 12, [stage.output, *pads, fill], pad_mode=mode.name.lower())

    return step


def reversed_channels(stage: Stage) -> None:
    """With its channels in the other order: RGB for BGR."""
    axis = stage.axis("C", "reverse_channels")
    channels = stage.output.spec.shape[axis].static_size
    if channels is None:
        raise invalid("reverse_channels needs a number of channels that is known")
    order = np.arange(channels - 1, -1, -1, dtype=np.int64)
    stage.output = layer("Gather", 8, [stage.output, order, np.array(axis, np.int64)])
    swap = {ColorFormat.RGB: ColorFormat.BGR, ColorFormat.BGR: ColorFormat.RGB}
    stage.color = swap.get(stage.color, stage.color)


#: What a picture of one plane becomes, by the layer that does it.
_PLANES = {
    (ColorFormat.NV12_SINGLE_PLANE, ColorFormat.RGB): "NV12toRGB",
    (ColorFormat.NV12_SINGLE_PLANE, ColorFormat.BGR): "NV12toBGR",
    (ColorFormat.I420_SINGLE_PLANE, ColorFormat.RGB): "I420toRGB",
    (ColorFormat.I420_SINGLE_PLANE, ColorFormat.BGR): "I420toBGR",
}
_PLAIN = {
    ColorFormat.RGBX: ColorFormat.RGB,
    ColorFormat.BGRX: ColorFormat.BGR,
}


def coloured(target: Any) -> Step:
    """With other channels."""
    if not isinstance(target, ColorFormat):
        raise TypeError(f"convert_color: expected a ColorFormat, got {target!r}")

    def step(stage: Stage) -> None:
        if stage.color is target:
            return
        if (stage.color, target) in _PLANES:
            stage.output = layer(_PLANES[stage.color, target], 8, [stage.output])
            stage.color = target
            return
        if stage.color in _PLAIN and target in (ColorFormat.RGB, ColorFormat.BGR):
            _first_three(stage)
            if stage.color is not target:
                reversed_channels(stage)
            return
        if {stage.color, target} == {ColorFormat.RGB, ColorFormat.BGR}:
            reversed_channels(stage)
            stage.color = target
            return
        if target is ColorFormat.GRAY and stage.color in (ColorFormat.RGB, ColorFormat.BGR):
            _grey(stage)
            return
        raise unsupported(
            f"convert_color: {stage.color.name} cannot become {target.name}; "
            "tensor().set_color_format(...) says what a picture is"
        )

    return step


def _first_three(stage: Stage) -> None:
    """Without the fourth channel."""
    axis = stage.axis("C", "convert_color")
    ends = [np.array([n], np.int64) for n in (0, 3, 1, axis)]
    stage.output = layer("Slice", 8, [stage.output, *ends])
    stage.color = _PLAIN[stage.color]


#: How bright red, green and blue are (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114], np.float32)


def _grey(stage: Stage) -> None:
    """One channel: how bright a pixel is; integers are rounded."""
    axis = stage.axis("C", "convert_color")
    element = stage.output.spec.element_type
    weights = _BRIGHTNESS if stage.color is ColorFormat.RGB else _BRIGHTNESS[::-1]
    shape = [1] * stage.rank
    shape[axis] = 3
    work = element if element.is_float else ElementType.f32
    converted(work)(stage)
    factor = Constant(weights.reshape(shape), element_type=work)
    product = layer("Multiply", 1, [stage.output, factor])
    axes = np.array([axis], np.int64)
    stage.output = layer("ReduceSum", 1, [product, axes], keep_dims=True)
    if element is not work:
        stage.output = layer("Round", 5, [stage.output], mode="half_to_even")
        converted(element)(stage)
    stage.color = ColorFormat.GRAY


def custom(function: Callable[[Output], Any]) -> Step:
    """What a function of the program makes."""

    def step(stage: Stage) -> None:
        stage.output = as_output(function(stage.output))

    return step
