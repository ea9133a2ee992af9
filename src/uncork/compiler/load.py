"""`load`: a model from its file, ready to be called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

from uncork.collector import collector_paused
from uncork.compiled_head import is_compiled_file
from uncork.compiler.options import Activations, Backend, Decompression, Ids, Kernels, Precision
from uncork.errors import UncorkError, ValidationError

if TYPE_CHECKING:
    from uncork.compiler.base_executor import BaseExecutor
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.tables import GivenTable


def refuse_settled(**is_default: bool) -> None:
    """Raise ValidationError for options that were settled when a file was compiled."""
    given = [name for name, default in is_default.items() if not default]
    if given:
        raise ValidationError(
            f"{', '.join(given)}: settled when it was compiled: give that to uncork.compile_to "
            "(uncork compile), or load the .xml"
        )


def _compile_source(path: str, settings: dict[str, Any]) -> BaseExecutor:
    """The executor of the model that a compiled file has inside."""
    from uncork.compiler.compile import compile_model  # for calls that plans do not take

    return compile_model(path, **settings).executor


def load(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    weights: str | os.PathLike[str] | bytes | BinaryIO | None = None,
    mmap: bool = True,
    backend: Backend = "cpu",
    strict: bool = False,
    threads: int | None = None,
    precision: Precision = "f32",
    decompression: Decompression = "as-written",
    activations: Activations = "f32",
    loop_limit: int | None = None,
    tables: Mapping[str, GivenTable] | None = None,
    ids: Ids = "64-bit",
    exact_convolutions: bool = False,
    exact_fake_quantize: bool = False,
    memory_limit: int | None = None,
    target: str | None = None,
    kernels: Kernels = "if-available",
    prepare: bool = False,
) -> CompiledModel:
    """A model from its file, checked and ready to be called: `compile_model(read_model(path))`.

    `weights` is the weights file, when it is not the .bin beside the model (of either, bytes and
    files that are open for reading bytes are taken, too); `mmap=False` copies
    weights instead of mapping them. `backend` is "cpu" (kernels) or "reference" (NumPy from the
    formulas); `strict=True` refuses odd data that is tolerated otherwise; `threads` is the most
    threads of a call (None: all processors); `precision` is "f32", or of recurrent layers' products
    "bf16" or "bf16x3", or "fast"; `decompression="f32"` drops roundings to f16 on the way from
    stored weights to products, `activations` "i16" or "i8" lets these round their data;
    `loop_limit` is the most iterations of a Loop; `tables` takes constants from files,
    `{"users": "users.npy"}`;
    `ids="as-written"` lets conversions in the model cut ids, as OpenVINO does;
    `exact_convolutions=True` makes every product of a convolution, `exact_fake_quantize=True`
    multiplies what FakeQuantize rounded in f32; `memory_limit` is the most bytes of working memory
    of a call; `target` is the level of processors that kernels are for, or "native";
    `kernels="required"` refuses a model one of whose kernels cannot be had, in place of a slow
    reference; `prepare=True` compiles the kernels now, not at the first call: see
    `CompiledModel.prepare`.

    A file that `uncork.compile_to` wrote is mapped; of the options only `memory_limit` and `target`
    are for it, all others were settled then.

    Raises what `read_model` and `compile_model` raise, with the path. Both say more of each option.
    """
    try:
        if isinstance(path, (str, os.PathLike)) and is_compiled_file(path):
            with collector_paused():  # what is imported stays
                from uncork.compiler.image.load import load_compiled  # for such files only

            refuse_settled(
                weights=weights is None,
                mmap=mmap,
                backend=backend == "cpu",
                strict=not strict,
                precision=precision == "f32",
                decompression=decompression == "as-written",
                activations=activations == "f32",
                loop_limit=loop_limit is None,
                tables=not tables,
                ids=ids == "64-bit",
                exact_convolutions=not exact_convolutions,
                exact_fake_quantize=not exact_fake_quantize,
            )
            return load_compiled(path, memory_limit, target, _compile_source)
        from uncork.compiler.compile import compile_model, read_model  # for all others

        compiled = compile_model(
            read_model(path, weights, mmap=mmap),
            backend=backend,
            strict=strict,
            threads=threads,
            precision=precision,
            decompression=decompression,
            activations=activations,
            loop_limit=loop_limit,
            tables=tables,
            ids=ids,
            mmap=mmap,
            exact_convolutions=exact_convolutions,
            exact_fake_quantize=exact_fake_quantize,
            memory_limit=memory_limit,
            target=target,
            kernels=kernels,
        )
        if prepare:
            compiled.prepare()
        return compiled
    except UncorkError as error:
        raise error.at(str(path) if isinstance(path, (str, os.PathLike)) else "<bytes>") from None
