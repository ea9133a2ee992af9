"""The argument parser of all commands: GNU habits, errors of one line, hints for typing errors."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from uncork.cli._output import emit
from uncork.quoting import in_terminal


class Parser(argparse.ArgumentParser):
    """argparse with errors as `uncork: error: ...`, exit status 2 and a suggestion for an option
    that does not exist.
    """

    def __init__(self, prog: str, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            prog, usage, description, epilog, formatter_class=_Formatter, add_help=False
        )
        self.add_argument("-h", "--help", action="help", help="show this text and exit")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words; options and operands in any order."""
        arguments, rest = self.parse_known_intermixed_args(words)
        unknown = next((word for word in rest if word.startswith("-") and word != "-"), None)
        if unknown is not None:
            from uncork.compiler.arguments import did_you_mean

            option = unknown.partition("=")[0]
            known = [name for name in self._option_string_actions if name.startswith("--")]
            self.error(f"there is no option '{option}'{did_you_mean(option, known)}")
        if rest:
            self.error(f"'{rest[0]}' is one argument too many")
        return arguments

    def refuse(self, arguments: argparse.Namespace, options: Iterable[str], why: str) -> None:
        """Refuse the first of some options that is given, where it means nothing."""
        for option in options:
            if getattr(arguments, option):
                self.error(f"--{option} {why}")

    def print_help(self, file: Any = None) -> None:
        """The help; argparse would fail with a traceback, or say nothing, where standard output
        cannot be written.
        """
        if file is None:
            emit(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        # Messages name the words that were typed: what they hold must not steer the terminal.
        self.exit(2, f"uncork: error: {in_terminal(message)}\nTry '{self.prog} --help'.\n")

    def add_model(self) -> None:
        self.add_argument("model", metavar="MODEL", help="the model's .xml file")

    def add_weights(self) -> None:
        self.add_argument(
            "--weights",
            metavar="FILE",
            help="the weights file, when it is not the .bin beside MODEL",
        )

    def add_overwrite(self, what: str) -> None:
        self.add_argument(
            "--overwrite",
            action="store_true",
            help=f"replace {what} that is there, when this command wrote it",
        )

    def add_json(self) -> None:
        self.add_argument("--json", action="store_true", help="print JSON instead of text")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


class Suggesting:
    """A type for `add_argument(type=...)`: a function that reads a word, and words that a shell may
    complete.
    """

    def __init__(self, parse: Callable[[str], Any], *words: str) -> None:
        self._parse, self.words = parse, words

    def __call__(self, text: str) -> Any:
        return self._parse(text)


def mistyped_if(condition: object, message: str) -> None:
    """Refuse the word of an argument where the condition holds."""
    if condition:
        raise argparse.ArgumentTypeError(message)


def whole_number(least: int, digits: int) -> Callable[[str], int]:
    """A type for `add_argument(type=...)` that takes whole numbers, of so many digits at the
    most.
    """

    def parse(text: str) -> int:
        mistyped_if(
            not text.isdecimal() or len(text) > digits or int(text) < least,
            f"expected a whole number of at least {least}, got '{text}'",
        )
        return int(text)

    return parse


def number_in(text: str) -> float:
    """The number that a text is; NaN for any other text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def one_of(*choices: str) -> Suggesting:
    """A type for `add_argument(type=...)` that takes one of some words."""

    def parse(text: str) -> str:
        if text not in choices:
            from uncork.compiler.arguments import did_you_mean

            raise argparse.ArgumentTypeError(
                f"expected {' or '.join(choices)}, got '{text}'{did_you_mean(text, choices)}"
            )
        return text

    return Suggesting(parse, *choices)
