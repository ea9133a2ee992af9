"""What a module reads as a number while it is followed: the model keeps that of the example.

torch warns of some of it, in the frame of whoever stands between the module and its functions, and
of some, such as the count of a loop, not at all. Here the line of the module is named, and a number
that every call has is no reason to warn.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from types import FrameType
from typing import Any

#: Functions of a tensor that give what no graph follows.
_READS = frozenset(
    {
        "__array__",
        "__bool__",
        "__complex__",
        "__float__",
        "__index__",
        "__int__",
        "allclose",
        "equal",
        "is_nonzero",
        "item",
        "numpy",
        "tolist",
    }
)
#: Operations of which values tell how large the result is.
_SIZED_BY_VALUES = frozenset(
    {
        "aten::_unique2",
        "aten::index",
        "aten::masked_select",
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::repeat_interleave",
        "aten::unique_consecutive",
    }
)
#: Modules that call functions for others.
_BETWEEN = ("torch._tensor", "torch.overrides")


@contextlib.contextmanager
def reads_of_numbers(torch: Any, open_axes: Sequence[Collection[int]]) -> Iterator[None]:
    """Warn where a number is read that another call may have otherwise, as long as this is entered.
    `open_axes` are those of each input.
    """
    graph = _Followed(torch, open_axes)
    category = torch.jit.TracerWarning

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            options = options or {}
            name = getattr(function, "__name__", "")
            if name not in _READS or not torch.jit.is_tracing():
                return function(*arguments, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", category)
                number = function(*arguments, **options)
            frame = _reader(sys._getframe(1))
            tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
            if frame is not None and (what := graph.told_by(tensors)):
                shown = f", {number}," if isinstance(number, (bool, int, float)) else ""
                text = f"{what} is read as a number: the model keeps that of the example{shown}"
                _warn(frame, f"{text} in every call", category)
            return number

    with Mode():
        yield


def _reader(frame: FrameType | None) -> FrameType | None:
    """The line that reads, None where torch does: for checks, which the example has passed."""
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return None if name.split(".")[0] in ("torch", "uncork") else frame


def _warn(frame: FrameType, message: str, category: type[Warning]) -> None:
    module = str(frame.f_globals.get("__name__"))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(
        message, category, frame.f_code.co_filename, frame.f_lineno, module, registry
    )


class _Followed:
    """The graph that torch draws while it follows a module."""

    def __init__(self, torch: Any, open_axes: Sequence[Collection[int]]) -> None:
        self.torch, self.open_axes = torch, open_axes
        self.fixed: set[tuple[int, bool]] = set()

    def told_by(self, tensors: Sequence[Any]) -> str | None:
        """What of a call tells these values; None where they are the same in every call."""
        left = [(self.torch._C._get_value_trace(tensor), False) for tensor in tensors]
        seen = set(self.fixed)
        while left:
            value, of_size = left.pop()
            if (state := (value.unique(), of_size)) in seen:
                continue
            seen.add(state)
            node = value.node()
            kind = node.kind()
            if kind == "prim::Param":
                if found := self._of_input(value.offset(), of_size):
                    return found
            elif kind == "aten::size":
                tensor, axis = node.inputs()
                if tensor.node().kind() != "prim::Param" or axis.node().kind() != "prim::Constant":
                    left.append((tensor, True))
                elif axis.toIValue() in self._open(tensor.offset()):
                    return "a size that is open"
            else:
                of_size = of_size and kind not in _SIZED_BY_VALUES
                left += [(i, of_size and i.type().kind() == "TensorType") for i in node.inputs()]
        self.fixed = seen
        return None

    def _open(self, place: int) -> Collection[int]:
        """Behind the inputs are the constants of the module."""
        return self.open_axes[place] if place < len(self.open_axes) else ()

    def _of_input(self, place: int, of_size: bool) -> str | None:
        if of_size:
            return "a size that may be open" if self._open(place) else None
        return "a value" if place < len(self.open_axes) else None
