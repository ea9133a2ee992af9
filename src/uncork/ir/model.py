"""`Model`: a graph as plain frozen data, with names for its inputs and outputs.

Reading, writing, checking and running are elsewhere.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from uncork._html import html_table
from uncork.concurrency import lazy
from uncork.errors import ValidationError
from uncork.ir.dropped import looked_at, remember
from uncork.ir.graph import Graph, Node, Port, Source, XmlElement, all_nodes, node_of
from uncork.ir.ports import PORT_HEADING, ModelPort, best_name, port_of, port_rows
from uncork.types import TensorSpec

__all__ = [
    "Model",
    "Node",
    "Port",
    "Source",
    "XmlElement",
    "all_nodes",
    "join_names",
    "node_of",
    "split_names",
]


class Model(Graph, frozen=True, dict=True):
    """A graph with names for its inputs and outputs, as a file holds it."""

    def __repr__(self) -> str:
        """One line: a model may have a hundred thousand layers."""
        inputs = ", ".join(
            _port_text(self._input_names[i], self.by_id[p].outputs[0].spec)
            for i, p in enumerate(self.parameters[:4])
        )
        outputs = ", ".join(
            _port_text(self._output_names[i], self.spec(self.by_id[r].inputs[0]))
            for i, r in enumerate(self.results[:4])
        )
        more = [", ..." if len(ports) > 4 else "" for ports in (self.parameters, self.results)]
        return (
            f"<Model '{self.name}': {inputs or 'no inputs'}{more[0]} -> "
            f"{outputs or 'no outputs'}{more[1]}; {len(self.nodes)} layers>"
        )

    def _repr_html_(self) -> str:
        """For notebooks: inputs and outputs with their types and shapes."""
        return html_table(
            f"{self.name}: {len(self.nodes):,} layers",
            PORT_HEADING,
            port_rows(self.inputs, self.outputs),
        )

    if not TYPE_CHECKING:  # a name that is not there is a mistake that mypy finds

        def __getattr__(self, name: str) -> Any:
            from uncork.ir.elsewhere import MODEL, missing

            raise missing(self, "a model", name, MODEL)

    @lazy
    def inputs(self) -> tuple[ModelPort, ...]:
        """What a call takes, in order."""
        specs = [self.by_id[p].outputs[0].spec for p in self.parameters]
        return tuple(
            ModelPort(self._input_names[i], spec.element_type, spec.shape, i)
            for i, spec in enumerate(specs)
        )

    @lazy
    def outputs(self) -> tuple[ModelPort, ...]:
        """What a call gives, in order."""
        specs = [self.spec(self.by_id[r].inputs[0]) for r in self.results]
        return tuple(
            ModelPort(self._output_names[i], spec.element_type, spec.shape, i)
            for i, spec in enumerate(specs)
        )

    def input(self, key: Any = None) -> ModelPort:
        """An input by its position, a name or a port; the only one without a key.

        Raises InputError.
        """
        return port_of(self.inputs, key, "input")

    def output(self, key: Any = None) -> ModelPort:
        """An output by its position, a name or a port; the only one without a key.

        Raises InputError.
        """
        return port_of(self.outputs, key, "output")

    def reshape(self, shapes: Any) -> Model:
        """A new model for other shapes of its inputs.

        This one stays as it is: `model = model.reshape(...)`. Where the new one is dropped, using
        this one warns.

        `shapes` is the shape of the only input, or a mapping of names, positions or ports to shapes
        such as `[1, None, (2, 8)]`, "1,?,2..8" or a PartialShape. Inputs that are not named keep
        theirs.

        Raises InputError for inputs that are not there, ValidationError that lists the layers which
        do not fit.
        """
        from uncork.ir.reshape import reshaped  # inference: most who hold a model need none

        new = reshaped(self, self.inputs, shapes)
        remember(self, new)
        return new

    def names_of_input(self, position: int) -> tuple[str, ...]:
        """Names of a parameter: those of its tensor, then its layer name where it tells no other
        input.
        """
        return self._input_names[position]

    def name_of_input(self, position: int) -> str:
        """The name that tells most of an input; its layer's where it has none."""
        names = self.names_of_input(position)
        return best_name(names) or self.by_id[self.parameters[position]].name

    def name_of_output(self, position: int) -> str:
        """The name that tells most of a result; its layer's where it has none."""
        return best_name(self.names_of_output(position)) or self.by_id[self.results[position]].name

    def names_of_output(self, position: int) -> tuple[str, ...]:
        """Names of a result: its own and those of the tensor it takes, then layer names where they
        tell no other output.
        """
        return self._output_names[position]

    @lazy
    def _input_names(self) -> list[tuple[str, ...]]:
        looked_at(self)
        nodes = [self.by_id[i] for i in self.parameters]
        return _told_apart(
            [(*n.outputs[0].names, *self._legacy_name(n, 0)) for n in nodes],
            [(n.name,) for n in nodes],
        )

    @lazy
    def _output_names(self) -> list[tuple[str, ...]]:
        looked_at(self)
        results = [self.by_id[i] for i in self.results]
        # A name given to a Result is one of its tensor, and so of every other Result that takes the
        # same tensor.
        own = [
            (
                *split_names(dict(r.layer_attributes).get("output_names", "")),
                *(n for p in r.outputs for n in p.names),
            )
            for r in results
        ]
        shared: dict[Source, list[str]] = {}
        for result, names in zip(results, own, strict=True):
            shared.setdefault(result.inputs[0], []).extend(names)
        tensors: list[tuple[str, ...]] = []
        layers: list[tuple[str, ...]] = []
        for result, names in zip(results, own, strict=True):
            source = result.inputs[0]
            producer = self.by_id[source.node]
            tensors.append(
                (
                    *names,
                    *producer.outputs[source.output].names,
                    *shared[source],
                    *self._legacy_name(producer, source.output),
                )
            )
            layers.append(
                (result.name, producer.name) if len(producer.outputs) == 1 else (result.name,)
            )
        return _told_apart(tensors, layers)

    def _legacy_name(self, node: Node, output: int) -> tuple[str, ...]:
        """The tensor name that version 10 makes of a layer's name, with the output where there are
        several. Other versions make none.
        """
        if self.ir_version != 10:
            return ()
        return (node.name if len(node.outputs) == 1 else f"{node.name}.{output}",)


def _port_text(names: tuple[str, ...], spec: TensorSpec) -> str:
    return f"{best_name(names) or '(no name)'} {spec}"


def _told_apart(
    tensors: list[tuple[str, ...]], layers: list[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The names of each port: its tensor names, and those layer names that no other port has in any
    way, because a name must not pick the wrong port.
    """
    uses = Counter(
        name for ours, others in zip(tensors, layers, strict=True) for name in {*ours, *others}
    )
    return [
        tuple(dict.fromkeys((*ours, *(n for n in others if uses[n] == 1))))
        for ours, others in zip(tensors, layers, strict=True)
    ]


_SEPARATOR = re.compile(r"(?<!\\),")


def split_names(text: str) -> tuple[str, ...]:
    r"""Tensor names from their attribute: separated by commas.

    A comma inside a name is written `\,`, a backslash as it is.
    """
    return tuple(dict.fromkeys(n.replace("\\,", ",") for n in _SEPARATOR.split(text) if n))


def join_names(names: tuple[str, ...]) -> str:
    """The inverse of `split_names`.

    Raises ValidationError when the format cannot tell the names apart.

    A backslash at the end of a name would escape the comma after it: such a name goes last.
    """
    ends_in_backslash = [n for n in names if n.endswith("\\")]
    ValidationError.when(
        len(ends_in_backslash) > 1,
        "a tensor can have one name that ends in a backslash, "
        f"got {', '.join(map(repr, ends_in_backslash))}",
    )
    ordered = [n for n in names if not n.endswith("\\")] + ends_in_backslash
    return ",".join(n.replace(",", "\\,") for n in ordered)
