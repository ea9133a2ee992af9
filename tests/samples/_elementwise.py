"""Entries for element-wise operations: the loop and the random cases of a formula that is given for
one element, in Python's numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops import Operation
from uncork.types import ElementType

NUMBERS = FLOATS + INTEGERS
Formula = Callable[..., Any]


def numbers(array: np.ndarray, element_type: ElementType) -> Any:
    """An object array of Python's own numbers, to be indexed; integers have no bounds there."""
    values = storage.decode(array, element_type)
    result = np.empty(values.shape, object)
    for place in np.ndindex(*values.shape):
        result[place] = values[place].item() if hasattr(values[place], "item") else values[place]
    return result


def of_type(values: Sequence[Any], shape: Sequence[int], element_type: ElementType) -> np.ndarray:
    """Python's numbers as an array of a type: integers wrap, floats are left in f64 for the
    comparison to round.
    """
    if element_type.is_integer:
        bits = element_type.bits
        wrapped = [int(v) % 2**bits for v in values]
        if element_type.kind == "signed":
            wrapped = [v - 2**bits if v >= 2 ** (bits - 1) else v for v in wrapped]
        return np.array(wrapped, element_type.dtype).reshape(shape)
    return np.array(values, bool if element_type is ElementType.boolean else np.float64).reshape(
        shape
    )


def stretched(place: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Where an element of a broadcast result comes from."""
    own = place[len(place) - len(shape) :]
    return tuple(0 if size == 1 else i for i, size in zip(own, shape, strict=True))


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    columns = zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)
    return tuple(next((d for d in column if d != 1), 1) for column in columns)


def loop(formula: Formula, output: ElementType | None = None) -> Callable[[Case], list[np.ndarray]]:
    """The formula for every element of the inputs, stretched to their common shape; attributes are
    passed by name.
    """

    def compute(case: Case) -> list[np.ndarray]:
        inputs = [
            numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True) if a is not None
        ]
        shape = common_shape(*(a.shape for a in inputs))
        attributes = {k: v for k, v in case.attributes.items() if k != "auto_broadcast"}
        values = [
            formula(*(a[stretched(place, a.shape)] for a in inputs), **attributes)
            for place in itertools.product(*map(range, shape))
        ]
        return [of_type(values, shape, output or case.types[0])]

    return compute


@st.composite
def unary_cases(
    draw: st.DrawFn,
    types: tuple[str, ...],
    low: float = -4,
    high: float = 4,
    attributes: st.SearchStrategy[Mapping[str, Any]] | None = None,
) -> Case:
    data, name = draw(arrays(draw(shapes(max_rank=3)), types, low, high))
    return Case([data], draw(attributes) if attributes is not None else {}, [name])


@st.composite
def stretching_shapes(
    draw: st.DrawFn, one_way: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that fit by numpy's rule; with `one_way` the second stretches to the first."""
    full = draw(shapes(max_rank=3, max_side=3))
    mask = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=len(full), max_size=len(full)))
    a = tuple(1 if m == 1 and not one_way else d for d, m in zip(full, mask, strict=True))
    b = tuple(1 if m == 2 else d for d, m in zip(full, mask, strict=True))
    short = draw(st.integers(0, len(full)))
    return (a, b[short:]) if one_way or draw(st.booleans()) else (a[short:], b)


@st.composite
def binary_cases(
    draw: st.DrawFn,
    types: tuple[str, ...],
    low: float = -4,
    high: float = 4,
    attributes: st.SearchStrategy[Mapping[str, Any]] | None = None,
    mend: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    low_b: float | None = None,
) -> Case:
    mode = draw(st.sampled_from(["numpy", "numpy", "pdpd", "none", None]))
    first, second = draw(stretching_shapes(one_way=mode == "pdpd"))
    a, name = draw(arrays(first, types, low, high))
    b, _ = draw(
        arrays(first if mode == "none" else second, (name,), low if low_b is None else low_b, high)
    )
    if mend:
        b = mend(a, b)
    given = dict(draw(attributes)) if attributes is not None else {}
    return Case([a, b], given | ({"auto_broadcast": mode} if mode else {}), [name, name])


MISMATCH = [
    Refusal(
        "shapes that do not fit",
        [np.zeros((2, 3)), np.zeros((4,))],
        r"expected shapes that fit by numpy broadcasting, got 'a' \[2,3\], 'b' \[4\]",
    ),
    Refusal(
        "stretching with none",
        [np.zeros((2, 3)), np.zeros((3,))],
        r"fit by no broadcasting, got",
        {"auto_broadcast": "none"},
    ),
    Refusal(
        "pdpd: a may not stretch",
        [np.zeros((1, 3)), np.zeros((2, 3))],
        r"fit by pdpd broadcasting to 'a'",
        {"auto_broadcast": "pdpd"},
    ),
    Refusal(
        "pdpd: axis",
        [np.zeros((2, 3)), np.zeros((3,))],
        r"fit by pdpd broadcasting to 'a' from axis 0 on",
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": 0},
    ),
    Refusal(
        "pdpd: axis past the rank",
        [np.zeros((3,)), np.zeros((3,))],
        r"fit by pdpd broadcasting to 'a' from axis 2 on",
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": 2},
    ),
    Refusal(
        "pdpd: negative axis",
        [np.zeros((3,)), np.zeros((3,))],
        r"'auto_broadcast_axis': expected at least -1, got -2",
        {"auto_broadcast_axis": -2},
    ),
    Refusal(
        "pdpd: b of higher rank",
        [np.zeros((3,)), np.zeros((1, 3))],
        r"fit by pdpd broadcasting to 'a'",
        {"auto_broadcast": "pdpd"},
    ),
]


def mismatch(dtype: Any) -> list[Refusal]:
    """The refusals of shapes, with arrays of a type that the operation takes."""
    return [
        Refusal(r.name, [np.asarray(a, dtype) for a in r.inputs], r.message, r.attributes)
        for r in MISMATCH
    ]


def unary(
    operation: type[Operation],
    formula: Formula,
    samples: Sequence[Sample],
    refusals: Sequence[Refusal] = (),
    types: tuple[str, ...] = FLOATS,
    low: float = -4,
    high: float = 4,
    attributes: st.SearchStrategy[Mapping[str, Any]] | None = None,
    output: ElementType | None = None,
) -> Samples:
    return Samples(
        operation,
        samples,
        refusals,
        unary_cases(types, low, high, attributes),
        loop(formula, output),
    )


def binary(
    operation: type[Operation],
    formula: Formula,
    samples: Sequence[Sample],
    refusals: Sequence[Refusal] = (),
    types: tuple[str, ...] = NUMBERS,
    dtype: Any = np.int64,
    output: ElementType | None = None,
    **how: Any,
) -> Samples:
    return Samples(
        operation,
        samples,
        [*mismatch(dtype), *refusals],
        binary_cases(types, **how),
        loop(formula, output),
    )
