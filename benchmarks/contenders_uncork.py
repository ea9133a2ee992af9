"""This project's own contenders: the ordinary call, the compiled steps without the Python around them, and bound arrays.

The two cheaper ways are taken inside `CompiledModel`, for it has no public names for them yet. Kernels are the same in all
three, with all their checks of indices, offsets and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork import Model, compile_model
from uncork.compiler.compile import CompiledModel, Precision
from uncork.types import Array


def of_model(
    model: Model | str, sets: Sequence[Sequence[Array]], threads: int, precision: Precision = "f32", tolerance: float | None = None
) -> list[Contender]:
    """Contenders that run a model on sets of inputs."""
    return of_compiled(compile_model(model, threads=threads, precision=precision), sets, precision, tolerance)


def of_compiled(
    compiled: CompiledModel, sets: Sequence[Sequence[Array]], precision: Precision = "f32", tolerance: float | None = None
) -> list[Contender]:
    """Contenders of a model that is compiled already."""
    suffix = "" if precision == "f32" else f" {precision}"
    executor = compiled._executor
    contenders = [
        Contender("uncork call" + suffix, "uncork", "call", lambda i: compiled(*sets[i]), list, precision, tolerance),
        Contender("uncork direct" + suffix, "uncork", "direct", lambda i: executor.run(sets[i]), list, precision, tolerance),
    ]
    try:
        preset = _preset(compiled, sets)
    except (AttributeError, ImportError) as error:  # what is inside may change; what users call stays measured
        print(f"uncork preset is not measured: {error}", flush=True)
        preset = None
    if preset is not None:
        call, results = preset
        contenders.append(Contender("uncork preset" + suffix, "uncork", "preset", call, results, precision, tolerance))
    return contenders


def functional(call: Callable[[int], Any]) -> Contender:
    """The same work by a function of `uncork.functional`."""
    return Contender("uncork functional", "uncork", "other", call, lambda r: list(r) if isinstance(r, tuple) else [r])


def _preset(compiled: CompiledModel, sets: Sequence[Sequence[Array]]) -> tuple[Callable[[int], Any], Callable[[Any], list[Array]]] | None:
    """One native call on arrays that were bound before; None where references do part of the work, or results must be copied.

    None also where sets differ so much that each has a plan of its own: who makes ever new shapes cannot have bound them before.
    """
    from uncork.compiler.specialise import _Argument, _Instance
    from uncork.ir.model import Source
    from uncork.kernels.program import Program

    executor = compiled._executor
    if not executor.use_kernels:
        return None
    instances: dict[int, _Instance] = {}
    outputs: dict[tuple[int, ...], list[Array]] = {}
    bound: list[tuple[Callable[..., int], list[Array], list[Array]]] = []
    for arrays in sets:
        executor.run(arrays)
        used = next(reversed(executor._kept.values()))  # the one used last
        instance = instances.setdefault(id(used), _Instance(used))
        if len(instances) > 1:
            return None
        model = used.model
        sources: list[Source] = [model.by_id[r].inputs[0] for r in model.results]
        places = [used.places[source] for source in sources]
        direct = all(isinstance(p, _Argument) and p.number == used.input_count + n for n, p in enumerate(places))
        if len(instance.parts) != 1 or not isinstance(instance.parts[0], Program) or not direct:
            return None
        # One set of results per shape for all inputs, as a caller who reuses his arrays has it.
        shapes = tuple(hash((spec.shape.static, spec.element_type.name)) for spec in used.outputs)
        if shapes not in outputs:
            outputs[shapes] = [aligned(spec.shape.static, spec.element_type.dtype) for spec in used.outputs]
        bound.append((instance.parts[0].run, [*map(np.ascontiguousarray, arrays), *outputs[shapes]], outputs[shapes]))

    def call(i: int) -> list[Array]:
        run, arrays, results = bound[i]
        if run(*arrays) >= 0:
            raise ValueError("the kernel refused its values")
        return results

    # A program knows addresses only: what lies there lives as long as its instance.
    return call, lambda results: list(results) if instances else []
