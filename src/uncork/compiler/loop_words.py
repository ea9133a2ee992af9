"""The words of the steps that make the turns of a loop, and the outputs whose parts it gathers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from uncork.compiler.loop_parts import Parts, parts_of, taken_spec
from uncork.compiler.loop_steps import LoopBody
from uncork.compiler.planned_parts import dimensions
from uncork.compiler.rooms import JOINING, FoundPlaces
from uncork.kernels.extents import product
from uncork.kernels.kernel_plan import In, Out
from uncork.kernels.runtime.addresses import Wanted, native_function
from uncork.kernels.runtime.cpython_entry import loop_functions
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.loop_layout import LOOP, LOOP_FUNCTIONS
from uncork.kernels.runtime.segment_plan import (
    BodyAddress,
    KernelArgument,
    SlotAddress,
    VersionAddress,
)
from uncork.kernels.runtime.turns import TURNS
from uncork.kernels.runtime.turns_layout import NEVER
from uncork.ops._body import BodyInput, BodyOutput, JoinedOutput, SlicedInput
from uncork.ops.iteration import Loop5
from uncork.symbolic import SizeLike


class LoopWords(Struct):
    """Writes the words of the steps of a loop.

    `word` gives that of an operand of the layer, `number` that of a size, and `scratch` that of new
    memory of so many bytes; what the loop finds goes to its `places`.
    """

    loop: LoopBody
    word: Callable[[In | Out], KernelArgument]
    number: Callable[[SizeLike], KernelArgument]
    scratch: Callable[[SizeLike], KernelArgument]
    places: FoundPlaces
    _rows: dict[str, list[KernelArgument]] = field(
        default_factory=lambda: {
            name: [] for name in ("pairs", "parts", "inward", "outward", "ends", "kept", "grown")
        }
    )

    def step(self) -> tuple[int, tuple[KernelArgument, ...]]:
        """The function and the arguments of the step."""
        for entry in self.loop.operation.map.fed:
            self._give(entry)
        for result in range(len(self.loop.results)):
            self._take(result)
        width = {
            "pairs": 2, "parts": 1, "inward": 6, "outward": 6, "ends": 7, "kept": 2, "grown": 7
        }  # fmt: skip
        head: dict[str, KernelArgument] = {
            "turns": self._function(TURNS),
            "control": BodyAddress(self.loop.body),
            **self._limits(),
            **{name: len(words) // width[name] for name, words in self._rows.items()},
            **dict(zip(LOOP_FUNCTIONS, loop_functions(), strict=True)),
        }
        rows = [word for words in self._rows.values() for word in words]
        return self._function(LOOP_FUNCTION), (*(head[name] for name in LOOP), *rows)

    def _function(self, wanted: Wanted) -> int:
        return STORE.address_of(wanted, self.loop.body.segments[0].target)

    def _limits(self) -> dict[str, KernelArgument]:
        operation = self.loop.operation
        limit = operation.loop_limit
        result: dict[str, KernelArgument] = {
            "count_at": 0, "count_width": 0, "count": NEVER, "condition": 0,
            "limit": NEVER if limit is None else limit,
            "whole": int(not self.loop.grown and len(operation.map.joined) > 0),
        }  # fmt: skip
        if isinstance(operation, Loop5):
            width = self.loop.inputs[0].element_type.dtype.itemsize
            return result | {
                "count_at": self.word(In(0)), "count_width": width, "condition": self.word(In(1))
            }  # fmt: skip
        first = operation.map.sliced[0]
        parts = parts_of(operation, first.slicing, self.loop.inputs[first.port], False)
        return result | {"count": self.number(parts.turns)}

    def _at(self, kind: str, number: int, axis: int = 0) -> KernelArgument:
        return BodyAddress(self.loop.body, kind, number, axis)

    def _pair(self, address: KernelArgument, value: KernelArgument) -> None:
        self._rows["pairs"] += address, value

    def _give(self, entry: BodyInput) -> None:
        """Write the words that say what a Parameter takes."""
        loop, spec, parameter = self.loop, self.loop.inputs[entry.port], entry.parameter
        taken = dimensions(taken_spec(loop.operation, entry, spec))
        for axis, size in enumerate(taken):
            self._pair(self._at("size", parameter, axis), self.number(size))
        if not isinstance(entry, SlicedInput):
            self._pair(self._at("parameter", parameter), self.word(In(entry.port)))
            return
        parts = parts_of(loop.operation, entry.slicing, spec, False)
        self._rows["parts"].append(self.number(parts.turns))
        first = self.word(In(entry.port, parts.first * parts.element))
        step = self.number(parts.step * parts.element)
        if parameter in loop.turns.sliced:
            self._pair(self._at("parameter", parameter), first)
            self._pair(self._at("step", parameter), step)
            return
        part = self.scratch(product(taken) * spec.element_type.dtype.itemsize)
        self._pair(self._at("parameter", parameter), part)
        self._copy("inward", part, first, step, parts)

    def _copy(
        self,
        way: str,
        part: KernelArgument,
        first: KernelArgument,
        step: KernelArgument,
        parts: Parts,
    ) -> None:
        number = self.number
        self._rows[way] += (
            part, first, step, number(parts.runs), number(parts.bytes), number(parts.stride)
        )  # fmt: skip

    def _take(self, result: int) -> None:
        """Write the words that say where a result goes."""
        loop, sizes = self.loop, self.loop.results[result]
        size = product(sizes) * loop.turns.results[result].dtype.itemsize
        joined = [o for o in loop.operation.map.joined if o.result == result]
        last = [o for o in loop.operation.map.last if o.result == result]
        self._pair(self._at("buffer", result), self.number(size))
        for axis, number in enumerate(sizes):
            at = self._at("kept", result, axis)
            if result in loop.turns.stacked:
                self._pair(at, self.number(number))
            if joined or last:
                self._rows["kept"] += at, self.number(number)
        direct = False
        if result in loop.turns.stacked:
            self._pair(self._at("result", result), self.word(Out(joined[0].port)))
        else:
            direct = bool(last)
            self._pair(
                self._at("result", result),
                self.word(Out(last[0].port)) if direct else self.scratch(size),
            )
            self._pair(self._at("other", result), self.scratch(size))
            for output in joined:
                if output in self.loop.grown:
                    self._gather(result, output, size)
                else:
                    self._join(result, output)
        for number, whole in enumerate(last):
            self._end(result, whole, size, direct and number == 0)

    def _join(self, result: int, output: JoinedOutput) -> None:
        spec = self.loop.outputs[output.port]
        parts = parts_of(self.loop.operation, output.slicing, spec, True)
        first = self.word(Out(output.port, parts.first * parts.element))
        step = self.number(parts.step * parts.element)
        self._copy("outward", self._at("other", result), first, step, parts)

    def _gather(self, result: int, output: JoinedOutput, size: SizeLike) -> None:
        """Write the words that say where the parts of an output go, of which only the turns tell
        how many there are.
        """
        number = self.loop.grown.index(output)
        axis = self.loop.operation.axis(output.slicing, len(self.loop.results[result]))
        self._rows["grown"] += (
            self._at("other", result),
            self.number(size),
            self._at("room", number),
            output.slicing.part_size,
            SlotAddress(self.places.slots[output.port, axis]),
            VersionAddress(),
            self.places.rooms[output.port],
        )

    def joining_step(self, port: int) -> tuple[int, tuple[KernelArgument, ...]]:
        """The function and the arguments of the step that makes an output of its parts, when the
        loop has ended.
        """
        loop = self.loop
        (output,) = (output for output in loop.grown if output.port == port)
        spec = loop.outputs[port]
        parts = parts_of(loop.operation, output.slicing, spec, True)
        axis = loop.operation.axis(output.slicing, len(spec.shape.dims))
        return self._function(JOINING), (
            self.places.rooms[port],
            self.number(dimensions(spec)[axis]),
            output.slicing.part_size,
            self.word(Out(port, parts.first * parts.element)),
            self.number(parts.step * parts.element),
            self.number(parts.runs),
            self.number(parts.bytes),
            self.number(parts.stride),
        )

    def _end(self, result: int, output: BodyOutput, size: SizeLike, direct: bool) -> None:
        stacked = result in self.loop.turns.stacked
        ports = {e.parameter: e.port for e in self.loop.operation.map.fed}
        starts = [p for r, p in self.loop.operation.map.back_edges if r == result]
        initial = ports.get(starts[0]) if starts else None
        self._rows["ends"] += (
            self._at("result", result),
            0 if stacked else self._at("other", result),
            self.number(-1 * size) if stacked else 0,
            self.word(Out(output.port)),
            self.number(size),
            0 if initial is None else self.word(In(initial)),
            int(direct),
        )


#: The function that makes the turns of a loop as a step.
LOOP_FUNCTION = native_function("loop", "uncork.kernels.runtime.emit_loop:emit_loop")
