"""The command line as a whole: help, version, exit status, typing errors, closed pipes and full
disks.
"""

from __future__ import annotations

import ast
import errno
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import uncork
from uncork.cli import COMMANDS, _output, check, main, run
from uncork.cli._parser import Parser

from .conftest import Command

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


#: What a command takes, where it is not a model.
OPERANDS = {"cache": " ls|clear", "doctor": "", "completion": " bash|zsh", "help": " [COMMAND]"}


def process(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "uncork", *words],
        capture_output="stdout" not in options,
        text=True,
        **options,
    )  # type: ignore[call-overload,no-any-return]


def test_help(command: Command):
    answer = command("--help")
    assert answer.status == 0
    assert answer.err == ""
    assert answer.out.startswith("usage: uncork COMMAND ...\n")
    assert all(
        re.search(rf"^  {name} +{re.escape(line)}$", answer.out, re.M)
        for name, line in COMMANDS.items()
    )
    assert len(answer.out.splitlines()) <= 40
    assert max(map(len, answer.out.splitlines())) <= 100
    assert command("-h").out == answer.out


def test_help_is_a_command(command: Command):
    assert command("help").out == command("--help").out
    assert command("help", "run").out == command("run", "--help").out
    assert "there is no command 'walk'; commands: run, score" in command("help", "walk").err


def test_completion(command: Command, tmp_path: Path):
    script = command("completion", "bash").out
    (tmp_path / "uncork.bash").write_text(script)
    ask = '. ./uncork.bash; COMP_WORDS=({}); COMP_CWORD={}; _uncork; echo "${{COMPREPLY[@]}}"'
    for words, position, expected in (
        ("uncork co", 1, "compare compile convert completion"),
        ("uncork run --ex", 2, "--expect"),
        ("uncork bench m.xml --pr", 3, "--precision --profile"),
        ("uncork help sho", 2, "show"),
        ("uncork run mod", 2, ""),
        ("uncork run --backend ''", 3, "cpu reference"),
        ("uncork run m.xml --precision bf", 4, "bf16 bf16x3"),
        ("uncork score m.xml t.parquet out --on-error ''", 6, "fail null reject"),
        ("uncork compare m.xml --against o", 4, "openvino"),
        ("uncork cache ''", 2, "ls clear prepare"),
        ("uncork cache prepare ''", 3, ""),
        ("uncork completion z", 2, "zsh"),
    ):
        done = subprocess.run(
            ["bash", "-c", ask.format(words, position)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected, words
    zsh = command("completion", "zsh").out
    assert zsh.startswith("#compdef uncork\n")
    assert all(
        f"        '{name}:" in zsh and f"            {name}) compadd -- " in zsh
        for name in COMMANDS
    )
    assert '            "run --backend") compadd -- cpu reference ;;\n' in zsh
    assert command("completion", "fish").status == 2


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_completion_of_zsh(command: Command, tmp_path: Path):
    """What is added is written down: zsh completes on a terminal only."""
    (tmp_path / "_uncork").write_text(command("completion", "zsh").out)
    ask = (
        "compadd() {{ shift; print -- $* }}; _files() {{ print files }}; "
        "_describe() {{ print -l ${{(P)2}} }}; "
        "words=({}) CURRENT={} PREFIX=$words[-1]; . ./_uncork"
    )
    for words, position, expected in (
        ("uncork co", 2, r"(?s).*compare:the first layer .*completion:.*"),
        ("uncork help ''", 3, r"(?s).*score:score every row.*"),
        ("uncork check --", 3, r"--help --weights --json\n"),
        ("uncork run --backend ''", 4, r"cpu reference\n"),
        ("uncork cache ''", 3, r"ls clear prepare\n"),
        ("uncork run mod", 3, r"files\n"),
    ):
        done = subprocess.run(
            ["zsh", "-f", "-c", ask.format(words, position)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert re.fullmatch(expected, done.stdout), (words, done.stdout, done.stderr)


def test_help_of_a_command_that_is_not_there(command: Command):
    """The message is the one of the command itself."""
    assert command("help", "rnu").err == command("rnu").err
    assert "there is no command 'rnu'; did you mean 'run'?" in command("help", "rnu").err
    assert command("help", "rnu").status == 2


def test_messages_name_options_that_exist():
    """Whatever a text of the package calls an option is one, but for those of other programs."""
    others = {"--model", "--build", "--export"}  # optimum-cli, cmake, wasm-ld
    known = {option for name in COMMANDS for option in parser_of(name)._option_string_actions} | {
        "--version"
    }
    named = set()
    for path in Path(uncork.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = re.findall(r"(?<![\w-])--[a-z][a-z_-]+", node.value)
                named |= {(option, path.name) for option in found}
    assert {option for option, _ in named} > {"--overwrite", "--resume"}
    assert not {(option, name) for option, name in named if option not in known | others}


def parser_of(name: str) -> Parser:
    found: Parser = importlib.import_module(f"uncork.cli.{name.replace('-', '_')}").parser()
    return found


def test_without_a_command(command: Command):
    answer = command()
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err == command("--help").out


def test_version(command: Command):
    assert command("--version").out == f"uncork {uncork.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(command: Command, name: str):
    answer = command(name, "--help")
    assert answer.status == 0
    assert answer.out.startswith(f"usage: uncork {name} [OPTION]...{OPERANDS.get(name, ' MODEL')}")
    assert "examples:\n" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str):
    text = DOCUMENT.read_text("utf-8")
    section = text[text.index(f"## uncork {name}\n") :].partition("\n## ")[0]
    parser = importlib.import_module(f"uncork.cli.{name.replace('-', '_')}").parser()
    for option in parser._option_string_actions:
        assert option in ("-h", "--help") or f"`{option}" in section, option


@pytest.mark.parametrize(
    ("words", "message", "prog"),
    [
        (
            ["rnu"],
            f"there is no command 'rnu'; did you mean 'run'?; commands: {', '.join(COMMANDS)}",
            "uncork",
        ),
        (["Xyzzy"], f"there is no command 'Xyzzy'; commands: {', '.join(COMMANDS)}", "uncork"),
        (["--verson"], "there is no option '--verson'; did you mean '--version'?", "uncork"),
        (
            ["run", "m.xml", "--ouput", "x.npz"],
            "there is no option '--ouput'; did you mean '--output'?",
            "uncork run",
        ),
        (
            ["run", "m.xml", "--sed=3"],
            "there is no option '--sed'; did you mean '--seed'?",
            "uncork run",
        ),
        (["show", "m.xml", "n.xml"], "'n.xml' is one argument too many", "uncork show"),
        (["check"], "the following arguments are required: MODEL", "uncork check"),
        (["run", "m.xml", "-i"], "argument -i/--input: expected one argument", "uncork run"),
    ],
)
def test_usage_errors(command: Command, words: list[str], message: str, prog: str):
    answer = command(*words)
    assert answer.status == 2
    assert answer.message == f"{message}\nTry '{prog} --help'."


def test_options_after_the_model_and_between(command: Command, rows: Path):
    assert command("check", "rows.xml", "--json", "rows.xml").json["ok"] is True


def test_error_without_traceback_and_without_control_characters(command: Command, rows: Path):
    answer = command("run", "rows.xml", "-i", "\x1b[31mred=[1]")
    assert answer.status == 1
    assert answer.message == "no input is called '\\x1b[31mred'; inputs: ids i64[?,2]"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["sh\x1bow"], "there is no command 'sh\\x1bow'"),
        (["run", "m.xml", "--\x1b[31m"], "there is no option '--\\x1b[31m'"),
        (["run", "m.xml", "more\x07"], "'more\\x07' is one argument too many"),
        (["run", "m.xml", "--repeat", "\x1b[2J\n"], "got '\\x1b[2J\\n'"),
        (["export", "m.xml", "--to", "\x9b31m"], "\\x9b31m"),
    ],
)
def test_usage_errors_show_no_control_characters(
    command: Command, words: list[str], shown: str
) -> None:
    answer = command(*words)
    assert answer.status == 2
    message, _, hint = answer.message.partition("\n")
    assert shown in message and message.isprintable()
    assert hint.startswith("Try 'uncork")


def test_an_unexpected_error_shows_its_traceback(rows: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(check, "inspect", fail)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        main(["check", str(rows)])


def test_interrupted(command: Command, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "load", interrupt)
    answer = command("run", "m.xml")
    assert (answer.status, answer.out, answer.err) == (130, "", "")


@pytest.mark.parametrize(
    ("error", "message"),
    [(MemoryError(), "not enough memory"), (MemoryError("8 GiB"), "not enough memory: 8 GiB")],
)
def test_out_of_memory(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: MemoryError, message: str
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(run, "load", fail)
    answer = command("run", "m.xml")
    assert answer.status == 1
    assert answer.message == message


def test_closed_pipe(rows: Path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = process("show", str(rows), stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (answer.returncode, answer.stderr) == (141, "")


@pytest.mark.skipif(os.name != "posix", reason="closes streams by the shell")
@pytest.mark.parametrize("words", ["show", "show --json", "--help"])
def test_standard_output_that_is_closed(rows: Path, words: str):
    given = [str(rows)] if words.startswith("show") else []
    answer = closed(1, *words.split(), *given)
    assert answer.returncode == 1
    assert answer.stderr == "uncork: error: standard output cannot be written: it is closed\n"


@pytest.mark.skipif(os.name != "posix", reason="closes streams by the shell")
def test_standard_error_that_is_closed(rows: Path, tmp_path: Path):
    """An error must not stand on standard output in its place, and no command needs it."""
    answer = closed(2, "show", "--json", str(tmp_path / "none.xml"))
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["schema"] == "uncork-error-1"
    assert closed(2, "nosuch").returncode == 2
    for words in (["cache", "prepare", str(rows)], ["show", str(rows)]):
        answer = closed(2, *words)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert "rows" in answer.stdout


def closed(stream: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that has no such stream."""
    script = f'exec "$@" {stream}>&-'
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "uncork", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_error_in_json_into_a_closed_pipe(tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = process(
            "show", "--json", str(tmp_path / "none.xml"), stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)
    why = os.strerror(errno.ENOENT)
    assert (answer.returncode, answer.stderr) == (
        1,
        f"uncork: error: {tmp_path}/none.xml: cannot be read: {why}\n",
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("words", ["show", "show --json", "--help"])
def test_full_standard_output(rows: Path, words: str):
    with open("/dev/full", "w") as full:
        given = [str(rows)] if words.startswith("show") else []
        answer = process(*words.split(), *given, stdout=full, stderr=subprocess.PIPE)
    assert answer.returncode == 1
    assert (
        answer.stderr
        == f"uncork: error: standard output cannot be written: {os.strerror(errno.ENOSPC)}\n"
    )


def test_letters_that_the_terminal_lacks(rows: Path):
    answer = process(
        "run",
        str(rows),
        "-i",
        "ids=[[1,1]]",
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert '"\\xe9\\xe9n"' in answer.stdout


def test_a_command_imports_no_other():
    code = (
        "import sys, uncork; before = set(sys.modules); from uncork.cli import main; "
        "main(['--help']); print(*set(sys.modules) - before)"
    )
    names = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        .stdout.splitlines()[-1]
        .split()
    )
    ours = {name for name in names if name.startswith("uncork.")}
    assert ours == {"uncork.cli", "uncork.cli._output", "uncork.cli._parser"}


def test_table():
    rows = [("name", "n"), ("日本", "1"), ("a\nb", "22"), ("e\N{COMBINING ACUTE ACCENT}", "333")]
    assert (
        _output.table(rows, right=[1], indent=" ")
        == " name    n\n 日本    1\n a\\nb   22\n e\N{COMBINING ACUTE ACCENT}     333\n"
    )
