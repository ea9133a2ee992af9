"""Functions that are native from the second call on: what has been called before with arrays of the same types is compiled.

A public function describes its call (`Call`); `one` and `several` make it run. The first call runs the reference, which looks
at everything. When the same call is made again it becomes a model of one layer, and the calls after that are one native entry
that looks at the arrays itself. Whatever it does not know goes back to the reference, which also words all errors.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from uncork.compiler.direct import Direct, Refused
from uncork.compiler.execute import Executor, kernel_target
from uncork.concurrency import renews_locks
from uncork.errors import UncorkError
from uncork.functional._call import Call
from uncork.ir.bodies import configure
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.kernels.runtime.program import OTHERS, Is, Like, Program
from uncork.kernels.select import warn_if_unavailable
from uncork.types import Array, ElementType, TensorSpec, is_masked

Function = TypeVar("Function", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
#: Kinds of calls that are remembered of each function; a program that makes ever new kinds begins again.
_KEPT = 256


def one(describe: Callable[Parameters, Call]) -> Callable[Parameters, Array]:
    """The function that makes the call which `describe` describes, and gives its only result."""
    calls = _Calls(describe)

    @functools.wraps(describe)
    def function(*args: Parameters.args, **options: Parameters.kwargs) -> Array:
        if not options:
            found = calls.last(*args)
            if type(found) is list:
                first: Array = found[0]
                return first
        return calls(args, options)[0]

    return _returning(function, "Array")


def several(describe: Callable[Parameters, Call]) -> Callable[Parameters, tuple[Array, ...]]:
    """The same with all its results."""
    calls = _Calls(describe)

    @functools.wraps(describe)
    def function(*args: Parameters.args, **options: Parameters.kwargs) -> tuple[Array, ...]:
        if not options:
            found = calls.last(*args)
            if type(found) is list:
                return tuple(found)
        return tuple(calls(args, options))

    return _returning(function, "tuple[Array, ...]")


def _returning(function: Function, result: str) -> Function:
    """With the signature that callers see."""
    function.__signature__ = inspect.signature(function).replace(return_annotation=result)  # type: ignore[attr-defined]
    return function


def _nothing(*arguments: Any) -> int:
    """Before anything is compiled."""
    return OTHERS


class _Calls:
    """All calls of one function. A kind of call is its arguments that are no arrays, and which are arrays."""

    def __init__(self, describe: Callable[..., Call]) -> None:
        self._describe = describe
        #: The last call without names as one native entry: a list of results, or a number when this call is another.
        self.last: Callable[..., Any] = _nothing
        self._named: dict[tuple[str, ...], Callable[..., Any]] = {}  # the same with names, by the names
        #: By kind and types; None: references do it. One for each set of attributes: some follow from shapes, such as a hidden size.
        self._executors: dict[tuple[Any, ...], dict[str, Executor] | None] = {}
        self._entries: dict[tuple[Any, ...], tuple[Direct, Program]] = {}  # by kind and specialisation
        self._seen: set[tuple[Any, ...]] = set()  # by kind, types and shapes
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the lock of what is remembered: at the start, and in a child process."""
        self._lock = threading.Lock()

    def __call__(self, args: tuple[Any, ...], options: dict[str, Any]) -> Sequence[Array]:
        args, options = tuple(map(_seen, args)), {name: _seen(value) for name, value in options.items()}
        if options:
            entry: Callable[..., Any] = self._named.get(tuple(options), _nothing)
            found = entry(*args, *options.values())
            if type(found) is list:
                return found
        given = (*args, *options.values())
        arrays = [value for value in given if type(value) is np.ndarray]
        kind = (len(args), *options, *[None if type(value) is np.ndarray else (type(value), value) for value in given])
        types = (kind, *[array.dtype for array in arrays])
        if not all(type(value) is np.ndarray or _stays(value) for value in given):
            return self._describe(*args, **options).run()  # nothing is remembered of what may be another when it comes again
        executors = self._executors.get(types)
        results = None if executors is None else self._compiled(executors, kind, arrays, given, options)
        return self._by_reference(kind, types, arrays, args, options) if results is None else results

    def _compiled(
        self, executors: dict[str, Executor], kind: tuple[Any, ...], arrays: Sequence[Array], given: Sequence[Any], options: dict[str, Any]
    ) -> Sequence[Array] | None:
        """The results where calls of this kind, these types and shapes are compiled; the next one like it is a native entry."""
        known = next((found for executor in tuple(executors.values()) if (found := executor.known(arrays)) is not None), None)
        if known is None or known.direct is None:
            return None
        made = self._entries.get((kind, known))
        if made is None:
            with self._lock:
                if len(self._entries) >= _KEPT:
                    self._entries.clear()
                made = self._entries[kind, known] = known.direct, _among(known.direct, given)
        direct, program = made
        if options:
            self._named[tuple(options)] = program.run
        else:
            self.last = program.run
        try:
            return direct(*arrays)
        except Refused:
            return None

    def _by_reference(
        self, kind: tuple[Any, ...], types: tuple[Any, ...], arrays: Sequence[Array], args: Sequence[Any], options: dict[str, Any]
    ) -> Sequence[Array]:
        """What comes again is compiled for the next time."""
        call = self._describe(*args, **options)
        results = call.run()
        shapes = (types, *[array.shape for array in arrays])
        if len(self._seen) >= 4 * _KEPT:
            self._seen.clear()
        if shapes in self._seen and self._executors.get(types, self) is not None:
            if kernel_target() is not None:
                with self._lock:
                    self._learn(types, call, arrays)
            else:
                warn_if_unavailable()
        self._seen.add(shapes)
        return results

    def _learn(self, types: tuple[Any, ...], call: Call, arrays: Sequence[Array]) -> None:
        if len(self._executors) >= _KEPT:
            self._executors.clear()
        executors = self._executors.setdefault(types, {})
        if executors is None:
            return
        if len(executors) >= _KEPT:
            executors.clear()
        attributes = repr(call.attributes)
        executor = executors.get(attributes) or _executor(call, arrays)
        if executor is None or executor.direct([np.ascontiguousarray(a).reshape(a.shape) for a in arrays]) is None:
            self._executors[types] = None
        else:
            executors[attributes] = executor


def _seen(value: Any) -> Any:
    """An argument as an array, when it is an object that can be seen as one, such as a tensor; else as it is."""
    if type(value) is np.ndarray or isinstance(value, np.generic) or is_masked(value) or not hasattr(value, "__array__"):
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return value  # which the call refuses in its own words


def _stays(value: Any) -> bool:
    """The argument says the same for ever: a number, a text, nothing, or some of these."""
    if isinstance(value, tuple):
        return all(map(_stays, value))
    return value is None or isinstance(value, (bool, int, float, str, np.number, np.bool_))


def _among(direct: Direct, given: Sequence[Any]) -> Program:
    """The program over all that was given: arrays like these, and everything else the same objects."""
    positions = [position for position, value in enumerate(given) if type(value) is np.ndarray]
    likes: list[Like | Is] = [Is(value) for value in given]
    for position, like in zip(positions, direct.inputs):
        likes[position] = like if like.same is None else replace(like, same=positions[like.same])
    return direct.among(likes, positions)


def _executor(call: Call, arrays: Sequence[Array]) -> Executor | None:
    """A model of the call's one layer: arrays are its inputs, everything else is a constant. None where that cannot be."""
    if len(set(map(id, arrays))) < len(arrays):
        return None  # which argument is which cannot be told
    builder = Builder(call.function)
    numbers = {id(array): number for number, array in enumerate(arrays)}
    try:
        parameters = [builder.parameter(str(n), _native(array), [None] * array.ndim) for n, array in enumerate(arrays)]
        inputs: list[Source | None] = []
        for name, spec in call.specs.items():
            if spec is None:
                inputs.append(None)
            elif id(call.given[name]) in numbers:
                inputs.append(parameters[numbers[id(call.given[name])]])
            else:
                inputs.append(builder.constant(_value(spec), spec.element_type))
        while inputs and inputs[-1] is None:
            inputs.pop()
        present = [source for source in inputs if source is not None]
        if len(present) < len(inputs):
            return None  # a layer has no gaps between its inputs
        for output in builder.add(call.type_name, call.opset, *present, **call.attributes):
            builder.result(output)
        model = configure(builder.model(), call.strict, None)
    except UncorkError:
        return None
    results = [model.spec(model.by_id[r].inputs[0]).element_type for r in model.results]
    return Executor(model, kernel_target()) if all(result.is_native for result in results) else None


def _native(array: Array) -> ElementType:
    """The element type that the kernels read in the array as it is."""
    found = ElementType.of_dtype(array.dtype)
    if found is None or not found.is_native or array.dtype != found.dtype:
        raise UncorkError(f"no kernel reads arrays of {array.dtype}")
    return found


def _value(spec: TensorSpec) -> Array:
    assert spec.value is not None, "what was given has a value"
    return spec.value
