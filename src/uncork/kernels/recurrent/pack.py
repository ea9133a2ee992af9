"""Weights of a sequence as its kernel reads them: packed once where they are constant, else by a
kernel in each call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from uncork.blas import limited
from uncork.kernels.recurrent.spec import Recurrent
from uncork.kernels.runtime.packed_weights import zeros
from uncork.storage import decode, encode
from uncork.types import Array, ElementType


class Packed(Struct, frozen=True):
    """The weights of one direction as the kernel reads them; see `pack`."""

    w: Array
    r: Array
    r_new: Array
    bias: Array
    inner_bias: Array


def pack(spec: Recurrent, w: Array, r: Array, bias: Array) -> Packed:
    """The packed form of `w [G*H, I]`, `r [G*H, H]`, `bias [G*H]` (`[4*H]` for "gru_after") of one
    direction, in OpenVINO's order of gates.
    """
    hidden = r.shape[1]
    every = range(spec.gates)
    inner = bias[3 * hidden :] if spec.cell == "gru_after" else np.zeros(0, r.dtype)
    units = spec.units
    if spec.cell == "gru":
        packed_r, packed_new = (
            _panels(spec, r, (0, 1), hidden, units),
            _panels(spec, r, (2,), hidden, spec.wide),
        )
    else:
        packed_r, packed_new = _panels(spec, r, every, hidden, units), np.zeros(0, r.dtype)
    inner = _panels(spec, inner.reshape(-1, 1), (0,), hidden, units) if inner.size else inner
    packed_bias = _panels(spec, bias.reshape(-1, 1), every, hidden, units)
    products = [_panels(spec, w, every, hidden, units), packed_r, packed_new]
    if spec.parts:
        products = [_as_pairs(panels, spec) if panels.size else panels for panels in products]
    return Packed(products[0], products[1], products[2], packed_bias, inner)


def projected_table(spec: Recurrent, table: Array, w: Array, bias: Array) -> Array:
    """The input projection of each row of `table [N, I]`, biases included, and after them of a row
    of zeros, as `[N + 1, panels, gates, units]`.

    The rows of W are brought into that order first, so the product is written where it stays.
    """
    hidden, units, every = w.shape[0] // spec.gates, spec.units, range(spec.gates)
    columns = _panels(spec, w, every, hidden, units).transpose(0, 2, 3, 1).reshape(-1, w.shape[1])
    biases = _panels(spec, bias[: len(w)].reshape(-1, 1), every, hidden, units).reshape(-1)
    made = zeros((len(table) + 1, len(columns) // (spec.gates * units), spec.gates, units))
    products = made.reshape(len(made), -1)
    with limited():
        np.matmul(table, columns.T, out=products[:-1])
    products += biases
    whole, some = divmod(hidden, units)
    made[:, whole:, :, some:] = 0  # where a row has NaN, products with zeros are NaN, too
    return made


def _as_pairs(panels: Array, spec: Recurrent) -> Array:
    """`[panels, K, gates, units]` of f32 as `[panels, K / 2, vectors, parts, lanes, 2]` of bf16:
    two steps of the product side by side.
    """
    count, inner, gates, units = panels.shape
    if inner % spec.block:
        panels = np.concatenate(
            [panels, np.zeros((count, -inner % spec.block, gates, units), np.float32)], axis=1
        )
    bits = [encode(panels, ElementType.bf16)]
    if spec.parts == 2:
        bits.append(encode(panels - decode(bits[0], ElementType.bf16), ElementType.bf16))
    pairs = [
        part.reshape(count, -1, 2, gates * units // spec.lanes, spec.lanes).transpose(0, 1, 3, 4, 2)
        for part in bits
    ]
    return np.ascontiguousarray(np.stack(pairs, axis=3))


def _panels(
    spec: Recurrent, weights: Array, gates: Sequence[int], hidden: int, units: int
) -> Array:
    """`weights [G*H, K]` as `[panels, K, gates, units]`: the chosen gates of some units side by
    side, zeros past H.
    """
    count = spec.padded(hidden)
    inner = weights.shape[1]
    packed = np.zeros((count, inner, len(gates)), weights.dtype)
    for position, gate in enumerate(gates):
        packed[:hidden, :, position] = weights[gate * hidden : (gate + 1) * hidden]
    return np.ascontiguousarray(
        packed.reshape(count // units, units, inner, len(gates)).transpose(0, 2, 3, 1)
    )
