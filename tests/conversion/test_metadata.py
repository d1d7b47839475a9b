"""What files say of themselves becomes metadata by standard names."""

from __future__ import annotations

import pytest
from converters import (
    convert_docx,
    convert_eml,
    convert_epub,
    convert_html,
    convert_opendocument,
    convert_pdf,
    convert_pptx,
    convert_rtf,
)
from office_files import docx, opendocument, paragraph, pptx, shape
from pdf_files import Text, pdf
from sample_files import eml, epub

from shoal.conversion.metadata import MAX_TEXT_CHARS, MAX_TEXTS, described, iso_date

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


PAGE = [Text(72, 700, "Some text of the page.")]


def xmp(properties: str) -> str:
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:m="http://ns.adobe.com/xap/1.0/" xmlns:o="other" '
        'xmlns:p="http://ns.adobe.com/pdf/1.3/"><r:Description p:Producer="X" o:CreateDate="1999-01-01">'
        f"{properties}</r:Description></r:RDF></x:xmpmeta>"
    )


def listed(*texts: str) -> str:
    return f"<r:Seq>{''.join(f'<r:li>{text}</r:li>' for text in texts)}</r:Seq>"


def test_pdf_files_by_their_information() -> None:
    data = pdf(
        [PAGE, PAGE],
        title="Tides",
        info="/Author (Ann Lee; Bob) /Subject (Sea) /Keywords (tides, moon) /CreationDate (D:20240102030405+02'00') "
        "/ModDate (D:20240203040506Z)",
        labels="/Lang (EN-gb)",
    )
    found = convert_pdf(data, "a.pdf")
    assert found.title == "Tides"
    assert found.metadata == {**FACTS, "created": "2024-01-02T03:04:05+02:00", "page_count": 2}
    assert convert_pdf(pdf([PAGE]), "a.pdf").metadata == {"page_count": 1}


def test_pdf_files_by_their_xmp() -> None:
    properties = (
        f"<dc:creator>{listed('Ann Lee', 'Bob')}</dc:creator><dc:title>{listed('Tides')}</dc:title>"
        f"<dc:description>{listed('Sea')}</dc:description><dc:subject>{listed('tides', 'moon')}</dc:subject>"
        "<m:CreateDate>2024-01-02T03:04:05Z</m:CreateDate><m:ModifyDate>2024-02-03T04:05:06Z</m:ModifyDate>"
        f"<dc:language>{listed('en-GB')}</dc:language>"
    )
    found = convert_pdf(pdf([PAGE], title="Microsoft Word - a.doc", xmp=xmp(properties)), "a.pdf")
    assert found.title == "Tides"
    assert found.metadata == {**FACTS, "page_count": 1}
    # The information goes before it, unless it has people in one text.
    both = pdf([PAGE], info="/Author (Ann Lee and Bob) /Subject (Ocean)", xmp=xmp(properties))
    assert convert_pdf(both, "a.pdf").metadata == {**FACTS, "subject": "Ocean", "page_count": 1}
    others = pdf([PAGE], info="/Author (Ann Lee, Bob, Eve)", xmp=xmp(properties))
    assert convert_pdf(others, "a.pdf").metadata["author"] == ["Ann Lee, Bob, Eve"]


def test_the_packet_of_something_in_a_pdf_is_not_that_of_the_file() -> None:
    embedded = xmp(
        f"<dc:creator>{listed('Eve')}</dc:creator><m:CreateDate>2011-01-01T00:00:00Z</m:CreateDate>"
    )
    found = convert_pdf(pdf([PAGE], info="/CreationDate (D:2024)", xmp=embedded), "a.pdf").metadata
    assert found["author"] == ["Eve"]
    created = convert_pdf(pdf([PAGE], info="/CreationDate (D:20240102)", xmp=embedded), "a.pdf").metadata
    assert "author" not in created


@pytest.mark.parametrize(
    "packet",
    [
        "",
        "<a",
        "<!DOCTYPE a [<!ENTITY e 'eee'>]><a p='application/pdf'>&e;</a>",
        "<a>" * 50_000 + "application/pdf",
        xmp("<dc:creator><dc:creator/></dc:creator><dc:title/>"),
    ],
)
def test_hostile_packets_of_a_pdf_are_passed_over(packet: str) -> None:
    assert convert_pdf(pdf([PAGE], xmp=packet), "a.pdf").metadata == {"page_count": 1}
    unended = pdf([PAGE], xmp=packet).replace(b"<?xpacket end", b"").replace(b"xpacket", b"xpacket" * 2)
    assert convert_pdf(unended + b"<?xpacket begin" * 200_000, "a.pdf").metadata == {"page_count": 1}


@pytest.mark.parametrize(
    "title",
    [
        "Microsoft Word - x.doc",
        "Binder1.pdf",
        "untitled",
        "Untitled - Notepad",
        "report.final.docx",
        "page 3.png",
        "file:///tmp/a.xyz",
    ],
)
def test_titles_of_programs_are_not_those_of_a_pdf(title: str) -> None:
    assert convert_pdf(pdf([PAGE], title=title), "a.pdf").title == ""


@pytest.mark.parametrize(
    ("stated", "date"),
    [
        ("D:2024", "2024"),
        ("D:202403", "2024-03"),
        ("20240304", "2024-03-04"),
        ("D:2024030405", "2024-03-04T05:00:00"),
        ("D:20240304050607-08'30'", "2024-03-04T05:06:07-08:30"),
        ("D:20240304050607Z00'00'", "2024-03-04T05:06:07+00:00"),
        ("D:20240304050607+99'99'", "2024-03-04"),
        ("2024-03-04T05:06:07Z", "2024-03-04T05:06:07+00:00"),
        ("D:191000304", None),
        ("D:" + "9" * 1000, None),
    ],
)
def test_dates_of_a_pdf(stated: str, date: str | None) -> None:
    assert convert_pdf(pdf([PAGE], info=f"/CreationDate ({stated})"), "a.pdf").metadata.get("created") == date


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
    assert described(author=["()", "Ann"], language="ZH_hans-cn")["language"] == "zh-Hans-CN"
    assert list(found) == ["keywords"]
    keywords = found["keywords"]
    assert isinstance(keywords, list)
    assert len(keywords) <= MAX_TEXTS
    assert max(map(len, keywords)) <= MAX_TEXT_CHARS
