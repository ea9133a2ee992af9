"""A call on arrays that stay the same objects: their addresses are settled once, and a call is
hardly more than the work.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler.arguments import ModelPort, Results, did_you_mean
from uncork.errors import InputError, Label
from uncork.kernels.runtime.layout import OK
from uncork.types import Array, describe_array

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.native_call import NativeCall


class BoundCall(functools.partial[Results]):
    """A call of a model on arrays that stay, made by `CompiledModel.bind`.

    Every call reads what the inputs hold then and writes the results into the outputs again: it
    returns these. Without such they are arrays that the next call may overwrite, and their shapes
    may change with the values of the inputs. One call at a time.

    It is a native function and its arguments where that can be: Python does nothing for a call, and
    a program with many of them finds each in few cache lines.
    """

    __slots__ = ()
    __repr__ = object.__repr__


def bound_call(
    compiled: CompiledModel,
    inputs: Sequence[Any],
    outputs: Sequence[Any] | Mapping[str, Any] | None,
) -> BoundCall:
    """The call of `compiled` on `inputs`, into `outputs` where they are given."""
    users = compiled.users
    runs, bound = users.runs, users.bound
    inputs = [_stays(port, value) for port, value in zip(compiled.inputs, inputs, strict=True)]
    given = None if outputs is None else _in_order(compiled.outputs, outputs)
    ordinary = _Ordinary(compiled, inputs, given)
    native = compiled.native_call(inputs)
    made = None if native is None else native.results(inputs)
    call = None if native is None else native.bound(inputs, bound)
    if made is not None and call is not None:
        for port, array, own in zip(compiled.outputs, given or [], made, strict=False):
            _fits(port, array, own)
    _apart(compiled, inputs, given or [])
    if made is None or call is None:
        return BoundCall(ordinary)
    bound.add(call)
    if users.runs is not runs:  # exchanged meanwhile
        call.refuse()
    arrays = (*inputs, *(given or made))
    results = Results(compiled.outputs, given or made)
    ordinary.before = functools.partial(_native, call, arrays, results)
    return BoundCall(call.run, *arrays, results, ordinary)


class _Ordinary:
    """A bound call that the native entry has not made: by another instance of the native call,
    where there is one, else as an ordinary call, which also says what is wrong.
    """

    def __init__(
        self, compiled: CompiledModel, inputs: Sequence[Array], given: Sequence[Any] | None
    ) -> None:
        self._compiled, self._inputs, self._given = compiled, inputs, given
        self.before: Callable[[], Results | None] = _nothing

    def __call__(self) -> Results:
        made = self.before()
        if made is not None:
            return made
        results = self._compiled(*self._inputs)
        given = self._given
        if given is None:
            return results
        for port, array, result in zip(self._compiled.outputs, given, results, strict=True):
            _fits(port, array, result)
        for array, result in zip(given, results, strict=True):
            array[...] = result
        return Results(self._compiled.outputs, given)


def _nothing() -> None:
    """The results of a native call where there is none."""


def _native(call: NativeCall, arrays: Sequence[Array], results: Results) -> Results | None:
    """The results of a call that others may be in the middle of; None where it is not made."""
    return results if call.finish(call.run(*arrays), arrays) == OK else None


def _stays(port: ModelPort, value: Any) -> Array:
    """Whether an input needs no conversion: a copy would not see what the caller writes later."""
    where = Label(f"input '{port.name}'", input=port.name)
    if not isinstance(value, np.ndarray):
        raise InputError(f"expected an array to bind, got {type(value).__name__}", where)
    if (
        not port.element_type.is_native
        or value.dtype != port.element_type.dtype
        or not value.flags.c_contiguous
    ):
        order = "" if value.flags.c_contiguous else " that is not contiguous"
        hint = (
            ""
            if port.element_type.is_native
            else "; NumPy has no such type, so call the model instead"
        )
        raise InputError(
            f"expected a contiguous array of {port.element_type} to bind, got "
            f"{describe_array(value)}{order}{hint}",
            where,
        )
    InputError.when(
        not port.shape.contains(value.shape),
        f"expected shape {port.shape}, got {list(value.shape)}",
        where,
    )
    return value


def _in_order(ports: Sequence[ModelPort], outputs: Sequence[Any] | Mapping[str, Any]) -> list[Any]:
    """The given outputs as a list of one array per output, in the model's order."""
    if isinstance(outputs, Mapping) and not isinstance(outputs, Results):
        known = [name for port in ports for name in port.names]
        for name in outputs:
            if name not in known:
                raise InputError(
                    f"no output is called '{name}'{did_you_mean(str(name), known)}; outputs: "
                    f"{', '.join(known)}"
                )
        outputs = [value for port in ports for name, value in outputs.items() if name in port.names]
    InputError.when(
        len(outputs) != len(ports), f"expected arrays for {len(ports)} outputs, got {len(outputs)}"
    )
    return list(outputs)


def _fits(port: ModelPort, array: Any, result: Array) -> None:
    """Whether the caller's array for a result can take it as it is."""
    where = f"output '{port.name}'"
    if (
        not isinstance(array, np.ndarray)
        or array.dtype != result.dtype
        or array.shape != result.shape
    ):
        got = describe_array(array) if isinstance(array, np.ndarray) else type(array).__name__
        raise InputError(f"expected {describe_array(result)}, got {got}", where)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise InputError("expected a contiguous array that may be written", where)


def _apart(compiled: CompiledModel, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Refuse outputs whose memory overlaps that of an input or of another output."""
    for index, array in enumerate(outputs):
        for other in (*inputs, *outputs[:index]):
            if isinstance(array, np.ndarray) and np.may_share_memory(array, other):
                raise InputError(
                    "expected memory of its own, got some that another bound array has",
                    f"output '{compiled.outputs[index].name}'",
                )
