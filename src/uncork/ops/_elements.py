"""Elements of small tensors that shapes are computed from, carried through layers as far as they
are known.

Where a tensor's whole value is known, the reference folds it. Here some elements are unknown or,
where sizes are symbols, are expressions. What moves elements is its reference, run on an object
array of them; what computes with them says by `of_sizes` what becomes of one place, and its
reference computes the places at which all are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from uncork.errors import UncorkError
from uncork.symbolic import Size, plain
from uncork.types import Array, Element, ElementType, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.ops._operation import Operation

#: Tensors up to this many elements are evaluated while shapes are inferred; larger ones are never
#: needed for a shape.
FOLD_LIMIT = 4096
#: Elements: int, Size or None.
Elements = npt.NDArray[Any]


def carried(
    operation: Operation, bound: Sequence[TensorSpec | None], output: TensorSpec
) -> TensorSpec | None:
    """The output with those of its elements that are known; None when none is."""
    if (
        not output.shape.is_static
        or int(output.shape.size) > FOLD_LIMIT
        or not operation.deterministic
    ):
        return None
    if not any(s is not None and (s.value is not None or s.elements is not None) for s in bound):
        return None
    # Floats and truths are carried for the expressions among them alone.
    if not output.element_type.is_integer and not any(
        s is not None and has_open_element(s) for s in bound
    ):
        return None
    parts = [None if spec is None else elements_of(spec) for spec in bound]
    try:
        result = operation.carry(bound, parts, output)
        return (
            None
            if result is None or result.shape != output.shape.static
            else spec_of(output, result)
        )
    except (UncorkError, TypeError, IndexError, OverflowError):
        return None  # refused when, and if, the layer runs; or not a thing to do with expressions


def has_open_element(spec: TensorSpec) -> bool:
    """Whether some element is an expression."""
    return spec.elements is not None and any(isinstance(e, Size) for e in spec.elements)


def elements_of(spec: TensorSpec) -> Elements | None:
    """The elements of a tensor in its shape; None when nothing is, or can be, known of them."""
    if (
        spec.value is not None
        and spec.value.size <= FOLD_LIMIT
        and (spec.element_type.is_native or spec.element_type.is_integer)
    ):
        known = spec.value.tolist() if spec.value.ndim else [spec.value.item()]
        return _object_array(_flat(known, spec.value.ndim), spec.value.shape)
    if spec.elements is not None:
        return _object_array(spec.sizes() or [], spec.shape.static)
    return None


def unknown_elements(spec: TensorSpec) -> Elements | None:
    """An array with None for each element of a tensor; None where their number is not known or too
    large.
    """
    if (
        not spec.shape.is_static
        or int(spec.shape.size) > FOLD_LIMIT
        or spec.element_type is ElementType.string
    ):
        return None
    return np.full(spec.shape.static, None, object)


def spec_of(output: TensorSpec, elements: Elements) -> TensorSpec | None:
    """The output with these elements: as its value when all are numbers."""
    flat: list[Element] = [
        plain(e) if isinstance(e, Size) else 0 if e == "" else e for e in elements.ravel().tolist()
    ]
    if all(e is None for e in flat) or not all(
        e is None or isinstance(e, (int, Size)) for e in flat
    ):
        return None  # nothing is known, or what moved was no element
    constants = [e.constant if isinstance(e, Size) else e for e in flat]
    if None not in constants:
        values = [
            float(c) if output.element_type.is_float else c for c in constants if c is not None
        ]
        value = np.array(values, output.element_type.dtype).reshape(elements.shape)
        return TensorSpec(output.element_type, output.shape, value)
    return TensorSpec(output.element_type, output.shape, None, tuple(flat))


def by_moving(
    operation: Operation, bound: Sequence[TensorSpec | None], parts: Sequence[Elements | None]
) -> Elements | None:
    """The elements of an output whose operation moves elements, by the reference on its moved
    inputs; the other inputs, which say whereto, have to be known.
    """
    arrays: list[Array | None] = []
    for position, (spec, part) in enumerate(zip(bound, parts, strict=True)):
        port = operation.inputs[min(position, len(operation.inputs) - 1)]
        if spec is None:
            arrays.append(None)
        elif port.moved:
            part = unknown_elements(spec) if part is None else part
            if part is None:
                return None
            arrays.append(part)
        elif spec.value is None:
            return None
        else:
            arrays.append(spec.value)
    result = operation.reference(*arrays, *([0] if operation.fills else []))
    return None if isinstance(result, (list, tuple)) else np.asarray(result, object)


def by_place(
    operation: Operation,
    bound: Sequence[TensorSpec | None],
    parts: Sequence[Elements | None],
    output: TensorSpec,
) -> Elements | None:
    """The elements of an element-wise operation's output, each from those at its place in the
    inputs, which stretch to one shape by NumPy's rule.
    """
    source = bound[0]
    if source is None or any(part is None for part in parts):
        return None
    arrays = [
        part.ravel() for part in np.broadcast_arrays(*[part for part in parts if part is not None])
    ]
    places = list(zip(*arrays, strict=True))
    result = np.full(len(places), None, object)
    numbers = [i for i, place in enumerate(places) if all(_constant(e) is not None for e in place)]
    if numbers:
        specs = [
            _numbers(spec, [array[i] for i in numbers])
            for spec, array in zip(bound, arrays, strict=True)
            if spec is not None
        ]
        values = operation.evaluate(specs)[0].value
        assert values is not None
        result[numbers] = _object_array(_flat(values.tolist(), 1), (len(numbers),))
    for i in set(range(len(places))).difference(numbers):
        if not any(element is None for element in places[i]):
            result[i] = operation.of_sizes(source.element_type, *map(Size.of, places[i]))
    return result.reshape(output.shape.static)


def _constant(element: Element) -> int | Fraction | None:
    return element.constant if isinstance(element, Size) else element


def _numbers(spec: TensorSpec, elements: Sequence[Element]) -> TensorSpec:
    """A 1-D tensor of the type of another, of these numbers."""
    numbers = [
        float(c) if spec.element_type.is_float else c
        for e in elements
        if (c := _constant(e)) is not None
    ]
    array = np.array(numbers, spec.element_type.dtype)
    return TensorSpec(spec.element_type, PartialShape([len(elements)]), array)


def _flat(nested: list[Any], rank: int) -> list[Element]:
    """The numbers of nested lists as elements: floats as exact sizes, those that are not finite as
    unknown.
    """
    for _ in range(rank - 1):
        nested = [item for inner in nested for item in inner]
    return [_element(number) for number in nested]


def _element(number: Any) -> Element:
    if isinstance(number, float):
        return plain(Size.of(Fraction(number))) if math.isfinite(number) else None
    return int(number)


def _object_array(elements: Sequence[Element], shape: tuple[int, ...]) -> Elements:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)
