"""The steps of preprocessing, each as layers behind a tensor of any graph that has a `Writer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from uncork.errors import UnsupportedError, ValidationError
from uncork.preprocessing.formats import ColorFormat, PaddingMode, ResizeAlgorithm
from uncork.preprocessing.layouts import Layout
from uncork.types import Array, ElementType, TensorSpec


class Writer(Protocol):
    """What steps need of a graph, whatever its tensors are."""

    def spec(self, tensor: Any) -> TensorSpec:
        """What is known of a tensor."""

    def constant(self, value: Array, element_type: ElementType | None) -> Any:
        """A constant; without a type of the array's own."""

    def layer(self, type_name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Any:
        """The output of a new layer."""


class Stage(Struct):
    """A tensor on its way, with what its axes and channels are."""

    writer: Writer
    output: Any
    layout: Layout
    color: ColorFormat
    #: Tensors with the other planes of a picture that has several.
    planes: Sequence[Any] = ()

    @property
    def spec(self) -> TensorSpec:
        """What is known of it."""
        return self.writer.spec(self.output)

    def add(self, type_name: str, opset: int, *others: Any, **attributes: Any) -> None:
        """Put a layer behind it; other inputs that are arrays become constants."""
        ValidationError.when(
            self.planes,
            f"the picture has {len(self.planes) + 1} planes ({self.color.name}): "
            "convert_color goes before other steps",
        )
        inputs = [
            self.writer.constant(other, None) if isinstance(other, np.ndarray) else other
            for other in others
        ]
        self.output = self.writer.layer(type_name, opset, [self.output, *inputs], **attributes)

    @property
    def rank(self) -> int:
        """The number of axes."""
        rank = self.spec.rank
        if rank is None:
            raise ValidationError(
                f"{self.output!r}: its number of axes is open; give the tensor a shape"
            )
        return rank

    def axis(self, name: str, what: str) -> int:
        """An axis by what it is."""
        ValidationError.when(
            not self.layout.has_name(name),
            f"{what} needs a layout with {name}, got {self.layout}: "
            "tensor().set_layout(Layout('NHWC'))",
        )
        return self.layout.get_index_by_name(name) % self.rank


Step = Callable[[Stage], None]


def converted(element: ElementType) -> Step:
    """To another element type."""

    def step(stage: Stage) -> None:
        if stage.spec.element_type is not element:
            stage.add("Convert", 1, destination_type=element)

    return step


def _by_channel(type_name: str, value: Any, what: str) -> Step:
    def step(stage: Stage) -> None:
        element = stage.spec.element_type
        ValidationError.when(
            not element.is_float,
            f"{what} needs floats, got {element}: convert_element_type(Type.f32) goes before it",
        )
        numbers = np.asarray(value, np.float32)
        if numbers.ndim:
            axis = stage.axis("C", what)
            channels = stage.spec.shape[axis].static_size
            ValidationError.when(
                channels is not None and channels != numbers.size,
                f"{what}: expected {channels} numbers, got {numbers.size}",
            )
            shape = [1] * stage.rank
            shape[axis] = numbers.size
            numbers = numbers.reshape(shape)
        other = stage.writer.constant(numbers, element)
        stage.add(type_name, 1, other)

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
        ValidationError.when(
            sorted(axes) != list(range(stage.rank)),
            f"convert_layout: expected an order of {stage.rank} axes, got {list(order)}",
        )
        stage.add("Transpose", 1, np.array(axes, np.int64))
        names = stage.layout.to_string()[1:-1].split(",")
        if not stage.layout.empty and "..." not in names:
            stage.layout = type(stage.layout)("[" + ",".join(names[axis] for axis in axes) + "]")

    return step


def order_between(source: Layout, target: Layout, rank: int) -> list[int] | None:
    """The axes of `source` in the order of `target`; None where they are in it already."""
    if source.empty or target.empty or source == target:
        return None
    from_names, to_names = (_full(layout, rank) for layout in (source, target))
    ValidationError.when(
        set(from_names) != set(to_names),
        f"layout {source} cannot become {target}: they name other axes",
    )
    order = [from_names.index(name) for name in to_names]
    return None if order == sorted(order) else order


def _full(layout: Layout, rank: int) -> list[str]:
    """The names of all axes; those that have none are numbered."""
    names = layout.to_string()[1:-1].split(",")
    if "..." in names:
        at = names.index("...")
        names[at : at + 1] = ["?"] * (rank - len(names) + 1)
    ValidationError.when(
        len(names) != rank, f"layout {layout} has {len(names)} axes, the tensor {rank}"
    )
    count = iter(range(rank))
    return [f"?{next(count)}" if name == "?" else name for name in names]


def laid_out(target: Layout) -> Step:
    """With its axes as another layout names them."""

    def step(stage: Stage) -> None:
        order = order_between(stage.layout, target, stage.rank)
        if order is not None:
            stage.add("Transpose", 1, np.array(order, np.int64))
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
        stage.add(
            "Interpolate",
            11,
            target,
            np.array([height, width], np.int64),
            mode=_MODES[algorithm],
            shape_calculation_mode="sizes",
        )

    return step


def cropped(begin: Sequence[int], end: Sequence[int]) -> Step:
    """A part, from `begin` to before `end` along each axis; negative is from the end."""

    def step(stage: Stage) -> None:
        ValidationError.when(
            len(begin) != stage.rank or len(end) != stage.rank,
            f"crop: expected {stage.rank} begins and ends, got {begin} and {end}",
        )
        steps = np.ones(len(begin), np.int64)
        bounds = [np.array(begin, np.int64), np.array(end, np.int64)]
        stage.add("Slice", 8, *bounds, steps)

    return step


def padded(begin: Sequence[int], end: Sequence[int], value: Any, mode: Any) -> Step:
    """With so many more along each axis."""
    if not isinstance(mode, PaddingMode):
        raise TypeError(f"pad: expected a PaddingMode, got {mode!r}")

    def step(stage: Stage) -> None:
        ValidationError.when(
            len(begin) != stage.rank or len(end) != stage.rank,
            f"pad: expected {stage.rank} begins and ends, got {begin} and {end}",
        )
        pads = [np.array(begin, np.int64), np.array(end, np.int64)]
        numbers = np.asarray(value)
        UnsupportedError.when(
            numbers.ndim, "pad: one value for all channels; several are not supported"
        )
        fill = stage.writer.constant(numbers, stage.spec.element_type)
        stage.add("Pad", 12, *pads, fill, pad_mode=mode.name.lower())

    return step


def reversed_channels(stage: Stage) -> None:
    """With its channels in the other order: RGB for BGR."""
    axis = stage.axis("C", "reverse_channels")
    channels = stage.spec.shape[axis].static_size
    if channels is None:
        raise ValidationError("reverse_channels needs a number of channels that is known")
    order = np.arange(channels - 1, -1, -1, dtype=np.int64)
    stage.add("Gather", 8, order, np.array(axis, np.int64))
    swap = {ColorFormat.RGB: ColorFormat.BGR, ColorFormat.BGR: ColorFormat.RGB}
    stage.color = swap.get(stage.color, stage.color)


#: What a picture of planes becomes, by the layer that does it.
_PLANES = {
    (color, target): f"{name}to{target.name}"
    for name, colors in {
        "NV12": (ColorFormat.NV12_SINGLE_PLANE, ColorFormat.NV12_TWO_PLANES),
        "I420": (ColorFormat.I420_SINGLE_PLANE, ColorFormat.I420_THREE_PLANES),
    }.items()
    for color in colors
    for target in (ColorFormat.RGB, ColorFormat.BGR)
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
            planes, stage.planes = stage.planes, ()
            stage.add(_PLANES[stage.color, target], 8, *planes)
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
        raise UnsupportedError(
            f"convert_color: {stage.color.name} cannot become {target.name}; "
            "tensor().set_color_format(...) says what a picture is"
        )

    return step


def _first_three(stage: Stage) -> None:
    """Without the fourth channel."""
    axis = stage.axis("C", "convert_color")
    ends = [np.array([n], np.int64) for n in (0, 3, 1, axis)]
    stage.add("Slice", 8, *ends)
    stage.color = _PLAIN[stage.color]


#: How bright red, green and blue are (ITU-R BT.601).
_BRIGHTNESS = np.array([0.299, 0.587, 0.114], np.float32)


def _grey(stage: Stage) -> None:
    """One channel: how bright a pixel is; integers are rounded."""
    axis = stage.axis("C", "convert_color")
    element = stage.spec.element_type
    weights = _BRIGHTNESS if stage.color is ColorFormat.RGB else _BRIGHTNESS[::-1]
    shape = [1] * stage.rank
    shape[axis] = 3
    work = element if element.is_float else ElementType.f32
    converted(work)(stage)
    factor = stage.writer.constant(weights.reshape(shape), work)
    stage.add("Multiply", 1, factor)
    stage.add("ReduceSum", 1, np.array([axis], np.int64), keep_dims=True)
    if element is not work:
        stage.add("Round", 5, mode="half_to_even")
        converted(element)(stage)
    stage.color = ColorFormat.GRAY
