"""`Layout`: what the axes of a tensor are, "NHWC"."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from uncork.errors import ValidationError

if TYPE_CHECKING:
    from typing_extensions import Self


class Layout:
    """Names of axes: "NCHW", "N...C", "[n,h,w,c]"; `?` is one without a name."""

    __slots__ = ("_names", "_scalar")

    def __init__(self, text: str = "") -> None:
        self._scalar = text == "**SCALAR**"
        self._names = () if self._scalar else _names(text)
        named = [n for n in self._names if n not in ("?", "...")]
        twice = sorted({n for n in named if named.count(n) > 1})
        if twice:
            raise ValidationError(f"layout {text!r}: '{twice[0]}' names two axes")

    @classmethod
    def scalar(cls) -> Self:
        """The layout of a tensor without axes."""
        return cls("**SCALAR**")

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not self._names and not self._scalar

    def has_name(self, name: str) -> bool:
        """Whether an axis has this name."""
        return name.upper() in self._names

    def get_index_by_name(self, name: str) -> int:
        """The axis of a name; negative behind `...`. Raises ValidationError where there is none."""
        ValidationError.when(not self.has_name(name), f"layout {self}: there is no axis '{name}'")
        at = self._names.index(name.upper())
        open_at = self._names.index("...") if "..." in self._names else len(self._names)
        return at if at < open_at else at - len(self._names)

    def to_string(self) -> str:
        """As in "[N,C,H,W]"."""
        return "**SCALAR**" if self._scalar else "[" + ",".join(self._names) + "]"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            other = Layout(other)
        return isinstance(other, Layout) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        return hash(self.to_string())

    def __str__(self) -> str:
        return self.to_string()

    def __repr__(self) -> str:
        return f"<Layout: {self}>"


def _names(text: str) -> tuple[str, ...]:
    text = text.strip()
    if text.startswith("["):
        ValidationError.when(
            not text.endswith("]"), f"layout {text!r}: expected a bracket at the end"
        )
        parts = [part.strip().upper() for part in text[1:-1].split(",")] if text[1:-1] else []
    else:
        parts = [part.upper() for part in re.findall(r"\.\.\.|.", text)]
    for part in parts:
        ValidationError.when(
            part not in ("?", "...") and not re.fullmatch(r"[A-Z0-9_]+", part),
            f"layout {text!r}: expected names such as NCHW, got '{part}'",
        )
    ValidationError.when(parts.count("...") > 1, f"layout {text!r}: '...' may stand once")
    return tuple(parts)
