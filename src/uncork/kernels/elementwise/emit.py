"""The emitter of element-wise kernels: loops over rows, and in them a loop along a row, by vectors,
which computes the whole expression.

What does not change along a row is loaded and computed once a row. The last vector of a row lies
over the one before it, so that no row needs anything but whole vectors: what both hold is computed
twice, to the same value.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    INDEX_TYPES,
    U8,
    U16,
    U32,
    Kernel,
    Type,
    Value,
    emitter,
)
from uncork.kernels.codegen.scalar_ops import (
    COMPUTED,
    MOVING,
    SCALAR_OPS,
    converted,
    converted_exactly,
    to_bf16,
)
from uncork.kernels.elementwise.spec import Expression
from uncork.kernels.stored_types import FLOATS_OF_A_BYTE

#: How values lie in memory. f16 and bf16 pass through as their bits.
STORED: dict[str, Type] = {
    "f32": F32,
    "f64": F64,
    "f16": U16,
    "bf16": U16,
    "boolean": U8,
    **INDEX_TYPES,
}

#: Scalar operations that are told the type of their result.
_CONVERTING = {"convert": converted, "convert_exactly": converted_exactly}


class _Held(Struct, frozen=True):
    """A value of an expression by its element type, and as it is stored (booleans: one bit)."""

    element_type: str
    value: Value


@emitter
def emit_expression(k: Kernel, spec: Expression) -> None:
    """The LLVM text of an element-wise kernel."""
    a = k.named
    operands = range(len(spec.operands))

    def row(output: Value, addresses: Sequence[Value]) -> None:
        """The innermost loop."""
        fixed: dict[int, _Held] = {}
        for i in operands:
            if not spec.varying[i]:
                fixed[i] = _loaded(k, spec.operands[i], addresses[i], 1)
        for index, member in enumerate(spec.members, len(operands)):
            if all(i in fixed for i in member.arguments):
                fixed[index] = _computed(k, spec, index, fixed)
        size, result = a[f"size_{spec.loops - 1}"], STORED[spec.members[-1].result]

        def vector(position: Value, mask: Value | None = None) -> None:
            """Compute and store the numbers of the row from a position on, as many as a vector has
            or as the mask says.
            """
            values = {
                i: _Held(held.element_type, k.splat(held.value, spec.lanes))
                for i, held in fixed.items()
            }
            for i in operands:
                if spec.varying[i]:
                    address = addresses[i] + position * STORED[spec.operands[i]].bytes
                    values[i] = _loaded(k, spec.operands[i], address, spec.lanes, mask)
            for index in range(len(operands), len(operands) + len(spec.members)):
                if index not in values:
                    values[index] = _computed(k, spec, index, values)
            last = values[len(operands) + len(spec.members) - 1].value
            stored, target = (
                last.to(U8) if last.type == BOOL else last,
                output + position * result.bytes,
            )
            k.store(stored, target, mask)

        def whole() -> None:
            with k.loop(0, size, spec.lanes) as start:
                vector(k.minimum(start, size - spec.lanes) if spec.lanes > 1 else start)

        if not spec.open_row:
            whole()
            return
        k.either(
            size >= spec.lanes,
            whole,
            lambda: vector(k.integer(0), k.lanes_below(size, spec.lanes)),
            likely=True,
        )

    def loops(depth: int, output: Value, addresses: Sequence[Value]) -> None:
        if depth == spec.loops - 1:
            row(output, addresses)
            return
        with k.loop(0, a[f"size_{depth}"]) as i:
            inner = [address + i * a[f"stride_{depth}_{n}"] for n, address in enumerate(addresses)]
            loops(depth + 1, output + i * a[f"stride_{depth}"], inner)

    loops(0, a["output"], [a[f"operand_{i}"] for i in operands])


def _loaded(
    k: Kernel, element_type: str, address: Value, lanes: int, mask: Value | None = None
) -> _Held:
    stored = STORED[element_type]
    value = k.load(address, stored, lanes, mask, 1)
    return _Held(element_type, value > 0 if element_type == "boolean" else value)


def _computed(k: Kernel, spec: Expression, number: int, values: dict[int, _Held]) -> _Held:
    """A member's result, rounded to its type as the reference rounds it."""
    member = spec.members[number - len(spec.operands)]
    given = [values[i] for i in member.arguments]
    # A condition may be one for the whole row, or the values.
    lanes = max(held.value.lanes for held in given)
    given = [
        _Held(
            held.element_type,
            k.splat(held.value, lanes) if held.value.lanes < lanes else held.value,
        )
        for held in given
    ]
    if member.op in MOVING:
        return _Held(member.result, SCALAR_OPS[member.op](k, [held.value for held in given], ()))
    wide = [widened(k, held.element_type, held.value) for held in given]
    if member.op in _CONVERTING:
        result = _CONVERTING[member.op](k, wide[0], member.result)
    else:
        result = SCALAR_OPS[member.op](k, wide, member.constants)
    return _Held(member.result, narrowed(k, result, member.result))


def widened(k: Kernel, element_type: str, value: Value) -> Value:
    """A stored value in the type in which it is computed: f32 for f16 and bf16."""
    if element_type == "f16":
        return value.bits_as(F16).to(F32)
    return (value.to(U32) << 16).bits_as(F32) if element_type == "bf16" else value


#: What numbers of f8e4m3 are multiples of where their bits are those of f16.
UNIT_OF_E4M3 = 256.0


def decoded(k: Kernel, name: str, codes: Value, unit: float = 1.0) -> Value:
    """What codes of eight bits and more stand for, as f32, in such a unit; f8e4m3 has no NaN."""
    if name in FLOATS_OF_A_BYTE:
        return of_halves(k, name, as_halves(name, codes), unit)
    return widened(k, name, codes) if name in ("f16", "bf16") else codes.to(F32)


def as_halves(name: str, codes: Value) -> Value:
    """Codes of floats of a byte as bits of f16, of which `of_halves` makes what they stand for."""
    if name == "f8e5m2":  # the upper byte of f16
        return codes.to(U16) << 8
    # The bits of f16, whose exponents count from 8 further on. The sign is there twice, and is
    # taken away where it is not the highest bit.
    return (codes.bits_as(I8).to(I16) << 7 & ~0x4000).bits_as(U16)


def of_halves(k: Kernel, name: str, halves: Value, unit: float) -> Value:
    """What the bits of `as_halves` stand for, as f32, in such a unit."""
    value = widened(k, "f16", halves)
    if name == "f8e5m2" or unit == UNIT_OF_E4M3:
        return value
    return value * (UNIT_OF_E4M3 / unit)


def narrowed(k: Kernel, value: Value, element_type: str) -> Value:
    """A computed value rounded as it is stored."""
    if element_type == "f16":
        return value.to(F16).bits_as(U16)
    if element_type == "bf16":
        return to_bf16(k, value).to(U16)
    assert value.type == COMPUTED[element_type], (
        f"a value of {value.type} where {element_type} is expected"
    )
    return value
