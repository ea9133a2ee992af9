"""Loop nests as plans: the operands of a kernel from views of tensors, and how threads share the
loops.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from uncork.kernels.extents import certainly, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    grid,
    whole_lines,
)
from uncork.kernels.loops.language import indices, name_of, parse, repeats
from uncork.kernels.loops.spec import MASKED, Nest, RowNest
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.symbolic import SizeLike

#: The type as which elements are moved that nothing is computed of, by their bytes.
WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def computed_type(name: str) -> str:
    """The type that values of an element type are computed in."""
    return "f32" if name in ("f16", "bf16") else name


def row_bytes(count: SizeLike, name: str) -> SizeLike:
    """The bytes of a row in working memory: whole cache lines, of which no two threads write
    to one."""
    return whole_lines(count * element_bytes(name))


class View(Struct, frozen=True):
    """A tensor, working memory or a table at an address as a view.

    `strides`: bytes from one element to the next along each dimension; None: elements in order.
    """

    base: In | Out | Scratch | int
    element_type: str
    sizes: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...] | None = None
    #: Of working memory: every thread has its own.
    own: bool = True

    @property
    def steps(self) -> tuple[SizeLike, ...]:
        """Bytes from one element to the next along each dimension."""
        if self.strides is not None:
            return self.strides
        size = element_bytes(self.element_type)
        return tuple(product(self.sizes[d + 1 :]) * size for d in range(len(self.sizes)))

    def along(self, dimensions: Sequence[int], begin: SizeLike) -> View:
        """The part of the view from a position on along some dimensions."""
        if isinstance(self.base, int):
            assert not dimensions, "a table is not shared by parts"
            return self
        offset: SizeLike = self.base.offset
        for d in dimensions:
            offset = offset + self.steps[d] * begin
        # What is left is what may be read from there on.
        sizes = tuple(
            size - begin if d in dimensions else size for d, size in enumerate(self.sizes)
        )
        return replace(
            self, base=replace(self.base, offset=offset), sizes=sizes, strides=self.steps
        )


def vector_lanes(types: Sequence[str], target: Target) -> int:
    """Lanes of a vector of the widest of these types, as they are computed with."""
    widest = max(4 if name in ("f16", "bf16") else element_bytes(name) for name in types)
    return max(1, min(target.lanes, target.lanes * 4 // widest))


class Call(Struct, frozen=True):
    """A nest with its operands. `shared`: axes that threads may share, the best one first;
    `scratch` is working memory of each.

    A text that uses a shared axis as a number calls its first one, of a thread's part, `first_` and
    its name.
    """

    label: str
    text: str
    sizes: Mapping[str, SizeLike]
    views: Mapping[str, View]
    target: Target
    unroll: int = 1
    #: Nanoseconds.
    cost: SizeLike = 0
    scratch: SizeLike = 0
    shared: Sequence[str] = field(default=())
    keep: Sequence[object] = field(default=())
    #: Calls that fill tables in working memory first, and the bytes of these.
    before: Sequence[KernelCall] = field(default=())
    tables: SizeLike = 0
    #: The type that numbers of the text are of; empty: of the view X, as it is computed with.
    scalar_type: str = ""
    #: What the last vector of an axis is, see `Nest`.
    tail: str = MASKED
    #: Lanes of a vector; 0: as many as one has of the widest type.
    lanes: int = 0

    def native(self) -> KernelPlan:
        """The kernel plan of the call."""
        call = self.kernel_call()
        split = self._split if self.shared else None
        scratch, cost = self.tables + self.scratch, nanoseconds(self.cost, 1.0)
        return KernelPlan(
            call[0].name,
            [*self.before, call],
            scratch=scratch,
            keep=self.keep,
            cost=cost,
            split=split,
        )

    def spec(self) -> Nest:
        """What the kernel is specialised for."""
        types = tuple((name, self.views[name].element_type) for name in parse(self.text).views)
        own = [self.scalar_type] * bool(self.scalar_type)
        lanes = self.lanes or vector_lanes([*(t for _, t in types), *own], self.target)
        fields = (self.label, self.text, types, lanes, self.unroll, self.scalar_type)
        return Nest(*fields) if self.tail == MASKED else RowNest(*fields, last=self.tail)

    def kernel_call(self) -> KernelCall:
        program = parse(self.text)
        operands: list[Operand] = [self.sizes[name] for name in (*program.sizes, *program.integers)]
        for name, rank in program.views.items():
            view = self.views[name]
            assert len(view.sizes) == rank, (
                f"{name} of {self.label} has {len(view.sizes)} dimensions, its text says {rank}"
            )
            operands.append(view.base)
            for pair in zip(view.sizes, view.steps, strict=True):
                operands += pair
        return self.spec(), operands

    def _split(self, threads: int) -> Stages:
        """Threads share the axes that have more than one turn, the first ones rather than later
        ones.
        """
        axes = [name for name in self.shared if not certainly(self.sizes[name], 1)]
        axes = axes or [self.shared[-1]]
        vectors = parse(self.text).axes
        lanes = self.spec().lanes
        counts = [(self.sizes[axis], lanes if vectors[axis].vector else 1) for axis in axes]
        scratch = whole_lines(self.scratch)
        calls: list[KernelCall] = []
        for index, part in enumerate(grid(counts, threads, whole=True)):
            views = {name: _own(view, scratch * index) for name, view in self.views.items()}
            sizes = dict(self.sizes)
            for axis, (begin, count) in zip(axes, part, strict=True):
                sizes |= {axis: count, f"first_{axis}": begin}
                views = {
                    name: _along(view, positions_of(self.text, name, axis), begin)
                    for name, view in views.items()
                }
            calls.append(replace(self, sizes=sizes, views=views).kernel_call())
        first = [list(self.before)] if self.before else []
        return Stages([*first, calls], self.tables + scratch * len(calls))


def _own(view: View, scratch: SizeLike) -> View:
    """The view of one of the threads: `scratch` bytes further on, where it lies in working memory
    that each thread has of its own.
    """
    if isinstance(view.base, Scratch) and view.own:
        return replace(view, base=replace(view.base, offset=view.base.offset + scratch))
    return view


def _along(view: View, dimensions: Sequence[int], begin: SizeLike) -> View:
    return view if isinstance(view.base, Scratch) else view.along(dimensions, begin)


def positions_of(text: str, view: str, axis: str) -> list[int]:
    """The dimensions of a view whose index is this axis alone."""
    found = _dimensions(text).get((view, axis), {})
    for d, element in found.items():
        assert isinstance(indices(element)[d], ast.Name), (
            f"threads cannot share {axis}: {ast.unparse(element)}"
        )
    return sorted(found)


@functools.lru_cache(maxsize=512)
def _dimensions(text: str) -> dict[tuple[str, str], dict[int, ast.Subscript]]:
    """The dimensions of each view in whose index each name is, with an element that has it there:
    one with more than the name in this index, where there is one.
    """
    found: dict[tuple[str, str], dict[int, ast.Subscript]] = {}
    for statement in parse(text).body.statements:
        for node in (*ast.walk(statement.target), *ast.walk(statement.value)):
            if not isinstance(node, ast.Subscript):
                continue
            for d, place in enumerate(indices(node)):
                if repeats(place):  # parts begin with whole vectors
                    continue
                for name in ast.walk(place):
                    if isinstance(name, ast.Name):
                        elements = found.setdefault((name_of(node.value), name.id), {})
                        if d not in elements or not isinstance(place, ast.Name):
                            elements[d] = node
    return found
