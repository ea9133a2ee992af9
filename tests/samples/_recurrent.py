"""What the samples of the recurrent operations share: the formulas one number at a time, and
weights that make running sums.

The formulas are those of the specification pages of GRUCell-3, LSTMCell-1 and RNNCell, in Python
floats (64 bits).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays, integer_arrays
from tests.samples._sample import Case, Refusal, Sample
from uncork import storage

Vector = list[float]
State = list[Vector]
#: (x, state, W, R, B) of one row, and the attributes -> the state after the step
Step = Callable[[Vector, State, Any, Any, Any, Mapping[str, Any]], State]
DEFAULTS = {"GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"], "RNN": ["tanh"]}
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


# ---- the formulas


def _apply(name: str, value: float) -> float:
    if name.lower() == "sigmoid":
        return 1 / (1 + math.exp(-value)) if value > -700 else 0.0
    return math.tanh(value) if name.lower() == "tanh" else max(value, 0.0)


def _clipped(value: float, attributes: Mapping[str, Any]) -> float:
    bound = attributes.get("clip", math.inf)
    return min(max(value, -bound), bound) if bound > 0 else value


def _row(matrix: Any, row: int, vector: Vector) -> float:
    total = 0.0
    for k, value in enumerate(vector):
        total += float(matrix[row][k]) * value
    return total


def gru_step(
    x: Vector, state: State, w: Any, r: Any, b: Any, attributes: Mapping[str, Any]
) -> State:
    (h,) = state
    size = len(h)
    f, g = [*attributes.get("activations", DEFAULTS["GRU"])][:2]
    after_reset = attributes.get("linear_before_reset", False)
    bias = [float(v) for v in b] if b is not None else [0.0] * (4 * size)
    z = [
        _apply(f, _clipped(_row(w, j, x) + _row(r, j, h) + bias[j], attributes))
        for j in range(size)
    ]
    s = [
        _apply(f, _clipped(_row(w, j, x) + _row(r, j, h) + bias[j], attributes))
        for j in range(size, 2 * size)
    ]
    new = []
    for j in range(size):
        if after_reset:
            value = (
                _row(w, 2 * size + j, x)
                + s[j] * (_row(r, 2 * size + j, h) + bias[3 * size + j])
                + bias[2 * size + j]
            )
        else:
            value = (
                _row(w, 2 * size + j, x)
                + _row(r, 2 * size + j, [a * c for a, c in zip(s, h, strict=True)])
                + bias[2 * size + j]
            )
        n = _apply(g, _clipped(value, attributes))
        new.append((1 - z[j]) * n + z[j] * h[j])
    return [new]


def lstm_step(
    x: Vector, state: State, w: Any, r: Any, b: Any, attributes: Mapping[str, Any]
) -> State:
    h, c = state
    size = len(h)
    f, g, last = [*attributes.get("activations", DEFAULTS["LSTM"])][:3]
    hidden, cell = [], []
    for j in range(size):
        gates = []
        for position, name in enumerate((f, f, g, f)):  # forget, input, cell, output
            row = position * size + j
            bias = 0.0 if b is None else float(b[row])
            gates.append(
                _apply(name, _clipped(_row(w, row, x) + _row(r, row, h) + bias, attributes))
            )
        forget, enter, candidate, leave = gates
        if attributes.get("input_forget"):
            enter = 1 - forget
        cell.append(forget * c[j] + enter * candidate)
        hidden.append(leave * _apply(last, cell[j]))
    return [hidden, cell]


def rnn_step(
    x: Vector, state: State, w: Any, r: Any, b: Any, attributes: Mapping[str, Any]
) -> State:
    (h,) = state
    name, *_ = attributes.get("activations", DEFAULTS["RNN"])
    bias = [0.0] * len(h) if b is None else [float(v) for v in b]
    return [
        [
            _apply(name, _clipped(_row(w, j, x) + _row(r, j, h) + bias[j], attributes))
            for j in range(len(h))
        ]
    ]


STEPS: dict[str, Step] = {"GRU": gru_step, "LSTM": lstm_step, "RNN": rnn_step}


def _wide(case: Case) -> list[Any]:
    return [
        None if a is None else storage.decode(a, t).astype(np.float64) if t.is_float else a
        for a, t in zip(case.inputs, case.types, strict=True)
    ]


def _outputs(state: list[Any]) -> list[np.ndarray]:
    return [np.asarray(s, np.float64) for s in state]


def cell_loop(family: str) -> Callable[[Case], list[np.ndarray]]:
    def loop(case: Case) -> list[np.ndarray]:
        values = _wide(case)
        count = 2 if family == "LSTM" else 1
        x, states, (w, r) = values[0], values[1 : 1 + count], values[1 + count : 3 + count]
        b = values[3 + count] if len(values) > 3 + count else None
        outputs = [np.zeros(s.shape) for s in states]
        for row in range(x.shape[0]):
            after = STEPS[family](
                [float(v) for v in x[row]],
                [[float(v) for v in s[row]] for s in states],
                w,
                r,
                b,
                case.attributes,
            )
            for output, vector in zip(outputs, after, strict=True):
                output[row] = vector
        return outputs

    return loop


def sequence_loop(family: str) -> Callable[[Case], list[np.ndarray]]:
    def loop(case: Case) -> list[np.ndarray]:
        values = _wide(case)
        count = 2 if family == "LSTM" else 1
        x, initial, lengths = values[0], values[1 : 1 + count], values[1 + count]
        w, r, b = values[2 + count : 5 + count]
        batch, steps, _ = x.shape
        directions, hidden = initial[0].shape[1:]
        y = np.zeros((batch, directions, steps, hidden))
        last = [np.zeros(s.shape) for s in initial]
        for row in range(batch):
            length = int(lengths[row])
            for d in range(directions):
                backwards = d == 1 or case.attributes.get("direction") == "reverse"
                state = [[float(v) for v in s[row, d]] for s in initial]
                for t in reversed(range(length)) if backwards else range(length):
                    state = STEPS[family](
                        [float(v) for v in x[row, t]], state, w[d], r[d], b[d], case.attributes
                    )
                    y[row, d, t] = state[0]
                if length:
                    for output, vector in zip(last, state, strict=True):
                        output[row, d] = vector
        return [y, *last]

    return loop


# ---- random cases


@st.composite
def cases(
    draw: st.DrawFn,
    family: str,
    sequence: bool,
    extra: Mapping[str, st.SearchStrategy[Any]] | None = None,
) -> Case:
    batch, steps, size = (draw(st.integers(0, 3)) for _ in range(3))
    hidden = draw(st.integers(1, 3))
    attributes: dict[str, Any] = {"hidden_size": hidden}
    names = [
        draw(st.sampled_from(["sigmoid", "tanh", "relu", "Sigmoid", "TANH", "ReLU"]))
        for _ in DEFAULTS[family]
    ]
    if draw(st.booleans()):
        attributes["activations"] = tuple(names)
    # Without a bound relu grows beyond what f32 can be compared at; the worked examples have it
    # without.
    bounds = (
        [0.5, 1.0, 3.0] if "relu" in [n.lower() for n in names] else [0.5, 1.0, 0.0, -1.0, math.inf]
    )
    if "activations" in attributes or draw(st.booleans()):
        attributes["clip"] = draw(st.sampled_from(bounds))
    biases = GATES[family]
    if family == "GRU" and draw(st.booleans()):
        attributes["linear_before_reset"] = True
        biases = 4
    for name, strategy in (extra or {}).items():
        attributes[name] = draw(strategy)
    name = draw(st.sampled_from(FLOATS))
    lead: tuple[int, ...] = ()
    if sequence:
        attributes["direction"] = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
        lead = (2 if attributes["direction"] == "bidirectional" else 1,)
    shapes = [(batch, steps, size) if sequence else (batch, size)]
    shapes += [(batch, *lead, hidden)] * (2 if family == "LSTM" else 1)
    weights = [
        (*lead, GATES[family] * hidden, size),
        (*lead, GATES[family] * hidden, hidden),
        (*lead, biases * hidden),
    ]
    inputs: list[Any] = [draw(arrays(s, (name,), -1, 1))[0] for s in shapes]
    types: list[str | None] = [name] * len(shapes)
    if sequence:
        inputs.append(
            draw(
                integer_arrays((batch,), 0, steps, ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))
            )
        )
        types.append(None)
    elif draw(st.booleans()):
        weights.pop()
    inputs += [draw(arrays(s, (name,), -1, 1))[0] for s in weights]
    return Case(inputs, attributes, [*types, *[name] * len(weights)])


# ---- weights that make running sums: h' = x + h for inputs that are not negative, with relu
# everywhere


def _lead(family: str) -> tuple[list[float], list[float], list[float]]:
    if family == "RNN":
        return [1], [1], [0]
    if family == "GRU":  # z = 0, r = 1
        return [0, 0, 1], [0, 0, 1], [0, 1, 0]
    return [0, 0, 1, 0], [0, 0, 0, 0], [1, 1, 0, 1]  # f = i = o = 1: c' = c + x, h' = c'


def running_sum(
    family: str,
    x: Any,
    initial: Any,
    lengths: Any,
    direction: str = "forward",
    dtype: Any = np.float32,
) -> list[Any]:
    """Inputs of a sequence with one unit: x [batch, steps], one initial value per row and
    direction.
    """
    x = np.asarray(x, dtype)[..., None]
    directions = 2 if direction == "bidirectional" else 1
    initial = np.asarray(initial, dtype).reshape(len(x), directions, 1)
    w, r, b = (np.asarray([values] * directions, dtype) for values in _lead(family))
    states = [initial] * (2 if family == "LSTM" else 1)
    lengths = lengths if isinstance(lengths, np.ndarray) else np.array(lengths, np.int64)
    return [x, *states, lengths, w[..., None], r[..., None], b]


def _sums(family: str, y: Any, last: Any, dtype: Any = np.float32) -> list[Any]:
    """Y [batch, directions, steps] and the last states [batch, directions] as the operation gives
    them.
    """
    states = [np.asarray(last, dtype)[..., None]] * (2 if family == "LSTM" else 1)
    return [np.asarray(y, dtype)[..., None], *states]


ROWS = [[1, 2, 4], [8, 16, 32]]
UNREAD = [[1, 2, 4], [8, math.nan, math.inf]]


def sequence_samples(family: str) -> list[Sample]:
    """Every rule about lengths and directions, by running sums that can be checked by eye."""
    relus = tuple(["relu"] * len(DEFAULTS[family]))
    base = {"hidden_size": 1, "activations": relus}

    def sample(
        name: str,
        x: Any,
        initial: Any,
        lengths: Any,
        y: Any,
        last: Any,
        direction: str = "forward",
        **more: Any,
    ) -> Sample:
        attributes = {
            **base,
            **({"direction": direction} if direction != "forward" else {}),
            **more.pop("attributes", {}),
        }
        return Sample(
            name,
            running_sum(family, x, initial, lengths, direction),
            _sums(family, y, last),
            attributes,
            **more,
        )

    forward = [[[101, 103, 107]], [[208, 0, 0]]]
    backward = [[[107, 106, 104]], [[208, 0, 0]]]
    half = {
        "f16": np.array([[2048, 1, 1, 1]], np.float16),
        "bf16": [[0x4380, 0x3F80, 0x3F80, 0x3F80]],
    }
    return [
        sample(
            "full lengths",
            ROWS,
            [100, 200],
            [3, 3],
            [[[101, 103, 107]], [[208, 224, 256]]],
            [[107], [256]],
        ),
        sample("0 past a row's length", ROWS, [100, 200], [3, 1], forward, [[107], [208]]),
        sample("padded steps are not read", UNREAD, [100, 200], [3, 1], forward, [[107], [208]]),
        sample(
            "reverse starts at a row's own last step",
            ROWS,
            [100, 200],
            [3, 1],
            backward,
            [[107], [208]],
            "reverse",
        ),
        sample(
            "reverse does not read padded steps",
            UNREAD,
            [100, 200],
            [3, 1],
            backward,
            [[107], [208]],
            "reverse",
        ),
        sample(
            "bidirectional: first forward, then reverse",
            ROWS,
            [[100, 500], [200, 600]],
            [2, 3],
            [[[101, 103, 0], [503, 502, 0]], [[208, 224, 256], [656, 648, 632]]],
            [[103, 503], [256, 656]],
            "bidirectional",
        ),
        sample(
            "length 0 gives zeros, not the initial state",
            ROWS,
            [100, 200],
            [0, 2],
            [[[0, 0, 0]], [[208, 224, 0]]],
            [[0], [224]],
        ),
        sample(
            "all lengths 0", UNREAD, [100, 200], [0, 0], np.zeros((2, 1, 3)), [[0], [0]], "reverse"
        ),
        sample(
            "no steps",
            np.zeros((2, 0)),
            [100, 200],
            [0, 0],
            np.zeros((2, 1, 0)),
            [[0], [0]],
            openvino="OpenVINO does not compile it",
        ),
        sample(
            "no rows",
            np.zeros((0, 3)),
            np.zeros((0, 1)),
            np.zeros(0, np.int64),
            np.zeros((0, 1, 3)),
            np.zeros((0, 1)),
            openvino="OpenVINO does not compile it",
        ),
        sample(
            "lengths of any integer type",
            ROWS,
            [100, 200],
            np.array([3, 1], np.uint8),
            forward,
            [[107], [208]],
        ),
        sample(
            "32-bit lengths", ROWS, [100, 200], np.array([3, 1], np.int32), forward, [[107], [208]]
        ),
        sample(
            "forward by name",
            ROWS,
            [100, 200],
            [3, 1],
            forward,
            [[107], [208]],
            attributes={"direction": "forward"},
        ),
        sample(
            "names in any case, entries too many, meaningless alpha and beta",
            ROWS[:1],
            [100],
            [3],
            forward[:1],
            [[107]],
            attributes={
                "activations": tuple(["ReLU"] * len(relus) + ["softsign"]),
                "activations_alpha": (0.2,),
                "activations_beta": (0.5, 3.0),
            },
        ),
        sample(
            "clip 0 is off", ROWS[:1], [100], [3], forward[:1], [[107]], attributes={"clip": 0.0}
        ),
        sample(
            "a negative clip is off",
            ROWS[:1],
            [100],
            [3],
            forward[:1],
            [[107]],
            attributes={"clip": -2.0},
        ),
        sample(
            "an infinite clip is off",
            ROWS[:1],
            [100],
            [3],
            forward[:1],
            [[107]],
            attributes={"clip": math.inf},
        ),
        Sample(
            "f64 is f64",
            running_sum(family, [[2.0**-40, 1]], [1], [2], dtype=np.float64),
            _sums(family, [[[1 + 2.0**-40, 2 + 2.0**-40]]], [[2 + 2.0**-40]], np.float64),
            base,
            rtol=0,
            atol=0,
        ),
        Sample(
            "f16 carries the state in f32 and rounds once",
            [
                half["f16"][..., None],
                *running_sum(family, [[0] * 4], [0], [4], dtype=np.float16)[1:],
            ],
            _sums(family, [[[2048, 2048, 2050, 2052]]], [[2052]], np.float16),
            base,
        ),
        Sample(
            "bf16 carries the state in f32 and rounds once",
            [
                np.array(half["bf16"])[..., None],
                *[
                    a if a.dtype == np.int64 else a * 0x3F80
                    for a in running_sum(family, [[0] * 4], [0], [4])[1:]
                ],
            ],
            _sums(
                family, [[[0x4380, 0x4380, 0x4381, 0x4382]]], [[0x4382]], np.uint16
            ),  # 256, 256, 258, 260
            base,
            types=["bf16"] * (3 if family == "LSTM" else 2) + [None] + ["bf16"] * 3,
            output_types=["bf16"] * 3,
            openvino="OpenVINO rounds the state to bf16 after every step",
        ),
    ]


def sequence_refusals(family: str) -> list[Refusal]:
    relus = tuple(["relu"] * len(DEFAULTS[family]))
    base = {"hidden_size": 1, "activations": relus}
    position = 3 if family == "LSTM" else 2
    good = running_sum(family, ROWS, [100, 200], [3, 1])
    gates = {"GRU": "3 . hidden_size = 3", "LSTM": "4 . hidden_size = 4", "RNN": "hidden_size = 1"}[
        family
    ]

    def swapped(place: int, value: Any) -> list[Any]:
        return [*good[:place], value, *good[place + 1 :]]

    def lengths(*values: Any) -> list[Any]:
        return swapped(position, np.array(values))

    return [
        *attribute_refusals(family, good),
        Refusal(
            "length past the steps",
            lengths(3, 4),
            r"sequence_lengths\[1\] is 4, expected 0 to 3 \(seq_length\)",
            base,
        ),
        Refusal(
            "length past the steps, reverse",
            lengths(4, 3),
            r"sequence_lengths\[0\] is 4",
            {**base, "direction": "reverse"},
        ),
        Refusal(
            "negative length", lengths(-1, 3), r"sequence_lengths\[0\] is -1, expected 0 to 3", base
        ),
        Refusal(
            "lengths are not narrowed",
            lengths(3, 2**32 + 1),
            r"sequence_lengths\[1\] is 4294967297",
            base,
        ),
        Refusal(
            "unsigned lengths",
            lengths(np.uint64(2**63), np.uint64(1)),
            r"sequence_lengths\[0\] is 9223372036854775808",
            base,
        ),
        Refusal(
            "length 1 of no steps",
            running_sum(family, np.zeros((1, 0)), [1], [1]),
            r"sequence_lengths\[0\] is 1, expected 0 to 0",
            base,
        ),
        Refusal(
            "float lengths",
            lengths(1.0, 2.0),
            r"'sequence_lengths' \(port .\): expected an integer type.*got f64",
            base,
        ),
        Refusal(
            "lengths of another batch",
            lengths(1, 2, 3),
            r"'sequence_lengths': expected \[batch_size = 2\], got \[3\]",
            base,
        ),
        Refusal(
            "lengths of rank 2",
            swapped(position, np.array([[1], [1]])),
            r"'sequence_lengths': expected \[batch_size = 2\], got \[2,1\]",
            base,
        ),
        Refusal(
            "one set of weights for two directions",
            good,
            "num_directions = 2.*got .2,1,1.",
            {**base, "direction": "bidirectional"},
        ),
        Refusal(
            "X of rank 2",
            swapped(0, good[0][0]),
            r"'X': expected \[batch_size = \?, seq_length = \?, input_size = \?\], got \[3,1\]",
            base,
        ),
        Refusal(
            "direction",
            good,
            "'direction': expected one of forward, reverse, bidirectional, got 'sideways'",
            {**base, "direction": "sideways"},
        ),
        Refusal(
            "W for other inputs",
            swapped(position + 1, np.tile(good[position + 1], 2)),
            r"'W': expected .*input_size = 1\], got",
            base,
        ),
        Refusal(
            "W of other gates",
            swapped(position + 1, np.ones((1, 2, 1), "f4")),
            f"'W': expected .*{gates}",
            base,
        ),
        Refusal(
            "R of other gates",
            swapped(position + 2, np.ones((1, 2, 1), "f4")),
            f"'R': expected .*{gates}",
            base,
        ),
        Refusal(
            "B of other gates",
            swapped(position + 3, np.ones((1, 2), "f4")),
            f"'B': expected .*{gates}",
            base,
        ),
        Refusal("B is required", good[:-1], "'B' .port .. is missing", base),
        Refusal(
            "other types",
            swapped(position + 3, good[-1].astype("f8")),
            "'B' .port .*: expected f32 as 'X' has, got f64",
            base,
        ),
    ]


def attribute_refusals(family: str, good: list[Any]) -> list[Refusal]:
    """`good` are inputs for hidden_size 1."""
    count = len(DEFAULTS[family])
    wrong = {
        "hidden_size is missing": ({}, "'hidden_size' is missing: expected an integer"),
        "hidden_size 0": ({"hidden_size": 0}, "'hidden_size': expected at least 1, got 0"),
        "hidden_size is not that of the state": ({"hidden_size": 2}, "hidden_size = 2.*got"),
        "clip is not a number": (
            {"hidden_size": 1, "clip": math.nan},
            "'clip': expected a number, got nan",
        ),
    }
    refusals = [
        Refusal(name, good, message, attributes) for name, (attributes, message) in wrong.items()
    ]
    for name in ("softsign", "HardSigmoid", "elu"):
        message = f"'{name}' is not supported; supported are relu, sigmoid, tanh"
        refusals.append(
            Refusal(
                name,
                good,
                message,
                {"hidden_size": 1, "activations": ("tanh",) * (count - 1) + (name,)},
            )
        )
    if count > 1:
        message = f"'activations': expected {count} names, got tanh"
        refusals.append(
            Refusal(
                "too few activations", good, message, {"hidden_size": 1, "activations": ("tanh",)}
            )
        )
    integers = [a.astype(np.int32) for a in good]
    refusals.append(
        Refusal(
            "integers",
            integers,
            r"'X' \(port 0\): expected a floating-point type",
            {"hidden_size": 1},
        )
    )
    return refusals
