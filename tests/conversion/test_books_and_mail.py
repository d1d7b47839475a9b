"""Books, e-mail and mailboxes: chapters and messages are sections with locators."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage

import pytest
from sample_files import eml, epub, html_eml, mbox

from shoal.conversion.converted import ConversionError, Converted
from shoal.conversion.epub import convert_epub
from shoal.conversion.mail import convert_eml, convert_mbox
from shoal.models.files import LocatorKind


def places(converted: Converted) -> list[tuple[str, str, float]]:
    """Return the first line of each located text, its name and its number."""
    return [
        (converted.content[locator.start_char : locator.end_char].split("\n")[0], locator.name, locator.first)
        for locator in converted.locators
    ]


def test_a_book_is_its_chapters_in_reading_order() -> None:
    converted = convert_epub(epub(), "a.epub")
    assert converted.title == "Tides, ספר"
    assert converted.content == (
        "# Chapter One\n\nThe moon rose.\n\n# Chapter Two\n\nThe sea fell.\n\n| a | b |\n| --- | --- |\n| c | d |"
    )
    assert places(converted) == [("# Chapter One", "Chapter One", 1), ("# Chapter Two", "Chapter Two", 2)]
    assert {locator.kind for locator in converted.locators} == {LocatorKind.chapter}
    assert [removed.reason for removed in converted.removed] == ["cover", "table of contents"]


def test_titles_come_from_the_index_of_an_older_book() -> None:
    index = "<ncx><navMap><navPoint><navLabel><text>The First</text></navLabel><content src='a.xhtml#x'/></navPoint></navMap></ncx>"
    book = epub(chapters={"a.xhtml": "<p>Text.</p>"}, extra={"OEBPS/toc.ncx": index})
    assert convert_epub(book, "").content == "Text."
    book = book.replace(b"OEBPS/toc.ncx", b"OEBPS/toc.ncx")
    package = (
        "<package><manifest><item id='n' href='toc.ncx' media-type='application/x-dtbncx+xml'/>"
        "<item id='a' href='a.xhtml' media-type='application/xhtml+xml'/></manifest><spine><itemref idref='a'/></spine></package>"
    )
    book = epub(
        chapters={"a.xhtml": "<p>Text.</p>"}, extra={"OEBPS/toc.ncx": index, "OEBPS/content.opf": package}
    )
    assert convert_epub(book, "").content == "# The First\n\nText."


def test_a_protected_book_is_an_error_but_not_one_with_hidden_fonts() -> None:
    def encryption(path: str) -> dict[str, str]:
        return {"META-INF/encryption.xml": f"<encryption><CipherReference URI='{path}'/></encryption>"}

    assert convert_epub(epub(extra=encryption("OEBPS/font.otf")), "").content
    with pytest.raises(ConversionError) as caught:
        convert_epub(epub(extra=encryption("OEBPS/text/one.xhtml")), "")
    assert caught.value.code == "encrypted"


def test_a_missing_chapter_is_a_warning() -> None:
    chapters = {"a.xhtml": "<p>Text.</p>", "b.xhtml": "<p>More.</p>"}
    converted = convert_epub(epub(chapters=chapters).replace(b"OEBPS/b.xhtml", b"OEBPS/c.xhtml"), "")
    assert converted.content == "Text."
    assert converted.warnings == ("files that the book names are not in it: OEBPS/b.xhtml",)


def test_a_message_has_its_headers_and_text() -> None:
    converted = convert_eml(eml(), "a.eml")
    assert converted.content == (
        "# Gezeiten – תגובה\n\nFrom: Ann Müller <ann@example.com>\nTo: bob@example.com\n"
        "Date: Mon, 01 Jan 2024 10:00:00 +0000\n\nThe tide is high.\n\n\\# not a heading\n\n> How high is it?\n\nSeven metres."
    )
    assert converted.title == "Gezeiten – תגובה"
    assert converted.warnings == ("attachments are not in the text: Tafel_дом.pdf",)
    assert places(converted) == [("# Gezeiten – תגובה", "Gezeiten – תגובה", 1)]


def test_a_body_of_html_is_converted_as_a_whole() -> None:
    converted = convert_eml(html_eml(), "a.eml")
    assert converted.content.endswith("## News\n\nkept\n\nAll well.")
    assert [removed.reason for removed in converted.removed] == ["script"]


def test_a_mailbox_has_all_messages() -> None:
    converted = convert_mbox(mbox(), "a.mbox")
    assert places(converted) == [
        ("# Gezeiten – תגובה", "Gezeiten – תגובה", 1),
        ("# Re: Tides", "Re: Tides", 2),
    ]
    assert converted.content.endswith("Yes.\nFrom the sea.")
    assert convert_mbox(mbox().replace(b"\n", b"\r\n"), "").content == converted.content


@pytest.mark.parametrize(
    ("charset", "transfer"),
    [("utf-8", "base64"), ("utf-8", "quoted-printable"), ("iso-8859-1", "8bit"), ("utf-8", "8bit")],
)
def test_reads_every_transfer_encoding(charset: str, transfer: str) -> None:
    message = EmailMessage()
    message["Subject"] = "Größe"
    message.set_content("Täglich größer.", charset=charset, cte=transfer)
    converted = convert_eml(message.as_bytes(policy=email.policy.SMTP), "")
    assert converted.content == "# Größe\n\nTäglich größer."


def test_a_forwarded_message_is_a_section() -> None:
    message = EmailMessage()
    message["Subject"] = "Fwd"
    message.set_content("See below.")
    inner = EmailMessage()
    inner["Subject"] = "The original"
    inner["From"] = "ann@example.com"
    inner.set_content("The tide is high.")
    message.add_attachment(inner)
    assert convert_eml(message.as_bytes(), "").content == (
        "# Fwd\n\nSee below.\n\n## The original\n\nFrom: ann@example.com\n\nThe tide is high."
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "no_text"),
        (b"no headers here", "broken"),
        (b"Subject: x\nFrom: y\n\n", "no_text"),
        (b"\n\n\n", "no_text"),
    ],
)
def test_a_file_without_a_message_is_an_error(data: bytes, code: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert_eml(data, "a.eml")
    assert caught.value.code == code
    with pytest.raises(ConversionError):
        convert_mbox(data, "a.mbox")


def test_a_cut_message_keeps_what_is_there() -> None:
    assert "The tide is high." in convert_eml(eml()[: eml().index(b"<p>")], "").content
