"""Whole numbers near floats, for processors without instructions for it (x86 before SSE4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uncork.kernels.codegen.scalar_types import F32, I32, I64

if TYPE_CHECKING:
    from uncork.kernels.codegen.values import Value
    from uncork.kernels.runtime.target import Target

#: The functions, by LLVM's names.
WHOLE = frozenset({"rint", "floor", "ceil", "trunc"})


def rounds_to_whole(target: Target | None) -> bool:
    """Whether the processor has instructions for them."""
    return target is not None and (
        target.arch != "x86_64" or any(map(target.has, ("sse4.1", "sse4.2", "avx")))
    )


def whole_float(name: str, x: Value) -> Value:
    """The whole number nearest to a float, ties to even, or the next one in a direction. It has the
    sign of the float, 0 too.
    """
    k, (bits, digits) = x.kernel, (I32, 23) if x.type == F32 else (I64, 52)
    sign = x.bits_as(bits) & (-1 << (bits.bits - 1))
    size = (x.bits_as(bits) ^ sign).bits_as(x.type)
    # From this on all numbers are whole, so that a sum with it is rounded to a whole number.
    first = 2.0**digits
    near = k.select(size < first, (size + first) - first, size)
    zero, one = (k.constant(number, x.type, x.lanes) for number in (0.0, 1.0))
    if name != "rint":
        down = near - k.select(near > size, one, zero)
        up = near + k.select(near < size, one, zero)
        below, above = (down, up) if name == "ceil" else (up, down)
        near = down if name == "trunc" else k.select(sign < 0, below, above)
    return (near.bits_as(bits) | sign).bits_as(x.type)
