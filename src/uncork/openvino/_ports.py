"""`Input` and `Output`: the ports of nodes, as programs for OpenVINO hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from uncork.openvino._any import RTMap
from uncork.openvino._attribute import attribute
from uncork.openvino._errors import invalid, not_offered
from uncork.openvino._shapes import PartialShape, Shape
from uncork.openvino._types import Type, of_element
from uncork.types import TensorSpec

if TYPE_CHECKING:
    from uncork.openvino._node import Node


def _operator(type_name: str, swapped: bool = False) -> Callable[[Any, Any], Node]:
    """An operator of two operands, the left one or `swapped`, as a layer."""

    def made(own: Any, other: Any) -> Node:
        node = own._node if isinstance(own, ConstOutput) else own
        operands = (other, own) if swapped else (own, other)
        layer: Node = node.layer_of_two(type_name, *operands, own)
        return layer

    return made


class Operators:
    """Arithmetic of outputs: `a + b`, `a * 2`. Nodes of one output have it, too."""

    __add__, __radd__ = _operator("Add"), _operator("Add", swapped=True)
    __sub__, __rsub__ = _operator("Subtract"), _operator("Subtract", swapped=True)
    __mul__, __rmul__ = _operator("Multiply"), _operator("Multiply", swapped=True)
    __truediv__, __rtruediv__ = _operator("Divide"), _operator("Divide", swapped=True)


class _Port:
    """A port of a node: its tensor's type and shape, and remarks."""

    def __init__(self, node: Node, index: int) -> None:
        self._node, self._index = node, index

    @property
    def spec(self) -> TensorSpec:
        """uncork's description of the tensor."""
        return self._node.specs[self._index]

    @property
    def _place(self) -> int:
        """A number that no other port of the node has."""
        return self._index

    def get_node(self) -> Node:
        """The node whose port it is."""
        return self._node

    node = attribute(get_node)

    def get_index(self) -> int:
        """The position among the node's inputs, or outputs."""
        return self._index

    index = attribute(get_index)

    def get_element_type(self) -> Type:
        """The element type."""
        return of_element(self.spec.element_type)

    element_type = attribute(get_element_type)

    def get_partial_shape(self) -> PartialShape:
        """The shape, of which sizes may be open."""
        return PartialShape(self.spec.shape)

    partial_shape = attribute(get_partial_shape)

    def get_shape(self) -> Shape:
        """The shape in numbers. Raises RuntimeError where a size is open."""
        return self.get_partial_shape().get_shape()

    shape = attribute(get_shape)

    def get_rt_info(self) -> RTMap:
        """Remarks at this port."""
        return RTMap(self._node.port_info.setdefault(self._place, {}))

    rt_info = attribute(get_rt_info)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Port) and other._node is self._node and other._place == self._place
        )

    def __hash__(self) -> int:
        return hash((id(self._node), self._place))


class ConstOutput(_Port):
    """An output of a node, to be read: its names, type and shape."""

    @property
    def _tensor_names(self) -> dict[str, None]:
        return self._node.names_of(self._index)

    def get_names(self) -> set[str]:
        """The names of the tensor."""
        return set(self._tensor_names)

    names = attribute(get_names)

    def get_any_name(self) -> str:
        """The first of its names in the order of letters. Raises RuntimeError where it has none."""
        if not self._tensor_names:
            raise invalid(
                f"the tensor has no name: set_names({{'name'}}) gives it one; {self!r} of "
                f"'{self._node.get_friendly_name()}'"
            )
        return min(self._tensor_names)

    any_name = attribute(get_any_name)

    def get_target_inputs(self) -> set[Input]:
        """The inputs that read it."""
        return {
            Input(node, i)
            for node in self._node.readers
            for i, source in enumerate(node.sources)
            if source._node is self._node and source._index == self._index
        }

    target_inputs = attribute(get_target_inputs)

    def get_tensor(self) -> ConstOutput:
        """The description of the tensor: this very output has its names, type and shape."""
        return self

    tensor = attribute(get_tensor)

    def __repr__(self) -> str:
        names = ", ".join(sorted(self._tensor_names))
        kind = type(self).__name__
        return (
            f"<{kind}: names[{names}] shape{self.get_partial_shape()} "
            f"type: {self.spec.element_type}>"
        )


class Output(ConstOutput, Operators):
    """An output of a node, with which further layers are made."""

    def set_names(self, names: Iterable[str]) -> None:
        """Have these names, and no others."""
        own = self._tensor_names
        own.clear()
        own.update(dict.fromkeys(names))

    def add_names(self, names: Iterable[str]) -> None:
        """Have these names, too."""
        self._tensor_names.update(dict.fromkeys(names))

    def set_rt_info(self, value: Any, key: str) -> None:
        """Put a remark at this output."""
        self.get_rt_info()[key] = value

    remove_target_input = not_offered(
        "an input cannot be left without a source: give it another one, "
        "by target.replace_source_output(output)"
    )

    def replace(self, replacement: Any) -> None:
        """Have all that read this output read another one, which takes over its names."""
        new = self._node.output_of(replacement)
        for target in self.get_target_inputs():
            if target._node is not new._node:
                target.replace_source_output(new)
        new.add_names(self._tensor_names)


class Input(_Port):
    """An input of a node, with the type and the shape of what it reads."""

    @property
    def spec(self) -> TensorSpec:
        """uncork's description of the tensor that it reads."""
        return self.get_source_output().spec

    @property
    def _place(self) -> int:
        return -1 - self._index

    def get_source_output(self) -> Output:
        """The output that it reads."""
        return self._node.sources[self._index]

    def replace_source_output(self, new: Any) -> None:
        """Read another output."""
        self._node.set_argument(self._index, new)

    def get_tensor(self) -> ConstOutput:
        """The description of the tensor that it reads."""
        return self.get_source_output()

    tensor = attribute(get_tensor)

    def set_rt_info(self, value: Any, key: str) -> None:
        """Put a remark at this input."""
        self.get_rt_info()[key] = value

    def __repr__(self) -> str:
        return f"<Input: shape{self.get_partial_shape()} type: {self.get_element_type()._element}>"
