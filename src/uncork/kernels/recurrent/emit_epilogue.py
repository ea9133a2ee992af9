"""The epilogues of a step of a GRU, LSTM or RNN: from the sums of a row's products to its new
state.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    def _rows(self, row: Row) -> int:
        return row.sums[0].lanes // self.lanes

    def _all_rows(self, k: Kernel, row: Row, value: Value) -> Value:
        """What is the same for each row."""
        return k.side_by_side([value] * self._rows(row))

    def _load(self, k: Kernel, row: Row, address: Value, stride: Value) -> Value:
        """A vector of each row."""
        addresses = [address + stride * n for n in range(self._rows(row))]
        return k.side_by_side([k.load(place, self.type, self.lanes) for place in addresses])

    def _store(self, k: Kernel, row: Row, value: Value, address: Value, stride: Value) -> None:
        for n in range(self._rows(row)):
            k.store(value.part(n * self.lanes, self.lanes), address + stride * n)

    def _gate(self, k: Kernel, row: Row, number: int, value: Value) -> Value:
        """An activation of a pre-activation, clamped to +-clip before."""
        if self.spec.clipped:
            limit = k.splat(row.extra["clip"].to(I32).bits_as(F32), value.lanes)
            value = k.select(value > limit, limit, value)  # ordered comparisons let NaN through
            value = k.select(value < -limit, -limit, value)
        return self.activations[self.spec.activations[number]](k, value)

    def _gates(self, k: Kernel, row: Row, number: int, values: Sequence[Value]) -> Sequence[Value]:
        """The same activation of several pre-activations, none of which waits for the others."""
        lanes = values[0].lanes
        found = self._gate(k, row, number, k.side_by_side(values))
        return [found.part(n * lanes, lanes) for n in range(len(values))]

    def products(self, k: Kernel, row: Row) -> None:
        stride = row.extra["target_row"]
        target = row.extra["target"] + stride * row.number
        for v, total in enumerate(row.sums):
            bias = k.load(row.extra["bias"] + v * self.vector, self.type, self.lanes)
            self._store(
                k, row, total + self._all_rows(k, row, bias), target + v * self.vector, stride
            )

    def _ahead(self, k: Kernel, row: Row, offset: int) -> Value:
        stride = row.extra["ahead_row"]
        return self._load(k, row, row.extra["ahead"] + stride * row.number + offset, stride)

    def _before(self, k: Kernel, row: Row, count: int) -> list[Value]:
        """The pre-activations of so many vectors: sums of products with R and X."""
        return [row.sums[n] + self._ahead(k, row, n * self.vector) for n in range(count)]

    def _place(self, row: Row, name: str, offset: int = 0) -> Value:
        """Where the units of the first row lie in states."""
        return row.extra[name] + row.extra["row"] * row.number + row.extra["unit"] + offset

    def _state(self, k: Kernel, row: Row, name: str, offset: int = 0) -> Value:
        return self._load(k, row, self._place(row, name, offset), row.extra["row"])

    def _keep(self, k: Kernel, row: Row, name: str, value: Value, offset: int = 0) -> None:
        self._store(k, row, value, self._place(row, name, offset), row.extra["row"])

    def gru_after(self, k: Kernel, row: Row) -> None:
        z, r = self._gates(k, row, 0, self._before(k, row, 2))
        bias = k.load(row.extra["inner_bias"], self.type, self.lanes)
        inner = row.sums[2] + self._all_rows(k, row, bias)
        n = self._gate(k, row, 1, k.fma(r, inner, self._ahead(k, row, 2 * self.vector)))
        self._blend(k, row, z, n)

    def _blend(self, k: Kernel, row: Row, z: Value, n: Value, offset: int = 0) -> None:
        """(1 - z) * n + z * h. Of bounded z and n, whatever h is, z * (h - n) + n is the same; else
        h - n may be infinite, or 0 times an infinite z, where the formula gives a number.
        """
        h = self._state(k, row, "old", offset)
        if "relu" in self.spec.activations:
            one = k.constant(1.0, self.type, h.lanes)
            self._new(k, row, k.fma(z, h, (one - z) * n), offset)
        else:
            self._new(k, row, k.fma(z, h - n, n), offset)

    def _new(self, k: Kernel, row: Row, value: Value, offset: int = 0) -> None:
        """Store a vector of the new state, also as factors of the next step."""
        self._keep(k, row, "new", value, offset)
        self._pairs(k, row, value, offset)

    def _pairs(self, k: Kernel, row: Row, value: Value, offset: int = 0) -> None:
        if not self.spec.parts:
            return
        half = row.extra["row"] >> 1
        for n in range(self._rows(row)):
            place = (
                row.extra["pairs"]
                + half * ((row.number + n) * self.spec.parts)
                + (row.extra["unit"] >> 1)
                + offset // 2
            )
            low = half if self.spec.parts == 2 else None
            store_parts(k, value.part(n * self.lanes, self.lanes), place, low)

    def gru_reset(self, k: Kernel, row: Row) -> None:
        z, r = self._gates(k, row, 0, self._before(k, row, 2))
        self._keep(k, row, "extra", z)
        reset = r * self._state(k, row, "old")
        if self.spec.parts:
            self._pairs(k, row, reset)
        else:
            self._keep(k, row, "reset", reset)

    def gru_new(self, k: Kernel, row: Row) -> None:
        before = [
            total + self._ahead(k, row, (v * 3 + 2) * self.vector)
            for v, total in enumerate(row.sums)
        ]
        for v, n in enumerate(self._gates(k, row, 1, before)):
            offset = v * self.vector
            self._blend(k, row, self._state(k, row, "extra", offset), n, offset)

    def lstm(self, k: Kernel, row: Row) -> None:
        before = self._before(k, row, 4)
        c = self._gate(k, row, 1, before.pop(2))
        f, i, o = self._gates(k, row, 0, before)
        cell = k.fma(f, self._state(k, row, "extra"), i * c)
        self._keep(k, row, "extra", cell)
        self._new(k, row, o * self.activations[self.spec.activations[2]](k, cell))

    def rnn(self, k: Kernel, row: Row) -> None:
        for v, value in enumerate(self._gates(k, row, 0, self._before(k, row, len(row.sums)))):
            self._new(k, row, value, v * self.vector)
