"""The native functions of the thread pool: what a caller does, and what a thread does. See
`thread_pool`.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I64, Kernel, Value, Variable, emitter
from uncork.kernels.runtime.dispatch import Dispatch, Serve
from uncork.kernels.runtime.emit_words import Words
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.thread_pool import (
    BEGUN,
    ENDED,
    LOCK,
    OLD_SIGNALS,
    POOL,
    SIGNALS,
    THREAD,
)

#: Looks at what others do before a thread sleeps: some 300 us, longer than most steps that are not
#: shared, as it takes up to 100 us to wake a thread. After every so many the thread gives way: whom
#: it waits for may want the very processor.
_SPINS, _LOOKS = 20_000, 64


class _Pool(Words):
    """The pool, inside a kernel."""

    def __init__(self, k: Kernel, pool: Value) -> None:
        super().__init__(k, pool, POOL)

    def put(self, name: str, number: int) -> None:
        self.set(name, self.k.integer(number))

    def add(self, name: str, number: int) -> None:
        self.set(name, self.head(name) + number)

    def ask(self, function: str, *arguments: Value) -> Value:
        """Call a function of the system, whose answer is an `int`."""
        return self.k.call_address(self.head(function), arguments) & 0xFFFFFFFF

    def lock(self) -> None:
        self.ask("lock", self.at + LOCK)

    def unlock(self) -> None:
        self.ask("unlock", self.at + LOCK)

    def sleep(self, condition: int) -> None:
        """Wait until another thread wakes this one, or for no reason. The lock is open
        meanwhile.
        """
        self.ask("wait", self.at + condition, self.at + LOCK)

    def spin_while(self, waits: Callable[[], Value]) -> None:
        """Wait without the lock while a condition holds: what is seen may have changed."""
        k = self.k
        looks = k.variable(k.integer(0))
        with k.while_(lambda: waits() & (looks.get() < _SPINS)):
            looks.set(looks.get() + 1)
            with k.if_((looks.get() & (_LOOKS - 1)).equals(0), likely=False):
                self.ask("give_way")
            if k.target is not None and k.target.has("sse2"):
                k.call_intrinsic("llvm.x86.sse2.pause")

    def seen(self, name: str) -> Value:
        """A word as it is at the moment, read without the lock."""
        k = self.k
        return Value(
            k, k.builder.load_atomic(k.pointer(self.address(name), I64), "acquire", 8), I64
        )


def _made_call(k: Kernel, table: Value, number: Value) -> Value:
    """Make a call of the table; the result is its status."""
    entry = table + number * 16
    return k.call_address(k.load(entry, I64), [k.load(entry + 8, I64)])


@emitter
def emit_dispatch(k: Kernel, spec: Dispatch) -> Value:
    """The LLVM text of the kernel that makes calls together."""
    pool, calls, table = k.arguments
    threads = _Pool(k, pool)
    shared, status = k.variable(k.integer(0)), k.variable(k.integer(0))
    with k.if_(pool.equals(0).equals(0) & (calls > 1)):
        threads.lock()
        with k.if_(threads.head("table").equals(0)):
            shared.set(k.integer(1))
            threads.set("table", table)
            threads.set("calls", calls)
            threads.put("next", 1)
            threads.put("running", 0)
            threads.put("status", 0)
            _start_threads(k, threads, calls - 1)
            threads.ask("wake_all", pool + BEGUN)
        threads.unlock()
    number = k.variable(k.integer(0))
    with k.while_(lambda: number.get() < calls):
        _note(k, status, _made_call(k, table, number.get()))
        with k.if_else(shared.get().equals(0)) as (alone, together):
            with alone:
                number.set(number.get() + 1)
            with together:
                threads.lock()
                number.set(threads.head("next"))
                threads.add("next", 1)
                threads.unlock()
    with k.if_(shared.get().equals(1)):
        threads.spin_while(lambda: threads.seen("running") > 0)
        threads.lock()
        with k.while_(lambda: threads.head("running") > 0):
            threads.sleep(ENDED)
        _note(k, status, threads.head("status"))
        for word in ("table", "calls", "next"):
            threads.put(word, 0)
        threads.unlock()
    return status.get()


def _note(k: Kernel, status: Variable, found: Value) -> None:
    """Keep the first status that says that a call declined."""
    status.set(k.select(status.get().equals(0), found, status.get()))


def _start_threads(k: Kernel, pool: _Pool, wanted: Value) -> None:
    """Start threads for so many calls; when the system gives no more, those that there are must do.
    They block signals as they begin.
    """
    nothing = k.integer(0)
    with k.if_(pool.head("threads") < wanted, likely=False):
        pool.ask("mask", pool.head("set_mask"), pool.at + SIGNALS, pool.at + OLD_SIGNALS)
        failed = k.variable(nothing)
        with k.while_(lambda: failed.get().equals(0) & (pool.head("threads") < wanted)):
            failed.set(pool.ask("start", pool.at + THREAD, nothing, pool.head("serve"), pool.at))
            pool.set(
                "threads",
                pool.head("threads") + k.select(failed.get().equals(0), k.integer(1), nothing),
            )
        pool.ask("mask", pool.head("set_mask"), pool.at + OLD_SIGNALS, nothing)


def emit_serve(spec: Serve, target: Target) -> str:
    """The LLVM text of `i64 serve(i64 pool)`: make calls that nobody has begun, for ever."""
    k = Kernel(spec.name, ("pool",), target, direct=True)
    pool = _Pool(k, k.arguments[0])
    pool.lock()
    with k.while_(lambda: k.integer(1).equals(1)):
        with k.while_(lambda: pool.head("next") >= pool.head("calls")):
            pool.unlock()
            pool.spin_while(lambda: pool.seen("next") >= pool.seen("calls"))
            pool.lock()
            with k.if_(pool.head("next") >= pool.head("calls")):
                pool.sleep(BEGUN)
        number, table = pool.head("next"), pool.head("table")
        pool.add("next", 1)
        pool.add("running", 1)
        pool.unlock()
        found = _made_call(k, table, number)
        pool.lock()
        with k.if_(found.equals(0).equals(0), likely=False):
            pool.set("status", found)
        pool.add("running", -1)
        with k.if_(pool.head("running").equals(0)):
            pool.ask("wake_one", pool.at + ENDED)
    k.finish()
    return k.text()
