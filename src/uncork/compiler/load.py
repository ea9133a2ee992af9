"""`load`: a model from its file, ready to be called."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from uncork.collector import collector_paused
from uncork.compiled_head import is_compiled_file
from uncork.compiler.options import CompileOptions, asked, taking
from uncork.errors import UncorkError, ValidationError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from uncork.compiler.base_executor import BaseExecutor
    from uncork.compiler.compiled_model import CompiledModel

#: The options that a compiled file takes.
_TAKEN = ("memory_limit", "target", "kernels")


def _compile_source(path: str, settings: dict[str, Any]) -> BaseExecutor:
    """The executor of the model that a compiled file has inside."""
    from uncork.compiler.compile import compile_model  # for calls that plans do not take

    return compile_model(path, **settings).executor


@taking(CompileOptions)
def load(
    path: str | os.PathLike[str] | bytes | BinaryIO,
    *,
    weights: str | os.PathLike[str] | bytes | BinaryIO | None = None,
    prepare: bool = False,
    **options: Unpack[CompileOptions],
) -> CompiledModel:
    """A model from its file, checked and ready to be called: `compile_model(read_model(path))`.

    `weights` is the weights file, when it is not the .bin beside the model (of either, bytes and
    files that are open for reading bytes are taken, too); `mmap=False` copies
    weights instead of mapping them. `backend` is "cpu" (kernels) or "reference" (NumPy from the
    formulas); `strict=True` refuses odd data that is tolerated otherwise; `threads` is the most
    threads of a call (None: all processors); `precision` is "f32", or of products "bf16" (of
    recurrent layers "bf16x3", too), or "fast"; `decompression="f32"` drops roundings to f16 on the
    way from stored weights to products, `activations` "i16" or "i8" lets these round their data;
    `kv_cache_precision` "f16", "bf16" or "u8" has decoders keep keys and values so;
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
    are for it (and `kernels`: it has all); all others were settled then.

    Raises what `read_model` and `compile_model` raise, with the path. Both say more of each option.
    """
    try:
        wanted = asked(load, options)
        if isinstance(path, (str, os.PathLike)) and is_compiled_file(path):
            with collector_paused():  # what is imported stays
                from uncork.compiler.image.load import load_compiled  # for such files only

            _refuse_settled([*wanted.given(), *(["weights"] if weights is not None else [])])
            return load_compiled(path, wanted.memory_limit, wanted.target, _compile_source)
        from uncork.compiler.compile import compiled_with, read_model  # for all others

        compiled = compiled_with(read_model(path, weights, mmap=wanted.mmap), wanted)
        if prepare:
            compiled.prepare()
        return compiled
    except UncorkError as error:
        raise error.at(str(path) if isinstance(path, (str, os.PathLike)) else "<bytes>") from None


def _refuse_settled(given: Sequence[str]) -> None:
    """Raise ValidationError for options that were settled when a file was compiled."""
    settled = [name for name in given if name not in _TAKEN]
    ValidationError.when(
        settled,
        f"{', '.join(settled)}: settled when it was compiled: give that to uncork.compile_to "
        "(uncork compile), or load the .xml",
    )
