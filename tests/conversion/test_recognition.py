"""The kind of a file is that of its content; its name decides only where the content does not."""

from __future__ import annotations

import importlib.util
import io
import zipfile

import pytest
from growth import FACTOR, assert_not_quadratic
from sample_files import HTML, PYTHON, RST, SRT, TRANSCRIPT, VTT, epub, sample_files

from shoal.conversion.file_kinds import FILE_KINDS, KIND_OF_SUFFIX
from shoal.conversion.recognition import HEAD_BYTES, recognise

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def test_an_opendocument_file_whose_parts_have_another_order_is_one() -> None:
    data = zipped("Configurations2/images/x.png", "content.xml", "mimetype", "META-INF/manifest.xml")
    assert recognise(data, "a.zip").id == "opendocument"
    assert recognise(zipped("META-INF/MANIFEST.MF", "content.xml"), "a.jar").id == "archive"


def zipped(*members: str, first: tuple[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        if first:
            archive.writestr(*first, compress_type=zipfile.ZIP_STORED)
        for member in members:
            archive.writestr(member, b"x" * 100)
    return buffer.getvalue()


OPEN = "application/vnd.oasis.opendocument."
BY_CONTENT = {
    "pdf": b"\n\n%PDF-1.7\n%\xe2\xe3",
    "docx": zipped("[Content_Types].xml", "word/document.xml"),
    "pptx": zipped("[Content_Types].xml", "ppt/presentation.xml"),
    "xlsx": zipped("[Content_Types].xml", "xl/workbook.xml"),
    "opendocument": zipped("content.xml", first=("mimetype", OPEN + "spreadsheet")),
    "epub": epub(),
    "rtf": rb"{\rtf1\ansi Hello}",
    "html": HTML.encode(),
    "mhtml": sample_files()["tides.mhtml"],
    "eml": sample_files()["tides.eml"],
    "mbox": sample_files()["tides.mbox"],
    "notebook": sample_files()["tides.ipynb"],
    "subtitles": VTT.encode(),
    "image": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "audio": b"ID3\x04\x00",
    "video": b"\x00\x00\x00\x20ftypisom\x00",
    "program": b"MZ\x90\x00\x03\x00\x00\x00",
    "archive": zipped("a.txt", "b.txt"),
    "database": b"SQLite format 3\x00",
    "old_office": OLE + b"\x00" * 600,
    "encrypted_office": OLE + b"\x00" * 600 + "EncryptedPackage".encode("utf-16-le"),
    "apple_office": zipped("Index/Document.iwa"),
}
BINARY = bytes(range(256)) * 10


@pytest.mark.parametrize("kind_id", BY_CONTENT)
@pytest.mark.parametrize(
    "name", ["file", "file.txt", "file.pdf", "file.docx", "ספר.מסמך", "C:\\docs\\a.HTML"]
)
def test_content_decides_whatever_the_name(kind_id: str, name: str) -> None:
    assert recognise(BY_CONTENT[kind_id], name).id == kind_id


@pytest.mark.parametrize(
    ("content", "name", "kind_id"),
    [
        ("# Title\n\nText.", "a.md", "markdown"),
        ("Just text.", "a.txt", "text"),
        ("Just text.", "README", "text"),
        ("Just text.", "a.pdf", "text"),
        ("Just text.", "a.docx", "text"),
        ("Just text.", "a.doc", "text"),
        ("", "a.pdf", "pdf"),
        ("", "a.txt", "text"),
        ("a,b\n1,2\n", "a.csv", "csv"),
        ("a\tb\n", "A.TSV", "csv"),
        (RST, "a.rst", "rst"),
        (PYTHON, "a.py", "source"),
        (f"page = '''{HTML}'''", "a.py", "source"),
        ("#!/usr/bin/env python3\nprint()", "tool", "source"),
        ("<p align=center>Hello</p>\n\n# Title", "README.md", "markdown"),
        ("<p>Part of a page</p>", "a.htm", "html"),
        ('<?xml version="1.0"?>\n<!-- a - b -->\n<!DOCTYPE html><html>', "page", "html"),
        ("<svg xmlns='http://www.w3.org/2000/svg'/>", "a.svg", "image"),
        (SRT, "a.txt", "subtitles"),
        (TRANSCRIPT, "a.md", "transcript"),
        ("00:05 Ann: Hi\n00:09 Bob: Hello\n00:15 Ann: Bye\n", "a.txt", "transcript"),
        ("Ann (00:05): Hi\nBob (00:09): Hello\nAnn (00:15): Bye\n", "talk", "transcript"),
        ("# Frame\n\nThe train leaves at 10:30 today.\n\nIt is late.", "a.md", "markdown"),
        ("From: Ann\nTo: Bob\nSubject: Hello\n\nDear Bob", "letter.txt", "text"),
        ("From: Ann\nTo: Bob\nSubject: Hello\n\nDear Bob", "letter.eml", "eml"),
        ("From here on it is 2024\nand nothing else.", "a.txt", "text"),
        ('{"cells": 1}', "a.json", "text"),
        ("WEBVTTX is a word", "a.txt", "text"),
    ],
)  # fmt: skip
def test_the_name_decides_between_texts(content: str, name: str, kind_id: str) -> None:
    assert recognise(content.encode(), name).id == kind_id
    assert recognise(b"\xef\xbb\xbf" + content.encode(), name).id == kind_id


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_text_in_two_bytes_per_character_is_text(encoding: str) -> None:
    assert recognise("Just some English text.".encode(encoding), "a.txt").id == "text"
    assert recognise(HTML.encode(encoding), "a").id == "html"


@pytest.mark.parametrize(
    ("name", "kind_id"),
    [
        ("a", "binary"),
        ("a.txt", "binary"),
        ("a.html", "binary"),
        ("a.pdf", "pdf"),
        ("a.mp3", "audio"),
        ("a.doc", "doc"),
        ("a.msg", "msg"),
    ],
)
def test_bytes_without_a_signature_are_what_the_name_says_if_that_is_no_text(name: str, kind_id: str) -> None:
    assert recognise(BINARY, name).id == kind_id


def test_the_beginning_of_a_file_is_enough() -> None:
    page = HTML.encode() + b"<p>x" * 100_000
    assert recognise(page[:HEAD_BYTES], "a").id == "html"
    book = zipped(*[f"word/media/{number}.png" for number in range(3000)], "word/document.xml")
    assert recognise(book, "a.zip").id == "docx"
    assert recognise(book[:HEAD_BYTES], "a.docx").id == "docx"


def test_every_refused_kind_says_what_to_do() -> None:
    for kind in FILE_KINDS.values():
        if kind.refusal:
            assert kind.converter is None
            assert any(word in kind.refusal for word in ("convert it", "convert its", "save it"))
        else:
            assert kind.converter or kind.id in ("markdown", "text")


def test_each_suffix_and_media_type_has_one_kind() -> None:
    kinds = FILE_KINDS.values()
    assert len(KIND_OF_SUFFIX) == sum(len(kind.suffixes) for kind in kinds)
    media_types = [media_type for kind in kinds for media_type in kind.media_types]
    assert len(set(media_types)) == len(media_types)
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in KIND_OF_SUFFIX)
    assert all(kind.id == kind_id for kind_id, kind in FILE_KINDS.items())


def test_converters_of_the_core_exist() -> None:
    for kind_id in (
        "html",
        "mhtml",
        "epub",
        "eml",
        "mbox",
        "notebook",
        "rst",
        "source",
        "subtitles",
        "transcript",
    ):
        module, _, function = (FILE_KINDS[kind_id].converter or "").partition(":")
        assert importlib.util.find_spec(module) is not None
        assert callable(getattr(importlib.import_module(module), function))
        assert FILE_KINDS[kind_id].extra is None


@pytest.mark.parametrize(
    "data",
    [
        b"<!--" * 10_000_000,
        b"a:" * 5_000_000,
        b"From " * 5_000_000,
        b"0:" * 5_000_000,
        b"PK\x03\x04" * 5_000_000,
    ],
)
def test_recognition_of_a_large_file_is_not_quadratic(data: bytes) -> None:
    small = data[: len(data) // FACTOR]
    assert_not_quadratic(lambda: recognise(small, "a.txt"), lambda: recognise(data, "a.txt"))
