"""`Graph`: a builder of layers with the words that lowerings are written in.

What is known of a tensor while the graph grows (its type, its rank, small values) is what inference
says of it, layer by layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from uncork.errors import UnsupportedError, ValidationError
from uncork.internal_ops.packed_const import PackedConst
from uncork.ir.build import Builder
from uncork.ir.model import Model, Node, Source
from uncork.ops._operation import FOLD_LIMIT
from uncork.ops.parameter import Const, Parameter
from uncork.storage import unpack
from uncork.types import Array, ElementType, PartialShape, TensorSpec

T = ElementType
#: The versions that are written where a newer one would only shut out older readers.
_OPSETS = {"AvgPool": 14, "OneHot": 1, "Squeeze": 1, "LSTMSequence": 5, "GridSample": 9}
_NEWEST = 15
#: A number, as lowerings mix them with tensors.
Operand = Union[Source, int, float, bool]


class Graph(Builder):
    """Layers of a model, or of the body of a loop or an If."""

    def __init__(self, name: str, outer: Graph | None = None) -> None:
        super().__init__(name)
        self.outer = outer
        #: Of a body: what it takes from the graph around it, in the order of the parameters.
        self.captured: dict[Source, Source] = {}
        self._names: set[str] = set()

    # ---- what is known

    def spec(self, source: Source) -> TensorSpec:
        """What is known of a tensor."""
        return self._specs[source]

    def type(self, source: Source) -> ElementType:
        """The element type of a tensor."""
        return self._specs[source].element_type

    def rank(self, source: Source, what: str = "its input") -> int:
        """The rank of a tensor. Raises UnsupportedError where it is not known."""
        rank = self._specs[source].rank
        if rank is None:
            raise UnsupportedError(
                f"the rank of {what} is not known: export the model with the shapes of its inputs "
                "(dimensions may be open)"
            )
        return rank

    def known(self, source: Source) -> Array | None:
        """The value of a tensor where it is known, in the carrier type."""
        return self._specs[source].value

    def integers(self, source: Source, what: str) -> list[int]:
        """The whole numbers of a tensor. Raises UnsupportedError where they are not known."""
        value = self.known(source)
        if value is None:
            raise UnsupportedError(
                f"{what} is computed when the model runs, and must be known when it is read: fold "
                "constants before you export (torch.onnx.export does, onnxsim too)"
            )
        return [int(v) for v in value.reshape(-1)]

    def sizes(self, source: Source) -> list[int | None]:
        """The sizes of a tensor of known rank, None for each that is open."""
        self.rank(source)
        return [int(d) if d.is_static else None for d in self._specs[source].shape]

    # ---- constants

    def constant(
        self, value: npt.ArrayLike, element_type: ElementType | str | None = None, name: str = ""
    ) -> Source:
        """A constant whose array is taken as it is: one that is mapped is not read."""
        array = np.asarray(value)
        if element_type is None or isinstance(element_type, str):
            return super().constant(array, element_type, name)
        operation = Const(element_type=element_type, shape=PartialShape(array.shape), value=array)
        return self._append(operation, name, (), ())[0]

    def stored(self, packed: Array, kind: ElementType, shape: Sequence[int]) -> Source:
        """A constant of numbers of less than a byte, as bytes: large ones stay that."""
        count = math.prod(shape)
        if not kind.is_packed or count <= FOLD_LIMIT:
            values = unpack(packed.reshape(-1).data, kind, count)
            return self.constant(values.reshape(tuple(shape)), kind)
        constant = PackedConst.of(kind, tuple(shape), packed.reshape(-1))
        return self._append(constant, "", (), ())[0]

    def i64(self, values: int | Sequence[int]) -> Source:
        """Whole numbers: a list of them, or one as a scalar."""
        return self.constant(np.array(values, np.int64), T.i64)

    def like(self, value: Operand, source: Source) -> Source:
        """A number as a scalar of the type of a tensor; tensors pass."""
        return value if isinstance(value, Source) else self.of_type(value, self.type(source))

    def of_type(self, value: float, kind: ElementType) -> Source:
        """A number as a scalar of a type."""
        if kind.is_native:
            return self.constant(np.array(value, kind.dtype), kind)
        return self.convert(self.constant(np.array(value, np.float32), T.f32), kind)

    # ---- layers

    def make(self, type_name: str, *inputs: Source, opset: int = 0, **attributes: Any) -> Source:
        """The first output of a new layer."""
        return self.several(type_name, *inputs, opset=opset, **attributes)[0]

    def several(
        self, type_name: str, *inputs: Source, opset: int = 0, **attributes: Any
    ) -> tuple[Source, ...]:
        """The outputs of a new layer."""
        version = opset or _OPSETS.get(type_name, _NEWEST)
        return self.add(type_name, version, *inputs, **attributes)

    def binary(self, type_name: str, a: Operand, b: Operand) -> Source:
        """A layer of two inputs, of which one may be a number."""
        if not isinstance(a, Source):
            assert isinstance(b, Source)
            a = self.like(a, b)
        return self.make(type_name, a, self.like(b, a))

    def plus(self, a: Operand, b: Operand) -> Source:
        return self.binary("Add", a, b)

    def minus(self, a: Operand, b: Operand) -> Source:
        return self.binary("Subtract", a, b)

    def times(self, a: Operand, b: Operand) -> Source:
        return self.binary("Multiply", a, b)

    def over(self, a: Operand, b: Operand) -> Source:
        """The quotient; of integers that cut towards zero."""
        if not isinstance(a, Source):
            assert isinstance(b, Source)
            a = self.like(a, b)
        if self.type(a).is_float:
            return self.binary("Divide", a, b)
        return self.make("Divide", a, self.like(b, a), m_pythondiv=False)

    def power(self, a: Operand, b: Operand) -> Source:
        return self.binary("Power", a, b)

    def select(self, condition: Source, then: Source, other: Source) -> Source:
        return self.make("Select", condition, then, other)

    def convert(self, source: Source, kind: ElementType) -> Source:
        """A tensor in another type; itself where it has the type."""
        if self.type(source) is kind:
            return source
        return self.make("Convert", source, destination_type=kind)

    def shape_of(self, source: Source) -> Source:
        return self.make("ShapeOf", source, output_type=T.i64)

    def size_of(self, source: Source, axis: int) -> Source:
        """The size of a tensor along an axis, [1]."""
        return self.make("Gather", self.shape_of(source), self.i64([axis]), self.i64(0))

    def reshape(self, source: Source, shape: Source | Sequence[int]) -> Source:
        """A tensor in another shape, of which one number may be -1; 0 is no special number."""
        if not isinstance(shape, Source):
            constant = self._nodes[source.node].operation
            if isinstance(constant, Const) and 0 not in (*constant.value.shape, *shape):
                return self.constant(constant.value.reshape(tuple(shape)), constant.element_type)
            shape = self.i64(shape)
        return self.make("Reshape", source, shape, special_zero=False)

    def transpose(self, source: Source, order: Sequence[int]) -> Source:
        if list(order) == sorted(order):
            return source
        return self.make("Transpose", source, self.i64(list(order)))

    def unsqueeze(self, source: Source, *axes: int) -> Source:
        return self.make("Unsqueeze", source, self.i64(list(axes)))

    def squeeze(self, source: Source, *axes: int) -> Source:
        return self.make("Squeeze", source, self.i64(list(axes)))

    def gather(self, source: Source, indices: Source | Sequence[int] | int, axis: int) -> Source:
        indices = indices if isinstance(indices, Source) else self.i64(indices)
        return self.make("Gather", source, indices, self.i64(axis))

    def concat(self, sources: Sequence[Source], axis: int) -> Source:
        return sources[0] if len(sources) == 1 else self.make("Concat", *sources, axis=axis)

    def slice(
        self,
        source: Source,
        start: int,
        stop: int,
        axis: int,
        step: int = 1,
    ) -> Source:
        return self.make("Slice", source, *(self.i64([n]) for n in (start, stop, step, axis)))

    def split(self, source: Source, lengths: Sequence[int], axis: int) -> tuple[Source, ...]:
        return self.several("VariadicSplit", source, self.i64(axis), self.i64(list(lengths)))

    def reduce(
        self, type_name: str, source: Source, axes: Sequence[int], keep: bool = True
    ) -> Source:
        return self.make(type_name, source, self.i64(list(axes)), keep_dims=keep)

    def broadcast(self, source: Source, shape: Source) -> Source:
        return self.make("Broadcast", source, shape, mode="numpy")

    def matmul(self, a: Source, b: Source, *, ta: bool = False, tb: bool = False) -> Source:
        return self.make("MatMul", a, b, transpose_a=ta, transpose_b=tb)

    def range(self, stop: Source, kind: ElementType = T.i64) -> Source:
        """The whole numbers from 0 to before `stop`, which is a scalar or has one element."""
        if self.spec(stop).rank != 0:
            stop = self.reshape(stop, [])
        return self.make("Range", self.i64(0), stop, self.i64(1), output_type=kind)

    def flatten(self, source: Source, axis: int) -> Source:
        """A matrix: the dimensions before `axis` make rows."""
        sizes = self.sizes(source)
        axis = axis + len(sizes) if axis < 0 else axis
        if not 0 <= axis <= len(sizes):
            raise ValidationError(f"axis {axis} is outside 0..{len(sizes)} for rank {len(sizes)}")
        before, after = sizes[:axis], sizes[axis:]
        if 0 not in sizes:
            if None not in before:
                return self.reshape(source, [math.prod(n or 0 for n in before), -1])
            if None not in after:
                return self.reshape(source, [-1, math.prod(n or 0 for n in after)])
        shape = self.shape_of(source)
        parts = [self.slice(shape, 0, axis, 0), self.slice(shape, axis, 1 << 40, 0)]
        counts = [self.reduce("ReduceProd", part, [0]) for part in parts]
        return self.reshape(source, self.concat(counts, 0))

    # ---- bodies

    def body_parameter(self, name: str, kind: ElementType, shape: PartialShape) -> Source:
        """An input of a body."""
        return self._append(Parameter(element_type=kind, shape=shape), name, (), (name,))[0]

    def capture(self, source: Source, name: str) -> Source:
        """A tensor of the graph around this body as one of the body: a constant is one here too."""
        assert self.outer is not None
        constant = self.outer._nodes[source.node].operation
        if isinstance(constant, Const):
            return self.constant(constant.value, constant.element_type, name)
        if source not in self.captured:
            spec = self.outer.spec(source)
            self.captured[source] = self.body_parameter(name, spec.element_type, spec.shape)
        return self.captured[source]

    def position_of(self, source: Source) -> int:
        """Which parameter of a body this is."""
        return self._of_type("Parameter").index(source.node)

    def model(self) -> Model:
        """What was built, without the layers that no output needs: what a lowering has asked for
        its shape or its numbers only, or has written in another form.
        """
        model = super().model()
        needed = {*model.parameters, *model.results, *model.sinks}
        for node in reversed(model.nodes):  # which stand behind those that they read
            if node.id in needed:
                needed.update(source.node for source in node.inputs)
        return replace(model, nodes=tuple(n for n in model.nodes if n.id in needed))

    # ---- names

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self._nodes)

    def named(self, name: str) -> str:
        """The name, or the first like it that no layer has."""
        unique, number = name, 1
        while unique in self._names:
            unique, number = f"{name}_{number}", number + 1
        self._names.add(unique)
        return unique

    def rename(self, since: int, name: str, main: Source | None) -> None:
        """Name the layers made `since`: the one that makes `main` has the name itself."""
        for i in range(since, len(self._nodes)):
            node = self._nodes[i]
            own = main is not None and node.id == main.node
            inner = name if own else f"{name}/{node.file_type}"
            self._nodes[i] = replace(node, name=self.named(inner))

    def name_tensor(self, source: Source, name: str, since: int = 0) -> bool:
        """Give a tensor a name, where its layer was made `since` and is no constant."""
        node = self._nodes[source.node]
        if node.id < since or node.file_type in ("Parameter", "Const"):
            return False
        self._nodes[node.id] = self._with_name(node, source.output, name)
        return True

    def _with_name(self, node: Node, output: int, name: str) -> Node:
        ports = [
            replace(p, names=(*p.names, name)) if i == output and name not in p.names else p
            for i, p in enumerate(node.outputs)
        ]
        return replace(node, outputs=tuple(ports))

    def end(self, source: Source, name: str) -> None:
        """Add an output of the model, which has the name whatever its tensor is called."""
        node = self._nodes[source.node]
        if name not in node.outputs[source.output].names:
            self.name_tensor(source, name)
        from uncork.ir.model import join_names
        from uncork.ops.parameter import Result

        self._append(Result(), self.named(f"{name}/sink_port_0"), (source,), ())
        last = self._nodes[-1]
        self._nodes[-1] = replace(last, layer_attributes=(("output_names", join_names((name,))),))

    def typed_result(self, source: Source) -> None:
        """Add an output of a body."""
        self.result(source)
