"""What a kernel that copies between strided views is specialised for, and its arguments."""

from __future__ import annotations

from typing import ClassVar

from uncork.kernels.kernel_spec import KernelSpec


class NdCopy(KernelSpec, frozen=True):
    """The spec of a strided copy: loops around a copy of a run of bytes (`OPEN`: an argument says
    how many).
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_nd_copy"
    loops: int
    run: int

    @property
    def arguments(self) -> list[str]:
        """Addresses, then count and strides of each loop, outermost first, then the bytes of a
        run.
        """
        loops = [f"{name}_{i}" for i in range(self.loops) for name in ("count", "source", "target")]
        return ["source", "target", *loops, "run"]


class FillBytes(KernelSpec, frozen=True):
    """The spec of a fill with one value of `element` bytes (0: with zeros); the arguments are the
    value's address, the target, and the number of bytes.
    """

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_fill_bytes"
    arguments: ClassVar[tuple[str, ...]] = ("value", "target", "bytes")
    element: int


class CopyBytes(KernelSpec, frozen=True):
    """A copy of one run of bytes: source, target, bytes."""

    emitter: ClassVar[str] = "uncork.kernels.movement.emit_nd_copy:emit_copy_bytes"
    arguments: ClassVar[tuple[str, ...]] = ("source", "target", "bytes")
