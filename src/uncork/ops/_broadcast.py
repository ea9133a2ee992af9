"""The shape rules of `auto_broadcast`, shared by all operations whose inputs stretch to a common shape.

Page: "Broadcast Rules For Elementwise Operations" of the operation sets.

- none: the shapes must be equal;
- numpy: dimensions are compared from the right, each pair must be equal or one of them 1;
- pdpd: the first shape is the target, later ones are aligned with it from the right (the file has no `axis`, so it is -1) and
  each of their dimensions must be equal to the target's or 1.

Whatever the rule accepts, NumPy's own broadcasting then computes: pdpd and none only refuse more.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ops._operation import Operation
from uncork.ops._ports import Attribute, one_of
from uncork.types import Dimension, PartialShape

#: The kind of an `auto_broadcast` attribute ("explicit" is an older word of the file format for "none").
auto_broadcast_kind = one_of("numpy", "none", "pdpd", "explicit")


def auto_broadcast_attribute() -> Attribute[str]:
    """`auto_broadcast = auto_broadcast_attribute()`: the attribute with its documented default."""
    return Attribute(auto_broadcast_kind, default="numpy")


def broadcast_dimension(a: Dimension, b: Dimension) -> Dimension | None:
    """The sizes that two dimensions can stretch to by the rule of NumPy; None when no pair of their sizes fits."""
    if a == 1:
        return b
    if b == 1:
        return a
    if a.contains(1) and b.contains(1):
        return a.union(b)
    if a.contains(1):
        return b  # either it is 1 and stretches, or both are equal
    if b.contains(1):
        return a
    return a.merge(b)


def _stretch_to(target: Dimension, dim: Dimension) -> Dimension | None:
    """The sizes of `target` to which `dim` can be stretched."""
    return target if dim.contains(1) else target.merge(dim)


def broadcast_shapes(operation: Operation, shapes: Sequence[PartialShape], names: Sequence[str], mode: str = "numpy") -> PartialShape:
    """The common shape of inputs that are called `names`; refused when there is none."""
    result = shapes[0]
    for i in range(1, len(shapes)):
        merged = _pair(result, shapes[i], mode)
        if merged is None:
            rule = {"numpy": "numpy broadcasting", "pdpd": f"pdpd broadcasting to '{names[0]}'"}.get(mode, "no broadcasting")
            shown = ", ".join(f"'{n}' {s}" for n, s in zip(names, shapes))
            operation.require(False, "expected shapes that fit by {}, got {}", rule, shown)
            return PartialShape()
        result = merged
    return result


def _pair(a: PartialShape, b: PartialShape, mode: str) -> PartialShape | None:
    if mode in ("none", "explicit"):
        return a.merge(b)
    if mode == "pdpd":
        if a.rank is None or b.rank is None:
            return a
        if b.rank > a.rank:
            return None
        lead = a.rank - b.rank
        dims = [*a.dims[:lead], *(_stretch_to(x, y) for x, y in zip(a.dims[lead:], b.dims))]
    else:
        if a.rank is None or b.rank is None:
            return PartialShape()
        rank = max(a.rank, b.rank)
        one = Dimension(1, 1)
        longer, shorter = (s.dims if s.rank == rank else (one,) * (rank - len(s)) + s.dims for s in (a, b))
        dims = [broadcast_dimension(x, y) for x, y in zip(longer, shorter)]
    return None if any(d is None for d in dims) else PartialShape(dims)
