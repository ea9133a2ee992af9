"""Where the tensors of a plan lie: in arrays of the call, in buffers, among tensors of sizes, or in the model."""

from __future__ import annotations

from dataclasses import replace

from uncork.compiler.call_plan import ConstantPlace, Part, Place, PlacedTensor
from uncork.compiler.planned_parts import (
    NotPlanned,
    OpenSegment,
    PlannedBuffer,
    bytes_of,
    contiguous,
    dimensions,
    known_element,
    packable,
)
from uncork.compiler.size_program import SizeProgram, Unbound
from uncork.ir.model import Model, Source
from uncork.kernels import kernel_plan as choose
from uncork.kernels.runtime.segment_plan import ArgumentAddress, BufferAddress, Number, SizeTensor, TensorAddress
from uncork.ops.parameter import Const
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

_VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "View"})


class Placement:
    """Places of tensors, and the buffers and segments that are made on the way."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.program = SizeProgram()
        self.choices: dict[int, choose.Choice] = {}
        self._inputs, self._outputs = len(model.parameters), len(model.results)
        self._places: dict[Source, Place] = {}
        self._parts: list[Part | OpenSegment] = []
        self._buffers: list[PlannedBuffer] = []
        self._tensor_bytes = 0
        self._step = 0

    def _spec(self, source: Source) -> TensorSpec:
        """A spec with the value of a constant, which may be kept packed until it is asked for."""
        spec, operation = self.model.spec(source), self.model.by_id[source.node].operation
        return replace(spec, value=operation.value) if isinstance(operation, Const) else spec

    def _is_known(self, spec: TensorSpec) -> bool:
        """The tensor is a constant or made of sizes."""
        return spec.value is not None or (spec.elements is not None and all(e is not None for e in spec.elements) and packable(spec))

    def _segment(self) -> OpenSegment:
        """The segment that takes further steps."""
        if not self._parts or not isinstance(self._parts[-1], OpenSegment):
            self._parts.append(OpenSegment())
        segment = self._parts[-1]
        assert isinstance(segment, OpenSegment)
        self.program.emit = segment.ops.append
        return segment

    def _place(self, source: Source) -> Place:
        """Where a tensor lies that a step reads."""
        place = self._places.get(source)
        if place is None:
            spec = self._spec(source)
            if spec.value is not None:
                place = ConstantPlace(contiguous(spec.value))
            else:
                place = self._tensor_of_sizes(spec)
            self._places[source] = place
        return place

    def _tensor_of_sizes(self, spec: TensorSpec) -> TensorAddress:
        if spec.elements is None:
            raise NotPlanned("a tensor that no step makes")
        segment = self._segment()
        width = spec.element_type.dtype.itemsize
        first = self._tensor_bytes
        self._tensor_bytes += -(-max(1, len(spec.elements)) * width // 8) * 8
        elements = tuple(self.program.number(known_element(element)) for element in spec.elements)
        segment.tensors.append(SizeTensor(first, width, elements))
        return TensorAddress(first)

    def _place_output(self, source: Source, spec: TensorSpec) -> None:
        result = self._direct.get(source)
        if result is not None:
            self._places[source] = ArgumentAddress(self._inputs + result)
        else:
            self._places[source] = BufferAddress(self._new_buffer(bytes_of(spec)))

    @property
    def _direct(self) -> dict[Source, int]:
        """The results that a kernel writes where the caller gets them: by the tensor, the number of the first result that is it."""
        if not hasattr(self, "_direct_results"):
            self._direct_results: dict[Source, int] = {}
            for number, result in enumerate(self.model.results):
                self._direct_results.setdefault(self._root(self.model.by_id[result].inputs[0]), number)
        return self._direct_results

    def _root(self, source: Source) -> Source:
        """The tensor that this one is a view of."""
        while isinstance(choice := self.choices.get(source.node), choose.Alias):
            source = self.model.by_id[source.node].inputs[choice.position]
        return source

    def _new_buffer(self, size: SizeLike) -> int:
        segment = self._segment()
        self._buffers.append(PlannedBuffer(self.program.slot(size), self._step, self._step))
        segment.buffers.append(len(self._buffers) - 1)
        return len(self._buffers) - 1

    def _use(self, source: Source) -> None:
        """This step uses the buffer that the tensor lies in."""
        place = self._places.get(source)
        if isinstance(place, BufferAddress):
            self._buffers[place.buffer].last = self._step

    def _tensor(self, source: Source) -> PlacedTensor:
        """A tensor as a reference takes it."""
        spec, place = self._spec(source), self._place(source)
        try:
            sizes: tuple[Number, ...] | None = tuple(self.program.number(size) for size in dimensions(spec))
        except (NotPlanned, Unbound):
            if not isinstance(place, ArgumentAddress) or self.model.by_id[source.node].type_name in _VIEWS:
                raise
            sizes = None
        return PlacedTensor(place, spec.element_type, sizes)
