"""`Builder`: a `Model` from Python, layer by layer.

What it builds is what `write_model` writes and OpenVINO reads.

builder = Builder("bags")
table = builder.constant(weights)                       # [rows, columns] float32
ids, offsets = builder.parameter("ids", "i64", [None]), builder.parameter("offsets", "i64", [None])
(bags,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)
builder.result(bags, "bags")
write_model(builder.model(), "bags.xml")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from uncork.errors import Label, UncorkError, UnsupportedError, ValidationError
from uncork.ir.bodies import graphs_of
from uncork.ir.diagnostics import advice
from uncork.ir.model import Model, Node, Port, Source, XmlElement, node_of
from uncork.ops import Operation, find
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.ops.parameter import Const, Parameter, Result
from uncork.storage import encode
from uncork.types import Array, DimensionLike, ElementType, PartialShape, TensorSpec, describe_array

Kind = TypeVar("Kind", bound=Operation)


class Builder:
    """Collects layers; every layer is checked as it is added, so a mistake is raised at the call
    that made it.
    """

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self._nodes: list[Node] = []
        self._specs: dict[Source, TensorSpec] = {}
        self._info: dict[str, str] = {}

    def parameter(
        self,
        name: str,
        element_type: ElementType | str,
        shape: PartialShape | Sequence[DimensionLike | tuple[int, int | None]],
    ) -> Source:
        """Add an input of the model; None or -1 is a dynamic dimension, (2, 8) one from 2 to 8."""
        shape = shape if isinstance(shape, PartialShape) else PartialShape(shape)
        return self._append(
            Parameter(element_type=_type_of_name(element_type), shape=shape), name, (), (name,)
        )[0]

    def constant(
        self, value: npt.ArrayLike, element_type: ElementType | str | None = None, name: str = ""
    ) -> Source:
        """Add a constant.

        `value` is in the carrier dtype of `element_type`; without one, NumPy's type says it. For
        types of floats that NumPy has not (bf16, f8e4m3, ..), whole numbers are codes, and floats
        are numbers, which become the nearest ones of the type.

        An array is not copied: it is the caller's to leave it as it is while the model lives.
        """
        array = np.asarray(value)
        element_type = (
            ElementType.of_dtype(array.dtype)
            if element_type is None
            else _type_of_name(element_type)
        )
        if element_type is None:
            raise ValidationError(f"there is no element type for arrays of {array.dtype}")
        carried = _carried(array, element_type, isinstance(value, (np.ndarray, np.generic)))
        operation = Const(element_type=element_type, shape=PartialShape(array.shape), value=carried)
        return self._append(operation, name, (), ())[0]

    def add(
        self,
        type_name: str,
        opset: int,
        *inputs: Source,
        name: str = "",
        tensor_names: Sequence[str] = (),
        **attributes: Any,
    ) -> tuple[Source, ...]:
        """Add a layer of any registered operation; attributes by keyword. Returns its outputs."""
        cls = find(type_name, opset)
        if cls is None:
            operation = f"{type_name}@opset{opset}"
            raise UnsupportedError(
                f"operation {operation} is not supported{advice(operation, 'did you mean')}"
            )
        return self._append(_of_attributes(cls, attributes), name, inputs, tensor_names)

    def add_operation(
        self,
        operation: Operation,
        *inputs: Source,
        name: str = "",
        tensor_names: Sequence[str] = (),
    ) -> tuple[Source, ...]:
        """Add a layer of an operation that is there, such as one of another model. Returns its
        outputs; `tensor_names` are those of the first.
        """
        return self._append(operation, name, inputs, tensor_names)

    def add_with_bodies(
        self,
        type_name: str,
        opset: int,
        *inputs: Source,
        bodies: Mapping[str, BodyMap],
        name: str = "",
        **attributes: Any,
    ) -> tuple[Source, ...]:
        """Add a layer with sub-graphs (If, Loop, TensorIterator).

        A body is `BodyMap(GraphBody(model), inputs, outputs, back_edges)`.
        """
        cls = find(type_name, opset)
        if cls is None or not issubclass(cls, SubGraphOperation):
            raise UnsupportedError(f"{type_name}@opset{opset} is not an operation with sub-graphs")
        operation = _of_attributes(cls, attributes).with_bodies(bodies)
        return self._append(operation, name, inputs, ())

    def result(self, source: Source, name: str = "") -> None:
        """Add an output of the model; `name` becomes a name of its tensor."""
        if name:
            node = self._nodes[source.node]
            ports = [
                replace(p, names=(*p.names, name)) if i == source.output else p
                for i, p in enumerate(node.outputs)
            ]
            self._nodes[source.node] = replace(node, outputs=tuple(ports))
        self._append(Result(), f"{name or 'output'}/result" if name else "", (source,), ())

    def info(self, name: str, value: object) -> None:
        """Add a line of runtime information (`rt_info`) of the model.

        `group/name` is one of a group, as "model_info/labels".
        """
        self._info[name] = str(value)

    def spec(self, source: Source) -> TensorSpec:
        """What is known of a tensor."""
        return self._spec(source)

    def node(self, source: Source) -> Node:
        """The layer that gives a tensor."""
        self._spec(source)
        return self._nodes[source.node]

    def model(self) -> Model:
        """What was built so far."""
        info = _grouped(self._info)
        return Model(
            name=self.name,
            ir_version=11,
            nodes=tuple(self._nodes),
            parameters=self._of_type("Parameter"),
            results=self._of_type("Result"),
            sinks=self._of_type("Assign"),
            extras=(XmlElement("rt_info", children=info),),
            source=self.name,
        )

    def _spec(self, source: Source) -> TensorSpec:
        if isinstance(source, (tuple, list)) and not isinstance(source, Source):
            given = f"{len(source)} in a {type(source).__name__}"
            raise ValidationError(
                f"expected an output of a layer, got {given}: name one, as in `add(...)[0]`"
            )
        ValidationError.when(
            source not in self._specs,
            f"expected outputs of layers of this builder as inputs, got {source}",
        )
        return self._specs[source]

    def _of_type(self, type_name: str) -> tuple[int, ...]:
        return tuple(n.id for n in self._nodes if n.type_name == type_name)

    def _inferred(
        self, operation: Operation, given: Sequence[TensorSpec]
    ) -> tuple[Operation, Sequence[TensorSpec]]:
        """The operation for such inputs, and what it gives."""
        operation = operation.specialised(given)
        return operation, operation.describe(given)

    def _append(
        self, operation: Operation, name: str, inputs: Sequence[Source], tensor_names: Sequence[str]
    ) -> tuple[Source, ...]:
        node_id = len(self._nodes)
        name = name or f"{operation.type_name}_{node_id}"
        try:
            operation, specs = self._inferred(operation, [self._spec(source) for source in inputs])
        except UncorkError as error:
            raise error.at(Label(f"layer '{name}' ({operation.label()})", name)) from None
        ports = tuple(
            Port(spec, tuple(tensor_names) if i == 0 else ()) for i, spec in enumerate(specs)
        )
        if operation.type_name == "Result":
            ports = ()
        self._nodes.append(node_of(node_id, name, operation, inputs, ports, graphs_of(operation)))
        sources = tuple(Source(node_id, i) for i in range(len(ports)))
        self._specs.update(zip(sources, specs, strict=False))
        return sources


def _type_of_name(element_type: ElementType | str) -> ElementType:
    if isinstance(element_type, ElementType):
        return element_type
    try:
        return ElementType.parse(element_type)
    except KeyError:
        raise ValidationError(
            f"expected an element type such as f32 or i64, got '{element_type}'"
        ) from None


def _carried(array: Array, element_type: ElementType, typed: bool) -> Array:
    """A constant's array in its carrier dtype.

    Nothing is narrowed silently; only Python's floats become the nearest f32, and floats the
    nearest of types that NumPy has not.
    """
    if element_type is ElementType.string:
        wrong = [v for v in array.astype(object).flat if not isinstance(v, str)]
        if wrong:
            raise ValidationError(f"expected strings, got {type(wrong[0]).__name__}")
        return array.astype(object)
    if element_type.is_native and element_type.is_float and array.dtype.kind == "f" and not typed:
        return array.astype(element_type.dtype)
    if element_type.is_float and not element_type.is_native and array.dtype.kind == "f":
        return encode(array, element_type)
    with np.errstate(all="ignore"):
        carried = array.astype(element_type.dtype, copy=False)
        if array.dtype.kind in "iu" and carried.dtype.kind == "f":
            # Python's numbers: float64 rounds large integers
            same = bool((carried.astype(object) == array.astype(object)).all())
        else:
            same = (array.dtype.kind == "b") == (carried.dtype.kind == "b")
            same = same and np.array_equal(carried, array, equal_nan=carried.dtype.kind == "f")
    if same and element_type.is_packed:
        # The bits that the file has for a value, and no more.
        low = -8 if element_type is ElementType.i4 else 0
        same = bool(((carried >= low) & (carried < low + (1 << element_type.bits))).all())
    if not same:
        carrier = "" if element_type.is_native else f" (their codes, in {element_type.dtype})"
        raise ValidationError(
            f"expected values of {element_type}{carrier}, got {describe_array(array)} with others"
        )
    return carried


def _grouped(info: Mapping[str, str]) -> tuple[XmlElement, ...]:
    """Lines as `<info name= value=>`.

    Lines of a group are `<group><name value=>`, as OpenVINO writes them.
    """
    lines: list[XmlElement] = []
    groups: dict[str, list[XmlElement]] = {}
    for name, value in info.items():
        group, _, own = name.rpartition("/")
        if group:
            groups.setdefault(group, []).append(XmlElement(own, (("value", value),)))
        else:
            lines.append(XmlElement("info", (("name", name), ("value", value))))
    return (
        *lines,
        *(XmlElement(group, children=tuple(children)) for group, children in groups.items()),
    )


def _of_attributes(kind: type[Kind], attributes: Mapping[str, Any]) -> Kind:
    """An operation made of attributes alone, as a file has them."""
    kind.refuse_unknown(attributes, kind.attributes)
    return kind(**attributes)
