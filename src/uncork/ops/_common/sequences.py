"""What operations over sequences share: shapes stated in the words of the specification page, and
the check of lengths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.shapes import require_one, require_rank
from uncork.ops._operation import Operation
from uncork.types import DYNAMIC, Dimension, PartialShape, TensorSpec

Sizes = dict[str, Dimension]


def agreed_sizes(
    operation: Operation,
    specs: Sequence[TensorSpec | None],
    layout: Mapping[str, str],
    known: Mapping[str, Dimension] | None = None,
) -> Sizes:
    """The sizes named in `layout`, as all inputs together give them. `layout` has a shape such as
    `batch_size, 3 * hidden_size` for each port whose shape is to be checked. A shape that
    contradicts the others, or `known`, is refused.
    """
    sizes = dict(known or {})
    for port, spec in zip(operation.inputs, specs, strict=False):
        if spec is None or spec.rank is None or port.name not in layout:
            continue
        words = _words(layout[port.name])
        merged = [
            size.merge(_size(word, sizes)) for word, size in zip(words, spec.shape, strict=False)
        ]
        if len(words) != spec.rank or None in merged:
            expected = ", ".join(f"{word} = {_size(word, sizes)}" for word in words)
            operation.require(
                False, "input '{}': expected [{}], got {}", port.name, expected, spec.shape
            )
        sizes.update(
            (word, size) for word, size in zip(words, merged, strict=True) if size is not None
        )
    return sizes


def shape_in_words(text: str, sizes: Mapping[str, Dimension]) -> PartialShape:
    """The shape that a layout's words stand for."""
    return PartialShape([_size(word, sizes) for word in _words(text)])


def _words(text: str) -> list[str]:
    return text.split(", ") if text else []


def _size(word: str, sizes: Mapping[str, Dimension]) -> Dimension:
    count, times, rest = word.partition(" * ")
    return sizes[rest] * int(count) if times else sizes.get(word, DYNAMIC)


def check_lengths(
    operation: Operation, name: str, lengths: TensorSpec | None, limit: Dimension, limit_name: str
) -> None:
    """Refuse lengths outside 0..limit. Run from `infer`: where they are constant, a wrong one is
    found at load.
    """
    if lengths is None or lengths.value is None:
        return
    wrong = lengths.value < 0
    expected = "0 or more"
    if lengths.value.size:
        limit.covers(max(0, int(lengths.value.max())))
    if limit.high is not None:
        wrong = wrong | (lengths.value > limit.high)
        expected = f"0 to {limit.high} ({limit_name})"
    refuse_first(operation, name, lengths.value, wrong, expected, 0, limit.high)


def check_blank(
    operation: Operation,
    blank_index: TensorSpec | None,
    data: TensorSpec,
    sizes: Sizes,
    vector: bool = False,
) -> None:
    """`blank_index`, a scalar (or, where `vector` says so, one element), must be one of the C
    classes, of which there must be one.
    """
    classes = sizes.get("C", DYNAMIC)
    operation.require(
        classes.covers(1),
        "input '{}': expected at least one class, got {}",
        operation.inputs[0].name,
        data.shape,
    )
    if blank_index is None:
        return
    if vector:
        require_one(operation, "blank_index", blank_index)
    else:
        require_rank(operation, "blank_index", blank_index, 0)
    if blank_index.value is not None:
        classes.covers(max(0, int(blank_index.value.max())) + 1)
        last = np.inf if classes.high is None else classes.high - 1
        wrong = np.asarray((blank_index.value < 0) | (blank_index.value > last))
        refuse_first(operation, "blank_index", blank_index.value, wrong, f"a class, 0 to {last}", 0)
