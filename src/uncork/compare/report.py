"""A comparison as text, as JSON and as files: the table, the first divergence, the layer by
itself.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from uncork.compare import Comparison
from uncork.compare.difference import BORDERS, DIFFERS, ROUNDING, UNDEFINED, Difference
from uncork.compare.walk import LayerReport
from uncork.compiler.arguments import present, unique_names
from uncork.compiler.single_layer import alone
from uncork.errors import UncorkError, shortened
from uncork.ir.replacement import Replacement
from uncork.ir.write import write_model
from uncork.storage import write_archive
from uncork.types import PartialShape, TensorSpec

HEADING = ("#", "layer", "type", "tensor", "max abs", "max rel", "ulp", "where", "verdict")
#: The files of `extract`, with how each begins.
EXTRACTED = {"layer.xml": b"<?xml", "layer.bin": b"", "inputs.npz": b"PK", "expected.npz": b"PK"}


def row(layer: LayerReport) -> list[str]:
    """A layer as a row under HEADING."""
    name = layer.node.name if len(layer.node.outputs) == 1 else f"{layer.node.name}:{layer.output}"
    numbers = figures(layer.difference)
    verdict = layer.verdict + (f": {layer.reason}" if layer.reason else "")
    return [
        str(layer.number),
        shortened(name, 60),
        layer.node.type_name,
        layer.tensor,
        *numbers,
        verdict,
    ]


def figures(found: Difference | None) -> list[str]:
    """Largest absolute and relative difference, ulp and place, as text."""
    if found is None or not found.where:
        return ["", "", "", ""]
    place = f"[{','.join(map(str, found.where))}] {_short(found.ours)} | {_short(found.theirs)}"
    return [
        f"{found.largest:.3g}",
        f"{found.relative:.3g}",
        f"{found.ulp:,}" if found.ulp else "",
        place,
    ]


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def shown(found: Comparison, everything: bool, most: int = 10) -> list[LayerReport]:
    """The layers that a reader wants to see: all that are bad or undefined, and those that round
    most.
    """
    if everything:
        return found.layers
    bad = [layer for layer in found.layers if layer.is_bad or layer.verdict == UNDEFINED]
    rounded = [
        layer
        for layer in found.layers
        if layer.verdict == "rounding" and layer.difference is not None
    ]
    rounded.sort(key=lambda layer: -(layer.difference.relative if layer.difference else 0.0))
    kept = {id(layer) for layer in [*bad[: 4 * most], *rounded[:most]]}
    return [layer for layer in found.layers if id(layer) in kept]


def conclusion(found: Comparison) -> str:
    """The conclusion of a comparison, in a line or two."""
    first = found.first
    compared = sum(layer.difference is not None for layer in found.layers)
    if first is not None:
        what = first.reason or "another value"
        return f"the first layer that differs is {first.node.label}, output {first.output}: {what}"
    wrong = [output.name for output in found.outputs if output.verdict == DIFFERS]
    if wrong:
        named = ", ".join(f"'{name}'" for name in wrong)
        return (
            f"no layer differs by itself, but {named} of the whole model: it comes of layers "
            "that run as one, or adds up"
        )
    if not compared and not found.outputs:
        return f"nothing was compared: {found.outputs_note or 'no tensor is on both sides'}"
    verdicts = {layer.verdict for layer in found.layers} | {
        output.verdict for output in found.outputs
    }
    if UNDEFINED in verdicts:
        return (
            "the same, but for rounding and for numbers that a type lacks, of which none is right"
        )
    return "the same, but for rounding" if ROUNDING in verdicts else "the same, bit for bit"


def counts(found: Comparison) -> dict[str, int]:
    """How many tensors there are of each verdict."""
    counted = Counter(layer.verdict for layer in found.layers)
    return {
        verdict: counted[verdict]
        for verdict in ("same", "rounding", UNDEFINED, DIFFERS, "failed", "unmatched")
    }


def as_json(found: Comparison) -> dict[str, Any]:
    """The whole comparison as JSON holds it."""
    return {
        "schema": "uncork-compare-1",
        "model": found.model.source,
        "against": found.against,
        "same": found.is_same,
        "conclusion": conclusion(found),
        "counts": counts(found),
        "first": None if found.first is None else _layer(found.first),
        "outputs": [
            {"name": o.name, "verdict": o.verdict, "reason": o.reason, **_figures(o.difference)}
            for o in found.outputs
        ],
        "note": found.outputs_note,
        "layers": [_layer(layer) for layer in found.layers],
        "histogram_borders": list(BORDERS),
    }


def _layer(layer: LayerReport) -> dict[str, Any]:
    return {
        "number": layer.number,
        "layer": layer.node.name,
        "id": layer.node.id,
        "type": layer.node.type_name,
        "output": layer.output,
        "tensor": layer.tensor,
        "verdict": layer.verdict,
        "reason": layer.reason,
        **_figures(layer.difference),
    }


def _figures(found: Difference | None) -> dict[str, Any]:
    if found is None:
        return {
            "max_abs": None,
            "max_rel": None,
            "ulp": None,
            "where": None,
            "ours": None,
            "theirs": None,
            "histogram": None,
        }
    return {
        "max_abs": found.largest,
        "max_rel": found.relative,
        "ulp": found.ulp,
        "where": list(found.where),
        "ours": _plain(found.ours),
        "theirs": _plain(found.theirs),
        "histogram": list(found.histogram),
    }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def extract(found: Comparison, folder: Path) -> None:
    """Write the first bad layer as a model, with its inputs and what the other side made of them.
    Raises UncorkError.
    """
    bad = found.bad
    assert bad is not None, "there is a bad layer"
    if bad.node.operation is None:
        raise UncorkError("cannot be extracted: there is no such operation here", bad.node.label)
    known = {
        s: TensorSpec(found.model.spec(s).element_type, PartialShape(v.shape))
        for s, v in bad.inputs.items()
    }
    single, sources = alone(found.model, bad.node, known)
    names = unique_names(single.inputs)
    inputs = {
        name: present(port.element_type, bad.inputs[s])
        for name, port, s in zip(names, single.inputs, sources, strict=True)
    }
    results = unique_names(single.outputs)
    expected = {
        results[i]: present(single.outputs[i].element_type, value)
        for i, value in bad.expected.items()
    }
    try:
        folder.mkdir(exist_ok=True)
        write_model(single, folder / "layer.xml")
        with Replacement() as new:
            for name, arrays in (("inputs.npz", inputs), ("expected.npz", expected)):
                with new.open(folder / name) as file:
                    write_archive(file, arrays)
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", str(folder)) from None
