"""The matchers of layers that take parts of a tensor: Gather of whole rows, Splits along a known
axis, and Slices whose bounds are known.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.ops._common.slices import FAR
from uncork.ops.gather import Gather
from uncork.ops.pad import Pad12
from uncork.ops.slice import Slice8
from uncork.ops.split import Split1, VariadicSplit1

SPLITS = (Split1, VariadicSplit1)


def gathered_axis(model: Model, node: Node) -> int | None:
    """The axis along which a Gather takes whole rows, each index one, without batches; None of any
    other layer, and where only the call knows the axis.
    """
    if not isinstance(node.operation, Gather):
        return None
    data, indices, axis = (model.spec(source) for source in node.inputs)
    if axis.value is None or data.rank is None or indices.rank is None:
        return None
    batched = node.operation.batch_count(indices.rank) != 0
    return None if batched else int(axis.value.reshape(-1)[0]) % data.rank


def split_axis(model: Model, node: Node) -> int | None:
    """The axis along which a Split or a VariadicSplit cuts; None of any other layer, and where only
    the call knows the axis.
    """
    if not isinstance(node.operation, SPLITS):
        return None
    rank, axis = model.spec(node.inputs[0]).rank, model.spec(node.inputs[1]).value
    return None if axis is None or rank is None else int(axis.reshape(-1)[0]) % rank


class Cut(Struct, frozen=True):
    """What a Slice takes of an axis, as Python's `start:stop:step`."""

    axis: int
    start: int
    stop: int
    step: int

    @property
    def goes_to_the_end(self) -> bool:
        """Whether it ends where the axis does, whatever its size is."""
        return self.step == 1 and self.stop >= FAR

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the axis, whatever its size is."""
        return self.start == 0 and self.goes_to_the_end


def cuts_of(model: Model, node: Node) -> list[Cut] | None:
    """What a Slice takes of each axis that it names; None where the call tells a bound, and of any
    other layer.
    """
    rank = model.spec(node.inputs[0]).rank if isinstance(node.operation, Slice8) else None
    bounds = [known_integers(model, source) for source in node.inputs[1:]]
    if rank is None or None in bounds:
        return None
    starts, stops, steps, *axes = (numbers or [] for numbers in bounds)
    along = axes[0] if axes else range(len(starts))
    cuts = zip(along, starts, stops, steps, strict=True)
    return [Cut(axis % rank, *bound) for axis, *bound in cuts]


def only_cut(model: Model, node: Node) -> Cut | None:
    """What a Slice takes of the only axis that it names; None as for `cuts_of`."""
    cuts = cuts_of(model, node) or []
    return cuts[0] if len(cuts) == 1 else None


def known_integers(model: Model, source: Source) -> list[int] | None:
    """The integers of a constant; None of any other tensor."""
    spec = model.spec(source)
    if spec.value is None or not spec.element_type.is_integer:
        return None
    return [int(number) for number in spec.value.reshape(-1)]


def padding(model: Model, node: Node) -> float | None:
    """The number of which a Pad makes cells around its data; None where only the call knows it, or
    it copies them, and of any other layer.
    """
    operation = node.operation
    if not isinstance(operation, Pad12) or operation.pad_mode != "constant":
        return None
    value = model.spec(node.inputs[3]).value if len(node.inputs) > 3 else np.zeros(())
    return None if value is None else float(value.reshape(()))
