"""The rules of `auto_broadcast`, shared by all operations whose inputs stretch to a common shape.

Page: "Broadcast Rules For Elementwise Operations" of the operation sets.

- none: the shapes must be equal;
- numpy: dimensions are compared from the right, each pair must be equal or one of them 1;
- pdpd: the first shape is the target; the dimensions of later ones lie on the target's from
  `auto_broadcast_axis` on (-1: aligned at the right) and must be equal to them or 1, and dimensions
  of 1 at their end may stick out.

The file writes the axis as `auto_broadcast.auto_broadcast_axis`. When it is absent the documented
-1 holds (OpenVINO takes 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.ops._elements import Elements
from uncork.ops._operation import Operation
from uncork.ops._ports import Attribute, integer, one_of
from uncork.symbolic import Facts, Size, facts_of
from uncork.types import Array, Dimension, PartialShape, TensorSpec

_AXIS_IN_FILE = "auto_broadcast.auto_broadcast_axis"


def auto_broadcast_attribute() -> Attribute[str]:
    """`auto_broadcast` alone, for an operation that cannot derive from `Broadcasting`."""
    # "explicit" is an older word for "none"
    return Attribute(one_of("numpy", "none", "pdpd", "explicit"), default="numpy")


class Broadcasting(Operation):
    """An operation with the attribute `auto_broadcast`; derive from it."""

    auto_broadcast = auto_broadcast_attribute()
    #: Only for pdpd.
    auto_broadcast_axis = Attribute(
        integer, default=-1, check=lambda v: None if v >= -1 else "at least -1"
    )

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Operation:
        own = dict(texts)
        if _AXIS_IN_FILE in own:
            own["auto_broadcast_axis"] = own.pop(_AXIS_IN_FILE)
        return super().from_text(own)

    def to_text(self) -> dict[str, str]:
        texts = super().to_text()
        axis = texts.pop("auto_broadcast_axis")
        return texts | {_AXIS_IN_FILE: axis} if self.auto_broadcast == "pdpd" else texts

    def common_shape(self, shapes: Sequence[PartialShape], names: Sequence[str]) -> PartialShape:
        """The shape of the result of inputs that are called `names`; refused when there is none."""
        return broadcast_shapes(self, shapes, names, self.auto_broadcast, self.auto_broadcast_axis)

    def carry(
        self,
        bound: Sequence[TensorSpec | None],
        parts: Sequence[Elements | None],
        output: TensorSpec,
    ) -> Elements | None:
        return None if self.auto_broadcast == "pdpd" else super().carry(bound, parts, output)

    def placed(self, array: Array, rank: int) -> Array:
        """An input other than the first, reshaped so that NumPy's broadcasting places it on the
        first one, of that rank, as `auto_broadcast` says.
        """
        if self.auto_broadcast != "pdpd" or self.auto_broadcast_axis == -1:
            return array
        end = rank - self.auto_broadcast_axis
        return array.reshape(array.shape[:end] + (1,) * (end - array.ndim))


def broadcast_dimension(a: Dimension, b: Dimension) -> Dimension | None:
    """The sizes that two dimensions can stretch to by the rule of NumPy; None when no pair of their
    sizes fits.
    """
    if a == 1:
        return b
    if b == 1:
        return a
    x, y = a.expression, b.expression
    if x is not None and y is not None and (facts := facts_of([x, y])) is not None:
        return _broadcast_open(a, b, x, y, facts)
    if a.contains(1) and b.contains(1):
        return a.union(b)
    if a.contains(1):
        return b  # either it is 1 and stretches, or both are equal
    if b.contains(1):
        return a
    return a.merge(b)


def _broadcast_open(a: Dimension, b: Dimension, x: Size, y: Size, facts: Facts) -> Dimension | None:
    """The broadcast shape of sizes that are expressions. Where one may be 1, and stretch, it is
    supposed to be equal to the other.
    """
    if facts.certainly_equal(x, y):
        return b if b.is_static else a
    if _is_one_row(x, facts):
        return b
    if _is_one_row(y, facts):
        return a
    may_stretch = [size for size in (x, y) if not facts.certainly_different(size, 1)]
    if not may_stretch:
        return a.merge(b)
    if facts.suppose_equal(x, y):
        return b if b.is_static else Dimension.of(facts.canonical(x))
    if len(may_stretch) == 2 and not facts.suppose_equal(x, 1):
        may_stretch = [y]
    if not facts.require_equal(may_stretch[0], 1):
        return None
    return Dimension.of(facts.canonical(y if may_stretch[0] is x else x))


def _is_one_row(size: Size, facts: Facts) -> bool:
    """Whether a size is supposed to be 1: the first row of a tensor has at most one, and stretches
    to any other size.
    """
    return facts.certainly_at_least(1, size) and facts.suppose_equal(size, 1)


def stretched_dimension(target: Dimension, dim: Dimension) -> Dimension | None:
    """The sizes of `target` to which `dim` can be stretched; None when there is none."""
    if dim == 1:
        return target
    x, y = target.expression, dim.expression
    if (
        x is not None
        and y is not None
        and dim.contains(1)
        and (facts := facts_of([x, y])) is not None
    ):
        fits = _is_one_row(y, facts) or facts.suppose_equal(x, y) or facts.require_equal(y, 1)
        return Dimension.of(facts.canonical(x)) if fits else None
    return target if dim.contains(1) else target.merge(dim)


def broadcast_shapes(
    operation: Operation,
    shapes: Sequence[PartialShape],
    names: Sequence[str],
    mode: str = "numpy",
    axis: int = -1,
) -> PartialShape:
    """The common shape of inputs that are called `names`; refused when there is none.

    `mode` is a value of `auto_broadcast`, or "onto": by numpy's rule, but the first shape does not
    stretch.
    """
    result = shapes[0]
    for i in range(1, len(shapes)):
        if mode != "pdpd" and result.rank is not None and result == shapes[i]:
            continue
        merged = _pair(result, shapes[i], mode, axis)
        if merged is None:
            where = f" from axis {axis} on" if mode == "pdpd" and axis != -1 else ""
            rules = {
                "numpy": "numpy broadcasting",
                "onto": f"numpy broadcasting to '{names[0]}'",
                "pdpd": f"pdpd broadcasting to '{names[0]}'{where}",
            }
            rule = rules.get(mode, "no broadcasting")
            shown = ", ".join(f"'{n}' {s}" for n, s in zip(names, shapes, strict=True))
            operation.require(False, "expected shapes that fit by {}, got {}", rule, shown)
            return PartialShape()
        result = merged
    return result


def _pair(a: PartialShape, b: PartialShape, mode: str, axis: int) -> PartialShape | None:
    if mode in ("none", "explicit"):
        return a.merge(b)
    if mode in ("pdpd", "onto"):
        return _onto(a, b, axis if mode == "pdpd" else -1)
    if a.rank is None or b.rank is None:
        return PartialShape()
    rank = max(a.rank, b.rank)
    one = Dimension(1, 1)
    longer, shorter = (
        s.dims if s.rank == rank else (one,) * (rank - len(s)) + s.dims for s in (a, b)
    )
    dims = [broadcast_dimension(x, y) for x, y in zip(longer, shorter, strict=True)]
    return None if any(d is None for d in dims) else PartialShape(dims)


def _onto(a: PartialShape, b: PartialShape, axis: int) -> PartialShape | None:
    if a.rank is None or b.rank is None:
        return a
    start = a.rank - b.rank if axis == -1 else axis
    if not 0 <= start <= a.rank or b.rank > a.rank:
        return None
    inside = a.rank - start
    if not all(d.agrees(1) for d in b.dims[inside:]):
        return None
    covered = a.dims[start : start + b.rank]
    dims = [stretched_dimension(x, y) for x, y in zip(covered, b.dims, strict=False)]
    return (
        None
        if any(d is None for d in dims)
        else PartialShape([*a.dims[:start], *dims, *a.dims[start + len(dims) :]])
    )
