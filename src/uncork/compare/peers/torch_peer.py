"""PyTorch as a peer: a program saved by `torch.export.save`, run operation by operation."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from uncork.compare.peers.base import GivenInput, in_order, of_bf16
from uncork.compare.tensors import PeerModel, PeerTensor
from uncork.types import Array


class TorchPeer:
    """PyTorch as a peer; see the module."""

    def __init__(self, path: str, inputs: Sequence[GivenInput], weights: str | None = None) -> None:
        self._torch = importlib.import_module("torch")
        self._module = self._torch.export.load(path).module()
        graph = self._module.graph
        names = [node.name for node in graph.nodes if node.op == "placeholder"]
        self._inputs = [
            self._tensor(given) for given in in_order(inputs, [(n, f"{n}:0") for n in names])
        ]
        self.model = PeerModel(tuple(_tensors(graph)), tuple(names), numbered=True)

    def _tensor(self, given: GivenInput) -> Any:
        if given.element_type == "bf16":
            return self._torch.from_numpy(given.array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(given.array)

    def outputs(self) -> list[Array]:
        """The results of the program."""
        with self._torch.no_grad():
            results = self._module(*self._inputs)
        flat = self._torch.utils._pytree.tree_leaves(results)
        return [_array(self._torch, value) for value in flat]

    def values(self, keys: Sequence[str]) -> list[Array]:
        """The values of nodes by their names."""
        found: dict[str, Array] = {}
        torch = self._torch

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc, name-defined]
            """Keeps what was asked for."""

            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if node.name in keys and isinstance(value, torch.Tensor):
                    found[node.name] = _array(torch, value)
                return value

        with torch.no_grad():
            Recorder(self._module).run(*self._inputs)
        missing = [key for key in keys if key not in found]
        if missing:
            raise ValueError(f"'{missing[0]}' is no tensor")
        return [found[key] for key in keys]


def _array(torch: Any, value: Any) -> Array:
    value = value.detach().cpu().contiguous()
    if value.dtype == torch.bfloat16:
        return of_bf16(value.view(torch.int16).numpy())
    return np.array(value.numpy())


def _tensors(graph: Any) -> Iterator[PeerTensor]:
    """What the nodes of a program give. The parts of a tuple are outputs of the operation that
    gives it.

    "getitem_3" is no name of a tensor: every part of every tuple of the graph is called so.
    """
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function"):
            continue
        if node.target is operator.getitem:
            made, output = node.args
            names = (f"{made.name}:{output}", f"{made.name}/{made.target}:{output}")
            yield PeerTensor(
                node.name, made.name, str(made.target), output, names, _read(made), _shape(node)
            )
        elif not isinstance(node.meta.get("val"), (tuple, list)):
            type_name = "Parameter" if node.op == "placeholder" else str(node.target)
            yield PeerTensor(
                node.name,
                node.name,
                type_name,
                0,
                (node.name, f"{node.name}:0"),
                _read(node),
                _shape(node),
            )


def _read(node: Any) -> tuple[str, ...]:
    return tuple(other.name for other in node.all_input_nodes)


def _shape(node: Any) -> tuple[int | None, ...] | None:
    """The shape of a value, as far as the program knows it: a size may be an expression."""
    shape = getattr(node.meta.get("val"), "shape", None)
    return (
        None if shape is None else tuple(size if isinstance(size, int) else None for size in shape)
    )
