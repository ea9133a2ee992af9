"""Numbers of tensors that lie in blocks of channels, in f32 or as bf16: how kernels read and write
them.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, U16, Kernel, Type, Value
from uncork.kernels.elementwise.emit import widened


def held_type(half: bool) -> Type:
    """The type in which numbers lie."""
    return U16 if half else F32


def read(k: Kernel, place: Value, lanes: int, half: bool) -> Value:
    """Numbers as f32: a vector of them, or one."""
    there = k.load(place, held_type(half), lanes)
    return widened(k, "bf16", there) if half else there


def write(k: Kernel, value: Value, place: Value, half: bool, mask: Value | None = None) -> None:
    """Store a vector of f32, or those of its lanes that are in a mask."""
    k.store(k.to_bf16(value) if half else value, place, mask)
