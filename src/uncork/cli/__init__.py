"""The command `uncork`.

One file per command; this one finds the command and turns what happens into an exit status.

0: all is well. 1: something differs or failed. 2: the command line could not be understood; no file
was looked at.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from uncork.cli._output import abandon_stdout, emit, emit_json, problem_as_json
from uncork.cli._parser import Parser
from uncork.errors import UncorkError
from uncork.quoting import in_terminal

#: Every command with its line of help. The module of the same name has `parser()` and
#: `execute(arguments) -> int`, and is imported only when its command is given.
COMMANDS = {
    "run": "run a model on arrays and print what it gives",
    "score": "score every row of a table, Parquet in and out",
    "show": "what a model takes, gives and consists of",
    "check": "every problem of a model and every operation that is missing",
    "compare": "the first layer whose result differs from another system's",
    "bench": "how long a call takes, and where its time goes",
    "compile": "one file that runs without a compiler",
    "shrink": "store embedding tables as 8-bit or 4-bit integers or as f16",
    "convert": "write an ONNX model as an IR",
    "export": "write a model in the format of another system: ONNX, torch",
    "import-weights": "replace constants of a model, by those of a .safetensors or .npz file",
    "cut": "the part of a model from some layers to others",
    "extract": "the part of a model that computes some tensors from others",
    "reshape": "other sizes of a model's inputs",
    "stream": "a model of whole sequences made to run frame by frame, its state inside",
    "rename": "other names of a model's inputs and outputs",
    "cache": "the compiled kernels that are kept on disk: list, delete, or make them",
    "doctor": "what a bug report needs to know of this machine",
    "completion": "what makes bash or zsh complete commands and options",
    "help": "this text, or that of a command",
}

_EXAMPLES = """\
examples:
  uncork check model.xml
  uncork show model.xml
  uncork run model.xml -i ids=ids.npy -i 'lengths=[3,2]' -o out.npz
  uncork run model.xml --random --shape ids=2,50 --seed 1

'uncork COMMAND --help' says more on each command.
exit status: 0 all is well, 1 something differs or failed, 2 the command line is wrong
"""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words` (without one, the process's own) and return the exit status."""
    if sys.stderr is None:  # closed: errors have nowhere to go, and print would take stdout
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a letter of a layer's name gets a substitute, not an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    show, warnings.showwarning = warnings.showwarning, _show_warning
    try:
        status = _dispatch(sys.argv[1:] if words is None else list(words))
        emit("")
        return status
    except UncorkError as error:
        if "--json" in (sys.argv[1:] if words is None else words):
            _print_problems(error)
        return _failed(str(error))
    except MemoryError as error:
        return _failed(f"not enough memory: {error}" if str(error) else "not enough memory")
    except BrokenPipeError:
        # Whoever reads, such as `head`, has seen enough. The status is that of a program which the
        # signal ended.
        abandon_stdout()
        return 128 + 13
    except KeyboardInterrupt:
        return 130
    finally:
        warnings.showwarning = show


def _dispatch(words: list[str]) -> int:
    try:
        if words and not words[0].startswith("-"):
            return _command(words[0], words[1:])
        parser = main_parser()
        if not words:
            parser.print_help(sys.stderr)
            return 2
        parser.read(words)
        parser.error("expected a command before the options")
    except SystemExit as stop:  # how argparse ends after --help, --version and errors
        return stop.code if isinstance(stop.code, int) else 1


def _command(name: str, words: list[str]) -> int:
    module = importlib.import_module(f"uncork.cli.{known_command(name).replace('-', '_')}")
    status: int = module.execute(module.parser().read(words))
    return status


def known_command(name: str) -> str:
    """The name, where there is such a command; ends the process where there is none."""
    if name not in COMMANDS:
        from uncork.compiler.arguments import did_you_mean

        main_parser().error(
            f"there is no command '{name}'{did_you_mean(name, list(COMMANDS))}; "
            f"commands: {', '.join(COMMANDS)}"
        )
    return name


def main_parser() -> Parser:
    """The parser of what stands before a command; its help lists the commands."""
    from uncork import __version__

    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name.ljust(width)}  {line}" for name, line in COMMANDS.items())
    parser = Parser(
        "uncork",
        "Opens OpenVINO IR models: runs them exactly, shows what is in them and says what is wrong "
        "with them.\n\ncommands:\n" + commands,
        _EXAMPLES,
        usage="uncork COMMAND ...",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"uncork {__version__}",
        help="show the version and exit",
    )
    return parser


def _print_problems(error: UncorkError) -> None:
    """The error as JSON, if standard output takes it: it may be what failed."""
    problems = [problem_as_json(problem) for problem in error.problems]
    found = {"schema": "uncork-error-1", "error": type(error).__name__, "problems": problems}
    try:
        emit_json(found)
    except (UncorkError, OSError):
        abandon_stdout()


def _failed(message: str) -> int:
    _say("error", message)
    return 1


def _say(kind: str, message: str) -> None:
    # Names in the message come from files: what they hold must not steer the terminal.
    lines = "\n".join(map(in_terminal, message.split("\n")))
    print(f"uncork: {kind}: {lines}", file=sys.stderr)


def _show_warning(
    message: Warning | str, category: type[Warning], *place: Any, **more: Any
) -> None:
    """Show a warning as an error is shown: without the line of code, which tells nothing to the
    user of a command.
    """
    _say("warning", str(message))
