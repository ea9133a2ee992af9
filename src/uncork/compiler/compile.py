"""`read_model`, `compile_model` and `load`: a model from its file, ready to be called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, get_args

from msgspec import Struct

from uncork.collector import collector_paused
from uncork.compiled_head import is_compiled_file
from uncork.compiler.compiled_model import CompiledModel, compile_for, compiled_by
from uncork.compiler.device import check_device
from uncork.compiler.execute import Executor, kernel_target
from uncork.compiler.options import (
    Backend,
    CompileOptions,
    Ids,
    KvCachePrecision,
    Options,
    Precision,
    asked,
    rows_of_fast,
    taking,
)
from uncork.compiler.threads import available_threads
from uncork.errors import CompileError, UnsupportedError
from uncork.ir.bodies import configure
from uncork.ir.constants import mapped_files
from uncork.ir.dropped import warn_if_dropped
from uncork.ir.hints import Hints
from uncork.ir.labels import runtime_information
from uncork.ir.model import Model
from uncork.ir.validate import infer
from uncork.kernels.runtime.target import Target, target_named
from uncork.kernels.select import unavailable, warn_if_unavailable
from uncork.passes import pipeline
from uncork.reading import read_structure

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "Backend",
    "CompiledModel",
    "Precision",
    "compile_for",
    "compile_model",
    "read_model",
]


def read_model(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    weights: str | os.PathLike[str] | bytes | BinaryIO | None = None,
    *,
    mmap: bool = True,
) -> Model:
    """Read and check `model.xml` and the weights file beside it (or `weights`).

    Either may be given by its contents: bytes, or a file that is open for reading bytes.

    Weights of more than 8 MB are mapped: processes share their memory, and the file must stay as it
    is while the model is used. `mmap=False` copies them, so that the file may be changed or deleted
    afterwards.

    Raises ReadError when there is no IR model in the file, ValidationError when something in it is
    wrong and UnsupportedError when only operations are missing: one error that lists every problem.
    """
    if isinstance(path, (str, os.PathLike)) and is_compiled_file(path):
        from uncork.compiler.image.format import source_of  # for such files only

        path, weights = source_of(Path(path))
    with collector_paused():
        model, diagnostics = read_structure(path, weights, mmap)
        model, problems = infer(model)
    diagnostics.extend(problems)
    diagnostics.raise_if_any(model.source)
    return model


@taking(CompileOptions)
def compile_model(
    model: Model | str | os.PathLike[str] | bytes | BinaryIO,
    device_name: str = "CPU",
    config: Mapping[str, Any] | None = None,
    **options: Unpack[CompileOptions],
) -> CompiledModel:
    """Prepare a model for running.

    `backend="reference"` runs every layer by its defining NumPy code; "cpu" uses kernels where
    there are some. `strict` makes errors of tolerated oddities in the data (unsorted segment ids,
    indices out of range where zeros are the rule).

    `precision="bf16"` rounds the factors of products to bf16: of convolutions, of GRU, LSTM and RNN
    layers, of MatMul with constant weights, and of attention between such; what those alone read is
    held as bf16. Sums, states, sums of two tensors outside of convolutions (residuals), everything
    behind the last MatMul and all other layers stay f32. "bf16x3" makes the factors of recurrent
    layers sums of two bf16, which is nearly f32, where that is faster (by AMX).

    Products read weights of 8 bits and fewer as they are stored. `decompression="f32"` makes
    numbers of them in f32 where the model rounds on the way to f16, as compressed models say: that
    is nearer to the product that was meant, and to OpenVINO's, and several times as fast.
    `activations` is what rows of data may be rounded to for such products: "i16" are whole numbers
    of two bytes (an error of 2e-5 of the largest result), "i8" of one byte, in runs of 32 (5e-3, as
    OpenVINO's default); "f32" keeps them.

    `kv_cache_precision` is what a decoder keeps keys and values in, from call to call: "f16",
    "bf16", or "u8" with a step and a least number for each row of a head, which is a quarter of
    f32; "as-written" is what the file asks for (`KV_CACHE_PRECISION` of its runtime options), else
    "f32". What is appended is rounded once, by the references too; attention reads it as it lies.

    `precision="fast"` takes of these what is fastest on this machine: bf16 where it has it,
    `decompression="f32"` and `activations="i8"` (or the "i16" that is given); what cannot be had is
    left out, and nothing else is rounded.

    `threads` is the most threads a call may use (None: the processors that this process may run
    on), which only steps of more than some 0.01 to 0.03 ms do; `loop_limit` the most iterations any
    Loop may make. `tables` takes the values of constants from files, which are mapped: `{"users":
    "users.npy"}`, the name of a constant or of the layer that looks its rows up, and a .npy or
    .safetensors file (`x.safetensors:key`) with its very element type and shape. `mmap=False`
    copies them (see `read_model`).

    `ids="64-bit"` looks rows up by the numbers that were given: indices, offsets, segment ids and
    lengths that come straight from an input are led around conversions to fewer bits, which
    converters from PyTorch write. "as-written" lets those cut them, bit for bit as OpenVINO does.

    3x3 convolutions may be computed with a quarter to half of their products (Winograd), which
    rounds a little otherwise: about 3e-6 of the largest result in place of 1e-6.
    `exact_convolutions=True` makes every product, and none with zeros that fill blocks of channels,
    so that an infinity stays one where the formula says so.

    Layers between FakeQuantize layers multiply in integers, exactly; where a result is rounded to
    levels again, a number at the border of two may fall to the other one.
    `exact_fake_quantize=True` computes them in f32, as they are written.

    `memory_limit` is the most bytes of working memory that a call may take, for results between
    layers and for kernels (None: as many as the machine or its container has; inputs, results,
    constants and references are not counted). A call that needs more raises InputError, which names
    the layer that needs most; others go on. Each of several calls at a time has memory of its own.

    `target` is the processor that kernels are made for: a level such as "x86-64-v3", which many
    processors have (None: the largest that this one has), or "native" for this very one, whose
    kernels are of no use elsewhere.

    Kernels come with the package, for the layers that models use most; others are compiled when
    they are needed, by llvmlite (`pip install 'uncork[compile]'`). Where that is not there either,
    references run such layers, with a warning. `kernels="required"` prepares the model at once and
    raises CompileError instead, now and at calls of sizes that need other kernels.

    `device_name` is "CPU" (or "AUTO", which is the same) and `config` empty: OpenVINO's properties
    are options here. Raises ValidationError for unknown options, UnsupportedError for a precision
    that this machine lacks, InputError for wrong tables.
    """
    wanted = asked(compile_model, options)
    if device_name != "CPU" or config:
        check_device(device_name, config or {})
    if not isinstance(model, Model):
        model = read_model(model, mmap=wanted.mmap)
    else:
        warn_if_dropped(model, stacklevel=2)
    return compiled_with(model, wanted)


def compiled_with(model: Model, options: Options) -> CompiledModel:
    """The model compiled with options that were checked. Raises what `compile_model` raises."""
    made = settled(model, options)
    if options.backend == "reference":
        remade = partial(_reference, made.threads, made.precision, options.ids)
        return compiled_by(made.model, remade)
    compiled = compile_for(
        made.model, made.target, made.threads, made.precision, options.ids, options.memory_limit
    )
    if options.kernels == "required":
        compiled.prepare()
    return compiled


class Settled(Struct, frozen=True):
    """A model with the options of a compilation in it, and those that are not of its layers."""

    model: Model
    target: Target | None
    threads: int
    precision: Precision


def settled(model: Model, options: Options, elsewhere: bool = False) -> Settled:
    """What options make of a model. With `elsewhere` the target need not be this machine.

    Raises what `compile_model` raises for options that cannot be had.
    """
    backend, precision = options.backend, options.precision
    decompression, activations = options.decompression, options.activations
    fast = precision == "fast"
    if fast and backend == "cpu":
        precision = fast_precision(options.target, elsewhere)
    elif fast:
        precision = "f32"
    runs_on = None
    if backend == "cpu":
        tiles = precision != "f32" or _multiplies_codes(model)
        runs_on = _target(tiles, options.target, elsewhere)
    if fast and runs_on is not None:
        decompression, activations = "f32", rows_of_fast(activations)
    required = options.kernels == "required"
    if required and runs_on is None:
        missing = unavailable() or _missing_for("f32", backend, None)
        raise CompileError(f"kernels are required, and {missing}: pip install 'uncork[compile]'")
    if backend == "cpu" and runs_on is None:
        warn_if_unavailable()
    _refuse_without(precision, backend, runs_on)
    if (decompression, activations) != ("as-written", "f32") and runs_on is None:
        missing = _missing_for("f32", backend, None)
        option = "activations" if activations != "f32" else "decompression"
        raise UnsupportedError(f"{option} other than the default need {missing}: leave it out")
    if options.tables:
        from uncork.compiler.tables import (
            with_tables,  # few models need it: the others do not pay for it
        )

        model = with_tables(model, options.tables, options.mmap)
    hints = Hints(
        direct_sums=options.exact_convolutions,
        in_f32=options.exact_fake_quantize,
        decompression=decompression,
        activations=activations,
        kv_cache_precision=_kept_in(model, options.kv_cache_precision),
        kernels_required=required,
    )
    model = configure(model, options.strict, options.loop_limit, hints)
    threads = available_threads() if options.threads is None else options.threads
    return Settled(model, runs_on, threads, precision)


def _kept_in(model: Model, given: KvCachePrecision) -> str:
    """What keys and values are kept in: what was asked for, or what the file says (f16, bf16 or u8;
    anything else is a wish that is left alone). Empty where they are as the model has them.
    """
    asked_for: str = given
    if given == "as-written":
        value = runtime_information(model, "runtime_options", "KV_CACHE_PRECISION") or ""
        asked_for = value if value in get_args(KvCachePrecision) else ""
    return "" if asked_for in ("f32", "as-written") else asked_for


def _reference(threads: int, precision: Precision, ids: Ids, model: Model) -> Executor:
    """What runs a model by the references alone."""
    options = pipeline.Options(None, precision, ids, reference=True)
    runs = pipeline.apply_passes(pipeline.AS_READ, model, options)
    return Executor(runs, None, threads, mapped_files(model))


#: Types of weights that are multiplied as codes.
_CODES = frozenset({"i8", "u8", "i4", "u4"})


def _multiplies_codes(model: Model) -> bool:
    """Whether layers of a model may be computed on codes of a byte and less: by tiles in any
    precision, since sums of whole numbers are exact.
    """
    return any(
        node.type_name == "FakeQuantize"
        or (node.type_name == "Const" and node.outputs[0].spec.element_type.name in _CODES)
        for node in model.nodes
    )


def _target(tiles: bool, name: str | None, elsewhere: bool) -> Target | None:
    """The target of a name; None where there are no kernels."""
    if elsewhere and name is not None:
        return target_named(name, tiles)
    return kernel_target(tiles, name)


def fast_precision(name: str | None = None, elsewhere: bool = False) -> Precision:
    """What products are fastest in, by kernels of a target."""
    target = _target(True, name, elsewhere)
    return "bf16" if target is not None and not _missing_for("bf16", "cpu", target) else "f32"


def precision_here(precision: Precision, backend: Backend = "cpu") -> Precision:
    """A precision that was asked for, as it is had on this machine. Raises UnsupportedError where
    it is not.
    """
    if precision == "fast":
        return fast_precision() if backend == "cpu" else "f32"
    if precision != "f32":
        _refuse_without(precision, backend, _target(True, None, False))
    return precision


def _refuse_without(precision: Precision, backend: Backend, target: Target | None) -> None:
    """Raise UnsupportedError where a precision needs what is not there."""
    if precision != "f32" and (missing := _missing_for(precision, backend, target)):
        raise UnsupportedError(f"precision {precision!r} needs {missing}: use 'f32'")


def _missing_for(precision: Precision, backend: Backend, target: Target | None) -> str:
    """What a precision needs that is not there; empty when nothing is missing."""
    if backend == "reference":
        return "kernels, which the reference has none of"
    if target is None:
        return "llvmlite, which is not installed"
    from uncork.kernels.recurrent.select import supports  # imports what only recurrent layers need

    return "" if supports(precision, target) else "a CPU with AVX512-BF16"
