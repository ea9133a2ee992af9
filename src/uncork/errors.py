"""Every error that uncork raises on purpose.

An error says where it happened, what was expected, what was got and, where that is known, what to
do. `UncorkError` is the common base; the classes below say whose turn it is: the file's, the
model's, the caller's or ours.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

#: Characters of a problem's place and of its message: both may quote what a file says, of any
#: length.
_LONGEST = 4000


def shortened(text: str, most: int = 200) -> str:
    """A text of a file as a message quotes it: the beginning and the end of a long one."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


class Label(str):
    """How messages name a layer, or an input. It knows the name itself, which a problem at such a
    place takes over.
    """

    layer: str
    input: str

    def __new__(cls, text: str, layer: str = "", input: str = "") -> Label:
        label = super().__new__(cls, text)
        label.layer, label.input = layer, input
        return label

    def __radd__(self, before: str) -> Label:
        """The label with the sub-graph that the layer is in before it."""
        return Label(f"{before}{self}", self.layer, self.input)


class Problem(Struct, frozen=True):
    """One thing that is wrong: the place (a layer, an edge, a file; may be empty) and the message.

    What is known of it is in fields of its own, which no program has to read out of the message.
    """

    where: str
    message: str
    #: The name of the layer that it is of.
    layer: str = ""
    #: The input: of the layer where there is one, else of the model or of the function that was
    #: called.
    input: str = ""
    #: The value that is refused, where it stands in that input, and the least and the greatest that
    #: would not be.
    position: tuple[int, ...] | None = None
    value: Any = None
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.where, Label):
            force_setattr(self, "layer", self.layer or self.where.layer)
            force_setattr(self, "input", self.input or self.where.input)
        for name in ("where", "message"):
            force_setattr(self, name, shortened(getattr(self, name), _LONGEST))

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def known(self) -> dict[str, Any]:
        """The fields beyond place and message that are known, by name."""
        names = ("layer", "input", "position", "value", "low", "high")
        return {name: value for name in names if (value := getattr(self, name)) not in ("", None)}


class UncorkError(Exception):
    """Base of all errors. `message` is the bare text, `where` the place, `problems` everything
    found (at least one).

    `known` are fields of the one problem that this is.
    """

    def __init__(
        self, message: str, where: str = "", problems: Iterable[Problem] = (), **known: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.problems: tuple[Problem, ...] = tuple(problems) or (Problem(where, message, **known),)

    @classmethod
    def when(cls, condition: object, message: str, where: str = "", **known: Any) -> None:
        """Raise such an error where the condition holds. The message is made in any case: this is
        not for what runs in every call.
        """
        if condition:
            raise cls(message, where, **known)

    @classmethod
    def when_any(cls, subject: str, problems: Collection[Problem]) -> None:
        """Raise one error that lists the problems of `subject`, if there are any."""
        if problems:
            raise cls.of_all(subject, problems)

    def at(self, where: str) -> UncorkError:
        """The same error with its place, unless it already knows a more precise one."""
        if not self.where and len(self.problems) == 1:
            self.where = where
            (only,) = self.problems
            self.problems = (Problem(where, self.message, **only.known()),)
        return self

    def during(self, what: str) -> UncorkError:
        """The same error, whose message says what was under way."""
        if len(self.problems) == 1:
            (only,) = self.problems
            self.message = f"{self.message} (in {what})"
            self.problems = (Problem(only.where, f"{only.message} (in {what})", **only.known()),)
        return self

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    @classmethod
    def of_all(cls, subject: str, problems: Iterable[Problem]) -> UncorkError:
        """One error that lists every problem of `subject` (a file, a call)."""
        problems = tuple(problems)
        if len(problems) == 1:
            return cls(str(problems[0]), subject, problems)
        lines = "".join(f"\n  {number}. {problem}" for number, problem in enumerate(problems, 1))
        return cls(f"{len(problems)} problems:{lines}", subject, problems)

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders whole (worker processes send them back by pickle).
        return (type(self), (self.message, self.where, self.problems))


class ReadError(UncorkError, ValueError):
    """The file is not a readable IR model: bad XML, missing parts, contradictory edges, a weights
    file that is too short.
    """


class ValidationError(UncorkError, ValueError):
    """The file reads, but what it describes cannot be: types, shapes or attributes contradict the
    specification.
    """


class UnsupportedError(UncorkError, NotImplementedError):
    """The model is legal but needs something that uncork does not have (an operation, a version, an
    activation).
    """


class CompileError(UncorkError, RuntimeError):
    """The model could not be prepared for running."""


class InputError(UncorkError, ValueError):
    """What the caller gave does not fit: an array's type, shape or value, an unknown name, a bad
    option.
    """


class UncorkWarning(UserWarning):
    """Something costs time that it need not: kernels are missing, or cannot be kept. Answers are
    the same.
    """


_warned: set[str] = set()


def warn_once(what: str, message: str) -> None:
    """Give an UncorkWarning, at the line that called uncork; once in a process for each `what`."""
    if what in _warned:
        return
    _warned.add(what)
    depth, frame = 1, sys._getframe()
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "uncork"
    ):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, UncorkWarning, stacklevel=depth)


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is near: a letter or two differ, or two have changed places."""
    import difflib  # for mistakes only

    near = difflib.get_close_matches(name, known, 1, 0.6 if len(name) <= 4 else 0.7)
    near = (
        near or [other for other in known if len(other) > 2 and sorted(other) == sorted(name)][:1]
    )
    return near[0] if near else None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """`; did you mean 'ids'?` when a known name is near."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean '{near}'?"
