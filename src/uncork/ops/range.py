"""Range-1, -4: start, start + step, start + 2 step, ... before `stop`.

    output[i] = start + i * step        for 0 <= i < max(0, ceil((stop - start) / step))

Pages: operation-specs/generation/range-1 (its operation set calls it Range-0), range-4. With an
integer output the inputs are cut to integers first and all is exact; else all is computed in f64
and each element is rounded once. Where the pages are silent: a step of 0 (also after cutting), NaN
and infinities are refused; elements that the output type does not hold wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from uncork.ops._elements import Elements, elements_of
from uncork.ops._operation import Operation, register
from uncork.ops._ports import NUMERIC, Attribute, Input, Output, element_type
from uncork.ops._size_arithmetic import LIMIT
from uncork.ops._size_arithmetic import whole as whole_number
from uncork.storage import decode
from uncork.symbolic import Size, ceil, facts_of, floor
from uncork.types import Array, ElementType, PartialShape, TensorSpec

_NUMERIC = frozenset(t for t in NUMERIC if t.bits >= 8)


def _check_type(output_type: ElementType) -> str | None:
    return None if output_type in _NUMERIC else "a numeric type of at least 8 bits"


def _count(start: int | float, stop: int | float, step: int | float) -> int:
    """The number of elements: max(0, ceil((stop - start) / step)), exact for integers. An infinite
    quotient (of huge floats) gives a size that nothing holds.
    """
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, math.ceil(Fraction(stop - start, step)))
    quotient = (float(stop) - float(start)) / float(step)
    return max(0, math.ceil(quotient)) if math.isfinite(quotient) else 2**63 if quotient > 0 else 0


def _is_rounded_right(specs: Sequence[TensorSpec], start: Size, stop: Size, step: Size) -> bool:
    """Whether (stop - start) / step in f64 is a whole number, or beyond one, only where it is so
    exactly: sizes are below 2^32, and numbers that f32 has counted below its limit.
    """
    parts = [Fraction(factor) for size in (start, stop, step) for factor in size.terms.values()]
    if any(part.denominator & (part.denominator - 1) for part in parts):
        return False  # a quotient, which is rounded already
    largest = LIMIT if all(spec.element_type is ElementType.f32 for spec in specs) else 2**32
    fixed = [Fraction(size.terms.get((), 0)) for size in (start, stop)]
    above: Fraction = max([Fraction(largest), *(abs(number) for number in fixed)])
    scale, by = (
        math.lcm(
            *(Fraction(factor).denominator for size in sizes for factor in size.terms.values())
        )
        for sizes in ((start, stop), (step,))
    )
    return 2 * above * scale * by < 2**53


def _open_count(specs: Sequence[TensorSpec], whole: bool) -> Size | None:
    """The number of elements where start, stop or step are expressions; None where none of them is,
    or where that number cannot be expressed.
    """
    elements = [
        None if (part := elements_of(spec)) is None or part.size != 1 else part.reshape(-1)[0]
        for spec in specs
    ]
    if any(e is None for e in elements) or (facts := facts_of(elements)) is None:
        return None
    # An integer that is half of a size, say, is whole in every call that is not refused.
    start, stop, step = (
        floor(Size.of(e)) if spec.element_type.is_integer else Size.of(e)
        for spec, e in zip(specs, elements, strict=True)
        if e is not None
    )
    if step.constant == 0 or (whole and not step.is_whole):
        return None
    if step.constant is None and not (step.is_whole and facts.suppose_at_least(step, 1)):
        return None
    if not all(
        (size.is_whole or not whole) and whole_number(spec.element_type, size) is not None
        for spec, size in zip(specs, (start, stop), strict=False)
    ):
        return None
    if not whole and not _is_rounded_right(specs, start, stop, step):
        return None
    ratio = (stop - start).over(step)
    if ratio is None and not (stop - start).is_whole:
        return None
    return facts.larger(-((start - stop) // step) if ratio is None else ceil(ratio), 0)


class _Range(Operation):
    def number(self, name: str, value: Array, whole: bool) -> int | float:
        """An input as a finite number, cut to an integer where the output wants `whole` ones."""
        exact: int | float = value.reshape(-1)[0].item()
        self.require(
            math.isfinite(exact), "input '{}': expected a finite number, got {}", name, exact
        )
        exact = int(exact) if whole else exact
        self.require(
            name != "step" or exact != 0,
            "input 'step': expected a number other than 0, got {}",
            exact,
        )
        return exact

    def shape(
        self, start: TensorSpec, stop: TensorSpec, step: TensorSpec, whole: bool
    ) -> PartialShape:
        """The shape of the output."""
        open_count = _open_count([start, stop, step], whole)
        if open_count is not None:
            return PartialShape([open_count])
        numbers: list[int | float] = []
        for name, spec in (("start", start), ("stop", stop), ("step", step)):
            self.require(
                spec.shape.compatible(PartialShape([])),
                "input '{}': expected a scalar, got shape {}",
                name,
                spec.shape,
            )
            if spec.value is not None:
                numbers.append(self.number(name, decode(spec.value, spec.element_type), whole))
        return PartialShape([None]) if len(numbers) < 3 else PartialShape([_count(*numbers)])

    def carry(
        self,
        bound: Sequence[TensorSpec | None],
        parts: Sequence[Elements | None],
        output: TensorSpec,
    ) -> Elements | None:
        """The elements start, start + step, .. as expressions, where their number is known."""
        start, _, step = (None if part is None else part.reshape(-1)[0] for part in parts)
        if start is None or step is None or not output.element_type.is_integer:
            return None
        result = np.full(int(output.shape.size), None, object)
        result[:] = [start + step * i for i in range(len(result))]
        return result

    def values(self, start: Array, stop: Array, step: Array, whole: bool) -> Array:
        """The elements, in int64 (to be wrapped) or in f64 (to be rounded)."""
        places = np.arange(
            _count(
                *(
                    self.number(n, a, whole)
                    for n, a in (("start", start), ("stop", stop), ("step", step))
                )
            )
        )
        if whole:
            # Modulo 2**64 sums and products are right whatever the sign; the output keeps the low
            # bits.
            first, by = (np.uint64(int(a.item()) % 2**64) for a in (start, step))
            return np.asarray((first + places.astype(np.uint64) * by).astype(np.int64))
        return np.asarray(float(start.item()) + places * float(step.item()))


@register("Range", 4)
class Range4(_Range):
    """Three scalars of any numeric types -> [n] of `output_type`."""

    start = Input(_NUMERIC)
    stop = Input(_NUMERIC)
    step = Input(_NUMERIC)
    output = Output()
    output_type = Attribute(element_type, check=_check_type)

    def infer(self, start: TensorSpec, stop: TensorSpec, step: TensorSpec) -> TensorSpec:
        return TensorSpec(
            self.output_type, self.shape(start, stop, step, self.output_type.is_integer)
        )

    def reference(self, start: Array, stop: Array, step: Array) -> Array:
        return self.values(start, stop, step, self.output_type.is_integer)


@register("Range", 1)
class Range1(_Range):
    """Three scalars of one type -> [n] of that type."""

    start = Input(_NUMERIC, "T")
    stop = Input(_NUMERIC, "T")
    step = Input(_NUMERIC, "T")
    output = Output("T")

    def infer(self, start: TensorSpec, stop: TensorSpec, step: TensorSpec) -> PartialShape:
        return self.shape(start, stop, step, start.element_type.is_integer)

    def reference(self, start: Array, stop: Array, step: Array) -> Array:
        return self.values(start, stop, step, start.dtype.kind != "f")
