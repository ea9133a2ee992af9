"""The emitter of what Bluestein's transforms of any length need beside the steps.

With c[k] = exp(-pi i k k / length), the chirp,

    made[k] = c[k] * sum over j of (given[j] * c[j]) / c[k - j]

which is a convolution, by transforms of a padded length. That of 1 / c is made first and kept.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import Value
from uncork.kernels.fourier.emit_numbers import Complex, Numbers


class Chirp:
    """What comes before, between and after the steps of a padded length."""

    def __init__(
        self, steps: Numbers, length: Value, table: dict[str, Value], result: Value, kept: Value
    ) -> None:
        self.steps, self.k, self.cell = steps, steps.k, steps.spec.cell
        self.length, self.padded, self.chirp = length, table["padded"], table["chirp"]
        #: The buffer with the results of steps, and that of the transform of 1 / c.
        self.result, self.kept = result, kept

    def _factor(self, n: Value) -> Complex:
        return self.steps.factor(self.chirp + n * (2 * self.steps.spec.size))

    def _cleared(self, buffer: Value, first: Value, last: Value) -> None:
        zero = self.k.constant(0.0, self.steps.type, self.steps.spec.lanes)
        with self.k.loop(first, last) as n:
            self.steps.store(Complex(zero, zero), buffer + n * self.cell)

    def begin(self, buffer: Value) -> None:
        """1 / c, which is its conjugate, from both ends of the padded length."""
        k, store = self.k, self.steps.store
        self._cleared(buffer, self.length, self.padded - self.length + 1)
        with k.loop(0, self.length) as n:
            own = self._factor(n)
            number = Complex(own.real, -own.imaginary)
            store(number, buffer + n * self.cell)
            with k.if_(n > 0):
                store(number, buffer + (self.padded - n) * self.cell)

    def keep(self) -> None:
        """Its transform, over the padded length as the inverse wants it."""
        k, type_ = self.k, self.steps.type
        scale = k.splat(k.constant(1.0, type_) / self.padded.to(type_), self.steps.spec.lanes)
        with k.loop(0, self.padded) as n:
            own = self.steps.load(self.result + n * self.cell)
            own = Complex(own.real * scale, own.imaginary * scale)
            self.steps.store(own, self.kept + n * self.cell)

    def multiply(self, buffer: Value) -> None:
        """The numbers times c, and zeros up to the padded length."""
        self._cleared(buffer, self.length, self.padded)
        with self.k.loop(0, self.length) as n:
            place = buffer + n * self.cell
            self.steps.store(self.steps.times(self.steps.load(place), self._factor(n)), place)

    def convolve(self, buffer: Value) -> None:
        """The products of both transforms, with parts swapped: the steps make the inverse."""
        steps = self.steps
        with self.k.loop(0, self.padded) as n:
            own = steps.load(self.result + n * self.cell)
            made = steps.times(own, steps.load(self.kept + n * self.cell))
            steps.store(Complex(made.imaginary, made.real), buffer + n * self.cell)

    def end(self) -> None:
        """The inverse times c."""
        with self.k.loop(0, self.length) as n:
            place = self.result + n * self.cell
            own = self.steps.load(place)
            made = self.steps.times(Complex(own.imaginary, own.real), self._factor(n))
            self.steps.store(made, place)
