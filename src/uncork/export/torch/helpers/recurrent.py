"""Recurrent steps and sequences, in the layout of OpenVINO's operations: x [batch, steps, inputs],
states [batch, directions, hidden], W, R and B with a first axis of directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def activated(x: Tensor, name: str, clip: float | None) -> Tensor:
    """The activation of this name, of values limited to -clip and clip."""
    if clip is not None:
        x = x.clamp(-clip, clip)
    return {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}[name](x)


def rnn_step(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    activations: list[str],
    clip: float | None = None,
) -> tuple[Tensor, ...]:
    """f(x W + h R + b)"""
    (h,), (w, r, b) = states, weights
    assert w is not None and r is not None
    total = x @ w.mT + h @ r.mT
    return (activated(total if b is None else total + b, activations[0], clip),)


def gru_step(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    activations: list[str],
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> tuple[Tensor, ...]:
    """The new state of a GRU, from its update and reset gates."""
    (h,), (w, r, b) = states, weights
    assert w is not None and r is not None
    size = h.shape[-1]
    biases = torch.zeros(4 * size, dtype=x.dtype, device=x.device) if b is None else b
    wz, wr, wh = w.split(size)
    rz, rr, rh = r.split(size)
    bz, br, bh, *more = biases.split(size)
    update = activated(x @ wz.mT + h @ rz.mT + bz, activations[0], clip)
    reset = activated(x @ wr.mT + h @ rr.mT + br, activations[0], clip)
    if linear_before_reset:
        inner = x @ wh.mT + reset * (h @ rh.mT + more[0]) + bh
    else:
        inner = x @ wh.mT + (reset * h) @ rh.mT + bh
    new = activated(inner, activations[1], clip)
    return ((1 - update) * new + update * h,)


def lstm_step(
    x: Tensor,
    states: Sequence[Tensor],
    weights: Sequence[Tensor | None],
    activations: list[str],
    clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, ...]:
    """The new state and cell of an LSTM; the weights have the gates as f, i, c, o."""
    (h, c), (w, r, b) = states, weights
    assert w is not None and r is not None
    total = x @ w.mT + h @ r.mT
    f, i, n, o = (total if b is None else total + b).split(h.shape[-1], dim=-1)
    forget = activated(f, activations[0], clip)
    enter = 1 - forget if input_forget else activated(i, activations[0], clip)
    leave = activated(o, activations[0], clip)
    new = activated(n, activations[1], clip)
    c = forget * c + enter * new
    return leave * activated(c, activations[2], None), c


def reversed_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """The first steps of each row, as many as its length, in reverse; x is [batch, steps, ..]."""
    if lengths is None:
        return x.flip(1)
    step = torch.arange(x.shape[1], device=x.device)
    length = lengths.long().unsqueeze(1)
    places = torch.where(step < length, length - 1 - step, step)
    return x[torch.arange(len(x), device=x.device).unsqueeze(1), places]


def within(y: Tensor, lengths: Tensor | None) -> Tensor:
    """y [batch, steps, hidden] with zeros from each row's length on."""
    if lengths is None:
        return y
    live = torch.arange(y.shape[1], device=y.device) < lengths.long().unsqueeze(1)
    return torch.where(live.unsqueeze(2), y, torch.zeros_like(y))


def last_of(steps: Tensor, lengths: Tensor | None) -> Tensor:
    """The last step within the length of each row of [batch, steps, hidden], else zeros."""
    if lengths is None:
        return steps[:, -1]
    length = lengths.long()
    index = (length - 1).clamp(min=0).reshape(-1, 1, 1).expand(-1, 1, steps.shape[2])
    found = steps.gather(1, index).squeeze(1)
    return torch.where((length > 0).unsqueeze(1), found, torch.zeros_like(found))


def walks(direction: str) -> list[bool]:
    """Whether each direction walks backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def recurrent_sequence(
    layer: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: Sequence[Tensor],
    lengths: Tensor | None,
    weights: Sequence[Tensor],
    direction: str,
    **options: object,
) -> tuple[Tensor, ...]:
    """A layer over rows of any lengths, each direction by itself: Y and the last states."""
    if x.shape[0] == 0 or x.shape[1] == 0:
        h = states[0]
        y = x.new_zeros((x.shape[0], h.shape[1], x.shape[1], h.shape[2]))
        return (y, *(torch.zeros_like(h) for _ in states))
    outputs, last = [], []
    for d, back in enumerate(walks(direction)):
        given = reversed_rows(x, lengths) if back else x
        start, own = [s[:, d].contiguous() for s in states], [t[d] for t in weights]
        y, *ends = layer(given, start, lengths, own, **options)
        y = within(y, lengths)
        outputs.append(reversed_rows(y, lengths) if back else y)
        last.append(ends)
    return (
        torch.stack(outputs, 1),
        *(torch.stack(values, 1) for values in zip(*last, strict=True)),
    )


def gru_layer(
    x: Tensor, start: list[Tensor], lengths: Tensor | None, weights: list[Tensor]
) -> tuple[Tensor, ...]:
    """A GRU with linear_before_reset by torch.gru, whose gates stand in the order r, z, n."""
    (wz, wr, wn), (rz, rr, rn), (bz, br, bn, bm) = (t.split(start[0].shape[1]) for t in weights)
    zero = torch.zeros_like(bm)
    own = [torch.cat([wr, wz, wn]), torch.cat([rr, rz, rn])]
    own += [torch.cat([br, bz, bn]), torch.cat([zero, zero, bm])]
    y, _ = torch.gru(x, start[0].unsqueeze(0), own, True, 1, 0.0, False, False, True)
    return y, last_of(y, lengths)


def lstm_layer(
    x: Tensor, start: list[Tensor], lengths: Tensor | None, weights: list[Tensor]
) -> tuple[Tensor, ...]:
    """An LSTM by torch.lstm, whose gates stand in the order i, f, g, o."""
    gates = [t.split(start[0].shape[1]) for t in weights]
    own = [torch.cat([i, f, g, o]) for f, i, g, o in gates]
    own.append(torch.zeros_like(own[-1]))
    first = [s.unsqueeze(0) for s in start]
    if lengths is not None:
        return lstm_rows(x, first, lengths, own)
    y, h, c = torch.lstm(x, first, own, True, 1, 0.0, False, False, True)
    return y, h[0], c[0]


def lstm_rows(
    x: Tensor, start: list[Tensor], lengths: Tensor, weights: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """An LSTM over rows of any lengths, as a packed sequence; states are those at the lengths."""
    length = lengths.long()
    rows = x.shape[0]
    order = torch.argsort(length.clamp(min=1), descending=True, stable=True)
    sizes = length.clamp(min=1)[order].cpu()
    packed = torch.nn.utils.rnn.pack_padded_sequence(x[order], sizes, batch_first=True)
    states = [s[:, order] for s in start]
    data, hn, cn = torch.lstm(
        packed.data, packed.batch_sizes, states, weights, True, 1, 0.0, False, False
    )
    made = torch.nn.utils.rnn.PackedSequence(data, packed.batch_sizes)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(made, batch_first=True, total_length=x.shape[1])
    back = torch.empty_like(order)
    back[order] = torch.arange(rows, device=x.device)
    live = (length > 0).unsqueeze(1)
    hn, cn = (torch.where(live, s[0][back], torch.zeros_like(s[0])) for s in (hn, cn))
    return y[back], hn, cn


def rnn_layer(
    x: Tensor,
    start: list[Tensor],
    lengths: Tensor | None,
    weights: list[Tensor],
    activation: str,
) -> tuple[Tensor, ...]:
    """An Elman network by torch.rnn_tanh or torch.rnn_relu."""
    run = torch.rnn_tanh if activation == "tanh" else torch.rnn_relu
    own = [*weights, torch.zeros_like(weights[2])]
    y, _ = run(x, start[0].unsqueeze(0), own, True, 1, 0.0, False, False, True)
    return y, last_of(y, lengths)


def layer_of_steps(
    x: Tensor,
    start: list[Tensor],
    lengths: Tensor | None,
    weights: list[Tensor],
    step: Callable[..., tuple[Tensor, ...]],
    **options: object,
) -> tuple[Tensor, ...]:
    """A layer step by step; the first state of a step is its output."""
    now, made = tuple(start), []
    for t in range(x.shape[1]):
        now = step(x[:, t], now, weights, **options)
        made.append(now)
    kept = [torch.stack(values, 1) for values in zip(*made, strict=True)]
    return kept[0], *(last_of(values, lengths) for values in kept)
