"""What files say of themselves becomes metadata by standard names."""

from __future__ import annotations

import pytest
from office_files import docx, opendocument, paragraph, pptx, shape
from sample_files import eml, epub

from shoal.conversion.docx import convert_docx
from shoal.conversion.epub import convert_epub
from shoal.conversion.mail import convert_eml
from shoal.conversion.metadata import MAX_TEXT_CHARS, MAX_TEXTS, described, iso_date
from shoal.conversion.opendocument import convert_opendocument
from shoal.conversion.pptx import convert_pptx
from shoal.conversion.rtf import convert_rtf
from shoal.conversion.web_pages import convert_html

CORE = (
    '<p:coreProperties xmlns:p="p" xmlns:dc="d" xmlns:t="t"><dc:creator>Ann Lee; Bob</dc:creator><dc:subject>Sea</dc:subject>'
    "<p:keywords>tides, moon</p:keywords><dc:language>en_GB</dc:language><t:created>2024-01-02T03:04:05Z</t:created>"
    "<t:modified>2024-02-03T04:05:06.7Z</t:modified></p:coreProperties>"
)
FACTS = {
    "author": ["Ann Lee", "Bob"],
    "subject": "Sea",
    "keywords": ["tides", "moon"],
    "language": "en-GB",
    "created": "2024-01-02T03:04:05+00:00",
    "modified": "2024-02-03T04:05:06+00:00",
    "date": "2024-02-03T04:05:06+00:00",
}


def test_office_files() -> None:
    app = "<Properties><Company>Harbour</Company><Pages>7</Pages></Properties>"
    data = docx(paragraph("Text."), {"docProps/core.xml": CORE, "docProps/app.xml": app})
    assert convert_docx(data, "a.docx").metadata == {**FACTS, "publisher": "Harbour", "page_count": 7}
    assert convert_pptx(pptx([shape("title", "A")], properties=CORE), "a.pptx").metadata == FACTS
    assert convert_docx(docx(paragraph("Text.")), "a.docx").metadata == {}


def test_opendocument_files() -> None:
    meta = (
        '<o:document-meta xmlns:o="o" xmlns:m="m" xmlns:dc="d"><o:meta><m:initial-creator>Ann</m:initial-creator>'
        "<dc:creator>Bob</dc:creator><m:creation-date>2024-01-02T03:04:05.123456789</m:creation-date><dc:date>2024-02-03</dc:date>"
        '<m:keyword>tides</m:keyword><m:keyword>moon</m:keyword><m:document-statistic m:page-count="3"/></o:meta>'
        "</o:document-meta>"
    )
    data = opendocument("text", "<text:p>Text.</text:p>", parts={"meta.xml": meta})
    assert convert_opendocument(data, "a.odt").metadata == {
        "author": ["Ann"],
        "keywords": ["tides", "moon"],
        "created": "2024-01-02T03:04:05",
        "modified": "2024-02-03",
        "page_count": 3,
        "date": "2024-02-03",
    }


def test_mail() -> None:
    raw = eml().replace(
        b"To: bob@example.com",
        b"To: =?utf-8?Q?B=C3=B6b?= <bob@example.com>, c@example.com\nCc: d@example.com",
    )
    assert convert_eml(raw, "a.eml").metadata == {
        "sender": "Ann Müller <ann@example.com>",
        "recipients": ["Böb <bob@example.com>", "c@example.com", "d@example.com"],
        "subject": "Gezeiten – תגובה",
        "sent": "2024-01-01T10:00:00+00:00",
        "message_id": "<1@example.com>",
        "date": "2024-01-01T10:00:00+00:00",
    }


def test_books() -> None:
    stated = (
        "<metadata><creator>Ann</creator><creator>Bob</creator><language>en</language><subject>Sea</subject>"
        "<publisher>Harbour</publisher><date event='publication'>1851</date><date event='conversion'>2011-01-01</date>"
        "<meta property='dcterms:modified'>2024-02-03T04:05:06Z</meta></metadata>"
    )
    package = (
        f"<package>{stated}<manifest><item id='a' href='a.xhtml' media-type='text/html'/></manifest>"
        "<spine><itemref idref='a'/></spine></package>"
    )
    data = epub(chapters={"a.xhtml": "<p>Text.</p>"}, extra={"OEBPS/content.opf": package})
    assert convert_epub(data, "a.epub").metadata == {
        "author": ["Ann", "Bob"],
        "keywords": ["Sea"],
        "language": "en",
        "publisher": "Harbour",
        "created": "1851",
        "modified": "2024-02-03T04:05:06+00:00",
        "date": "2024-02-03T04:05:06+00:00",
    }


def test_web_pages() -> None:
    page = (
        "<html lang=en><head><meta name=author content=Ann><meta property='article:author' content='https://example.com/ann'>"
        "<meta name=Keywords content='tides, moon'><meta property='article:published_time' content='2024-01-02'>"
        "<meta property='og:site_name' content=Harbour></head><body><p>Text.</p></body></html>"
    )
    assert convert_html(page.encode(), "a.html").metadata == {
        "author": ["Ann"],
        "keywords": ["tides", "moon"],
        "created": "2024-01-02",
        "publisher": "Harbour",
        "language": "en",
        "date": "2024-01-02",
    }


def test_rtf() -> None:
    info = rb"{\info{\author Ann}{\keywords tides, moon}{\creatim\yr2024\mo1\dy2\hr3}{\operator Bob}}"
    assert convert_rtf(rb"{\rtf1" + info + rb"Text {\author stays}.\par}", "a.rtf").metadata == {
        "author": ["Ann"],
        "keywords": ["tides", "moon"],
        "created": "2024-01-02",
        "date": "2024-01-02",
    }


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024", "2024"),
        ("2024-03", "2024-03"),
        ("2024-03-04", "2024-03-04"),
        ("2024-03-04T05:06:07.25+02:00", "2024-03-04T05:06:07+02:00"),
        ("Mon, 4 Mar 2024 05:06:07 +0200", "2024-03-04T05:06:07+02:00"),
        ("0001-01-01T00:00:00Z", ""),
        ("2024-13", ""),
        ("0000", ""),
        ("yesterday", ""),
        ("", ""),
        ("9" * 1000, ""),
    ],
)
def test_dates_become_iso_8601(text: str, date: str) -> None:
    assert iso_date(text) == date


def test_values_are_bounded() -> None:
    found = described(
        keywords=",".join(f"{i} " + "x" * 1000 for i in range(500)), page_count="-3", language="?"
    )
    assert list(found) == ["keywords"]
    keywords = found["keywords"]
    assert isinstance(keywords, list)
    assert len(keywords) <= MAX_TEXTS
    assert max(map(len, keywords)) <= MAX_TEXT_CHARS
