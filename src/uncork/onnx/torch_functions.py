"""Functions of torch that its exporter refuses or writes wrong: while a module is followed, each is
computed by others that it writes.

What is a size of the call stays one: nothing is read of it as a number.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from uncork.errors import UnsupportedError
from uncork.onnx.torch_values import Values


@contextlib.contextmanager
def own_functions(torch: Any) -> Iterator[None]:
    """What stands in place of those functions, under each of their names, as long as this is
    entered.
    """
    functions = _Functions(torch)
    builtins = torch.jit._builtins._get_builtin_table()
    with contextlib.ExitStack() as taken_back:
        for name in _NAMES:
            own = getattr(functions, name)
            for place in (torch, torch.linalg, torch.nn.functional, torch.Tensor):
                before = getattr(place, name, None)
                if before is None:
                    continue
                put = _followed(torch, own, before)
                if not callable(before):
                    put = property(put)
                elif id(before) in builtins:  # functions that are compiled on the way know it so
                    builtins[id(put)] = builtins[id(before)]
                    taken_back.callback(builtins.pop, id(put))
                if name in vars(place):
                    taken_back.callback(setattr, place, name, before)
                else:
                    taken_back.callback(delattr, place, name)
                setattr(place, name, put)
        yield


def _followed(torch: Any, own: Callable[..., Any], before: Any) -> Any:
    def made(*arguments: Any, **options: Any) -> Any:
        if torch.jit.is_tracing():
            return own(*arguments, **options)
        if not callable(before):
            return before.__get__(*arguments)
        return before(*arguments, **options)

    return functools.wraps(before)(made) if callable(before) else made


def _parts(either: Any, indices: Any = None, sections: Any = None) -> Any:
    """Where a tensor is split, or into how many parts, under whichever name it is given."""
    return next(given for given in (either, indices, sections) if given is not None)


#: What runs along an axis is taken of blocks of so many numbers, of so many of these, and so on; at
#: the last level each number is beside each: 1,048,576 numbers are there 1,024.
_BLOCK = 32
_LEVELS = 2
#: ONNX files may have determinants of matrices up to this size.
_SMALL_DETERMINANT = 4


class _Functions(Values):
    """Each method is a function of torch, with its arguments; those that are called by a method are
    the ones from before.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.before = {name: self._found(name) for name in _NAMES}.__getitem__
        self.sorted = torch.sort
        self.counted = torch.arange
        self.multiplied = torch.cumprod
        self.strides = torch.Tensor.stride
        self.repeat_alike = torch.repeat_interleave
        self.grouped: Any = getattr(torch.nn.functional, "grouped_mm", None)

    def _found(self, name: str) -> Any:
        """What torch calls so, before anything stands in its place."""
        places = (self.torch, self.torch.nn.functional, self.torch.linalg, self.torch.Tensor)
        return next((getattr(place, name) for place in places if hasattr(place, name)), None)

    # ---- moves

    def mT(self, x: Any) -> Any:
        return x.transpose(-2, -1)

    def movedim(self, input: Any, source: Any, destination: Any) -> Any:
        """Torch writes axes that are counted from the last as they are, which ONNX has not."""
        rank = input.dim()
        before, behind = (
            (axes,) if isinstance(axes, int) else axes for axes in (source, destination)
        )
        wanted = {to % rank: own % rank for own, to in zip(before, behind, strict=True)}
        rest = iter(i for i in range(rank) if i not in wanted.values())
        return input.permute([wanted[i] if i in wanted else next(rest) for i in range(rank)])

    moveaxis = movedim

    def roll(self, input: Any, shifts: Any, dims: Any = None) -> Any:
        """Torch writes slices that begin at the shift, of which a size may have fewer."""
        if dims is None or dims == ():
            flat = self.roll(input.flatten(), shifts, 0)
            return flat.reshape(input.shape)
        pairs = ((shifts, dims),) if isinstance(dims, int) else zip(shifts, dims, strict=True)
        for shift, dim in pairs:
            size = self.torch.full((), input.shape[dim], dtype=self.torch.int64)
            axis = (slice(None),) * (dim % input.dim())
            first = -shift % size.clamp(min=1)
            places = [(*axis, slice(first, None)), (*axis, slice(None, first))]
            input = self.torch.cat([input[place] for place in places], dim)
        return input

    def rot90(self, input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
        first, second = dims
        if k % 4 == 2:
            return input.flip((first, second))
        if k % 4 == 0:
            return input.clone()
        flipped = input.flip((second if k % 4 == 1 else first,))
        return flipped.transpose(first, second)

    def channel_shuffle(self, input: Any, groups: int) -> Any:
        parts = input.unflatten(1, (groups, -1))
        return parts.transpose(1, 2).flatten(1, 2)

    def tensor_split(
        self, input: Any, indices_or_sections: Any = None, dim: int = 0, **named: Any
    ) -> Any:
        parts = _parts(indices_or_sections, **named)
        axis = (slice(None),) * (dim % input.dim())
        if isinstance(parts, int):  # the first ones are longer by one where they are not all alike
            size = input.shape[dim]
            lengths = [(size + parts - 1 - i) // parts for i in range(parts - 1)]
            parts = list(itertools.accumulate(lengths))
        bounds = zip([None, *parts], [*parts, None], strict=True)
        places = [(*axis, slice(first, last)) for first, last in bounds]
        return tuple(input[place] for place in places)

    def hsplit(self, input: Any, indices_or_sections: Any = None, **named: Any) -> Any:
        parts = _parts(indices_or_sections, **named)
        return self.tensor_split(input, parts, 0 if input.dim() == 1 else 1)

    def vsplit(self, input: Any, indices_or_sections: Any = None, **named: Any) -> Any:
        return self.tensor_split(input, _parts(indices_or_sections, **named), 0)

    def dsplit(self, input: Any, indices_or_sections: Any = None, **named: Any) -> Any:
        return self.tensor_split(input, _parts(indices_or_sections, **named), 2)

    def diag_embed(self, input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
        torch = self.torch
        around = (0, offset) if offset > 0 else (-offset, 0)
        rows = torch.nn.functional.pad(input, around)
        places = torch.arange(rows.shape[-1])
        chosen = places - places.unsqueeze(1) == offset
        made = torch.where(chosen, rows.unsqueeze(-1), torch.zeros((), dtype=input.dtype))
        # In order of the axes they go to, else the first would move the other.
        pairs = sorted([(dim1 % made.dim(), made.dim() - 2), (dim2 % made.dim(), made.dim() - 1)])
        return self.movedim(made, [own for _, own in pairs], [wanted for wanted, _ in pairs])

    def kron(self, input: Any, other: Any) -> Any:
        rank = max(input.dim(), other.dim())
        one, two = (
            each.reshape((1,) * (rank - each.dim()) + tuple(each.shape)) for each in (input, other)
        )
        sizes = [a * b for a, b in zip(one.shape, two.shape, strict=True)]
        for axis in range(rank):
            one, two = one.unsqueeze(2 * axis + 1), two.unsqueeze(2 * axis)
        return (one * two).reshape(sizes)

    def take_along_dim(self, input: Any, indices: Any, dim: int | None = None) -> Any:
        torch = self.torch
        if dim is None:
            return input.flatten().gather(0, indices.flatten())
        axis = dim % input.dim()
        places = indices + torch.zeros_like(input.narrow(axis, 0, 1), dtype=indices.dtype)
        others = [i for i in range(input.dim()) if i != axis]
        if any(input.shape[i] != places.shape[i] for i in others):
            sizes = [places.shape[i] for i in range(input.dim())]
            sizes[axis] = input.shape[axis]
            input = input.expand(sizes)
        return input.gather(axis, places)

    def gather(self, input: Any, dim: int, index: Any, **_: Any) -> Any:
        """Of the first elements along axes of which the example has fewer indices: the exporter
        writes what another reads only where there are as many.
        """
        axis = dim % max(input.dim(), 1)
        for other in range(input.dim()):
            if other != axis and input.shape[other] != index.shape[other]:
                input = input.narrow(other, 0, index.shape[other])
        return self.before("gather")(input, axis, index)

    def repeat_interleave(
        self, input: Any, repeats: Any = None, dim: int | None = None, *, output_size: Any = None
    ) -> Any:
        torch = self.torch
        if repeats is None:  # how often each number from 0 on
            return self._repeated(torch.arange(input.shape[0], dtype=input.dtype), input, 0)
        if not isinstance(repeats, torch.Tensor) or not repeats.dim():
            return self.repeat_alike(input, repeats, dim)
        if dim is None:
            input, dim = input.flatten(), 0
        if repeats.shape[0] == 1 and input.shape[dim] != 1:
            repeats = repeats.expand(input.shape[dim])
        return self._repeated(input, repeats, dim)

    def _repeated(self, data: Any, repeats: Any, dim: int) -> Any:
        torch = self.torch
        ends = repeats.cumsum(0)
        places = torch.arange(repeats.sum(), dtype=ends.dtype)
        return data.index_select(dim, torch.searchsorted(ends, places, right=True))

    # ---- memory

    def stride(self, input: Any, dim: int | None = None) -> Any:
        order = self._in_memory(input)
        if order is None:
            return self.strides(input) if dim is None else self.strides(input, dim)
        found: list[Any] = [1] * len(order)
        step: Any = 1
        for axis in reversed(order):
            found[axis] = step
            step = step * input.shape[axis]
        return tuple(found) if dim is None else found[dim]

    def as_strided(
        self, input: Any, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
    ) -> Any:
        """Torch writes this as if the elements lay in the order of the axes."""
        torch = self.torch
        order = self._in_memory(input)
        UnsupportedError.when(
            order is None,
            "as_strided of a part of a tensor reads what is no part of it: take as_strided of the "
            "whole, or of contiguous()",
            "from_torch",
        )
        first = 0 if storage_offset is None else storage_offset - input.storage_offset()
        places = torch.full((), first, dtype=torch.int64)
        for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
            behind = [1] * (len(size) - 1 - axis)
            places = places + (torch.arange(count) * step).reshape(-1, *behind)
        return input.permute(order).flatten()[places]

    def _in_memory(self, input: Any) -> list[int] | None:
        """The axes as they lie in memory, the last one closest; None where there is more between
        the elements.
        """
        steps = self.strides(input)
        order = sorted(range(input.dim()), key=lambda axis: -steps[axis])
        return order if input.permute(order).is_contiguous() else None

    # ---- places

    def arange(self, *bounds: Any, dtype: Any = None, **options: Any) -> Any:
        """Floats from whole bounds are counted as whole numbers: of those it is known how many
        there are.
        """
        torch = self.torch
        given = [*bounds, *(options[name] for name in ("start", "end", "step") if name in options)]
        whole = all(
            not n.is_floating_point() if isinstance(n, torch.Tensor) else isinstance(n, int)
            for n in given
        )
        if dtype is None or not dtype.is_floating_point or not whole:
            return self.counted(*bounds, dtype=dtype, **options)
        return self.counted(*bounds, **options).to(dtype)

    def tril_indices(
        self, row: Any, col: Any, offset: int = 0, *, dtype: Any = None, **placed: Any
    ) -> Any:
        return self._indices(row, col, dtype, lambda apart: apart <= offset)

    def triu_indices(
        self, row: Any, col: Any, offset: int = 0, *, dtype: Any = None, **placed: Any
    ) -> Any:
        return self._indices(row, col, dtype, lambda apart: apart >= offset)

    def _indices(self, row: Any, col: Any, dtype: Any, chosen: Callable[[Any], Any]) -> Any:
        torch = self.torch
        apart = torch.arange(col).unsqueeze(0) - torch.arange(row).unsqueeze(1)
        return chosen(apart).nonzero().transpose(0, 1).to(dtype or torch.int64)

    def affine_grid(self, theta: Any, size: Sequence[Any], align_corners: Any = None) -> Any:
        torch = self.torch
        lines = []
        for count in size[2:]:
            places = 2 * torch.arange(count, dtype=theta.dtype)
            if align_corners:
                steps = torch.ones_like(places).sum() - 1  # a size as a number of this type
                lines.append((places - steps) / steps.clamp(min=1))
            else:
                steps = torch.ones_like(places).sum()
                lines.append((places + 1 - steps) / steps)
        mesh = list(torch.meshgrid(*lines, indexing="ij"))
        points = torch.stack([*mesh[::-1], torch.ones_like(mesh[0])], -1)
        flat = points.flatten(0, -2) @ theta.transpose(1, 2)
        return flat.unflatten(1, tuple(size[2:]))

    # ---- values

    def isin(
        self,
        elements: Any,
        test_elements: Any,
        *,
        assume_unique: bool = False,
        invert: bool = False,
    ) -> Any:
        torch = self.torch
        tensors = (
            each if isinstance(each, torch.Tensor) else torch.full((), each)
            for each in (elements, test_elements)
        )
        given, known = tensors
        found = (given.unsqueeze(-1) == known.flatten()).any(-1)
        return ~found if invert else found

    def cumprod(self, input: Any, dim: int, *, dtype: Any = None, out: Any = None) -> Any:
        if dtype is None and not input.dtype.is_floating_point:
            dtype = self.torch.int64
        return self.multiplied(input.to(dtype or input.dtype), dim)

    def logcumsumexp(self, input: Any, dim: int) -> Any:
        data, nothing = self.movedim(input, dim, -1), float("-inf")
        made = self._running(data, nothing, self.torch.logsumexp, _LEVELS)
        return self.movedim(made, -1, dim)

    def cummax(self, input: Any, dim: int, *, out: Any = None) -> Any:
        return self._extremes(input, dim, largest=True)

    def cummin(self, input: Any, dim: int, *, out: Any = None) -> Any:
        return self._extremes(input, dim, largest=False)

    def _extremes(self, input: Any, dim: int, *, largest: bool) -> Any:
        """The largest or least elements until each place, and where the last such was. All are NaN
        from the first NaN on.
        """
        torch = self.torch
        data = self.movedim(input, dim, -1)
        if data.dtype.is_floating_point:
            nothing: Any = float("-inf" if largest else "inf")
        else:
            limits = torch.iinfo(data.dtype)
            nothing = limits.min if largest else limits.max
        values = self._running(data, nothing, torch.amax if largest else torch.amin, _LEVELS)
        found = data == values
        if data.dtype.is_floating_point:
            values = torch.where(data.isnan().cumsum(-1) > 0, float("nan"), values)
            found = torch.where(values.isnan(), data.isnan(), found)
        places = torch.where(found, torch.arange(data.shape[-1]), -1)
        indices = self._running(places, -1, torch.amax, _LEVELS)
        kind = torch.return_types.cummax if largest else torch.return_types.cummin
        return kind([self.movedim(each, -1, dim) for each in (values, indices)])

    def _running(self, data: Any, nothing: Any, whole: Callable[..., Any], levels: int) -> Any:
        """What a reduction gives of the elements until each place, along the last axis: of each
        block by all pairs of its elements, and before each block that of the blocks there.
        `nothing` changes no result.
        """
        torch = self.torch
        neutral = torch.full((), nothing, dtype=data.dtype)
        if not levels:
            places = torch.arange(data.shape[-1])
            known = torch.where(places <= places.unsqueeze(1), data.unsqueeze(-2), neutral)
            return whole(known, -1)
        *outer, length = data.shape
        blocks = (length + _BLOCK - 1) // _BLOCK
        rest = neutral.expand(*outer, blocks * _BLOCK - length)
        parts = torch.cat([data, rest], -1).reshape(*outer, blocks, _BLOCK)
        within = self._running(parts, nothing, whole, 0)
        until = self._running(within[..., -1], nothing, whole, levels - 1)
        before = torch.cat([neutral.expand(*outer, 1), until], -1)[..., :blocks].unsqueeze(-1)
        found = whole(torch.stack([before.expand_as(within), within]), 0)
        return found.reshape(*outer, blocks * _BLOCK)[..., :length]

    def rms_norm(
        self, input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: Any = None
    ) -> Any:
        torch = self.torch
        wide = input if input.dtype == torch.float64 else input.float()
        axes = list(range(-len(normalized_shape), 0))
        least = torch.finfo(wide.dtype).eps if eps is None else eps
        made = wide * torch.rsqrt((wide * wide).mean(axes, keepdim=True) + least)
        return (made if weight is None else made * weight).to(input.dtype)

    def sort(self, input: Any, dim: int = -1, descending: bool = False, stable: Any = None) -> Any:
        """Always stable, as ONNX orders what is alike."""
        return self.sorted(input, dim=dim, descending=descending)

    def argsort(
        self, input: Any, dim: int = -1, descending: bool = False, stable: bool = False
    ) -> Any:
        return self.sorted(input, dim=dim, descending=descending)[1]

    def median(self, input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        flat = input.flatten() if dim is None else input
        axis = 0 if dim is None else dim
        torch = self.torch
        last = flat.shape[axis] - 1
        found = self._ranked(flat, last // 2, axis)
        if flat.dtype.is_floating_point:  # NaN are sorted behind all others
            value = torch.where(flat.isnan().any(axis, True), float("nan"), found[0])
            found = value, found[1]
        if dim is None:
            return found[0].squeeze(0)
        return torch.return_types.median(found if keepdim else [r.squeeze(axis) for r in found])

    def kthvalue(self, input: Any, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
        found = self._ranked(input, k - 1, dim)
        kind = self.torch.return_types.kthvalue
        return kind(found if keepdim else [r.squeeze(dim) for r in found])

    def _ranked(self, data: Any, place: Any, axis: int) -> tuple[Any, Any]:
        values, indices = data.sort(axis)
        return values.narrow(axis, place, 1), indices.narrow(axis, place, 1)

    def quantile(
        self,
        input: Any,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        out: Any = None,
    ) -> Any:
        torch = self.torch
        rank = input.dim()
        flat = input.flatten() if dim is None else input
        axis = (dim or 0) % max(flat.dim(), 1)
        values = self.movedim(flat.sort(axis).values, axis, 0)
        last = torch.ones_like(values.flatten(1)[:, 0] if values.dim() > 1 else values).sum() - 1
        wanted = q if isinstance(q, torch.Tensor) else torch.full((), q, dtype=input.dtype)
        places = wanted.flatten() * last
        low, high = places.floor(), places.ceil()
        weight = (places - low).reshape([-1] + [1] * (values.dim() - 1))
        below, above = values.index_select(0, low.long()), values.index_select(0, high.long())
        if interpolation == "lower":
            made = below
        elif interpolation == "higher":
            made = above
        elif interpolation == "midpoint":
            made = (below + above) / 2
        elif interpolation == "nearest":
            made = values.index_select(0, places.round().long())
        else:
            made = below + (above - below) * weight
        made = torch.where(values.isnan().any(0, True), float("nan"), made)
        if keepdim:
            made = made.reshape([-1] + [1] * rank) if dim is None else made.unsqueeze(axis + 1)
        return made if wanted.dim() else made.squeeze(0)

    def renorm(self, input: Any, p: float, dim: int, maxnorm: float) -> Any:
        torch = self.torch
        others = [i for i in range(input.dim()) if i != dim % input.dim()]
        size = torch.linalg.vector_norm(input, p, others, keepdim=True)
        return torch.where(size > maxnorm, input * (maxnorm / (size + 1e-7)), input)

    # ---- products

    def bilinear(self, input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
        rows = input1 @ weight.permute(1, 0, 2).flatten(1)
        made = (rows.unflatten(-1, (weight.shape[0], -1)) @ input2.unsqueeze(-1)).squeeze(-1)
        return made if bias is None else made + bias

    def grouped_mm(
        self, mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None, out_dtype: Any = None
    ) -> Any:
        """Rows up to each offset by the matrix of that group, as experts are computed."""
        torch = self.torch
        if offs is None or mat_a.dim() != 2 or mat_b.dim() != 3:
            return self.grouped(mat_a, mat_b, offs=offs, bias=bias, out_dtype=out_dtype)
        starts = [0, *offs.unbind(0)]
        parts = [
            mat_a[first:last] @ matrix
            for first, last, matrix in zip(starts[:-1], starts[1:], mat_b.unbind(0), strict=True)
        ]
        rest = mat_a[starts[-1] :].sum(1, keepdim=True).expand(-1, mat_b.shape[-1])
        return torch.cat([*parts, torch.zeros_like(rest, dtype=mat_a.dtype)])

    def solve_triangular(
        self,
        A: Any,
        B: Any,
        *,
        upper: bool,
        left: bool = True,
        unitriangular: bool = False,
        out: Any = None,
    ) -> Any:
        if not left:
            options = {"upper": not upper, "unitriangular": unitriangular}
            return self.solve_triangular(self.mT(A), self.mT(B), **options).transpose(-2, -1)
        if upper:
            return (self._lower_inverse(A.flip((-2, -1)), unitriangular) @ B.flip((-2,))).flip(
                (-2,)
            )
        return self._lower_inverse(A, unitriangular) @ B

    def solve(self, A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
        vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
        given = B.unsqueeze(-1) if vector else B
        inverse = self.torch.linalg.inv(A)
        made = inverse @ given if left or vector else given @ inverse
        return made.squeeze(-1) if vector else made

    def cov(
        self, input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None
    ) -> Any:
        if fweights is not None or aweights is not None:
            raise UnsupportedError("torch.cov: weights are not exported; multiply by them")
        torch = self.torch
        rows = input if input.dim() == 2 else input.reshape(1, -1)
        count = torch.full((), rows.shape[1] - correction, dtype=rows.dtype).clamp(min=0)
        rows = rows - rows.mean(1, keepdim=True)
        made = rows @ self.mT(rows) / count
        return made if input.dim() == 2 else made.reshape(())

    def trapezoid(self, y: Any, x: Any = None, *, dx: Any = 1, dim: int = -1) -> Any:
        heights = self.movedim(y, dim, -1)
        means = (heights[..., 1:] + heights[..., :-1]) / 2
        if x is None:
            return means.sum(-1) * dx
        places = x if x.dim() == 1 else self.movedim(x, dim, -1)
        return (means * (places[..., 1:] - places[..., :-1])).sum(-1)

    trapz = trapezoid

    def _lower_inverse(self, matrix: Any, unit: bool) -> Any:
        """That of a lower triangle, of a size that is none of the call: by blocks on its diagonal,
        two of which make one of twice the size, all of one size at a time.
        """
        torch = self.torch
        own = int(matrix.shape[-1])
        count = 1 << (own - 1).bit_length()
        more = (0, count - own)
        matrix = torch.nn.functional.pad(matrix, (*more, *more))
        matrix = matrix + torch.eye(count, dtype=matrix.dtype) * (torch.arange(count) >= own)
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        inverse = (torch.ones_like(diagonal) if unit else 1 / diagonal)[..., None, None]
        size = 1
        while size < count:
            parts = count // (2 * size), 2 * size
            blocks = matrix.unflatten(-1, parts).unflatten(-3, parts).diagonal(dim1=-4, dim2=-2)
            below = self.movedim(blocks, -1, -3)[..., size:, :size]
            first, second = inverse.unflatten(-3, (parts[0], 2)).unbind(-3)
            rows = [
                torch.cat((first, torch.zeros_like(first)), -1),
                torch.cat((-(second @ below @ first), second), -1),
            ]
            inverse, size = torch.cat(rows, -2), 2 * size
        return inverse[..., 0, :own, :own]

    def cholesky(self, input: Any, upper: bool = False, *, out: Any = None) -> Any:
        """Of matrices of a size that is none of the call, column by column; NaN where torch raises
        an error: a matrix is not positive definite.
        """
        torch = self.torch
        size = int(input.shape[-1])
        places, rest, columns = torch.arange(size), input, []
        for column in range(size):
            own = rest[..., column] / rest[..., column, column].unsqueeze(-1).sqrt()
            own = torch.where(places >= column, own, torch.zeros((), dtype=input.dtype))
            rest = rest - own.unsqueeze(-1) * own.unsqueeze(-2)
            columns.append(own)
        return torch.stack(columns, -2 if upper else -1)

    def det(self, input: Any, *, out: Any = None) -> Any:
        if input.shape[-1] <= _SMALL_DETERMINANT:
            return self.before("det")(input)
        pivots, odd = self._pivots(input)
        return self.torch.where(odd, -1.0, 1.0).to(input.dtype) * pivots.prod(-1)

    def slogdet(self, input: Any, *, out: Any = None) -> Any:
        torch = self.torch
        pivots, odd = self._pivots(input)
        sign = torch.where(odd, -1.0, 1.0).to(input.dtype) * pivots.sign().prod(-1)
        return torch.return_types.slogdet([sign, pivots.abs().log().sum(-1)])

    def logdet(self, input: Any) -> Any:
        sign, size = self.slogdet(input)
        return self.torch.where(sign < 0, float("nan"), size)

    def _pivots(self, matrix: Any) -> tuple[Any, Any]:
        """The pivots of matrices of a size that is none of the call, by elimination of the largest
        element of each column that is left; whether their rows are in an odd order.
        """
        torch = self.torch
        size = int(matrix.shape[-1])
        rows, left = torch.arange(size), torch.ones_like(matrix[..., 0], dtype=torch.bool)
        pivots, order = [], []
        for column in range(size):
            own = matrix[..., column]
            place = torch.where(left, own.abs(), -1.0).argmax(-1, keepdim=True)
            row = self.take_along_dim(matrix, place.unsqueeze(-1), -2)
            pivot = row[..., column]
            left = left & (rows != place)
            factor = torch.where(left & (pivot != 0), own / pivot, 0.0).to(matrix.dtype)
            matrix = matrix - factor.unsqueeze(-1) * row
            pivots.append(pivot)
            order.append(place)
        found = torch.cat(order, -1)
        later = rows > rows.unsqueeze(1)
        inverted = (found.unsqueeze(-1) > found.unsqueeze(-2)) & later
        return torch.cat(pivots, -1), inverted.sum((-2, -1)) % 2 == 1

    # ---- counts

    def bincount(self, input: Any, weights: Any = None, minlength: int = 0) -> Any:
        torch = self.torch
        count = torch.cat([input + 1, torch.full((1,), minlength, dtype=input.dtype)]).max()
        ones = torch.ones_like(input, dtype=torch.int64) if weights is None else weights
        return torch.zeros(count, dtype=ones.dtype).scatter_add(0, input.long(), ones)

    def histc(self, input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
        torch = self.torch
        data = input.flatten()
        if min == max == 0:
            least, most = data.min(), data.max()
            low = torch.where(least == most, least - 1, least)
            high = torch.where(least == most, most + 1, most)
        else:
            low, high = (torch.full((), float(n), dtype=input.dtype) for n in (min, max))
        places = ((data - low) / (high - low) * bins).long().clamp(max=bins - 1)
        places = torch.where((data >= low) & (data <= high), places, bins)
        counts = torch.zeros(bins + 1, dtype=input.dtype)
        return counts.scatter_add(0, places, torch.ones_like(data))[:bins]


_OPERATORS = ("__rshift__", "__and__", "__or__", "__xor__", "__invert__")
_NAMES = tuple(
    name
    for kind in (_Functions, Values)
    for name, function in vars(kind).items()
    if callable(function) and (not name.startswith("_") or name in _OPERATORS)
)
