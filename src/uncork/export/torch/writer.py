"""`Writer`, by which a lowering writes torch source. It names values after layers and keeps
computed shapes as Python's integers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, Union

import numpy as np

from uncork.errors import UnsupportedError
from uncork.export.torch import types
from uncork.export.torch.names import identifier
from uncork.ops.parameter import Const
from uncork.types import Array, ElementType, PartialShape, TensorSpec

I64 = ElementType.i64
#: Tensors whose text is longer than this get a statement of their own.
INLINE = 60
#: Integer tensors up to this many elements may be lists of Python's integers.
SMALL = 64


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the model: the source that gives it, and what is known of it.

    `elements` are the elements of a small integer tensor as expressions of Python's integers; a
    value that has them may have no tensor (`code` is "").
    """

    code: str
    type: ElementType
    shape: PartialShape
    value: Array | None = None
    elements: tuple[str, ...] | None = None
    constant: int | None = None
    #: Whether it is trained although it is a single number.
    trained: bool = False

    @property
    def rank(self) -> int | None:
        return self.shape.rank

    def known(self) -> list[int] | None:
        """The elements of an integer tensor, in order, where they are all known."""
        if self.value is None or self.type.is_float:
            return None
        return [int(v) for v in np.asarray(self.value).reshape(-1)]


@dataclass(frozen=True)
class Elements:
    """The integers that a lowering returns where Python computes them, not tensors."""

    items: tuple[str, ...]


#: What a lowering returns: one expression, one of several values, integers, a value that is there,
#: or a list with one of these for each output.
Written = Union[str, Elements, Value]


@dataclass
class Block:
    """The statements of one layer, and the layer's name."""

    layer: str
    lines: list[str] = field(default_factory=list)
    #: Bodies of the layer.
    methods: list[Method] = field(default_factory=list)


@dataclass(frozen=True)
class Method:
    """A body of a layer as a method of its own: `def name(self, arguments): ..; return results`."""

    name: str
    arguments: tuple[str, ...]
    blocks: tuple[Block, ...]
    results: tuple[str, ...]
    document: str


@dataclass
class Program:
    """The state that all graphs of a model share."""

    approximate: bool = False
    approximations: list[tuple[str, str]] = field(default_factory=list)
    #: How many variables there are.
    variables: int = 0
    #: The constants that the source reads, by a number that stands for them until they are named.
    constants: dict[int, tuple[str, Const]] = field(default_factory=dict)
    #: Those of them that are no constants of the model.
    derived: set[int] = field(default_factory=set)
    #: Those that are parameters of the module; all others are buffers.
    trained: set[int] = field(default_factory=set)
    #: Helper functions that the source calls.
    helpers: set[str] = field(default_factory=set)
    #: Variables of the model: attribute by id; and the statements that keep their values.
    states: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    #: How many bodies there are.
    bodies: int = 0

    def variable(self, hint: str) -> str:
        """A placeholder of a variable until the function that it is in is written."""
        self.variables += 1
        return f"v{self.variables}__{identifier(hint)}"


def token(number: int) -> str:
    """A placeholder of a constant until its attribute is named."""
    return f"self.CONSTANT_{number}_"


class Writer:
    """Writes the statements of one graph: the model's, or a body's."""

    def __init__(self, program: Program, first_tensor: str | None, is_body: bool = False) -> None:
        self.program = program
        self.is_body = is_body
        self.blocks: list[Block] = []
        #: A tensor that is there from the beginning, whose device new tensors are made on.
        self.first_tensor = first_tensor
        #: The layer that is being lowered.
        self.layer = ""
        self.label = ""
        self.outputs: tuple[TensorSpec, ...] = ()

    # ---- expressions

    def __call__(self, value: Value) -> str:
        """The expression of a tensor."""
        if value.code:
            return value.code
        if value.constant is not None:
            return token(value.constant)
        if value.elements is not None:
            text = self._tensor_of(value, value.elements)
        else:
            assert value.value is not None
            text = self.literal(value.value, value.type)
        return text if len(text) <= INLINE else self.let(text, "numbers")

    def literal(self, array: Array, element_type: ElementType) -> str:
        """The expression of a small tensor, written out."""
        numbers = np.asarray(array)
        flat = [types.literal(element_type, np.asarray(n)) for n in numbers.reshape(-1)]
        shape = () if numbers.size == 0 else numbers.shape
        text = _nested(flat, list(shape)) if numbers.size else "[]"
        made = f"torch.tensor({text}, dtype={types.dtype(element_type)}{self.on_device()})"
        return made if numbers.size else f"{made}.reshape({tuple(numbers.shape)})"

    def _tensor_of(self, value: Value, elements: tuple[str, ...]) -> str:
        shape = value.shape.static
        if len(elements) > 2 and elements == tuple(map(str, range(len(elements)))):
            made = (
                f"torch.arange({len(elements)}, dtype={types.dtype(value.type)}{self.on_device()})"
            )
            return made if len(shape) == 1 else f"{made}.reshape({', '.join(map(str, shape))})"
        text = _nested(list(elements), list(shape)) if elements else "[]"
        made = f"torch.tensor({text}, dtype={types.dtype(value.type)}{self.on_device()})"
        return made if elements else f"{made}.reshape({tuple(shape)})"

    def on_device(self) -> str:
        """The device argument that ends a call which makes a tensor."""
        return "" if self.first_tensor is None else f", device={self.first_tensor}.device"

    def let(self, expression: str, hint: str) -> str:
        """Add a variable with the value of an expression; returns its name."""
        name = self.program.variable(hint)
        self.line(f"{name} = {expression}")
        return name

    def line(self, statement: str) -> None:
        """Add a statement to the layer."""
        self.blocks[-1].lines.append(statement)

    def helper(self, name: str, *arguments: Any, **keywords: Any) -> str:
        """A call of a helper function, whose source goes into the module.

        Values become their expressions, None stays None, everything else is written as Python does.
        """
        self.program.helpers.add(name)
        named = (f"{k}={v if isinstance(v, Code) else written(v)}" for k, v in keywords.items())
        return f"{name}({', '.join((*map(self._argument, arguments), *named))})"

    def _argument(self, argument: Any) -> str:
        if isinstance(argument, Value):
            return self(argument)
        return argument if isinstance(argument, str) else written(argument)

    def dtype(self, element_type: ElementType) -> str:
        return types.dtype(element_type)

    def cast(self, value: Value, to: ElementType) -> str:
        """The expression of the tensor in another type that torch computes with; not the IR's
        Convert.
        """
        if types.dtype(value.type) == types.dtype(to):
            return self(value)
        return f"{atom(self(value))}.to({types.dtype(to)})"

    # ---- numbers

    def number(self, value: Value) -> str | None:
        """A single known number as a literal; None where it is not known."""
        if value.value is None or value.value.size != 1:
            return None
        return types.literal(value.type, value.value)

    def operand(self, value: Value, other: Value) -> str:
        """An operand of arithmetic: a literal where it is a single number that is not trained, and
        the other has its shape and type already.
        """
        text = None if value.trained else self.number(value)
        if text is None or value.rank is None or other.rank is None or other.value is not None:
            return self(value)
        return text if value.rank <= other.rank else self(value)

    def integers(self, value: Value | None) -> list[str] | None:
        """The elements of an integer tensor as expressions of Python's integers, where the source
        has them without looking into a tensor.
        """
        if value is None:
            return None
        known = value.known()
        if known is not None:
            return list(map(str, known))
        return None if value.elements is None else list(value.elements)

    def integer(self, value: Value) -> str:
        """The expression of a single integer: from what is known, or out of the tensor."""
        found = self.integers(value)
        return found[0] if found else f"int({self(value)})"

    def listed(self, value: Value) -> str:
        """The expression of a list of integers: from what is known, or out of the tensor."""
        found = self.integers(value)
        if found is not None:
            return f"[{', '.join(found)}]"
        flat = "" if value.rank == 1 else ".reshape(-1)"
        return f"{atom(self(value))}{flat}.tolist()"

    def numbers(self, value: Value | None, what: str) -> list[int]:
        """The elements of an integer input that must be known."""
        known = None if value is None else value.known()
        if known is None:
            self.refuse(f"input '{what}' is computed as the model runs, and has to be a constant")
        return known

    def dim(self, value: Value, axis: int) -> str:
        """One dimension as a Python integer."""
        if value.rank is not None and value.shape[axis].is_static:
            return str(int(value.shape[axis]))
        return f"{atom(self(value))}.shape[{axis}]"

    def weight(self, array: Array, element_type: ElementType, hint: str) -> str:
        """A buffer with values that the exporter has computed."""
        constant = Const.of_array(element_type, array)
        number = len(self.program.constants)
        self.program.constants[number] = (f"{self.layer}/{hint}", constant)
        self.program.derived.add(number)
        return token(number)

    def rank(self, value: Value) -> int:
        """The rank; a tensor whose rank is not known is refused."""
        if value.rank is None:
            self.refuse("the rank of an input is not known")
        return value.rank

    # ---- what a lowering says

    def refuse(self, reason: str) -> NoReturn:
        """Raise UnsupportedError: the layer cannot be exported."""
        raise UnsupportedError(reason)

    def approximate(self, reason: str) -> None:
        """Tell that what follows is not quite what the IR means: refused, or noted where the caller
        allows it.
        """
        UnsupportedError.when(
            not self.program.approximate,
            f"{reason}; approximate=True (--approximate) exports it so",
        )
        if (self.label, reason) not in self.program.approximations:
            self.program.approximations.append((self.label, reason))

    @contextmanager
    def block(self, layer: str) -> Iterator[Block]:
        """The block of a layer's statements, which those written inside belong to."""
        block = Block(layer)
        self.blocks.append(block)
        yield block


def written(value: object) -> str:
    """The source of a value, with texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(written, value))
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


class Code(str):
    """Source given as a keyword of a call, where a text would be quoted."""

    __slots__ = ()


def atom(expression: str) -> str:
    """The expression so that `.method()` may follow it."""
    return expression if _is_atom(expression) else f"({expression})"


def _is_atom(text: str) -> bool:
    """Whether the expression is a name with attributes, calls and subscripts behind it, without an
    operator outside brackets.
    """
    if re.match(r"-|\d|not |lambda ", text):
        return False
    depth = 0
    for character in text:
        depth += character in "([{"
        depth -= character in ")]}"
        if depth == 0 and character in " +-*/%<>=&|^~@,":
            return False
    return True


def _nested(flat: Sequence[str], shape: Sequence[int]) -> str:
    if not shape:
        return flat[0]
    size = len(flat) // shape[0]
    parts = [_nested(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(parts)}]"
