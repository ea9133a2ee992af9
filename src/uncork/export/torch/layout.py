"""Statements laid out in lines of at most 100 characters, as the usual formatters do."""

from __future__ import annotations

from collections.abc import Iterator

WIDTH = 100
_OPEN, _CLOSE = "([{", ")]}"


def laid_out(statement: str, indent: int) -> list[str]:
    """The lines of a statement. One that begins with spaces is inside the one before."""
    inner = len(statement) - len(statement.lstrip(" "))
    indent, statement = indent + inner, statement.lstrip(" ")
    line = " " * indent + statement
    if len(line) <= WIDTH or '"""' in statement:
        return [line]
    targets, equals, value = statement.partition(" = ")
    if equals and ", " in targets and not any(c in targets for c in "([{"):
        before = [" " * indent + "(", *(" " * (indent + 4) + f"{t}," for t in targets.split(", "))]
        inner_lines = laid_out(f") = {value}", indent)
        return [*before, *inner_lines]
    start = _last_bracket(statement)
    if start is None or len(statement[: start + 1]) + indent > WIDTH:
        if equals and not value.startswith("("):
            return [" " * indent + f"{targets} = (", " " * (indent + 4) + value, " " * indent + ")"]
        return [line]
    end = _matching(statement, start)
    head, inside, tail = statement[: start + 1], statement[start + 1 : end], statement[end:]
    parts = _split(inside)
    if not parts:
        return [line]
    ends = inside.rstrip().endswith(",")  # as a tuple of one does
    comma = "," if ends or _takes_comma(statement, start, parts) else ""
    lines = [" " * indent + head]
    for part in parts:
        inner_lines = laid_out(part, indent + 4)
        inner_lines[-1] += comma if part is parts[-1] else ","
        lines.extend(inner_lines)
    return [*lines, " " * indent + tail]


def _outside_quotes(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """Each character that is in no quotes, with its index and how many brackets it is in, itself
    included.
    """
    depth, quoted = 0, ""
    for index in range(start, len(text)):
        character = text[index]
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        else:
            depth += character in _OPEN
            yield index, character, depth
            depth = max(depth - (character in _CLOSE), 0)


def _last_bracket(statement: str) -> int | None:
    """Where the outermost bracket begins that holds most of the statement."""
    best, start, longest = None, 0, 1
    for index, character, depth in _outside_quotes(statement):
        if depth == 1 and character in _OPEN:
            start = index
        elif depth == 1 and character in _CLOSE and index - start > longest:
            best, longest = start, index - start
    return best


def _matching(statement: str, start: int) -> int:
    """Where the bracket ends that begins at `start`."""
    for index, character, depth in _outside_quotes(statement, start):
        if depth == 1 and character in _CLOSE:
            return index
    return len(statement) - 1


def _split(text: str) -> list[str]:
    """What stands between the commas of the outermost level."""
    commas = [i for i, character, depth in _outside_quotes(text) if character == "," and not depth]
    bounds = zip([0, *(i + 1 for i in commas)], [*commas, len(text)], strict=True)
    return [part for part in (text[a:b].strip() for a, b in bounds) if part]


def _takes_comma(statement: str, start: int, parts: list[str]) -> bool:
    """Whether a comma after the last part leaves the meaning of the bracket as it is."""
    behind_value = start > 0 and (statement[start - 1].isalnum() or statement[start - 1] in "_)]")
    is_group = statement[start] == "(" and not behind_value
    subscript = statement[start] == "[" and behind_value
    return not (len(parts) == 1 and (is_group or subscript)) and " for " not in parts[-1]
