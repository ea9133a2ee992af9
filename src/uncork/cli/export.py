"""`uncork export`: a model in the format of another system."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from uncork.cli._input_options import add_ids, add_inputs, check_random
from uncork.cli._output import answer, counted
from uncork.cli._parser import Parser, one_of
from uncork.cli._sample import found_sample, given_sample
from uncork.destination import check_destination
from uncork.errors import InputError, UncorkError
from uncork.export.onnx.files import foreign_onnx
from uncork.export.torch.folder import FILES, check_folder
from uncork.progress import on_terminal
from uncork.quoting import in_terminal

_EPILOG = """\
onnx: OUT is one file. Constants of more than 2 GB, or with --external-data, go to OUT.data beside
it.
torch: OUT is a folder with model.py, weights.safetensors and check.py, which compares the answers
to the inputs that -i or --random give (as for uncork run), or to random ones.
What ONNX and torch define otherwise is spelled out, so that the answers are the same. A layer for
which that cannot be is refused, or with --approximate exported nearly the same and listed.
docs/export.md has a table of operations.

examples:
  uncork export model.xml --to onnx -o model.onnx
  uncork export model.xml --to onnx -o model.onnx --opset 22 --external-data --overwrite
  uncork export model.xml --to torch -o folder && python folder/check.py
  uncork export model.xml --to torch -o folder -i inputs.npz
"""
#: Layer and reason, for everything that was approximated.
Approximations = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Target:
    """A format: what its outputs end in, and the function that writes one."""

    suffix: str
    write: Callable[[argparse.Namespace], Approximations]


def _to_onnx(arguments: argparse.Namespace) -> Approximations:
    from uncork.export.onnx.files import given_model, write_onnx

    options = {} if arguments.opset is None else {"opset": arguments.opset}
    return write_onnx(
        given_model(arguments.model, arguments.weights),
        arguments.output,
        approximate=arguments.approximate,
        ids=arguments.ids,
        external_data=arguments.external_data or None,
        progress=_progress(),
        **options,
    )


def _to_torch(arguments: argparse.Namespace) -> Approximations:
    from uncork.export.onnx.files import given_model
    from uncork.export.torch.folder import write_torch

    model = given_model(arguments.model, arguments.weights)
    sample = (
        given_sample(model, arguments)
        if arguments.input or arguments.random
        else found_sample(model, arguments.ids)
    )
    if sample is None:
        sys.stderr.write(
            "uncork: no check.py: the model refuses the random inputs that were tried, or its "
            "answers hang on the last digits of them; give inputs of your own with -i\n"
        )
    return write_torch(
        model,
        arguments.output,
        approximate=arguments.approximate,
        ids=arguments.ids,
        sample=sample,
        progress=_progress(),
    )


#: Every format by the word after `--to`.
TARGETS = {"onnx": Target(".onnx", _to_onnx), "torch": Target("", _to_torch)}


def parser() -> Parser:
    parser = Parser(
        "uncork export",
        "Write a model in the format of another system.",
        _EPILOG,
        "uncork export [OPTION]... MODEL --to FORMAT -o OUT",
    )
    parser.add_model()
    parser.add_argument(
        "--to", required=True, type=one_of(*TARGETS), metavar="FORMAT", help=" or ".join(TARGETS)
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="what to write")
    parser.add_argument(
        "--opset", type=int, metavar="N", help="onnx: the version of its operations (21)"
    )
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="export what cannot be quite the same nearly the same, and list it",
    )
    add_ids(parser)
    parser.add_argument(
        "--external-data", action="store_true", help="onnx: constants in a file beside OUT"
    )
    add_inputs(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace an OUT that is there")
    parser.add_weights()
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    check_random(parser(), arguments)
    target = TARGETS[arguments.to]
    _check_output(arguments, target)
    approximations = target.write(arguments)
    size = sum(os.path.getsize(p) for p in _written(arguments) if os.path.isfile(p))
    facts = {
        "schema": "uncork-export-1",
        "model": arguments.model,
        "format": arguments.to,
        "saved": arguments.output,
        "bytes": size,
        "approximations": [{"layer": layer, "what": reason} for layer, reason in approximations],
    }
    text = "".join(
        f"  {in_terminal(layer)}: {in_terminal(reason)}\n" for layer, reason in approximations
    )
    if text:
        text = f"{counted(len(approximations), 'approximation')}:\n{text}"
    answer(arguments, facts, f"{text}saved {in_terminal(arguments.output)} ({size:,} bytes)\n")
    return 0


def _written(arguments: argparse.Namespace) -> list[str]:
    """The files that an export may have written."""
    if arguments.to == "torch":
        return [os.path.join(arguments.output, name) for name in FILES]
    return [arguments.output, arguments.output + ".data"]


def _check_output(arguments: argparse.Namespace, target: Target) -> None:
    """Refuse, before any work, an output that could not be written or that is there."""
    if arguments.to == "torch":
        if arguments.opset is not None or arguments.external_data:
            raise InputError("--opset and --external-data are for --to onnx")
        return check_folder(arguments.output, arguments.overwrite)
    InputError.when(
        arguments.input or arguments.random, "inputs are for the check.py of --to torch"
    )
    output = Path(arguments.output)
    InputError.when(
        not arguments.output.endswith(target.suffix),
        f"expected a name that ends in {target.suffix}",
        arguments.output,
    )
    UncorkError.when(
        not output.parent.is_dir(), "cannot be written: there is no such folder", arguments.output
    )
    UncorkError.when(
        os.path.exists(output)
        and os.path.exists(arguments.model)
        and os.path.samefile(output, arguments.model),
        "would be written over the model: give another name",
        arguments.output,
    )
    data = output.with_name(output.name + ".data")
    for path in (output, data):
        UncorkError.when(
            os.path.lexists(path) and not arguments.overwrite,
            "is there already: give --overwrite to replace it, or another name",
            str(path),
        )
    if os.path.lexists(output):
        check_destination(output, foreign_onnx, overwrite=True)
    if os.path.lexists(data):
        check_destination(
            data,
            lambda _: _foreign_data(output),
            overwrite=True,
            reads=[("the model", arguments.model)],
        )


def _foreign_data(output: Path) -> str:
    """Why the file of constants beside an output is not the one of an export before."""
    if not output.is_file():
        return f"{output.name}, whose constants it would be, is not there"
    return foreign_onnx(output)


def _progress() -> Callable[[int, int], None] | None:
    """A function that shows on a terminal how much is written; None where there is no terminal."""
    if not on_terminal():
        return None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 if not total else 100 * done // total
        if percent != shown:
            shown = percent
            sys.stderr.write(
                f"\rconstants: {percent} % of {total:,} bytes" + ("\n" if percent == 100 else "")
            )
            sys.stderr.flush()

    return show
