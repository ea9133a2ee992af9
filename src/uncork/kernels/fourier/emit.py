"""The emitter of Fourier transforms: Stockham's steps, each transform in a lane of its own.

A step of radix r and `parts` m brings the numbers at `q + s * (p + m * j)`, j < r, together:

    made[q + s * (r * p + k)] = factor[p][k] * sum over j of exp(-2 pi i j k / r) * given[..]

for p < m and q < s, `together`. After all steps the numbers are in order.

A length with a large prime is transformed by steps of a longer one: `emit_chirp.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from uncork.kernels.codegen.emit import I64, Kernel, Value, emitter
from uncork.kernels.fourier.emit_chirp import Chirp
from uncork.kernels.fourier.emit_numbers import Complex, Numbers
from uncork.kernels.fourier.spec import (
    COMPLEX,
    HALF,
    HEAD,
    REAL,
    STEP,
    WINDOWED,
    WRITTEN,
    Fourier,
)

#: Numbers of a transform that are read or written one after the other.
_NEIGHBOURS = 8


@emitter
def emit_fourier(k: Kernel, spec: Fourier) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    steps = Numbers(spec, k)
    table = {name: k.load(a["table"] + n * 8, I64) for n, name in enumerate(HEAD)}
    places = a["room"]
    first_buffer = places + 2 * spec.lanes * 8
    buffer_bytes = table["padded"] * spec.cell
    second_buffer = first_buffer + buffer_bytes
    walk = _walk(spec, k)
    # After the steps the numbers are in the buffer that was written last.
    last_buffer = k.select((table["count"] & 1).equals(1), second_buffer, first_buffer)
    chirped = Chirp(steps, a["length"], table, last_buffer, second_buffer + buffer_bytes)

    def stepped() -> None:
        k.call(walk, [a["table"], first_buffer, second_buffer])

    with k.if_(table["chirp"] > 0):
        chirped.begin(first_buffer)
        stepped()
        chirped.keep()
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
        with k.if_(table["chirp"] > 0):
            chirped.multiply(first_buffer)
            stepped()
            chirped.convolve(first_buffer)
        stepped()
        with k.if_(table["chirp"] > 0):
            chirped.end()
        _scatter(steps, a, places + spec.lanes * 8, last_buffer, there)


def _walk(spec: Fourier, kernel: Kernel) -> Kernel:
    """A function (table, given, made) that takes all steps, from buffer to buffer."""
    k = Kernel("walk", ["table", "given", "made"], inside=kernel)
    steps = Numbers(spec, k)
    table = k.arguments[0]
    given, made = (k.variable(buffer) for buffer in k.arguments[1:])
    roots = k.load(table + HEAD.index("roots") * 8, I64)
    with k.loop(0, k.load(table + HEAD.index("count") * 8, I64)) as step:
        place = table + (len(HEAD) * 8) + step * (len(STEP) * 8)
        _step(steps, place, roots, given.get(), made.get())
        before = given.get()
        given.set(made.get())
        made.set(before)
    k.finish()
    return k


def _gather(
    steps: Numbers, a: dict[str, Value], places: Value, buffer: Value, there: Value
) -> None:
    """Load the numbers of all transforms into the buffer, side by side."""
    k, spec, type_ = steps.k, steps.spec, steps.type
    zero = k.constant(0.0, type_, spec.lanes)
    begin = a["begin"] if spec.source == WINDOWED else k.integer(0)

    def cleared(first: Value, last: Value) -> None:
        with k.loop(first, last) as n:
            steps.store(Complex(zero, zero), buffer + n * spec.cell)

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


def _fill(steps: Numbers, buffer: Value, length: Value) -> None:
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
        steps.store(Complex(-own.real, own.imaginary), buffer + n * spec.cell)


def _scatter(
    steps: Numbers, a: dict[str, Value], places: Value, buffer: Value, there: Value
) -> None:
    """Store the results at their places, over the divisor."""
    k, spec, type_ = steps.k, steps.spec, steps.type
    scale = k.constant(1.0, type_) / a["divisor"].to(type_)
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


def _step(steps: Numbers, table: Value, roots: Value, given: Value, made: Value) -> None:
    """Emit the step that its words in the table describe."""
    k = steps.k
    words = {name: k.load(table + index * 8, I64) for index, name in enumerate(STEP)}
    words["roots"] = roots
    for radix, combine in _WRITTEN.items():
        with k.if_(words["radix"].equals(radix)):
            _written(steps, radix, combine, words, given, made)
    with k.if_(words["radix"] > max(WRITTEN)):
        _prime(steps, words, given, made)


def _written(
    steps: Numbers,
    radix: int,
    combine: Callable[[Sequence[Complex]], list[Complex]],
    words: dict[str, Value],
    given: Value,
    made: Value,
) -> None:
    """Emit a step of a radix that is written out."""
    k, cell, pair = steps.k, steps.spec.cell, 2 * steps.spec.size
    line = words["together"] * cell
    apart = line * words["parts"]
    with k.loop(0, words["parts"]) as part:
        turn = part * words["together"] * pair
        factors = [steps.factor(words["roots"] + turn * n) for n in range(1, radix)]
        source, target = given + part * line, made + part * line * radix
        with k.loop(0, words["together"]) as number:
            own = source + number * cell
            numbers = combine([steps.load(own + apart * j) for j in range(radix)])
            results = [numbers[0], *map(steps.times, numbers[1:], factors)]
            for n, result in enumerate(results):
                steps.store(result, target + number * cell + line * n)


def _prime(steps: Numbers, words: dict[str, Value], given: Value, made: Value) -> None:
    """Emit a step of any radix, by the roots of the radix among all."""
    k, cell, pair = steps.k, steps.spec.cell, 2 * steps.spec.size
    radix, line = words["radix"], words["together"] * cell
    apart = line * words["parts"]
    # Bytes from a root of the radix to the next, and all around.
    turn = words["parts"] * words["together"] * pair
    around = turn * radix
    zero = k.constant(0.0, steps.type, steps.spec.lanes)
    with (
        k.loop(0, words["parts"]) as part,
        k.loop(0, radix) as result,
        k.loop(0, words["together"]) as number,
    ):
        source = given + part * line + number * cell
        real, imaginary = k.variable(zero), k.variable(zero)
        away = k.variable(k.integer(0))
        with k.loop(0, radix) as j:
            root = steps.factor(words["roots"] + away.get())
            product = steps.times(steps.load(source + j * apart), root)
            real.set(real.get() + product.real)
            imaginary.set(imaginary.get() + product.imaginary)
            further = away.get() + turn * result
            away.set(k.select(further < around, further, further - around))
        factor = steps.factor(words["roots"] + part * result * words["together"] * pair)
        total = steps.times(Complex(real.get(), imaginary.get()), factor)
        steps.store(total, made + (part * radix + result) * line + number * cell)


def _of_two(x: Sequence[Complex]) -> list[Complex]:
    return [x[0] + x[1], x[0] - x[1]]


def _of_three(x: Sequence[Complex]) -> list[Complex]:
    both = x[1] + x[2]
    middle, away = x[0] - both.scaled(0.5), (x[1] - x[2]).turned.scaled(math.sqrt(0.75))
    return [x[0] + both, middle + away, middle - away]


def _of_four(x: Sequence[Complex]) -> list[Complex]:
    (even, odd), (ahead, across) = _of_two([x[0], x[2]]), _of_two([x[1], x[3]])
    return [even + ahead, odd + across.turned, even - ahead, odd - across.turned]


def _of_five(x: Sequence[Complex]) -> list[Complex]:
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
