"""Einsum of more than two tensors becomes Einsums of two, and what only one of several operands has
is summed first.

    eth,ehd,te->td                 eth,te->eth     eth,ehd->td
    ij,jk->k                       ij->j           j,jk->k

The pair that is multiplied next has the fewest labels together, the first of those of as many: what
only scales an operand does so before that is multiplied by others.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from string import ascii_letters

from uncork.ir.model import Model, Node, Source
from uncork.ops._common.product_labels import Label
from uncork.ops.einsum import Einsum
from uncork.passes.rewrite import NewLayers

_Operand = tuple[Source, list[Label]]


def einsum_in_pairs(model: Model) -> Model:
    """The model with several Einsums in place of every such one."""
    layers = _Layers(model)
    return layers.rewritten(layers.take)


class _Layers(NewLayers):
    """The layers of the new model."""

    def take(self, node: Node) -> None:
        """Put others in the place of a layer, if there are such."""
        operation = node.operation
        if not isinstance(operation, Einsum) or len(node.inputs) < 2:
            return
        ranks = [self.old.spec(source).rank for source in node.inputs]
        rank = node.outputs[0].spec.rank
        known = [each for each in ranks if each is not None]
        if rank is None or len(known) < len(ranks):
            return
        labels, result = operation.spread_all(known, rank)
        operands = list(zip(node.inputs, labels, strict=True))
        sums = [_needed(own, operands, index, result) for index, (_, own) in enumerate(operands)]
        if len(operands) == 2 and sums == labels:
            return
        for index, kept in enumerate(sums):
            if kept != operands[index][1]:
                operands[index] = self._einsum(node, [operands[index]], kept)
        while len(operands) > 2:
            pairs = itertools.combinations(range(len(operands)), 2)
            _, pair = min((_labels_of(operands, pair), pair) for pair in pairs)
            first, second = (operands[index] for index in pair)
            others = [each for index, each in enumerate(operands) if index not in pair]
            needed = {*result, *(label for _, own in others for label in own)}
            kept = [label for label in dict.fromkeys([*first[1], *second[1]]) if label in needed]
            operands = [self._einsum(node, [first, second], kept), *others]
        self._einsum(node, operands, result)
        self.finish(node)

    def _einsum(
        self, node: Node, operands: Sequence[_Operand], result: Sequence[Label]
    ) -> _Operand:
        """The operands multiplied, and summed over all labels but these."""
        names = dict.fromkeys(label for _, labels in operands for label in labels)
        letters = dict(zip(names, ascii_letters, strict=False))
        parts = ["".join(letters[label] for label in labels) for _, labels in operands]
        equation = f"{','.join(parts)}->{''.join(letters[label] for label in result)}"
        sources = [source for source, _ in operands]
        return self.add(node.name, Einsum(equation=equation), sources), list(result)


def _needed(
    labels: list[Label], operands: Sequence[_Operand], own: int, result: Collection[Label]
) -> list[Label]:
    """The labels of an operand that the result or another operand has; all of them where one comes
    twice.
    """
    if len(set(labels)) < len(labels):
        return labels
    others = {label for index, (_, some) in enumerate(operands) if index != own for label in some}
    return [label for label in labels if label in others or label in result]


def _labels_of(operands: Sequence[_Operand], pair: tuple[int, int]) -> int:
    """How many labels two operands have together."""
    return len({label for index in pair for label in operands[index][1]})
