"""The emitter of Fourier transforms: Stockham's steps, each transform in a lane of its own.

A step of radix r and `parts` m brings the numbers at `q + s * (p + m * j)`, j < r, together:

    made[q + s * (r * p + k)] = factor[p][k] * sum over j of exp(-2 pi i j k / r) * given[..]

for p < m and q < s, `together`. After all steps the numbers are in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, F64, I64, Kernel, Type, Value
from uncork.kernels.fourier.spec import (
    COMPLEX,
    HALF,
    REAL,
    STEP,
    WINDOWED,
    WRITTEN,
    Fourier,
)
from uncork.kernels.runtime.target import Target

#: Numbers of a transform that are read or written one after the other.
_NEIGHBOURS = 8


class _Complex(Struct, frozen=True):
    """Complex numbers, one in each lane."""

    real: Value
    imaginary: Value

    def __add__(self, other: _Complex) -> _Complex:
        return _Complex(self.real + other.real, self.imaginary + other.imaginary)

    def __sub__(self, other: _Complex) -> _Complex:
        return _Complex(self.real - other.real, self.imaginary - other.imaginary)

    def scaled(self, by: float) -> _Complex:
        return _Complex(self.real * by, self.imaginary * by)

    @property
    def turned(self) -> _Complex:
        """The numbers times -i."""
        return _Complex(self.imaginary, -self.real)


class _Steps:
    """The loads, stores and products of complex numbers that the parts of the kernel share."""

    def __init__(self, spec: Fourier, k: Kernel) -> None:
        self.spec, self.k = spec, k
        self.type: Type = F64 if spec.size == F64.bytes else F32

    def load(self, cell: Value) -> _Complex:
        k, spec = self.k, self.spec
        vector = spec.lanes * spec.size
        return _Complex(
            k.load(cell, self.type, spec.lanes), k.load(cell + vector, self.type, spec.lanes)
        )

    def store(self, number: _Complex, cell: Value) -> None:
        self.k.store(number.real, cell)
        self.k.store(number.imaginary, cell + self.spec.lanes * self.spec.size)

    def factor(self, place: Value) -> _Complex:
        """A number of a table, in every lane."""
        k, lanes = self.k, self.spec.lanes
        parts = (k.load(place + n * self.spec.size, self.type) for n in (0, 1))
        return _Complex(*(k.splat(part, lanes) for part in parts))

    def times(self, a: _Complex, b: _Complex) -> _Complex:
        k = self.k
        return _Complex(
            k.fma(-a.imaginary, b.imaginary, a.real * b.real),
            k.fma(a.imaginary, b.real, a.real * b.imaginary),
        )


def emit_fourier(spec: Fourier, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, spec.arguments, machine)
    a = dict(zip(spec.arguments, k.arguments))
    steps = _Steps(spec, k)
    places = a["room"]
    first_buffer = places + 2 * spec.lanes * 8
    buffer_bytes = a["length"] * spec.cell

    with k.loop(a["first"], a["last"], spec.lanes) as block:
        there = k.minimum(a["last"] - block, k.integer(spec.lanes))
        with k.loop(0, there) as lane:
            number = block + lane
            outer = number // a["inner"]
            inner = number - outer * a["inner"]
            for row, name in enumerate(("source", "target")):
                place = a[name] + outer * a[f"{name}_outer"] + inner * a[f"{name}_inner"]
                k.store(place, places + (lane + row * spec.lanes) * 8)
        _gather(steps, a, places, first_buffer, there)
        given, made = k.variable(first_buffer), k.variable(first_buffer + buffer_bytes)
        with k.loop(0, a["count"]) as step:
            _step(steps, a["steps"] + step * (len(STEP) * 8), given.get(), made.get())
            before = given.get()
            given.set(made.get())
            made.set(before)
        _scatter(steps, a, places + spec.lanes * 8, given.get(), there)
    k.finish()
    return k.text()


def _gather(steps: _Steps, a: dict[str, Value], places: Value, buffer: Value, there: Value) -> None:
    """Load the numbers of all transforms into the buffer, side by side."""
    k, spec, type_ = steps.k, steps.spec, steps.type
    zero = k.constant(0.0, type_, spec.lanes)
    begin = a["begin"] if spec.source == WINDOWED else k.integer(0)

    def cleared(first: Value, last: Value) -> None:
        with k.loop(first, last) as n:
            steps.store(_Complex(zero, zero), buffer + n * spec.cell)

    cleared(k.integer(0), begin)
    if spec.source in (REAL, WINDOWED):
        cleared(begin, a["end"])
    for n, lane, address in _lines(k, places, begin, a["end"], there):
        place = address + n * a["source_step"]
        target = buffer + n * spec.cell + lane * spec.size
        if spec.source in (COMPLEX, HALF):
            k.store(k.load(place + a["swapped"], type_), target)
            other = k.load(place + (k.integer(spec.size) - a["swapped"]), type_)
            k.store(other, target + spec.lanes * spec.size)
            continue
        value = k.load(place, type_)
        if spec.source == WINDOWED:
            value = value * k.load(a["window"] + (n - begin) * spec.size, type_)
        k.store(value, target)
    cleared(a["end"], a["length"])
    if spec.source == HALF:
        _fill(steps, buffer, a["length"])


def _fill(steps: _Steps, buffer: Value, length: Value) -> None:
    """Fill in the second half of transforms of real numbers: the conjugates of the first half. The
    first number, and of an even length the middle one, must be real and is made so. Parts are
    swapped.
    """
    k, spec = steps.k, steps.spec
    zero = k.constant(0.0, steps.type, spec.lanes)
    k.store(zero, buffer)
    middle = length >> 1
    with k.if_((length & 1).equals(0)):
        k.store(zero, buffer + middle * spec.cell)
    with k.loop(middle + 1, length) as n:
        own = steps.load(buffer + (length - n) * spec.cell)
        steps.store(_Complex(-own.real, own.imaginary), buffer + n * spec.cell)


def _scatter(
    steps: _Steps, a: dict[str, Value], places: Value, buffer: Value, there: Value
) -> None:
    """Store the results at their places, times the scale."""
    k, spec, type_ = steps.k, steps.spec, steps.type
    scale = k.load(a["scale"], type_)
    real = a["swapped"] * spec.lanes
    for n, lane, address in _lines(k, places, k.integer(0), a["kept"], there):
        own = buffer + n * spec.cell + lane * spec.size
        place = address + n * a["target_step"]
        k.store(k.load(own + real, type_) * scale, place)
        if spec.pairs:
            imaginary = k.load(own + (k.integer(spec.cell >> 1) - real), type_)
            k.store(imaginary * scale, place + spec.size)


def _lines(
    k: Kernel, places: Value, first: Value, last: Value, there: Value
) -> Iterator[tuple[Value, Value, Value]]:
    """The body of a loop over numbers of all transforms: (number, lane, where its transform lies).

    Some neighbours of a transform come before those of the next one: rows a power of 2 apart share
    few lines of a cache.
    """
    with k.loop(first, last, _NEIGHBOURS) as block, k.loop(0, there) as lane:
        address = k.load(places + lane * 8, I64)
        with k.loop(block, k.minimum(block + _NEIGHBOURS, last)) as n:
            yield n, lane, address


def _step(steps: _Steps, table: Value, given: Value, made: Value) -> None:
    """Emit the step that its words in the table describe."""
    k = steps.k
    words = {name: k.load(table + index * 8, I64) for index, name in enumerate(STEP)}
    for radix, combine in _WRITTEN.items():
        with k.if_(words["radix"].equals(radix)):
            _written(steps, radix, combine, words, given, made)
    with k.if_(words["radix"] > max(WRITTEN)):
        _prime(steps, words, given, made)


def _written(
    steps: _Steps,
    radix: int,
    combine: Callable[[Sequence[_Complex]], list[_Complex]],
    words: dict[str, Value],
    given: Value,
    made: Value,
) -> None:
    """Emit a step of a radix that is written out."""
    k, cell, pair = steps.k, steps.spec.cell, 2 * steps.spec.size
    line = words["together"] * cell
    apart = line * words["parts"]
    with k.loop(0, words["parts"]) as part:
        place = words["factors"] + part * (radix * pair)
        factors = [steps.factor(place + n * pair) for n in range(1, radix)]
        source, target = given + part * line, made + part * line * radix
        with k.loop(0, words["together"]) as number:
            own = source + number * cell
            numbers = combine([steps.load(own + apart * j) for j in range(radix)])
            results = [numbers[0], *map(steps.times, numbers[1:], factors)]
            for n, result in enumerate(results):
                steps.store(result, target + number * cell + line * n)


def _prime(steps: _Steps, words: dict[str, Value], given: Value, made: Value) -> None:
    """Emit a step of any radix, by the roots in the table."""
    k, cell, pair = steps.k, steps.spec.cell, 2 * steps.spec.size
    radix, line = words["radix"], words["together"] * cell
    apart = line * words["parts"]
    zero = k.constant(0.0, steps.type, steps.spec.lanes)
    with (
        k.loop(0, words["parts"]) as part,
        k.loop(0, radix) as result,
        k.loop(0, words["together"]) as number,
    ):
        source = given + part * line + number * cell
        real, imaginary = k.variable(zero), k.variable(zero)
        with k.loop(0, radix) as j:
            root = steps.factor(words["roots"] + (result * radix + j) * pair)
            product = steps.times(steps.load(source + j * apart), root)
            real.set(real.get() + product.real)
            imaginary.set(imaginary.get() + product.imaginary)
        factor = steps.factor(words["factors"] + (part * radix + result) * pair)
        total = steps.times(_Complex(real.get(), imaginary.get()), factor)
        steps.store(total, made + (part * radix + result) * line + number * cell)


def _of_two(x: Sequence[_Complex]) -> list[_Complex]:
    return [x[0] + x[1], x[0] - x[1]]


def _of_three(x: Sequence[_Complex]) -> list[_Complex]:
    both = x[1] + x[2]
    middle, away = x[0] - both.scaled(0.5), (x[1] - x[2]).turned.scaled(math.sqrt(0.75))
    return [x[0] + both, middle + away, middle - away]


def _of_four(x: Sequence[_Complex]) -> list[_Complex]:
    (even, odd), (ahead, across) = _of_two([x[0], x[2]]), _of_two([x[1], x[3]])
    return [even + ahead, odd + across.turned, even - ahead, odd - across.turned]


def _of_five(x: Sequence[_Complex]) -> list[_Complex]:
    (near, near_apart), (far, far_apart) = _of_two([x[1], x[4]]), _of_two([x[2], x[3]])
    cosines, sines = (
        [function(2 * math.pi * n / 5) for n in (1, 2)] for function in (math.cos, math.sin)
    )
    first = x[0] + near.scaled(cosines[0]) + far.scaled(cosines[1])
    second = x[0] + near.scaled(cosines[1]) + far.scaled(cosines[0])
    away = (near_apart.scaled(sines[0]) + far_apart.scaled(sines[1])).turned
    across = (near_apart.scaled(sines[1]) - far_apart.scaled(sines[0])).turned
    return [x[0] + near + far, first + away, second + across, second - across, first - away]


_WRITTEN = {2: _of_two, 3: _of_three, 4: _of_four, 5: _of_five}
assert set(_WRITTEN) == set(WRITTEN)
