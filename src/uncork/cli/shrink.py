"""`uncork shrink`: a model with embedding tables in fewer bits, and the error that this makes."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uncork.cli._expect import tolerance
from uncork.cli._input_options import (
    check_random,
    collect,
    input_text,
    random_range,
    shape_text,
    whole,
)
from uncork.cli._output import answer, table
from uncork.cli._parser import Parser, mistyped_if, one_of
from uncork.cli._summary import Summary, summary_table
from uncork.cli._surgery import check_ir
from uncork.cli._tables import add_tables, files_read, given_tables
from uncork.compiler.arguments import unique_names
from uncork.compiler.compile import compile_model, read_model
from uncork.compiler.tables import with_tables
from uncork.errors import UncorkError
from uncork.ir.model import Model
from uncork.ir.write import write_model
from uncork.quoting import in_terminal
from uncork.random_inputs import RandomBounds
from uncork.shrink import KINDS, OutputError, Shrunk, output_errors, shrink

_EPILOG = """\
A table is a constant that only Gather (along its first axis), EmbeddingBag* and
EmbeddingSegmentsSum read. It becomes integers with a scale and a zero point for each row, or f16,
and the layers that make f32 of them: standard IR, which OpenVINO runs as well.

With -i or --random both models are run, and the differences of their outputs shown. Random ids are
spread over the whole table, random offsets and segment ids sorted. An INPUT is what `uncork run`
takes.

examples:
  uncork shrink model.xml small.xml --tables int8 -i inputs.npz --max-error 1%
  uncork shrink model.xml small.xml --tables int4 --min-rows 100000 --random \\
    --shape ids=4096 --shape offsets=64
"""


def parser() -> Parser:
    parser = Parser(
        "uncork shrink",
        "Store embedding tables smaller.",
        _EPILOG,
        "uncork shrink [OPTION]... MODEL OUT --tables KIND",
    )
    parser.add_model()
    parser.add_argument(
        "out", metavar="OUT", type=_out, help="the .xml file to write; the weights go beside it"
    )
    parser.add_overwrite("an OUT")
    parser.add_argument(
        "--tables", required=True, type=one_of(*KINDS), metavar="KIND", help="int8, int4 or f16"
    )
    parser.add_argument(
        "--min-rows",
        type=whole,
        default=1024,
        metavar="N",
        help="leave tables of fewer rows as they are (1024)",
    )
    parser.add_argument(
        "--max-error",
        type=tolerance,
        metavar="E",
        help="write nothing when an output differs by more: E, "
        "or E%% of the largest magnitude of that output",
    )
    parser.add_argument(
        "-i",
        "--input",
        action="append",
        default=[],
        type=input_text,
        metavar="INPUT",
        help="an input; may be repeated",
    )
    parser.add_argument(
        "--random",
        action="store_true",
        help="fill the inputs that are not given with random values",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=shape_text,
        metavar="NAME=N,N,...",
        help="the sizes of a random input",
    )
    parser.add_argument(
        "--random-range",
        action="append",
        default=[],
        type=random_range,
        metavar="NAME=LOW:HIGH",
        help="its values",
    )
    parser.add_argument(
        "--seed", type=whole, metavar="N", help="other random values for each N (0)"
    )
    parser.add_weights()
    add_tables(parser)
    parser.add_json()
    return parser


def _out(text: str) -> str:
    mistyped_if(not text.endswith(".xml"), f"expected a file that ends in .xml, got '{text}'")
    return text


def execute(arguments: argparse.Namespace) -> int:
    compared = bool(arguments.input) or arguments.random
    if arguments.min_rows < 1:
        parser().error("--min-rows: expected a number of at least 1, got 0")
    check_random(parser(), arguments)
    if arguments.max_error and not compared:
        parser().error("--max-error needs outputs to compare: give inputs with -i, or --random")
    check_ir(arguments.out, arguments.overwrite, files_read(arguments))
    before = read_model(arguments.model, arguments.weights)
    tables = given_tables(arguments)
    if tables:
        before = with_tables(before, tables)
    shrunk = shrink(before, arguments.tables, arguments.min_rows)
    if not shrunk.tables:
        raise UncorkError(_nothing(shrunk), arguments.model)
    filled, errors = _compared(arguments, before, shrunk.model) if compared else ([], [])
    _hold(arguments, errors)
    write_model(shrunk.model, arguments.out)
    _report(arguments, shrunk, filled, errors)
    return 0


def _nothing(shrunk: Shrunk) -> str:
    reasons = "".join(f"\n  {skipped}" for skipped in shrunk.skipped)
    return (
        "no table to store smaller; nothing was "
        f"written{reasons or ': no constant of floats is looked up by rows'}"
    )


def _compared(
    arguments: argparse.Namespace, before: Model, after: Model
) -> tuple[list[Summary], list[OutputError]]:
    """Summaries of the random inputs, and the differences of the outputs of both models."""
    compiled = compile_model(before)
    values, filled = collect(compiled.inputs, arguments, RandomBounds(compiled.model))
    given = [values[i] for i in range(len(compiled.inputs))]
    expected = list(compiled(*given))
    return filled, output_errors(
        unique_names(compiled.outputs), expected, list(compile_model(after)(*given))
    )


def _hold(arguments: argparse.Namespace, errors: Sequence[OutputError]) -> None:
    """Refuse outputs beyond the bound."""
    if arguments.max_error is None:
        return
    bound, relative = arguments.max_error
    beyond = [e for e in errors if (e.relative if relative else e.max_abs) > bound]
    if beyond:
        worst = max(beyond, key=lambda e: e.relative if relative else e.max_abs)
        shown = f"{worst.relative:.3%}" if relative else f"{worst.max_abs:.6g}"
        limit = f"{bound:.3%}" if relative else f"{bound:.6g}"
        count = f" ({len(beyond)} outputs are beyond it)" if len(beyond) > 1 else ""
        message = (
            f"output '{worst.name}' differs by {shown}, "
            f"more than --max-error {limit}{count}; nothing was written"
        )
        raise UncorkError(
            f"{message}: try int8 or f16, or leave small tables out with --min-rows",
            arguments.model,
        )


def _report(
    arguments: argparse.Namespace,
    shrunk: Shrunk,
    filled: Sequence[Summary],
    errors: Sequence[OutputError],
) -> None:
    sizes = [
        os.path.getsize(arguments.weights or Path(arguments.model).with_suffix(".bin")),
        os.path.getsize(Path(arguments.out).with_suffix(".bin")),
    ]
    rows = [["table", "from", "shape", "to", "bytes", "now", "largest error", "rms error"]]
    for t in shrunk.tables:
        size = [f"{t.bytes_before:,}", f"{t.bytes_after:,}"]
        rows.append(
            [
                t.name,
                t.before.name,
                str(list(t.shape)),
                t.after.name,
                *size,
                f"{t.max_error:.3g}",
                f"{t.rms_error:.3g}",
            ]
        )
    text = table(rows, right=(4, 5, 6, 7))
    for skipped in shrunk.skipped:
        text += f"left as it is: {in_terminal(str(skipped))}\n"
    if filled:
        text += "\n" + summary_table("random input", filled)
    if errors:
        lines = [["output", "largest difference", "of its largest value"]]
        lines += [[e.name, f"{e.max_abs:.6g}", f"{e.relative:.3%}"] for e in errors]
        text += "\n" + table(lines, right=(1, 2))
    else:
        text += "\noutputs were not compared: give inputs with -i, or --random\n"
    share = f" ({sizes[1] / sizes[0]:.0%})" if sizes[0] else ""
    text += (
        f"\nweights {sizes[0]:,} -> {sizes[1]:,} bytes{share}; saved {in_terminal(arguments.out)}\n"
    )
    answer(arguments, _as_json(arguments, shrunk, filled, errors, sizes), text)


def _as_json(
    arguments: argparse.Namespace,
    shrunk: Shrunk,
    filled: Sequence[Summary],
    errors: Sequence[OutputError],
    sizes: Sequence[int],
) -> dict[str, Any]:
    tables = [
        {
            "name": t.name,
            "shape": list(t.shape),
            "from": t.before.name,
            "to": t.after.name,
            "bytes_before": t.bytes_before,
            "bytes_after": t.bytes_after,
            "max_error": t.max_error,
            "rms_error": t.rms_error,
        }
        for t in shrunk.tables
    ]
    return {
        "schema": "uncork-shrink-1",
        "model": arguments.model,
        "saved": arguments.out,
        "bytes_before": sizes[0],
        "bytes_after": sizes[1],
        "tables": tables,
        "skipped": [
            {
                "name": s.name,
                "element_type": s.spec.element_type.name,
                "shape": list(s.spec.shape.static),
                "reason": s.reason,
            }
            for s in shrunk.skipped
        ],
        "random_inputs": list(filled),
        "outputs": [
            {"name": e.name, "max_error": _number(e.max_abs), "relative_error": _number(e.relative)}
            for e in errors
        ],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else "Infinity"
