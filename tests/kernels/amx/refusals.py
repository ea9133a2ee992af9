"""What ends a process, because the manual forbids it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.kernels.amx.case import FULL, steps
from tests.kernels.amx.machine_code import Steps, configuration


def _square(*shapes: tuple[int, int]) -> Steps:
    """Configured, and nothing loaded."""
    return steps().configure(configuration(*shapes))


def _rows() -> np.ndarray:
    return np.zeros((16, 64), np.uint8)


def _wrong_bytes(place: int, value: int) -> Steps:
    image = FULL.copy()
    image[place] = value
    return steps().configure(image)


class Refusal(NamedTuple):
    """Steps that must end the process, and what the emulator says."""

    steps: Callable[[], Steps]
    message: str


REFUSALS: dict[str, Refusal] = {
    "load_unconfigured": Refusal(
        lambda: steps().load(0, _rows()), "TILELOADD: tiles are not configured (#UD)"
    ),
    "store_unconfigured": Refusal(
        lambda: steps().store(0, _rows()), "TILESTORED: tiles are not configured (#UD)"
    ),
    "zero_unconfigured": Refusal(
        lambda: steps().zero(0), "TILEZERO: tiles are not configured (#UD)"
    ),
    "dot_unconfigured": Refusal(
        lambda: steps().dot(0, 1, 2), "TDPBF16PS: tiles are not configured (#UD)"
    ),
    "load_after_release": Refusal(
        lambda: steps().configure(FULL).release().load(0, _rows()),
        "TILELOADD: tiles are not configured (#UD)",
    ),
    "load_after_palette_0": Refusal(
        lambda: steps().configure(FULL).configure(configuration(palette=0)).load(0, _rows()),
        "TILELOADD: tiles are not configured (#UD)",
    ),
    "load_unused_tile": Refusal(
        lambda: _square((16, 64)).load(1, _rows()),
        "TILELOADD: tmm1 has no rows in the configuration (#UD)",
    ),
    "zero_unused_tile": Refusal(
        lambda: _square((16, 64)).zero(7), "TILEZERO: tmm7 has no rows in the configuration (#UD)"
    ),
    "dot_unused_tile": Refusal(
        lambda: _square((16, 64), (16, 64)).dot(0, 1, 2),
        "TDPBF16PS: tmm2 has no rows in the configuration (#UD)",
    ),
    "odd_bytes": Refusal(
        lambda: _square((16, 6)).load(0, _rows()),
        "TILELOADD: tmm0 has 6 bytes a row, not a multiple of 4 (#UD)",
    ),
    "start_row": Refusal(
        lambda: steps().configure(configuration((4, 64), start_row=4)).load(0, _rows()),
        "TILELOADD: start_row is 4, and tmm0 has 4 rows (#UD)",
    ),
    "bytes_unconfigured": Refusal(
        lambda: steps().dot_bytes(0, 1, 2), "TDPBUSD: tiles are not configured (#UD)"
    ),
    "words_of_bytes_differ": Refusal(
        lambda: _square((16, 64), (16, 32), (16, 64)).dot_bytes(0, 1, 2),
        "TDPBUSD: tmm1 has 8 words a row and tmm2 16 rows (#UD)",
    ),
    "rows_differ": Refusal(
        lambda: _square((16, 64), (8, 64), (16, 64)).dot(0, 1, 2),
        "TDPBF16PS: tmm0 has 16 rows and tmm1 8 (#UD)",
    ),
    "columns_differ": Refusal(
        lambda: _square((16, 64), (16, 64), (16, 32)).dot(0, 1, 2),
        "TDPBF16PS: tmm0 has 64 bytes a row and tmm2 32 (#UD)",
    ),
    "pairs_differ": Refusal(
        lambda: _square((16, 64), (16, 32), (16, 64)).dot(0, 1, 2),
        "TDPBF16PS: tmm1 has 8 words a row and tmm2 16 rows (#UD)",
    ),
    "one_tile_twice": Refusal(
        lambda: steps().configure(FULL).call("twice"),
        "TDPBF16PS: tmm0, tmm1, tmm1: three different tiles are needed (#UD)",
    ),
    "palette_2": Refusal(
        lambda: steps().configure(configuration((16, 64), palette=2)),
        "LDTILECFG: palette 2, and there are only 0 and 1",
    ),
    "reserved_2": Refusal(lambda: _wrong_bytes(2, 1), "LDTILECFG: reserved bytes must be 0"),
    "reserved_15": Refusal(lambda: _wrong_bytes(15, 1), "LDTILECFG: reserved bytes must be 0"),
    "reserved_32": Refusal(lambda: _wrong_bytes(32, 1), "LDTILECFG: reserved bytes must be 0"),
    "reserved_47": Refusal(lambda: _wrong_bytes(47, 1), "LDTILECFG: reserved bytes must be 0"),
    "reserved_56": Refusal(lambda: _wrong_bytes(56, 1), "LDTILECFG: reserved bytes must be 0"),
    "reserved_63": Refusal(lambda: _wrong_bytes(63, 1), "LDTILECFG: reserved bytes must be 0"),
    "many_rows": Refusal(
        lambda: _square((17, 64)), "LDTILECFG: tmm0 has 17 rows, at most 16 are allowed"
    ),
    "many_bytes": Refusal(
        lambda: _square((16, 64), (16, 68)),
        "LDTILECFG: tmm1 has 68 bytes a row, at most 64 are allowed",
    ),
    "many_bytes_high": Refusal(
        lambda: _wrong_bytes(17, 1), "LDTILECFG: tmm0 has 320 bytes a row, at most 64 are allowed"
    ),
    "rows_of_nothing": Refusal(
        lambda: _square((16, 64), (16, 0)),
        "LDTILECFG: tmm1 has 16 rows of 0 bytes: both must be 0 or none",
    ),
    "bytes_without_rows": Refusal(
        lambda: _square((0, 64)), "LDTILECFG: tmm0 has 0 rows of 64 bytes: both must be 0 or none"
    ),
}
