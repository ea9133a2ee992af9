"""This project as a peer: another file by its kernels, or the same one by the references."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.compare.peers.base import GivenInput, in_order
from uncork.compare.tensors import describe, source_of
from uncork.compiler.arguments import shown
from uncork.compiler.compile import compile_model, read_model
from uncork.ir.model import Model, Port, Source, node_of
from uncork.ops.parameter import Result
from uncork.types import Array


class UncorkPeer:
    """A model as `uncork` runs it by kernels, as a peer; see the module."""

    backend = "cpu"

    def __init__(self, path: str, inputs: Sequence[GivenInput], weights: str | None = None) -> None:
        self._model = read_model(path, weights)
        nodes = [self._model.by_id[parameter] for parameter in self._model.parameters]
        self._inputs = [
            given.array
            for given in in_order(inputs, [(n.name, *n.outputs[0].names) for n in nodes])
        ]
        self.model = describe(self._model)

    def outputs(self) -> list[Array]:
        """The results of the model."""
        return self._run(self._model)

    def values(self, keys: Sequence[str]) -> list[Array]:
        """The values of outputs of layers."""
        return self._run(with_results(self._model, [source_of(key) for key in keys]))

    def _run(self, model: Model) -> list[Array]:
        compiled = compile_model(model, backend=self.backend)  # type: ignore[arg-type]
        return list(compiled(shown(compiled.inputs, self._inputs)))


class ReferencePeer(UncorkPeer):
    """A model as `uncork` runs it by the references, the defining NumPy code of each layer, as a
    peer.
    """

    backend = "reference"


def with_results(model: Model, sources: Sequence[Source]) -> Model:
    """The model with these tensors as its only results."""
    first = model.next_id
    kept = [node for node in model.nodes if node.type_name != "Result"]
    new = [
        node_of(first + i, f"compared {i}", Result(), [source], [Port(model.spec(source))])
        for i, source in enumerate(sources)
    ]
    return replace(model, nodes=(*kept, *new), results=tuple(node.id for node in new))
