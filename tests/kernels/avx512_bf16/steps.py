"""Instructions as an assembler writes them, on registers that are given and told again."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.kernels import _bf16

#: The usual control of arithmetic: round to nearest even, nothing flushed, all exceptions masked.
USUAL = 0x1F80
#: How registers lie in memory: 32 of 64 bytes, 8 masks, the control of arithmetic.
_MASKS, _CONTROL, _SIZE = 32 * 64, 32 * 64 + 8 * 8, 32 * 64 + 8 * 8 + 8
#: Where functions are built; `enter` says so.
_folder: list[Path] = []


class Registers:
    """Of vectors `v` (as bytes, with views), of masks `k`, and MXCSR."""

    def __init__(self) -> None:
        self.memory = np.zeros(_SIZE, np.uint8)
        self.v = self.memory[:_MASKS].reshape(32, 64)
        self.k = self.memory[_MASKS:_CONTROL].view(np.uint64)
        self.control = self.memory[_CONTROL:].view(np.uint32)
        self.control[0] = USUAL

    @property
    def f32(self) -> np.ndarray:
        return self.v.view(np.float32)

    @property
    def words(self) -> np.ndarray:
        return self.v.view(np.uint32)

    @property
    def halves(self) -> np.ndarray:
        return self.v.view(np.uint16)

    def copy(self) -> Registers:
        other = Registers()
        other.memory[:] = self.memory
        return other


@dataclass
class Step:
    """Assembly, which may have `base` and `index` in the general registers of these names."""

    text: str
    before: Registers = field(default_factory=Registers)
    base: tuple[str, int] = ("rsi", 0)
    index: tuple[str, int] = ("rdx", 0)


#: The registers of a step come in rdi, base and index in rsi and rdx.
_FUNCTION = """
.globl {name}
{name}:
    push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15
    push %rdi; push %rdx; push %rsi
    {load}
    pop %{base}; pop %{index}
    {text}
    pop %rdi
    {save}
    pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
    ret
"""
_LOAD = [
    *(f"vmovdqu64 {64 * n}(%rdi), %zmm{n}" for n in range(32)),
    *(f"kmovq {_MASKS + 8 * n}(%rdi), %k{n}" for n in range(8)),
    f"ldmxcsr {_CONTROL}(%rdi)",
]
_SAVE = [
    f"stmxcsr {_CONTROL}(%rdi)",
    *(f"vmovdqu64 %zmm{n}, {64 * n}(%rdi)" for n in range(32)),
    *(f"kmovq %k{n}, {_MASKS + 8 * n}(%rdi)" for n in range(8)),
    "vzeroupper",
    f"movl ${USUAL}, -8(%rsp)",
    "ldmxcsr -8(%rsp)",
]


def use_folder(folder: Path) -> None:
    _folder.append(folder)


def execute(steps: Sequence[Step]) -> list[Registers]:
    """The registers after each step."""
    functions = {(s.text, s.base[0], s.index[0]): f"step_{n}" for n, s in enumerate(steps)}
    source = "".join(
        _FUNCTION.format(
            name=name,
            base=base,
            index=index,
            text=text,
            load="\n".join(_LOAD),
            save="\n".join(_SAVE),
        )
        for (text, base, index), name in functions.items()
    )
    source += "\n.section .note.GNU-stack\n"
    path = _folder[0] / f"steps_{hashlib.sha256(source.encode()).hexdigest()[:16]}.s"
    path.write_text(source, encoding="utf-8")
    library = ctypes.CDLL(str(_bf16.built(path.stem, [path], path.parent)))
    results = []
    for step in steps:
        after = step.before.copy()
        function = getattr(library, functions[step.text, step.base[0], step.index[0]])
        function.argtypes = [ctypes.c_void_p] * 3
        function.restype = None
        function(after.memory.ctypes.data, step.base[1] or None, step.index[1] or None)
        results.append(after)
    return results


def one(text: str, before: Registers) -> Registers:
    """The registers after one step without memory."""
    return execute([Step(text, before)])[0]
