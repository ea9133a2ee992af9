"""Calls without anything around them: one native program that looks at its arguments, makes the results and does all the work.

This is what a call costs that is made ever again with arrays of the same types and shapes. Whatever differs from the time before
takes the ordinary way, which finds out why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from uncork.kernels.runtime.program import BUSY, OTHERS, Is, Like, Program
from uncork.types import Array


class Refused(Exception):
    """A kernel met values that it does not compute with; the references tell what is wrong, or how it is done."""


#: Shapes and types of arrays to be made.
Made = Sequence[tuple[tuple[int, ...], "np.dtype[Any]"]]


class MakesPrograms(Protocol):
    """A new program; `positions` are the places of the model's inputs among the arguments, and of the results if they are too."""

    def __call__(self, likes: Sequence[Like | Is], results: Made, positions: Sequence[int]) -> Program: ...


class Direct:
    """A call of a model as one native program. May be used from several threads, each of which enters a program of its own."""

    def __init__(self, make: MakesPrograms, inputs: Sequence[Like], results: Made) -> None:
        self._make = make
        self._inputs = inputs
        self._results = results
        #: Called with the inputs it gives a list of new results, or a number: then ask `again`.
        self.run = self._program().run
        self._spare: list[Program] = []

    def __call__(self, *inputs: Any) -> list[Array] | None:
        """The results; None when something is not as the program was told. Raises Refused for values that kernels do not compute."""
        found = self.run(*inputs)
        return found if type(found) is list else self.again(found, inputs)

    def again(self, found: int, inputs: Sequence[Any]) -> list[Array] | None:
        """What comes of a call for which `run` gave a number: other threads are in the program, or it is not for these inputs."""
        tried = 0
        while found == BUSY:
            if tried == len(self._spare):
                self._spare.append(self._program())
            result = self._spare[tried].run(*inputs)
            if type(result) is list:
                return result
            found, tried = result, tried + 1
        if found == OTHERS:
            return None
        raise Refused

    def _program(self) -> Program:
        return self._make(self._inputs, self._results, range(len(self._inputs)))

    def bound(self) -> Program:
        """A program of the caller's own over inputs and results that are all given."""
        written = [Like(dtype, shape, written=True) for shape, dtype in self._results]
        return self._make((*self._inputs, *written), (), range(len(self._inputs) + len(written)))

    def among(self, arguments: Sequence[Like | Is], positions: Sequence[int]) -> Program:
        """A program of the caller's own that finds the inputs at these positions among other arguments."""
        return self._make(arguments, self._results, positions)

    @property
    def inputs(self) -> Sequence[Like]:
        """What the inputs must be."""
        return self._inputs

    def results(self) -> list[Array]:
        """New arrays for the results."""
        return [np.empty(shape, dtype) for shape, dtype in self._results]
