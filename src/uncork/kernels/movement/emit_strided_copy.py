"""The emitter of strided copies: four loops over f32 numbers, by vectors or shuffles where the
strides allow.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, Kernel, Value, Variable, emitter
from uncork.kernels.movement.spec import COPY_LOOPS, StridedCopy


@emitter
def emit_strided_copy(k: Kernel, spec: StridedCopy) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    _clear(k, spec.lanes, a["cleared"], a["clear"])
    _loop(k, spec, a, 0, a["source"], a["target"])


def _clear(k: Kernel, lanes: int, address: Value, size: Value) -> None:
    done = k.variable(k.integer(0))
    for width in (4 * lanes, lanes, 1):
        zeros = k.constant(0.0, F32, min(width, lanes))
        with k.loop(done.get(), size - (width * 4 - 1), width * 4) as offset:
            for part in range(0, width, lanes):
                k.store(zeros, address + offset + part * 4)
            done.set(offset + width * 4)


def _loop(
    k: Kernel, spec: StridedCopy, a: dict[str, Value], depth: int, source: Value, target: Value
) -> None:
    if depth < COPY_LOOPS:
        with k.loop(0, a[f"count_{depth}"]) as i:
            _loop(
                k,
                spec,
                a,
                depth + 1,
                source + i * a[f"from_{depth}"],
                target + i * a[f"to_{depth}"],
            )
        return
    count, step, to = (a[f"{name}_{COPY_LOOPS}"] for name in ("count", "from", "to"))
    done = k.variable(k.integer(0))
    with k.if_(to.equals(4)):
        with k.if_(step.equals(4)):
            for lanes in (n for n in (spec.lanes, spec.lanes // 4) if n > 1):
                _neighbours(k, lanes, count, done, source, target)
        with k.if_(step.equals(8)):
            _every_other(k, spec.lanes, count, done, source, target)
    unrolled = 4
    with k.loop(done.get(), count - (unrolled - 1), unrolled) as i:
        for u in range(unrolled):
            k.store(k.load(source + (i + u) * step, F32), target + (i + u) * to)
        done.set(i + unrolled)
    with k.loop(done.get(), count) as i:
        k.store(k.load(source + i * step, F32), target + i * to)


def _neighbours(
    k: Kernel, lanes: int, count: Value, done: Variable, source: Value, target: Value
) -> None:
    """Copy all neighbouring numbers if there are enough for a vector, the last ones perhaps
    twice.
    """
    with k.if_((done.get() < count) & (count >= lanes)):
        last = count - lanes
        with k.loop(0, last, lanes) as i:
            k.store(k.load(source + i * 4, F32, lanes), target + i * 4)
        k.store(k.load(source + last * 4, F32, lanes), target + last * 4)
        done.set(count)


def _every_other(
    k: Kernel, lanes: int, count: Value, done: Variable, source: Value, target: Value
) -> None:
    """Copy every other number: two vectors are read for one that is written, and nothing is read
    before the first number or behind the last.
    """
    with k.if_(count > lanes):
        last = count - lanes
        with k.loop(0, last, lanes) as i:
            k.store(_alternate(k.load(source + i * 8, F32, 2 * lanes), 0), target + i * 4)
        k.store(_alternate(k.load(source + last * 8 - 4, F32, 2 * lanes), 1), target + last * 4)
        done.set(count)


def _alternate(value: Value, first: int) -> Value:
    """Every other lane of a vector, from lane `first` on."""
    k, lanes = value.kernel, value.lanes // 2
    return k.picked(value, value, range(first, 2 * lanes, 2))
