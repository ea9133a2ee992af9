"""The reference of the Python interface as pages, from signatures and docstrings: `tools.site` puts
them on the site.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

#: Every page: what stands above, and the names on it, below `uncork`.
PAGES = {
    "calling": (
        "Loading and calling",
        [
            *("load", "compile_model", "compile_to", "CompiledModel", "Results", "InferRequest"),
            *("Live", "AsyncInferQueue", "Sessions", "VariableState"),
        ],
    ),
    "models": (
        "Models",
        ["read_model", "from_torch", "write_model", "Model", "ModelPort", "Builder"],
    ),
    "surgery": ("Changing models", ["with_constants", "surgery"]),
    "functional": ("Functions on arrays", ["functional"]),
    "elsewhere": (
        "Scoring, comparing, exporting",
        [
            *("score.score", "score.Scorer", "compare.compare", "shrink.shrink"),
            *("to_onnx", "write_onnx", "to_torch", "write_torch"),
        ],
    ),
    "types": ("Types", ["ElementType", "PartialShape", "Dimension"]),
    "errors": (
        "Errors",
        [
            *("UncorkError", "ReadError", "ValidationError", "UnsupportedError", "CompileError"),
            *("InputError", "Problem", "UncorkWarning"),
        ],
    ),
}
_WIDE = 88  # signatures longer than this get a line for each parameter


def page(name: str) -> str:
    """A page in Markdown."""
    title, names = PAGES[name]
    return f"# {title}\n\n" + "\n".join(part for one in names for part in _entries(one))


def _entries(name: str) -> Iterator[str]:
    found = _found(name)
    if not inspect.ismodule(found):
        yield _entry(name, found)
        return
    for inner in found.__all__:
        if inner not in PAGES["surgery"][1]:
            yield _entry(f"{name}.{inner}", getattr(found, inner))


def _found(name: str) -> Any:
    path, _, last = name.rpartition(".")
    if name in ("functional", "surgery"):
        return importlib.import_module(f"uncork.{name}")
    return getattr(importlib.import_module(f"uncork.{path}" if path else "uncork"), last)


def _entry(name: str, found: Any) -> str:
    # `uncork.score` is a module that can be called: people write it so.
    called = "score" if name == "score.score" else name
    text = f"## `uncork.{called}`\n\n"
    if inspect.isclass(found) and (
        issubclass(found, (enum.Enum, BaseException)) or not _is_made(found)
    ):
        signature = ""
    else:
        signature = _signature(f"uncork.{called}", found)
    text += f"{signature}{_doc(found)}\n"
    if inspect.isclass(found):
        text += "".join(_member(key, value) for key, value in _members(found))
    return text


def _is_made(found: type) -> bool:
    """Whether people make objects of the class themselves: then its making is told."""
    return found.__name__ in ("Builder", "Scorer", "PartialShape", "Dimension", "AsyncInferQueue")


def _members(found: type) -> Iterator[tuple[str, Any]]:
    """What is public of a class and has a docstring, also of its own ancestors."""
    seen: set[str] = set()
    for parent in found.__mro__:
        if not parent.__module__.startswith("uncork"):
            continue
        for key, value in vars(parent).items():
            documented = isinstance(value, (property, classmethod, staticmethod)) or callable(value)
            if not key.startswith("_") and key not in seen and documented and value.__doc__:
                seen.add(key)
                yield key, value


def _member(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"### `.{name}`\n\n{_doc(value)}\n"
    function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
    return f"### `.{name}()`\n\n{_signature(name, function)}{_doc(function)}\n"


def _signature(name: str, found: Any) -> str:
    """How it is called, with a line for each parameter where one line is not enough."""
    try:
        signature = inspect.signature(found)
    except (ValueError, TypeError):
        return ""
    parts: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(p.startswith("*") for p in parts):
            parts.append("*")
        parts.append(_parameter(parameter))
    result = (
        ""
        if signature.return_annotation is signature.empty
        else f" -> {signature.return_annotation}"
    )
    if inspect.isclass(found):
        result = ""
    text = f"{name}({', '.join(parts)}){result}"
    if len(text) > _WIDE:
        text = f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"
    return f"```python\n{text}\n```\n\n"


def _parameter(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    equals = " = " if kind else "="
    default = "" if parameter.default is parameter.empty else f"{equals}{parameter.default!r}"
    return f"{star}{parameter.name}{kind}{default}"


def _doc(found: Any) -> str:
    text = inspect.cleandoc(found.__doc__ or "")
    return re.sub(r"(?m)((?:^>>> .*\n?)+)", r"```pycon\n\1\n```\n", text) + "\n"
