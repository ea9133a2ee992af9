"""What is made codes of one byte and numbers again is one FakeQuantize: files have it around each
layer, by QuantizeLinear and DequantizeLinear.

    codes = Convert(Clamp(Round(x / step) + zero, least, most), i8 or u8)
    (Convert(codes, f32) - zero) * step

With one step and one zero for all elements that is FakeQuantize between `(least - zero) * step`
and `(most - zero) * step`, and layers between such can compute with codes. A number at the border
of two levels may become the other one, as it does where layers are computed on codes.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops.activation import Clamp
from uncork.ops.arithmetic import Add, Divide, Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.fake_quantize import FakeQuantize
from uncork.ops.unary import Round
from uncork.passes.known_values import computed_value
from uncork.passes.rewrite import NewLayers, replaced
from uncork.types import ElementType

_CODES = {ElementType.i8: (-128, 127), ElementType.u8: (0, 255)}
_F32 = ElementType.f32


class _Chain(Struct, frozen=True):
    """What such layers round, to how many levels between which limits."""

    data: Source
    levels: int
    low: float
    high: float


def codes_and_back(model: Model) -> Model:
    """The model with every such chain as one layer; those of the same tensor are one."""
    layers = NewLayers(model)
    new: dict[int, list[Node]] = {}
    moved: dict[Source, Source] = {}
    rounded: dict[_Chain, Source] = {}
    for node in model.nodes:
        chain = _chain(model, node)
        if chain is None:
            continue
        here = Source(node.id, 0)
        if chain in rounded:
            moved[here] = rounded[chain]
            continue
        rounded[chain] = here
        before = len(layers.nodes)
        limits = [layers.constant(limit, _F32) for limit in (chain.low, chain.high)]
        operation = FakeQuantize(levels=chain.levels, auto_broadcast="numpy")
        layers.put(operation, chain.data, *limits, *limits, name=node.name, place=node.id)
        made = layers.nodes[before:]
        made[-1] = replace(made[-1], outputs=node.outputs)
        new[node.id] = made
    return replaced(model, new, moved)


def _chain(model: Model, node: Node) -> _Chain | None:
    """The chain that ends with this layer."""
    found = _by_number(model, node, Multiply)
    if found is None:
        return None
    values, step = found
    zero = 0.0
    found = _by_number(model, model.by_id[values.node], Subtract)
    if found is not None:
        values, zero = found
    codes = _input(model, values, Convert1)
    narrow = None if codes is None else model.spec(codes).element_type
    if codes is None or narrow not in _CODES or model.spec(values).element_type is not _F32:
        return None
    whole = _input(model, codes, Convert1)
    inside = None if whole is None else _input(model, whole, Clamp)
    if whole is None or inside is None:
        return None
    clamp = model.by_id[whole.node].operation
    assert isinstance(clamp, Clamp)
    least, most = _CODES[narrow]
    found = _by_number(model, model.by_id[inside.node], Add)
    if found is not None:
        inside, added = found
    else:
        added = 0.0
    steps = _input(model, inside, Round)
    rounding = model.by_id[inside.node].operation
    if steps is None or not isinstance(rounding, Round) or rounding.mode != "half_to_even":
        return None
    found = _by_number(model, model.by_id[steps.node], Divide)
    alike = (clamp.min, clamp.max, added) == (least, most, zero)
    if found is None or found[1] != step or not alike or step <= 0:
        return None
    return _Chain(found[0], most - least + 1, (least - zero) * step, (most - zero) * step)


def _input(model: Model, source: Source, kind: type[Operation]) -> Source | None:
    """What a layer of this kind reads first."""
    node = model.by_id[source.node]
    return node.inputs[0] if isinstance(node.operation, kind) else None


def _by_number(model: Model, node: Node, kind: type[Operation]) -> tuple[Source, float] | None:
    """What a layer of this kind computes with one constant number, which is its second input."""
    if not isinstance(node.operation, kind):
        return None
    data, other = node.inputs
    number = model.spec(other)
    if number.element_type is not _F32 or number.shape.size != 1:
        return None
    ranks = number.rank, model.spec(data).rank
    value = computed_value(model, other)
    if value is None or ranks[0] is None or ranks[1] is None or ranks[0] > ranks[1]:
        return None
    return data, float(value.reshape(-1)[0])
