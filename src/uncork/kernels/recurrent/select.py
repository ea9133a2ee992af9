"""Which kernel runs a GRU, LSTM or RNN sequence. A cell is a sequence of one step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.kernels.extents import as_number, certainly, decline_if, extents, nanoseconds
from uncork.kernels.gemm.streams import streams
from uncork.kernels.kernel_plan import KernelPlan, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.recurrent.sequence_calls import Lookup, SequenceCalls
from uncork.kernels.recurrent.spec import DOUBLE, SINGLE, Recurrent
from uncork.kernels.recurrent.workspace import rows_of_pass
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import multiplies_pairs
from uncork.ops._common.recurrent import WALKS, RecurrentSequence
from uncork.ops._common.recurrent import Recurrent as RecurrentOperation
from uncork.ops.gru_cell import GRU
from uncork.ops.lstm_cell import LSTM, LSTM1
from uncork.symbolic import SizeLike
from uncork.types import ElementType, TensorSpec


def supports(precision: str, target: Target) -> bool:
    """Whether the target has instructions for products in this precision, or f32 is as fast."""
    return precision != "bf16" or multiplies_pairs(target)


def _products(precision: str, batch: SizeLike, target: Target) -> tuple[str, str]:
    """The precision in which products are made where the caller allows this one, and which products
    are made in tiles: see `Recurrent`.

    Sums of two bf16 pay in tiles only (without AMX three products in bf16 take longer than one in
    f32), and only where rows share the reading of the weights.
    """
    if precision == "bf16x3":
        return (
            ("bf16x3", "all")
            if target.tiles and supports("bf16", target) and not certainly(batch, 1)
            else ("f32", "")
        )
    if precision == "bf16" and supports("bf16", target):
        return "bf16", "" if not target.tiles else "ahead" if certainly(batch, 1) else "all"
    return "f32", ""


def select_sequence(layer: Layer) -> Selection:
    inputs = layer.inputs
    if isinstance(layer.operation, LSTM1):
        require_no_additions(layer)
        inputs = inputs[:7]
    return sequence_of(layer.of(RecurrentSequence), inputs, layer)


def require_no_additions(layer: Layer) -> None:
    """Decline what version 1 of LSTMs adds: coupled gates, and peepholes that may not be 0."""
    decline_if(layer.of(LSTM1).input_forget, "no kernel for coupled gates")
    port = len(type(layer.operation).inputs) - 1
    if layer.has(port):
        layer.constant(port, "peephole weights")


def sequence_of(
    operation: RecurrentSequence,
    inputs: Sequence[TensorSpec | None],
    layer: Layer,
    states_only: bool = False,
    lookup: Lookup | None = None,
) -> Selection:
    """The kernels of a sequence that a layer stands for. With `states_only` the outputs are the
    last states alone, without Y.
    """
    specs = [spec for spec in inputs if spec is not None]
    x, lengths, *weights = specs[0], *specs[-4:]
    sizes = [*extents(x), *([] if lookup is None else [len(lookup.table)])]
    walked = Walked(x, sizes, lengths.element_type.name, WALKS[operation.direction])
    return planned(operation, walked, weights, layer, states_only, lookup)


class Walked(Struct, frozen=True):
    """The rows of X, over which a kernel walks once for each of `walks`."""

    x: TensorSpec
    #: Batch, steps, inputs.
    sizes: Sequence[SizeLike]
    #: The type of the rows' lengths, "" without any: see `Recurrent`.
    lengths: str
    walks: Sequence[bool]


def planned(
    operation: RecurrentOperation,
    walked: Walked,
    weights: Sequence[TensorSpec],
    layer: Layer,
    states_only: bool,
    lookup: Lookup | None = None,
) -> Selection:
    """The kernels that walk over X. `weights` are W, R and B with directions first."""
    x, target, hints, size = walked.x, layer.target, layer.hints, SINGLE
    if lookup is None:
        decline_if(
            x.element_type not in (ElementType.f32, ElementType.f64),
            f"no kernel for {x.element_type}",
        )
        size = x.element_type.dtype.itemsize
    decline_if(
        not all(source.shape.is_static for source in weights),
        "the shapes of the weights are known at the call only",
    )
    values = [source.value for source in weights if source.value is not None]
    if isinstance(operation, GRU):
        cell = "gru_after" if operation.linear_before_reset else "gru"
    else:
        cell = "lstm" if isinstance(operation, LSTM) else "rnn"
    batch, steps, inner = walked.sizes
    inner = as_number(inner, "how long a step of X is is known at the call only")
    clipped = 0 < operation.clip < math.inf
    decline_if(clipped and size == DOUBLE, "no kernel for f64 that is clipped")
    # Kernels that pack the weights of a call know no sums of two bf16.
    packs = len(values) == 3 or hints.precision == "bf16"
    allowed = hints.precision if packs and size == SINGLE else "f32"
    precision, tiles = _products(allowed, batch, target)
    spec = Recurrent(
        cell,
        operation.functions(),
        max(1, target.lanes * SINGLE // size),
        walked.lengths,
        clipped,
        precision,
        tiles,
        size=size,
        alike=hints.rows_alike,
    )
    if lookup is not None:
        decline_if(
            len(values) < 3 or precision != "f32",
            f"no kernel for products looked up in {precision}",
        )
        spec = replace(spec, lookup=x.element_type.name, wraps=lookup.wraps, strict=lookup.strict)
    longest = max(operation.hidden_size, inner if lookup is None else 0)
    if not (tiles or certainly(batch, 1)):
        words = longest // 2 if spec.parts else longest
        spec = replace(spec, streams=streams(words, spec.gates * spec.units, size))
    clip = int(np.float32(operation.clip).view(np.int32)) if clipped else 0
    sequence = SequenceCalls(
        spec,
        walked.walks,
        batch,
        steps,
        inner,
        operation.hidden_size,
        clip,
        target.yields,
        0 if tiles else rows_of_pass(spec, target.vector_registers, operation.hidden_size),
        states_only,
        lookup,
    )
    if len(values) == 3:
        sequence.pack_now(values)
    else:
        sequence.pack_in_calls()
    directions = len(sequence.walks)
    each = 2.0 * spec.gates * sequence.hidden * (sequence.multiplied + sequence.hidden) * directions
    whole = [
        *sequence.packing,
        *(sequence.rows(d, 0, batch, sequence.packed_bytes) for d in range(directions)),
    ]
    scratch = sequence.packed_bytes + sequence.workspace(batch)
    return KernelPlan(
        spec.name,
        whole,
        scratch=scratch,
        keep=sequence.keep,
        cost=nanoseconds(batch * steps, each / 100),
        split=sequence.split,
    )
