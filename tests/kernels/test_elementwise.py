"""Kernels that compute element by element: every operation on edge values of every type, every
broadcasting, random expressions.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork import storage
from uncork.compiler.compile import compile_model
from uncork.internal_ops.fused import Fused, FusedMember
from uncork.kernels.elementwise.lowering import lowered
from uncork.kernels.extents import KernelDeclined
from uncork.kernels.kernel_plan import KernelPlan
from uncork.ops import Operation, find
from uncork.types import ElementType, TensorSpec

SIZES = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 70]
FLOATS = ["f32", "f64", "f16", "bf16"]
INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
#: Values at which functions and conversions change: signs of zero, halves, the edges of integer
#: types and of f32, what is no number.
EDGES = [
    0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, 1.0, -1.0, 0.49999997, 3.0, -3.0, 100.7, -100.7, 127.5,
    128.0, 255.5, 256.0, -129.0, 32768.0, 65535.9, 2.0**31 - 128, 2.0**31, -(2.0**31), 2.0**32,
    2.0**33 + 4096, 2.0**63, -(2.0**63), 1e-40, -1e-40, 1e38, -1e38, 17.9, -18.1, 88.0, -104.0,
    math.inf, -math.inf, math.nan,
]  # fmt: skip


def edges(name: str) -> TensorSpec:
    element_type = ElementType.parse(name)
    with np.errstate(all="ignore"):
        if element_type.is_float:
            return spec_of(storage.encode(np.array(EDGES), element_type), element_type)
        if element_type is ElementType.boolean:
            return spec_of(np.resize([True, False, False, True, True], len(EDGES)), element_type)
        limits = np.iinfo(element_type.dtype)
        values = [
            limits.min,
            limits.max,
            0,
            1,
            2,
            3,
            limits.max - 1,
            limits.max // 2,
            limits.min // 2,
        ]
        return spec_of(np.resize(np.array(values, element_type.dtype), len(EDGES)), element_type)


def exact(got: np.ndarray, wanted: np.ndarray) -> None:
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def close(got: np.ndarray, spec: TensorSpec, rtol: float, atol: float) -> None:
    """Within a tolerance, or a unit of the last place of the halves."""
    a, b = (storage.decode(x, spec.element_type).astype(np.float64) for x in (got, spec.value))
    unit = {"f16": 2.0**-10, "bf16": 2.0**-7}.get(spec.element_type.name, 0.0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(a, b, rtol=max(rtol, unit), atol=atol)


def both(
    operation: Operation, specs: list[TensorSpec], shift: int = 0
) -> tuple[np.ndarray, TensorSpec]:
    results, choice = run_native(operation, specs, shift)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    return results[0], operation.evaluate(specs)[0]


EXACT_UNARY = [
    "Abs",
    "Negative",
    "Sign",
    "Floor",
    "Ceiling",
    "ReLU",
    "Round",
    "HSigmoid",
    "HSwish",
    "SoftSign",
    "Sqrt",
    "Clamp",
]
VERSION = {
    "Round": 5,
    "HSigmoid": 5,
    "HSwish": 4,
    "SoftSign": 9,
    "SoftPlus": 4,
    "Mish": 4,
    "Gelu": 7,
    "Swish": 4,
    "IsNaN": 10,
    "IsFinite": 10,
    "IsInf": 10,
}
ATTRIBUTES: dict[str, list[dict[str, object]]] = {
    "Round": [{"mode": "half_to_even"}, {"mode": "half_away_from_zero"}],
    "Clamp": [{"min": -2.5, "max": 100.25}],
    "Elu": [{"alpha": 0.75}],
    "Gelu": [{"approximation_mode": "erf"}, {"approximation_mode": "tanh"}],
    "IsInf": [{}, {"detect_negative": False}, {"detect_positive": False}],
}


@pytest.mark.parametrize("type_name", EXACT_UNARY)
@pytest.mark.parametrize("element_type", [*FLOATS, *INTEGERS])
def test_functions_that_are_exact(type_name: str, element_type: str) -> None:
    for attributes in ATTRIBUTES.get(type_name, [{}]):
        operation = find(type_name, VERSION.get(type_name, 1))(**attributes)
        real = ElementType.parse(element_type).is_float
        if not real and (
            type_name in ("HSigmoid", "HSwish", "SoftSign", "Sqrt")
            or (type_name == "Clamp" and element_type.endswith("64"))
        ):
            continue
        got, wanted = both(operation, [edges(element_type)])
        exact(*(storage.decode(x, wanted.element_type) for x in (got, wanted.value)))


#: Errors against the reference, relative and absolute: both are within a few units of the last
#: place of f32.
REAL = {
    "Exp": (6e-7, 1e-44),
    "Log": (4e-7, 0),
    "Sigmoid": (6e-7, 1.2e-38),
    "Tanh": (6e-7, 0),
    "Erf": (4e-7, 0),
    "SoftPlus": (6e-7, 1e-44),
    "Mish": (1e-6, 1e-44),
    "Elu": (4e-7, 0),
    "Swish": (6e-7, 1e-37),
    # 1 + erf(x) has lost its digits far below 0, in the reference too: what is left is a rounding
    # of 1, times x.
    "Gelu": (6e-7, 5e-7),
}


@pytest.mark.parametrize("type_name", REAL)
@pytest.mark.parametrize("element_type", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("size", [1, 5, 16, 4099])
def test_real_functions(type_name: str, element_type: str, size: int) -> None:
    generator = np.random.default_rng(size)
    values = np.concatenate(
        [generator.standard_normal(size) * generator.choice([0.01, 1, 30], size), EDGES]
    )[-max(size, len(EDGES)) :]
    with np.errstate(over="ignore"):
        spec = spec_of(
            storage.encode(values.astype(np.float32), ElementType.parse(element_type)),
            ElementType.parse(element_type),
        )
    for attributes in ATTRIBUTES.get(type_name, [{}]):
        got, wanted = both(find(type_name, VERSION.get(type_name, 1))(**attributes), [spec])
        close(got, wanted, *REAL[type_name])


def test_exp_log_and_erf_against_exact_values() -> None:
    """Not against NumPy: Python's own f64 functions."""
    x = np.random.default_rng(0).uniform(-20, 20, 3000).astype(np.float32)
    for type_name, function, given_ in (
        ("Exp", math.exp, x),
        ("Log", math.log, np.abs(x)),
        ("Erf", math.erf, x),
        ("Tanh", math.tanh, x),
    ):
        got, _ = both(find(type_name, 1)(), [spec_of(given_, ElementType.f32)])
        wanted = np.array([function(float(v)) for v in given_])
        np.testing.assert_allclose(got, wanted, rtol=4.5e-7, err_msg=type_name)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x)


@pytest.mark.parametrize(
    ("type_name", "function", "off"),
    [
        ("Exp", math.exp, 2.0),
        ("Log", math.log, 2.0),
        ("Tanh", math.tanh, 4.0),
        ("Sigmoid", _sigmoid, 4.0),
        ("Sin", math.sin, 2.0),
        ("Cos", math.cos, 2.0),
    ],
)
def test_functions_of_doubles(type_name: str, function: Any, off: float) -> None:
    """Against those of C, so many units of the last place off at most; angles also where sines are
    small, logarithms also near 1 and of subnormal numbers.
    """
    generator = np.random.default_rng(2)
    x = np.concatenate(
        [
            *(generator.uniform(-size, size, 400) for size in (1e-3, 1, 30, 700)),
            generator.uniform(-1e6, 1e6, 400) if type_name in ("Sin", "Cos") else [],
            np.arange(1, 40) * np.pi / 2,
            1 + generator.uniform(-1e-6, 1e-6, 40),
            [5e-324, 1e-310, 2.3e-308, 1.7e308, 0.7071067811865476, 1.0, math.e],
        ]
    )
    x = x[x < 700] if type_name in ("Exp", "Sigmoid", "Tanh", "Sin", "Cos") else np.abs(x)
    (results, choice) = run_native(find(type_name, 1)(), [spec_of(x, ElementType.f64)])
    assert isinstance(choice, KernelPlan), choice
    wanted = np.array([function(v) for v in x])
    room = np.spacing(np.maximum(np.abs(wanted), 2.0**-1022))
    if type_name in ("Sin", "Cos"):  # near 0 so far off as a turn of pi is known
        room = np.maximum(room, 1e-22)
    np.testing.assert_array_less(np.abs(results[0] - wanted), off * room + 5e-324)


def test_functions_of_doubles_at_the_edges() -> None:
    """Limits, what has none, and the signs of zero."""
    inf, nan = math.inf, math.nan
    for type_name, given_, wanted in (
        ("Exp", [0, -0.0, 710, -746, inf, -inf, nan, -745.0], [1, 1, inf, 0, inf, 0, nan, 5e-324]),
        ("Log", [0, -0.0, 1, inf, -1, -inf, nan], [-inf, -inf, 0, inf, nan, nan, nan]),
        ("Tanh", [0, -0.0, 30, -30, inf, -inf, nan], [0, -0.0, 1, -1, 1, -1, nan]),
        ("Sigmoid", [0, inf, -inf, nan], [0.5, 1, 0, nan]),
        ("Sin", [0, -0.0, inf, -inf, nan], [0, -0.0, nan, nan, nan]),
        ("Cos", [0, -0.0, inf, -inf, nan], [1, 1, nan, nan, nan]),
    ):
        results, _ = run_native(find(type_name, 1)(), [spec_of(np.array(given_), ElementType.f64)])
        np.testing.assert_array_equal(results[0], wanted, err_msg=type_name)
        signs = np.signbit(results[0]) == np.signbit(wanted)
        assert (signs | np.isnan(wanted)).all(), type_name


@pytest.mark.parametrize("element_type", ["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize(
    ("type_name", "opset"),
    [
        *((name, 1) for name in ("Asin", "Atan", "Erf", "Sin", "Sinh", "Tan", "Tanh", "Negative")),
        *((name, 4) for name in ("Asinh", "Atanh")),
        *((name, 1) for name in ("Elu", "Selu", "Sqrt", "Floor", "Ceiling")),
    ],
)
def test_zeros_keep_their_sign(type_name: str, opset: int, element_type: str) -> None:
    """As IEEE 754 has it for functions whose graph goes through 0, or is a straight line there."""
    b = uncork.Builder("zeros")
    x = b.parameter("x", element_type, [None])
    more = [
        b.add("Convert", 1, b.constant(np.float32(n)), destination_type=element_type)[0]
        for n in (1.625, 1.0625)
    ]
    attributes = {"alpha": 1.5} if type_name == "Elu" else {}
    given = [x, *more] if type_name == "Selu" else [x]
    b.result(b.add(type_name, opset, *given, **attributes)[0], "y")
    for backend in ("cpu", "reference"):
        compiled = compile_model(b.model(), backend=backend)
        y = compiled(np.array([-0.0, 0.0] * 9 + [-0.0], np.float32))["y"]
        negative = type_name != "Negative"
        np.testing.assert_array_equal(y, 0)
        np.testing.assert_array_equal(np.signbit(y), [negative, not negative] * 9 + [negative])


@pytest.mark.parametrize("mode", ["erf", "tanh"])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_gelu_of_the_largest_numbers(mode: str, element_type: str) -> None:
    """Far above 0 it is the number itself."""
    b = uncork.Builder("gelu")
    x = b.parameter("x", element_type, [None])
    b.result(b.add("Gelu", 7, x, approximation_mode=mode)[0], "y")
    dtype = ElementType.parse(element_type).dtype
    largest = np.finfo(dtype).max
    given = np.array([largest, largest / 2, 100] * 7, dtype)
    for backend in ("cpu", "reference"):
        np.testing.assert_array_equal(compile_model(b.model(), backend=backend)(given)["y"], given)


def test_gelu_against_exact_values() -> None:
    """Also where 1 + erf(x) has lost its digits."""
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(-7, 7, 20000), generator.uniform(-1, 1, 20000)])
    x = x.astype(np.float32)
    got, _ = both(find("Gelu", 7)(approximation_mode="erf"), [spec_of(x, ElementType.f32)])
    wanted = np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in map(float, x)])
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4.5e-7)
    np.testing.assert_allclose(got[x > 0], wanted[x > 0], rtol=3.5e-7)
    inner = np.abs(wanted) > 1e-2
    np.testing.assert_allclose(got[inner], wanted[inner], rtol=5e-6)


EXACT_BINARY = [
    "Add",
    "Subtract",
    "Multiply",
    "Divide",
    "SquaredDifference",
    "Maximum",
    "Minimum",
    "PReLU",
]
COMPARISONS = ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"]


@pytest.mark.parametrize("type_name", [*EXACT_BINARY, *COMPARISONS])
@pytest.mark.parametrize("element_type", [*FLOATS, *INTEGERS, "boolean"])
def test_operations_of_two(type_name: str, element_type: str) -> None:
    operation = find(type_name, 1)()
    if element_type == "boolean" and type_name in EXACT_BINARY:
        return
    spec = edges(element_type)
    others = spec_of(spec.value.reshape(-1, 1), spec.element_type)
    if type_name == "PReLU":
        others = spec_of(spec.value[:1] if spec.value[0] else spec.value[2:3], spec.element_type)
    specs = [spec, others] if type_name == "PReLU" else [others, spec]
    results, choice = run_native(operation, specs)
    if type_name == "Divide" and element_type in INTEGERS:
        assert isinstance(choice, KernelPlan) and results is None, "there is a divisor of 0"
        return
    assert isinstance(choice, KernelPlan), choice
    wanted = operation.evaluate(specs)[0]
    exact(*(storage.decode(x, wanted.element_type) for x in (results[0], wanted.value)))


@pytest.mark.parametrize("type_name", ["Divide", "Mod", "FloorMod"])
@pytest.mark.parametrize("attributes", [{}, {"m_pythondiv": False}])
@pytest.mark.parametrize("element_type", INTEGERS)
def test_integers_by_constants_above_0(
    type_name: str, attributes: dict[str, bool], element_type: str
) -> None:
    operation = find(type_name, 1)(**(attributes if type_name == "Divide" else {}))
    spec = edges(element_type)
    most = np.iinfo(spec.element_type.dtype).max
    for divisors in ([1, 2, 3, 7, 127, most - 1, most], [5]):
        values = np.array(divisors, spec.element_type.dtype).reshape(-1, 1)
        got, wanted = both(operation, [spec, spec_of(values, spec.element_type)])
        exact(got, wanted.value)


@pytest.mark.parametrize("bounds", [(-2.5, 100.25), (-math.inf, 3), (0, 2.0**53), (4, math.inf)])
@pytest.mark.parametrize("element_type", INTEGERS)
def test_bounds_of_integers(bounds: tuple[float, float], element_type: str) -> None:
    spec = edges(element_type)
    got, wanted = both(find("Clamp", 1)(min=bounds[0], max=bounds[1]), [spec])
    exact(got, wanted.value)


def test_a_bound_that_no_float_of_a_kernel_tells_from_its_neighbours() -> None:
    spec = edges("i64")
    with pytest.raises(KernelDeclined, match=r"^no kernel for bounds of 64 bits$"):
        lowered(find("Clamp", 1)(min=0, max=2.0**60), [spec], spec)


@pytest.mark.parametrize(
    "type_name",
    [
        "LogicalAnd",
        "LogicalOr",
        "LogicalXor",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "LogicalNot",
        "BitwiseNot",
    ],
)
@pytest.mark.parametrize("element_type", ["boolean", "u8", "i32", "i64"])
def test_logic(type_name: str, element_type: str) -> None:
    if type_name.startswith("Logical") and element_type != "boolean":
        return
    spec = edges(element_type)
    specs = (
        [spec]
        if type_name.endswith("Not")
        else [spec, spec_of(spec.value[::-1].copy(), spec.element_type)]
    )
    got, wanted = both(find(type_name, 13 if type_name.startswith("Bitwise") else 1)(), specs)
    exact(got, wanted.value)


@pytest.mark.parametrize("type_name", ["IsNaN", "IsFinite", "IsInf"])
@pytest.mark.parametrize("element_type", FLOATS)
def test_tests_of_floats(type_name: str, element_type: str) -> None:
    for attributes in ATTRIBUTES.get(type_name, [{}]):
        got, wanted = both(find(type_name, 10)(**attributes), [edges(element_type)])
        exact(got, wanted.value)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, "boolean"])
@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS, "boolean"])
def test_conversions(source: str, target: str) -> None:
    """Those that a kernel takes; what it leaves to the reference would be rounded twice, or has
    rules of its own.
    """
    operation = find("Convert", 1)(destination_type=target)
    results, choice = run_native(operation, [edges(source)])
    left = (source in FLOATS and target == "u64") or (target in ("f16", "bf16") and source == "f64")
    assert isinstance(choice, KernelPlan) == (not left), choice
    if results is not None:
        wanted = operation.evaluate([edges(source)])[0]
        exact(*(storage.decode(x, wanted.element_type) for x in (results[0], wanted.value)))


@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize(("target", "digits"), [("f16", 11), ("bf16", 8)])
def test_integers_as_halves_are_rounded_once(source: str, target: str, digits: int) -> None:
    """Numbers halfway between two halves, and those beside them, which f32 cannot tell apart."""
    kind = ElementType.parse(source)
    info = np.iinfo(kind.dtype)
    found = {info.min, info.max, 0, 1, 65519, 65520}
    for exponent in range(kind.bits):
        for odd in (1, 2**digits + 1, 2**digits + 3, 2 ** (digits + 1) - 1, 2**24 - 1):
            found |= {(odd << exponent) + beside for beside in (-1, 0, 1)}
    values = [v for n in sorted(found) for v in (n, -n) if info.min <= v <= info.max]
    operation = find("Convert", 1)(destination_type=target)
    results, choice = run_native(operation, [spec_of(np.array(values, kind.dtype), kind)])
    assert results is not None, choice

    def nearest(value: int) -> float:
        """The number of so many digits that is nearest to a whole one, ties to even."""
        unit = 1 << max(abs(value).bit_length() - digits, 0)
        whole, rest = divmod(abs(value), unit)
        whole += 2 * rest > unit or (2 * rest == unit and whole % 2)
        size = math.inf if target == "f16" and whole * unit > 65504 else float(whole * unit)
        return math.copysign(size, value)

    got = storage.decode(results[0], ElementType.parse(target)).tolist()
    assert got == [nearest(value) for value in values]


@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
def test_powers(exponent: float, element_type: str) -> None:
    spec = edges(element_type)
    specs = [spec, spec_of(np.full((1,), exponent, spec.value.dtype), spec.element_type)]
    got, _ = both(find("Power", 1)(), specs)
    # By C's pow: NumPy takes a root for a single exponent of 1/2, but not for many, and -infinity
    # has none.
    wanted = [_pow(float(x), exponent) for x in spec.value]
    with np.errstate(over="ignore"):
        close(
            got, spec_of(np.array(wanted).astype(spec.value.dtype), spec.element_type), 3e-7, 1e-44
        )


def _pow(x: float, exponent: float) -> float:
    try:
        return math.pow(x, exponent)
    except OverflowError:
        return math.copysign(math.inf, x) if exponent in (-1.0, 3.0) else math.inf
    except ValueError:  # C gives infinity for 0, and NaN for the roots of what is negative
        return (
            (math.copysign(math.inf, x) if exponent == -1.0 else math.inf) if x == 0 else math.nan
        )


@pytest.mark.parametrize("element_type", ["f32", "f16", "bf16"])
def test_powers_of_tensors(element_type: str) -> None:
    """Against powers in f64, half a unit of the last place off at most, and the rules of IEEE 754
    for numbers at the edges.
    """
    generator = np.random.default_rng(2)
    bases, exponents = np.meshgrid(EDGES, [*EDGES, 0.75, 1 / 3, -7.0, 2.2])
    bases = np.concatenate([bases.ravel(), np.exp(generator.uniform(-20, 20, 5000))])
    exponents = np.concatenate([exponents.ravel(), generator.uniform(-6, 6, 5000)])
    kind = ElementType.parse(element_type)
    with np.errstate(all="ignore"):
        specs = [spec_of(storage.encode(v, kind), kind) for v in (bases, exponents)]
        a, b = (storage.decode(s.value, kind).astype(np.float64) for s in specs)
        wanted = storage.encode(np.power(a, b), kind)
    results, choice = run_native(find("Power", 1)(), specs)
    assert isinstance(choice, KernelPlan), choice
    got, exact_ones = (storage.decode(v, kind) for v in (results[0], wanted))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact_ones))
    numbers = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(exact_ones[numbers]))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(exact_ones))
    finite = np.isfinite(got)
    place = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[element_type]
    smallest = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[element_type]
    np.testing.assert_allclose(got[finite], exact_ones[finite], rtol=place, atol=smallest)


@pytest.mark.parametrize("element_type", [*FLOATS, *INTEGERS, "boolean", "u4", "f8e4m3"])
def test_selection_and_broadcast_move_bits(element_type: str) -> None:
    kind = ElementType.parse(element_type)
    dtype = kind.dtype
    codes = np.random.default_rng(1).integers(
        0, 2 if element_type == "boolean" else 16, (3, 1, 37 * dtype.itemsize), np.uint8
    )
    values = spec_of(codes.view(dtype), kind)
    other = spec_of(codes[::-1].copy().view(dtype)[:1], kind)
    condition = spec_of(
        np.random.default_rng(2).integers(0, 2, (5, 37)).astype(bool), ElementType.boolean
    )
    got, wanted = both(find("Select", 1)(), [condition, values, other])
    exact(got.view(np.uint8), wanted.value.view(np.uint8))
    target = spec_of(np.array([3, 4, 37]), ElementType.i64)
    got, wanted = both(find("Broadcast", 3)(mode="numpy"), [values, target])
    exact(got.view(np.uint8), wanted.value.view(np.uint8))


@st.composite
def broadcast_shapes(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    """Shapes that stretch to one, sizes around those of vectors included."""
    whole = draw(st.lists(st.sampled_from([1, 2, 3, 5, 17]), min_size=0, max_size=5))
    if whole and draw(st.booleans()):
        whole[-1] = draw(st.sampled_from(SIZES))
    shapes = []
    for _ in range(count):
        cut = draw(st.integers(0, len(whole)))
        shapes.append(tuple(1 if draw(st.booleans()) else n for n in whole[cut:]))
    return shapes


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    shapes=broadcast_shapes(2),
    element_type=st.sampled_from(["f32", "f64", "i64", "u8", "bf16"]),
    shift=st.sampled_from([0, 1, 2, 4]),
)
def test_every_broadcasting(shapes: list[tuple[int, ...]], element_type: str, shift: int) -> None:
    generator = np.random.default_rng(sum(map(sum, shapes)))
    kind = ElementType.parse(element_type)
    least = 0 if element_type == "u8" else -50  # what less than 0 is there, processors differ in
    numbers = [np.asarray(generator.integers(least, 50, s)).astype(np.float32) / 8 for s in shapes]
    specs = [spec_of(storage.encode(array, kind), kind) for array in numbers]
    got, wanted = both(find("Subtract", 1)(), specs, shift)
    exact(got, wanted.value)


#: Members of random expressions. What comes after a function that is not exact may magnify its
#: error: these do not.
ONE = [
    ("ReLU", 1, {}),
    ("Negative", 1, {}),
    ("Abs", 1, {}),
    ("Floor", 1, {}),
    ("Clamp", 1, {"min": -2.0, "max": 3.0}),
    ("Sqrt", 1, {}),
]
TWO = [
    ("Add", 1, {}),
    ("Subtract", 1, {}),
    ("Multiply", 1, {}),
    ("Maximum", 1, {}),
    ("Minimum", 1, {}),
    ("Divide", 1, {}),
]


@st.composite
def expressions(draw: st.DrawFn) -> tuple[Fused, list[TensorSpec]]:
    """An expression of exact operations, of a type, on inputs that stretch; the last member has the
    whole shape.
    """
    kind = ElementType.parse(draw(st.sampled_from(["f32", "f32", "f64", "f16", "bf16"])))
    whole = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 18, 33]), min_size=1, max_size=3)))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    specs = []
    for number in range(draw(st.integers(1, 4))):
        shape = whole if number == 0 else tuple(1 if draw(st.booleans()) else n for n in whole)
        specs.append(
            spec_of(storage.encode(generator.standard_normal(shape).astype(np.float32), kind), kind)
        )
    members: list[FusedMember] = []
    conditions: list[int] = []
    values = list(range(len(specs)))
    whole_ones = [0]
    for _ in range(draw(st.integers(1, 8))):
        number = len(specs) + len(members)
        pick = draw(st.sampled_from(["one", "two", "two", "compare", "select"]))
        first = draw(st.sampled_from(whole_ones))
        if pick == "select" and conditions:
            members.append(
                FusedMember(
                    find("Select", 1)(),
                    (draw(st.sampled_from(conditions)), first, draw(st.sampled_from(values))),
                )
            )
        elif pick == "compare":
            members.append(FusedMember(find("Less", 1)(), (first, draw(st.sampled_from(values)))))
            conditions.append(number)
            continue
        elif pick == "one":
            name, version, attributes = draw(st.sampled_from(ONE))
            members.append(FusedMember(find(name, version)(**attributes), (first,)))
        else:
            name, version, attributes = draw(st.sampled_from(TWO))
            members.append(
                FusedMember(
                    find(name, version)(**attributes), (first, draw(st.sampled_from(values)))
                )
            )
        values.append(number)
        whole_ones.append(number)
    if draw(st.booleans()) and members[-1].operation.type_name != "Less":
        members.append(FusedMember(find("Convert", 1)(destination_type="f32"), (whole_ones[-1],)))
    return Fused(members), specs


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=expressions(), shift=st.sampled_from([0, 2, 4]))
def test_random_expressions(case: tuple[Fused, list[TensorSpec]], shift: int) -> None:
    operation, specs = case
    got, wanted = both(operation, specs, shift)
    exact(*(storage.decode(x, wanted.element_type) for x in (got, wanted.value)))


def test_batch_normalisation_by_channel() -> None:
    generator = np.random.default_rng(3)

    def draw(*shape: int) -> TensorSpec:
        return spec_of(generator.uniform(0.5, 2, shape).astype(np.float32), ElementType.f32)

    data = draw(2, 5, 3, 7)
    parameters = [draw(5) for _ in range(4)]
    for version, specs in ((5, [data, *parameters]), (1, [*parameters[:2], data, *parameters[2:]])):
        got, wanted = both(find("BatchNormInference", version)(epsilon=1e-3), specs)
        exact(got, wanted.value)


def test_a_slope_for_each_channel() -> None:
    """A 1-D slope lies along dimension 1, not along the last."""
    data = spec_of(-np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4), ElementType.f32)
    slope = spec_of(np.array([0.0, 1.0, 2.0], np.float32), ElementType.f32)
    got, _ = both(find("PReLU", 1)(), [data, slope])
    exact(got, data.value * np.array([0, 1, 2], np.float32).reshape(3, 1))


# ---- integers divided


def of_integers(type_name: str, cut: bool, a: int, b: int) -> int:
    """By Python's integers: the quotient, or what is left of it."""
    quotient = a // b
    if cut and a % b and (a < 0) != (b < 0):
        quotient += 1
    return quotient if type_name == "Divide" else a - quotient * b


DIVISIONS = [
    ("Divide", False, {"m_pythondiv": True}),
    ("Divide", True, {"m_pythondiv": False}),
    ("Mod", True, {}),
    ("FloorMod", False, {}),
]


@pytest.mark.parametrize(("type_name", "cut", "attributes"), DIVISIONS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_divided(
    type_name: str, cut: bool, attributes: dict[str, bool], dtype: type[np.generic]
) -> None:
    """Small ones and those at the ends of the type, each by each; what is too large wraps."""
    limits = np.iinfo(dtype)
    near = [*range(-9, 10), limits.min, limits.min + 1, limits.max - 1, limits.max]
    values = sorted({value for value in near if limits.min <= value <= limits.max})
    pairs = [(a, b) for a in values for b in values if b]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    kind = ElementType.of_dtype(np.dtype(dtype))
    assert kind is not None
    operation = find(type_name, 1)(**attributes)
    results, choice = run_native(operation, [spec_of(a, kind), spec_of(b, kind)])
    assert isinstance(choice, KernelPlan) and results is not None
    whole = 1 << limits.bits
    wanted = [
        (of_integers(type_name, cut, x, y) - limits.min) % whole + limits.min for x, y in pairs
    ]
    assert results[0].tolist() == wanted
    for divisor in (1, limits.max, values[0] or 3):  # one for all
        one = spec_of(np.array(divisor, dtype), kind)
        results, _ = run_native(operation, [spec_of(a, kind), one])
        exactly = [of_integers(type_name, cut, x, divisor) for x, _ in pairs]
        assert results is not None
        assert results[0].tolist() == [(n - limits.min) % whole + limits.min for n in exactly]


@pytest.mark.parametrize(("type_name", "cut", "attributes"), DIVISIONS)
def test_a_divisor_of_zero(type_name: str, cut: bool, attributes: dict[str, bool]) -> None:
    """At any place, also in the tail of a vector; the next call is as before."""
    builder = uncork.Builder("divided")
    a, b = (builder.parameter(name, "i64", [None]) for name in "ab")
    (out,) = builder.add(type_name, 1, a, b, **attributes)
    builder.result(builder.add("Add", 1, out, out)[0], "out")
    compiled = uncork.compile_model(builder.model(), threads=1)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)
    for count in (1, 3, 8, 19):
        given = np.arange(count) - 5
        wanted = [2 * of_integers(type_name, cut, int(x), 3) for x in given]
        assert compiled(given, np.full(count, 3))["out"].tolist() == wanted
        for place in (0, count - 1):
            divisors = np.full(count, 3)
            divisors[place] = 0
            with pytest.raises(uncork.InputError, match=rf"{type_name}.*b\[{place}\] is 0, "):
                compiled(given, divisors)
        assert compiled(given, np.full(count, 3))["out"].tolist() == wanted


# ---- shifts, angles and the inverse of erf


@pytest.mark.parametrize("type_name", ["BitwiseLeftShift", "BitwiseRightShift"])
@pytest.mark.parametrize("dtype", [f"{sign}int{bits}" for sign in "u " for bits in (8, 16, 32, 64)])
def test_shifts(type_name: str, dtype: str) -> None:
    """By Python's integers: by no place up to more than there are, of numbers at the ends."""
    limits = np.iinfo(dtype.strip())
    near = [*range(-5, 6), limits.min, limits.min + 1, limits.max // 3, limits.max]
    values = sorted({value for value in near if limits.min <= value <= limits.max})
    places = [0, 1, 2, limits.bits - 1, limits.bits, limits.bits + 1, 127, limits.max]
    pairs = [(a, b) for a in values for b in places]
    a, b = (np.array(column, limits.dtype) for column in zip(*pairs, strict=True))
    kind = ElementType.of_dtype(limits.dtype)
    assert kind is not None
    operation = find(type_name, 15)()
    results, choice = run_native(operation, [spec_of(a, kind), spec_of(b, kind)])
    assert isinstance(choice, KernelPlan) and results is not None
    left, whole = type_name == "BitwiseLeftShift", 1 << limits.bits
    wanted = [x << min(y, 64) if left else x >> min(y, 64) for x, y in pairs]
    assert results[0].tolist() == [(n - limits.min) % whole + limits.min for n in wanted]
    if limits.min < 0:  # at any place, also in the tail of a vector
        for place in (0, len(pairs) - 1):
            wrong = b.copy()
            wrong[place] = -1
            results, _ = run_native(operation, [spec_of(a, kind), spec_of(wrong, kind)])
            assert results is None


def units_off(got: np.ndarray, exactly: list[float]) -> float:
    """The largest error in units of the last place of f32; what is no number is to be none."""
    wanted = np.array(exactly)
    assert (np.isnan(got) == np.isnan(wanted)).all()
    numbers = ~np.isnan(wanted)
    got, wanted = got[numbers].astype(np.float64), wanted[numbers]
    assert (np.signbit(got) == np.signbit(wanted)).all()
    with np.errstate(invalid="ignore"):
        off = np.where(got == wanted, 0.0, got - wanted)
    unit = np.spacing(np.maximum(np.abs(wanted), 2.0**-126).clip(max=3e38).astype(np.float32))
    return float(np.abs(off / unit).max())


def test_angles_of_points() -> None:
    """By the C library: all quadrants and lengths, zeros and infinities of both signs."""
    generator = np.random.default_rng(0)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 3e38], np.float32)
    sizes = np.exp(generator.uniform(-60, 60, (2, 3000)))
    drawn = np.concatenate([generator.standard_normal((2, 3000)), sizes], 1).astype(np.float32)
    signs = generator.choice([-1, 1], drawn.shape).astype(np.float32)
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    y, x = np.concatenate([pairs, drawn * signs], 1)
    given = [spec_of(np.ascontiguousarray(part), ElementType.f32) for part in (y, x)]
    results, choice = run_native(find("Atan2", 17)(), given)
    assert isinstance(choice, KernelPlan) and results is not None
    wanted = [math.atan2(a, b) for a, b in zip(y.tolist(), x.tolist(), strict=True)]
    assert units_off(results[0], wanted) < 0.51


def test_inverse_of_erf() -> None:
    """By the quantiles of the normal distribution: from tiny numbers to the neighbour of 1."""
    generator = np.random.default_rng(0)
    special = [0, -0.0, 1, -1, 2, -np.inf, np.nan, 1 - 2**-24, 2**-24 - 1, 0.85, 1e-45]
    near = [1 - np.exp(generator.uniform(-16, 0, 2000)), np.exp(generator.uniform(-80, -1, 2000))]
    x = np.concatenate([special, *near, generator.uniform(-1, 1, 4000)]).astype(np.float32)
    results, choice = run_native(find("ErfInv", 17)(), [spec_of(x, ElementType.f32)])
    assert isinstance(choice, KernelPlan) and results is not None
    normal = NormalDist()

    def inverse(y: float) -> float:
        if not -1 < y < 1:
            return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
        if abs(y) < 1e-5:
            return y * math.sqrt(math.pi) / 2
        return math.copysign(normal.inv_cdf((1 - abs(y)) / 2) / math.sqrt(2), y)

    assert units_off(results[0], [inverse(y) for y in x.tolist()]) < 0.51
