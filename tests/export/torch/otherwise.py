"""Worked examples that torch answers otherwise; docs/export.md lists them."""

from __future__ import annotations

OTHERWISE = {
    ("AdaptiveMaxPool", "a NaN wins"): "of several NaN torch gives the place of the last",
    ("ReduceMean", "i64 in full width"): "torch sums 64-bit integers in 64 bits",
    (
        "ScatterElementsUpdate",
        "the mean's sum does not wrap",
    ): "torch sums 64-bit integers in 64 bits",
    ("SearchSorted", "NaN in the row"): "torch's search takes no NaN in the row",
}
