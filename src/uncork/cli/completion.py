"""`uncork completion`: a script that makes a shell complete commands, options and files."""

from __future__ import annotations

import argparse
import importlib

from uncork.cli._output import emit
from uncork.cli._parser import Parser, Suggesting, one_of

_EPILOG = """\
examples:
  uncork completion bash > ~/.local/share/bash-completion/completions/uncork
  uncork completion zsh > "${fpath[1]}/_uncork"
"""

_BASH = """\
# Completion of uncork for bash, by 'uncork completion bash'.
_uncork() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version"
    elif [ "${{word#-}}" != "$word" ]; then
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    else
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
        esac
    fi
    if [ -n "$words" ]; then
        COMPREPLY=($(compgen -W "$words" -- "$word"))
    fi
}}
complete -o default -F _uncork uncork
"""
_ZSH = """\
#compdef uncork
# Completion of uncork for zsh, by 'uncork completion zsh'.
_uncork() {{
    local -a commands
    commands=(
{described}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
    elif [[ $words[2] == help ]]; then
        _describe command commands
    elif [[ $PREFIX != -* ]]; then
        case "${{(Q)words[2]}} ${{(Q)words[CURRENT-1]}}" in
{values}
            *) _files ;;
        esac
    else
        case ${{(Q)words[2]}} in
{cases}
        esac
    fi
}}
_uncork "$@"
"""


def parser() -> Parser:
    parser = Parser(
        "uncork completion",
        "Print what makes a shell complete.",
        _EPILOG,
        "uncork completion [OPTION]... bash|zsh",
    )
    parser.add_argument(
        "shell", metavar="bash|zsh", type=one_of("bash", "zsh"), help="for which shell"
    )
    return parser


def execute(arguments: argparse.Namespace) -> int:
    emit(_bash() if arguments.shell == "bash" else _zsh())
    return 0


def _parser_of(command: str) -> Parser:
    result: Parser = importlib.import_module(f"uncork.cli.{command.replace('-', '_')}").parser()
    return result


def _options(command: str) -> list[str]:
    own = _parser_of(command)
    return [name for name in own._option_string_actions if name.startswith("--")]


def _values(command: str) -> list[tuple[str, str]]:
    """The words that may follow another: ("run --backend", "cpu reference"). The words of an
    operand follow the command itself.
    """
    return [
        (f"{command} {name}", " ".join(action.type.words))
        for action in _parser_of(command)._actions
        if isinstance(action.type, Suggesting)
        for name in action.option_strings or [command]
    ]


def _bash() -> str:
    from uncork.cli import COMMANDS

    cases = "\n".join(
        f'            {command}) words="{" ".join(_options(command))}" ;;' for command in COMMANDS
    )
    values = "\n".join(
        f'            "{behind}") words="{words}" ;;'
        for command in COMMANDS
        for behind, words in _values(command)
    )
    return _BASH.format(commands=" ".join(COMMANDS), cases=cases, values=values)


def _zsh() -> str:
    from uncork.cli import COMMANDS

    quote = "'\\''"
    described = "\n".join(
        f"        '{command}:{line.replace(chr(39), quote)}'" for command, line in COMMANDS.items()
    )
    cases = "\n".join(
        f"            {command}) compadd -- {' '.join(_options(command))} ;;"
        for command in COMMANDS
    )
    values = "\n".join(
        f'            "{behind}") compadd -- {words} ;;'
        for command in COMMANDS
        for behind, words in _values(command)
    )
    return _ZSH.format(described=described, cases=cases, values=values)
