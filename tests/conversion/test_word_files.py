"""Word, RTF and OpenDocument texts become Markdown with headings, lists, tables and notes."""

from __future__ import annotations

import pytest
from converters import convert_docx, convert_opendocument, convert_rtf
from office_files import (
    CHART_TEXT,
    chart,
    diagram,
    docx,
    heading,
    opendocument,
    package,
    paragraph,
    relations,
)

from shoal.conversion import package as limits
from shoal.conversion.converted import ConversionError
from shoal.formats.markdown import parse_markdown
from shoal.models.files import Removed

SMALL_PACKAGE_BYTES = 1_000_000
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def word(body: str, **parts: str) -> str:
    return convert_docx(docx(body), "a.docx").content


def item(text: str, number_id: int, depth: int = 0) -> str:
    return paragraph(text, f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{number_id}"/></w:numPr>')


def cells(*texts: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in texts) + "</w:tr>"


# Word


def test_styles_become_headings_also_through_inheritance() -> None:
    mine = paragraph("Deeper", '<w:pStyle w:val="Mine"/>')
    outlined = paragraph("By outline", '<w:outlineLvl w:val="2"/>')
    body = heading(1, "Arrivals") + paragraph("Ships come.") + heading(2, "Night") + mine + outlined
    assert word(body) == "# Arrivals\n\nShips come.\n\n## Night\n\n## Deeper\n\n### By outline\n"


def test_title_and_removed_parts_are_reported() -> None:
    contents = paragraph("Arrivals 1", '<w:pStyle w:val="Contents"/>')
    converted = convert_docx(docx(contents + paragraph("Text.")), "a.docx")
    assert converted.title == "Of Harbours"
    assert converted.content == "Text.\n"
    assert converted.removed == (
        Removed("table of contents", "Arrivals 1", 1),
        Removed("repeated footer", "Harbour office", 1),
    )


def test_lists_keep_their_depth_and_numbers() -> None:
    body = item("one", 1) + item("inner", 1, 1) + item("first", 2) + item("second", 2) + paragraph("End.")
    assert word(body) == "- one\n   - inner\n\n1. first\n2. second\n\nEnd.\n"


def test_a_merged_cell_of_a_table_counts_for_each_of_its_rows() -> None:
    merged = (
        f'<w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{paragraph("Anna")}</w:tc><w:tc>{paragraph("a | b")}</w:tc></w:tr>'
        f"<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr>{paragraph('old')}</w:tc><w:tc>{paragraph('2')}</w:tc></w:tr>"
    )
    table = f"<w:tbl>{cells('Ship', 'Load')}{merged}</w:tbl>"
    assert word(table) == "| Ship | Load |\n| --- | --- |\n| Anna | a \\| b |\n| Anna | 2 |\n"


def test_what_only_its_style_calls_contents_stays() -> None:
    style = '<w:pStyle w:val="Contents"/>'
    entry = f"<w:p><w:pPr>{style}</w:pPr><w:hyperlink><w:r><w:t>Arrivals</w:t></w:r></w:hyperlink></w:p>"
    body = paragraph("Ships come at night.", style) + entry + paragraph("Arrivals\tiv", style)
    converted = convert_docx(docx(body), "a.docx")
    assert converted.content == "Ships come at night.\n"
    assert [r.text for r in converted.removed[:2]] == ["Arrivals", "Arrivals iv"]


def with_parts(body: str, *parts: tuple[str, str, str, str | bytes]) -> str:
    """Return the text of a Word file with parts: id and kind of the relation, name and content."""
    related = relations(*((id_, kind, name) for id_, kind, name, _ in parts))
    files: dict[str, str | bytes] = {f"word/{name}": content for _, _, name, content in parts}
    return convert_docx(docx(body, {**files, "word/_rels/document.xml.rels": related}), "a.docx").content


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (
            "a.html",
            "<html><body><nav>Menu</nav><h2>Inner</h2><p>Text.</p></body></html>",
            "Menu\n\n## Inner\n\nText.",
        ),
        ("a.rtf", "{\\rtf1 Text.\\par}", "Text."),
        ("a.txt", "Text.\n\n# no heading", "Text.\n\n\\# no heading"),
        ("a.docx", docx(paragraph("Text.")), "Text."),
    ],
)
def test_a_document_within_the_document_is_read(name: str, data: str | bytes, text: str) -> None:
    body = paragraph("Before.") + '<w:altChunk w:id="c1"/><w:altChunk w:id="c1"/>' + paragraph("After.")
    assert with_parts(body, ("c1", "aFChunk", name, data)) == f"Before.\n\n{text}\n\nAfter.\n"


def test_documents_within_each_other_end() -> None:
    data = docx(paragraph("Text."))
    for _ in range(4):
        related = relations(("c1", "aFChunk", "a.docx"))
        data = docx('<w:altChunk w:id="c1"/>', {"word/a.docx": data, "word/_rels/document.xml.rels": related})
    with pytest.raises(ConversionError):
        convert_docx(data, "a.docx")


def test_charts_and_diagrams_stand_where_they_are_shown() -> None:
    body = (
        '<w:p><w:r><w:t>Before.</w:t><w:drawing><w:chart w:id="x1"/></w:drawing></w:r></w:p>'
        '<w:p><w:drawing><w:relIds w:dm="x2"/></w:drawing></w:p>' + paragraph("After.")
    )
    parts = [("x1", "chart", "chart1.xml", chart()), ("x2", "diagramData", "d.xml", diagram("One", "Two"))]
    assert with_parts(body, *parts) == f"Before.\n\n{CHART_TEXT}\n\n- One\n- Two\n\nAfter.\n"


def test_comments_and_the_header_of_the_first_page_come_last() -> None:
    section = '<w:sectPr><w:titlePg/><w:headerReference w:type="first" w:id="h1"/></w:sectPr>'
    comments = f'<w:c xmlns:w="{W}"><w:comment w:author="Ann">{paragraph("Really?")}</w:comment></w:c>'
    letterhead = f'<w:hdr xmlns:w="{W}">{paragraph("Harbour office, Oslo")}{paragraph("Page 1 of 2")}</w:hdr>'
    running = f'<w:hdr xmlns:w="{W}">{paragraph("Ships")}</w:hdr>'
    text = with_parts(
        paragraph("Text.") + section,
        ("h1", "header", "h1.xml", letterhead),
        ("h2", "header", "h2.xml", running),
        ("c1", "comments", "comments.xml", comments),
    )
    first = "# Header and footer of the first page\n\nHarbour office, Oslo"
    assert text == f"Text.\n\n{first}\n\n# Comments\n\nAnn: Really?\n"


def test_a_table_of_one_column_is_a_frame_around_text() -> None:
    table = f"<w:tbl>{cells('First.')}{cells('Second.')}</w:tbl>"
    assert word(heading(1, "A") + table) == "# A\n\nFirst.\n\nSecond.\n"


def test_text_in_boxes_links_and_controls_is_kept_and_deleted_text_is_not() -> None:
    body = (
        "<w:p><w:hyperlink><w:r><w:t>Link</w:t></w:r></w:hyperlink><w:del><w:r><w:delText>gone</w:delText><w:t>gone</w:t></w:r></w:del>"
        "<w:ins><w:r><w:t> and new.</w:t></w:r></w:ins></w:p>"
        f"<w:sdt><w:sdtContent>{paragraph('In a control.')}</w:sdtContent></w:sdt>"
        f"<w:p><w:r><w:t>Around.</w:t><w:pict><w:txbxContent>{paragraph('In a box.')}</w:txbxContent></w:pict></w:r></w:p>"
    )
    assert word(body) == "Link and new.\n\nIn a control.\n\nAround.\n\nIn a box.\n"


def test_footnotes_come_after_the_text() -> None:
    body = '<w:p><w:r><w:t>Open daily.</w:t><w:footnoteReference w:id="5"/></w:r></w:p>' + paragraph("More.")
    assert word(body) == "Open daily.[^1]\n\nMore.\n\n[^1] Except in winter.\n"


@pytest.mark.parametrize(
    "text",
    [
        "# no heading",
        "1. no item",
        "- no item",
        "> no quote",
        "```",
        "---",
        "| a | b |",
        "[a]: b",
        "+++",
        "***",
    ],
)
def test_plain_text_never_becomes_structure(text: str) -> None:
    content = word(paragraph("Before.") + paragraph(text.replace(">", "&gt;")) + paragraph("After it."))
    parsed = parse_markdown(content)
    assert [section.path for section in parsed.sections] == [()]
    assert not parsed.left_out
    assert text.lstrip("#>-+*1.| ") in content
    assert "\n\n\\" in content or "1\\." in content


def test_other_writings_are_kept() -> None:
    body = (
        heading(1, "נמל")
        + paragraph("האוניות מגיעות עם שחר.")
        + paragraph("السفن تصل فجرا. 船は夜明けに着く。")
    )
    assert word(body) == "# נמל\n\nהאוניות מגיעות עם שחר.\n\nالسفن تصل فجرا. 船は夜明けに着く。\n"
    assert convert_docx(docx(paragraph("Text.")), "מסמך 文書.docx").content == "Text.\n"


# Packages of XML


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "broken"),
        (b"not a zip file", "broken"),
        (package({"a.txt": "x"}), "broken"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le"),
            "encrypted",
        ),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "unsupported"),
        (docx(""), "no_text"),
    ],
)
def test_files_without_a_document_are_refused(data: bytes, code: str) -> None:
    with pytest.raises(ConversionError) as refused:
        convert_docx(data, "a.docx")
    assert refused.value.code == code


def test_entities_are_refused() -> None:
    doctype = '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    part = f'{doctype}<w:document xmlns:w="{W}"><w:body>{paragraph("&a;")}</w:body></w:document>'
    for data in (part, part.encode("utf-16")):
        with pytest.raises(ConversionError, match="document type") as refused:
            convert_docx(docx("", {"word/document.xml": data}), "a.docx")
        assert refused.value.code == "broken"


def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PACKAGE_BYTES", SMALL_PACKAGE_BYTES)
    bomb = docx("", {"word/document.xml": b" " * SMALL_PACKAGE_BYTES})
    assert len(bomb) < SMALL_PACKAGE_BYTES / 100
    with pytest.raises(ConversionError) as refused:
        convert_docx(bomb, "a.docx")
    assert refused.value.code == "too_large"


def test_members_that_are_not_read_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_PACKAGE_BYTES", SMALL_PACKAGE_BYTES)
    picture = docx(paragraph("Text."), {"word/media/image1.png": b" " * SMALL_PACKAGE_BYTES})
    assert convert_docx(picture, "a.docx").content == "Text.\n"


def test_deep_nesting_is_refused() -> None:
    depth = 100_000
    nested = "<w:sdt>" * depth + "</w:sdt>" * depth
    with pytest.raises(ConversionError, match="nested"):
        convert_docx(docx(nested), "a.docx")


def test_external_parts_are_not_followed() -> None:
    body = paragraph("Text.")
    relations = (
        '<Relationships xmlns="r"><Relationship Id="r1" Type="x/footer" TargetMode="External" Target="http://127.0.0.1:9/a.xml"/>'
        '<Relationship Id="r2" Type="x/header" Target="../../../../etc/hostname"/></Relationships>'
    )
    converted = convert_docx(docx(body, {"word/_rels/document.xml.rels": relations}), "a.docx")
    assert converted.content == "Text.\n"
    assert not converted.removed


# RTF


def rtf(body: str) -> str:
    head = (
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}}"
        r"{\stylesheet{\s0 Normal;}{\s1 heading 1;}{\s2\outlinelevel1 Mine;}}{\info{\title Of Harbours}{\author X}}"
    )
    return convert_rtf((head + body + "}").encode("latin-1"), "a.rtf").content


def test_rtf_styles_and_outline_levels_become_headings() -> None:
    body = r"\pard\s1 Arrivals\par\pard Ships come.\par\pard\s2 Night\par\pard\outlinelevel2 Deeper\par"
    assert rtf(body) == "# Arrivals\n\nShips come.\n\n## Night\n\n### Deeper\n"


def test_rtf_characters_of_every_kind() -> None:
    body = (
        r"caf\'e9 \u1488?\u1489? {\f1 \'cf\'f0\'e8\'e2\'e5\'f2} \ldblquote a\rdblquote\endash b\~c {\uc2 \u-10179\'3f\'3f\u-8704\'3f\'3f}"
        r"{\*\unknown gone}{\pict 0102}{\v hidden} \{\}\par"
    )
    assert rtf(body) == "café אב Привет “a”–b c 😀 {}\n"


def test_rtf_lists_tables_and_notes() -> None:
    body = (
        r"\pard\ls1{\listtext\'b7\tab}one\par\pard\ls1\ilvl1{\listtext\'b7\tab}inner\par"
        r"\pard\ls2{\listtext 7.\tab}seventh\par"
        r"\trowd\pard\intbl Ship\cell Load\cell\row\trowd\pard\intbl Anna\cell 12\cell\row\pard "
        r"Open daily.{\footnote Except in winter.}\par"
    )
    table = "| Ship | Load |\n| --- | --- |\n| Anna | 12 |"
    note = "Open daily.[^1]\n\n[^1] Except in winter.\n"
    assert rtf(body) == f"- one\n   - inner\n\n7. seventh\n\n{table}\n\n{note}"


def test_rtf_title_and_headers_are_not_text() -> None:
    source = rb"{\rtf1{\info{\title Of Harbours}}{\header Every page}{\footerl\pard Page}Text.\par}"
    converted = convert_rtf(source, "a.rtf")
    assert (converted.content, converted.title) == ("Text.\n", "Of Harbours")
    assert [tuple(removed) for removed in converted.removed] == [
        ("repeated header", "Every page", 1),
        ("repeated footer", "Page", 1),
    ]


@pytest.mark.parametrize("word", [r"\*\unknown", r"\xe", r"\*", r"\info", r"\sv", r"\*\footer1"])
def test_rtf_words_in_the_middle_of_a_group_take_nothing_away(word: str) -> None:
    assert rtf(rf"One {word} two {{\b three {word} four}} five\par") == "One two three four five\n"
    assert rtf(r"One {\*\unknown two}{\xe three}{\*\pict 00}{\v four}five\par") == "One five\n"


def test_rtf_comments_and_the_header_of_the_first_page_come_last() -> None:
    body = r"{\headerf Harbour office}Text.{\*\atnid A}{\*\annotation{\*\atnref 1}\pard Really?\par}\par"
    first = "# Header and footer of the first page\n\nHarbour office"
    assert rtf(body) == f"Text.\n\n{first}\n\n# Comments\n\nReally?\n"


def test_rtf_that_is_cut_says_so() -> None:
    assert convert_rtf(rb"{\rtf1 Some text", "a.rtf").warnings == ("the end of the file is missing",)
    for data in (b"", b"plain text", b"PK\x03\x04"):
        with pytest.raises(ConversionError) as refused:
            convert_rtf(data, "a.rtf")
        assert refused.value.code == "broken"
    with pytest.raises(ConversionError, match="nested"):
        convert_rtf(b"{\\rtf1" + b"{" * 2000, "a.rtf")


# OpenDocument


def odt(body: str, styles: str = "") -> str:
    return convert_opendocument(opendocument("text", body, styles), "a.odt").content


def test_odt_headings_lists_tables_and_notes() -> None:
    styles = '<text:list-style style:name="N"><text:list-level-style-number text:level="1" style:num-format="1"/></text:list-style>'
    body = (
        '<text:h text:outline-level="1">Arrivals</text:h>'
        '<text:p>Ships<text:s text:c="3"/>come.<text:note><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>Except in winter.</text:p></text:note-body></text:note></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
        "</text:list-item></text:list></text:list-item></text:list>"
        '<text:list text:style-name="N"><text:list-item><text:p>first</text:p></text:list-item></text:list>'
        "<text:p>A <text:span>table</text:span>:</text:p>"
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Ship</text:p></table:table-cell>"
        "<table:table-cell><text:p>Load</text:p></table:table-cell></table:table-row></table:table-header-rows>"
        "<table:table-row><table:table-cell><text:p>Anna</text:p></table:table-cell>"
        "<table:table-cell><text:p>12</text:p></table:table-cell></table:table-row></table:table>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    )
    assert odt(body, styles) == (
        "# Arrivals\n\nShips come.[^1]\n\n- one\n   - inner\n\n1. first\n\nA table:\n\n"
        "| Ship | Load |\n| --- | --- |\n| Anna | 12 |\n\n[^1] Except in winter.\n"
    )


def test_odt_comments_and_the_header_of_the_first_page_come_last() -> None:
    styles = (
        '<o:document-styles xmlns:o="o" xmlns:style="s" xmlns:text="t"><o:master-styles><style:master-page>'
        "<style:header><text:p>Ships</text:p></style:header>"
        "<style:header-first><text:p>Harbour office</text:p></style:header-first>"
        "</style:master-page></o:master-styles></o:document-styles>"
    )
    comment = '<office:annotation><x:creator xmlns:x="dc">Ann</x:creator><text:p>Really?</text:p></office:annotation>'
    body = f"<text:p>Text{comment}.</text:p>"
    converted = convert_opendocument(opendocument("text", body, parts={"styles.xml": styles}), "a.odt")
    first = "# Header and footer of the first page\n\nHarbour office"
    assert converted.content == f"Text.\n\n{first}\n\n# Comments\n\nAnn: Really?\n"
    assert converted.removed == (Removed("repeated header", "Ships", 1),)


def test_odt_text_in_shapes_is_apart() -> None:
    box = '<draw:rect><svg:title xmlns:svg="x:svg-compatible:1.0">Box 1</svg:title><text:p>Inside.</text:p></draw:rect>'
    assert odt(f"<text:p>Around{box} it.</text:p>") == "Around it.\n\nInside.\n"


def test_odt_text_that_is_only_called_an_index_stays() -> None:
    def index(*lines: str) -> str:
        body = "".join(f"<text:p>{line}</text:p>" for line in lines)
        return f"<text:table-of-content><text:index-body>{body}</text:index-body></text:table-of-content>"

    body = index("Contents", "Arrivals 1", "<text:a>Night</text:a>") + index(
        "Ships come.", "They go.", "At night."
    )
    assert odt(body) == "Ships come.\n\nThey go.\n\nAt night.\n"


def test_odt_merged_cells_count_for_each_of_their_rows() -> None:
    def cell(text: str, more: str = "") -> str:
        return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"

    rows = (cell("Ship") + cell("Load"), cell("Anna", 'table:number-rows-spanned="2"') + cell("1"))
    rows += ("<table:covered-table-cell/>" + cell("2"), "<table:covered-table-cell/>" + cell("3"))
    table = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    lines = odt(f"<table:table>{table}</table:table>").strip().split("\n")
    assert lines[2:] == ["| Anna | 1 |", "| Anna | 2 |", "|  | 3 |"]


def test_an_encrypted_or_foreign_odt_is_refused() -> None:
    manifest = '<m:manifest xmlns:m="m"><m:file-entry><m:encryption-data/></m:file-entry></m:manifest>'
    cases = {
        "encrypted": opendocument("text", "<text:p>x</text:p>", parts={"META-INF/manifest.xml": manifest}),
        "unsupported": opendocument("chart", "<text:p>x</text:p>"),
        "no_text": opendocument("text", "<text:p> </text:p>"),
    }
    for code, data in cases.items():
        with pytest.raises(ConversionError) as refused:
            convert_opendocument(data, "a.odt")
        assert refused.value.code == code


def test_repeated_spaces_and_rows_are_bounded() -> None:
    body = (
        '<text:p>a<text:s text:c="999999999"/>b</text:p><table:table>'
        '<table:table-row table:number-rows-repeated="999999999"><table:table-cell><text:p>x</text:p></table:table-cell>'
        "<table:table-cell><text:p>y</text:p></table:table-cell></table:table-row></table:table>"
    )
    content = odt(body)
    assert content.startswith("a b\n\n| x | y |")
    assert len(content) < 10_000
