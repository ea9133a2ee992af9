"""Selection of the loop nests that keep rows of f32 in bytes: see `internal_ops/coded_rows.py`."""

from __future__ import annotations

from uncork.internal_ops.coded_rows import GRID, LEAST_STEP
from uncork.kernels.extents import compute_nothing_of, decline_if, extents, is_empty, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View

#: Of a row that is not finite the codes are 0, and the grid is one that makes NaN of any code.
_ENCODED = f"""n:
  r*: l = min(X[n, r]); h = max(X[n, r]); z = sum(X[n, r] * 0.0)
  f = z + (h - l) * 0.0 == 0.0
  d = h / 255.0 - l / 255.0
  d = where(d < {LEAST_STEP!r}, 0.0, d)
  i = where(both(d > 0.0, f), 1.0 / d, 0.0)
  r*: c = rint((X[n, r] - l) * i); C[n, r] = truncated(smaller(where(c > 0.0, c, 0.0), 255.0))
  G[n, 0] = where(f, d, 1e999 - 1e999)
  G[n, 1] = where(f, l, 1e999 - 1e999)"""
_DECODED = "n:\n  d = G[n, 0]; l = G[n, 1]\n  r*: X[n, r] = fused(real(C[n, r]), d, l)"


def select_encoded(layer: Layer) -> Selection:
    return _selected(layer, back=False)


def select_decoded(layer: Layer) -> Selection:
    return _selected(layer, back=True)


def _selected(layer: Layer, back: bool) -> Selection:
    sizes = extents(layer.outputs[0] if back else layer.input(0))
    decline_if(not sizes or is_empty(sizes[-1:]), "no kernel for empty rows")
    compute_nothing_of(sizes, "coded")
    numbers, codes = (Out(0), In(0)) if back else (In(0), Out(0))
    rows, size = product(sizes[:-1]), sizes[-1]
    views = {
        "X": View(numbers, "f32", (rows, size)),
        "C": View(codes, "u8", (rows, size), (size + GRID, 1)),
        "G": View(type(codes)(0, size), "f32", (rows, 2), (size + GRID, 4)),
    }
    name, text = ("decoded_rows", _DECODED) if back else ("coded_rows", _ENCODED)
    return Call(
        name,
        text,
        {"n": rows, "r": size},
        views,
        layer.target,
        4,
        rows * size // 8,
        shared="n",
    ).native()
