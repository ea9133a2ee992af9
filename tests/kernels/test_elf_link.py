"""Linking: what LLVM compiles runs wherever it is put, on processors that are here and on those
that are not.
"""

from __future__ import annotations

import ctypes
import math
import struct

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from llvmlite import binding

from tests.kernels.test_kernel_cache import answer
from uncork.kernels.codegen.activations import accurate_tanh
from uncork.kernels.codegen.emit import F32, F64, I64, Kernel
from uncork.kernels.runtime.elf_link import Unlinkable, link
from uncork.kernels.runtime.exec_memory import mapped

#: Systems and processors that objects are made for.
X86_64, AARCH64 = (
    ("x86_64-unknown-linux-gnu", "x86-64-v3"),
    ("aarch64-unknown-linux-gnu", "cortex-a72"),
)


def objects(text: str, target: tuple[str, str]) -> bytes:
    """The object file for a processor, which need not be this one."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple, cpu = target
    machine = binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=3, reloc="pic", codemodel="small"
    )
    module = binding.parse_assembly(text)
    module.triple = triple
    return machine.emit_object(module)


def tanh_of_eight() -> str:
    """A kernel with constants, vectors, a function inside and loops: out[i] = tanh(in[i]) for 8
    numbers, then a double of 2.5.
    """
    kernel = Kernel("tanh", ["source", "target"])
    source, target = kernel.arguments
    inner = Kernel("inner", ["from", "to"], inside=kernel)
    begin, end = inner.arguments
    inner.store(accurate_tanh(inner, inner.load(begin, F32, 8)), end)
    inner.finish()
    kernel.call(inner, [source, target])
    kernel.store(kernel.constant(2.5, F64) * kernel.load(source, F32).to(F64), target + 32)
    kernel.finish(kernel.integer(5))
    return kernel.text()


def expected(values: np.ndarray) -> tuple[list[float], float]:
    return [math.tanh(v) for v in values], 2.5 * float(values[0])


VALUES = np.array([-20, -1.5, -0.3, -1e-4, 0, 0.2, 0.9, 7], np.float32)


def test_linked_code_runs_anywhere() -> None:
    triple = binding.get_default_triple()
    code, entry = link(objects(tanh_of_eight(), (triple, binding.get_host_cpu_name())), "tanh")
    for pages in range(3):  # at any page
        memory = mapped(bytes(4096 * pages) + code)
        target = np.zeros(12, np.float32)
        words = np.array([VALUES.ctypes.data, target.ctypes.data], np.int64)
        function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(
            memory.ctypes.data + 4096 * pages + entry
        )
        assert function(words.ctypes.data) == 5
        numbers, double = expected(VALUES)
        np.testing.assert_allclose(target[:8], numbers, rtol=1e-6)
        assert target[8:10].view(np.float64)[0] == double


@pytest.mark.oracle
def test_on_an_emulated_processor() -> None:
    """Unicorn (QEMU's emulator) runs NEON code at two places, on whatever machine this is."""
    unicorn = pytest.importorskip("unicorn")
    from unicorn import arm64_const as registers

    code, entry = link(objects(tanh_of_eight(), AARCH64), "tanh")
    data, stack = 0x100000, 0x200000
    for base in (0x10000, 0x7654_3210_0000):
        emulator = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        emulator.reg_write(registers.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # vectors are allowed
        for place in (base, data, stack):
            emulator.mem_map(place, 1 << 16)
        emulator.mem_write(base, code)
        emulator.mem_write(
            data, struct.pack("<qq", data + 64, data + 128) + bytes(48) + VALUES.tobytes()
        )
        emulator.reg_write(registers.UC_ARM64_REG_X0, data)
        emulator.reg_write(registers.UC_ARM64_REG_SP, stack + 0x8000)
        emulator.reg_write(registers.UC_ARM64_REG_X30, stack)  # where it returns to
        emulator.emu_start(base + entry, stack)
        assert emulator.reg_read(registers.UC_ARM64_REG_X0) == 5
        got = np.frombuffer(bytes(emulator.mem_read(data + 128, 40)), np.float32)
        numbers, double = expected(VALUES)
        np.testing.assert_allclose(got[:8], numbers, rtol=1e-6)
        assert got[8:10].view(np.float64)[0] == double


def test_what_comes_from_elsewhere_is_left_to_llvm() -> None:
    kernel = Kernel("answer", ["where"])
    (where,) = kernel.arguments
    kernel.store(kernel._intrinsic("exp", [kernel.load(where, F32)]), where)
    kernel.finish()
    with pytest.raises(Unlinkable, match="'expf' from elsewhere"):
        link(objects(kernel.text(), X86_64), "answer")


VARIABLE = """
@place = internal global i64 7
define i64 @answer(i64* noalias %words) {
  %old = load i64, i64* @place
  %new = add i64 %old, 1
  store i64 %new, i64* @place
  ret i64 %old
}
"""


def test_a_variable_is_left_to_llvm() -> None:
    with pytest.raises(Unlinkable, match=r"section \.data holds more"):
        link(objects(VARIABLE, X86_64), "answer")


@pytest.mark.parametrize(
    ("triple", "cpu", "message"),
    [
        ("x86_64-apple-darwin", "x86-64", "not ELF"),
        ("x86_64-pc-windows-msvc", "x86-64", "not ELF"),
        ("s390x-unknown-linux-gnu", "z13", "not ELF|relocation"),
        ("i686-unknown-linux-gnu", "i686", "not ELF"),
    ],
)
def test_other_systems_are_left_to_llvm(triple: str, cpu: str, message: str) -> None:
    try:
        data = objects(tanh_of_eight(), (triple, cpu))
    except RuntimeError as error:
        pytest.skip(f"this LLVM has no such target: {error}")
    with pytest.raises(Unlinkable, match=message):
        link(data, "tanh")


def test_another_function_is_not_found() -> None:
    with pytest.raises(Unlinkable, match="no function 'other'"):
        link(objects(answer(1), X86_64), "other")


def test_every_cut_object_is_refused_or_whole() -> None:
    data = objects(answer(1), X86_64)
    whole = link(data, "answer")
    for size in range(len(data)):
        try:
            found = link(data[:size], "answer")
        except Unlinkable:
            continue
        assert found == whole, size


def test_an_index_of_64_bits() -> None:
    """Constants of eight bytes lie in a section of their own."""
    kernel = Kernel("answer", ["where"])
    (where,) = kernel.arguments
    values = kernel.load(where, I64, 8)
    kernel.store(values * 0x123456789ABC, where)
    kernel.finish()
    code, entry = link(objects(kernel.text(), X86_64), "answer")
    assert 0 <= entry < len(code)
