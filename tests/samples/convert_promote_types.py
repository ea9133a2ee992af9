"""ConvertPromoteTypes-14. Types of examples are the page's where it gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.convert_promote_types import ConvertPromoteTypes14
from uncork.types import ElementType

UNSAFE = {"promote_unsafe": True}
TORCH = {"pytorch_scalar_promotion": True}


def ones(name: str, shape: tuple[int, ...] = (2,)) -> np.ndarray:
    element_type = ElementType.parse(name)
    values = np.ones(shape, np.float32)
    return (
        storage.encode(values, element_type)
        if element_type.is_float
        else values.astype(element_type.dtype)
    )


def promoted(
    a: str,
    b: str,
    common: str,
    attributes: dict[str, Any] | None = None,
    scalar: int = -1,
    openvino: str = "",
) -> Sample:
    """`scalar` is the position of the input that is one."""
    shapes = [() if scalar == i else (2,) for i in range(2)]
    given = " " + ", ".join(attributes) if attributes else ""
    which = f", {scalar} a scalar" if scalar >= 0 else ""
    return Sample(
        f"{a} and {b}{given}{which}",
        [ones(t, s) for t, s in zip((a, b), shapes, strict=True)],
        [ones(common, s) for s in shapes],
        attributes or {},
        types=[a, b],
        output_types=[common, common],
        openvino=openvino,
    )


EXAMPLES = [
    promoted("i8", "f32", "f32"),
    promoted("i32", "u8", "i32"),
    promoted("f16", "f32", "f32"),
    promoted("f16", "i64", "f16", UNSAFE),
    promoted("f64", "u64", "f64", UNSAFE),
    promoted("i8", "u8", "i16", UNSAFE),
    promoted("f16", "bf16", "f32", UNSAFE),
    promoted("f8e4m3", "f8e5m2", "f16", UNSAFE),
    promoted("u64", "i8", "f32", UNSAFE),
    promoted("u64", "i8", "i64", UNSAFE | {"u64_integer_promotion_target": ElementType.i64}),
    promoted("i16", "u32", "i64", UNSAFE),
    promoted("boolean", "u1", "u1", openvino="OpenVINO gives 0"),
    promoted("u8", "boolean", "u8"),
    promoted("u4", "i8", "i8"),
    promoted("u16", "u8", "u16"),
    promoted("f8e5m2", "bf16", "bf16"),
    promoted("i64", "u8", "u8", UNSAFE | TORCH, scalar=0),
    promoted("f16", "i8", "f16", TORCH, scalar=0),
    promoted("i32", "i64", "i32", UNSAFE | TORCH, scalar=1),
    promoted("f32", "f64", "f64", TORCH, scalar=0),
    promoted("u8", "i16", "i16", TORCH, scalar=0),
    promoted("i64", "i64", "i64", TORCH, scalar=0),
    Sample(
        "values are converted as by Convert",
        [np.array([2**31 + 5, -1]), np.array([1], np.int8)],
        [np.array([2**31 + 5, -1]), np.array([1])],
        openvino="computes i64 in 32 bits",
    ),
    Sample(
        "a value that the common type lacks",
        [np.array(300), np.array([7], np.uint8)],
        [np.array(44, np.uint8), np.array([7], np.uint8)],
        UNSAFE | TORCH,
    ),
]


def refused(
    a: str, b: str, common: str, attributes: dict[str, Any] | None = None, scalar: int = -1
) -> Refusal:
    case = promoted(a, b, a, attributes, scalar)
    return Refusal(
        case.name,
        case.inputs,
        f"false and {common} is no safe common type of {a} and {b}",
        case.attributes,
        types=case.types,
    )


REFUSALS = [
    refused("f16", "i64", "f16"),
    refused("f64", "u64", "f64"),
    refused("i8", "u8", "i16"),
    refused("f16", "bf16", "f32"),
    refused("f8e4m3", "f8e5m2", "f16"),
    refused("u64", "i8", "f32"),
    refused("u64", "i64", "f32"),
    refused("i64", "u8", "u8", TORCH, scalar=0),
    refused("u64", "i32", "i32", TORCH, scalar=0),
    refused("bf16", "f16", "f16", TORCH, scalar=0),
    Refusal(
        "strings",
        [np.array(["a"], object), np.array([1])],
        r"'input_0' \(port 0\): expected .* got string",
    ),
]
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
FLOATS = ("bf16", "f16", "f32", "f64")
TYPES = ("boolean", *UNSIGNED, *SIGNED, *FLOATS)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pair = [draw(arrays(draw(shapes(max_rank=2)), TYPES, 0, 4)) for _ in range(2)]
    return Case(
        [a for a, _ in pair], UNSAFE | draw(st.sampled_from([{}, TORCH])), [t for _, t in pair]
    )


def common_type(case: Case) -> str:
    """By tables of the lists above: no arithmetic on bits."""
    (a, b), (first, second) = case.inputs, (t.name for t in case.types)
    groups = [("boolean",), UNSIGNED + SIGNED, FLOATS]
    low, high = sorted(
        [(next(i for i, g in enumerate(groups) if t in g), t) for t in (first, second)]
    )
    if low[0] != high[0]:
        return high[1]
    if "pytorch_scalar_promotion" in case.attributes and (a.ndim == 0) != (b.ndim == 0):
        return second if a.ndim == 0 else first
    if first == second:
        return first
    if high[0] == 2:
        return "f32" if {first, second} == {"bf16", "f16"} else max(first, second, key=FLOATS.index)
    for family in (SIGNED, UNSIGNED):
        if first in family and second in family:
            return max(first, second, key=family.index)
    signed, unsigned = (first, second) if first in SIGNED else (second, first)
    if unsigned == "u64":
        return "f32"
    return SIGNED[max(SIGNED.index(signed), UNSIGNED.index(unsigned) + 1)]


def loop(case: Case) -> list[np.ndarray]:
    target = ElementType.parse(common_type(case))
    outputs = []
    for array, element_type in zip(case.inputs, case.types, strict=True):
        output = np.zeros(array.shape, target.dtype)
        for place in np.ndindex(*array.shape):
            value = storage.decode(array[place][None], element_type)[0].item()
            output[place] = (
                storage.encode(np.array([value], np.float64), target)[0]
                if target.is_float
                else value
            )
        outputs.append(output)
    return outputs


SAMPLES = [Samples(ConvertPromoteTypes14, EXAMPLES, REFUSALS, cases(), loop)]
