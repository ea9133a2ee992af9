"""A call like the one before it: one native entry, and as little around it as Python allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from uncork.compiler.arguments import Results
from uncork.compiler.base_executor import BaseExecutor
from uncork.ir.ports import ModelPort, find_port


class RepeatedCall:
    """The calls of a compiled model that are like an earlier one, by its plan.

    It is an object of its own for speed: on one whose class answers for names that are not there,
    each name that is there takes twice as long to find.
    """

    __slots__ = ("_count", "_executor", "_inputs", "_is_native", "_names", "_outputs")

    def __init__(
        self,
        executor: BaseExecutor,
        inputs: Sequence[ModelPort],
        outputs: Sequence[ModelPort],
        is_native: bool,
    ) -> None:
        """`is_native`: no input and no result is converted."""
        self._executor = executor
        self._inputs = inputs
        self._outputs = outputs
        self._is_native = is_native
        self._names = [port.name for port in inputs]
        self._count = len(inputs)

    def results(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Results | None:
        """The results, if this call is like the one before it."""
        last = self._executor.last
        if last is None or not self._is_native:
            return None
        ordered = self.in_order(inputs, named)
        if ordered is None:
            return None
        found: Any = last.run(*ordered)
        results = found if type(found) is list else last.retry(found, ordered)
        return None if results is None else Results(self._outputs, results)

    def in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | None:
        """The inputs as the model has them; None when it takes `match` to find them, or to say what
        is wrong.
        """
        if len(inputs) == 1 and type(inputs[0]) is dict and not named:
            named = inputs[0]
            inputs = ()
        if not named:
            return inputs if len(inputs) == self._count else self._listed(inputs)
        if inputs or len(named) != self._count:
            return None
        try:
            return [named[name] for name in self._names]
        except KeyError:
            return self._by_key(named)

    def _listed(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The inputs that came as one list."""
        only = inputs[0] if len(inputs) == 1 else None
        return only if isinstance(only, (list, tuple)) and len(only) == self._count else None

    def _by_key(self, named: Mapping[Any, Any]) -> list[Any] | None:
        """The inputs that came by positions, ports or further names; None when some are missing."""
        found = {find_port(self._inputs, key): value for key, value in named.items()}
        return (
            [found[i] for i in range(self._count)]
            if found.keys() == set(range(self._count))
            else None
        )
