"""Makes random graphs and calls them by both backends, in a process that may be killed. See
`worker` for the protocol.

Each job is {"seed": text}. The answer's "outcome" is "ran" (in every call both gave the same
results, or the same error) or what went wrong; beside it is the number of calls, of those that were
refused, and of those that a plan with kernels answered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import uncork
from tests.fuzz.graphs import Array, Case, case
from tests.fuzz.worker import serve
from uncork.compiler.execute import Executor

BACKENDS = ("reference", "cpu")


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Call the graph of the seed by both backends; all calls must agree."""
    made = case(job["seed"])
    text = described(made)
    try:
        compiled = [
            uncork.compile_model(made.model, backend=backend, threads=1) for backend in BACKENDS
        ]  # type: ignore[arg-type]
    except uncork.UncorkError as error:
        return {"outcome": "not compiled", "detail": str(error)[:300], "traceback": text}
    refused = 0
    answered = Answered(compiled[1])
    for number, inputs in enumerate(made.calls):
        slow, fast = (_answer(each, inputs) for each in compiled)
        if isinstance(slow, str) and number == 0:
            return {"outcome": "bad graph", "detail": slow[:300], "traceback": text}
        refused += isinstance(slow, str)
        found = difference(slow, fast)
        if found:
            return {
                "outcome": "differs",
                "detail": f"call {number}: {found}",
                "traceback": text,
            }
    return {
        "outcome": "ran",
        "detail": "",
        "calls": len(made.calls),
        "refused": refused,
        "planned": len(made.calls) - answered.not_planned,
    }


class Answered:
    """Counts the calls that the plans of a model left to references, for which the comparison says
    nothing of kernels.
    """

    def __init__(self, compiled: uncork.CompiledModel) -> None:
        self.not_planned = 0
        stateful = compiled.executor.stateful
        executor = compiled.executor if stateful is None else stateful.executor
        assert isinstance(executor, Executor)
        plans = executor.plans
        assert plans is not None
        make = plans.make

        def counted(inputs: Any) -> list[Array]:
            self.not_planned += 1
            results = make(inputs)
            self.not_planned -= 1
            return results

        plans.make = counted  # type: ignore[method-assign]


def _answer(compiled: uncork.CompiledModel, inputs: list[Array]) -> list[Array] | str:
    try:
        return list(compiled(*inputs))
    except uncork.UncorkError as error:
        return f"{type(error).__name__}: {error}"


def difference(slow: list[Array] | str, fast: list[Array] | str) -> str:
    """What differs; empty when nothing does."""
    if isinstance(slow, str) or isinstance(fast, str):
        return (
            ""
            if isinstance(slow, str) and slow == fast
            else f"reference {_shown(slow)}; cpu {_shown(fast)}"
        )
    for number, (a, b) in enumerate(zip(slow, fast, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape or not _close(a, b):
            return f"result {number}: reference {_shown(a)}; cpu {_shown(b)}"
    return ""


def _close(a: Array, b: Array) -> bool:
    """The same, as far as the order of a sum may tell."""
    if a.dtype.kind != "f":
        return bool((a == b).all())
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=1))
    return bool(np.allclose(a, b, rtol=1e-4, atol=1e-5 * scale, equal_nan=True))


def _shown(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return f"{result.dtype}{list(result.shape)} {result.reshape(-1)[:8]}"
    return str(result)[:250] if isinstance(result, str) else "runs"


def described(made: Case) -> str:
    """The graph and its calls, for whoever looks at a finding."""
    lines = [
        f"{node.id}: {node.type_name}({', '.join(f'{s.node}.{s.output}' for s in node.inputs)}) "
        f"{dict(node.attributes)} "
        f"-> {' '.join(str(port.spec) for port in node.outputs)}"
        + (
            f" = {node.outputs[0].spec.value.tolist()}"
            if node.type_name == "Const" and node.outputs[0].spec.value is not None
            else ""
        )
        for node in made.model.nodes
    ]
    for number, inputs in enumerate(made.calls):
        lines.append(
            f"call {number}: "
            f"{[f'{a.dtype}{list(a.shape)} {a.reshape(-1)[:8].tolist()}' for a in inputs]}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    serve(attempt)
