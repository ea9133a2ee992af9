"""How two arrays differ: how far, where, and whether rounding explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uncork.types import Array, describe_array

#: Borders of the histogram of differences: powers of ten relative to the largest value, from below
#: 1e-9 to above 1.
BORDERS = tuple(10.0**power for power in range(-9, 1))

SAME, ROUNDING, UNDEFINED, DIFFERS = "same", "rounding", "undefined", "differs"


@dataclass(frozen=True)
class Difference:
    """The difference of two arrays. `verdict` is "same" (bit for bit, or both NaN), "rounding",
    "undefined" (only where no value is defined) or "differs"; `reason` says why it differs.

    `largest` and `relative` are of finite values, `where` is the place of the largest, `ours` and
    `theirs` the values there. `ulp` is how many values of the type lie between them at most.
    `histogram` counts elements by their difference relative to the largest value.
    """

    verdict: str
    reason: str = ""
    largest: float = 0.0
    relative: float = 0.0
    ulp: int = 0
    where: tuple[int, ...] = ()
    ours: Any = None
    theirs: Any = None
    histogram: tuple[int, ...] = ()


def difference(
    ours: Array, theirs: Array, allowed: float, undefined: Array | None = None
) -> Difference:
    """Compare arrays of one tensor; `allowed` is relative to the largest finite value of both.

    Where `undefined` is true no value is defined: what differs only there is "undefined".
    """
    found = _difference(ours, theirs, allowed)
    if undefined is None or found.verdict != DIFFERS or ours.shape != theirs.shape:
        return found
    rest = _difference(ours[~undefined], theirs[~undefined], allowed)
    if rest.verdict == DIFFERS:
        return found
    count = int((undefined & (ours != theirs)).sum())
    reason = f"{count:,} of {ours.size:,} values are of numbers that the type lacks"
    return replace(found, verdict=UNDEFINED, reason=reason)


def _difference(ours: Array, theirs: Array, allowed: float) -> Difference:
    if ours.shape != theirs.shape:
        return Difference(DIFFERS, f"shape {list(ours.shape)} here, {list(theirs.shape)} there")
    kinds = {ours.dtype.kind, theirs.dtype.kind}
    if ours.dtype != theirs.dtype and not (kinds == {"f"} or kinds <= set("iub")):
        return Difference(DIFFERS, f"{describe_array(ours)} here, {describe_array(theirs)} there")
    if ours.dtype.kind not in "fiub":
        return _of_others(ours, theirs)
    if ours.dtype.kind != "f":
        return _of_numbers(
            ours.astype(np.float64), theirs.astype(np.float64), ours == theirs, 0.0, ours, theirs
        )
    wide, other = ours.astype(np.float64), theirs.astype(np.float64)
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    return _of_numbers(wide, other, same, allowed, ours, theirs)


def _of_others(ours: Array, theirs: Array) -> Difference:
    unequal = np.asarray(ours != theirs, bool)
    if not unequal.any():
        return Difference(SAME)
    where = _place(unequal)
    return Difference(
        DIFFERS, "another value", where=where, ours=str(ours[where]), theirs=str(theirs[where])
    )


def _of_numbers(
    wide: Array, other: Array, same: Array, allowed: float, ours: Array, theirs: Array
) -> Difference:
    if same.all():
        return Difference(SAME, histogram=(same.size,) + (0,) * len(BORDERS))
    finite = np.isfinite(wide) & np.isfinite(other)
    odd = ~same & ~finite
    with np.errstate(all="ignore"):
        apart = np.where(finite & ~same, np.abs(wide - other), 0.0)
        scale = float(
            max(np.abs(wide[finite]).max(initial=0.0), np.abs(other[finite]).max(initial=0.0))
        )
        relative = np.where(apart > 0, apart / np.maximum(np.abs(wide), np.abs(other)), 0.0)
    if odd.any():
        where = _place(odd)
        reason = f"{int(odd.sum()):,} of {odd.size:,} values are NaN or infinite on one side only"
    else:
        where = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), apart.shape))
        reason = ""
    largest = float(apart.max(initial=0.0))
    beyond = largest > allowed * scale
    if beyond and not reason:
        count = int((apart > allowed * scale).sum())
        reason = (
            f"{count:,} of {apart.size:,} values"
            if allowed
            else f"{int((~same).sum()):,} of {same.size:,} values, which must be the same"
        )
    return Difference(
        DIFFERS if beyond or odd.any() else ROUNDING,
        reason,
        largest,
        float(relative.max(initial=0.0)),
        _ulp(ours, theirs, finite),
        where,
        ours[where].item(),
        theirs[where].item(),
        _histogram(apart, scale),
    )


def _place(mask: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _histogram(apart: Array, scale: float) -> tuple[int, ...]:
    borders = np.array(BORDERS) * (scale or 1.0)
    counts = np.bincount(np.digitize(apart.reshape(-1), borders), minlength=len(BORDERS) + 1)
    return tuple(int(count) for count in counts)


def _ulp(ours: Array, theirs: Array, finite: Array) -> int:
    """The most values of the type that lie between two results; 0 for integers."""
    if ours.dtype.kind != "f" or ours.dtype != theirs.dtype:
        return 0
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[ours.dtype.itemsize]

    def ordered(array: Array) -> Array:
        code = (
            np.ascontiguousarray(array)
            .reshape(array.shape)
            .view(bits)
            .astype(object if bits is np.int64 else np.int64)
        )
        low = int(np.iinfo(bits).min)
        return np.where(code < 0, low - code, code)

    # In Python's integers for f64: the distance of two of them may not fit 64 bits.
    places = finite & (ours != theirs)
    if not places.any():
        return 0
    return int(np.abs(ordered(ours[places]) - ordered(theirs[places])).max())
