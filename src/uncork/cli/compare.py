"""`uncork compare`: the first layer whose result differs from that of another system."""

from __future__ import annotations

import argparse
from pathlib import Path

from uncork.cli._files import read_named_arrays, write_page
from uncork.cli._input_options import add_inputs, check_random, collect
from uncork.cli._options import add_rounding, add_words, rounding
from uncork.cli._output import answer, counted, table, without_empty_columns
from uncork.cli._parser import Parser, Suggesting
from uncork.cli._summary import Summary, summary_table
from uncork.compare import AGAINST, Comparison, compare, open_model
from uncork.compare.html import BEGINNING, page
from uncork.compare.report import (
    EXTRACTED,
    HEADING,
    as_json,
    conclusion,
    counts,
    extract,
    figures,
    row,
    shown,
)
from uncork.destination import begins_with, check_destination, reads_of_model
from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.ir.ports import find_input
from uncork.progress import progress_line
from uncork.quoting import in_terminal
from uncork.random_inputs import RandomBounds
from uncork.types import Array

_EPILOG = """\
WHAT is one of
  openvino               the same file on OpenVINO's CPU, in f32, no rows rounded
  reference              the same file by the defining NumPy code of every layer
  onnxruntime:FILE.onnx  the ONNX file that the model was made from
  torch:FILE.pt2         the program that the model was made from (torch.export.save); with --trust
  OTHER.xml              another model in IR: layers are found by name, then by structure
  SAVED.npz              arrays by the names of tensors or layers, and of inputs

Each layer is run on what the other side gave to it, so that a difference is the layer's own. What
rounding explains, by the type and the number of terms that are added up, is no difference.

examples:
  uncork compare model.xml --against openvino --random --shape ids=2,50
  uncork compare model.xml --against onnxruntime:model.onnx -i inputs.npz --html report.html
  uncork compare model.xml --against other.xml --random --extract first
exit status: 0 the same, 1 something differs or failed, 2 the command line is wrong
"""


def parser() -> Parser:
    parser = Parser(
        "uncork compare",
        "Find the first layer whose result differs.",
        _EPILOG,
        "uncork compare [OPTION]... MODEL",
    )
    parser.add_model()
    add = parser.add_argument
    against = Suggesting(str, "openvino", "reference")
    add("--against", required=True, type=against, metavar="WHAT", help="the other side, see below")
    add_inputs(parser)
    add_words(parser, "backend", "our side: cpu (default) or reference")
    add_rounding(parser)
    add(
        "--all",
        action="store_true",
        help="list every layer, not only those that differ and those that round most",
    )
    add(
        "--extract",
        metavar="DIR",
        help="write the first layer that differs, its inputs and the other side's results into DIR",
    )
    add(
        "--trust",
        action="store_true",
        help="open a torch:FILE.pt2, which may run code: know who has made it",
    )
    add("--html", metavar="FILE", help="write a report that a browser shows")
    parser.add_overwrite("a FILE or what is in DIR")
    parser.add_weights()
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    check_random(parser(), arguments)
    against: str = arguments.against
    if not against.endswith((".xml", ".npz")) and against.partition(":")[0] not in (
        "openvino",
        "reference",
        "onnxruntime",
        "torch",
    ):
        parser().error(f"--against: expected {AGAINST}, got '{against}'")
    _check_destinations(arguments)
    model = open_model(arguments.model, arguments.weights)
    saved = read_named_arrays(against) if against.endswith(".npz") else None
    if saved is not None:
        _take_saved_inputs(arguments, model, saved)
    values, filled = collect(model.inputs, arguments, RandomBounds(model))
    with progress_line("layers") as say:
        found = compare(
            arguments.model,
            against,
            [values[i] for i in range(len(model.inputs))],
            weights=arguments.weights,
            backend=arguments.backend,
            saved=saved,
            opened=model,
            trust=arguments.trust,
            progress=say,
            **rounding(arguments),
        )
    if arguments.html:
        write_page(arguments.html, page(found))
    if arguments.extract and found.bad is not None:
        extract(found, Path(arguments.extract))
    facts = {
        **as_json(found),
        "random_inputs": filled,
        "html": arguments.html,
        "extracted": arguments.extract if found.bad is not None else None,
    }
    answer(arguments, facts, lambda: _text(arguments, found, filled))
    return 0 if found.is_same else 1


def _check_destinations(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, what cannot be written or must not be replaced."""
    reads = reads_of_model(arguments.model, arguments.weights)
    if arguments.against.endswith((".xml", ".npz")):
        reads.append(("the other side", arguments.against))
    if arguments.html:
        check_destination(
            arguments.html,
            begins_with(BEGINNING.encode()),
            overwrite=arguments.overwrite,
            reads=reads,
        )
    if not arguments.extract:
        return
    folder = Path(arguments.extract)
    if not folder.exists():
        check_destination(folder, lambda _: "", overwrite=False, reads=reads)
        return
    InputError.when(not folder.is_dir(), "cannot be written: it is no folder", arguments.extract)
    for name, magic in EXTRACTED.items():
        known = (
            begins_with(magic)
            if magic
            else lambda _: (
                "" if (folder / "layer.xml").exists() else "it has no layer.xml beside it"
            )
        )
        check_destination(folder / name, known, overwrite=arguments.overwrite, reads=reads)


def _take_saved_inputs(
    arguments: argparse.Namespace, model: Model, saved: dict[str, Array]
) -> None:
    """Take inputs from the saved file where nothing else gives them."""
    said = {
        find_input(model.inputs, text.partition("=")[0]) for text in arguments.input if "=" in text
    }
    if any("=" not in text for text in arguments.input):
        return
    for name in saved:
        position = next((port.position for port in model.inputs if name in port.names), None)
        if position is not None and position not in said:
            arguments.input.append(f"{name}={arguments.against}:{name}")


def _text(arguments: argparse.Namespace, found: Comparison, filled: list[Summary]) -> str:
    text = summary_table("random input", filled) + "\n" if filled else ""
    layers = shown(found, arguments.all)
    right = (0, 4, 5, 6)
    if layers:
        rows = without_empty_columns([list(HEADING), *(row(layer) for layer in layers)])
        text += (
            table(
                rows,
                right=[
                    i for i, title in enumerate(rows[0]) if title in [HEADING[r] for r in right]
                ],
            )
            + "\n"
        )
    if found.outputs:
        rows = [["result", *HEADING[4:]]]
        rows += [
            [o.name, *figures(o.difference), o.verdict + (f": {o.reason}" if o.reason else "")]
            for o in found.outputs
        ]
        text += table(without_empty_columns(rows)) + "\n"
    numbers = ", ".join(f"{count:,} {verdict}" for verdict, count in counts(found).items() if count)
    text += (
        f"{counted(len(found.layers), 'tensor')} against {in_terminal(found.against)}: {numbers}\n"
    )
    if found.outputs_note:
        text += in_terminal(found.outputs_note) + "\n"
    text += in_terminal(conclusion(found)) + "\n"
    if arguments.extract and found.bad is not None:
        text += (
            "saved the layer, its inputs and the other side's results in "
            f"{in_terminal(arguments.extract)}\n"
        )
    if arguments.html:
        text += f"saved the report in {in_terminal(arguments.html)}\n"
    return text
