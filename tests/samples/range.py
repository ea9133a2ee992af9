"""Range-1, -4. The numbered examples are those of the pages."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.range import Range1, Range4
from uncork.types import ElementType

I32, I64 = np.int32, np.int64
F32, F64 = np.float32, np.float64


def to(name: str) -> dict[str, object]:
    return {"output_type": ElementType.parse(name)}


AGAINST = "counts steps whatever their sign when a bound is known at run time only"
UP = np.array([2, 5, 8, 11, 14, 17, 20], I32)
DOWN = np.array([23, 20, 17, 14, 11, 8, 5], I32)
EXAMPLES_1 = [
    Sample("page example 1: positive step", [I32(2), I32(23), I32(3)], [UP]),
    Sample("page example 2: negative step", [I32(23), I32(2), I32(-3)], [DOWN]),
    Sample("floats", [F32(1), F32(2.5), F32(0.5)], [np.array([1, 1.5, 2], F32)]),
    Sample("against the step", [I32(3), I32(1), I32(1)], [np.zeros((0,), I32)], openvino=AGAINST),
]
EXAMPLES_4 = [
    Sample("page example 1: positive step", [I32(2), I32(23), I32(3)], [UP], to("i32")),
    Sample("page example 2: negative step", [I32(23), I32(2), I32(-3)], [DOWN], to("i32")),
    Sample(
        "page example 3: floating-point",
        [F32(1), F32(2.5), F32(0.5)],
        [np.array([1, 1.5, 2], F32)],
        to("f32"),
    ),
    Sample(
        "inputs are cut to integers",
        [F32(-1.5), F32(3.9), F32(1.9)],
        [np.array([-1, 0, 1, 2])],
        to("i64"),
        openvino="counts before it cuts",
    ),
    Sample("mixed inputs", [I64(1), F32(2.2), F64(0.5)], [np.array([1, 1.5, 2], F32)], to("f32")),
    Sample(
        "f16 inputs",
        [F64(0), np.float16(2), np.float16(0.75)],
        [np.array([0, 0.75, 1.5], np.float16)],
        to("f16"),
    ),
    Sample(
        "one rounding each, no drift",
        [F32(0), F32(1), F32(0.1)],
        [np.array([k / 10 for k in range(10)], F32)],
        to("f32"),
    ),
    Sample(
        "64-bit integers are exact",
        [I64(2**53), I64(2**53 + 3), I64(1)],
        [np.array([2**53, 2**53 + 1, 2**53 + 2])],
        to("i64"),
        openvino="counts in doubles and narrows to 32 bits",
    ),
    Sample(
        "u64 downwards",
        [np.uint64(2**63), np.uint64(2**63 - 2), I64(-1)],
        [np.array([2**63, 2**63 - 1], np.uint64)],
        to("u64"),
        openvino="narrows to 32 bits",
    ),
    Sample(
        "elements wrap",
        [I32(126), I32(130), I32(1)],
        [np.array([126, 127, -128, -127], np.int8)],
        to("i8"),
        openvino="wraps the bounds",
    ),
    Sample(
        "against the step",
        [F32(3), F32(1), F32(1)],
        [np.zeros((0,), F32)],
        to("f32"),
        openvino=AGAINST,
    ),
    Sample(
        "bf16",
        [I32(255), I32(259), I32(1)],
        [np.array([0x437F, 0x4380, 0x4380, 0x4381], np.uint16)],
        to("bf16"),
        output_types=["bf16"],
        openvino="accumulates otherwise",
    ),
]
REFUSALS = [
    Refusal("step 0", [I32(0), I32(1), I32(0)], "'step': expected a number other than 0, got 0"),
    Refusal("NaN", [F32(0), F32(np.nan), F32(1)], "'stop': expected a finite number, got nan"),
    Refusal(
        "infinity", [F32(np.inf), F32(1), F32(1)], "'start': expected a finite number, got inf"
    ),
    Refusal(
        "vector", [np.array([0]), I64(1), I64(1)], r"'start': expected a scalar, got shape \[1\]"
    ),
    Refusal(
        "boolean", [I32(0), np.bool_(True), I32(1)], "'stop' .port 1.: expected .*, got boolean"
    ),
    Refusal("too long", [F64(0), F64(1e300), F64(1e-300)], "more than this machine's memory"),
]
REFUSALS_1 = [Refusal("types", [I32(0), I64(1), I32(1)], "expected i32 as 'start' has, got i64")]
REFUSALS_4 = [
    Refusal(
        "step cut to 0",
        [I32(0), I32(1), F32(0.9)],
        "'step': expected a number other than 0, got 0",
        to("i32"),
    ),
    Refusal(
        "output type",
        [I32(0), I32(1), I32(1)],
        "'output_type': expected a numeric type of at least 8 bits, got u4",
        to("u4"),
    ),
]


@st.composite
def cases(draw: st.DrawFn, free: bool) -> Case:
    names = st.sampled_from(["i8", "i32", "i64", "u8", "u64", "f16", "bf16", "f32", "f64"])
    types = [draw(names) for _ in range(3)] if free else [draw(names)] * 3
    output = draw(names) if free else types[0]
    inputs = []
    for name, low in zip(types, (-60, -60, -12), strict=True):
        element_type = ElementType.parse(name)
        quarters = draw(
            st.integers(0 if element_type.kind == "unsigned" else low, -low).filter(
                lambda n, low=low: low == -60 or abs(n) >= 4
            )
        )
        value = np.float64(quarters / 4) if element_type.is_float else np.int64(quarters // 4)
        inputs.append(storage.encode(np.asarray(value), element_type))
    return Case(inputs, {"output_type": ElementType.parse(output)} if free else {}, types)


def loop(case: Case) -> list[np.ndarray]:
    """Step by step while the stop is ahead; quarters are exact in every float type here."""
    output = case.attributes.get("output_type", case.types[0])
    start, stop, step = (
        float(storage.decode(a, t)) for a, t in zip(case.inputs, case.types, strict=True)
    )
    if output.is_integer:
        start, stop, step = int(start), int(stop), int(step)
    values = []
    while start < stop if step > 0 else start > stop:
        values.append(start)
        start += step
    if output.is_integer:
        low = -(2 ** (output.bits - 1)) if output.kind == "signed" else 0
        return [np.array([(v - low) % 2**output.bits + low for v in values], output.dtype)]
    return [storage.encode(np.array(values, np.float64), output)]


SAMPLES = [
    Samples(
        Range4,
        EXAMPLES_4,
        [Refusal(r.name, r.inputs, r.message, to("f64") | dict(r.attributes)) for r in REFUSALS]
        + REFUSALS_4,
        cases(True),
        loop,
    ),
    Samples(Range1, EXAMPLES_1, REFUSALS + REFUSALS_1, cases(False), loop),
]
