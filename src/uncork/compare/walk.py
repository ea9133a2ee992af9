"""The comparison itself: every layer, in order, on what the other side gave to it, against what the
other side made of that.

A difference is therefore the layer's own: what went wrong before it is not counted again. Values
come from the peer in chunks of a bounded size and are dropped when no layer reads them any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from uncork.compare.difference import DIFFERS, Difference, difference
from uncork.compare.peers.process import Failed
from uncork.compare.rounding import dropped, tolerance
from uncork.compare.tensors import PeerModel, matched
from uncork.compiler.arguments import present, shown
from uncork.compiler.compile import compiled_with
from uncork.compiler.options import Options
from uncork.compiler.single_layer import alone, carrier
from uncork.errors import UncorkError
from uncork.ir.model import Model, Node, Source
from uncork.ir.validate import infer
from uncork.ops.convert import Convert1, ConvertLike1, limits
from uncork.ops.parameter import Const
from uncork.types import Array, PartialShape, TensorSpec, describe_array

#: Bytes of the peer's values that are held at a time, and what is taken for a tensor whose size
#: nobody knows.
CHUNK, _UNKNOWN = 64 << 20, 1 << 20
#: What has no result of its own to compare.
_SKIPPED = frozenset({"Const", "Parameter", "Result", "Assign"})


class Peer(Protocol):
    """A peer as the walk uses it; see `peers.process`."""

    name: str
    model: PeerModel

    def outputs(self) -> list[Array] | Failed:
        """The results of the peer's model."""

    def values(self, keys: Sequence[str]) -> dict[str, Array | Failed]:
        """Values of tensors."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class LayerReport:
    """An output of a layer: `verdict` is same, rounding, undefined (it differs where no value is
    defined), differs, failed (the peer gave none) or unmatched (it has none).
    """

    number: int
    node: Node
    output: int
    tensor: str
    verdict: str
    reason: str = ""
    difference: Difference | None = None
    theirs: str = ""

    @property
    def is_bad(self) -> bool:
        return self.verdict in (DIFFERS, "failed")


@dataclass
class Bad:
    """What it takes to run the first bad layer again."""

    node: Node
    inputs: dict[Source, Array] = field(default_factory=dict)
    expected: dict[int, Array] = field(default_factory=dict)


class Walk:
    """The walk over the layers, which compares each with the peer's. `reports` gives one report
    after the other; `first_bad` is set with the first that is bad.
    """

    def __init__(self, model: Model, inputs: Sequence[Array], peer: Peer, options: Options) -> None:
        self._model = model
        self._peer = peer
        self._options = options
        self._matches = matched(model, peer.model)
        self._specs = _specs(model, inputs)
        self._given = dict(zip(model.parameters, inputs, strict=True))
        self._uses = Counter(source for node in model.nodes for source in node.inputs)
        self._values: dict[Source, Array] = {}
        self.first_bad: Bad | None = None

    @property
    def matches(self) -> int:
        """How many tensors the peer has, too."""
        return sum(
            self._model.by_id[source.node].type_name not in _SKIPPED for source in self._matches
        )

    def reports(self, progress: Callable[[int, int], None] | None) -> Iterator[LayerReport]:
        """Compare all layers, in order."""
        number = 0
        for group, keys in self._chunks():
            theirs = self._peer.values(keys)
            self._take_inputs(group, theirs)
            for node in group:
                number += 1
                yield from self._layer(number, node, theirs)
                if progress is not None:
                    progress(number, len(self._model.nodes))

    def _chunks(self) -> Iterator[tuple[list[Node], list[str]]]:
        """Layers and what to ask the peer for: what they give, and what they read of layers before,
        so that all of it is of one run.
        """
        group: list[Node] = []
        size = 0
        for node in self._model.nodes:
            more = sum(_bytes(self._specs.get(source)) for source in self._asked(node))
            if group and size + more > CHUNK:
                yield group, self._keys(group)
                group, size = [], 0
            group.append(node)
            size += more
        yield group, self._keys(group)

    def _asked(self, node: Node) -> list[Source]:
        """The outputs of a layer that the peer has."""
        own = [Source(node.id, i) for i in range(len(node.outputs))]
        return (
            []
            if node.type_name in _SKIPPED
            else [source for source in own if source in self._matches]
        )

    def _keys(self, group: Sequence[Node]) -> list[str]:
        wanted = [s for node in group for s in (*self._read(node), *self._asked(node))]
        return list(dict.fromkeys(self._matches[source] for source in wanted))

    def _read(self, node: Node) -> list[Source]:
        """What a layer reads that the peer has computed."""
        return [
            s
            for s in node.inputs
            if s in self._matches and self._model.by_id[s.node].type_name not in _SKIPPED
        ]

    def _take_inputs(self, group: Sequence[Node], theirs: Mapping[str, Array | Failed]) -> None:
        """Replace the values from layers of earlier chunks by those of this chunk's run."""
        for node in group:
            for source in self._read(node):
                value = theirs[self._matches[source]]
                if source in self._values and not isinstance(value, Failed):
                    self._values[source] = carrier(value, self._spec(source).element_type)

    def _layer(
        self, number: int, node: Node, theirs: Mapping[str, Array | Failed]
    ) -> Iterator[LayerReport]:
        if node.id in self._given:
            self._values[Source(node.id, 0)] = self._given[node.id]
            return
        if node.type_name in _SKIPPED:
            self._release(node)
            return
        arguments = {source: self._value(source) for source in dict.fromkeys(node.inputs)}
        ours, problem = self._computed(node, arguments)
        for output in range(len(node.outputs)):
            source = Source(node.id, output)
            mine = ours[output] if output < len(ours) else None
            key = self._matches.get(source)
            other = None if key is None else theirs[key]
            report = self._compared(number, node, output, mine, problem, other, arguments)
            if isinstance(other, np.ndarray) and other.ndim >= 0:
                value: Array | None = carrier(other, node.outputs[output].spec.element_type)
            else:
                value = mine
            if report.is_bad and (self.first_bad is None or self.first_bad.node is node):
                bad = self.first_bad = self.first_bad or Bad(node)
                bad.inputs = {s: v for s, v in arguments.items() if v is not None}
                if value is not None:
                    bad.expected[output] = value
            if value is not None and self._uses[source]:
                self._values[source] = value
            yield report
        self._release(node)

    def _value(self, source: Source) -> Array | None:
        operation = self._model.by_id[source.node].operation
        return operation.value if isinstance(operation, Const) else self._values.get(source)

    def _computed(
        self, node: Node, arguments: Mapping[Source, Array | None]
    ) -> tuple[list[Array], str]:
        """Our results of a layer; where there are none, an empty list and the reason."""
        if node.operation is None:
            return [], "there is no such operation here"
        if any(value is None for value in arguments.values()):
            return [], "what it reads is known to neither side"
        known = {
            s: TensorSpec(self._spec(s).element_type, PartialShape(v.shape))
            for s, v in arguments.items()
            if v is not None
        }
        try:
            if node.type_name == "ReadValue":
                given = [
                    TensorSpec(known[s].element_type, known[s].shape, arguments[s])
                    for s in node.inputs
                ]
                return [
                    spec.value for spec in node.operation.evaluate(given) if spec.value is not None
                ], ""
            single, inputs = alone(self._model, node, known)
            values = [_not_none(arguments[source]) for source in inputs]
            return _run_alone(single, values, self._options), ""
        except UncorkError as error:
            return [], f"refused here: {error.message}"

    def _compared(
        self,
        number: int,
        node: Node,
        output: int,
        mine: Array | None,
        problem: str,
        other: Array | Failed | None,
        arguments: Mapping[Source, Array | None],
    ) -> LayerReport:
        spec = node.outputs[output].spec
        tensor = str(_described(spec, mine))
        if other is None:
            return LayerReport(number, node, output, tensor, "unmatched", problem)
        if isinstance(other, Failed):
            return LayerReport(
                number, node, output, tensor, "failed", f"{self._peer.name}: {other.reason}"
            )
        if mine is None:
            verdict = DIFFERS if problem.startswith("refused") else "unmatched"
            return LayerReport(
                number, node, output, tensor, verdict, problem, theirs=describe_array(other)
            )
        given = [_described(self._spec(s), arguments[s]) for s in node.inputs]
        allowed = tolerance(node, given, _described(spec, mine), self._options.precision)
        allowed += dropped(self._model, node, self._options.decompression)
        undefined = _undefined(node, spec, [arguments[s] for s in node.inputs])
        found = difference(present(spec.element_type, mine), other, allowed, undefined)
        return LayerReport(number, node, output, tensor, found.verdict, found.reason, found)

    def _spec(self, source: Source) -> TensorSpec:
        return self._model.spec(source)

    def _release(self, node: Node) -> None:
        for source in node.inputs:
            self._uses[source] -= 1
            if not self._uses[source]:
                self._values.pop(source, None)


def _undefined(node: Node, spec: TensorSpec, arguments: Sequence[Array | None]) -> Array | None:
    """Where a layer converts floats to integers of which the type has none: NaN, infinities, and
    what lies beyond its range. None where every value is defined.
    """
    if not isinstance(node.operation, (Convert1, ConvertLike1)) or not arguments:
        return None
    data = arguments[0]
    if data is None or data.dtype.kind != "f" or not spec.element_type.is_integer:
        return None
    low, high = limits(spec.element_type)
    whole = np.trunc(data.astype(np.float64))
    # `high` + 1 is a power of two, which a float has; NaN is neither
    return ~((whole >= low) & (whole < high + 1))


def _specs(model: Model, inputs: Sequence[Array]) -> dict[Source, TensorSpec]:
    """What is known of every tensor with inputs of these sizes."""
    given = {
        parameter: TensorSpec(
            model.by_id[parameter].outputs[0].spec.element_type, PartialShape(array.shape)
        )
        for parameter, array in zip(model.parameters, inputs, strict=True)
    }
    sized, _ = infer(model, given, trust_ports=True)
    return {
        Source(node.id, i): port.spec for node in sized.nodes for i, port in enumerate(node.outputs)
    }


def _bytes(spec: TensorSpec | None) -> int:
    if spec is None or not spec.shape.is_static:
        return _UNKNOWN
    return int(spec.shape.size) * max(1, spec.element_type.bits // 8)


def _described(spec: TensorSpec, value: Array | None) -> TensorSpec:
    return spec if value is None else TensorSpec(spec.element_type, PartialShape(value.shape))


def _not_none(value: Array | None) -> Array:
    assert value is not None
    return value


def _run_alone(single: Model, inputs: Sequence[Array], options: Options) -> list[Array]:
    """The results, in carrier types, of carrier arrays. Raises UncorkError for values that the
    layer does not take.
    """
    compiled = compiled_with(single, options)
    results = compiled(shown(compiled.inputs, inputs))
    return [
        carrier(array, port.element_type)
        for port, array in zip(compiled.outputs, results, strict=True)
    ]
