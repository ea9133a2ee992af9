"""Cases of VCVTNEPS2BF16 and VCVTNE2PS2BF16: which numbers come out."""

from __future__ import annotations

import numpy as np

from tests.kernels.avx512_bf16.case import LETTERS, case, check, filled
from tests.kernels.avx512_bf16.steps import Registers, Step, execute

#: f32, and the bf16 that the manual's convert_fp32_to_bfloat16 makes of it.
ROUNDED = [
    (0x00000000, 0x0000),
    (0x80000000, 0x8000),
    (0x00000001, 0x0000),  # denormals
    (0x007FFFFF, 0x0000),
    (0x807FFFFF, 0x8000),
    (0x00800000, 0x0080),  # the smallest number that is none
    (0x3F800000, 0x3F80),
    (0x3F807FFF, 0x3F80),  # below the middle
    (0x3F808000, 0x3F80),  # ties, to even
    (0x3F818000, 0x3F82),
    (0xBF808001, 0xBF81),  # above it
    (0x3FFFFFFF, 0x4000),  # into the exponent
    (0x7F7F7FFF, 0x7F7F),  # the last number below infinity
    (0x7F7F8000, 0x7F80),
    (0xFF7FFFFF, 0xFF80),
    (0x7F800000, 0x7F80),
    (0xFF800000, 0xFF80),
    (0x7F800001, 0x7FC0),  # NaN: cut, and quiet
    (0x7FA5FFFF, 0x7FE5),
    (0xFFFFFFFF, 0xFFFF),
]


def narrow(numbers: np.ndarray) -> np.ndarray:
    """Numbers that are bf16 already."""
    return (numbers >> 16).astype(np.uint16)


@case
def rounding() -> None:
    for first in range(0, len(ROUNDED), 10):
        part = ROUNDED[first : first + 10]
        for control in (0x1F80, 0x4000, 0x9FC0):  # as usual; upwards, unmasked; flushing
            registers = Registers()
            registers.words[5, : len(part)] = [wide for wide, _ in part]
            registers.control[0] = control
            texts = ["vcvtneps2bf16 %zmm5, %ymm17", "vcvtne2ps2bf16 %zmm5, %zmm5, %zmm17"]
            for times, after in enumerate(execute([Step(t, registers) for t in texts]), 1):
                wanted = np.zeros((times, 16), np.uint16)
                wanted[:, : len(part)] = [narrow for _, narrow in part]
                check(after, registers, 17, wanted, f"{control:#x}, {times}")


@case
def conversions_of_every_register() -> None:
    steps, expected = [], []
    for size, letter in LETTERS.items():
        lesser = LETTERS[max(size // 2, 16)]
        for n in range(32):
            a, b, result = n, (7 * n + 3) % 32, (13 * n + 16) % 32
            registers = filled()
            registers.words[:] &= 0xFFFF0000
            low, high = (narrow(registers.words[x, : size // 4]) for x in (b, a))
            text = f"vcvtneps2bf16 %{letter}mm{b}, %{lesser}mm{result}"
            steps.append(Step(text, registers))
            expected.append((result, low))
            text = f"vcvtne2ps2bf16 %{letter}mm{b}, %{letter}mm{a}, %{letter}mm{result}"
            steps.append(Step(text, registers))
            expected.append((result, np.concatenate([low, high])))
    for step, after, (result, wanted) in zip(steps, execute(steps), expected, strict=True):
        check(after, step.before, result, wanted, step.text)
