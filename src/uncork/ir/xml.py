"""XML from strangers: no document types, no entities, bounded depth; errors say line and column."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import NoReturn
from xml.parsers import expat

from uncork.errors import ReadError
from uncork.ir.model import XmlElement

#: Deeper nesting than any serializer writes; sub-graphs in sub-graphs take 4 levels each.
MAX_DEPTH = 200
_HANDLERS = (
    *("StartElementHandler", "EndElementHandler", "CharacterDataHandler"),
    *("StartNamespaceDeclHandler", "StartDoctypeDeclHandler", "EntityDeclHandler"),
)
#: What expat says of a file that ends too early.
_ENDS = tuple(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
)
#: What may stand before the first element: marks of an encoding, its zeros, and spaces.
_BEFORE = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"


def parse(data: bytes) -> ElementTree.Element:
    """The root element.

    Raises ReadError, with line and column, for anything that is not plain well-formed XML.
    """
    ReadError.when(not data.strip(), "the file is empty: copy or convert the model again")
    tree, spaces = ElementTree.TreeBuilder(), set[str | None]()
    with _parser() as parser:
        parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
        parser.CharacterDataHandler, parser.buffer_text = tree.data, True
        parser.StartNamespaceDeclHandler = lambda prefix, _: spaces.add(prefix)
        try:
            _feed(parser, data)
        except ReadError:
            _check_depth(data)
            raise
    root = tree.close()
    if _is_deeper(root, MAX_DEPTH):
        _check_depth(data)
    if spaces or b"xml:" in data:
        _name_spaces(root)
    return root


@contextlib.contextmanager
def _parser() -> Iterator[expat.XMLParserType]:
    """A parser that refuses document types, whose entities it would expand.

    Its handlers know it, and what they build: they are let go at the end, or all of it would wait
    for the garbage collector.
    """
    parser = expat.ParserCreate(namespace_separator="}")

    def refuse_doctype(*_: object) -> NoReturn:
        raise ReadError(
            f"line {parser.CurrentLineNumber}: document type and entity declarations "
            "are refused: no IR file has them"
        )

    parser.StartDoctypeDeclHandler = refuse_doctype
    parser.EntityDeclHandler = refuse_doctype
    try:
        yield parser
    finally:
        for name in _HANDLERS:
            setattr(parser, name, None)


def _feed(parser: expat.XMLParserType, data: bytes) -> None:
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code) if error.code else str(error)
        hint = ""
        if data.lstrip(_BEFORE)[:1] != b"<":
            hint = ": no XML begins so: give the .xml file of an OpenVINO model, or an .onnx file"
        elif error.code in _ENDS:
            hint = ": the file ends too early, as one that was cut short by a copy: copy it again"
        raise ReadError(
            f"not well-formed XML: {message} at line {error.lineno}, column {error.offset}{hint}"
        ) from None
    except ReadError:
        raise
    except (LookupError, ValueError) as error:
        raise ReadError(f"not readable as XML: {error}") from None


def _is_deeper(root: ElementTree.Element, most: int) -> bool:
    level = [root]
    for _ in range(most):
        level = [child for element in level for child in element]
        if not level:
            return False
    return True


def _name_spaces(root: ElementTree.Element) -> None:
    """Give names of a name space, which expat writes `space}name`, as `{space}name`."""
    for element in root.iter():
        element.tag = _with_brace(element.tag)
        named = {_with_brace(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(named)


def _with_brace(name: str) -> str:
    return f"{{{name}" if "}" in name else name


def _check_depth(data: bytes) -> None:
    """Raise ReadError with the line where elements are nested too deep, if they are."""
    depth = 0

    def enter(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        ReadError.when(
            depth > MAX_DEPTH,
            f"line {parser.CurrentLineNumber}: elements are nested more than {MAX_DEPTH} deep",
        )

    def leave(_name: str) -> None:
        nonlocal depth
        depth -= 1

    with _parser() as parser:
        parser.StartElementHandler, parser.EndElementHandler = enter, leave
        try:
            parser.Parse(data, True)
        except ReadError:
            raise
        except (expat.ExpatError, LookupError, ValueError):
            pass  # which is reported already


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
