"""CTCLoss-4: minus the log of the probability that a row's logits spell its labels.

    p[t, c] = softmax(logits[t])[c];   loss = -ln(sum over paths S of p[0, S_0] p[1, S_1] ...)
    S runs over the paths of logit_length classes that give the target when repeats are merged
    (`ctc_merge_repeated`) and blanks removed. Target: labels[:label_length], with repeats merged
    (`preprocess_collapse_repeated`) or only the first of each label kept (`unique`, which merges
    repeats too).

Computed over prefixes (Graves et al. 2006): states blank, l_0, blank, l_1, ..., blank; a step stays
or goes one on, or two on over a blank that need not be there. Page:
operation-specs/sequence/ctc-loss-4. Decided where it is silent: no path at all has probability 0,
so the loss is infinite; the loss of no steps and no labels is 0; what the page calls undefined (a
length outside its range, a label that is blank or no class) is refused. Labels past label_length
and logits past logit_length are not read.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.sequences import agreed_sizes, check_blank, check_lengths, shape_in_words
from uncork.ops._operation import Operation, register
from uncork.ops._ports import I32_I64, REAL, Attribute, Input, Output, boolean
from uncork.types import Array, PartialShape, TensorSpec

LAYOUT = {"logits": "N, T, C", "logit_length": "N", "labels": "N, T", "label_length": "N"}


@register("CTCLoss", 4)
class CTCLoss4(Operation):
    logits = Input(REAL, "T_F")
    logit_length = Input(I32_I64)
    labels = Input(I32_I64)
    label_length = Input(I32_I64)
    blank_index = Input(I32_I64, optional=True)
    loss = Output("T_F")
    preprocess_collapse_repeated = Attribute(boolean, default=False)
    ctc_merge_repeated = Attribute(boolean, default=True)
    unique = Attribute(boolean, default=False)

    def infer(
        self,
        logits: TensorSpec,
        logit_length: TensorSpec,
        labels: TensorSpec,
        label_length: TensorSpec,
        blank_index: TensorSpec | None,
    ) -> PartialShape:
        sizes = agreed_sizes(self, [logits, logit_length, labels, label_length], LAYOUT)
        (limit,) = shape_in_words("T", sizes)
        check_lengths(self, "logit_length", logit_length, limit, "T")
        check_lengths(self, "label_length", label_length, limit, "T")
        if logit_length.value is not None and label_length.value is not None:
            longer = label_length.value > logit_length.value
            refuse_first(
                self,
                "label_length",
                label_length.value,
                longer,
                "at most logit_length at the same position",
            )
        check_blank(self, blank_index, logits, sizes)
        return shape_in_words("N", sizes)

    def reference(
        self,
        logits: Array,
        logit_length: Array,
        labels: Array,
        label_length: Array,
        blank_index: Array | None,
    ) -> Array:
        rows, steps, classes = logits.shape
        blank = classes - 1 if blank_index is None else int(blank_index.reshape(-1)[0])
        read = np.arange(steps) < label_length[:, None]
        refuse_first(
            self,
            "labels",
            labels,
            read & ((labels < 0) | (labels >= classes)),
            f"0 to {classes - 1}",
            0,
            classes - 1,
        )
        refuse_first(
            self, "labels", labels, read & (labels == blank), f"a class other than blank ({blank})"
        )
        loss = np.zeros(rows, logits.dtype)
        for n in range(rows):
            used = logits[n, : logit_length[n]]
            shifted = used - used.max(axis=1, keepdims=True)
            log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
            loss[n] = -self._log_likelihood(
                log_p, self._target(labels[n, : label_length[n]]), blank
            )
        return loss + 0  # without the sign of -0

    def _target(self, labels: Array) -> Array:
        if self.unique:
            return np.array(list(dict.fromkeys(labels.tolist())), labels.dtype)
        if self.preprocess_collapse_repeated:
            return labels[np.flatnonzero(np.diff(labels, prepend=-1))]
        return labels

    def _log_likelihood(self, log_p: Array, target: Array, blank: int) -> Array:
        """The log of the sum over the paths of one row, from log_p [steps, C]."""
        states = np.full(2 * len(target) + 1, blank, np.int64)
        states[1::2] = target
        is_label = np.arange(len(states)) % 2 == 1
        stays = ~is_label | self.ctc_merge_repeated
        skips = is_label.copy()
        skips[:2] = False
        if self.ctc_merge_repeated:
            skips[2:] &= states[2:] != states[:-2]
        never = np.full(2, -np.inf, log_p.dtype)
        reached = np.full(len(states), -np.inf, log_p.dtype)
        # Without a step only the empty target is spelled; the first step stands in the first blank
        # or the first label.
        reached[:2] = log_p[0, states[:2]] if len(log_p) else 0
        for row in log_p[1:]:
            behind = np.concatenate([never, reached])
            after = np.logaddexp(np.where(stays, reached, -np.inf), behind[1:-1])
            reached = np.logaddexp(after, np.where(skips, behind[:-2], -np.inf)) + row[states]
        return np.asarray(np.logaddexp.reduce(reached[-2:]))
