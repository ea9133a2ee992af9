"""STFT-15 and ISTFT-16: frames of two numbers, whose spectra are their sum and difference, and the
pages' shapes.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples._spatial import plain
from uncork.ops.stft import ISTFT16, STFT15


def f32(values: object) -> np.ndarray:
    return np.array(values, np.float32)


def real(values: object) -> np.ndarray:
    """Complex numbers without an imaginary part, as pairs."""
    exact = f32(values)
    return np.stack([exact, np.zeros_like(exact)], axis=-1)


SIGNAL, ONES, TWO, ONE = f32([1, 2, 3, 5]), f32([1, 1]), np.int64(2), np.int64(1)
FRAMES_FIRST, FRAMES_LAST = {"transpose_frames": False}, {"transpose_frames": True}
RANK_1 = "takes batches only"
EXAMPLES = [
    Sample(
        "frames of two numbers",
        [SIGNAL, ONES, TWO, ONE],
        [real([[3, -1], [5, -1], [8, -2]])],
        FRAMES_FIRST,
        openvino=RANK_1,
    ),
    Sample(
        "frequencies first",
        [SIGNAL, ONES, TWO, ONE],
        [real([[3, 5, 8], [-1, -1, -2]])],
        FRAMES_LAST,
        openvino=RANK_1,
    ),
    Sample(
        "a step of 2, a batch",
        [np.stack([SIGNAL, -SIGNAL]), ONES, TWO, TWO],
        [real([[[3, -1], [8, -2]], [[-3, 1], [-8, 2]]])],
        FRAMES_FIRST,
    ),
    Sample(
        "what is left over is no frame",
        [SIGNAL[None, :3], ONES, TWO, TWO],
        [real([[[3, -1]]])],
        FRAMES_FIRST,
    ),
    Sample(
        "the window weighs",
        [SIGNAL[None], f32([0.5, 2]), TWO, TWO],
        [real([[[4.5, -3.5], [11.5, -8.5]]])],
        FRAMES_FIRST,
    ),
    # frames of 3 with the window at their middle: 2, and 3 * exp(-2 pi i / 3) ..
    Sample(
        "a short window stands in the middle",
        [f32([[7, 2, 7]]), f32([1]), np.int64(3), ONE],
        [f32([[[[2, 0], [-1, -(3**0.5)]]]])],
        FRAMES_FIRST,
        openvino="wants frames shorter than the signal",
    ),
    Sample(
        "one of an even rest stands before the window",
        [f32([[7, 2, 7, 7, 0]]), f32([1]), np.int64(4), TWO],
        [f32([[[[2, 0], [0, -2], [-2, 0]]]])],
        FRAMES_FIRST,
    ),
    Sample(
        "the page's example",
        [np.zeros((3, 56), "f4"), np.ones(7, "f4"), np.int64(11), np.int64(3)],
        [np.zeros((3, 6, 16, 2), "f4")],
        FRAMES_LAST,
    ),
    Sample(
        "no signals",
        [np.zeros((0, 4), "f4"), ONES, TWO, ONE],
        [np.zeros((0, 3, 2, 2), "f4")],
        FRAMES_FIRST,
        openvino="not for empty tensors",
    ),
]
REFUSALS = [
    Refusal(
        "frames longer than the signal",
        [SIGNAL, ONES, np.int64(5), ONE],
        "'frame_size': 5 is longer than the signal",
        FRAMES_FIRST,
    ),
    Refusal(
        "frames of 0",
        [SIGNAL, ONES, np.int64(0), ONE],
        "'frame_size': expected a positive number, got 0",
        FRAMES_FIRST,
    ),
    Refusal(
        "a step of 0",
        [SIGNAL, ONES, TWO, np.int64(0)],
        "'frame_step': expected a positive number, got 0",
        FRAMES_FIRST,
    ),
    Refusal(
        "a longer window",
        [SIGNAL, f32([1, 1, 1]), TWO, ONE],
        "'window': expected 1 to 2 numbers for frames of 2, got 3",
        FRAMES_FIRST,
    ),
    Refusal(
        "no window", [SIGNAL, f32([]), TWO, ONE], "'window': expected 1 to 2 numbers", FRAMES_FIRST
    ),
    Refusal(
        "a matrix as window",
        [SIGNAL, ONES[None], TWO, ONE],
        "'window': expected a 1-D tensor",
        FRAMES_FIRST,
    ),
    Refusal(
        "a signal of rank 3",
        [SIGNAL[None, None], ONES, TWO, ONE],
        "'signal': expected rank 1 or 2",
        FRAMES_FIRST,
    ),
    Refusal("no layout", [SIGNAL, ONES, TWO, ONE], "'transpose_frames' is missing", {}),
    Refusal(
        "two frame sizes",
        [SIGNAL, ONES, np.array([2, 2]), ONE],
        "'frame_size': expected a scalar or one element",
        FRAMES_FIRST,
    ),
]
PLAIN = {"center": False, "normalized": False}
SPECTRA = real([[3, 5, 8], [-1, -1, -2]])
ODD = real([[6, 15], [0, 0]])
INVERSE = [
    # pieces 1 2, 2 3, 3 5
    Sample("overlapping frames", [SPECTRA, ONES, TWO, ONE], [SIGNAL], PLAIN),
    Sample(
        "a batch",
        [np.stack([SPECTRA, -SPECTRA]), ONES, TWO, ONE],
        [np.stack([SIGNAL, -SIGNAL])],
        PLAIN,
    ),
    Sample(
        "frames apart", [SPECTRA[:, ::2], ONES, TWO, np.int64(3)], [f32([1, 2, 0, 3, 5])], PLAIN
    ),
    # weights 1, .25 + 1, ..: (.5 * 2 + 1 * 2) / 1.25 with pieces 1 2, 2 3, 3 5 and the window 1, .5
    Sample(
        "the window weighs twice",
        [SPECTRA, f32([1, 0.5]), TWO, ONE],
        [f32([1, 3 / 1.25, 4.5 / 1.25, 10])],
        PLAIN,
    ),
    Sample("0 where the window is 0", [SPECTRA, f32([0, 1]), TWO, ONE], [f32([0, 2, 3, 5])], PLAIN),
    Sample(
        "center leaves out half a frame",
        [SPECTRA, ONES, TWO, ONE],
        [SIGNAL[1:3]],
        {**PLAIN, "center": True},
    ),
    Sample(
        "normalized",
        [SPECTRA, ONES, TWO, ONE],
        [SIGNAL * f32(2**0.5)],
        {**PLAIN, "normalized": True},
    ),
    Sample(
        "a longer signal ends in zeros",
        [SPECTRA, ONES, TWO, ONE, np.array([6])],
        [f32([1, 2, 3, 5, 0, 0])],
        PLAIN,
    ),
    Sample("a shorter one", [SPECTRA, ONES, TWO, ONE, np.int64(3)], [SIGNAL[:3]], PLAIN),
    Sample(
        "center and length",
        [SPECTRA, ONES, TWO, ONE, np.int64(4)],
        [f32([2, 3, 5, 0])],
        {**PLAIN, "center": True},
    ),
    Sample(
        "no length",
        [SPECTRA, ONES, TWO, ONE, np.int64(0)],
        [f32([])],
        PLAIN,
        openvino="not for empty tensors",
    ),
    Sample(
        "the page's example",
        [np.zeros((4, 6, 16, 2), "f4"), np.ones(7, "f4"), np.int64(11), np.int64(3)],
        # 56 cells are reached, and 5 fall away at both ends; the page says 45
        [np.zeros((4, 46), "f4")],
        {**PLAIN, "center": True},
    ),
    # frames of 3 cells, all equal: 2 2 2 and 5 5 5 by a step of 1; what both reach is their mean
    Sample(
        "half an odd frame at both ends",
        [ODD, f32([1, 1, 1]), np.int64(3), ONE],
        [f32([3.5, 3.5])],
        {**PLAIN, "center": True},
    ),
    Sample(
        "all of odd frames", [ODD, f32([1, 1, 1]), np.int64(3), ONE], [f32([2, 3.5, 3.5, 5])], PLAIN
    ),
    Sample(
        "one odd frame",
        [ODD[:, :1], f32([1, 1, 1]), np.int64(3), ONE],
        [f32([2])],
        {**PLAIN, "center": True},
    ),
]
INVERSE_REFUSALS = [
    Refusal(
        "frequencies",
        [SPECTRA, ONES, np.int64(4), ONE],
        "'data': expected 3 frequencies for frames of 4, got 2",
        PLAIN,
    ),
    Refusal(
        "no frames", [SPECTRA[:, :0], ONES, TWO, ONE], "'data': expected at least one frame", PLAIN
    ),
    Refusal(
        "no pairs",
        [SPECTRA[..., :1], ONES, TWO, ONE],
        "'data': expected pairs in a last dimension of 2",
        PLAIN,
    ),
    Refusal("rank 2", [SPECTRA[0], ONES, TWO, ONE], "'data': expected rank 3 or 4", PLAIN),
    Refusal(
        "negative length",
        [SPECTRA, ONES, TWO, ONE, np.int64(-1)],
        "'signal_length': expected a length, got -1",
        PLAIN,
    ),
    Refusal(
        "a longer window",
        [SPECTRA, f32([1, 1, 1]), TWO, ONE],
        "'window': expected 1 to 2 numbers",
        PLAIN,
    ),
    Refusal(
        "a step of 0",
        [SPECTRA, ONES, TWO, np.int64(0)],
        "'frame_step': expected a positive number",
        PLAIN,
    ),
    Refusal(
        "frames beyond memory",
        [SPECTRA, ONES, TWO, np.int64(2**60), np.int64(3)],
        "more than this machine's memory",
        PLAIN,
    ),
]


@st.composite
def cases(draw: st.DrawFn, inverse: bool) -> Case:
    size, step = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    lead = draw(st.sampled_from([(), (0,), (1,), (2,)]))
    kinds = draw(st.sampled_from(["i4", "i8"]))
    frames = draw(st.integers(1, 4))
    if inverse:
        data, name = draw(arrays((*lead, size // 2 + 1, frames, 2), FLOATS))
    else:
        data, name = draw(
            arrays((*lead, size + step * (frames - 1) + draw(st.integers(0, step - 1))), FLOATS)
        )
    # Windows without zeros: their quotients amplify the rounding of the numerator.
    window, _ = draw(arrays((draw(st.integers(1, size)),), (name,), 1, 2))
    inputs = [data, window, np.array(size, kinds), np.array(step, kinds)]
    if not inverse:
        return Case(inputs, {"transpose_frames": draw(st.booleans())}, [name, name])
    if draw(st.booleans()):
        inputs.append(np.array(draw(st.integers(0, 12)), draw(st.sampled_from(["i4", "i8"]))))
    return Case(
        inputs, {"center": draw(st.booleans()), "normalized": draw(st.booleans())}, [name, name]
    )


def framed(case: Case) -> tuple[list[float], int, int]:
    window, size, step = plain(case, 1).tolist(), int(case.inputs[2]), int(case.inputs[3])
    before = (size - len(window)) // 2
    return [0.0] * before + window + [0.0] * (size - len(window) - before), size, step


def loop(case: Case) -> list[np.ndarray]:
    signal = plain(case, 0)
    window, size, step = framed(case)
    frames, frequencies = (signal.shape[-1] - size) // step + 1, size // 2 + 1
    result = np.zeros((*signal.shape[:-1], frames, frequencies, 2))
    for *lead, t, k in np.ndindex(*result.shape[:-1]):
        value = sum(
            window[n] * signal[(*lead, t * step + n)] * cmath.exp(-2j * math.pi * k * n / size)
            for n in range(size)
        )
        result[(*lead, t, k)] = [complex(value).real, complex(value).imag]
    return [np.swapaxes(result, -2, -3) if case.attributes["transpose_frames"] else result]


def inverse_loop(case: Case) -> list[np.ndarray]:
    data, at = plain(case, 0), case.attributes
    window, size, step = framed(case)
    frames = data.shape[-2]
    first, last = (size // 2, size - size // 2) if at["center"] else (0, size)
    natural = (frames - 1) * step + last - first
    length = int(case.inputs[4]) if len(case.inputs) > 4 else natural
    result = np.zeros((*data.shape[:-3], length))
    for *lead, i in np.ndindex(*result.shape):
        total, weight = 0.0, 0.0
        for t in range(frames):
            n = first + i - t * step
            if not 0 <= n < size:
                continue
            piece = 0.0
            for k in range(size):
                a, b = data[(*lead, min(k, size - k), t)]
                number = complex(a, b if k <= size - k else -b)
                if k in (0, size - k):
                    number = number.real  # these cannot have an imaginary part
                piece += (number * cmath.exp(2j * math.pi * k * n / size)).real / size
            total += window[n] * piece
            weight += window[n] ** 2
        if weight:
            result[(*lead, i)] = total / weight * (math.sqrt(size) if at["normalized"] else 1)
    return [result]


SAMPLES = [
    Samples(STFT15, EXAMPLES, REFUSALS, cases(False), loop, atol=1e-4),
    Samples(ISTFT16, INVERSE, INVERSE_REFUSALS, cases(True), inverse_loop, atol=1e-4),
]
