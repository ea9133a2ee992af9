"""GatherTree-1: whole beams of a beam search, followed back from their last step.

    L = min(MAX_TIME, max_seq_len[b]);  k_{L-1} = beam,  k_{t-1} = parent_ids[t, b, k_t]
    final_ids[t, b, beam] = step_ids[t, b, k_t] for t < L;
                            end_token after the first end_token of a beam, and from L on

Page: operation-specs/movement/gather-tree-1. Decided where it is silent: length 0 gives end_token
everywhere, a negative one is refused; so is a parent outside the beams, but only one that is
followed; and, "inputs should have integer values only", a fraction among the parents followed or
the lengths.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import refuse_first
from uncork.ops._common.sequences import agreed_sizes, shape_in_words
from uncork.ops._operation import Operation, register
from uncork.ops._ports import ARITHMETIC, Input, Output
from uncork.types import Array, PartialShape, TensorSpec

LAYOUT = {
    "step_ids": "MAX_TIME, BATCH_SIZE, BEAM_WIDTH",
    "parent_ids": "MAX_TIME, BATCH_SIZE, BEAM_WIDTH",
    "max_seq_len": "BATCH_SIZE",
    "end_token": "",
}


@register("GatherTree", 1)
class GatherTree1(Operation):
    step_ids = Input(ARITHMETIC, "T")
    parent_ids = Input(ARITHMETIC, "T")
    max_seq_len = Input(ARITHMETIC, "T")
    end_token = Input(ARITHMETIC, "T")
    final_ids = Output("T")

    def infer(self, *specs: TensorSpec) -> PartialShape:
        return shape_in_words(LAYOUT["step_ids"], agreed_sizes(self, specs, LAYOUT))

    def reference(
        self, step_ids: Array, parent_ids: Array, max_seq_len: Array, end_token: Array
    ) -> Array:
        steps, batch, beams = step_ids.shape
        refuse_first(
            self,
            "max_seq_len",
            max_seq_len,
            ~(max_seq_len >= 0) | (max_seq_len % 1 != 0),
            "a whole number, 0 or more",
        )
        final = np.full(step_ids.shape, end_token, step_ids.dtype)
        for b in range(batch):
            length = min(steps, int(max_seq_len[b]))
            beam = np.arange(beams)
            for t in reversed(range(length)):
                final[t, b] = step_ids[t, b, beam]
                if t:
                    parents = parent_ids[t, b, beam]
                    wrong = np.zeros(parent_ids.shape, bool)
                    wrong[t, b, beam] = ~((parents >= 0) & (parents < beams)) | (parents % 1 != 0)
                    refuse_first(
                        self,
                        "parent_ids",
                        parent_ids,
                        wrong,
                        f"a whole number, 0 to {beams - 1}",
                        0,
                        beams - 1,
                    )
                    beam = parents.astype(np.int64)
            ended = np.logical_or.accumulate(final[:length, b] == end_token, axis=0)
            final[:length, b][ended] = end_token
        return final
