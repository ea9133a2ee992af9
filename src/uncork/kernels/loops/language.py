"""The language of loop nests: a few lines that say which loops run over which views, and what they
compute.

    n y:                                                    loops, the outermost first
      u*:                                                   * : by vectors; indented: what is in it
        j=3: m = max(pad(X[n, 2*y + j - 1, u], lowest))     =3 : so many turns, written out
        T[u] = m
      x*:
        i=3: m = max(pad(T[2*x + i - 1], lowest))
        Y[n, y, x] = m

Small letters are axes or values, capitals are views. An axis without a number is as long as an
argument of the kernel says; `j=a..b` runs from one integer expression to another. A line is loops
with a colon, statements separated by `;`, or both.

    name = sum|max|min|prod|top(expression)   over the loops of its line; inside them: what it is
                                              so far; a top may lose what is no number
    name = expression                         View[index, ..] = expression

An index is a sum of axes times numbers (the vector's axis times 1 to 4, or -1, in the last place),
`x // 2`, `x % 16` (the vector's axis by its lanes: the same vector each time), an element of a view
of integers (`near(..)` where a vector's positions lie within two vectors that may be read, from the
first one or from a second expression on), `at(value)` with a computed position, or any integer
expression without the vector's axis. A small name that is no axis is an argument.

    pad(View[..], value)        what lies outside is `value`
    inside(View[..])            1 inside and 0 outside
    size(axis)                  as a number of the computation; number(integer expression)
    integer(expression)         an integer expression in 32 bits, lane by lane
    fused(a, b, c)              a * b + c, rounded once
    lane_sum(a)                 the sum of the lanes of each vector, all of which are whole
    remainder(a, b)             of whole numbers, from 0 to below b
    index(lanes, expression)    32 bits lane by lane and an integer, added in 64
    real(expression)            whole numbers of a view as numbers of the computation
    do_name(.., numbers)        what the scalar operation `name` makes of values, which come before
                                the numbers that are part of it

`refused = condition`: where it holds, in any lane, the kernel gives up, and the reference computes
the layer or says what is wrong. `View[.., 3*x] = interleaved(a, b, c)` stores the elements of so
many vectors in turns; `T[x] = whole(a)` stores whole vectors, behind the axis' end too, where a
view has room for them: what is stored so is read again sooner.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import Union

from msgspec import Struct

REDUCTIONS = ("sum", "max", "min", "top", "prod")
#: How a view is given values, if not one vector as long as the axis goes.
STORES = ("interleaved", "whole")
#: The name by which a text refuses values.
REFUSED = "refused"


class Axis(Struct, frozen=True):
    """A loop axis. `size`: the number of its turns, where the text says it; `bounds`: where it
    begins and ends; with neither, an argument says how many turns.
    """

    name: str
    size: int | None
    vector: bool
    bounds: tuple[ast.expr, ast.expr] | None = None


class Assign(Struct, frozen=True):
    """A statement: `target` is a name or an element of a view; `reduction` is the word of a
    reduction of `value`, or empty.
    """

    target: ast.Name | ast.Subscript
    reduction: str
    value: ast.expr


class LoopBlock(Struct, frozen=True):
    """Loops around statements and other blocks."""

    axes: tuple[Axis, ...]
    body: tuple[Union[Assign, LoopBlock], ...]

    @property
    def statements(self) -> Iterator[Assign]:
        """All statements, those of inner blocks included."""
        for item in self.body:
            if isinstance(item, Assign):
                yield item
            else:
                yield from item.statements

    @property
    def all_axes(self) -> Iterator[Axis]:
        """The axes of the block and those of inner blocks."""
        yield from self.axes
        for item in self.body:
            if isinstance(item, LoopBlock):
                yield from item.all_axes


class Program(Struct, frozen=True, eq=False):
    """A parsed text: what runs, and what the kernel takes: sizes of axes, other integers, and views
    with their ranks.
    """

    body: LoopBlock
    sizes: tuple[str, ...]
    integers: tuple[str, ...]
    views: dict[str, int]
    axes: dict[str, Axis]

    @property
    def arguments(self) -> list[str]:
        """The kernel's arguments: sizes and integers, then of each view its address, its sizes and
        its strides in bytes.
        """
        names = [*self.sizes, *self.integers]
        for view, rank in self.views.items():
            names += [
                view,
                *(f"{view}_{what}_{d}" for d in range(rank) for what in ("size", "stride")),
            ]
        return names


@functools.lru_cache(maxsize=512)
def parse(text: str) -> Program:
    """The parsed program of a text."""
    lines = [
        (len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()
    ]
    body, rest = _items(lines, 0)
    assert not rest, f"indented less than before: {rest[0][1]}"
    whole = LoopBlock((), tuple(body))
    axes = {axis.name: axis for axis in whole.all_axes}
    sizes = [name for name, axis in axes.items() if axis.size is None and axis.bounds is None]
    return Program(whole, tuple(sizes), tuple(_integers(whole, axes)), _views(whole), axes)


def _items(
    lines: list[tuple[int, str]], depth: int
) -> tuple[list[Assign | LoopBlock], list[tuple[int, str]]]:
    """The statements and blocks at this depth, and the lines behind them."""
    items: list[Assign | LoopBlock] = []
    while lines and lines[0][0] >= depth:
        indent, line = lines[0]
        head, colon, tail = line.partition(":")
        if not colon:
            items += _statements(line)
            lines = lines[1:]
            continue
        axes = tuple(_axis(word) for word in head.split())
        if tail.strip():
            items.append(LoopBlock(axes, tuple(_statements(tail))))
            lines = lines[1:]
        else:
            body, lines = _items(lines[1:], indent + 1)
            items.append(LoopBlock(axes, tuple(body)))
    return items, lines


def _axis(word: str) -> Axis:
    match = re.fullmatch(r"(\w+)(\*?)(?:=(.+))?", word)
    assert match, f"no axis: {word}"
    name, star, size = match.groups()
    if size is None or size.isdigit():
        return Axis(name, None if size is None else int(size), bool(star))
    first, _, last = size.partition("..")
    return Axis(
        name,
        None,
        bool(star),
        (ast.parse(first, mode="eval").body, ast.parse(last, mode="eval").body),
    )


def _statements(line: str) -> list[Assign]:
    result: list[Assign] = []
    for statement in ast.parse(line.strip()).body:
        assert isinstance(statement, ast.Assign), f"no statement: {line}"
        (target,), value = statement.targets, statement.value
        assert isinstance(target, (ast.Name, ast.Subscript)), f"no target: {line}"
        word = (
            value.func.id
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)
            else ""
        )
        if word in REDUCTIONS and isinstance(target, ast.Name):
            assert isinstance(value, ast.Call)
            result.append(Assign(target, word, value.args[0]))
        else:
            result.append(Assign(target, "", value))
    return result


def _nodes(block: LoopBlock) -> Iterator[ast.AST]:
    for axis in block.all_axes:
        for bound in axis.bounds or ():
            yield from ast.walk(bound)
    for statement in block.statements:
        yield from ast.walk(statement.target)
        yield from ast.walk(statement.value)


def name_of(node: ast.expr) -> str:
    """The identifier of a node that is a name."""
    assert isinstance(node, ast.Name)
    return node.id


def indices(node: ast.Subscript) -> list[ast.expr]:
    """The indices of an element of a view."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _views(block: LoopBlock) -> dict[str, int]:
    return {
        name_of(n.value): len(indices(n)) for n in _nodes(block) if isinstance(n, ast.Subscript)
    }


def _integers(block: LoopBlock, axes: dict[str, Axis]) -> list[str]:
    """The names of integer arguments: those that nothing in the text gives a value."""
    given = {*axes, *_views(block), *FUNCTIONS, "lowest", "highest"}
    given |= {s.target.id for s in block.statements if isinstance(s.target, ast.Name)}
    names = [node for node in _nodes(block) if isinstance(node, ast.Name)]
    return list(
        dict.fromkeys(n.id for n in names if n.id not in given and not n.id.startswith(SCALAR_OP))
    )


#: What names of scalar operations begin with.
SCALAR_OP = "do_"
#: The other functions of the language.
FUNCTIONS = frozenset(
    {
        *REDUCTIONS,
        "pad",
        "inside",
        "size",
        "number",
        "integer",
        "at",
        "exp",
        "log",
        "sqrt",
        "rint",
        "floor",
        "abs",
        "larger",
        "smaller",
    }
    | {"where", "both", "either", "differs", "index", "near", "truncated", "remainder", "fused"}
    | {"lane_sum"}
    | {"real", *STORES}
)


def repeats(node: ast.expr) -> bool:
    """Whether an index is such as `x % 16`, x being the vector's axis, and 16 its lanes: the same
    vector again and again.
    """
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and isinstance(node.left, ast.Name)
        and isinstance(node.right, ast.Constant)
    )


class Linear(Struct, frozen=True):
    """A linear expression: a sum of names times numbers, plus a number."""

    factors: dict[str, int]
    constant: int


def linear(node: ast.expr) -> Linear | None:
    """An index as a linear expression; None when it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Linear({}, node.value)
    if isinstance(node, ast.Name):
        return Linear({node.id: 1}, 0)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = linear(node.operand)
        return None if inner is None else _scaled(inner, -1)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = linear(node.left), linear(node.right)
    if left is None or right is None:
        return None
    if isinstance(node.op, (ast.Add, ast.Sub)):
        other = _scaled(right, 1 if isinstance(node.op, ast.Add) else -1)
        factors = dict(left.factors)
        for name, factor in other.factors.items():
            factors[name] = factors.get(name, 0) + factor
        return Linear(factors, left.constant + other.constant)
    if isinstance(node.op, ast.Mult) and not left.factors:
        return _scaled(right, left.constant)
    if isinstance(node.op, ast.Mult) and not right.factors:
        return _scaled(left, right.constant)
    return None


def certainly_linear(node: ast.expr) -> Linear:
    """An index that must be a linear expression."""
    found = linear(node)
    if found is None:
        raise AssertionError(f"no sum of axes times numbers: {ast.unparse(node)}")
    return found


def _scaled(given: Linear, by: int) -> Linear:
    return Linear(
        {name: factor * by for name, factor in given.factors.items()}, given.constant * by
    )
