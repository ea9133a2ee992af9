"""What the samples of the embedding operations share: the pages' table, samples of every type, the
loop in plain Python.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample
from uncork import storage
from uncork.types import ElementType

F32, I64, I32 = np.float32, np.int64, np.int32
#: The table of every example of the pages.
TABLE = np.array([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]], F32)
UNWRITTEN = "OpenVINO returns uninitialised memory"
WIDER = "OpenVINO computes 64-bit types in 32 bits"

#: Name, table, weights of the two positions that look up rows 0 and 1 (or None), sum, element type,
#: why not OpenVINO.
_TYPES: list[tuple[str, list[Any], list[Any] | None, Any, str, str]] = [
    ("f64 stays f64", [16777216.0, 1.0], None, 16777217.0, "f64", WIDER),
    ("f64 weights stay f64", [2.0**60, 1.0], [0.0, 1e-30], 1e-30, "f64", WIDER),
    ("f16 beyond its range is infinite", [60000, 60000], None, np.inf, "f16", ""),
    ("f16 beyond its range on the way only", [60000, 60000], [2, -1], 60000, "f16", ""),
    ("u32 wraps", [3000000000, 3000000000], None, 1705032704, "u32", ""),
    ("i32 wraps", [2147483647, 2147483647], None, -2, "i32", ""),
    ("i16 wraps", [30000, 30000], None, -5536, "i16", ""),
    ("u16 wraps", [40000, 40000], None, 14464, "u16", ""),
    ("i8 wraps", [100, 100], None, -56, "i8", ""),
    ("u8 wraps", [200, 200], None, 144, "u8", ""),
    ("i8 products wrap", [100, 100], [2, 2], -112, "i8", ""),
    ("i64 is exact", [2**53, 1], None, 2**53 + 1, "i64", WIDER),
    ("i64 products are exact", [2**40 + 1, -1], [3, 2], 3 * 2**40 + 1, "i64", WIDER),
    ("i64 wraps", [2**63 - 1, 1], None, -(2**63), "i64", WIDER),
    ("u64 is exact", [2**63, 3], None, 2**63 + 3, "u64", WIDER),
    ("u64 wraps", [2**63, 2**63 + 1], None, 1, "u64", WIDER),
]


def type_samples(call: Callable[[Any, list[int], list[Any] | None], list[Any]]) -> list[Sample]:
    """One bag over rows 0 and 1 in every type. `call(table, indices, weights)` gives the inputs
    with all indices in one bag.
    """
    samples = []
    for name, column, weights, total, type_name, openvino in _TYPES:
        dtype = ElementType.parse(type_name).dtype
        inputs = call(
            np.array(column, dtype)[:, None],
            [0, 1],
            None if weights is None else np.array(weights, dtype),
        )
        samples.append(Sample(name, inputs, [np.array([[total]], dtype)], openvino=openvino))
    half = np.array([[2048], [1]], np.float16)
    samples.append(
        Sample(
            "f16 accumulates in f32 and rounds once",
            call(half, [0, 1, 1, 1], None),
            [np.array([[2052]], np.float16)],
        )
    )
    brain = np.array([[0x4380], [0x3F80]], np.uint16)  # 256 and 1; the next value after 256 is 258
    samples.append(
        Sample(
            "bf16 accumulates in f32 and rounds once",
            call(brain, [0, 1, 1], None),
            [np.array([[0x4381]], np.uint16)],
            types=_bf16_types(call(brain, [0, 1, 1], None), brain),
            output_types=["bf16"],
        )
    )
    # Pairs or blocks of ones would add up to more than the step of 2 that f32 has at 2**24.
    many = np.array([[2.0**24], [1.0]], F32)
    samples.append(
        Sample(
            "terms are added by increasing position",
            call(many, [0] + [1] * 40, None),
            [many[:1]],
            rtol=0,
            atol=0,
        )
    )
    return samples


def _bf16_types(inputs: Sequence[Any], table: Any) -> list[str | None]:
    return ["bf16" if array is table else None for array in inputs]


def nan_samples(call: Callable[[Any, list[int], list[Any] | None], list[Any]]) -> list[Sample]:
    """`call` as for `type_samples`."""
    table = np.array([[1, np.nan], [np.inf, 2], [3, 4]], F32)
    return [
        Sample(
            "zero times NaN or infinity is NaN",
            call(table, [0, 1, 2], np.array([0, 0, 1], F32)),
            [np.array([[np.nan, np.nan]], F32)],
        ),
        Sample(
            "NaN in rows that are not looked up",
            call(table, [2, 2], None),
            [np.array([[6, 8]], F32)],
        ),
        Sample(
            "infinities of both signs",
            call(np.array([[np.inf], [-np.inf]], F32), [0, 1], None),
            [np.array([[np.nan]], F32)],
        ),
    ]


def table_refusals(call: Callable[[Any, Any], list[Any]]) -> list[Refusal]:
    """Tables and indices that no embedding operation takes. `call(table, indices)` gives the
    inputs, indices as given.
    """
    one = np.array([0])
    refusals = [
        Refusal(
            f"{name} table",
            call(np.zeros((2, 1), dtype), one),
            rf"'emb_table' \(port 0\): expected one of f64.*got {name}",
            types=types,
        )
        for name, dtype, types in [
            ("boolean", bool, ()),
            ("string", object, ()),
            ("i4", np.int8, ("i4",)),
            ("u1", np.uint8, ("u1",)),
            ("f8e4m3", np.uint8, ("f8e4m3",)),
            ("nf4", np.uint8, ("nf4",)),
        ]
    ]
    return [
        *refusals,
        Refusal(
            "scalar table",
            call(F32(1), one),
            r"'emb_table': expected rows in 1 to 8 dimensions, got shape \[\]",
        ),
        Refusal(
            "table of rank 9",
            call(np.zeros((1,) * 9, F32), one),
            "'emb_table': expected rows in 1 to 8 dimensions",
        ),
        Refusal(
            "float ids",
            call(TABLE, one.astype(F32)),
            r"'indices' \(port 1\): expected one of i64, i32, got f32",
        ),
        Refusal(
            "ids of 16 bits",
            call(TABLE, one.astype(np.int16)),
            r"'indices' \(port 1\): expected one of i64, i32, got i16",
        ),
        Refusal(
            "unsigned ids",
            call(TABLE, one.astype(np.uint64)),
            r"'indices' \(port 1\): expected one of i64, i32, got u64",
        ),
    ]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, str]:
    """A table with at least one row, sums of few products of its values exact in f32; integers wrap
    now and then.
    """
    return draw(
        arrays(
            (draw(st.integers(1, 5)), *draw(shapes(max_rank=2, max_side=3))),
            FLOATS + INTEGERS,
            -60,
            60,
        )
    )


def weights_like(type_name: str, shape: tuple[int, ...]) -> st.SearchStrategy[tuple[Any, str]]:
    return arrays(shape, (type_name,), -60, 60)


def by_hand(
    case: Case,
    bags: Sequence[Sequence[int]],
    weights: Any,
    default: int | None = None,
    mean: bool = False,
) -> list[np.ndarray]:
    """One element at a time: bag b sums over the positions `bags[b]` of the flattened indices."""
    element_type = case.types[0]
    table = storage.decode(case.inputs[0], element_type)
    indices = case.inputs[1].reshape(-1).tolist()
    factors = (
        None if weights is None else storage.decode(weights, element_type).reshape(-1).tolist()
    )
    shape = (len(bags), *table.shape[1:])
    output = np.zeros(shape, np.float64 if element_type.is_float else element_type.dtype)
    for place in itertools.product(*map(range, shape)):
        positions, column = bags[place[0]], place[1:]
        if not positions:
            output[place] = table[(default, *column)].item() if default not in (None, -1) else 0
            continue
        total = 0
        for i in positions:
            value = table[(indices[i], *column)].item()
            total += value if factors is None else factors[i] * value
        if element_type.is_integer:
            total = _wrapped(total, element_type)
        if mean:
            size = len(positions)
            total = (
                total / size
                if element_type.is_float
                else abs(total) // size * (-1 if total < 0 else 1)
            )
        output[place] = total
    return [output]


def _wrapped(number: int, element_type: ElementType) -> int:
    number %= 2**element_type.bits
    return (
        number - 2**element_type.bits
        if element_type.kind == "signed" and number >= 2 ** (element_type.bits - 1)
        else number
    )
