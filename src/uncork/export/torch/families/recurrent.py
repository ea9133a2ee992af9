"""GRU, LSTM and RNN, sequences and cells.

Where torch's own means the same (GRU with linear_before_reset, LSTM, RNN of one activation; no
clip) `torch.gru` and its like run, on weights whose gates are put in torch's order; else the steps
are spelled out.
"""

from __future__ import annotations

import math

from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Value, Writer
from uncork.ops._common.recurrent import Recurrent, RecurrentSequence
from uncork.ops.lstm_cell import LSTM1


def _kind(op: Recurrent) -> str:
    return {1: "rnn", 3: "gru", 4: "lstm"}[op.gates]


def _options(op: Recurrent) -> dict[str, object]:
    options: dict[str, object] = {"activations": list(op.functions())}
    if 0 < op.clip < math.inf:
        options["clip"] = float(op.clip)
    if getattr(op, "linear_before_reset", False):
        options["linear_before_reset"] = True
    if isinstance(op, LSTM1) and op.input_forget:
        options["input_forget"] = True
    return options


def _is_torch(op: Recurrent, x: Value) -> bool:
    """Whether torch's own layer has the same formula."""
    wanted = {"rnn": None, "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}
    kind, used = _kind(op), op.functions()
    fits = used in (("tanh",), ("relu",)) if kind == "rnn" else used == wanted[kind]
    plain = set(_options(op)) <= {"activations", "linear_before_reset"}
    reset = kind != "gru" or bool(getattr(op, "linear_before_reset", False))
    return fits and plain and reset and x.type.name in ("f32", "f64")


@lowers("GRUSequence", "RNNSequence", "LSTMSequence")
def sequence(w: Writer, op: RecurrentSequence, x: Value, *rest: Value | None) -> list[str]:
    """A recurrent layer over rows of any lengths, by torch's own where it means the same."""
    count = 2 if _kind(op) == "lstm" else 1
    states, lengths, *weights = rest[:count], *rest[count : count + 4]

    given: list[Value | None] = [*states, lengths, *weights]
    known = None if lengths is None else lengths.known()
    steps = x.shape[1].static_size if x.rank == 3 else None
    whole = known is not None and steps is not None and all(n == steps for n in known) and steps > 0
    if whole:
        given[count] = None
    if _is_torch(op, x):
        options: dict[str, object] = {"direction": op.direction}
        if _kind(op) == "rnn":
            options["activation"] = op.functions()[0]
        return unpacked(w, w.helper(f"{_kind(op)}_sequence", x, *given, **options))
    options = {"direction": op.direction, **_options(op)}
    return unpacked(w, w.helper(f"{_kind(op)}_sequence_by_steps", x, *given, **options))


@lowers("GRUCell", "RNNCell", "LSTMCell")
def cell(w: Writer, op: Recurrent, x: Value, *rest: Value | None) -> list[str] | str:
    """One step of a recurrent layer."""
    count = 2 if _kind(op) == "lstm" else 1
    states, weights = rest[:count], list(rest[count : count + 3])
    weights += [None] * (3 - len(weights))
    text = w.helper(f"{_kind(op)}_step", x, *states, *weights, **_options(op))
    return unpacked(w, text) if count == 2 else text
