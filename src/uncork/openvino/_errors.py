"""Errors as programs for OpenVINO catch them: every one of uncork's is a RuntimeError here, too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from uncork.errors import InputError, UncorkError, UnsupportedError, ValidationError

_kinds: dict[type[UncorkError], type[UncorkError]] = {}


def _both(kind: type[UncorkError]) -> type[UncorkError]:
    """The kind of errors that is this one and a RuntimeError."""
    if issubclass(kind, RuntimeError):
        return kind
    if kind not in _kinds:
        _kinds[kind] = type(kind.__name__, (kind, RuntimeError), {"__module__": __name__})
    return _kinds[kind]


@contextlib.contextmanager
def as_runtime_errors() -> Iterator[None]:
    """A context in which uncork's errors are RuntimeErrors, too."""
    try:
        yield
    except UncorkError as error:
        kind = _both(type(error))
        if kind is type(error):
            raise
        raise kind(error.message, error.where, error.problems) from None


def unsupported(message: str) -> UncorkError:
    """The error for what uncork does not have."""
    return _both(UnsupportedError)(message)


def not_offered(message: str) -> Callable[..., NoReturn]:
    """A method that OpenVINO has and uncork does not: it raises this error."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        """Not offered: the error says why."""
        raise unsupported(message)

    return refuse


def invalid(message: str) -> UncorkError:
    """The error for a model or an argument that cannot be."""
    return _both(ValidationError)(message)


def invalid_if(condition: object, message: str) -> None:
    """Raise that error where the condition holds."""
    if condition:
        raise invalid(message)


def wrong_input(message: str, where: str = "") -> UncorkError:
    """The error for what a call was given."""
    return _both(InputError)(message, where)


class NoSuchPosition(InputError, RuntimeError, IndexError):
    """A position that a model, a node or a shape does not have."""


def __getattr__(name: str) -> Any:
    """Kinds by name, which pickle asks for."""
    from uncork import errors

    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, UncorkError):
        return _both(kind)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
