"""The epilogue of a quantized layer: scalar operations, then the store of numbers or codes."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I8, Kernel, Value
from uncork.kernels.codegen.epilogue import spread
from uncork.kernels.codegen.scalar_ops import SCALAR_OPS
from uncork.kernels.epilogue import CHANNEL, ELEMENT
from uncork.kernels.quantized.emit_rounding import Guard, from_codes, kept, to_grid, to_word
from uncork.kernels.quantized.spec import CODES, GRID, ROUNDED, CodesEpilogue


def moved_operands(
    end: CodesEpilogue, a: dict[str, Value], made: Value, column: Value
) -> dict[str, Value]:
    """The operands' places for a tile that begins at a number of the result, and at a column."""
    result = {}
    for index, kind in enumerate(end.operands):
        name = f"end_{index}"
        if kind in (ELEMENT, CODES):
            result[name] = a[name] + made * (4 if kind == ELEMENT else 1)
        elif kind == CHANNEL:
            result[name] = a[name] + column * 4
    return result


def store_with_epilogue(
    k: Kernel,
    end: CodesEpilogue,
    a: dict[str, Value],
    value: Value,
    pixel: Value | int,
    column: int,
    guard: Guard | None,
) -> None:
    """Store a piece of the result, after its epilogue; codes where it has some."""
    place = a["target_pixel"] * pixel + column
    values = [
        value,
        *(
            _operand(k, a, number, kind, place, column, value.lanes)
            for number, kind in enumerate(end.operands)
        ),
    ]
    for op in end.ops:
        given = [values[number] for number in op.arguments]
        if op.op == ROUNDED:
            if guard is not None:
                guard.look(given[0])
            values.append(to_grid(k, given[0], a[f"end_{op.arguments[1] - 1}"]))
        else:
            values.append(SCALAR_OPS[op.op](k, given, op.constants))
    result = values[-1] if end.ops else value
    if not end.codes:
        k.store(result, a["target"] + place * 4)
        return
    if guard is not None:
        guard.look(result)
    k.store(to_word(k, kept(k, result, a["numbers"], end.rescaled)).to(I8), a["target"] + place)


def _operand(
    k: Kernel, a: dict[str, Value], number: int, kind: str, place: Value, column: int, lanes: int
) -> Value:
    address = a[f"end_{number}"]
    if kind == ELEMENT:
        return k.load(address + place * 4, F32, lanes)
    if kind == CHANNEL:
        return k.load(address + column * 4, F32, lanes)
    if kind == CODES:
        return from_codes(k, address + place, a[f"grid_{number}"], lanes)
    return address if kind == GRID else spread(k, k.load(address, F32), lanes)
