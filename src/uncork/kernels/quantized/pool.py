"""The loop nest that pools codes, whose channels are neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.internal_ops.quantized import in_words
from uncork.kernels.extents import product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.loops.windows import sizes_of, tap_loops, windows_of
from uncork.kernels.runtime.target import Target
from uncork.ops._common.spatial import Sliding
from uncork.symbolic import SizeLike


def pooled_codes(
    pool: Sliding,
    kernel: Sequence[int],
    shape: Sequence[SizeLike],
    result: Sequence[SizeLike],
    target: Target,
) -> Selection:
    """The plan of a pooling of codes; `shape` and `result` are plain shapes of data and result."""
    windows = windows_of(pool, shape[2:], result[2:], kernel)
    cells, places = ", ".join(w.tap_index() for w in windows), ", ".join(w.axis for w in windows)
    text = (
        f"n {places.replace(',', '')} c*:\n  {tap_loops(windows)}: m = max(pad(X[n, {cells}, c], "
        f"lowest))\n  Y[n, {places}, c] = m"
    )
    channels = shape[1]
    assert isinstance(channels, int)
    words = in_words(channels)
    sizes = {"n": shape[0], "c": words, **sizes_of(windows)}
    views = {
        "X": View(In(0), "u8", (shape[0], *(w.size for w in windows), words)),
        "Y": View(Out(0), "u8", (shape[0], *(w.count for w in windows), words)),
    }
    work = product((shape[0], *(w.count for w in windows))) * words
    for window in windows:
        work = work * window.kernel
    return Call(
        "max_pool_codes", text, sizes, views, target, 2, work // 32, shared=("n", "c")
    ).native()
