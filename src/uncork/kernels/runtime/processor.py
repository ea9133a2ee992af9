"""The processor of this machine, as it says itself, in LLVM's words and without LLVM."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Iterable

from uncork.kernels.runtime.exec_memory import mapped

#: What systems call the architectures for which there are levels.
_NAMES = {"AMD64": "x86_64", "amd64": "x86_64", "arm64": "aarch64", "ARM64": "aarch64"}
_EAX, _EBX, _ECX, _EDX = range(4)
#: Bits of what CPUID tells, by leaf, leaf within it, and register (Intel's manual, volume 2).
_BITS: dict[tuple[int, int, int], dict[int, tuple[str, ...]]] = {
    (1, 0, _ECX): {
        0: ("sse3",), 9: ("ssse3",), 12: ("fma",), 13: ("cx16",), 19: ("sse4.1",),
        20: ("sse4.2", "crc32"), 22: ("movbe",), 23: ("popcnt",), 26: ("xsave",), 28: ("avx",),
        29: ("f16c",),
    },
    (1, 0, _EDX): {
        8: ("cx8",), 15: ("cmov",), 23: ("mmx",), 24: ("fxsr",), 25: ("sse",), 26: ("sse2",),
    },
    (7, 0, _EBX): {
        3: ("bmi",), 5: ("avx2",), 8: ("bmi2",), 16: ("avx512f",), 17: ("avx512dq",),
        28: ("avx512cd",), 30: ("avx512bw",), 31: ("avx512vl",),
    },
    (7, 0, _ECX): {11: ("avx512vnni",)},
    (7, 0, _EDX): {22: ("amx-bf16",), 24: ("amx-tile",), 25: ("amx-int8",)},
    (7, 1, _EAX): {4: ("avxvnni",), 5: ("avx512bf16",)},
    (0x80000001, 0, _ECX): {0: ("sahf",), 5: ("lzcnt",)},
}  # fmt: skip
#: Bits of what the system keeps for each thread (XCR0): the state of AVX, AVX-512 and AMX.
_AVX, _AVX512, _AMX = 0x6, 0xE6, 0x60000
#: How the names of features begin that need them.
_STATES = {_AVX: ("avx", "fma", "f16c"), _AVX512: ("avx512",), _AMX: ("amx",)}
_OSXSAVE = 27
#: Functions of the convention of POSIX and of Windows that put what CPUID gives for eax and ecx in
#: place of four numbers, and one that gives XCR0.
_CPUID_BEGINS = {"posix": "4989f8", "nt": "4989c8"}  # mov r8, rdi; mov r8, rcx
#: push rbx; (as above); mov eax, [r8]; mov ecx, [r8 + 8]; cpuid; mov [r8], eax;
#: mov [r8 + 4], ebx; mov [r8 + 8], ecx; mov [r8 + 12], edx; pop rbx; ret
_CPUID = "53{}418b00418b48080fa241890041895804418948084189500c5bc3"
_XGETBV = "31c90f01d0c3"  # xor ecx, ecx; xgetbv; ret
#: What Linux tells a process of an ARM (AT_HWCAP), and the bits of it.
_HWCAP = 16
_ARM_BITS = {0: "fp-armv8", 1: "neon", 20: "dotprod"}
#: The name that Windows has for ARM's dot products.
_WINDOWS_DOT_PRODUCTS = 43


@functools.lru_cache(maxsize=1)
def machine() -> str:
    """The architecture that code of this process is of: "x86_64", "aarch64", or another name."""
    if hasattr(os, "uname"):
        found = os.uname().machine
    else:
        import platform

        found = platform.machine()
    name = _NAMES.get(found, found)
    return name if sys.maxsize > 1 << 32 else f"{name}, 32 bits"


@functools.lru_cache(maxsize=1)
def features() -> frozenset[str]:
    """What of the features that levels name the processor has, and the system lets processes use.
    Nothing where code cannot be executed that asks for them.
    """
    if machine() == "x86_64":
        try:
            return _of_x86(_cpuid(), _xgetbv)
        except OSError:
            return frozenset()
    return _of_arm() if machine() == "aarch64" else frozenset()


def place_of(arch: str, feature: str) -> tuple[int, int, int, int] | None:
    """Where an x86-64 says that it has a feature: leaf, leaf within it, register (of eax, ebx, ecx,
    edx) and bit of CPUID; an ARM on Linux: 0, 0, 0 and the bit of AT_HWCAP. None where another
    feature stands for it.
    """
    if arch == "aarch64":
        return next(((0, 0, 0, bit) for bit, name in _ARM_BITS.items() if name == feature), None)
    for place, names in _BITS.items():
        for bit, words in names.items():
            if feature in words:
                return (*place, bit)
    return None


def kept_states(features: Iterable[str]) -> int:
    """What a system must keep for each thread (bits of XCR0) that kernels with these features run
    in.
    """
    kept = 0
    for state, begins in _STATES.items():
        if any(feature.startswith(begins) for feature in features):
            kept |= state
    return kept


def _cpuid() -> Callable[[int, int], list[int]]:
    """The instruction: the four registers for a leaf and a leaf within it."""
    code = mapped(bytes.fromhex(_CPUID.format(_CPUID_BEGINS[os.name])))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(int(code.ctypes.data))

    def ask(leaf: int, within: int) -> list[int]:
        registers = (ctypes.c_uint32 * 4)(leaf, 0, within, 0)
        function(ctypes.addressof(registers))
        return list(registers)

    return ask


def _xgetbv() -> int:
    code = mapped(bytes.fromhex(_XGETBV))
    return int(ctypes.CFUNCTYPE(ctypes.c_uint32)(int(code.ctypes.data))())


def _of_x86(ask: Callable[[int, int], list[int]], states: Callable[[], int]) -> frozenset[str]:
    """The features that CPUID tells, of which the system keeps the state."""
    most = {first: ask(first, 0)[_EAX] for first in (0, 0x80000000)}
    found: set[str] = set()
    for (leaf, within, register), names in _BITS.items():
        if leaf <= most[leaf & 0x80000000] and (not within or ask(leaf, 0)[_EAX] >= within):
            value = ask(leaf, within)[register]
            found.update(*(words for bit, words in names.items() if value >> bit & 1))
    kept = states() if ask(1, 0)[_ECX] >> _OSXSAVE & 1 else 0
    if sys.platform == "darwin" and kept & _AVX == _AVX:
        kept |= _AVX512  # it keeps that of AVX-512 from its first use on
    for state, begins in _STATES.items():
        if kept & state != state:
            found = {name for name in found if not name.startswith(begins)}
    return frozenset(found)


def _of_arm() -> frozenset[str]:
    """The features of an ARM of 64 bits, which always has vectors. Who has dot products has what
    came before them (ARMv8.2 demands atomic operations and `rdm` of ARMv8.1).
    """
    if sys.platform == "linux":
        known = ctypes.CDLL(None).getauxval
        known.restype = ctypes.c_ulong
        bits = int(known(_HWCAP))
        found = {name for bit, name in _ARM_BITS.items() if bits >> bit & 1}
    elif sys.platform == "darwin":
        size, answer = ctypes.c_size_t(4), ctypes.c_int32(0)
        name = b"hw.optional.arm.FEAT_DotProd"
        ctypes.CDLL(None).sysctlbyname(
            name, ctypes.byref(answer), ctypes.byref(size), None, ctypes.c_size_t(0)
        )
        found = {"fp-armv8", "neon", *(["dotprod"] if answer.value else [])}
    elif os.name == "nt":
        has = ctypes.windll.kernel32.IsProcessorFeaturePresent(_WINDOWS_DOT_PRODUCTS)
        found = {"fp-armv8", "neon", *(["dotprod"] if has else [])}
    else:
        found = {"fp-armv8", "neon"}
    return frozenset(found | ({"lse", "rdm"} if "dotprod" in found else set()))


@functools.lru_cache(maxsize=1)
def may_use_tiles() -> bool:
    """Whether the system lets this process use the registers of AMX: it is asked for here."""
    if not {"amx-tile", "amx-bf16", "amx-int8"} <= features() or sys.platform != "linux":
        return False
    # https://docs.kernel.org/arch/x86/xstate.html: the state of tiles is large, and only kept for
    # processes that ask for it.
    arch_prctl, request_permission, tile_data = map(ctypes.c_long, (158, 0x1023, 18))
    return int(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)) == 0
