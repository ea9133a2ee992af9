"""Sub-graphs as an operation sees them: what a body takes and gives, and how its ports are joined
to those of the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import ClassVar, Protocol, TypeVar

from msgspec import Struct

from uncork.errors import InputError
from uncork.ops._operation import Operation
from uncork.ops._ports import Field
from uncork.symbolic import facts_of
from uncork.types import Array, PartialShape, TensorSpec


class EndlessLoop(InputError):
    """A loop has made more turns than it may, or than there is memory for: no other way to run it
    would end sooner.
    """


class Body(Protocol):
    """A graph inside a layer. Inputs are in the order of its Parameters, outputs in that of its
    Results.
    """

    @property
    def input_specs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def output_count(self) -> int: ...

    def describe(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        """Specs of the results; raises UncorkError, with the inner layer, when the body cannot take
        these inputs.
        """
        ...

    def evaluate(self, inputs: Sequence[Array]) -> list[Array]:
        """Carrier arrays of the results."""
        ...


class Slicing(Struct, frozen=True):
    """A tensor cut into parts along an axis, one an iteration, or put together from them
    (attributes of the port map).
    """

    axis: int
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1


class _Entry(Struct, frozen=True, kw_only=True):
    """An entry of a port map, with the purpose that the file gives it."""

    purpose: str = ""


class BodyInput(_Entry, frozen=True):
    """An input of a body: input `port` of the layer feeds Parameter number `parameter`."""

    port: int
    parameter: int


class SlicedInput(BodyInput, frozen=True):
    """An input of which each iteration takes a part."""

    slicing: Slicing


class TurnNumber(Struct, frozen=True):
    """The number of the iteration feeds Parameter number `parameter`."""

    purpose: ClassVar[str] = "current_iteration"
    parameter: int


class BodyOutput(_Entry, frozen=True):
    """An output of a body: Result number `result` feeds output `port` of the layer."""

    port: int
    result: int


class JoinedOutput(BodyOutput, frozen=True):
    """An output that is put together from the parts that all iterations give."""

    slicing: Slicing


class InnerResult(_Entry, frozen=True):
    """Result number `result` feeds no output of the layer: it may be a loop's condition."""

    result: int


Value = TypeVar("Value")


class BodyMap(Struct, frozen=True):
    """A body with its port map. `back_edges` are pairs (result, parameter): the result is the
    parameter's value in the next iteration.
    """

    body: Body
    inputs: tuple[BodyInput | TurnNumber, ...]
    outputs: tuple[BodyOutput | InnerResult, ...]
    back_edges: tuple[tuple[int, int], ...] = ()

    @property
    def fed(self) -> list[BodyInput]:
        """The inputs that the layer's inputs feed."""
        return [e for e in self.inputs if isinstance(e, BodyInput)]

    @property
    def sliced(self) -> list[SlicedInput]:
        """The inputs of which each iteration takes a part."""
        return [e for e in self.inputs if isinstance(e, SlicedInput)]

    @property
    def whole(self) -> list[BodyInput]:
        """The inputs that the layer's inputs feed as they are."""
        return [e for e in self.fed if not isinstance(e, SlicedInput)]

    @property
    def given(self) -> list[BodyOutput]:
        """The outputs that are outputs of the layer."""
        return [e for e in self.outputs if isinstance(e, BodyOutput)]

    @property
    def joined(self) -> list[JoinedOutput]:
        """The outputs that are put together from the parts of all iterations."""
        return [e for e in self.outputs if isinstance(e, JoinedOutput)]

    @property
    def last(self) -> list[BodyOutput]:
        """The outputs that are what the last iteration gives."""
        return [e for e in self.given if not isinstance(e, JoinedOutput)]

    @property
    def counter(self) -> int | None:
        """The Parameter that is the number of the iteration."""
        found = [e.parameter for e in self.inputs if e.purpose == TurnNumber.purpose]
        return found[-1] if found else None

    @property
    def condition(self) -> int | None:
        """The Result that says whether there is another iteration."""
        found = [e.result for e in self.outputs if e.purpose == CONDITION]
        return found[-1] if found else None

    @property
    def carried(self) -> dict[int, int]:
        """The Results of values that are carried along, by their Parameters."""
        return {parameter: result for result, parameter in self.back_edges}

    def input_of(self, parameter: int) -> BodyInput | TurnNumber:
        """What feeds a Parameter."""
        return next(e for e in self.inputs if e.parameter == parameter)

    def arguments(self, inputs: Sequence[Value]) -> list[Value]:
        """What the Parameters take of the layer's inputs, where these feed them all."""
        found = {e.parameter: inputs[e.port] for e in self.fed}
        return [found[i] for i in range(len(found))]

    def outputs_of(self, results: Sequence[Value]) -> list[Value]:
        """The layer's outputs, where each is a Result as it is."""
        found = {e.port: results[e.result] for e in self.given}
        return [found[i] for i in range(len(found))]


#: The purpose of the Result that says whether a loop makes another iteration.
CONDITION = "execution_condition"


Self = TypeVar("Self", bound="SubGraphOperation")


class SubGraphOperation(Operation):
    """Base of If, Loop and TensorIterator. It has its bodies when the node is built."""

    # What a body computes may depend on its state or not end: nothing of it is evaluated while
    # shapes are inferred.
    deterministic = False
    #: Names of the bodies, as in the file: `then_body`, `body`.
    body_names: ClassVar[tuple[str, ...]] = ()
    bodies = Field[Mapping[str, BodyMap]]()
    #: The most iterations a loop may make; None leaves it to the model.
    loop_limit = Field[int | None](None)

    def with_bodies(self: Self, bodies: Mapping[str, BodyMap]) -> Self:
        """The same operation with these bodies.

        Raises ValidationError unless every Parameter is fed once and every output of the layer has
        a source in every body.
        """
        self.require(
            set(bodies) == set(self.body_names),
            "expected {}, got {}",
            _listed(self.body_names),
            _listed(sorted(bodies)),
        )
        for name, body in bodies.items():
            fed = sorted(i.parameter for i in body.inputs)
            expected = list(range(len(body.body.input_specs)))
            self.require(
                fed == expected,
                "<{}>: expected each of the {} parameters to be fed once by the port map",
                name,
                len(expected),
            )
            ports = sorted(o.port for o in body.given)
            self.require(
                ports == list(range(len(ports))),
                "<{}>: expected the port map to give outputs 0 to {} once each",
                name,
                len(ports) - 1,
            )
            self.require(len(ports) > 0, "<{}>: the port map gives no output", name)
            for _, parameter in body.back_edges:
                self.require(
                    not isinstance(body.input_of(parameter), SlicedInput),
                    "<{}>: parameter {} is both sliced and the end of a back edge",
                    name,
                    parameter,
                )
            targets = [parameter for _, parameter in body.back_edges]
            self.require(
                len(set(targets)) == len(targets), "<{}>: two back edges end at one parameter", name
            )
        counts = {len(b.given) for b in bodies.values()}
        self.require(
            len(counts) == 1, "the bodies give different numbers of outputs: {}", sorted(counts)
        )
        return self.replace(bodies=dict(bodies))

    def rewritten(self: Self, rewrite: Callable[[BodyMap], BodyMap]) -> Self:
        """The same operation with each of its bodies rewritten; the very same where all stay."""
        bodies = {name: rewrite(joined) for name, joined in self.bodies.items()}
        if all(bodies[name] is joined for name, joined in self.bodies.items()):
            return self
        return self.replace(bodies=bodies)

    def external(self, inputs: Sequence[TensorSpec], entry: BodyInput) -> TensorSpec:
        """The spec of the layer's input that feeds a body's input."""
        self.require(
            entry.port < len(inputs),
            "the port map names input {}, there are {}",
            entry.port,
            len(inputs),
        )
        return inputs[entry.port]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"<{n}>" for n in names) or "none"


@contextmanager
def maybe_run(specs: Iterable[TensorSpec], certain: bool) -> Iterator[None]:
    """A context for describing a body that may not run (unless it is `certain` to): what it demands
    of sizes is then no demand of the call.
    """
    facts = (
        None
        if certain
        else facts_of(d.expression for s in specs if s.rank is not None for d in s.shape)
    )
    with nullcontext() if facts is None else facts.tentative():
        yield


def union(first: TensorSpec, second: TensorSpec) -> TensorSpec | None:
    """A spec that holds both tensors; None when their element types differ."""
    if first.element_type is not second.element_type:
        return None
    if first.rank is None or second.rank is None or first.rank != second.rank:
        return TensorSpec(first.element_type, PartialShape())
    return TensorSpec(
        first.element_type,
        PartialShape([a.union(b) for a, b in zip(first.shape, second.shape, strict=True)]),
    )
