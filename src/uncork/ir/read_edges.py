"""The <edge> elements of an IR file: what reads what, and an order in which layers can run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping

from uncork.errors import shortened
from uncork.ir.diagnostics import Diagnostics, Refused, listed, ports_of, shown, unsigned
from uncork.ir.model import Source
from uncork.ir.read_layers import Layer, report

#: Layers that have to run though nothing reads them.
SINKS = frozenset({"Assign"})


def edges_of(
    net: ElementTree.Element,
    layers: dict[int, Layer],
    place: str,
    refused: Refused,
    diagnostics: Diagnostics,
) -> dict[tuple[int, int], Source]:
    """For each (layer, input position) the output it reads."""
    sources: dict[tuple[int, int], Source] = {}
    for element in net.iterfind("edges/edge"):
        texts = [element.get(a) for a in ("from-layer", "from-port", "to-layer", "to-port")]
        where = "{}edge {}:{} -> {}:{}".format(place, *(shown(t).strip("'") for t in texts))
        explained_by: list[str] = []
        from_layer, from_port, to_layer, to_port = (unsigned(t) for t in texts)
        if from_layer is None or from_port is None or to_layer is None or to_port is None:
            message = "expected four numbers: from-layer, from-port, to-layer, to-port"
        else:
            message, explained_by = _wrong_edge(
                layers,
                sources,
                (from_layer, from_port, to_layer, to_port),
                where,
                place,
                refused,
                diagnostics,
            )
        if message:
            diagnostics.add(where, message, explained_by=explained_by)
            end = layers.get(-1 if to_layer is None else to_layer)
            refused.edge(to_layer, to_port if end is None or to_port in end.inputs else None, where)
        elif (
            from_layer is not None
            and from_port is not None
            and to_layer is not None
            and to_port is not None
        ):
            source = Source(from_layer, layers[from_layer].outputs[from_port])
            sources[to_layer, layers[to_layer].inputs[to_port]] = source
    return sources


def _wrong_edge(
    layers: Mapping[int, Layer],
    sources: Mapping[tuple[int, int], Source],
    edge: tuple[int, int, int, int],
    where: str,
    place: str,
    refused: Refused,
    diagnostics: Diagnostics,
) -> tuple[str, list[str]]:
    """What is wrong with an edge ("" where nothing is), and the subjects that explain it."""
    from_layer, from_port, to_layer, to_port = edge
    absent = [i for i in (from_layer, to_layer) if i not in layers]
    if absent:
        # All edges of one layer that is not there are one mistake.
        explained_by = [f"{place}results", *refused.layer(absent[0])]
        first = refused.absent.setdefault(absent[0], where)
        return (f"there is no layer with id {absent[0]}"), explained_by + [first] * (first != where)
    begin, end = layers[from_layer], layers[to_layer]
    if begin.type_name == "Result":
        return (f"{begin.label} is where a value leaves the model: no layer can read it there"), []
    for layer, kind, ports, port in (
        (begin, "output", begin.outputs, from_port),
        (end, "input", end.inputs, to_port),
    ):
        if port not in ports:
            report(layer, place, diagnostics)
            explained_by = [ports_of(place + layer.label), *refused.layer(layer.id)]
            return (
                f"{layer.label} has no {kind} port {port}; it has {listed(ports)}"
            ), explained_by
    if (to_layer, end.inputs[to_port]) in sources:
        return (f"input port {to_port} of {end.label} has an edge already"), refused.layer(to_layer)
    return "", []


def ordered(
    layers: dict[int, Layer],
    sources: dict[tuple[int, int], Source],
    place: str,
    diagnostics: Diagnostics,
) -> list[int]:
    """The layers that a Result or an Assign needs (and all Parameters), each after its inputs.

    Iterative: chains are long.
    """
    order: list[int] = []
    done: set[int] = set()
    path: list[int] = []  # from a start to the layer looked at, each an input of the one before
    remaining: list[Iterator[int]] = []  # for each of them, the inputs not looked at yet
    depth_of: dict[int, int] = {}
    needed_by = [
        i
        for i, layer in layers.items()
        if layer.type_name in ("Parameter", "Result") or layer.type_name in SINKS
    ]
    for start in needed_by:
        following: int | None = start
        while following is not None or path:
            if following is None:
                done.add(path[-1])
                order.append(path[-1])
                del depth_of[path.pop()]
                remaining.pop()
            elif following in depth_of:
                cycle = path[depth_of[following] : depth_of[following] + 6]
                names = " -> ".join(f"'{shortened(layers[i].name)}'" for i in reversed(cycle))
                diagnostics.add(
                    place + layers[following].label,
                    f"is its own input: the layers {names} form a cycle",
                )
            elif following not in done:
                depth_of[following] = len(path)
                path.append(following)
                ports = range(len(layers[following].inputs))
                remaining.append(
                    iter([sources[following, p].node for p in ports if (following, p) in sources])
                )
            following = next(remaining[-1], None) if path else None
    return order
