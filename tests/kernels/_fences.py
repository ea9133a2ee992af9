"""Kernels on memory between pages that nobody may touch: a read or a write outside an array ends
the process.

`python -m tests.kernels._fences FAMILY` runs the kernels of one family: on the samples and random
cases of its operations, on the values that these must refuse, which kernels meet at a call, and on
sizes around the edges of its blocks. Inputs, packed weights, tables
and the kernel's arguments can be read only; what is between an array and its page's other end holds
canaries. Every case runs with its arrays at the end of their pages and at the beginning.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import sys
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.samples._sample import Case as Drawn
from tests.samples._sample import Samples
from uncork import storage
from uncork.errors import UncorkError
from uncork.internal_ops.appended_state import AppendState, StateValue
from uncork.internal_ops.coded_rows import RowCoding
from uncork.internal_ops.rounded import Rounded
from uncork.internal_ops.running_product import RunningProduct
from uncork.internal_ops.state_product import StateProduct
from uncork.kernels import select
from uncork.kernels.kernel_plan import (
    Alias,
    In,
    KernelPlan,
    Operand,
    Out,
    ReleaseGil,
    Scratch,
    Selection,
)
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.target import Target, host_target, release_gil
from uncork.ops import Operation, find
from uncork.ops.matmul import MatMul
from uncork.types import ElementType, PartialShape, TensorSpec

#: The C library: loading it for each page took a third of the time.
_LIBRARY = ctypes.CDLL(None, use_errno=True)
_NOTHING = 0
_CANARY = 0xA5
#: What the compiler aligns working memory to.
_ALIGNMENT = 64
#: Elements of an output at most: a refused size may be more than there is memory.
_MOST = 1 << 20
#: Recurrent layers group rows by their lengths, and sums with them; convolutions by rows of windows
#: lay out more images at a time for several threads.
_GROUPED = ("recurrent", "indirect_gemm")
Case = tuple[str, Operation, list[TensorSpec]]


class Fenced:
    """Bytes that end where a forbidden page begins, or (`first`) begin where one ends."""

    def __init__(self, size: int, first: bool, alignment: int = 1) -> None:
        pages = max(1, -(-size // mmap.PAGESIZE))
        self.memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
        self.inside = pages * mmap.PAGESIZE
        whole = np.frombuffer(self.memory, np.uint8)
        self.base = whole.ctypes.data
        self.page = whole[mmap.PAGESIZE : mmap.PAGESIZE + self.inside]
        self.page[:] = _CANARY
        begin = 0 if first else (self.inside - size) // alignment * alignment
        self.bytes = self.page[begin : begin + size]
        self.address = self.base + mmap.PAGESIZE + begin
        self._begin, self._end = begin, begin + size
        for page in (self.base, self.base + mmap.PAGESIZE + self.inside):
            _protect(page, mmap.PAGESIZE, _NOTHING)

    def only_read(self) -> None:
        _protect(self.base + mmap.PAGESIZE, self.inside, mmap.PROT_READ)

    def check(self) -> None:
        assert (self.page[: self._begin] == _CANARY).all(), "written before the array"
        assert (self.page[self._end :] == _CANARY).all(), "written behind the array"


def _protect(address: int, size: int, protection: int) -> None:
    done = _LIBRARY.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection)
    assert done == 0, f"mprotect: error {ctypes.get_errno()}"


def _fenced(array: np.ndarray, first: bool) -> Fenced:
    """A copy that can be read only."""
    given = Fenced(array.nbytes, first)
    given.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    given.only_read()
    return given


def run_fenced(
    native: KernelPlan,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    first: bool,
    threads: int = 1,
    target: Target | None = None,
) -> list[np.ndarray] | None:
    """The outputs; None when a kernel refuses the values. What several threads would do is done by
    one, the last first.
    """
    calls, needed = native.calls, native.scratch
    if threads > 1:
        stages = native.split(threads)
        calls, needed = (
            [call for stage in stages.stages for call in reversed(stage)],
            stages.scratch,
        )
    given = [_fenced(spec.value, first) for spec in inputs]
    made = [Fenced(int(o.shape.size) * o.element_type.dtype.itemsize, first) for o in outputs]
    if native.extends is not None:  # the output is an input that is written to
        made[0].bytes[:] = (
            np.ascontiguousarray(inputs[native.extends.position].value).reshape(-1).view(np.uint8)
        )
    scratch = Fenced(needed, first, _ALIGNMENT)
    arrays = [array for kept in native.keep for array in getattr(kept, "arrays", (kept,))]
    kept = [
        (int(array.ctypes.data), array.nbytes, _fenced(array, first))
        for array in arrays
        if array.nbytes
    ]

    def word(operand: Operand) -> int:
        if isinstance(operand, In):
            return given[operand.position].address + operand.offset
        if isinstance(operand, Out):
            return made[operand.position].address + operand.offset
        if isinstance(operand, Scratch):
            return scratch.address + operand.offset
        if isinstance(operand, ReleaseGil):
            return release_gil()
        for address, size, fence in kept:
            if address <= operand < address + size:
                return fence.address + operand - address
        assert abs(operand) < 1 << 40 or operand in [int(a.ctypes.data) for a in arrays], (
            f"the operand {operand} is taken for the address of an array, which `keep` of the plan "
            "lacks: numbers of a call are sizes below 2^40, others belong into the spec"
        )
        return operand

    status = 0
    for kernel, words in calls:
        function = STORE.address(kernel, target)
        arguments = _fenced(np.array([word(operand) for operand in words], np.int64), first)
        status = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)(arguments.address)
        if status:
            break
    for fence in (*made, scratch):
        fence.check()
    if status:
        return None
    return [
        fence.bytes.view(o.element_type.dtype).reshape(o.shape.static).copy()
        for fence, o in zip(made, outputs, strict=True)
    ]


def check(
    operation: Operation, specs: Sequence[TensorSpec], known: Sequence[TensorSpec] | None = None
) -> bool:
    """Run a case both ways and hold it against the reference; False when no kernel took it. `known`
    is what inference and the choice may look at.
    """
    from tests.ops.test_every_op import agree

    outputs = [TensorSpec(o.element_type, o.shape) for o in operation.describe(known or specs)]
    chosen: Selection = select.select_kernel(operation, known or specs, outputs, host_target())
    if isinstance(chosen, (str, Alias)):
        return False
    try:  # on copies: a reference may write into what it is given, as the layer does
        expected = operation.evaluate(
            [TensorSpec(s.element_type, s.shape, s.value.copy()) for s in specs]
        )
    except UncorkError:
        expected = None
    for first in (False, True):
        alone = None
        for threads in (1, 2, 3, 64) if getattr(chosen, "split", None) else (1,):
            results = run_fenced(chosen, specs, outputs, first, threads)
            if results is not None:
                assert expected is not None, "the reference refuses what the kernel computed"
                for got, wanted in zip(results, expected, strict=True):
                    agree(got, wanted.value, wanted.element_type, 2e-5, 1e-5)
            alone = results if threads == 1 else alone
            if not chosen.kernel.startswith(_GROUPED):
                assert bits(alone) == bits(results), f"{threads} threads"
    return True


def bits(results: Sequence[np.ndarray] | None) -> list[bytes] | None:
    """What parts of a step must give alike, whoever makes them."""
    return None if results is None else [array.tobytes() for array in results]


# ---- cases


def spec(array: np.ndarray, name: str = "") -> TensorSpec:
    element_type = ElementType.parse(name) if name else ElementType.of_dtype(array.dtype)
    assert element_type is not None
    return TensorSpec(element_type, PartialShape(array.shape), array)


def numbers(generator: np.random.Generator, *shape: int) -> TensorSpec:
    return spec(generator.standard_normal(shape).astype(np.float32))


def embedding(generator: np.random.Generator) -> Iterator[Case]:
    for table_type, columns, weighted in product(
        ["f32", "f16", "i8"], [1, 3, 15, 16, 17, 48, 64, 65, 96, 97, 130, 257], [False, True]
    ):
        rows, count = 40, int(generator.integers(1, 60))
        element_type = ElementType.parse(table_type)
        table = spec(
            storage.encode(generator.integers(-9, 9, (rows, columns)), element_type), table_type
        )
        ids = generator.integers(0, rows, count)
        ids[-1] = rows - 1  # the last row ends where the table does
        offsets = np.sort(generator.integers(0, count + 1, 9))
        offsets[0] = 0
        weights = (
            [spec(storage.encode(generator.integers(-3, 3, count), element_type), table_type)]
            if weighted
            else []
        )
        name = f"{table_type} {columns} {weighted}"
        bags = [
            table,
            spec(ids),
            spec(offsets),
            spec(np.int64([rows - 1])[0:1].reshape(())),
            *weights,
        ]
        yield f"bags {name}", find("EmbeddingBagOffsetsSum", 3)(), bags
        segments = spec(np.sort(generator.integers(0, 7, count)))
        given = [table, spec(ids), segments, spec(np.array(8)), spec(np.array(0)), *weights]
        yield f"segments {name}", find("EmbeddingSegmentsSum", 3)(), given
        packed = [
            table,
            spec(ids.reshape(1, -1)),
            *(spec(w.value.reshape(1, -1), table_type) for w in weights),
        ]
        yield f"packed {name}", find("EmbeddingBagPackedSum", 3)(), packed


def gather(generator: np.random.Generator) -> Iterator[Case]:
    sizes = [1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 200, 1023, 1024, 1100, 4096, 5000]
    for item, outer, index in product(sizes, [1, 3], ["int64", "int32"]):
        data = spec(generator.integers(0, 256, (outer, 20, item), np.uint8))
        ids = np.append(generator.integers(-25, 25, 17), [19, -20, 0, 20]).astype(index)
        yield f"{item} {outer} {index}", find("Gather", 8)(), [data, spec(ids), spec(np.array(1))]
    batches = spec(generator.integers(0, 256, (3, 5, 33), np.uint8))
    yield (
        "batches",
        find("Gather", 8)(batch_dims=1),
        [batches, spec(generator.integers(0, 5, (3, 4))), spec(np.array(1))],
    )
    # So much that rows prefetch by the indices of rows to come.
    for item, count, batch in product([40, 64, 300, 2100], [1, 5, 33, 70], [0, 1]):
        rows = max(3, (300 << 10) // (item * count))
        ids = generator.integers(-9, 10, (rows, count) if batch else (count,))
        yield (
            f"{rows} rows of {count} x {item}, {batch}",
            find("Gather", 8)(batch_dims=batch),
            [
                spec(generator.integers(0, 256, (rows, 9, item), np.uint8)),
                spec(ids),
                spec(np.array(1)),
            ],
        )
    large = spec(generator.integers(0, 256, (30, 4096), np.uint8))
    yield (
        "past the caches",
        find("Gather", 8)(),
        [large, spec(generator.integers(0, 30, 600)), spec(np.array(0))],
    )


def linear(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.fused import FusedLinear, FusedMember

    for rows, columns, inner in product(
        [1, 2, 3, 7, 9, 17], [1, 3, 15, 16, 17, 33, 49], [1, 3, 4, 5, 17]
    ):
        a, b = numbers(generator, rows, inner), numbers(generator, inner, columns)
        yield f"{rows} {inner} {columns}", find("MatMul", 1)(), [a, b]
    for rows, columns, inner in product([1, 4, 9], [1, 7, 8, 17, 25], [1, 5]):
        wide = [spec(generator.standard_normal(s)) for s in ((rows, inner), (inner, columns))]
        yield f"f64 {rows} {inner} {columns}", find("MatMul", 1)(), wide

    # Panels in blocks of the inner dimension: chunks of rows, tails, matrices of the call.
    def small(*shape: int, dtype: type = np.float32) -> TensorSpec:
        return spec((generator.standard_normal(shape) / 32).astype(dtype))

    for rows, columns, inner in product([1, 9, 131], [3, 33, 64], [12_300]):
        for dtype in (np.float32, np.float64):
            long = [small(rows, inner, dtype=dtype), small(inner, columns, dtype=dtype)]
            yield f"{dtype.__name__} {rows} {inner} {columns}", find("MatMul", 1)(), long
    yield "batches of 5000", find("MatMul", 1)(), [small(2, 9, 5000), small(2, 5000, 49)]
    ended = [FusedMember(find("Multiply", 1)(), (1, 0)), FusedMember(find("Sigmoid", 1)(), (2,))]
    yield (
        "residual of 5000",
        FusedLinear(find("MatMul", 1)(transpose_b=True), 2, ended),
        [small(9, 5000), small(50, 5000), small(9, 50)],
    )
    for columns, activation in product([1, 16, 20, 50], [None, "ReLU", "Sigmoid", "Tanh"]):
        a, b, bias = (
            numbers(generator, 3, 10),
            numbers(generator, columns, 10),
            numbers(generator, columns),
        )
        members = [
            FusedMember(find("Add", 1)(), (0, 1)),
            *([FusedMember(find(activation, 1)(), (2,))] if activation else []),
        ]
        yield (
            f"bias {columns} {activation}",
            FusedLinear(find("MatMul", 1)(transpose_b=True), 2, members),
            [a, b, bias],
        )
        residual = [
            FusedMember(find("Multiply", 1)(), (2, 0)),
            FusedMember(find("Add", 1)(), (3, 1)),
        ]
        given = [a, b, numbers(generator, 3, columns), numbers(generator, 1)]
        yield (
            f"residual {columns}",
            FusedLinear(find("MatMul", 1)(transpose_b=True), 2, residual),
            given,
        )


def fourier(generator: np.random.Generator) -> Iterator[Case]:
    last, first = (spec(np.array([axis])) for axis in (-1, 0))
    for length, count in product([1, 2, 7, 12, 25, 33, 64, 90, 131], [1, 3, 8, 17]):
        for dtype in (np.float32, np.float64):
            pairs = spec(generator.standard_normal((count, length, 2)).astype(dtype))
            lying = spec(generator.standard_normal((length, count, 2)).astype(dtype))
            real = spec(generator.standard_normal((count, length)).astype(dtype))
            name = f"{dtype.__name__} {length} {count}"
            for wanted in (length, length + 3, max(1, length - 3)):
                size = spec(np.array([wanted]))
                yield f"dft {name} {wanted}", find("DFT", 7)(), [pairs, last, size]
                yield f"rdft {name} {wanted}", find("RDFT", 9)(), [real, last, size]
                yield f"irdft {name} {wanted}", find("IRDFT", 9)(), [pairs, last, size]
            yield f"idft {name}", find("IDFT", 7)(), [lying, first]
    for length, own, step in ((16, 16, 4), (20, 7, 11), (9, 1, 1)):
        for shape, turned in product([(50,), (3, 50)], [False, True]):
            window, size, away = (
                numbers(generator, own),
                spec(np.array(length)),
                spec(np.array(step)),
            )
            operation = find("STFT", 15)(transpose_frames=turned)
            given = [numbers(generator, *shape), window, size, away]
            yield f"stft {length} {own} {step} {shape} {turned}", operation, given
        for centred in (False, True):
            spectra = numbers(generator, 2, length // 2 + 1, 5, 2)
            backward = find("ISTFT", 16)(center=centred, normalized=centred)
            given = [spectra, window, size, away, *([spec(np.array(40))] if centred else [])]
            yield f"istft {length} {own} {step} {centred}", backward, given


def convolution(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.fused import FusedConvolution, FusedMember

    bias_and_relu = [FusedMember(find("Add", 1)(), (0, 1)), FusedMember(find("ReLU", 1)(), (2,))]
    residual = [
        FusedMember(find("Add", 1)(), (0, 1)),
        FusedMember(find("Swish", 4)(), (3,)),
        FusedMember(find("Add", 1)(), (2, 4)),
    ]
    for columns, outputs, stride in product(
        [1, 3, 8, 15, 16, 17, 33, 49], [1, 3, 8, 13, 20], [1, 2]
    ):
        around = {
            "strides": [1, stride],
            "dilations": [1, 1],
            "pads_begin": [1, 1],
            "pads_end": [0, 1],
        }
        data, bias = numbers(generator, 2, 3, 3, columns), numbers(generator, 1, outputs, 1, 1)
        name = f"{columns} {outputs} {stride}"
        convolution = find("Convolution", 1)(**around)
        yield f"padded {name}", convolution, [data, numbers(generator, outputs, 3, 2, 3)]
        pointwise = find("Convolution", 1)(strides=[1, 1], dilations=[1, 1])
        fused = FusedConvolution(pointwise, 2, bias_and_relu)
        yield f"pointwise {name}", fused, [data, numbers(generator, outputs, 3, 1, 1), bias]
        more = [
            data,
            numbers(generator, outputs, 3, 1, 1),
            bias,
            numbers(generator, 2, outputs, 3, columns),
        ]
        yield f"residual {name}", FusedConvolution(pointwise, 2, residual), more
        alone = find("GroupConvolution", 1)(**around)
        yield f"alone {name}", alone, [data, numbers(generator, 3, 2, 1, 2, 3)]
        transposed = find("ConvolutionBackpropData", 1)(**around)
        if columns > 1:
            yield f"transposed {name}", transposed, [data, numbers(generator, 3, outputs, 2, 3)]


def blocks(generator: np.random.Generator) -> Iterator[Case]:
    """Layouts, and convolutions over blocks: their kernels are of the family of convolutions, and
    their cases few.
    """
    from uncork.internal_ops.blocks import BlockedConvolution, ChannelLayout, FromBlocks, ToBlocks

    lanes = host_target().lanes
    for columns, block in product([1, 2, 3, 5, 16, 17, 33], sorted({lanes, max(4, lanes // 2)})):
        data, blocked = (
            numbers(generator, 2, 2 * block, 3, columns),
            numbers(generator, 2, 2, 3, columns, block),
        )
        full = ChannelLayout(block, (2 * block,))
        yield f"to blocks {columns} {block}", ToBlocks(layout=full), [data]
        yield f"from blocks {columns} {block}", FromBlocks(layout=full), [blocked]
        for runs in ((3,), (block + 3, 1)):
            layout = ChannelLayout(block, runs)
            plain = numbers(generator, 2, sum(runs), 3, columns)
            lying = numbers(generator, 2, layout.blocks, 3, columns, block)
            yield f"zeros {runs} {columns} {block}", ToBlocks(layout=layout), [plain]
            yield f"without zeros {runs} {columns} {block}", FromBlocks(layout=layout), [lying]
        around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
        dense, apart = find("Convolution", 1)(**around), find("GroupConvolution", 1)(**around)
        filters = numbers(generator, 3 * block, 2 * block, 3, 3)
        filters.value[...] *= (
            0.1  # errors are those of the largest result, and are compared by themselves
        )
        for side in (0, 2, 4):
            yield (
                f"side {side} {columns} {block}",
                BlockedConvolution(dense, (True, False), block, side=side),
                [blocked, filters],
            )
        few = numbers(generator, 2, 1, 3, columns, 4)
        yield (
            f"few channels {columns} {block}",
            BlockedConvolution(dense, (True, False), block),
            [few, numbers(generator, 2 * block, 4, 3, 3)],
        )
        channels = numbers(generator, 2 * block, 1, 1, 3, 3)
        yield (
            f"apart {columns} {block}",
            BlockedConvolution(apart, (True, False), block),
            [blocked, channels],
        )
        shared = numbers(generator, 2, 3, 3, columns, block)
        groups = numbers(generator, 2, 3 * block // 2, 3 * block // 2, 3, 3)
        groups.value[...] *= 0.1
        yield (
            f"groups that share a block {columns} {block}",
            BlockedConvolution(apart, (True, False), block),
            [shared, groups],
        )


def pooled_blocks(generator: np.random.Generator) -> Iterator[Case]:
    """Windows that reach out of the data, by rows that are shorter than what is computed at a time,
    and longer.
    """
    from uncork.internal_ops.blocks import BlockedPooling
    from uncork.internal_ops.pooled_values import PooledValues

    lanes = host_target().lanes
    for columns, block, stride in product(
        [1, 2, 3, 7, 8, 9, 17, 33], sorted({lanes, max(4, lanes // 2)}), [1, 2]
    ):
        around = {
            "kernel": [3, 3],
            "strides": [stride] * 2,
            "pads_begin": [1, 1],
            "pads_end": [1, 1],
        }
        for operation in (
            PooledValues(find("MaxPool", 8)(**around)),
            find("AvgPool", 1)(exclude_pad=True, **around),
        ):
            name = f"{operation.type_name} {columns} {block} {stride}"
            yield (
                name,
                BlockedPooling(operation, (True,), block),
                [numbers(generator, 2, 2, 3, columns, block)],
            )


def einsum(generator: np.random.Generator) -> Iterator[Case]:
    for rows, columns, inner in product([1, 3, 8, 9], [1, 15, 16, 17, 50], [1, 4, 17]):
        name = f"{rows} {columns} {inner}"
        shapes = {"b": 3, "h": 4, "t": rows, "i": inner, "o": columns}
        for equation in (
            "bthi,hio->btho",
            "hoi,thi->hot",
            "bhti,bhoi->bhto",
            "oi,ti->to",
            "i,oi->o",
        ):
            given = [
                numbers(generator, *(shapes[label] for label in part))
                for part in equation.partition("->")[0].split(",")
            ]
            yield f"{equation} {name}", find("Einsum", 7)(equation=equation), given


def attention(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.attention import FusedAttention, Repeated, Scoring, Taken, Transposed

    plain = find("ScaledDotProductAttention", 13)(causal=False)
    kinds = [
        *[
            ("f32", 16, 16, False, ""),
            ("f32", 20, 70, True, ""),
            ("f32", 3, 1, False, "all"),
            ("f32", 33, 24, False, "rows"),
        ],
        *[
            ("f16", 16, 16, True, ""),
            ("f16", 5, 20, False, "keys"),
            ("bf16", 17, 33, False, "boolean"),
            ("bf16", 8, 3, True, ""),
        ],
    ]
    for (name, size, depth, causal, masked), targets, sources in product(
        kinds, [1, 3, 5, 49], [1, 15, 16, 64, 65, 530]
    ):
        element_type = ElementType.parse(name)
        query, key, value, *masks = (
            spec(storage.encode(numbers(generator, *shape).value, element_type), name)
            for shape in (
                *((2, 2, targets, size), (2, 2, sources, size), (2, 1, sources, depth)),
                *((targets, sources), (2, targets, 1), (2, 1, 1, sources)),
            )
        )
        given = dict(zip(("all", "rows", "keys"), masks, strict=True)) | {
            "boolean": spec(generator.random((2, 1, targets, sources)) < 0.7)
        }
        mask = [given[masked]] if masked else []
        label = f"{name} {targets} {sources} {size} {depth} {causal} {masked}"
        yield (
            label,
            find("ScaledDotProductAttention", 13)(causal=causal),
            [query, key, value, *mask],
        )
    for targets, sources, size in product([1, 4, 7], [1, 17, 40], [8, 33]):
        key, value = (
            numbers(generator, 2, sources, 3, size),
            numbers(generator, 2, 3, sources, size),
        )
        moves = (
            [Transposed((0, 2, 1, 3))],
            [Transposed((0, 2, 1, 3)), Repeated(1, 2)],
            [Repeated(1, 2)],
        )
        query = numbers(generator, 2, targets, 6, size)
        yield (
            f"groups {targets} {sources} {size}",
            FusedAttention(plain, moves, (0, 2, 1, 3), Scoring(0.3)),
            [query, key, value],
        )
        whole = numbers(generator, 2, targets, 3, 4, size)
        parts = [[Taken(2, part), Transposed((0, 2, 1, 3))] for part in range(3)]
        yield f"parts {targets} {size}", FusedAttention(plain, parts), [whole, whole, whole]
        batches = [numbers(generator, 6, 2, count, size) for count in (targets, sources, sources)]
        yield (
            f"windows {targets} {sources} {size}",
            FusedAttention(plain, recurs=True),
            [*batches, numbers(generator, 3, 2, targets, sources)],
        )
        turned = numbers(generator, 2, 3, size, sources)
        moves = ((), [Transposed((0, 1, 3, 2))], ())
        yield (
            f"turned {targets} {sources} {size}",
            FusedAttention(plain, moves),
            [numbers(generator, 2, 3, targets, size), turned, value],
        )
        yield (
            f"capped {targets} {sources} {size}",
            FusedAttention(plain, scoring=Scoring(0.7, 1.5)),
            batches,
        )


def compressed(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels._compressed import matrix
    from uncork.internal_ops.compressed_linear import CompressedLinear

    kinds = [
        ("f16", 0, "", False),
        ("bf16", 0, "", False),
        ("i8", 0, "", True),
        ("u8", 16, "whole", True),
    ]
    kinds += [
        ("i4", 0, "", False),
        ("i4", 32, "", True),
        ("u4", 128, "whole", True),
        ("u4", 64, "broken", True),
        # In whole numbers, where there are rows enough.
        ("i8", 0, "", False),
        ("u8", 64, "whole", False),
        ("u4", 128, "whole", False),
    ]
    for (stored, group, zeros, half), inner in product(kinds, (8, 40, 128, 200, 264, 384)):
        if group and inner % group:
            continue
        for columns, rows in ((3, 1), (5, 1), (51, 1), (5, 3), (33, 5), (51, 20), (100, 17)):
            weights = matrix(
                generator, stored, columns, inner, group, zeros, stored not in ("f16", "bf16"), half
            )
            operation = CompressedLinear(find("MatMul", 1)(transpose_b=True), weights)
            x = numbers(generator, rows, inner).value / np.float32(inner**0.5)
            label = f"{stored} {group} {inner} {columns} {rows}"
            yield label, operation, [spec(x)]
            if stored == "bf16":
                narrow = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
                pairs = CompressedLinear(operation.product, weights, ElementType.bf16)
                yield f"{label}, data of bf16", pairs, [spec(narrow)]
            if rows > 4 and not half:
                x = x.copy()
                x[-1, -1] = np.inf  # the last row as f32
                yield f"{label}, infinite", operation, [spec(x)]


def coded_rows(generator: np.random.Generator) -> Iterator[Case]:
    """Rows as a decoder keeps them, there and back, the last of one number."""
    for kind, count, columns in product(
        ("u8", "f16", "bf16"), (1, 2, 7), (1, 3, 8, 15, 16, 17, 33, 64, 65)
    ):
        coding = RowCoding(ElementType.parse(kind))
        rows = generator.standard_normal((count, columns)).astype(np.float32)
        rows[-1] = 0.5
        label = f"{kind} {count} {columns}"
        yield label, coding.encoder(), [spec(rows)]
        yield f"{label}, back", coding.decoder(), [spec(coding.encode(rows), kind)]


def quantized(generator: np.random.Generator) -> Iterator[Case]:
    """Layers on codes, whose numbers f32 holds exactly, and the ways in and out of codes."""
    from tests.kernels._quantized import POSITIVE, SIGNED, Layer
    from uncork.internal_ops.quantized import PLAIN, Held, QuantizedPool, Reheld

    for filters, sizes, pad in (
        *[
            ((48, 4, 3, 3), (2, 5, 15), 1),
            ((20, 8, 1, 1), (2, 3, 5), 0),
            ((17, 3, 3, 3), (1, 4, 29), 0),
            ((33, 12), (2, 7), 0),
        ],
        *[((4, 64), (1, 1), 0), ((140, 8), (3, 1), 0)],
    ):
        for data, result, other in product(
            (POSITIVE, SIGNED), (None, SIGNED), ("", "numbers", POSITIVE)
        ):
            whole = filters[0] % 4 == 0  # what fills words of codes up nobody reads: it is any code
            layer = Layer(
                filters,
                data,
                sizes,
                pad=pad,
                other=other if whole else "",
                result=result if whole else None,
            )
            yield f"{layer}", *layer.made(generator)
    for channels, columns, stride in product([4, 20, 48], [1, 7, 8, 21], [1, 2]):
        layer = Layer(
            (channels, 1, 3, 3),
            SIGNED,
            (2, 4, columns),
            stride,
            pad=1,
            result=POSITIVE,
            groups=channels,
        )
        yield f"{layer}", *layer.made(generator)
        held, codes = (
            Held(SIGNED, True, channels),
            spec(generator.integers(0, 256, (2, 4, columns, channels)).astype("u1"), "u8"),
        )
        window = {
            "kernel": [3, 2],
            "strides": [stride, 2],
            "pads_begin": [1, 0],
            "pads_end": [1, 1],
        }
        yield (
            f"pool {channels} {columns} {stride}",
            QuantizedPool(find("MaxPool", 1)(**window), [held], held),
            [codes],
        )
    for channels, pixels, last in product([1, 4, 17, 32], [1, 15, 33], [True, False]):
        held = Held(SIGNED, last, channels)
        data = spec(
            (
                generator.integers(
                    -999, 999, (2, channels, pixels) if last else (2, pixels, channels)
                )
                / 128
                + 1 / 512
            ).astype(np.float32)
        )
        yield f"codes {channels} {pixels} {last}", Reheld(PLAIN, held), [data]
        yield (
            f"numbers {channels} {pixels} {last}",
            Reheld(held, PLAIN),
            [spec(held.hold(data.value), "u8")],
        )
        if last:
            yield f"last {channels} {pixels}", Reheld(PLAIN, Held(None, True, channels)), [data]


def recurrent(generator: np.random.Generator) -> Iterator[Case]:
    cells = [
        ("GRUSequence", {"linear_before_reset": True}),
        ("GRUSequence", {"linear_before_reset": False}),
        ("LSTMSequence", {}),
    ]
    for (name, attributes), hidden, batch in product(
        [*cells, ("RNNSequence", {})], [1, 15, 16, 17, 33, 70], [1, 3, 9]
    ):
        gates = {"GRUSequence": 3, "LSTMSequence": 4, "RNNSequence": 1}[name]
        biases = 4 if attributes.get("linear_before_reset") else gates
        steps, inner = 4, 5
        lengths = spec(generator.integers(0, steps, batch, endpoint=True))
        states = [
            numbers(generator, batch, 2, hidden) for _ in range(2 if name == "LSTMSequence" else 1)
        ]
        weights = [
            numbers(generator, 2, gates * hidden, inner),
            numbers(generator, 2, gates * hidden, hidden),
        ]
        weights[1].value[...] /= np.sqrt(hidden)
        operation = find(name, 5)(hidden_size=hidden, direction="bidirectional", **attributes)
        specs = [
            numbers(generator, batch, steps, inner),
            *states,
            lengths,
            *weights,
            numbers(generator, 2, biases * hidden),
        ]
        yield f"{name} {attributes} {hidden} {batch}", operation, specs


def sequences(generator: np.random.Generator) -> Iterator[Case]:
    yield from recurrent(generator)
    yield from of_doubles(recurrent(generator))


def cells(generator: np.random.Generator) -> Iterator[Case]:
    yield from cell(generator)
    yield from of_doubles(cell(generator))


def of_doubles(cases: Iterator[Case]) -> Iterator[Case]:
    """Those of few and of some units, in f64."""
    for name, operation, specs in cases:
        if operation.hidden_size in (1, 17):
            values = [s.value for s in specs]
            wide = [v.astype(np.float64) if v.dtype == np.float32 else v for v in values]
            yield f"f64 {name}", operation, [spec(value) for value in wide]


def cell(generator: np.random.Generator) -> Iterator[Case]:
    """The steps of the sequences of one direction, each a cell."""
    for name, operation, specs in recurrent(generator):
        x, *states, _, w, r, b = (s.value for s in specs)
        attributes = {"hidden_size": r.shape[-1]}
        if name.startswith("GRU"):
            attributes["linear_before_reset"] = operation.linear_before_reset
        kind = name.split("Sequence")[0]
        of_cell = find(f"{kind}Cell", {"GRU": 3, "LSTM": 4, "RNN": 1}[kind])(**attributes)
        arrays = [x[:, 0], *(state[:, 0] for state in states), w[0], r[0], b[0]]
        yield f"cell of {name}", of_cell, [spec(np.ascontiguousarray(array)) for array in arrays]


def last_step(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.final_states import LastStates, StepLengths
    from uncork.internal_ops.looked_up_sequence import LookedUp

    for name, operation, specs in recurrent(generator):
        yield f"states of {name}", LastStates(operation), specs
        _, *others = specs
        table = numbers(generator, 11, specs[0].value.shape[2])
        ids = spec(generator.integers(-13, 13, specs[0].value.shape[:2]))
        for sequence in (operation, LastStates(operation)):
            yield (
                f"looked up {name}",
                LookedUp(find("Gather", 8)(), sequence),
                [ids, *others, table, spec(np.array(0))],
            )
    for batch, index, stride, zeros in product(
        [1, 3, 8, 17], ["int64", "int32"], [1, 5], [True, False]
    ):
        places = generator.integers(-7 if zeros else 0, 9 if zeros else 4, (batch, stride)).astype(
            index
        )
        given = [spec(places), spec(generator.integers(0, 4, batch, endpoint=True))]
        yield (
            f"lengths {batch} {index} {stride} {zeros}",
            StepLengths(4, stride, zeros, zeros),
            given,
        )


def elementwise(generator: np.random.Generator) -> Iterator[Case]:
    for element_type, count in product((ElementType.f16, ElementType.bf16), (1, 15, 33)):
        yield f"rounded {element_type} {count}", Rounded(element_type), [numbers(generator, count)]
    from uncork.internal_ops.fused import Fused, FusedMember

    multiply, add, tanh = (find(name, 1)() for name in ("Multiply", "Add", "Tanh"))
    fused = Fused(
        [FusedMember(multiply, (0, 1)), FusedMember(add, (3, 2)), FusedMember(tanh, (4,))]
    )
    for size in (1, 3, 7, 8, 15, 16, 17, 31, 33, 65, 1000):
        for shapes in ([(3, size)] * 3, [(3, size), (size,), (3, 1)], [(3, 1), (1, size), (1,)]):
            yield f"fused {shapes}", fused, [numbers(generator, *shape) for shape in shapes]
        for name, target in (("f16", "f32"), ("i8", "f32"), ("i64", "i32"), ("f32", "bf16")):
            element_type = ElementType.parse(name)
            values = spec(storage.encode(generator.integers(-9, 9, size), element_type), name)
            yield (
                f"{name} to {target} {size}",
                find("Convert", 1)(destination_type=target),
                [values],
            )


def reduce(generator: np.random.Generator) -> Iterator[Case]:
    for size in (1, 3, 7, 8, 15, 16, 17, 33, 65, 200):
        data = numbers(generator, 3, size)
        yield f"softmax {size}", find("SoftMax", 8)(axis=-1), [data]
        for axis in (0, 1):
            yield (
                f"inner softmax {axis} {size}",
                find("SoftMax", 8)(axis=axis),
                [numbers(generator, 3, 5, size)],
            )
            yield (
                f"inner log softmax {axis} {size}",
                find("LogSoftmax", 5)(axis=axis),
                [numbers(generator, 3, 5, size)],
            )
            how = {"normalize_variance": True, "eps": 1e-3, "eps_mode": "inside_sqrt"}
            axes = spec(np.array([axis, 2 - 2 * axis]))
            yield (
                f"inner standardised {axis} {size}",
                find("MVN", 6)(**how),
                [numbers(generator, 3, 5, size), axes],
            )
            yield (
                f"apart {axis} {size}",
                find("ReduceMax", 1)(),
                [numbers(generator, 3, 5, size), spec(np.array([0, 2]))],
            )
        for name, axis in product(("ReduceSum", "ReduceMax", "ReduceL2"), (0, 1)):
            yield f"{name} {axis} {size}", find(name, 4)(), [data, spec(np.array([axis]))]


def pool(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.pooled_values import PooledValues

    for columns, stride, taps, pad in product(
        [1, 3, 8, 15, 16, 17, 33, 65], [1, 2, 3, 5], [1, 2, 3, 5], [0, 1]
    ):
        if columns + 2 * pad < taps or pad >= taps:
            continue
        data = numbers(generator, 2, 3, 4, columns)
        rows = min(taps, 4)
        window = {
            "kernel": [rows, taps],
            "strides": [1, stride],
            "pads_begin": [0, pad],
            "pads_end": [0, pad],
        }
        largest = find("MaxPool", 8)(rounding_type="ceil", **window)
        name = f"{columns} {stride} {taps} {pad}"
        yield f"largest {name}", PooledValues(largest), [data]
        yield f"places {name}", largest, [data]
        yield (
            f"mean {name}",
            find("AvgPool", 1)(exclude_pad=bool(pad), rounding_type="ceil", **window),
            [data],
        )
    for columns, count in product([1, 3, 16, 17, 40], [1, 2, 3, 17]):
        data, wanted = numbers(generator, 2, 3, 4, columns), spec(np.array([3, count]))
        yield f"adaptive {columns} {count}", find("AdaptiveAvgPool", 8)(), [data, wanted]
        yield (
            f"adaptive {columns} {count}",
            PooledValues(find("AdaptiveMaxPool", 8)()),
            [data, wanted],
        )
        yield f"adaptive places {columns} {count}", find("AdaptiveMaxPool", 8)(), [data, wanted]


def normalise(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.blocks import BlockedNormalization
    from uncork.internal_ops.fused import FusedMember, FusedNormalization

    residual = [
        FusedMember(find("Multiply", 1)(), (0, 1)),
        FusedMember(find("Swish", 4)(), (3,)),
        FusedMember(find("Add", 1)(), (2, 4)),
    ]
    for size, name in product((1, 3, 7, 8, 15, 16, 17, 33, 65, 200), ("f32", "f16", "f64")):
        data = spec(
            storage.encode(generator.standard_normal((2, 6, size)), ElementType.parse(name)), name
        )
        channels = spec(storage.encode(generator.standard_normal(6), ElementType.parse(name)), name)
        yield (
            f"groups {size} {name}",
            find("GroupNormalization", 12)(num_groups=3, epsilon=1e-3),
            [data, channels, channels],
        )
        if name == "f32":
            groups = find("GroupNormalization", 12)(num_groups=2, epsilon=0.1)
            ends = FusedNormalization(groups, 3, residual)
            more = [data, channels, channels, numbers(generator, 6, 1), data]
            yield f"ended groups {size}", ends, more
        for axis in (1, 2):
            along = spec(np.array([axis]))
            yield (
                f"norm {axis} {size} {name}",
                find("NormalizeL2", 1)(eps=1e-3, eps_mode="add"),
                [data, along],
            )
            around = {"alpha": 0.1, "beta": 0.75, "bias": 1.0, "size": 5}
            yield f"window {axis} {size} {name}", find("LRN", 1)(**around), [data, along]
    for pixels, block, groups in product((1, 2, 5, 17), (4, 8, 16), (1, 2, 3, 6, 24, 48)):
        operation = FusedNormalization(
            find("GroupNormalization", 12)(num_groups=groups, epsilon=0.1), 3, residual
        )
        of_channels = numbers(generator, 48), numbers(generator, 48), numbers(generator, 48, 1)
        values = generator.standard_normal((2, 48 // block, pixels, block))
        for half in (False, True):
            kind = ElementType.bf16 if half else ElementType.f32
            data = spec(storage.encode(values, kind), kind.name)
            lies = True, False, False, False, True
            yield (
                f"blocks of {block} {groups} {pixels} {kind}",
                BlockedNormalization(operation, lies, block, half),
                [data, *of_channels, data],
            )


def resize(generator: np.random.Generator) -> Iterator[Case]:
    for columns, wanted, mode in product(
        [1, 2, 3, 16, 17, 40], [1, 5, 32, 33, 80], ("nearest", "linear", "linear_onnx", "cubic")
    ):
        data = numbers(generator, 2, 3, 5, columns)
        how = {
            "mode": mode,
            "shape_calculation_mode": "sizes",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        for axes, sizes in (([2, 3], [7, wanted]), ([3], [wanted]), ([2], [wanted])):
            yield (
                f"{columns} {wanted} {mode} {axes}",
                find("Interpolate", 11)(**how),
                [data, spec(np.array(sizes)), spec(np.array(axes))],
            )
    for columns, channels, mode, name in product(
        [1, 3, 17], [1, 3, 15, 16], ("nearest", "linear", "cubic"), ("f32", "u8", "f16")
    ):
        if (name, channels, mode == "nearest") == ("u8", 16, False):
            continue  # the reference's order of sums is another
        values = generator.integers(0, 99, (2, 3, columns, channels))
        data = spec(storage.encode(values, ElementType.parse(name)), name)
        operation = find("Interpolate", 11)(mode=mode, shape_calculation_mode="sizes")
        label = f"{columns} {channels} {mode} {name} channels last"
        yield label, operation, [data, spec(np.array([5, 9])), spec(np.array([1, 2]))]


def colours(generator: np.random.Generator) -> Iterator[Case]:
    kinds = ("I420toRGB", "I420toBGR", "NV12toRGB", "NV12toBGR")
    for kind, columns, name in product(kinds, [1, 3, 8, 16, 17, 40], ("u8", "f32", "f16")):
        sizes = [(2, 4, 2 * columns, 1)]
        halves = [(2, 2, columns, 1)] * 2 if "I420" in kind else [(2, 2, columns, 2)]
        for shapes in ([(2, 6, 2 * columns, 1)], [*sizes, *halves]):
            planes = [
                spec(storage.encode(generator.integers(0, 256, s), ElementType.parse(name)), name)
                for s in shapes
            ]
            yield f"{columns} {name} {kind} {len(shapes)}", find(kind, 8)(), planes


def regions(generator: np.random.Generator) -> Iterator[Case]:
    for columns, mode, ratio in product([1, 3, 16, 17, 40], ("avg", "max"), (0, 1, 2, 3)):
        data = numbers(generator, 2, 3, 5, columns)
        boxes = generator.uniform(-2, max(columns, 5) + 2, (4, 4)).astype(np.float32)
        boxes[3, 2] = np.nan
        how = {"pooled_h": 3, "pooled_w": 2, "sampling_ratio": ratio, "spatial_scale": 1.0}
        given = [data, spec(boxes), spec(np.array([0, 1, 1, 0]))]
        yield f"{columns} {mode} {ratio}", find("ROIAlign", 9)(mode=mode, **how), given


def bins(generator: np.random.Generator) -> Iterator[Case]:
    for columns, size in product([1, 3, 16, 17, 40], [1, 3, 7, 20]):
        boxes = generator.uniform(-4, max(columns, 5) + 4, (5, 5)).astype(np.float32)
        boxes[:, 0] = 1, 0, 1, -1, 0
        boxes[1, 3:] = np.nan, 9
        data = numbers(generator, 2, 3, 5, columns)
        for method in ("max", "bilinear"):
            how = {"pooled_h": 2, "pooled_w": size, "method": method}
            unit = boxes / [[1, *[1.0 if method == "max" else columns + 5.0] * 4]]
            operation = find("ROIPooling", 1)(spatial_scale=1.0, **how)
            yield f"{columns} {size} {method}", operation, [data, spec(unit.astype(np.float32))]
        if size < 20:
            operation = find("PSROIPooling", 1)(
                output_dim=2, group_size=size, spatial_scale=0.5, mode="average"
            )
            parts = numbers(generator, 2, 2 * size * size, 5, columns)
            yield f"{columns} {size} parts", operation, [parts, spec(boxes)]


def deformable(generator: np.random.Generator) -> Iterator[Case]:
    """Places around and outside of the images, with strips of rows and without."""
    for columns, blocks, version, stride in product([1, 3, 15, 16, 17, 40], [1, 2], [1, 8], [1, 2]):
        how = {"strides": [1, stride], "dilations": [2, 1], "pads_begin": [1, 0]}
        how |= {"pads_end": [2, 1], "deformable_group": blocks}
        if version == 8:
            how["bilinear_interpolation_pad"] = columns % 2 == 0
        operation = find("DeformableConvolution", version)(**how)
        size = 5, (columns + 1 - 2) // stride + 1
        moves = generator.uniform(-3, 3, (2, blocks * 12, *size)).astype(np.float32)
        moves[0, 0, 0, 0], moves[1, 1, -1, -1], moves[1, 0, 0, 0] = np.nan, 1e30, -np.inf
        given = [numbers(generator, 2, 4, 6, columns), spec(moves), numbers(generator, 6, 4, 3, 2)]
        if version == 8:
            given.append(numbers(generator, 2, blocks * 6, *size))
        yield f"{columns} {blocks} {version} {stride}", operation, given
    for channels, group in ((128, 1), (64, 4)):
        operation = find("DeformableConvolution", 1)(
            strides=[1, 1], dilations=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], group=group
        )
        moves = spec(generator.uniform(-2, 2, (1, 18, 40, 33)).astype(np.float32))
        shape = 16, channels // group, 3, 3
        filters = spec((generator.standard_normal(shape) / 32).astype(np.float32))
        yield f"{channels}", operation, [numbers(generator, 1, channels, 40, 33), moves, filters]


def yolo(generator: np.random.Generator) -> Iterator[Case]:
    for columns, coords, classes, together in product(
        [1, 3, 8, 17, 40], [0, 1, 4], [0, 1, 20], [0, 1]
    ):
        how = {"do_softmax": bool(together), "num": 2, "mask": [0, 1], "axis": 1, "end_axis": 3}
        operation = find("RegionYolo", 1)(coords=coords, classes=classes, **how)
        data = numbers(generator, 2, 2 * (coords + 1 + classes), 2, columns)
        yield f"{columns} {coords} {classes} {together}", operation, [data]


def patches(generator: np.random.Generator) -> Iterator[Case]:
    ways = product([5, 16, 17, 40], [1, 2, 3, 5], [1, 2], ("same_upper", "same_lower", "valid"))
    for (columns, stride, rate, pad), name in zip(
        ways, itertools.cycle(("f32", "u8", "f16", "i64")), strict=False
    ):
        how = {"sizes": [2, 3], "strides": [1, stride], "rates": [1, rate], "auto_pad": pad}
        values = generator.integers(0, 99, (2, 3, 5, columns))
        data = spec(storage.encode(values, ElementType.parse(name)), name)
        yield (
            f"{columns} {stride} {rate} {pad} {name}",
            find("ExtractImagePatches", 3)(**how),
            [data],
        )


def folded(generator: np.random.Generator) -> Iterator[Case]:
    ways = product([5, 16, 17, 40], [1, 2, 3], [1, 2], [0, 1])
    types = itertools.cycle(("f32", "f64", "f16", "bf16", "i32", "i64"))
    for (columns, stride, dilation, pad), name in zip(ways, types, strict=False):
        how = {"strides": [2, stride], "dilations": [1, dilation]}
        pads = {"pads_begin": [1, pad], "pads_end": [0, pad]}
        patches = 2 * ((columns + 2 * pad - 2 * dilation - 1) // stride + 1)
        values = generator.integers(0, 99, (2, 18, patches))
        data = spec(storage.encode(values, ElementType.parse(name)), name)
        operation = find("Col2Im", 15)(**how, **pads)
        sizes = [spec(np.array(n), "i64") for n in ([4, columns], [2, 3])]
        yield f"{columns} {stride} {dilation} {pad} {name}", operation, [data, *sizes]


def sample(generator: np.random.Generator) -> Iterator[Case]:
    for columns, wanted, mode, padding in product(
        [1, 3, 16, 40],
        [1, 5, 16, 33],
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
    ):
        data, places = numbers(generator, 2, 3, 5, columns), numbers(generator, 2, 3, wanted, 2)
        places.value[0, 0, 0] = 1e30, np.nan
        yield (
            f"{columns} {wanted} {mode} {padding}",
            find("GridSample", 9)(mode=mode, padding_mode=padding),
            [data, places],
        )


def scan(generator: np.random.Generator) -> Iterator[Case]:
    ways = product(
        (1, 3, 8, 15, 16, 17, 33, 200),
        (0, 1),
        (False, True),
        (False, True),
        ("f32", "f16", "f64", "i8", "i64"),
    )
    for size, axis, exclusive, reverse, name in ways:
        kind, how = ElementType.parse(name), {"exclusive": exclusive, "reverse": reverse}
        data = spec(storage.encode(generator.integers(-9, 9, (3, size)), kind), name)
        title = f"{size} {axis} {exclusive} {reverse} {name}"
        yield title, find("CumSum", 3)(**how), [data, spec(np.array(axis))]
        factors = generator.choice([-1, 1, 1, 1, 1, 1, 1, 1, 2], (3, size))
        factors[:, 30:] = np.minimum(factors[:, 30:], 1)  # no product leaves f16
        data = spec(storage.encode(factors, kind), name)
        yield f"product {title}", RunningProduct(axis=axis, **how), [data]


def padding(generator: np.random.Generator) -> Iterator[Case]:
    ways = product([16, 17, 40, 67], [0, 3, -2], [0, 1, 20], [True, False])
    types = itertools.cycle(("f32", "u8", "f16", "i64", "boolean"))
    for (columns, before, behind, has_value), name in zip(ways, types, strict=False):
        values = generator.integers(0, 2, (2, 3, columns))
        data = spec(storage.encode(values, ElementType.parse(name)), name)
        pads = [spec(np.array([0, n, at])) for n, at in ((2, before), (1, behind))]
        value = [spec(storage.encode(np.array(1), ElementType.parse(name)), name)]
        operation = find("Pad", 12)(pad_mode="constant")
        title = f"{columns} {before} {behind} {has_value} {name}"
        yield title, operation, [data, *pads, *(value if has_value else [])]
    for behind in (1, 5):  # rows behind the data, which threads would begin with
        data = spec(generator.integers(0, 9, (3, 40)).astype(np.float32))
        pads = [spec(np.array([0, 1])), spec(np.array([behind, 2]))]
        yield f"{behind} rows behind", find("Pad", 12)(pad_mode="constant"), [data, *pads]


def move(generator: np.random.Generator) -> Iterator[Case]:
    for size in (1, 3, 8, 17, 65, 300):
        data = numbers(generator, 3, size)
        yield f"transpose {size}", find("Transpose", 1)(), [data, spec(np.array([1, 0]))]
        yield (
            f"concat {size}",
            find("Concat", 1)(axis=1),
            [data, numbers(generator, 3, 5), numbers(generator, 3, size)],
        )
        yield f"tile {size}", find("Tile", 1)(), [data, spec(np.array([2, 2]))]


def moved(generator: np.random.Generator) -> Iterator[Case]:
    """Slices with steps of both kinds, beside each other, and one behind the other."""
    from uncork.internal_ops.fused import FusedMember, Moved

    cut, join = find("Slice", 8)(), find("Concat", 1)(axis=1)
    ends = [spec(np.array([n])) for n in (0, -1, 1, 1 << 40, -(1 << 40))]
    for size, step in product((5, 8, 16, 17, 33, 64, 65, 130), (-3, -2, -1, 1, 2, 3, 4)):
        inputs = [numbers(generator, 3, size), *ends, spec(np.array([step]))]
        begin, end = (3, 4) if step > 0 else (2, 5)  # the first element is left out, or the last
        pieces = [FusedMember(cut, (0, n, end, 6, 3)) for n in (begin, 1 if step > 0 else 2)]
        yield f"beside {size} {step}", Moved([*pieces, FusedMember(join, (7, 8, 0))]), inputs
        again = FusedMember(cut, (7, begin, end, 6, 3))
        yield f"twice {size} {step}", Moved([pieces[0], again]), inputs


def pick(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.leading_best import LeadingBest

    for size, best, mode in product(
        (1, 3, 8, 15, 16, 17, 33, 65, 200), (1, 3, 16, 64), ("max", "min")
    ):
        if best <= size:
            operation = find("TopK", 3)(axis=-1, mode=mode, sort="value")
            yield (
                f"{best} {mode} of {size}",
                operation,
                [numbers(generator, 3, size), spec(np.array(best))],
            )
    for size, best, name, axis, sort in product(
        (1, 15, 16, 17, 100), (1, 9, 70), ("f32", "bf16", "i64"), (0, 1), ("value", "index")
    ):
        element_type, mode = ElementType.parse(name), "min" if sort == "index" else "max"
        if best <= size and (name != "f32" or axis == 0 or sort == "index" or best > 64):
            data = spec(
                storage.encode(
                    generator.integers(-20, 20, (size, 3) if axis == 0 else (3, size)), element_type
                ),
                name,
            )
            operation = find("TopK", 11)(axis=axis, mode=mode, sort=sort)
            yield (
                f"{best} {mode} of {size} {name} {axis} {sort}",
                operation,
                [data, spec(np.array(best))],
            )
    for columns, best, name in product((16, 17, 33, 70), (1, 3, 16), ("f32", "f16", "i64", "u8")):
        data = spec(
            storage.encode(generator.integers(0, 30, (2, 20, columns)), ElementType.parse(name)),
            name,
        )
        for mode in ("max", "min"):
            yield (
                f"{best} {mode} of columns {columns} {name}",
                find("TopK", 11)(axis=1, mode=mode, sort="value"),
                [data, spec(np.array(best))],
            )
    for size, most, axis in product((15, 17, 33), (1, 9, 40), (0, 1)):
        sort = find("TopK", 11)(axis=axis, mode="min", sort="value")
        data = numbers(generator, size, 17) if axis == 0 else numbers(generator, 3, size)
        yield (
            f"first {most} of {size} {axis}",
            LeadingBest(sort, most),
            [data, spec(np.array(size))],
        )
    for size, axis in product((1, 3, 17), (0, 1)):
        places = spec(generator.integers(-size, size, (size, 4) if axis == 0 else (3, 5)))
        data = numbers(generator, size, 4) if axis == 0 else numbers(generator, 3, size)
        yield f"elements {size} {axis}", find("GatherElements", 6)(axis=axis), [data, places]


def generation(generator: np.random.Generator) -> Iterator[Case]:
    for depth, axis, name, index in product(
        [1, 3, 16, 17, 65], [0, 1, 2], ["f32", "f16", "i8", "f64"], ["int64", "i1"]
    ):
        element_type = ElementType.parse(name)
        on, off = (spec(storage.encode(np.array(value), element_type), name) for value in (5, -3))
        places = spec(
            np.append(
                generator.integers(-depth, depth, (3, 4)), [[depth - 1, 0, depth, -depth]], axis=0
            ).astype(index)
        )
        operation = find("OneHot", 16)(axis=axis, negative_indices_mode="normalize")
        yield (
            f"one hot {depth} {axis} {name} {index}",
            operation,
            [places, spec(np.array(depth)), on, off],
        )
    for stop, step, name in product(
        [0, 1, 15, 16, 17, 100], [1, 3], ["i64", "i32", "u8", "f32", "f64"]
    ):
        numbers = [spec(np.array(number, np.int32)) for number in (0, stop, step)]
        yield f"range {stop} {step} {name}", find("Range", 4)(output_type=name), numbers


def search(generator: np.random.Generator) -> Iterator[Case]:
    for length, count, name, right in product(
        [0, 1, 2, 15, 16, 17, 100], [1, 3, 17], ["f32", "f16", "i32", "f64", "u8"], [True, False]
    ):
        element_type = ElementType.parse(name)
        row, values = (
            spec(storage.encode(np.sort(generator.integers(0, 99, n)), element_type), name)
            for n in (length, count)
        )
        yield (
            f"buckets {length} {count} {name} {right}",
            find("Bucketize", 3)(with_right_bound=right),
            [values, row],
        )
        rows = spec(np.stack([row.value, row.value + row.value]), name) if name == "f32" else row
        yield (
            f"rows {length} {count} {name} {right}",
            find("SearchSorted", 15)(right_mode=right),
            [
                rows,
                spec(np.stack([values.value] * 2), name),
            ],
        )


def finding(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_count_first import two_layers

    for shape, name, index in product(
        [(1,), (63,), (64,), (65,), (300,), (3, 17), (2, 3, 70), ()],
        ["f32", "f16", "boolean", "i8"],
        ["i32", "i64"],
    ):
        element_type = ElementType.parse(name)
        data = spec(
            storage.encode(
                generator.integers(0, 3, shape).astype(bool if name == "boolean" else int),
                element_type,
            ),
            name,
        )
        for each in two_layers(find("NonZero", 3)(output_type=index), [data]):
            yield (f"non-zero {shape} {name} {index}", *each)
        operation = find("Unique", 10)(sorted=index == "i64", index_element_type=index)
        for each in two_layers(operation, [data]):
            yield (f"unique {shape} {name} {index}", *each)
    for rows, entries, name in product([1, 7, 20], [1, 5, 30], ["f32", "i8", "f64"]):
        places = np.stack(
            [np.sort(generator.integers(0, rows, entries)), np.zeros(entries, int)], 1
        )
        values = spec(
            generator.integers(0, 9, entries).astype({"f32": "f4", "i8": "i1", "f64": "f8"}[name]),
            name,
        )
        given = [
            values,
            spec(np.array([rows, 3])),
            spec(places),
            spec(np.array(5, values.value.dtype), name),
        ]
        for each in two_layers(find("SparseFillEmptyRows", 16)(), given):
            yield (f"filled {rows} {entries} {name}", *each)


def detection(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_count_first import boxes_of, two_layers

    for count, limit, center in product([1, 3, 16, 17, 40], [1, 15, 16, 17, 100], [True, False]):
        operation = find("NonMaxSuppression", 9)(
            box_encoding="center" if center else "corner", output_type="i32"
        )
        given = [
            *boxes_of(generator, 2, 3, count),
            spec(np.array(limit)),
            spec(np.float32(0.4)),
            spec(np.float32(0.1)),
        ]
        for each in two_layers(operation, given):
            yield (f"boxes {count} {limit} {center}", *each)
        for version in (5, 9) if center else ():
            soft = find("NonMaxSuppression", version)()
            for each in two_layers(soft, [*given, spec(np.float32(0.5))]):
                yield (f"soft {version} {count} {limit}", *each)


def classes(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_count_first import boxes_of, two_layers

    for count, top, keep, order in product(
        [1, 3, 16, 17, 40], [-1, 0, 5, 17], [-1, 4], ["none", "score", "classid"]
    ):
        operation = find("MulticlassNms", 8)(
            sort_result_type=order,
            sort_result_across_batch=count % 2 == 1,
            output_type="i32" if keep < 0 else "i64",
            nms_top_k=top,
            keep_top_k=keep,
            background_class=count % 3 - 1,
            iou_threshold=0.4,
            score_threshold=0.1,
        )
        given = boxes_of(generator, 2, 3, count)
        for each in two_layers(operation, given):
            yield (f"{count} {top} {keep} {order}", *each)
        operation = find("MatrixNms", 8)(
            sort_result_type=order,
            sort_result_across_batch=count % 2 == 1,
            nms_top_k=top,
            keep_top_k=keep,
            background_class=0,
            decay_function="linear" if top > 0 else "gaussian",
            score_threshold=0.1,
            post_threshold=0.2,
        )
        for each in two_layers(operation, given):
            yield (f"falling {count} {top} {keep} {order}", *each)


def detections(generator: np.random.Generator) -> Iterator[Case]:
    for priors, classes, keep, clip in product([1, 3, 17, 40], [1, 2, 16, 17], [-1, 5], [0, 1]):
        first = generator.uniform(0, 0.7, (priors, 2))
        boxes = np.concatenate([first, first + generator.uniform(0.1, 0.3, (priors, 2))], 1)
        both = np.stack([boxes.reshape(-1), np.full(4 * priors, 0.1)])[None]
        given = [
            numbers(generator, 2, 4 * priors),
            spec(generator.random((2, priors * classes)).astype(np.float32)),
            spec(both.astype(np.float32)),
        ]
        operation = find("DetectionOutput", 1)(
            num_classes=classes,
            keep_top_k=[keep],
            top_k=30,
            nms_threshold=0.4,
            confidence_threshold=0.2,
            normalized=True,
            clip_after_nms=bool(clip),
        )
        yield f"{priors} {classes} {keep} {clip}", operation, given


def proposals(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_count_first import two_layers
    from tests.kernels.test_proposals import PROPOSAL, SINGLE, anchored, of_image

    for columns, before, after in product([1, 3, 16, 17, 33], [1, 15, 17, 500], [1, 16, 40]):
        counts = {"pre_nms_count": before, "post_nms_count": after}
        how = {"min_size": 4.0, "nms_threshold": 0.7, **counts}
        given = anchored(generator, 9, 3, 2, columns, 2)
        name = f"{columns} {before} {after}"
        one = [spec(array) for array in of_image(given)]
        yield f"of an image {name}", find(SINGLE, 6)(**how), one
        every = [spec(array) for array in given]
        for each in two_layers(find("GenerateProposals", 9)(**how), every):
            yield (f"generated {name}", *each)
        topmost = {"pre_nms_topn": before, "post_nms_topn": after}
        inputs = [numbers(generator, 2, 12, 2, columns), numbers(generator, 2, 24, 2, columns)]
        image = spec(np.float32([32, 16 * columns, 1]))
        yield f"proposed {name}", find("Proposal", 4)(**PROPOSAL, **topmost), [*inputs, image]


def detectron(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels import test_detectron as own

    for regions, classes, after in product([1, 17, 40], [1, 2, 16, 17], [1, 30]):
        counts = {"num_classes": classes, "post_nms_count": after, "max_detections_per_image": 20}
        given = [spec(array) for array in own.detected(generator, regions, classes)]
        operation = find(own.OUTPUT, 6)(**counts, **own.DETECTED)
        yield f"detected {regions} {classes} {after}", operation, given
    for count, most in product([1, 16, 24, 25, 300], [1, 17, 400]):
        given = [spec(own.regions_of(generator, count)), numbers(generator, count)]
        yield f"best {count} {most}", find(own.TOP, 6)(max_rois=most), given
    for count, columns, how in product([1, 3, 16, 17], [1, 2, 17], [{}, {"h": 1, "w": 1}]):
        given = [numbers(generator, count, 4), numbers(generator, 1, 1, 2, columns)]
        grid = find(own.GRID, 6)(**how)
        yield f"grid {count} {columns} {how}", grid, [*given, numbers(generator, 1, 1, 9, 9)]


def levels(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels import test_detectron as own

    for size, ratio, side in product([1, 3, 16, 17], [0, 2, 3], [1, 7, 30]):
        given = [own.regions_of(generator, 9, 300.0), *own.pyramid_of(generator, side, 2)]
        how = {"output_size": size, "sampling_ratio": ratio, "pyramid_scales": [4, 8]}
        yield f"{size} {ratio} {side}", find(own.FEATURES, 6)(**how), [spec(a) for a in given]


def sequences_decoded(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_decoding import beams_of, probabilities

    for classes, steps in product([1, 2, 15, 16, 17, 33], [1, 4, 17]):
        data = probabilities(generator, 2, steps, classes).astype(np.float32)
        lengths = spec(np.array([steps, steps // 2], np.int32))
        operation = find("CTCGreedyDecoderSeqLen", 6)()
        yield f"by lengths {classes} {steps}", operation, [spec(data), lengths]
        mask = np.ones((steps, 2), np.float32)
        given = [spec(data.transpose(1, 0, 2).copy()), spec(mask)]
        yield f"by a mask {classes} {steps}", find("CTCGreedyDecoder", 1)(), given
        given = [spec(array) for array in beams_of(generator, steps, 2, classes)]
        yield f"beams {classes} {steps}", find("GatherTree", 1)(), given


def priors(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_priors import CASES

    for (name, version, how), columns in product(CASES, [1, 2, 17]):
        sizes = [spec(np.array(size)) for size in ((3, columns), (30, 20))]
        yield f"{name} {columns} {how}", find(name, version)(**how), sizes


def scatter(generator: np.random.Generator) -> Iterator[Case]:
    from uncork.internal_ops.scattered_rows import ScatteredRows

    for run, index, axis in product([1, 3, 16, 17, 65, 300], ["int64", "int32"], [0, 1]):
        data = numbers(generator, 5, 9, run)
        rows = [5, 7, run] if axis else [7, 9, run]
        places = np.append(generator.integers(0, 5, 6), 4).astype(
            index
        )  # the last slice ends where the data do
        yield (
            f"slices {run} {index} {axis}",
            find("ScatterUpdate", 3)(),
            [data, spec(places), numbers(generator, *rows), spec(np.array(axis))],
        )
        tuples = np.append(generator.integers(-5, 5, (6, 2)), [[4, 8]], axis=0).astype(index)
        yield f"picked {run} {index}", find("GatherND", 8)(), [data, spec(tuples)]
        for reduction in ("none", "sum", "sub", "prod", "min", "max"):
            given = [data, spec(tuples), numbers(generator, 7, run)]
            yield (
                f"tuples {run} {index} {reduction}",
                find("ScatterNDUpdate", 15)(reduction=reduction),
                given,
            )
    reductions = ("none", "sum", "prod", "min", "max", "mean")
    for name, reduction, axis, initial in product(
        ["f32", "f16", "i8", "u16", "f64"], reductions, (0, 1, 2), (True, False)
    ):
        element_type = ElementType.parse(name)
        shapes = (4, 5, 6), (3, 4, 5), (4, 5, 7), (3, 5, 7)
        data, updates, table, rows = (
            spec(storage.encode(generator.integers(1, 9, shape), element_type), name)
            for shape in shapes
        )
        places = spec(generator.integers(-4, 4, (3, 4, 5)))
        operation = find("ScatterElementsUpdate", 12)(reduction=reduction, use_init_val=initial)
        yield (
            f"elements {name} {reduction} {axis} {initial}",
            operation,
            [data, places, updates, spec(np.array(axis))],
        )
        if not axis:
            one_each = spec(generator.integers(-4, 4, (3, 1, 1)))
            yield (
                f"rows {name} {reduction} {initial}",
                ScatteredRows(elements=operation),
                [table, one_each, rows, spec(np.array(axis))],
            )


def elements_of_codes(generator: np.random.Generator) -> Iterator[Case]:
    """Means of codes, and operations element by element whose numbers f32 holds exactly."""
    from tests.kernels._quantized import SIGNED
    from uncork.internal_ops.fused import Fused, FusedMember
    from uncork.internal_ops.quantized import PLAIN, Held, QuantizedElements, QuantizedMean

    for channels, pixels in product([1, 4, 17, 36, 72], [1, 16]):
        held = Held(SIGNED, True, channels)
        words = -(-channels // 4) * 4
        codes = spec(generator.integers(0, 256, (2, 3, pixels, words)).astype("u1"), "u8")
        gate = spec(generator.integers(0, 256, (2, 1, 1, words)).astype("u1"), "u8")
        low, high, levels = SIGNED.input_low, SIGNED.input_high, SIGNED.levels
        limits = [spec(np.array(limit, np.float32)) for limit in (low, high, low, high)]
        axes = TensorSpec.of_array(ElementType.i64, np.array([2, 3]))
        yield (
            f"mean {channels} {pixels}",
            QuantizedMean(find("ReduceMean", 1)(keep_dims=True), [held, PLAIN], PLAIN),
            [codes, axes],
        )
        if words > channels:  # what fills words up nobody reads: it is any code
            continue
        shift = spec((generator.integers(-9, 9, (channels, 1, 1)) / 8).astype(np.float32))
        members = [
            FusedMember(find("Add", 1)(), (0, 1)),
            FusedMember(find("ReLU", 1)(), (7,)),
            FusedMember(find("Add", 1)(), (8, 2)),
            FusedMember(find("FakeQuantize", 1)(levels=levels), (9, 3, 4, 5, 6)),
        ]
        yield (
            f"elements {channels} {pixels}",
            QuantizedElements(Fused(members), [held, held, *[PLAIN] * 5], held),
            [codes, gate, shift, *limits],
        )


def quantized_table(generator: np.random.Generator) -> Iterator[Case]:
    from tests.kernels.test_quantized_tables import ROWS, STORED, compressed
    from uncork.internal_ops.quantized_lookup import (
        CompressedBag,
        CompressedGather,
        CompressedSegments,
    )

    for stored, columns in product(STORED, [1, 2, 3, 15, 17, 64, 66, 130]):
        table, _ = compressed(stored, columns, ("row", "row", False))
        ids = spec(np.append(generator.integers(0, ROWS, 30), ROWS - 1))
        bags = [ids, spec(np.array([0, 5, 5, 20]))]
        yield (
            f"bags {stored} {columns}",
            CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
            bags,
        )
        yield (
            f"gather {stored} {columns}",
            CompressedGather(find("Gather", 8)(), table),
            [ids, spec(np.array(0))],
        )
        segments = [ids, spec(np.sort(generator.integers(0, 7, 31))), spec(np.array(8))]
        yield (
            f"segments {stored} {columns}",
            CompressedSegments(find("EmbeddingSegmentsSum", 3)(), table),
            segments,
        )


def scattered_counts(generator: np.random.Generator) -> Iterator[Case]:
    """Keys up to the last place, and data of every width."""
    from uncork.internal_ops.scattered_counts import ScatteredCounts

    operation = ScatteredCounts(find("ScatterUpdate", 3)(), find("Unique", 10)())
    for places, count, keys, data in product(
        [1, 2, 7, 8, 9, 33], [1, 3, 8, 40], ["int64", "int32", "uint8"], ["i4", "i8", "f4"]
    ):
        given = generator.integers(0, places, count).astype(keys)
        given[-1:] = places - 1
        values = generator.integers(0, 50, places).astype(data)
        yield f"{places} {count} {keys} {data}", operation, [spec(values), spec(given)]


def segments(generator: np.random.Generator) -> Iterator[Case]:
    """Rows of segments that are many, one, left out, or more than there are ids."""
    for rows, width, count, data in product(
        [0, 1, 9], [1, 7, 8, 9, 33], [1, 4, 12], ["f4", "f2", "i1", "u8"]
    ):
        values = generator.integers(0, 99, (rows, width)).astype(data)
        ids = np.sort(generator.integers(0, 6, rows)).astype(["i4", "i8"][rows % 2])
        operation = find("SegmentMax", 16)(fill_mode=["zero", "lowest"][width % 2])
        label = f"{rows} {width} {count} {data}"
        yield label, operation, [spec(values), spec(ids), spec(np.array(count))]


def transpose(generator: np.random.Generator) -> Iterator[Case]:
    for rows, columns, order in product(
        [4, 7, 8, 16, 17, 40], [4, 8, 15, 16, 33], ([0, 2, 1], [2, 1, 0], [1, 2, 0])
    ):
        data = numbers(generator, *((3, rows, columns) if order[0] == 0 else (rows, 5, columns)))
        yield f"{rows} {columns} {order}", find("Transpose", 1)(), [data, spec(np.array(order))]


def appended(generator: np.random.Generator) -> Iterator[Case]:
    """New elements in the storage of a variable, and its value out of it."""
    for outer, inner, before, more, kind in product(
        [1, 3], [1, 5, 33], [0, 1, 6], [1, 4], ["f32", "i8"]
    ):
        capacity = before + more + 2
        storage = generator.integers(-99, 99, (outer, capacity, inner)).astype(
            ElementType.parse(kind).dtype
        )
        new = generator.integers(-99, 99, (outer, more, inner)).astype(storage.dtype)
        label = f"{outer} {inner} {before} {more} {kind}"
        yield label, AppendState(1), [spec(storage), spec(np.array([before])), spec(new)]
        if outer > 1:
            yield f"{label}, value", StateValue(1), [spec(storage), spec(np.array([before + more]))]


def state_product(generator: np.random.Generator) -> Iterator[Case]:
    for rows, count, inner, repeats in product([1, 4], [1, 7, 40], [3, 16, 33], [1, 2]):
        for turned in (False, True):
            size = (count + 3, inner) if turned else (inner, count + 3)
            storage = numbers(generator, 2, 3, *size)
            a = numbers(generator, 2, 3 * repeats, rows, inner)
            operation = StateProduct(
                MatMul(transpose_b=turned), StateValue(2 if turned else 3), repeats
            )
            yield (
                f"{rows} {count} {inner} {repeats} {turned}",
                operation,
                [a, storage, spec(np.array([count]))],
            )


#: Random cases of an operation where 20 would take long: nearly each is a kernel of its own, or
#: there are many operations.
_DRAWN = {
    "elementwise": 3,
    "loops.pool": 5,
    "loops.resize": 5,
    "movement.copy_table": 8,
    "recurrent": 3,
    "recurrent.cell": 3,
}
EDGES = {
    "attention": attention,
    "compressed": compressed,
    "convolution": convolution,
    "convolution.deformable": deformable,
    "convolution.pool": pooled_blocks,
    "fourier": fourier,
    "gemm.einsum": einsum,
    "elementwise": elementwise,
    "embedding.bags": embedding,
    "movement.blocks": blocks,
    "movement.gather": gather,
    "movement.moved": moved,
    "recurrent.final_states": last_step,
    "gemm.matmul": linear,
    "loops.bins": bins,
    "loops.colours": colours,
    "loops.folded": folded,
    "loops.levels": levels,
    "loops.normalise": normalise,
    "loops.pad": padding,
    "loops.patches": patches,
    "loops.pool": pool,
    "loops.regions": regions,
    "loops.resize": resize,
    "loops.sample": sample,
    "loops.scan": scan,
    "loops.yolo": yolo,
    "movement.copy_table": move,
    "selection": pick,
    "selection.sequences": sequences_decoded,
    "embedding.quantized": quantized_table,
    "quantized": quantized,
    "quantized.elements": elements_of_codes,
    "quantized.rows": coded_rows,
    "recurrent": sequences,
    "recurrent.cell": cells,
    "loops.rows": reduce,
    "detection": detection,
    "detection.classes": classes,
    "detection.detectron": detectron,
    "detection.output": detections,
    "detection.priors": priors,
    "detection.regions": proposals,
    "finding": finding,
    "generation": generation,
    "scatter": scatter,
    "search": search,
    "scatter.counts": scattered_counts,
    "scatter.segments": segments,
    "movement.state": appended,
    "gemm.state_product": state_product,
    "movement.transpose": transpose,
}


def entries(family: str) -> Iterator[Samples]:
    """What the tests know of all operations that a family chooses for."""
    from tests.ops.test_every_op import ALL

    for entry in ALL.values():
        own = select.family_of(entry.operation.type_name)
        if own == family or (
            own is None
            and family == "movement.copy_table"
            and any(port.moved for port in entry.operation.inputs)
        ):
            yield entry


def registered(family: str) -> Iterator[Case]:
    """Samples and random cases of these operations."""
    for entry in entries(family):
        for case in [
            *(sample.case for sample in entry.samples),
            *_drawn(entry, _DRAWN.get(family, 20)),
        ]:
            if all(array is not None for array in case.inputs):
                yield (
                    f"{entry.operation.label()}: {case}",
                    entry.operation(**case.attributes),
                    [s for s in case.specs() if s is not None],
                )


def refused(family: str) -> Iterator[tuple[str, Operation, list[TensorSpec], list[TensorSpec]]]:
    """Values that these operations refuse, or only strict ones, and what is known of them where
    only the call has values: no more than inference needs. A refusal that shapes or attributes
    tell is not among them: no kernel is chosen for such a layer.
    """
    for entry in entries(family):
        for refusal in entry.refusals:
            if any(array is None for array in refusal.inputs):
                continue
            specs = [s for s in Drawn(refusal.inputs, {}, refusal.types).specs() if s is not None]
            with contextlib.suppress(UncorkError):
                operation = entry.operation(**refusal.attributes)
                known = _as_little(operation, specs)
                if all(_is_small(output) for output in operation.describe(known)):
                    yield f"{entry.operation.label()}: {refusal.name}", operation, specs, known


def _is_small(spec: TensorSpec) -> bool:
    return spec.shape.is_static and int(spec.shape.size) <= _MOST


def _as_little(operation: Operation, specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The specs without the values that the sizes of the outputs do not depend on."""
    known = list(specs)
    for i, spec in enumerate(specs):
        given, known[i] = known[i], TensorSpec(spec.element_type, spec.shape)
        try:
            if all(output.shape.is_static for output in operation.describe(known)):
                continue
        except UncorkError:
            pass
        known[i] = given
    return known


def _drawn(entry: Samples, count: int) -> list[Drawn]:
    """Random cases of an operation, and the same in f32, which is what many kernels know."""
    from tests.kernels.test_every_kernel import in_f32

    cases: list[Drawn] = []
    if entry.cases is None:
        return cases

    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        case = data.draw(entry.cases)
        cases.extend([case, in_f32(case)])

    draw()
    return cases


def main(family: str) -> None:
    generator = np.random.default_rng(1)
    taken = 0
    for label, operation, specs, known in refused(family):
        print(label, file=sys.stderr, flush=True)
        check(operation, specs, known)
    for from_edges, cases in ((False, registered(family)), (True, EDGES[family](generator))):
        for label, operation, specs in cases:
            print(
                label.replace("\n", " "), file=sys.stderr, flush=True
            )  # the last line tells where the process died
            found = check(operation, specs)
            assert found or not from_edges, "no kernel took the case"
            taken += found
            if family == "recurrent":  # and by threads that share every step
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(
                        "uncork.kernels.recurrent.sequence_calls._suits_team", lambda *_: True
                    )
                    taken += check(operation, specs)
                # and with weights that only the call knows
                taken += check(
                    operation,
                    specs,
                    [*specs[:-3], *(TensorSpec(s.element_type, s.shape) for s in specs[-3:])],
                )
            if family == "gemm.matmul":  # and with both matrices of the call
                taken += check(
                    operation, specs, [TensorSpec(s.element_type, s.shape) for s in specs]
                )
    print(taken)


if __name__ == "__main__":
    main(sys.argv[1])
