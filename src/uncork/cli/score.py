"""`uncork score`: runs a model on every row of a table.

All of it is `uncork.score`; here are its options and what it prints.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from uncork.cli._options import add_rounding, rounding
from uncork.cli._output import answer, emit_json
from uncork.cli._parser import Parser, Suggesting, mistyped_if, one_of, whole_number
from uncork.cli._tables import add_tables, given_tables
from uncork.errors import UncorkError
from uncork.quoting import in_terminal
from uncork.score import ScoringInterrupted, prepare_score, score
from uncork.score.options import ScoreOptions

_count = whole_number(1, 15)
_EPILOG = """\
SOURCE is a Parquet, Arrow IPC or CSV file, a folder or a glob of them, or a URI that pyarrow reads
(s3://, gs://, hdfs://). OUTPUT is a Parquet file when it ends in .parquet, else a folder of them.
It appears when it is whole.

An input is made of columns by one of
  COLUMN                       one value a row, or a list of fixed length
  stack(A, B, ...)             several columns side by side
  values(LIST)  offsets(LIST)  the values of bags, and where each one begins
  segments(LIST)               the row of each value; rows() is the number of rows
  padded(LIST, 50)             50 values a row: zeros after them, the last 50 of more;
                               side=left, keep=first, pad=N
  length(LIST, 50)             how many of them are values
  0.5   [1, 2]                 a constant
Each may have fill=VALUE for nulls. An input that is not mapped takes the column of its name.

examples:
  uncork score model.xml sessions.parquet scores --input items='padded(items, 50)' \\
    --input lengths='length(items, 50)'
  uncork score model.xml 'logs/*.parquet' scores.parquet --mapping mapping.toml \\
    --keep row,user --top-k 20
  uncork score model.xml sessions.parquet scores --on-error reject rejected.parquet --workers 8
  uncork score model.xml sessions.parquet scores --resume
  uncork score model.xml sessions.parquet scores --engine ray --ray-address auto
"""


class _ScoreParser(Parser):
    def read(self, words: Sequence[str]) -> argparse.Namespace:
        # argparse knows no option whose second word depends on its first.
        words = list(words)
        for index in range(len(words) - 2):
            if words[index] == "--on-error" and words[index + 1] == "reject":
                words[index + 1 : index + 3] = [f"reject={words[index + 2]}"]
                break
        return super().read(words)


def parser() -> Parser:
    parser = _ScoreParser(
        "uncork score",
        "Score every row of a table.",
        _EPILOG,
        "uncork score [OPTION]... MODEL SOURCE OUTPUT",
    )
    parser.add_model()
    parser.add_argument("source", metavar="SOURCE", help="the rows, see below")
    parser.add_argument(
        "output", metavar="OUTPUT", nargs="?", help="where the scores go, see below"
    )
    add = parser.add_argument
    add(
        "-i",
        "--input",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=WHAT",
        help="what an input is made of; may be repeated",
    )
    add("--mapping", metavar="FILE", help="a TOML file with inputs, outputs, keep and top_k")
    add(
        "-o",
        "--output",
        dest="results",
        action="append",
        default=[],
        type=_pair,
        metavar="COLUMN=RESULT",
        help="a column of the output and the model's output it holds; without it all; "
        "may be repeated",
    )
    add(
        "--keep",
        type=_names,
        metavar="NAME,...",
        help="columns to copy to the output; 'row' is the row's number (row)",
    )
    add("--top-k", type=_count, metavar="N", help="of each row the N best items and their scores")
    add(
        "--on-error",
        type=Suggesting(_on_error, "fail", "null", "reject"),
        default=("fail", None),
        metavar="WHAT",
        help="a row that cannot be scored: fail (default), null, or reject FILE.parquet",
    )
    add(
        "--no-strict",
        action="store_true",
        help="let ids outside their table give zeros where that is defined, "
        "and conversions cut integers",
    )
    add(
        "--no-negative-ids",
        action="store_true",
        help="rows with ids below 0, which count from the end of a table, are bad rows",
    )
    add(
        "--engine",
        type=one_of("local", "ray"),
        default="local",
        metavar="NAME",
        help="local (default), or ray: pip install 'uncork[ray]'",
    )
    add(
        "--ray-address",
        metavar="ADDRESS",
        help="a Ray cluster: host:port, or auto; without it Ray is started on this machine",
    )
    add("--workers", type=_count, metavar="N", help="worker processes (all cores)")
    add("--batch-size", type=_count, metavar="N", help="rows in a call of the model (1024)")
    add("--rows-per-part", type=_count, metavar="N", help="rows in a part of the output, about")
    add("--resume", action="store_true", help="go on with an interrupted run of the same command")
    parser.add_overwrite("an OUTPUT")
    add("--limit", type=_count, metavar="N", help="score the first N rows only, for a trial")
    add(
        "--format",
        type=one_of("parquet", "ipc", "csv"),
        metavar="NAME",
        help="parquet, ipc or csv, where names do not say it",
    )
    add(
        "--show-mapping",
        action="store_true",
        help="print what would be done, checked against the model, and stop; OUTPUT is not needed",
    )
    add_rounding(parser)
    parser.add_weights()
    add_tables(parser)
    parser.add_json()
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    mistyped_if(not separator or not name or not value, f"expected NAME=VALUE, got '{text}'")
    return name, value


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _on_error(text: str) -> tuple[str, str | None]:
    what, separator, file = text.partition("=")
    mistyped_if(
        (what == "reject") != bool(file)
        or what not in ("fail", "null", "reject")
        or (separator and not file),
        f"expected fail, null or reject FILE.parquet, got '{text}'",
    )
    return what, file or None


def execute(arguments: argparse.Namespace) -> int:
    inputs, results = _once("--input", arguments.input), _once("--output", arguments.results)
    if arguments.output is None and not arguments.show_mapping:
        parser().error("the following arguments are required: OUTPUT")
    on_error, rejects = arguments.on_error
    options: dict[str, Any] = {
        "inputs": inputs,
        "mapping": arguments.mapping,
        "outputs": results or None,
        "keep": arguments.keep,
        "top_k": arguments.top_k,
        "strict": not arguments.no_strict,
        "negative_ids": not arguments.no_negative_ids,
        "on_error": on_error,
        "batch_size": arguments.batch_size,
        "rows_per_part": arguments.rows_per_part,
        "format": arguments.format,
        "limit": arguments.limit,
        "weights": arguments.weights,
        "tables": given_tables(arguments) or None,
        **rounding(arguments),
    }
    try:
        if arguments.show_mapping:
            told = ScoreOptions(**options)
            prepared = prepare_score(arguments.model, arguments.source, told)
            facts = {**prepared.describe(), "schema": "uncork-score-mapping-1"}
            text = "".join(f"{in_terminal(line)}\n" for line in str(prepared).splitlines())
            answer(arguments, facts, text)
            return 0
        # Ray prints what it notices of dead workers to standard output, which is the summary's.
        with contextlib.redirect_stdout(sys.stderr):
            summary = score(
                arguments.model,
                arguments.source,
                arguments.output,
                **options,
                rejects=rejects,
                engine=arguments.engine,
                ray_address=arguments.ray_address,
                workers=arguments.workers,
                resume=arguments.resume,
                overwrite=arguments.overwrite,
                progress=True,
            )
    except ModuleNotFoundError as error:
        raise UncorkError(
            f"needs {error.name or error}, which is not installed: pip install 'uncork[score]'",
            "uncork score",
        ) from None
    except ScoringInterrupted as interrupted:
        print(f"uncork: {in_terminal(str(interrupted))}", file=sys.stderr)
        raise
    print("\n".join(in_terminal(line) for line in str(summary).splitlines()), file=sys.stderr)
    if arguments.json:
        emit_json(summary.to_json())
    return 0


def _once(option: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The pairs by name; a name that comes twice is a mistake of the command line."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        parser().error(f"{option}: '{twice}' is given twice")
    return dict(pairs)
