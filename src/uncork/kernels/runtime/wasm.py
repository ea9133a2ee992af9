"""Kernels as object files of WebAssembly, for whoever links them.

A function of WebAssembly has a type that its callers must know: all of them take a word of 64 bits
and give one. Pointers are 32 bits there.
"""

from __future__ import annotations

import hashlib
import re

from uncork.kernels.runtime.addresses import Wanted
from uncork.kernels.runtime.target import Target

#: How the names of functions begin in objects.
PREFIX = "uncork_"
_SYMBOL = re.compile(rb"uncork_[0-9a-f]{16}")


def symbol_of(wanted: Wanted) -> str:
    """The name that a function has in its object, which no other one has."""
    text = f"{wanted.name} {wanted.description}".encode()
    return PREFIX + hashlib.blake2b(text, digest_size=8).hexdigest()


def symbol_in(data: bytes) -> str:
    """The name of the function of an object."""
    found = _SYMBOL.search(data)
    if found is None:
        raise AssertionError("the object has no function of a kernel")
    return found.group().decode()


def compiled(wanted: Wanted, target: Target) -> bytes:
    """The object of a function."""
    from uncork.kernels.runtime.llvm import compiled

    return compiled(_text_of(wanted), target)


def _text_of(wanted: Wanted) -> str:
    """The LLVM text of a function of a word, by the name of its own."""
    text = wanted.make()
    head = re.search(rf'define i64 @"{re.escape(wanted.name)}"\((i64\*?)([^)]*)\)', text)
    if head is None or "," in head.group(2):
        raise AssertionError(f"{wanted.name} is no function of one word")
    kind = head.group(1)
    text = text.replace(head.group(), head.group().replace("define", "define internal", 1))
    given = "%p" if kind == "i64*" else "%a"
    return (
        f'{text}\ndefine i64 @"{symbol_of(wanted)}"(i64 %a) {{\n'
        "  %p = inttoptr i64 %a to i64*\n"
        f'  %r = call i64 @"{wanted.name}"({kind} {given})\n'
        "  ret i64 %r\n}\n"
    )
