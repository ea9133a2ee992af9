"""The recorder of plan images: what a native call reads and writes, as words that can be put at any
address.

A plan is made in a space of recorded addresses (`kernels.runtime.addresses`), with its segments,
contexts and the tables of bodies. What can be reached from the block of the first segment is the
image: words, each a number or an address in one of the bases.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.compiler.bodies import KernelBody
from uncork.compiler.call_plan import CallPlan, NativeStep, ReferenceStep
from uncork.compiler.image.format import LINE
from uncork.compiler.native_call import NativeCall
from uncork.compiler.parted_call import PartedCall
from uncork.errors import UnsupportedError
from uncork.ir.model import Node
from uncork.kernels.runtime.addresses import Part, Recording, Wanted, is_recorded
from uncork.kernels.runtime.segment import Segment
from uncork.ops._body import SubGraphOperation
from uncork.types import Array


class RecordedPlan(Struct):
    """A plan as an image: see the module.

    `words` are those of everything that a call writes, one memory behind the other. A word of
    `relocated` is an address: the base of its number in `bases`, to which the word is added.
    """

    plan: CallPlan
    words: Array
    relocated: Array
    bases: Array
    #: The words at which contexts, tables of bodies and rooms begin; the plan's context comes
    #: first.
    contexts: tuple[int, ...]
    turns: tuple[int, ...]
    rooms: tuple[int, ...]


#: The numbers of the bases that every image has: the words themselves, the constants, the code.
#: Those of symbols follow.
WORDS, CONSTANTS, CODE, SYMBOLS = range(4)


class Constants:
    """The arrays that images read, one behind the other; equal ones are there once."""

    def __init__(self, told: Callable[[Array, Any], None]) -> None:
        """`told` is told the bytes of each, and their type."""
        self.arrays: list[Array] = []
        self.bytes = 0
        self._told = told
        self._offsets: dict[tuple[int, int, bytes], int] = {}

    def add(self, array: Array, line_offset: int, dtype: Any) -> int:
        """The offset of bytes (u8) of a type among the constants: at the same distance from a cache
        line as where they were, which is `line_offset`.
        """
        key = (
            line_offset,
            array.nbytes,
            hashlib.blake2b(array.data, digest_size=16).digest(),
        )
        if key not in self._offsets:
            first = -(-self.bytes // LINE) * LINE + line_offset
            if first > self.bytes:
                self.arrays.append(np.zeros(first - self.bytes, np.uint8))
            self.arrays.append(array)
            self._offsets[key] = first
            self.bytes = first + array.nbytes
            self._told(array, dtype)
        return self._offsets[key]


class Code:
    """The functions that images of one target call, one behind the other."""

    def __init__(self, compiled: Callable[[Wanted], tuple[bytes, int]], alignment: int) -> None:
        """`compiled` gives the linked code of a function, and where in it that begins."""
        self._compiled, self._alignment = compiled, alignment
        self._offsets: dict[tuple[str, str], int] = {}
        self.code = bytearray()

    def add(self, wanted: Wanted) -> int:
        """The offset at which a function begins."""
        key = wanted.name, wanted.description
        if key not in self._offsets:
            code, entry = self._compiled(wanted)
            self.code += bytes(-len(self.code) % self._alignment)
            self._offsets[key] = len(self.code) + entry
            self.code += code
        return self._offsets[key]

    def has(self, wanted: Wanted) -> bool:
        """Whether the function is there."""
        return (wanted.name, wanted.description) in self._offsets


def first_segment(plan: CallPlan) -> Segment:
    """The segment by which a native call of the whole plan begins, made in a recording.

    Raises UnsupportedError for a plan that needs Python between its steps.
    """
    for part in plan.parts:
        if isinstance(part, ReferenceStep):
            if part.body is not None:
                raise UnsupportedError(
                    "runs its bodies between native calls, which takes Python: "
                    + (_in_bodies(part.node) or "they need other plans for other sizes"),
                    part.node.label,
                )
            raise UnsupportedError(_without_kernel(plan, part.node), part.node.label)
    if plan.is_native:
        return NativeCall(plan).segment
    assert all(isinstance(part, NativeStep) for part in plan.parts)
    return PartedCall(plan).first_segment()


def _without_kernel(plan: CallPlan, node: Node) -> str:
    reason = next((step.reason for step in plan.steps if step.node is node), "")
    return "has no kernel, so it cannot run without uncork's references" + (
        f": {reason}" if reason else ""
    )


def _in_bodies(node: Node) -> str:
    """Which layer in the bodies of a layer keeps them from being one native segment each, and why;
    "" where none does.
    """
    for name, body in node.of(SubGraphOperation).bodies.items():
        executor = body.body.executor if isinstance(body.body, KernelBody) else None
        if executor is None:
            continue
        model = executor.prepared
        for plan in executor.call_plans()[:1]:
            for part in plan.parts:
                if isinstance(part, ReferenceStep):
                    inner = _in_bodies(part.node) if part.body else _without_kernel(plan, part.node)
                    return f"in '{name}' {part.node.label} {inner}"
            for origin in plan.symbols if len(plan.parts) > 1 else ():
                if origin.node not in model.parameters:
                    return f"in '{name}' {model.by_id[origin.node].label} finds a size"
    return ""


class Recorder:
    """Makes images of plans that were made in one recording, for one target."""

    def __init__(self, recording: Recording, constants: Constants, code: Code) -> None:
        self._recording, self._constants, self._code = recording, constants, code
        self.symbols: list[str] = []

    def image(self, plan: CallPlan, segment: Segment) -> RecordedPlan:
        """The image of a plan whose calls begin with this segment."""
        recording = self._recording
        first = recording.of(segment.address).number
        memories = self._reached(first)
        starts: dict[int, int] = {}
        count = 0
        for number in memories:
            starts[number] = count
            count += -(-recording.memories[number].root.size * 8 // LINE) * (LINE // 8)
        words = np.zeros(count, np.int64)
        for number in memories:
            root = recording.memories[number].root.reshape(-1).view(np.int64)
            words[starts[number] : starts[number] + root.size] = root
        relocated = np.flatnonzero(is_recorded(words)).astype(np.uint32)
        bases = np.zeros(relocated.size, np.uint32)
        for index, word in enumerate(relocated.tolist()):
            bases[index], words[word] = self._base(int(words[word]), starts)

        def of_kind(kind: str) -> tuple[int, ...]:
            return tuple(starts[n] for n in memories if recording.memories[n].words == kind)

        own = starts[recording.of(segment.context.base).number]
        contexts = of_kind("context")
        return RecordedPlan(
            plan,
            words,
            relocated,
            bases,
            (own, *(context for context in contexts if context != own)),
            of_kind("turns"),
            tuple(starts[n] + room for n in memories for room in recording.memories[n].rooms),
        )

    def _reached(self, first: int) -> list[int]:
        """The memories of words that can be reached from one of them, that one first."""
        recording = self._recording
        found = [first]
        for number in found:
            words = recording.memories[number].root.reshape(-1).view(np.int64)
            for word in words[is_recorded(words)].tolist():
                target = recording.of(word)
                if (
                    target.kind == "array"
                    and recording.memories[target.number].words
                    and target.number not in found
                ):
                    found.append(target.number)
        return found

    def _base(self, address: int, starts: dict[int, int]) -> tuple[int, int]:
        """The base of an address, by number, and what is added to it."""
        target = self._recording.of(address)
        if target.kind == "function":
            return CODE, self._code.add(self._recording.functions[target.number]) + target.offset
        if target.kind == "symbol":
            name = self._recording.symbols[target.number]
            if name not in self.symbols:
                self.symbols.append(name)
            return SYMBOLS + self.symbols.index(name), target.offset
        if target.number in starts:
            return WORDS, 8 * starts[target.number] + target.offset
        memory = self._recording.memories[target.number]
        begin, end, dtype = _part(_joined(memory.parts), target.offset)
        root = memory.root if memory.root.flags.c_contiguous else memory.root.T
        data = root.reshape(-1).view(np.uint8)[begin:end]
        at = self._constants.add(data, (memory.base + begin) % LINE, dtype)
        return CONSTANTS, at + target.offset - begin


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Parts of a memory, in order; those that overlap are one, of the type of the first."""
    result: list[Part] = []
    for first, end, dtype in sorted(parts, key=lambda part: part[:2]):
        if result and first < result[-1][1]:
            begin, before, its = result[-1]
            result[-1] = begin, max(end, before), its
        else:
            result.append((first, end, dtype))
    return result


def _part(parts: Sequence[Part], offset: int) -> Part:
    """The part that an offset lies in, or ends."""
    index = bisect.bisect_right(parts, offset, key=lambda part: part[0]) - 1
    return parts[max(0, index)]
