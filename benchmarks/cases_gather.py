"""Cases of Gather-8: rows of tables, rows of activations, single elements, batch dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from benchmarks import (
    arrays,
    contenders_numpy,
    contenders_onnxruntime,
    contenders_openvino,
    contenders_torch,
    contenders_uncork,
    limit_kernels,
)
from benchmarks.cases import Case, Prepared
from benchmarks.options import Options
from benchmarks.timing import Expected
from uncork import Builder, Model
from uncork import functional as F
from uncork.types import Array

_OUTPUTS = 300e6  # bytes of results of all sets of indices together


@dataclass(frozen=True)
class Gather:
    """What one case is."""

    shape: tuple[int, ...]
    axis: int
    indices: tuple[int, ...]
    batch_dims: int = 0
    ids: str = "uniform"
    index: str = "int64"

    @property
    def name(self) -> str:
        flags = (
            [f"batch_dims {self.batch_dims}"] * (self.batch_dims > 0)
            + [self.ids] * (self.ids != "uniform")
            + [self.index] * (self.index != "int64")
        )
        return " ".join([f"{list(self.shape)} axis {self.axis} by {list(self.indices)}", *flags])

    @property
    def output(self) -> tuple[int, ...]:
        return (
            *self.shape[: self.axis],
            *self.indices[self.batch_dims :],
            *self.shape[self.axis + 1 :],
        )

    @property
    def constant(self) -> bool:
        """A table, which is part of a model; all else is computed by layers before and comes as an
        input.
        """
        return self.axis == 0 and len(self.shape) <= 2


CASES = (
    Gather((10_000, 64), 0, (10,)),
    Gather((10_000, 64), 0, (1000,)),
    Gather((1_000_000, 64), 0, (1000,)),
    Gather((1_000_000, 64), 0, (100_000,)),
    Gather((1_000_000, 64), 0, (100_000,), ids="zipf"),
    Gather((1_000_000, 128), 0, (4096, 10), index="int32"),
    Gather((100_000, 512), 0, (10_000,)),
    Gather((50_000, 768), 0, (1, 128)),
    Gather((1_000_000,), 0, (100_000,)),
    Gather((1000,), 0, (10,)),
    Gather((64, 1000, 64), 1, (100,)),
    Gather((64, 1000, 4), 1, (200,)),
    Gather((64, 10_000), 1, (1000,)),
    Gather((4096, 100), 1, (20,)),
    Gather((8, 1000, 64), 1, (8, 100), 1),
    Gather((128, 1000), 1, (128, 100), 1),
    Gather((16, 4096, 768), 1, (16, 8), 1),
    Gather((4, 50, 512), 0, (1,)),
)


def cases() -> Iterator[Case]:
    for gather in CASES:
        yield Case(
            "gather",
            gather.name,
            partial(prepare, gather),
            quick=math.prod(gather.shape) <= 5_000_000,
        )


def prepare(gather: Gather, options: Options) -> Prepared:
    """Arrays and contenders of a case."""
    generator = np.random.default_rng(math.prod(gather.indices))
    data = arrays.normal(generator, gather.shape)
    count = int(np.clip(_OUTPUTS / (4 * math.prod(gather.output)), 4, 64))
    size = gather.shape[gather.axis]
    indices = [
        arrays.ids(generator, size, math.prod(gather.indices), gather.ids, gather.index).reshape(
            gather.indices
        )
        for _ in range(count)
    ]
    inputs = [[a] if gather.constant else [data, a] for a in indices]
    prepared = Prepared(
        sets=count,
        expect=lambda i: [Expected(picked(data, indices[i], gather.axis, gather.batch_dims))],
        tolerance=0.0,
        about=asdict(gather)
        | {"bytes": 4 * math.prod(gather.output), "tiny": math.prod(gather.output) <= 1000},
    )
    prepared.add(
        "uncork", lambda: contenders_uncork.of_model(model(gather, data), inputs, options.threads)
    )
    if math.prod(gather.output) < 100_000:
        axis, batch_dims = gather.axis, gather.batch_dims
        function = contenders_uncork.functional(
            lambda i: F.gather(data, indices[i], axis, batch_dims)
        )
        prepared.add("uncork functional", lambda: [function])
    openvino, torch, runtime, numpy = (
        options.peers.get(name) for name in ("openvino", "torch", "onnxruntime", "numpy")
    )
    if openvino:
        made = partial(
            contenders_openvino.gather,
            openvino,
            data,
            gather.constant,
            indices[0],
            gather.axis,
            gather.batch_dims,
        )
        result = [(gather.output, np.float32)]
        prepared.add(
            "openvino",
            lambda: contenders_openvino.of_model(openvino, made(), inputs, options.threads, result),
        )
    if torch:
        prepared.add(
            "torch",
            lambda: contenders_torch.gather(torch, data, indices, gather.axis, gather.batch_dims),
        )
    if not gather.batch_dims:
        if runtime:
            prepared.add(
                "onnxruntime",
                lambda: contenders_onnxruntime.gather(
                    runtime, data, indices, gather.axis, options.threads
                ),
            )
        if numpy:
            prepared.add("numpy", lambda: contenders_numpy.gather(data, indices, gather.axis))
        if gather.axis == 0:
            prepared.add("limit", lambda: limit_kernels.copies(data, indices))
    return prepared


def picked(data: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    """The result by NumPy's indexing, batch by batch."""
    if batch_dims:
        return np.stack(
            [
                picked(part, own, axis - 1, batch_dims - 1)
                for part, own in zip(data, indices, strict=True)
            ]
        )
    return data[(slice(None),) * axis + (indices,)]


def model(gather: Gather, data: Array) -> Model:
    """The case as a model for uncork."""
    builder = Builder("gather")
    source = (
        builder.constant(data)
        if gather.constant
        else builder.parameter("data", "f32", list(gather.shape))
    )
    indices = builder.parameter(
        "indices", {"int64": "i64", "int32": "i32"}[gather.index], list(gather.indices)
    )
    (result,) = builder.add(
        "Gather",
        8,
        source,
        indices,
        builder.constant(np.array(gather.axis)),
        batch_dims=gather.batch_dims,
    )
    builder.result(result, "result")
    return builder.model()
