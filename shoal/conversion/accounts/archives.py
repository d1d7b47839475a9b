"""Visible words of documents that are archives of XML: Office Open XML, OpenDocument and EPUB."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from html import unescape
from urllib.parse import unquote

from shoal.conversion.accounts.mail import mhtml_parts
from shoal.conversion.accounts.markup import FilePart, XmlRules, decoded, visible_html, words_of
from shoal.conversion.accounts.rich_text import rtf_parts

MAX_BYTES = 256 * 2**20
"""Of the members that are read, unpacked."""
_MAX_PARTS = 20_000
_MAX_TEXTS = 5_000_000  # shared texts of a workbook
_RELATION = re.compile(r"<(?:[\w.-]+:)?Relationship\s([^<>]*)>")
_ATTRIBUTE = re.compile(r"""([\w.:-]{1,60})\s?=\s?(?:"([^"<]*)"|'([^'<]*)')""")
_WITHOUT_WORDS = {
    "image": "picture",
    "oleObject": "embedded file",
    "package": "embedded file",
    "control": "control",
    "audio": "recording",
    "video": "recording",
    "media": "recording",
}
_WORD = XmlRules(
    ("t",),
    ("p", "br", "tab", "cr", "tc"),
    ("moveFrom", "del", "Fallback", "instrText", "delText"),
    {"txbxContent": "text box", "tbl": "table"},
)
_DRAWING = XmlRules(("t",), ("p", "br", "tc"), ("Fallback",), {"tbl": "table"})
_COMMENTS = XmlRules(("t", "text"), ("p", "br", "comment", "cm", "text"), ("rPh", "Fallback"))
_CHART = XmlRules(
    ("t", "v"),
    ("p", "br", "pt", "ser"),
    ("Fallback",),
    {"numCache": "number", "numLit": "number", "cat": "category", "xVal": "category"},
)
_SHARED = re.compile(r"<(/?)(?:[\w.-]+:)?(si|t|rPh)(?=[\s/>])([^<>]*)>([^<]*)")
_CELLS = re.compile(r"<(/?)(?:[\w.-]+:)?(c|v|t|rPh)(?=[\s/>])([^<>]*)>([^<]*)")
_CELL_KIND = re.compile(r"""\st=["'](\w+)""")
_OF_PART = {
    "header": ("header", _WORD),
    "footer": ("footer", _WORD),
    "footnotes": ("footnote", _WORD),
    "endnotes": ("endnote", _WORD),
    "diagramData": ("diagram", _DRAWING),
    "notesSlide": ("notes", _DRAWING),
    "comments": ("comment", _COMMENTS),
    "threadedComment": ("comment", _COMMENTS),
    "drawing": ("text box", _DRAWING),
}


class Archive:
    """Members of a zip file, up to a limit of bytes. Raises ValueError for one that cannot be read."""

    def __init__(self, data: bytes) -> None:
        self._zip = zipfile.ZipFile(io.BytesIO(data))
        self._sizes = {info.filename: info.file_size for info in self._zip.infolist()}
        self._left = MAX_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._sizes

    def names(self) -> Iterable[str]:
        return self._sizes

    def size(self, name: str) -> int:
        return self._sizes.get(name, 0)

    def read(self, name: str) -> bytes:
        self._left -= self.size(name)
        if self._left < 0:
            raise ValueError("the members are too large")
        with self._zip.open(name) as member:
            return member.read(self.size(name))

    def text(self, name: str) -> str:
        return decoded(self.read(name)) if name in self else ""


def _attributes(text: str) -> dict[str, str]:
    """Return attributes by their names without prefixes."""
    return {
        name.rpartition(":")[2]: unescape(first or second) for name, first, second in _ATTRIBUTE.findall(text)
    }


# Office Open XML


class _Office:
    """The parts of a document that can be reached from its main part."""

    def __init__(self, data: bytes) -> None:
        self.archive = Archive(data)
        self.seen: set[str] = set()

    def relations(self, part: str) -> list[tuple[str, str, str]]:
        """Return id, kind and target of the relations of a part, in order."""
        folder, _, file = part.rpartition("/")
        found = []
        for match in _RELATION.finditer(self.archive.text(f"{folder}/_rels/{file}.rels".lstrip("/"))):
            values = _attributes(match.group(1))
            target = values.get("Target", "")
            if values.get("TargetMode") != "External" and target:
                path = target if target.startswith("/") else posixpath.join(folder, target)
                kind = values.get("Type", "").rpartition("/")[2]
                found.append((values.get("Id", ""), kind, posixpath.normpath(path).lstrip("/")))
        return found

    def main(self) -> str:
        return next((target for _, kind, target in self.relations("") if kind == "officeDocument"), "")

    def around(self, part: str, place: str) -> Iterator[FilePart]:
        """Yield the parts that a part leads to: comments, drawings, charts, pictures."""
        for _, kind, target in self.relations(part):
            if target not in self.archive or target in self.seen or len(self.seen) > _MAX_PARTS:
                continue
            if kind in _WITHOUT_WORDS:
                self.seen.add(target)
                yield FilePart(_WITHOUT_WORDS[kind], place or target, n_bytes=self.archive.size(target))
            elif kind in _OF_PART:
                self.seen.add(target)
                name, rules = _OF_PART[kind]
                xml = self.archive.text(target)
                if name == "comment":
                    # Excel writes each comment of a thread a second time, after words to older versions.
                    xml = "<comment ".join(t for t in xml.split("<comment ") if "[Threaded comment]" not in t)
                yield from _parts_of(rules.visible(xml, name), place or target)
                yield from self.around(target, place)
            elif kind in ("chart", "chartEx"):
                self.seen.add(target)
                yield _chart(self.archive.text(target), place or target)
            elif kind == "aFChunk":
                self.seen.add(target)
                yield from _chunk(self.archive.read(target), target)


def _parts_of(texts: dict[str, str], place: str) -> Iterator[FilePart]:
    for kind, text in texts.items():
        if words := words_of(text):
            yield FilePart(kind, place, words)


def _chart(xml: str, place: str) -> FilePart:
    """Return the words of a chart. Categories, which each series repeats, count once."""
    texts = _CHART.visible(xml)
    numbers = texts.get("number", "").split()
    categories = list(dict.fromkeys(texts.get("category", "").split("\n")))
    return FilePart(
        "chart", place, words_of("\n".join([texts.get("text", ""), *categories])), n_numbers=len(numbers)
    )


def _chunk(data: bytes, name: str) -> Iterator[FilePart]:
    start = data[:200].lstrip().lower()
    if data.startswith(b"PK"):
        yield from (FilePart("document inside", name, part.words) for part in docx_parts(data) if part.words)
    elif b"mime-version:" in data[:2000].lower():
        yield from (FilePart("document inside", name, part.words) for part in mhtml_parts(data))
    elif start.startswith(b"<") or b"<html" in start:
        yield FilePart("document inside", name, words_of(visible_html(decoded(data))))
    elif start.startswith(b"{\\rtf"):
        yield from (FilePart("document inside", name, part.words) for part in rtf_parts(data))
    else:
        yield FilePart("document inside", name, words_of(decoded(data)))


def docx_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the parts of a DOCX file with visible words: no deleted text and no instructions of fields."""
    office = _Office(data)
    main = office.main()
    yield from _parts_of(_WORD.visible(office.archive.text(main)), "")
    yield from office.around(main, "")


def pptx_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the slides in their list, hidden ones too, with what belongs to them but their masters."""
    office = _Office(data)
    main = office.main()
    targets = {id_: target for id_, _, target in office.relations(main)}
    listed = re.findall(r"<(?:[\w.-]+:)?sldId\s([^<>]*)>", office.archive.text(main))
    ids = [re.search(r"""\b\w{1,40}:id\s?=\s?["']([^"']{1,200})""", slide) for slide in listed]
    for number, found in enumerate(ids, 1):
        part = targets.get(found.group(1), "") if found else ""
        if part in office.archive and part not in office.seen:
            office.seen.add(part)
            place = f"slide {number}"
            yield from _parts_of(_DRAWING.visible(office.archive.text(part)), place)
            yield from office.around(part, place)


def xlsx_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the cells of each sheet, hidden ones too, and its comments and drawings.

    A number is one word: the file has its value, and people see it in a format.
    """
    office = _Office(data)
    main = office.main()
    relations = office.relations(main)
    targets = {id_: target for id_, _, target in relations}
    shared: list[str] = []
    for _, kind, target in relations:
        if kind == "sharedStrings":
            shared = _shared_texts(office.archive.text(target))
    for sheet in re.findall(r"<(?:[\w.-]+:)?sheet\s([^<>]*)>", office.archive.text(main)):
        name = _attributes(sheet).get("name", "")
        found = re.search(r"""\b\w{1,40}:id\s?=\s?["']([^"']{1,200})""", sheet)
        part = targets.get(found.group(1), "") if found else ""
        if part in office.archive and part not in office.seen:
            office.seen.add(part)
            place = f"sheet {name}"
            yield _sheet(office.archive.text(part), shared, place)
            yield from office.around(part, place)


def _shared_texts(xml: str) -> list[str]:
    texts: list[str] = []
    is_phonetic = False
    for match in _SHARED.finditer(xml):
        closing, name, attributes, text = match.groups()
        if name == "rPh":
            is_phonetic = not closing
        elif name == "si" and not closing:
            texts.append("")
        elif name == "t" and not closing and not is_phonetic and texts and not attributes.endswith("/"):
            texts[-1] += unescape(text)
        if len(texts) > _MAX_TEXTS:
            raise ValueError("too many texts")
    return texts


def _sheet(xml: str, shared: list[str], place: str) -> FilePart:
    strings: Counter[int] = Counter()
    counts: Counter[str] = Counter()
    n_numbers = 0
    kind = ""
    is_phonetic = False
    for match in _CELLS.finditer(xml):
        closing, name, attributes, text = match.groups()
        if name == "rPh":
            is_phonetic = not closing
        elif closing or not (text or name == "c"):
            continue
        elif name == "c":
            found = _CELL_KIND.search(attributes)
            kind = found.group(1) if found else "n"
        elif kind == "s" and name == "v":
            strings[int(text)] += 1
        elif (kind == "inlineStr" and name == "t" and not is_phonetic) or (kind == "str" and name == "v"):
            counts.update(words_of(unescape(text)))
        elif kind in ("n", "d") and name == "v":
            n_numbers += 1
    for index, times in strings.items():
        if 0 <= index < len(shared):
            for word in words_of(shared[index]):
                counts[word] += times
    return FilePart("cells", place, counts=counts, n_numbers=n_numbers)


# OpenDocument

_ODF_HIDDEN = frozenset(
    [
        "tracked-changes",
        "forms",
        "scripts",
        "sequence-decls",
        "variable-decls",
        "user-field-decls",
        "dde-connection-decls",
        "note-citation",
        "title",
        "desc",
        "index-title-template",
        "creator",
        "date",
        "date-string",
        "sender-initials",
        "hidden-text",
        "table-of-content-source",
        "illustration-index-source",
        "table-index-source",
        "object-index-source",
        "user-index-source",
        "alphabetical-index-source",
        "bibliography-source",
        "footer-decl",
        "header-decl",
        "date-time-decl",
        "event-listeners",
        "annotation-end",
        "image-map",
        "calculation-settings",
        "content-validations",
        "database-ranges",
        "named-expressions",
    ]
)
_ODF_KINDS = {
    "annotation": "comment",
    "notes": "notes",
    "text-box": "text box",
    "table": "table",
    "note-body": "footnote",
    "header": "header",
    "header-left": "header",
    "header-first": "header",
    "footer": "footer",
    "footer-left": "footer",
    "footer-first": "footer",
}
_ODF = XmlRules((), (), _ODF_HIDDEN, _ODF_KINDS)
_CHART_ODF = XmlRules((), (), _ODF_HIDDEN - {"title"})
_ODF_BREAKS = frozenset(["p", "h", "tab", "line-break", "s", "table-cell", "list-item", "frame", "page"])
_ODF.breaks = _CHART_ODF.breaks = _ODF_BREAKS
_BODY = re.compile(r"<(?:[\w.-]+:)?body[\s>]")
_MASTERS = re.compile(r"<(?:[\w.-]+:)?master-styles[\s>]")
_PAGE = re.compile(r"<draw:page[\s>]")
_TABLE = re.compile(r"<table:table[\s>]")
_NAME = re.compile(r"""\s(?:table|draw):name=["']([^"'<>]{0,100})""")
_ODF_CELL = re.compile(r"<(/?)(?:[\w.-]+:)?table-cell(?=[\s/>])([^<>]*)>")
_ODF_NUMBER = re.compile(r"""value-type=["'](?:float|percentage|currency|date|time|boolean)""")


def opendocument_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the text, each slide or each sheet, and headers and footers."""
    archive = Archive(data)
    content = archive.text("content.xml")
    found = _BODY.search(content)
    body = content[found.start() :] if found else ""
    if "<office:presentation" in body[:500] or "<office:drawing" in body[:500]:
        for number, page in enumerate(_divided(body, _PAGE), 1):
            yield from _parts_of(_ODF.visible(page), f"slide {number}")
    elif "<office:spreadsheet" in body[:500]:
        for sheet in _divided(body, _TABLE):
            name = _NAME.search(sheet[:1000])
            text, n_numbers = _without_numbers(sheet)
            place = f"sheet {unescape(name.group(1)) if name else ''}"
            parts = list(_parts_of(_ODF.visible(text), place))
            yield from parts
            yield FilePart("cells", place, n_numbers=n_numbers)
    else:
        yield from _parts_of(_ODF.visible(body), "")
        styles = archive.text("styles.xml")
        if (masters := _MASTERS.search(styles)) is not None:
            yield from _parts_of(_ODF.visible(styles[masters.start() :]), "")
    for member in archive.names():
        if member.startswith("Pictures/") and not member.endswith("/"):
            yield FilePart("picture", member, n_bytes=archive.size(member))
        elif member.startswith("Object ") and member.endswith("/content.xml"):
            inner = archive.text(member)
            start = inner.find("<office:chart")
            if start >= 0:
                text, n_numbers = _without_numbers(inner[start:])
                texts = _CHART_ODF.visible(text)
                words = words_of("\n".join(texts.values()))
                yield FilePart("chart", member, words, n_numbers=n_numbers)
            else:
                yield FilePart("embedded file", member, n_bytes=archive.size(member))


def _divided(body: str, mark: re.Pattern[str]) -> list[str]:
    starts = [match.start() for match in mark.finditer(body)]
    return [body[a:b] for a, b in zip(starts, [*starts[1:], len(body)], strict=True)]


def _without_numbers(sheet: str) -> tuple[str, int]:
    """Return a sheet without the texts of cells whose value is a number, and the number of these."""
    pieces: list[str] = []
    at = n_numbers = 0
    is_number = False
    for match in _ODF_CELL.finditer(sheet):
        if is_number:
            # Comments stay.
            cell = sheet[at : match.start()]
            start = cell.find("<office:annotation")
            pieces.append(cell[start : cell.rfind("</office:annotation>") + 20] if start >= 0 else "")
        else:
            pieces.append(sheet[at : match.start()])
        at = match.end()
        attributes = match.group(2)
        is_number = (
            not match.group(1) and bool(_ODF_NUMBER.search(attributes)) and not attributes.endswith("/")
        )
        n_numbers += is_number
    return "".join([*pieces, sheet[at:]]), n_numbers


# EPUB

_ITEM = re.compile(r"<(?:[\w.-]+:)?(item|itemref|rootfile)\s([^<>]*)>")
_PAGE_TYPES = frozenset(
    {"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"}
)


def epub_parts(data: bytes) -> Iterator[FilePart]:
    """Yield the pages of a book: those in the reading order, and others but for the one of navigation."""
    archive = Archive(data)
    found = [
        (name, _attributes(text)) for name, text in _ITEM.findall(archive.text("META-INF/container.xml"))
    ]
    directory = next((values.get("full-path", "") for name, values in found if name == "rootfile"), "")
    folder = posixpath.dirname(directory)
    pages: dict[str, str] = {}
    order: list[str] = []
    for name, text in _ITEM.findall(archive.text(directory)):
        values = _attributes(text)
        if name == "itemref":
            order.append(values.get("idref", ""))
        elif values.get("media-type") in _PAGE_TYPES:
            path = posixpath.normpath(posixpath.join(folder, unquote(values.get("href", "")))).lstrip("/")
            pages[values.get("id", "")] = path
            if "nav" in values.get("properties", "").split():
                pages[" nav"] = path
    navigation = pages.pop(" nav", "")
    in_order = {pages[id_] for id_ in order if id_ in pages}
    for path in dict.fromkeys([pages[id_] for id_ in order if id_ in pages] + list(pages.values())):
        if path in archive and (path in in_order or path != navigation):
            kind = "page" if path in in_order or not in_order else "page outside of the reading order"
            yield FilePart(kind, path, words_of(visible_html(archive.text(path), is_xml=True)))
