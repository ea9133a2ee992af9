"""`uncork check`: every problem of a model and every operation that is missing."""

from __future__ import annotations

import argparse
from typing import Any

from msgspec.structs import replace

from uncork.cli._inspect import all_nodes, inspect, problems_as_json
from uncork.cli._output import answer, counted, problem_as_json
from uncork.cli._parser import Parser
from uncork.compiled_head import is_compiled_file
from uncork.errors import Problem, ReadError
from uncork.quoting import in_terminal

_EPILOG = """\
Exit status 1 when there is a problem, 0 when every model can be run.

examples:
  uncork check model.xml
  uncork check --json models/*.xml
"""


def parser() -> Parser:
    parser = Parser(
        "uncork check",
        "List every problem of a model and every operation that is missing, not only the first.",
        _EPILOG,
        "uncork check [OPTION]... MODEL...",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="the model's .xml file")
    parser.add_weights()
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.weights and len(arguments.models) > 1:
        parser().error("--weights is for a single MODEL")
    answers = [_checked(path, arguments.weights) for path in arguments.models]
    ok = all(not problems for _, problems, _ in answers)
    facts = {"schema": "uncork-check-1", "ok": ok, "models": [found for _, _, found in answers]}
    answer(arguments, facts, "".join(text for text, _, _ in answers))
    return 0 if ok else 1


def _checked(path: str, weights: str | None) -> tuple[str, list[Problem], dict[str, Any]]:
    """The text for people, the problems, and the same for machines."""
    try:
        if is_compiled_file(path):
            return _checked_compiled(path)
        found = inspect(path, weights)
    except ReadError as error:
        problems = list(error.problems)
        listed = [problem_as_json(replace(p, where="") if p.where == path else p) for p in problems]
        return (
            _text(path, [p["message"] for p in listed]),
            problems,
            {"model": path, "ok": False, "problems": listed, "missing": []},
        )
    problems = found.problems
    count = sum(1 for _ in all_nodes(found.model))
    text = (
        _text(path, list(map(str, problems)))
        if problems
        else (f"{in_terminal(path)}: ok ({counted(count, 'layer')})\n")
    )
    return text, problems, {"model": path, "ok": not problems, **problems_as_json(found)}


def _checked_compiled(path: str) -> tuple[str, list[Problem], dict[str, Any]]:
    """The same for a compiled file. Raises ReadError."""
    from uncork.cli._compiled import problem_of  # for such files only

    wrong = problem_of(path)
    ReadError.when(wrong, wrong, path)
    return f"{in_terminal(path)}: ok (compiled)\n", [], {"model": path, "ok": True, "problems": []}


def _text(path: str, messages: list[str]) -> str:
    lines = "".join(
        f"{number:3}. {in_terminal(message)}\n" for number, message in enumerate(messages, 1)
    )
    return f"{in_terminal(path)}: {counted(len(messages), 'problem')}\n{lines}"
