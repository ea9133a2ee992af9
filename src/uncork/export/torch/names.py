"""Names of variables, attributes and classes from the names of layers."""

from __future__ import annotations

import builtins
import keyword
import re

#: Words between parts of a layer's name.
_SEPARATOR = re.compile(r"[/.]|::")
_OTHER = re.compile(r"\W+", re.ASCII)
#: What variables and constants are called before they have their names: see `classes`.
_INNER = re.compile(r"v\d+__|constant_\d", re.IGNORECASE)
_RESERVED = {
    *keyword.kwlist,
    *keyword.softkwlist,
    *dir(builtins),
    *("self", "torch", "nn", "F", "math", "Tensor", "Path", "Any", "load_file", "annotations"),
    *("NAMES", "UNNAMED", "named", "placed"),
}
#: What every module of torch has itself: a sub-module or parameter of such a name would hide it.
MODULE_MEMBERS = frozenset((
    "T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init",
    "children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr",
    "float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule",
    "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children",
    "named_modules", "named_parameters", "parameters", "register_backward_hook",
    "register_buffer", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_module", "register_parameter", "register_state_dict_post_hook",
    "register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule",
    "share_memory", "state_dict", "to", "to_empty", "train", "training", "type", "xpu",
    "zero_grad",
    # What this exporter gives to a module.
    "layers", "source", "reset_state",
))  # fmt: skip


def parts_of(layer: str) -> list[str]:
    """The parts of a layer's name, outermost first."""
    return [part for part in _SEPARATOR.split(layer) if part] or ["layer"]


def identifier(text: str) -> str:
    """Text as a Python identifier, and as none that stands for a variable or a constant while the
    source is written.
    """
    name = _OTHER.sub("_", text).strip("_") or "layer"
    return f"n{name}" if name[0].isdigit() or _INNER.match(name) else name


def variable(layer: str) -> str:
    """The name of a variable that holds this layer's output: the last part, in lower case."""
    parts = parts_of(layer)
    return identifier(parts[-1].lower())


def class_name(text: str) -> str:
    """The name in camel case: `encoder_0` as `Encoder0`."""
    words = [w for w in identifier(text).split("_") if w]
    return "".join(w[0].upper() + w[1:] for w in words)


class Names:
    """The names of one namespace, each given once."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self._taken = set(_RESERVED) | (taken or set())
        self._count: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """A name that is not taken yet, near the one wanted."""
        name = wanted = identifier(wanted)
        while name in self._taken:
            self._count[wanted] = self._count.get(wanted, 1) + 1
            name = f"{wanted}_{self._count[wanted]}"
        self._taken.add(name)
        return name
