"""What the emitter of loop nests knows at a place of the text: positions of axes, values, and how
the vector's axis runs here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Union

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import BOOL, I32, I64, Kernel, Type, Value, Variable
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.loops.language import Program, linear, name_of
from uncork.kernels.loops.spec import Nest

#: The values of an expression: one number, or a vector for each of those that go together; a Python
#: number has no type yet.
Operand = Union[int, float, list[Value]]


class State:
    """The kernel under construction and what is in scope.

    `mode` is "none" outside the vector's axis, "full" where all lanes and all that they read are
    there, "masked" where `active` says which lanes there are, and "single" where one element at a
    time takes the place of a vector.
    """

    def __init__(
        self, k: Kernel, spec: Nest, program: Program, arguments: dict[str, Value]
    ) -> None:
        self.k, self.spec, self.program, self.arguments = k, spec, program, arguments
        self.types = dict(spec.types)
        self.default: Type = COMPUTED[spec.main_type]
        self.at: dict[str, Value] = {name: arguments[name] for name in program.integers}
        self.fixed: dict[str, int] = {}
        self.values: dict[str, list[Value]] = {}
        self.running: dict[str, list[Variable]] = {}
        #: Reductions along the vector's axis, and those of them that are read inside their own
        #: loop.
        self.across: set[str] = set()
        self.scanned: set[str] = set()
        self.kinds: dict[str, Type] = {}
        self.cache: dict[str, list[Value]] = {}
        #: Where vectors' axes end that do not run over all of a size.
        self.ends: dict[str, Value] = {}
        self.vector, self.mode, self.vectors = "", "none", 1
        self.active: Value | None = None
        #: Of a vector that lies over the one before it, the lanes that no other has had.
        self.fresh: Value | None = None

    @property
    def lanes(self) -> int:
        return self.spec.lanes if self.mode in ("full", "masked") else 1

    def size(self, axis: str) -> Value:
        """The turns of an axis, or where it ends."""
        if axis in self.ends:
            return self.ends[axis]
        fixed = self.program.axes[axis].size
        return self.arguments[axis] if fixed is None else self.k.integer(fixed)

    def varies(self, node: ast.AST) -> bool:
        """Whether the value of a node differs from lane to lane."""
        if self.lanes == 1:
            return False
        names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
        return any(
            n == self.vector or any(v.lanes > 1 for v in self.values.get(n, ())) for n in names
        )

    def iota(self) -> Value:
        """The vector of lane numbers: 0, 1, 2, .."""
        return Value(
            self.k,
            ir.Constant(ir.VectorType(I32.llvm, self.lanes), list(range(self.lanes))),
            I32,
            self.lanes,
        )

    # ---- integers

    def position(self, node: ast.expr) -> Value:
        """The value of an integer expression that is the same in all lanes."""
        k = self.k
        if isinstance(node, ast.Constant):
            return k.integer(int(ast.literal_eval(node)))
        if isinstance(node, ast.Name):
            if node.id in self.at:
                return self.at[node.id]
            (value,) = self.values[node.id]  # of one lane, where there are no vectors
            return value.to(I64)
        if isinstance(node, ast.UnaryOp):
            return -self.position(node.operand)
        if isinstance(node, ast.Call) and name_of(node.func) == "near":
            return self.position(node.args[0])
        if isinstance(node, ast.Call) and name_of(node.func) == "at":
            return self.values[name_of(node.args[0])][0].to(I64)
        if isinstance(node, ast.Subscript):
            (value,) = self.reads(node)
            return value.to(I64)
        assert isinstance(node, ast.BinOp), f"no integer: {ast.unparse(node)}"
        a, b = self.position(node.left), self.position(node.right)
        return _arithmetic(node.op)(a, b)

    #: Set by the emitter: the values of an element of a view.
    reads: Callable[[ast.Subscript], list[Value]]

    def lane_numbers(self, node: ast.expr) -> list[Value]:
        """An integer expression in 32 bits, lane by lane."""
        if isinstance(node, ast.Name) and node.id in self.values:
            return self.values[node.id]
        if not self.varies(node):
            return [self.position(node).to(I32)]
        if isinstance(node, ast.Name):
            lanes = self.lanes
            return [
                self.k.splat((self.at[node.id] + u * lanes).to(I32), lanes) + self.iota()
                for u in range(self.vectors)
            ]
        if isinstance(node, ast.UnaryOp):
            return [-value for value in self.lane_numbers(node.operand)]
        assert isinstance(node, ast.BinOp), f"no integer: {ast.unparse(node)}"
        return self.each(
            _arithmetic(node.op), self.lane_numbers(node.left), self.lane_numbers(node.right)
        )

    # ---- operands

    def each(
        self, make: Callable[..., Value], *operands: Operand, type_: Type | None = None
    ) -> list[Value]:
        """The results of `make`, one for each vector of the operands; numbers become vectors where
        others are.
        """
        k = self.k
        typed = [values for values in operands if isinstance(values, list)]
        kind = type_ or next((v[0].type for v in typed if v[0].type != BOOL), self.default)
        given = [v if isinstance(v, list) else [k.constant(v, kind)] for v in operands]
        lanes, count = max(v[0].lanes for v in given), max(map(len, given))
        wide = [[k.splat(x, lanes) if x.lanes < lanes else x for x in v] for v in given]
        return [make(*(v[u % len(v)] for v in wide)) for u in range(count)]

    def typed(self, operand: Operand, type_: Type) -> list[Value]:
        return operand if isinstance(operand, list) else [self.k.constant(operand, type_)]

    # ---- which factor the vector's axis has in an index

    def is_checked(self, node: ast.expr) -> bool:
        """Whether the condition for full vectors tells if this index is inside."""
        found = linear(node)
        return found is not None and all(n in self.at for n in found.factors)

    def factor(self, node: ast.expr) -> int:
        """The step of an index from lane to lane, where it is a sum of axes; else 0."""
        found = linear(node)
        return (
            found.factors.get(self.vector, 0) if found is not None and self.is_checked(node) else 0
        )


def _arithmetic(operator: Any) -> Callable[[Value, Value], Value]:
    """Integer arithmetic; `//` and `%` are of numbers that are not negative."""
    return {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.FloorDiv: lambda a, b: a // b,
        ast.Mod: lambda a, b: a - a // b * b,
    }[type(operator)]
