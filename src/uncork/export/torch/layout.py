"""Statements laid out in lines of at most 100 characters, as the usual formatters do."""

from __future__ import annotations

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
    comma = "," if _takes_comma(statement, start, parts) else ""
    lines = [" " * indent + head]
    for part in parts:
        inner_lines = laid_out(part, indent + 4)
        inner_lines[-1] += comma if part is parts[-1] else ","
        lines.extend(inner_lines)
    return [*lines, " " * indent + tail]


def _last_bracket(statement: str) -> int | None:
    """Where the outermost bracket begins that holds most of the statement."""
    best, start, depth, longest = None, 0, 0, 1
    quoted = ""
    for index, character in enumerate(statement):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        elif character in _OPEN:
            start = index if depth == 0 else start
            depth += 1
        elif character in _CLOSE:
            depth = max(depth - 1, 0)
            if depth == 0 and best is not None and index <= best:
                continue
            if depth == 0 and index - start > longest and statement[start] in _OPEN:
                best, longest = start, index - start
    return best


def _matching(statement: str, start: int) -> int:
    depth, quoted = 0, ""
    for index in range(start, len(statement)):
        character = statement[index]
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
            if depth == 0:
                return index
    return len(statement) - 1


def _split(text: str) -> list[str]:
    """What stands between the commas of the outermost level."""
    parts, depth, start, quoted = [], 0, 0, ""
    for index, character in enumerate(text):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def _takes_comma(statement: str, start: int, parts: list[str]) -> bool:
    """Whether a comma after the last part leaves the meaning of the bracket as it is."""
    is_group = statement[start] == "(" and (start == 0 or statement[start - 1] in " (=")
    subscript = statement[start] == "[" and start > 0 and statement[start - 1] not in " (=["
    return not (len(parts) == 1 and (is_group or subscript)) and " for " not in parts[-1]
