"""The planner of sizes: where a call binds the symbols of a plan, and what it checks of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from uncork.compiler.body_planner import BodyPlanner
from uncork.compiler.call_plan import ConstantLocation, FoundSymbol
from uncork.compiler.planned_parts import NotPlanned, OpenSegment, lowered, own_dtype
from uncork.ir.model import Model, Node, Source
from uncork.kernels.runtime.read_size import ReadSize
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    ArrayGuard,
    Bind,
    KernelArgument,
    SizeCheck,
    Slot,
    SlotAddress,
    VersionAddress,
)
from uncork.symbolic import Facts, Guard, Origin, Relation, Size, Symbol
from uncork.types import TensorSpec


class SizePlanner(BodyPlanner):
    """The planner that binds symbols: by the shapes and elements of inputs, and of what steps give.

    Guards and checks are looked at as soon as all their symbols are bound; what they say together
    of symbols that are bound before, at once.
    """

    #: The symbols that a plan needs.
    _used_symbols: set[Symbol]

    def __init__(self, model: Model, facts: Facts) -> None:
        super().__init__(model)
        self.facts = facts
        self._relations: list[Relation] = []
        self._waiting: list[Relation] = []
        self._implied: set[Relation] = set()
        self._found: list[tuple[Symbol, Slot]] = []
        self._observed: list[tuple[Slot, Size]] = []

    def _input_spec(self, number: int) -> TensorSpec:
        return self.model.by_id[self.model.parameters[number]].outputs[0].spec

    def _usual_shape(self, spec: TensorSpec) -> Sequence[int | None]:
        sizes = [
            None if dim.size is None else self.facts.usual(dim.size) for dim in spec.shape.dims
        ]
        return [size if isinstance(size, int) else None for size in sizes]

    def _array_guard(self, number: int) -> ArrayGuard:
        spec = self._input_spec(number)
        if spec.rank is None:
            raise NotPlanned("the rank of an input is known at the call only")
        # A size that a guard makes a number is open all the same: calls with another one fail at
        # the guard and get another plan.
        node = self.model.parameters[number]
        symbols = {symbol.origin for symbol in self.facts.symbols}
        sizes = [
            None if Origin(node, 0, axis) in symbols else dim.static_size
            for axis, dim in enumerate(spec.shape.dims)
        ]
        return ArrayGuard(own_dtype(spec), tuple(sizes))

    def _begin(self) -> None:
        """Begin the first segment, which binds the symbols of inputs."""
        segment = self._segment()
        numbers = {parameter: number for number, parameter in enumerate(self.model.parameters)}
        for parameter, number in numbers.items():
            self._locations[Source(parameter, 0)] = ArgumentAddress(number)
        self._waiting = [*self.facts.guards, *self.facts.checks]
        for symbol in self.facts.symbols:
            origin = symbol.origin
            if origin.node not in numbers:
                continue
            number = numbers[origin.node]
            if not origin.is_element:
                slot = self.program.bind(symbol)
                segment.binds.append(Bind(slot, number, origin.position))
                self._bound_check(segment, symbol, slot)
            elif symbol in self._used_symbols:
                element_type = self._input_spec(number).element_type
                if element_type.name not in ("i64", "i32"):
                    raise NotPlanned(f"shapes read elements of {element_type}")
                slot = self.program.bind(symbol)
                offset = origin.position * element_type.dtype.itemsize
                segment.binds.append(Bind(slot, number, element=element_type.name, offset=offset))
                self._bound_check(segment, symbol, slot)
        self._check_relations(segment)

    def _bound_check(self, segment: OpenSegment, symbol: Symbol, slot: Slot) -> None:
        """Add the check that a size is in its interval: other sizes are left to the references,
        which refuse them or know how to handle empty tensors.
        """
        if symbol.low > -(1 << 62):
            segment.checks.append(
                SizeCheck("at_least", slot, self.program.slot(symbol.low), False, -1)
            )
        if symbol.high is not None:
            segment.checks.append(
                SizeCheck("at_least", self.program.slot(symbol.high), slot, False, -1)
            )

    def _check_relations(self, segment: OpenSegment) -> None:
        """Check the guards and checks whose symbols are all bound by now."""
        waiting = []
        for relation in self._waiting:
            if relation.symbols - self.program.symbols.keys():
                waiting.append(relation)
                continue
            number = len(self._relations)
            self._relations.append(relation)
            kind, a, b = lowered(relation, self.program)
            segment.checks.append(SizeCheck(kind, a, b, isinstance(relation, Guard), number))
        self._waiting = waiting
        for relation in self._implied_by_waiting() if waiting else ():
            kind, a, b = lowered(relation, self.program)
            segment.checks.append(SizeCheck(kind, a, b, False, -1))

    def _implied_by_waiting(self) -> Iterator[Relation]:
        """What relations with symbols that later steps find say of those that are bound now, each
        once.

        Of `n == 2 * found` and `found == 3`, that n is 6: tensors in front of those steps, and
        their kernels, are of that size already.
        """
        bound = self.program.symbols.keys()
        for size, equal in self.facts.equalities():
            if size.symbols | equal.symbols <= bound:
                yield from self._implied_once(Relation(size, "==", equal, -1, ""))
        for size in self.facts.at_least_0:
            later = Size({m: f for m, f in size.terms.items() if Size({m: f}).symbols - bound})
            most = later.bounds[1]
            if not isinstance(most, float) and (least := size - later + most).bounds[0] < 0:
                yield from self._implied_once(Relation(least, ">=", Size.of(0), -1, ""))

    def _implied_once(self, relation: Relation) -> Iterator[Relation]:
        if relation not in self._implied:
            self._implied.add(relation)
            yield relation

    def _begin_segment(self, segment: OpenSegment) -> None:
        found, self._found = self._found, []
        for symbol, slot in found:
            self._bound_check(segment, symbol, slot)
        observed, self._observed = self._observed, []
        for slot, size in observed:
            segment.checks.append(SizeCheck("equal", slot, self.program.slot(size), False, -1))
        self._check_relations(segment)

    def _finds(self, node: Node) -> list[Symbol]:
        """Symbols that this layer's outputs bind."""
        return [
            s
            for s in self.facts.symbols
            if s.origin.node == node.id
            and s in self._used_symbols
            and s not in self.program.symbols
        ]

    def _bound(self, symbols: Sequence[Symbol]) -> tuple[FoundSymbol, ...]:
        """Slots for symbols that the last part finds: the next segment looks at them."""
        result = tuple(
            FoundSymbol(
                self.program.bind(s), s.origin.output, s.origin.position, s.origin.is_element
            )
            for s in symbols
        )
        self._found += [(symbol, f.slot) for symbol, f in zip(symbols, result, strict=True)]
        return result

    def _reads(
        self, node: Node, specs: Sequence[TensorSpec], symbols: Sequence[Symbol]
    ) -> Iterator[tuple[ReadSize, tuple[KernelArgument, ...]]]:
        """The kernels that read sizes which this layer's kernel finds, with their arguments. The
        next segment is made of these sizes.
        """
        for symbol, found in zip(symbols, self._bound(symbols), strict=True):
            source, position = Source(node.id, symbol.origin.output), symbol.origin.position
            element_type = specs[source.output].element_type
            location = self._location(source)
            assert not isinstance(location, ConstantLocation)
            element = replace(location, offset=position * element_type.dtype.itemsize)
            self._use(source)
            yield ReadSize(element_type.name), (element, SlotAddress(found.slot), VersionAddress())

    def _expected_shape(
        self, source: Source, found: Sequence[FoundSymbol], looked_at: list[FoundSymbol]
    ) -> tuple[int | None, ...] | None:
        """The shape that a reference must give. Sizes that are expressions are added to
        `looked_at`, to be compared in the next segment.
        """
        spec = self._spec(source)
        if spec.rank is None:
            return None
        own = {(f.output, f.position) for f in found if not f.is_element}
        for axis, dim in enumerate(spec.shape.dims):
            size = dim.size
            if (
                isinstance(size, Size)
                and (source.output, axis) not in own
                and size.symbols <= self.program.symbols.keys()
            ):
                slot = self.program.reserve()
                looked_at.append(FoundSymbol(slot, source.output, axis, False))
                self._observed.append((slot, size))
        return tuple(dim.static_size for dim in spec.shape.dims)
