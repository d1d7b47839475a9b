"""The account of a file: what is lost shows, what is complete is not blamed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from office_files import (
    docx,
    heading,
    number_cell,
    opendocument,
    paragraph,
    pptx,
    row,
    shape,
    slide_table,
    text_cell,
    xlsx,
)
from pdf_files import pdf, prose
from sample_files import HTML, eml, epub, html_eml, mbox, mhtml

from benchmarks.file_accounts import PLANTS, account, planted
from shoal.conversion.accounts.markup import FilePart, words_of
from shoal.conversion.child import MAX_PARTS, compared, counted, file_account
from shoal.conversion.converted import Converted
from shoal.conversion.file_kinds import KIND_OF_SUFFIX
from shoal.conversion.process import ConversionProcess
from shoal.models.documents import DocFormat
from shoal.models.files import FileAccount, MissingPart, Removed

SECONDS = 20.0
TABLE = (
    "<w:tbl>"
    + "".join(
        f"<w:tr><w:tc>{paragraph(a)}</w:tc><w:tc>{paragraph(b)}</w:tc></w:tr>"
        for a, b in (("Ship", "Load"), ("Anna", "corn"))
    )
    + "</w:tbl>"
)
BOX = (
    "<w:p><w:r><w:t>Beside</w:t><w:txbxContent>"
    + paragraph("Boxes hold words of warning.")
    + "</w:txbxContent></w:r></w:p>"
)
NOTED = "<w:p><w:r><w:t>Ships come.</w:t><w:footnoteReference w:id='5'/></w:r></w:p>"
LINKED = "<w:p><w:hyperlink><w:r><w:t>The harbour office answers questions.</w:t></w:r></w:hyperlink></w:p>"
INSERTED = "<w:p><w:ins><w:r><w:t>Someone inserted this sentence later.</w:t></w:r></w:ins></w:p>"
DELETED = (
    "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGEREF</w:instrText></w:r>"
    "<w:moveFrom><w:r><w:t>moved away</w:t></w:r></w:moveFrom></w:p>"
)
WORD = docx(
    heading(1, "Arrivals by night and day")
    + NOTED
    + TABLE
    + BOX
    + LINKED
    + INSERTED
    + DELETED
    + paragraph("A longer paragraph tells of the harbour, its pilots, and the lights on the pier.")
)
SLIDES = pptx(
    [
        shape("title", "Arrivals")
        + shape("body", "one ship", "two boats")
        + slide_table([["Ship", "Load"], ["Anna", "corn"]]),
        shape("title", "Departures") + f"<p:grpSp>{shape(None, 'Grouped words stay together.')}</p:grpSp>",
    ],
    notes=shape("body", "Speak slowly about the harbour.") + shape("sldNum", "1"),
)
SHEETS = xlsx(
    {
        "Loads": row(1, text_cell("A1", "Ship"), text_cell("B1", "Load"))
        + row(2, text_cell("A2", "Anna"), number_cell("B2", "12")),
        "Crews": row(1, text_cell("A1", "Master"), text_cell("B1", "Mate"))
        + row(2, text_cell("A2", "Berta"), text_cell("B2", "Carl")),
    }
)
OPEN_TEXT = opendocument(
    "text",
    "<text:h text:outline-level='1'>Arrivals</text:h><text:p>Ships come<text:note><text:note-citation>1</text:note-citation>"
    "<text:note-body><text:p>Except in winter.</text:p></text:note-body></text:note>.</text:p>"
    "<text:list><text:list-item><text:p>a list of ships</text:p></text:list-item></text:list>"
    "<table:table><table:table-row><table:table-cell><text:p>Ship</text:p></table:table-cell>"
    "<table:table-cell><text:p>Load</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell>"
    "<text:p>Anna</text:p></table:table-cell><table:table-cell><text:p>corn</text:p></table:table-cell></table:table-row></table:table>"
    "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>",
)
RICH = (
    rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}Caf\'e9 \u8211 - open {\v hidden}{\header Harbour office}\par "
    rb"Text{\footnote Except in winter.} of the \b harb\b0 our.\par {\*\generator Word;}}"
)
PAGES = pdf(
    [
        prose(["Ships come to the harbour by night.", "Pilots guide them."]),
        prose(["The second page speaks of winds."]),
    ],
    annotations=[
        (0, "/Type /Annot /Subtype /FreeText /Rect [300 300 400 340] /Contents (Mind the rocks here)")
    ],
)
FILES = {
    "a.docx": WORD,
    "a.pptx": SLIDES,
    "a.xlsx": SHEETS,
    "a.odt": OPEN_TEXT,
    "a.rtf": RICH,
    "a.pdf": PAGES,
    "a.html": HTML.encode(),
    "a.epub": epub(),
    "a.eml": eml(),
    "b.eml": html_eml(),
    "a.mbox": mbox(),
    "a.mhtml": mhtml(),
}


def accounted(name: str, data: bytes) -> FileAccount:
    found = account(Path(name), KIND_OF_SUFFIX[Path(name).suffix], data)
    assert found is not None
    return found.account


@pytest.mark.parametrize("name", FILES)
def test_a_complete_file_has_no_unexplained_loss(name: str) -> None:
    found = accounted(name, FILES[name])
    assert [part for part in found.missing if part.n_words and not part.is_intended] == []
    assert found.stored_share == 1
    assert found.n_words > 0
    assert found.warnings() == ()


@pytest.mark.parametrize(
    ("name", "loss", "kind"),
    [
        ("a.docx", "tables", "table"),
        ("a.docx", "text boxes", "text box"),
        ("a.docx", "notes", "footnote"),
        ("a.docx", "headings", "text"),
        ("a.docx", "headers", "footer"),
        ("a.docx", "links", "text"),
        ("a.docx", "inserted text", "text"),
        ("a.pptx", "notes", "notes"),
        ("a.pptx", "tables", "table"),
        ("a.pptx", "groups", "text"),
        ("a.xlsx", "sheets", "cells"),
        ("a.odt", "notes", "footnote"),
        ("a.odt", "tables", "table"),
        ("a.epub", "pages", "page"),
        ("a.epub", "tables", "page"),
        ("a.html", "lists", "text"),
        ("a.html", "code", "text"),
        ("a.mbox", "messages", "text"),
        ("a.pdf", "pages", "text"),
        ("a.pdf", "annotations and forms", "annotation"),
    ],
)
def test_a_part_that_a_converter_forgets_shows(name: str, loss: str, kind: str) -> None:
    data = FILES[name]
    plant = next(
        each for each in PLANTS if (each.kind, each.loss) == (KIND_OF_SUFFIX[Path(name).suffix].id, loss)
    )
    with planted(plant):
        found = accounted(name, data)
    missing = [part for part in found.missing if part.n_words and not part.is_intended]
    assert kind in {part.kind for part in missing}
    assert found.is_incomplete
    assert "words of the file are not in the document" in found.warnings()[0]


def part(text: str, kind: str = "text", place: str = "") -> FilePart:
    return FilePart(kind, place, words_of(text))


@pytest.mark.parametrize(
    ("in_file", "stored"),
    [
        ("a long exam\nple of it", "a long example of it"),
        ("S i n g a p o r e is far", "Singapore is far"),
        ("well-known pier", "wellknown pier"),
        ("the wellknown pier", "the well-known pier"),
        ("\ufb01sh and \u00adcaf\u0065\u0301", "fish and caf\u00e9"),
        ("\u6f6e\u6c50\u4e0e\u6708\u4eae", "\u6f6e\u6c50 \u4e0e\u6708\u4eae"),
        ("PIER 7", "Pier \\7"),
    ],
)
def test_words_that_are_divided_or_written_differently_are_the_same(in_file: str, stored: str) -> None:
    assert compared([part(in_file)], stored, ()).missing == ()


def test_a_word_counts_as_often_as_it_is_there() -> None:
    found = compared([part("the sea and the sea")], "the sea and", ())
    assert (found.n_words, found.n_stored) == (5, 3)


def test_missing_words_belong_to_the_part_that_is_gone() -> None:
    parts = [part("the sea rises and falls", place="page 1"), part("the wind turns", "comment", "page 2")]
    found = compared(parts, "the sea rises and falls", ())
    assert found.missing == (MissingPart("comment", "page 2", 3, 0, False, "the wind turns"),)


def test_what_is_left_out_on_purpose_is_listed_and_no_loss() -> None:
    removed = [Removed("navigation", "Home About", 2)]
    found = compared([part("Home About the tides Home About")], "the tides", removed)
    assert found.missing == (MissingPart("navigation", "", 4, 0, True, "Home About"),)
    assert (found.stored_share, found.warnings()) == (1, ())


def test_what_is_said_to_be_left_out_but_is_not_in_the_file_explains_nothing() -> None:
    found = compared([part("one two three four")], "one", [Removed("navigation", "five six seven", 9)])
    assert [(each.n_words, each.is_intended) for each in found.missing] == [(3, False)]


def test_parts_without_words_are_listed_with_their_size() -> None:
    found = compared([part("one"), FilePart("picture", "image1.png", n_bytes=700)], "one", ())
    assert found.missing == (MissingPart("picture", "image1.png", 0, 700),)


def test_an_account_is_short_however_many_parts_there_are() -> None:
    found = compared([part(f"word{i}", place=f"page {i}") for i in range(1000)], "", ())
    assert len(found.missing) == MAX_PARTS + 1
    assert sum(each.n_words for each in found.missing) == 1000
    assert found.missing[-1].place == "950 more parts"


def test_hidden_text_is_not_visible() -> None:
    page = (
        "<head><title>t</title></head><body><!-- comment --><script>if (a < b) code()</script>seen"
        "<div hidden>not <div>this</div></div><p style='display: none'>nor this</p>"
        "<a title='x > y' data-x=\"<b>raw</b>\">link</a><template>later</template> a &lt; b"
    )
    found = file_account("html", page.encode(), "", ())
    assert found is not None
    assert found.n_words == len(["seen", "link", "a", "b"])
    assert "gone" not in str(accounted("a.docx", WORD))


def test_a_child_gives_the_account_with_the_text() -> None:
    with ConversionProcess() as process:
        found = process.convert(HTML.encode(), "a.html").account
    assert found is not None
    assert found.stored_share == 1
    assert {each.kind for each in found.missing if each.is_intended} >= {"navigation"}


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "opendocument", "epub", "pdf"])
def test_a_file_that_cannot_be_counted_has_no_account(kind: str) -> None:
    assert counted(kind, b"no such file", Converted("text", DocFormat.markdown), float("inf")) is None
    assert counted("html", b"text", Converted("text", DocFormat.markdown), 0.0) is None


@pytest.mark.parametrize(
    "page",
    [
        "<a " * 200_000,
        '<a "' * 200_000,
        '<p title="<' * 100_000,
        "<div hidden>" * 50_000,
        "hidden " * 200_000,
        "<!--" * 200_000,
        "<math><annotation>" * 30_000,
        "<script>" * 100_000,
        '="<' * 200_000,
    ],
    ids=lambda page: page[:12],
)
def test_counting_is_linear(page: str) -> None:
    begun = time.process_time()
    file_account("html", page.encode(), "", ())
    file_account("rtf", b"{\\rtf1 " + page.replace("<", "{").encode(), "", ())
    assert time.process_time() - begun < SECONDS


def test_an_attachment_that_is_a_document_of_its_own_is_no_loss() -> None:
    parts = (MissingPart("attachment", "report.pdf", 0, 9), MissingPart("attachment", "photo.jpg", 0, 9))
    found = FileAccount(1, 1, parts).with_documents({"report.pdf", ""}).missing
    assert [part.is_intended for part in found] == [True, False]
