"""The planner of a model, once for every size: it selects kernels, places tensors and compiles the
size program.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from uncork.compiler.call_plan import (
    CallPlan,
    ConstantLocation,
    Location,
    PlannedStep,
    ReferenceStep,
    ResultSpec,
)
from uncork.compiler.joined_tensors import JoinedTensors
from uncork.compiler.layer_kernels import LayerKernels
from uncork.compiler.planned_parts import (
    NotPlanned,
    OpenSegment,
    bytes_of,
    closed,
    dimensions,
    own_dtype,
    packable,
    symbols_of,
    whole_cost,
)
from uncork.compiler.policy import LOOK_COST
from uncork.compiler.size_planner import SizePlanner
from uncork.compiler.size_program import Unbound
from uncork.files import MappedFile, size_function
from uncork.internal_ops.appended_state import StateValue
from uncork.ir.model import Model, Node, Source
from uncork.kernels import kernel_plan
from uncork.kernels.movement.spec import COPY_BYTES
from uncork.kernels.runtime.addresses import address_of, symbol
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.packed_weights import memory_shared
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    BufferAddress,
    KernelArgument,
    KnownAddress,
    SizeOperand,
    Slot,
    Step,
    TensorAddress,
)
from uncork.kernels.runtime.target import host_target, release_gil
from uncork.kernels.runtime.whole_file import WholeFile
from uncork.ops._memory import is_beyond_arrays
from uncork.ops.concat import Concat1
from uncork.symbolic import Facts, Size, Symbol
from uncork.types import TensorSpec


class Planner(SizePlanner):
    """The planner of a model whose specs carry sizes as expressions; `facts` are those of its
    inference.
    """

    def __init__(
        self,
        model: Model,
        facts: Facts,
        kernels: LayerKernels,
        files: Sequence[MappedFile] = (),
    ) -> None:
        """A call looks first whether the mapped `files` are whole, where that is cheap."""
        super().__init__(model, facts)
        self._kernels, self._files = kernels, files
        self._compiles = kernels.compiles
        self._target = kernels.target or host_target()
        self._keep: list[object] = []
        self._planned: list[PlannedStep] = []
        self._arguments = self._inputs + self._outputs
        #: Why kernels that layers need cannot be had.
        self.refused: list[CannotCompile] = []

    # ---- the whole

    def _refuse_what_no_array_has(self) -> None:
        """Raise NotPlanned where a tensor has more elements than an array can have, however empty
        it is: references say so.
        """
        for node in self.model.nodes:
            for port in node.outputs:
                if port.spec.rank is not None and is_beyond_arrays(port.spec):
                    raise NotPlanned(f"{node.label}: {port.spec} is more than an array can have")

    def plan(self) -> CallPlan:
        """The plan, by the kernels that were selected. Raises NotPlanned where sizes are not known
        as expressions.
        """
        self._refuse_what_no_array_has()
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
            parts=tuple(closed(part, self._buffers, self._target) for part in self._parts),
            slots=tuple(self.program.values),
            buffers=len(self._buffers),
            tensor_bytes=self._tensor_bytes,
            array_guards=tuple(self._array_guard(i) for i in range(self._inputs)),
            results=results,
            arguments=self._arguments,
            relations=tuple(self._relations),
            steps=tuple(self._planned),
            keep=tuple(self._keep),
            buffer_layers=tuple(self._buffer_layers),
            symbols={symbol.origin: slot for symbol, slot in self.program.symbols.items()},
            extended=tuple(self._extended),
            threads=self._kernels.threads,
        )

    def _join_tensors(self) -> None:
        """Have tensors that a Concat joins lie beside each other where kernels make them."""
        direct = self._direct

        def is_made(source: Source) -> bool:
            node = self.model.by_id[source.node]
            return not (source in direct or self._finds(node) or self._is_known(self._spec(source)))

        while True:
            joined = JoinedTensors(self.model, self.choices, self._root, is_made)
            lacking = self._lacking(joined.views)
            if not lacking:
                break
            self.choices.update(lacking)
        self._joined = joined.parts
        for number in joined.views:
            self.choices[number] = kernel_plan.Alias(0)

    def _lacking(self, views: Set[int]) -> dict[int, str]:
        """The Concats whose kernels cannot be had, and why; views need none."""
        found: dict[int, str] = {}
        for node in self.model.nodes:
            if isinstance(node.operation, Concat1) and node.id not in views:
                choice = self.choices[node.id]
                had = self._kernels.to_be_had(node, choice)
                if isinstance(had, str) and had is not choice:
                    found[node.id] = had
        return found

    def _unread(self) -> set[int]:
        """The values of variables that only layers which ask for their shapes read; nobody makes
        them.
        """
        read: set[int] = set()
        result: set[int] = set()
        for node in reversed(self.model.nodes):
            if isinstance(node.operation, StateValue) and node.id not in read:
                result.add(node.id)
            elif (
                node.id not in self.choices
                or self._finds(node)
                or not all(self._is_known(port.spec) for port in node.outputs)
            ):
                read.update(source.node for source in node.inputs)
        return result

    def select(self) -> None:
        """Choose what computes each layer, and ask for its kernels: at once for layers that are
        sure to run, for others when it is known that they do.
        """
        with memory_shared():
            for node in self.model.nodes:
                if node.type_name in ("Parameter", "Result"):
                    continue
                choice = self._kernels.select(self.model, node, self._spec)
                self.choices[node.id] = choice
                if not isinstance(node.operation, Concat1):  # which may be a view and need none
                    self.choices[node.id] = self._kernels.to_be_had(node, choice)
                    if not self._may_be_given(node):
                        self._ask_for(node)
        self._used_symbols = self._symbols_needed()
        self._join_tensors()
        for node in self.model.nodes:
            if node.id in self.choices and not self._is_given(node):
                self._ask_for(node)
                if node.id in self._kernels.refused:
                    self.refused.append(self._kernels.refused[node.id])

    def _may_be_given(self, node: Node) -> bool:
        """Whether a layer gives numbers that may be known without a step."""
        specs = [self._spec(Source(node.id, output)) for output in range(len(node.outputs))]
        return any(spec.value is not None or spec.elements is not None for spec in specs)

    def _ask_for(self, node: Node) -> None:
        """Have the kernels of a layer compiled."""
        choice = self.choices[node.id]
        if isinstance(choice, kernel_plan.KernelPlan):
            self._kernels.ask_for(self._kernels.work(node, choice))

    # ---- what is needed

    def _symbols_needed(self) -> set[Symbol]:
        """The symbols that checks, guards and sizes of tensors, or of steps, are made of."""
        needed = {
            symbol
            for relation in (*self.facts.guards, *self.facts.checks)
            for symbol in relation.symbols
        } | self.facts.rested
        for node in self.model.nodes:
            for port in node.outputs:
                needed |= symbols_of(port.spec)
            choice = self.choices.get(node.id)
            if isinstance(choice, kernel_plan.KernelPlan):
                for size in self._kernels.work(node, choice).sizes:
                    needed |= size.symbols
        return needed | {
            s for symbol in needed for s in self.facts.canonical(Size.of(symbol)).symbols
        }

    def _look_at_files(self) -> None:
        """Have the first segment check that mapped files of constants are whole, unless its work
        takes next to no time.
        """
        first, size_of = self._parts[0], size_function()
        assert isinstance(first, OpenSegment)
        if size_of and (
            isinstance(first.cost, Size) or first.cost > LOOK_COST or len(self._parts) > 1
        ):
            look = self._kernels.address(WholeFile()) if self._files else 0
            first.steps[:0] = [
                Step(look, (size_of, file.handle, len(file))) for file in self._files
            ]
            self._keep += self._files

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

    def _find(self, node: Node, choice: kernel_plan.Selection, specs: Sequence[TensorSpec]) -> None:
        """Plan a layer whose result determines sizes. Those of its shape come from the reference's
        arrays; elements may also be read from a kernel's result.
        """
        symbols = self._finds(node)
        if isinstance(choice, str) and (
            self._run_branches(node, specs, symbols) or self._run_loop(node, specs, symbols)
        ):
            return
        if isinstance(choice, str) or not all(
            symbol.origin.is_element and packable(specs[symbol.origin.output]) for symbol in symbols
        ):
            self._reference(
                node,
                choice if isinstance(choice, str) else "a size that only the call finds",
                symbols,
            )
            return
        self._run(node, choice, specs)
        for spec, arguments in self._reads(node, specs, symbols):
            self._segment().steps.append(Step(self._kernels.address(spec), arguments))
        self._step += 1
        self._next_segment()

    def _run(self, node: Node, choice: kernel_plan.Selection, specs: Sequence[TensorSpec]) -> None:
        """Plan the step of a layer; a view needs none."""
        if isinstance(choice, kernel_plan.Alias):
            self._locations[Source(node.id, 0)] = self._location(node.inputs[choice.position])
            self._note(node, "view")
        elif isinstance(choice, kernel_plan.KernelPlan):
            self._native(node, choice, specs)
        elif not self._run_branches(node, specs) and not self._run_loop(node, specs):
            self._reference(node, choice, ())

    def _native(
        self, node: Node, choice: kernel_plan.KernelPlan, specs: Sequence[TensorSpec]
    ) -> None:
        segment = self._segment()
        work = self._kernels.work(node, choice)
        read = work.inputs
        locations = {i: self._location(source) for i, source in enumerate(node.inputs) if i in read}
        for source in node.inputs:
            self._use(source)
        for position, spec in enumerate(specs):
            self._locate_output(node, position, spec, choice.extends)
        scratch = None
        if not isinstance(work.scratch, int) or work.scratch:
            scratch = self._new_buffer(work.scratch)
        for variant in work.variants:
            for whens, calls in variant.groups:
                condition = self.program.both([self._condition(when) for when in whens])
                steps = [
                    Step(
                        self._kernels.address(spec),
                        tuple(
                            self._kernel_argument(node, operand, locations, scratch)
                            for operand in operands
                        ),
                    )
                    for spec, operands in calls
                ]
                segment.steps.append(
                    replace(
                        steps[0] if len(steps) == 1 else self._kernels.parallel_step(steps),
                        condition=condition,
                    )
                )
        self._keep += choice.keep
        segment.cost = segment.cost + whole_cost(choice.cost)
        self._note(node, choice.kernel + work.threads)
        self._step += 1

    def _condition(self, when: kernel_plan.AtLeast) -> Slot:
        return (self.program.below if when.otherwise else self.program.at_least)(
            when.size, when.least
        )

    def _kernel_argument(
        self,
        node: Node,
        operand: kernel_plan.Operand,
        locations: dict[int, Location],
        scratch: int | None,
    ) -> KernelArgument:
        if isinstance(operand, (int, Size)):
            return self.program.operand(operand)
        if isinstance(operand, kernel_plan.Scratch):
            return (
                0
                if scratch is None
                else BufferAddress(scratch, self.program.operand(operand.offset))
            )
        if isinstance(operand, kernel_plan.ReleaseGil):
            return symbol("sched_yield", release_gil)
        if isinstance(operand, kernel_plan.In):
            location = locations[operand.position]
        else:
            location = self._locations[Source(node.id, operand.position)]
        begin = self._begins.get(location, 0) if isinstance(location, BufferAddress) else 0
        offset = self.program.operand(operand.offset + begin)
        if isinstance(location, ConstantLocation):
            self._keep.append(location.array)
            address = address_of(location.array)
            return KnownAddress(address, offset) if isinstance(offset, Slot) else address + offset
        if isinstance(location, TensorAddress):
            if not isinstance(offset, int):
                raise NotPlanned(f"{node.label}: an open offset into a tensor of sizes")
            return TensorAddress(location.first, offset)
        return replace(location, offset=offset)

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
            self._locations[source] = ArgumentAddress(number)
            shapes.append(self._expected_shape(source, found, looked_at))
        specs = tuple(map(self._spec, node.inputs))
        body = self._body_run(node)
        self._parts.append(
            ReferenceStep(node, specs, inputs, outputs, tuple(shapes), tuple(looked_at), body)
        )
        self._note(node, "reference" if body is None else "bodies", reason if body is None else "")
        self._step += 1

    def _note(self, node: Node, kernel: str, reason: str = "") -> None:
        """Remember how the layer runs, for whoever looks at the plan."""
        self._planned.append(
            PlannedStep(
                node, kernel, reason, node.hints.note, self._locations.get(Source(node.id, 0))
            )
        )

    # ---- results

    def _finish_results(self) -> tuple[ResultSpec, ...]:
        results: list[ResultSpec] = []
        for index, result in enumerate(self.model.results):
            source = self.model.by_id[result].inputs[0]
            spec, dtype = self._spec(source), own_dtype(self._spec(source))
            argument = self._inputs + index
            location = self._location(source)
            if (
                isinstance(location, ArgumentAddress)
                and location.argument >= self._inputs + self._outputs
            ):
                sizes = None if self._has_own_shape(source) else self._result_sizes(spec)
                results.append(ResultSpec(dtype, sizes, location.argument))
                continue
            sizes = self._result_sizes(spec)
            self.program.slot(
                bytes_of(spec)
            )  # an array that is too large to have a size is one too large to be made
            if location != ArgumentAddress(argument):
                self._copy(source, location, index)
            results.append(ResultSpec(dtype, sizes, argument))
        return tuple(results)

    def _result_sizes(self, spec: TensorSpec) -> tuple[SizeOperand, ...]:
        return tuple(map(self.program.operand, dimensions(spec)))

    def _copy(self, source: Source, location: Location, number: int) -> None:
        """Copy a result that is an input, a constant, or another result as well into an array of
        the caller's own.
        """
        spec = self._spec(source)
        if spec.element_type.dtype == object:
            raise NotPlanned("a result of strings that is no step's own")
        target = self._make_result(number, spec)
        self._use(source)
        node = self.model.by_id[source.node]
        words = (
            self._kernel_argument(node, kernel_plan.In(0), {0: location}, None),
            target,
            self.program.operand(bytes_of(spec)),
        )
        self._segment().steps.append(Step(self._kernels.address(COPY_BYTES), words))
        self._step += 1
