"""Element by element: one loop over rows, one along them, in vectors and then one by one."""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.activations import exact_sigmoid, exact_tanh, exp, relu
from uncork.kernels.elementwise import Elementwise, SoftMax
from uncork.kernels.emit import F32, F64, INDEX_TYPES, U8, Kernel, Type, Value

_TYPES: dict[str, Type] = {"f32": F32, "f64": F64, "boolean": U8, **INDEX_TYPES}


def _larger(k: Kernel, a: Value, b: Value) -> Value:
    """As NumPy's maximum: NaN when either is."""
    return k.select(a.equals(a), k.select(b.equals(b), k.select(a > b, a, b), b), a)


def _smaller(k: Kernel, a: Value, b: Value) -> Value:
    return k.select(a.equals(a), k.select(b.equals(b), k.select(a < b, a, b), b), a)


def _absolute(k: Kernel, a: Value) -> Value:
    if a.type.kind == "float":
        return k.intrinsic("fabs", a)
    return a if a.type.kind == "unsigned" else k.select(a < 0, -a, a)


def _rectified(k: Kernel, a: Value) -> Value:
    return relu(k, a) if a.type == F32 else k.select(a < 0, k.number(0, a.type, a.lanes), a)


_UNARY: dict[str, Callable[[Kernel, Value], Value]] = {
    "ReLU": _rectified,
    "Sigmoid": exact_sigmoid,
    "Tanh": exact_tanh,
    "Exp": exp,
    "Sqrt": lambda k, a: k.intrinsic("sqrt", a),
    "Abs": _absolute,
    "Negative": lambda k, a: -a,
    "Convert": lambda k, a: a,
}
_BINARY: dict[str, Callable[[Kernel, Value, Value], Value]] = {
    "Add": lambda k, a, b: a + b,
    "Subtract": lambda k, a, b: a - b,
    "Multiply": lambda k, a, b: a * b,
    "Divide": lambda k, a, b: a / b,
    "SquaredDifference": lambda k, a, b: (a - b) * (a - b),
    "Maximum": _larger,
    "Minimum": _smaller,
}


def emit_elementwise(spec: Elementwise, estimates: bool) -> str:
    """The LLVM text of an element-wise kernel."""
    k = Kernel(spec.name, ["a", "b", "output", "outer", "inner"])
    k.estimates = estimates
    a, b, output, outer, inner = k.arguments
    types = [_TYPES[t] for t in spec.operands]
    result = _TYPES[spec.result]
    width = max(1, spec.lanes * 4 // max(t.bytes for t in (*types, result)))

    def operand(number: int, row: Value, position: Value, count: int) -> Value:
        base, type_, pattern = (a, b)[number], types[number], spec.patterns[number]
        if pattern in ("one", "outer"):
            at = base if pattern == "one" else base + row * type_.bytes
            return k.splat(k.load(at, type_), count)
        index = position if pattern == "inner" else row * inner + position
        return k.load(base + index * type_.bytes, type_, count)

    def compute(row: Value, position: Value, count: int) -> None:
        values = [operand(i, row, position, count) for i in range(len(types))]
        value = _UNARY[spec.operation](k, values[0]) if len(values) == 1 else _BINARY[spec.operation](k, values[0], values[1])
        k.store(value.to(result), output + (row * inner + position) * result.bytes)

    whole = inner // width * width
    with k.loop(0, outer) as row:
        with k.loop(0, whole, width) as position:
            compute(row, position, width)
        with k.loop(whole, inner) as position:
            compute(row, position, 1)
    k.finish()
    return k.text()


def emit_softmax(spec: SoftMax, estimates: bool) -> str:
    """The LLVM text of a softmax along the last axis: exp of the distance to the largest, divided by their sum."""
    k = Kernel(spec.name, ["data", "output", "rows", "count"])
    k.estimates = estimates
    data, output, rows, count = k.arguments
    whole = count // spec.lanes * spec.lanes

    def along(step: Callable[[Value, int], None]) -> None:
        with k.loop(0, whole, spec.lanes) as i:
            step(i, spec.lanes)
        with k.loop(whole, count) as i:
            step(i, 1)

    with k.loop(0, rows) as row:
        source, target = data + row * count * 4, output + row * count * 4
        lowest = float("-inf")
        wide, single = k.variable(k.number(lowest, F32, spec.lanes)), k.variable(k.number(lowest, F32))

        def find(i: Value, n: int, source: Value = source, wide: object = wide, single: object = single) -> None:
            largest = wide if n > 1 else single
            largest.set(_larger(k, largest.get(), k.load(source + i * 4, F32, n)))  # type: ignore[attr-defined]

        along(find)
        top = single.get()
        for lane in range(spec.lanes):
            top = _larger(k, top, wide.get().part(lane, 1))
        wide.set(k.number(0.0, F32, spec.lanes))
        single.set(k.number(0.0, F32))

        def raise_(i: Value, n: int, source: Value = source, target: Value = target, top: Value = top) -> None:
            value = exp(k, k.load(source + i * 4, F32, n) - k.splat(top, n))
            k.store(value, target + i * 4)
            total = wide if n > 1 else single
            total.set(total.get() + value)

        along(raise_)
        sum_ = single.get()
        for lane in range(spec.lanes):
            sum_ = sum_ + wide.get().part(lane, 1)
        scale = k.number(1.0, F32) / sum_

        def divide(i: Value, n: int, target: Value = target, scale: Value = scale) -> None:
            k.store(k.load(target + i * 4, F32, n) * k.splat(scale, n), target + i * 4)

        along(divide)
    k.finish()
    return k.text()
