"""Instances of a native call: memory of its own for each of several calls at a time, which grows as
sizes need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from uncork.concurrency import WorkLock
from uncork.kernels.runtime.layout import BUSY, GUARD_FAILED, NO_MEMORY
from uncork.types import Array


class Instance(Protocol):
    """The memory of one call at a time, and the native function that makes it there."""

    run: Callable[..., Any]

    @property
    def lacks_memory(self) -> bool:
        """Whether the sizes that were bound last need more working memory than there is."""
        ...

    def bodies_lack_memory(self) -> bool:
        """Whether a body that a step runs has asked for memory in vain."""
        ...

    def misfits(self) -> bool:
        """Whether the last call was not for the plan of a body that a step runs."""
        ...

    def shut_out(self) -> bool:
        """Have calls to come ask for working memory. Whether no call is under way, so that nobody
        uses the memory there is.
        """
        ...

    def grow(self) -> None:
        """Take the working memory that the sizes need. Raises MemoryError."""
        ...

    @property
    def working_bytes(self) -> int: ...


Made = TypeVar("Made", bound=Instance)


class Instances(Generic[Made]):
    """A native call that several threads may make, each in an instance."""

    #: Safe to call with anything: it gives a list of new results, or a number, with which `retry`
    #: is asked.
    run: Callable[..., Any]
    _instances: list[Made]

    def __init__(self) -> None:
        self._growth = WorkLock()

    def _made(self, like: Made | None = None) -> Made:
        """A new instance: with as much memory as the sizes need that `like` is bound to."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Have one instance; calls that run keep theirs until they end."""
        #: One for each call at a time that there has been.
        self._instances = [self._made()]
        self.run = self._instances[0].run

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        return sum(instance.working_bytes for instance in self._instances)

    def retry(self, found: Any, inputs: Sequence[Any]) -> list[Array] | None:
        """The outcome of a call for which `run` gave a number; None when this plan does not make
        it.
        """
        result = self.finish(found, inputs)
        return None if isinstance(result, int) else result

    def finish(self, found: list[Array] | int, inputs: Sequence[Any]) -> list[Array] | int:
        """The results of a call that met an instance at work, or too little memory: it is made
        again. A number where this plan does not make it, or all results were given: OK then.
        """
        instances, at = self._instances, 0
        while isinstance(found, int):
            if found == NO_MEMORY:
                self._grow(instances, at)
            elif found >= 0 and instances[at].bodies_lack_memory():
                self._replace(instances, at)
            elif found >= 0 and instances[at].misfits():
                return GUARD_FAILED
            elif found == BUSY:
                at += 1
                if at == len(instances):
                    instances.append(self._made())
            else:
                break
            found = instances[at].run(*inputs)
        return found

    def _grow(self, instances: list[Made], at: int) -> None:
        """Give an instance the working memory for the sizes that it is bound to."""
        with self._growth.held() as alone:
            instance = instances[at]
            if not instance.lacks_memory:
                return  # another thread has had it grow meanwhile
            if alone and instance.shut_out():
                instance.grow()
            else:
                # Another call is at work in it, and goes on with the memory there is.
                self._replace(instances, at)

    def _replace(self, instances: list[Made], at: int) -> None:
        """Put a new instance with more memory in the place of one."""
        instances[at] = self._made(instances[at])
        if at == 0 and instances is self._instances:
            self.run = instances[0].run
