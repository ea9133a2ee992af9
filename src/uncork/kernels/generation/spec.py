"""What kernels that make tensors of few numbers are specialised for."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class OneHot(KernelSpec, frozen=True):
    """The spec of the kernel that sets one place of each row: `indices`, `value`, `output`,
    `outer`, `depth`, `inner`.
    """

    emitter: ClassVar[str] = "uncork.kernels.generation.emit:emit_one_hot"
    arguments: ClassVar[tuple[str, ...]] = ("indices", "value", "output", "outer", "depth", "inner")
    item: int
    index: str
    #: A negative index counts from the end; a strict kernel stops at one.
    wraps: bool
    strict: bool
