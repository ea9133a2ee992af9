"""How the steps of preprocessing write into graphs of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uncork.openvino._layout import Layout
from uncork.openvino._node import Constant, Node, as_output
from uncork.openvino._ports import Output
from uncork.preprocessing.formats import ColorFormat
from uncork.preprocessing.steps import Stage, Step
from uncork.types import Array, ElementType, TensorSpec


class NodeWriter:
    """Steps as nodes."""

    def spec(self, tensor: Output) -> TensorSpec:
        """What is known of an output."""
        return tensor.spec

    def constant(self, value: Array, element_type: ElementType | None) -> Any:
        """A constant."""
        if element_type is None:
            return as_output(value)
        return Constant(value, element_type=element_type).output(0)

    def layer(self, type_name: str, opset: int, inputs: Sequence[Any], **attributes: Any) -> Output:
        """The output of a new node."""
        return Node.of_type(type_name, opset, [as_output(v) for v in inputs], attributes).output(0)


def stage_of(output: Output, layout: Layout, color: ColorFormat) -> Stage:
    """An output at the beginning of its steps."""
    return Stage(NodeWriter(), output, layout, color)


def custom(function: Callable[[Output], Any]) -> Step:
    """What a function of the program makes."""

    def step(stage: Stage) -> None:
        stage.output = as_output(function(stage.output))

    return step
