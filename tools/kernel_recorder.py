"""Selects kernels as if on another processor, and keeps the digest of each kernel's LLVM text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from uncork.kernels import select as choose
from uncork.kernels.select import Choice, In, Length, Native, Operand, Out, Room

_V3 = "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+popcnt"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"


@dataclass(frozen=True)
class Processor:
    """A processor in LLVM's words."""

    name: str
    features: str
    tiles: bool = False


TARGETS = {
    "x86-64-v3": Processor("x86-64-v3", _V3),
    "x86-64-v4": Processor("x86-64-v4", _V4),
    "avx512bf16": Processor("cooperlake", f"{_V4},+avx512vnni,+avx512bf16"),
    "amx": Processor("sapphirerapids", f"{_V4},+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16", tiles=True),
    "aarch64": Processor("neoverse-n1", "+neon,+fp-armv8,+fullfp16,+dotprod"),
}
#: Where the addresses begin that stand for kernels.
_FIRST = 1 << 50
_LET_RUN = 1 << 49
#: Greater numbers among operands are addresses.
_LARGEST_SIZE = 1 << 40


class Recorder:
    """Stands where the store of compiled kernels stands: emits each kernel, and compiles none."""

    def __init__(self, processor: Processor) -> None:
        self._kernels: list[tuple[str, str]] = []  # name, digest; by the order of addresses
        self._addresses: dict[tuple[str, str], int] = {}
        #: The first row of every table begins at a cache line.
        self.tables_begin_lines = True
        _install(self, processor)

    def function(self, name: str, description: str, make: Callable[[], str]) -> int:
        """An address that stands for a kernel; its text is made here."""
        key = (name, description)
        if key not in self._addresses:
            self._addresses[key] = _FIRST + 16 * len(self._kernels)
            self._kernels.append((name, text_digest(make())))
        return self._addresses[key]

    def made(self) -> Iterator[tuple[str, str]]:
        """Name and digest of every kernel so far."""
        yield from sorted(self._kernels)

    def described(self, choice: Choice) -> str:
        """What was selected, on one line."""
        if isinstance(choice, str):
            return f"none: {choice}"
        if not isinstance(choice, Native):
            return f"view of input {choice.position}"
        text = f"{choice.kernel}: {self._calls(choice, [choice.calls], choice.room)}"
        if choice.split is not None:
            stages = choice.split(4)
            text += f", 4 threads: {self._calls(choice, stages.stages, stages.room)}"
        return f"{text}, cost {choice.cost:.6g}"

    def _calls(self, choice: Native, stages: object, room: int) -> str:
        kernels: list[str] = []
        digest = hashlib.sha256(str(room).encode())
        for stage in stages:  # type: ignore[attr-defined]
            for function, operands in stage:
                kernel = self._kernels[(function - _FIRST) // 16][1]
                if kernel not in kernels:
                    kernels.append(kernel)
                words = " ".join(_operand(operand, choice.keep) for operand in operands)
                digest.update(f"\n{kernel} {words}".encode())
            digest.update(b"\nthen")
        return f"{'+'.join(kernels)}/{digest.hexdigest()[:12]}"


def text_digest(text: str) -> str:
    """A digest of LLVM text in which values and functions are numbered; intrinsics keep names."""
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        if name.startswith('@"llvm.'):
            return name
        return numbers.setdefault(name, f"{name[0]}{len(numbers)}")

    plain = re.sub(r'[%@]"[^"]*"', number, text)
    plain = re.sub(r'^("?)([\w.]+)\1:', lambda m: numbers.get(f'%"{m[2]}"', m[0]) + ":", plain, flags=re.M)
    plain = "\n".join(line for line in plain.splitlines() if not line.startswith("; ModuleID"))
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def _operand(operand: Operand, keep: object) -> str:
    if isinstance(operand, In):
        return f"in{operand.position}+{operand.offset}"
    if isinstance(operand, Out):
        return f"out{operand.position}+{operand.offset}"
    if isinstance(operand, Room):
        return f"scratch+{operand.offset}"
    if isinstance(operand, Length):
        return f"size{operand.position}.{operand.axis}"
    if operand == _LET_RUN:
        return "yield"
    if operand < _LARGEST_SIZE:
        return str(operand)
    for number, array in enumerate(_arrays(keep)):
        first = array.ctypes.data
        if first <= operand <= first + array.nbytes:
            content = hashlib.sha256(array.tobytes()).hexdigest()[:12]
            return f"kept{number}+{operand - first}:{content}"
    return "address"


def _arrays(keep: object) -> Iterator[np.ndarray]:
    if isinstance(keep, np.ndarray):
        yield keep
    elif isinstance(keep, (list, tuple)):
        for item in keep:
            yield from _arrays(item)


def _install(recorder: Recorder, processor: Processor) -> None:
    """Put the recorder and the processor in the place of this machine's."""
    from uncork.kernels.embedding import select_bags as embedding
    from uncork.kernels.embedding import select_quantized as quantised
    from uncork.kernels.recurrent import select as recurrent
    from uncork.kernels.runtime import kernel_cache as store
    from uncork.kernels.runtime import target as cpu

    described = (processor.name, processor.features)
    cpu.host = choose.host = store.host = lambda: described  # type: ignore[attr-defined,assignment]
    cpu.lanes.cache_clear()
    recurrent.has_tiles = lambda: processor.tiles  # type: ignore[attr-defined]
    recurrent.let_run = lambda: _LET_RUN  # type: ignore[attr-defined]
    # Where tables lie changes from run to run, and with it which kernel is selected.
    embedding.begins_a_line = quantised.begins_a_line = lambda array: recorder.tables_begin_lines  # type: ignore[attr-defined,assignment]
    store.ObjectStore.function = lambda _, *given: recorder.function(*given)  # type: ignore[method-assign]
