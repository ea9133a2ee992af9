"""The state of a module under the names that the model has for its constants, where those are such
names: those of a checkpoint are loaded as they are, and go back there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set

#: A name of a state: words with points between them, and none that a converter has counted
#: (`Constant_7`). OpenVINO's puts `self` before names; those of a Sequential begin with a number.
_NAME = re.compile(
    r"(?:self\.)?(?![A-Z]\w*_\d+$)((?:\d+(?:\.\d+)*\.)?[A-Za-z_]\w*(?:\.\w+)*)", re.ASCII
)
#: What the module does when it is made.
HOOKS = (
    "self.register_state_dict_post_hook(named)",
    "self.register_load_state_dict_pre_hook(placed)",
)
_TEXT = '''#: What constants are called in the state, by their places in the module.
NAMES: dict[str, str] = {{{names}}}
#: Buffers that have no such name: they are no part of the state, which may leave them out.
UNNAMED: list[str] = [{unnamed}]


def named(module: nn.Module, state: dict[str, Tensor], prefix: str, _: object) -> None:
    """Give the constants of a state their names."""
    for key, name in NAMES.items():
        state[prefix + name] = state.pop(prefix + key)
    for key in UNNAMED:
        del state[prefix + key]


def placed(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: object) -> None:
    """Give the constants of a state their places."""
    for key, name in NAMES.items():
        if prefix + name in state:
            state[prefix + key] = state.pop(prefix + name)
        if name.endswith("running_var"):  # BatchNorm counts batches besides, for its training alone
            count = name.removesuffix("running_var") + "num_batches_tracked"
            state.pop(prefix + count, None)
    own = dict(module.named_buffers())
    for key in UNNAMED:
        state.setdefault(prefix + key, own[key])'''


def state_names(layers: Mapping[str, str], derived: Set[str]) -> dict[str, str]:
    """The names of constants in the state, by their places. `layers` are their layers' names;
    `derived` are places of constants that the model does not have so.
    """
    places: dict[str, str] = {}
    for place, layer in layers.items():
        found = None if place in derived else _NAME.fullmatch(layer)
        if found and (found.group(1) == place or found.group(1) not in layers):
            places.setdefault(found.group(1), place)
    return {place: name for name, place in places.items()}


def state_text(names: Mapping[str, str], unnamed: Sequence[str]) -> str:
    """The source of what gives a state its names. They are words and points, and no code."""
    lines = "".join(f'    "{place}": "{name}",\n' for place, name in names.items())
    others = "".join(f'    "{place}",\n' for place in unnamed)
    return _TEXT.format(names=lines and f"\n{lines}", unnamed=others and f"\n{others}")
