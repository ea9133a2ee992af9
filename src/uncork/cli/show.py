"""`uncork show`: what a model takes, gives and consists of, also when it cannot be run."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from uncork.cli._inspect import Inspection, all_nodes, inspect, problems_as_json
from uncork.cli._output import answer, counted, table, without_empty_columns
from uncork.cli._parser import Parser
from uncork.compiled_head import is_compiled_file
from uncork.ir.diagnostics import opset_number
from uncork.ir.model import Model, Node
from uncork.ir.ports import best_name
from uncork.ops import find, versions_of
from uncork.ops.parameter import Const
from uncork.quoting import in_terminal
from uncork.reading import is_onnx_file
from uncork.storage import packed_size
from uncork.types import ElementType, PartialShape, TensorSpec

_EPILOG = """\
Layers that no output needs are left out. A model with problems is shown as far as it can be read.

examples:
  uncork show model.xml
  uncork show --layers model.xml
  uncork show --passes model.xml
  uncork show --html graph.html model.xml
"""

Json = dict[str, Any]
_UNKNOWN = "unknown operation"


def parser() -> Parser:
    parser = Parser(
        "uncork show",
        "Show inputs, outputs, operations and constants of a model.",
        _EPILOG,
        "uncork show [OPTION]... MODEL",
    )
    parser.add_model()
    parser.add_argument(
        "--layers",
        action="store_true",
        help="list every layer: id, operation, inputs, outputs and name",
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="list what each pass of the compiler does to the layers, on this machine",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="write the graph as a page that a browser shows"
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        help="colours in --html: the times that 'uncork bench --profile --json' has printed",
    )
    parser.add_argument(
        "--compare",
        metavar="FILE",
        help="red in --html: the layer that 'uncork compare --json' has named",
    )
    parser.add_overwrite("a FILE")
    parser.add_weights()
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.html:
        return _write_graph(arguments)
    parser().refuse(arguments, ("profile", "compare"), "is for --html: give that, too")
    if is_compiled_file(arguments.model):
        from uncork.cli import _compiled  # for such files only

        known = _compiled.facts(arguments.model)
        facts = {"schema": "uncork-show-compiled-1", **known}
        answer(arguments, facts, _compiled.text(known))
        return 0
    found = inspect(arguments.model, arguments.weights)
    path = Path(arguments.model)
    if arguments.weights:
        weights = Path(arguments.weights)
    else:
        weights = path if is_onnx_file(path) else path.with_suffix(".bin")
    facts = _facts(found, arguments.model, weights)
    if arguments.layers:
        facts["layers"] = _layers(found.model)
    if arguments.passes:
        facts["passes"] = _passes(found)
    problems = len(found.problems)
    answer(arguments, {"schema": "uncork-show-1", **facts}, lambda: _text(facts, problems))
    return 0


def _write_graph(arguments: argparse.Namespace) -> int:
    """Write the graph as a page, and say where it is."""
    from uncork.cli._graph import write_graph  # the compiler, for this option alone

    why = "is for the text: leave it out with --html"
    parser().refuse(arguments, ("layers", "passes"), why)
    layers = write_graph(arguments)
    facts = {"schema": "uncork-show-html-1", "model": arguments.model, "saved": arguments.html}
    text = f"saved {counted(layers, 'layer')} in {in_terminal(arguments.html)}\n"
    answer(arguments, facts, text)
    return 0


# ---- what there is to know, as JSON holds it (see docs/cli.md)


def _facts(found: Inspection, path: str, weights: Path) -> Json:
    model = found.model
    nodes = [node for _, node in all_nodes(model)]
    return {
        "model": path,
        "name": model.name,
        "ir_version": model.ir_version,
        "weights": {
            "file": str(weights),
            "bytes": weights.stat().st_size if weights.is_file() else None,
        },
        "layer_count": {"all": len(nodes), "in_subgraphs": len(nodes) - len(model.nodes)},
        "inputs": _inputs(model),
        "outputs": _outputs(model),
        "operations": _operations(nodes, found.diagnostics.missing),
        "constants": _constants(nodes),
        **problems_as_json(found),
    }


def _inputs(model: Model) -> list[Json]:
    return [
        _port(model.names_of_input(i), model.by_id[node].outputs[0].spec)
        for i, node in enumerate(model.parameters)
    ]


def _outputs(model: Model) -> list[Json]:
    return [_output(model, i, model.by_id[node]) for i, node in enumerate(model.results)]


def _output(model: Model, position: int, result: Node) -> Json:
    # An edge that is missing, or that comes from an output which the layer does not have, is among
    # the problems.
    try:
        names = model.names_of_output(position)
    except LookupError:
        names = (result.name,)
    try:
        return _port(names, model.spec(result.inputs[0]))
    except LookupError:
        return _port(names, None)


def _port(names: Sequence[str], spec: TensorSpec | None) -> Json:
    return {"name": best_name(names), "names": list(names), **_spec(spec)}


def _spec(spec: TensorSpec | None) -> Json:
    """Element type and shape; both null when they are not known.

    A dimension is a number, or text: '?', '2..8', '2..'.
    """
    if spec is None:
        return {"element_type": None, "shape": None}
    shape = (
        None if spec.shape.rank is None else [int(d) if d.is_static else str(d) for d in spec.shape]
    )
    return {"element_type": spec.element_type.name, "shape": shape}


def _operations(nodes: Sequence[Node], missing: Container[str]) -> list[Json]:
    """Each operation with its number of layers, those that are not supported first."""
    counts = Counter((node.type_name, node.opset, _label(node)) for node in nodes)
    by_label: dict[str, Json] = {}
    for (type_name, opset, label), count in counts.items():
        reason = _why_not(type_name) if f"{type_name}@{opset}" in missing else ""
        entry = by_label.setdefault(
            label,
            {
                "operation": label,
                "type": type_name,
                "opsets": [],
                "count": 0,
                "supported": not reason,
                "reason": reason or None,
            },
        )
        entry["count"] += count
        entry["opsets"].append(opset)
    for entry in by_label.values():
        entry["opsets"].sort(key=lambda opset: (len(opset), opset))
    return sorted(by_label.values(), key=lambda e: (e["supported"], e["operation"]))


def _label(node: Node) -> str:
    """`Gather-8` for the version that is in force in the file's opset.

    `Type@opset9` when there is none.
    """
    if node.operation is not None:
        return node.operation.label()
    number = opset_number(node.opset)
    known = find(node.type_name, number) if number is not None else None
    return known.label() if known else f"{node.type_name}@{node.opset}"


def _why_not(type_name: str) -> str:
    versions = versions_of(type_name)
    return f"known from opset{min(versions)} on" if versions else _UNKNOWN


def _constants(nodes: Sequence[Node]) -> list[Json]:
    """The constants of each element type: their number, that of their values, and the bytes of the
    weights file that they take.
    """
    entries: dict[ElementType, Json] = {}
    seen: set[tuple[str, str]] = set()
    for node in nodes:
        constant = node.operation
        if not isinstance(constant, Const):
            continue
        entry = entries.setdefault(
            constant.element_type,
            {"element_type": constant.element_type.name, "count": 0, "values": 0, "bytes": 0},
        )
        entry["count"] += 1
        entry["values"] += constant.count
        place = (node.attributes.get("offset", ""), node.attributes.get("size", ""))
        if place not in seen:  # constants may share their bytes
            seen.add(place)
            is_text = constant.element_type is ElementType.string
            entry["bytes"] += (
                int(place[1]) if is_text else packed_size(constant.element_type, constant.count)
            )
    return sorted(entries.values(), key=lambda e: (-e["bytes"], e["element_type"]))


def _layers(model: Model) -> list[Json]:
    return [
        {
            "id": node.id,
            "depth": depth,
            "name": node.name,
            "operation": _label(node),
            "inputs": [[source.node, source.output] for source in node.inputs],
            "outputs": [_spec(port.spec) for port in node.outputs if node.type_name != "Result"],
        }
        for depth, node in all_nodes(model)
    ]


def _passes(found: Inspection) -> Json:
    if found.problems:
        return {"applied": [], "not_run": "the model has problems"}
    from uncork.compiler.pass_record import pass_record  # the compiler, for this option alone

    record, reason = pass_record(found.model)
    return {"applied": [asdict(applied) for applied in record], "not_run": reason or None}


# ---- the same for people


def _text(facts: Json, problems: int) -> str:
    path = in_terminal(facts["model"])
    inside = facts["layer_count"]["in_subgraphs"]
    head = [
        ("name", facts["name"] or "(none)"),
        ("format", f"IR version {facts['ir_version']}"),
        ("weights", _weights(facts)),
        (
            "layers",
            f"{facts['layer_count']['all']:,}"
            + (f", {inside:,} of them in sub-graphs" if inside else ""),
        ),
    ]
    parts = [path + "\n" + table(head, indent="  ")]
    for title in ("inputs", "outputs"):
        rows = [["#", "name", "type", "shape", "also called"]]
        for position, port in enumerate(facts[title]):
            rows.append(
                [
                    str(position),
                    port["name"],
                    port["element_type"] or "?",
                    _shape(port),
                    ", ".join(
                        dict.fromkeys(name for name in port["names"] if name != port["name"])
                    ),
                ]
            )
        parts.append(_section(f"{title.capitalize()} ({len(rows) - 1})", rows))
    rows = [["operation", "layers", "supported"]]
    rows += [[o["operation"], f"{o['count']:,}", _supported(o)] for o in facts["operations"]]
    lacking = sum(not o["supported"] for o in facts["operations"])
    note = f"{lacking} not supported" if lacking else "all supported"
    parts.append(_section(f"Operations ({len(rows) - 1}, {note})", rows, right=(1,)))
    rows = [["type", "constants", "values", "bytes"]]
    rows += [
        [c["element_type"], *(f"{c[key]:,}" for key in ("count", "values", "bytes"))]
        for c in facts["constants"]
    ]
    count, size = (sum(c[key] for c in facts["constants"]) for key in ("count", "bytes"))
    parts.append(_section(f"Constants ({count:,}, {counted(size, 'byte')})", rows, right=(1, 2, 3)))
    if "layers" in facts:
        rows = [["id", "operation", "inputs", "outputs", "name"]]
        rows += [_layer_row(layer) for layer in facts["layers"]]
        parts.append(_section(f"Layers ({len(rows) - 1:,})", rows))
    if "passes" in facts:
        parts.append(_passes_text(facts["passes"]))
    if problems:
        parts.append(
            f"{counted(problems, 'problem')}: 'uncork check {path}' lists "
            f"{'it' if problems == 1 else 'them'}.\n"
        )
    return "\n".join(parts)


def _passes_text(passes: Json) -> str:
    rows = [["pass", "layers", "what it does", "made"]]
    for applied in passes["applied"]:
        count = f"{applied['before']:,} to {applied['after']:,}"
        rows.append([applied["name"], count, applied["does"], _some(applied["made"])])
    text = _section(f"Passes that changed layers ({len(rows) - 1})", rows)
    return text + (f"  Others did not run: {passes['not_run']}\n" if passes["not_run"] else "")


def _some(names: Sequence[str], most: int = 4) -> str:
    """A few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _section(title: str, rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    return (
        title
        + "\n"
        + (
            table(without_empty_columns(rows) if not right else rows, right, "  ")
            if len(rows) > 1
            else "  none\n"
        )
    )


def _supported(operation: Json) -> str:
    if operation["supported"]:
        return "yes"
    return "no" if operation["reason"] == _UNKNOWN else f"no, {operation['reason']}"


def _weights(facts: Json) -> str:
    size = facts["weights"]["bytes"]
    if size is None and not facts["constants"] and not facts["problems"]:
        return "none: the model has no constants"
    return (
        f"{facts['weights']['file']}, {'no such file' if size is None else counted(size, 'byte')}"
    )


def _shape(port: Json) -> str:
    if port["element_type"] is None:
        return "?"
    return (
        str(PartialShape())
        if port["shape"] is None
        else "[" + ",".join(map(str, port["shape"])) + "]"
    )


def _layer_row(layer: Json) -> list[str]:
    inputs = ", ".join(
        str(node) if output == 0 else f"{node}:{output}" for node, output in layer["inputs"]
    )
    outputs = ", ".join(f"{spec['element_type']}{_shape(spec)}" for spec in layer["outputs"])
    return [
        "  " * layer["depth"] + str(layer["id"]),
        layer["operation"],
        inputs,
        outputs,
        layer["name"],
    ]
