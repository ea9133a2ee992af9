"""The epilogue inside a kernel: addresses of its operands, and its operations applied to a vector
of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.codegen.scalar_ops import SCALAR_OPS
from uncork.kernels.epilogue import CHANNEL, ELEMENT, Epilogue


def relative_operands(
    epilogue: Epilogue, given: Mapping[str, Value], target: Value
) -> dict[str, Value]:
    """The places of the epilogue's operands, by name: of an operand of elements its distance from
    the result, of any other its address.
    """
    kinds = zip(epilogue.arguments, epilogue.operands, strict=True)
    return {name: given[name] - target if kind == ELEMENT else given[name] for name, kind in kinds}


def advanced_operands(
    epilogue: Epilogue, places: Mapping[str, Value], channels: Value
) -> dict[str, Value]:
    """The places for channels (or columns) that begin so many bytes later."""
    kinds = zip(epilogue.arguments, epilogue.operands, strict=True)
    return {
        name: places[name] + channels if kind == CHANNEL else places[name] for name, kind in kinds
    }


def apply_epilogue(
    k: Kernel, epilogue: Epilogue, total: Value, operand: Callable[[str, str], Value]
) -> Value:
    """The values that an epilogue makes of a vector of sums, to be stored. `operand(name, kind)`
    gives a vector of an operand, or one number for all lanes.
    """
    values = [total]
    values += [
        spread(k, operand(name, kind), total.lanes)
        for name, kind in zip(epilogue.arguments, epilogue.operands, strict=True)
    ]
    for op in epilogue.ops:
        values.append(
            SCALAR_OPS[op.op](k, [values[number] for number in op.arguments], op.constants)
        )
    return values[-1]


#: Operations of an instruction or three.
_SHORT = frozenset(
    (
        "add",
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "relu",
        "clamp",
        "bounded",
        "same",
        "kept",
        "negative",
        "abs",
        "round_f16",
        "rough_gelu",
        "rough_gelu_tanh",
        "rough_hsigmoid",
        "rough_hswish",
        "rough_mish",
        "rough_sigmoid",
        "rough_swish",
        "rough_swish_scaled",
        "rough_tanh",
    )
)


def is_long(epilogue: Epilogue) -> bool:
    """Whether the epilogue has so many instructions that they are worth writing once for several
    vectors of sums.
    """
    return any(op.op not in _SHORT for op in epilogue.ops)


def spread(k: Kernel, value: Value, lanes: int) -> Value:
    """A vector of so many lanes, of a number or of such a vector."""
    return value if value.lanes == lanes else k.splat(value, lanes)
