"""`attribute`: what a method gives, as an attribute; OpenVINO has both of most."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:

    class attribute(Generic[T]):
        """A property, of which type checkers know the type."""

        def __init__(
            self, get: Callable[[Any], T], put: Callable[[Any, Any], None] | None = None
        ) -> None: ...

        def __get__(self, instance: Any, owner: Any = None) -> T: ...

        def __set__(self, instance: Any, value: Any) -> None: ...

else:
    attribute = property
