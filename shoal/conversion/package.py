"""Documents that are zip files of XML: Office Open XML and OpenDocument, with the texts of their drawings.

The sizes of members are checked before anything is unpacked, and a document type declaration is refused,
so that neither a zip bomb nor an entity is ever expanded. Charts and diagrams of terms (SmartArt) are the
drawings that have texts.
"""

from __future__ import annotations

import io
import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal
from xml.etree import ElementTree as ET
from xml.parsers import expat

from shoal.conversion.converted import ConversionError, Draft, broken, cleaned_line, meaningful_title, report

MAX_PACKAGE_BYTES = 256 * 2**20
"""Of the members that are read, unpacked. The XML of a novel has about 5 MB."""
MAX_MEMBERS = 100_000
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")
_ZIP_ENCRYPTED = 0x1
_PROLOG_STEP = 4096
_XML_STEP = 2**16

Element = ET.Element
_Event = Literal["start", "end"]
_MAX_POINTS = 10_000  # of one chart
_MAX_LEVELS = 10  # of categories
_VALUES = ("val", "yVal", "bubbleSize")
_CATEGORIES = ("cat", "xVal")


def local(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def attribute(element: Element, name: str) -> str:
    """Return an attribute by its name without namespace; empty if the element has none."""
    value = element.get(name)
    if value is None:
        for key, value_ in element.items():
            if key.endswith("}" + name):
                return value_
    return value or ""


def child(element: Element | None, *path: str) -> Element | None:
    """Return the first descendant along a path of names, or None."""
    for name in path:
        if element is None:
            return None
        element = next((inner for inner in element if local(inner) == name), None)
    return element


def whole_number(text: str, default: int = 0, *, least: int = 0, most: int = 10**9) -> int:
    """Return the number that an attribute holds, within limits; `default` if it is none."""
    try:
        return min(max(int(text[:20]), least), most)
    except ValueError:
        return default


class Package:
    """The members of a zip file. Every method raises ConversionError for a broken or hostile file."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(_OLE_MAGIC):
            raise _refused_ole(data)
        if not data:
            raise broken("it is empty")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (
            zipfile.BadZipFile,
            ValueError,
            NotImplementedError,
            OSError,
            EOFError,
            OverflowError,
        ) as error:
            raise broken(f"its zip archive cannot be read ({error})") from error
        infos = self._zip.infolist()
        if len(infos) > MAX_MEMBERS:
            raise ConversionError("too_large", f"the file has more than {MAX_MEMBERS:,} parts")
        self._members = {info.filename: info for info in infos}
        self._left = MAX_PACKAGE_BYTES
        self._counted: set[str] = set()
        self._n_parsed = 0
        self._n_xml_bytes = sum(info.file_size for info in infos if info.filename.endswith(".xml"))

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> bytes:
        info = self._members.get(name)
        if info is None:
            raise broken(f"its part {name[:200]!r} is missing")
        if info.flag_bits & _ZIP_ENCRYPTED:
            raise encrypted()
        if name not in self._counted and info.file_size > self._left:
            raise ConversionError(
                "too_large", f"the parts of the file have more than {MAX_PACKAGE_BYTES:,} bytes unpacked"
            )
        if name not in self._counted:
            self._left -= info.file_size
            self._counted.add(name)
        try:
            with self._zip.open(info) as member:
                return member.read(info.file_size)
        except (
            zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError,
            NotImplementedError, RuntimeError,
        ) as error:  # fmt: skip
            raise broken(f"its part {name} cannot be unpacked") from error

    def xml(self, name: str) -> Element:
        """Return the root of a member."""
        data = self.read(name)
        self._n_parsed += len(data)
        self._report(0)
        return parse_xml(data, name)

    def optional_xml(self, name: str) -> Element | None:
        return self.xml(name) if name in self else None

    def children(self, name: str, parent: str) -> Iterator[Element]:
        """Yield each complete child of the elements named `parent`, and forget it afterwards."""
        open_parents: list[Element] = []
        depth = parent_depth = 0
        for event, element in self.events(name):
            if event == "start":
                depth += 1
                if not open_parents and local(element) == parent:
                    open_parents.append(element)
                    parent_depth = depth
            else:
                if open_parents and depth == parent_depth + 1:
                    yield element
                    open_parents[0].clear()
                elif open_parents and depth == parent_depth:
                    open_parents.clear()
                depth -= 1

    def elements(self, name: str, wanted: str) -> Iterator[Element]:
        """Yield each complete element named `wanted`, and empty it afterwards.

        Faster than `children`, for members with millions of elements. They must not contain each other.
        """
        ending = "}" + wanted
        for _, element in self.events(name, ("end",)):
            if element.tag.endswith(ending) or element.tag == wanted:
                yield element
                element.clear()

    def events(self, name: str, kinds: Sequence[_Event] = ("start", "end")) -> Iterator[tuple[str, Element]]:
        """Yield starts and ends of the elements of a member."""
        data = self.read(name)
        _refuse_doctype(data, name)
        parser: ET.XMLPullParser[Element] = ET.XMLPullParser(kinds)
        with _xml_errors(name):
            for start in range(0, len(data), _XML_STEP):
                self._report(start)
                parser.feed(data[start : start + _XML_STEP])
                yield from parser.read_events()  # type: ignore[misc]
            self._n_parsed += len(data)
            parser.close()
            yield from parser.read_events()  # type: ignore[misc]

    def _report(self, n_more: int) -> None:
        report(self._n_parsed + n_more, self._n_xml_bytes)

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """Return kind and target of the relations of a part by id, without targets outside of the file."""
        folder, _, file = part.rpartition("/")
        root = self.optional_xml(f"{folder}/_rels/{file}.rels".lstrip("/"))
        found: dict[str, tuple[str, str]] = {}
        seen: set[tuple[str, str]] = set()
        for relation in root if root is not None else ():
            if relation.get("TargetMode") == "External":
                continue
            target = relation.get("Target", "")
            path = target if target.startswith("/") else posixpath.join(folder, target)
            kind = relation.get("Type", "").rpartition("/")[2]
            pair = (kind, posixpath.normpath(path).lstrip("/"))
            if pair not in seen:
                # A part is read once, however often a hostile file names it.
                seen.add(pair)
                found[relation.get("Id", "")] = pair
        return found

    def main_part(self, *usual: str) -> str:
        """Return the name of the part that holds the document; `usual` is tried if none is declared."""
        declared = [target for kind, target in self.relations("").values() if kind == "officeDocument"]
        for name in (*declared, *usual):
            if name in self:
                return name
        raise broken("it is not a document of the kind that its name says")

    def title(self) -> str:
        """Return the title of an Office Open XML document."""
        properties = self.optional_xml("docProps/core.xml")
        title = child(properties, "title")
        return meaningful_title(title.text or "") if title is not None else ""


def parse_xml(data: bytes, name: str) -> Element:
    """Return the root of the part `name` of a file. Raises ConversionError, also for a document type."""
    _refuse_doctype(data, name)
    with _xml_errors(name):
        return ET.fromstring(data)  # noqa: S314 - without a document type there are no entities


@contextmanager
def _xml_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (ET.ParseError, ValueError, LookupError) as error:
        raise broken(f"its part {name} is not valid XML ({error})") from error


@contextmanager
def nesting_errors() -> Iterator[None]:
    """Turn the exhaustion of Python's stack, which only elements nested by malice reach, into an error."""
    try:
        yield
    except RecursionError as error:
        raise broken("its parts are nested too deeply") from error


def encrypted() -> ConversionError:
    return ConversionError("encrypted", "the file is protected by a password")


def _refused_ole(data: bytes) -> ConversionError:
    if _ENCRYPTED_STREAM in data:
        return encrypted()
    return ConversionError(
        "unsupported", "the file has the format of Office before 2007", "save it as .docx, .pptx or .xlsx"
    )


def _refuse_doctype(data: bytes, name: str) -> None:
    """Raise ConversionError if a document type is declared; only one can define entities."""
    seen: list[str] = []
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: seen.append("doctype")
    parser.StartElementHandler = lambda *_: seen.append("element")
    at = 0
    try:
        while not seen and at < len(data):
            parser.Parse(data[at : at + _PROLOG_STEP])
            at += _PROLOG_STEP
    except (expat.ExpatError, ValueError, LookupError) as error:
        if not seen:
            raise broken(f"its part {name} is not valid XML ({error})") from error
    if "doctype" in seen:
        raise broken(f"its part {name} declares a document type, which documents of this format never do")
    if not seen:
        raise broken(f"its part {name} is empty")


def write_drawing(draft: Draft, package: Package, part: str) -> None:
    """Write the texts of a chart, as titles and a table of its values, or of a diagram, as a list."""
    root = package.optional_xml(part)
    if root is not None and local(root) == "chartSpace":
        _write_chart(draft, root)
    elif root is not None:
        for text in diagram_texts(root):
            draft.item(0, text)


def diagram_texts(root: Element) -> list[str]:
    """Return the terms of a diagram."""
    return [text for point in _all(root, "pt") if (text := _text(point))]


def _write_chart(draft: Draft, root: Element) -> None:
    titles = [text for title in _all(root, "title") if (text := _text(title) or _cached(title))]
    draft.paragraph("; ".join(titles))
    names: list[str] = []
    rows: dict[int, dict[int, str]] = {}
    categories: dict[int, str] = {}
    left = _MAX_POINTS
    for series in _all(root, "ser"):
        name = child(series, "tx")
        names.append("" if name is None else _text(name) or _cached(name) or _direct(name))
        for element in series:
            is_shown = local(element) in (*_VALUES, *_CATEGORIES)
            points = (_levels(element, left) or _points(element, left)) if is_shown else []
            left -= len(points)
            for at, text in points:
                if local(element) in _CATEGORIES:
                    categories.setdefault(at, text)
                else:
                    cells = rows.setdefault(at, {})
                    cells[len(names)] = f"{cells[len(names)]}; {text}" if len(names) in cells else text
    table = [["", *names]]
    table += [
        [categories.get(at, ""), *(rows.get(at, {}).get(i + 1, "") for i in range(len(names)))]
        for at in sorted({*rows, *categories})
    ]
    draft.table(table)
    draft.paragraph("; ".join(text for shape in _all(root, "txBody") if (text := _text(shape))))


def _points(element: Element, most: int) -> list[tuple[int, str]]:
    """Return the values that the file keeps of a range of cells, with their numbers."""
    found = []
    for point in _all(element, "pt")[:most]:
        value = child(point, "v")
        if value is not None and value.text:
            found.append((whole_number(point.get("idx", "")), _number(cleaned_line(value.text))))
    return found


def _levels(element: Element, most: int) -> list[tuple[int, str]]:
    """Return the categories of several levels as one: an outer one goes on until the next. Empty if it has
    no levels."""
    levels = [dict(_points(level, most)) for level in _all(element, "lvl")[:_MAX_LEVELS]]
    current: dict[int, str] = {}
    found: list[tuple[int, str]] = []
    for at, inner in sorted(levels[0].items()) if levels else ():
        for depth, level in enumerate(levels[1:]):
            current[depth] = level.get(at, current.get(depth, ""))
        found.append((at, " ".join(filter(None, [*reversed(current.values()), inner]))))
    return found


def _direct(element: Element) -> str:
    """Return a text that is in the chart itself, not in cells."""
    value = child(element, "v")
    return "" if value is None else cleaned_line(value.text or "")


def _cached(element: Element) -> str:
    return " ".join(text for _, text in _points(element, _MAX_POINTS))


def _number(text: str) -> str:
    try:
        return format(float(text), ".15g")
    except ValueError:
        return text


def _text(element: Element) -> str:
    """Return the text of the paragraphs of a drawing as one line."""
    paragraphs = ("".join(run.text or "" for run in _all(p, "t")) for p in _all(element, "p"))
    return cleaned_line(" ".join(paragraphs))


def _all(element: Element, name: str) -> list[Element]:
    return [inner for inner in element.iter() if isinstance(inner.tag, str) and local(inner) == name]
