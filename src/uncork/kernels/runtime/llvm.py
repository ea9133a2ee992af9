"""What LLVM is asked for: the CPU as it knows it, machine code, and loading an object that `link` leaves to it.

This is the only file besides `emit` that imports llvmlite; whoever finds all kernels on disk imports neither.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding

from uncork.kernels.runtime.exec_memory import can_map

#: Code lives as long as its engine.
_engines: list[Any] = []


def host() -> tuple[str, str]:
    """The CPU's name and features (`+this,-that`) in LLVM's words."""
    features = binding.get_host_cpu_features()
    text = features.flatten()
    if features.get("avx512f"):
        text += ",-prefer-256-bit"  # full vectors: these kernels are wide enough to pay for the clock
    return binding.get_host_cpu_name(), text


def compiled(text: str, cpu: str, features: str) -> bytes:
    """The object file of LLVM assembly."""
    machine = _target_machine(cpu, features)
    module = binding.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False  # kernels are unrolled by whoever writes them
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


def loaded(code: bytes, function: str) -> int:
    """The address of a function of an object file, by LLVM's own loader. Raises RuntimeError when there is none."""
    target = _target_machine(*host())
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address = engine.get_function_address(function)
    if not address:
        raise RuntimeError(f"the object has no function '{function}'")
    _engines.append(engine)
    return int(address)


def _target_machine(cpu: str, features: str) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    if can_map():  # one piece of code that finds its constants by their distance
        return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small")
    return target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault")
