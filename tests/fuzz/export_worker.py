"""Exports random graphs to ONNX and torch and calls them beside the references, in a process that
may be killed. See `worker` for the protocol.

Each job is {"seed": text}. The answer's "outcome" is "ran" or what went wrong: an export that ends
in another exception than a refusal, a file that onnxruntime does not load, or an answer that is not
the reference's. What an export refuses, and what onnxruntime and torch refuse to compute, is
counted; so is what they answer where the IR refuses a call.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import uncork
from tests.fuzz.graph_worker import described, difference
from tests.fuzz.graphs import Array, Case, case
from tests.fuzz.worker import serve

#: What inputs of any numbers are given besides.
SPECIAL = (np.inf, -np.inf, np.nan, 1e12, -1e12, -0.0, 89.0, -104.0, 1e-40)
#: What is added to ids: they are then outside, whatever their low 32 bits say.
FAR = (2**32, -(2**32), 2**40, 2**31, 2**63 - 8)
#: Of huge angles the last digit decides.
_ANGLES = frozenset({"Cos", "Sin", "Tan"})
#: Layers of which a system makes something else of NaN, infinities and huge numbers, as
#: docs/export.md says: those calls are not compared.
_TAME_ONLY = {
    "onnx": _ANGLES
    | {
        *("Interpolate", "MaxPool", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"),
        *("ScatterElementsUpdate", "ScatterNDUpdate", "SegmentMax", "TopK", "Unique"),
    },
    "torch": _ANGLES | {"Gelu", "GroupNormalization", "ScaledDotProductAttention"},
}
#: Of rows and widths of 0 onnxruntime's GRU ends the process.
_ENDS = frozenset({"GRUSequence"})
#: Without a turn, onnxruntime knows no size of a result that the parts would have told.
_LOOPS = frozenset({"Loop", "TensorIterator"})
#: What torch raises where it refuses what it is given.
_REFUSALS = ("RuntimeError", "IndexError", "ValueError")
Called = Callable[[list[Array]], list[Array]]


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Export the graph of the seed, and call what came of it; all answers must agree."""
    warnings.simplefilter("ignore")  # of torch and onnxruntime
    made = case(job["seed"])
    calls = [*made.calls, *_special(made, random.Random(job["seed"]))]
    compiled = uncork.compile_model(made.model, backend="reference")
    counts: Counter[str] = Counter()
    refusals: list[str] = []
    targets: dict[str, Called] = {}
    types = {node.type_name for node in made.model.nodes}
    for name, export in (("onnx", _onnx), ("torch", _torch)):
        if name == "onnx" and types & _ENDS:
            continue
        try:
            targets[name] = export(made.model)
        except uncork.UncorkError as error:
            counts[f"{name} not exported"] += 1
            refusals.append(f"{name}: {error}"[:200])
    found = ""
    for number, inputs in enumerate(calls):
        with np.errstate(all="ignore"):
            wanted = _answer(lambda given: list(compiled(*given)), inputs)
        for name, target in targets.items():
            answer = _answer(target, inputs)
            counts[f"{name} calls"] += 1
            if isinstance(answer, str) and answer.split(":")[0] not in _KINDS[name]:
                found = f"call {number}: {name}: {answer}"
            elif isinstance(answer, str):
                counts[f"{name} refused"] += 1
                if not isinstance(wanted, str):
                    counts[f"{name} refused alone"] += 1
                    refusals.append(f"{name}: {answer}"[:200])
            elif isinstance(wanted, str):
                counts[f"{name} answered alone"] += 1
            elif not (types & _TAME_ONLY[name] and _is_wild(inputs, wanted)):
                if name == "onnx" and types & _LOOPS and not all(a.size for a in inputs + wanted):
                    continue
                differs = difference(wanted, answer).replace("cpu", name)
                found = f"call {number}: {differs}" if differs else ""
            if found:
                text = described(Case(made.model, calls))
                return {"outcome": "differs", "detail": found, "traceback": text}
    return {"outcome": "ran", "detail": "", "counts": counts, "refusals": refusals}


def _onnx(model: uncork.Model) -> Called:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    text = uncork.to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    return lambda given: [
        np.asarray(a) for a in session.run(None, dict(zip(names, given, strict=True)))
    ]


def _torch(model: uncork.Model) -> Called:
    import torch

    torch.set_num_threads(1)
    module = uncork.to_torch(model)

    def call(given: list[Array]) -> list[Array]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(array.copy()) for array in given))
        return [a.detach().numpy() for a in (found if isinstance(found, tuple) else (found,))]

    return call


#: What each raises where it refuses what it is given.
_KINDS = {
    "onnx": ("InvalidArgument", "Fail", "RuntimeException", "NotImplemented", "InvalidGraph"),
    "torch": _REFUSALS,
}


def _answer(target: Called, inputs: list[Array]) -> list[Array] | str:
    try:
        return target(inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _special(made: Case, generator: random.Random) -> list[list[Array]]:
    """Calls like the first two, with a few numbers that are seldom right."""
    return [
        [
            _with_special(array, made.model.name_of_input(i).startswith("sizes"), generator)
            for i, array in enumerate(inputs)
        ]
        for inputs in (made.calls[0], made.calls[0], made.calls[1])
    ]


def _with_special(array: Array, is_size: bool, generator: random.Random) -> Array:
    if is_size or not array.size or generator.random() < 0.3:
        return array
    changed = array.copy()
    place = generator.randrange(array.size)
    if array.dtype == np.float32:
        changed.flat[place] = generator.choice(SPECIAL)
    elif array.dtype == np.int64 and generator.random() < 0.5:
        changed.flat[place] = generator.choice(FAR) + (changed.flat[place] & 7)
    return changed


def _is_wild(inputs: list[Array], wanted: list[Array]) -> bool:
    """Whether some number of a call is huge, infinite or none."""
    return any(
        not (np.abs(a.astype(float)) < (80 if a.dtype.kind == "f" else 2**52)).all()
        for a in (*inputs, *wanted)
    )


if __name__ == "__main__":
    serve(attempt)
