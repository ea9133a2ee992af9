"""Text of models as data: the one way by which names and strings that stand in a file come into
sources, pages, terminals and command lines.

A model may come from a stranger, and so may every name in it. None of these functions gives
anything that the destination takes for more than text.
"""

from __future__ import annotations

#: Characters of a name that a docstring shows.
_MOST = 60


def in_docstring(text: str, otherwise: str = "model") -> str:
    """Text inside a docstring of Python: no character ends it, or begins an escape."""
    kept = "".join(c if c.isprintable() and c not in '"\\`' else "_" for c in text)
    return kept[:_MOST] or otherwise


def in_html(text: str) -> str:
    """Text inside an element or an attribute of HTML. What no page may hold is shown as an
    escape.
    """
    from html import escape  # its list of all entities takes a while to load

    return escape(in_terminal(text, lines=True))


def in_script(value: object) -> str:
    """Data as JSON inside a script element of HTML: nothing in it ends the element, or begins a
    comment. The page's script must show texts as texts.
    """
    import json

    text = json.dumps(value, separators=(",", ":"))  # ASCII
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def in_terminal(text: str, lines: bool = False) -> str:
    """Text on a terminal, without characters that would steer it, break a line or hide: those are
    written as escapes. `lines`: ends of lines stay.
    """
    if text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text
    )


def in_shell(text: str) -> str:
    """Text as one word of a command line."""
    import shlex

    return shlex.quote(in_terminal(text))
