"""Operations that torch's exporter writes as loops, as many nodes, wrong, or not at all: here each
is one node of the domain `uncork`, which `operators/torch.py` lowers, or right in ONNX's own.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress, zip_longest
from typing import Any


@contextlib.contextmanager
def own_symbols(torch: Any, opset: int) -> Iterator[None]:
    """What is registered for an export, and taken back afterwards."""
    #: By operator: as what torch is to read the arguments, unless they stay as they are, and the
    #: function that writes the nodes.
    symbols: dict[str, tuple[str, Callable[..., Any]]] = {
        "embedding_bag": ("v v v i i i v i i", _embedding_bag),
        "scaled_dot_product_attention": ("v v v v v i v i", _attention),
        "unfold": ("v i i i", _unfold),
        "diff": ("v i i v v", _diff),
        "cumprod": ("v i v", _cumprod),
        "diagonal": ("v i i i", _diagonal),
        "permute": ("v is", _permute),
        "index_add": ("v i v v v", _index_add),
        "index_put": ("", _index_put),
        "scatter_reduce": ("v i v v s b", _scatter_reduce),
        "unflatten": ("", _unflatten),
        "searchsorted": ("v v b b s v", _searchsorted),
        "col2im": ("v v v is is is", _col2im),
        "view_as_real": ("", _as_pairs),
        "view_as_complex": ("", _as_pairs),
        "stft": ("", _short_transform),
        "istft": ("v i i i v b b b v b", _short_inverse),
    }
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"):
        symbols[name] = "", partial(_bitwise, word=name.removeprefix("bitwise_").capitalize())
    for name, own in (("inverse", "Inverse"), ("linalg_inv", "Inverse"), ("erfinv", "ErfInv")):
        symbols[name] = "v", partial(_alike, name=own)
    for axes in (1, 2, 3):
        symbols[f"adaptive_avg_pool{axes}d"] = "", partial(_adaptive_avg_pool, axes=axes)
        symbols[f"adaptive_max_pool{axes}d"] = "", _adaptive_max_pool
    for kind in ("fft", "ifft", "rfft", "irfft"):
        symbols[f"fft_{kind}n"] = "v v is s", partial(_transform, kind=kind)
    for kind in ("bilinear", "bicubic"):
        symbols[f"_upsample_{kind}2d_aa"] = "v v b v v", partial(_antialiased, kind=kind)
    for kind, names in _RESIZED.items():
        symbols |= {name: ("", partial(_resized, kind=kind)) for name in names}
    for name, (arguments, write) in symbols.items():
        symbol: Any = partial(write, torch)
        if arguments:
            symbol = _read(torch, symbol, name, arguments.split())
        symbol.__name__ = name  # torch's messages tell it
        torch.onnx.register_custom_op_symbolic(f"aten::{name}", symbol, opset)
    try:
        yield
    finally:
        for name in symbols:
            torch.onnx.unregister_custom_op_symbolic(f"aten::{name}", opset)


def _read(torch: Any, write: Callable[..., Any], name: str, kinds: list[str]) -> Any:
    """A function that reads its arguments as such kinds, of which the last may be left out."""
    parse, names = torch.onnx.symbolic_helper._parse_arg, [*inspect.signature(write).parameters][1:]

    def symbol(g: Any, *values: Any) -> Any:
        named = zip_longest(kinds[: len(values)], names[: len(values)], fillvalue=names[-1])
        pairs = zip(values, named, strict=True)
        return write(g, *(parse(value, kind, own, name) for value, (kind, own) in pairs))

    return symbol


def _embedding_bag(
    torch: Any, g: Any, table: Any, indices: Any, offsets: Any, *settings: Any
) -> Any:
    _, mode, _, weights, include_last_offset, padding_idx = settings
    inputs = [table, indices, offsets]
    if not weights.node().mustBeNone():
        inputs.append(weights)
    made = g.op(
        "uncork::EmbeddingBag",
        *inputs,
        mode_i=mode,
        include_last_offset_i=include_last_offset,
        padding_idx_i=-1 if padding_idx is None else padding_idx,
    )
    made.setType(table.type().with_sizes([None, None]))
    return made, None, None, None


def _attention(torch: Any, g: Any, query: Any, key: Any, value: Any, *settings: Any) -> Any:
    mask, _, is_causal, scale, enable_gqa = settings
    given = [not each.node().mustBeNone() for each in (mask, scale)]
    made = g.op(
        "uncork::ScaledDotProductAttention",
        *[query, key, value, *compress((mask, scale), given)],
        has_mask_i=int(given[0]),
        has_scale_i=int(given[1]),
        is_causal_i=is_causal,
        enable_gqa_i=enable_gqa,
    )
    sizes, last = query.type().varyingSizes(), value.type().varyingSizes()
    if sizes and last:
        made.setType(query.type().with_sizes([*sizes[:-1], last[-1]]))
    return made


def _unfold(torch: Any, g: Any, data: Any, axis: int, size: int, step: int) -> Any:
    """Torch writes as many slices as the example has windows, in another order from a negative
    axis.
    """
    made = g.op("uncork::Unfold", data, axis_i=axis, size_i=size, step_i=step)
    sizes = data.type().varyingSizes()
    if sizes:
        sizes[axis] = None
        made.setType(data.type().with_sizes([*sizes, size]))
    return made


def _diff(torch: Any, g: Any, data: Any, n: int, axis: int, before: Any, behind: Any) -> Any:
    given = [each for each in (before, data, behind) if not each.node().mustBeNone()]
    if len(given) > 1:
        data = g.op("Concat", *given, axis_i=axis)
    return g.op("uncork::Diff", data, n_i=n, axis_i=axis)


def _bitwise(torch: Any, g: Any, *data: Any, word: str) -> Any:
    """Torch writes those of truths alone."""
    truths = data[0].type().dtype() == torch.bool
    made = g.op(word if truths else f"uncork::Bitwise{word}", *data)
    sizes = [each.type().varyingSizes() for each in data]
    if None not in sizes:
        made.setType(data[0].type().with_sizes([None] * max(map(len, sizes))))
    return made


def _alike(torch: Any, g: Any, data: Any, name: str) -> Any:
    """A node whose result has the type and the sizes of its data."""
    made = g.op(f"uncork::{name}", data)
    made.setType(data.type())
    return made


def _cumprod(torch: Any, g: Any, data: Any, axis: int, dtype: Any) -> Any:
    """The data have the type of the result."""
    made = g.op("uncork::CumProd", data, axis_i=axis)
    made.setType(data.type())
    return made


def _diagonal(torch: Any, g: Any, data: Any, offset: int, one: int, other: int) -> Any:
    """Torch writes a product with a matrix of ones on the diagonal, its sums, and a Gather of
    these. Where the two axes are known, the diagonal is a slice of both as one axis.
    """
    from torch.onnx import symbolic_opset13

    sizes = data.type().varyingSizes()
    rank = len(sizes or ())
    rows, columns = (sizes[axis] if sizes else None for axis in (one, other))
    if not rows or not columns:
        return symbolic_opset13.diagonal(g, data, offset, one, other)
    axes = [axis % rank for axis in (one, other)]
    others = [axis for axis in range(rank) if axis not in axes]
    # From one row to the next, a diagonal is one place further.
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    begin = offset if offset >= 0 else -offset * columns
    step = columns + 1

    def vector(*numbers: int) -> Any:
        return g.op("Constant", value_t=torch.tensor(numbers))

    lines = g.op("Transpose", data, perm_i=[*others, *axes])
    lines = g.op("Reshape", lines, vector(*[0] * len(others), -1))
    end = begin + count * step
    made = g.op("Slice", lines, *map(vector, (begin, end, len(others), step)))
    made.setType(data.type().with_sizes([*(sizes[axis] for axis in others), count]))
    return made


def _permute(torch: Any, g: Any, data: Any, axes: list[int]) -> Any:
    """Torch writes axes that are counted from the last as they are, which ONNX has not."""
    return g.op("Transpose", data, perm_i=[axis % len(axes) for axis in axes])


def _index_add(
    torch: Any, g: Any, data: Any, axis: int, index: Any, rows: Any, alpha: Any = None
) -> Any:
    """Torch writes rows whose index comes twice over one another in place of their sum."""
    helper = torch.onnx.symbolic_helper
    rank = helper._get_tensor_rank(data)
    if not rank:
        return helper._unimplemented("index_add", "a tensor of unknown rank or of none", data)
    if alpha is not None and helper._maybe_get_scalar(alpha) != 1:
        rows = g.op("Mul", rows, g.op("CastLike", alpha, rows))
    along = [-1 if axis % rank == place else 1 for place in range(rank)]
    places = g.op("Reshape", index, g.op("Constant", value_t=torch.tensor(along)))
    places = g.op("Expand", places, g.op("Shape", rows))
    made = g.op("ScatterElements", data, places, rows, axis_i=axis, reduction_s="add")
    made.setType(data.type())
    return made


def _index_put(
    torch: Any, g: Any, data: Any, indices: Any, values: Any, accumulate: Any = None
) -> Any:
    """Where values are added, torch writes those of one place over one another first."""
    from torch.onnx import symbolic_opset11

    made = symbolic_opset11.index_put(g, data, indices, values, accumulate)
    if accumulate is not None and torch.onnx.symbolic_helper._parse_arg(accumulate, "b"):
        for each in made.node().inputs():
            if each.node().kind() == "onnx::ScatterND":
                each.node().s_("reduction", "add")
    return made


def _scatter_reduce(
    torch: Any,
    g: Any,
    data: Any,
    axis: int,
    index: Any,
    source: Any,
    reduce: str,
    include_self: bool,
) -> Any:
    """Torch writes no means, and none that leave out what was there before."""
    helper, sizes = torch.onnx.symbolic_helper, index.type().varyingSizes()
    if not helper._get_tensor_rank(data) or sizes is None:
        return helper._unimplemented("scatter_reduce", "a tensor of unknown rank or of none", data)
    if None in sizes or sizes != source.type().varyingSizes():  # only so much of it is read
        zeros = g.op("Constant", value_t=torch.zeros(len(sizes), dtype=torch.int64))
        source = g.op("Slice", source, zeros, g.op("Shape", index))
    made = g.op(
        "uncork::ScatterReduce",
        data,
        index,
        source,
        axis_i=axis,
        reduce_s=reduce,
        include_self_i=include_self,
    )
    made.setType(data.type())
    return made


def _opened(value: Any, rank: int) -> Any:
    """The type of a value, of a rank alone: what torch keeps of the example would be a constant."""
    return value.type().with_sizes([None] * rank)


def _unflatten(torch: Any, g: Any, data: Any, axis: Any, sizes: Any) -> Any:
    """Torch loses which sizes are open, and has those of the example in what reads them behind."""
    helper = torch.onnx.symbolic_helper
    rank = helper._get_tensor_rank(data)
    if rank is None:
        return helper._unimplemented("unflatten", "a tensor of unknown rank", data)
    place = helper._get_const(axis, "i", "dim") % rank
    count = helper._get_tensor_sizes(sizes) if helper._is_tensor(sizes) else None
    parts = count[0] if count else len(helper._unpack_list(sizes))
    shape = g.op("Shape", data)
    before = helper._slice_helper(g, shape, axes=[0], starts=[0], ends=[place])
    behind = helper._slice_helper(g, shape, axes=[0], starts=[place + 1], ends=[rank])
    whole = g.op("Concat", before, _vector(torch, g, sizes), behind, axis_i=0)
    made = g.op("Reshape", data, whole)
    made.setType(_opened(data, rank - 1 + parts))
    return made


def _adaptive_avg_pool(torch: Any, g: Any, data: Any, sizes: Any, *, axes: int) -> Any:
    """Torch writes those of one cell, and others where it knows all sizes."""
    from torch.onnx import symbolic_opset9

    helper = torch.onnx.symbolic_helper
    wanted = helper._maybe_get_const(sizes, "is")
    if isinstance(wanted, (list, tuple)) and set(wanted) == {1}:
        return getattr(symbolic_opset9, f"adaptive_avg_pool{axes}d")(g, data, sizes)
    made = g.op("uncork::AdaptiveAvgPool", data, _vector(torch, g, sizes))
    made.setType(_opened(data, helper._get_tensor_rank(data)))
    return made


def _adaptive_max_pool(torch: Any, g: Any, data: Any, sizes: Any) -> Any:
    made = g.op("uncork::AdaptiveMaxPool", data, _vector(torch, g, sizes), outputs=2)
    rank = torch.onnx.symbolic_helper._get_tensor_rank(data)
    made[0].setType(_opened(data, rank))
    made[1].setType(_opened(data, rank).with_dtype(torch.int64))
    return made


def _vector(torch: Any, g: Any, sizes: Any) -> Any:
    """Numbers, some of them of the call, as one tensor."""
    helper = torch.onnx.symbolic_helper
    known = helper._maybe_get_const(sizes, "is")
    if isinstance(known, (list, tuple)):
        return g.op("Constant", value_t=torch.tensor(known, dtype=torch.int64))
    if helper._is_packed_list(sizes):
        one = g.op("Constant", value_t=torch.tensor([1]))
        parts = [g.op("Reshape", each, one) for each in helper._unpack_list(sizes)]
        sizes = g.op("Concat", *(_whole(torch, g, part) for part in parts), axis_i=0)
    return _whole(torch, g, sizes)


def _whole(torch: Any, g: Any, numbers: Any) -> Any:
    """Sizes in 64 bits, also where they were computed as floats."""
    kind = numbers.type()
    if kind.kind() == "TensorType" and kind.dtype() == torch.int64:
        return numbers
    return g.op("Cast", numbers, to_i=torch._C._onnx.TensorProtoDataType.INT64)


def _searchsorted(
    torch: Any,
    g: Any,
    rows: Any,
    values: Any,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    if sorter is not None and not sorter.node().mustBeNone():
        return torch.onnx.symbolic_helper._unimplemented("searchsorted", "a sorter", rows)
    made = g.op(
        "uncork::SearchSorted",
        rows,
        values,
        right_i=int(bool(right) or side == "right"),
        out_int32_i=int(out_int32),
    )
    made.setType(values.type().with_dtype(torch.int32 if out_int32 else torch.int64))
    return made


def _col2im(
    torch: Any,
    g: Any,
    data: Any,
    sizes: Any,
    kernel: Any,
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Any:
    """An operator of opset 18."""
    made = g.op(
        "Col2Im",
        data,
        _vector(torch, g, sizes),
        _vector(torch, g, kernel),
        dilations_i=dilation,
        pads_i=[*padding, *padding],
        strides_i=stride,
    )
    made.setType(_opened(data, torch.onnx.symbolic_helper._get_tensor_rank(data) + 1))
    return made


def _antialiased(
    torch: Any,
    g: Any,
    data: Any,
    sizes: Any,
    align_corners: bool,
    scales: Any = None,
    wide: Any = None,
    *,
    kind: str,
) -> Any:
    helper = torch.onnx.symbolic_helper
    if align_corners:
        return helper._unimplemented("antialias", "align_corners", data)
    factors = helper._maybe_get_const(scales, "fs")
    if isinstance(factors, (list, tuple)):
        made = g.op(
            "Resize",
            data,
            g.op("Constant", value_t=torch.tensor([])),
            g.op("Constant", value_t=torch.tensor([1.0, 1.0, *factors])),
            antialias_i=1,
            coordinate_transformation_mode_s="half_pixel",
            cubic_coeff_a_f=-0.5,
            exclude_outside_i=1,
            mode_s="cubic" if kind == "bicubic" else "linear",
        )
    else:
        made = g.op("uncork::Antialiased", data, _vector(torch, g, sizes), mode_s=kind)
    made.setType(_opened(data, 4))
    return made


#: By what one is: functions that resize the axes behind the first two.
_RESIZED = {
    "nearest": [f"upsample_nearest{n}d" for n in (1, 2, 3)],
    "nearest-exact": [f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)],
    "linear": ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"],
    "cubic": ["upsample_bicubic2d"],
}


def _resized(torch: Any, g: Any, data: Any, sizes: Any, *more: Any, kind: str) -> Any:
    """`more`: whether corners are aligned, but for the nearest cells, and factors, where they are
    given. By those torch copies an axis that keeps its size: linearly, and of pictures the nearest
    cells; elsewhere it does what ONNX says.
    """
    helper = torch.onnx.symbolic_helper
    corners = not kind.startswith("nearest") and bool(helper._maybe_get_const(more[0], "b"))
    factors = helper._maybe_get_const(more[-1], "fs") if more else None
    axes = helper._get_tensor_rank(data) - 2
    nothing = g.op("Constant", value_t=torch.tensor([]))
    if isinstance(factors, (list, tuple)) and len(factors) == axes:
        if kind == "linear" or (kind == "nearest" and axes == 2):
            before = (data.type().varyingSizes() or [None] * (axes + 2))[2:]
            pairs = zip(factors, before, strict=True)
            factors = [1.0 if size and int(size * f) == size else f for f, size in pairs]
        wanted = [nothing, g.op("Constant", value_t=torch.tensor([1.0, 1.0, *factors]))]
    else:
        first = g.op(
            "Slice",
            g.op("Shape", data),
            *(g.op("Constant", value_t=torch.tensor([bound])) for bound in (0, 2)),
        )
        wanted = [nothing, nothing, g.op("Concat", first, _vector(torch, g, sizes), axis_i=0)]
    coordinates = "asymmetric" if kind == "nearest" else "half_pixel"
    made = g.op(
        "Resize",
        data,
        *wanted,
        coordinate_transformation_mode_s="align_corners" if corners else coordinates,
        cubic_coeff_a_f=-0.75,
        mode_s=kind.removesuffix("-exact"),
        nearest_mode_s="floor" if kind == "nearest" else "round_prefer_ceil",
    )
    made.setType(_opened(data, axes + 2))
    return made


def _as_pairs(torch: Any, g: Any, data: Any) -> Any:
    """Complex numbers are pairs of a last dimension in all that is written."""
    return _of_pairs(torch, g.op("Identity", data), data, 0)


def _of_pairs(torch: Any, made: Any, data: Any, more: int) -> Any:
    """The type of what is made of pairs, or makes them: of so many axes more, of real numbers."""
    kind = data.type().dtype()
    parts = {torch.complex64: torch.float32, torch.complex128: torch.float64}
    rank = torch.onnx.symbolic_helper._get_tensor_rank(data)
    made.setType(_opened(data, rank + more).with_dtype(parts.get(kind, kind)))
    return made


def _transform(
    torch: Any, g: Any, data: Any, sizes: Any, axes: list[int], norm: str | None, *, kind: str
) -> Any:
    inputs = [data]
    if not sizes.node().mustBeNone():
        inputs.append(_vector(torch, g, sizes))
    made = g.op(
        "uncork::FourierTransform", *inputs, kind_s=kind, axes_i=axes, norm_s=norm or "backward"
    )
    return _of_pairs(torch, made, data, {"rfft": 1, "irfft": -1}.get(kind, 0))


def _short_transform(
    torch: Any, g: Any, data: Any, size: Any, step: Any, width: Any, window: Any, *settings: Any
) -> Any:
    """The settings are those that `torch_complex` gives: nothing is padded."""
    numbers = {
        f"{name}_i": torch.onnx.symbolic_helper._get_const(value, "i", name)
        for name, value in (("size", size), ("step", step))
    }
    return _of_pairs(torch, g.op("uncork::ShortTransform", data, window, **numbers), data, 2)


def _short_inverse(
    torch: Any, g: Any, data: Any, size: int, step: int, width: int, window: Any, *settings: Any
) -> Any:
    """The settings are those that `torch_fourier` gives."""
    center, normalized, _, length, _ = settings
    inputs = [data, window]
    if not length.node().mustBeNone():
        known = torch.onnx.symbolic_helper._maybe_get_const(length, "i")
        inputs.append(
            g.op("Constant", value_t=torch.tensor([known]))
            if isinstance(known, int)
            else _vector(torch, g, length)
        )
    made = g.op(
        "uncork::ShortInverse",
        *inputs,
        size_i=size,
        step_i=step,
        center_i=int(center),
        normalized_i=int(normalized),
    )
    return _of_pairs(torch, made, data, -2)
