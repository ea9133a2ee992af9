"""The scalar operations of kernels: what each computes of one element. `elementwise/lowering.py`
tells which layer is which.

A scalar operation takes vectors of the operands (f16 and bf16 widened to f32) and the numbers of
its operation. Arithmetic rounds as NumPy's: nothing is contracted or reordered. Real functions are
those of `functions.py`, whose errors stand there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from uncork.kernels.codegen import doubles, functions, remainder, rough
from uncork.kernels.codegen.activations import accurate_sigmoid, accurate_tanh, exp
from uncork.kernels.codegen.circular import CIRCULAR, atan2
from uncork.kernels.codegen.emit import BOOL, F16, F32, F64, INDEX_TYPES, U32, Kernel, Type, Value
from uncork.kernels.codegen.power import power

Numbers = Sequence[float]
ScalarEmitter = Callable[[Kernel, Sequence[Value], Numbers], Value]
#: Scalar operations that pass values on as they are stored: no f16 or bf16 is widened for them.
MOVING = frozenset({"select", "same"})
#: How a value is held while it is computed with.
COMPUTED: dict[str, Type] = {
    "f32": F32,
    "f64": F64,
    "f16": F32,
    "bf16": F32,
    "boolean": BOOL,
    **INDEX_TYPES,
}


def _is_float(value: Value) -> bool:
    return value.type.kind == "float"


def _number(k: Kernel, like: Value, number: float) -> Value:
    return k.constant(number, like.type, like.lanes)


def absolute(k: Kernel, a: Value) -> Value:
    if _is_float(a):
        return k.intrinsic("fabs", a)
    return a if a.type.kind == "unsigned" else k.select(a < 0, -a, a)


def _sign(k: Kernel, a: Value) -> Value:
    one, zero = _number(k, a, 1), _number(k, a, 0)
    signed = (
        k.select(a > 0, one, k.select(a < 0, -one, zero))
        if a.type.kind != "unsigned"
        else k.select(a > 0, one, zero)
    )
    return k.select(a.equals(a), signed, a) if _is_float(a) else signed


def _rounding(intrinsic: str) -> ScalarEmitter:
    return lambda k, v, n: k.intrinsic(intrinsic, v[0]) if _is_float(v[0]) else v[0]


def _round_away(k: Kernel, a: Value) -> Value:
    if not _is_float(a):
        return a
    whole = k.intrinsic("trunc", a)
    one = k.select(a < 0, _number(k, a, -1.0), _number(k, a, 1.0))
    return k.select(k.intrinsic("fabs", a - whole) >= 0.5, whole + one, whole)


def _rectified(k: Kernel, a: Value) -> Value:
    return a if a.type.kind == "unsigned" else k.select(a < 0, _number(k, a, 0), a)


def _prelu(k: Kernel, a: Value, slope: Value) -> Value:
    return a if a.type.kind == "unsigned" else k.select(a < 0, slope * a, a)


def _elu(k: Kernel, a: Value, alpha: Value | float) -> Value:
    return k.select(a >= 0, a, functions.expm1_below(k, a) * alpha)  # -0 stays -0


def _square(k: Kernel, a: Value) -> Value:
    return a * a


def _root(k: Kernel, a: Value) -> Value:
    """a to the power of 1/2. Unlike the square root it is +0 of -0, and +infinity of -infinity."""
    infinite = _number(k, a, math.inf)
    return k.select(a.equals(-infinite), infinite, k.intrinsic("sqrt", a + 0.0))


def to_bf16(k: Kernel, value: Value) -> Value:
    """The bits of the nearest bf16 of f32, ties to even."""
    bits = value.bits_as(U32)
    # half of the last place less a bit: ties go to even
    rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
    quiet = (bits >> 16) | 0x40  # rounding the bits of a NaN up could make another number of it
    return k.select(value.equals(value), rounded, quiet)


def _batch_norm(k: Kernel, v: Sequence[Value], n: Numbers) -> Value:
    x, gamma, beta, mean, variance = v
    return gamma * ((x - mean) / k.intrinsic("sqrt", variance + n[0])) + beta


def _quotient(k: Kernel, a: Value, b: Value, small: bool = False) -> Value:
    """a / b rounded as a division rounds it, computed by products with 1 / b. b does not change
    along a row, and is 0 or a normal number; with `small` both are whole numbers, b below 2**20.
    """
    if a.type != F32 or not k.fuses:
        return a / b
    share = _number(k, b, 1.0) / b
    guess = a * share
    # The first may be 2 units off, and the next wrong where a / b is nearly between two numbers,
    # which quotients of small numbers are not: they are b times nearer at most.
    for _ in range(1 if small else 2):
        guess = k.fma(k.fma(-guess, b, a), share, guess)
    return guess


def _fake_quantized(k: Kernel, v: Sequence[Value], n: Numbers) -> Value:
    """FakeQuantize: the nearest of so many levels between the input's two limits, as a number
    between the output's two limits; see `ops/fake_quantize.py`.
    """
    x, input_low, input_high, output_low, output_high = v
    steps, width = n[0], input_high - input_low
    size = k.intrinsic("fabs", width)
    smallest = 2.0**-125 if x.type == F32 else 0.0
    k.stop_unless(
        k.all_of(size.equals(0.0) | (size >= smallest) | functions.negated(k, size.equals(size))),
        k.integer(1),
    )
    step = k.intrinsic("rint", _quotient(k, x - input_low, width) * steps)
    # Divided, as the formula says. Multiplied by the inverse of `steps`, levels that are whole
    # numbers would lie beside them, and a conversion to integers behind cuts.
    share = _quotient(k, step, _number(k, x, steps), small=steps < 2**20)
    between = share * (output_high - output_low) + output_low
    above = x > functions.larger(k, input_low, input_high)
    below = x <= functions.smaller(k, input_low, input_high)
    return k.select(below, output_low, k.select(above, output_high, between))


def _is_finite(k: Kernel, a: Value) -> Value:
    return k.intrinsic("fabs", a) < math.inf


def _is_infinite(k: Kernel, a: Value, n: Numbers) -> Value:
    return (a.equals(math.inf) & int(n[0])) | (a.equals(-math.inf) & int(n[1]))


def _quotient_cut(k: Kernel, a: Value, b: Value) -> Value:
    """The quotient of integers, truncated towards zero; the kernel stops at a divisor of 0, which
    the reference refuses.
    """
    k.stop_unless(k.all_of(functions.negated(k, b.equals(0))), k.integer(1))
    if a.type.kind == "unsigned":
        return a // b
    turned = b.equals(-1)  # of the lowest integer the machine's division is not defined
    return k.select(turned, -a, a // k.select(turned, _number(k, b, 1), b))


def _remainder_cut(k: Kernel, a: Value, b: Value) -> Value:
    if _is_float(a):
        return remainder.remainder_cut(k, a, b)
    return a - _quotient_cut(k, a, b) * b


def _quotient_down(k: Kernel, a: Value, b: Value) -> Value:
    quotient = _quotient_cut(k, a, b)
    if a.type.kind == "unsigned":
        return quotient
    lower = _is_between(k, a - quotient * b, b)
    return k.select(lower, quotient - 1, quotient)


def _remainder_down(k: Kernel, a: Value, b: Value) -> Value:
    if _is_float(a):
        return remainder.remainder_down(k, a, b)
    rest = _remainder_cut(k, a, b)
    if a.type.kind == "unsigned":
        return rest
    return k.select(_is_between(k, rest, b), rest + b, rest)


def _is_between(k: Kernel, remainder: Value, divisor: Value) -> Value:
    """Whether truncation has rounded the quotient that left this remainder up to the next
    integer.
    """
    return functions.negated(k, remainder.equals(0)) & ((remainder < 0) ^ (divisor < 0))


def _places(k: Kernel, a: Value, b: Value) -> tuple[Value, Value]:
    """The places to shift by, at most all but one, and whether some bit stays; the kernel stops at
    a negative number, which the reference refuses.
    """
    if b.type.kind != "unsigned":
        k.stop_unless(k.all_of(b >= 0), k.integer(1))
    some = b < a.type.bits
    return k.select(some, b, _number(k, b, a.type.bits - 1)), some


def _shifted_left(k: Kernel, a: Value, b: Value) -> Value:
    places, some = _places(k, a, b)
    return k.select(some, a << places, _number(k, a, 0))


def _shifted_right(k: Kernel, a: Value, b: Value) -> Value:
    places, some = _places(k, a, b)
    shifted = a >> places
    return shifted if a.type.kind != "unsigned" else k.select(some, shifted, _number(k, a, 0))


#: Operations of one operand and no numbers.
_UNARY: dict[str, Callable[[Kernel, Value], Value]] = {
    "same": lambda k, a: a,
    "abs": absolute,
    "negative": lambda k, a: -a,
    "sign": _sign,
    "round_away": _round_away,
    "relu": _rectified,
    "sigmoid": accurate_sigmoid,
    "tanh": accurate_tanh,
    "exp": exp,
    "log": functions.log,
    "erf": functions.erf,
    "gelu": functions.gelu,
    "rough_gelu": rough.gelu,
    "rough_gelu_tanh": rough.gelu_tanh,
    "rough_hsigmoid": rough.hsigmoid,
    "rough_hswish": rough.hswish,
    "rough_mish": rough.mish,
    "rough_sigmoid": rough.sigmoid,
    "rough_swish": rough.swish,
    "rough_tanh": rough.tanh,
    "gelu_tanh": functions.gelu_tanh,
    "softplus": functions.softplus,
    "mish": functions.mish,
    "softsign": lambda k, a: a / (k.intrinsic("fabs", a) + 1.0),
    "swish": lambda k, a: a * accurate_sigmoid(k, a),
    "hsigmoid": lambda k, a: functions.clamped(k, a + 3.0, 0.0, 6.0) / 6.0,
    "hswish": lambda k, a: a * functions.clamped(k, a + 3.0, 0.0, 6.0) / 6.0,
    "sqrt": lambda k, a: k.intrinsic("sqrt", a),
    "root": _root,
    "inverse_root": lambda k, a: _number(k, a, 1.0) / _root(k, a),
    "inverse": lambda k, a: _number(k, a, 1.0) / a,
    "round_f16": lambda k, a: a.to(F16).to(F32),
    "round_bf16": lambda k, a: (to_bf16(k, a) << 16).bits_as(F32),
    "square": _square,
    "cube": lambda k, a: a * a * a,
    "not": functions.negated,
    **CIRCULAR,
    "is_nan": lambda k, a: functions.negated(k, a.equals(a)),
    "is_finite": _is_finite,
}
#: What they are of f64, where that is another function. The sigmoid that ends a recurrent step is
#: cut at 2^-1000, which is too early here.
_OF_DOUBLES: dict[str, Callable[[Kernel, Value], Value]] = {
    "sigmoid": lambda k, a: _number(k, a, 1.0) / (doubles.exp(k, -a) + 1.0),
    "tanh": lambda k, a: k.select(a.equals(0.0), a, doubles.tanh(k, a)),  # of -0 it is -0
    "exp": doubles.exp,
    "log": doubles.log,
    "sin": doubles.sin,
    "cos": doubles.cos,
}
#: Operations of two operands and no numbers.
_BINARY: dict[str, Callable[[Kernel, Value, Value], Value]] = {
    "add": lambda k, a, b: a + b,
    "subtract": lambda k, a, b: a - b,
    "multiply": lambda k, a, b: a * b,
    "divide": lambda k, a, b: a / b,
    "divide_cut": _quotient_cut,
    "divide_down": _quotient_down,
    "remainder_cut": _remainder_cut,
    "remainder_down": _remainder_down,
    "squared_difference": lambda k, a, b: _square(k, a - b),
    "kept": lambda k, a, b: k.select(b.equals(0.0), _number(k, a, 0), a),
    "maximum": functions.larger,
    "minimum": functions.smaller,
    "equal": lambda k, a, b: a.equals(b),
    "not_equal": lambda k, a, b: functions.negated(k, a.equals(b)),
    "less": lambda k, a, b: a < b,
    "less_equal": lambda k, a, b: a <= b,
    "greater": lambda k, a, b: a > b,
    "greater_equal": lambda k, a, b: a >= b,
    "and": lambda k, a, b: a & b,
    "or": lambda k, a, b: a | b,
    "xor": lambda k, a, b: a ^ b,
    "shift_left": _shifted_left,
    "shift_right": _shifted_right,
    "atan2": atan2,
    "power": power,
    "prelu": _prelu,
    "swish_scaled": lambda k, a, b: a * accurate_sigmoid(k, a * b),
    "rough_swish_scaled": rough.swish_scaled,
}


def _of_one(
    function: Callable[[Kernel, Value], Value], of_doubles: Callable[[Kernel, Value], Value] | None
) -> ScalarEmitter:
    if of_doubles is None:
        return lambda k, v, n: function(k, v[0])
    return lambda k, v, n: (of_doubles if v[0].type == F64 else function)(k, v[0])


def _of_two(function: Callable[[Kernel, Value, Value], Value]) -> ScalarEmitter:
    return lambda k, v, n: function(k, v[0], v[1])


SCALAR_OPS: dict[str, ScalarEmitter] = {
    **{name: _of_one(function, _OF_DOUBLES.get(name)) for name, function in _UNARY.items()},
    **{name: _of_two(function) for name, function in _BINARY.items()},
    "floor": _rounding("floor"),
    "ceiling": _rounding("ceil"),
    "round_even": _rounding("rint"),
    "clamp": lambda k, v, n: functions.clamped(k, v[0], n[0], n[1]),
    "bounded": lambda k, v, n: functions.bounded(k, v[0], v[1], v[2]),
    "elu": lambda k, v, n: _elu(k, v[0], n[0]),
    "selu": lambda k, v, n: v[2] * _elu(k, v[0], v[1]),
    "hard_sigmoid": lambda k, v, n: functions.clamped(k, v[1] * v[0] + v[2], 0.0, 1.0),
    "is_infinite": lambda k, v, n: _is_infinite(k, v[0], n),
    "select": lambda k, v, n: k.select(v[0], v[1], v[2]),
    "batch_norm": _batch_norm,
    "fake_quantize": _fake_quantized,
}


def converted(k: Kernel, a: Value, target: str) -> Value:
    """The Convert operation: see its page's rules in `ops/convert.py`. f16 and bf16 are rounded by
    whoever stores them.
    """
    result = COMPUTED[target]
    if result == BOOL:
        return a if a.type == BOOL else functions.negated(k, a.equals(0))
    if a.type == BOOL:
        return k.select(a, k.constant(1, result, a.lanes), k.constant(0, result, a.lanes))
    if _is_float(a) and result.kind != "float":
        return _truncated(k, a, result)
    if target in ("f16", "bf16") and not _is_float(a) and a.type.bits > 16:
        a = _odd(k, a)
    return a.to(result)


def _odd(k: Kernel, a: Value) -> Value:
    """Integers rounded to odd (what is not exact is cut and its last bit set) so that f32 has them,
    and rounding those to 11 bits or fewer is as rounding the integers: 10 of their bits are left at
    least where f16 has no such numbers any more, all of them where it has.
    """

    def number(value: int) -> Value:
        return k.constant(value, a.type, a.lanes)

    cut = number(0)
    for exponent in (24, 38, 52):
        if exponent < a.type.bits:
            large = a >= 1 << exponent
            if a.type.kind == "signed":
                large |= a <= -(1 << exponent)
            cut = k.select(large, number((1 << (exponent - 10)) - 1), cut)
    lost = a & cut
    last = k.select(lost.equals(0), number(0), cut + 1)
    return (a - lost) | last


def converted_exactly(k: Kernel, a: Value, target: str) -> Value:
    """An integer converted to another type; the kernel stops at one that the target type does not
    have.

    The reference then says which.
    """
    result = a.to(COMPUTED[target])
    same = result.to(a.type).equals(a)
    if a.type.kind != result.type.kind:  # the bits may agree where the numbers do not
        signed = a if a.type.kind == "signed" else result
        same &= signed >= 0
    k.stop_unless(k.all_of(same), k.integer(1))
    return result


def _truncated(k: Kernel, a: Value, target: Type) -> Value:
    """A float as an integer: what 32 bits (64 for i64) do not hold becomes their lowest number, and
    the low bits of that are taken.
    """
    bits = 64 if target.bits == 64 else 32
    low, high = -(2.0 ** (bits - 1)), 2.0**32 if target == INDEX_TYPES["u32"] else 2.0 ** (bits - 1)
    whole = k.intrinsic("trunc", a)
    # Written so that NaN is outside; what is outside must not be converted, the machine's answer to
    # that is not defined.
    fits = (whole >= low) & (whole < high)
    inside = k.select(fits, whole, k.constant(low, a.type, a.lanes))
    return inside.to(INDEX_TYPES["i64" if high > 2.0**31 else "i32"]).to(target)
