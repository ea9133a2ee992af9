"""What commands that change a model share: the destination, writing, and the list of changes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from uncork.cli._output import answer
from uncork.cli._parser import Parser, mistyped_if
from uncork.compiler.compile import read_model
from uncork.destination import Read, check_destination, reads_of_model
from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.ir.write import write_model
from uncork.quoting import in_terminal
from uncork.surgery import changes


def add_options(parser: Parser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="the .xml file to write; the weights go beside it",
    )
    parser.add_overwrite("an OUT")
    parser.add_weights()
    parser.add_json()


def change_file(arguments: argparse.Namespace, change: Callable[[Model], Model]) -> int:
    """Read the model, change it, write it and say what changed."""
    check_output(arguments)
    before = read_model(arguments.model, arguments.weights)
    after = change(before)
    write_model(after, arguments.output)
    said = changes(before, after)
    facts = {
        "schema": "uncork-surgery-1",
        "model": arguments.model,
        "saved": arguments.output,
        "changes": said,
    }
    lines = "".join(f"  {in_terminal(line)}\n" for line in said) or "nothing changed\n"
    answer(arguments, facts, f"{lines}saved {in_terminal(arguments.output)}\n")
    return 0


def check_output(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, to write over what is read, or where nothing can be written."""
    InputError.when(
        not arguments.output.endswith(".xml"), "expected a name that ends in .xml", arguments.output
    )
    model, *weights = reads_of_model(arguments.model, arguments.weights)
    if not arguments.weights and arguments.model.lower().endswith(".onnx"):
        weights = []  # an ONNX model says itself where its own are
    check_ir(arguments.output, arguments.overwrite, [model, *weights])


def check_ir(path: str, overwrite: bool, reads: Sequence[Read]) -> None:
    """Refuse to write a model in IR over what is read, or over anything else."""
    out = Path(path)
    check_destination(out, _no_ir, overwrite=overwrite, reads=reads)
    # Weights are known by the model beside them.
    no_weights = "" if out.exists() else "what is there has no .xml beside it and may be anything"
    check_destination(
        out.with_suffix(".bin"), lambda _: no_weights, overwrite=overwrite, reads=reads
    )


def _no_ir(path: Path) -> str:
    """Why a file is no model in IR, or ""."""
    with open(path, "rb") as file:
        return "" if re.search(rb"<net[\s>]", file.read(4096)) else "what is there is no IR model"


def pair(text: str) -> tuple[str, str]:
    """NAME=VALUE; a name may have '=' in it, a value not."""
    name, equals, value = text.rpartition("=")
    mistyped_if(not equals or not name or not value, f"expected NAME=VALUE, got '{text}'")
    return name, value
