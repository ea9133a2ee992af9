"""`embedding`, `embedding_bag`, `one_hot` and `gru` with the signatures of torch, on plain arrays.

They are operations of this package, called as PyTorch calls them. Tensors are taken too; results
are NumPy arrays. What only training looks at (`sparse`, `scale_grad_by_freq`, `dropout`) is
accepted and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.compiler.arguments import plain
from uncork.errors import InputError
from uncork.functional._arguments import taking_record
from uncork.functional._operations import (
    embedding_bag_offsets,
    embedding_bag_packed,
    gather,
    gru_sequence,
)
from uncork.types import Array, describe_array


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """The rows of `weight [E, d]` that `input` names, as `torch.nn.functional.embedding`.

    An id that is no row is an error, which names it; a negative one too. `padding_idx` changes
    nothing: its row is read.
    """
    _refuse_max_norm("embedding", max_norm)
    table = _array("embedding", "weight", weight)
    ids = _ids("embedding", "input", input, table)
    _padding("embedding", padding_idx, table)
    return gather(table, ids, 0)


class _BagCall(Struct):
    """What `torch.nn.functional.embedding_bag` takes."""

    input: Any
    weight: Any
    offsets: Any = None
    max_norm: float | None = None
    norm_type: float = 2
    scale_grad_by_freq: bool = False
    mode: str = "mean"
    sparse: bool = False
    per_sample_weights: Any = None
    include_last_offset: bool = False
    padding_idx: int | None = None


@taking_record(_BagCall)
def embedding_bag(call: _BagCall) -> Array:
    """Sums or means of rows of `weight [E, d]` by bag, as `torch.nn.functional.embedding_bag`.

    `input [B, k]` has bags of k ids; `input [N]` has those that `offsets [B]` begin. An empty bag
    gives zeros, and ids equal to `padding_idx` belong to no bag. Weights are for `mode="sum"` only.
    """
    where, mode, offsets = "embedding_bag", call.mode, call.offsets
    _refuse_max_norm(where, call.max_norm)
    if mode not in ("sum", "mean"):
        other = (
            ("; take the maximum of F.embedding over the axis of the ids") if mode == "max" else ""
        )
        raise InputError(f"mode: expected 'sum' or 'mean', got {mode!r}{other}", where)
    if call.per_sample_weights is not None and mode != "sum":
        raise InputError(f"per_sample_weights are for mode='sum', got mode={mode!r}", where)
    table = _array(where, "weight", call.weight)
    ids = _ids(where, "input", call.input, table)
    weights = None
    if call.per_sample_weights is not None:
        weights = _array(where, "per_sample_weights", call.per_sample_weights)
    if weights is not None and weights.shape != ids.shape:
        raise InputError(
            f"per_sample_weights: expected shape {list(ids.shape)} as 'input' has, "
            f"got {list(weights.shape)}",
            where,
        )
    pad = _padding(where, call.padding_idx, table)
    if ids.ndim == 2:
        if offsets is not None:
            raise InputError(
                "offsets are for an input of one dimension: [B, k] has bags of k ids", where
            )
        if pad is None and ids.shape[1]:
            return embedding_bag_packed(table, ids, weights, mode)
        starts = np.arange(len(ids), dtype=np.int64) * ids.shape[1]
        ids, weights = ids.reshape(-1), None if weights is None else weights.reshape(-1)
    elif ids.ndim == 1:
        ids, starts, weights = _bags(where, ids, offsets, weights, call.include_last_offset)
    else:
        raise InputError(
            f"input: expected ids [B, k], or [N] with offsets [B], got {describe_array(ids)}", where
        )
    if pad is not None:
        kept = ids != pad
        before = np.concatenate([[0], np.cumsum(kept)])
        ids, starts, weights = ids[kept], before[starts], None if weights is None else weights[kept]
    return embedding_bag_offsets(table, ids, starts, None, weights, mode)


def one_hot(tensor: Any, num_classes: int = -1) -> Array:
    """One of so many numbers is 1 for each class, as `torch.nn.functional.one_hot`: i64 `[.., C]`.

    Without `num_classes` there are as many as the largest class needs.
    """
    classes = _integers("one_hot", "tensor", tensor)
    if num_classes == -1 and not classes.size:
        raise InputError("num_classes: expected a number where there are no classes", "one_hot")
    count = int(classes.max()) + 1 if num_classes == -1 else num_classes
    _within("one_hot", "tensor", classes, count, "a class")
    wide = np.ascontiguousarray(classes, np.int64)
    from uncork.functional._generated import operation_function

    made: Array = operation_function("one_hot")(wide, count, np.int64(1), np.int64(0), axis=-1)
    return made


class _GruCall(Struct):
    """What `torch.gru` takes."""

    input: Any
    hx: Any
    params: Sequence[Any]
    has_biases: bool = True
    num_layers: int = 1
    dropout: float = 0.0
    train: bool = False
    bidirectional: bool = False
    batch_first: bool = False


@taking_record(_GruCall)
def gru(call: _GruCall) -> tuple[Array, Array]:
    """GRU layers, as `torch.gru`: (output, h_n).

    `input [T, B, I]`, or [B, T, I] with `batch_first`; `hx [layers * directions, B, H]`, None for
    zeros. `params` are the weights in PyTorch's order, which a `torch.nn.GRU` has in
    `_flat_weights`: w_ih [3H, I], w_hh [3H, H] and, with biases, b_ih [3H], b_hh [3H] of each
    direction of each layer, gates r, z, n.
    """
    if call.train and call.dropout:
        raise InputError("dropout while training draws random numbers: give train=False", "gru")
    x = _array("gru", "input", call.input)
    if x.ndim != 3:
        order = "[B, T, I]" if call.batch_first else "[T, B, I]"
        raise InputError(f"input: expected {order}, got {describe_array(x)}", "gru")
    x = x if call.batch_first else np.ascontiguousarray(x.transpose(1, 0, 2))
    directions, each = 1 + bool(call.bidirectional), 4 if call.has_biases else 2
    params, layers = call.params, call.num_layers
    if len(params) != layers * directions * each:
        count = f"{layers} x {directions} x {each}"
        raise InputError(
            f"params: expected {count} arrays (layers, directions, arrays of each), "
            f"got {len(params)}",
            "gru",
        )
    weights = [_array("gru", f"params[{i}]", value) for i, value in enumerate(params)]
    hidden, batch = weights[1].shape[-1], len(x)
    shape = (layers * directions, batch, hidden)
    states = np.zeros(shape, x.dtype) if call.hx is None else _array("gru", "hx", call.hx)
    if states.shape != shape:
        raise InputError(f"hx: expected shape {list(shape)}, got {list(states.shape)}", "gru")
    lengths = np.full(batch, x.shape[1], np.int64)
    last = []
    for layer in range(layers):
        first = layer * directions
        packed = [
            _packed(weights[n * each : (n + 1) * each], hidden, x.dtype)
            for n in range(first, first + directions)
        ]
        h0 = np.ascontiguousarray(states[first : first + directions].transpose(1, 0, 2))
        w, r, b = (np.stack(parts) for parts in zip(*packed, strict=True))
        direction = "bidirectional" if call.bidirectional else "forward"
        y, h = gru_sequence(x, h0, lengths, w, r, b, direction, linear_before_reset=True)
        x = np.ascontiguousarray(y.transpose(0, 2, 1, 3)).reshape(
            batch, x.shape[1], directions * hidden
        )
        last.append(h.transpose(1, 0, 2))
    return x if call.batch_first else np.ascontiguousarray(x.transpose(1, 0, 2)), np.concatenate(
        last
    )


def _packed(
    parts: Sequence[Array], hidden: int, dtype: np.dtype[Any]
) -> tuple[Array, Array, Array]:
    """W, R and B of one direction of GRUSequence, gates z, r, h, from PyTorch's, gates r, z, n."""
    w, r = (_gates(part) for part in parts[:2])
    if len(parts) == 2:
        return w, r, np.zeros(4 * hidden, dtype)
    input_bias, hidden_bias = (_gates(part) for part in parts[2:])
    both = input_bias[: 2 * hidden] + hidden_bias[: 2 * hidden]
    return w, r, np.concatenate([both, input_bias[2 * hidden :], hidden_bias[2 * hidden :]])


def _gates(part: Array) -> Array:
    """Gates r, z, n in the order z, r, n."""
    if not part.ndim or len(part) % 3:
        raise InputError(
            f"params: expected three gates in the first dimension, got {describe_array(part)}",
            "gru",
        )
    r, z, n = np.split(part, 3)
    return np.concatenate([z, r, n])


def _bags(
    where: str, ids: Array, offsets: Any, weights: Array | None, include_last: bool
) -> tuple[Array, Array, Array | None]:
    """Ids, the offset of each bag and weights, without a last offset that only says where the last
    bag ends.
    """
    if offsets is None:
        raise InputError(
            "offsets: expected where each bag begins, for an input of one dimension", where
        )
    starts = _integers(where, "offsets", offsets)
    if starts.ndim != 1:
        raise InputError(f"offsets: expected one dimension, got {describe_array(starts)}", where)
    if include_last:
        if not len(starts) or starts[-1] > len(ids):
            raise InputError(
                f"offsets: expected a last one of at most {len(ids)}, the number of ids", where
            )
        ids, weights = ids[: starts[-1]], None if weights is None else weights[: starts[-1]]
        starts = starts[:-1]
    wrong = (np.diff(starts) < 0).any() or (
        len(starts) > 0 and (starts[0] != 0 or starts[-1] > len(ids))
    )
    if wrong:
        raise InputError(
            "offsets: expected 0 first, then never less than before and at most "
            f"{len(ids)}, got {starts.tolist()[:8]}",
            where,
        )
    return ids, starts, weights


def _ids(where: str, name: str, value: Any, table: Array) -> Array:
    """The ids as integers, each checked to be a row of the table."""
    if table.ndim != 2:
        raise InputError(f"weight: expected a table [E, d], got {describe_array(table)}", where)
    ids = _integers(where, name, value)
    _within(where, name, ids, len(table), "a row of 'weight'")
    return ids


def _within(where: str, name: str, ids: Array, count: int, what: str) -> None:
    """Refuse what is not from 0 to before `count`."""
    bad = (ids < 0) | (ids >= count)
    if bad.any():
        place = [int(i) for i in np.argwhere(bad)[0]]
        raise InputError(
            f"{name}{place} is {ids[tuple(place)]}, expected 0 to {count - 1}, {what}", where
        )


def _padding(where: str, padding_idx: int | None, table: Array) -> int | None:
    if padding_idx is None:
        return None
    if not -len(table) <= padding_idx < len(table):
        raise InputError(
            f"padding_idx: expected a row of the {len(table)}, got {padding_idx}", where
        )
    return padding_idx % len(table)


def _integers(where: str, name: str, value: Any) -> Array:
    array = _array(where, name, value)
    if array.size == 0 and isinstance(value, (list, tuple)):
        return array.astype(np.int64)  # an empty list has no type; NumPy calls it float
    if array.dtype.kind not in "iu":
        raise InputError(f"{name}: expected integers, got {describe_array(array)}", where)
    return array


def _array(where: str, name: str, value: Any) -> Array:
    try:
        return np.asarray(plain(value))
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputError(
            f"{name}: expected an array, got {type(value).__name__}: {error}", where
        ) from None


def _refuse_max_norm(where: str, max_norm: float | None) -> None:
    if max_norm is not None:
        raise InputError(
            "max_norm changes the rows of the table that are read: "
            "bring the table to that norm once, before",
            where,
        )
