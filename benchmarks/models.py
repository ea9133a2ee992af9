"""`python -m benchmarks models`: whole models, on recorded inputs and on batches cut from them.

A folder holds model.xml and model.bin, `inputs.npz` (run<k>/<input>) and `outputs.npz`
(run<k>/<output>), the results of another system. Examples of this repository come with inputs only;
there the references say what is right.

Inputs of models with bags differ in size from call to call, as they do in use: there are more of
them than an executor keeps plans for, so nobody answers from a plan that was made for exactly this
call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contenders_openvino, contenders_uncork
from benchmarks.cases import Case, Prepared
from benchmarks.ops import run_cases
from benchmarks.options import Options
from benchmarks.timing import Expected
from uncork import load
from uncork.types import Array

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BATCHES = (1, 64)
_SETS_OF_BAGS, _SETS = 256, 16
#: Of the largest number in a result: models add up rounding over their layers.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Layout:
    """How a batch lies in the inputs of a model: what is not named has one row for each of the
    batch.

    `bags` are (indices, offsets) by position, `segments` (indices, the row that each belongs to).
    """

    bags: tuple[tuple[int, int], ...] = ()
    segments: tuple[tuple[int, int], ...] = ()


#: Models that stand for more than the operations of this project; they are shown, apart from those
#: with a goal.
_BEYOND = ("sasrec_ml100k_topk", "magika")
_DLRM = Layout(bags=tuple((7 + k, 1 + k) for k in range(6)))
LAYOUTS = {
    "textclass_embeddingbag_sum": Layout(bags=((0, 1),)),
    "dlrm_ml100k": _DLRM,
    "dlrm_ml100k_opset3": _DLRM,
    "gru4rec_ml100k": Layout(),
    "g2p_en_encoder": Layout(),
    "sasrec_ml100k_topk": Layout(),
    "magika": Layout(),
    "word_language": Layout(bags=((2, 3),), segments=((4, 5),)),
}


@dataclass(frozen=True)
class Recorded:
    """One call that was recorded."""

    inputs: list[Array]
    outputs: list[Array]


def cut(inputs: Sequence[Array], layout: Layout, rows: Array) -> list[Array]:
    """The inputs of some rows of a batch, in this order."""
    result: list[Array | None] = [None] * len(inputs)
    for values, offsets in layout.bags:
        ends = np.append(inputs[offsets][1:], len(inputs[values]))
        parts = [inputs[values][inputs[offsets][row] : ends[row]] for row in rows]
        result[values] = np.concatenate(parts)
        sizes = np.array([len(part) for part in parts])
        result[offsets] = (np.cumsum(sizes) - sizes).astype(inputs[offsets].dtype)
    for values, numbers in layout.segments:
        parts = [inputs[values][inputs[numbers] == row] for row in rows]
        result[values] = np.concatenate(parts)
        result[numbers] = np.repeat(np.arange(len(rows)), [len(part) for part in parts]).astype(
            inputs[numbers].dtype
        )
    return [
        np.ascontiguousarray(given[rows]) if made is None else made
        for given, made in zip(inputs, result, strict=True)
    ]


def batch_of(recorded: Recorded, layout: Layout) -> int:
    """The rows of a recorded call."""
    if layout.bags:
        return len(recorded.inputs[layout.bags[0][1]])
    return len(recorded.inputs[0])


def filled(recorded: Recorded, layout: Layout) -> Array:
    """The rows that have something in every bag: OpenVINO gives wrong results for an empty last
    bag.
    """
    rows = np.ones(batch_of(recorded, layout), bool)
    for values, offsets in layout.bags:
        rows &= np.diff(np.append(recorded.inputs[offsets], len(recorded.inputs[values]))) > 0
    return np.flatnonzero(rows)


def cases(models: Path) -> Iterator[Case]:
    """Every model that is there, in batches where its layout is known, else as its inputs were
    recorded.
    """
    for path in sorted(models.glob("*/model.xml")) if models.is_dir() else ():
        name = path.parent.name
        if not (path.parent / "inputs.npz").exists():
            continue
        if name in LAYOUTS:
            yield from _batches(name, path)
            continue
        for number, shapes in enumerate(_alike(recorded_calls(path.parent))):
            yield Case(
                "models, as recorded",
                f"{name}, inputs {number}",
                partial(prepare_recorded, path, shapes),
                quick=number == 0,
            )
    for path in sorted(EXAMPLES.glob("*/model.xml")):
        if path.parent.name in LAYOUTS:
            yield from _batches(path.parent.name, path)


def _batches(name: str, path: Path) -> Iterator[Case]:
    for batch in BATCHES:
        group = f"{'other ' * (name in _BEYOND)}models, batch {batch}"
        yield Case(group, name, partial(prepare_batch, path, LAYOUTS[name], batch), quick=True)


def recorded_calls(folder: Path) -> list[Recorded]:
    """All recorded calls, in order."""
    found: list[Recorded] = []
    with np.load(folder / "inputs.npz") as inputs, np.load(folder / "outputs.npz") as outputs:

        def run(stored: Any, number: int) -> list[Array]:
            return [
                stored[f"run{number}/{i}"]
                for i in range(sum(key.startswith(f"run{number}/") for key in stored.files))
            ]

        while f"run{len(found)}/0" in inputs.files:
            found.append(Recorded(run(inputs, len(found)), run(outputs, len(found))))
    return found


def _alike(calls: Sequence[Recorded]) -> list[list[int]]:
    """The numbers of calls whose inputs have the same shapes, together."""
    groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for number, call in enumerate(calls):
        groups.setdefault(tuple(a.shape for a in call.inputs), []).append(number)
    return list(groups.values())


def example_call(path: Path) -> Recorded:
    """An example's inputs, and its results by the references."""
    compiled = load(path, backend="reference")
    with np.load(next(path.parent.glob("*.npz"))) as stored:
        inputs = [
            stored[next(name for name in port.names if name in stored.files)]
            for port in compiled.inputs
        ]
    return Recorded(inputs, list(compiled(*inputs)))


def prepare_batch(path: Path, layout: Layout, batch: int, options: Options) -> Prepared:
    """Batches of rows drawn from the largest recorded call. The rows of these models do not touch
    each other.
    """
    calls = (
        recorded_calls(path.parent)
        if (path.parent / "inputs.npz").exists()
        else [example_call(path)]
    )
    recorded = max(calls, key=lambda call: batch_of(call, layout))
    rows, whole = filled(recorded, layout), batch_of(recorded, layout)
    generator = np.random.default_rng(batch)
    count = _SETS_OF_BAGS if layout.bags else _SETS
    # The last row has something in every bag; the others are drawn from all.
    picks = [
        np.append(generator.integers(0, whole, batch - 1), generator.choice(rows))
        for _ in range(count)
    ]
    inputs = [cut(recorded.inputs, layout, pick) for pick in picks]
    outputs = [[_rows_of(output, whole, pick) for output in recorded.outputs] for pick in picks]
    return _prepare(path, inputs, outputs, options, {"batch": batch})


def _rows_of(output: Array, whole: int, rows: Array) -> Array:
    axis = output.shape.index(whole)
    return np.take(output, rows, axis)


def prepare_recorded(path: Path, numbers: Sequence[int], options: Options) -> Prepared:
    """Recorded calls with inputs of the same shapes."""
    calls = [recorded_calls(path.parent)[number] for number in numbers]
    return _prepare(
        path,
        [c.inputs for c in calls],
        [c.outputs for c in calls],
        options,
        {"recorded": list(numbers)},
    )


def _prepare(
    path: Path,
    inputs: list[list[Array]],
    outputs: list[list[Array]],
    options: Options,
    about: dict[str, Any],
) -> Prepared:
    prepared = Prepared(
        sets=len(inputs),
        expect=lambda i: [
            Expected(output, max(1.0, float(np.abs(output).max(initial=0.0))))
            for output in outputs[i]
        ],
        tolerance=_TOLERANCE,
        about=about | {"inputs": [[a.dtype.name, list(a.shape)] for a in inputs[0]]},
    )
    prepared.add("uncork", lambda: contenders_uncork.of_model(str(path), inputs, options.threads))
    openvino = options.peers.get("openvino")
    if openvino:
        prepared.add(
            "openvino",
            lambda: contenders_openvino.of_model(
                openvino, openvino.Core().read_model(path), inputs, options.threads
            ),
        )
        shapes = [
            [
                sizes[0] if len(set(sizes)) == 1 else -1
                for sizes in zip(*(arrays[n].shape for arrays in inputs), strict=True)
            ]
            for n in range(len(inputs[0]))
        ]

        def fixed() -> list[Any]:
            """With every dimension fixed that all calls share: faster, and some models are right
            only so.
            """
            model = openvino.Core().read_model(path)
            model.reshape(dict(enumerate(shapes)))
            return contenders_openvino.of_model(
                openvino, model, inputs, options.threads, name="openvino fixed"
            )

        prepared.add("openvino fixed", fixed)
    return prepared


def main(options: Options) -> int:
    """All models that are there."""
    if not options.models.is_dir():
        print(f"no folder {options.models}: only the examples are measured")
    return run_cases("models", cases(options.models), options)
