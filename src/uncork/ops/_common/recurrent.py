"""What the recurrent operations share: attributes, shape rules, activations, and the walk over the
steps of a sequence.

A family (RNN, GRU, LSTM) states its formula once, as `step`; its cell is one step, its sequence
walks over steps. A state is a tuple: (h,) or, for LSTM, (h, c).

Decided where the pages are silent (the project's decisions, section GRUSequence-5):
- Lengths are honoured always: Y is 0 past a row's length, the last states are those at its length,
  padded steps are never read. Length 0 gives zeros, not the initial state. A length outside
  0..seq_length is refused.
- `reverse` walks from a row's own last live step down to 0 and stores each state at its own step.
- `clip` limits what goes into the activation of a gate, not the state; it is off when it is 0,
  negative or infinite.
- `activations` are taken in any case; absent or empty means the defaults; entries beyond those
  needed are ignored, as OpenVINO does; both directions use the same ones. `activations_alpha` and
  `_beta` have no meaning for those there are.
- `direction` is required by the pages but left out in their own examples: absent means forward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from uncork.errors import UnsupportedError
from uncork.ops._common.elementwise import sigmoid
from uncork.ops._common.sequences import agreed_sizes, check_lengths, shape_in_words
from uncork.ops._operation import Operation
from uncork.ops._ports import (
    INTEGER,
    REAL,
    Attribute,
    Input,
    Kind,
    Output,
    at_least,
    integer,
    names,
    number,
    numbers,
    one_of,
)
from uncork.types import Array, Dimension, PartialShape, TensorSpec

State = tuple[Array, ...]
#: The names of inputs that are states.
STATES = ("initial_hidden_state", "H", "initial_cell_state")


def relu(values: Array) -> Array:
    """The positive part; NaN stays NaN."""
    return np.maximum(values, 0)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {"relu": relu, "sigmoid": sigmoid, "tanh": np.tanh}
#: For each direction of a sequence: does it walk backwards?
WALKS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def activation_names(*defaults: str) -> Attribute[tuple[str, ...]]:
    """The attribute `activations` of a family. OpenVINO's own classes write an empty list where
    they mean the defaults.
    """
    kind = Kind(names.expected, names.parse, lambda chosen: names.format(chosen or defaults))
    return Attribute(kind, defaults)


class Recurrent(Operation):
    """The base of the recurrent operations. A subclass gives `activations`, `gates`, and `step`;
    with the names of its `states`, which differ between operations, it has all of its ports.
    """

    multiplies = True
    #: How many blocks of hidden_size W and R have.
    gates: ClassVar[int]
    #: What sequences have more of than cells, as `layout` spells it.
    each_direction: ClassVar[str] = ""
    each_step: ClassVar[str] = ""
    hidden_size = Attribute(integer, check=at_least(1))
    activations: ClassVar[Attribute[tuple[str, ...]]]
    activations_alpha = Attribute(numbers, default=())
    activations_beta = Attribute(numbers, default=())
    clip = Attribute(
        number, default=math.inf, check=lambda value: "a number" if math.isnan(value) else None
    )

    def __init_subclass__(cls, states: Sequence[str] = ()) -> None:
        for name, port in cls._ports(states) if states else ():
            port.name = name
            setattr(cls, name, port)
        super().__init_subclass__()

    @classmethod
    def _ports(cls, states: Sequence[str]) -> Iterator[tuple[str, Input | Output]]:
        """The ports in their order: a cell may do without biases."""
        yield from ((name, Input(REAL, "T")) for name in ("X", *states))
        if cls.each_step:
            yield "sequence_lengths", Input(INTEGER, ids=True)
        yield from ((name, Input(REAL, "T")) for name in "WR")
        yield "B", Input(REAL, "T", optional=not cls.each_step)
        outputs = [*(["Y"] if cls.each_step else []), *("Ho", "Co")[: len(states)]]
        yield from ((name, Output("T")) for name in outputs)

    def bias_count(self) -> int:
        """How many biases of hidden_size there are."""
        return self.gates

    def layout(self) -> Mapping[str, str]:
        """The shape of every port that one of the family has, in the words of the specification
        pages.
        """
        each = self.each_direction
        gates, biases = (
            f"{n} * hidden_size" if n > 1 else "hidden_size"
            for n in (self.gates, self.bias_count())
        )
        states = (*STATES, "Ho", "Co")
        return {
            "X": f"batch_size, {self.each_step}input_size",
            **dict.fromkeys(states, f"batch_size, {each}hidden_size"),
            "sequence_lengths": "batch_size",
            "W": f"{each}{gates}, input_size",
            "R": f"{each}{gates}, hidden_size",
            "B": f"{each}{biases}",
            "P": f"{each}3 * hidden_size",
            "Y": f"batch_size, {each}{self.each_step}hidden_size",
        }

    def step(self, x: Array, state: State, w: Array, r: Array, b: Array | None) -> State:
        """The state of some rows after one step, from x [rows, input_size] and each state [rows,
        hidden_size].
        """
        raise NotImplementedError

    def check_attributes(self) -> None:
        needed = len(self._defaults())
        chosen = self.activations or self._defaults()
        self.require(
            len(chosen) >= needed,
            "attribute 'activations': expected {} names, got {}",
            needed,
            ", ".join(chosen),
        )
        unknown = [name for name in chosen[:needed] if name.lower() not in FUNCTIONS]
        if unknown:
            raise UnsupportedError(
                f"attribute 'activations': '{unknown[0]}' is not supported; "
                f"supported are {', '.join(FUNCTIONS)}"
            )

    def _defaults(self) -> tuple[str, ...]:
        default = self.attributes["activations"].default
        assert isinstance(default, tuple)
        return default

    def functions(self) -> tuple[str, ...]:
        """The names of the activations that are used, one for each position, in lower case."""
        defaults = self._defaults()
        return tuple(name.lower() for name in (self.activations or defaults)[: len(defaults)])

    def activate(self, position: int, values: Array) -> Array:
        """The activation at one position of the list."""
        return FUNCTIONS[self.functions()[position]](values)

    def gate(self, position: int, values: Array) -> Array:
        """The activation of a gate, with `clip` applied before."""
        if 0 < self.clip < math.inf:
            bound = values.dtype.type(self.clip)
            values = np.clip(values, -bound, bound)
        return self.activate(position, values)

    def infer(self, *specs: TensorSpec | None) -> list[PartialShape]:
        layout = self.layout()
        sizes = agreed_sizes(self, specs, layout, self.sizes())
        return [shape_in_words(layout[port.name], sizes) for port in self.outputs]

    def sizes(self) -> dict[str, Dimension]:
        """The sizes named in `layout` that the attributes give."""
        return {"hidden_size": Dimension.of(self.hidden_size)}

    def reference(self, *arrays: Any) -> Sequence[Array]:
        given = {port.name: array for port, array in zip(self.inputs, arrays, strict=False)}
        states = tuple(given[name] for name in STATES if name in given)
        return self.outputs_of(given, states)

    def outputs_of(self, given: Mapping[str, Any], states: State) -> Sequence[Array]:
        """The outputs, of arrays by the names of the inputs, and the states before."""
        return self.step(given["X"], states, given["W"], given["R"], given.get("B"))


class RecurrentSequence(Recurrent):
    """The base of the recurrent operations that walk over the steps of a sequence."""

    each_direction = "num_directions, "
    each_step = "seq_length, "
    direction = Attribute(one_of(*WALKS), default="forward")

    def sizes(self) -> dict[str, Dimension]:
        return {**super().sizes(), "num_directions": Dimension.of(len(WALKS[self.direction]))}

    def infer(self, *specs: TensorSpec | None) -> list[PartialShape]:
        shapes = super().infer(*specs)
        lengths = specs[[port.name for port in self.inputs].index("sequence_lengths")]
        _, _, seq_length, _ = shapes[0]  # of Y
        check_lengths(self, "sequence_lengths", lengths, seq_length, "seq_length")
        return shapes

    def outputs_of(self, given: Mapping[str, Any], states: State) -> Sequence[Array]:
        """Y, then the last states; the work done follows the sum of the lengths."""
        x, w, r, b = (given[name] for name in "XWRB")
        batch, steps, _ = x.shape
        walks = WALKS[self.direction]
        lengths = given["sequence_lengths"].astype(np.int64)
        last = [state.copy() for state in states]
        y = np.zeros((batch, len(walks), steps, self.hidden_size), x.dtype)
        for d, backwards in enumerate(walks):
            for count in range(int(lengths.max(initial=0))):
                live = np.flatnonzero(lengths > count)
                t = lengths[live] - 1 - count if backwards else np.full(len(live), count)
                after = self.step(
                    x[live, t], tuple(state[live, d] for state in last), w[d], r[d], b[d]
                )
                y[live, d, t] = after[0]
                for state, new in zip(last, after, strict=True):
                    state[live, d] = new
        for state in last:
            state[lengths == 0] = 0
        return [y, *last]


def bias_parts(b: Array | None, count: int, like: Array) -> Sequence[Array]:
    """The biases of each gate; zeros where a cell has none."""
    return np.split(np.zeros(count * like.shape[-1], like.dtype) if b is None else b, count)
