"""Einsum-7: products of several tensors, multiplied and summed as an equation says.

    output[labels] = sum over all other labels of the product of operands[k][labels of subscript k]

Page: operation-specs/matrix/einsum-7. A label stands for one dimension of every operand that has
it, and dimensions of 1 stretch; inside one subscript the dimensions of a repeated label must be
equal and their diagonal is taken. An ellipsis stands for the dimensions that are left, aligned at
the right. Without `->` the output has the ellipsis, then the labels that come once, in the order of
their character codes. Decided where the page is silent: dimensions of an ellipsis that the output
leaves out are summed, as those of labels are. Integers wrap modulo 2**bits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from uncork.ops._common.broadcast import broadcast_dimension
from uncork.ops._common.product_labels import Label
from uncork.ops._common.shapes import check_array_fits
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ARITHMETIC, Attribute, Input, Output, text
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec

_ELLIPSIS = "..."


def _letters(subscript: str) -> list[str] | None:
    """The letters of a subscript, and its ellipsis if it has one, as a list; None when there is
    anything else.
    """
    parts = subscript.split(_ELLIPSIS)
    if len(parts) > 2 or not all(c.isascii() and c.isalpha() for c in "".join(parts)):
        return None
    return [*parts[0]] if len(parts) == 1 else [*parts[0], _ELLIPSIS, *parts[1]]


@register("Einsum", 7)
class Einsum(Operation):
    """Sums of products over labelled dimensions, by an equation: as many operands as it has
    subscripts, of any shapes that fit it.
    """

    multiplies = True
    operands = Input(ARITHMETIC, "T", variadic=True)
    output = Output("T")
    equation = Attribute(text)

    def check_attributes(self) -> None:
        subscripts, output = self.parsed()
        known = {label for subscript in subscripts for label in subscript}
        for label in output:
            self.require(
                label in known,
                "equation '{}': '{}' of the output is in no input",
                self.equation,
                label,
            )
            self.require(
                output.count(label) == 1,
                "equation '{}': '{}' comes twice in the output",
                self.equation,
                label,
            )

    def parsed(self) -> tuple[list[list[str]], list[str]]:
        """The subscripts of the inputs, and that of the output."""
        left, arrow, right = self.equation.replace(" ", "").partition("->")
        subscripts = [self.labels(part) for part in left.split(",")]
        if arrow:
            return subscripts, self.labels(right)
        counts = Counter(label for subscript in subscripts for label in subscript)
        single = sorted(label for label, n in counts.items() if n == 1 and label != _ELLIPSIS)
        return subscripts, ([_ELLIPSIS] if _ELLIPSIS in counts else []) + single

    def labels(self, subscript: str) -> list[str]:
        labels = _letters(subscript)
        if labels is None:
            self.require(
                False,
                "equation '{}': expected letters and at most one '...' in '{}'",
                self.equation,
                subscript,
            )
            return []
        return labels

    def spread(self, subscript: list[str], rank: int) -> list[Label]:
        """The label of each of `rank` dimensions; those under the ellipsis get numbers that count
        down to 0.
        """
        result: list[Label] = []
        for label in subscript:
            if label == _ELLIPSIS:
                result.extend(range(rank - len(subscript), -1, -1))
            else:
                result.append(label)
        return result

    def spread_all(
        self, inputs: Sequence[int], output: int
    ) -> tuple[list[list[Label]], list[Label]]:
        """The labels of all dimensions of inputs of these ranks, and of the output."""
        subscripts, result = self.parsed()
        labels = [self.spread(s, rank) for s, rank in zip(subscripts, inputs, strict=True)]
        return labels, self.spread(result, output)

    def infer(self, *operands: TensorSpec) -> PartialShape:
        subscripts, output = self.parsed()
        self.require(
            len(operands) == len(subscripts),
            "equation '{}': expected {} inputs, got {}",
            self.equation,
            len(subscripts),
            len(operands),
        )
        sizes: dict[Label, Dimension] = {}
        covered: int | None = 0
        for position, (subscript, operand) in enumerate(zip(subscripts, operands, strict=True)):
            open_ended = _ELLIPSIS in subscript
            rank = operand.rank
            if rank is None:
                dims: dict[Label, Dimension] = {
                    label: DYNAMIC for label in subscript if label != _ELLIPSIS
                }
                covered = None if open_ended else covered
            else:
                fits = rank >= len(subscript) - 1 if open_ended else rank == len(subscript)
                self.require(
                    fits,
                    "equation '{}': input {} has shape {}, which '{}' does not cover",
                    self.equation,
                    position,
                    operand.shape,
                    "".join(subscript),
                )
                dims = {}
                for label, dim in zip(self.spread(subscript, rank), operand.shape, strict=True):
                    dims[label] = self.wanted(
                        dims.get(label, dim).merge(dim),
                        "equation '{}': the dimensions '{}' of input {} differ: {}",
                        self.equation,
                        label,
                        position,
                        operand.shape,
                    )
                if open_ended and covered is not None:
                    covered = max(covered, rank - len(subscript) + 1)
            for label, dim in dims.items():
                common = broadcast_dimension(sizes.get(label, Dimension(1, 1)), dim)
                shown = label if isinstance(label, str) else _ELLIPSIS
                self.require(
                    common is not None,
                    "equation '{}': '{}' is {} before and {} in input {}",
                    self.equation,
                    shown,
                    sizes.get(label),
                    dim,
                    position,
                )
                sizes[label] = dim if common is None else common
        # NumPy's limit
        self.require(
            len(sizes) <= 52, "equation '{}': more than 52 different dimensions", self.equation
        )
        if _ELLIPSIS in output:
            if covered is None:
                return PartialShape()
            return PartialShape(
                [sizes[label] for label in self.spread(output, len(output) - 1 + covered)]
            )
        return PartialShape([sizes[label] for label in output])

    def reference(self, *operands: Array) -> Array:
        subscripts, output = self.parsed()
        factors = [
            (operand, self.spread(subscript, operand.ndim))
            for subscript, operand in zip(subscripts, operands, strict=True)
        ]
        covered = max(
            (sum(isinstance(label, int) for label in labels) for _, labels in factors), default=0
        )
        wanted = self.spread(
            output, len(output) - 1 + covered if _ELLIPSIS in output else len(output)
        )
        product = factors.pop(0)
        while factors:
            # A factor without a label of the product's would only make it larger.
            following = next(
                (i for i, (_, labels) in enumerate(factors) if set(labels) & set(product[1])), 0
            )
            factor = factors.pop(following)
            later = {label for _, labels in factors for label in labels}
            product = _multiplied(product, factor, later.union(wanted))
        return _summed(product, wanted)


Labelled = tuple[Array, list[Label]]


def _summed(operand: Labelled, kept: Collection[Label]) -> Array:
    """The operand with the dimensions `kept` in that order: the diagonal of labels that come twice,
    and the sum over all other labels.
    """
    array, labels = operand
    numbers = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    return np.asarray(
        np.einsum(array, [numbers[label] for label in labels], [numbers[label] for label in kept])
    )


def _multiplied(a: Labelled, b: Labelled, needed: Collection[Label]) -> Labelled:
    """The product of two operands, summed over the shared labels that are not `needed` any more, as
    one product of matrices for each batch.
    """
    shared = [label for label in dict.fromkeys(a[1]) if label in b[1]]
    batch, inner = (
        [label for label in shared if label in needed],
        [label for label in shared if label not in needed],
    )
    rows, columns = (
        [x for x in dict.fromkeys(own[1]) if x in needed and x not in shared] for own in (a, b)
    )
    left, right = _summed(a, batch + rows + inner), _summed(b, batch + inner + columns)
    # Dimensions of 1 stretch to those of the other operand.
    many = np.broadcast_shapes(left.shape[: len(batch)], right.shape[: len(batch)])
    summed = np.broadcast_shapes(
        left.shape[len(batch) + len(rows) :], right.shape[len(batch) : len(shared)]
    )
    high, wide = left.shape[len(batch) : len(batch) + len(rows)], right.shape[len(shared) :]
    check_array_fits((*many, *high, *wide), left)
    left = np.broadcast_to(left, (*many, *high, *summed)).reshape(
        *many, math.prod(high), math.prod(summed)
    )
    right = np.broadcast_to(right, (*many, *summed, *wide)).reshape(
        *many, math.prod(summed), math.prod(wide)
    )
    return (left @ right).reshape((*many, *high, *wide)), batch + rows + columns
