"""Selection of the kernel of an Einsum with a constant operand, whose sums run over neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from uncork.kernels.extents import (
    always_same,
    certainly,
    decline_if,
    extents,
    is_empty,
    is_known,
    nanoseconds,
    product,
)
from uncork.kernels.gemm.address_table import row_tables
from uncork.kernels.gemm.indirect import RowProducts, panels
from uncork.kernels.gemm.spec_address_table import LOOPS
from uncork.kernels.gemm.spec_indirect import indirect_gemm
from uncork.kernels.kernel_plan import (
    In,
    KernelPlan,
    Selection,
    Stages,
)
from uncork.kernels.layer import Layer, present, staged
from uncork.kernels.register_tiles import rows_of_parts
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.ops._common.product_labels import Label, Roles, roles_of
from uncork.ops.einsum import Einsum
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: Longer sums' panels no longer fit the second-level cache; more calls would be a plan too long.
_LONGEST, _MOST_CALLS = 1 << 13, 1 << 8


def select_einsum(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.of(Einsum), layer.inputs, layer.outputs, layer.target
    constants = [i for i, spec in enumerate(inputs) if spec is not None and spec.value is not None]
    decline_if(
        len(inputs) != 2 or not constants,
        "no kernel for other than two operands, one of them a constant",
    )
    choices = [_chosen(operation, inputs, outputs[0], constant, target) for constant in constants]
    return next((choice for choice in choices if isinstance(choice, KernelPlan)), choices[0])


def _chosen(
    operation: Einsum,
    inputs: Sequence[TensorSpec | None],
    output: TensorSpec,
    constant: int,
    target: Target,
) -> Selection:
    data, matrix = present(inputs[1 - constant]), present(inputs[constant])
    if matrix.value is None:
        return "no kernel for two operands of the call"
    if data.element_type is not ElementType.f32:
        return f"no kernel for {data.element_type}"
    shapes = [extents(data), extents(matrix), extents(output)]
    if any(map(is_empty, shapes)):
        return "no kernel for empty tensors"
    ranks = [len(present(spec).shape) for spec in inputs]
    labels, made = operation.spread_all(ranks, len(shapes[2]))
    own, fixed = labels[1 - constant], labels[constant]
    sizes: dict[Label, SizeLike] = {
        **dict(zip(own, shapes[0], strict=True)),
        **dict(zip(fixed, shapes[1], strict=True)),
    }
    fits = [
        label in sizes and always_same(sizes[label], size)
        for some, shape in zip((own, fixed, made), shapes, strict=True)
        for label, size in zip(some, shape, strict=True)
    ]
    parts = roles_of(own, fixed, made)
    if parts is None or not all(fits):
        return "no kernel for diagonals, dimensions that stretch and sums of one operand"
    if (
        own[len(own) - len(parts.summed) :] != parts.summed
        or _known_count(parts.summed, sizes) > _LONGEST
    ):
        return "no kernel for sums over other than the last dimensions of the data"
    parts, apart = _with_neighbours(parts, made)
    if not is_known(_count(parts.rows, sizes)) and len(parts.rows) > LOOPS:
        return "no kernel for rows of that many open dimensions"
    if _known_count(parts.batch[:-1], sizes) > _MOST_CALLS:
        return "no kernel for that many batches of several dimensions"
    order = [fixed.index(label) for label in (*parts.batch, *parts.columns, *parts.summed)]
    return _native(
        matrix.value,
        order,
        1 - constant,
        sizes,
        parts,
        {**dict.fromkeys(apart, 0), **_steps(own, shapes[0])},
        _steps(made, shapes[2]),
        target,
    )


def _with_neighbours(parts: Roles, made: Sequence[Label]) -> tuple[Roles, Sequence[Label]]:
    """The roles with the last columns that are neighbours in the result as columns, and the labels
    of all others before those: batches, each of which reads the same data.
    """
    columns = parts.columns
    places = [made.index(label) for label in columns]
    first = max(len(columns) - 1, 0)
    while first and places[first - 1] == places[first] - 1:
        first -= 1
    apart = columns[:first]
    return replace(parts, batch=[*apart, *parts.batch], columns=columns[first:]), apart


def _count(labels: Sequence[Label], sizes: Mapping[Label, SizeLike]) -> SizeLike:
    return product(sizes[label] for label in labels)


def _known_count(labels: Sequence[Label], sizes: Mapping[Label, SizeLike]) -> int:
    """The number of elements that some labels of a constant span."""
    count = _count(labels, sizes)
    assert isinstance(count, int)
    return count


def _steps(labels: Sequence[Label], shape: Sequence[SizeLike]) -> dict[Label, SizeLike]:
    """Bytes from one index of a label to the next."""
    return {label: 4 * product(shape[axis + 1 :]) for axis, label in enumerate(labels)}


def _places(
    labels: Sequence[Label], sizes: Mapping[Label, SizeLike], steps: Mapping[Label, SizeLike]
) -> list[SizeLike]:
    """The offsets in bytes of all combinations of indices of some labels, whose sizes are known;
    the last label varies fastest.
    """
    places: list[SizeLike] = [0]
    for label in labels:
        places = [
            place + i * steps[label]
            for place in places
            for i in range(_known_count([label], sizes))
        ]
    return places


def _native(
    matrix: Array,
    order: Sequence[int],
    data: int,
    sizes: Mapping[Label, SizeLike],
    parts: Roles,
    data_steps: Mapping[Label, SizeLike],
    output_steps: Mapping[Label, SizeLike],
    target: Target,
) -> KernelPlan:
    batches, width, inner = (
        _known_count(some, sizes) for some in (parts.batch, parts.columns, parts.summed)
    )
    count = _count(parts.rows, sizes)
    outer, last = parts.batch[:-1], parts.batch[-1:]
    matrices = _known_count(last, sizes)
    column: SizeLike = output_steps[parts.columns[-1]] if parts.columns else 4
    spec = indirect_gemm(width, target.lanes, certainly(column, 4))
    packed_weights = packed(
        [matrix],
        (spec, tuple(order), batches),
        lambda: [panels(spec, matrix.transpose(order).reshape(batches, width, inner))],
    )
    matrix_bytes = packed_weights.arrays[0].nbytes // batches
    rows = [(sizes[label], data_steps[label], output_steps[label]) for label in parts.rows]
    tables = row_tables(rows)
    starts = list(
        zip(*(_places(outer, sizes, steps) for steps in (data_steps, output_steps)), strict=True)
    )

    products = RowProducts(
        spec,
        packed_weights,
        matrices,
        inner,
        width,
        column,
        data_steps[last[0]] if last else 0,
        output_steps[last[0]] if last else 0,
        rows_of_parts(target.vector_registers, spec.vectors),
    )

    def stages(threads: int) -> Stages:
        made = [tables.calls] if tables.calls else []
        calls = [
            products.calls(
                In(data, source),
                result,
                tables,
                (count, count),
                tables.scratch,
                threads,
                number * matrices * matrix_bytes,
            )
            for number, (source, result) in enumerate(starts)
        ]
        return Stages([*made, *calls], tables.scratch + products.scratch(count, threads))

    cost = nanoseconds(batches * count * inner * width, 1 / 30)
    return staged(stages, cost, [packed_weights, *tables.keep], spec.name)
