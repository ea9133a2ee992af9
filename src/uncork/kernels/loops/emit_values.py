"""Expressions of loop nests: arithmetic, comparisons, functions and elements of views."""

from __future__ import annotations

import ast
from collections.abc import Callable

from uncork.kernels.codegen import functions
from uncork.kernels.codegen.activations import exp
from uncork.kernels.codegen.emit import BOOL, F64, I32, I64, Kernel, Type, Value
from uncork.kernels.codegen.joining import identity, joined, plus
from uncork.kernels.codegen.scalar_ops import COMPUTED, SCALAR_OPS, absolute
from uncork.kernels.loops.emit_state import Operand, State
from uncork.kernels.loops.emit_views import Views
from uncork.kernels.loops.language import SCALAR_OP, STORES, name_of

_COMPARED: dict[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a.equals(b),
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def _truncated(k: Kernel, a: Value) -> Value:
    return a.to(I32)


def _remainder(k: Kernel, a: Value, b: Value) -> Value:
    """a modulo b, from 0 to below b, of whole numbers a up to 2^40 and b up to 2^24: exactly, for
    f64 holds all products; the quotient may be one off.
    """
    whole, divisor = a.to(F64), b.to(F64)
    share = k.constant(1.0, F64, a.lanes) / divisor
    rest = k.fma(-k.intrinsic("floor", whole * share), divisor, whole)
    rest = k.select(rest < 0.0, rest + divisor, rest)
    return k.select(rest >= divisor, rest - divisor, rest).to(a.type)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "log": functions.log,
    "larger": functions.larger,
    "smaller": functions.smaller,
    "where": lambda k, c, a, b: k.select(c, a, b),
    "both": lambda k, a, b: a & b,
    "either": lambda k, a, b: a | b,
    "differs": lambda k, a: functions.negated(k, a.equals(a)),
    "truncated": _truncated,
    "fused": lambda k, a, b, c: k.fma(a, b, c),
    "remainder": _remainder,
    **{word: (lambda k, a, word=word: k.intrinsic(word, a)) for word in ("sqrt", "rint", "floor")},
    "abs": absolute,
    "lane_sum": lambda k, a: joined(k, a, plus),
}


class Values:
    """Makes the values of expressions."""

    def __init__(self, state: State, views: Views) -> None:
        self.state, self.views, self.k = state, views, state.k

    def kind(self, node: ast.expr) -> Type | None:
        """The type of an expression; None of numbers of the text."""
        s = self.state
        if isinstance(node, ast.Subscript):
            return COMPUTED[s.types[name_of(node.value)]]
        if isinstance(node, ast.Name):
            return s.kinds.get(node.id)
        if isinstance(node, ast.Compare):
            return BOOL
        if isinstance(node, ast.Call):
            word = name_of(node.func)
            if word in ("integer", "truncated"):
                return I32
            if word == "index":
                return I64
            if word in ("size", "number", "inside", "real"):
                return s.default
            return next(
                (
                    t
                    for a in (node.args[1:] if word == "where" else node.args)
                    if (t := self.kind(a)) is not None
                ),
                None,
            )
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
        return next((t for n in parts if (t := self.kind(n)) is not None), None)

    def typed(self, node: ast.expr) -> list[Value]:
        """The values of an expression; numbers get the type of the computation."""
        value = self.value(node)
        return value if isinstance(value, list) else [self.k.constant(value, self.state.default)]

    def stored(self, node: ast.expr) -> tuple[str, list[list[Value]]]:
        """How values are stored in a view (one of the words `STORES`, or empty), and these
        values.
        """
        if isinstance(node, ast.Call) and name_of(node.func) in STORES:
            return name_of(node.func), [self.typed(part) for part in node.args]
        return "", [self.typed(node)]

    def value(self, node: ast.expr) -> Operand:
        """The values of an expression."""
        s = self.state
        if isinstance(node, ast.Constant):
            number: int | float = ast.literal_eval(node)
            return number
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Subscript):
            return self._cached(ast.unparse(node), lambda: self.views.read(node))
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand)
            return [-x for x in inner] if isinstance(inner, list) else -inner
        if isinstance(node, ast.BinOp):
            return s.each(_ARITHMETIC[type(node.op)], self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Compare):
            return s.each(
                _COMPARED[type(node.ops[0])], self.value(node.left), self.value(node.comparators[0])
            )
        assert isinstance(node, ast.Call), f"no expression: {ast.unparse(node)}"
        return self._called(name_of(node.func), node.args)

    def _cached(self, key: str, make: Callable[[], list[Value]]) -> list[Value]:
        cache = self.state.cache
        if key not in cache:
            cache[key] = make()
        return cache[key]

    def _named(self, name: str) -> Operand:
        s = self.state
        if name in ("lowest", "highest"):
            return identity("max" if name == "lowest" else "min", s.default)
        if name in s.running and name not in s.scanned:
            return [variable.get() for variable in s.running[name]]
        return s.values[name]

    def _called(self, word: str, arguments: list[ast.expr]) -> Operand:
        s, k = self.state, self.k
        if word == "size":
            return [s.size(name_of(arguments[0])).to(s.default)]
        if word == "number":
            return [s.position(arguments[0]).to(s.default)]
        if word == "real":
            return [value.to(s.default) for value in self.typed(arguments[0])]
        if word == "integer":
            return s.lane_numbers(arguments[0])
        if word == "index":
            numbers, base = s.lane_numbers(arguments[0]), s.position(arguments[1])
            return [number.to(I64) + k.splat(base, number.lanes) for number in numbers]
        if word in ("pad", "inside"):
            view = arguments[0]
            assert isinstance(view, ast.Subscript)
            if word == "inside":
                return self.views.inside(view)
            padding = self.value(arguments[1])
            return self._cached(f"pad({ast.unparse(view)})", lambda: self.views.read(view, padding))
        if word.startswith(SCALAR_OP):
            return self._scalar(word.removeprefix(SCALAR_OP), arguments)
        kind = next((t for a in arguments if (t := self.kind(a)) not in (None, BOOL)), None)
        return s.each(
            lambda *values: _FUNCTIONS[word](k, *values),
            *(self.value(a) for a in arguments),
            type_=kind,
        )

    def _scalar(self, op: str, arguments: list[ast.expr]) -> Operand:
        """What a scalar operation makes of values; numbers of the text are numbers of its own."""
        given = [self.value(a) for a in arguments if self.kind(a) is not None]
        numbers = [float(ast.literal_eval(a)) for a in arguments if self.kind(a) is None]
        return self.state.each(lambda *values: SCALAR_OPS[op](self.k, values, numbers), *given)
