"""The parts of an activation as one layer: x * sigmoid(x), x * tanh(SoftPlus(x)), and
x * (1 + erf(x / sqrt 2)) / 2 with its form of tanh.

    Multiply(x, Sigmoid(x))                                                 is Swish(x)
    Multiply(x, Tanh(SoftPlus(x)))                                          is Mish(x)
    Multiply(Multiply(x, Add(Erf(Divide(x, 1.4142135)), 1)), 0.5)           is Gelu(x)

Exporters that have no operation for an activation write such layers, each in an order of its own.
One layer takes a third of the time, and rounds less often.

Recognised: all that is made of a tensor x, of a function of it, and of single constants by sums,
differences, products, quotients and whole powers, and that is the same polynomial of x and of the
function; of f32, where nothing else reads the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Union

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops.activation import Gelu7, Mish, Swish
from uncork.passes.rewrite import only_reader, readers, replaced
from uncork.types import ElementType

#: A polynomial: the factor of each power of x and of the function.
_Polynomial = Mapping[tuple[int, int], float]
_NUMBER, _X, _FUNCTION = (0, 0), (1, 0), (0, 1)
_ROOT_HALF, _ROOT_2_OF_PI = 0.5**0.5, (2 / np.pi) ** 0.5
#: How far two factors may be apart: a few roundings of f32.
_NEAR = 1e-6
#: Layers behind each other on a way, which are at most as many as the longest form of Gelu has.
_DEEP = 6


class _Form(Struct, frozen=True):
    """An activation: what its function reads, as a polynomial of x, and what is made of both."""

    operation: Operation
    reads: _Polynomial
    makes: _Polynomial
    #: The function reads a layer of this type, which reads x.
    between: str = ""


_HALF_OF_EACH = {(1, 0): 0.5, (1, 1): 0.5}
_CUBE = {_X: _ROOT_2_OF_PI, (3, 0): 0.044715 * _ROOT_2_OF_PI}
_FORMS: Mapping[str, tuple[_Form, ...]] = {
    "Sigmoid": (_Form(Swish(), {_X: 1.0}, {(1, 1): 1.0}),),
    "Erf": (_Form(Gelu7(), {_X: _ROOT_HALF}, _HALF_OF_EACH),),
    "Tanh": (
        _Form(Mish(), {_X: 1.0}, {(1, 1): 1.0}, "SoftPlus"),
        _Form(Gelu7(approximation_mode="tanh"), _CUBE, _HALF_OF_EACH),
    ),
}


def fuse_activations(model: Model) -> Model:
    """The model with one layer in place of the parts of each such activation."""
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        for form in _FORMS.get(node.type_name, ()):
            found = _found(model, read_by, node, form)
            if found is None:
                continue
            last, x = found
            new[last.id] = replace(last, inputs=(x,), input_extras=(), operation=form.operation)
    return replaced(model, new)


def _found(
    model: Model, read_by: Mapping[Source, list[Node]], function: Node, form: _Form
) -> tuple[Node, Source] | None:
    """The last layer of an activation with this function, and its x; None where it is another."""
    read = function.inputs[0]
    if form.between:
        before = model.by_id[read.node]
        if before.type_name != form.between or len(read_by[read]) > 1:
            return None
        read = before.inputs[0]
    for x in _bases(model, read):
        if not _same(_polynomial(model, read, x), form.reads):
            continue
        last = function
        for _ in range(_DEEP):
            reader = only_reader(read_by, last)
            if reader is None or reader.type_name not in _ARITHMETIC:
                break
            last = reader
            made = _polynomial(model, Source(last.id, 0), x, Source(function.id, 0))
            if _same(made, form.makes) and _alike(model, Source(last.id, 0), x):
                return last, x
    return None


def _bases(model: Model, source: Source, depth: int = _DEEP) -> Iterator[Source]:
    """The tensors that one is made of by arithmetic; itself is the first."""
    yield source
    node = model.by_id[source.node]
    if node.type_name in _ARITHMETIC and depth:
        for before in node.inputs:
            if model.spec(before).value is None:
                yield from _bases(model, before, depth - 1)


def _alike(model: Model, a: Source, b: Source) -> bool:
    """Whether two tensors are of f32 and of the same shape, whatever the sizes of the call are."""
    one, other = model.spec(a), model.spec(b)
    return (
        one.element_type is other.element_type is ElementType.f32
        and one.rank is not None
        and one.rank == other.rank
    )


def _same(found: _Polynomial | None, wanted: _Polynomial) -> bool:
    return (
        found is not None
        and found.keys() == wanted.keys()
        and all(abs(found[power] - number) <= _NEAR * number for power, number in wanted.items())
    )


def _polynomial(
    model: Model, source: Source, x: Source, function: Source | None = None, depth: int = _DEEP
) -> _Polynomial | None:
    """A tensor as a polynomial of x and of a function of it; None where it is none, or is made by
    too many layers.
    """
    if source == x:
        return {_X: 1.0}
    if source == function:
        return {_FUNCTION: 1.0}
    spec = model.spec(source)
    if spec.value is not None:
        return {_NUMBER: float(spec.value.reshape(-1)[0])} if spec.value.size == 1 else None
    node = model.by_id[source.node]
    if node.type_name not in _ARITHMETIC or not depth:
        return None
    a, b = (_polynomial(model, before, x, function, depth - 1) for before in node.inputs)
    return None if a is None or b is None else _ARITHMETIC[node.type_name](a, b)


def _sum(a: _Polynomial, b: _Polynomial, sign: float = 1.0) -> _Polynomial:
    made = dict(a)
    for power, number in b.items():
        made[power] = made.get(power, 0.0) + sign * number
    return made


def _product(a: _Polynomial, b: _Polynomial) -> _Polynomial:
    made: dict[tuple[int, int], float] = {}
    for (i, j), number in a.items():
        for (k, n), factor in b.items():
            made[i + k, j + n] = made.get((i + k, j + n), 0.0) + number * factor
    return made


def _quotient(a: _Polynomial, b: _Polynomial) -> Union[_Polynomial, None]:
    divisor = b[_NUMBER] if b.keys() == {_NUMBER} else 0.0
    return {power: number / divisor for power, number in a.items()} if divisor else None


def _power(a: _Polynomial, b: _Polynomial) -> Union[_Polynomial, None]:
    exponent = b[_NUMBER] if b.keys() == {_NUMBER} else 0.0
    if exponent not in (2.0, 3.0):
        return None
    square = _product(a, a)
    return square if exponent == 2.0 else _product(square, a)


_ARITHMETIC = {
    "Add": _sum,
    "Subtract": lambda a, b: _sum(a, b, -1.0),
    "Multiply": _product,
    "Divide": _quotient,
    "Power": _power,
}
