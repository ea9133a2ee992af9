"""Planning of layers with bodies: an If is a step where its branches are native, others run between
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from uncork.compiler.call_plan import BodyRun, BranchTensor, FoundSymbol, Location
from uncork.compiler.placement import Placement
from uncork.compiler.planned_parts import bytes_of, dimensions
from uncork.compiler.rooms import FoundPlaces
from uncork.ir.model import Node
from uncork.kernels import kernel_plan
from uncork.kernels.runtime.segment_plan import BufferAddress, KernelArgument, SizeOperand, Step
from uncork.kernels.runtime.target import Target
from uncork.ops._body import SubGraphOperation
from uncork.symbolic import Symbol
from uncork.types import TensorSpec


class BodyPlanner(Placement):
    """The planner of layers with bodies."""

    #: Kernels are made; a plan without them is only looked at, and its branches are not planned.
    _compiles = True
    #: What the kernels are for.
    _target: Target

    def _kernel_argument(
        self,
        node: Node,
        operand: kernel_plan.Operand,
        locations: dict[int, Location],
        scratch: int | None,
    ) -> KernelArgument:
        """An argument of a step."""
        raise NotImplementedError

    def _bound(self, symbols: Sequence[Symbol]) -> tuple[FoundSymbol, ...]:
        """Slots for symbols that the last part finds."""
        raise NotImplementedError

    def _note(self, node: Node, kernel: str, reason: str = "") -> None:
        """Remember how the layer runs, for whoever looks at the plan."""
        raise NotImplementedError

    def _body_run(self, node: Node) -> BodyRun | None:
        """The `BodyRun` of a layer with bodies that runs between segments."""
        if not isinstance(node.operation, SubGraphOperation):
            return None
        from uncork.compiler.body_runs import body_run  # few models have bodies

        run = body_run(node.operation)
        if run is not None and self._compiles:
            run.prepare(self._target)
        return run

    def _usual_shape(self, spec: TensorSpec) -> Sequence[int | None]:
        """The sizes of a tensor in calls like the one that is planned; None where that is open."""
        raise NotImplementedError

    def _run_branches(
        self, node: Node, specs: Sequence[TensorSpec], found: Sequence[Symbol] = ()
    ) -> bool:
        """Plan the step of an If whose branches are native, and tell the sizes that are `found`.
        False where they are not.
        """
        if (
            not self._compiles
            or node.type_name != "If"
            or not isinstance(node.operation, SubGraphOperation)
        ):
            return False
        from uncork.compiler import branch_steps  # few models have bodies

        given = [self._spec(source) for source in node.inputs]
        branches = branch_steps.native_branches(
            node.operation, given, specs, self._usual_shape, found
        )
        if branches is None:
            return False
        segment, locations = self._segment(), self._used_inputs(node)
        grown = list(branches[0].axes)
        places = self._found_places(node, specs, found, grown)
        inputs = {
            i: self._tensor_of(node, kernel_plan.In(i), spec, locations)
            for i, spec in enumerate(given)
        }
        outputs = {
            i: self._tensor_of(node, kernel_plan.Out(i), spec, locations)
            if i not in grown
            else BranchTensor(0, self._known_sizes(spec, branches[0].axes[i]), 0)
            for i, spec in enumerate(specs)
        }
        target = branches[0].body.segments[0].target
        step = branch_steps.branch_step(branches, inputs[0].address, inputs, outputs, places)
        segment.steps.append(Step(*step))
        segment.cost = segment.cost + branch_steps.cost(branches)
        self._step += 1
        if grown:

            def copied(port: int) -> tuple[int, tuple[KernelArgument, ...]]:
                output = self._tensor_of(node, kernel_plan.Out(port), specs[port], locations)
                return branch_steps.copying_step(places.rooms[port], output, target)

            self._make_found(node, specs, grown, places.buffer, copied)
        self._note(node, "bodies")
        return True

    def _used_inputs(self, node: Node) -> dict[int, Location]:
        """The places of a step's inputs, which it uses."""
        locations = {i: self._location(source) for i, source in enumerate(node.inputs)}
        for source in node.inputs:
            self._use(source)
        return locations

    def _known_sizes(self, spec: TensorSpec, found: Collection[int]) -> tuple[SizeOperand, ...]:
        """The sizes of a tensor, with 0 along axes of which the size is found later."""
        return tuple(
            0 if axis in found else self.program.operand(size)
            for axis, size in enumerate(dimensions(spec))
        )

    def _found_places(
        self,
        node: Node,
        specs: Sequence[TensorSpec],
        found: Sequence[Symbol],
        grown: Sequence[int | None],
    ) -> FoundPlaces:
        """Place the outputs of a step but those that are `grown`, and what it tells of these."""
        for position, spec in enumerate(specs):
            if position not in grown:
                self._locate_output(node, position, spec, None)
        buffer = self._new_buffer(8 * len(grown)) if grown else 0
        slots = {(f.output, f.position): f.slot for f in self._bound(found)}
        rooms = {
            port: BufferAddress(buffer, 8 * number)
            for number, port in enumerate(grown)
            if port is not None
        }
        return FoundPlaces(slots, rooms, buffer)

    def _run_loop(
        self, node: Node, specs: Sequence[TensorSpec], found: Sequence[Symbol] = ()
    ) -> bool:
        """Plan the step of a loop whose body is native and whose outputs have known sizes, or such
        as follow from the number of its turns, which are `found`. False where it is not such a
        loop.
        """
        if not self._compiles or node.type_name not in ("Loop", "TensorIterator"):
            return False
        from uncork.compiler import loop_steps, loop_words  # few models have bodies
        from uncork.ops.iteration import Iteration

        given = [self._spec(source) for source in node.inputs]
        loop = loop_steps.native_loop(node.of(Iteration), given, specs, self._usual_shape, found)
        if loop is None:
            return False
        segment, locations = self._segment(), self._used_inputs(node)
        grown = [output.port for output in loop.grown]
        places = self._found_places(node, specs, found, grown)
        words = loop_words.LoopWords(
            loop,
            lambda operand: self._kernel_argument(node, operand, locations, None),
            self.program.operand,
            lambda size: BufferAddress(self._new_buffer(size)),
            places,
        )
        segment.steps.append(Step(*words.step()))
        segment.cost = segment.cost + loop.cost
        self._step += 1
        if grown:
            self._make_found(node, specs, grown, places.buffer, words.joining_step)
        self._note(node, "bodies")
        return True

    def _make_found(
        self,
        node: Node,
        specs: Sequence[TensorSpec],
        ports: Sequence[int],
        buffer: int,
        step: Callable[[int], tuple[int, tuple[KernelArgument, ...]]],
    ) -> None:
        """Plan the steps that make outputs of what a step has put into rooms: the next segment,
        which knows how large they are. The addresses of the rooms lie in this `buffer`.
        """
        segment = self._next_segment()
        self._buffers[buffer].last = self._step
        for port in ports:
            self._locate_output(node, port, specs[port], None)
            segment.steps.append(Step(*step(port)))
            segment.cost = segment.cost + bytes_of(specs[port]) // 8
        self._step += 1

    def _tensor_of(
        self,
        node: Node,
        operand: kernel_plan.Operand,
        spec: TensorSpec,
        locations: dict[int, Location],
    ) -> BranchTensor:
        sizes = tuple(map(self.program.operand, dimensions(spec)))
        return BranchTensor(
            self._kernel_argument(node, operand, locations, None),
            sizes,
            self.program.operand(bytes_of(spec)),
        )
