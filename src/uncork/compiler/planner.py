"""Makes the plan of a model, once for every size: chooses kernels, places tensors, and compiles the
size program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uncork.compiler.body_planner import BodyPlanner
from uncork.compiler.call_plan import (
    CallPlan,
    ConstantPlace,
    FoundSymbol,
    Place,
    PlannedStep,
    ReadStep,
    ReferenceStep,
    ResultSpec,
)
from uncork.compiler.planned_parts import (
    NotPlanned,
    OpenSegment,
    bytes_of,
    closed,
    dimensions,
    lowered,
    own_dtype,
    symbols_of,
    whole_cost,
)
from uncork.compiler.policy import LOOK_COST
from uncork.compiler.shared_work import Work
from uncork.compiler.size_program import Unbound
from uncork.files import MappedFile, size_function
from uncork.internal_ops.appended_state import StateValue
from uncork.ir.model import Model, Node, Source
from uncork.kernels import kernel_plan, select
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.movement.spec_nd_copy import CopyBytes
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.segment import entry_functions
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    Bind,
    BufferAddress,
    CallTable,
    Like,
    Number,
    SizeCheck,
    Slot,
    Step,
    TensorAddress,
    Word,
)
from uncork.kernels.runtime.target import Target, release_gil
from uncork.kernels.runtime.thread_pool import dispatch
from uncork.kernels.runtime.whole_file import WholeFile
from uncork.symbolic import Facts, Guard, Origin, Relation, Size, Symbol
from uncork.types import TensorSpec


class Planner(BodyPlanner):
    """Plans one model whose specs carry sizes as expressions; `facts` are those of its
    inference.
    """

    def __init__(
        self,
        model: Model,
        facts: Facts,
        target: Target | None,
        threads: int = 1,
        files: Sequence[MappedFile] = (),
        compilers: int = 1,
    ) -> None:
        """Kernels are selected for `target`; without one references do everything. A call uses at
        most so many `threads`.

        A call looks first whether the mapped `files` are whole, where that is cheap. So many
        `compilers` make kernels at a time: by none, no kernel is made, and such a plan is to be
        looked at only.
        """
        super().__init__(model)
        self.facts, self.target, self._compiles = facts, target, compilers > 0
        self._threads, self._compilers, self._files = threads, compilers, files
        self._works: dict[int, Work] = {}
        self._keep: list[object] = []
        self._planned: list[PlannedStep] = []
        self._relations: list[Relation] = []
        self._waiting: list[Relation] = []
        self._found: list[tuple[Symbol, Slot]] = []
        self._observed: list[tuple[Slot, Size]] = []
        self._arguments = self._inputs + self._outputs

    # ---- the whole

    def plan(self) -> CallPlan:
        """The plan. Raises NotPlanned where sizes are not known as expressions."""
        for node in self.model.nodes:
            if node.type_name not in ("Parameter", "Result"):
                self.choices[node.id] = self._choice(node)
        self._used_symbols = self._symbols_needed()
        self._compile()
        self._begin()
        unread = self._unread()
        for node in self.model.nodes:
            if node.id in self.choices and node.id not in unread:
                self._layer = node.label
                self._add(node)
        if self._waiting or self._found or self._observed:
            self._segment()  # which looks at what the last steps have found
        if self._waiting:  # a pass has taken the layer out that finds the size
            raise NotPlanned(
                f"{self._waiting[0].where}: whether {self._waiting[0]} is never looked at"
            )
        results = self._finish_results()
        self._end_segment()
        self._look_at_files()
        self.program.ops = list  # no circle is left that only the collector would find
        return CallPlan(
            parts=tuple(closed(part, self._buffers) for part in self._parts),
            slots=tuple(self.program.values),
            buffers=len(self._buffers),
            tensor_bytes=self._tensor_bytes,
            likes=tuple(self._like(i) for i in range(self._inputs)),
            results=results,
            arguments=self._arguments,
            relations=tuple(self._relations),
            steps=tuple(self._planned),
            keep=tuple(self._keep),
            buffer_layers=tuple(self._buffer_layers),
            symbols={symbol.origin: slot for symbol, slot in self.program.symbols.items()},
            extended=tuple(self._extended),
        )

    def _unread(self) -> set[int]:
        """Values of variables that only those read who ask for their shapes: nobody makes them."""
        read: set[int] = set()
        found: set[int] = set()
        for node in reversed(self.model.nodes):
            if isinstance(node.operation, StateValue) and node.id not in read:
                found.add(node.id)
            elif (
                node.id not in self.choices
                or self._finds(node)
                or not all(self._is_known(port.spec) for port in node.outputs)
            ):
                read.update(source.node for source in node.inputs)
        return found

    def _compile(self) -> None:
        """Have the kernels of all steps ready, now that all are known: several threads compile
        them.
        """
        steps = [
            (node, self.choices[node.id])
            for node in self.model.nodes
            if node.id in self.choices and not self._is_given(node)
        ]
        works = [
            self._work(node, choice)
            for node, choice in steps
            if isinstance(choice, kernel_plan.KernelPlan)
        ]
        if self.target is not None and self._compiles:
            STORE.prepare(
                [spec for work in works for spec in work.kernels],
                entry_functions(),
                self.target,
                self._compilers,
            )

    def _choice(self, node: Node) -> kernel_plan.Selection:
        outputs = [port.spec for port in node.outputs]
        if self.target is None or node.operation is None:
            return select.unavailable() or "asked for"
        if any(spec.element_type.dtype == object for spec in outputs):
            return "no kernel for strings"
        if any(spec.rank is None for spec in outputs):
            return "the rank of its result is known at the call only"
        try:
            return select.select_kernel(
                node.operation,
                [self._spec(source) for source in node.inputs],
                outputs,
                self.target,
                node.hints,
            )
        except (TypeError, ValueError) as error:
            if all(
                spec.shape.is_static
                for spec in (*outputs, *(self.model.spec(s) for s in node.inputs))
            ):
                raise
            return f"its kernels are not made for open sizes: {error}"

    # ---- what is needed

    def _symbols_needed(self) -> set[Symbol]:
        """The symbols that checks, guards and sizes of tensors, or of steps, are made of."""
        needed = {
            symbol
            for relation in (*self.facts.guards, *self.facts.checks)
            for symbol in relation.symbols
        }
        for node in self.model.nodes:
            for port in node.outputs:
                needed |= symbols_of(port.spec)
            choice = self.choices.get(node.id)
            if isinstance(choice, kernel_plan.KernelPlan):
                for size in self._work(node, choice).sizes:
                    needed |= size.symbols
        return needed | {
            s for symbol in needed for s in self.facts.canonical(Size.of(symbol)).symbols
        }

    # ---- inputs

    def _input_spec(self, number: int) -> TensorSpec:
        return self.model.by_id[self.model.parameters[number]].outputs[0].spec

    def _like(self, number: int) -> Like:
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
        return Like(own_dtype(spec), tuple(sizes))

    def _begin(self) -> None:
        """The first segment binds the symbols of inputs."""
        segment = self._segment()
        numbers = {parameter: number for number, parameter in enumerate(self.model.parameters)}
        for parameter, number in numbers.items():
            self._places[Source(parameter, 0)] = ArgumentAddress(number)
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
        """A size outside its interval is for the references, which say so or know what to do with
        nothing.
        """
        if symbol.low > -(1 << 62):
            segment.checks.append(
                SizeCheck("at_least", slot, self.program.slot(symbol.low), False, -1)
            )
        if symbol.high is not None:
            segment.checks.append(
                SizeCheck("at_least", self.program.slot(symbol.high), slot, False, -1)
            )

    def _look_at_files(self) -> None:
        """Constants may be mapped files: the first segment looks whether these are whole, unless
        all of it is done in no time.
        """
        first, size_of = self._parts[0], size_function()
        assert isinstance(first, OpenSegment)
        if size_of and (
            isinstance(first.cost, Size) or first.cost > LOOK_COST or len(self._parts) > 1
        ):
            look = self._address(WholeFile()) if self._files else 0
            first.steps[:0] = [
                Step(look, (size_of, file.handle, len(file))) for file in self._files
            ]
            self._keep += self._files

    def _check_relations(self, segment: OpenSegment) -> None:
        """Guards and checks whose symbols are all bound by now."""
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

    def _begin_segment(self, segment: OpenSegment) -> None:
        found, self._found = self._found, []
        for symbol, slot in found:
            self._bound_check(segment, symbol, slot)
        observed, self._observed = self._observed, []
        for slot, size in observed:
            segment.checks.append(SizeCheck("equal", slot, self.program.slot(size), False, -1))
        self._check_relations(segment)

    # ---- steps

    def _add(self, node: Node) -> None:
        specs = [self._spec(Source(node.id, position)) for position in range(len(node.outputs))]
        choice = self.choices[node.id]
        try:
            if self._finds(node):
                self._find(node, choice, specs)
            elif all(self._is_known(spec) for spec in specs):
                return  # placed where it is read
            else:
                self._run(node, choice, specs)
        except Unbound as error:
            raise NotPlanned(f"{node.label}: {error}") from None

    def _finds(self, node: Node) -> list[Symbol]:
        """Symbols that this layer's outputs bind."""
        return [
            s
            for s in self.facts.symbols
            if s.origin.node == node.id and s in self._used_symbols and s not in self.program.symbols
        ]  # fmt: skip

    def _find(self, node: Node, choice: kernel_plan.Selection, specs: Sequence[TensorSpec]) -> None:
        """A layer whose result tells sizes: those of its shape by the reference's arrays, elements
        also out of a kernel's.
        """
        symbols = self._finds(node)
        if isinstance(choice, str) or not all(symbol.origin.is_element for symbol in symbols):
            self._reference(
                node,
                choice if isinstance(choice, str) else "a size that only the call finds",
                symbols,
            )
            return
        self._run(node, choice, specs)
        sources = [Source(node.id, position) for position in range(len(specs))]
        for source in sources:
            self._use(source)
        tensors = tuple(map(self._tensor, sources))
        self._end_segment()
        self._parts.append(ReadStep(tensors, self._bound(symbols)))
        self._step += 1

    def _bound(self, symbols: Sequence[Symbol]) -> tuple[FoundSymbol, ...]:
        """Slots for symbols that the last part finds: the next segment looks at them."""
        found = tuple(
            FoundSymbol(
                self.program.bind(s), s.origin.output, s.origin.position, s.origin.is_element
            )
            for s in symbols
        )
        self._found += [(symbol, f.slot) for symbol, f in zip(symbols, found)]
        return found

    def _run(self, node: Node, choice: kernel_plan.Selection, specs: Sequence[TensorSpec]) -> None:
        """The step of a layer, or none for a view."""
        if isinstance(choice, kernel_plan.Alias):
            self._places[Source(node.id, 0)] = self._place(node.inputs[choice.position])
            self._note(node, "view")
        elif isinstance(choice, kernel_plan.KernelPlan):
            self._native(node, choice, specs)
        elif not self._run_branches(node, specs):
            self._reference(node, choice, ())

    def _native(
        self, node: Node, choice: kernel_plan.KernelPlan, specs: Sequence[TensorSpec]
    ) -> None:
        segment = self._segment()
        work = self._work(node, choice)
        read = work.inputs
        places = {i: self._place(source) for i, source in enumerate(node.inputs) if i in read}
        for source in node.inputs:
            self._use(source)
        for position, spec in enumerate(specs):
            self._place_output(node, position, spec, choice.extends)
        scratch = None
        if not isinstance(work.scratch, int) or work.scratch:
            scratch = self._new_buffer(work.scratch)
        for variant in work.variants:
            for whens, calls in variant.groups:
                condition = self.program.both([self._condition(when) for when in whens])
                steps = [
                    Step(
                        self._address(spec),
                        tuple(self._word(node, operand, places, scratch) for operand in operands),
                    )
                    for spec, operands in calls
                ]
                segment.steps.append(
                    replace(
                        steps[0] if len(steps) == 1 else self._together(steps), condition=condition
                    )
                )
        self._keep += choice.keep
        segment.cost = segment.cost + whole_cost(choice.cost)
        self._note(node, choice.kernel + work.threads)
        self._step += 1

    def _work(self, node: Node, choice: kernel_plan.KernelPlan) -> Work:
        if node.id not in self._works:
            self._works[node.id] = Work.of(choice, self._threads)
        return self._works[node.id]

    def _address(self, spec: KernelSpec) -> int:
        return STORE.address(spec, self.target) if self._compiles else 0

    def _together(self, calls: Sequence[Step]) -> Step:
        """The step that makes calls together."""
        table = CallTable(tuple(calls))
        return Step(*dispatch(len(calls), table)) if self._compiles else Step(0, (table,))

    def _condition(self, when: kernel_plan.AtLeast) -> Slot:
        return (self.program.below if when.otherwise else self.program.at_least)(
            when.size, when.least
        )

    def _word(
        self,
        node: Node,
        operand: kernel_plan.Operand,
        places: dict[int, Place],
        scratch: int | None,
    ) -> Word:
        if isinstance(operand, (int, Size)):
            return self.program.number(operand)
        if isinstance(operand, kernel_plan.Scratch):
            return (
                0
                if scratch is None
                else BufferAddress(scratch, self.program.number(operand.offset))
            )
        if isinstance(operand, kernel_plan.ReleaseGil):
            return release_gil()
        if isinstance(operand, kernel_plan.In):
            place = places[operand.position]
        else:
            place = self._places[Source(node.id, operand.position)]
        offset = self.program.number(operand.offset)
        if isinstance(place, ConstantPlace):
            self._keep.append(place.array)
            if not isinstance(offset, int):
                raise NotPlanned(f"{node.label}: an open offset into a constant")
            return int(place.array.ctypes.data) + offset
        if isinstance(place, TensorAddress):
            if not isinstance(offset, int):
                raise NotPlanned(f"{node.label}: an open offset into a tensor of sizes")
            return TensorAddress(place.first, offset)
        return replace(place, offset=offset)

    def _reference(self, node: Node, reason: str, symbols: Sequence[Symbol]) -> None:
        inputs = tuple(self._tensor(source) for source in node.inputs)
        for source in node.inputs:
            self._use(source)
        outputs = tuple(range(self._arguments, self._arguments + len(node.outputs)))
        self._arguments += len(outputs)
        self._end_segment()
        found = self._bound(symbols)
        shapes: list[tuple[int | None, ...] | None] = []
        looked_at = list(found)
        for position, number in enumerate(outputs):
            source = Source(node.id, position)
            self._places[source] = ArgumentAddress(number)
            shapes.append(self._expected_shape(source, found, looked_at))
        specs = tuple(map(self._spec, node.inputs))
        body = self._body_run(node)
        self._parts.append(
            ReferenceStep(node, specs, inputs, outputs, tuple(shapes), tuple(looked_at), body)
        )
        self._note(node, "reference" if body is None else "bodies", reason if body is None else "")
        self._step += 1

    def _expected_shape(
        self, source: Source, found: Sequence[FoundSymbol], looked_at: list[FoundSymbol]
    ) -> tuple[int | None, ...] | None:
        """The shape that a reference must give. Sizes that are expressions are put to those that
        are looked at, to be compared.
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

    def _note(self, node: Node, kernel: str, reason: str = "") -> None:
        """Remember how the layer runs, for whoever looks at the plan."""
        self._planned.append(
            PlannedStep(node, kernel, reason, node.hints.note, self._places.get(Source(node.id, 0)))
        )

    # ---- results

    def _finish_results(self) -> tuple[ResultSpec, ...]:
        results: list[ResultSpec] = []
        for number, result in enumerate(self.model.results):
            source = self.model.by_id[result].inputs[0]
            spec, dtype = self._spec(source), own_dtype(self._spec(source))
            argument = self._inputs + number
            place = self._place(source)
            if (
                isinstance(place, ArgumentAddress)
                and place.argument >= self._inputs + self._outputs
            ):
                sizes = None if self._has_own_shape(source) else self._result_sizes(spec)
                results.append(ResultSpec(dtype, sizes, place.argument))
                continue
            sizes = self._result_sizes(spec)
            self.program.slot(
                bytes_of(spec)
            )  # an array that is too large to have a size is one too large to be made
            if place != ArgumentAddress(argument):
                self._copy(source, place, number)
            results.append(ResultSpec(dtype, sizes, argument))
        return tuple(results)

    def _result_sizes(self, spec: TensorSpec) -> tuple[Number, ...]:
        return tuple(map(self.program.number, dimensions(spec)))

    def _copy(self, source: Source, place: Place, number: int) -> None:
        """A result that is an input, a constant, or another result as well: an array of the
        caller's own.
        """
        spec = self._spec(source)
        if spec.element_type.dtype == object:
            raise NotPlanned("a result of strings that is no step's own")
        target = self._make_result(number, spec)
        self._use(source)
        node = self.model.by_id[source.node]
        words = (
            self._word(node, kernel_plan.In(0), {0: place}, None),
            target,
            self.program.number(bytes_of(spec)),
        )
        self._segment().steps.append(Step(self._address(CopyBytes()), words))
        self._step += 1
