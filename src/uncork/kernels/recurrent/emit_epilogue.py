"""The epilogues of a step of a GRU, LSTM or RNN: from the sums of a row's products to its new
state.
"""

from __future__ import annotations

from uncork.kernels.codegen import doubles
from uncork.kernels.codegen.activations import ACTIVATIONS
from uncork.kernels.codegen.emit import F32, F64, I32, U32, Kernel, Value
from uncork.kernels.gemm.microkernel import Row
from uncork.kernels.recurrent.spec import Recurrent


def store_parts(k: Kernel, value: Value, address: Value, low: Value | None) -> None:
    """Store f32 as bf16; with `low` also the rest, as bf16 so many bytes further on."""
    high = k.to_bf16(value)
    k.store(high, address)
    if low is not None:
        k.store(k.to_bf16(value - (high.to(U32) << 16).bits_as(F32)), address + low)


#: The activations of f64 that are others than those of f32.
_OF_DOUBLES = {"sigmoid": doubles.sigmoid, "tanh": doubles.tanh}


class GateEpilogues:
    """The epilogues of the microkernels. `unit` is where the panel's units lie in a row of states,
    in bytes.
    """

    def __init__(self, spec: Recurrent, vector: int) -> None:
        self.spec, self.vector, self.lanes = spec, vector, spec.lanes
        self.type = F64 if spec.size == F64.bytes else F32
        self.activations = {**ACTIVATIONS, **(_OF_DOUBLES if self.type == F64 else {})}

    def _load(self, k: Kernel, address: Value) -> Value:
        return k.load(address, self.type, self.lanes)

    def _gate(self, k: Kernel, row: Row, number: int, value: Value) -> Value:
        """An activation of a pre-activation, clamped to +-clip before."""
        if self.spec.clipped:
            limit = k.splat(row.extra["clip"].to(I32).bits_as(F32), self.lanes)
            value = k.select(value > limit, limit, value)  # ordered comparisons let NaN through
            value = k.select(value < -limit, -limit, value)
        return self.activations[self.spec.activations[number]](k, value)

    def products(self, k: Kernel, row: Row) -> None:
        target = row.extra["target"] + row.extra["target_row"] * row.number
        for v, total in enumerate(row.sums):
            k.store(
                total + self._load(k, row.extra["bias"] + v * self.vector), target + v * self.vector
            )

    def _ahead(self, k: Kernel, row: Row, offset: int) -> Value:
        return self._load(k, row.extra["ahead"] + row.extra["ahead_row"] * row.number + offset)

    def _state(self, row: Row, name: str) -> Value:
        return row.extra[name] + row.extra["row"] * row.number + row.extra["unit"]

    def gru_after(self, k: Kernel, row: Row) -> None:
        z = self._gate(k, row, 0, row.sums[0] + self._ahead(k, row, 0))
        r = self._gate(k, row, 0, row.sums[1] + self._ahead(k, row, self.vector))
        inner = row.sums[2] + self._load(k, row.extra["inner_bias"])
        n = self._gate(k, row, 1, k.fma(r, inner, self._ahead(k, row, 2 * self.vector)))
        self._blend(k, row, z, n)

    def _blend(self, k: Kernel, row: Row, z: Value, n: Value, offset: int = 0) -> None:
        """(1 - z) * n + z * h. Of bounded z and n, whatever h is, z * (h - n) + n is the same; else
        h - n may be infinite, or 0 times an infinite z, where the formula gives a number.
        """
        h = self._load(k, self._state(row, "old") + offset)
        if "relu" in self.spec.activations:
            one = k.constant(1.0, self.type, self.lanes)
            self._new(k, row, k.fma(z, h, (one - z) * n), offset)
        else:
            self._new(k, row, k.fma(z, h - n, n), offset)

    def _new(self, k: Kernel, row: Row, value: Value, offset: int = 0) -> None:
        """Store a vector of the new state, also as factors of the next step."""
        k.store(value, self._state(row, "new") + offset)
        self._pairs(k, row, value, offset)

    def _pairs(self, k: Kernel, row: Row, value: Value, offset: int = 0) -> None:
        if self.spec.parts:
            half = row.extra["row"] >> 1
            place = (
                row.extra["pairs"]
                + half * (row.number * self.spec.parts)
                + (row.extra["unit"] >> 1)
                + offset // 2
            )
            store_parts(k, value, place, half if self.spec.parts == 2 else None)

    def gru_reset(self, k: Kernel, row: Row) -> None:
        z = self._gate(k, row, 0, row.sums[0] + self._ahead(k, row, 0))
        r = self._gate(k, row, 0, row.sums[1] + self._ahead(k, row, self.vector))
        k.store(z, self._state(row, "extra"))
        reset = r * self._load(k, self._state(row, "old"))
        if self.spec.parts:
            self._pairs(k, row, reset)
        else:
            k.store(reset, self._state(row, "reset"))

    def gru_new(self, k: Kernel, row: Row) -> None:
        for v, total in enumerate(row.sums):
            offset = v * self.vector
            n = self._gate(
                k, row, 1, total + self._ahead(k, row, v * 3 * self.vector + 2 * self.vector)
            )
            z = self._load(k, self._state(row, "extra") + offset)
            self._blend(k, row, z, n, offset)

    def lstm(self, k: Kernel, row: Row) -> None:
        f, i, o = (
            self._gate(k, row, 0, row.sums[g] + self._ahead(k, row, g * self.vector))
            for g in (0, 1, 3)
        )
        c = self._gate(k, row, 1, row.sums[2] + self._ahead(k, row, 2 * self.vector))
        place = self._state(row, "extra")
        cell = k.fma(f, self._load(k, place), i * c)
        k.store(cell, place)
        self._new(k, row, o * self.activations[self.spec.activations[2]](k, cell))

    def rnn(self, k: Kernel, row: Row) -> None:
        for v, total in enumerate(row.sums):
            offset = v * self.vector
            self._new(k, row, self._gate(k, row, 0, total + self._ahead(k, row, offset)), offset)
