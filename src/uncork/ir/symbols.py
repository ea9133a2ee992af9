"""Symbolic inference: types and shapes of a whole graph with sizes as expressions.

One description of the model serves every call.

Every open dimension of a Parameter and of a variable, every size that only a step finds out and
every element of a small integer tensor that shapes may read is a symbol; all other sizes are
expressions over them. The rules are the operations' own `infer`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from uncork.errors import Problem, UncorkError, ValidationError
from uncork.internal_ops.appended_state import StateLength
from uncork.ir.model import Model, Node, Port, Source
from uncork.ir.taken_branches import TakenBranches
from uncork.ops.state import ReadValue3
from uncork.symbolic import Facts, Origin, Size
from uncork.types import DYNAMIC, Dimension, Element, ElementType, PartialShape, TensorSpec

#: Integer tensors up to this many elements may be read by shapes: more are data.
_SMALL = 8
_NUMBERS = (ElementType.i32, ElementType.i64)
#: Expressions of more weight are found as numbers of the call: of nested sums and products they
#: grow with the power of how deep these are.
_MOST_WEIGHT = 2000
#: Numbers that shapes read are sizes, bounds and counts: of those beyond 32 bits a plan knows
#: nothing.
_LIMIT = 2**31


def infer_symbolic(
    model: Model,
    inputs: Mapping[int, TensorSpec] | None = None,
    hints: Mapping[Origin, int] | None = None,
    may_be_empty: Collection[int] = (),
    branches: TakenBranches | None = None,
) -> tuple[Model, Facts]:
    """The model with expressions for its sizes, and the facts that they rest on.

    `inputs` gives other specs to some parameters, by node id. A call is described when each symbol
    lies within its bounds: the open dimensions of inputs are taken to be at least 1, but for those
    that `may_be_empty`; small integers fit 32 bits. `hints` are values of symbols, of the call that
    a plan is made for: guards are as they say. Of If layers whose conditions they tell, `branches`
    are put in the place. Raises ValidationError with every layer whose inputs cannot be right.
    """
    inference = _Inference(model, Facts(hints), may_be_empty)
    walked: Iterable[Node] = model.nodes
    if branches is not None:
        walked = branches.walk(model.nodes, inference.specs, inference.facts.at)
    nodes = [inference.infer(node, (inputs or {}).get(node.id)) for node in walked]
    ValidationError.when_any(model.source, inference.problems)
    # Equalities that were found late hold for the sizes before them too.
    return replace(model, nodes=tuple(inference.finished(node) for node in nodes)), inference.facts


class _Inference:
    """One walk over a graph."""

    def __init__(self, model: Model, facts: Facts, may_be_empty: Collection[int]) -> None:
        self.model, self.facts, self.may_be_empty = model, facts, may_be_empty
        self.specs: dict[Source, TensorSpec] = {}
        self.problems: list[Problem] = []
        self.positions = {
            parameter: position for position, parameter in enumerate(model.parameters)
        }
        #: Dimensions of variables, which all that read one share: they have the size that it has
        #: before the call.
        self.variables: dict[tuple[str, int], Dimension] = {}

    def infer(self, node: Node, given: TensorSpec | None) -> Node:
        """The node with the specs of its outputs."""
        self.facts.at(node.id, node.label)
        specs = self._described(node) if given is None else (given,)
        if node.type_name not in ("Const", "Result"):
            found: dict[int, Dimension] = {}
            specs = tuple(
                self._with_symbols(node, output, spec, found) for output, spec in enumerate(specs)
            )
        for output, spec in enumerate(specs):
            self.specs[Source(node.id, output)] = spec
        if node.type_name == "Result":
            return node
        ports = node.outputs + tuple(Port(spec) for spec in specs[len(node.outputs) :])
        return replace(
            node,
            outputs=tuple(
                Port(spec, port.names, port.extras) for spec, port in zip(specs, ports, strict=True)
            ),
        )

    def finished(self, node: Node) -> Node:
        """The node with all equalities put in that are known now."""
        specs = [self._with_equalities(port.spec) for port in node.outputs]
        if all(spec is port.spec for spec, port in zip(specs, node.outputs, strict=True)):
            return node
        return replace(node, outputs=node.ports(specs))

    def _described(self, node: Node) -> tuple[TensorSpec, ...]:
        declared = tuple(port.spec for port in node.outputs)
        arguments = [self.specs.get(source) for source in node.inputs]
        if node.operation is None or any(a is None for a in arguments):
            return declared
        if self._is_known(node, arguments):
            return declared
        try:
            found = node.operation.describe(
                [None if a is None else self._with_equalities(a) for a in arguments]
            )
            return tuple(
                old if old is not None and _agree(old, new) else new
                for old, new in zip_longest(declared[: len(found)], found)
            )
        except UncorkError as error:
            self.problems.append(
                replace(error.problems[0], where=node.label, message=error.message, layer=node.name)
            )
            return declared

    def _is_known(self, node: Node, arguments: Sequence[TensorSpec | None]) -> bool:
        """Whether a layer's outputs are of known sizes, found from these very inputs when the model
        was read, and of no numbers that inputs tell.
        """
        return (
            not node.bodies
            and (node.type_name in ("Const", "Parameter") or not all(map(_tells, arguments)))
            and all(
                given is self._as_read(s) for given, s in zip(arguments, node.inputs, strict=True)
            )
            and all(port.spec.shape.is_static and not _is_read(port.spec) for port in node.outputs)
        )

    def _as_read(self, source: Source) -> TensorSpec | None:
        """The spec of an output when the model was read; None for those of branches."""
        node = self.model.by_id.get(source.node)
        return None if node is None else node.outputs[source.output].spec

    # ---- symbols

    def _with_symbols(
        self, node: Node, output: int, spec: TensorSpec, found: dict[int, Dimension]
    ) -> TensorSpec:
        """The spec with a new symbol for every size, and every element that shapes may read, that
        nothing else tells, or an expression that is longer than the work to find it.
        """
        if spec.rank is not None and any(d.expression is None for d in spec.shape):
            dims = [
                d if d.expression is not None else self._new_dimension(node, output, axis, d, found)
                for axis, d in enumerate(spec.shape)
            ]
            spec = replace(spec, shape=PartialShape(dims))
        if not _is_read(spec):
            return spec
        elements: list[Element] = list(spec.elements or [None] * int(spec.shape.size))
        for i, element in enumerate(elements):
            if element is None or (isinstance(element, Size) and element.weight > _MOST_WEIGHT):
                name = f"{self._name(node, output)}[{i}]"
                low, kind = (
                    (0, "state") if isinstance(node.operation, StateLength) else (-_LIMIT, "number")
                )
                symbol = self.facts.symbol(
                    name, low, _LIMIT - 1, kind, Origin(node.id, output, i, True)
                )
                elements[i] = Size.of(symbol)
        return replace(spec, elements=tuple(elements))

    def _new_dimension(
        self, node: Node, output: int, axis: int, bounds: Dimension, found: dict[int, Dimension]
    ) -> Dimension:
        """A symbol for a dimension.

        A rule that puts one and the same open dimension in several places means one size.
        """
        origin = Origin(node.id, output, axis)
        if isinstance(node.operation, ReadValue3):
            key = (node.operation.variable_id, axis)
            if key not in self.variables:
                self.variables[key] = self._symbol(
                    f"{_word(key[0])}_{axis}", bounds, bounds.low, "state", origin
                )
            return self.variables[key]
        if node.type_name == "Parameter":
            least = bounds.low if node.id in self.may_be_empty else max(1, bounds.low)
            return self._symbol(
                f"{self._name(node, output)}_{axis}", bounds, least, "input", origin
            )
        if bounds is not DYNAMIC and id(bounds) in found:
            return found[id(bounds)]
        found[id(bounds)] = self._symbol(
            f"{self._name(node, output)}_{axis}", bounds, bounds.low, "found", origin
        )
        return found[id(bounds)]

    def _symbol(
        self, name: str, bounds: Dimension, low: int, kind: str, origin: Origin
    ) -> Dimension:
        return Dimension.of(Size.of(self.facts.symbol(name, low, bounds.high, kind, origin)))

    def _name(self, node: Node, output: int) -> str:
        """A short name for what comes out there."""
        if node.id in self.positions:
            return _word(self.model.name_of_input(self.positions[node.id]))
        return f"{_word(node.type_name)}{node.id}" + (f".{output}" if len(node.outputs) > 1 else "")

    # ---- equalities

    def _with_equalities(self, spec: TensorSpec) -> TensorSpec:
        """The spec with equalities put in that were found after it was made."""
        if not self.facts.has_equalities:
            return spec
        if spec.rank is not None and any(
            d.is_open and self._is_changed(d.expression) for d in spec.shape
        ):
            spec = replace(
                spec,
                shape=PartialShape(
                    [Dimension.of(d.expression) if d.is_open else d for d in spec.shape]
                ),
            )
        if spec.elements is not None and any(self._is_changed(e) for e in spec.elements):
            elements = tuple(spec.sizes() or ())
            spec = replace(spec, elements=elements)
        return spec

    def _is_changed(self, size: Element) -> bool:
        return isinstance(size, Size) and self.facts.changes(size)


def _agree(old: TensorSpec, new: TensorSpec) -> bool:
    """Whether both are tensors of one type and one known shape, without known numbers."""
    return (
        old.element_type is new.element_type
        and old.shape.is_static
        and old.shape == new.shape
        and not (_tells(old) or _tells(new))
    )


def _tells(spec: TensorSpec | None) -> bool:
    """Whether numbers of the tensor are known."""
    return spec is None or spec.value is not None or spec.elements is not None


def _is_read(spec: TensorSpec) -> bool:
    """Whether shapes may read elements of the tensor that are not known as one value."""
    return (
        spec.element_type in _NUMBERS
        and spec.value is None
        and spec.shape.is_static
        and 1 <= int(spec.shape.size) <= _SMALL
    )


def _word(name: str) -> str:
    """A short word of letters, digits and underscores, made from a name."""
    return re.sub(r"\W+", "_", name).strip("_")[-24:].strip("_") or "x"
