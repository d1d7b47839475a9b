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
from collections.abc import Iterable
from email.utils import parsedate_to_datetime

from shoal.conversion.converted import Metadata, cleaned_line
from shoal.conversion.package import Element, Package, attribute, local

MAX_TEXTS = 100
"""Of a list, such as that of recipients."""
MAX_TEXT_CHARS = 300

_LISTS = ("author", "keywords", "recipients")
_DATES = ("created", "modified", "sent")
_PART_OF_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2]))?")
_SEPARATORS = re.compile(r"[;,\n、，；]")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,3}")
_FIRST_YEAR = 1000  # programs write years such as 1 for a date that they do not know


def described(**fields: str | Iterable[str] | None) -> Metadata:
    """Return the fields that have a value, normalised; `keywords` may be one text with commas."""
    found: Metadata = {}
    for name, given in fields.items():
        texts = [given] if isinstance(given, str) else list(given or ())
        if name == "keywords":
            texts = [part for text in texts for part in _SEPARATORS.split(text)]
        cleaned = (cleaned_line(text[: 4 * MAX_TEXT_CHARS])[:MAX_TEXT_CHARS] for text in texts)
        values = list(dict.fromkeys(filter(None, cleaned)))[:MAX_TEXTS]
        if name in _DATES:
            values = list(filter(None, map(iso_date, values)))
        elif name == "language":
            values = [value.replace("_", "-") for value in values if _LANGUAGE.fullmatch(value)]
        if values and name == "page_count":
            if values[0].isdecimal() and int(values[0][:9]) > 0:
                found[name] = int(values[0][:9])
        elif values:
            found[name] = values if name in _LISTS else values[0]
    date = found.get("sent") or found.get("modified") or found.get("created")
    return {**found, "date": date} if date else found


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
