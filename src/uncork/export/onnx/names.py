"""Unique names of tensors and nodes across a model and its sub-graphs, and new names given
afterwards.
"""

from __future__ import annotations

from typing import Any


class Names:
    """The names of one model: a name in a sub-graph must not be one of the graph around it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._count: dict[str, int] = {}
        self._new: dict[str, str] = {}

    def unique(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when it is taken."""
        name = wanted or "tensor"
        while name in self._taken:
            self._count[wanted] = self._count.get(wanted, 0) + 1
            name = f"{wanted}_{self._count[wanted]}"
        self._taken.add(name)
        return name

    def rename(self, old: str, new: str) -> None:
        """Give a tensor another name in all nodes, once they are all there."""
        self._new[old] = new

    def final(self, name: str) -> str:
        """The name that a tensor has in the end."""
        while name in self._new:
            name = self._new[name]
        return name

    def apply(self, nodes: Any) -> None:
        """Put the final names into nodes and the sub-graphs of theirs."""
        for node in nodes:
            node.input[:] = [self.final(n) for n in node.input]
            node.output[:] = [self.final(n) for n in node.output]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    graph = attribute.g
                    self.apply(graph.node)
                    for value in (*graph.input, *graph.output, *graph.initializer):
                        value.name = self.final(value.name)
