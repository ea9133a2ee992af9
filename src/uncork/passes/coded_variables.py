"""Variables of keys and values keep these in fewer bits: f16, bf16, or u8 with a grid for each row
(see `internal_ops/coded_rows.py`).

They are the variables of f32 that grow along an axis before the last one, and whose value reaches
the keys or values of attention, or the second matrix of a product, by moves alone. What is
appended is rounded once; whoever reads the value reads f32 that is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.coded_rows import CodedRead, RowCoding
from uncork.ir.model import Model, Node, Source
from uncork.ops.arithmetic import Add
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.matmul import MatMul
from uncork.ops.state import Assign3, ReadValue6
from uncork.passes.functionalize_variables import assignments
from uncork.passes.match_appends import Append, appends
from uncork.passes.rewrite import NewLayers, readers
from uncork.types import ElementType

#: Layers whose first input is moved as it is.
_MOVES = frozenset({"Broadcast", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze"})


def coded_variables(model: Model) -> Model:
    """The model with variables of keys and values kept as its layers' hints say."""
    grown = [
        (append, coding)
        for append in appends(model, assignments(model)[0])
        if (coding := _coding(model, append)) is not None
    ]
    return _Coding(model, grown).made() if grown else model


def _coding(model: Model, append: Append) -> RowCoding | None:
    """How the rows of a variable are kept; None where they are as the model has them."""
    name, spec = append.read.hints.kv_cache_precision, append.read.outputs[0].spec
    if name not in ("f16", "bf16", "u8") or spec.element_type is not ElementType.f32:
        return None
    coding, rank = RowCoding(ElementType.parse(name)), spec.rank or 0
    joined = append.join.outputs[0].spec.shape
    if append.axis >= rank - 1 or (coding.extra and not joined[-1].is_static):
        return None
    assigns = [
        node
        for node in model.nodes
        if isinstance(node.operation, Assign3) and node.operation.variable_id == append.variable
    ]
    if len(assigns) != 1 or not _reaches(model, readers(model), Source(append.join.id, 0)):
        return None
    return coding


def _reaches(model: Model, read_by: Mapping[Source, Sequence[Node]], source: Source) -> bool:
    """Whether a tensor comes to attention or a product by moves alone, as keys or values do."""
    for node in read_by.get(source, ()):
        operation = node.operation
        if isinstance(operation, ScaledDotProductAttention) and source in node.inputs[1:3]:
            return True
        if isinstance(operation, MatMul) and source == node.inputs[1]:
            return True
        moves = node.type_name in _MOVES and source == node.inputs[0]
        if moves and _reaches(model, read_by, Source(node.id, 0)):
            return True
    return False


class _Coding:
    """The layers of the new model, made in the order of the old one's."""

    def __init__(self, model: Model, grown: Sequence[tuple[Append, RowCoding]]) -> None:
        self.model, self.new = model, NewLayers(model)
        #: The layers that read and give rows as they are kept.
        self.kept: dict[int, RowCoding] = {}
        self.reads: set[int] = set()
        for append, coding in grown:
            self.reads.add(append.read.id)
            self.kept[append.read.id] = self.kept[append.join.id] = coding
            if append.selection is not None:
                self.kept[append.selection.node.id] = coding
            for node in model.nodes:
                operation = node.operation
                if isinstance(operation, Assign3) and operation.variable_id == append.variable:
                    self.kept[node.id] = coding

    def made(self) -> Model:
        for node in self.model.nodes:
            if node.id in self.reads:
                self._read(node)
            elif node.id in self.kept:
                self._of_kept(node)
            elif node.type_name == "ShapeOf" and node.inputs[0].node in self.kept:
                self._shape(node)
            else:
                inputs = tuple(map(self._decoded, node.inputs))
                self.new.nodes.append(replace(node, inputs=inputs))
        return self.new.model()

    def _read(self, node: Node) -> None:
        coding, operation = self.kept[node.id], node.operation
        spec = node.outputs[0].spec
        shape = operation.variable_shape if isinstance(operation, ReadValue6) else spec.shape
        read = CodedRead(
            variable_id=operation.variable_id,  # type: ignore[union-attr]
            variable_type=coding.element_type,
            variable_shape=coding.coded(replace(spec, shape=shape)).shape,
            coding=coding,
        )
        inputs = tuple(self._encoded(source, coding) for source in node.inputs)
        self.new.again(replace(node, operation=read, attributes={}), *inputs)

    def _of_kept(self, node: Node) -> None:
        """A Concat, Gather or Assign of rows as they are kept."""
        coding = self.kept[node.id]
        data = node.inputs if node.type_name == "Concat" else node.inputs[:1]
        inputs = [self._encoded(source, coding) for source in data]
        others = [self._decoded(source) for source in node.inputs[len(data) :]]
        self.new.again(node, *inputs, *others)

    def _shape(self, node: Node) -> None:
        """The shape of the f32 rows, of which nobody makes them."""
        source, coding = node.inputs[0], self.kept[node.inputs[0].node]
        if not coding.extra:
            self.new.nodes.append(node)
            return
        kind = node.outputs[0].spec.element_type
        of_kept = self.new.put(node.checked_operation, source, name=f"{node.name} of codes")
        rank = self.new.spec(source).rank or 0
        less = np.zeros(rank, kind.dtype)
        less[-1] = -coding.extra
        constant = self.new.constant(less, kind, f"{node.name} beside codes")
        self.new.nodes.append(
            replace(node, operation=Add(), attributes={}, inputs=(of_kept, constant))
        )

    def _encoded(self, source: Source, coding: RowCoding) -> Source:
        if source.node in self.kept:
            return source
        name = f"{self.model.by_id[source.node].name} {coding.element_type}"
        return self.new.once(
            ("encoded", source),
            lambda: self.new.put(coding.encoder(), self._decoded(source), name=name),
        )

    def _decoded(self, source: Source) -> Source:
        coding = self.kept.get(source.node)
        if coding is None:
            return source
        name = f"{self.model.by_id[source.node].name} f32"
        return self.new.once(
            ("decoded", source), lambda: self.new.put(coding.decoder(), source, name=name)
        )
