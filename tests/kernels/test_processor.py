"""What the processor says of itself, and memory for code on systems that this one is not."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from uncork.kernels.runtime import exec_memory, processor
from uncork.kernels.runtime.target import LEVELS

#: What /proc/cpuinfo calls otherwise than LLVM.
WORDS = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "lahf_lm": "sahf",
    "bmi1": "bmi",
    "abm": "lzcnt",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx_vnni": "avxvnni",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
}


@pytest.mark.skipif(
    processor.machine() != "x86_64" or sys.platform != "linux", reason="as Linux tells it"
)
def test_cpuid_tells_what_linux_tells() -> None:
    text = Path("/proc/cpuinfo").read_text()
    flags = next(line for line in text.splitlines() if line.startswith("flags")).split(":")[1]
    told = {WORDS.get(flag, flag) for flag in flags.split()}
    told |= {"crc32"} if "sse4.2" in told else set()
    known = {name for bits in processor._BITS.values() for names in bits.values() for name in names}
    assert processor.features() == told & known


def cpuid(features: set[str], system_keeps: bool = True) -> Callable[[int, int], list[int]]:
    """A processor that has these features, and leaves up to those."""

    def ask(leaf: int, within: int) -> list[int]:
        registers = [0, 0, 0, 0]
        if (leaf & 0x7FFFFFFF, within) == (0, 0):
            registers[0] = leaf + 7 if not leaf else leaf + 1
        if (leaf, within) == (7, 0):
            registers[0] = 1
        for (of, part, register), bits in processor._BITS.items():
            if (of, part) == (leaf, within):
                for bit, names in bits.items():
                    registers[register] |= (set(names) <= features) << bit
        if leaf == 1:
            registers[2] |= system_keeps << 27
        return registers

    return ask


EVERY = set(LEVELS["x86-64-v4-amx"].needs)


@pytest.mark.parametrize(
    ("states", "level"),
    [
        (0x600E7, "x86-64-v4-amx"),
        (0xE7, "x86-64-v4-bf16"),  # the system keeps no tiles
        (0x7, "x86-64-v3"),  # nor the long vectors: the processor has them in vain
        (0x3, "x86-64-v2"),
    ],
)
def test_features_whose_state_the_system_does_not_keep_are_none(
    states: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    found = processor._of_x86(cpuid(EVERY), lambda: states)
    assert next(n for n, t in LEVELS.items() if t.arch == "x86_64" and t.needs <= found) == level


def test_macos_keeps_the_state_of_long_vectors_from_their_first_use_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "avx512f" in processor._of_x86(cpuid(EVERY), lambda: 0x7)


def test_a_system_that_keeps_no_states_is_not_asked_for_them() -> None:
    found = processor._of_x86(cpuid(EVERY, system_keeps=False), lambda: pytest.fail("asked"))
    assert LEVELS["x86-64-v2"].needs <= found and not {"avx", "fma", "avx2"} & found


def test_where_no_code_may_run_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(code: bytes) -> None:
        raise PermissionError

    monkeypatch.setattr(processor, "mapped", refuse)
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    assert processor.features.__wrapped__() == frozenset()


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("system", ["linux", "darwin", "win32", "freebsd"])
def test_arm_says_by_its_system_what_it_has(
    system: str, dots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def __init__(self, *_: object) -> None:
            self.getauxval: Any = SimpleNamespace()

            class Ask:
                def __call__(self, kind: int) -> int:
                    assert kind == 16
                    return 0b11 | dots << 20

            self.getauxval = Ask()

        def sysctlbyname(self, name: bytes, answer: Any, size: Any, *_: object) -> int:
            assert name == b"hw.optional.arm.FEAT_DotProd"
            answer._obj.value = int(dots)
            return 0

    windows = SimpleNamespace(IsProcessorFeaturePresent=lambda number: dots and number == 43)
    monkeypatch.setattr(sys, "platform", system)
    if system == "win32":
        monkeypatch.setattr(os, "name", "nt")
        monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=windows), raising=False)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    found = processor._of_arm()
    monkeypatch.undo()
    wanted = "aarch64-dotprod" if dots and system != "freebsd" else "aarch64"
    assert next(n for n, t in LEVELS.items() if t.arch == "aarch64" and t.needs <= found) == wanted


class Calls:
    """A system's functions that remember how they were called, in memory that is really there."""

    def __init__(self, refuse: str = "") -> None:
        self.made: list[str] = []
        self._refuse = refuse
        self.memory = ctypes.create_string_buffer(4096)
        self.address = ctypes.addressof(self.memory)

    def _call(self, name: str, result: Any) -> Any:
        def function(*arguments: Any) -> Any:
            numbers = [a.value if hasattr(a, "value") else a for a in arguments]
            self.made.append(f"{name}{[n for n in numbers if isinstance(n, int)][1:3]}")
            return (
                {"VirtualAlloc": None, "mmap": -1, "mprotect": -1}.get(name, 0)
                if (name == self._refuse)
                else result
            )

        return function


def windows(refuse: str = "") -> tuple[Calls, Any]:
    calls = Calls(refuse)
    results = {"VirtualAlloc": calls.address, "VirtualProtect": 1, "FlushInstructionCache": 1}
    kernel32 = SimpleNamespace(GetCurrentProcess=SimpleNamespace())

    class Function:
        restype: Any = None

        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, *arguments: Any) -> Any:
            return calls._call(self.name, results.get(self.name, 7))(*arguments)

    for name in (*results, "GetCurrentProcess"):
        setattr(kernel32, name, Function(name))
    return calls, kernel32


def test_windows_writes_pages_first_and_executes_them_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, kernel32 = windows()
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel32), raising=False)
    assert exec_memory._by_windows(b"code") == calls.address
    assert calls.memory.raw[:4] == b"code"
    names = [made.split("[")[0] for made in calls.made]
    assert names == ["VirtualAlloc", "VirtualProtect", "GetCurrentProcess", "FlushInstructionCache"]
    # PAGE_READWRITE, then PAGE_EXECUTE_READ: never PAGE_EXECUTE_READWRITE (0x40)
    assert "4]" in calls.made[0] and "32]" in calls.made[1]


@pytest.mark.parametrize("refuse", ["VirtualAlloc", "VirtualProtect"])
def test_windows_may_forbid_it(refuse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, kernel32 = windows(refuse)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel32), raising=False)
    assert exec_memory._by_windows(b"code") is None


@pytest.mark.skipif(os.name != "posix", reason="it needs pages of POSIX")
def test_pages_are_never_writable_and_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    """As macOS has them, on this system: what is asked for, and that the code runs."""
    asked: list[int] = []
    mmap_, library = exec_memory._mmap(), ctypes.CDLL(None, use_errno=True)

    class System:
        def __init__(self, *_: object, **__: object) -> None:
            self.told: list[int] = []

        def mprotect(self, address: Any, size: Any, protection: int) -> int:
            asked.append(protection)
            return int(library.mprotect(address, size, protection))

        @staticmethod
        def sys_icache_invalidate(address: Any, size: Any) -> None:
            asked.append(-1)

    def mapping(address: Any, size: int, protection: int, *more: int) -> Any:
        asked.append(protection)
        return mmap_(address, size, protection, *more)

    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(ctypes, "CDLL", System)
    monkeypatch.setattr(exec_memory, "_mmap", lambda: mapping)
    returns_7 = {"x86_64": "b807000000c3", "aarch64": "e0008052c0035fd6"}[processor.machine()]
    code = exec_memory.mapped(bytes.fromhex(returns_7))
    assert asked == [mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_EXEC, -1]
    if processor.machine() == "x86_64":  # others have caches that Linux was not told of
        assert ctypes.CFUNCTYPE(ctypes.c_int)(code.ctypes.data)() == 7


@pytest.mark.skipif(os.name != "posix", reason="it needs pages of POSIX")
@pytest.mark.parametrize("refused", ["mmap", "mprotect", "caches"])
def test_a_system_may_forbid_it(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, mmap_ = ctypes.CDLL(None, use_errno=True), exec_memory._mmap()
    system = SimpleNamespace(mprotect=library.mprotect)
    monkeypatch.delattr(os, "memfd_create", raising=False)
    if refused == "mprotect":
        system.mprotect = lambda *_: -1
    if refused == "caches":  # an ARM whose library cannot tell its caches
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="arm64"))
    else:
        system.sys_icache_invalidate = lambda *_: None
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: system)
    monkeypatch.setattr(
        exec_memory,
        "_mmap",
        lambda: (lambda *_: ctypes.c_void_p(-1).value) if refused == "mmap" else mmap_,
    )
    with pytest.raises(OSError, match="memory that may be executed is forbidden here"):
        exec_memory.mapped(b"code")
