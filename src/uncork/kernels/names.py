"""The parts of kernels' names that tell what the kernels are specialised for."""

from __future__ import annotations


def flags(spec: object, *attributes: str) -> str:
    """The end of a kernel's name: those of these attributes that are set, each behind an
    underscore.
    """
    return "".join(f"_{attribute}" for attribute in attributes if getattr(spec, attribute))
