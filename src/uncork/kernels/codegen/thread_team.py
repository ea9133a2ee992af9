"""Threads that do one piece of work together, phase by phase: members of a team claim items, and
wait for each other at the end of a phase.

Every member has its own share of the items of a phase and takes those first, so that what they read
stays in its processor's cache; then it helps the others. A member that comes late, or not at all,
delays nobody: the others have done its share. Who waits for an item that another member is at spins
for about as long as an item takes and then lets other threads run.

In memory a team has two cache lines for each member: how many items of its share were claimed, and
how many items it has done, both since the beginning.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import BOOL, I64, Kernel, Value
from uncork.kernels.runtime.target import LINE

#: Looks at the others before the processor is given to other threads.
_SPINS = 1000


class ThreadTeam:
    """A team of threads as one member sees it, inside a kernel. All members call the same phases in
    the same order.
    """

    def __init__(
        self, k: Kernel, member: Value, members: Value, lines: Value, release_gil: Value
    ) -> None:
        """`lines`: the team's memory, two cache lines for each member, all zeros at the beginning;
        `release_gil`: the address of a function without arguments.
        """
        self._k, self._member, self._members, self._lines, self._let_run = (
            k,
            member,
            members,
            lines,
            release_gil,
        )
        self._before = k.variable(k.integer(0))  # items of each share in the phases before
        self._done = k.variable(k.integer(0))  # items that this member has done

    @staticmethod
    def clear(k: Kernel, members: Value, lines: Value) -> None:
        """Set the team's memory to zeros, before any member begins."""
        with k.loop(0, members * 2) as line:
            k.store(k.integer(0), lines + line * LINE)

    def phase(
        self, count: Value, run: Callable[[Value], None], backwards: Value | None = None
    ) -> None:
        """Run items 0 to `count`, each by one member; all are done when it ends. `backwards`: every
        share begins at its end.
        """
        k, members = self._k, self._members
        share = (count + members - 1) // members
        end = self._before.get() + share
        with k.loop(0, members) as distance:
            whose = k.variable(self._member + distance)
            with k.if_(whose.get() >= members):
                whose.set(whose.get() - members)
            line = self._lines + whose.get() * (2 * LINE)
            claimed = k.variable(self._load(line))
            with k.while_(lambda: claimed.get() < end):
                item = claimed.get()
                with k.if_(self._claims(line, item)):
                    place = item - self._before.get()
                    if backwards is not None:
                        place = k.select(backwards, share - 1 - place, place)
                    number = whose.get() * share + place
                    with k.if_(number < count):  # shares are of equal size, the last ones not full
                        run(number)
                    self._done.set(self._done.get() + 1)
                claimed.set(self._load(line))
        self._store(self._done.get(), self._lines + self._member * (2 * LINE) + LINE)
        self._before.set(end)
        self._wait(end * members)

    def _wait(self, items: Value) -> None:
        """Wait until all members together have done so many items."""
        k = self._k
        looks = k.variable(k.integer(0))
        with k.while_(lambda: self._all_done() < items):
            looks.set(looks.get() + 1)
            if k.target is not None and k.target.has("sse2"):
                k.call_intrinsic("llvm.x86.sse2.pause")
            with k.if_(looks.get() > _SPINS):
                k.call_address(self._let_run, [])

    def _all_done(self) -> Value:
        k = self._k
        total = k.variable(k.integer(0))
        with k.loop(0, self._members) as member:
            total.set(total.get() + self._load(self._lines + member * (2 * LINE) + LINE))
        return total.get()

    # ---- numbers that several threads read and write

    def _load(self, address: Value) -> Value:
        k = self._k
        return Value(k, k.builder.load_atomic(k.pointer(address, I64), "acquire", 8), I64)

    def _store(self, value: Value, address: Value) -> None:
        k = self._k
        k.builder.store_atomic(value.llvm, k.pointer(address, I64), "release", 8)

    def _claims(self, line: Value, item: Value) -> Value:
        """Whether this member of the team goes on from `item` to the next."""
        k = self._k
        answer = k.builder.cmpxchg(
            k.pointer(line, I64), item.llvm, (item + 1).llvm, "acq_rel", "acquire"
        )
        return Value(k, k.builder.extract_value(answer, 1), BOOL)
