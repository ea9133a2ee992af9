"""Calls without anything around them: one native program that looks at the arrays itself and does all the work.

This is what a call costs that is made ever again with arrays of the same types and shapes: the results are made and the program
is entered. Whatever differs from the time before takes the ordinary way, which finds out why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uncork.kernels.program import OTHERS, WELL, Program
from uncork.types import Array, TensorSpec


class Refused(Exception):
    """A kernel met values that it does not compute with; the references tell what is wrong, or how it is done."""


class Direct:
    """A call as one program over the inputs and results; may be used from several threads, each of which has a program of its own."""

    def __init__(self, make: Callable[[], Program], outputs: Sequence[TensorSpec]) -> None:
        self._make = make
        #: Programs that no call uses. Taking one from a list and putting it back are single steps for Python's threads.
        self._idle = [make()]
        self._results = [(spec.shape.static, np.dtype(spec.element_type.dtype)) for spec in outputs]

    def __call__(self, inputs: Sequence[Any]) -> list[Array] | None:
        """The results; None when something is not as the program was told. Raises Refused for values that kernels do not compute."""
        try:
            program = self._idle.pop()
        except IndexError:
            program = self._make()
        results = [np.empty(shape, dtype) for shape, dtype in self._results]
        status = program.run(*inputs, *results)
        self._idle.append(program)
        if status == WELL:
            return results
        if status == OTHERS:
            return None
        raise Refused

    def program(self) -> Program:
        """A program of the caller's own."""
        return self._make()

    def results(self) -> list[Array]:
        """New arrays for the results."""
        return [np.empty(shape, dtype) for shape, dtype in self._results]
