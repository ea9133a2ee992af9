"""Complex numbers as the emitters of Fourier transforms have them: one in each lane."""

from __future__ import annotations

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, F64, Kernel, Type, Value
from uncork.kernels.fourier.spec import Fourier


class Complex(Struct, frozen=True):
    """Complex numbers, one in each lane."""

    real: Value
    imaginary: Value

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imaginary + other.imaginary)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imaginary - other.imaginary)

    def scaled(self, by: float) -> Complex:
        return Complex(self.real * by, self.imaginary * by)

    @property
    def turned(self) -> Complex:
        """The numbers times -i."""
        return Complex(self.imaginary, -self.real)


class Numbers:
    """The loads, stores and products of complex numbers that the parts of the kernel share."""

    def __init__(self, spec: Fourier, k: Kernel) -> None:
        self.spec, self.k = spec, k
        self.type: Type = F64 if spec.size == F64.bytes else F32

    def load(self, cell: Value) -> Complex:
        k, spec = self.k, self.spec
        vector = spec.lanes * spec.size
        return Complex(
            k.load(cell, self.type, spec.lanes), k.load(cell + vector, self.type, spec.lanes)
        )

    def store(self, number: Complex, cell: Value) -> None:
        self.k.store(number.real, cell)
        self.k.store(number.imaginary, cell + self.spec.lanes * self.spec.size)

    def factor(self, place: Value) -> Complex:
        """A number of a table, in every lane."""
        k, lanes = self.k, self.spec.lanes
        parts = (k.load(place + n * self.spec.size, self.type) for n in (0, 1))
        return Complex(*(k.splat(part, lanes) for part in parts))

    def times(self, a: Complex, b: Complex) -> Complex:
        k = self.k
        return Complex(
            k.fma(-a.imaginary, b.imaginary, a.real * b.real),
            k.fma(a.imaginary, b.real, a.real * b.imaginary),
        )
