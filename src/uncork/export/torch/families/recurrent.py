"""GRU, LSTM and RNN, sequences and cells.

Where torch's own means the same (GRU with linear_before_reset, LSTM, RNN of one activation; no
clip) `torch.gru` and its like run, on weights whose gates are put in torch's order; else the steps
are spelled out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
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
    states, lengths, weights = rest[:count], rest[count], rest[count + 1 : count + 4]
    known = None if lengths is None else lengths.known()
    steps = x.shape[1].static_size if x.rank == 3 else None
    whole = known is not None and steps is not None and all(n == steps for n in known) and steps > 0
    layer, options = f"{_kind(op)}_layer", dict[str, object]()
    if not _is_torch(op, x):
        layer, step = "layer_of_steps", f"{_kind(op)}_step"
        options = {"step": Code(step), **_options(op)}
        w.program.helpers.add(step)
    elif _kind(op) == "rnn":
        options["activation"] = op.functions()[0]
    w.program.helpers.add(layer)
    given = layer, x, _list(w, states), None if whole else lengths, _list(w, weights)
    return unpacked(w, w.helper("recurrent_sequence", *given, direction=op.direction, **options))


def _list(w: Writer, tensors: Sequence[Value | None]) -> str:
    return f"[{', '.join('None' if t is None else w(t) for t in tensors)}]"


@lowers("GRUCell", "RNNCell", "LSTMCell")
def cell(w: Writer, op: Recurrent, x: Value, *rest: Value | None) -> list[str]:
    """One step of a recurrent layer."""
    count = 2 if _kind(op) == "lstm" else 1
    weights = (*rest, None)[count : count + 3]
    given = x, _list(w, rest[:count]), _list(w, weights)
    return unpacked(w, w.helper(f"{_kind(op)}_step", *given, **_options(op)))
