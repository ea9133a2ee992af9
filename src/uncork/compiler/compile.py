"""`read_model`, `compile_model`, `load` and the object that is called."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from uncork._html import html_table
from uncork.blas import at_most
from uncork.collector import collector_paused
from uncork.compiler.arguments import Results, accept, match, owned, present
from uncork.compiler.bind import BoundCall
from uncork.compiler.device import check_device
from uncork.compiler.execute import Executor, kernel_target
from uncork.compiler.native_call import NativeCall
from uncork.compiler.plan import Plan
from uncork.compiler.plan_set import PlannedCall
from uncork.compiler.shapes import shapes_of
from uncork.compiler.threads import available_threads
from uncork.concurrency import renews_locks
from uncork.errors import InputError, UncorkError, UnsupportedError, ValidationError
from uncork.ir.bodies import configure
from uncork.ir.constants import mapped_files
from uncork.ir.elsewhere import COMPILED, missing
from uncork.ir.hints import Hints
from uncork.ir.model import Model
from uncork.ir.ports import PORT_HEADING, ModelPort, find_port, port_of, port_rows
from uncork.ir.read import read_structure
from uncork.ir.validate import infer
from uncork.kernels.runtime.kernel_cache import compilations_told
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import warn_if_unavailable
from uncork.passes import pipeline
from uncork.progress import progress_line
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.compiler.growing_state import Values
    from uncork.compiler.profile import Profile
    from uncork.compiler.requests import InferRequest
    from uncork.compiler.tables import Table
    from uncork.compiler.variables import VariableState

Backend = Literal["cpu", "reference"]
Precision = Literal["f32", "bf16", "bf16x3"]
Ids = Literal["64-bit", "as-written"]


def read_model(
    path: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    *,
    mmap: bool = True,
) -> Model:
    """Read and check `model.xml` and the weights file beside it (or `weights`).

    Weights of more than 8 MB are mapped: processes share their memory, and the file must stay as it
    is while the model is used. `mmap=False` copies them, so that the file may be changed or deleted
    afterwards.

    Raises ReadError when there is no IR model in the file, ValidationError when something in it is
    wrong and UnsupportedError when only operations are missing: one error that lists every problem.
    """
    with collector_paused():
        model, findings = read_structure(path, weights, mmap)
        model, problems = infer(model)
    findings.extend(problems)
    findings.raise_if_any(str(path))
    return model


class CompiledModel:
    """A model that can be called. It may be called from several threads at once; calls of a model
    with state take turns.
    """

    def __init__(self, model: Model, executor: Executor) -> None:
        self.model = model
        self._executor = executor
        self._state: Values = {}
        self.renew_locks()
        renews_locks(self)
        self.inputs = model.inputs
        self.outputs = model.outputs

        #: NumPy's own instances of the types that need no conversion: compared by identity, which
        #: is what a call can afford.
        self._dtypes = [
            np.dtype(port.element_type.dtype.char) if port.element_type.is_native else None
            for port in self.inputs
        ]
        self._names = [port.name for port in self.inputs]
        self._native_outputs = all(port.element_type.is_native for port in self.outputs)

        self._all_native = self._native_outputs and None not in self._dtypes

    def renew_locks(self) -> None:
        """Make the lock of the variables: at the start, and in a child process."""
        self._turn = threading.Lock()

    def __call__(self, *inputs: Any, **named: Any) -> Results:
        """Run the model on arrays: by position, as one list of all, by keyword, or as one mapping
        from names, positions or ports.

        Raises InputError when a name, a type, a shape or a value does not fit; nothing is converted
        with loss.
        """
        try:
            ordered = self._in_order(inputs, named)
            last = self._executor.last
            if (
                ordered is not None
                and last is not None
                and (fast := self._fast(last, ordered)) is not None
            ):
                return fast
            if (
                ordered is not None
                and self.model.sinks
                and (fast := self._fast_with_state(ordered)) is not None
            ):
                return fast
            for file in self._executor.files:  # the fast call looked itself
                file.check()
            with at_most(self._executor.threads):
                return self._run(inputs, named)
        except MemoryError as error:
            raise self._too_large(error) from None

    def _too_large(self, error: MemoryError) -> InputError:
        return InputError(f"not enough memory for this call: {error}", f"model '{self.model.name}'")

    def _run(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Results:
        """The results of a call that is not like the one before it."""
        arrays = [
            accept(port, value)
            for port, value in zip(self.inputs, match(self.inputs, inputs, named))
        ]
        if self.model.sinks:
            with self._turn:
                results = self._executor.run_with_state(arrays, self._state)
        else:
            results = self._executor.run(arrays)
        shown = [present(port.element_type, array) for port, array in zip(self.outputs, results)]
        return Results(self.outputs, owned(shown, arrays))

    def _in_order(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | None:
        """The inputs as the model has them; None when it takes `match` to find them, or to say what
        is wrong.
        """
        if len(inputs) == 1 and type(inputs[0]) is dict and not named:
            named = inputs[0]
            inputs = ()
        if not named:
            return inputs if len(inputs) == len(self._names) else self._listed(inputs)
        if inputs or len(named) != len(self._names):
            return None
        try:
            return [named[name] for name in self._names]
        except KeyError:
            return self._by_key(named)

    def _listed(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The inputs that came as one list."""
        only = inputs[0] if len(inputs) == 1 else None
        return only if isinstance(only, (list, tuple)) and len(only) == len(self._names) else None

    def _by_key(self, named: Mapping[Any, Any]) -> list[Any] | None:
        """The inputs that came by positions, ports or further names; None when some are missing."""
        found = {find_port(self.inputs, key): value for key, value in named.items()}
        return (
            [found[i] for i in range(len(self._names))]
            if found.keys() == set(range(len(self._names)))
            else None
        )

    def _fast(self, last: PlannedCall, inputs: Sequence[Any]) -> Results | None:
        """The results, if this call is like the one before it."""
        if not self._all_native:
            return None
        found: Any = last.run(*inputs)
        results = found if type(found) is list else last.again(found, inputs)
        return None if results is None else Results(self.outputs, results)

    def _fast_with_state(self, inputs: Sequence[Any]) -> Results | None:
        """The same for a model with variables."""
        if not self._all_native or not self._need_no_conversion(inputs):
            return None
        with self._turn:
            results = self._executor.run_with_state_as_before(inputs, self._state)
        return None if results is None else Results(self.outputs, results)

    def _need_no_conversion(self, inputs: Sequence[Any]) -> bool:
        for value, dtype in zip(inputs, self._dtypes):
            if (
                type(value) is not np.ndarray
                or value.dtype is not dtype
                or not value.flags.c_contiguous
            ):
                return False
        return True

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
        try:
            return BoundCall(self, match(self.inputs, inputs, named), outputs)
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
        """Where the time of a call on these inputs goes: every step with its kernel, time, bytes
        and operations. Print it.

        Inputs are given as to a call, but for keywords. Every step runs by itself, some 20 ms long;
        variables stay as they are.
        """
        from uncork.compiler.profile import profile  # for whoever asks

        return profile(self, self._executor, inputs, progress, compile_layer)

    @property
    def plan(self) -> Plan:
        """How the last call ran, or before any, what can be said: see `Plan`. Print it. Nothing is
        compiled for it.

        Every step, the kernel chosen for it or the reason why there is none, what a pass says of
        it, and where its result lies.
        """
        return self._executor.plan()

    def plan_for(self, *shapes: Any, **named: Any) -> Plan:
        """How a call of inputs of these shapes runs: `compiled.plan_for(x=[1, 3, 224, 224])`.
        Nothing is compiled for it.

        Shapes are given like the inputs of a call: by position, as one list of all, by keyword, or
        as one mapping from names, positions or ports. A size that is None, or that is not given,
        stays open. Raises InputError for what the model does not have.
        """
        return self._executor.plan_for(shapes_of(self.inputs, shapes, named))

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
            from uncork.compiler.state_storage import release_spares

            with self._turn:
                release_spares(self._state)

    def reset_state(self) -> None:
        """Forget what the calls so far have assigned to the model's variables."""
        with self._turn:
            self._state.clear()

    def query_state(self) -> list[VariableState]:
        """The model's variables, to read, set and reset one by one: see `VariableState`."""
        from uncork.compiler.variables import variable_states  # for whoever asks

        return variable_states(self)

    def new_request(self) -> CompiledModel:
        """The same compiled model with variables of its own, in their initial state. Constants and
        plan are shared.
        """
        return CompiledModel(self.model, self._executor)

    def create_infer_request(self) -> InferRequest:
        """A request for calls on a thread of its own (`start_async`, `wait`), with variables of its
        own.
        """
        from uncork.compiler.requests import InferRequest  # threads: most who run a model need none

        return InferRequest(self)

    def infer_new_request(self, inputs: Any = None) -> Results:
        """A call with variables in their initial state, which it does not change."""
        return self.create_infer_request().infer(inputs)

    if not TYPE_CHECKING:  # a name that is not there is a mistake that mypy finds

        def __getattr__(self, name: str) -> Any:
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


def compile_model(
    model: Model | str | os.PathLike[str],
    device_name: str = "CPU",
    config: Mapping[str, Any] | None = None,
    *,
    backend: Backend = "cpu",
    strict: bool = False,
    threads: int | None = None,
    precision: Precision = "f32",
    loop_limit: int | None = None,
    tables: Mapping[str, Table] | None = None,
    ids: Ids = "64-bit",
    mmap: bool = True,
    exact_convolutions: bool = False,
    exact_fake_quantize: bool = False,
    memory_limit: int | None = None,
) -> CompiledModel:
    """Prepare a model for running.

    `backend="reference"` runs every layer by its defining NumPy code; "cpu" uses kernels where
    there are some. `strict` makes errors of tolerated oddities in the data (unsorted segment ids,
    indices out of range where zeros are the rule). `precision="bf16"` rounds the factors of the
    products of GRU, LSTM and RNN layers to bf16; "bf16x3" makes them sums of two bf16, which is
    nearly f32, where that is faster (by AMX). Sums, states, activations and all other layers stay
    f32.

    `threads` is the most threads a call may use (None: the processors that this process may run
    on), which only steps of more than about 0.03 to 0.1 ms do; `loop_limit` the most iterations any
    Loop may make. `tables` takes the values of constants from files, which are mapped: `{"users":
    "users.npy"}`, the name of a constant or of the layer that looks its rows up, and a .npy or
    .safetensors file (`x.safetensors:key`) with its very element type and shape. `mmap=False`
    copies them (see `read_model`).

    `ids="64-bit"` looks rows up by the numbers that were given: indices, offsets, segment ids and
    lengths that come straight from an input are led around conversions to fewer bits, which
    converters from PyTorch write. "as-written" lets those cut them, bit for bit as OpenVINO does.

    3x3 convolutions may be computed with a quarter to half of their products (Winograd), which
    rounds a little otherwise: about 3e-6 of the largest result in place of 1e-6.
    `exact_convolutions=True` makes every product.

    Layers between FakeQuantize layers multiply in integers, exactly; where a result is rounded to
    levels again, a number at the border of two may fall to the other one.
    `exact_fake_quantize=True` computes them in f32, as they are written.

    `memory_limit` is the most bytes of working memory that a call may take, for results between
    layers and for kernels (None: as many as the machine or its container has; inputs, results,
    constants and references are not counted). A call that needs more raises InputError, which names
    the layer that needs most; others go on. Each of several calls at a time has memory of its own.

    `device_name` is "CPU" (or "AUTO", which is the same) and `config` empty: OpenVINO's properties
    are options here. Raises ValidationError for unknown options, UnsupportedError for a precision
    that this machine lacks, InputError for wrong tables.
    """
    if device_name != "CPU" or config:
        check_device(device_name, config or {})
    if not isinstance(model, Model):
        model = read_model(model, mmap=mmap)
    if backend not in ("cpu", "reference"):
        raise ValidationError(f"backend: expected 'cpu' or 'reference', got {backend!r}")
    if precision not in ("f32", "bf16", "bf16x3"):
        raise ValidationError(f"precision: expected 'f32', 'bf16' or 'bf16x3', got {precision!r}")
    target = kernel_target(precision) if backend == "cpu" else None
    if backend == "cpu" and target is None:
        warn_if_unavailable()
    if precision != "f32" and (missing := _missing_for(precision, backend, target)):
        raise UnsupportedError(f"precision {precision!r} needs {missing}: use 'f32'")
    if ids not in ("64-bit", "as-written"):
        raise ValidationError(f"ids: expected '64-bit' or 'as-written', got {ids!r}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValidationError(f"threads: expected a number of at least 1, got {threads!r}")
    if memory_limit is not None and (not isinstance(memory_limit, int) or memory_limit < 0):
        raise ValidationError(f"memory_limit: expected a number of bytes, got {memory_limit!r}")
    if loop_limit is not None and (not isinstance(loop_limit, int) or loop_limit < 0):
        raise ValidationError(f"loop_limit: expected a number of at least 0, got {loop_limit!r}")
    if tables:
        from uncork.compiler.tables import (
            with_tables,  # few models need it: the others do not pay for it
        )

        model = with_tables(model, tables, mmap)
    model = configure(
        model, strict, loop_limit, Hints(direct_sums=exact_convolutions, in_f32=exact_fake_quantize)
    )
    threads = available_threads() if threads is None else threads
    if backend == "reference":
        options = pipeline.Options(None, precision, ids, reference=True)
        return CompiledModel(
            model,
            Executor(
                pipeline.run(pipeline.AS_READ, model, options), None, threads, mapped_files(model)
            ),
        )
    return compile_for(model, target, threads, precision, ids, memory_limit)


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
        return CompiledModel(model, _executor(model, target, threads, precision, ids, memory_limit))


def compile_layer(model: Model, target: Target | None, threads: int) -> CompiledModel:
    """A layer by itself, which takes its ids as they are."""
    return compile_for(model, target, threads, ids="as-written")


def _executor(
    model: Model,
    target: Target | None,
    threads: int,
    precision: Precision,
    ids: Ids,
    memory_limit: int | None,
) -> Executor:
    options = pipeline.Options(target, precision, ids)
    # Before anything runs: references too are then given the rows that they need.
    runs = pipeline.run(pipeline.AS_READ, model, options)
    return Executor(runs, target, threads, mapped_files(model), memory_limit=memory_limit)


def _missing_for(precision: Precision, backend: Backend, target: Target | None) -> str:
    """What it takes to compute in this precision and is not there; nothing when all of it is."""
    if backend == "reference":
        return "kernels, which the reference has none of"
    if target is None:
        return "llvmlite, which is not installed"
    from uncork.kernels.recurrent.select import supports  # imports what only recurrent layers need

    return "" if supports(precision, target) else "a CPU with AVX512-BF16"


def load(
    path: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    mmap: bool = True,
    backend: Backend = "cpu",
    strict: bool = False,
    threads: int | None = None,
    precision: Precision = "f32",
    loop_limit: int | None = None,
    tables: Mapping[str, Table] | None = None,
    ids: Ids = "64-bit",
    exact_convolutions: bool = False,
    exact_fake_quantize: bool = False,
    memory_limit: int | None = None,
    prepare: bool = False,
) -> CompiledModel:
    """A model from its file, checked and ready to be called: `compile_model(read_model(path))`.

    `weights` is the weights file, when it is not the .bin beside the model; `mmap=False` copies
    weights instead of mapping them. `backend` is "cpu" (kernels) or "reference" (NumPy from the
    formulas); `strict=True` refuses odd data that is tolerated otherwise; `threads` is the most
    threads of a call (None: all processors); `precision` is "f32", or of recurrent layers' products
    "bf16" or "bf16x3"; `loop_limit` is the most iterations of a Loop; `tables` takes constants from
    files, `{"users": "users.npy"}`; `ids="as-written"` lets conversions in the model cut ids, as
    OpenVINO does; `exact_convolutions=True` makes every product of a convolution,
    `exact_fake_quantize=True` multiplies what FakeQuantize rounded in f32; `memory_limit` is the
    most bytes of working memory of a call; `prepare=True` compiles the kernels now, not at the
    first call: see `CompiledModel.prepare`.

    Raises what `read_model` and `compile_model` raise, with the path. Both say more of each option.
    """
    try:
        compiled = compile_model(
            read_model(path, weights, mmap=mmap),
            backend=backend,
            strict=strict,
            threads=threads,
            precision=precision,
            loop_limit=loop_limit,
            tables=tables,
            ids=ids,
            mmap=mmap,
            exact_convolutions=exact_convolutions,
            exact_fake_quantize=exact_fake_quantize,
            memory_limit=memory_limit,
        )
        if prepare:
            compiled.prepare()
        return compiled
    except UncorkError as error:
        raise error.at(str(path)) from None
