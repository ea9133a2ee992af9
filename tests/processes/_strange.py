"""What may lie where a file is expected: functions that make it at a path."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


def folder(path: Path) -> None:
    path.mkdir()


def circle(path: Path) -> None:
    path.symlink_to(path)


def listener(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's name may have a hundred bytes
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(here)


def secret(path: Path) -> None:
    path.symlink_to("/proc/1/mem")  # an ordinary file that ends nowhere and may not be read


KINDS: dict[str, Callable[[Path], None]] = {
    f.__name__: f for f in (pipe, endless, terminal, folder, circle, listener, secret)
}
