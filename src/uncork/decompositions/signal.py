"""Fourier transforms of frames of a signal, and the greedy path of CTC."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops._operation import Operation
from uncork.ops.ctc_greedy_decoder import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6
from uncork.ops.stft import ISTFT16, STFT15
from uncork.types import ElementType

T = ElementType


def _lengths(
    g: Layers, sizes: Sequence[Source], signal_size: Source | None
) -> tuple[Source, list[Source]]:
    """How long the last axis is that is transformed, and the `signal_size` of the others, where
    there is one.
    """
    if signal_size is None:
        return sizes[-1], []
    *others, last = g.each(signal_size, len(sizes))
    length = g.select(g.make("Equal", last, g.i64([-1])), sizes[-1], last)
    return length, [g.shape(*others)]


@composite("RDFT")
def rdft(
    g: Layers, op: Operation, data: Source, axes: Source, signal_size: Source | None
) -> Source:
    """The first half of the transform of complex numbers along the last axis, then the others."""
    *others, last = (a % g.rank(data) for a in g.numbers(axes, "axes"))
    count, rest = _lengths(g, [g.dim(data, a) for a in (*others, last)], signal_size)
    column = g.unsqueeze(g.convert(data, T.f64), -1)
    pairs = g.concat([column, g.minus(column, column)], -1)
    # An axis without cells has one result, which is 0.
    half = g.make("DFT", pairs, g.i64([last]), g.largest(count, 1))
    half = g.part(half, g.i64([0]), g.plus(g.over(count, 2), 1), last)
    return g.make("DFT", half, g.i64(others), *rest) if others else half


@composite("IRDFT")
def irdft(
    g: Layers, op: Operation, data: Source, axes: Source, signal_size: Source | None
) -> Source:
    """The inverse of the transform of complex numbers, whose last axis is first filled up with the
    conjugates of its half.
    """
    *others, last = (a % (g.rank(data) - 1) for a in g.numbers(axes, "axes"))
    given = g.dim(data, last)
    sizes = [*(g.dim(data, a) for a in others), g.times(g.minus(given, 1), 2)]
    count, rest = _lengths(g, sizes, signal_size)
    wide = g.convert(data, T.f64)
    wide = g.make("IDFT", wide, g.i64(others), *rest) if others else wide
    kept = g.plus(g.over(count, 2), 1)
    missing = [g.i64([0])] * g.rank(data)
    missing[last] = g.largest(g.minus(kept, given), 0)
    wide = g.pad(wide, g.i64([0] * g.rank(data)), g.shape(*missing))
    half = g.part(wide, g.i64([0]), kept, last)
    beyond = g.largest(g.minus(count, kept), 0)
    mirrored = g.part(half, beyond, g.i64([0]), last, -1)
    whole = g.concat([half, g.times(mirrored, g.constant([1.0, -1.0], "f64"))], last)
    real = g.picked(g.make("IDFT", whole, g.i64([last])), 0, -1)
    # One number that turns out to stand alone is the half of nothing.
    return g.part(real, g.i64([0]), count, last)


def _in_frame(g: Layers, window: Source, frame: Source) -> Source:
    """The window padded to the size of a frame, in its middle."""
    spare = g.minus(frame, g.dim(window, 0))
    before = g.over(spare, 2)
    # A window that turns out to be longer than the frame must not be cut: it fits nothing then.
    return g.pad(window, *(g.largest(n, 0) for n in (before, g.minus(spare, before))))


def _places(g: Layers, frames: Source, step: Source, frame: Source) -> Source:
    """The indices in the signal of each frame's elements, [frames, frame]."""
    return g.plus(g.unsqueeze(g.times(g.range(frames), step), 1), g.range(frame))


@composite("STFT")
def stft(
    g: Layers, op: STFT15, signal: Source, window: Source, frame_size: Source, frame_step: Source
) -> Source:
    """Frames gathered by index, multiplied with the window and transformed."""
    rank = g.rank(signal)
    (frame,), (step,) = g.each(frame_size, 1), g.each(frame_step, 1)
    spare = g.minus(g.dim(signal, rank - 1), frame)
    # A signal that turns out to be shorter than a frame is read outside, which is refused.
    frames = g.largest(g.plus(g.over(spare, step), 1), 1)
    places = g.unsqueeze(_places(g, frames, step, frame), -1)
    along = g.transpose(signal, [*range(rank)][::-1])
    cells = g.make("GatherND", along, places)
    cells = g.transpose(cells, [2, 0, 1] if rank == 2 else [0, 1])
    spectra = g.make("RDFT", g.times(cells, _in_frame(g, window, frame)), g.i64([rank]))
    if op.transpose_frames:
        spectra = g.transpose(spectra, [*range(rank - 1), rank, rank - 1, rank + 1])
    return spectra


@composite("ISTFT")
def istft(
    g: Layers,
    op: ISTFT16,
    data: Source,
    window: Source,
    frame_size: Source,
    frame_step: Source,
    signal_length: Source | None,
) -> Source:
    """Each frame transformed back, multiplied with the window and added at its place."""
    rank = g.rank(data)
    (frame,), (step,) = g.each(frame_size, 1), g.each(frame_step, 1)
    batched = g.convert(data if rank == 4 else g.unsqueeze(data, 0), T.f64)
    frames, middle = g.dim(batched, 2), g.over(frame, 2)
    moved = g.times(g.minus(frames, 1), step)
    reached = g.plus(moved, frame)
    framed = _in_frame(g, g.convert(window, T.f64), frame)
    half = g.transpose(batched, [0, 2, 1, 3])
    pieces = g.times(g.make("IRDFT", half, g.i64([2]), frame), framed)
    places = g.reshape(_places(g, frames, step, frame), [-1])
    total = _added(g, pieces, places, g.dim(batched, 0), reached)
    squares = g.broadcast(g.times(framed, framed), g.shape(1, frames, frame))
    weight = _added(g, squares, places, g.i64([1]), reached)
    none = g.make("Equal", weight, g.like(0, weight))
    one, zero = g.like(1, weight), g.like(0, weight)
    signal = g.select(none, zero, g.over(total, g.select(none, one, weight)))
    if op.normalized:
        signal = g.times(signal, g.root(g.convert(frame, T.f64)))
    first = middle if op.center else g.i64([0])
    # How many cells there are beside one step for each frame but the first.
    beside = g.minus(frame, g.times(middle, 2)) if op.center else frame
    length = g.plus(moved, beside)
    if signal_length is not None:
        (length,) = g.each(signal_length, 1)
    end = g.plus(first, length)
    padded = g.pad(signal, g.i64([0, 0]), g.shape(0, g.largest(g.minus(end, reached), 0)))
    kept = g.part(padded, first, end, 1)
    return kept if rank == 4 else g.squeeze(kept, 0)


def _added(g: Layers, pieces: Source, places: Source, rows: Source, reached: Source) -> Source:
    """Frames [rows, frames, frame] added at their places in signals [rows, reached]."""
    terms = g.shaped(pieces, rows, g.dim(places, 0))
    blank = g.broadcast(g.like(0, pieces), g.shape(rows, reached))
    where = g.broadcast(places, g.shape_of(terms))
    return g.scatter(blank, where, terms, 1, "sum")


@composite("CTCGreedyDecoder")
def ctc_decoder(g: Layers, op: CTCGreedyDecoder1, data: Source, mask: Source) -> Source:
    """The best class of each step, without blanks and repetitions. Steps before the first 0 of the
    mask count; the blank is the last class.
    """
    ended = g.convert(g.make("Equal", mask, g.like(0, mask)), T.i64)
    seen = g.make("CumSum", ended, g.i64(0), exclusive=False, reverse=False)
    present = g.transpose(g.make("Equal", seen, g.i64(0)), [1, 0])
    best = g.transpose(_best(g, data), [1, 0])
    rows, _ = _path(g, best, present, g.minus(g.dim(data, 2), 1), op.ctc_merge_repeated)
    return g.unsqueeze(rows, 2, 3)


@composite("CTCGreedyDecoderSeqLen")
def ctc_decoder_with_lengths(
    g: Layers, op: CTCGreedyDecoderSeqLen6, data: Source, lengths: Source, blank: Source | None
) -> Sequence[Source]:
    """The best class of each of the first steps of a row, as many as its length, without blanks and
    repetitions.
    """
    present = g.make("Less", g.range(g.dim(data, 1)), g.unsqueeze(g.wide(lengths), 1))
    none = g.minus(g.dim(data, 2), 1) if blank is None else g.reshape(g.wide(blank), [1])
    return _path(g, _best(g, data), present, none, op.merge_repeated)


def _best(g: Layers, data: Source) -> Source:
    """The first of the largest classes of the last of three axes."""
    return g.squeeze(g.best(data, 2)[1], 2)


def _path(
    g: Layers, best: Source, present: Source, blank: Source, merge: bool
) -> tuple[Source, Source]:
    """The classes [N, T] that stay, moved to the front of rows of -1, and how many they are."""
    kept = g.make("LogicalAnd", present, g.make("NotEqual", best, blank))
    if merge:
        first = g.broadcast(g.i64(-1), g.shape(g.dim(best, 0), 1))
        before = g.concat([first, g.slice(best, 0, -1, 1)], 1)
        kept = g.make("LogicalAnd", kept, g.make("NotEqual", best, before))
    ones, width = g.convert(kept, T.i64), g.dim(best, 1)
    place = g.minus(g.make("CumSum", ones, g.i64(1), exclusive=False, reverse=False), 1)
    # What does not stay goes to one more column, which is cut off.
    place = g.select(kept, place, width)
    blanks = g.broadcast(g.i64(-1), g.shape(g.dim(best, 0), g.plus(width, 1)))
    rows = g.make("ScatterElementsUpdate", blanks, place, best, g.i64(1), opset=3)
    return g.slice(rows, 0, -1, 1), g.reduce("ReduceSum", ones, [1], keep=False)
