"""The mapping of columns to inputs: read from flags or TOML, bound to a model and a schema.

Binding is done before any row is read.

    [inputs]
    a = "padded(items, 50)"
    b = "length(items, 50)"

An input that nobody maps takes the column of one of its names. Everything that can be known before
a row is read is checked here, and every problem is in one error: names, element types, numbers of
dimensions, fixed sizes. The result, `Mapping`, is frozen and can be pickled; `columns.py` does what
it says.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping as Given
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

from uncork.compiler.arguments import ModelPort, did_you_mean
from uncork.errors import InputError, Problem, nearest
from uncork.ir.ports import find_input
from uncork.score.expression import Expression, constant, parse
from uncork.types import Dimension, ElementType, PartialShape


@dataclass(frozen=True)
class BoundInput:
    """An input of the model and where it comes from."""

    name: str
    element_type: ElementType
    shape: PartialShape
    expression: Expression
    #: What a constant is, as an array of the input's carrier type; one for each row when `per_row`.
    value: Any = field(default=None, compare=False)  # follows from the expression
    per_row: bool = True


@dataclass(frozen=True)
class Mapping:
    """All inputs of a model, in the model's order."""

    inputs: tuple[BoundInput, ...]
    #: The number of rows of a call, where the model's shapes fix it.
    batch: int | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read, once."""
        return tuple(
            dict.fromkeys(column for bound in self.inputs for column in bound.expression.columns)
        )

    def advice(self, expression: Expression, value: Any) -> str:
        """What to write instead of a `length(items)` that gave a value which a layer refuses, where
        `padded(items, 20)` keeps fewer; else nothing.
        """
        if expression.function != "length" or expression.width is not None:
            return ""
        for bound in self.inputs:
            other = bound.expression
            kept = other.width
            same = other.function == "padded" and other.columns == expression.columns
            if same and kept is not None and value > kept:
                return f"; write {replace(expression, width=kept)}, as {other} keeps no more"
        return ""

    def to_text(self) -> dict[str, str]:
        """The text of each input's expression, which tells two mappings apart."""
        return {bound.name: str(bound.expression) for bound in self.inputs}


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a mapping file.

    Raises InputError when it is no TOML or has tables that a mapping file does not have.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            content: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not TOML: {error}", str(path)) from None
    except RecursionError:  # the library has a call for each bracket
        raise InputError(
            "is nested too deeply: expected tables, and lists of columns", str(path)
        ) from None
    known = {"inputs": dict, "outputs": dict, "keep": list, "top_k": int}
    for name, value in content.items():
        if name not in known:
            raise InputError(
                f"has no meaning for '{name}'{did_you_mean(name, list(known))}; "
                f"known: {', '.join(known)}",
                str(path),
            )
        if not isinstance(value, known[name]):
            raise InputError(
                f"'{name}': expected a {known[name].__name__}, got {value!r}", str(path)
            )
    return content


def expression_of(value: Any, where: str) -> Expression:
    """An expression from its text, or a constant given as a number, a truth value or a list."""
    if isinstance(value, str):
        return parse(value, where)
    try:
        return constant(value.tolist() if isinstance(value, np.ndarray) else value)
    except (TypeError, ValueError):
        raise InputError(
            "expected an expression such as 'values(items)' or a constant, "
            f"got {type(value).__name__}",
            where,
        ) from None


def name_of(said: object, what: str) -> str:
    """The name by which an input or output is called, or its position as text."""
    if isinstance(said, str):
        return said
    try:
        return str(index(said))  # type: ignore[arg-type]
    except TypeError:
        raise InputError(f"expected a name or a position, got {said!r}", f"{what}s") from None


def bind(ports: Sequence[ModelPort], schema: pa.Schema, given: Given[Any, Any]) -> Mapping:
    """Give each input of the model its expression and check all of it against the model and the
    columns.

    `given` maps names of inputs, or their positions as text, to expressions. Raises InputError that
    lists every problem.
    """
    problems: list[Problem] = []
    expressions: dict[int, Expression] = {}
    # Inputs that were meant by a name that none has, or an expression that is none: what follows
    # from that is no problem of its own.
    meant: set[int | None] = set()
    for said, value in given.items():
        name = name_of(said, "input")
        position = find_input(ports, name)
        try:
            if position is None:
                known = [n for port in ports for n in port.names]
                meant.add(find_input(ports, nearest(name, known) or ""))
                raise InputError(
                    f"no input is called '{name}'{did_you_mean(name, known)}; inputs: "
                    f"{', '.join(map(str, ports))}"
                )
            InputError.when(position in expressions, f"input '{name}' is mapped twice")
            meant.add(position)  # until its expression is read
            expressions[position] = expression_of(value, f"input '{name}'")
        except InputError as error:
            problems.extend(error.problems)
    bound: list[BoundInput] = []
    for position, port in enumerate(ports):
        name = port.name or str(position)
        if position in meant and position not in expressions:
            continue
        expression = expressions.get(position) or _by_name(port, schema)
        if expression is None:
            columns = ", ".join(schema.names[:20])
            problems.append(
                Problem(
                    f"input '{name}'",
                    f"{port.element_type}{port.shape} is not mapped, "
                    f"and no column has its name; columns: {columns}",
                )
            )
            continue
        try:
            bound.append(_bound(name, port, expression, schema))
        except InputError as error:
            problems.extend(error.at(f"input '{name}'").problems)
    batches = {
        int(b.shape[0]): b.name
        for b in bound
        if _has_rows(b) and b.shape.rank and b.shape[0].is_static
    }
    if len(batches) > 1:
        listed = ", ".join(f"{size} ('{name}')" for size, name in batches.items())
        problems.append(Problem("", f"the inputs fix different numbers of rows: {listed}"))
    InputError.when_any("mapping", problems)
    return Mapping(tuple(bound), next(iter(batches), None))


def _has_rows(bound: BoundInput) -> bool:
    """Whether the first dimension of the input counts rows."""
    function = bound.expression.function
    return function in ("column", "stack", "offsets", "padded", "length") or (
        function == "constant" and bound.per_row
    )


def _by_name(port: ModelPort, schema: pa.Schema) -> Expression | None:
    name = next((n for n in port.names if n in schema.names), None)
    return None if name is None else Expression("column", (name,))


def _bound(name: str, port: ModelPort, expression: Expression, schema: pa.Schema) -> BoundInput:
    if expression.function == "constant":
        return _bound_constant(name, port, expression)
    shape, kinds = _made(port, expression, schema)
    # One value a row is also what an input [rows, 1] takes.
    columned = (
        shape.rank == 1
        and port.shape.rank == 2
        and port.shape[1] == 1
        and expression.function != "values"
    )
    if not port.shape.compatible(PartialShape([*shape, 1]) if columned else shape):
        raise InputError(
            f"expected shape {port.shape}, and {expression} gives "
            f"{_shown(shape, expression)}{_hint(port, expression, schema)}"
        )
    allowed = {"float": "fiu", "signed": "iu", "unsigned": "iu", "boolean": "b", "string": "s"}[
        port.element_type.kind
    ]
    for column, kind in kinds.items():
        if kind not in allowed:
            why = (
                ("; ids and counts are never rounded: convert the column itself")
                if kind == "f" and port.element_type.is_integer
                else ""
            )
            raise InputError(
                f"expected {port.element_type}, and column '{column}' has "
                f"{schema.field(column).type}{why}"
            )
    InputError.when(
        not kinds and not port.element_type.is_integer,
        f"expected {port.element_type}, and {expression} gives whole numbers",
    )
    InputError.when(
        expression.rounded and not port.element_type.is_float,
        f"round=true is for floats, and the input is {port.element_type}",
    )
    return BoundInput(name, port.element_type, port.shape, expression)


def _made(
    port: ModelPort, expression: Expression, schema: pa.Schema
) -> tuple[PartialShape, dict[str, str]]:
    """The shape that an expression makes, and the kind of each column whose values it passes on."""
    types = {column: column_type(schema, column) for column in expression.columns}
    if expression.function == "rows":
        return (
            PartialShape([]) if port.shape.compatible(PartialShape([])) else PartialShape([1])
        ), {}
    if expression.of_list:
        (column,) = expression.columns
        inner = list_item(types[column])
        if inner is None and expression.function in ("values", "offsets", "segments"):
            inner = types[column]  # bags of one
        if inner is None:
            raise InputError(
                f"{expression.function}() needs a column of lists, "
                f"and column '{column}' has {types[column]}"
            )
        if expression.function in ("offsets", "segments", "length"):
            return PartialShape([None]), {}
        shape = PartialShape(
            [None] if expression.function == "values" else [None, expression.width]
        )
        return shape, {column: kind_of(inner, column)}
    if expression.function == "stack":
        for column, found in types.items():
            if list_item(found) is not None:
                raise InputError(
                    f"stack() takes columns of single values, and column '{column}' has {found}"
                )
        return PartialShape([None, len(expression.columns)]), {
            c: kind_of(t, c) for c, t in types.items()
        }
    (column,) = expression.columns
    dims: list[Dimension | int | None] = [None]
    inner = types[column]
    while (item := list_item(inner)) is not None:
        dims.append(inner.list_size if pa.types.is_fixed_size_list(inner) else None)
        inner = item
    if len(dims) > 1 and any(dim is None for dim in dims[1:]):
        # Rows of one length, when the model says which: a row of another length is a bad row.
        if len(dims) == 2 and port.shape.rank == 2 and port.shape[1].is_static:
            return PartialShape([None, port.shape[1]]), {column: kind_of(inner, column)}
        raise InputError(
            f"column '{column}' has lists of any length ({types[column]}), "
            f"and the input is {port}{_list_hint(column)}"
        )
    return PartialShape(dims), {column: kind_of(inner, column)}


def _bound_constant(name: str, port: ModelPort, expression: Expression) -> BoundInput:
    from uncork.compiler.arguments import accept

    value = json.loads(expression.constant)
    if port.element_type is ElementType.string:
        value = np.array(value, object)
    rank = np.ndim(np.array(value, object)) if not isinstance(value, np.ndarray) else value.ndim
    if (
        port.shape.rank is not None
        and rank == port.shape.rank - 1
        and not port.shape.contains(np.shape(value))
    ):
        shape = port.shape[1:]
        return BoundInput(
            name,
            port.element_type,
            port.shape,
            expression,
            accept(ModelPort((name,), port.element_type, shape), value),
            True,
        )
    return BoundInput(name, port.element_type, port.shape, expression, accept(port, value), False)


def column_type(schema: pa.Schema, column: str) -> pa.DataType:
    """The type of a column.

    Raises InputError with the near name when there is none, or more than one.
    """
    count = len(schema.get_all_field_indices(column))
    if count != 1:
        what = (
            f"there is no column '{column}'{did_you_mean(column, schema.names)}"
            if not count
            else f"{count} columns are called '{column}'"
        )
        raise InputError(
            f"{what}; columns: {', '.join(schema.names[:20])}"
            f"{' ...' if len(schema.names) > 20 else ''}"
        )
    found = schema.field(column).type
    return found.value_type if pa.types.is_dictionary(found) else found


def list_item(found: pa.DataType) -> pa.DataType | None:
    """The type of a list's items; None when it is no list."""
    types = pa.types
    if types.is_list(found) or types.is_large_list(found) or types.is_fixed_size_list(found):
        return found.value_type
    return None


def kind_of(found: pa.DataType, column: str) -> str:
    """The kind of a column's type: i, u, f, b or s. Raises InputError for types that no input
    takes.
    """
    types = pa.types
    if types.is_dictionary(found):
        found = found.value_type
    for kind, test in (
        ("i", types.is_signed_integer),
        ("u", types.is_unsigned_integer),
        ("f", types.is_floating),
        ("b", types.is_boolean),
    ):
        if test(found):
            return kind
    if types.is_string(found) or types.is_large_string(found):
        return "s"
    raise InputError(
        f"column '{column}' has {found}, which is no input's type: "
        "convert it to numbers, truth values or text first"
    )


def _shown(shape: PartialShape, expression: Expression) -> str:
    return str(shape).replace(
        "?", "values" if expression.function in ("values", "segments") else "rows", 1
    )


def _hint(port: ModelPort, expression: Expression, schema: pa.Schema) -> str:
    if (
        expression.function == "column"
        and list_item(column_type(schema, expression.columns[0])) is not None
    ):
        return _list_hint(expression.columns[0])
    return ""


def _list_hint(column: str) -> str:
    return (
        f"; see values({column}), offsets({column}), padded({column}, 50) and length({column}, 50)"
    )
