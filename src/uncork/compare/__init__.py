"""`compare`: a model against another system, layer by layer; the first layer whose result differs.

from uncork.compare import compare
found = compare("model.xml", "openvino", {"ids": ids})
print(found.first)          # the first layer that differs by more than rounding, or None

`peers/` opens the other side, `tensors` finds out which of its tensors is which, `walk` compares,
`rounding` says what may differ, `difference` how far two arrays lie apart; `report` and `html` show
it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace as with_fields

from uncork.compare.difference import DIFFERS, UNDEFINED, Difference, difference
from uncork.compare.peers.base import GivenInput
from uncork.compare.peers.process import Failed, PeerProcess
from uncork.compare.peers.saved import SavedPeer
from uncork.compare.rounding import of_all, rows_of_stored, step
from uncork.compare.walk import Bad, LayerReport, Peer, Walk
from uncork.compiler.arguments import carriers, match, shown, unique_names
from uncork.compiler.compile import compiled_with, precision_here
from uncork.compiler.options import BackendOptions, Options, asked, taking
from uncork.errors import InputError
from uncork.ir.model import Model, Source
from uncork.ir.validate import infer
from uncork.reading import read_structure
from uncork.types import Array

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What a model can be compared with, as it is written on the command line.
AGAINST = "openvino, reference, onnxruntime:FILE.onnx, torch:FILE.pt2, OTHER.xml or SAVED.npz"


@dataclass(frozen=True)
class OutputReport:
    """A result of the whole model, as both sides run it when nobody looks inside."""

    name: str
    verdict: str
    reason: str = ""
    difference: Difference | None = None


@dataclass
class Comparison:
    """The result of a comparison. `layers` are in the order in which they run."""

    model: Model
    against: str
    layers: list[LayerReport] = field(default_factory=list)
    outputs: list[OutputReport] = field(default_factory=list)
    bad: Bad | None = None
    #: Why the results of the whole models were not compared.
    outputs_note: str = ""

    @property
    def first(self) -> LayerReport | None:
        """The first layer that differs by more than rounding, or that the other side could not
        run.
        """
        return next((layer for layer in self.layers if layer.is_bad), None)

    @property
    def is_same(self) -> bool:
        """Whether nothing differs by more than rounding, and something was compared."""
        compared = any(layer.difference is not None for layer in self.layers) or any(
            out.difference is not None for out in self.outputs
        )
        return (
            compared and self.first is None and all(out.verdict != DIFFERS for out in self.outputs)
        )


@taking(BackendOptions)
def compare(
    model: str | os.PathLike[str],
    against: str,
    inputs: Any,
    *,
    weights: str | os.PathLike[str] | None = None,
    saved: Mapping[str, Array] | None = None,
    opened: Model | None = None,
    trust: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[BackendOptions],
) -> Comparison:
    """Compare every layer of a model with another system on the same inputs.

    `against` is "openvino", "reference", "onnxruntime:FILE.onnx", "torch:FILE.pt2" or the path of
    another .xml; with `saved`, arrays by the names of tensors or layers, it is what they are
    called. `inputs` are as a call of the model takes them. `opened` is the model, where it is read
    already; `weights` is its weights file when it is not the .bin beside it. A "torch:FILE.pt2" is
    opened only with `trust`: PyTorch runs what such a file says, pickles included. `progress` is
    called with the layers that are done and all layers.

    `backend`, `precision`, `decompression` and `activations` are what runs our side, as for
    `uncork.load`: what rounding factors to bf16 explains is no difference then. What products by
    stored weights round shows in the results of the whole model, for a layer by itself multiplies
    numbers: with `activations` other than "f32" these may lie further apart.

    A layer that uncork lacks takes the other side's values. Raises UncorkError when a side cannot
    be opened.
    """
    wanted = asked(compare, options)
    precision = precision_here(wanted.precision, wanted.backend)
    wanted = with_fields(wanted, precision=precision, ids="as-written")
    opened = opened or open_model(model, weights)
    arrays = _arrays(opened, inputs)
    peer = open_peer(
        opened,
        os.fspath(model),
        against,
        arrays,
        None if weights is None else os.fspath(weights),
        saved,
        trust,
    )
    try:
        walk = Walk(opened, arrays, peer, wanted)
        result = Comparison(opened, peer.name)
        if not walk.matches:
            result.outputs_note = "no layer has a counterpart by its name or its place"
        result.layers = list(walk.reports(progress))
        result.bad = walk.first_bad
        _compare_outputs(result, opened, arrays, peer, wanted)
        return result
    finally:
        peer.close()


def open_model(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None) -> Model:
    """The model of a file, which may lack operations. Raises UncorkError for everything else that
    is wrong.
    """
    model, diagnostics = read_structure(path, weights)
    model, problems = infer(model)
    diagnostics.extend(problems)
    if diagnostics.problems:
        diagnostics.raise_if_any(str(path))
    return model


def _arrays(model: Model, inputs: Any) -> list[Array]:
    given: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    return carriers(model.inputs, match(model.inputs, given, {}))


def open_peer(
    model: Model,
    path: str,
    against: str,
    arrays: Sequence[Array],
    weights: str | None,
    saved: Mapping[str, Array] | None,
    trust: bool,
) -> Peer:
    """The peer that `against` names. Raises InputError for a word that names none, and for a file
    that may run code unless the caller has said to `trust` it.
    """
    if saved is not None:
        return SavedPeer(saved, against)
    kind, _, file = against.partition(":")
    if against.endswith(".xml"):
        kind, file, weights = "uncork", against, None
    elif kind in ("openvino", "reference") and not file:
        file = path
    elif kind not in ("onnxruntime", "torch") or not file:
        raise InputError(f"expected {AGAINST}, got '{against}'", "against")
    InputError.when(
        kind == "torch" and not trust and os.path.exists(file),
        "may run code as PyTorch opens it, since it holds pickles: give --trust (trust=True) "
        "where you know who has made it",
        file,
    )
    nodes = [model.by_id[parameter] for parameter in model.parameters]
    inputs = [
        GivenInput(
            node.name,
            (*node.outputs[0].names, *model.names_of_input(i)),
            node.outputs[0].spec.element_type.name,
            array,
        )
        for i, (node, array) in enumerate(zip(nodes, arrays, strict=True))
    ]
    return PeerProcess(kind, file, inputs, weights, against if kind == "uncork" else kind)


def _compare_outputs(
    found: Comparison, model: Model, arrays: Sequence[Array], peer: Peer, options: Options
) -> None:
    """The results of the whole models: fused layers and added-up rounding show only there."""
    if any(node.operation is None for node in model.nodes):
        found.outputs_note = (
            found.outputs_note
            or "results of the whole model are not compared: operations are missing here"
        )
        return
    theirs = peer.outputs()
    if isinstance(theirs, Failed):
        found.outputs_note = (
            f"results of the whole model are not compared: {peer.name}: {theirs.reason}"
        )
        return
    if not theirs:
        return
    names = unique_names(model.outputs)
    if len(theirs) != len(names):
        found.outputs_note = f"results are not compared: {len(names)} here, {len(theirs)} there"
        return
    compiled = compiled_with(model, options)
    ours = compiled(shown(compiled.inputs, arrays))
    read = ((node, [model.spec(source) for source in node.inputs]) for node in model.nodes)
    allowed = of_all(read, options.precision) + rows_of_stored(model, options.activations)
    undefined = {
        Source(layer.node.id, layer.output) for layer in found.layers if layer.verdict == UNDEFINED
    }
    for position, (name, port, mine, other) in enumerate(
        zip(names, model.outputs, ours, theirs, strict=True)
    ):
        rounding = allowed + 4 * step(port.element_type) if port.element_type.is_float else 0.0
        seen = difference(np.asarray(mine), np.asarray(other), rounding)
        if seen.verdict == DIFFERS and model.by_id[model.results[position]].inputs[0] in undefined:
            seen = replace(seen, verdict=UNDEFINED)
        found.outputs.append(OutputReport(name, seen.verdict, seen.reason, seen))
