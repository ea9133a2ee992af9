"""This project's own contenders, by its public face: the ordinary call, a function on arrays, and a
call on bound arrays.

Kernels are the same in all three, with all their checks of indices, offsets and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork import CompiledModel, Model, compile_model
from uncork.types import Array


def of_model(
    model: Model | str,
    sets: Sequence[Sequence[Array]],
    threads: int,
    precision: Any = "f32",
    tolerance: float | None = None,
) -> list[Contender]:
    """Contenders that run a model on sets of inputs."""
    return of_compiled(
        compile_model(model, threads=threads, precision=precision), sets, precision, tolerance
    )


def of_compiled(
    compiled: CompiledModel,
    sets: Sequence[Sequence[Array]],
    precision: Any = "f32",
    tolerance: float | None = None,
) -> list[Contender]:
    """Contenders of a model that is compiled already."""
    suffix = "" if precision == "f32" else f" {precision}"
    preset = _preset(compiled, sets)
    return [
        Contender(
            "uncork call" + suffix,
            "uncork",
            "call",
            lambda i: compiled(*sets[i]),
            list,
            precision,
            tolerance,
        ),
        Contender(
            "uncork preset" + suffix,
            "uncork",
            "preset",
            lambda i: preset[i](),
            list,
            precision,
            tolerance,
        ),
    ]


def functional(call: Callable[[int], Any]) -> Contender:
    """The same work by a function of `uncork.functional`, which takes its inputs as the functions
    of others do.
    """
    for _ in range(2):
        call(0)  # the first calls are by the reference
    return Contender(
        "uncork functional",
        "uncork",
        "direct",
        call,
        lambda r: list(r) if isinstance(r, tuple) else [r],
    )


def _preset(compiled: CompiledModel, sets: Sequence[Sequence[Array]]) -> list[Callable[[], Any]]:
    """A bound call for each set. As a caller has it who reuses his arrays, there is one set of
    results for each shape.
    """
    outputs: dict[tuple[Any, ...], list[Array]] = {}
    calls: list[Callable[[], Any]] = []
    for arrays in sets:
        results = list(compiled(*arrays))
        shapes = tuple((array.shape, array.dtype) for array in results)
        if shapes not in outputs:
            outputs[shapes] = [aligned(array.shape, array.dtype) for array in results]
        calls.append(compiled.bind(*arrays, outputs=outputs[shapes]))
    return calls
