"""Values of variables as bytes, for other processes and later days: a .npz file of NumPy's, with
the type of each value and the version of this format.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from uncork.errors import InputError
from uncork.types import Array, ElementType

_FORMAT = "uncork-state-1"
_ABOUT = "about"


def saved(values: Mapping[str, tuple[ElementType, Array]], model: str = "") -> bytes:
    """The bytes of values by the names of their variables; arrays are carriers. `model` is what
    tells the model from others, where the values are for this one only.
    """
    about = {
        "format": _FORMAT,
        **({"model": model} if model else {}),
        "variables": [[name, kind.name] for name, (kind, _) in values.items()],
    }
    arrays = {str(index): array for index, (_, array) in enumerate(values.values())}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{_ABOUT: np.array(json.dumps(about))}, **arrays)
    return file.getvalue()


def read_saved(data: bytes, model: str = "") -> dict[str, tuple[ElementType, Array]]:
    """The values that `saved` made bytes of. Raises InputError for other bytes, and for those of
    another model where `model` tells this one.
    """
    where = "saved state"
    InputError.when(
        not isinstance(data, (bytes, bytearray, memoryview)),
        f"expected bytes, got {type(data).__name__}",
        where,
    )
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            claimed = sum(member.file_size for member in file.zip.infolist())
            InputError.when(
                claimed > len(data),
                f"{len(data):,} bytes cannot hold the {claimed:,} that they claim",
                where,
            )
            about: Any = json.loads(str(file[_ABOUT]))
            InputError.when(
                about["format"] != _FORMAT,
                f"expected format {_FORMAT}, got {about['format']!r}",
                where,
            )
            InputError.when(
                model and about.get("model") != model,
                "it is of another model: load it into the one that saved it",
                where,
            )
            return {
                str(name): (ElementType.parse(str(kind)), file[str(index)])
                for index, (name, kind) in enumerate(about["variables"])
            }
    except InputError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib have one for each kind of damage
        raise InputError(
            f"these are no bytes that save() or save_state() gave: {error}", where
        ) from None
