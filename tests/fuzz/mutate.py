"""Changing a model's files at random: in their structure, where a mistake of a converter would be,
and in their bytes.
"""

from __future__ import annotations

import random
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

from uncork.ops import type_names
from uncork.types import ElementType

NUMBERS = [
    "-1",
    "0",
    "1",
    "2",
    "3",
    "5",
    "7",
    "16",
    "64",
    "1000",
    "-2",
    "-7",
    "100000",
    "2147483647",
    "2147483648",
    "-2147483649",
]
NUMBERS += [
    "4294967296",
    "1099511627776",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
]
TEXTS = [
    "",
    "0.5",
    "-0.0",
    "1e30",
    "1e-320",
    "nan",
    "inf",
    "-inf",
    "true",
    "false",
    "?",
    "...",
    "1..",
    "..8",
    "2..1",
    "1,2,3",
    "-1,-1",
    "0,0",
]
TEXTS += [
    "?,?",
    "0..0",
    "a",
    "1" * 50,
    " ",
    ",",
    "é",
    "[1]",
    "1;2",
    "0x10",
    "1_0",
    "numpy",
    "none",
    "pdpd",
    "same_upper",
    "valid",
    "explicit",
]
TEXTS += [t.name for t in ElementType]
_NUMBER = re.compile(r"-?\d+")


class Mutation:
    """One run of changes on one model; `log` says what was done."""

    def __init__(self, xml: bytes, weights: bytes, generator: random.Random) -> None:
        self.xml = xml
        self.weights = weights
        self.generator = generator
        self.log: list[str] = []
        #: Which file is no ordinary one, and what it is instead.
        self.strange: tuple[str | None, str | None] = None, None

    def apply(self) -> None:
        """Change the files."""
        generator = self.generator
        kind = generator.random()
        if kind < 0.3 and self.weights:
            # Sizes, axes and indices are mostly constants: the file stays good, the numbers do not.
            self._say_less()
            for _ in range(_count(generator)):
                self.weights = self._values_changed(self.weights, "bin")
            return
        if kind < 0.92:
            root = ElementTree.fromstring(self.xml)
            structure = _Structure(root, generator, self.log)
            if generator.random() < 0.85:
                structure.say_less()
            for _ in range(_count(generator)):
                structure.change()
            if generator.random() < 0.05:
                structure.change_everywhere()
            self.xml = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
        else:
            for _ in range(_count(generator)):
                self.xml = self._bytes_changed(self.xml, "xml")
        if self.weights and generator.random() < 0.1:
            for _ in range(_count(generator)):
                self.weights = generator.choice([self._bytes_changed, self._values_changed])(
                    self.weights, "bin"
                )

    def _say_less(self) -> None:
        root = ElementTree.fromstring(self.xml)
        _Structure(root, self.generator, self.log).say_less()
        self.xml = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)

    def _bytes_changed(self, data: bytes, name: str) -> bytes:
        generator = self.generator
        place = generator.randrange(len(data) + 1)
        length = min(generator.choice([1, 1, 2, 8, 100]), len(data) - place)
        kind = generator.choice(
            ["flip", "flip", "cut", "drop", "insert", "repeat", "swap", "digit"]
        )
        self.log.append(f"{name}: {kind} {length} bytes at {place}")
        if kind == "flip":
            return (
                data[:place]
                + bytes(b ^ (1 << generator.randrange(8)) for b in data[place : place + length])
                + data[place + length :]
            )
        if kind == "cut":
            return data[:place]
        if kind == "drop":
            return data[:place] + data[place + length :]
        if kind == "insert":
            return data[:place] + generator.randbytes(length) + data[place:]
        if kind == "repeat":
            return data[:place] + data[place : place + length] * 2 + data[place + length :]
        if kind == "swap":
            other = generator.randrange(len(data) + 1)
            first, second = sorted((place, other))
            return (
                data[:first]
                + data[second : second + 8]
                + data[first + 8 : second]
                + data[first : first + 8]
                + data[second + 8 :]
            )
        digits = [m.start() for m in re.finditer(rb"\d", data[place : place + 200])]
        if not digits:
            return data
        spot = place + generator.choice(digits)
        return (
            data[:spot] + generator.choice(b"0123456789-.").to_bytes(1, "little") + data[spot + 1 :]
        )

    def _values_changed(self, data: bytes, name: str) -> bytes:
        """A value of eight or four bytes that an index, an axis or a size might have."""
        generator = self.generator
        form = generator.choice(["<q", "<i", "<f", "<d", "<e", "<b"])
        size = struct.calcsize(form)
        if len(data) < size:
            return data
        place = generator.randrange(len(data) - size + 1) // size * size
        if form in "<q<i<b":
            low, high = -(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1
            value: float = generator.choice([n for n in map(int, NUMBERS) if low <= n <= high])
        else:
            value = generator.choice([0.0, -1.0, 1e3, float("nan"), float("inf"), -0.5, 6e4])
        self.log.append(f"{name}: {form} {value} at {place}")
        return data[:place] + struct.pack(form, value) + data[place + size :]


def _count(generator: random.Random) -> int:
    return generator.choice([1, 1, 1, 2, 3, 5])


class _Structure:
    """The tree of a file."""

    def __init__(self, root: ElementTree.Element, generator: random.Random, log: list[str]) -> None:
        self.root, self.generator, self.log = root, generator, log

    def change(self) -> None:
        """One change, most often where it matters."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.change_operation, 16),
            (self.change_parameter_shape, 16),
            (self.change_attribute, 4),
            (self.change_number, 6),
            (self.drop_attribute, 2),
            (self.swap_attribute, 2),
            (self.change_type, 3),
            (self.change_element_type, 3),
            (self.change_parameter_type, 4),
            (self.change_shape, 5),
            (self.change_edge, 8),
            (self.change_dimension, 1),
            (self.drop_element, 2),
            (self.repeat_element, 2),
            (self.swap_elements, 2),
            (self.change_version, 3),
            (self.add_input, 3),
        ]
        functions, weights = zip(*kinds, strict=True)
        self.generator.choices(functions, weights)[0]()

    def note(self, text: str) -> None:
        self.log.append(text[:200])

    def say_less(self) -> None:
        """Ports that say nothing of their shapes: else almost every change is a contradiction, and
        nothing gets further.
        """
        for element in self.root.iter("port"):
            for dim in element.findall("dim"):
                element.remove(dim)
        for element in self.root.iterfind(".//input/port"):
            element.attrib.pop("precision", None)
        self.note("ports say nothing of shapes")

    def element(self) -> ElementTree.Element:
        data = [e for e in self.root.iter("data") if e.attrib]
        if data and self.generator.random() < 0.6:
            return self.generator.choice(data)
        return self.generator.choice(list(self.root.iter()))

    def with_attributes(self) -> ElementTree.Element:
        for _ in range(20):
            element = self.element()
            if element.attrib:
                return element
        return self.root

    def change_operation(self) -> None:
        """One attribute of what a layer does: another number, another word, or gone."""
        layers = [
            e
            for e in self.root.iter("layer")
            if e.get("type") not in ("Parameter", "Const", "Result")
        ]
        data = [d for layer in layers for d in layer.iterfind("data") if d.attrib]
        if not data:
            return
        element = self.generator.choice(data)
        name = self.generator.choice(sorted(element.attrib))
        before = element.attrib[name]
        numbers = list(_NUMBER.finditer(before))
        kind = self.generator.random()
        if kind < 0.1:
            del element.attrib[name]
        elif kind < 0.7 and numbers:
            match = self.generator.choice(numbers)
            new = self.generator.choice([*NUMBERS[:12], *NUMBERS[:12], *NUMBERS])
            element.set(name, before[: match.start()] + new + before[match.end() :])
        elif kind < 0.8 and "," in before:
            element.set(
                name,
                before.partition(",")[2]
                if self.generator.random() < 0.5
                else before + "," + before,
            )
        else:
            element.set(name, self.generator.choice(NUMBERS + TEXTS))
        self.note(f"<{element.tag} {name}={before!r}> becomes {element.get(name)!r}")

    def change_parameter_shape(self) -> None:
        """Another shape of an input: more or fewer dimensions, open ones, empty ones, of unknown
        rank.
        """
        data = [
            d
            for e in self.root.iter("layer")
            if e.get("type") == "Parameter"
            for d in e.iterfind("data")
        ]
        if not data:
            return
        element = self.generator.choice(data)
        before = element.get("shape", "")
        parts = [p for p in before.split(",") if p]
        kind = self.generator.choice(["unknown", "open", "one", "more", "fewer", "turn", "wide"])
        if kind == "unknown":
            parts = ["..."]
        elif kind == "open":
            parts = ["?"] * len(parts)
        elif kind == "one" and parts:
            parts[self.generator.randrange(len(parts))] = self.generator.choice(
                ["0", "1", "2", "3", "?", "1..2", "..3", "4"]
            )
        elif kind == "more":
            parts.insert(
                self.generator.randrange(len(parts) + 1),
                self.generator.choice(["0", "1", "2", "?"]),
            )
        elif kind == "fewer" and parts:
            parts.pop(self.generator.randrange(len(parts)))
        elif kind == "turn":
            self.generator.shuffle(parts)
        elif kind == "wide" and parts:
            parts[self.generator.randrange(len(parts))] = self.generator.choice(
                ["0..5", "300", "17", "2..2147483647"]
            )
        element.set("shape", ",".join(parts))
        self.note(f"shape of an input: {before!r} becomes {element.get('shape')!r}")

    def change_parameter_type(self) -> None:
        """An input of another type, and the ports of all layers that said the same follow."""
        layers = [e for e in self.root.iter("layer") if e.get("type") == "Parameter"]
        if not layers:
            return
        data = self.generator.choice(layers).find("data")
        if data is None:
            return
        old, new = (
            data.get("element_type", "f32"),
            self.generator.choice([t.name for t in ElementType]),
        )
        self._retype(old, new)

    def change_attribute(self) -> None:
        element = self.with_attributes()
        name = self.generator.choice(sorted(element.attrib))
        value = self.generator.choice(NUMBERS + TEXTS)
        self.note(f"<{element.tag} {name}={element.get(name)!r}> becomes {value!r}")
        element.set(name, value)

    def change_number(self) -> None:
        """One number in an attribute becomes another, not far from it or very far."""
        element = self.with_attributes()
        names = [n for n in sorted(element.attrib) if _NUMBER.search(element.attrib[n])]
        if not names:
            return
        name = self.generator.choice(names)
        text = element.attrib[name]
        match = self.generator.choice(list(_NUMBER.finditer(text)))
        number = int(match.group()[:30])
        new = self.generator.choice(
            [str(number + 1), str(number - 1), str(-number), str(number * 2), *NUMBERS]
        )
        element.set(name, text[: match.start()] + new + text[match.end() :])
        self.note(f"<{element.tag} {name}={text!r}> becomes {element.get(name)!r}")

    def drop_attribute(self) -> None:
        element = self.with_attributes()
        if element.attrib:
            name = self.generator.choice(sorted(element.attrib))
            self.note(f"<{element.tag}> loses {name}={element.attrib.pop(name)!r}")

    def swap_attribute(self) -> None:
        """Two elements exchange what they say under one name."""
        element = self.with_attributes()
        if not element.attrib:
            return
        name = self.generator.choice(sorted(element.attrib))
        other = self.generator.choice([e for e in self.root.iter() if name in e.attrib])
        first, second = element.attrib[name], other.attrib[name]
        element.set(name, second)
        other.set(name, first)
        self.note(f"<{element.tag} {name}={first!r}> and <{other.tag} {name}={second!r}> swap it")

    def change_type(self) -> None:
        layers = list(self.root.iter("layer"))
        if layers:
            layer = self.generator.choice(layers)
            new = self.generator.choice(type_names())
            self.note(f"layer {layer.get('name')!r}: type {layer.get('type')!r} becomes {new!r}")
            layer.set("type", new)
            layer.set("version", f"opset{self.generator.choice([1, 3, 5, 8, 11, 15, 16])}")

    def change_version(self) -> None:
        layers = list(self.root.iter("layer"))
        if layers:
            layer = self.generator.choice(layers)
            new = f"opset{self.generator.randrange(0, 18)}"
            self.note(
                f"layer {layer.get('name')!r} ({layer.get('type')}): version "
                f"{layer.get('version')!r} becomes {new!r}"
            )
            layer.set("version", new)

    def change_element_type(self) -> None:
        places = [
            (e, n)
            for e in self.root.iter()
            for n in ("element_type", "precision", "destination_type", "output_type")
            if n in e.attrib
        ]
        if places:
            element, name = self.generator.choice(places)
            new = self.generator.choice(list(ElementType))
            self.note(f"<{element.tag} {name}={element.get(name)!r}> becomes {new.name}")
            element.set(name, new.ir_name if name == "precision" else new.name)

    def change_everywhere(self) -> None:
        """One element type becomes another in the whole file."""
        self._retype(
            self.generator.choice(["f32", "i64", "i32", "boolean", "f16"]),
            self.generator.choice([t.name for t in ElementType]),
        )

    def _retype(self, old: str, new: str) -> None:
        if old not in ElementType.__members__:
            return
        spelled = {old: new, ElementType.parse(old).ir_name: ElementType.parse(new).ir_name}
        for element in self.root.iter():
            for name, value in element.attrib.items():
                if value in spelled:
                    element.set(name, spelled[value])
        self.note(f"{old} becomes {new} everywhere")

    def change_shape(self) -> None:
        places = [
            (e, n)
            for e in self.root.iter("data")
            for n in sorted(e.attrib)
            if "," in e.attrib[n] or n == "shape"
        ]
        if not places:
            return
        element, name = self.generator.choice(places)
        parts = element.attrib[name].split(",")
        kind = self.generator.choice(["more", "fewer", "turn", "open", "zero", "big", "copy"])
        place = self.generator.randrange(len(parts))
        if kind == "more":
            parts.insert(place, self.generator.choice(["1", "2", "0", "?", "-1"]))
        elif kind == "fewer":
            parts.pop(place)
        elif kind == "turn":
            self.generator.shuffle(parts)
        else:
            parts[place] = {
                "open": "?",
                "zero": "0",
                "big": self.generator.choice(NUMBERS),
                "copy": self.generator.choice(parts),
            }[kind]
        self.note(f"<{element.tag} {name}={element.get(name)!r}> becomes {','.join(parts)!r}")
        element.set(name, ",".join(parts))

    def change_edge(self) -> None:
        edges = [e for e in self.root.iter("edge") if e.get("from-port") is not None]
        if not edges:
            return
        edge = self.generator.choice(edges)
        end = self.generator.choice(["from", "from", "from", "to"])
        layers = [
            layer
            for layer in self.root.iter("layer")
            if layer.find("output/port" if end == "from" else "input/port") is not None
        ]
        if not layers:
            return
        layer = self.generator.choice(layers)
        ports = layer.findall("output/port" if end == "from" else "input/port")
        before = dict(edge.attrib)
        edge.set(f"{end}-layer", layer.get("id", "0"))
        edge.set(f"{end}-port", self.generator.choice(ports).get("id", "0"))
        self.note(f"edge {before} becomes {dict(edge.attrib)}")

    def add_input(self) -> None:
        """One more input of a layer, from anywhere."""
        layers = [
            layer for layer in self.root.iterfind("layers/layer") if layer.find("input") is not None
        ]
        sources = [
            layer
            for layer in self.root.iterfind("layers/layer")
            if layer.find("output/port") is not None
        ]
        edges = self.root.find("edges")
        if not layers or not sources or edges is None:
            return
        layer, source = self.generator.choice(layers), self.generator.choice(sources)
        inputs = layer.find("input")
        assert inputs is not None
        number = str(1000 + len(inputs))
        ElementTree.SubElement(inputs, "port", {"id": number})
        port = self.generator.choice(source.findall("output/port")).get("id", "0")
        edge = {
            "from-layer": source.get("id", ""),
            "from-port": port,
            "to-layer": layer.get("id", ""),
            "to-port": number,
        }
        ElementTree.SubElement(edges, "edge", edge)
        self.note(f"layer {layer.get('name')!r} also reads {source.get('name')!r}")

    def change_dimension(self) -> None:
        dims = list(self.root.iter("dim"))
        if dims:
            dim = self.generator.choice(dims)
            new = self.generator.choice(NUMBERS + TEXTS)
            self.note(f"<dim>{dim.text}</dim> becomes {new!r}")
            dim.text = new

    def _child(self) -> tuple[ElementTree.Element, ElementTree.Element]:
        parents = [e for e in self.root.iter() if len(e)]
        parent = self.generator.choice(parents)
        return parent, self.generator.choice(list(parent))

    def drop_element(self) -> None:
        if len(self.root):
            parent, child = self._child()
            parent.remove(child)
            self.note(f"<{parent.tag}> loses <{child.tag} {child.attrib}>")

    def repeat_element(self) -> None:
        if len(self.root):
            parent, child = self._child()
            target = self.generator.choice([parent, parent, self.element()])
            if not any(e is target for e in child.iter()):
                target.insert(self.generator.randrange(len(target) + 1), child)
                self.note(f"<{target.tag}> gets one more <{child.tag} {child.attrib}>")

    def swap_elements(self) -> None:
        if len(self.root):
            parent, _ = self._child()
            first, second = (self.generator.randrange(len(parent)) for _ in range(2))
            parent[first], parent[second] = parent[second], parent[first]
            self.note(f"<{parent.tag}>: children {first} and {second} swap")
