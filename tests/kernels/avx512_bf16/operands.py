"""Cases of what all three instructions share: masks, memory, and what else stays as it is."""

from __future__ import annotations

import itertools

import numpy as np

from tests.kernels._bf16 import VECTORS, native_vectors
from tests.kernels.avx512_bf16.case import LETTERS, case, check, emulators, filled, random
from tests.kernels.avx512_bf16.conversions import narrow
from tests.kernels.avx512_bf16.products import integer_products
from tests.kernels.avx512_bf16.steps import Registers, Step, execute


class Form:
    """One of the instructions for one size, with %2 as the first and register 3 as the result."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.lanes = size // 2 if name == "vcvtne2ps2bf16" else size // 4

    def text(self, second: str, decoration: str = "", memory: bool = False) -> str:
        letter = LETTERS[self.size]
        if self.name == "vcvtneps2bf16":
            # An assembler cannot tell the size of memory from the result's.
            suffix = letter if memory and "{1to" not in second and self.size < 64 else ""
            return (
                f"{self.name}{suffix} {second}, %{LETTERS[max(self.size // 2, 16)]}mm3{decoration}"
            )
        return f"{self.name} {second}, %{letter}mm2, %{letter}mm3{decoration}"

    def result(self, before: Registers, second: np.ndarray) -> np.ndarray:
        """All lanes, for a second operand of small integers."""
        words = before.words[:, : self.size // 4]
        if self.name == "vdpbf16ps":
            return integer_products(words[3], words[2], second)
        low = narrow(second)
        return low if self.name == "vcvtneps2bf16" else np.concatenate([low, narrow(words[2])])


FORMS = [Form(name.lower(), size) for name, size in itertools.product(VECTORS, LETTERS)]


def given(form: Form) -> Registers:
    """Registers that suit it: f32 are numbers of bf16 where they are converted."""
    registers = filled()
    if form.name != "vdpbf16ps":
        registers.words[:] &= 0xFFFF0000
    registers.f32[3] = random.integers(-8, 9, 16)
    return registers


def second_of(form: Form, count: int) -> np.ndarray:
    """Words in memory."""
    registers = given(form)
    return np.ascontiguousarray(registers.words.reshape(-1)[64 : 64 + count])


@case
def masks() -> None:
    steps, forms = [], []
    for form in FORMS:
        for mask, zeroing in itertools.product(range(1, 8), ("", "{z}")):
            second = f"%{LETTERS[form.size]}mm9"
            steps.append(Step(form.text(second, f"{{%k{mask}}}{zeroing}"), given(form)))
            forms.append((form, mask, bool(zeroing)))
    for step, after, (form, mask, zeroing) in zip(steps, execute(steps), forms, strict=True):
        before = step.before
        wanted = form.result(before, before.words[9, : form.size // 4])
        chosen = np.array([int(before.k[mask]) >> n & 1 for n in range(form.lanes)], bool)
        kept = before.v[3].view(wanted.dtype)[: form.lanes]
        wanted = np.where(chosen, wanted, 0 if zeroing else kept).astype(wanted.dtype)
        check(after, before, 3, wanted, step.text)


@case
def masks_of_few_and_of_no_lanes() -> None:
    """Bits of a mask behind the lanes count for nothing; without any lane nothing is written but
    zeros behind the result.
    """
    for form in FORMS:
        registers = given(form)
        registers.k[1] = 0xFFFFFFFFFFFFFFFF << form.lanes & 0xFFFFFFFFFFFFFFFF
        step = Step(form.text(f"%{LETTERS[form.size]}mm9", "{%k1}"), registers)
        kept = registers.v[3, : form.result(registers, registers.words[9, : form.size // 4]).nbytes]
        check(execute([step])[0], registers, 3, kept.copy(), step.text)


@case
def memory() -> None:
    """Registers as base and index, all scales, displacements as one byte and as four: one byte
    counts in operands, which are words when they are broadcast.
    """
    bases = ["rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16))]
    steps, expected, kept = [], [], []
    for number, (form, broadcast) in enumerate(itertools.product(FORMS, (False, True))):
        unit = 4 if broadcast else form.size
        near = [0, unit, -unit, 127 * unit, -128 * unit, 128 * unit, unit + 1, -0x12345678]
        for n, displacement in enumerate(near):
            base = bases[(5 * number + 3 * n) % len(bases)]
            index = bases[(5 * number + 3 * n + 7) % len(bases)]
            scale = 1 << n % 4
            words = second_of(form, 1 if broadcast else form.size // 4)
            indexed = f",%{index},{scale}" if n % 3 else ""
            address = words.ctypes.data - displacement - (40 * scale if indexed else 0)
            operand = f"{displacement or ''}(%{base}{indexed})"
            if broadcast:
                operand += f"{{1to{form.size // 4}}}"
            registers = given(form)
            text = form.text(operand, memory=True)
            steps.append(Step(text, registers, (base, address), (index, 40)))
            expected.append((form, np.resize(words, form.size // 4)))
            kept.append(words)
    for step, after, (form, second) in zip(steps, execute(steps), expected, strict=True):
        check(after, step.before, 3, form.result(step.before, second), step.text)


@case
def memory_on_the_stack_and_near_the_code() -> None:
    """rsp as base, and addresses that are told from the next instruction on."""
    for form in FORMS:
        registers = given(form)
        second = registers.words[9, : form.size // 4]
        moved = "vmovdqu64 %zmm9, -64(%rsp)"  # a signal leaves 128 bytes alone
        texts = [
            "; ".join(
                [
                    "sub $256, %rsp; vmovdqu64 %zmm9, (%rsp)",
                    form.text("(%rsp)", memory=True),
                    "add $256, %rsp",
                ]
            ),
            f"{moved}; {form.text('-64(%rsp)', memory=True)}",
            f"xor %rdx, %rdx; {moved}; {form.text('-64(%rsp,%rdx,4)', memory=True)}",
            "; ".join(
                [
                    ".pushsection .data; 1: .fill 64, 1, 0; .popsection",
                    "vmovdqu64 %zmm9, 1b(%rip)",
                    form.text("1b(%rip)", memory=True),
                ]
            ),
        ]
        for text in texts:
            after = execute([Step(text, registers)])[0]
            check(after, registers, 3, form.result(registers, second), text)


@case
def masked_memory_is_not_read() -> None:
    """Words behind a page that nobody may touch, and before it; broadcast, without a lane. Whole
    operands end where a page ends.
    """
    from tests.kernels._fences import Fenced  # which takes longer to import than all cases to run

    for form in FORMS:
        count = form.size // 4
        for first in (False, True):
            fenced = Fenced(form.size, first)
            fenced.bytes[:] = second_of(form, count).view(np.uint8)
            words = fenced.bytes.view(np.uint32).copy()
            fenced.only_read()
            registers = given(form)
            text = form.text("(%rsi)", memory=True)
            after = execute([Step(text, registers, ("rsi", fenced.bytes.ctypes.data))])[0]
            check(after, registers, 3, form.result(registers, words), text)
            if form.name == "vcvtne2ps2bf16":
                continue  # "This instruction does not support memory fault suppression."
            # The address is two words off: the lanes there are masked.
            registers.k[1] = (1 << count - 2) - 1 if not first else (1 << count) - 4
            shift = -8 if first else 8
            place = fenced.bytes.ctypes.data + shift
            text = form.text("(%rsi)", "{%k1}{z}", memory=True)
            after = execute([Step(text, registers, ("rsi", place))])[0]
            second = np.zeros(count, np.uint32)
            lanes = slice(2, None) if first else slice(0, count - 2)
            second[lanes] = words[: count - 2] if first else words[2:]
            wanted = form.result(registers, second)
            wanted[: 2 if first else 0] = 0
            wanted[len(wanted) if first else count - 2 :] = 0
            check(after, registers, 3, wanted, text)
            registers.k[1] = 0
            text = form.text(f"(%rsi){{1to{count}}}", "{%k1}{z}", memory=True)
            nowhere = fenced.base
            after = execute([Step(text, registers, ("rsi", nowhere))])[0]
            check(after, registers, 3, np.zeros_like(wanted), text)


@case
def registers_that_were_never_written() -> None:
    """After VZEROALL the system need not keep the upper parts, which are zeros all the same."""
    registers = filled()
    text = "vzeroall; vdpbf16ps %ymm1, %ymm2, %ymm3; vcvtneps2bf16 %zmm20, %ymm4"
    after = execute([Step(text, registers)])[0]
    registers.v[:16] = 0
    registers.words[20] &= 0xFFFF0000
    before = registers.copy()
    before.words[20] = after.words[20]
    converted = after.v[4].copy()
    after.v[4] = before.v[4]
    check(after, before, 3, np.zeros(1, np.uint8), text)
    assert not converted[32:].any()


@case
def some_in_a_row() -> None:
    """With and without others between them: what one writes the next one reads."""
    registers = filled()
    registers.f32[3] = random.integers(-8, 9, 16)
    dot = "vdpbf16ps %zmm1, %zmm2, %zmm3"
    many = "; ".join([dot, dot, "vaddps %zmm3, %zmm3, %zmm3", dot, "nop", dot])
    total = registers.words[3]
    for text in (dot, dot, "twice", dot, dot):
        if text == "twice":
            total = (total.view(np.float32) * 2).view(np.uint32)
        else:
            total = integer_products(total, registers.words[2], registers.words[1]).view(np.uint32)
    check(execute([Step(many, registers)])[0], registers, 3, total, many)


@case
def instructions_are_counted() -> None:
    if not emulators:
        return
    before = emulators[0].counts()
    form = {f.name: f for f in FORMS}
    texts = [form[name.lower()].text("%zmm9") for name in VECTORS]
    execute([Step("; ".join([texts[0]] * 3 + [texts[1]] * 2 + texts[2:]), filled())])
    after = emulators[0].counts()
    # An emulator of tiles alone sees nothing of what the processor has.
    executed = [0, 0, 0] if native_vectors() else [3, 2, 1]
    assert [after[kind] - before[kind] for kind in VECTORS] == executed
