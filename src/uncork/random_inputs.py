"""Random inputs, and their bounds: ids within their tables, offsets of bags and segment ids in
order.

Random numbers mean something there only within bounds and in order. What inputs mean is told by the
layers that look them up, in bodies too, behind moves and conversions of integers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.ops._common.embedding import Embedding
from uncork.ops._common.indices import normalised_axis
from uncork.ops._operation import check_memory
from uncork.ops.convert import limits
from uncork.ops.gather import Gather
from uncork.ops.gather_elements import GatherElements6
from uncork.ops.gather_nd import GatherND8
from uncork.passes.straight_ids import Lookup, lookups
from uncork.storage import decode, encode
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: How many segments there are where an input says it.
_SEGMENTS = 4


class Meaning(Struct):
    """What is known of the integers of an input: they lie in [0, `end`), and `ascend`, perhaps from
    0 on.
    """

    end: int | None = None
    begin: int = 0
    ascends: bool = False
    from_zero: bool = False

    def ends(self, end: int | None) -> None:
        """Another bound: the lowest holds. A bound below 1 leaves nothing to choose."""
        if end is not None and end > 0:
            self.end = end if self.end is None else min(self.end, end)


class RandomBounds:
    """Bounds for those inputs of a model, by position, that layers take as ids, offsets, segment
    ids or lengths.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._known: dict[tuple[object, ...], dict[int, Meaning]] = {}

    def bounds(
        self, position: int, shapes: Mapping[int, tuple[int, ...]]
    ) -> tuple[float, float] | None:
        """The range [low, high) that random values of an input should have.

        None when nothing is known.
        """
        meaning = self._meanings(shapes).get(position)
        if meaning is None or meaning.end is None:
            return None
        _, most = limits(self.model.inputs[position].element_type)
        return meaning.begin, min(meaning.end, most + 1)

    def ordered(self, position: int, values: Array, shapes: Mapping[int, tuple[int, ...]]) -> Array:
        """Random values in the order that they need: offsets from 0 on, and segment ids sorted."""
        meaning = self._meanings(shapes).get(position)
        if meaning is None or not meaning.ascends:
            return values
        values = np.sort(values, axis=None).reshape(values.shape)
        if meaning.from_zero:
            values.reshape(-1)[:1] = 0
        return values

    def _meanings(self, shapes: Mapping[int, tuple[int, ...]]) -> dict[int, Meaning]:
        """What is known of inputs of these shapes, by position."""
        key = tuple(sorted(shapes.items()))
        if key not in self._known:
            found: dict[int, Meaning] = {}
            seen = list(lookups(_sized(self.model, shapes)))
            for lookup in seen:
                ports = [other.port.name for other in seen if other.node is lookup.node]
                for position in lookup.inputs:
                    _tell(lookup, ports, found.setdefault(position, Meaning()))
            self._known[key] = found
        return self._known[key]


def _sized(model: Model, shapes: Mapping[int, tuple[int, ...]]) -> Model:
    """The model with what these shapes tell, such as how many segments there are.

    Where layers do not fit them the call says so, and here the model is as it was.
    """
    given = {
        model.parameters[position]: TensorSpec(
            model.by_id[model.parameters[position]].outputs[0].spec.element_type,
            PartialShape(shape),
        )
        for position, shape in shapes.items()
    }
    sized, problems = infer(model, given, trust_ports=True)
    return model if problems else sized


def _tell(lookup: Lookup, ports: Sequence[str], meaning: Meaning) -> None:
    """Add what a layer says of the integers that it is given; `ports` are those of its inputs that
    come from inputs of the model. What bounds them and is not known is taken to be 1.
    """
    node, port = lookup.node, lookup.port.name
    named: dict[str, TensorSpec] = {
        declared.name: lookup.model.spec(source)
        for declared, source in zip(
            node.operation.inputs if node.operation else (), node.inputs, strict=False
        )
    }
    if port in ("offsets", "segment_ids"):
        meaning.ascends, meaning.from_zero = True, port == "offsets"
        if len(lookup.inputs) > 1:  # parts of what has to be in order as a whole
            meaning.ends(1)
    if port == "offsets":
        meaning.ends(_size(named["indices"], 0) + 1)
    elif port == "num_segments":
        meaning.begin = _SEGMENTS
        meaning.ends(_SEGMENTS + 1)
    elif port == "segment_ids" and "num_segments" in named:
        count = named["num_segments"].value
        if count is not None:
            meaning.ends(int(count.reshape(-1)[0]))
        else:
            meaning.ends(_SEGMENTS if "num_segments" in ports else 1)
    elif port == "segment_ids":  # as many segments as there are rows
        meaning.ends(_size(named["segment_ids"], 0))
    elif port == "sequence_lengths":
        meaning.ends(_size(named["X"], 1) + 1)
    else:
        meaning.ends(_rows(lookup, named))


def _rows(lookup: Lookup, named: Mapping[str, TensorSpec]) -> int:
    """How many rows there are that ids may choose."""
    operation = lookup.node.operation
    if isinstance(operation, Embedding):
        return _size(named["emb_table"], 0)
    data = named["data"]
    if data.rank is None:
        return 1
    if isinstance(operation, GatherND8):
        first, depth = operation.batch_dims, _size(named["indices"], -1)
        return min((_size(data, axis) for axis in range(first, first + depth)), default=1)
    if isinstance(operation, GatherElements6):
        return _size(data, normalised_axis(operation, operation.axis, data.rank))
    if isinstance(operation, Gather) and named["axis"].value is not None:
        axis = int(named["axis"].value.reshape(-1)[0])
        return _size(data, normalised_axis(operation, axis, data.rank))
    return 1


def _size(spec: TensorSpec, axis: int) -> int:
    """A size, where it is known, else 1."""
    if spec.rank is None or not -spec.rank <= axis < spec.rank:
        return 1
    size = spec.shape[axis].static_size
    return 1 if size is None else size


def random_array(
    name: str,
    element_type: ElementType,
    shape: tuple[int, ...],
    seed: int,
    bounds: tuple[float, float] | None,
) -> Array:
    """Values that depend on the seed and the input's name only: floats in [-1, 1), integers in [0,
    10), or in [low, high).
    """
    try:
        check_memory([TensorSpec(element_type, PartialShape(shape))])
    except InputError:
        raise InputError(
            f"shape {list(shape)} of {element_type} is more than this machine's memory holds",
            f"input '{name}'",
        ) from None
    generator = np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "surrogatepass"))])
    if element_type is ElementType.boolean or element_type is ElementType.string:
        if bounds is not None:
            raise InputError(f"random {element_type} values have no range", f"input '{name}'")
        return (
            generator.integers(0, 2, shape).astype(bool)
            if element_type is ElementType.boolean
            else _words(generator, shape)
        )
    if element_type.is_integer:
        low, high = _integer_bounds(name, element_type, bounds)
        values = generator.integers(
            low, high, shape, np.uint64 if low >= 0 else np.int64, endpoint=True
        )
        return np.asarray(values).astype(element_type.dtype)
    start, end = (-1.0, 1.0) if bounds is None else bounds
    real = np.asarray(generator.random(shape)) * (end - start) + start
    with np.errstate(over="ignore"):
        return decode(encode(real, element_type), element_type)


def _integer_bounds(
    name: str, element_type: ElementType, bounds: tuple[float, float] | None
) -> tuple[int, int]:
    """Smallest and largest random value."""
    signed = element_type.kind == "signed"
    least = -(1 << (element_type.bits - 1)) if signed else 0
    most = (1 << (element_type.bits - signed)) - 1
    if bounds is None:
        return 0, min(9, most)
    low, high = bounds
    InputError.when(
        low != int(low) or high != int(high) or int(low) < least or int(high) > most + 1,
        f"a range of {element_type} has whole numbers within {least}:{most + 1}, got {low}:{high}",
        f"input '{name}'",
    )
    return int(low), int(high) - 1


def _words(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = np.empty(shape, object)
    for position in np.ndindex(*shape):
        words[position] = "".join(
            letters[i] for i in generator.integers(0, len(letters), int(generator.integers(1, 9)))
        )
    return words
