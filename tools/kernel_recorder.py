"""Selects kernels for any target, and keeps the digest of each kernel's LLVM text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    ReleaseGil,
    Scratch,
    Selection,
)
from uncork.kernels.kernel_spec import KernelSpec, llvm_text
from uncork.kernels.runtime.target import Target

_V3 = "+sse2,+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+popcnt"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,-prefer-256-bit"
_BF16 = f"{_V4},+avx512vnni,+avx512bf16"
_TILES = "+amx-tile,+amx-bf16,+amx-int8"
TARGETS = {
    "x86-64-v3": Target.of("x86_64", "x86-64-v3", _V3),
    "x86-64-v4": Target.of("x86_64", "x86-64-v4", _V4),
    "avx512bf16": Target.of("x86_64", "cooperlake", _BF16),
    "znver4": Target.of("x86_64", "znver4", _BF16),
    "amx": Target.of("x86_64", "sapphirerapids", f"{_BF16},{_TILES}", tiles=True),
    "aarch64": Target.of("aarch64", "neoverse-n1", "+neon,+fp-armv8,+fullfp16,+dotprod"),
}
#: Greater numbers among operands are addresses.
_LARGEST_SIZE = 1 << 40


class Recorder:
    """Emits every kernel that is selected for a target, once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._digests: dict[KernelSpec, str] = {}

    def digest(self, spec: KernelSpec) -> str:
        """The digest of a kernel's text."""
        if spec not in self._digests:
            self._digests[spec] = text_digest(llvm_text(spec, self.target))
        return self._digests[spec]

    def made(self) -> Iterator[tuple[str, str]]:
        """Name and digest of every kernel so far."""
        yield from sorted((spec.name, digest) for spec, digest in self._digests.items())

    def described(self, choice: Selection) -> str:
        """What was selected, on one line."""
        if isinstance(choice, str):
            return f"none: {choice}"
        if not isinstance(choice, KernelPlan):
            return f"view of input {choice.position}"
        text = f"{choice.kernel}: {self._calls(choice, [choice.calls], choice.scratch)}"
        if choice.split is not None:
            stages = choice.split(4)
            text += f", 4 threads: {self._calls(choice, stages.stages, stages.scratch)}"
        return f"{text}, cost {choice.cost:.6g}"

    def _calls(
        self, choice: KernelPlan, stages: Sequence[Sequence[KernelCall]], scratch: int
    ) -> str:
        kernels: list[str] = []
        digest = hashlib.sha256(str(scratch).encode())
        for stage in stages:
            for spec, operands in stage:
                kernel = self.digest(spec)
                if kernel not in kernels:
                    kernels.append(kernel)
                words = " ".join(_operand(operand, choice.keep) for operand in operands)
                digest.update(f"\n{kernel} {words}".encode())
            digest.update(b"\nthen")
        return f"{'+'.join(kernels)}/{digest.hexdigest()[:12]}"


def text_digest(text: str) -> str:
    """A digest of LLVM text in which values, blocks and functions are numbered; intrinsics keep
    names.
    """
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0].replace('"', "")
        return (
            match[0]
            if name.startswith("@llvm.")
            else numbers.setdefault(name, f"{name[0]}{len(numbers)}")
        )

    plain = re.sub(r'[%@]("[^"]*"|[\w.]+)', number, text)
    plain = re.sub(r"^([\w.]+):", lambda m: numbers.get(f"%{m[1]}", m[0]) + ":", plain, flags=re.M)
    return hashlib.sha256(plain.encode()).hexdigest()[:12]


def _operand(operand: Operand, keep: object) -> str:
    if isinstance(operand, In):
        return f"in{operand.position}+{operand.offset}"
    if isinstance(operand, Out):
        return f"out{operand.position}+{operand.offset}"
    if isinstance(operand, Scratch):
        return f"scratch+{operand.offset}"
    if isinstance(operand, ReleaseGil):
        return "yield"
    if operand < _LARGEST_SIZE:
        return str(operand)
    arrays = list(_arrays(keep))
    for number, array in enumerate(arrays):
        first = array.ctypes.data
        if first <= operand <= first + array.nbytes:
            content = hashlib.sha256(_plain(array, arrays)).hexdigest()[:12]
            return f"kept{number}+{operand - first}:{content}"
    return "address"


def _plain(array: np.ndarray, arrays: Sequence[np.ndarray]) -> bytes:
    """The bytes of an array; addresses of other arrays, which a table may have, as what is there:
    they differ from process to process.
    """
    if array.dtype != np.int64:
        return array.tobytes()
    words = array.reshape(-1).tolist()
    for other in arrays:
        if (first := other.ctypes.data) in words and other is not array:
            words = [other.tobytes() if word == first else word for word in words]
    return repr(words).encode()


def _arrays(keep: object) -> Iterator[np.ndarray]:
    if isinstance(keep, np.ndarray):
        yield keep
    elif isinstance(keep, (list, tuple)):
        for item in keep:
            yield from _arrays(item)
