"""Books, e-mail and mailboxes: chapters and messages are sections with locators."""

from __future__ import annotations

import email.policy
from email.message import EmailMessage

import pytest
from converters import convert_eml, convert_epub, convert_mbox
from sample_files import eml, epub, html_eml, mbox

from shoal.conversion.converted import ConversionError, Converted
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


WORDS = "The moon rose over the sea and the tide came in. " * 20


def guided(chapters: dict[str, str], *references: tuple[str, str]) -> bytes:
    """A book whose guide names files."""
    guide = "".join(f'<reference type="{kind}" href="{path}"/>' for kind, path in references)
    items = "".join(f'<item id="{path}" href="{path}" media-type="text/html"/>' for path in chapters)
    spine = "".join(f'<itemref idref="{path}"/>' for path in chapters)
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine><guide>{guide}</guide></package>"
    return epub(chapters=chapters, extra={"OEBPS/content.opf": package})


def test_a_chapter_that_the_guide_calls_contents_or_cover_stays() -> None:
    links = "<ul><li><a href='a.html'>One</a></li><li><a href='b.html#x'>Two</a></li></ul>"
    chapters = {
        "a.html": f"<h1>One</h1><a id='toc'></a>{links}<p>{WORDS}</p>",
        "b.html": "<p>Short.</p>",
        "toc.html": f"<h1>Contents</h1>{links}",
        "outward.html": "<ul><li><a href='http://example.com'>A book elsewhere</a></li></ul>",
    }
    labels = [("toc", "a.html#toc"), ("toc", "toc.html"), ("toc", "outward.html"), ("cover", "b.html")]
    converted = convert_epub(guided(chapters, *labels), "a.epub")
    assert converted.content.count(WORDS.strip()) == 1
    assert "Short." in converted.content
    assert "A book elsewhere" in converted.content
    assert "Contents" not in converted.content
    assert [tuple(removed)[:2] for removed in converted.removed] == [
        ("table of contents", "Contents One Two")
    ]


def test_a_book_in_one_file_that_is_called_its_contents_is_read() -> None:
    converted = convert_epub(guided({"a.html": f"<p>{WORDS}</p>"}, ("toc", "a.html#toc")), "a.epub")
    assert converted.content == WORDS.strip()


def test_a_list_of_links_within_a_chapter_goes_and_its_text_stays() -> None:
    nav = "<nav><ol><li><a href='#x'>One</a></li></ol></nav>"
    chapters = {"a.html": f"{nav}<nav><p>Turn left at <a href='#x'>x</a>.</p></nav><p id='x'>Text.</p>"}
    assert convert_epub(guided(chapters), "").content == "Turn left at x.\n\nText."


def contents(*links: tuple[str, str]) -> str:
    entries = "".join(f"<li><a href='{target}'>{label}</a></li>" for target, label in links)
    pages = "<nav epub:type='page-list'><a href='a.xhtml#two'>17</a></nav>"
    return f"<body>{pages}<nav epub:type='toc'><ol>{entries}</ol></nav></body>"


def test_a_chapter_within_a_file_is_cited_by_its_own_entry() -> None:
    chapters = {
        "nav.xhtml": contents(
            ("a.xhtml#one", "One"),
            ("a.xhtml#two", "Two"),
            ("a.xhtml#three", "Three"),
            ("b.xhtml#four", "Four"),
        ),
        "a.xhtml": "<p>I</p><div id='one'><p>First.</p><p>More.</p></div><p>Two</p><p>a<i id='two'>b</i></p>"
        "<h2><a id='three'></a>The third</h2><p>Third.</p>",
        "b.xhtml": f"<p>{WORDS}</p><p id='four'>Fourth.</p>",
        "c.xhtml": "<p>Without an entry.</p>",
    }
    converted = convert_epub(epub(chapters=chapters), "a.epub")
    assert [
        (place.name, place.first, converted.content[place.start_char : place.end_char])
        for place in converted.locators
    ] == [
        ("One", 1, "# One\n\nI\n\nFirst.\n\nMore.\n\nTwo"),
        ("Two", 2, "# Two\n\nab"),
        ("The third", 3, "## The third\n\nThird."),
        ("The third", 3, WORDS.strip()),
        ("Four", 4, "# Four\n\nFourth."),
        ("", 5, "Without an entry."),
    ]


def test_an_entry_whose_place_is_missing_counts_for_its_file() -> None:
    chapters = {"nav.xhtml": contents(("a.xhtml#gone", "One")), "a.xhtml": "<p>One</p><p>Text.</p>"}
    converted = convert_epub(epub(chapters=chapters), "a.epub")
    assert converted.content == "# One\n\nText."


def test_pages_outside_of_the_reading_order_are_named() -> None:
    package = (
        "<package><manifest><item id='a' href='a.xhtml' media-type='text/html'/><item id='b' href='b.xhtml'"
        " media-type='text/html'/></manifest><spine><itemref idref='a'/></spine></package>"
    )
    chapters = {"a.xhtml": "<p>Text.</p>", "b.xhtml": "<p>A note.</p>"}
    converted = convert_epub(epub(chapters=chapters, extra={"OEBPS/content.opf": package}), "a.epub")
    assert converted.warnings == ("pages outside of the reading order are not in the text: OEBPS/b.xhtml",)


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
        "\n\nAttachments: Tafel_дом.pdf"
    )
    assert converted.title == "Gezeiten – תגובה"
    assert [each.name for each in converted.attachments] == ["Tafel_дом.pdf"]
    assert converted.warnings == ()
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
        (b"From: y\nTo: x\n\n", "no_text"),
        (b"\n\n\n", "no_text"),
    ],
)
def test_a_file_without_a_message_is_an_error(data: bytes, code: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert_eml(data, "a.eml")
    assert caught.value.code == code
    with pytest.raises(ConversionError):
        convert_mbox(data, "a.mbox")


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "koi8-r", "shift_jis"])
def test_headers_that_are_not_encoded_are_read(charset: str) -> None:
    word = {"utf-8": "Größe 大", "iso-8859-1": "Größe", "koi8-r": "Прилив", "shift_jis": "潮の満ち干"}[
        charset
    ]
    raw = f"Subject: {word} =?utf-8?Q?H=C3=B6?=\r\n =?utf-8?Q?he?=\r\nFrom: {word} <a@example.com>\r\n"
    raw += f"Content-Type: text/plain; charset={charset}\r\n\r\n{word}\r\n"
    converted = convert_eml(raw.encode(charset), "a.eml")
    assert converted.title == f"{word} Höhe"
    assert converted.content == f"# {word} Höhe\n\nFrom: {word} <a@example.com>\n\n{word}"


def test_a_character_cut_between_two_encoded_words_is_whole() -> None:
    raw = b"Subject: \\u0041 =?utf-8?B?R3LD?= =?utf-8?B?tsOf?= ?\nFrom: y\n\nText."
    assert convert_eml(raw, "").title == "\\u0041 Größ ?"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"Subject: The tide is high\nFrom: y\n\n", "# The tide is high\n\nFrom: y"),
        (
            b'From: y\nContent-Type: application/pdf; name="tides.pdf"\n\n%PDF',
            "# (no subject)\n\nFrom: y\n\nAttachments: tides.pdf",
        ),
        (b"From: y\nContent-Type: application/pdf\n\n%PDF", "# (no subject)\n\nFrom: y"),
        (b"\r\nSubject: x\nFrom: y\n\nText.", "# x\n\nFrom: y\n\nText."),
        (
            b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nNo headers\n\nhere.\n--b--",
            "# x\n\nNo headers\n\nhere.",
        ),
        (b"Subject: x\nContent-Type: text/markdown\n\nText.", "# x\n\nText."),
    ],
)
def test_a_message_of_any_part_alone_is_read(raw: bytes, text: str) -> None:
    assert convert_eml(raw, "a.eml").content == text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_messages_in_unicode_are_read(encoding: str) -> None:
    raw = eml().decode().encode(encoding)
    assert convert_eml(raw, "a.eml") == convert_eml(eml(), "a.eml")
    raw = mbox().decode().encode(encoding)
    assert convert_mbox(raw, "a.mbox") == convert_mbox(mbox(), "a.mbox")


def test_a_message_of_a_mailbox_without_headers_is_its_text() -> None:
    raw = b"From ann Mon Jun 01 10:00:00 2009\n\nThe tide\n\nFrom bob Tue Jun 02 10:00:00 2009\n\nis high."
    assert convert_mbox(raw, "").content == "# (no subject)\n\nThe tide\n\n# (no subject)\n\nis high."


def test_a_plain_part_that_stands_for_a_page_gives_way_to_it() -> None:
    def message(plain: str) -> bytes:
        both = EmailMessage()
        both["Subject"] = "Tides"
        both.set_content(plain)
        both.add_alternative(f"<style>{'p {}' * 100}</style><p>{WORDS}</p>", subtype="html")
        return both.as_bytes()

    assert convert_eml(message("This mail is HTML."), "").content == f"# Tides\n\n{WORDS.strip()}"
    long_enough = WORDS[: len(WORDS) * 2 // 3].strip()
    assert convert_eml(message(long_enough), "").content.replace("\n", " ") == f"# Tides  {long_enough}"


def test_a_cut_message_keeps_what_is_there() -> None:
    assert "The tide is high." in convert_eml(eml()[: eml().index(b"<p>")], "").content
