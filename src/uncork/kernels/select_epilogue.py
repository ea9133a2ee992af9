"""The element-wise operations that a kernel can do at the end of a product, and the inputs that
they read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.fused import FusedMember, FusedProduct
from uncork.kernels.elementwise.lowering import Lowered, has_lowering, lowered
from uncork.kernels.epilogue import CHANNEL, ELEMENT, NUMBER, PLAIN, Epilogue, ScalarOp
from uncork.kernels.extents import KernelDeclined, certainly, has_extents, same
from uncork.kernels.kernel_plan import In, Operand
from uncork.kernels.runtime.addresses import address_of
from uncork.ops import Operation
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, PartialShape, TensorSpec

#: Of results of three spatial axes kernels lay planes apart: no other tensor ends them.
_VOLUMES = 5
#: Words that say the same of two numbers in either order: one kernel serves both.
_COMMUTATIVE = ("add", "multiply")
#: Stands for a size that is not known yet: no scalar operation depends on it.
_SOME = 2


def ending(
    operation: Operation | None,
    inputs: Sequence[TensorSpec],
    own: Sequence[bool],
    result: TensorSpec,
    axis: int,
) -> Lowered | None:
    """The lowering of an operation on a product's sums (where `own`) and operands that lie on them;
    None when it cannot end the product.

    `result` is the product's, its channels (or columns) are along the `axis`.
    """
    if (
        operation is None
        or not has_lowering(operation)
        or not all(s.element_type is ElementType.f32 for s in (*inputs, result))
    ):
        return None
    if result.rank is None or not all(
        has_extents(spec) for spec, of_sums in zip(inputs, own, strict=True) if not of_sums
    ):
        return None
    try:
        found = lowered(operation, [_counted(spec) for spec in inputs], _counted(result))
    except KernelDeclined:
        return None
    shapes = [
        shape
        for position, shape in zip(found.inputs, found.shapes, strict=True)
        if not own[position]
    ]
    kinds = {kind_of(shape, result.shape, axis) for shape in shapes}
    apart = ELEMENT in kinds and result.rank == _VOLUMES
    return None if "" in kinds or apart else found


def _counted(spec: TensorSpec) -> TensorSpec:
    """The spec with some number for every size that is not known."""
    if spec.rank is None or has_extents(spec):
        return spec
    return replace(
        spec, shape=PartialShape([_SOME if dim.size is None else dim for dim in spec.shape.dims])
    )


def kind_of(shape: Sequence[SizeLike], result: PartialShape, axis: int) -> str:
    """The kind of an operand of this shape, which says how it broadcasts to the result; empty when
    no kernel reads it so.
    """
    if result.rank is None or len(shape) > result.rank:
        return ""
    aligned = [1] * (result.rank - len(shape)) + list(shape)
    others = [size for index, size in enumerate(aligned) if index != axis % result.rank]
    own, channels = aligned[axis], result[axis].static_size
    if all(certainly(size, 1) for size in others):
        if certainly(own, 1):
            return NUMBER
        return CHANNEL if isinstance(own, int) and own == channels else ""
    sizes = [dim.size for dim in result.dims]
    return (
        ELEMENT
        if all(size is not None and same(a, size) for a, size in zip(aligned, sizes, strict=True))
        else ""
    )


class EndBuilder:
    """The end of a product under construction: it reads members one after the other. Tensors are
    numbered as members know them: the product, then others, then what members make.
    """

    def __init__(
        self, operation: Operation, others: Sequence[TensorSpec], result: TensorSpec, axis: int
    ) -> None:
        """`others` are inputs beside those of the product, whose channels (or columns) are along
        the axis.
        """
        self.result, self.axis, self.specs = result, axis, [result, *others]
        self.first = len(self.specs)
        self.members = list(operation.members) if isinstance(operation, FusedProduct) else []
        #: What a number of members stands for: an operand (True, number), or a value (False, 0 for
        #: the sums, else words counted from 1).
        self.stands: dict[int, tuple[bool, int]] = {0: (False, 0)}
        #: Of each operand how it lies on the result, and what it is.
        self.operands: list[tuple[str, Any]] = []
        self.ops: list[tuple[str, list[tuple[bool, int]], tuple[float, ...]]] = []

    def given(self, member: FusedMember) -> list[TensorSpec]:
        """The specs of what a member reads."""
        return [self.specs[n] if n < self.first else self.result for n in member.arguments]

    def own(self, member: FusedMember) -> list[bool]:
        """Which of these are sums, or made of them."""
        return [n == 0 or n >= self.first for n in member.arguments]

    def read(self, place: int, member: FusedMember) -> None:
        """Read the member with this number."""
        own = self.own(member)
        found = ending(member.operation, self.given(member), own, self.result, self.axis)
        if found is None:
            raise KernelDeclined(f"no kernel ends a product with {member.operation.type_name}")
        arguments: list[tuple[bool, int]] = []
        for position, shape in zip(found.inputs, found.shapes, strict=True):
            number = member.arguments[position]
            if own[position]:
                arguments.append(self.stands[number])
            else:
                kind = kind_of(shape, self.result.shape, self.axis)
                arguments.append(self.operand(kind, number))
        self.ops.append((found.op, arguments, found.constants))
        self.stands[self.first + place] = (False, len(self.ops))

    def operand(self, kind: str, what: Any) -> tuple[bool, int]:
        """An operand, which is added where it is a new one."""
        if (kind, what) not in self.operands:
            self.operands.append((kind, what))
        return True, self.operands.index((kind, what))

    def words(self) -> list[ScalarOp]:
        """The scalar operations, whose arguments are the sum, then operands, then results."""
        count = len(self.operands)
        return [
            ScalarOp(
                op,
                tuple(1 + n if outside else n + count if n else 0 for outside, n in given),
                tuple(numbers),
            )
            for op, given, numbers in self.ops
        ]


def epilogue_of(
    operation: Operation, inputs: Sequence[TensorSpec | None], result: TensorSpec, axis: int
) -> tuple[Epilogue, list[int]]:
    """The epilogue that ends the product of an operation, and the input that each operand is.
    Raises KernelDeclined where no kernel has such an epilogue.
    """
    if not isinstance(operation, FusedProduct):
        return PLAIN, []
    given = operation.given
    others = [spec for spec in inputs[given:] if spec is not None]
    end = EndBuilder(operation, others, result, axis)
    for place, member in enumerate(end.members):
        end.read(place, member)
    ops = tuple(
        replace(op, arguments=tuple(sorted(op.arguments))) if op.op in _COMMUTATIVE else op
        for op in end.words()
    )
    kinds = tuple(kind for kind, _ in end.operands)
    return Epilogue(kinds, ops), [given + number - 1 for _, number in end.operands]


def read_by_element(epilogue: Epilogue, positions: Sequence[int]) -> set[int]:
    """The inputs, by their positions, of which an epilogue reads an element for each result."""
    kinds = zip(positions, epilogue.operands, strict=True)
    return {position for position, kind in kinds if kind == ELEMENT}


#: What is computed with fewer digits where results are rounded to bf16.
_ROUGH = frozenset(
    (
        *("gelu", "gelu_tanh", "hsigmoid", "hswish", "mish"),
        *("sigmoid", "swish", "swish_scaled", "tanh"),
    )
)


def roughened(epilogue: Epilogue) -> Epilogue:
    """The epilogue for results that are rounded to bf16."""
    ops = tuple(replace(op, op=f"rough_{op.op}") if op.op in _ROUGH else op for op in epilogue.ops)
    return replace(epilogue, ops=ops)


def bounded(
    epilogue: Epilogue, positions: Sequence[int | Array]
) -> tuple[Epilogue, list[int | Array]]:
    """The epilogue with the bounds of its results as operands, and what each operand is: an input,
    or numbers in memory.

    ReLU, Clamp and no activation at all are then the same kernel. Only short epilogues are written
    so: to others it would bring more work, and they are seldom the same but for an activation.
    """
    ops, low, high = list(epilogue.ops), -math.inf, math.inf
    kept = ops.pop() if ops and ops[-1].op == "kept" else None
    before = len(epilogue.operands) + len(ops) - 1 if len(ops) > 1 else 0
    if ops and ops[-1].arguments == (before,):
        if ops[-1].op == "relu":
            low = 0.0
        elif ops[-1].op == "clamp":
            low, high = ops[-1].constants
        if (low, high) != (-math.inf, math.inf):
            ops.pop()
    if not all(op.op == "add" for op in ops):
        return epilogue, list(positions)
    count = len(epilogue.operands)
    moved = [
        replace(op, arguments=tuple(n if n <= count else n + 2 for n in op.arguments)) for op in ops
    ]
    last = count + 2 + len(moved) if moved else 0
    moved.append(ScalarOp("bounded", (last, count + 1, count + 2)))
    if kept is not None:
        moved.append(replace(kept, arguments=(count + 2 + len(moved), kept.arguments[1])))
    bounds = np.array([low, high], np.float32)
    return (
        Epilogue((*epilogue.operands, NUMBER, NUMBER), tuple(moved)),
        [*positions, bounds[:1], bounds[1:]],
    )


def operands_for(
    epilogue: Epilogue, positions: Sequence[int | Array], channel: SizeLike, element: SizeLike
) -> dict[str, Operand]:
    """The operands of a call, by the names of its arguments: the operation's inputs, which begin
    `channel` bytes into operands of channels and `element` bytes into those of elements, and
    addresses of numbers in memory.
    """
    begin: dict[str, SizeLike] = {CHANNEL: channel, ELEMENT: element, NUMBER: 0}
    given = zip(epilogue.arguments, epilogue.operands, positions, strict=True)
    return {
        name: In(position, begin[kind]) if isinstance(position, int) else address_of(position)
        for name, kind, position in given
    }
