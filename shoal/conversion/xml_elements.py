"""Small XML files, such as the directory of an e-book, as a flat list of elements."""

from __future__ import annotations

from typing import Any, NamedTuple
from xml.parsers import expat

from shoal.conversion.converted import broken

MAX_ELEMENTS = 500_000
MAX_DEPTH = 200
_MAX_TEXT_CHARS = 10_000


class XmlElement(NamedTuple):
    """An element: its name and its attributes without prefixes, and the text directly in it."""

    name: str
    attributes: dict[str, str]
    texts: list[str]

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()


class _RefusedError(Exception):
    pass


def xml_elements(data: bytes) -> list[XmlElement]:
    """Return the elements of an XML file in document order.

    No entity is resolved: a file that declares one is refused. Raises ConversionError.
    """
    elements: list[XmlElement] = []
    stack: list[XmlElement] = []
    parser = expat.ParserCreate()

    def begin(name: str, attributes: dict[str, str]) -> None:
        if len(elements) >= MAX_ELEMENTS or len(stack) >= MAX_DEPTH:
            raise _RefusedError("too many elements")
        element = XmlElement(_local(name), {_local(key): value for key, value in attributes.items()}, [])
        elements.append(element)
        stack.append(element)

    def end(_name: str) -> None:
        stack.pop()

    def add_text(text: str) -> None:
        if stack and len(stack[-1].texts) < _MAX_TEXT_CHARS:
            stack[-1].texts.append(text[:_MAX_TEXT_CHARS])

    def refuse(*_arguments: Any) -> None:
        raise _RefusedError("an entity is declared")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = add_text
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, _RefusedError, ValueError, LookupError) as error:
        raise broken(f"its XML cannot be read ({error})") from None
    return elements


def _local(name: str) -> str:
    return name.rpartition(":")[2]
