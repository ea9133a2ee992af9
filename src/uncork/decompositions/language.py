"""`Layers`: a builder of layers with the words that operations are spelled out in.

What is known of a tensor while the layers grow (its type, its rank, small values) is what inference
says of it, layer by layer: what follows from sizes that are known is a constant.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from uncork.errors import UnsupportedError, ValidationError
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.whole import Whole
from uncork.ir.build import Builder
from uncork.ir.model import Node, Source
from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._operation import FOLD_LIMIT, Operation
from uncork.ops.gather import Gather8
from uncork.ops.parameter import Const, Parameter
from uncork.storage import unpack
from uncork.types import DYNAMIC, Array, Dimension, ElementType, PartialShape, TensorSpec

T = ElementType
#: The versions that are written where a newer one would only shut out older readers.
_OPSETS = {"AvgPool": 14, "OneHot": 1, "Squeeze": 1, "LSTMSequence": 5, "GridSample": 9}
_NEWEST = 15
#: A number, as lowerings mix them with tensors.
Operand = Union[Source, int, float, bool]


class Layers(Builder):
    """Layers between tensors, without a beginning or an end."""

    #: What to do where something is not known, for errors.
    rank_hint, value_hint = "", ""

    def given(self, spec: TensorSpec) -> Source:
        """A tensor from outside, of which that is known."""
        shape = spec.shape
        if shape.rank is not None:  # an attribute has numbers, not sizes by their names
            shape = PartialShape([dim if dim.is_static else DYNAMIC for dim in shape])
        operation = Parameter(element_type=spec.element_type, shape=shape)
        source = self._append(operation, "", (), ())[0]
        self._specs[source] = spec
        return source

    def filled(self, source: Source) -> Source:
        """A tensor of which only what has elements counts, as without any the result has none."""
        spec = self.spec(source)
        if spec.rank is not None:
            dims = [d.merge(Dimension(1, None)) or d for d in spec.shape]
            self._specs[source] = spec = replace(spec, shape=PartialShape(dims))
            node = self._nodes[source.node]
            ports = [
                replace(port, spec=spec) if i == source.output else port
                for i, port in enumerate(node.outputs)
            ]
            self._nodes[source.node] = replace(node, outputs=tuple(ports))
        return source

    def needed(self, sources: Iterable[Source]) -> list[Node]:
        """The layers that tensors come from, in order, without what is given."""
        needed = {source.node for source in sources}
        for node in reversed(self._nodes):  # which stand behind those that they read
            if node.id in needed:
                needed.update(source.node for source in node.inputs)
        return [n for n in self._nodes if n.id in needed and n.type_name != "Parameter"]

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
            raise UnsupportedError(f"the rank of {what} is not known{self.rank_hint}")
        return rank

    def known(self, source: Source) -> Array | None:
        """The value of a tensor where it is known, in the carrier type."""
        return self._specs[source].value

    def integers(self, source: Source, what: str) -> list[int]:
        """The whole numbers of a tensor. Raises UnsupportedError where they are not known."""
        value = self.known(source)
        if value is None:
            raise UnsupportedError(f"{what} is computed when the model runs{self.value_hint}")
        return [int(v) for v in value.reshape(-1)]

    def numbers(self, source: Source, port: str) -> list[int]:
        """The whole numbers of an input that must be known. Raises UnsupportedError."""
        return self.integers(source, f"input '{port}'")

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
        operation = Const.of_array(element_type, array)
        return self._append(operation, name, (), ())[0]

    def stored(
        self, packed: Array, kind: ElementType, shape: Sequence[int], name: str = ""
    ) -> Source:
        """A constant of numbers of less than a byte, as bytes: large ones stay that."""
        count = math.prod(shape)
        if not kind.is_packed or count <= FOLD_LIMIT:
            values = unpack(packed.reshape(-1).data, kind, count)
            return self.constant(values.reshape(tuple(shape)), kind, name)
        constant = PackedConst.of(kind, tuple(shape), packed.reshape(-1))
        return self._append(constant, name, (), ())[0]

    def i64(self, values: int | Sequence[int]) -> Source:
        """Whole numbers: a list of them, or one as a scalar."""
        return self.constant(np.array(values, np.int64), T.i64)

    def like(self, value: Operand, source: Source) -> Source:
        """A number as a scalar of the type of a tensor; tensors pass."""
        return value if isinstance(value, Source) else self.of_type(value, self.type(source))

    def of_type(self, value: float, kind: ElementType) -> Source:
        """A number as a scalar of a type: beyond its largest an infinity."""
        if kind.is_native:
            with np.errstate(over="ignore"):
                return self.constant(np.array(value, kind.dtype), kind)
        return self.convert(self.constant(np.array(value, np.float32), T.f32), kind)

    def placed(self, op: Operation, first: Source, other: Source) -> Source:
        """An input other than the first as NumPy's broadcasting wants it: pdpd puts its dimensions
        at an axis of the first.
        """
        if not isinstance(op, Broadcasting) or op.auto_broadcast != "pdpd":
            return other
        if op.auto_broadcast_axis == -1:
            return other
        end, rank = self.rank(first) - op.auto_broadcast_axis, self.rank(other)
        if rank > end:
            return self.squeeze(other, *range(end, rank))
        return self.unsqueeze(other, *range(rank, end)) if rank < end else other

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

    def added(self, first: Source, *others: Source | None) -> Source:
        """The sum of a tensor and those others that are there."""
        return functools.reduce(self.plus, (o for o in others if o is not None), first)

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

    def root(self, source: Source) -> Source:
        return self.make("Sqrt", source)

    def largest(self, a: Operand, b: Operand) -> Source:
        return self.binary("Maximum", a, b)

    def least(self, a: Operand, b: Operand) -> Source:
        return self.binary("Minimum", a, b)

    def clipped(self, source: Source, low: float, high: float) -> Source:
        """Values moved into a range; NaN stays."""
        return self.make("Clamp", source, min=float(low), max=float(high))

    def select(self, condition: Source, then: Source, other: Source) -> Source:
        return self.make("Select", condition, then, other)

    def convert(self, source: Source, kind: ElementType) -> Source:
        """A tensor in another type; itself where it has the type."""
        if self.type(source) is kind:
            return source
        return self.make("Convert", source, destination_type=kind)

    def exact(self, source: Source, kind: ElementType = T.i64) -> Source:
        """Floats that are whole numbers of a type as such."""
        return self.add_operation(Whole(destination_type=kind), source)[0]

    def shape_of(self, source: Source) -> Source:
        return self.make("ShapeOf", source, output_type=T.i64)

    def size_of(self, source: Source, axis: int) -> Source:
        """The size of a tensor along an axis, [1]."""
        return self.make("Gather", self.shape_of(source), self.i64([axis]), self.i64(0))

    def dim(self, source: Source, axis: int) -> Source:
        """The size of a tensor along an axis, [1]: a constant where it is known."""
        rank = self.rank(source)
        dim = self.spec(source).shape[axis]
        return self.i64([int(dim)]) if dim.is_static else self.size_of(source, axis % rank)

    def shaped(self, source: Source, *sizes: Source | int) -> Source:
        """A tensor in another shape, given size by size: numbers, and tensors [1]; or more."""
        return self.reshape(source, self.shape(*sizes))

    def sizes_of(self, source: Source) -> Source:
        """The sizes of a tensor, of which those are numbers that are known."""
        return self.shape(*(self.dim(source, axis) for axis in range(self.rank(source))))

    def shape(self, *sizes: Source | int) -> Source:
        """Sizes as one tensor: numbers, and tensors [1] or longer."""
        parts = [n if isinstance(n, Source) else self.i64([n]) for n in sizes]
        values = [self.known(part) for part in parts]
        if all(v is not None for v in values):
            return self.i64([int(n) for v in values if v is not None for n in v])
        return self.concat(parts, 0)

    def wide(self, source: Source) -> Source:
        """Whole numbers as i64."""
        return self.convert(source, T.i64)

    def each(self, vector: Source, count: int) -> list[Source]:
        """The elements of a vector, or of a scalar, as i64, each [1]."""
        known = self.known(vector)
        if known is not None:
            return [self.i64([int(n)]) for n in known.reshape(-1)]
        flat = self.reshape(self.wide(vector), [count])
        return [self.slice(flat, k, k + 1, 0) for k in range(count)] if count > 1 else [flat]

    def product(self, sizes: Sequence[Source]) -> Source:
        """The product of sizes, each [1]."""
        return functools.reduce(self.times, sizes)

    def pad(self, source: Source, begins: Source, ends: Source) -> Source:
        """Zeros around a tensor."""
        counts = [self.known(n) for n in (begins, ends)]
        if all(n is not None and not n.any() for n in counts):
            return source
        return self.make("Pad", source, self.wide(begins), self.wide(ends), pad_mode="constant")

    def reshape(self, source: Source, shape: Source | Sequence[int]) -> Source:
        """A tensor in another shape, of which one number may be -1; 0 is no special number."""
        if not isinstance(shape, Source):
            constant = self._nodes[source.node].operation
            packed = isinstance(constant, PackedConst)
            if isinstance(constant, Const) and not packed and 0 not in (*constant.shape, *shape):
                return self.constant(constant.value.reshape(tuple(shape)), constant.element_type)
            shape = self.i64(shape)
        return self.make("Reshape", source, shape, special_zero=False)

    def transpose(self, source: Source, order: Sequence[int]) -> Source:
        if list(order) == sorted(order):
            return source
        return self.make("Transpose", source, self.i64(list(order)))

    def unsqueeze(self, source: Source, *axes: int) -> Source:
        return self.make("Unsqueeze", source, self.i64(list(axes)))

    def with_axes_behind(self, source: Source, count: int) -> Source:
        """A tensor with so many axes of size 1 behind its own."""
        rank = self.rank(source)
        return self.unsqueeze(source, *range(rank, rank + count)) if count else source

    def squeeze(self, source: Source, *axes: int) -> Source:
        return self.make("Squeeze", source, self.i64(list(axes)))

    def gather(self, source: Source, indices: Source | Sequence[int] | int, axis: int) -> Source:
        indices = indices if isinstance(indices, Source) else self.i64(indices)
        return self.make("Gather", source, indices, self.i64(axis))

    def take(self, source: Source, places: Source, axis: int) -> Source:
        """What is at places of an axis, which must be inside of it."""
        return self.add_operation(Gather8(strict=True), source, places, self.i64(axis))[0]

    def scatter(
        self, data: Source, places: Source, values: Source, axis: int, reduction: str = "none"
    ) -> Source:
        """Elements along an axis replaced, or reduced with values."""
        return self.make(
            "ScatterElementsUpdate",
            data,
            places,
            values,
            self.i64(axis),
            reduction=reduction,
            use_init_val=True,
        )

    def counts(self, numbers: Source, size: Source) -> Source:
        """How often each number from 0 on occurs, in a vector of this size."""
        ones = self.broadcast(self.i64(1), self.shape_of(numbers))
        return self.scatter(self.broadcast(self.i64(0), size), numbers, ones, 0, "sum")

    def picked(self, source: Source, place: int, axis: int) -> Source:
        """What is at one place of an axis, which has it."""
        return self.squeeze(self.slice(source, place, place + 1, axis), axis)

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
        return self.part(source, self.i64([start]), self.i64([stop]), axis, step)

    def part(self, source: Source, start: Source, stop: Source, axis: int, step: int = 1) -> Source:
        """What lies between two places of an axis, which are [1]; itself where that is all."""
        size, first, end = self.spec(source).shape[axis], self.known(start), self.known(stop)
        whole = first is not None and end is not None and first[0] == 0 and size == int(end[0])
        if step == 1 and whole:
            return source
        return self.make("Slice", source, start, stop, self.i64([step]), self.i64([axis]))

    def split(self, source: Source, lengths: Sequence[int], axis: int) -> tuple[Source, ...]:
        return self.several("VariadicSplit", source, self.i64(axis), self.i64(list(lengths)))

    def reduce(
        self, type_name: str, source: Source, axes: Source | Sequence[int], keep: bool = True
    ) -> Source:
        axes = axes if isinstance(axes, Source) else self.i64(list(axes))
        return self.make(type_name, source, axes, keep_dims=keep)

    def best(
        self,
        source: Source,
        axis: int,
        count: Source | None = None,
        mode: str = "max",
        stable: bool = False,
    ) -> tuple[Source, ...]:
        """The largest along an axis, or the smallest, and their places: one, or a scalar `count` of
        them in their order. Where it is `stable`, the first of equal ones comes first.
        """
        options: dict[str, Any] = {"opset": 11, "stable": True} if stable else {"opset": 3}
        return self.several(
            "TopK",
            source,
            self.i64(1) if count is None else count,
            axis=axis,
            mode=mode,
            sort="value",
            index_element_type=T.i64,
            **options,
        )

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
        ValidationError.when(
            not 0 <= axis <= len(sizes),
            f"axis {axis} is outside 0..{len(sizes)} for rank {len(sizes)}",
        )
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
