"""The rewriting of a model: tables become codes, with the layers that decode them.

    Const f32 [N, d...]   ->   Const u8 or u4 -> Convert -> Subtract (Const f32 [N, 1...])
                               -> Multiply (Const f32 [N, 1...])
                          or   Const f16 -> Convert

OpenVINO runs these as any other layers; uncork looks rows up in the codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from uncork.errors import UncorkError, ValidationError
from uncork.internal_ops.packed_const import PackedConst
from uncork.ir.model import Model, Node, Port, Source, XmlElement, node_of
from uncork.ir.validate import infer
from uncork.ops import Operation
from uncork.ops.arithmetic import Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.parameter import Const
from uncork.passes.quantized_tables import LOOKUPS, is_by_rows
from uncork.passes.rewrite import readers
from uncork.shrink.rows import Codes, as_codes
from uncork.storage import packed_size
from uncork.types import ElementType, PartialShape, TensorSpec

Kind = Literal["int8", "int4", "f16"]
KINDS: Mapping[str, ElementType] = {
    "int8": ElementType.u8,
    "int4": ElementType.u4,
    "f16": ElementType.f16,
}
_FLOATS = frozenset({ElementType.f32, ElementType.f16, ElementType.bf16})
#: How OpenVINO's own converter marks a Convert that only makes f32 of stored f16.
_DECOMPRESSION = XmlElement(
    "rt_info", children=(XmlElement("attribute", (("name", "decompression"), ("version", "0"))),)
)


@dataclass(frozen=True)
class ShrunkTable:
    """A table that was stored smaller. Bytes are those of its constants; errors are of its
    elements.
    """

    name: str
    shape: tuple[int, ...]
    before: ElementType
    after: ElementType
    bytes_before: int
    bytes_after: int
    max_error: float
    rms_error: float

    def __str__(self) -> str:
        sizes = f"{self.bytes_before:,} -> {self.bytes_after:,} bytes"
        return (
            f"{self.name} {self.before}[{','.join(map(str, self.shape))}] -> {self.after}: "
            f"{sizes}, largest error {self.max_error:.3g}"
        )


@dataclass(frozen=True)
class SkippedTable:
    """A table of floats that stays as it is, and why."""

    name: str
    spec: TensorSpec
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {self.spec}: {self.reason}"


@dataclass(frozen=True)
class Shrunk:
    """The new model and what was done."""

    model: Model
    tables: tuple[ShrunkTable, ...]
    skipped: tuple[SkippedTable, ...]


def shrink(model: Model, tables: Kind = "int8", min_rows: int = 1024) -> Shrunk:
    """A checked model with its tables of at least `min_rows` rows stored smaller.

    A table is a constant of f32, or of f16 or bf16 converted to f32, that only look-ups by rows
    read: Gather along the first axis, EmbeddingBag*, EmbeddingSegmentsSum. Those of sub-graphs stay
    as they are. Raises ValidationError for values that cannot be stored so (NaN, infinity).
    """
    ValidationError.when(
        tables not in KINDS, f"tables: expected {', '.join(KINDS)}, got {tables!r}"
    )
    if not isinstance(min_rows, int) or min_rows < 1:
        raise ValidationError(f"min_rows: expected a number of at least 1, got {min_rows!r}")
    target = KINDS[tables]
    rewriting = _Rewriting(model)
    done: list[ShrunkTable] = []
    skipped: list[SkippedTable] = []
    for table in _tables(model):
        constant = table.constant.operation
        assert isinstance(constant, Const)
        reason = table.reason or _too_small(constant, min_rows, target)
        if reason:
            skipped.append(
                SkippedTable(
                    table.constant.name, TensorSpec(constant.element_type, constant.shape), reason
                )
            )
            continue
        try:
            codes = as_codes(constant.value, constant.element_type, target)
        except UncorkError as error:
            raise error.at(table.constant.label) from None
        shape = constant.shape.static
        sizes = (
            packed_size(constant.element_type, constant.count),
            packed_size(target, constant.count) + _parameter_bytes(codes),
        )
        done.append(
            ShrunkTable(
                table.constant.name,
                shape,
                constant.element_type,
                target,
                *sizes,
                codes.max_error,
                codes.rms_error,
            )
        )
        rewriting.replace_table(table.constant, table.values, shape, codes)
    return Shrunk(rewriting.model(), tuple(done), tuple(skipped))


def _parameter_bytes(codes: Codes) -> int:
    return sum(p.nbytes for p in (codes.zero_point, codes.scale) if p is not None)


def _too_small(constant: Const, min_rows: int, target: ElementType) -> str:
    """Why there is nothing to gain for a table, in words; empty when there is."""
    rows = constant.shape.static[0]
    if rows < min_rows:
        return f"{rows:,} rows, fewer than {min_rows:,}"
    parameters = 0 if target is ElementType.f16 else 8 * rows
    if packed_size(target, constant.count) + parameters >= packed_size(
        constant.element_type, constant.count
    ):
        return f"would be no smaller as {target}"
    return ""


@dataclass(frozen=True)
class _Table:
    """A table: the constant that look-ups read, the output that they read (its own, or that of a
    Convert to f32), and why it has to stay.
    """

    constant: Node
    values: Source
    reason: str


def _tables(model: Model) -> list[_Table]:
    """The tables of a model: constants of floats with rows, in the order of the first look-up that
    reads each.
    """
    read_by = readers(model)
    found: dict[int, _Table] = {}
    for node in model.nodes:
        if type(node.operation) not in LOOKUPS:
            continue
        values = node.inputs[0]
        constant = model.by_id[values.node]
        if isinstance(constant.operation, Convert1):
            constant = model.by_id[constant.inputs[0].node]
        if (
            not isinstance(constant.operation, Const)
            or constant.operation.element_type not in _FLOATS
            or len(constant.operation.shape) < 2
        ):
            continue
        if constant.id not in found:
            found[constant.id] = _Table(
                constant, values, _obstacle(model, read_by, constant, values)
            )
    return list(found.values())


def _obstacle(
    model: Model, read_by: Mapping[Source, Sequence[Node]], constant: Node, values: Source
) -> str:
    """Why a table has to stay as it is, in words; empty when it need not."""
    if model.spec(values).element_type is not ElementType.f32:
        return f"is looked up as {model.spec(values).element_type}: its results would be others"
    others = (
        read_by[values]
        if values.node == constant.id
        else [*read_by[Source(constant.id, 0)], *read_by[values]]
    )
    for node in others:
        if node.id == values.node:
            continue
        if (
            type(node.operation) not in LOOKUPS
            or node.inputs[0] != values
            or values in node.inputs[1:]
        ):
            return f"is also read by {node.label}, which needs all of it"
        if not is_by_rows(model, node):
            return f"is not looked up by rows in {node.label}"
    return ""


class _Rewriting:
    """A model being rewritten: the nodes that take the places of others."""

    def __init__(self, model: Model) -> None:
        self.before = model
        self.instead: dict[int, list[Node]] = {}
        self.moved: dict[Source, Source] = {}
        self.names = {node.name for node in model.nodes}
        self.next_id = model.next_id

    def replace_table(
        self, constant: Node, values: Source, shape: tuple[int, ...], codes: Codes
    ) -> None:
        """Replace a constant and its Convert by codes and the layers that make values of them.

        The constant keeps its name.
        """
        if codes.element_type.is_packed:
            stored: Const = PackedConst.of(codes.element_type, shape, codes.codes)
        else:
            stored = Const.of_array(codes.element_type, codes.codes.reshape(shape))
        first = replace(
            constant,
            attributes=stored.to_text(),
            operation=stored,
            outputs=(replace(constant.outputs[0], spec=stored.infer(), names=()),),
        )
        nodes = [first]
        spec = TensorSpec(ElementType.f32, PartialShape(shape))

        def add(name: str, operation: Operation, *inputs: Node) -> Node:
            given = operation.infer() if isinstance(operation, Const) else spec
            nodes.append(self._node(f"{constant.name}/{name}", operation, inputs, given))
            return nodes[-1]

        last = add("convert", Convert1(destination_type=ElementType.f32), first)
        if codes.element_type is ElementType.f16:
            nodes[-1] = last = replace(last, extras=(_DECOMPRESSION,))
        for name, numbers, operation in (
            ("zero_point", codes.zero_point, Subtract()),
            ("scale", codes.scale, Multiply()),
        ):
            if numbers is not None:
                column = numbers.reshape(shape[0], *(1,) * (len(shape) - 1))
                parameter = add(name, Const.of_array(ElementType.f32, column))
                last = add(operation.type_name.lower(), operation, last, parameter)
        # of the tensor that is still there
        names = self.before.by_id[values.node].outputs[values.output].names
        nodes[-1] = replace(last, outputs=(replace(last.outputs[0], names=names),))
        self.instead[constant.id] = nodes
        if values.node != constant.id:
            self.instead[values.node] = []
        self.moved[values] = Source(last.id, 0)

    def model(self) -> Model:
        """The rewritten model."""
        if not self.instead:
            return self.before
        nodes: list[Node] = []
        for node in self.before.nodes:
            if node.id in self.instead:
                nodes += self.instead[node.id]
            else:
                nodes.append(
                    replace(
                        node, inputs=tuple(self.moved.get(source, source) for source in node.inputs)
                    )
                )
        model, problems = infer(replace(self.before, nodes=tuple(nodes)), trust_ports=True)
        ValidationError.when_any(self.before.source, problems)
        return model

    def _node(
        self, name: str, operation: Operation, inputs: Sequence[Node], spec: TensorSpec
    ) -> Node:
        while name in self.names:
            name += "_"
        self.names.add(name)
        self.next_id += 1
        sources = [Source(node.id, 0) for node in inputs]
        return node_of(self.next_id - 1, name, operation, sources, [Port(spec)])
