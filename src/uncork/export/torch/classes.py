"""Classes from blocks of statements: layers whose names begin alike become a sub-module, and
sub-modules with the same source one class.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from uncork.export.torch.layout import laid_out
from uncork.export.torch.names import (
    MODULE_MEMBERS,
    Names,
    class_name,
    identifier,
    parts_of,
    variable,
)
from uncork.export.torch.types import dtype
from uncork.export.torch.writer import Block, Method, token
from uncork.ops.parameter import Const
from uncork.quoting import in_docstring

#: A variable and a constant as blocks have them.
VARIABLE = re.compile(r"\bv(\d+)__(\w+)\b")
CONSTANT = re.compile(r"\bself\.CONSTANT_(\d+)_")
ASSIGNED = re.compile(r"(?:\bv\d+__\w+(?:, )?)+ = ")
#: Attributes have names up to about this length: the last parts of their layers' names.
_LONGEST = 40
#: A sub-module has at least so many statements.
_LEAST = 3


@dataclass(eq=False)
class Item:
    """A step of a class: a block, or a call of a sub-module with what it reads and gives."""

    path: tuple[str, ...]
    blocks: list[Block]
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    #: Where this is a sub-module: its attribute and its path.
    group: tuple[str, ...] | None = None


def text_of(block: Block) -> str:
    """All statements of a block, those of its bodies too."""
    inner = (text_of(b) for m in block.methods for b in m.blocks)
    return "\n".join([*block.lines, *inner])


def _reads_and_writes(blocks: Sequence[Block]) -> tuple[list[str], list[str]]:
    written: dict[str, None] = {}
    read: dict[str, None] = {}
    for block in blocks:
        for line in block.lines:
            line = line.lstrip()
            found = ASSIGNED.match(line)
            left = found.group() if found else ""
            for name in _variables(line[len(left) :]):
                if name not in written:
                    read[name] = None
            written.update(dict.fromkeys(_variables(left)))
    return list(read), list(written)


def _variables(text: str) -> list[str]:
    return [m.group() for m in VARIABLE.finditer(text)]


def _item(block: Block) -> Item:
    """A step of one block. One with bodies stays outside sub-modules."""
    reads, writes = _reads_and_writes([block])
    path = () if block.methods else tuple(parts_of(block.layer)[:-1])
    return Item(path, [block], reads, writes)


def _contracted(items: Sequence[Item], prefix: tuple[str, ...]) -> list[Item] | None:
    """The steps with those under a prefix made one, in an order in which each comes after what it
    reads; None where that cannot be.
    """
    inside = [i.path[: len(prefix)] == prefix for i in items]
    members = [item for item, is_inside in zip(items, inside, strict=True) if is_inside]
    own = {name for item in members for name in item.writes}
    tainted: set[str] = set()
    before: list[Item] = []
    after: list[Item] = []
    for item, is_inside in zip(items, inside, strict=True):
        late = any(name in tainted for name in item.reads)
        if is_inside:
            if late:
                return None
        elif late or any(name in own for name in item.reads):
            after.append(item)
            tainted.update(item.writes)
        else:
            before.append(item)
    outside = {
        n
        for item, is_inside in zip(items, inside, strict=True)
        if not is_inside
        for n in item.reads
    }
    reads = dict.fromkeys(n for m in members for n in m.reads if n not in own)
    writes = [n for m in members for n in m.writes if n in outside]
    blocks = [b for m in members for b in m.blocks]
    return [*before, Item(prefix, blocks, list(reads), writes, prefix), *after]


def grouped(items: list[Item], depth: int, kept: set[str]) -> list[Item]:
    """The steps of a class, with sub-modules made of those whose layers' names have the next part
    in common.

    `kept` are variables that somebody outside reads.
    """
    waiting, seen = [depth + 1], set[int]()
    while waiting:
        length = waiting.pop()
        if length in seen:
            continue
        seen.add(length)
        counts = Counter(i.path[:length] for i in items if len(i.path) >= length and not i.group)
        if counts and max(counts.values()) == len(items):
            waiting.append(length + 1)
            continue
        for prefix, count in counts.items():
            if count < _LEAST:
                continue
            if _is_list(items, prefix):
                waiting.append(length + 1)
                continue
            guarded = [*items, Item((), [], list(kept))]
            new = _contracted(guarded, prefix)
            if new is not None:
                items = [i for i in new if i.blocks]
            else:
                waiting.append(length + 1)
    return items


def _is_list(items: Sequence[Item], prefix: tuple[str, ...]) -> bool:
    """Whether there are only numbered parts under the prefix: `encoder/0`, `encoder/1`."""
    inside = [i.path for i in items if i.path[: len(prefix)] == prefix and not i.group]
    return all(len(p) > len(prefix) and p[len(prefix)].isdigit() for p in inside)


@dataclass(frozen=True)
class Parts:
    """What a class has beside its blocks: a docstring, statements of `__init__`, methods."""

    document: str
    fields: Sequence[str] = ()
    methods: Sequence[str] = ()


class Renderer:
    """The writer of classes for blocks; equal classes are written once."""

    def __init__(
        self,
        constants: Mapping[int, tuple[str, Const]],
        trained: set[int],
        taken: Sequence[str] = (),
    ) -> None:
        """`taken` are names that members of the whole module have already."""
        self.constants = constants
        self.trained = trained
        self.taken = taken
        self.names = Names()
        self.classes: dict[str, str] = {}
        self._by_text: dict[str, str] = {}
        self.keys: dict[str, int] = {}

    def render(
        self,
        name: str,
        blocks: Sequence[Block],
        arguments: Sequence[str],
        results: str,
        own_parts: Parts,
        path: tuple[str, ...] = (),
        key: str = "",
    ) -> str:
        """Write the class of some blocks and those inside; returns its name."""
        items = grouped([_item(b) for b in blocks], len(path), set(_variables(results)))
        main = "" if path else self.names.unique(name)
        names = _Attributes(path, [*self.taken, *(m.name for m in methods_of(blocks))])
        lines: list[str] = []
        init: list[str] = list(own_parts.fields)
        methods: list[str] = []
        shared = self._shared(items)
        attributes: dict[int, str] = {}

        def attribute(number: int) -> str:
            if number not in attributes:
                attributes[number] = own = names.of(self.constants[number][0])
                self.keys[f"{key}{own}"] = number
                init.append(self._declared(own, number))
            return attributes[number]

        for item in items:
            if item.group is None:
                for block in item.blocks:
                    text = [_with_attributes(line, attribute) for line in block.lines]
                    lines.extend(text)
                    methods.extend(self._methods(block, attribute))
                continue
            own = names.of("/".join(item.group))
            passed = {n for n in _constants_of(item.blocks) if n in shared}
            inner = [_with_arguments(b, passed) for b in item.blocks]
            # No other variable has a number that begins with 0.
            own_names = [f"v0{n}__{names.short(self.constants[n][0])}" for n in sorted(passed)]
            inner_text = _result(item.writes)
            made = self.render(
                class_name(_word(item.group)),
                _renamed_arguments(inner, dict(zip(sorted(passed), own_names, strict=True))),
                [*item.reads, *own_names],
                inner_text,
                Parts(f"Layers `{in_docstring(_pattern(item.group), 'layer')}`."),
                item.group,
                f"{key}{own}.",
            )
            init.append(f"self.{own} = {made}()")
            given = [*item.reads, *(f"self.{attribute(n)}" for n in sorted(passed))]
            lines.append(f"{', '.join(item.writes)} = self.{own}({', '.join(given)})")
        functions = [_function("forward", arguments, lines, results), *methods]
        plain = "\n".join(
            [own_parts.document, *init, *(VARIABLE.sub(_Numbers(), f) for f in functions)]
        )
        if plain not in self._by_text:
            unique = main or self.names.unique(name)
            self._by_text[plain] = unique
            methods = [*map(_named, functions), *own_parts.methods]
            source = _class(unique, own_parts.document, init, methods)
            self.classes[unique] = source
        return self._by_text[plain]

    def _shared(self, items: Sequence[Item]) -> set[int]:
        """Constants that more than one of the items read."""
        counts = Counter(n for item in items for n in set(_constants_of(item.blocks)))
        return {n for n, count in counts.items() if count > 1}

    def _declared(self, name: str, number: int) -> str:
        constant = self.constants[number][1]
        shape = ", ".join(map(str, constant.shape.static)) or "()"
        empty = f"torch.empty({shape}, dtype={dtype(constant.element_type)})"
        if number in self.trained:
            empty = empty.replace(", dtype=torch.float32", "")
            return f"self.{name} = nn.Parameter({empty})"
        return f'self.register_buffer("{name}", {empty})'

    def _methods(self, block: Block, attribute: object) -> Iterator[str]:
        for method in block.methods:
            lines: list[str] = []
            for inner in method.blocks:
                lines.extend(_with_attributes(line, attribute) for line in inner.lines)
            results = ", ".join(_with_attributes(r, attribute) for r in method.results)
            results += "," if len(method.results) == 1 else ""
            yield _function(method.name, method.arguments, lines, f"({results})", method.document)
            for inner in method.blocks:
                yield from self._methods(inner, attribute)


def _function(
    name: str,
    arguments: Sequence[str],
    lines: Sequence[str],
    results: str,
    document: str = "",
) -> str:
    """The statements of a method, its variables not named yet."""
    returned = "tuple[Tensor, ...]" if results.startswith("(") else "Tensor"
    head = ", ".join(["self", *(f"{a}: Tensor" for a in arguments)])
    statements = [f'"""{document}"""'] if document else []
    statements += [*lines, f"return {results}"]
    return "\n".join([f"def {name}({head}) -> {returned}:", *statements])


def _named(text: str) -> str:
    """The source of a method: variables named, statements laid out."""
    # Locals must not hide what the statements call.
    taken = set(re.findall(r"(?<![\w.])[a-z_]\w*(?=\()", text))
    text = VARIABLE.sub(_Locals(Names(taken)), text)
    first, *rest = text.split("\n")
    laid = [line for statement in rest for line in laid_out(statement, 8)]
    return "\n".join([*laid_out(first, 4), *laid])


def _class(name: str, document: str, init: Sequence[str], functions: Sequence[str]) -> str:
    lines = [f"class {name}(nn.Module):", f'    """{document}"""', ""]
    if init:
        lines += ["    def __init__(self) -> None:", "        super().__init__()"]
        lines += [line for statement in init for line in laid_out(statement, 8)]
        lines.append("")
    return "\n".join(lines) + "\n" + "\n\n".join(functions) + "\n"


def _pattern(path: Sequence[str]) -> str:
    """The name that layers of a group have in common, with N for numbers."""
    return "/".join("N" if part.isdigit() else part for part in path)


def _word(path: Sequence[str]) -> str:
    """What a class for this path is called after: the last part that is no number."""
    return next((part for part in reversed(path) if not part.isdigit()), path[-1])


class _Attributes:
    """Names of attributes of one class, without the part that all its layers' names have."""

    def __init__(self, path: tuple[str, ...], taken: Sequence[str]) -> None:
        """`taken` are members that the class has besides."""
        self.path = path
        self.names = Names({*MODULE_MEMBERS, *taken})

    def of(self, layer: str) -> str:
        parts = parts_of(layer)
        rest = parts[len(self.path) :] if tuple(parts[: len(self.path)]) == self.path else parts
        if rest[0].isdigit() and len(rest) < len(parts):
            rest = parts[len(parts) - len(rest) - 1 :]
        while len(rest) > 1 and sum(map(len, rest)) > _LONGEST:
            rest = rest[1:]
        return self.names.unique(identifier("_".join(rest)))

    def short(self, layer: str) -> str:
        """The name of an argument: the last part of the layer's name."""
        return variable(layer)


class _Numbers:
    """Numbers for variables in their order: equal methods become equal texts."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def __call__(self, match: re.Match[str]) -> str:
        return self.found.setdefault(match.group(), f"v{len(self.found)}")


class _Locals:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: dict[str, str] = {}

    def __call__(self, match: re.Match[str]) -> str:
        if match.group() not in self.found:
            self.found[match.group()] = self.names.unique(match.group(2))
        return self.found[match.group()]


def _with_attributes(line: str, attribute: object) -> str:
    assert callable(attribute)
    return CONSTANT.sub(lambda m: f"self.{attribute(int(m.group(1)))}", line)


def _constants_of(blocks: Sequence[Block]) -> list[int]:
    return [int(n) for b in blocks for n in CONSTANT.findall(text_of(b))]


def _with_arguments(block: Block, passed: set[int]) -> Block:
    """A block that has its own lists, so that constants in it may become arguments."""
    methods = [
        replace(m, blocks=tuple(_with_arguments(b, passed) for b in m.blocks))
        for m in block.methods
    ]
    return Block(block.layer, list(block.lines), methods)


def _renamed_arguments(blocks: Sequence[Block], names: Mapping[int, str]) -> list[Block]:
    for block in blocks:
        for number, name in names.items():
            block.lines[:] = [line.replace(token(number), name) for line in block.lines]
    return list(blocks)


def _result(writes: Sequence[str]) -> str:
    return writes[0] if len(writes) == 1 else f"({', '.join(writes)})"


def methods_of(blocks: Sequence[Block]) -> Iterator[Method]:
    """Every body of these blocks, and of the bodies' blocks."""
    for block in blocks:
        for method in block.methods:
            yield method
            yield from methods_of(method.blocks)
