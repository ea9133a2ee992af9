"""XML from strangers: no document types, no entities, bounded depth; errors say line and column."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import NoReturn
from xml.parsers import expat

from uncork.errors import ReadError
from uncork.ir.model import XmlElement

#: Deeper nesting than any serializer writes; sub-graphs in sub-graphs take 4 levels each.
MAX_DEPTH = 200


def parse(data: bytes) -> ElementTree.Element:
    """The root element.

    Raises ReadError, with line and column, for anything that is not plain well-formed XML.
    """
    if not data.strip():
        raise ReadError("the file is empty")
    _check(data)
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise ReadError(f"not well-formed XML: {error}") from None


def _check(data: bytes) -> None:
    """A first pass that builds nothing: expat would expand entities, and a tree of any depth would
    be built.
    """
    parser = expat.ParserCreate()
    depth = 0

    def refuse_doctype(*_: object) -> NoReturn:
        raise ReadError(
            f"line {parser.CurrentLineNumber}: document type and entity declarations "
            "are refused: no IR file has them"
        )

    def enter(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise ReadError(
                f"line {parser.CurrentLineNumber}: elements are nested more than {MAX_DEPTH} deep"
            )

    def leave(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.EntityDeclHandler = refuse_doctype
    parser.StartElementHandler = enter
    parser.EndElementHandler = leave
    parser.ordered_attributes = True
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code) if error.code else str(error)
        raise ReadError(
            f"not well-formed XML: {message} at line {error.lineno}, column {error.offset}"
        ) from None
    except (LookupError, ValueError) as error:
        raise ReadError(f"not readable as XML: {error}") from None


def frozen(element: ElementTree.Element) -> XmlElement:
    """An element as plain data. Its depth is bounded by `parse`."""
    return XmlElement(
        element.tag,
        tuple(element.attrib.items()),
        (element.text or "").strip(),
        tuple(frozen(child) for child in element),
    )


def thawed(element: XmlElement) -> ElementTree.Element:
    """The inverse of `frozen`."""
    result = ElementTree.Element(element.tag, dict(element.attributes))
    if element.text:
        result.text = element.text
    result.extend(thawed(child) for child in element.children)
    return result
