"""What a peer says of its model, and which of its tensors is which of ours: by names, then by
structure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.compare.pairs import consistent
from uncork.ir.model import Model, Node, Source


@dataclass(frozen=True)
class PeerTensor:
    """A tensor of the peer's model: how the peer calls it, its layer and that layer's type, and
    what the layer reads.
    """

    key: str
    layer: str
    type_name: str
    output: int
    names: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    #: None where it is not known, and for a dimension that is not.
    shape: tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class PeerModel:
    """All tensors of a peer in an order in which each comes after what it reads, and how its inputs
    are called, in order.

    `numbered`: names count the operations of one graph (mul, mul_1), so that in another graph of
    the same model the same name may be another tensor. A pair of names must then also fit in shape
    and ancestors.
    """

    tensors: tuple[PeerTensor, ...]
    inputs: tuple[str, ...]
    numbered: bool = False


def matched(model: Model, peer: PeerModel) -> dict[Source, str]:
    """The peer's key of each tensor of ours that it has."""
    result = _by_layer(model, peer)
    by_name = _by_name(model, peer)
    if peer.numbered:
        by_position = zip((Source(p, 0) for p in model.parameters), peer.inputs, strict=True)
        inputs, shapes = (
            {t.key: t.inputs for t in peer.tensors},
            {t.key: t.shape for t in peer.tensors},
        )
        by_name = consistent(model, {**dict(by_position), **by_name}, inputs, shapes)
    for source, key in by_name.items():
        result.setdefault(source, key)
    _by_structure(model, peer, result)
    return result


def _by_layer(model: Model, peer: PeerModel) -> dict[Source, str]:
    """The peer's keys of our tensors by the name and the type of the layer, where no other has the
    name.
    """
    single = {(t.layer, t.type_name.lower(), t.output): t.key for t in peer.tensors}
    ours: dict[str, int] = defaultdict(int)
    for node in model.nodes:
        ours[node.name] += 1
    result: dict[Source, str] = {}
    for node in model.nodes:
        if ours[node.name] > 1 or not _is_computed(node):
            continue
        for output in range(len(node.outputs)):
            key = single.get((node.name, node.type_name.lower(), output))
            if key is not None:
                result[Source(node.id, output)] = key
    return result


def _by_name(model: Model, peer: PeerModel) -> dict[Source, str]:
    """The peer's keys of our tensors by the names of tensors, where a name means one on each side.
    A layer's name is that of its output, as saved values have it.
    """
    theirs: dict[str, set[str]] = defaultdict(set)
    for tensor in peer.tensors:
        for name in tensor.names:
            theirs[name].add(tensor.key)
    result: dict[Source, str] = {}
    for node in model.nodes:
        if not _is_computed(node):
            continue
        for output, port in enumerate(node.outputs):
            own = (
                (node.name, f"{node.name}:0")
                if len(node.outputs) == 1
                else (f"{node.name}:{output}", f"{_converted(node)}:{output}")
            )
            keys = {key for name in (*port.names, *own) for key in theirs.get(name, ())}
            if len(keys) == 1:
                result[Source(node.id, output)] = keys.pop()
    return result


def _by_structure(model: Model, peer: PeerModel, found: dict[Source, str]) -> None:
    """Add to `found` the tensors that match by type and by matched inputs, in order: for models
    whose layers were named anew.
    """
    computed = {tensor.key for tensor in peer.tensors if tensor.inputs}
    taken = set(found.values())
    waiting: dict[tuple[str, tuple[str | None, ...], int], list[str]] = defaultdict(list)
    for tensor in peer.tensors:
        if tensor.key not in taken:
            known = tuple(
                key if key in computed or key in peer.inputs else None for key in tensor.inputs
            )
            waiting[tensor.type_name.lower(), known, tensor.output].append(tensor.key)
    for position, parameter in enumerate(model.parameters):
        if position < len(peer.inputs):
            found.setdefault(Source(parameter, 0), peer.inputs[position])
    for node in model.nodes:
        if not _is_computed(node) or node.type_name == "Result":
            continue
        read = tuple(
            found.get(source) if _is_computed(model.by_id[source.node]) else None
            for source in node.inputs
        )
        if not any(read):
            continue
        for output in range(len(node.outputs)):
            if Source(node.id, output) not in found:
                keys = waiting.get((node.type_name.lower(), read, output))
                if keys:
                    found[Source(node.id, output)] = keys.pop(0)


def _is_computed(node: Node) -> bool:
    return node.type_name != "Const"


def _converted(node: Node) -> str:
    """What a layer was converted from, in names that end in its type:
    "split/aten.split.Tensor/VariadicSplit".
    """
    return node.name.rpartition("/")[0]


def describe(model: Model) -> PeerModel:
    """A model of ours as a peer: keys are "id:output"."""

    def key(source: Source) -> str:
        return f"{source.node}:{source.output}"

    tensors: Sequence[PeerTensor] = [
        PeerTensor(
            key(Source(n.id, i)), n.name, n.type_name, i, port.names, tuple(map(key, n.inputs))
        )
        for n in model.nodes
        if n.type_name != "Result"
        for i, port in enumerate(n.outputs)
    ]
    return PeerModel(tuple(tensors), tuple(f"{parameter}:0" for parameter in model.parameters))


def source_of(key: str) -> Source:
    """The inverse of the keys of `describe`."""
    node, _, output = key.partition(":")
    return Source(int(node), int(output))
