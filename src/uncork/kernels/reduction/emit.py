"""The emitter of reductions along axes, and of softmax and standardising along rows.

A row is walked through in vectors. Where its length is no multiple of theirs the last one lies over
the one before it: what was seen already is masked for sums, and computed again, to the same value,
where something is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Union

from uncork.kernels.codegen import functions
from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.activations import exp
from uncork.kernels.codegen.emit import F32, I32, Kernel, Value, Variable, emitter
from uncork.kernels.codegen.joining import COMBINE, Combine, joined, plus
from uncork.kernels.codegen.joining import identity as identity_of
from uncork.kernels.codegen.scalar_ops import COMPUTED, absolute
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.reduction.spec import Reduction, Rows


def _term(k: Kernel, op: str, x: Value) -> Value:
    if op == "l1":
        return absolute(k, x)
    return x * x if op == "l2" else x


def _ended(k: Kernel, op: str, total: Value, count: Value) -> Value:
    if op == "mean":
        return total / k.splat(count.to(total.type), total.lanes)
    return k.intrinsic("sqrt", total) if op == "l2" else total


def _from(k: Kernel, first: Value, lanes: int) -> Value:
    """The mask of the lanes from number `first` on."""
    numbers = (
        ir.Constant(ir.VectorType(I32.llvm, lanes), list(range(lanes)))
        if lanes > 1
        else ir.Constant(I32.llvm, 0)
    )
    return Value(k, numbers, I32, lanes) >= k.splat(first.to(I32), lanes)


#: How many values of a long row are joined first: whole turns of any number of accumulators.
BLOCK = 4096
#: The vector of a row that begins at a position; a mask says which of its lanes there are, None
#: that all are.
Term = Callable[[Value, Union[Value, None]], Value]
Action = Callable[[Value, Union[Value, None]], None]


class VectorRow:
    """A row of `count` values that a kernel walks through in vectors: there are at least as many as
    lanes, unless it is an `open_row`.
    """

    def __init__(self, k: Kernel, count: Value, spec: Union[Reduction, Rows]) -> None:
        self.k, self.count, self.lanes = k, count, spec.lanes
        self.accumulators, self.may_be_short = spec.accumulators, spec.open_row and spec.lanes > 1

    def either(self, whole: Callable[[], None], short: Callable[[Value], None]) -> None:
        """Do one thing with a row of at least a vector, another with a shorter one: the lanes that
        it has.
        """
        k = self.k
        if not self.may_be_short:
            whole()
            return
        k.either(
            self.count >= self.lanes,
            whole,
            lambda: short(k.lanes_below(self.count, self.lanes)),
            likely=True,
        )

    def folded(self, identity: Value, combine: Combine, term: Term, blocks: bool) -> Value:
        """`term(position)` joined over the row, in several accumulators in turn. With `blocks`
        those of each block are joined first: sums of long rows lose less.
        """
        if not self.may_be_short:
            return self._folded_vectors(identity, combine, term, blocks)
        k = self.k
        result = k.variable(identity.part(0, 1))

        def short(mask: Value) -> None:
            result.set(joined(k, k.select(mask, term(k.integer(0), mask), identity), combine))

        self.either(
            lambda: result.set(self._folded_vectors(identity, combine, term, blocks)), short
        )
        return result.get()

    def _folded_vectors(self, identity: Value, combine: Combine, term: Term, blocks: bool) -> Value:
        """The fold of at least as many values as a vector has lanes."""
        k, count, lanes, accumulators = self.k, self.count, self.lanes, self.accumulators
        partial = [k.variable(identity) for _ in range(accumulators)]
        whole = count // lanes * lanes

        def add(chain: Variable, value: Value) -> None:
            chain.set(combine(k, chain.get(), value))

        def turns(first: Value | int, end: Value) -> None:
            with k.loop(first, end, lanes * accumulators) as i:
                for index, chain in enumerate(partial):
                    add(chain, term(i + index * lanes, None))

        rest = k.integer(0)
        if blocks:
            joined_blocks = k.variable(identity)
            rest = count // BLOCK * BLOCK
            with k.loop(0, rest, BLOCK) as begin:
                turns(begin, begin + BLOCK)
                for chain in partial:
                    add(joined_blocks, chain.get())
                    chain.set(identity)
        if accumulators > 1:
            begun, rest = rest, count // (lanes * accumulators) * (lanes * accumulators)
            turns(begun, rest)
        with k.loop(rest, whole, lanes) as i:
            add(partial[0], term(i, None))
        if lanes > 1:
            with k.if_(whole < count):
                fresh = _from(k, whole + lanes - count, lanes)
                add(partial[-1], k.select(fresh, term(count - lanes, None), identity))
        if blocks:
            add(partial[0], joined_blocks.get())
        values = [chain.get() for chain in partial]
        while len(values) > 1:
            values = [combine(k, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return joined(k, values[0], combine)

    def along(self, step: Action, first: Value | int = 0) -> None:
        """Do `step` for all vectors from the `first` on, for some values twice."""
        k, count, lanes = self.k, self.count, self.lanes

        def vectors() -> None:
            with k.loop(first, count, lanes) as i:
                step(k.minimum(i, count - lanes) if lanes > 1 else i, None)

        self.either(vectors, lambda mask: step(k.integer(0), mask))

    def scaled(self, target: Value, scale: Value) -> None:
        """Multiply the row, which lies there, by `scale` in place."""
        k = self.k
        self.either(
            lambda: self._scaled_vectors(target, scale),
            lambda mask: k.store(k.load(target, F32, self.lanes, mask) * scale, target, mask),
        )

    def _scaled_vectors(self, target: Value, scale: Value) -> None:
        """Multiply a row of at least a vector in place. The last vector is loaded before any other
        is stored, as some of it would be scaled twice.
        """
        k, lanes = self.k, self.lanes
        end = target + (self.count - lanes) * 4
        last = k.load(end, F32, lanes) * scale
        with k.loop(0, self.count // lanes * lanes, lanes) as i:
            k.store(k.load(target + i * 4, F32, lanes) * scale, target + i * 4)
        k.store(last, end)


@emitter
def emit_reduction(k: Kernel, spec: Reduction) -> None:
    """The LLVM text of a reduction of `[outer, count, inner]` to `[outer, inner]`, both parts of
    tensors whose last axis has `row` elements.
    """
    data, output, outer, count, inner, row = k.arguments
    stored, computed = STORED[spec.element_type], COMPUTED[spec.element_type]
    combine = COMBINE.get(spec.op, plus)
    lanes, size = spec.lanes, stored.bytes
    identity = k.constant(identity_of(spec.op, computed), computed, lanes)

    def term(address: Value, mask: Value | None) -> Value:
        return _term(
            k, spec.op, widened(k, spec.element_type, k.load(address, stored, lanes, mask))
        )

    def end(total: Value, address: Value, mask: Value | None = None) -> None:
        if spec.op == "prod" and computed.kind == "float":
            # Infinity times 0, which the reference may not meet: it multiplies in another order.
            k.stop_unless(k.all_of(total.equals(total)), k.integer(1))
        k.store(narrowed(k, _ended(k, spec.op, total, count), spec.element_type), address, mask)

    of_count, of_inner = VectorRow(k, count, spec), VectorRow(k, inner, spec)
    with k.loop(0, outer) as block:
        first = data + block * count * row * size

        def columns(
            position: Value,
            mask: Value | None,
            vectors: int = 1,
            first: Value = first,
            block: Value = block,
        ) -> None:
            """Some vectors of columns side by side."""
            partial = [k.variable(identity) for _ in range(vectors)]
            places = [position + index * lanes for index in range(vectors)]
            rest = k.integer(0)

            def rows(begin: Value, end: Value) -> None:
                with k.loop(begin, end) as i:
                    for place, chain in zip(places, partial, strict=True):
                        value = term(first + (i * row + place) * size, mask)
                        chain.set(combine(k, chain.get(), value))

            if spec.blocks:
                totals = [k.variable(identity) for _ in range(vectors)]
                rest = count // BLOCK * BLOCK
                with k.loop(0, rest, BLOCK) as begin:
                    rows(begin, begin + BLOCK)
                    for total, chain in zip(totals, partial, strict=True):
                        total.set(combine(k, total.get(), chain.get()))
                        chain.set(identity)
            rows(rest, count)
            for index, (place, chain) in enumerate(zip(places, partial, strict=True)):
                if spec.blocks:
                    chain.set(combine(k, totals[index].get(), chain.get()))
                end(chain.get(), output + (block * row + place) * size, mask)

        def of_row(position: Value, mask: Value | None, first: Value = first) -> Value:
            return term(first + position * size, mask)

        if spec.along_rows:
            total = of_count.folded(identity, combine, of_row, spec.blocks)
            end(total, output + block * size)
        else:
            done: Value | int = 0
            several = spec.accumulators
            while several > 1:
                begun, done = done, inner // (lanes * several) * (lanes * several)
                with k.loop(begun, done, lanes * several) as i:
                    columns(i, None, several)
                several //= 2
            of_inner.along(columns, done)


@emitter
def emit_rows(k: Kernel, spec: Rows) -> None:
    """The LLVM text of a kernel of whole rows."""
    (_softmax if spec.kind.endswith("softmax") else _standardising)(k, spec)


def _softmax(k: Kernel, spec: Rows) -> None:
    """The LLVM text of a softmax of f32 rows: exp of the distance to the largest, divided by their
    sum; or the logarithm of that.
    """
    data, output, rows, count = k.arguments
    lanes = spec.lanes
    values = VectorRow(k, count, spec)
    with k.loop(0, rows) as row:
        source, target = data + row * count * 4, output + row * count * 4
        lowest, zero = k.constant(-math.inf, F32, lanes), k.constant(0.0, F32, lanes)

        # Whether a NaN is the largest does not matter: the sum will be one, and so all of the row.
        def value_at(i: Value, mask: Value | None, source: Value = source) -> Value:
            return k.load(source + i * 4, F32, lanes, mask)

        top = values.folded(lowest, Kernel.maximum, value_at, False)
        tops = k.splat(top, lanes)

        def raised(
            i: Value, mask: Value | None, target: Value = target, tops: Value = tops
        ) -> Value:
            value = exp(k, value_at(i, mask) - tops)
            if spec.kind == "softmax":
                k.store(value, target + i * 4, mask)
            return value

        total = values.folded(zero, plus, raised, spec.blocks)
        if spec.kind == "softmax":
            scale = k.splat(k.constant(1.0, F32) / total, lanes)
            values.scaled(target, scale)
        else:
            loss = k.splat(functions.log(k, total), lanes)

            def less(
                i: Value,
                mask: Value | None,
                target: Value = target,
                tops: Value = tops,
                loss: Value = loss,
            ) -> None:
                k.store(value_at(i, mask) - tops - loss, target + i * 4, mask)

            values.along(less)


def _standardising(k: Kernel, spec: Rows) -> None:
    """The LLVM text of MVN of f32 rows: the mean taken away, and the rest divided by the standard
    deviation unless it is only centred.
    """
    data, output, rows, count = k.arguments
    lanes = spec.lanes
    zero = k.constant(0.0, F32, lanes)
    size = count.to(F32)
    values = VectorRow(k, count, spec)

    def standardise(source: Value, target: Value) -> None:
        def value_at(i: Value, mask: Value | None) -> Value:
            return k.load(source + i * 4, F32, lanes, mask)

        total = values.folded(zero, plus, value_at, spec.blocks)
        mean = k.splat(total / size, lanes)

        def centred(i: Value, mask: Value | None) -> Value:
            return value_at(i, mask) - mean

        def squared(i: Value, mask: Value | None) -> Value:
            difference = centred(i, mask)
            return difference * difference

        def store_centred(i: Value, mask: Value | None) -> None:
            k.store(centred(i, mask), target + i * 4, mask)

        if spec.kind == "centre":
            values.along(store_centred)
            return
        variance = values.folded(zero, plus, squared, spec.blocks) / size
        inside = spec.kind == "standardise"
        deviation = (
            k.intrinsic("sqrt", variance + spec.epsilon)
            if inside
            else k.intrinsic("sqrt", variance) + spec.epsilon
        )
        divisor = k.splat(deviation, lanes)

        def store_divided(i: Value, mask: Value | None) -> None:
            k.store(centred(i, mask) / divisor, target + i * 4, mask)

        values.along(store_divided)

    with k.loop(0, rows) as row:
        standardise(data + row * count * 4, output + row * count * 4)
