"""What loop nests of boxes share: rooms for their tables, and how the bins of a box are pooled from
a row of cells at a time.
"""

from __future__ import annotations

from uncork.kernels.extents import product
from uncork.kernels.kernel_plan import Scratch
from uncork.kernels.loops.nest_call import View, row_bytes
from uncork.symbolic import SizeLike

#: Elements of two vectors, out of which processors pick at once.
_NEAR = 32


def pooled(weighted: bool) -> list[str]:
    """The lines that pool the bins of box n in image b: rows first, of those columns that the box
    needs, then columns.

    Along both axes a bin's cells go from A to below B; P has their weights, where the result is a
    sum and not the largest. A bin without cells is 0. A sum that is no number is the reference's: a
    weight of 0 makes a NaN of infinity here and not there.
    """
    word, weight = ("sum", " * Py[y, v]") if weighted else ("max", "")
    lines = [
        "x: low = min(Ax[x]); high = max(Bx[x]); most = max(Bx[x] - Ax[x])",
        "x: D[x] = where(number(Ax[x]) < number(Bx[x]), 1.0, 0.0)",
        # the taps of the columns, side by side; behind a bin's last one it comes again
        "t=0..most x:",
        "  i = larger(smaller(number(Ax[x] + t), number(Bx[x] - 1)), 0.0)",
        "  it = truncated(i)",
        "  S[t, x] = it",
    ]
    if weighted:
        lines.append("  Q[t, x] = where(number(Ax[x] + t) < number(Bx[x]), Px[x, at(it)], 0.0)")
    # all columns of a small box are two vectors
    lines.append(f"narrow = where(high - low <= {_NEAR}, 1.0, 0.0)")
    # all rows of a channel first: what is read then is not just being written
    lines += ["c:", "  y u*=low..high:"]
    lines += [
        f"    v=Ay[y]..By[y]: m = {word}(X[at(b), c, v, u]{weight})",
        "    T[y, u] = whole(m)",
        "  y:",
    ]
    if not weighted:
        lines.append("    has_rows = where(number(Ay[y]) < number(By[y]), 1.0, 0.0)")
    has_cells = "D[x]" if weighted else "D[x] * has_rows"
    for turns, place in (("0..narrow", "near(S[t, x], low)"), ("0..1.0-narrow", "S[t, x]")):
        cell = f"T[y, {place}] * Q[t, x]" if weighted else f"T[y, {place}]"
        lines += [
            f"    way={turns} x*:",
            f"      t=0..most: s = {word}({cell})",
            f"      Y[n, c, y, x] = where({has_cells} > 0.0, s, 0.0)",
        ]
    if weighted:
        lines += ["z*: wrong = sum(Z[n, z] - Z[n, z])", "refused = differs(wrong)"]
    return lines


class Rooms:
    """Working memory for views, one after the other."""

    def __init__(self, computed: str) -> None:
        self.computed = computed
        self.size: SizeLike = 0

    def view(self, sizes: tuple[SizeLike, ...], name: str = "") -> View:
        """Room for so many elements, by default of the type of the computation."""
        name = name or self.computed
        room = View(Scratch(self.size), name, sizes)
        self.size = self.size + row_bytes(product(sizes), name)
        return room

    def bins(
        self, counts: tuple[int, int], sizes: tuple[SizeLike, SizeLike], weighted: bool
    ) -> dict[str, View]:
        """The views that `pooled` uses: rows, where the cells of each bin begin and end along both
        axes, and what `pooled` makes of these.
        """
        (rows, columns), (_, width) = counts, sizes
        views = {
            "T": self.view((rows, width + _NEAR)),
            "D": self.view((columns,)),
            "S": self.view((width, columns), "i32"),
        }
        if weighted:
            views["Q"] = self.view((width, columns))
        for axis, count, size in zip("yx", counts, sizes, strict=True):
            views |= {word + axis: self.view((count,), "i32") for word in "AB"}
            if weighted:
                views[f"P{axis}"] = self.view((count, size))
        return views
