"""CTCGreedyDecoder-1 and CTCGreedyDecoderSeqLen-6: the most probable class of each step, repeats
merged, blanks removed.

    best[t] = first class with the largest value of step t,   t < the row's length
    kept: best[t] != blank, and best[t] != best[t - 1] where repeats are merged;
          the rest of the row is -1

Pages: operation-specs/sequence/ctc-greedy-decoder-1, ctc-greedy-decoder-seq-len-6. Decided where
they are silent: version 1 has the last class for blank, as the default of the other; a row's length
is the number of steps before the first 0 of its mask, what comes after is not read (with `strict` a
1 after a 0, or another value, is refused); a length outside 0..T and a blank_index outside the
classes are refused.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.sequences import agreed_sizes, check_blank, check_lengths, shape_in_words
from uncork.ops._operation import OfReals, Operation, register
from uncork.ops._ports import (
    I32_I64,
    REAL,
    Attribute,
    Input,
    Output,
    boolean,
    index_type,
)
from uncork.types import Array, ElementType, PartialShape, TensorSpec


def best_path(data: Array, length: int, blank: int, merge: bool) -> Array:
    """The decoded classes of one row, from data [T, C]."""
    best: Array = data[:length].argmax(axis=1)
    kept = best != blank
    if merge:
        kept[1:] &= best[1:] != best[:-1]
    return np.asarray(best[kept])


@register("CTCGreedyDecoder", 1)
class CTCGreedyDecoder1(OfReals):
    sequence_mask = Input(REAL, "T")
    ctc_merge_repeated = Attribute(boolean, default=True)

    def infer(self, *specs: TensorSpec) -> PartialShape:
        sizes = agreed_sizes(self, specs, {"data": "T, N, C", "sequence_mask": "T, N"})
        check_blank(self, None, specs[0], sizes)
        return PartialShape([*shape_in_words("N, T", sizes), 1, 1])

    def reference(self, data: Array, sequence_mask: Array) -> Array:
        steps, rows, classes = data.shape
        present = np.logical_and.accumulate(sequence_mask != 0, axis=0)
        if self.strict:
            refuse_first(
                self,
                "sequence_mask",
                sequence_mask,
                sequence_mask != present,
                "1 up to a row's end, then 0",
            )
        output = np.full((rows, steps, 1, 1), -1, data.dtype)
        for n in range(rows):
            path = best_path(
                data[:, n], int(present[:, n].sum()), classes - 1, self.ctc_merge_repeated
            )
            output[n, : len(path), 0, 0] = path
        return output


@register("CTCGreedyDecoderSeqLen", 6)
class CTCGreedyDecoderSeqLen6(Operation):
    data = Input(REAL, "T")
    sequence_length = Input(I32_I64)  # it and blank_index need not be of one type
    blank_index = Input(I32_I64, optional=True)
    classes = Output()
    length = Output()
    merge_repeated = Attribute(boolean, default=True)
    classes_index_type = index_type(ElementType.i32)
    sequence_length_type = index_type(ElementType.i32)

    def infer(
        self, data: TensorSpec, sequence_length: TensorSpec, blank_index: TensorSpec | None
    ) -> list[TensorSpec]:
        sizes = agreed_sizes(
            self, [data, sequence_length], {"data": "N, T, C", "sequence_length": "N"}
        )
        check_lengths(self, "sequence_length", sequence_length, shape_in_words("T", sizes)[0], "T")
        check_blank(self, blank_index, data, sizes, vector=True)
        return [
            TensorSpec(self.classes_index_type, shape_in_words("N, T", sizes)),
            TensorSpec(self.sequence_length_type, shape_in_words("N", sizes)),
        ]

    def reference(
        self, data: Array, sequence_length: Array, blank_index: Array | None
    ) -> list[Array]:
        rows, steps, classes = data.shape
        blank = classes - 1 if blank_index is None else int(blank_index.reshape(-1)[0])
        output = np.full((rows, steps), -1, np.int64)
        lengths = np.zeros(rows, np.int64)
        for n in range(rows):
            path = best_path(data[n], int(sequence_length[n]), blank, self.merge_repeated)
            output[n, : len(path)] = path
            lengths[n] = len(path)
        return [output, lengths]
