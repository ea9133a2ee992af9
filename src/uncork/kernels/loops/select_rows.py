"""Selection of the loop nests that go over whole rows, along any axes: reductions (sums, means,
norms, extremes), softmax, MVN.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from uncork.kernels.extents import compute_nothing_of, decline_if
from uncork.kernels.kernel_plan import Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.axes import Groups, literal
from uncork.kernels.runtime.target import Target
from uncork.ops._common.indices import normalised_axes, normalised_axis
from uncork.symbolic import SizeLike

if TYPE_CHECKING:  # a model need not have them, and importing costs time
    from uncork.ops.mvn import MVN1, MVN6

_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_INTEGERS = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
_OPS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogicalAnd": "all",
    "ReduceLogicalOr": "any",
}
_TERMS = {"l1": "abs(X[{e}])", "l2": "X[{e}] * X[{e}]"}
#: The logarithm of the smallest normal number of f32.
_NORMAL = -87.33654
#: What joins the terms of a reduction, where that is no sum.
_FOLDS = {"max": "max", "min": "min", "prod": "prod", "all": "prod", "any": "max"}


def select_reduction(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data, axes = layer.input(0), layer.constant(1, "axes are")
    op, name = _OPS[operation.type_name], data.element_type.name
    if op in ("all", "any"):
        name = "u8"  # by which booleans are stored
    decline_if(
        name not in (_FLOATS if op in ("mean", "l2") else _FLOATS | _INTEGERS),
        f"no kernel for {name}",
    )
    shape = layer.shape(0)
    along = normalised_axes(operation, axes, len(shape))
    decline_if(not along and op in ("l1", "l2"), "no kernel for no axes")
    return _reduction(op, shape, along, name, target)


def select_softmax(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data = layer.input(0)
    name = data.element_type.name
    decline_if(name not in ("f32", "f16", "bf16"), f"no kernel for {name}")
    shape = layer.shape(0)
    decline_if(not shape, "no kernel for a scalar")
    axis: int = getattr(operation, "axis", -1)
    along = normalised_axis(operation, axis, len(shape))
    kind = "log_softmax" if operation.type_name == "LogSoftmax" else "softmax"
    return _softmax(kind, shape, along, name, target)


def select_standardising(layer: Layer) -> Selection:
    operation, shape = layer.operation, layer.shape(0)
    if operation.opset < 6:
        axes, outside = cast("MVN1", operation).axes(len(shape)), False
    else:
        given = layer.constant(1, "axes are")
        axes, outside = (
            normalised_axes(operation, given, len(shape)),
            cast("MVN6", operation).eps_mode == "outside_sqrt",
        )
    mvn = cast("MVN1", operation)
    name, divide = layer.input(0).element_type.name, mvn.normalize_variance
    return _standardised(shape, axes, mvn.eps, name, layer.target, divide, not outside)


def _softmax(
    kind: str, shape: Sequence[SizeLike], axis: int, name: str, target: Target
) -> Selection:
    """Softmax or log_softmax along an axis, of f32, f16 and bf16."""
    compute_nothing_of(shape, "softmax")
    g = Groups.of(shape, [axis])
    x, y = f"X[{g.element}]", f"Y[{g.element}]"
    # Whether a NaN is the largest does not matter: the sum will be one, and so all of the row.
    lines = [f"{g.reduced}: m = top({x})"]
    if kind == "log_softmax":
        lines += g.summed("s", "exp(X[{e}] - m)")
        lines += ["l = log(s)", f"{g.reduced}: {y} = {x} - m - l"]
    elif name == "f32":
        # What is below the smallest normal number is 0: what reads subnormal ones takes a hundred
        # times as long, and masks of -100 make many.
        power = f"t = X[{{e}}] - m; e = where(t < {_NORMAL}, 0.0, exp(t)); Y[{{e}}] = e; "
        lines += g.summed("s", "e", power)
        lines += ["d = 1.0 / s", f"{g.reduced}: {y} = {y} * d"]
    else:  # what is stored would be rounded, and rounded again
        lines += g.summed("s", "exp(X[{e}] - m)")
        lines += ["d = 1.0 / s", f"{g.reduced}: {y} = exp({x} - m) * d"]
    return g.nest(kind, _within(g.kept, lines), name, target, 0.6).native()


def _standardised(
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
    lines = [*g.summed("s", "X[{e}]"), "m = s / number(count)"]
    if divide:
        small = literal(epsilon)
        lines += g.summed("q", "(X[{e}] - m) * (X[{e}] - m)")
        lines.append(
            f"d = sqrt(q / number(count) + {small})"
            if inside
            else f"d = sqrt(q / number(count)) + {small}"
        )
    x = f"X[{g.element}] - m"
    lines.append(f"{g.reduced}: Y[{g.element}] = {f'({x}) / d' if divide else x}")
    return g.nest("standardise", _within(g.kept, lines), name, target, 0.2, vectors=4).native()


def _reduction(
    word: str, shape: Sequence[SizeLike], axes: Collection[int], name: str, target: Target
) -> Selection:
    """A sum, mean, norm, product, largest or smallest element along axes."""
    g = Groups.of(shape, axes)
    term, fold, exact = _TERMS.get(word, "X[{e}]"), _FOLDS.get(word, "sum"), name not in _FLOATS
    end = {"mean": "s / number(count)", "l2": "sqrt(s)"}.get(word, "s")
    lines = [f"Y[{g.result}] = {end}"]
    if word == "prod" and not exact:
        # Infinity times 0, which the reference may not meet: it multiplies in another order.
        lines.insert(0, "refused = differs(s)")
    loops = g.kept
    if g.are_columns(name, target):
        *around, last = [group.name for group in g.groups if not group.reduced]
        of_columns = _within(f"{last}*", [f"s = T[{last}]", *lines])
        loops, lines = " ".join(around), [*g.joined_rows(fold, term, exact), of_columns]
    elif fold == "sum":
        lines = [*g.summed("s", term, exact=exact), *lines]
    else:
        lines.insert(0, f"{g.reduced}: s = {fold}({term.replace('{e}', g.element)})")
    return g.nest(f"reduce_{word}", _within(loops, lines), name, target, 0.1, True, 8).native()


def _within(loops: str, lines: Sequence[str]) -> str:
    """The text of lines within loops, of which there may be none."""
    text = "\n".join(lines)
    return f"{loops}:\n{textwrap.indent(text, '  ')}" if loops else text
