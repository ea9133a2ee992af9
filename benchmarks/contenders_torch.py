"""torch's contenders: the operators themselves, and torch.nn as it is written ordinarily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.timing import Contender
from uncork.types import Array

#: Where each of the IR's gates stands in torch: GRU has r, z, n there, LSTM i, f, g, o.
_GATES = {"gru": (1, 0, 2), "lstm": (1, 0, 2, 3), "rnn": (0,)}


def _array(result: Any) -> list[Array]:
    return [result.numpy()]


def bags(
    torch: Any,
    table: Array,
    indices: Sequence[Array],
    offsets: Sequence[Array],
    weights: Sequence[Array] | None,
) -> list[Contender]:
    """torch.embedding_bag and F.embedding_bag."""
    source = torch.from_numpy(table)
    ids, starts = [torch.from_numpy(a) for a in indices], [torch.from_numpy(a) for a in offsets]
    factors = [torch.from_numpy(a) for a in weights] if weights else [None] * len(ids)
    bag, ordinary = torch.embedding_bag, torch.nn.functional.embedding_bag
    return [
        Contender(
            "torch direct",
            "torch",
            "direct",
            lambda i: bag(source, ids[i], starts[i], False, 0, False, factors[i]),
            lambda r: [r[0].numpy()],
        ),
        Contender(
            "torch F",
            "torch",
            "call",
            lambda i: ordinary(
                ids[i], source, starts[i], mode="sum", per_sample_weights=factors[i]
            ),
            _array,
        ),
    ]


def segments(
    torch: Any,
    table: Array,
    indices: Sequence[Array],
    places: Sequence[Array],
    number: int,
    weights: Sequence[Array] | None,
) -> list[Contender]:
    """torch has no operation for segments; three ways to write it. segment_reduce gets the sizes of
    its segments for nothing.
    """
    source = torch.from_numpy(table)
    ids, segment = [torch.from_numpy(a) for a in indices], [torch.from_numpy(a) for a in places]
    sizes = [torch.from_numpy(np.bincount(a, minlength=number)) for a in places]
    factors = [torch.from_numpy(a) for a in weights] if weights else None
    numbers = torch.arange(number, dtype=ids[0].dtype)
    small = indices[0].dtype == np.int32
    forward_only = torch.ops.aten._embedding_bag_forward_only.default

    def rows(i: int) -> Any:
        picked = source.index_select(0, ids[i])
        return picked if factors is None else picked.mul_(factors[i][:, None])

    def bag(i: int) -> Any:
        starts = torch.searchsorted(segment[i], numbers, out_int32=small)
        return forward_only(
            source, ids[i], starts, False, 0, False, None if factors is None else factors[i]
        )

    ways = {
        "searchsorted, bag": (bag, lambda r: [r[0].numpy()]),
        "index_add": (
            lambda i: torch.zeros(number, source.shape[1], dtype=source.dtype).index_add_(
                0, segment[i], rows(i)
            ),
            _array,
        ),
        "segment_reduce": (
            lambda i: torch.segment_reduce(rows(i), "sum", lengths=sizes[i], axis=0, unsafe=True),
            _array,
        ),
    }
    return [
        Contender(f"torch {way}", "torch", "direct", call, results)
        for way, (call, results) in ways.items()
    ]


def gather(
    torch: Any, data: Array, indices: Sequence[Array], axis: int, batch_dims: int
) -> list[Contender]:
    """index_select, indexing with brackets, or gather with indices that are expanded before."""
    source = torch.from_numpy(data)
    shape = (*data.shape[:axis], *indices[0].shape[batch_dims:], *data.shape[axis + 1 :])
    given = [torch.from_numpy(a) for a in indices]
    if batch_dims:
        count = indices[0].size // int(np.prod(indices[0].shape[:batch_dims]))
        ones = [
            *data.shape[:batch_dims],
            *[1] * (axis - batch_dims),
            count,
            *[1] * (data.ndim - axis - 1),
        ]
        wide = [
            t.long().reshape(ones).expand(*data.shape[:axis], count, *data.shape[axis + 1 :])
            for t in given
        ]
        return [
            Contender(
                "torch gather",
                "torch",
                "direct",
                lambda i: torch.gather(source, axis, wide[i]),
                lambda r: [r.numpy().reshape(shape)],
            )
        ]
    flat = [t.reshape(-1) for t in given]
    contenders = [
        Contender(
            "torch index_select",
            "torch",
            "direct",
            lambda i: torch.index_select(source, axis, flat[i]),
            lambda r: [r.numpy().reshape(shape)],
        )
    ]
    if axis == 0:
        contenders.append(
            Contender("torch indexing", "torch", "call", lambda i: source[given[i]], _array)
        )
    return contenders


def sequence(
    torch: Any, cell: str, sets: Sequence[Sequence[Array]], weights: Sequence[Array], ragged: bool
) -> list[Contender]:
    """torch.nn.GRU, LSTM or RNN, and the operator below it. `weights` are W, R and the two biases
    apart, in the IR's order of gates.

    Ragged rows are packed before and padded afterwards, as torch asks for it.
    """
    w, r, input_bias, recurrent_bias = weights
    directions, hidden, steps = len(r), r.shape[2], sets[0][0].shape[1]
    module = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM, "rnn": torch.nn.RNN}[cell]
    layer = module(w.shape[2], hidden, batch_first=True, bidirectional=directions == 2).eval()
    for direction, suffix in enumerate(("", "_reverse")[:directions]):
        for name, array in (
            ("weight_ih", w),
            ("weight_hh", r),
            ("bias_ih", input_bias),
            ("bias_hh", recurrent_bias),
        ):
            blocks = np.split(array[direction], len(_GATES[cell]))
            ordered = np.concatenate([blocks[gate] for gate in _GATES[cell]])
            getattr(layer, f"{name}_l0{suffix}").copy_(torch.from_numpy(ordered))
    states = 2 if cell == "lstm" else 1
    xs = [torch.from_numpy(arrays[0]) for arrays in sets]
    firsts = [
        [
            torch.from_numpy(np.ascontiguousarray(a.transpose(1, 0, 2)))
            for a in arrays[1 : 1 + states]
        ]
        for arrays in sets
    ]
    given = [tuple(first) if states == 2 else first[0] for first in firsts]

    def results(returned: Any) -> list[Array]:
        y, last = (returned[0], returned[1:]) if isinstance(returned[1], torch.Tensor) else returned
        shaped = y.numpy().reshape(*y.shape[:2], directions, hidden).transpose(0, 2, 1, 3)
        return [shaped, *(state.numpy().transpose(1, 0, 2) for state in last)]

    if ragged:
        sizes = [torch.from_numpy(arrays[-1].astype(np.int64)) for arrays in sets]
        utilities = torch.nn.utils.rnn

        def packed(i: int) -> Any:
            y, last = layer(
                utilities.pack_padded_sequence(
                    xs[i], sizes[i], batch_first=True, enforce_sorted=False
                ),
                given[i],
            )
            return utilities.pad_packed_sequence(y, batch_first=True, total_length=steps)[0], last

        return [Contender("torch nn, packed", "torch", "call", packed, results)]
    flat = list(layer._flat_weights)
    operator = {"gru": torch._VF.gru, "lstm": torch._VF.lstm, "rnn": torch._VF.rnn_tanh}[cell]
    return [
        Contender(
            "torch direct",
            "torch",
            "direct",
            lambda i: operator(xs[i], given[i], flat, True, 1, 0.0, False, directions == 2, True),
            results,
        ),
        Contender("torch nn", "torch", "call", lambda i: layer(xs[i], given[i]), results),
    ]
