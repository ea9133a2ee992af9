"""`Trained`: which constants of a graph are trained.

Weights are, and what is added to or multiplied with what layers with weights compute; scales,
masks, epsilons and statistics are not.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from uncork.ir.model import Model, Node, Source
from uncork.ops.parameter import Const
from uncork.storage import decode
from uncork.types import ElementType

#: Their constants are trained beside what a layer with weights has computed, not beside an input.
_BESIDE = ("Add", "Subtract", "Multiply", "Divide", "SquaredDifference")
#: Inputs that choose, limit, scale or are statistics, by position; () stands for all of them.
_SETTINGS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"), ()),
    **dict.fromkeys(("Select", "Maximum", "Minimum", "Mod", "FloorMod", "Range", "OneHot"), ()),
    "BatchNormInference": (3, 4),
    "FakeQuantize": (1, 2, 3, 4),
    "HardSigmoid": (1, 2),
    "Pad": (3,),
    "Power": (1,),
    "ScaledDotProductAttention": (3, 4),
    "Selu": (1, 2),
}
#: What stands between a product and its bias.
_MOVES = ("Convert", "ConvertLike", "Reshape", "Squeeze", "Unsqueeze", "Transpose")
#: What is added and reaches below this is a mask.
_MASKED = -1e4


class Trained:
    """The trained constants of a graph, by the ids of their nodes.

    In a body, all that comes from outside may come from a layer with weights.
    """

    def __init__(self, model: Model, is_body: bool) -> None:
        self._model = model
        #: The constants of floats that a tensor is made of, where it is made of nothing else.
        self._made_of: dict[Source, frozenset[int]] = {}
        #: What layers with weights lead to, and what such a layer gave, at most moved.
        self._learned: set[Source] = set()
        self._products: set[Source] = set()
        self.weights: set[int] = set()
        #: Those of them that have one element and are added to a product.
        self.biases: set[int] = set()
        for node in model.nodes:
            if node.type_name != "Parameter":
                self._look(node)
            elif is_body:
                self._learned.add(Source(node.id, 0))

    def _look(self, node: Node) -> None:
        outputs = [Source(node.id, i) for i in range(len(node.outputs))]
        if isinstance(node.operation, Const):
            is_float = node.operation.element_type.is_float
            self._made_of[outputs[0]] = frozenset([node.id] if is_float else [])
            return
        constants = {
            i: self._made_of[source]
            for i, source in enumerate(node.inputs)
            if source in self._made_of and not _is_setting(node, i)
        }
        if all(s in self._made_of for s in node.inputs) and node.type_name != "Result":
            made_of = frozenset[int]().union(*constants.values())
            self._made_of.update((output, made_of) for output in outputs)
            return
        given = [source for source in node.inputs if source not in self._made_of]
        learned = any(source in self._learned for source in given)
        if node.type_name in _BESIDE:
            if learned:
                product = any(source in self._products for source in given)
                for constant in frozenset[int]().union(*constants.values()):
                    self._add_operand(node, constant, product)
        else:
            for found in constants.values():
                self.weights.update(found)
            has_weights = any(constants.values())
            learned = learned or has_weights
            moved = node.type_name in _MOVES and node.inputs[0] in self._products
            if has_weights or moved:
                self._products.update(outputs)
        if learned:
            self._learned.update(o for o in outputs if self._model.spec(o).element_type.is_float)

    def _add_operand(self, node: Node, constant: int, product: bool) -> None:
        """Note a constant beside what layers with weights computed."""
        operation = self._model.by_id[constant].operation
        assert isinstance(operation, Const)
        is_sum = node.type_name in ("Add", "Subtract")
        if is_sum and _is_mask(operation):
            return
        if operation.count != 1:
            self.weights.add(constant)
        elif is_sum and product:
            self.weights.add(constant)
            self.biases.add(constant)


def _is_setting(node: Node, position: int) -> bool:
    places = _SETTINGS.get(node.type_name)
    return places is not None and (not places or position in places)


def _is_mask(constant: Const) -> bool:
    """Whether it holds -inf, or numbers that stand for it, or no numbers at all."""
    if constant.element_type.is_packed or not constant.count:
        return False
    values = constant.value
    if constant.element_type not in (ElementType.f16, ElementType.f32, ElementType.f64):
        values = decode(values, constant.element_type)
    with np.errstate(invalid="ignore"):
        return not (float(values.min()) > _MASKED and float(values.max()) < np.inf)
