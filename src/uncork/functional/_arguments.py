"""The arguments of a call of a function on arrays: which of them are arrays, and which numbers and
lists may come as arrays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from uncork.types import is_masked

Record = TypeVar("Record", bound=Struct)
Result = TypeVar("Result")


class Unsaid:
    """The default of an attribute whose value follows from elsewhere."""

    def __repr__(self) -> str:
        return "..."


class Arguments:
    """The arguments of a call, with the arrays among them and the call's kind."""

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.args, self.options = args, options
        self.all = (*args, *options.values())
        self.arrays = [value for value in self.all if type(value) is np.ndarray]
        plain = [None if type(value) is np.ndarray else (type(value), value) for value in self.all]
        dtypes = [array.dtype for array in self.arrays]
        #: Positions of arrays that were given as integers.
        self.numbers: tuple[int, ...] = ()
        #: What calls have alike that one plan may make: everything but sizes and contents.
        self.kind = (len(args), *options, *plain, *dtypes)

    def _each(self, names: Sequence[str], changed: Callable[[str, Any], Any]) -> Arguments:
        """The call with each argument `changed`, by its name."""
        options = {name: changed(name, value) for name, value in self.options.items()}
        return Arguments(tuple(map(changed, names, self.args)), options)

    def with_open_numbers(self, names: Sequence[str], inputs: Collection[str]) -> Arguments | None:
        """The call with the integers among its `inputs` as arrays, whose values one plan takes as
        they come; None where there are none. `names` are the names of its arguments.
        """

        def opened(name: str, value: Any) -> Any:
            is_open = type(value) is int and name in inputs and -(1 << 63) <= value < 1 << 63
            return np.array(value) if is_open else value

        found = self._each(names, opened)
        found.numbers = tuple(
            position
            for position, (own, other) in enumerate(zip(self.all, found.all, strict=True))
            if own is not other
        )
        return found if found.numbers else None

    def with_listed_integers(
        self, names: Sequence[str], integers: Collection[str], attributes: Collection[str]
    ) -> Arguments:
        """The call with lists and tuples among its arguments that are `integers` as arrays: one
        plan takes whatever is in them. Those that are `attributes` are tuples, which stay.
        """

        def listed(name: str, value: Any) -> Any:
            if name in attributes:
                return _tuple(value)
            return _listed(value) if name in integers else value

        return self._each(names, listed)

    def with_closed_numbers(
        self, names: Sequence[str], integers: Collection[str], shaping: Collection[str]
    ) -> Arguments | None:
        """The same call with arrays that are one integer as integers, for an input that a kernel
        needs as a number, such as an axis; those among its `integers`, whose type does not matter.
        Those that are `shaping` are tuples of integers. None where there are none.
        """

        def closed(name: str, value: Any) -> Any:
            if name in shaping and _is_vector(value):
                return tuple(value.tolist())
            return _closed(value) if name in integers else value

        found = self._each(names, closed)
        return found if len(found.arrays) < len(self.arrays) else None


def bound(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by their names, defaults among them."""
    try:
        made = signature.bind(*args, **options)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    made.apply_defaults()
    return made.arguments


def taking_record(
    record: type[Record],
) -> Callable[[Callable[[Record], Result]], Callable[..., Result]]:
    """A decorator for a function of a record: its callers give the fields as arguments."""

    def take(function: Callable[[Record], Result]) -> Callable[..., Result]:
        @functools.wraps(function)
        def whole(*args: Any, **options: Any) -> Result:
            try:
                call = record(*args, **options)
            except TypeError:
                call = record(**bound(function.__name__, signature, args, options))
            return function(call)

        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(record).replace(return_annotation=returned)
        whole.__signature__ = signature  # type: ignore[attr-defined]
        return whole

    return take


def inserted(
    function: Callable[..., Any], added: inspect.Parameter, before: str | None
) -> inspect.Signature:
    """The signature of a function with another parameter, before one of its own or at the end."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    names = [parameter.name for parameter in parameters]
    parameters.insert(len(names) if before is None else names.index(before), added)
    return signature.replace(parameters=parameters)


def seen(value: Any) -> Any:
    """The argument as an array, when it is an object that can be seen as one, such as a tensor.

    Anything else stays as it is.
    """
    if (
        type(value) is np.ndarray
        or isinstance(value, np.generic)
        or is_masked(value)
        or not hasattr(value, "__array__")
    ):
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return value  # which the call refuses in its own words


def _closed(value: Any) -> Any:
    """An array that is one integer as an integer; anything else as it is."""
    is_number = type(value) is np.ndarray and value.ndim == 0 and value.dtype.kind in "iu"
    return int(value) if is_number else value


def _is_vector(value: Any) -> bool:
    """Whether it is a vector of integers that i64 holds whatever they are."""
    return (
        type(value) is np.ndarray
        and value.ndim == 1
        and value.dtype.kind in "iu"
        and np.can_cast(value.dtype, np.int64)
    )


def _listed(value: Any) -> Any:
    """A list or a tuple of integers as an array; anything else as it is."""
    if not isinstance(value, (list, tuple)) or not value:
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError, OverflowError):
        return value  # which the call refuses in its own words
    return array if array.dtype.kind in "iu" else value


def _tuple(value: Any) -> Any:
    """A list as a tuple, and so for lists in it; anything else as it is."""
    return tuple(map(_tuple, value)) if isinstance(value, (list, tuple)) else value


def stays(value: Any) -> bool:
    """Whether the argument cannot change: a number, a text, None, or a tuple of these."""
    if isinstance(value, tuple):
        return all(map(stays, value))
    never_change = (bool, int, float, str, np.number, np.bool_, Unsaid)
    return value is None or isinstance(value, never_change)
