"""The epilogue of a quantized product: bias, scalar operations, a last FakeQuantize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from uncork.internal_ops.fused import FusedMember
from uncork.internal_ops.quantized import Grid, QuantizedProduct
from uncork.kernels.epilogue import CHANNEL, ELEMENT, NUMBER
from uncork.kernels.extents import decline_if
from uncork.kernels.kernel_plan import In, Operand
from uncork.kernels.quantized.grids import grid_of, numbers_of
from uncork.kernels.quantized.spec import CODES, GRID, ROUNDED, CodesEpilogue
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.select_epilogue import EndBuilder, kind_of
from uncork.ops.arithmetic import Add
from uncork.symbolic import SizeLike
from uncork.types import Array, TensorSpec

#: The limits of the word, which become limits of the levels: rounding keeps numbers in order.
_RELU = (0.0, math.inf)
#: Words that make no NaN of finite numbers.
TAME = frozenset(
    {
        "abs",
        "add",
        "clamp",
        "erf",
        "gelu",
        "gelu_tanh",
        "hsigmoid",
        "hswish",
        "negative",
        "relu",
        "sigmoid",
        "swish",
        "tanh",
        ROUNDED,
    }
)


class BoundEpilogue(Struct, frozen=True):
    """The epilogue as kernels know it, with the sources of its operands and the bias that is added
    to each output before it.
    """

    spec: CodesEpilogue
    #: Of each operand the input that it is, the grid of a rounding between, or numbers of channels.
    operands: Sequence[tuple[str, int | Grid | Array]]
    bias: Array
    #: A factor and an addend that scale and shift are to have as well, for all outputs or for each.
    scaling: tuple[Array, Array] = (np.ones(()), np.zeros(()))
    numbers: Array = field(default_factory=lambda: np.zeros(6, np.float32))

    def call_operands(
        self, held: Sequence[Grid | None], channel: SizeLike, element: SizeLike
    ) -> tuple[list[Operand], list[object]]:
        """The operands of a call that begins at a channel and at an element, and the objects to
        keep alive for them.
        """
        found: list[Operand] = []
        keep: list[object] = []
        for kind, source in self.operands:
            if isinstance(source, Grid):
                numbers = numbers_of(source)
                keep.append(numbers)
                found.append(address_of(numbers))
                continue
            if isinstance(source, np.ndarray):
                keep.append(source)
                found.append(address_of(source) + channel * 4)
                continue
            size = {CHANNEL: channel * 4, ELEMENT: element * 4, CODES: element, NUMBER: 0}[kind]
            found.append(In(source, size))
            if kind == CODES and (grid := held[source]) is not None:
                numbers = numbers_of(grid)
                keep.append(numbers)
                found.append(address_of(numbers))
        return found, keep


class _Builder(EndBuilder):
    """The builder of an epilogue of sums of codes, and of the bias before it."""

    def __init__(
        self,
        operation: QuantizedProduct,
        others: Sequence[TensorSpec],
        result: TensorSpec,
        axis: int,
    ) -> None:
        super().__init__(operation.operation, others, result, axis)
        self.held = [held.grid for held in operation.held]
        self.outputs = operation.weights.outputs
        self.bias = np.zeros(self.outputs)

    def end(self, last: Grid | None) -> BoundEpilogue:
        members = self.members
        if last is not None:
            decline_if(
                not members or self._grid(members[-1]) != last,
                "a product that is not quantized has no codes",
            )
            source, members = members[-1].arguments[0], members[:-1]
        for index, member in enumerate(members):
            self.read(index, member)
        if last is None:
            return BoundEpilogue(self._spec(False, False), self.operands, self.bias)
        decline_if(
            self.stands[source] != (False, len(self.ops)), "codes of what is not the last value"
        )
        factor, addend = last.scaling
        numbers = np.array([0, 0, 0, last.levels - 1, 0, 0], np.float32)
        ends = self._ends(last)
        if ends is not None:
            numbers[2:4] = ends
            spec = CodesEpilogue(codes=True)
            return BoundEpilogue(spec, [], self.bias, (factor, addend), numbers)
        if not last.channels:
            spec = self._spec(True, True)
            return BoundEpilogue(spec, self.operands, self.bias, numbers=numbers_of(last))
        guarded = self._spec(True, False).guarded
        for op, of_channels in (("multiply", factor), ("add", addend)):
            given = [(False, len(self.ops)), (True, len(self.operands))]
            whole = np.broadcast_to(of_channels, self.outputs).astype(np.float32)
            self.operands.append((CHANNEL, whole))
            self.ops.append((op, given, ()))
        spec = replace(self._spec(True, False), guarded=guarded)
        return BoundEpilogue(spec, self.operands, self.bias, numbers=numbers)

    def _ends(self, grid: Grid) -> Array | None:
        """The least and the largest code of values that are clamped and no more; None where other
        operations come first, or channels have other ones.
        """
        limits, (factor, addend) = self._limits(), grid.scaling
        if limits is None:
            return None
        codes = [np.clip(np.rint(limit * factor + addend), 0, grid.levels - 1) for limit in limits]
        alike = all((code == code.reshape(-1)[0]).all() for code in codes)
        return np.array([code.reshape(-1)[0] for code in codes]) if alike else None

    def _grid(self, member: FusedMember) -> Grid | None:
        """The grid of a member that rounds to one."""
        return grid_of(member.operation, self.given(member)[1:], self.result.rank)

    def read(self, place: int, member: FusedMember) -> None:
        """Read the member with this number: a bias is none of the words, and what is rounded to a
        grid of all channels is one of its own.
        """
        number = self.first + place
        if self._is_bias(place, member):
            self.stands[number] = (False, 0)
            return
        grid = self._grid(member)
        if grid is None or grid.channels or not self.own(member)[0]:
            super().read(place, member)
            return
        self.operands.append((GRID, grid))
        given = [self.stands[member.arguments[0]], (True, len(self.operands) - 1)]
        self.ops.append((ROUNDED, given, ()))
        self.stands[number] = (False, len(self.ops))

    def operand(self, kind: str, what: Any) -> tuple[bool, int]:
        """An operand; of elements on a grid there are codes."""
        coded = kind == ELEMENT and self.held[what] is not None
        return super().operand(CODES if coded else kind, what)

    def _is_bias(self, place: int, member: FusedMember) -> bool:
        """Whether a member adds constants to sums that nothing else uses: the shift takes them
        then.
        """
        if (
            not isinstance(member.operation, Add)
            or self.ops
            or member.operation.auto_broadcast != "numpy"
        ):
            return False
        own = [n for n in member.arguments if n == 0 or n >= self.first]
        outside = [n for n in member.arguments if 0 < n < self.first]
        if (
            len(own) != 1
            or len(outside) != 1
            or any(own[0] in other.arguments for other in self.members[place + 1 :])
        ):
            return False
        value = self.specs[outside[0]].value
        if value is None or kind_of(value.shape, self.result.shape, self.axis) not in (
            CHANNEL,
            NUMBER,
        ):
            return False
        self.bias += np.broadcast_to(value.reshape(-1).astype(np.float64), self.outputs)
        return True

    def _limits(self) -> tuple[float, float] | None:
        """The limits of a chain of clamps, each of the result before it; None where there is any
        other operation.
        """
        low, high = -math.inf, math.inf
        for index, (op, given, numbers) in enumerate(self.ops):
            bounds = _RELU if op == "relu" else numbers if op == "clamp" else None
            if bounds is None or given != [(False, index)]:
                return None
            low, high = (min(max(limit, bounds[0]), bounds[1]) for limit in (low, high))
        return low, high

    def _spec(self, codes: bool, rescaled: bool) -> CodesEpilogue:
        ops = self.words()
        rounds = codes or any(op.op == ROUNDED for op in ops)
        kinds = tuple(kind for kind, _ in self.operands)
        tame = all(kind in (CODES, GRID) for kind in kinds) and all(op.op in TAME for op in ops)
        # FakeQuantize with other limits than a grid's gives up by itself.
        guarded = (rounds and not tame) or any(op.op == "fake_quantize" for op in ops)
        return CodesEpilogue(kinds, tuple(ops), codes, rescaled, guarded)


def epilogue_of(
    operation: QuantizedProduct, plain: Sequence[TensorSpec | None], result: TensorSpec, axis: int
) -> BoundEpilogue:
    """The epilogue of an operation's product, whose channels are along an axis. Raises
    KernelDeclined.
    """
    others = [spec for spec in plain[2:] if spec is not None]
    return _Builder(operation, others, result, axis).end(operation.result.grid)
