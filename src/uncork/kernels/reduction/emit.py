"""Along axes: sums, means, largest and smallest elements; softmax and standardising along rows.

A row is walked through in vectors. Where its length is no multiple of theirs the last one lies over the one before it: what was seen
already is masked for sums, and computed again, to the same value, where something is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from uncork.kernels.codegen import functions
from uncork.kernels.codegen.activations import exp
from uncork.kernels.codegen.emit import F32, I32, Kernel, Type, Value, Variable
from uncork.kernels.codegen.scalar_ops import COMPUTED, absolute
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.reduction.select import Reduction, Rows

Combine = Callable[[Kernel, Value, Value], Value]


def _sum(k: Kernel, a: Value, b: Value) -> Value:
    return a + b


def _product(k: Kernel, a: Value, b: Value) -> Value:
    return a * b


#: How two partial results are joined. A mean is a sum divided; norms are sums of what `_term` makes.
_COMBINE: dict[str, Combine] = {"max": functions.larger, "min": functions.smaller, "prod": _product}


def _identity(word: str, type_: Type) -> float:
    if word not in ("max", "min"):
        return 1 if word == "prod" else 0
    if type_.kind == "float":
        return -math.inf if word == "max" else math.inf
    low = -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
    high = (1 << (type_.bits - (type_.kind == "signed"))) - 1
    return low if word == "max" else high


def _term(k: Kernel, word: str, x: Value) -> Value:
    if word == "l1":
        return absolute(k, x)
    return x * x if word == "l2" else x


def _ended(k: Kernel, word: str, total: Value, count: Value) -> Value:
    if word == "mean":
        return total / k.splat(count.to(total.type), total.lanes)
    return k.intrinsic("sqrt", total) if word == "l2" else total


def joined(k: Kernel, value: Value, combine: Combine) -> Value:
    """The lanes of a vector joined into one number."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = combine(k, value.part(0, half), value.part(half, half))
    return value


def _from(k: Kernel, first: Value, lanes: int) -> Value:
    """The lanes from number `first` on."""
    numbers = ir.Constant(ir.VectorType(I32.llvm, lanes), list(range(lanes))) if lanes > 1 else ir.Constant(I32.llvm, 0)
    return Value(k, numbers, I32, lanes) >= k.splat(first.to(I32), lanes)


def folded(k: Kernel, count: Value, lanes: int, identity: Value, combine: Combine, term: Callable[[Value], Value], chains: int = 1) -> Value:
    """`term(position)`, a vector of values, joined over a row of `count` >= lanes values, in so many `chains` in turn."""
    partial = [k.variable(identity) for _ in range(chains)]
    whole = count // lanes * lanes

    def add(chain: Variable, value: Value) -> None:
        chain.set(combine(k, chain.get(), value))

    rest = k.integer(0)
    if chains > 1:
        rest = count // (lanes * chains) * (lanes * chains)
        with k.loop(0, rest, lanes * chains) as i:
            for number, chain in enumerate(partial):
                add(chain, term(i + number * lanes))
    with k.loop(rest, whole, lanes) as i:
        add(partial[0], term(i))
    if lanes > 1:
        with k.when(whole < count):
            fresh = _from(k, whole + lanes - count, lanes)
            add(partial[-1], k.select(fresh, term(count - lanes), identity))
    values = [chain.get() for chain in partial]
    while len(values) > 1:
        values = [combine(k, a, b) for a, b in zip(values[::2], values[1::2])]
    return joined(k, values[0], combine)


def _along(k: Kernel, count: Value, lanes: int, step: Callable[[Value], None]) -> None:
    """All of a row of `count` >= lanes values, some of it twice."""
    with k.loop(0, count, lanes) as i:
        step(k.minimum(i, count - lanes) if lanes > 1 else i)


def emit_reduction(spec: Reduction, estimates: bool) -> str:
    """The LLVM text of a reduction `[outer, count, inner]` to `[outer, inner]`."""
    k = Kernel(spec.name, ["data", "output", "outer", "count", "inner"])
    k.estimates = estimates
    data, output, outer, count, inner = k.arguments
    stored, computed = STORED[spec.element_type], COMPUTED[spec.element_type]
    combine = _COMBINE.get(spec.word, _sum)
    lanes, size = spec.lanes, stored.bytes
    identity = k.number(_identity(spec.word, computed), computed, lanes)

    def term(address: Value) -> Value:
        return _term(k, spec.word, widened(k, spec.element_type, k.load(address, stored, lanes)))

    def end(total: Value, address: Value) -> None:
        k.store(narrowed(k, _ended(k, spec.word, total, count), spec.element_type), address)

    with k.loop(0, outer) as block:
        first = data + block * count * inner * size

        def column(position: Value, first: Value = first, block: Value = block) -> None:
            total = k.variable(identity)
            with k.loop(0, count) as i:
                total.set(combine(k, total.get(), term(first + (i * inner + position) * size)))
            end(total.get(), output + (block * inner + position) * size)

        if spec.along_rows:
            end(folded(k, count, lanes, identity, combine, lambda i: term(first + i * size), spec.chains), output + block * size)
        else:
            _along(k, inner, lanes, column)
    k.finish()
    return k.text()


def emit_softmax(spec: Rows, estimates: bool) -> str:
    """The LLVM text of a softmax of f32 rows: exp of the distance to the largest, divided by their sum; or the logarithm of that."""
    k = Kernel(spec.name, ["data", "output", "rows", "count"])
    k.estimates = estimates
    data, output, rows, count = k.arguments
    lanes = spec.lanes
    with k.loop(0, rows) as row:
        source, target = data + row * count * 4, output + row * count * 4
        lowest, zero = k.number(-math.inf, F32, lanes), k.number(0.0, F32, lanes)
        # Whether a NaN is the largest does not matter: the sum will be one, and so all of the row.
        top = folded(k, count, lanes, lowest, Kernel.maximum, lambda i: k.load(source + i * 4, F32, lanes), spec.chains)
        tops = k.splat(top, lanes)

        def distance(i: Value, source: Value = source, tops: Value = tops) -> Value:
            return k.load(source + i * 4, F32, lanes) - tops

        def raised(i: Value, target: Value = target) -> Value:
            value = exp(k, distance(i))
            if spec.kind == "softmax":
                k.store(value, target + i * 4)
            return value

        total = folded(k, count, lanes, zero, _sum, raised, spec.chains)
        if spec.kind == "softmax":
            scale = k.splat(k.number(1.0, F32) / total, lanes)
            _scaled(k, count, lanes, target, scale)
        else:
            loss = k.splat(functions.log(k, total), lanes)
            _along(k, count, lanes, lambda i: k.store(distance(i) - loss, target + i * 4))
    k.finish()
    return k.text()


def _scaled(k: Kernel, count: Value, lanes: int, target: Value, scale: Value) -> None:
    """In place: the last vector is taken before any other is scaled, as some of it would be twice."""
    end = target + (count - lanes) * 4
    last = k.load(end, F32, lanes) * scale
    with k.loop(0, count // lanes * lanes, lanes) as i:
        k.store(k.load(target + i * 4, F32, lanes) * scale, target + i * 4)
    k.store(last, end)


def emit_standardising(spec: Rows, estimates: bool) -> str:
    """The LLVM text of MVN of f32 rows: the mean taken away, and the rest divided by the standard deviation unless it is only centred."""
    k = Kernel(spec.name, ["data", "output", "rows", "count"])
    k.estimates = estimates
    data, output, rows, count = k.arguments
    lanes = spec.lanes
    zero = k.number(0.0, F32, lanes)
    size = count.to(F32)

    def standardise(source: Value, target: Value) -> None:
        total = folded(k, count, lanes, zero, _sum, lambda i: k.load(source + i * 4, F32, lanes), spec.chains)
        mean = k.splat(total / size, lanes)

        def centred(i: Value) -> Value:
            return k.load(source + i * 4, F32, lanes) - mean

        def squared(i: Value) -> Value:
            difference = centred(i)
            return difference * difference

        if spec.kind == "centre":
            _along(k, count, lanes, lambda i: k.store(centred(i), target + i * 4))
            return
        variance = folded(k, count, lanes, zero, _sum, squared, spec.chains) / size
        inside = spec.kind == "standardise"
        deviation = k.intrinsic("sqrt", variance + spec.epsilon) if inside else k.intrinsic("sqrt", variance) + spec.epsilon
        divisor = k.splat(deviation, lanes)
        _along(k, count, lanes, lambda i: k.store(centred(i) / divisor, target + i * 4))

    with k.loop(0, rows) as row:
        standardise(data + row * count * 4, output + row * count * 4)
    k.finish()
    return k.text()
