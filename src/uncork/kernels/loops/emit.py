"""The emitter of loop nests: the text of `language.py` as LLVM's.

The loop over the vector's axis has its body up to three times: several full vectors together, one
full vector, and the rest. Which one runs next is a condition over all that the body may read: the
axis goes on for so long, and every padded index is inside. So full vectors have no masks, and
borders, tails and windows that lie outside need no code of their own. The rest is one vector with
masks where the processor has them for all types of the nest, else one element at a time; nests of
rows (`RowNest`) have no such rest, but a last vector that lies over the one before it: what was
seen already is left out of reductions, and computed again, to the same value, where it is stored.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import BOOL, I32, Kernel, Value
from uncork.kernels.codegen.functions import negated
from uncork.kernels.codegen.joining import COMBINE, identity, joined
from uncork.kernels.elementwise.emit import STORED
from uncork.kernels.loops.emit_state import State
from uncork.kernels.loops.emit_values import Values
from uncork.kernels.loops.emit_views import Views, spread_of
from uncork.kernels.loops.language import (
    REFUSED,
    Assign,
    Axis,
    LoopBlock,
    certainly_linear,
    indices,
    linear,
    name_of,
    parse,
)
from uncork.kernels.loops.spec import AGAIN, MASKED, Nest
from uncork.kernels.runtime.target import Target

#: Axes and views are shorter than this, or the kernel gives up.
_MOST = 1 << 31


def emit_nest(spec: Nest, machine: Target) -> str:
    """The LLVM text of a nest."""
    program = parse(spec.text)
    k = Kernel(spec.name, program.arguments, machine)
    arguments = dict(zip(program.arguments, k.arguments, strict=True))
    fits = k.constant(1, BOOL)
    for name, value in arguments.items():  # positions are computed in 32 bits lane by lane
        if name in program.sizes or "_size_" in name:
            fits = fits & (value < _MOST)
    k.stop_unless(fits, k.integer(1))
    state = State(k, spec, program, arguments)
    _Emitter(state, has_masks(machine, spec)).items(program.body.body)
    k.finish()
    return k.text()


def has_masks(machine: Target, spec: Nest) -> bool:
    """Whether the processor has masked loads and stores of vectors of every type of the nest."""
    least = min(STORED[name].bytes for _, name in spec.types)
    return machine.has("avx512bw") or (machine.has("avx2") and least >= 4)


class _Emitter:
    """Writes blocks and statements."""

    def __init__(self, state: State, masks: bool) -> None:
        self.state, self.masks, self.k = state, masks, state.k
        self.views = Views(state)
        self.values = Values(state, self.views)
        state.reads = self.views.read

    def items(self, items: Sequence[Assign | LoopBlock]) -> None:
        for item in items:
            if isinstance(item, LoopBlock):
                self.block(item)
            else:
                self.assign(item)

    # ---- blocks

    def block(self, block: LoopBlock) -> None:
        """Emit the loops of a block, with the reductions over them begun before and ended after."""
        s, k = self.state, self.k
        own = [item for item in block.body if isinstance(item, Assign) and item.reduction]
        across = next((axis.name for axis in block.axes if axis.vector), "")
        read = {
            n.id
            for item in block.body
            if isinstance(item, Assign)
            for n in ast.walk(item.value)
            if isinstance(n, ast.Name)
        }
        before = dict(s.running), set(s.scanned), set(s.across)
        names = [name_of(item.target) for item in own if isinstance(item.target, ast.Name)]
        if across:
            s.scanned = s.scanned | (set(names) & read)
            s.across = s.across | set(names)
        scans = bool(across) and bool(set(names) & s.scanned)
        chains = (
            1 if scans else self.state.spec.unroll if across else s.vectors if s.lanes > 1 else 1
        )
        for item, name in zip(own, names, strict=True):
            kind = self.values.kind(item.value) or s.default
            s.kinds[name] = kind
            lanes = 1 if name in s.scanned else s.spec.lanes if across else s.lanes
            first = k.constant(identity(item.reduction, kind), kind, lanes)
            s.running[name] = [k.variable(first) for _ in range(chains)]
        self.loops(block.axes, block, 1 if scans else s.spec.unroll)
        for item, name in zip(own, names, strict=True):
            ended = [variable.get() for variable in s.running[name]]
            combine = COMBINE[item.reduction]
            while across and len(ended) > 1:
                ended = [
                    combine(k, a, b) for a, b in zip(ended[::2], ended[1::2], strict=False)
                ] + ended[len(ended) & ~1 :]
            s.values[name] = [joined(k, ended[0], combine)] if across else ended
        s.running, s.scanned, s.across = before

    def loops(self, axes: Sequence[Axis], block: LoopBlock, unroll: int) -> None:
        s, k = self.state, self.k
        s.cache = {}
        if not axes:
            self.items(block.body)
            return
        axis, rest = axes[0], axes[1:]
        if axis.vector:
            self._vectors(axis, block, lambda: self.loops(rest, block, unroll), unroll)
        elif axis.size is not None:
            for turn in range(axis.size):
                s.at[axis.name], s.fixed[axis.name] = k.integer(turn), turn
                self.loops(rest, block, unroll)
            s.fixed.pop(axis.name)
        else:
            if axis.bounds:
                first, last = (s.position(bound) for bound in axis.bounds)
            else:
                first, last = k.integer(0), s.arguments[axis.name]
            with k.loop(first, last) as s.at[axis.name]:
                self.loops(rest, block, unroll)
        s.at.pop(axis.name, None)
        s.cache = {}

    def _vectors(
        self, axis: Axis, block: LoopBlock, inner: Callable[[], None], unroll: int
    ) -> None:
        """Emit the loop along the vector's axis: full vectors, several or one at a time, where all
        elements that they read exist; then the rest.
        """
        s, k = self.state, self.k
        first = k.integer(0)
        if axis.bounds:
            first, s.ends[axis.name] = (s.position(bound) for bound in axis.bounds)
        place, size = k.variable(first), s.size(axis.name)
        s.vector = axis.name

        def turn(mode: str, vectors: int) -> None:
            s.mode, s.vectors, s.active = mode, vectors, None
            x = s.at[axis.name]
            if mode == "masked":
                s.active = k.lanes_below(size - x, s.lanes)
            inner()
            place.set(s.at[axis.name] + vectors * s.lanes)

        def ways(counts: Sequence[int], rest: Callable[[], None]) -> None:
            if not counts:
                rest()
                return
            x = s.at[axis.name]
            with k.if_else(self._fits(x, counts[0], size, block)) as (yes, no):
                with yes:
                    turn("full", counts[0])
                    s.at[axis.name] = x
                with no:
                    ways(counts[1:], rest)
                    s.at[axis.name] = x

        def some() -> None:
            turn("masked" if self.masks and s.spec.lanes > 1 else "single", 1)

        def all_of(counts: Sequence[int], end: Value, rest: Callable[[], None]) -> None:
            with k.while_(lambda: place.get() < end):
                s.at[axis.name] = place.get()
                ways(counts, rest)

        def by_last() -> None:
            """At least a vector, the last of which may lie over the one before it."""
            last = size - s.spec.lanes
            s.at[axis.name] = last
            held = self._held(block)
            # Of columns there are few vectors: half as many may be left, and half of these.
            columns = any(isinstance(item, LoopBlock) for item in block.body)
            several = [unroll >> n for n in range(unroll.bit_length() - 1)]
            all_of(several if columns else several[:1], last + 1, lambda: turn("full", 1))
            s.at[axis.name], s.mode, s.vectors, s.active = last, "full", 1, None
            if held:
                for target, values in held:
                    self.views.write(target, values)
                return
            with k.if_(place.get() < size):
                s.fresh = s.iota() >= k.splat((place.get() - last).to(I32), s.lanes)
                inner()
                s.fresh = None

        counts = sorted({unroll, 1}, reverse=True) if s.spec.lanes > 1 else []
        if s.spec.lanes == 1 or s.spec.tail == MASKED:
            all_of(counts, size, some)
        elif s.spec.tail == AGAIN:
            by_last()
        else:
            k.either(size >= s.spec.lanes, by_last, lambda: all_of([], size, some), likely=True)
        s.vector, s.mode, s.vectors, s.active = "", "none", 1, None

    def _held(self, block: LoopBlock) -> list[tuple[ast.Subscript, list[Value]]]:
        """What the last vector stores, where views are changed in place: it is computed before any
        other, for some of its elements belong to the one before it.
        """
        s = self.state
        stores = [item for item in block.statements if isinstance(item.target, ast.Subscript)]
        written = {name_of(item.target.value) for item in stores}  # type: ignore[union-attr]
        for item in block.statements:
            read = {name_of(n.value) for n in ast.walk(item.value) if isinstance(n, ast.Subscript)}
            if not read.isdisjoint(written):
                break
            if isinstance(item.target, ast.Subscript):
                written.discard(name_of(item.target.value))
        else:
            return []
        assert len(stores) == len(list(block.statements)), "in place nothing else is computed"
        s.mode, s.vectors, s.active, s.cache = "full", 1, None, {}
        held = [(item.target, self.values.typed(item.value)) for item in stores]
        s.cache = {}
        return held  # type: ignore[return-value]

    # ---- conditions

    def _fits(self, x: Value, vectors: int, size: Value, block: LoopBlock) -> Value:
        """Whether all elements that so many vectors read exist."""
        s = self.state
        count = vectors * s.spec.lanes
        fine, seen = x + count <= size, set()
        for node, padded in accesses(block):
            for d, place in enumerate(indices(node)):
                divisor = spread_of(place, s.vector)
                if divisor:
                    fine = fine & (x & (min(divisor, s.spec.lanes) - 1)).equals(0)
                step = self._step(place)
                key = name_of(node.value), d, ast.unparse(place), padded
                if key in seen or step < 0 or not (padded or step > 1) or linear(place) is None:
                    continue
                seen.add(key)
                limit = s.arguments[f"{name_of(node.value)}_size_{d}"]
                fine = fine & self._inside(place, x, count, limit, padded)
        return fine

    def _step(self, place: ast.expr) -> int:
        found = linear(place)
        return 0 if found is None else found.factors.get(self.state.vector, 0)

    def _inside(self, place: ast.expr, x: Value, count: int, limit: Value, padded: bool) -> Value:
        """Whether an index is inside a dimension for all lanes and in all turns of the loops
        inside.
        """
        s, k = self.state, self.k
        found = certainly_linear(place)
        step = found.factors.get(s.vector, 0)
        low = high = k.integer(0)
        least = most = found.constant
        for name, factor in found.factors.items():
            if name == s.vector:
                low, high = low + x * factor, high + x * factor
                continue
            axis = s.program.axes.get(name)
            if axis is not None and name not in s.at and axis.size is not None:
                ends = 0, (axis.size - 1) * factor
                least, most = least + min(ends), most + max(ends)
                continue
            first, last = self._range(name)
            low = low + (first if factor > 0 else last) * factor
            high = high + (last if factor > 0 else first) * factor
        if step > 1:  # whole vectors from a multiple of the step on
            least, most = least - least % step, most - most % step + step * count - 1
        elif step == 1:
            most += count - 1
        fine = high + most < limit
        return fine & (low + least >= 0) if padded else fine

    def _range(self, name: str) -> tuple[Value, Value]:
        """The first and the last number of an axis or an argument."""
        s, k = self.state, self.k
        if name in s.at:
            return s.at[name], s.at[name]
        axis = s.program.axes[name]
        if axis.bounds:
            first, last = (s.position(bound) for bound in axis.bounds)
            return first, last - 1
        return k.integer(0), s.size(name) - 1

    # ---- statements

    def assign(self, item: Assign) -> None:
        s = self.state
        if isinstance(item.target, ast.Subscript):
            word, parts = self.values.stored(item.value)
            if word == "interleaved":
                self.views.write_interleaved(item.target, parts)
            else:
                self.views.write(item.target, parts[0], whole=word == "whole")
            written = name_of(item.target.value)
            s.cache = {
                key: value
                for key, value in s.cache.items()
                if not key.removeprefix("pad(").startswith(f"{written}[")
            }
        elif item.target.id == REFUSED:
            for refused in self.values.typed(item.value):
                wrong = refused if s.active is None else refused & s.active
                self.k.stop_unless(self.k.all_of(negated(self.k, wrong)), self.k.integer(1))
        elif item.reduction:
            self._accumulate(
                item.target.id,
                item.reduction,
                s.typed(self.values.value(item.value), s.kinds[item.target.id]),
            )
        else:
            values = self.values.typed(item.value)
            s.values[item.target.id], s.kinds[item.target.id] = values, values[0].type

    def _accumulate(self, name: str, word: str, terms: list[Value]) -> None:
        s, k, combine = self.state, self.k, COMBINE[word]
        places = s.running[name]
        lanes = s.lanes
        terms = [k.splat(term, lanes) if term.lanes < lanes else term for term in terms]
        if len(terms) < s.vectors and s.mode == "full":
            terms = terms * s.vectors
        neutral = k.constant(identity(word, terms[0].type), terms[0].type, lanes)
        if name in s.scanned:
            self._scan(
                name, word, terms[0] if s.active is None else k.select(s.active, terms[0], neutral)
            )
            return
        counted = s.fresh if s.active is None else s.active
        if name in s.across and counted is not None:
            terms = [k.select(counted, term, neutral) for term in terms]
        if name in s.across and s.spec.lanes > lanes:  # one element at a time
            across = s.spec.lanes
            whole = k.constant(identity(word, terms[0].type), terms[0].type, across)
            first = ir.Constant(ir.IntType(32), 0)
            terms = [
                Value(
                    k,
                    k.builder.insert_element(whole.llvm, terms[0].llvm, first),
                    terms[0].type,
                    across,
                )
            ]
        for term, place in zip(terms, places, strict=False):
            place.set(combine(k, place.get(), term))

    def _scan(self, name: str, word: str, term: Value) -> None:
        """Emit a running sum: to each lane the sums of 1, 2, 4, .. lanes before it are added, then
        what came before the vector; the last lane goes on.
        """
        s, k, combine = self.state, self.k, COMBINE[word]
        (carry,) = s.running[name]
        neutral = k.constant(identity(word, term.type), term.type, term.lanes)
        distance = 1
        while distance < term.lanes:
            picks = [term.lanes] * distance + list(range(term.lanes - distance))
            term = combine(k, s.k.picked(term, neutral, picks), term)
            distance *= 2
        total = combine(k, k.splat(carry.get(), term.lanes), term)
        s.values[name] = [total]
        carry.set(total.part(term.lanes - 1, 1))


def accesses(block: LoopBlock) -> Iterator[tuple[ast.Subscript, bool]]:
    """All elements that are read, and whether what lies outside has a value."""
    for statement in block.statements:
        calls = [n for n in ast.walk(statement.value) if isinstance(n, ast.Call)]
        padded = {id(call.args[0]) for call in calls if name_of(call.func) in ("pad", "inside")}
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Subscript):
                yield node, id(node) in padded
