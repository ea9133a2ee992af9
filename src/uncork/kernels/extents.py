"""Sizes of tensors as kernels are selected by them: numbers, or expressions that only a call binds.

A kernel for open sizes is right for every number, 1 included: whether an open size is 1 is never
asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from uncork.symbolic import Size, SizeLike, facts_of, maximum, minimum, plain
from uncork.types import TensorSpec

#: What a number that only the call tells is taken to be where costs are compared: of any one, and
#: of pixels of a side of a picture.
TYPICAL, PICTURE = 64, 224


class KernelDeclined(Exception):
    """No kernel serves an operation on these specs; the message says why."""


def decline_if(condition: object, why: str) -> None:
    """Decline a kernel where the condition holds, and say why."""
    if condition:
        raise KernelDeclined(why)


def as_number(size: SizeLike, why: str) -> int:
    """The size as a number. Declines, and says why, where only the call knows it."""
    if not isinstance(size, int):
        raise KernelDeclined(why)
    return size


class NothingToCompute(Exception):
    """There is no element in any call: the plan is empty, and has the message as its name."""


def compute_nothing_of(sizes: Iterable[SizeLike], label: str) -> None:
    """Raise NothingToCompute where one of the sizes is 0 in every call."""
    if is_empty(sizes):
        raise NothingToCompute(f"{label}_nothing")


def extents(spec: TensorSpec) -> tuple[SizeLike, ...]:
    """The sizes of a tensor. Raises KernelDeclined when one has not even an expression."""
    if spec.rank is None:
        raise KernelDeclined("the rank is known at the call only")
    found: list[SizeLike] = []
    for dim in spec.shape.dims:
        if dim.size is None:
            raise KernelDeclined("a shape is known at the call only")
        found.append(dim.size)
    return tuple(found)


def has_extents(spec: TensorSpec) -> bool:
    """Whether every size is a number or an expression."""
    return spec.rank is not None and all(dim.size is not None for dim in spec.shape.dims)


def elements_of(spec: TensorSpec) -> list[SizeLike] | None:
    """The elements of a small integer tensor; None where one is not even an expression."""
    found = spec.sizes()
    if found is None or any(element is None for element in found):
        return None
    return [element for element in found if element is not None]


def product(sizes: Iterable[SizeLike]) -> SizeLike:
    """The number of elements."""
    total: SizeLike = 1
    for size in sizes:
        total = total * size
    return total


def bytes_of(spec: TensorSpec) -> SizeLike:
    """Bytes of a tensor."""
    return product(extents(spec)) * spec.element_type.dtype.itemsize


def total(sizes: Iterable[SizeLike]) -> SizeLike:
    """The sum of sizes."""
    found: SizeLike = 0
    for size in sizes:
        found = found + size
    return found


def is_known(size: SizeLike) -> bool:
    """Whether the size is a number."""
    return isinstance(size, int)


def certainly(size: SizeLike, number: int) -> bool:
    """Whether the size is this number in every call."""
    return isinstance(size, int) and size == number


def same(a: SizeLike, b: SizeLike) -> bool:
    """Whether both sizes are equal in every call."""
    if isinstance(a, Size) and isinstance(b, Size):
        return a == b
    return isinstance(a, int) and isinstance(b, int) and a == b


def always_same(a: SizeLike, b: SizeLike) -> bool:
    """Whether both sizes are one number in every call of this plan, by all that is known of
    them.
    """
    facts = facts_of([a, b])
    return same(a, b) if facts is None else facts.certainly_equal(a, b)


def same_extents(a: Sequence[SizeLike], b: Sequence[SizeLike]) -> bool:
    """Whether two shapes are equal in every call."""
    return len(a) == len(b) and all(map(same, a, b))


def is_empty(sizes: Iterable[SizeLike]) -> bool:
    """Whether one of the sizes is 0 in every call."""
    return any(certainly(size, 0) for size in sizes)


def may_be_empty(sizes: Iterable[SizeLike]) -> bool:
    """Whether one of the sizes is 0 in some call that the plan takes."""
    return not all(
        size.facts is not None and size.facts.certainly_at_least(size, 1)
        if isinstance(size, Size)
        else size > 0
        for size in sizes
    )


def largest(a: SizeLike, b: SizeLike) -> SizeLike:
    """The larger of two sizes."""
    return (
        max(a, b)
        if isinstance(a, int) and isinstance(b, int)
        else plain(maximum([Size.of(a), Size.of(b)]))
    )


def smallest(a: SizeLike, b: SizeLike) -> SizeLike:
    """The smaller of two sizes."""
    return (
        min(a, b)
        if isinstance(a, int) and isinstance(b, int)
        else plain(minimum([Size.of(a), Size.of(b)]))
    )


def typical_size(size: SizeLike, least: int = 1, number: int = TYPICAL) -> int:
    """What a size is taken to be where costs are compared: with a typical number for all that is
    open, so that sizes of one call stand to each other as they do there.
    """
    if isinstance(size, int):
        return size
    return max(least, int(size.exact_value(dict.fromkeys(size.symbols, number))))


def pixels_of_picture(size: SizeLike) -> int:
    """What a size is taken to be where layers of networks for pictures are compared."""
    return typical_size(size, number=PICTURE)


def nanoseconds(work: SizeLike, each: float) -> float | Size:
    """The cost in nanoseconds of `work` pieces of work, which take `each` nanoseconds."""
    return (
        work * each if isinstance(work, int) else work * Fraction(max(1, round(each * 1024)), 1024)
    )
