"""The mapping language: what an input of the model is made of, in one line of text.

    user                        a column: one value a row; a list column of equal lengths is one
                                row of numbers a row
    stack(age, price)           several columns side by side, [rows, 2]
    values(items)               the values of a list column, all rows one after the other
    offsets(items)              where each row's values begin
    segments(items)             the row, counted in the batch, that each value belongs to
    padded(items, 50)           [rows, 50], zeros after the values; side=left before them; a longer
                                list keeps its last 50, with keep=first its first; pad=-1 pads
                                with -1
    length(items, 50)           how many values `padded` kept of each row; without a number, all
                                of a column of single values these three make lists of one
    rows()                      the number of rows in the batch
    0.5, [1, 2], constant("a")  a constant in JSON

Wherever a column stands, `fill=` says what a null becomes: `fill=0` is the value of a null, and
makes a null list an empty one; `fill=empty` does only the latter. `round=true` lets numbers become
the nearest number of the input's type. A name that is not a plain word is written in double quotes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from uncork.compiler.arguments import did_you_mean
from uncork.errors import InputError

#: Functions with the least and most numbers of their positional arguments that are columns, and
#: whether a width may follow.
_FUNCTIONS = {
    "column": (1, 1, False),
    "stack": (1, 10_000, False),
    "values": (1, 1, False),
    "offsets": (1, 1, False),
    "segments": (1, 1, False),
    "padded": (1, 1, True),
    "length": (1, 1, True),
    "rows": (0, 0, False),
    "constant": (0, 0, False),
}
_KEYWORDS = {
    "column": {"fill", "round"},
    "stack": {"fill", "round"},
    "values": {"fill", "round"},
    "offsets": {"fill"},
    "segments": {"fill"},
    "padded": {"fill", "round", "side", "keep", "pad"},
    "length": {"fill"},
}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_BARE = re.compile(r'[^\s()\[\]{}",=][^()\[\]{}",=]*')


@dataclass(frozen=True)
class Expression:
    """A parsed line of the mapping language: the expression of an input.

    `width`, `side`, `keep` and `pad` are for `padded` (and `length`), `constant` is a constant's
    JSON text.
    """

    function: str
    columns: tuple[str, ...] = ()
    width: int | None = None
    side: str = "right"
    keep: str = "last"
    pad: int | float | str = 0
    fill: int | float | str | bool | None = None
    #: A null list is an empty one; nulls in a list stay errors unless there is a `fill`.
    fill_empty: bool = False
    rounded: bool = False
    constant: str = ""

    @property
    def of_list(self) -> bool:
        """Whether the expression reads a column of lists."""
        return self.function in ("values", "offsets", "segments", "padded", "length")

    def __str__(self) -> str:
        if self.function == "constant":
            return f"constant({self.constant})" if self.constant.startswith('"') else self.constant
        columns = [_quoted(column) for column in self.columns]
        options = [] if self.width is None else [str(self.width)]
        options += [
            f"{name}={getattr(self, name)}"
            for name, usual in (("side", "right"), ("keep", "last"))
            if getattr(self, name) != usual
        ]
        options += [f"pad={json.dumps(self.pad)}"] if self.pad != 0 else []
        options += (
            ["fill=empty"]
            if self.fill_empty
            else []
            if self.fill is None
            else [f"fill={json.dumps(self.fill)}"]
        )
        options += ["round=true"] if self.rounded else []
        if self.function == "column" and not options:
            return columns[0]
        return f"{self.function}({', '.join((*columns, *options))})"


def parse(text: str, where: str = "") -> Expression:
    """The expression that a text means.

    Raises InputError, at `where`, that says what was expected.
    """
    try:
        return _parsed(text)
    except InputError as error:
        raise InputError(f"{error.message}, in '{text}'", where) from None


def constant(value: Any) -> Expression:
    """The expression of a constant: a number, a truth value, or a list of these."""
    return Expression("constant", constant=json.dumps(value))


def _parsed(text: str) -> Expression:
    call = _CALL.fullmatch(text)
    if call is None:
        literal = _literal(text)
        if literal is not None and not isinstance(literal, str):
            return constant(literal)
        return Expression("column", (_column(text),))
    function, inside = call.groups()
    if function not in _FUNCTIONS:
        raise InputError(
            "there is no function "
            f"'{function}'{did_you_mean(function, list(_FUNCTIONS))}; functions: "
            f"{', '.join(_FUNCTIONS)}"
        )
    if function == "constant":
        literal = _literal(inside)
        if literal is None:
            raise InputError('expected a constant in JSON such as 0.5, [1, 2] or "text"')
        return constant(literal)
    least, most, takes_width = _FUNCTIONS[function]
    positional: list[str] = []
    options: dict[str, str] = {}
    for argument in _arguments(inside):
        name, separator, value = argument.partition("=")
        if not separator or argument.lstrip().startswith('"'):
            positional.append(argument)
        elif name.strip() in options:
            raise InputError(f"'{name.strip()}' is given twice")
        else:
            options[name.strip()] = value.strip()
    expression = Expression(function)
    if takes_width and len(positional) == most + 1:
        expression = replace(expression, width=_whole(positional.pop()))
    if not least <= len(positional) <= most:
        expected = (
            f"{least} column"
            + ("" if most == 1 else "s")
            + (" and a number" if takes_width else "")
        )
        raise InputError(
            f"{function}() takes {expected if most else 'nothing'}, got {len(positional)} arguments"
        )
    expression = replace(expression, columns=tuple(_column(argument) for argument in positional))
    if function == "padded" and expression.width is None:
        raise InputError("padded() needs a number of values, such as padded(items, 50)")
    for name, value in options.items():
        expression = _with_option(expression, name, value)
    return expression


def _with_option(expression: Expression, name: str, text: str) -> Expression:
    known = sorted(_KEYWORDS.get(expression.function, ()))
    if name not in known:
        raise InputError(
            f"{expression.function}() has no option "
            f"'{name}'{did_you_mean(name, known)}; options: "
            f"{', '.join(known) or 'none'}"
        )
    choices = {
        "side": ("left", "right"),
        "keep": ("first", "last"),
        "round": ("true", "false"),
    }.get(name)
    change: dict[str, Any] = {name: text}
    if choices is not None:
        InputError.when(
            text not in choices, f"{name}: expected {' or '.join(choices)}, got '{text}'"
        )
        return (
            replace(expression, rounded=text == "true")
            if name == "round"
            else replace(expression, **change)
        )
    if name == "fill" and text == "empty" and expression.of_list:
        return replace(expression, fill_empty=True)
    value = _literal(text)
    if not isinstance(value, (int, float, str)):
        raise InputError(
            f"{name}: expected a number, true, false or a text in quotes, got '{text}'"
        )
    change[name] = value
    return replace(expression, **change)


def _arguments(text: str) -> list[str]:
    """The arguments between the parentheses: commas in quotes are part of a name."""
    if not text.strip():
        return []
    return [part.strip() for part in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^",])+|(?<=,)(?=,)', text)]


def _column(text: str) -> str:
    text = text.strip()
    if text.startswith('"'):
        name = _literal(text)
        if isinstance(name, str):
            return name
    elif _BARE.fullmatch(text):
        return text
    raise InputError(
        "expected the name of a column, one that is not a plain word in "
        "double quotes" + (f", got {text}" if text else "")
    )


def _quoted(column: str) -> str:
    plain = (
        _BARE.fullmatch(column) is not None
        and column == column.strip()
        and _literal(column) is None
    )
    return column if plain else json.dumps(column, ensure_ascii=False)


def _literal(text: str) -> Any:
    """The JSON value of a text; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text[:9]) <= 10**8 or len(text.strip()) > 9:
        raise InputError(f"expected a number of values from 1 to 100000000, got '{text.strip()}'")
    return int(text)
