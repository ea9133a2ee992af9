"""Placement of a plan's tensors: in arrays of the call, in buffers, among tensors of sizes, or in
the model.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.compiler.call_plan import ConstantLocation, LocatedTensor, Location, Part
from uncork.compiler.joined_tensors import JoinedPart
from uncork.compiler.planned_parts import (
    NotPlanned,
    OpenSegment,
    PlannedBuffer,
    bytes_of,
    contiguous,
    dimensions,
    known_element,
    own_dtype,
    packable,
)
from uncork.compiler.size_program import SizeProgram
from uncork.concurrency import lazy
from uncork.ir.model import Model, Node, Source
from uncork.kernels import kernel_plan
from uncork.kernels.runtime.addresses import recording
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    BufferAddress,
    MadeResult,
    SizeCheck,
    SizeOperand,
    SizeTensor,
    TensorAddress,
)
from uncork.memory import available
from uncork.ops.parameter import Const
from uncork.symbolic import Size, SizeLike, Symbol
from uncork.types import TensorSpec


class Placement:
    """The places of tensors, and the buffers and segments that are made on the way."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = SizeProgram(lambda: self._segment().ops)
        self.choices: dict[int, kernel_plan.Selection] = {}
        self._inputs, self._outputs = len(model.parameters), len(model.results)
        self._locations: dict[Source, Location] = {}
        self._parts: list[Part | OpenSegment] = []
        self._buffers: list[PlannedBuffer] = []
        #: Tensors that lie in the room of a Concat's result, and the buffers of these results.
        self._joined: Mapping[Source, JoinedPart] = {}
        self._rooms: dict[Source, int] = {}
        #: Where a tensor begins in such a buffer.
        self._begins: dict[Location, SizeLike] = {}
        #: The layer that is placed, and that of each buffer.
        self._layer, self._buffer_layers = "", list[str]()
        self._tensor_bytes = 0
        self._step = 0
        #: Symbols that somebody needs the numbers of.
        self._used_symbols: set[Symbol] = set()
        #: Inputs that are written to, and the shapes that they must have at least.
        self._extended: list[tuple[int, tuple[SizeLike, ...], tuple[SizeOperand, ...]]] = []
        #: Bytes of the results that the call has made so far.
        self._result_bytes: SizeLike = 0

    def _spec(self, source: Source) -> TensorSpec:
        """A spec with the value of a constant, which may be kept packed until it is asked for."""
        spec, operation = self.model.spec(source), self.model.by_id[source.node].operation
        return replace(spec, value=operation.value) if isinstance(operation, Const) else spec

    def _is_known(self, spec: TensorSpec) -> bool:
        """Whether the tensor is a constant or made of sizes. Numbers that no shape depends on are
        data.
        """
        if spec.value is not None or spec.elements is None:
            return spec.value is not None
        open_ = [element for element in spec.elements if isinstance(element, Size)]
        return (
            packable(spec)
            and None not in spec.elements
            and all(e.symbols <= self._used_symbols for e in open_)
        )

    def _is_given(self, node: Node) -> bool:
        """Whether all that a layer gives is known without a step."""
        return all(
            self._is_known(self._spec(Source(node.id, output)))
            for output in range(len(node.outputs))
        )

    def _segment(self) -> OpenSegment:
        """The segment that takes further steps."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, OpenSegment):
            return last
        return self._next_segment()

    def _next_segment(self) -> OpenSegment:
        """A new segment, of sizes that the steps so far have found."""
        self._end_segment()
        segment = OpenSegment()
        self._parts.append(segment)
        self._begin_segment(segment)
        return segment

    def _begin_segment(self, segment: OpenSegment) -> None:
        """Hook: a segment begins, and looks at what the steps before it have found."""

    def _end_segment(self) -> None:
        """End the last segment: no more steps are added to it."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, OpenSegment):
            last.cost_slot = self.program.slot(last.cost)

    def _location(self, source: Source) -> Location:
        """The location of a tensor that a step reads."""
        location = self._locations.get(source)
        if location is None:
            spec = self._spec(source)
            if spec.value is not None:
                location = ConstantLocation(contiguous(spec.value))
            else:
                location = self._tensor_of_sizes(spec)
            self._locations[source] = location
        return location

    def _tensor_of_sizes(self, spec: TensorSpec) -> TensorAddress:
        if spec.elements is None:
            raise NotPlanned("a tensor that no step makes")
        segment = self._segment()
        width = spec.element_type.dtype.itemsize
        first = self._tensor_bytes
        self._tensor_bytes += -(-max(1, len(spec.elements)) * width // 8) * 8
        elements = tuple(self.program.operand(known_element(element)) for element in spec.elements)
        segment.tensors.append(SizeTensor(first, width, elements))
        return TensorAddress(first)

    def _locate_output(
        self, node: Node, position: int, spec: TensorSpec, extends: kernel_plan.Extends | None
    ) -> None:
        source = Source(node.id, position)
        result = self._direct.get(source)
        if extends is not None:
            self._extend(node, extends)
        elif result is not None:
            self._locations[source] = self._make_result(result, spec)
        elif (joined := self._joined.get(source)) is not None:
            offset = self.program.operand(joined.offset)
            location = BufferAddress(self._room(joined.whole), offset)
            self._locations[source], self._begins[location] = location, joined.offset
        else:
            self._locations[source] = BufferAddress(self._new_buffer(bytes_of(spec)))

    def _extend(self, node: Node, extends: kernel_plan.Extends) -> None:
        """Place an output on the input of the model that is written to."""
        location = self._location(node.inputs[extends.position])
        if not isinstance(location, ArgumentAddress) or location.argument >= self._inputs:
            raise NotPlanned(f"{node.label}: writes into what is no input of the model")
        self._locations[Source(node.id, 0)] = location
        origins = {
            symbol.origin.node
            for size in extends.shape
            if isinstance(size, Size)
            for symbol in size.symbols
        }
        if not origins <= set(self.model.parameters):
            raise NotPlanned(f"{node.label}: how much it writes is found as the call runs")
        operands = tuple(map(self.program.operand, extends.shape))
        self._extended.append((location.argument, extends.shape, operands))

    def _make_result(self, number: int, spec: TensorSpec) -> ArgumentAddress:
        """Place the result of this number: it is made here, as a step writes it."""
        self._limit_results(bytes_of(spec))
        sizes = tuple(map(self.program.operand, dimensions(spec)))
        self._segment().makes.append((number, MadeResult(own_dtype(spec), sizes)))
        return ArgumentAddress(self._inputs + number)

    def _limit_results(self, more: SizeLike) -> None:
        """Count so many bytes more of results: a call whose results this process cannot hold is
        left to the references.
        """
        self._result_bytes = self._result_bytes + more
        limit = available()[0] if recording() is None else 1 << 47  # of whoever runs it
        if isinstance(self._result_bytes, Size):
            check = SizeCheck(
                "at_least",
                self.program.slot(limit),
                self.program.slot(self._result_bytes),
                False,
                -1,
            )
            self._segment().checks.append(check)
        elif self._result_bytes > limit:
            raise NotPlanned("its results take more memory than there is")

    @lazy
    def _direct(self) -> dict[Source, int]:
        """The results that a kernel writes where the caller gets them: by the tensor, the number of
        the first result that is it.
        """
        results: dict[Source, int] = {}
        for index, result in enumerate(self.model.results):
            results.setdefault(self._root(self.model.by_id[result].inputs[0]), index)
        return results

    def _root(self, source: Source) -> Source:
        """The tensor that this one is a view of, or itself. A tensor that is made of sizes is no
        view.
        """
        while isinstance(
            choice := self.choices.get(source.node), kernel_plan.Alias
        ) and not self._is_known(self._spec(source)):
            source = self.model.by_id[source.node].inputs[choice.position]
        return source

    def _new_buffer(self, size: SizeLike) -> int:
        segment = self._segment()
        self._buffers.append(PlannedBuffer(self.program.slot(size), self._step, self._step))
        self._buffer_layers.append(self._layer)
        segment.buffers.append(len(self._buffers) - 1)
        return len(self._buffers) - 1

    def _room(self, whole: Source) -> int:
        """The buffer of a Concat's result, in which its inputs lie."""
        if whole not in self._rooms:
            self._rooms[whole] = self._new_buffer(bytes_of(self._spec(whole)))
        buffer = self._buffers[self._rooms[whole]]
        buffer.last = max(buffer.last, self._step)
        return self._rooms[whole]

    def _use(self, source: Source) -> None:
        """Note that this step uses the buffer that the tensor lies in."""
        location = self._locations.get(source)
        if isinstance(location, BufferAddress):
            self._buffers[location.buffer].last = self._step

    def _tensor(self, source: Source) -> LocatedTensor:
        """A tensor as a reference takes it."""
        spec, location = self._spec(source), self._location(source)
        sizes = (
            None
            if self._has_own_shape(source)
            else tuple(self.program.operand(size) for size in dimensions(spec))
        )
        return LocatedTensor(location, spec.element_type, sizes)

    def _has_own_shape(self, source: Source) -> bool:
        """Whether the tensor is an array of its own: an input, or what a reference gave. Results
        may have the shape of a view of them.
        """
        location = self._locations[source]
        if not isinstance(location, ArgumentAddress) or isinstance(
            self.choices.get(source.node), kernel_plan.Alias
        ):
            return False
        return location.argument not in range(self._inputs, self._inputs + self._outputs)
