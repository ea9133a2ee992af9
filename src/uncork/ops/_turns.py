"""The state of a running loop: what its next turn takes, and its outputs so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.errors import UncorkError
from uncork.memory import available
from uncork.ops._body import Body, BodyOutput, EndlessLoop, JoinedOutput, SlicedInput, Slicing
from uncork.ops._slicing import SlicingOperation
from uncork.types import Array, PartialShape, TensorSpec

#: After so many turns, again and again, somebody looks at the memory that outputs take.
_LOOK = 4096


class Turns:
    """The state of a running loop: what its next turn (iteration) takes, and what its outputs are
    made of so far.

    `iterations` is how many turns it makes at most (None: no limit); it ends when `condition` is
    false. Whoever runs turns may `take` them one by one, or set what several have left here:
    `turn`, `carried`, `pieces`, `results`, `condition`.
    """

    def __init__(
        self,
        operation: SlicingOperation,
        inputs: Sequence[Array],
        iterations: int | None,
        condition: bool,
    ) -> None:
        self.operation, self.inputs = operation, inputs
        self.iterations, self.condition = iterations, condition
        self.map = operation.map
        #: The Parameter that is the number of the turn; the Result that says whether there is
        #: another.
        self.counter, self.decides = self.map.counter, self.map.condition
        self.sliced = [e for e in self.map.sliced if e.parameter != self.counter]
        self.joined = self.map.joined
        self.turn = 0
        #: What goes to Parameters that are not sliced, by their numbers.
        self.carried = {e.parameter: inputs[e.port] for e in self.map.whole}
        #: The parts of outputs that are put together, by their ports.
        self.pieces: dict[int, list[Array]] = {o.port: [] for o in self.joined}
        #: Those of the last turn.
        self.results: list[Array] | None = None

    def go_on(self) -> bool:
        """Whether the loop makes another turn. Raises EndlessLoop when it must not."""
        if not self.condition or (self.iterations is not None and self.turn >= self.iterations):
            return False
        limit = self.operation.loop_limit
        if limit is not None and self.turn >= limit:
            raise EndlessLoop(
                f"still running after {limit} iterations, the limit given by loop_limit"
            )
        if self.turn and self.turn % _LOOK == 0:
            self.look_at_memory(0)
        return True

    def look_at_memory(self, more: int) -> None:
        """Refuse a loop whose outputs so far, with `more` bytes, take more memory than there is."""
        needed = more + sum(piece.nbytes for pieces in self.pieces.values() for piece in pieces)
        limit, what = available()
        if needed > limit:
            raise EndlessLoop(
                f"its outputs need {needed:,} bytes after {self.turn} iterations, more than "
                f"{what} ({limit:,} bytes)"
            )

    def arguments(self) -> list[Array]:
        """The arguments of the body in this turn."""
        found = dict(self.carried)
        if self.counter is not None:
            spec = self.map.body.input_specs[self.counter]
            # Converters declare the counter as a scalar or as one element.
            found[self.counter] = np.full(
                [1] * (spec.rank or 0), self.turn, spec.element_type.dtype
            )
        for entry in self.sliced:
            data = self.inputs[entry.port]
            found[entry.parameter] = self.operation.part(entry.slicing, data, self.turn)
        return [found[i] for i in range(len(found))]

    def make(self, body: Body) -> None:
        """Make a turn by running the body."""
        arguments = self.arguments()
        try:
            results = body.evaluate(arguments)
        except UncorkError as error:
            raise error.during(f"iteration {self.turn}") from None
        self.take(results)

    def take(self, results: list[Array]) -> None:
        """Take what the body gave in this turn."""
        self.results = results
        for output in self.joined:
            part = results[output.result]
            self.require_part(output.port, output.slicing, part.shape, self.turn)
            self.pieces[output.port].append(part)
        self.carried.update(
            {parameter: results[result] for result, parameter in self.map.back_edges}
        )
        if self.decides is not None:
            self.condition = bool(np.asarray(results[self.decides]).reshape(-1)[0])
        self.turn += 1

    def require_part(self, port: int, slicing: Slicing, shape: Sequence[int], turn: int) -> None:
        """Refuse a part that is not as long as the parts that the output is put together of."""
        axis = self.operation.axis(slicing, len(shape))
        if shape[axis] != slicing.part_size:
            self.operation.refuse(
                "output {}: iteration {} of the body gave shape {}, expected {} (part_size) along "
                "axis {}: give the output the part_size that the body makes, the same in each "
                "iteration",
                port,
                turn,
                list(shape),
                slicing.part_size,
                axis,
            )

    def outputs(self) -> list[Array]:
        """The outputs of the layer, when all turns are done."""
        outputs = {o.port: self._output(o) for o in self.map.given}
        return [outputs[port] for port in range(len(outputs))]

    def _output(self, entry: BodyOutput) -> Array:
        """An output, put together from the parts of all turns, or as the last turn gave it."""
        if isinstance(entry, JoinedOutput):
            return self._joined(entry) if self.pieces[entry.port] else self._without_turns(entry)
        if self.results is not None:
            return self.results[entry.result]
        initial = [
            self.carried[p]
            for result, p in self.map.back_edges
            if result == entry.result and p in self.carried
        ]
        if not initial:
            self.operation.refuse(
                "output {} has no value: there was no iteration, and it is not carried from one "
                "to the next",
                entry.port,
            )
        return initial[0]

    def _joined(self, entry: JoinedOutput) -> Array:
        pieces = self.pieces[entry.port]
        first, axis = pieces[0], self.operation.axis(entry.slicing, pieces[0].ndim)
        others = (*first.shape[:axis], *first.shape[axis + 1 :])
        for piece in pieces:
            if (*piece.shape[:axis], *piece.shape[axis + 1 :]) != others:
                self.operation.refuse(
                    "the pieces of output {} cannot be joined: {} and {}",
                    entry.port,
                    first.shape,
                    piece.shape,
                )
        if len(pieces) == 1 and first.base is None:
            return first  # of all turns already
        return np.concatenate(pieces if entry.slicing.stride > 0 else pieces[::-1], axis)

    def _without_turns(self, entry: JoinedOutput) -> Array:
        """The joined output of a loop that made no turns: it is empty along its axis."""
        body = self.map.body
        given = list(body.input_specs)
        for taken in self.map.fed:
            sizes: list[int] = list(self.inputs[taken.port].shape)
            if isinstance(taken, SlicedInput):
                sizes[self.operation.axis(taken.slicing, len(sizes))] = taken.slicing.part_size
            given[taken.parameter] = TensorSpec(
                given[taken.parameter].element_type, PartialShape(sizes)
            )
        result = body.describe(given)[entry.result]
        if result.rank is None:
            self.operation.refuse(
                "output {} has no shape: there was no iteration, and the body's rank is unknown",
                entry.port,
            )
        axis = self.operation.axis(entry.slicing, len(result.shape))
        # A size that no iteration decided can only be 0: no element exists that would contradict
        # it.
        return np.zeros(
            [0 if d == axis else dim.static_size or 0 for d, dim in enumerate(result.shape)],
            result.element_type.dtype,
        )
