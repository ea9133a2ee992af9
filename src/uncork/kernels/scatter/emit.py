"""The emitter of scatters and GatherND: at places that indices name, elements are stored, joined or
fetched.

An index outside its axis returns 1, and the reference words the refusal. Updates come in row-major
order, so the last one stays.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F64, I64, INDEX_TYPES, Kernel, Type, Value, emitter
from uncork.kernels.codegen.joining import COMBINE, identity
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.movement.emit_gather import copy
from uncork.kernels.scatter.spec import MOVES, Action, Elements, Mean, Tuples

#: How reductions join booleans, which lie in memory as 0 and 1.
_OF_BOOLEANS = {"sum": "or", "prod": "and", "min": "and", "max": "or", "sub": "xor"}


@emitter
def emit_tuples(k: Kernel, spec: Tuples) -> None:
    """The LLVM text of a kernel for runs at places that tuples of indices name."""
    a = k.named
    index = INDEX_TYPES[spec.index]

    def place(address: Value) -> Value:
        """The offset in bytes of the place that a tuple names."""
        total = k.integer(0)
        for i in range(spec.tuple_length):
            place = address + i * index.bytes
            number = _inside(k, place, index, a[f"size_{i}"], spec.wraps)
            total = total + number * a[f"step_{i}"]
        return total

    with k.loop(0, a["batches"]) as batch:
        places, rows = a["places"] + batch * a["batch_place"], a["rows"] + batch * a["batch_row"]
        indices = a["indices"] + batch * a["batch_index"]
        with k.loop(0, a["count"]) as i:
            target = places + place(indices + i * (index.bytes * spec.tuple_length))
            source = rows + i * a["row"]
            with k.loop(0, a["repeats"]) as repeat:
                _act(
                    k,
                    spec.action,
                    target + repeat * a["repeat_place"],
                    source + repeat * a["repeat_row"],
                    a["run"],
                    spec.lanes,
                )


@emitter
def emit_elements(k: Kernel, spec: Elements) -> None:
    """The LLVM text of a kernel for single elements, each with an index along one axis."""
    a = k.named
    index, last = INDEX_TYPES[spec.index], spec.before + spec.after
    bytes_of = spec.action.run if spec.action.op in MOVES else STORED[spec.action.stored].bytes

    def step(depth: int) -> Value:
        """The bytes to the next element in the result; 0 along the axis, where the index says the
        place.
        """
        return k.integer(0) if depth == spec.before else a[f"place_{depth}"]

    def loops(depth: int, place: Value, number: Value) -> None:
        """Emit the loops from `depth` on; `number` is how many indices lie before this one."""
        if depth < last:
            with k.loop(0, a[f"count_{depth}"]) as i:
                loops(depth + 1, place + i * step(depth), number + i * a[f"index_{depth}"])
            return
        # An element has so few instructions that addresses are counted on, not computed again.
        place_at, index_at, row_at = (
            k.variable(begin)
            for begin in (
                place,
                a["indices"] + number * index.bytes,
                a["rows"] + number * bytes_of,
            )
        )
        with k.loop(0, a[f"count_{last}"]):
            along = _inside(k, index_at.get(), index, a["size"], spec.wraps)
            target = place_at.get() + along * a[f"place_{spec.before}"]
            _act(k, spec.action, target, row_at.get(), 1, 1)
            place_at.set(place_at.get() + step(last))
            index_at.set(index_at.get() + a[f"index_{last}"] * index.bytes)
            row_at.set(row_at.get() + a[f"index_{last}"] * bytes_of)

    loops(0, a["places"], k.integer(0))


@emitter
def emit_mean(k: Kernel, spec: Mean) -> None:
    """The LLVM text of a kernel that makes means of sums; a place that nothing was added to keeps
    its value.
    """
    a = k.named
    held, made = COMPUTED[spec.element], STORED[spec.result]
    with k.loop(0, a["count"]) as place:
        terms = k.load(a["counts"] + place * 8, I64)
        number = k.maximum(terms + a["more"], k.integer(1))
        first = place * a["each"]
        for i, width in k.vectors(a["each"], spec.lanes):
            total = k.load(a["places"] + (first + i) * held.bytes, held, width)
            mean = k.select(terms > 0, _quotient(k, total, k.splat(number, width)), total)
            result = narrowed(k, mean.to(COMPUTED[spec.result]), spec.result)
            k.store(result, a["output"] + (first + i) * made.bytes)


def _quotient(k: Kernel, total: Value, number: Value) -> Value:
    """The quotient of integers, rounded down, or of floats, computed in f64."""
    if total.type.kind == "float":
        return (total.to(F64) / number.to(F64)).to(total.type)
    if total.type.kind == "unsigned":
        return total // number.to(total.type)
    cut = total // number
    return k.select(cut * number > total, cut - 1, cut)


def _inside(k: Kernel, address: Value, index: Type, size: Value, wraps: bool) -> Value:
    """An index as a place on its axis; the kernel stops where there is none."""
    number = k.index_at(address, index, size, wraps)
    k.stop_unless(number.below(size), k.integer(1))
    return number


def _act(k: Kernel, action: Action, place: Value, row: Value, run: Value | int, lanes: int) -> None:
    """Emit the action on one run."""
    if action.op in MOVES:
        source, target = (place, row) if action.op == "gather" else (row, place)
        copy(k, source, target, run if action.run == OPEN else action.run)
        return
    stored, held = STORED[action.stored], STORED[action.element]

    for first, width in k.vectors(run, lanes):
        target = place + first * held.bytes
        if action.op == "neutral":
            k.store(k.constant(neutral(action.reduction, action.element), held, width), target)
            continue
        before = k.load(target, held, width)
        if action.op == "count":
            k.store(before + 1, target)
            continue
        update = widened(k, action.stored, k.load(row + first * stored.bytes, stored, width)).to(
            held
        )
        k.store(_joined(k, action, before, update), target)


def _joined(k: Kernel, action: Action, a: Value, b: Value) -> Value:
    if action.element == "boolean":
        op = _OF_BOOLEANS[action.op]
        if op == "xor":
            return Value(k, k.builder.xor(a.llvm, b.llvm), a.type, a.lanes)
        return a & b if op == "and" else a | b
    return a - b if action.op == "sub" else COMBINE[action.op](k, a, b)


def neutral(reduction: str, element: str) -> float:
    """What a reduction starts from when the data do not count."""
    if reduction in ("min", "max") and element == "boolean":
        return int(reduction == "min")
    return identity(reduction if reduction in COMBINE else "sum", COMPUTED[element])
