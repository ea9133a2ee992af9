"""`Writer`: writes the layers of a stream: cuts, joins, kept frames, counters, variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.errors import UncorkError
from uncork.ir.build import Builder
from uncork.ir.model import Node, Source
from uncork.surgery.streams.flow import Flow
from uncork.types import Array, PartialShape, TensorSpec

#: The end of a Slice that has none.
_END = 2**31 - 1
#: Counters of frames stop here: they never wrap. They are i32 because OpenVINO's CPU has no
#: variables of i64.
_MOST = 2**30


class Writer:
    """A builder that knows what streams are made of."""

    def __init__(self, name: str) -> None:
        self.builder = Builder(name)
        self._variables = 0
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], Source] = {}
        self._folded: dict[Source, Source] = {}
        #: Frames of the input that variables keep, all together: how long a sequence must be before
        #: every one of them has been used.
        self.kept_frames = 0

    # ---- small layers

    def constant(self, value: Any) -> Source:
        """A constant; one for all that are equal and small."""
        array = np.asarray(value)
        if array.size > 16:
            return self.builder.constant(array)
        key = (array.dtype.str, array.tobytes(), array.shape)
        if key not in self._constants:
            self._constants[key] = self.builder.constant(array)
        return self._constants[key]

    def add(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.builder.add(type_name, opset, *inputs, **attributes)[0]

    def spec(self, source: Source) -> TensorSpec:
        return self.builder.spec(source)

    def rank(self, source: Source) -> int:
        return len(self.spec(source).shape)

    def cut(self, source: Source, axis: int, start: int, stop: int | None = None) -> Source:
        """The frames from one to before another, as Python counts them."""
        if start == 0 and stop is None:
            return source
        places = (start, _END if stop is None else stop, 1, axis)
        return self.add("Slice", 8, source, *(self.constant(np.array([p])) for p in places))

    def join(self, axis: int, *parts: Source) -> Source:
        return parts[0] if len(parts) == 1 else self.add("Concat", 1, *parts, axis=axis)

    def length(self, source: Source, axis: int, kind: str = "i64") -> Source:
        """The size of an axis, as one number in a vector."""
        shape = self.add("ShapeOf", 3, source, output_type=kind)
        return self.add(
            "Gather",
            8,
            shape,
            self.constant(np.array([axis])),
            self.constant(np.int64(0)),
            batch_dims=0,
        )

    def number(self, source: Source) -> Source:
        """The number of a vector of one, as a scalar."""
        return self.add("Squeeze", 1, source, self.constant(np.array([0])))

    def filled(self, like: Source, axis: int, count: int, value: float = 0) -> Source:
        """`count` frames of one value, of the other sizes of a tensor."""
        spec = self.spec(like)
        dims = [count if i == axis else dim.static_size for i, dim in enumerate(spec.shape)]
        known = [d for d in dims if d is not None]
        if len(known) == len(dims):
            return self.constant(np.full(known, value, spec.element_type.dtype))
        sizes = [
            self.length(like, i) if dim is None else self.constant(np.array([dim]))
            for i, dim in enumerate(dims)
        ]
        one = self.constant(np.array(value, spec.element_type.dtype))
        return self.add("Broadcast", 3, one, self.join(0, *sizes), mode="numpy")

    # ---- state

    def variable(self, initial: Source) -> tuple[str, Source]:
        """A new variable: its name and what it has at the beginning of a call."""
        initial = self.folded(initial)
        spec = self.spec(initial)
        name = f"stream_{self._variables}"
        self._variables += 1
        read = self.add(
            "ReadValue",
            6,
            initial,
            variable_id=name,
            variable_type=str(spec.element_type),
            variable_shape=PartialShape([d.static_size for d in spec.shape]),
            name=name,
        )
        return name, read

    def assign(self, name: str, value: Source) -> None:
        self.add("Assign", 6, value, variable_id=name, name=f"{name}_assign")

    def before(self, flow: Flow, count: int, value: float = 0) -> Source:
        """The `count` frames before the stream's first one."""
        have = max(0, flow.shift)
        if flow.history is None or have == 0:
            return self.filled(flow.source, flow.axis, count, value)
        if have >= count:
            return self.cut(flow.history, flow.axis, have - count)
        filling = self.filled(flow.source, flow.axis, count - have, value)
        return self.join(flow.axis, filling, flow.history)

    def kept(self, flow: Flow, count: int, value: float = 0) -> Source:
        """The frames of this call behind the `count` ones before them."""
        self.kept_frames += count * flow.every
        name, old = self.variable(self.before(flow, count, value))
        both = self.join(flow.axis, old, flow.source)
        self.assign(name, self.cut(both, flow.axis, -count))
        return both

    def counter(
        self, flow: Flow, first: int = 0, most: int = _MOST
    ) -> tuple[Source, Source, Source]:
        """How many frames there were before this call and are after it, counted from `first`, and
        how many there are in it: vectors of one i32. It counts to `most`: where no more matters,
        long streams have one number, which sessions can share.
        """
        name, count = self.variable(self.constant(np.array([first], np.int32)))
        frames = self.length(flow.source, flow.axis, "i32")
        after = self.add("Add", 1, count, frames)
        limit = self.constant(np.array([most], np.int32))
        self.assign(name, self.add("Minimum", 1, after, limit))
        return count, after, frames

    # ---- what is known already

    def value(self, source: Source) -> Array | None:
        """The value of a tensor that only constants and known sizes make; None for any other."""
        values: dict[Source, Array] = {}
        for number in self._behind(source):
            if not self._evaluated(number, values):
                return None
        return values.get(source)

    def folded(self, source: Source) -> Source:
        """A constant in place of what only constants make: OpenVINO takes no other initial
        values.
        """
        if self.builder.node(source).type_name == "Const":
            return source
        if source not in self._folded:
            value = self.value(source)
            kind = self.spec(source).element_type
            self._folded[source] = (
                source
                if value is None
                else self.builder.constant(np.ascontiguousarray(value), kind)
            )
        return self._folded[source]

    def _behind(self, source: Source) -> list[int]:
        """The layers that a tensor depends on, in order; not those behind what is known."""
        needed: set[int] = set()
        waiting = [source]
        while waiting:
            node = self.builder.node(waiting.pop())
            if node.id not in needed:
                needed.add(node.id)
                waiting.extend(node.inputs if self._known(node) is None else ())
        return sorted(needed)

    def _known(self, node: Node) -> list[Array] | None:
        """The outputs of a layer, where its description tells them."""
        specs = [self.spec(Source(node.id, i)) for i in range(len(node.outputs))]
        known = [spec.value for spec in specs if spec.value is not None]
        if known and len(known) == len(specs):
            return known
        if node.type_name == "ShapeOf" and self.spec(node.inputs[0]).shape.is_static:
            sizes = self.spec(node.inputs[0]).shape.static
            return [np.array(sizes, specs[0].element_type.dtype)]
        return None

    def _evaluated(self, number: int, values: dict[Source, Array]) -> bool:
        """Put the outputs of a layer among the values; False where they are not known."""
        node = self.builder.node(Source(number, 0))
        known = self._known(node)
        if known is not None:
            values.update((Source(number, i), value) for i, value in enumerate(known))
            return True
        if node.operation is None or not node.operation.deterministic or not node.inputs:
            return False
        specs = []
        for given in node.inputs:
            kind = self.spec(given).element_type
            specs.append(TensorSpec.of_array(kind, values[given]))
        try:
            results = node.operation.evaluate(specs)
        except UncorkError:
            return False
        for output, result in enumerate(results):
            assert result.value is not None
            values[Source(number, output)] = result.value
        return True


def numbers(value: Array | None) -> list[int] | None:
    """The whole numbers of a known value, one after the other."""
    return None if value is None else [int(v) for v in np.asarray(value).reshape(-1)]


def given_sources(given: Sequence[Flow]) -> list[Source]:
    return [flow.source for flow in given]
