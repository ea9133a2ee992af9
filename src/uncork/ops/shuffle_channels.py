"""ShuffleChannels-1: the places along an axis, seen as a table of `group` rows, read by columns.

    output[.., k * group + g, ..] = data[.., g * (size / group) + k, ..]

Page: operation-specs/movement/shuffle-channels-1.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.indices import normalised_axis
from uncork.ops._common.shapes import divided
from uncork.ops._operation import Moving, register
from uncork.ops._ports import Attribute, at_least, integer
from uncork.types import Array, PartialShape, TensorSpec


@register("ShuffleChannels", 1)
class ShuffleChannels1(Moving):
    """`data` of rank 1 or more; `group` divides the dimension `axis`."""

    axis = Attribute(integer, default=1)
    group = Attribute(integer, default=1, check=at_least(1))

    def infer(self, data: TensorSpec) -> PartialShape:
        if data.rank is not None:
            self.require(
                data.rank > 0, "input 'data' is a scalar: there is no axis to shuffle along"
            )
            dim = data.shape[normalised_axis(self, self.axis, data.rank)]
            divided(
                self,
                dim,
                self.group,
                "expected a multiple of group {} along axis {}, got data {}",
                self.group,
                self.axis,
                data.shape,
            )
        return data.shape

    def reference(self, data: Array) -> Array:
        along = self.axis % data.ndim
        table = data.reshape(
            (
                *data.shape[:along],
                self.group,
                data.shape[along] // self.group,
                *data.shape[along + 1 :],
            )
        )
        return np.asarray(table.swapaxes(along, along + 1).reshape(data.shape))
