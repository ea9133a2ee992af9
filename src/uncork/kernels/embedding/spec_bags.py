"""What kernels that look rows of tables up are specialised for: sums of bags and segments, copies
of rows.
"""

from __future__ import annotations

from typing import ClassVar, Union
from zlib import crc32

from msgspec import Struct

from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.names import flags
from uncork.kernels.steps import StepSpec


class DenseRows(Struct, frozen=True):
    """Rows that are looked up as they are stored, in a vector of `lanes` f32."""

    stored: str
    columns: int
    lanes: int
    groups: ClassVar[int] = 1
    arguments: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        return f"{self.stored}x{self.columns}"


class QuantizedRows(Struct, frozen=True):
    """How a stored row becomes f32: what is stored, which steps the chain has, and how wide the
    vectors are.

    `stored` is the element type of the codes; "u4" and "i4" are two a byte. `per_row`: each row has
    a pair of parameters of its own. `permutes`: the
    machine looks 16 numbers up in a register (AVX-512), so 4-bit codes are looked up among the 16
    values of their row. A row of a look-up is `groups` rows of this kind, one after the other.
    `later`: steps whose operands lie apart, each with some for every group. `numbers`: what the 16
    codes stand for, where that is not themselves; of a `long` table, of more than 16, they are an
    argument.
    """

    stored: str
    columns: int
    zero_point: bool
    scale: bool
    per_row: bool
    half: bool
    lanes: int
    permutes: bool
    groups: int = 1
    later: tuple[StepSpec, ...] = ()
    numbers: tuple[float, ...] = ()
    long: bool = False
    #: The type whose bit planes are in memory, where codes do not lie as `stored`: of rows that are
    #: copied.
    planes: str = ""

    @property
    def name(self) -> str:
        groups = f"{self.groups}x" if self.groups > 1 else ""
        book = f"_book_{crc32(repr(self.numbers).encode()):08x}" if self.numbers else ""
        steps = flags(self, "long", "zero_point", "scale", "per_row", "half")
        later = "".join(step.name for step in self.later)
        return f"{self.planes or self.stored}_{groups}{self.columns}{book}{steps}{later}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What kernels take beside codes and parameters."""
        later = (f"later{number}" for number in range(len(self.later)))
        return (*later, *(["numbers"] if self.long else []))


class Bag(KernelSpec, frozen=True):
    """The spec of the kernel that sums the rows of bags.

    `bags`: "offsets", where each bag starts, or "fixed", all bags have the same number of indices.
    `index` is the ids' element type, or "narrowed": i64 that wrap to 32 bits.
    """

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_bags:emit_bag"
    #: Addresses and counts; bags `first` to `last` - 1 are computed. `parameters`: zero points and
    #: scales in pairs, or 0; `default`: the address of a number, or 0; `offsets` is the size of
    #: every bag when they are fixed.
    given: ClassVar[tuple[str, ...]] = (
        "table", "parameters", "rows", "indices", "count", "offsets", "bags", "default", "weights",
        "output", "first", "last",
    )  # fmt: skip
    bags: str
    rows: Union[DenseRows, QuantizedRows]
    index: str
    weighted: bool = False
    mean: bool = False
    strict: bool = False
    #: At `indices` are two addresses: of the ids, and of the weights (`Segments`).
    placed: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        return (*self.given, *self.rows.arguments)


class Segments(KernelSpec, frozen=True):
    """The spec of the kernel that turns segment ids into offsets.

    `placed` gets the addresses of indices and weights in the order of their segments: those given
    where segment ids are sorted, else of copies behind the two addresses. An index has `size`
    bytes, a weight `weight` (0: there are none). `strict`: ids that are not sorted are refused.
    """

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_segments:emit_segments"
    arguments: ClassVar[tuple[str, ...]] = (
        "ids", "count", "segments", "offsets", "indices", "weights", "placed",
    )  # fmt: skip
    index: str
    size: int
    weight: int
    strict: bool = False


class QuantizedGather(KernelSpec, frozen=True):
    """The spec of the kernel that gathers rows; `wraps`: a negative index counts from the end."""

    emitter: ClassVar[str] = "uncork.kernels.embedding.emit_gather:emit_gather"
    given: ClassVar[tuple[str, ...]] = (
        "table", "parameters", "rows", "indices", "count", "output",
    )  # fmt: skip
    rows: QuantizedRows
    index: str
    wraps: bool
    strict: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The kernel's arguments."""
        return (*self.given, *self.rows.arguments)
