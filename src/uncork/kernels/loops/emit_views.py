"""Elements of views: read and written as vectors, by steps, backwards, spread, or gathered from
computed positions.
"""

from __future__ import annotations

import ast
from typing import Any

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import BOOL, F32, I32, I64, Type, Value
from uncork.kernels.codegen.scalar_ops import COMPUTED
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.loops.emit_state import Operand, State
from uncork.kernels.loops.language import (
    Linear,
    certainly_linear,
    indices,
    linear,
    name_of,
    repeats,
)

#: The vector's axis may step over so many elements.
MOST_STEP = 4
#: Further than any lane is from the first one.
_FAR = 1 << 30


def spread_of(node: ast.expr, vector: str) -> int:
    """The divisor of an index such as `x // 2`, x being the vector's axis; 0 of any other index."""
    divides = (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.FloorDiv)
        and isinstance(node.left, ast.Name)
        and node.left.id == vector
    )
    return int(ast.literal_eval(node.right)) if divides and isinstance(node, ast.BinOp) else 0


def steps_of(state: State, view: str, found: Linear) -> tuple[int, Value, int, int]:
    """The parts of an index along the vector: its step, where it begins without known parts, and
    these as a multiple of the step and a rest.
    """
    step = found.factors[state.vector]
    first = state.at[state.vector] * step
    offset = found.constant
    for name, factor in found.factors.items():
        if name in state.fixed:
            offset += state.fixed[name] * factor
        elif name != state.vector:
            first = first + state.at[name] * factor
    rest = offset % step if step > 1 else 0
    return step, first, offset - rest, rest


class Views:
    """Reads and writes elements of the views of a nest."""

    def __init__(self, state: State) -> None:
        self.state, self.k = state, state.k

    def _bytes(self, view: str) -> int:
        return STORED[self.state.types[view]].bytes

    def address(self, view: str, places: list[ast.expr], skip: set[int]) -> Value:
        """The address of an element by all indices but those in `skip`, which count as 0."""
        s = self.state
        place = s.arguments[view]
        for d, node in enumerate(places):
            if d not in skip:
                place = place + s.position(node) * s.arguments[f"{view}_stride_{d}"]
        return place

    def _valid(self, view: str, places: list[ast.expr], skip: set[int]) -> Value:
        """Whether all indices but those in `skip` are inside."""
        s = self.state
        valid = self.k.constant(1, BOOL)
        for d, node in enumerate(places):
            if d not in skip:
                valid = valid & s.position(node).below(s.arguments[f"{view}_size_{d}"])
        return valid

    # ---- reading

    def read(self, node: ast.Subscript, padding: Operand | None = None) -> list[Value]:
        """The values of an element, as they are computed with."""
        s, view, places = self.state, name_of(node.value), indices(node)
        along = {d for d, place in enumerate(places) if s.varies(place)}
        if not along:
            return [self._one(view, places, padding)]
        last = places[-1]
        if along == {len(places) - 1}:
            found = linear(last)
            if found is not None and s.factor(last) and s.factor(last) <= MOST_STEP:
                return (
                    self._reversed(view, places, found)
                    if s.factor(last) < 0
                    else self._stepped(view, places, found, padding)
                )
            if repeats(last):
                base = self.address(view, places, {len(places) - 1})
                return [self._vector(view, base, s.lanes, None, None)]
            if spread_of(last, s.vector):
                return self._spread(view, places, spread_of(last, s.vector))
            if isinstance(last, ast.Call) and name_of(last.func) == "near" and self._permutes(view):
                return self._near(view, places, *last.args)
        return self._gathered(view, places, along, padding)

    def _permutes(self, view: str) -> bool:
        """Whether the processor picks the lanes of a vector of this view from two others."""
        machine = self.k.target
        return (
            self._bytes(view) == F32.bytes
            and self.state.lanes == 16
            and machine is not None
            and machine.has("avx512f")
        )

    def _near(
        self, view: str, places: list[ast.expr], table: ast.expr, begin: ast.expr | None = None
    ) -> list[Value]:
        """The elements at positions that lie within two vectors, from `begin` or the first position
        on; both vectors are read whole.
        """
        k, s = self.k, self.state
        base = self.address(view, places, {len(places) - 1})
        assert isinstance(table, ast.Subscript)
        results: list[Value] = []
        for number in self.read(table):
            first = number.part(0, 1) if begin is None else s.position(begin).to(I32)
            there = base + first.to(I64) * 4
            near, far = (k.load(there + n * s.lanes * 4, F32, s.lanes) for n in range(2))
            picked = k.permute_two(near, far, number - k.splat(first, s.lanes))
            results.append(picked.bits_as(STORED[s.types[view]]))
        return results

    def _one(self, view: str, places: list[ast.expr], padding: Operand | None) -> Value:
        k, s, name = self.k, self.state, self.state.types[view]
        address = self.address(view, places, set())
        if padding is None or (s.mode == "full" and all(map(s.is_checked, places))):
            return widened(k, name, k.load(address, STORED[name]))
        valid = self._valid(view, places, set())
        value = widened(k, name, k.load(k.select(valid, address, s.arguments[view]), STORED[name]))
        return k.select(valid, value, s.typed(padding, value.type)[0])

    def _vector(
        self, view: str, address: Value, lanes: int, mask: Value | None, padding: Operand | None
    ) -> Value:
        """A vector of neighbours; where the mask is not set, `padding` or anything."""
        k, s, name = self.k, self.state, self.state.types[view]
        stored, computed = STORED[name], COMPUTED[name]
        if padding is not None and not isinstance(padding, list) and stored == computed:
            return k.load(address, stored, lanes, mask, padding)
        value = widened(k, name, k.load(address, stored, lanes, mask))
        return (
            value
            if mask is None or padding is None
            else k.select(mask, value, k.splat(s.typed(padding, computed)[0], lanes))
        )

    def _stepped(
        self, view: str, places: list[ast.expr], found: Linear, padding: Operand | None
    ) -> list[Value]:
        k, s, size = self.k, self.state, self._bytes(view)
        assert padding is None or all(map(s.is_checked, places)), "a border that nothing looks at"
        base = self.address(view, places, {len(places) - 1})
        step, first, offset, phase = steps_of(s, view, found)
        limit: Value | None = None
        if s.mode == "masked" and (padding is not None or step > 1):
            limit = s.arguments[f"{view}_size_{len(places) - 1}"]
            if padding is not None:
                limit = k.select(self._valid(view, places, {len(places) - 1}), limit, k.integer(0))
        results: list[Value] = []
        for u in range(s.vectors):
            parts: list[Value] = []
            for part in range(step):
                ahead = offset + (u * step + part) * s.lanes
                mask = s.active if limit is None else self._between(first, ahead, limit)
                address = base + (first + ahead) * size
                parts.append(
                    self._vector(
                        view, address, s.lanes, mask if s.mode == "masked" else None, padding
                    )
                )
            results.append(self._picked(parts, step, phase))
        return results

    def _between(self, first: Value, ahead: int, limit: Value) -> Value:
        """The lanes whose positions, from first + ahead on, are at least 0 and below a limit. What
        taps share is computed once.
        """
        k, s = self.k, self.state

        def near(value: Value) -> Value:
            bound = k.integer(_FAR)
            return k.splat(k.minimum(k.maximum(value, -bound), bound).to(I32), s.lanes)

        lanes = s.iota() + ahead
        return (lanes >= near(-first)) & (lanes < near(limit - first))

    def _picked(self, parts: list[Value], step: int, phase: int) -> Value:
        """Every `step`-th lane of vectors that follow each other."""
        s, lanes = self.state, self.state.lanes
        joined = self._joined(parts)
        return (
            joined
            if step == 1
            else s.k.picked(joined, joined, [phase + step * n for n in range(lanes)])
        )

    def _backwards(self, value: Value) -> Value:
        return self.state.k.picked(value, value, list(range(value.lanes))[::-1])

    def _reversed(self, view: str, places: list[ast.expr], found: Linear) -> list[Value]:
        s = self.state
        results: list[Value] = []
        mask = None if s.active is None else self._backwards(s.active)
        for address in self._reversed_places(view, places, found):
            results.append(
                self._backwards(
                    self._vector(view, address, s.lanes, mask if s.mode == "masked" else None, None)
                )
            )
        return results

    def _reversed_places(self, view: str, places: list[ast.expr], found: Linear) -> list[Value]:
        """Where each vector of an index that goes down begins in memory."""
        s = self.state
        assert found.factors[s.vector] == -1
        base = self.address(view, places, {len(places) - 1})
        highest = s.position(places[-1])
        return [
            base + (highest - ((u + 1) * s.lanes - 1)) * self._bytes(view) for u in range(s.vectors)
        ]

    def _spread(self, view: str, places: list[ast.expr], divisor: int) -> list[Value]:
        """Vectors in which each element is repeated as often as the divisor says; the vector begins
        at a multiple of it.
        """
        k, s = self.k, self.state
        base = self.address(view, places, {len(places) - 1})
        lanes = max(1, s.lanes // divisor)
        results: list[Value] = []
        for u in range(s.vectors):
            x = s.at[s.vector] + u * s.lanes
            address = base + x // k.integer(divisor) * self._bytes(view)
            if lanes == 1:
                results.append(k.splat(self._vector(view, address, 1, None, None), s.lanes))
                continue
            mask = None
            if s.mode == "masked":
                left = s.size(s.vector) - x
                mask = k.lanes_below((left + (divisor - 1)) // k.integer(divisor), lanes)
            value = self._vector(view, address, lanes, mask, None)
            results.append(s.k.picked(value, value, [n // divisor for n in range(s.lanes)]))
        return results

    def _gathered(
        self, view: str, places: list[ast.expr], along: set[int], padding: Operand | None
    ) -> list[Value]:
        """The elements at positions that are computed or lie in tables; positions without padding
        are trusted to be inside.
        """
        k, s, name = self.k, self.state, self.state.types[view]
        base, lanes = self.address(view, places, along), s.lanes
        numbers = {d: self._numbers(places[d]) for d in along}
        beside = along == {len(places) - 1}  # elements of a row lie next to each other
        valid = None if padding is None else self._valid(view, places, along)
        results: list[Value] = []
        for u in range(s.vectors):
            offset, mask = (
                k.constant(0, I64, lanes),
                k.constant(1, BOOL, lanes) if s.active is None else s.active,
            )
            if valid is not None:
                mask = mask & k.splat(valid, lanes)
            for d in sorted(along):
                number = numbers[d][u]
                if padding is not None:
                    mask = mask & number.below(
                        k.splat(s.arguments[f"{view}_size_{d}"].to(I32), lanes)
                    )
                if not beside:
                    stride = k.splat(s.arguments[f"{view}_stride_{d}"], lanes)
                    offset = offset + number.to(I64) * stride
            stored = STORED[name]
            if beside:
                pointers = self._pointers(base, number, stored)
            else:
                where = k.splat(base, lanes) + offset
                pointers = k.builder.inttoptr(
                    where.llvm, ir.VectorType(stored.llvm.as_pointer(), lanes)
                )
            value = widened(k, name, self._gather(pointers, lanes, stored, mask))
            if padding is not None:
                value = k.select(mask, value, k.splat(s.typed(padding, value.type)[0], lanes))
            results.append(value)
        return results

    def _numbers(self, place: ast.expr) -> list[Value]:
        """Positions in 32 bits, lane by lane."""
        s = self.state
        if isinstance(place, ast.Subscript):
            return self.read(place)
        if isinstance(place, ast.Call) and name_of(place.func) == "near":
            return self._numbers(place.args[0])
        if isinstance(place, ast.Call):
            return [
                v if v.lanes > 1 else self.k.splat(v, s.lanes)
                for v in s.values[name_of(place.args[0])]
            ]
        return s.lane_numbers(place)

    def _pointers(self, base: Value, numbers: Value, type_: Type) -> Any:
        """The addresses of elements of a row by their numbers in 32 bits, which processors that
        gather take as they are.
        """
        pointers = ir.VectorType(type_.llvm.as_pointer(), numbers.lanes)
        return self.k.builder.elements_at(self.k.pointer(base, type_), numbers.llvm, pointers)

    def _gather(self, pointers: Any, lanes: int, type_: Type, mask: Value) -> Value:
        k = self.k
        vector = ir.VectorType(type_.llvm, lanes)
        kind = "f" if type_.kind == "float" else "i"
        name = f"llvm.masked.gather.v{lanes}{kind}{type_.bits}.v{lanes}p0"
        function = k.declared(name, vector, [pointers.type, ir.IntType(32), mask.llvm.type, vector])
        other = k.constant(0, type_, lanes).llvm
        return Value(
            k,
            k.builder.call(
                function, [pointers, ir.Constant(ir.IntType(32), type_.bytes), mask.llvm, other]
            ),
            type_,
            lanes,
        )

    def inside(self, node: ast.Subscript) -> list[Value]:
        """1 where an element is inside its view, else 0; only places along which the vector goes
        step by step.
        """
        k, s, view, places = self.k, self.state, name_of(node.value), indices(node)
        one, zero = k.constant(1, s.default, s.lanes), k.constant(0, s.default, s.lanes)
        along = {d for d, place in enumerate(places) if s.varies(place)}
        if s.mode == "full" and all(s.factor(places[d]) for d in along):
            return [one] * s.vectors
        valid = self._valid(view, places, along)
        masks = [k.splat(valid, s.lanes)] * s.vectors if s.lanes > 1 else [valid]
        for d in along:
            limit = k.splat(s.arguments[f"{view}_size_{d}"].to(I32), s.lanes)
            masks = [
                m & number.below(limit)
                for m, number in zip(masks, s.lane_numbers(places[d]), strict=True)
            ]
        return [k.select(mask, one, zero) for mask in masks]

    # ---- writing

    def write(self, node: ast.Subscript, values: list[Value], whole: bool = False) -> None:
        """Store values where an index says; the vector goes along the last one, by steps of 1 or
        -1. `whole`: all lanes are stored, also those past the end.
        """
        k, s, view, places = self.k, self.state, name_of(node.value), indices(node)
        name = s.types[view]
        values = [value.to(COMPUTED[name]) for value in values]  # rounded to the view's type
        if not s.varies(node.slice):
            (value,) = values
            k.store(narrowed(k, value, name), self.address(view, places, set()))
            return
        factor, found = s.factor(places[-1]), certainly_linear(places[-1])
        assert factor in (1, -1)
        if factor < 0:
            addresses = self._reversed_places(view, places, found)
        else:
            first = self.address(view, places, set())
            addresses = [first + u * s.lanes * self._bytes(view) for u in range(s.vectors)]
        for u, address in enumerate(addresses):
            value = values[u % len(values)]
            value = narrowed(k, value if value.lanes > 1 else k.splat(value, s.lanes), name)
            mask = None if whole else s.active
            if factor < 0:
                value, mask = (
                    self._backwards(value),
                    None if mask is None else self._backwards(mask),
                )
            k.store(value, address, mask)

    def write_interleaved(self, node: ast.Subscript, parts: list[list[Value]]) -> None:
        """Store the elements of several vectors interleaved; along the last index the vector's step
        is the number of these vectors.
        """
        k, s, view, places = self.k, self.state, name_of(node.value), indices(node)
        name, count = s.types[view], len(parts)
        held = [
            [narrowed(k, value.to(COMPUTED[name]), name) for value in values] for values in parts
        ]
        first = self.address(view, places, set())
        if s.lanes == 1:
            for index, (value,) in enumerate(held):
                k.store(value, first + index * self._bytes(view))
            return
        assert s.factor(places[-1]) == count, "vectors in turns go by their number"
        for u in range(s.vectors):
            joined = self._joined([values[u] for values in held])
            for row in range(count):
                places_in_row = range(row * s.lanes, (row + 1) * s.lanes)
                picks = [place % count * s.lanes + place // count for place in places_in_row]
                value = s.k.picked(joined, joined, picks)
                address = first + (u * count + row) * s.lanes * self._bytes(view)
                mask = None
                if s.active is not None:
                    left = (s.size(s.vector) - s.at[s.vector]) * count - row * s.lanes
                    mask = k.lanes_below(left, s.lanes)
                k.store(value, address, mask)

    def _joined(self, parts: list[Value]) -> Value:
        """Vectors one after the other as one."""
        s, lanes = self.state, self.state.lanes
        joined = parts[0]
        for part in parts[1:]:
            grown = s.k.picked(part, part, [n % lanes for n in range(joined.lanes)])
            joined = s.k.picked(joined, grown, list(range(joined.lanes + lanes)))
        return joined
