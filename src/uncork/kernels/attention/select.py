"""Selection of kernels of attention: for many queries, for few, or either as the call tells."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork import storage
from uncork.internal_ops.attention import FusedAttention
from uncork.internal_ops.held import HALF, HeldAttention
from uncork.kernels.attention.spec import ARGUMENTS, Attention, FewQueries
from uncork.kernels.attention.strides import (
    BatchLoop,
    StridedAxis,
    TensorView,
    batch_loops,
    codes_of,
    contiguous,
    first_of,
    moved,
)
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    decline_if,
    extents,
    is_empty,
    nanoseconds,
    same,
)
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
    whole_lines,
)
from uncork.kernels.layer import Layer, staged
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops.attention import ScaledDotProductAttention
from uncork.symbolic import Size, SizeLike
from uncork.types import ElementType, TensorSpec

#: Up to so many queries of a head are few: packing the keys would cost more than it saves.
_FEW = 4
#: Longer heads are not compiled for: the kernels are written out along them.
_LONGEST = 512
_FLOATS = frozenset({"f32", "f16", "bf16"})
_TENSORS = ("query", "key", "value", "output", "mask", "sink")


class _Tensors(Struct, frozen=True):
    """The tensors of attention as strided views, by name. The mask and the sink, where there are
    any, are broadcast to the rank of the weights.
    """

    views: dict[str, TensorView]
    sizes: tuple[SizeLike, ...]
    #: Of a mask that recurs, the batches of its own; None of any other.
    recurring: SizeLike | None = None

    @property
    def batch(self) -> dict[str, tuple[StridedAxis, ...]]:
        return {name: self.views[name].axes[:-2] for name in _TENSORS if name in self.views}


def select_held(layer: Layer) -> Selection:
    """Attention over tensors of bf16, whose numbers are multiplied in pairs."""
    held = layer.of(HeldAttention)
    decline_if(not multiplies_pairs(layer.target), "no products of bf16 on this machine")
    decline_if(
        held.result is not HALF or any(layer.input(i).element_type is not HALF for i in range(3)),
        "a query, key, value or result of another type than bf16",
    )
    return _selected(replace(layer, operation=held.operation), pairs=True)


def select_attention(layer: Layer) -> Selection:
    return _selected(layer, pairs=False)


def _selected(layer: Layer, pairs: bool) -> Selection:
    operation, target, query = layer.operation, layer.target, layer.input(0)
    fused = operation if isinstance(operation, FusedAttention) else FusedAttention(operation)
    attention = fused.attention
    assert isinstance(attention, ScaledDotProductAttention)
    given = fused.named(layer.inputs)
    if attention.causal:
        given["mask"] = None
    name = query.element_type.name
    decline_if(name not in _FLOATS, f"no kernel for {name}")
    tensors = _tensors(fused, given, layer.outputs[0])
    targets, size = (axis.size for axis in tensors.views["query"].axes[-2:])
    sources, depth = tensors.views["key"].axes[-2].size, tensors.views["value"].axes[-1].size
    if not isinstance(size, int) or not isinstance(depth, int):
        return "the size of a head is known at the call only"
    decline_if(
        is_empty((targets, sources, size, depth, *tensors.sizes)) or max(size, depth) > _LONGEST,
        "no kernel for empty or very long heads",
    )
    spec = _spec(layer, fused, given, tensors)
    decline_if(
        pairs and (spec.turned or spec.sink or spec.scaled or size % 2),
        "no kernel in bf16 for sinks, scales of the call, turned or odd heads",
    )
    batches, heads, members = loops = _loops(tensors)
    operands = {
        **_addresses(tensors, *loops),
        "mask_batches": batches.size if tensors.recurring is None else tensors.recurring,
        "scale": _scale(fused, given["scale"], size),
        "cap": 0 if fused.scoring.cap is None else _bits(fused.scoring.cap),
        "hidden": _bits(fused.scoring.hidden),
        "targets": targets,
        "sources": sources,
        "heads": heads.size,
        "members": members.size,
    }
    number = batches.size * heads.size
    blocks = (targets + (spec.queries - 1)) // spec.queries
    tiles = pairs and target.tiles
    many = _Work(replace(spec, pairs=pairs, tiles=tiles), operands, number * members.size * blocks)
    few = None
    if not spec.turned and not (isinstance(targets, int) and targets > _FEW):
        shared = {name: getattr(spec, name) for name in spec.__struct_fields__}
        few = _Work(
            FewQueries(**shared, query_rows=_query_rows(spec, targets, members.size)),
            operands,
            number,
        )
    speed = 60 if pairs else 30
    cost = nanoseconds(number * members.size * targets * sources * (size + depth), 1 / speed)
    return _native(many, few, targets, sources, cost)


class _Work(Struct, frozen=True):
    """A kernel, and how many things there are to do."""

    spec: Attention
    operands: Mapping[str, Operand]
    items: SizeLike

    def part(self, first: SizeLike, count: SizeLike, scratch: SizeLike) -> KernelCall:
        """The call that does some of them."""
        return self.spec(**self.operands, first=first, count=count, scratch=Scratch(scratch))

    def shared(self, threads: int, scratch: SizeLike) -> list[KernelCall]:
        """The calls of several threads, each with room of its own."""
        return [
            self.part(first, count, scratch * index)
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
    keys = (sources + (spec.panel - 1)) // spec.panel * spec.panel_bytes
    whole = (sources + (spec.together - 1)) // spec.together * spec.together
    values = whole * (spec.width * spec.packed_size) if spec.copies_values else 0
    return fixed + whole_lines(keys) + whole_lines(values)


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

    return staged(split, cost, name=name)


def _tensors(
    fused: FusedAttention, given: dict[str, TensorSpec | None], output: TensorSpec
) -> _Tensors:
    """The tensors as strided views. Raises KernelDeclined where sizes are not known, or where no
    strides describe the tensors.
    """
    views: dict[str, TensorView] = {}
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
            if fused.coding is not None and name in ("key", "value"):
                view = codes_of(view, fused.coding.extra)
            views[name] = moved(view, moves)
    made = contiguous(extents(output), output.element_type.dtype.itemsize)
    if fused.order:  # where each axis of the result came to lie
        made = TensorView(
            tuple(made.axes[fused.order.index(axis)] for axis in range(len(made.axes)))
        )
    views["output"] = made
    rows, keys = views["query"].axes[-2].size, views["key"].axes[-2].size
    one = StridedAxis(1, 0)
    for name, wanted in (("mask", (rows, keys)), ("sink", (rows, 1))):
        if name not in views:
            continue
        view = views[name]
        axes = ((one,) * (2 - len(view.axes)) + view.axes) if len(view.axes) < 2 else view.axes
        for axis, size in zip(axes[-2:], wanted, strict=True):
            decline_if(
                not axis.is_one and not same(axis.size, size),
                "whether a tensor stretches is known at the call only",
            )
        views[name] = TensorView(axes, view.offset)
    sizes, recurring = tuple(axis.size for axis in made.axes[:-2]), None
    if fused.recurs and "mask" in views:
        axes = views["mask"].axes
        recurring = axes[0].size
        views["mask"] = replace(views["mask"], axes=(replace(axes[0], size=sizes[0]), *axes[1:]))
    return _Tensors(views, sizes, recurring)


def _spec(
    layer: Layer, fused: FusedAttention, given: dict[str, TensorSpec | None], tensors: _Tensors
) -> Attention:
    (element_type, key_type), target = (layer.input(i).element_type for i in (0, 1)), layer.target
    own, width = element_type.dtype.itemsize, key_type.dtype.itemsize
    views = tensors.views
    decline_if(
        any(
            not _neighbours(views[name].axes[-1], bytes_)
            for name, bytes_ in (("query", own), ("value", width), ("output", own))
        ),
        "no kernel for heads whose numbers lie apart",
    )
    decline_if(
        any(axis.repeats > 1 for view in views.values() for axis in view.axes[-2:]),
        "no kernel for repeated rows",
    )
    rows, numbers = views["key"].axes[-2:]
    turned = not _neighbours(numbers, width)
    decline_if(
        turned and not _neighbours(rows, width), "no kernel for keys whose numbers lie apart"
    )
    coding = fused.coding
    if coding is not None and coding.extra and turned:
        raise KernelDeclined("no kernel for rows in codes that are turned")
    mask = given["mask"]
    scale = given["scale"]
    size, depth = numbers.size, views["value"].axes[-1].size
    assert isinstance(size, int) and isinstance(depth, int)
    return Attention(
        size,
        depth,
        target.lanes,
        4 if target.vector_registers > 16 else 2,
        element_type.name,
        mask="" if mask is None else mask.element_type.name,
        row_mask=mask is not None and views["mask"].axes[-1].is_one and not certainly(rows.size, 1),
        sink="sink" in views,
        causal=bool(getattr(fused.attention, "causal", False)),
        scaled=scale is not None and scale.value is None and fused.scoring.factor is None,
        capped=fused.scoring.cap is not None,
        turned=turned,
        kept="" if coding is None else key_type.name,
    )


def _neighbours(axis: StridedAxis, width: int) -> bool:
    return certainly(axis.stride, width) or certainly(axis.size, 1)


def _loops(tensors: _Tensors) -> tuple[BatchLoop, BatchLoop, BatchLoop]:
    """The loops over batches, over heads of keys, and over the heads of queries that share a head
    of keys.
    """
    sizes, axes, first = tensors.sizes, tensors.batch, list[BatchLoop]()
    alone = BatchLoop(1, dict.fromkeys(_TENSORS, 0))
    if tensors.recurring is not None:  # along the first axis, which no other is joined with
        whole = {name: own[:1] if len(own) == len(sizes) else () for name, own in axes.items()}
        first = batch_loops(sizes[:1], whole) or [alone]
        axes = {name: own[1:] if len(own) == len(sizes) else own for name, own in axes.items()}
        sizes = sizes[1:]
    loops = batch_loops(sizes, axes)
    members = alone
    if loops and all(certainly(loops[-1].strides[name], 0) for name in ("key", "value")):
        members = loops.pop()
    most = 2 - len(first)
    decline_if(len(loops) > most, "no kernel for batches of so many axes")
    batches, heads = [*first, *[alone] * (most - len(loops)), *loops]
    return batches, heads, members


def _addresses(
    tensors: _Tensors, batches: BatchLoop, heads: BatchLoop, members: BatchLoop
) -> dict[str, Operand]:
    """Where each tensor is, and its strides: zeros of those that are not there."""
    inputs = {"query": 0, "key": 1, "value": 2, "mask": 3, "sink": 5}
    found: dict[str, Operand] = dict.fromkeys(ARGUMENTS[: ARGUMENTS.index("scale")], 0)
    for name, view in tensors.views.items():
        row, number = view.axes[-2:]
        strides = {
            "batch": batches.strides[name],
            "head": heads.strides[name],
            "member": members.strides[name],
            "row": 0 if row.is_one else row.stride,
            "number": number.stride,
        }
        found[name] = Out(0) if name == "output" else In(inputs[name], view.offset)
        for axis, stride in strides.items():
            if f"{name}_{axis}" in found:
                found[f"{name}_{axis}"] = stride
    return found


def _scale(fused: FusedAttention, scale: TensorSpec | None, size: int) -> Operand:
    """The bits of the factor in f32, or where it lies."""
    if fused.scoring.factor is not None:
        number = fused.scoring.factor
    elif scale is None:
        number = 1 / math.sqrt(size)
    elif scale.value is None:
        return In(4)
    else:
        narrow = scale.element_type is not ElementType.f32
        value = storage.decode(scale.value, scale.element_type) if narrow else scale.value
        number = float(np.asarray(value).item())
    return _bits(number)


def _bits(number: float) -> int:
    return int(np.float32(number).view(np.int32))
