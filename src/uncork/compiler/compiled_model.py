"""`CompiledModel`: a checked model that is ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from uncork._html import html_table
from uncork.blas import at_most
from uncork.compiler.arguments import Results, carriers, match, owned, shown
from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.plan import Plan
from uncork.compiler.repeated_call import RepeatedCall
from uncork.compiler.shapes import shapes_of
from uncork.compiler.sharing import Runs, Turn, Users
from uncork.compiler.variable_values import Values
from uncork.concurrency import renews_locks
from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.ir.ports import PORT_HEADING, ModelPort, port_of, port_rows
from uncork.progress import progress_line
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.compiler.bind import BoundCall
    from uncork.compiler.native_call import NativeCall
    from uncork.compiler.options import Ids, Precision
    from uncork.compiler.profile import Profile
    from uncork.compiler.requests import InferRequest
    from uncork.compiler.sessions import Sessions
    from uncork.compiler.tables import GivenTable
    from uncork.compiler.variables import VariableState
    from uncork.kernels.runtime.target import Target


class CompiledModel:
    """A model that can be called. It may be called from several threads at once; calls of a model
    with state take turns.
    """

    def __init__(self, runs: Runs, users: Users | None = None) -> None:
        """`users` are those that share what runs the calls."""
        model = runs.model
        self.users = Users(runs) if users is None else users
        self._state = Values()
        self.inputs = model.inputs
        self.outputs = model.outputs

        #: Whether no input and no result is converted.
        self._all_native = all(
            port.element_type.is_native for port in (*self.inputs, *self.outputs)
        )
        self._run_by(runs)
        self.renew_locks()
        renews_locks(self)
        self.users.requests.add(self)
        while self.users.runs.executor is not self._executor:  # exchanged meanwhile
            self._run_by(self.users.runs)

    def _run_by(self, runs: Runs) -> None:
        """Have calls made so from now on."""
        self.model, self._executor = runs.model, runs.executor
        self._repeated = RepeatedCall(runs.executor, self.inputs, self.outputs, self._all_native)

    @property
    def executor(self) -> BaseExecutor:
        """The executor of the calls, for inspection; it may change with any version."""
        return self._executor

    @property
    def values(self) -> Values:
        """The values of the variables, for inspection; they may change with any version."""
        return self._state

    def renew_locks(self) -> None:
        """Make the lock of the variables: at the start, and in a child process."""
        self._turn = Turn(
            f"model '{self.model.name}'",
            "its variables are in use by a call of this very thread, which a destructor or a "
            "signal handler has interrupted: give that one a request of its own, made before "
            "(create_infer_request)",
        )

    def __call__(self, *inputs: Any, **named: Any) -> Results:
        """Run the model on arrays: by position, as one list of all, by keyword, or as one mapping
        from names, positions or ports.

        Raises InputError when a name, a type, a shape or a value does not fit; nothing is converted
        with loss.
        """
        try:
            results = self._repeated.results(inputs, named)
            if results is None and self.model.sinks:
                results = self._repeated_with_state(inputs, named)
            if results is not None:
                return results
            executor = self._executor  # once: another thread may exchange it
            for file in executor.files:  # the fast call looked itself
                file.check()
            with at_most(executor.threads):
                return self._run(executor, inputs, named)
        except MemoryError as error:
            raise self._too_large(error) from None

    def _too_large(self, error: MemoryError) -> InputError:
        return InputError(f"not enough memory for this call: {error}", f"model '{self.model.name}'")

    def _run(
        self, executor: BaseExecutor, inputs: Sequence[Any], named: Mapping[str, Any]
    ) -> Results:
        """The results of a call that is not like the one before it."""
        arrays = carriers(self.inputs, match(self.inputs, inputs, named))
        if self.model.sinks:
            with self._turn.held():
                results = self._executor.run_with_state(arrays, self._state)
        else:
            results = executor.run(arrays)
        return Results(self.outputs, owned(shown(self.outputs, results), arrays))

    def _repeated_with_state(
        self, inputs: Sequence[Any], named: Mapping[str, Any]
    ) -> Results | None:
        """The results of a model with variables, if this call is like the one before it."""
        ordered = self._repeated.in_order(inputs, named)
        if ordered is None or not self._all_native:
            return None
        turn = self._turn
        with turn.lock:  # as `held` does, in a third of its time
            if turn.taken:
                raise turn.refusal()
            turn.taken = True
            try:
                results = self._executor.run_with_state_as_before(ordered, self._state)
            finally:
                turn.taken = False
        return None if results is None else Results(self.outputs, results)

    def bind(
        self,
        *inputs: Array,
        outputs: Sequence[Array] | Mapping[str, Array] | None = None,
        **named: Array,
    ) -> BoundCall:
        """A call on arrays that stay, for whoever makes it again and again with other contents.

        >>> call = compiled.bind(ids, offsets)  # doctest: +SKIP
        >>> ids[:] = 7, 8, 9                    # doctest: +SKIP
        >>> scores = call()[0]                  # doctest: +SKIP

        Inputs are given as to a call, but exactly as the model has them: nothing is converted. The
        results are written into `outputs`; without them a call may overwrite the results of the one
        before, and their shapes may change with the values of the inputs. Raises InputError when a
        name, a type or a shape does not fit, or arrays overlap.
        """
        from uncork.compiler.bind import bound_call

        try:
            return bound_call(self, match(self.inputs, inputs, named), outputs)
        except MemoryError as error:
            raise self._too_large(error) from None

    def native_call(self, inputs: Sequence[Array]) -> NativeCall | None:
        """One native call for arrays like these, which need no conversion; None where there is
        none.
        """
        if not self._all_native or self.model.sinks:
            return None
        with at_most(self._executor.threads):
            return self._executor.native_call(inputs)

    def input(self, key: Any = None) -> ModelPort:
        """An input by its position, a name or a port; the only one without a key. Raises
        InputError.
        """
        return port_of(self.inputs, key, "input")

    def output(self, key: Any = None) -> ModelPort:
        """An output by its position, a name or a port; the only one without a key. Raises
        InputError.
        """
        return port_of(self.outputs, key, "output")

    def profile(self, *inputs: Any, progress: Callable[[int, int], None] | None = None) -> Profile:
        """The profile of a call on these inputs: every step with its kernel, time, bytes and
        operations. Print it.

        Inputs are given as to a call, but for keywords. Every step runs by itself, some 20 ms long;
        variables stay as they are.
        """
        from uncork.compiler.measured_steps import profile  # for whoever asks

        return profile(self, self._executor, inputs, progress, compile_layer)

    @property
    def plan(self) -> Plan:
        """The plan of the last call, or before any call, what can be said of one: see `Plan`. Print
        it. Nothing is compiled for it.

        Every step, the kernel chosen for it or the reason why there is none, what a pass says of
        it, and where its result lies.
        """
        return self._executor.plan()

    def plan_for(self, *shapes: Any, **named: Any) -> Plan:
        """The plan of a call with inputs of these shapes: `compiled.plan_for(x=[1, 3, 224, 224])`.
        Nothing is compiled for it.

        Shapes are given like the inputs of a call: by position, as one list of all, by keyword, or
        as one mapping from names, positions or ports. A size that is None, or that is not given,
        stays open. Raises InputError for what the model does not have.
        """
        return self._executor.plan_for(shapes_of(self.inputs, shapes, named))

    def exchange(
        self,
        other: CompiledModel | None = None,
        *,
        tables: Mapping[str, GivenTable] | None = None,
        mmap: bool = True,
    ) -> None:
        """Exchange tables, rows of them, or the whole model, while other threads call it.

        >>> compiled.exchange(tables={"users": array})                          # doctest: +SKIP
        >>> compiled.exchange(tables={"users": {"rows": ids, "values": rows}})  # doctest: +SKIP
        >>> compiled.exchange(uncork.load("new.xml"))                           # doctest: +SKIP

        A call is made by the old constants or by the new ones, never by both; it is by the new ones
        when it begins after `exchange` has returned. Requests of this model change with it, and
        their variables keep their values. Tables are given as to `load`; arrays are copied, and
        so is a table of which rows are given. Bound calls go on as ordinary ones: bind again.

        Raises InputError for names, types, shapes and rows that do not fit, and for a model with
        other inputs, outputs or variables: nothing is changed then.
        """
        from uncork.compiler.exchange import exchange  # for whoever asks

        with self.users.exchanging.held(), at_most(self._executor.threads):
            exchange(self.users, other, tables, mmap)

    def adopt(self, runs: Runs) -> None:
        """Have the next calls made so, for `exchange`; variables keep their values."""
        if not self.model.sinks:
            self._run_by(runs)
            return
        from uncork.compiler.exchange import carry_over

        with self._turn.held():
            carry_over(self, runs.executor)
            self._run_by(runs)

    def wait_for_turn(self) -> None:
        """Wait for a call that uses the variables. Raises InputError where it is this thread's."""
        with self._turn.held():
            pass

    def prepare(self, shapes: Mapping[str, Sequence[int | None]] | None = None) -> None:
        """Plan calls and compile their kernels now, not at the first call.

        One plan serves every size; where it depends on what is asked of sizes (whether two are
        equal, say), `shapes` tell, by the names of inputs, for which calls it is made: `{"ids": [1,
        20]}`. None is a size that is not known yet. Raises InputError for names and shapes that the
        model does not have.

        Several kernels are compiled at a time, by as many threads as a call may use. On a terminal
        a line says how many are done. An interrupt leaves those that are done, on disk too;
        `prepare` and calls go on from there.
        """
        from uncork.kernels.runtime.kernel_cache import compilations_told  # for whoever compiles

        known = shapes_of(self.inputs, (), shapes or {})
        with (
            at_most(self._executor.threads),
            progress_line("kernels compiled") as say,
            compilations_told(say),
        ):
            self._executor.prepare(known)

    def release_memory(self) -> None:
        """Give back the working memory that calls have taken. It is kept between calls otherwise,
        as large as the largest call needed.

        Calls that are running keep theirs. Bound calls keep theirs for as long as they live.
        """
        self._executor.release_memory()
        if self.model.sinks:
            with self._turn.held():
                self._state.release_spares()

    def reset_state(self) -> None:
        """Forget what the calls so far have assigned to the model's variables.

        What variables have grown in is kept for their next values, until `release_memory`.
        """
        with self._turn.held():
            self._state.reset()

    def query_state(self) -> list[VariableState]:
        """The model's variables, to read, set and reset one by one: see `VariableState`."""
        from uncork.compiler.variables import variable_states  # for whoever asks

        return variable_states(self)

    def fork(self) -> CompiledModel:
        """A new request (see `new_request`) whose variables have the values of these: many answers
        to one prompt, which is computed once.

        What grows lies in one place until one of the two is called; then it is copied once.
        """
        from uncork.compiler.variables import forked  # for whoever asks

        return forked(self)

    def save_state(self) -> bytes:
        """The values of all variables as bytes, for another process or a later day: see
        `load_state`.
        """
        from uncork.compiler.variables import saved_state  # for whoever asks

        return saved_state(self)

    def load_state(self, data: bytes) -> None:
        """Set all variables from bytes that `save_state` gave; those that had no value are reset.

        Raises InputError for other bytes, and for values that do not fit: nothing is changed then.
        """
        from uncork.compiler.variables import load_state  # for whoever asks

        load_state(self, data)

    def new_request(self) -> CompiledModel:
        """The same compiled model with variables of its own, in their initial state. Constants and
        plan are shared.
        """
        return CompiledModel(self.users.runs, self.users)

    def sessions(
        self,
        capacity: int,
        *,
        axes: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
        batched: bool = True,
    ) -> Sessions:
        """Room for `capacity` sessions, each with variables of its own: steps of many run as one
        batch. See `Sessions`.

        Axis 0 of every input counts sessions, unless `axes` says another one by the input's name,
        or None for what all share; variables may be named there, too. With `batched=False` every
        session is a call of its own, for models that take one sequence and no more: sessions are
        counted by an axis in front of all that inputs and outputs have. A session that had no step
        for `timeout` seconds is closed. Raises InputError where the model has no variables, or
        where its rows cannot be sessions.
        """
        from uncork.compiler.sessions import Sessions  # for whoever asks

        return Sessions(self, capacity, axes, timeout, batched)

    def create_infer_request(self) -> InferRequest:
        """A request for calls on a thread of its own (`start_async`, `wait`), with variables of its
        own.
        """
        from uncork.compiler.requests import InferRequest  # threads: most who run a model need none

        return InferRequest(self)

    def infer_new_request(self, inputs: Any = None) -> Results:
        """A call with variables in their initial state, which it does not change."""
        return self.create_infer_request().infer(inputs)

    async def infer_async(self, *inputs: Any, **named: Any) -> Results:
        """The results of a call, for programs of asyncio: it is made on a thread, and others go on
        meanwhile.

        Inputs are given as to a call; arrays are read when it is made, so leave them as they are.
        """
        from asyncio import to_thread  # for whoever awaits

        return await to_thread(self, *inputs, **named)

    def __copy__(self) -> CompiledModel:
        """The same as `new_request()`: constants and plan are shared, variables are not."""
        return self.new_request()

    def __enter__(self) -> CompiledModel:
        """Itself, for `with uncork.load(path) as compiled:`."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give back the working memory; the model can be called again."""
        self.release_memory()

    if not TYPE_CHECKING:  # a name that is not there is a mistake that mypy finds

        def __getattr__(self, name: str) -> Any:
            from uncork.ir.elsewhere import COMPILED, missing

            raise missing(self, "a compiled model", name, COMPILED)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a compiled model cannot be pickled: send the path of the model and uncork.load it "
            "there, "
            "once in each process (uncork.score.Scorer does that)"
        )

    def _repr_html_(self) -> str:
        """For notebooks: inputs and outputs with their types and shapes."""
        return html_table(
            f"{self.model.name}, compiled", PORT_HEADING, port_rows(self.inputs, self.outputs)
        )

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<CompiledModel '{self.model.name}': {ins} -> {outs}>"


def compile_for(
    model: Model,
    target: Target | None,
    threads: int,
    precision: Precision = "f32",
    ids: Ids = "64-bit",
    memory_limit: int | None = None,
) -> CompiledModel:
    """A checked model for a target, which need not be this machine unless it is called."""
    with at_most(threads):
        return compiled_by(
            model, partial(executor_of, target, threads, precision, ids, memory_limit)
        )


def compile_layer(model: Model, target: Target | None, threads: int) -> CompiledModel:
    """The compiled model of a single layer; ids are used as they are given."""
    return compile_for(model, target, threads, ids="as-written")


def compiled_by(model: Model, remade: Callable[[Model], BaseExecutor]) -> CompiledModel:
    """A checked model with an executor for it, and for whatever constants it is given later."""
    return CompiledModel(Runs(model, remade(model), remade))


def executor_of(
    target: Target | None,
    threads: int,
    precision: Precision,
    ids: Ids,
    memory_limit: int | None,
    model: Model,
) -> BaseExecutor:
    """The executor of a checked model for a target."""
    from uncork.compiler.execute import Executor  # and all that plans: compiled files need none
    from uncork.ir.constants import mapped_files
    from uncork.passes import pipeline

    options = pipeline.Options(target, precision, ids)
    # Before anything runs: references too are then given the rows that they need.
    runs = pipeline.apply_passes(pipeline.AS_READ, model, options)
    return Executor(runs, target, threads, mapped_files(model), memory_limit=memory_limit)
