"""Bounds of random inputs: ids within their tables, offsets of bags and segment ids in order.

Random numbers mean something there only within bounds and in order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from uncork.ir.model import Model, Source
from uncork.ops.embedding_bag_offsets import EmbeddingBagOffsets15, EmbeddingBagOffsetsSum3
from uncork.ops.embedding_segments_sum import EmbeddingSegmentsSum3
from uncork.passes.quantized_tables import LOOKUPS
from uncork.types import Array


class RandomBounds:
    """Bounds for those inputs of a model, by position, that look-ups take as ids, offsets or
    segment ids, as they are or converted.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.rows: dict[int, int] = {}  # ids: the rows of the smallest table
        self.segments: dict[int, int] = {}  # segment ids: how many segments there are
        # beginnings of bags: the input that has the ids, where it is one
        self.offsets: dict[int, int | None] = {}
        numbers = {parameter: index for index, parameter in enumerate(model.parameters)}

        def number_of(source: Source) -> int | None:
            while model.by_id[source.node].type_name in (
                "Convert",
                "Reshape",
                "Squeeze",
                "Unsqueeze",
            ):
                source = model.by_id[source.node].inputs[0]
            return numbers.get(source.node)

        for node in model.nodes:
            if type(node.operation) not in LOOKUPS:
                continue
            table, ids = model.spec(node.inputs[0]), number_of(node.inputs[1])
            size = table.shape[0].static_size if table.rank else None
            if ids is not None and size:
                self.rows[ids] = min(size, self.rows.get(ids, size))
            if isinstance(node.operation, (EmbeddingBagOffsetsSum3, EmbeddingBagOffsets15)):
                offsets = number_of(node.inputs[2])
                if offsets is not None:
                    self.offsets[offsets] = ids
            elif isinstance(node.operation, EmbeddingSegmentsSum3):
                segments, count = number_of(node.inputs[2]), model.spec(node.inputs[3]).value
                if segments is not None and count is not None and int(count) > 0:
                    self.segments[segments] = min(
                        int(count), self.segments.get(segments, int(count))
                    )

    def bounds(
        self, position: int, shapes: Mapping[int, tuple[int, ...]]
    ) -> tuple[float, float] | None:
        """The range [low, high) that random values of an input should have.

        None when nothing is known.
        """
        if position in self.rows:
            return 0, self.rows[position]
        if position in self.segments:
            return 0, self.segments[position]
        ids = self.offsets.get(position)
        return (0, int(np.prod(shapes[ids])) + 1) if ids is not None and ids in shapes else None

    def ordered(self, position: int, values: Array) -> Array:
        """Random values in the order that they need: offsets from 0 on, and segment ids sorted."""
        if position in self.offsets:
            values = np.sort(values)
            values[:1] = 0
        return np.sort(values) if position in self.segments else values
