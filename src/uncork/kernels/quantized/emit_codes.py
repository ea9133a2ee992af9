"""Numbers of f32 to codes of a grid and back, of channels that are neighbours or planes.

The kernel gives up at a NaN, which has no code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from uncork.internal_ops.quantized import WORD
from uncork.kernels.codegen.emit import F32, I8, I32, U32, Kernel, Value, emitter
from uncork.kernels.quantized.emit_rounding import (
    Guard,
    Numbers,
    OfChannels,
    from_codes,
    kept,
    number,
    to_word,
)
from uncork.kernels.quantized.spec import Codes

_UNROLLED = 4


@emitter
def emit_codes(k: Kernel, spec: Codes) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    a["words"] = (a["channels"] + (WORD - 1)) // WORD * WORD
    guard = Guard(k)
    if spec.planes:
        with k.loop(0, a["images"]) as image:
            _planes(k, spec, a, guard, image)
    else:
        _rows(k, spec, a, guard)
    if not spec.back:
        guard.stop()


def _numbers(spec: Codes, a: dict[str, Value], channel: Value) -> Numbers:
    """Where the numbers of the grid of a channel lie, along with those of its neighbours unless
    channels are planes.
    """
    if not spec.each:
        return a["numbers"]
    return OfChannels(a["numbers"] + channel * 4, a["channels"] * 4, not spec.planes)


def _word(k: Kernel, numbers: Numbers, guard: Guard, address: Value, lanes: int) -> Value:
    """The codes of numbers in memory, in 32 bits each."""
    value = k.load(address, F32, lanes)
    guard.look(value)
    return to_word(k, kept(k, value, numbers))


def _rows(k: Kernel, spec: Codes, a: dict[str, Value], guard: Guard) -> None:
    """Convert the rows from `first` on, whose channels are neighbours."""
    with k.loop(a["first"], a["first"] + a["count"]) as row:
        of_numbers, of_codes = row * a["channels"] * 4, row * a["words"]
        source, target = (
            a["source"] + (of_codes if spec.back else of_numbers),
            a["target"] + (of_numbers if spec.back else of_codes),
        )
        done = k.variable(k.integer(0))
        for some in _steps(spec.lanes):
            with k.loop(done.get(), a["channels"] - (some - 1), some) as i:
                lanes = min(some, spec.lanes)
                for part in range(0, some, lanes):
                    place = i + part
                    numbers = _numbers(spec, a, place)
                    if spec.back:
                        k.store(from_codes(k, source + place, numbers, lanes), target + place * 4)
                    else:
                        word = _word(k, numbers, guard, source + place * 4, lanes)
                        k.store(word.to(I8), target + place)
                done.set(i + some)
        if not spec.back:
            with k.loop(a["channels"], a["words"]) as i:
                k.store(k.constant(0, I8), target + i)


def _steps(lanes: int) -> Iterator[int]:
    """Channels that are converted at a time: several vectors, one, parts of one as long as words of
    codes fill them, one channel.
    """
    yield lanes * _UNROLLED
    while lanes >= WORD:
        yield lanes
        lanes //= 2
    yield 1


def _planes(k: Kernel, spec: Codes, a: dict[str, Value], guard: Guard, image: Value) -> None:
    """Convert the pixels from `first` on of an image whose channels are planes: a word of channels
    of some neighbouring pixels at a time.
    """
    numbers = image * a["channels"] * a["pixels"] * 4
    codes = image * a["pixels"] * a["words"]
    to_planes, to_words = (a["target"], a["source"]) if spec.back else (a["source"], a["target"])
    planes, words = to_planes + numbers, to_words + codes
    some: Callable[..., None] = _back if spec.back else _there
    end = a["first"] + a["count"]
    with k.loop(0, a["channels"], WORD) as channel:
        done = k.variable(a["first"])
        for lanes in (spec.lanes, 1):
            with k.loop(done.get(), end - (lanes - 1), lanes) as pixel:
                place = words + pixel * a["words"] + channel
                some(k, spec, a, guard, _Pixels(planes, place, channel, pixel, lanes))
                done.set(pixel + lanes)


class _Pixels(Struct, frozen=True):
    """Neighbouring pixels of a word of channels: where planes begin, where the word of the first
    one lies, its first channel, the first pixel, and how many they are.
    """

    planes: Value
    words: Value
    channel: Value
    first: Value
    lanes: int


def _there(k: Kernel, spec: Codes, a: dict[str, Value], guard: Guard, at: _Pixels) -> None:
    channel, lanes = at.channel, at.lanes
    word = k.constant(0, I32, lanes)
    for c in range(WORD):
        own = k.minimum(channel + c, a["channels"] - 1)
        place = at.planes + (own * a["pixels"] + at.first) * 4
        code = _word(k, _numbers(spec, a, own), guard, place, lanes)
        word = word | (
            k.select(channel + c < a["channels"], code & 255, k.constant(0, I32, lanes)) << (8 * c)
        )
    if lanes == 1:
        k.store(word, at.words)
        return
    with k.if_else(a["words"].equals(WORD)) as (together, apart):
        with together:
            k.store(word, at.words)
        with apart:
            for lane in range(lanes):
                k.store(word.part(lane, 1), at.words + a["words"] * lane)


def _back(k: Kernel, spec: Codes, a: dict[str, Value], _: Guard, at: _Pixels) -> None:
    channel, lanes = at.channel, at.lanes
    if lanes == 1:
        word = k.load(at.words, I32)
    else:
        word = k.gathered([k.load(at.words + a["words"] * lane, I32) for lane in range(lanes)])
    for c in range(WORD):
        with k.if_(channel + c < a["channels"]):
            code = ((word.bits_as(U32) >> (8 * c)) & 255).bits_as(I32).to(F32)
            numbers = _numbers(spec, a, channel + c)
            step, low = (number(k, numbers, name, lanes) for name in ("step", "low"))
            place = at.planes + ((channel + c) * a["pixels"] + at.first) * 4
            k.store(k.fma(code, step, low), place)
