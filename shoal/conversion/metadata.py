"""What files say of themselves, by standard names: author, dates, language and others.

| name                            | value                                                            |
|---------------------------------|------------------------------------------------------------------|
| author, keywords, recipients    | a list of texts; people of mail as `Name <address>`              |
| subject, language, publisher, sender, message_id | a text                                          |
| created, modified, sent         | a date, or a date and time, in ISO 8601, as precise as it is given |
| date                            | sent, else modified, else created                                |
| page_count                      | a number                                                         |
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime

from shoal.conversion.converted import ConversionError, Metadata, cleaned_line, meaningful_title
from shoal.conversion.package import Element, Package, attribute, local, parse_xml

MAX_TEXTS = 100
"""Of a list, such as that of recipients."""
MAX_TEXT_CHARS = 300

_LISTS = ("author", "keywords", "recipients")
_DATES = ("created", "modified", "sent")
_PART_OF_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2]))?")
_SEPARATORS = re.compile(r"[;,\n、，；]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}")
_FIRST_YEAR = 1000  # programs write years such as 1 for a date that they do not know

_PDF_DATE = re.compile(
    r"\s*(?:D:)?(\d{4})(\d\d)?(\d\d)?((?:\d\d){1,3})?\s*(?:(Z)|([-+]\d\d)'?(\d\d)?)?[0\s']*"
)
MAX_XMP_BYTES, _MAX_XMP_PACKETS = 1_000_000, 100
_XMP_BEGIN, _XMP_END = b"<?xpacket begin", b"<?xpacket end"
_MARKS_OF_PDF = (b"http://ns.adobe.com/pdf/1.3/", b"application/pdf")  # pictures have packets, too
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_NAMESPACES = (
    "http://purl.org/dc/elements/1.1/",
    "http://ns.adobe.com/xap/1.0/",
    "http://ns.adobe.com/pdf/1.3/",
)
_BETWEEN_NAMES = re.compile(r"(?:[\s,&]|\b(?:and|und|et|y|e)\b)*")
_MOST_APART = dt.timedelta(days=1, hours=1)  # dates of one moment, if one of them lacks its zone


def described(**fields: str | Iterable[str] | None) -> Metadata:
    """Return the fields that have a value, normalised; `keywords` may be one text with commas."""
    found: Metadata = {}
    for name, given in fields.items():
        texts = [given] if isinstance(given, str) else list(given or ())
        if name == "keywords":
            texts = [part for text in texts for part in _SEPARATORS.split(text)]
        cleaned = (cleaned_line(text[: 4 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS] for text in texts)
        values = list(dict.fromkeys(text for text in cleaned if any(map(str.isalnum, text))))[:MAX_TEXTS]
        if name in _DATES:
            values = list(filter(None, map(iso_date, values)))
        elif name == "language":
            values = [_language_tag(value) for value in values if _LANGUAGE.fullmatch(value)]
        if values and name == "page_count":
            if values[0].isdecimal() and int(values[0][:9]) > 0:
                found[name] = int(values[0][:9])
        elif values:
            found[name] = values if name in _LISTS else values[0]
    date = found.get("sent") or found.get("modified") or found.get("created")
    return {**found, "date": date} if date else found


def _language_tag(text: str) -> str:
    """Return a tag in the usual case: `en-GB`, `zh-Hans`."""
    first, *others = text.lower().replace("_", "-").split("-")
    sized = {2: str.upper, 4: str.title}
    return "-".join([first, *(sized.get(len(part), str)(part) for part in others)])


def iso_date(text: str) -> str:
    """Return a date in ISO 8601, of ISO 8601 or a header of mail; empty if it is none."""
    text = text.strip()[:100]
    if _PART_OF_DATE.fullmatch(text):
        return text if int(text[:4]) >= _FIRST_YEAR else ""
    for read in (dt.datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        is_day = len(text) == len("2024-01-01")
        seconds = moment.replace(microsecond=0)
        return (moment.date() if is_day else seconds).isoformat() if moment.year >= _FIRST_YEAR else ""
    return ""


def pdf_metadata(
    stated: Callable[[str], str], language: str, page_count: int, xmp: Element | None
) -> tuple[list[str], Metadata]:
    """Return the titles that a PDF file declares, and its metadata.

    `stated`: returns an entry of the document information; `xmp`: the packet, whose values fill what is
    missing there. A packet that tells of another creation belongs to something in the file.
    """
    info = described(
        author=stated("Author").split(";"),
        subject=stated("Subject"),
        keywords=stated("Keywords"),
        created=_pdf_date(stated("CreationDate")),
        modified=_pdf_date(stated("ModDate")),
    )
    found = _properties(xmp)
    filled = described(
        author=found.get("creator"),
        subject=found.get("description"),
        keywords=found.get("subject") or found.get("Keywords"),
        created=found.get("CreateDate"),
        modified=found.get("ModifyDate"),
        publisher=found.get("publisher"),
        language=found.get("language"),
    )
    titles = [stated("Title"), *found.get("title", ())]
    if _are_apart(info.get("created"), filled.get("created")):
        titles, filled = titles[:1], {}
    if _are_listed_in(filled.get("author"), info.get("author")):
        del info["author"]
    sure = described(language=language, page_count=str(page_count))
    metadata = {**filled, **info, **sure}
    metadata.pop("date", None)
    date = metadata.get("modified") or metadata.get("created")
    titles = [title for title in map(meaningful_title, map(cleaned_line, titles)) if title]
    return titles, {**metadata, "date": date} if date else metadata


def _pdf_date(text: str) -> str:
    """Return a date of a PDF file such as `D:20240102030405+01'00'` in ISO 8601; other texts as they are."""
    match = _PDF_DATE.fullmatch(text[:100])
    if match is None:
        return text
    year, month, day, clock, utc, hours, minutes = match.groups()
    date = "-".join(filter(None, (year, month, day)))
    if not clock:
        return date
    zone = "+00:00" if utc else f"{hours}:{minutes or '00'}" if hours else ""
    clock = ":".join(clock[i : i + 2] for i in range(0, len(clock), 2))
    return f"{date}T{clock}{zone}" if iso_date(f"{date}T{clock}{zone}") else date


def _are_apart(first: object, second: object) -> bool:
    """Whether two dates are certainly of different moments."""
    try:
        a, b = (dt.datetime.fromisoformat(str(date)).replace(tzinfo=None) for date in (first, second))
    except ValueError:
        return False
    return abs(a - b) > _MOST_APART


def _are_listed_in(people: object, author: object) -> bool:
    """Whether one text names all of several people, and nobody else."""
    if not (isinstance(author, list) and isinstance(people, list)) or len(author) > 1 or len(people) < 2:
        return False
    rest = author[0]
    for name in people:
        if name not in rest:
            return False
        rest = rest.replace(name, " ", 1)
    return _BETWEEN_NAMES.fullmatch(rest) is not None


def _properties(xmp: Element | None) -> dict[str, list[str]]:
    """Return the properties that a packet states of the file itself, each with its texts."""
    found: dict[str, list[str]] = {}
    for resources in xmp.iter(f"{{{_RDF}}}RDF") if xmp is not None else ():
        for description in resources:
            stated = [(name, [value]) for name, value in description.items()]
            stated += [
                (each.tag, [text for text in each.itertext() if text.strip()][:MAX_TEXTS])
                for each in description
            ]
            for name, texts in stated:
                namespace, _, key = name.rpartition("}")
                if namespace[1:] in _NAMESPACES:
                    found.setdefault(key, []).extend(texts)
    return found


def xmp_of(data: bytes) -> Element | None:
    """Return the last XMP packet of a PDF file that tells of a PDF document, and is not compressed."""
    end = len(data)
    for _ in range(_MAX_XMP_PACKETS):
        start = data.rfind(_XMP_BEGIN, 0, end)
        if start < 0:
            return None
        packet = data[start : min(end, start + MAX_XMP_BYTES)]
        end = start
        inner = packet[packet.find(b"?>") + 2 : max(packet.find(_XMP_END), 0)].strip()
        if any(mark in inner for mark in _MARKS_OF_PDF):
            try:
                return parse_xml(inner, "XMP")
            except ConversionError:
                continue
    return None


def office_metadata(package: Package) -> Metadata:
    """Return what the properties of an Office Open XML document say."""
    core = _texts(package.optional_xml("docProps/core.xml"))
    app = _texts(package.optional_xml("docProps/app.xml"))
    return described(
        author=[part for text in core.get("creator", ()) for part in text.split(";")],
        subject=core.get("subject"),
        keywords=core.get("keywords"),
        language=core.get("language"),
        created=core.get("created"),
        modified=core.get("modified"),
        publisher=app.get("Company"),
        page_count=app.get("Slides") or app.get("Pages"),
    )


def opendocument_metadata(meta: Element | None) -> Metadata:
    """Return what `meta.xml` says."""
    found = _texts(meta)
    statistics = (e for e in (meta.iter() if meta is not None else ()) if local(e) == "document-statistic")
    return described(
        author=found.get("initial-creator") or found.get("creator"),
        subject=found.get("subject"),
        keywords=found.get("keyword"),
        language=found.get("language"),
        created=found.get("creation-date"),
        modified=found.get("date"),
        page_count=next((attribute(element, "page-count") for element in statistics), None),
    )


def _texts(root: Element | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for element in root.iter() if root is not None else ():
        if isinstance(element.tag, str) and element.text and element.text.strip():
            found.setdefault(local(element), []).append(element.text)
    return found
