"""Selection of the kernel that multiplies by stored weights: one for few rows, one for many (in
f32, or in integers where those are as exact), or a choice between them at each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.internal_ops.fused import product_of
from uncork.kernels.compressed.form import laid_out_book, stored_of
from uncork.kernels.compressed.select_dots import (
    DigitCalls,
    dot_few,
    dot_rows,
    dot_rows_in_tiles,
    least_rows,
    most_rows,
)
from uncork.kernels.compressed.spec import HALVES, LINES_BYTES, FewRows, ManyRows
from uncork.kernels.compressed.spec_dots import COLUMNS, DotRows
from uncork.kernels.elementwise.spec import conversion
from uncork.kernels.epilogue import PLAIN, Epilogue
from uncork.kernels.extents import (
    certainly,
    decline_if,
    extents,
    is_empty,
    may_be_empty,
    nanoseconds,
    product,
    smallest,
)
from uncork.kernels.gemm.microkernel_blocks import (
    CHUNK,
    DECODED_CHUNK,
    block_of,
    bytes_of_sums,
    has_blocks,
)
from uncork.kernels.gemm.select_matmul import SECOND_CACHE
from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
    whole_lines,
)
from uncork.kernels.layer import Layer, joined, staged
from uncork.kernels.movement.spec import Gather
from uncork.kernels.register_tiles import AMX_ROWS, FEW_REGISTERS
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.select_epilogue import epilogue_of, operands_for
from uncork.kernels.steps import SHARED, WHOLE
from uncork.kernels.stored_form import FOUR_BITS, PER_WORD, Stored
from uncork.kernels.stored_types import FLOATS_OF_A_BYTE, laid_out
from uncork.ops import Operation
from uncork.ops.gather import Gather1, Gather7
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType

#: Up to so many rows are few: decoding weights into lines, for some columns at a time, costs less
#: than turning them into panels; and so many where registers are, whose panels have fewer columns.
_FEW, _FEW_BY_FEW_REGISTERS = 7, 32
#: Columns that are decoded into lines together, as their sums are added up together.
_LINES = 4
#: Columns whose codes become f16 together before they meet one row: its numbers are read once.
_HALVED = 2
#: As many rows fill a tile of the microkernel: from so many on codes that lie in panels are read.
_TILE = 8
#: The codes of the least and the largest (65536) of weights of bf16 that are multiplied as pairs.
_NORMAL, _MODERATE = 0x0080, 0x4780
#: Processors whose conversions from f16 take none of the ports of multiplications, and the lanes of
#: their longest vectors; elsewhere they would take an eighth of a tile's time (by tables of ports).
_CONVERTING, _CONVERTING_LANES = "znver", 16


def declined(weights: CompressedMatrix) -> str:
    """Why no kernel multiplies data of f32 with these weights; nothing where one does."""
    name = weights.element_type.name
    if is_empty((*weights.shape,)):
        return "nothing to multiply"
    if name in FOUR_BITS and weights.inner % PER_WORD:
        return "no kernel for columns of codes that begin within a word"
    return ""


def rounded_to(weights: CompressedMatrix, target: Target, activations: str) -> str:
    """What the data of a product are rounded to on this machine, of the most that is allowed: f32
    where nothing would be gained, and i16 where that is one digit as well.
    """
    spec = dot_rows(weights, stored_of(weights, target), target, PLAIN, activations)
    if spec is None:
        return "f32"
    return "i16" if activations == "i8" and spec.takes_two else activations


def select_compressed(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    linear, data = product_of(operation), layer.input(0)
    assert isinstance(linear, CompressedLinear)
    weights = linear.weights
    if why := declined(weights):
        return why
    decline_if(data.element_type is not ElementType.f32, f"no kernel for {data.element_type}")
    shape = extents(data)
    decline_if(len(shape) < 2 or is_empty(shape), "no kernel for vectors")
    turns = _turns(linear, shape)
    rows = shape[-2] if len(turns) > 1 else product(shape[:-1])
    stored = replace(stored_of(weights, target), chosen=linear.choice is not None)
    end, others = epilogue_of(operation, inputs, outputs[0], -1)
    dots = dot_rows(weights, stored, target, end, linear.activations)
    pairs = _multiplies_pairs(linear, target)
    panels = weights.stack == 1 and not isinstance(rows, Size) and rows >= _TILE
    panels = panels and _fits_panels(stored, pairs)
    width = _vectors(target) * target.lanes
    kept, lying = _in_panels(weights, width, pairs) if panels else _codes(weights, stored)
    parameters, later = _parameters(weights, stored), _later(weights, stored)
    groups = weights.shape[1] if stored.group else 1
    code_row = stored.column_bytes(weights.inner)
    book = None if weights.numbers is None else laid_out_book(weights.numbers)
    choice = None if linear.choice is None else _choice(layer, linear.choice)
    products: list[_Product] = []
    for turn in turns:
        before = 0 if choice else turn.matrix * weights.columns
        result = turn.number * (rows * weights.columns * 4)
        zeros, scales = (0 if p is None else _address(p, before) for p in parameters)
        operands: dict[str, Operand] = {
            "data": In(0, turn.data * (rows * weights.inner * 4)),
            "codes": address_of(lying) + before * code_row,
            "code_row": code_row,
            "zeros": zeros,
            "scales": scales,
            "groups": groups,
            "output": Out(0, result),
            "rows": rows,
            "inner": weights.inner,
            "columns": weights.columns,
            "numbers": 0 if book is None else address_of(book),
            "matrix": Scratch(8 * turn.matrix) if choice else 0,
        }
        operands |= operands_for(end, others, 0, result)
        addresses = (_address(operand, before) for operand in later)
        operands |= zip(stored.later_names, addresses, strict=True)
        products.append(_Product(turn.data, operands))
    before = choice.bytes if choice else 0
    given = _Products(rows, product(shape[:-1]), weights, stored, products, before)
    ways: list[_Offer] = []
    most = None
    if dots is not None:
        few, tiles = least_rows(dots) - 1, dot_rows_in_tiles(dots, target)
        most = most_rows(dots) if tiles is None else None
        ways += [
            (lambda: given.few_digits(dots, target, few), few),
            (lambda: given.dots(dots, groups), AMX_ROWS - 1 if tiles else most),
        ]
        if tiles is not None:
            ways.append((lambda: given.dots(tiles, groups), None))
    if dots is None or most is not None:
        some = _TILE - 1 if pairs else 0 if panels else _few(target)
        ways += [
            (lambda: given.few(target, end, pairs, some), some),
            (lambda: given.many(target, end, panels, pairs), None),
        ]
    parts = list(_parts(rows, ways))
    cost = nanoseconds(rows * len(turns) * weights.inner * weights.columns, 1 / 30)

    def split(threads: int) -> Stages:
        first = [Stages([choice.calls], 0)] if choice else []
        return joined([*first, *(way.stages(threads).only(condition) for way, condition in parts)])

    keep = [kept, *later, *(array for array in (*parameters, book) if array is not None)]
    keep += choice.keep if choice else []
    return staged(split, cost, keep, " or ".join(part.name for part, _ in parts))


class _Turn(Struct, frozen=True):
    """A product of a matrix: the number of its rows of data among all such, of the matrix in the
    stack, or of what is chosen, and of the result.
    """

    data: int
    matrix: int
    number: int


def _turns(linear: CompressedLinear, shape: Sequence[SizeLike]) -> list[_Turn]:
    """The products of a layer with data of this shape."""
    if math.prod(linear.lead) == 1:
        return [_Turn(0, 0, 0)]
    batch = [size for size in shape[:-2] if isinstance(size, int)]
    decline_if(len(batch) < len(shape) - 2, "no kernel for several matrices and an open batch")
    of_data = np.arange(math.prod(batch)).reshape(batch)
    of_matrices = np.arange(math.prod(linear.lead)).reshape(linear.lead)
    pairs = np.broadcast_arrays(of_data, of_matrices)
    numbers = zip(*(array.reshape(-1).tolist() for array in pairs), strict=True)
    return [_Turn(data, matrix, index) for index, (data, matrix) in enumerate(numbers)]


class _Choice(Struct, frozen=True):
    """The calls that write the numbers of chosen matrices to the beginning of the working
    memory.
    """

    calls: Sequence[KernelCall]
    keep: Sequence[object]
    #: Of working memory.
    bytes: int


def _choice(layer: Layer, operation: Operation) -> _Choice:
    """The calls that look up numbers from 1 on, as the Gather would matrices; 0 stands for none."""
    indices, linear = layer.input(1), product_of(layer.operation)
    assert isinstance(linear, CompressedLinear)
    assert isinstance(operation, Gather1 | Gather7)
    numbers = np.arange(1, linear.weights.stack + 1)
    count = math.prod(linear.lead)
    name = indices.element_type.name
    spec = Gather(numbers.itemsize, name, operation.counts_from_end, operation.strict)
    operands: list[Operand] = [
        address_of(numbers),
        In(1),
        Scratch(0),
        1,
        1,
        linear.weights.stack,
        count,
        0,
    ]
    room = whole_lines(count * numbers.itemsize)
    return _Choice([(spec, operands)], [numbers], room)


class _Way(Struct, frozen=True):
    """One way to make the product, by so many threads."""

    name: str
    stages: Callable[[int], Stages]


#: A way to make a product, and the most rows that it is for; None for any.
_Offer = tuple[Callable[[], _Way], int | None]


def _parts(rows: SizeLike, offers: Sequence[_Offer]) -> Iterator[tuple[_Way, AtLeast | None]]:
    """The ways that a product of so many rows may take, with their conditions where only the call
    knows how many there are: each is for the rows behind those of the ways before it.
    """
    least = 1
    for make, most in offers:
        if most is not None and most < least:
            continue
        if isinstance(rows, Size):
            below = None if most is None else AtLeast(rows, most + 1, otherwise=True)
            some = least > 1 or may_be_empty([rows])  # kernels make a row at least
            yield make(), AtLeast(rows, least, also=below) if some else below
        elif rows >= least and (most is None or rows <= most):
            yield make(), None
        least = least if most is None else most + 1


class _Product(Struct, frozen=True):
    """A product: the number of its data, and the operands that all kernels have."""

    data: int
    operands: Mapping[str, Operand]


class _Products(Struct, frozen=True):
    """The products of a layer: `rows` of each, `all_rows` of the data; working memory is what
    begins at `begin`.
    """

    rows: SizeLike
    all_rows: SizeLike
    weights: CompressedMatrix
    stored: Stored
    products: Sequence[_Product]
    begin: int

    @property
    def _data(self) -> int:
        """How many times there are so many rows."""
        return 1 + max(one.data for one in self.products)

    def _halves_first(self, target: Target) -> bool:
        """Whether codes become f16 in memory before they become f32."""
        floats = self.stored.element_type in FLOATS_OF_A_BYTE and not self.stored.book
        return floats and target.has("f16c")

    def few(self, target: Target, end: Epilogue, pairs: bool, most: int) -> _Way:
        """The way by a kernel that decodes weights in registers, of up to so many rows."""
        four_bits = self.stored.element_type in FOUR_BITS
        one, few = certainly(self.rows, 1), target.vector_registers <= FEW_REGISTERS
        # Sums of 4 rows by 4 columns and what is decoded for them fit into 32 registers only; into
        # 16 none of several rows beside codes of four bits, which are eight vectors at once.
        rows = 1 if one or (few and four_bits and not pairs) else 4
        halves = _HALVED if self._halves_first(target) else 0
        wanted = max(1, halves) if rows == 1 else 2 if few else 4
        columns = wanted if self.weights.columns >= wanted else 1
        lines = 0 if one or pairs else _LINES if self.weights.columns >= _LINES else 1
        halves = min(halves, columns)
        spec = FewRows(self.stored, columns, rows, end, pairs, lines, halves)
        padded = -(-self.weights.inner // spec.block) * spec.block * 4
        scratch = smallest(self.rows, most) * (
            padded * spec.ordered + spec.lines * target.lanes * 4
        )
        room = scratch + LINES_BYTES * bool(lines) + spec.bytes_of_halves
        return self._decoded(spec, max(columns, lines), {"table": 0}, room)

    def many(self, target: Target, end: Epilogue, panels: bool, pairs: bool) -> _Way:
        """The way by a kernel that decodes weights into panels, unless the codes lie in panels
        already; of `pairs` the data are made bf16 before.
        """
        # Panels of few columns are codes in short runs, which the processor does not foresee.
        codes = self.weights.columns * self.stored.column_bytes(self.weights.inner)
        large = codes > SECOND_CACHE
        few, vectors = target.vector_registers <= FEW_REGISTERS, _vectors(target)
        inner, block = self.weights.inner // (2 if pairs else 1), self.stored.block
        deep = has_blocks(inner) and not certainly(self.rows, 1)
        ahead = large and few and not deep
        widened = panels and not pairs and _widens_beside(target)
        spec = ManyRows(self.stored, vectors, end, panels, widened, pairs, ahead, deep)
        most = block_of(inner, block) if deep else -(-inner // block) * block
        decoded = (spec.words_bytes + spec.width * most * 4) * spec.decodes
        operands = whole_lines(decoded)
        table = operands + whole_lines(spec.operands_bytes(self.weights.shape[1]) * spec.decodes)
        sums = table + whole_lines(self.rows * 8)
        columns = -(-self.weights.columns // spec.width) * spec.width
        chunk = DECODED_CHUNK if spec.decodes else CHUNK
        waiting = bytes_of_sums(inner, self.rows, columns, 4, chunk) if deep else 0
        places = {"table": table, "sums": sums, "operands": operands}
        return self._decoded(spec, spec.width, places, sums + whole_lines(waiting))

    def _narrowed(self, threads: int) -> Iterator[KernelCall]:
        """The calls that put the data, numbers of bf16, at the beginning of the working memory,
        as such.
        """
        inner, lanes = self.weights.inner, self.stored.lanes
        while lanes > inner:
            lanes //= 2
        spec = conversion("f32", "bf16", 2, lanes, open_row=False)
        for first, number in shares(self.all_rows, threads):
            line = inner * 2
            target, source = Scratch(self.begin + first * line), In(0, first * inner * 4)
            yield spec, [target, source, number, inner, line, inner * 4]

    def _shares(self, threads: int, block: int) -> Iterator[tuple[int, _Product, tuple[int, int]]]:
        """The parts of all products that may be computed together: which working memory is its own,
        the product, and some columns.
        """
        parts = -(-threads // len(self.products))
        number = 0
        for one in self.products:
            for columns in shares(self.weights.columns, parts, block):
                yield (number if threads > 1 else 0), one, columns
                number += 1

    def _own(self, threads: int, block: int) -> int:
        """How many parts have a working memory of their own."""
        return 1 + max(number for number, *_ in self._shares(threads, block))

    def _decoded(
        self,
        spec: FewRows | ManyRows,
        block: int,
        places: Mapping[str, SizeLike],
        scratch: SizeLike,
    ) -> _Way:
        """The way by a kernel whose parts have so much working memory, with things at `places`."""
        #: Bytes of a row of the data in bf16, which lie before the working memory of the threads.
        line = self.weights.inner * 2 if spec.pairs else 0
        begin = self.begin + whole_lines(self.all_rows * line)

        def stages(threads: int) -> Stages:
            before = [list(self._narrowed(threads))] if spec.pairs else []
            products = []
            for number, one, (first, count) in self._shares(threads, block):
                own = begin + scratch * number
                given = dict(one.operands)
                if spec.pairs:
                    given["data"] = Scratch(self.begin + self.rows * one.data * line)
                memory = {name: Scratch(own + place) for name, place in places.items()}
                products.append(
                    spec(**given, **memory, scratch=Scratch(own), first=first, count=count)
                )
            return Stages([*before, products], begin + scratch * self._own(threads, block))

        return _Way(spec.name, stages)

    def few_digits(self, dots: DotRows, target: Target, most: int) -> _Way:
        """The way by a kernel that sums in integers, of up to so many rows; by one that decodes
        weights where codes do not lie for that.
        """
        spec = dot_few(dots, self.rows, target)
        if spec is None:
            return self.few(target, dots.end, False, most)
        rows = smallest(self.rows, most)
        return self._of_digits(
            DigitCalls(spec, rows, self.weights.inner, self._data, self.begin), COLUMNS
        )

    def dots(self, spec: DotRows, groups: int) -> _Way:
        """The way by a kernel that sums in integers."""
        inner, data = self.weights.inner, self._data
        calls = DigitCalls(spec, self.rows, inner, data, self.begin, groups)
        return self._of_digits(calls, spec.width)

    def _of_digits(self, calls: DigitCalls, width: int) -> _Way:
        def stages(threads: int) -> Stages:
            products = [
                calls.product({**one.operands, "first": first, "count": count}, number, one.data)
                for number, one, (first, count) in self._shares(threads, width)
            ]
            memory = calls.scratch(self._own(threads, width))
            return Stages([calls.digits(threads), products], memory)

        return _Way(calls.spec.name, stages)


def _few(target: Target) -> int:
    """Up to so many rows are few."""
    return _FEW_BY_FEW_REGISTERS if target.vector_registers <= FEW_REGISTERS else _FEW


def _vectors(target: Target) -> int:
    """Vectors of a panel."""
    return 3 if target.vector_registers > 16 else 2


def _fits_panels(stored: Stored, pairs: bool) -> bool:
    """Whether codes are kept in panels where no call has few rows: pairs that are multiplied as
    they are, and those of 16 bits, that are widened and no more.
    """
    return pairs or (
        stored.element_type in HALVES and not (stored.zeros or stored.scales or stored.later)
    )


def _widens_beside(target: Target) -> bool:
    """Whether a processor widens codes beside its multiplications."""
    return target.lanes == _CONVERTING_LANES and target.cpu.startswith(_CONVERTING)


def _multiplies_pairs(linear: CompressedLinear, target: Target) -> bool:
    """Whether data and weights are multiplied as pairs of bf16.

    The instruction counts numbers below 2**-126 as 0, products and sums too: where weights are of
    moderate size that is an error of less than 2**-109 for each of them.
    """
    weights = linear.weights
    if (
        not target.has("avx512bf16")
        or weights.element_type is not ElementType.bf16
        or linear.numbers is not ElementType.bf16
        or weights.zero_points is not None
        or weights.scales is not None
        or weights.inner % 2
    ):
        return False
    smallest_code, largest_code = weights.extremes
    return smallest_code >= _NORMAL and largest_code <= _MODERATE


def _parameters(weights: CompressedMatrix, stored: Stored) -> list[Array | None]:
    """Zero points and scales, one for each column or for each of its groups, unless they stay as
    they are.
    """
    columns, groups = weights.shape[0], weights.shape[1] if stored.group else 1

    def given(array: Array, kind: str) -> Array:
        rows = 1 if SHARED in kind else columns
        return laid_out(np.broadcast_to(array, (rows, 1 if WHOLE in kind else groups)), kind)

    return [
        None if array is None else given(array, kind)
        for array, kind in ((weights.zero_points, stored.zeros), (weights.scales, stored.scales))
    ]


def _later(weights: CompressedMatrix, stored: Stored) -> list[Array]:
    """Operands of later steps, as they are."""
    steps = zip(weights.later, stored.later, strict=True)
    return [laid_out(step.operand, spec.kind) for step, spec in steps]


def _address(operand: Array, column: int) -> Operand:
    """Where zero points or scales of the columns from this one on lie."""
    return address_of(operand if len(operand) == 1 else operand[column:])


def _codes(weights: CompressedMatrix, stored: Stored) -> tuple[object, Array]:
    """The object that keeps the codes alive, and the codes column by column. Nothing is copied
    where they lie so already, perhaps in the mapped file.
    """
    if (
        (stored.element_type not in FOUR_BITS or weights.packed is not None)
        and weights.axes == (0, 1, 2)
        and weights.codes.flags.c_contiguous
    ):
        return weights.codes, weights.codes
    packed_weights = packed([weights.codes], (stored, weights.axes), lambda: [weights.in_columns()])
    return packed_weights, packed_weights.arrays[0]


def _in_panels(weights: CompressedMatrix, width: int, pairs: bool) -> tuple[object, Array]:
    """The object that keeps the codes alive, and the codes in panels of `width` columns; columns
    past the last one are 0. Of `pairs` two that follow each other in a column lie side by side.
    """

    def made() -> list[Array]:
        lying = weights.carriers().reshape(weights.columns, weights.inner)
        panels = np.empty((-(-weights.columns // width), weights.inner, width), lying.dtype)
        whole, left = divmod(weights.columns, width)
        rows = lying[: whole * width].reshape(whole, width, weights.inner)
        panels[:whole] = rows.swapaxes(1, 2)
        if left:
            panels[whole, :, :left] = lying[whole * width :].T
            panels[whole, :, left:] = 0
        if pairs:
            halves = panels.reshape(len(panels), weights.inner // 2, 2, width)
            panels = np.ascontiguousarray(halves.swapaxes(2, 3))
        return [panels]

    packed_weights = packed([weights.codes], ("panels", width, weights.axes, pairs), made)
    return packed_weights, packed_weights.arrays[0]
