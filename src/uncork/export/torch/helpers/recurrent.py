"""Recurrent steps and sequences, in the layout of OpenVINO's operations: x [batch, steps, inputs],
states [batch, directions, hidden], W, R and B with a first axis of directions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def activated(x: Tensor, name: str, clip: float | None) -> Tensor:
    """The activation of this name, of values limited to -clip and clip."""
    if clip is not None:
        x = x.clamp(-clip, clip)
    return {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}[name](x)


def rnn_step(
    x: Tensor,
    h: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    activations: list[str],
    clip: float | None = None,
) -> Tensor:
    """f(x W + h R + b)"""
    total = x @ w.mT + h @ r.mT
    return activated(total if b is None else total + b, activations[0], clip)


def gru_step(
    x: Tensor,
    h: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    activations: list[str],
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> Tensor:
    """The new state of a GRU, from its update and reset gates."""
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
    return (1 - update) * new + update * h


def lstm_step(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None,
    activations: list[str],
    clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, Tensor]:
    """The new state and cell of an LSTM; the weights have the gates as f, i, c, o."""
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


def no_steps(x: Tensor, h: Tensor, states: int) -> tuple[Tensor, ...]:
    """What a sequence without steps, or without rows, gives."""
    y = x.new_zeros((x.shape[0], h.shape[1], x.shape[1], h.shape[2]))
    return (y, *(torch.zeros_like(h) for _ in range(states)))


def walks(direction: str) -> list[bool]:
    """Whether each direction walks backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def gru_sequence(
    x: Tensor,
    h: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
) -> tuple[Tensor, ...]:
    """A GRU with linear_before_reset by torch.gru, whose gates stand in the order r, z, n."""
    size = h.shape[2]
    if x.shape[0] == 0 or x.shape[1] == 0:
        return no_steps(x, h, 1)
    outputs, states = [], []
    for d, backwards in enumerate(walks(direction)):
        wz, wr, wn = w[d].split(size)
        rz, rr, rn = r[d].split(size)
        bz, br, bn, bm = b[d].split(size)
        zero = torch.zeros_like(bm)
        weights = [torch.cat([wr, wz, wn]), torch.cat([rr, rz, rn])]
        weights += [torch.cat([br, bz, bn]), torch.cat([zero, zero, bm])]
        given = reversed_rows(x, lengths) if backwards else x
        start = h[:, d].unsqueeze(0).contiguous()
        y, _ = torch.gru(given, start, weights, True, 1, 0.0, False, False, True)
        states.append(last_of(y, lengths))
        y = within(y, lengths)
        outputs.append(reversed_rows(y, lengths) if backwards else y)
    return torch.stack(outputs, 1), torch.stack(states, 1)


def lstm_sequence(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
) -> tuple[Tensor, ...]:
    """An LSTM by torch.lstm, whose gates stand in the order i, f, g, o."""
    size = h.shape[2]
    if x.shape[0] == 0 or x.shape[1] == 0:
        return no_steps(x, h, 2)
    outputs, states, cells = [], [], []
    for d, backwards in enumerate(walks(direction)):
        orders = [t[d].split(size) for t in (w, r, b)]
        weights = [torch.cat([i, f, g, o]) for f, i, g, o in orders]
        weights.append(torch.zeros_like(weights[-1]))
        given = reversed_rows(x, lengths) if backwards else x
        start = [s[:, d].unsqueeze(0).contiguous() for s in (h, c)]
        if lengths is None:
            y, hn, cn = torch.lstm(given, start, weights, True, 1, 0.0, False, False, True)
            states.append(hn[0])
            cells.append(cn[0])
        else:
            y, hn, cn = lstm_rows(given, start, lengths, weights)
            states.append(hn)
            cells.append(cn)
        y = within(y, lengths)
        outputs.append(reversed_rows(y, lengths) if backwards else y)
    return torch.stack(outputs, 1), torch.stack(states, 1), torch.stack(cells, 1)


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


def rnn_sequence(
    x: Tensor,
    h: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
    activation: str,
) -> tuple[Tensor, ...]:
    """An Elman network by torch.rnn_tanh or torch.rnn_relu."""
    if x.shape[0] == 0 or x.shape[1] == 0:
        return no_steps(x, h, 1)
    run = torch.rnn_tanh if activation == "tanh" else torch.rnn_relu
    outputs, states = [], []
    for d, backwards in enumerate(walks(direction)):
        given = reversed_rows(x, lengths) if backwards else x
        start = h[:, d].unsqueeze(0).contiguous()
        weights = [w[d], r[d], b[d], torch.zeros_like(b[d])]
        y, _ = run(given, start, weights, True, 1, 0.0, False, False, True)
        states.append(last_of(y, lengths))
        y = within(y, lengths)
        outputs.append(reversed_rows(y, lengths) if backwards else y)
    return torch.stack(outputs, 1), torch.stack(states, 1)


def by_steps(
    step: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: tuple[Tensor, ...],
    lengths: Tensor | None,
    direction: str,
) -> tuple[Tensor, ...]:
    """A sequence step by step; the first state of a step is its output.

    `step` takes the number of the direction, what is given to the step and the states, and gives
    the new ones.
    """
    if x.shape[0] == 0 or x.shape[1] == 0:
        return no_steps(x, states[0], len(states))
    outputs, last = [], []
    for d, backwards in enumerate(walks(direction)):
        given = reversed_rows(x, lengths) if backwards else x
        now, made = tuple(state[:, d] for state in states), []
        for t in range(x.shape[1]):
            now = step(d, given[:, t], *now)
            made.append(now)
        kept = [torch.stack(values, 1) for values in zip(*made, strict=True)]
        last.append([last_of(values, lengths) for values in kept])
        y = within(kept[0], lengths)
        outputs.append(reversed_rows(y, lengths) if backwards else y)
    return (
        torch.stack(outputs, 1),
        *(torch.stack(values, 1) for values in zip(*last, strict=True)),
    )


def gru_sequence_by_steps(
    x: Tensor,
    h: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
    activations: list[str],
    clip: float | None = None,
    linear_before_reset: bool = False,
) -> tuple[Tensor, ...]:
    """A GRU step by step."""

    def step(d: int, given: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        options = activations, clip, linear_before_reset
        return (gru_step(given, state, w[d], r[d], b[d], *options),)

    return by_steps(step, x, (h,), lengths, direction)


def rnn_sequence_by_steps(
    x: Tensor,
    h: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
    activations: list[str],
    clip: float | None = None,
) -> tuple[Tensor, ...]:
    """An Elman network step by step."""

    def step(d: int, given: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        return (rnn_step(given, state, w[d], r[d], b[d], activations, clip),)

    return by_steps(step, x, (h,), lengths, direction)


def lstm_sequence_by_steps(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    lengths: Tensor | None,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    direction: str,
    activations: list[str],
    clip: float | None = None,
    input_forget: bool = False,
) -> tuple[Tensor, ...]:
    """An LSTM step by step."""

    def step(d: int, given: Tensor, state: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        options = activations, clip, input_forget
        return lstm_step(given, state, cell, w[d], r[d], b[d], *options)

    return by_steps(step, x, (h, c), lengths, direction)
