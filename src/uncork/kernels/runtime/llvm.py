"""The use of LLVM: the CPU as it knows it, machine code, and objects that `elf_link` leaves to its
loader.

This is the only file that imports llvmlite; whoever finds all kernels on disk does not import it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import binding
from llvmlite.binding import ffi

from uncork.concurrency import ShortLock, held_at_forks
from uncork.kernels.runtime import processor

if TYPE_CHECKING:
    from uncork.kernels.runtime.target import Target

#: Passes over each function. Kernels are unrolled, put into vectors, and freed of what does not
#: change in a loop and of what is the same in a block by whoever writes them: what is left to do is
#: to keep variables in registers. That takes a thirtieth of the time of `-O1`, and the code is as
#: fast.
_PASSES = ("sroa",)
#: How much code generation does: instructions are not put in order a second time behind the choice
#: of registers, which takes a twentieth of the time and brings nothing that can be measured.
_LEVEL = 1
#: LLVM's option that leaves loop strength reduction out. It would look for the best way to write
#: the addresses in loops, for a quarter of all the time; kernels have written them already, and are
#: as fast without.
_AS_WRITTEN = "-disable-lsr"
#: What LLVM calls an architecture and a system. Objects are ELF for all of them: `elf_link` reads
#: them, and how functions are called is all that code knows of a system.
_TRIPLES = {
    ("x86_64", "posix"): "x86_64-unknown-linux-gnu",
    ("aarch64", "posix"): "aarch64-unknown-linux-gnu",
    ("x86_64", "windows"): "x86_64-pc-windows-msvc-elf",
    ("aarch64", "windows"): "aarch64-pc-windows-msvc-elf",
    ("wasm32", "posix"): "wasm32-unknown-unknown",
}
#: Code lives as long as its engine.
_engines: list[Any] = []
#: How many threads want addresses as they are written.
_writing = 0
_count = ShortLock()


class _OfThread(threading.local):
    """The target machines that a thread has made. Compiling a small kernel costs a third less with
    one that is used again.
    """

    def __init__(self) -> None:
        self.machines: dict[Target, Any] = {}


_of_thread = _OfThread()


def _wait_at_forks() -> None:
    """Have a fork wait until no thread is inside LLVM, which takes as long as one step of a
    compilation.

    (Where threads are in LLVM without this lock, they are `unforked`.)

    A child cannot use an LLVM that another thread has left half-way, so a new lock would not do.
    The lock is llvmlite's own: others that compile, such as Numba, hold it too.
    """
    lock = getattr(getattr(ffi.lib, "_lock", None), "_lock", None)
    if lock is not None:
        held_at_forks(lock)


_wait_at_forks()


def host() -> tuple[str, str]:
    """The CPU's name and features (`+this,-that`) in LLVM's words."""
    features = binding.get_host_cpu_features()
    text = features.flatten()
    if features.get("avx512f"):
        text += (
            ",-prefer-256-bit"  # full vectors: these kernels are wide enough to pay for the clock
        )
    return binding.get_host_cpu_name(), text


def load(arch: str | None = None) -> None:
    """Load the library and set it up for an architecture, or for this machine's, which two threads
    must not do at once.
    """
    if arch in (None, processor.machine()):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()


def compiled(text: str, target: Target) -> bytes:
    """The object file of LLVM assembly. Threads that compile at once do so side by side, each in a
    context of its own.
    """
    machines = _of_thread.machines
    machine = machines.get(target)
    if machine is None:
        machine = machines[target] = _target_machine(target)
    context = binding.create_context()
    try:
        module = binding.parse_assembly(text, context)
        try:
            return _object_of(module, machine)
        finally:
            module.close()
    finally:
        context.close()


def _object_of(module: Any, machine: Any) -> bytes:
    module.triple = machine.triple
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_unrolling = False  # kernels are unrolled by whoever writes them
    builder = binding.create_pass_builder(machine, options)
    functions = [function for function in module.functions if not function.is_declaration]
    _run("LLVMPY_RunNewFunctionPassManager", _passes(builder), builder, functions)
    with compiling():
        return _emitted(module, machine)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """A context in which code is generated without the pass of `_AS_WRITTEN`. Each compilation
    opens it; who has many opens it once around them.

    LLVM has the option once for the process. Others that compile beside this, such as Numba, have
    the pass again when the last thread is done.
    """
    global _writing
    with _count.held():
        _writing += 1
        if _writing == 1:
            binding.set_option("uncork", f"{_AS_WRITTEN}=true")
    try:
        yield
    finally:
        with _count.held():
            _writing -= 1
            if _writing == 0:
                binding.set_option("uncork", f"{_AS_WRITTEN}=false")


def _emitted(module: Any, machine: Any) -> bytes:
    emit = _unlocked("LLVMPY_TargetMachineEmitToMemory", 4)
    if emit is None:
        code: bytes = machine.emit_object(module)
        return code
    with ffi.OutputString() as error:
        memory = emit(machine, module, 1, error)
        if not memory:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(
            ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory)
        )
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def _passes(builder: Any) -> Any:
    """The passes over a function: `_PASSES`, or in a version of llvmlite without some of them those
    of `-O1`.
    """
    new = getattr(binding, "create_new_function_pass_manager", None)
    passes = None if new is None else new()
    for name in _PASSES:
        add = getattr(passes, f"add_{name}_pass", None)
        if add is None:
            return builder.getFunctionPassManager()
        add()
    return passes


def _run(name: str, passes: Any, builder: Any, units: Sequence[Any]) -> None:
    """Run passes on a module or on functions."""
    unlocked = _unlocked(name, 3)
    for unit in units:
        if unlocked is None:
            passes.run(unit, builder)
        else:
            unlocked(passes, unit, builder)


def _unlocked(name: str, arguments: int) -> Any:
    """A function of llvmlite's library without the lock that lets one thread at a time in; None
    where it is another one.

    LLVM asks for no lock between modules of different contexts. The lock protects what has none of
    its own.
    """
    function = getattr(getattr(ffi.lib, name, None), "_cfn", None)
    return function if function is not None and len(function.argtypes or ()) == arguments else None


def loaded(code: bytes, function: str, host: Target) -> int:
    """The address of a function of an object file for this machine, by LLVM's own loader.

    Raises RuntimeError when there is none.
    """
    machine = _target_machine(host)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(function)
    if not address:
        raise RuntimeError(f"the object has no function '{function}'")
    _engines.append(engine)
    return int(address)


def _target_machine(target: Target) -> Any:
    load(target.arch)
    triple = _TRIPLES.get((target.arch, target.system))
    found = binding.Target.from_triple(triple) if triple else binding.Target.from_default_triple()
    return found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=_LEVEL,
        reloc="static" if target.arch == "wasm32" else "pic",
        codemodel="small",
    )
