"""`Node`, with `Parameter`, `Result` and `Constant`: layers that may be changed, as programs for
OpenVINO hold them.

A node knows the outputs that it reads; who reads it is noted at it, weakly. The frozen layers of
uncork are made of nodes when a model is compiled or written (`_graph.py`).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork import storage
from uncork.errors import Label, UncorkError
from uncork.internal_ops.packed_const import PackedConst
from uncork.ir import graph
from uncork.openvino._any import OVAny, RTMap
from uncork.openvino._attribute import attribute
from uncork.openvino._errors import (
    as_runtime_errors,
    invalid,
    not_offered,
    unsupported,
    wrong_input,
)
from uncork.openvino._layout import Layout, as_layout
from uncork.openvino._ports import ConstOutput, Input, Operators, Output
from uncork.openvino._shapes import PartialShape, Shape, Strides, core_shape
from uncork.openvino._tensor import Tensor
from uncork.openvino._types import Type, element_of, of_element
from uncork.openvino._values import attribute_value, constant_of, shown_value
from uncork.ops import Operation, find
from uncork.ops import parameter as ends
from uncork.types import Array, ElementType, TensorSpec
from uncork.types import PartialShape as CoreShape

#: Types whose name in the file is another one than programs see.
TYPE_NAMES = {"Const": "Constant", "ReLU": "Relu", "SoftMax": "Softmax", "PReLU": "PRelu"}
_numbers = itertools.count()


class DiscreteTypeInfo(Struct, frozen=True):
    """The type of a layer: its name and the opset that it is of."""

    name: str
    version_id: str

    def get_version(self) -> str:
        """The opset."""
        return self.version_id

    def __repr__(self) -> str:
        return f"<DiscreteTypeInfo: {self.name} {self.version_id}>"


class Named:
    """What has a name of its own, and may be given another one: nodes and models."""

    _name: str
    _own_name: str

    def get_name(self) -> str:
        """A name that nothing else has."""
        return self._own_name

    name = attribute(get_name)

    def get_friendly_name(self) -> str:
        """The name in the model's file."""
        return self._name or self._own_name

    def set_friendly_name(self, name: str) -> None:
        """Have this name."""
        self._name = name

    friendly_name = attribute(get_friendly_name, set_friendly_name)


class Node(Named, Operators):
    """A layer: an operation, the outputs that it reads, and those that it gives."""

    def __init__(
        self,
        operation: Operation,
        sources: Sequence[Output] = (),
        name: str | None = None,
        record: graph.Node | None = None,
        described: bool = True,
    ) -> None:
        """A layer that is new, or, with a `record`, one of a file. Where it is not `described`, its
        operation does not say yet what it gives.
        """
        self.operation = operation
        self.sources: list[Output] = []
        #: What the file said beside all this.
        self.record = record
        self.readers: weakref.WeakSet[Node] = weakref.WeakSet()
        self.specs: tuple[TensorSpec, ...] = ()
        self.tensor_names: list[dict[str, None]] = []
        self.port_info: dict[int, dict[str, Any]] = {}
        self._info: dict[str, Any] = {}
        self._name = name or ""
        self._own_name = f"{self.get_type_name()}_{next(_numbers)}"
        for source in sources:
            self.sources.append(source)
            source._node.readers.add(self)
        if not described:
            return
        if record is None:
            with as_runtime_errors():
                self.operation = operation.specialised([s.spec for s in self.sources])
                self._describe()
        else:
            self._give(tuple(port.spec for port in record.outputs))
            self.tensor_names = [dict.fromkeys(port.names) for port in record.outputs]

    @staticmethod
    def of_type(
        type_name: str,
        opset: int,
        sources: Sequence[Output],
        attributes: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> Node:
        """A new layer of an operation of the registry."""
        kind = find(type_name, opset)
        if kind is None:
            raise unsupported(f"there is no operation {type_name} in opset {opset}")
        with as_runtime_errors():
            kind.refuse_unknown(attributes or {}, kind.attributes)
            operation = kind(**attributes or {})
        return Node(operation, sources, name)

    def _describe(self) -> None:
        """Find the specs of the outputs from those of the inputs."""
        try:
            self._give(self.operation.describe([s.spec for s in self.sources]))
        except UncorkError as error:
            name = self.get_friendly_name()
            where = f"layer '{name}' ({self.operation.label()})"
            raise error.at(Label(where, name)) from None

    def _give(self, specs: tuple[TensorSpec, ...]) -> None:
        self.specs = specs
        self.tensor_names += [{} for _ in specs[len(self.tensor_names) :]]

    def names_of(self, index: int) -> dict[str, None]:
        """The names of the tensor that an output gives, in their order."""
        return self.tensor_names[index]

    def output_of(self, value: Any) -> Output:
        """The output that a program means by a node, an output or a number."""
        return as_output(value)

    def layer_of_two(self, type_name: str, left: Any, right: Any, like: Any) -> Node:
        """A layer of two sides, of which one may be a number of the type of `like`."""
        kind = as_output(like)
        return Node.of_type(type_name, 1, [as_output(left, kind), as_output(right, kind)])

    # ---- what it is

    def get_type_name(self) -> str:
        """The type, such as "MatMul"."""
        name = self.operation.type_name
        return TYPE_NAMES.get(name, name)

    def get_type_info(self) -> DiscreteTypeInfo:
        """The type with its opset."""
        opset = f"opset{self.operation.opset}" if self.record is None else self.record.opset
        return DiscreteTypeInfo(self.get_type_name(), opset)

    type_info = attribute(get_type_info)

    def get_instance_id(self) -> int:
        """A number that no other node has."""
        return int(self._own_name.rpartition("_")[2])

    def get_attributes(self) -> dict[str, Any]:
        """The attributes by name, as the file spells them."""
        found = {
            name.replace("exclude_pad", "exclude-pad"): shown_value(getattr(self.operation, name))
            for name in self.operation.attributes
        }
        if found.get("auto_broadcast_axis") == -1:  # which says nothing
            del found["auto_broadcast_axis"]
        return found

    def set_attribute(self, name: str, value: Any) -> None:
        """Set an attribute. Raises RuntimeError for one that the operation does not take."""
        with as_runtime_errors():
            self.operation = self.operation.replace(**{name: attribute_value(value)})
            self._describe()

    visit_attributes = not_offered(
        "there are no visitors: get_attributes() and set_attribute(name, value)"
    )

    # ---- what it reads

    def get_input_size(self) -> int:
        """The number of inputs."""
        return len(self.sources)

    def input(self, index: int = 0) -> Input:
        """An input by its position."""
        if not 0 <= index < len(self.sources):
            raise invalid(f"{self!r} has {len(self.sources)} inputs, none at {index}")
        return Input(self, index)

    def inputs(self) -> list[Input]:
        """The inputs."""
        return [Input(self, i) for i in range(len(self.sources))]

    def input_value(self, index: int) -> Output:
        """The output that an input reads."""
        return self.input(index).get_source_output()

    def input_values(self) -> list[Output]:
        """The outputs that the inputs read."""
        return list(self.sources)

    def get_input_element_type(self, index: int) -> Type:
        """The element type of an input."""
        return self.input(index).get_element_type()

    def get_input_partial_shape(self, index: int) -> PartialShape:
        """The shape of an input."""
        return self.input(index).get_partial_shape()

    def get_input_shape(self, index: int) -> Shape:
        """The shape of an input in numbers."""
        return self.input(index).get_shape()

    def get_input_tensor(self, index: int) -> ConstOutput:
        """The description of the tensor that an input reads."""
        return self.input_value(index)

    def set_argument(self, index: int, source: Any) -> None:
        """Have an input read another output."""
        new, old = as_output(source), self.input_value(index)
        self.sources[index] = new
        new._node.readers.add(self)
        if all(s._node is not old._node for s in self.sources):
            old._node.readers.discard(self)

    def set_arguments(self, sources: Any) -> None:
        """Have the inputs read these outputs."""
        if isinstance(sources, Node):
            sources = sources.outputs()
        for old in self.sources:
            old._node.readers.discard(self)
        self.sources = [as_output(s) for s in sources]
        for source in self.sources:
            source._node.readers.add(self)
        self.validate_and_infer_types()

    # ---- what it gives

    def get_output_size(self) -> int:
        """The number of outputs."""
        return len(self.specs)

    def output(self, index: int = 0) -> Output:
        """An output by its position."""
        if not 0 <= index < len(self.specs):
            raise invalid(f"{self!r} has {len(self.specs)} outputs, none at {index}")
        return Output(self, index)

    def __getitem__(self, index: int) -> Output:
        return self.output(index)

    def outputs(self) -> list[Output]:
        """The outputs."""
        return [Output(self, i) for i in range(len(self.specs))]

    def get_output_element_type(self, index: int) -> Type:
        """The element type of an output."""
        return self.output(index).get_element_type()

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """The shape of an output."""
        return self.output(index).get_partial_shape()

    def get_output_shape(self, index: int) -> Shape:
        """The shape of an output in numbers."""
        return self.output(index).get_shape()

    def get_output_tensor(self, index: int) -> ConstOutput:
        """The description of the tensor of an output."""
        return self.output(index)

    def get_element_type(self) -> Type:
        """The element type of the only output."""
        return as_output(self).get_element_type()

    @property
    def shape(self) -> Shape:
        """The shape of the only output, in numbers."""
        return as_output(self).get_shape()

    set_output_type = not_offered(
        "what a layer gives follows from its operation and inputs: it cannot be set"
    )
    set_output_size = not_offered(
        "how many outputs a layer has follows from its operation: it cannot be set"
    )

    def validate_and_infer_types(self) -> None:
        """Find types and shapes of the outputs anew."""
        with as_runtime_errors():
            self._describe()

    def constructor_validate_and_infer_types(self) -> None:
        """The same as `validate_and_infer_types()`."""
        self.validate_and_infer_types()

    def evaluate(self, output_values: list[Tensor], input_values: list[Tensor]) -> bool:
        """Compute the layer on tensors, by its definition."""
        from uncork.types import TensorSpec as Spec

        with as_runtime_errors():
            given = []
            for source, tensor in zip(self.sources, input_values, strict=True):
                element = source.spec.element_type
                array = storage.encode(tensor.values(), element)
                given.append(Spec(element, CoreShape(array.shape), array))
            for tensor, spec in zip(output_values, self.operation.evaluate(given), strict=True):
                values = storage.decode(spec.known, spec.element_type)
                tensor.copy_from(Tensor.of_carrier(spec.element_type, values))
        return True

    # ---- remarks

    def get_rt_info(self) -> RTMap:
        """Remarks of this layer, for this process: they are not written to files."""
        return RTMap(self._info)

    rt_info = attribute(get_rt_info)

    def set_rt_info(self, value: Any, key: str) -> None:
        """Put a remark at this layer."""
        self._info[key] = value.value if isinstance(value, OVAny) else value

    def __repr__(self) -> str:
        shapes = ", ".join(str(o.get_partial_shape()) for o in self.outputs())
        return f"<{self.get_type_name()}: '{self.get_friendly_name()}' ({shapes})>"


class _Border(Node):
    """A node at which tensors enter or leave a model."""

    layout: Layout

    def get_layout(self) -> Layout:
        """What its axes are."""
        return self.layout

    def set_layout(self, layout: Any) -> None:
        """Say what its axes are."""
        self.layout = as_layout(layout)


class Parameter(_Border):
    """An input of a model."""

    operation: ends.Parameter

    def __init__(
        self,
        element_type: Any = None,
        shape: Any = None,
        name: str | None = None,
        record: graph.Node | None = None,
        operation: ends.Parameter | None = None,
    ) -> None:
        made = operation or ends.Parameter(
            element_type=element_of(element_type), shape=core_shape(shape)
        )
        super().__init__(made, (), name, record)
        self.layout = Layout()

    def set_element_type(self, element_type: Any) -> None:
        """Take values of another type, once the model is validated."""
        self._become(
            ends.Parameter(element_type=element_of(element_type), shape=self.operation.shape)
        )

    def set_partial_shape(self, shape: Any) -> None:
        """Take another shape, once the model is validated."""
        self._become(
            ends.Parameter(element_type=self.operation.element_type, shape=core_shape(shape))
        )

    def _become(self, operation: ends.Parameter) -> None:
        self.operation = operation
        self._describe()

    @property
    def element_type(self) -> Type:
        """The type that it takes."""
        return of_element(self.operation.element_type)

    @element_type.setter
    def element_type(self, value: Any) -> None:
        self.set_element_type(value)

    def get_partial_shape(self) -> PartialShape:
        """The shape that it takes."""
        return PartialShape(self.operation.shape)

    partial_shape = attribute(get_partial_shape, set_partial_shape)


class Result(_Border):
    """An output of a model."""

    def __init__(
        self, source: Any, name: str | None = None, record: graph.Node | None = None
    ) -> None:
        super().__init__(ends.Result(), [as_output(source)], name)
        self.record = record
        self.layout = Layout()

    def names_of(self, index: int) -> dict[str, None]:
        """The names of the tensor that it takes: what it gives is that very tensor."""
        source = self.sources[0]
        return source._node.names_of(source._index)


class Constant(Node):
    """A constant."""

    operation: ends.Const

    def __init__(
        self,
        value: Any = None,
        shared_memory: bool = False,
        name: str | None = None,
        record: graph.Node | None = None,
        operation: ends.Const | None = None,
        element_type: Any = None,
    ) -> None:
        made = operation or constant_of(value, element_type, shared_memory)
        super().__init__(made, (), name, record)

    @property
    def data(self) -> Array:
        """The values; of types of less than a byte, the bytes of the file. They do not change."""
        made, element = self.operation, self.operation.element_type
        if isinstance(made, PackedConst):
            return np.asarray(made.packed)
        if element is ElementType.string:
            return np.asarray(made.value.astype(str))
        if element is ElementType.bf16:
            return np.asarray(made.value.view(np.float16))
        if element.is_packed:
            return np.frombuffer(bytes(storage.pack(made.value, element)), np.uint8)
        shown: Array = made.value.view()
        shown.flags.writeable = False
        return shown

    def get_data(self, *, dtype: Any = None) -> Array:
        """The values, as another type of NumPy if one is given."""
        if dtype is None:
            return self.data
        return storage.decode(self.operation.value, self.operation.element_type).astype(dtype)

    value = data

    def get_vector(self) -> Array:
        """The values in one row."""
        return storage.decode(self.operation.value, self.operation.element_type).reshape(-1)

    def get_value_strings(self) -> list[str]:
        """The values as texts."""
        return [str(value) for value in self.get_vector().tolist()]

    def get_byte_size(self) -> int:
        """Bytes of the values."""
        return storage.packed_size(self.operation.element_type, self.operation.count)

    def get_strides(self) -> Strides:
        """Bytes from one element to the next, along each axis."""
        return Strides(self.operation.value.strides)

    strides = attribute(get_strides)

    def get_tensor_view(self) -> Tensor:
        """The values as a tensor."""
        operation = self.operation
        shown = storage.decode(operation.value, operation.element_type)
        return Tensor.of_carrier(operation.element_type, shown)

    tensor_view = attribute(get_tensor_view)


def as_output(value: Any, like: ConstOutput | None = None) -> Output:
    """The output that a program means: itself, a node's only one, or that of a new constant.

    A number becomes a constant of the type of `like`.
    """
    if isinstance(value, Output):
        return value
    if isinstance(value, ConstOutput):
        return Output(value._node, value._index)
    if isinstance(value, Node):
        if len(value.specs) != 1:
            raise invalid(f"{value!r} has {len(value.specs)} outputs, so say which: node.output(0)")
        return Output(value, 0)
    if isinstance(value, Input):
        raise wrong_input("expected an output of a layer, got an input: .get_source_output()")
    plain = not isinstance(value, (np.ndarray, np.generic, Tensor))
    element = like.spec.element_type if like is not None and plain else None
    return Output(Constant(value, element_type=element), 0)
