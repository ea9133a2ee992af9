"""Binary search in sorted rows. NaN is greater than every number. A sequence that is not sorted returns 1."""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import INDEX_TYPES, Kernel, Value, Variable
from uncork.kernels.codegen.functions import negated, precedes
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.elementwise.emit import STORED, widened
from uncork.kernels.runtime.target import Target
from uncork.kernels.search.spec import ARGUMENTS, Search


def emit_search(spec: Search, machine: Target) -> str:
    """The LLVM text of the kernel."""
    k = Kernel(spec.name, ARGUMENTS, machine)
    sequence, values, output, rows, length, count = k.arguments
    result, bytes_of = INDEX_TYPES[spec.result], STORED[spec.sequence].bytes

    def number(base: Value, i: Value, name: str) -> Value:
        stored = STORED[name]
        return widened(k, name, k.load(base + i * stored.bytes, stored)).to(COMPUTED[spec.compared])

    with k.loop(0, rows) as row:
        own = sequence + row * length * bytes_of
        _check(k, spec, own, length, number)
        with k.loop(0, count) as j:
            value = number(values, row * count + j, spec.values)
            base, left = k.variable(k.integer(0)), k.variable(length)

            def is_open(left: Variable = left) -> Value:
                return left.get() > 0

            with k.during(is_open):
                half = left.get() >> 1
                middle = number(own, base.get() + half, spec.sequence)
                before = negated(k, precedes(k, value, middle)) if spec.right else precedes(k, middle, value)
                base.set(k.select(before, base.get() + half + 1, base.get()))
                left.set(k.select(before, left.get() - half - 1, half))
            k.store(base.get().to(result), output + (row * count + j) * result.bytes)
    k.finish()
    return k.text()


def _check(k: Kernel, spec: Search, own: Value, length: Value, number: Callable[[Value, Value, str], Value]) -> None:
    """Stop where the sequence is not as it must be."""
    with k.loop(0, length) as i:
        here = number(own, i, spec.sequence)
        before = number(own, k.maximum(i - 1, k.integer(0)), spec.sequence)
        if spec.numbers:
            k.stop_unless(here.equals(here), k.integer(1))
        if spec.unique:
            k.stop_unless(i.equals(0) | precedes(k, before, here), k.integer(1))
        else:
            k.stop_unless(negated(k, precedes(k, here, before)), k.integer(1))
