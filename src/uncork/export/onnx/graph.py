"""`Graph`: what a lowering writes ONNX nodes with. It names nodes after layers, adds constants and
casts where types need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Union

import numpy as np

from uncork.errors import UnsupportedError
from uncork.export.onnx.inference import shape_of
from uncork.export.onnx.names import Names
from uncork.export.onnx.signatures import SIGNATURES, carrier, computed_in
from uncork.export.onnx.tensors import small_tensor
from uncork.internal_ops.derived import Derived
from uncork.ir.model import Node
from uncork.onnx.types import ONNX_TYPES
from uncork.ops.parameter import Const
from uncork.types import DYNAMIC, Array, Element, ElementType, PartialShape, TensorSpec

I64 = ElementType.i64
BOOLEAN = ElementType.boolean
#: Integers that onnxruntime does not compare right everywhere.
WIDE = (ElementType.i64, ElementType.u64)
#: Constants up to this many elements are looked at when nodes are chosen.
KNOWN = 4096


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor: its name, the IR's element type and what is known of shape and value."""

    name: str
    type: ElementType
    shape: PartialShape = field(default_factory=PartialShape)
    value: Array | None = None
    elements: tuple[Element, ...] | None = None

    @property
    def rank(self) -> int | None:
        return self.shape.rank

    def known(self) -> list[int] | None:
        """The elements of an integer tensor, in order, where they are all known."""
        return None if self.value is None else [int(v) for v in np.asarray(self.value).reshape(-1)]


#: What `Graph.op` takes: a tensor, numbers (of them a constant is made), or nothing at this port.
Operand = Union[Tensor, Array, int, Sequence[int], None]


@dataclass
class State:
    """A variable as extra inputs, which have a value for the first call, and an extra output."""

    type: ElementType
    value: Tensor
    #: For a variable that the model gives its first value: whether the input `value` holds one.
    is_set: Tensor | None = None
    #: What the inputs are when they are not given, by name.
    initial: dict[str, Any] = field(default_factory=dict)
    #: What is assigned, None where the model only reads.
    new: Tensor | None = None
    output: str = ""


@dataclass
class Settings:
    """The state that all graphs of a model share."""

    opset: int
    approximate: bool = False
    names: Names = field(default_factory=Names)
    #: What was approximated: layer and reason.
    approximations: list[tuple[str, str]] = field(default_factory=list)
    #: The constants of the model, whose bytes are filled in, or streamed, at the end: name of the
    #: initializer and the constant.
    weights: dict[str, Const] = field(default_factory=dict)
    #: Small constants that nodes read, by name.
    constants: dict[str, Tensor] = field(default_factory=dict)
    #: The variables of the model, by their ids.
    states: dict[str, State] = field(default_factory=dict)


class Graph:
    """A graph under construction: the model's, or one inside a node."""

    def __init__(self, settings: Settings) -> None:
        from onnx import helper

        self._helper = helper
        self.settings = settings
        self.is_body = False
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        #: Of each layer: its inputs and outputs, and the nodes between them.
        self.layers: list[tuple[Node, Sequence[Tensor], Sequence[Tensor], Sequence[Any]]] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}
        #: Tensors that are an output of the graph already.
        self.claimed: set[str] = set()
        #: The layer that is being lowered: its name, what messages call it, and the specs of its
        #: outputs.
        self.layer = ""
        self.label = ""
        self.outputs: tuple[TensorSpec, ...] = ()

    @property
    def opset(self) -> int:
        return self.settings.opset

    # ---- nodes

    def op(
        self,
        op_type: str,
        *inputs: Operand,
        type: ElementType | None = None,
        shape: PartialShape | Sequence[int | None] | None = None,
        **attributes: Any,
    ) -> Tensor:
        """Add a node; returns its first output. `type` is its element type where it is not that of
        the first typed input.
        """
        return self.ops(op_type, *inputs, types=(type,), shape=shape, **attributes)[0]

    def ops(
        self,
        op_type: str,
        *inputs: Operand,
        types: Sequence[ElementType | None] = (None,),
        shape: PartialShape | Sequence[int | None] | None = None,
        **attributes: Any,
    ) -> list[Tensor]:
        """Add a node; returns all its outputs, one for each of `types`."""
        tensors = [self._operand(i) for i in inputs]
        while tensors and tensors[-1] is None:
            tensors.pop()
        if (
            op_type in ("Min", "Max")
            and len(tensors) == 2
            and tensors[0] is not None
            and tensors[0].type in WIDE
        ):
            return self._extreme(op_type, *(t for t in tensors if t is not None))
        signature = SIGNATURES.get(op_type)
        typed = [
            t
            for i, t in enumerate(tensors)
            if t is not None and (signature is None or signature.typed(i))
        ]
        own = typed[0].type if typed else None
        wide = None if own is None else self._wide(op_type, own)
        if signature is not None and wide is not None and wide is not carrier(own or wide):
            tensors = [
                t and (self.cast(t, wide) if signature.typed(i) else t)
                for i, t in enumerate(tensors)
            ]
        else:
            wide = None
        fixed = signature.result if signature else None
        if shape is None and len(types) == 1:
            given = [t for t in tensors if t is not None]
            shape = shape_of(
                op_type, [t.shape for t in given], [t.value for t in given], attributes
            )
        layout = (
            PartialShape()
            if shape is None
            else shape
            if isinstance(shape, PartialShape)
            else PartialShape(shape)
        )
        results: list[Tensor] = []
        for stated in types:
            result = stated or fixed or own
            assert result is not None, op_type
            name = self.settings.names.unique(f"{self.layer}/{op_type}")
            actual = wide if wide is not None and stated is None and fixed is None else result
            results.append(Tensor(name, actual, layout))
        self.append(op_type, tensors, results, attributes)
        if wide is None:
            return results
        return [self._narrow(r, own) if r.type is wide and own else r for r in results]

    def _extreme(self, op_type: str, a: Tensor, b: Tensor) -> list[Tensor]:
        """Min and Max of 64-bit numbers by a comparison, as onnxruntime's nodes read 32 bits where
        one of them is a scalar.
        """
        return [self.op("Where", self.op("Less" if op_type == "Min" else "Greater", a, b), a, b)]

    def _narrow(self, result: Tensor, own: ElementType) -> Tensor:
        """The result cast back from the type that the node computed in; codes of small types are
        their carrier again.
        """
        return replace(self.cast(result, carrier(own)), type=own)

    def _wide(self, op_type: str, own: ElementType) -> ElementType:
        computed = computed_in(op_type, carrier(own))
        if computed is None and own is ElementType.f64:
            single = computed_in(op_type, ElementType.f32)
            if single is not None:
                self.approximate(f"{op_type} of f64 is computed in {single}")
                return single
        if computed is None:
            self.refuse(f"ONNX's {op_type} takes no {own}")
        return computed

    def append(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        attributes: dict[str, Any],
    ) -> None:
        """A node between tensors that are there; most callers want `op`."""
        attributes = {k: v for k, v in attributes.items() if v is not None}
        names = ["" if i is None else i.name for i in inputs]
        node = self._helper.make_node(
            op_type, names, [o.name for o in outputs], name=outputs[0].name, **attributes
        )
        self.nodes.append(node)

    def _operand(self, value: Operand) -> Tensor | None:
        if value is None or isinstance(value, Tensor):
            return value
        return self.constant(value if isinstance(value, np.ndarray) else np.array(value, np.int64))

    # ---- constants

    def constant(
        self, value: Any, element_type: ElementType | None = None, hint: str = ""
    ) -> Tensor:
        """A constant tensor, one and the same for equal values. Without a type it has the element
        type of its NumPy dtype.
        """
        array = np.asarray(value) if element_type is None else np.asarray(value, element_type.dtype)
        element_type = element_type or ElementType.of_dtype(array.dtype)
        assert element_type is not None, array.dtype
        key = (
            element_type.name,
            array.shape,
            repr(array.tolist()).encode() if array.dtype == object else array.tobytes(),
        )
        if key not in self._constants:
            name = self.settings.names.unique(hint or f"{self.layer}/const")
            self.initializers[name] = small_tensor(name, array, carrier(element_type))
            self._constants[key] = Tensor(
                name,
                element_type,
                PartialShape(array.shape),
                array if array.size <= KNOWN else None,
            )
            self.settings.constants[name] = self._constants[key]
        return self._constants[key]

    def derived(
        self, tensor: Tensor, shape: Sequence[int], function: Callable[[Array], Array]
    ) -> Tensor | None:
        """A constant that a function computes from a constant of the model when that is written;
        None where it is no such constant.
        """
        constant = self.settings.weights.get(tensor.name)
        if constant is None or not tensor.type.is_native or tensor.type.kind == "string":
            return None
        name = self.settings.names.unique(f"{tensor.name}/{self.layer}")
        derived = Derived(
            element_type=tensor.type, shape=PartialShape(shape), base=constant, function=function
        )
        self.settings.weights[name] = derived
        return Tensor(name, tensor.type, derived.shape)

    def number(self, value: float, like: Tensor) -> Tensor:
        """A scalar of the element type of another tensor."""
        if like.type is ElementType.bf16:
            from uncork.storage import encode

            return self.constant(encode(np.array(value, np.float32), like.type), like.type)
        return self.constant(np.array(value, like.type.dtype), like.type)

    def cast(self, tensor: Tensor, to: ElementType) -> Tensor:
        """The values in another element type by ONNX's Cast; itself where it has that type."""
        if tensor.type is to:
            return tensor
        if (
            tensor.value is not None
            and tensor.type.is_native
            and to.is_native
            and (not tensor.type.is_float or to.is_float)
        ):
            return self.constant(np.asarray(tensor.value).astype(to.dtype), to)
        name = self.settings.names.unique(f"{self.layer}/Cast")
        result = Tensor(name, to, tensor.shape)
        self.append("Cast", [tensor], [result], {"to": ONNX_TYPES[carrier(to)]})
        return result

    # ---- shapes

    def shape(self, tensor: Tensor) -> Tensor:
        """The shape as a 1-D i64 tensor, a constant where it is known."""
        if tensor.shape.is_static:
            return self.constant(np.array(tensor.shape.static, np.int64))
        return self.op("Shape", tensor, type=I64, shape=[tensor.rank])

    def dim(self, tensor: Tensor, axis: int) -> Tensor:
        """One dimension as an i64 tensor of one element."""
        rank = self.rank(tensor)
        axis %= rank
        if tensor.shape[axis].is_static:
            return self.constant(np.array([int(tensor.shape[axis])], np.int64))
        return self.op("Shape", tensor, type=I64, shape=[1], start=axis, end=axis + 1)

    def dims(self, tensor: Tensor, start: int, end: int) -> Tensor:
        """Some dimensions as a 1-D i64 tensor."""
        part = tensor.shape[start:end]
        if part.is_static:
            return self.constant(np.array(part.static, np.int64))
        return self.op("Shape", tensor, type=I64, shape=[end - start], start=start, end=end)

    def rank(self, tensor: Tensor) -> int:
        """The rank; a tensor whose rank is not known is refused."""
        if tensor.rank is None:
            self.refuse("the rank of an input is not known, and ONNX's nodes need it")
        return tensor.rank

    def reshape(self, tensor: Tensor, shape: Operand, known: Sequence[Any] | None = None) -> Tensor:
        """The same elements in another shape, by ONNX's Reshape without copied zeros."""
        target = self._operand(shape)
        assert target is not None
        if known is None:
            numbers = target.known()
            known = None if numbers is None else [None if n == -1 else n for n in numbers]
        if (
            target.value is not None
            and tensor.shape.is_static
            and list(tensor.shape.static) == target.known()
        ):
            return tensor
        if target.value is not None and tensor.value is not None and tensor.type.is_native:
            return self.constant(
                np.asarray(tensor.value).reshape(target.known() or []), tensor.type
            )
        return self.op("Reshape", tensor, target, shape=known, allowzero=1)

    def squeeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The tensor without these dimensions of size 1."""
        if not axes:
            return tensor
        dims = (
            None
            if tensor.rank is None
            else [d for i, d in enumerate(tensor.shape) if i not in {a % tensor.rank for a in axes}]
        )
        return self.op(
            "Squeeze", tensor, list(axes), shape=None if dims is None else PartialShape(dims)
        )

    def unsqueeze(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """The tensor with dimensions of size 1 inserted at these places of the result."""
        if not axes:
            return tensor
        if tensor.value is not None and tensor.type.is_native:
            return self.constant(np.expand_dims(tensor.value, tuple(axes)), tensor.type)
        dims: PartialShape | None = None
        if tensor.rank is not None:
            total = tensor.rank + len(axes)
            rest, places = iter(tensor.shape), {a % total for a in axes}
            dims = PartialShape([1 if i in places else next(rest) for i in range(total)])
        return self.op("Unsqueeze", tensor, list(axes), shape=dims)

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """The tensor with its dimensions in another order."""
        if list(order) == list(range(len(order))):
            return tensor
        dims = None if tensor.rank is None else PartialShape([tensor.shape[i] for i in order])
        return self.op("Transpose", tensor, perm=list(order), shape=dims)

    def concat(self, tensors: Sequence[Operand], axis: int = 0) -> Tensor:
        """Tensors joined along an axis; constants are joined at once."""
        parts = [t for t in map(self._operand, tensors) if t is not None]
        if len(parts) == 1:
            return parts[0]
        if all(p.value is not None and p.type.is_native for p in parts):
            return self.constant(
                np.concatenate([p.value for p in parts if p.value is not None], axis), parts[0].type
            )
        return self.op("Concat", *parts, axis=axis, shape=_joined(parts, axis))

    def slice(self, tensor: Tensor, start: int, end: int, axis: int, step: int = 1) -> Tensor:
        """The elements from `start` up to `end` along one axis."""
        dims = None
        if tensor.rank is not None:
            dim = tensor.shape[axis]
            size = len(range(*slice(start, end, step).indices(int(dim)))) if dim.is_static else None
            dims = PartialShape(
                [size if i == axis % tensor.rank else d for i, d in enumerate(tensor.shape)]
            )
        return self.op("Slice", tensor, [start], [end], [axis], [step], shape=dims)

    def scalar(self, tensor: Tensor) -> Tensor:
        """A tensor of one element without dimensions."""
        return tensor if tensor.rank == 0 else self.reshape(tensor, np.zeros(0, np.int64))

    def vector(self, tensor: Tensor) -> Tensor:
        """A scalar, or a 1-D tensor, as a 1-D i64 tensor."""
        wide = self.cast(tensor, I64)
        return wide if wide.rank == 1 else self.reshape(wide, [-1], [tensor.shape.size])

    # ---- what a lowering says

    def refuse(self, reason: str) -> NoReturn:
        """Raise UnsupportedError: the layer cannot be exported."""
        raise UnsupportedError(reason)

    def approximate(self, reason: str) -> None:
        """Tell that what follows is not quite what the IR means: refused, or noted where the caller
        allows it.
        """
        UnsupportedError.when(
            not self.settings.approximate,
            f"{reason}; approximate=True (--approximate) exports it so",
        )
        if (self.label, reason) not in self.settings.approximations:
            self.settings.approximations.append((self.label, reason))

    def child(self) -> Graph:
        """A graph inside a node of this one; it may use this one's tensors."""
        graph = Graph(self.settings)
        graph.layer, graph.label, graph.is_body = self.layer, self.label, True
        return graph


def _joined(parts: Sequence[Tensor], axis: int) -> PartialShape | None:
    if any(p.rank is None for p in parts):
        return None
    dims = list(parts[0].shape)
    axis %= len(dims)
    dims[axis] = sum((p.shape[axis] for p in parts[1:]), dims[axis])
    for other in range(len(dims)):
        if other != axis and not dims[other].is_static:
            dims[other] = next((p.shape[other] for p in parts if p.shape[other].is_static), DYNAMIC)
    return PartialShape(dims)
