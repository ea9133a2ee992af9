"""Random graphs in which sizes are found as the model runs: by its data, by numbers of the call, by
arithmetic with shapes.

A graph grows layer by layer beside the values of one call, so that most layers fit; the other calls
of a case change values, sizes and lengths, and need not fit. A case depends on its seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import uncork
from uncork.errors import UncorkError
from uncork.ir.model import Source
from uncork.ops import find
from uncork.ops._body import BodyMap, SubGraphOperation
from uncork.types import ElementType, PartialShape, TensorSpec

Array = np.ndarray[Any, Any]
#: Sizes of the inputs. Few, so that kernels are compiled once for many graphs.
SIZES = (0, 1, 1, 2, 3, 3, 4, 8)
#: No tensor of a case has more elements.
MOST = 4096


@dataclass(frozen=True)
class Value:
    """A tensor of the graph, with its value in the first call.

    `exact` says that both backends must have the very same numbers: only then something may be
    counted or compared with them.
    """

    source: Source
    array: Array
    exact: bool = True


@dataclass
class Input:
    """An input of the model: its value in the first call, the dimensions that are open, and what
    numbers may be in it.
    """

    array: Array
    open: tuple[bool, ...]
    numbers: str


@dataclass
class Graph:
    """A graph that grows, and what layers take from it."""

    random: random.Random
    builder: uncork.Builder = field(default_factory=lambda: uncork.Builder("graph"))
    inputs: list[Input] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    # ---- where values come from

    def parameter(self, numbers: str, array: Array, static: bool | None = None) -> Value:
        """A new input of such numbers (see `drawn`); its dimensions may be open."""
        closed = self.random.random() < 0.4 if static is None else static
        dims = tuple(not closed and self.random.random() < 0.8 for _ in array.shape)
        element_type = ElementType.of_dtype(array.dtype)
        assert element_type is not None
        given = [None if is_open else size for is_open, size in zip(dims, array.shape, strict=True)]
        source = self.builder.parameter(f"{numbers}_{len(self.inputs)}", element_type, given)
        self.inputs.append(Input(array, dims, numbers))
        return Value(source, array)

    def input(self, numbers: str, *shape: int) -> Value:
        """A new input of random numbers, which other layers may read too."""
        return self._kept(self.parameter(numbers, drawn(self.random, numbers, shape)))

    def constant(self, array: Any) -> Value:
        return Value(self.builder.constant(np.asarray(array)), np.asarray(array))

    def sizes(self, numbers: Sequence[int]) -> Value:
        """Such numbers as a constant, an input, or an input that the model converts first."""
        way = self.random.random()
        if way < 0.2:
            return self.constant(np.array(numbers, np.int64))
        given = self.parameter(
            "sizes",
            np.array(
                numbers, np.float32 if way > 0.8 else self.random.choice([np.int32, np.int64])
            ),
            static=True,
        )
        return self.layer("Convert", 1, given, destination_type="i64")[0] if way > 0.8 else given

    def pick(
        self, *, kind: str = "", rank: int | None = None, least: int = 0, exact: bool = False
    ) -> Value:
        """A value that there is, mostly a late one; a new input where none fits. `kind` is "f", "i"
        or any of them.
        """
        fits = [
            v
            for v in self.values
            if (not kind or v.array.dtype.kind == kind)
            and v.array.dtype.kind in "fi"
            and (not exact or v.exact)
            if (v.array.ndim == rank if rank is not None else v.array.ndim >= least)
        ]
        if fits and self.random.random() < 0.85:
            return fits[-1 - int(len(fits) * self.random.random() ** 2)]
        dims = rank if rank is not None else self.random.randint(max(1, least), 3)
        numbers = {"f": "x", "i": "ids"}.get(kind) or self.random.choice(["x", "ids", "mask"])
        return self.input(numbers, *(self.random.choice(SIZES) for _ in range(dims)))

    # ---- layers

    def layer(
        self,
        type_name: str,
        opset: int,
        *inputs: Value,
        exact: bool = True,
        bodies: Mapping[str, BodyMap] | None = None,
        **attributes: Any,
    ) -> list[Value]:
        """A layer on these values. Raises UncorkError where they do not fit."""
        cls = find(type_name, opset)
        assert cls is not None, type_name
        operation = cls(**attributes)
        if isinstance(operation, SubGraphOperation):
            operation = operation.with_bodies(bodies or {})
        given = [
            TensorSpec(
                self.builder._spec(v.source).element_type, PartialShape(v.array.shape), v.array
            )
            for v in inputs
        ]
        results = operation.evaluate(given)
        sources = [v.source for v in inputs]
        if bodies:
            outputs = self.builder.add_with_bodies(
                type_name, opset, *sources, bodies=bodies, **attributes
            )
        else:
            outputs = self.builder.add(type_name, opset, *sources, **attributes)
        exact = exact and all(v.exact for v in inputs)
        found = []
        for source, spec in zip(outputs, results, strict=True):
            assert spec.value is not None
            if spec.value.size > MOST:
                raise UncorkError("the graph grows too large")
            found.append(
                self._kept(Value(source, spec.value, exact or spec.value.dtype.kind != "f"))
            )
        return found

    def _kept(self, value: Value) -> Value:
        self.values.append(value)
        return value


def drawn(generator: random.Random, numbers: str, shape: Sequence[int]) -> Array:
    """An array of numbers of a kind: "x" (any), "mask" (mostly 0 and 1), "ids" (small, sometimes
    negative), "boxes", "sizes", ..
    """
    count = int(np.prod(shape))
    if numbers == "x":
        values = np.array([round(generator.uniform(-2, 2), 3) for _ in range(count)], np.float32)
    elif numbers == "mask":
        share = generator.choice([0.0, 0.3, 0.5, 0.8, 1.0])
        values = np.array([float(generator.random() < share) for _ in range(count)], np.float32)
    elif numbers == "ids":
        low = -2 if generator.random() < 0.1 else 0
        high = generator.choice([1, 2, 4, 7])
        values = np.array([generator.randint(low, high) for _ in range(count)], np.int64)
        if generator.random() < 0.3:
            values.sort()
    elif numbers == "boxes":  # around few places, so that many overlap
        corners = [
            (generator.choice([0.0, 0.5, 2.0]), generator.choice([0.0, 0.25]))
            for _ in range(count // 4 + 1)
        ]
        values = np.array([[a, b, a + 1, b + 1] for a, b in corners], np.float32).reshape(-1)[
            :count
        ]
    else:
        values = np.array([generator.randint(0, 4) for _ in range(count)], np.int64)
    return values.reshape(tuple(shape))


def changed(generator: random.Random, given: Input) -> Array:
    """The input in another call: as it was, with other numbers, or of another size where it is
    open.
    """
    array = given.array
    if generator.random() < 0.4:
        return array
    if given.numbers == "sizes":
        other = array.copy()
        if other.size:
            other.flat[generator.randrange(other.size)] += generator.choice(
                [-2, -1, -1, 1, 1, 2, 5]
            )
        return other
    lengths = [
        generator.choice(SIZES) if is_open and generator.random() < 0.5 else n
        for n, is_open in zip(array.shape, given.open, strict=True)
    ]
    return drawn(generator, given.numbers, lengths).astype(array.dtype)


def resized(
    generator: random.Random, inputs: Sequence[Input], sizes: Mapping[int, int], anew: bool = False
) -> list[Array]:
    """The inputs in a call of other sizes, equal ones the same: most graphs that took the first
    call take this one.

    What keeps its size keeps its numbers, unless they are drawn `anew`.
    """
    found = []
    for given in inputs:
        shape = [
            sizes.get(n, n) if is_open else n
            for n, is_open in zip(given.array.shape, given.open, strict=True)
        ]
        as_it_was = given.numbers == "sizes" or (tuple(shape) == given.array.shape and not anew)
        found.append(
            given.array
            if as_it_was
            else drawn(generator, given.numbers, shape).astype(given.array.dtype)
        )
    return found


@dataclass(frozen=True)
class Case:
    """A model and the inputs of several calls of it, in order. The first call is good."""

    model: uncork.Model
    calls: list[list[Array]]


def case(seed: str) -> Case:
    """The case of a seed. Of one that begins with "states" there are variables that grow, of one
    that begins with "exports" layers of networks.
    """
    from tests.fuzz.graph_layers import FINDERS, LAYERS
    from tests.fuzz.graph_networks import NETWORKS
    from tests.fuzz.graph_states import STATES

    first_layers = STATES if seed.startswith("states") else FINDERS
    if seed.startswith("exports"):
        first_layers = NETWORKS * 2 + FINDERS
    generator = random.Random(seed)
    graph = Graph(generator)
    wanted = generator.randint(3, 9)
    for attempt in range(6 * wanted):
        before = len(graph.values)
        # The first layer finds a size out (or has a variable), and so does every third or fourth
        # after it.
        finds = attempt == 0 or generator.random() < 0.3
        try:
            generator.choice(first_layers if finds else LAYERS)(graph)
        except UncorkError:
            del graph.values[before:]
            continue
        wanted -= 1
        if not wanted:
            break
    for number, source in enumerate(_results(graph)):
        graph.builder.result(source, f"result_{number}")
    first = [given.array for given in graph.inputs]
    others = [[changed(generator, given) for given in graph.inputs] for _ in range(4)]
    # Every size that is open is another one, the next time larger, and none at all.
    renamed = [
        resized(generator, graph.inputs, sizes)
        for sizes in ({2: 5, 3: 7, 4: 3, 8: 2}, {2: 17, 3: 16, 4: 20, 8: 33})
    ]
    nothing = resized(generator, graph.inputs, dict.fromkeys(SIZES, 0))
    if seed.startswith("states"):  # sizes that stay let the state go on
        same = [resized(generator, graph.inputs, {}, anew=True) for _ in range(4)]
        return Case(
            graph.builder.model(),
            [first, *same[:3], others[0], first, renamed[0], first, others[1], *same[3:], first],
        )
    return Case(
        graph.builder.model(),
        [first, renamed[0], others[0], first, *others[1:], renamed[1], others[0], nothing, first],
    )


def _results(graph: Graph) -> list[Source]:
    """An output of every layer whose values no layer reads, since the compiler leaves out what
    nothing needs; and one of some other.
    """
    nodes = graph.builder.model().nodes
    read = {
        source.node
        for node in nodes
        if node.type_name not in ("Assign", "ShapeOf")
        for source in node.inputs
    }
    made = [node for node in nodes if node.type_name not in ("Parameter", "Const", "Assign")]
    results = [
        Source(node.id, graph.random.randrange(len(node.outputs)))
        for node in made
        if node.id not in read
    ]
    return list(
        dict.fromkeys(
            [*results, Source(graph.random.choice(made).id, 0)] if made else [Source(0, 0)]
        )
    )
