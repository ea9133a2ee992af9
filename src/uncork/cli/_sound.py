"""Sound files: samples of a .wav file as numbers, and how many of them a second has."""

from __future__ import annotations

import os
import wave

import numpy as np

from uncork.errors import InputError
from uncork.types import Array

#: Bytes of a file at the most.
_MOST = 1 << 32


def is_sound(path: str) -> bool:
    return path.lower().endswith(".wav")


def read_sound(path: str) -> tuple[Array, int]:
    """The samples of a .wav file in [-1, 1), `[samples]` or `[channels, samples]`, and how many
    there are in a second. Raises InputError.
    """
    try:
        size = os.path.getsize(path)
        InputError.when(size > _MOST, "is longer than 4 GB", path)
        with wave.open(path, "rb") as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            # No more than there are: memory is taken for as many as are asked for.
            most = size // (channels * width) if channels and width else 0
            data = file.readframes(min(file.getnframes(), most))
    except (OSError, EOFError, RuntimeError, wave.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        # Python says nothing of a chunk that is passed over and ends behind the file.
        reason = reason or "it ends within a chunk"
        raise InputError(f"cannot be read as a .wav file of PCM: {reason}", path) from None
    InputError.when(
        width not in (1, 2, 3, 4) or not channels or not rate,
        f"has samples of {width} bytes: expected PCM of 8 to 32 bits",
        path,
    )
    data = data[: len(data) // (width * channels) * width * channels]
    samples = _numbers(data, width).reshape(-1, channels)
    sound = np.ascontiguousarray(samples[:, 0] if channels == 1 else samples.T, np.float32)
    return sound, rate


def _numbers(data: bytes, width: int) -> Array:
    """Samples as floats: 8 bits have no sign, more bits have one."""
    raw = np.frombuffer(data, np.uint8)
    if width == 1:
        return np.asarray((raw.astype(np.float32) - 128) / 128)
    wide = np.zeros((len(raw) // width, 4), np.uint8)
    wide[:, 4 - width :] = raw.reshape(-1, width)
    return np.asarray(wide.view("<i4").reshape(-1).astype(np.float64) / 2**31)
