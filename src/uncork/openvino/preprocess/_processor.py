"""`PrePostProcessor` and what it says of every input and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uncork.openvino._errors import as_runtime_errors, invalid_if, unsupported
from uncork.openvino._layout import Layout, as_layout, axis_of
from uncork.openvino._model import Model
from uncork.openvino._node import Parameter, Result
from uncork.openvino._ports import Output
from uncork.openvino._positions import position_of
from uncork.openvino._shapes import Dimension, PartialShape
from uncork.openvino._types import element_of
from uncork.openvino.preprocess._nodes import custom, stage_of
from uncork.preprocessing import steps
from uncork.preprocessing.formats import ColorFormat, PaddingMode
from uncork.types import ElementType

if TYPE_CHECKING:
    from typing_extensions import Self

#: Planes of a picture: channels of each, and its height and width as parts of the picture's.
_PLANES: dict[ColorFormat, list[tuple[int, float, float]]] = {
    ColorFormat.NV12_SINGLE_PLANE: [(1, 1.5, 1)],
    ColorFormat.I420_SINGLE_PLANE: [(1, 1.5, 1)],
    ColorFormat.NV12_TWO_PLANES: [(1, 1, 1), (2, 0.5, 0.5)],
    ColorFormat.I420_THREE_PLANES: [(1, 1, 1), (1, 0.5, 0.5), (1, 0.5, 0.5)],
}
#: Channels of other pictures.
_CHANNELS = {
    ColorFormat.RGBX: (4,),
    ColorFormat.BGRX: (4,),
    ColorFormat.RGB: (3,),
    ColorFormat.BGR: (3,),
    ColorFormat.GRAY: (1,),
}


class _ModelInfo:
    """What is said of an input or output of the model."""

    def __init__(self) -> None:
        self.layout: Layout | None = None

    def set_layout(self, layout: Any) -> Self:
        """Axes that are this."""
        self.layout = as_layout(layout)
        return self


class _TensorInfo(_ModelInfo):
    """What is said of a tensor of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.element: ElementType | None = None

    def set_element_type(self, type: Any) -> Self:
        """Numbers of this type."""
        self.element = element_of(type)
        return self


class InputTensorInfo(_TensorInfo):
    """What a program gives."""

    def __init__(self) -> None:
        super().__init__()
        self.shape: PartialShape | None = None
        self.color = ColorFormat.UNDEFINED
        #: What the inputs of planes are called behind the name of the input.
        self.plane_names: list[str] = []
        #: Height and width, -1 where they are open; None where the model says them.
        self.spatial: tuple[int, int] | None = None

    def set_shape(self, shape: Any) -> InputTensorInfo:
        """This very shape."""
        self.shape = PartialShape(shape)
        return self

    def set_spatial_dynamic_shape(self) -> InputTensorInfo:
        """Any height and width."""
        self.spatial = (-1, -1)
        return self

    def set_spatial_static_shape(self, height: int, width: int) -> InputTensorInfo:
        """This height and width."""
        self.spatial = (height, width)
        return self

    def set_color_format(self, format: Any, sub_names: Any = ()) -> InputTensorInfo:
        """Channels that are this."""
        count = len(_PLANES.get(format, "1"))
        names = [sub_names] if isinstance(sub_names, str) else list(sub_names)
        invalid_if(
            names and len(names) != count,
            f"set_color_format: expected a name for each of {count} planes of {format.name}, "
            f"got {names}",
        )
        self.plane_names = names
        self.color = format
        return self

    def set_memory_type(self, memory_type: str) -> InputTensorInfo:
        """Not offered: memory is the CPU's."""
        raise unsupported(f"set_memory_type({memory_type!r}): uncork runs models on the CPU")

    def set_from(self, tensor: Any) -> InputTensorInfo:
        """Type and shape of a tensor or an array."""
        from uncork.openvino._tensor import Tensor

        made = tensor if isinstance(tensor, Tensor) else Tensor(tensor)
        self.element, self.shape = made._element, PartialShape(made.shape)
        return self


class InputModelInfo(_ModelInfo):
    """What the model takes."""


class _Steps:
    """What is done with a tensor."""

    def __init__(self, info: InputInfo | OutputInfo) -> None:
        self._info = info
        self.all: list[steps.Step] = []
        #: Orders of axes that steps make, by which the shape of the tensor is found.
        self.orders: list[list[int]] = []
        #: The layout that the last step of layouts makes.
        self.made_layout: Layout | None = None

    def _then(self, step: steps.Step) -> Self:
        self.all.append(step)
        return self

    def put_into(self, stage: steps.Stage) -> None:
        """Do all of it, and give what the other end has."""
        for step in (*self.all, self._info.to_last_type, self._info.to_last_layout):
            step(stage)

    def custom(self, operation: Callable[[Output], Any]) -> Self:
        """What a function makes of it."""
        return self._then(custom(operation))

    def convert_element_type(self, type: Any = None) -> Self:
        """To another type; without one, to that at the other end."""
        return self._then(
            self._info.to_last_type if type is None else steps.converted(element_of(type))
        )

    def convert_layout(self, layout: Any = None) -> Self:
        """Axes in another order: as a layout names them, or as a list of axes; without one, as the
        other end has them.
        """
        if layout is None:
            return self._then(self._info.to_last_layout)
        if isinstance(layout, (str, Layout)):
            self.made_layout = as_layout(layout)
            return self._then(steps.laid_out(self.made_layout))
        self.orders.append([int(axis) for axis in layout])
        return self._then(steps.permuted(list(layout)))


class PreProcessSteps(_Steps):
    """What is done with a tensor before the model."""

    _info: InputInfo

    def mean(self, value: Any) -> PreProcessSteps:
        """Less this number, or a number for every channel."""
        return self._then(steps.less(value))

    def scale(self, value: Any) -> PreProcessSteps:
        """Divided by this number, or a number for every channel."""
        return self._then(steps.divided(value))

    def resize(
        self, alg: Any, dst_height: int | None = None, dst_width: int | None = None
    ) -> PreProcessSteps:
        """To another height and width; without them, to the model's."""
        given = None if dst_height is None or dst_width is None else (dst_height, dst_width)
        return self._then(steps.resized(alg, lambda: given or self._info.model_size()))

    def crop(self, begin: Any, end: Any) -> PreProcessSteps:
        """A part of it."""
        return self._then(steps.cropped(list(begin), list(end)))

    def pad(
        self, pads_begin: Any, pads_end: Any, value: Any, mode: Any = PaddingMode.CONSTANT
    ) -> PreProcessSteps:
        """More around it."""
        return self._then(steps.padded(list(pads_begin), list(pads_end), value, mode))

    def reverse_channels(self) -> PreProcessSteps:
        """Channels in the other order."""
        return self._then(steps.reversed_channels)

    def convert_color(self, dst_format: Any) -> PreProcessSteps:
        """Other channels."""
        return self._then(steps.coloured(dst_format))


class InputInfo:
    """An input: what a program gives, what is done with it, what the model takes."""

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter
        self._tensor, self._model = InputTensorInfo(), InputModelInfo()
        self._steps = PreProcessSteps(self)

    def tensor(self) -> InputTensorInfo:
        """What a program gives."""
        return self._tensor

    def preprocess(self) -> PreProcessSteps:
        """What is done with it."""
        return self._steps

    def model(self) -> InputModelInfo:
        """What the model takes."""
        return self._model

    @property
    def _model_layout(self) -> Layout:
        told = self._model.layout or self._parameter.layout
        return self._steps.made_layout or told if told.empty else told

    @property
    def _tensor_layout(self) -> Layout:
        if self._tensor.layout is not None:
            return self._tensor.layout
        if self._tensor.color in _PLANES:
            return Layout("NHWC")
        layout = self._model_layout
        if not layout.empty and self._steps.orders and "..." not in layout.to_string():
            names = layout.to_string()[1:-1].split(",")
            for order in reversed(self._steps.orders):
                back = [order.index(axis) for axis in range(len(order))]
                names = [names[axis] for axis in back]
            return Layout("[" + ",".join(names) + "]")
        return layout

    def to_last_type(self, stage: steps.Stage) -> None:
        """To the type of the model."""
        steps.converted(self._parameter.operation.element_type)(stage)

    def to_last_layout(self, stage: steps.Stage) -> None:
        """To the layout of the model."""
        steps.laid_out(self._model_layout)(stage)

    def model_size(self) -> tuple[int, int]:
        """Height and width of the model's input."""
        shape, layout = self._parameter.partial_shape, self._model_layout
        invalid_if(
            not (layout.has_name("H") and layout.has_name("W")),
            "resize needs a layout of the model with H and W: model().set_layout(...), or "
            "resize(algorithm, height, width)",
        )
        sizes = [shape[axis_of(layout, name, len(shape))] for name in "HW"]
        invalid_if(
            any(size.is_dynamic for size in sizes),
            "the model's height and width are open: resize(algorithm, height, width)",
        )
        return sizes[0].get_length(), sizes[1].get_length()

    def _tensor_shape(self) -> PartialShape:
        """The shape that a program gives."""
        if self._tensor.shape is not None:
            return self._tensor.shape
        shape = self._parameter.partial_shape
        if shape.rank.is_dynamic:
            return shape
        for order in reversed(self._steps.orders):
            shape = PartialShape([shape[order.index(axis)] for axis in range(len(order))])
        rank, layout = len(shape), self._tensor_layout
        if not self._steps.orders:
            order_to = steps.order_between(self._model_layout, layout, rank)
            if order_to is not None:
                shape = PartialShape([shape[axis] for axis in order_to])
        if self._tensor.spatial is not None:
            for name, size in zip("HW", self._tensor.spatial, strict=True):
                invalid_if(
                    not layout.has_name(name),
                    f"a height and a width need a layout with H and W, got {layout}: "
                    "tensor().set_layout(Layout('NHWC'))",
                )
                shape[axis_of(layout, name, rank)] = Dimension(size)
        return shape

    def _planes(self) -> list[PartialShape]:
        """The shapes of the planes of a picture in the tensor's colours; one where all channels are
        together.
        """
        shape, color, layout = self._tensor_shape(), self._tensor.color, self._tensor_layout
        planes = _PLANES.get(color) or [(channels, 1, 1) for channels in _CHANNELS.get(color, ())]
        if not planes or (self._tensor.shape is not None and len(planes) == 1):
            return [shape]
        invalid_if(not layout.has_name("C"), f"{color.name} needs a layout with C, got {layout}")
        found = []
        for channels, high, wide in planes:
            own = PartialShape(shape)
            own[axis_of(layout, "C", len(own))] = Dimension(channels)
            for name, part in (("H", high), ("W", wide)):
                axis = axis_of(layout, name, len(own)) if part != 1 else 0
                if part != 1 and own[axis].is_static:
                    own[axis] = Dimension(int(own[axis].get_length() * part))
            found.append(own)
        return found

    def build(self) -> tuple[list[Parameter], Output]:
        """The inputs in place of the model's, and what the steps make of them."""
        old = self._parameter
        element = self._tensor.element or old.operation.element_type
        shapes = self._planes()
        new = []
        for position, shape in enumerate(shapes):
            name = old.get_friendly_name() + self._suffix(position, len(shapes))
            new.append(Parameter(element, shape, name))
            new[-1].layout = self._tensor_layout
        first, *others = [parameter.output(0) for parameter in new]
        stage = stage_of(first, self._tensor_layout, self._tensor.color)
        stage.planes = others
        self._steps.put_into(stage)
        invalid_if(
            not stage.spec.shape.compatible(old.operation.shape),
            f"input '{old.get_friendly_name()}': the steps give {stage.output.partial_shape}, "
            f"the model takes {old.partial_shape}",
        )
        return new, stage.output

    def _suffix(self, position: int, count: int) -> str:
        """What stands behind the name of an input that is one of several planes."""
        names = self._tensor.plane_names
        return "" if count == 1 else f"/{names[position] if names else position}"

    def put(self, new: list[Parameter], made: Output) -> None:
        """Have the model read what the steps make."""
        old = self._parameter.output(0)
        for position, parameter in enumerate(new):
            suffix = self._suffix(position, len(new))
            if not suffix or self._tensor.plane_names:
                parameter.output(0).set_names({name + suffix for name in old.names})
        for target in old.get_target_inputs():
            target.replace_source_output(made)


class OutputTensorInfo(_TensorInfo):
    """What a program is given."""


class OutputModelInfo(_ModelInfo):
    """What the model gives."""


class PostProcessSteps(_Steps):
    """What is done with a tensor behind the model."""


class OutputInfo:
    """An output: what the model gives, what is done with it, what a program is given."""

    def __init__(self, result: Result) -> None:
        self._result = result
        self._tensor, self._model = OutputTensorInfo(), OutputModelInfo()
        self._steps = PostProcessSteps(self)

    def tensor(self) -> OutputTensorInfo:
        """What a program is given."""
        return self._tensor

    def postprocess(self) -> PostProcessSteps:
        """What is done with it."""
        return self._steps

    def model(self) -> OutputModelInfo:
        """What the model gives."""
        return self._model

    def to_last_type(self, stage: steps.Stage) -> None:
        """To the type of the tensor."""
        if self._tensor.element is not None:
            steps.converted(self._tensor.element)(stage)

    def to_last_layout(self, stage: steps.Stage) -> None:
        """To the layout of the tensor."""
        if self._tensor.layout is not None:
            steps.laid_out(self._tensor.layout)(stage)

    def build(self) -> steps.Stage:
        """What the steps make of what the model gives."""
        result = self._result
        source = result.sources[0]
        layout = self._model.layout or result.layout
        stage = stage_of(source, layout, ColorFormat.UNDEFINED)
        self._steps.put_into(stage)
        return stage

    def put(self, stage: steps.Stage, before: Output) -> None:
        """Have the result give what the steps make of what it gave before."""
        result = self._result
        if stage.output != before:
            source = result.sources[0]  # which inputs may have replaced meanwhile
            names = source.names
            source.set_names([])
            stage.output.add_names(names)
            result.set_argument(0, stage.output)
            result.validate_and_infer_types()
        result.layout = Layout(stage.layout.to_string())


class PrePostProcessor:
    """Steps before and behind a model, which `build` puts into it.

    >>> ppp = PrePostProcessor(model)                                  # doctest: +SKIP
    >>> ppp.input().tensor().set_element_type(Type.u8).set_layout("NHWC")  # doctest: +SKIP
    >>> ppp.input().preprocess().convert_element_type(Type.f32).scale(255.0)  # doctest: +SKIP
    >>> ppp.input().model().set_layout("NCHW")                         # doctest: +SKIP
    >>> model = ppp.build()                                            # doctest: +SKIP
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inputs = [InputInfo(p) for p in model.get_parameters()]
        self._outputs = [OutputInfo(r) for r in model.get_results()]

    def input(self, key: Any = None) -> InputInfo:
        """An input by its position or a name; the only one without a key."""
        return self._inputs[position_of(self._model.inputs, key, "input")]

    def output(self, key: Any = None) -> OutputInfo:
        """An output by its position or a name; the only one without a key."""
        return self._outputs[position_of(self._model.outputs, key, "output")]

    def build(self) -> Model:
        """Put the steps into the model, and give it. Raises RuntimeError where they do not fit."""
        with as_runtime_errors():
            made = [info.build() for info in self._inputs]
            before = [result.sources[0] for result in self._model.get_results()]
            ends = [info.build() for info in self._outputs]
            # All of it is right: from here on the model changes.
            for info, (new, output) in zip(self._inputs, made, strict=True):
                info.put(new, output)
            for end, stage, source in zip(self._outputs, ends, before, strict=True):
                end.put(stage, source)
            self._model.put_parameters([one for new, _ in made for one in new])
        return self._model

    def __repr__(self) -> str:
        steps_of = ", ".join(f"{len(info.preprocess().all)}" for info in self._inputs)
        return f"<PrePostProcessor of '{self._model.get_friendly_name()}': {steps_of} steps>"
