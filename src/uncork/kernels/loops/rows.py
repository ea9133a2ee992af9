"""Nests of whole rows along any axes: softmax, standardising, reductions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from uncork.kernels.extents import compute_nothing_of
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.loops.axes import Groups, literal
from uncork.kernels.runtime.target import Target
from uncork.symbolic import SizeLike

_TERMS = {"l1": "abs({x})", "l2": "{x} * {x}"}


def softmax(
    kind: str, shape: Sequence[SizeLike], axis: int, name: str, target: Target
) -> Selection:
    """Softmax or log_softmax along an axis, of f32, f16 and bf16."""
    compute_nothing_of(shape, "softmax")
    g = Groups.of(shape, [axis])
    x, y = f"X[{g.element}]", f"Y[{g.element}]"
    lines = [f"{g.kept}:", f"  {g.reduced}: m = max({x})"]
    if kind == "log_softmax":
        lines += [
            f"  {g.reduced}: s = sum(exp({x} - m))",
            "  l = log(s)",
            f"  {g.reduced}: {y} = {x} - m - l",
        ]
    elif name == "f32":
        lines += [
            f"  {g.reduced}: e = exp({x} - m); {y} = e; s = sum(e)",
            "  d = 1.0 / s",
            f"  {g.reduced}: {y} = {y} * d",
        ]
    else:  # what is stored would be rounded, and rounded again
        lines += [
            f"  {g.reduced}: s = sum(exp({x} - m))",
            "  d = 1.0 / s",
            f"  {g.reduced}: {y} = exp({x} - m) * d",
        ]
    return g.nest(f"{kind}_nest", "\n".join(lines), name, target, 0.6).native()


def standardised(
    shape: Sequence[SizeLike],
    axes: Collection[int],
    epsilon: float,
    name: str,
    target: Target,
    divide: bool,
    inside: bool,
) -> Selection:
    """The nest that takes away the mean over the axes and, if asked for, divides the rest by the
    standard deviation.
    """
    compute_nothing_of(shape, "standardise")
    g = Groups.of(shape, axes)
    x = f"X[{g.element}]"
    lines = [f"{g.kept}:", f"  {g.reduced}: s = sum({x})", f"  m = s / {g.count}"]
    if divide:
        small = literal(epsilon)
        lines += [f"  {g.reduced}: q = sum(({x} - m) * ({x} - m))"]
        lines += [
            f"  d = 1.0 / sqrt(q / {g.count} + {small})"
            if inside
            else f"  d = 1.0 / (sqrt(q / {g.count}) + {small})"
        ]
    lines += [f"  {g.reduced}: Y[{g.element}] = {'(' + x + ' - m) * d' if divide else x + ' - m'}"]
    return g.nest("standardise_nest", "\n".join(lines), name, target, 0.2, vectors=4).native()


#: What joins the terms of a reduction, where that is no sum.
_FOLDS = {"max": "max", "min": "min", "prod": "prod", "all": "prod", "any": "max"}


def reduction(
    word: str, shape: Sequence[SizeLike], axes: Collection[int], name: str, target: Target
) -> Selection:
    """A sum, mean, norm, largest or smallest element along axes that are not next to each other."""
    g = Groups.of(shape, axes)
    fold = _FOLDS.get(word, "sum")
    term = _TERMS.get(word, "{x}").format(x=f"X[{g.element}]")
    end = {"mean": f"s / {g.count}", "l2": "sqrt(s)"}.get(word, "s")
    text = f"{g.kept}:\n  {g.reduced}: s = {fold}({term})\n  Y[{g.result}] = {end}"
    return g.nest(f"reduce_{word}_nest", text, name, target, 0.1, results=True, vectors=4).native()
