"""Selection of kernels of attention: for many queries, for few, or either as the call tells."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from uncork.internal_ops.attention import FusedAttention
from uncork.kernels.attention.spec import ARGUMENTS, Attention, FewQueries
from uncork.kernels.attention.strides import (
    Axis,
    Loop,
    View,
    batch_loops,
    contiguous,
    first_of,
    moved,
)
from uncork.kernels.extents import KernelDeclined, certainly, extents, is_empty, nanoseconds, same
from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.layer import Layer
from uncork.kernels.runtime.target import Target
from uncork.ops.attention import ScaledDotProductAttention
from uncork.symbolic import Size, SizeLike
from uncork.types import ElementType, TensorSpec

#: Up to so many queries of a head are few: packing the keys would cost more than it saves.
_FEW = 4
#: Longer heads are not compiled for: the kernels are written out along them.
_LONGEST = 512
_LINE = 64
_FLOATS = frozenset({"f32", "f16", "bf16"})
_TENSORS = ("query", "key", "value", "output", "mask", "sink")


class _Tensors(Struct, frozen=True):
    """The tensors of attention as strided views, by name. The mask and the sink, where there are
    any, are broadcast to the rank of the weights.
    """

    views: dict[str, View]
    sizes: tuple[SizeLike, ...]

    @property
    def batch(self) -> dict[str, tuple[Axis, ...]]:
        return {name: self.views[name].axes[:-2] for name in _TENSORS if name in self.views}


def select_attention(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    fused = operation if isinstance(operation, FusedAttention) else FusedAttention(operation)
    attention = fused.attention
    assert isinstance(attention, ScaledDotProductAttention)
    given = fused.named(inputs)
    if attention.causal:
        given["mask"] = None
    query = given["query"]
    assert query is not None
    name = query.element_type.name
    if name not in _FLOATS:
        return f"no kernel for {name}"
    if name == "f16" and target.has("sse2") and not target.has("f16c"):
        return "no kernel for f16 on this machine"
    tensors = _tensors(fused, given, outputs[0])
    axes = {name: view.axes for name, view in tensors.views.items()}
    targets, size, sources, depth = (
        axes["query"][-2].size,
        axes["query"][-1].size,
        axes["key"][-2].size,
        axes["value"][-1].size,
    )
    if not isinstance(size, int) or not isinstance(depth, int):
        return "the size of a head is known at the call only"
    if is_empty((targets, sources, size, depth, *tensors.sizes)) or max(size, depth) > _LONGEST:
        return "no kernel for empty or very long heads"
    spec = _spec(attention, fused, given, tensors, target)
    batches, heads, members = _loops(tensors)
    operands = _words(fused, given, tensors, size, batches, heads, members)
    sizes = [targets, sources, heads.size, members.size]
    pairs = batches.size * heads.size
    many = _Work(
        spec,
        operands,
        sizes,
        pairs * members.size * ((targets + (spec.queries - 1)) // spec.queries),
    )
    few = None
    if not spec.turned and not (isinstance(targets, int) and targets > _FEW):
        shared = {name: getattr(spec, name) for name in spec.__struct_fields__}
        few = _Work(
            FewQueries(**shared, query_rows=_query_rows(spec, targets, members.size)),
            operands,
            sizes,
            pairs,
        )
    cost = nanoseconds(pairs * members.size * targets * sources * (size + depth), 1 / 30)
    return _native(many, few, targets, sources, cost)


class _Work(Struct, frozen=True):
    """A kernel, and how many things there are to do."""

    spec: Attention
    operands: list[Operand]
    sizes: list[SizeLike]
    items: SizeLike

    def call(self, first: SizeLike, count: SizeLike, scratch: SizeLike) -> KernelCall:
        operands = [*self.operands, *self.sizes, first, count, Scratch(scratch)]
        assert len(operands) == len(ARGUMENTS)
        return self.spec, operands

    def shared(self, threads: int, scratch: SizeLike) -> list[KernelCall]:
        """The calls of several threads, each with room of its own."""
        return [
            self.call(first, count, scratch * index)
            for index, (first, count) in enumerate(shares(self.items, threads))
        ]


def _query_rows(spec: Attention, targets: SizeLike, members: SizeLike) -> int:
    """Queries that are computed at once where there are few: as many as share keys, as far as
    registers hold them.
    """
    queries = targets * members if isinstance(targets, int) else members
    most = 1 if spec.size > 8 * spec.lanes else spec.vectors
    query_rows = 1
    while query_rows < most and (not isinstance(queries, int) or query_rows < queries):
        query_rows *= 2
    return query_rows


def _scratch_bytes(spec: Attention, sources: SizeLike) -> SizeLike:
    """Bytes of working memory for so many keys, in whole cache lines."""
    fixed = spec.fixed_offsets["keys"]
    if isinstance(spec, FewQueries):
        return fixed
    keys = (sources + (spec.panel - 1)) // spec.panel * spec.panel * (spec.size * 4)
    values = sources * (spec.width * 4) if spec.copies_values else 0
    return fixed + sum(((size + (_LINE - 1)) // _LINE * _LINE for size in (keys, values)), 0)


def _native(
    many: _Work, few: _Work | None, targets: SizeLike, sources: SizeLike, cost: float | Size
) -> KernelPlan:
    when: list[AtLeast] = []
    if few is not None and isinstance(targets, int):
        kinds = [few]
    elif few is None or isinstance(targets, int):
        kinds = [many]
    else:
        kinds, when = (
            [few, many],
            [AtLeast(targets, _FEW + 1, otherwise=True), AtLeast(targets, _FEW + 1)],
        )
    scratch = _scratch_bytes(kinds[-1].spec, sources)  # that of many is the larger one
    name = " or ".join(work.spec.name for work in kinds)

    def split(threads: int) -> Stages:
        return Stages([work.shared(threads, scratch) for work in kinds], scratch * threads, when)

    return KernelPlan(
        name,
        [work.call(0, work.items, 0) for work in kinds],
        scratch=scratch,
        cost=cost,
        split=split,
        when=when,
    )


def _tensors(
    fused: FusedAttention, given: dict[str, TensorSpec | None], output: TensorSpec
) -> _Tensors:
    """The tensors as strided views. Raises KernelDeclined where sizes are not known, or where no
    strides describe the tensors.
    """
    views: dict[str, View] = {}
    for name, moves in (
        *zip(("query", "key", "value"), fused.moves, strict=True),
        ("mask", ()),
        ("sink", ()),
    ):
        spec = given[name]
        if spec is not None:
            view = contiguous(extents(spec), spec.element_type.dtype.itemsize)
            count, along = given.get(f"{name}_count"), fused.counted.get(name)
            if count is not None and along is not None:
                view = first_of(view, along, count)
            views[name] = moved(view, moves)
    made = contiguous(extents(output), output.element_type.dtype.itemsize)
    if fused.order:  # where each axis of the result came to lie
        made = View(tuple(made.axes[fused.order.index(axis)] for axis in range(len(made.axes))))
    views["output"] = made
    rows, keys = views["query"].axes[-2].size, views["key"].axes[-2].size
    one = Axis(1, 0)
    for name, wanted in (("mask", (rows, keys)), ("sink", (rows, 1))):
        if name not in views:
            continue
        view = views[name]
        axes = ((one,) * (2 - len(view.axes)) + view.axes) if len(view.axes) < 2 else view.axes
        for axis, size in zip(axes[-2:], wanted, strict=True):
            if not axis.is_one and not same(axis.size, size):
                raise KernelDeclined("whether a tensor stretches is known at the call only")
        views[name] = View(axes, view.offset)
    return _Tensors(views, tuple(axis.size for axis in made.axes[:-2]))


def _spec(
    attention: ScaledDotProductAttention,
    fused: FusedAttention,
    given: dict[str, TensorSpec | None],
    tensors: _Tensors,
    target: Target,
) -> Attention:
    query = given["query"]
    assert query is not None
    width = query.element_type.dtype.itemsize
    views = tensors.views
    if any(not _neighbours(views[name].axes[-1], width) for name in ("query", "value", "output")):
        raise KernelDeclined("no kernel for heads whose numbers lie apart")
    if any(axis.repeats > 1 for view in views.values() for axis in view.axes[-2:]):
        raise KernelDeclined("no kernel for repeated rows")
    rows, numbers = views["key"].axes[-2:]
    turned = not _neighbours(numbers, width)
    if turned and not _neighbours(rows, width):
        raise KernelDeclined("no kernel for keys whose numbers lie apart")
    mask = given["mask"]
    scale = given["scale"]
    size, depth = numbers.size, views["value"].axes[-1].size
    assert isinstance(size, int) and isinstance(depth, int)
    return Attention(
        size,
        depth,
        target.lanes,
        4 if target.vector_registers > 16 else 2,
        query.element_type.name,
        mask="" if mask is None else mask.element_type.name,
        row_mask=mask is not None and views["mask"].axes[-1].is_one and not certainly(rows.size, 1),
        sink="sink" in views,
        causal=attention.causal,
        scaled=scale is not None and scale.value is None and fused.factor is None,
        turned=turned,
    )


def _neighbours(axis: Axis, width: int) -> bool:
    return certainly(axis.stride, width) or certainly(axis.size, 1)


def _loops(tensors: _Tensors) -> tuple[Loop, Loop, Loop]:
    """The loops over batches, over heads of keys, and over the heads of queries that share a head
    of keys.
    """
    loops = batch_loops(tensors.sizes, tensors.batch)
    alone = Loop(1, dict.fromkeys(_TENSORS, 0))
    members = alone
    if loops and all(certainly(loops[-1].strides[name], 0) for name in ("key", "value")):
        members = loops.pop()
    if len(loops) > 2:
        raise KernelDeclined("no kernel for batches of so many axes")
    batches, heads = [alone] * (2 - len(loops)) + loops
    return batches, heads, members


def _words(
    fused: FusedAttention,
    given: dict[str, TensorSpec | None],
    tensors: _Tensors,
    size: int,
    batches: Loop,
    heads: Loop,
    members: Loop,
) -> list[Operand]:
    """The first operands of the kernel: addresses, strides and the factor of the scores."""
    offsets = {"query": 0, "key": 1, "value": 2, "mask": 3, "sink": 5}
    operands: list[Operand] = []
    for name in _TENSORS:
        shared = name in ("key", "value")
        if name not in tensors.views:
            operands += [0] * 5
            continue
        view = tensors.views[name]
        operands.append(Out(0) if name == "output" else In(offsets[name], view.offset))
        operands += [
            loop.strides[name]
            for loop in ((batches, heads) if shared else (batches, heads, members))
        ]
        row, number = view.axes[-2:]
        operands.append(0 if row.is_one else row.stride)
        if name == "key":
            operands.append(number.stride)
    return [*operands, _scale(fused, given["scale"], given["query"], size)]


def _scale(
    fused: FusedAttention, scale: TensorSpec | None, query: TensorSpec | None, size: int
) -> Operand:
    """The bits of the factor in f32, or where it lies."""
    assert query is not None
    if fused.factor is not None:
        number = fused.factor
    elif scale is None:
        number = 1 / math.sqrt(size)
    elif scale.value is None:
        return In(4)
    else:
        number = float(np.asarray(_decoded(scale)).item())
    return int(np.float32(number).view(np.int32))


def _decoded(scale: TensorSpec) -> object:
    from uncork import storage

    assert scale.value is not None
    return (
        scale.value
        if scale.element_type is ElementType.f32
        else storage.decode(scale.value, scale.element_type)
    )
