"""A draft is checked against every limit and completed from the content and path of the file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import pytest

from shoal.errors import (
    DocumentTooLargeError,
    EmptyDocumentError,
    InvalidFieldError,
    NotFoundError,
    UndecodableDocumentError,
    UnknownFormatError,
)
from shoal.formats.drafts import draft_from_bytes, draft_from_file, make_draft
from shoal.models.documents import DocFormat, DocumentDraft
from shoal.settings import Settings


def draft(content: str = "Some text.", settings: Settings | None = None, **fields: Any) -> DocumentDraft:
    return make_draft(content=content, settings=settings or Settings(), **fields)


def test_content_is_kept_and_hashed_unchanged() -> None:
    document = draft("First.\r\n\r\nNaïve.\n")
    assert document.content == "First.\r\n\r\nNaïve.\n"
    assert document.content_hash == hashlib.sha256(document.content.encode()).hexdigest()
    assert document.n_bytes == len(document.content.encode())


def test_control_characters_become_spaces_before_hashing() -> None:
    cleaned, plain = draft("a\x00b"), draft("a b")
    assert (cleaned.content, cleaned.content_hash) == (plain.content, plain.content_hash)


@pytest.mark.parametrize("content", ["", " \n\t\r\n", "\x00\x00", "\u2028 "])
def test_a_document_without_text_is_refused(content: str) -> None:
    with pytest.raises(EmptyDocumentError):
        draft(content)


def test_the_size_limit_counts_bytes() -> None:
    settings = Settings(max_document_bytes=4)
    assert draft("éé", settings).n_bytes == 4
    for content in ("ééx", "abcde"):
        with pytest.raises(DocumentTooLargeError):
            draft(content, settings)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.md", DocFormat.markdown),
        ("B.MARKDOWN", DocFormat.markdown),
        ("C:\\notes\\x.md", DocFormat.markdown),
        ("a.txt", DocFormat.plaintext),
        ("a.rst", DocFormat.plaintext),
        ("a.md/readme", DocFormat.plaintext),
        (None, DocFormat.plaintext),
    ],
)
def test_the_suffix_determines_the_format(path: str | None, expected: DocFormat) -> None:
    assert draft(source_path=path).format is expected


def test_an_explicit_format_wins_over_the_suffix() -> None:
    assert draft(source_path="a.md", format="plaintext").format is DocFormat.plaintext
    assert draft(format=DocFormat.markdown).format is DocFormat.markdown


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(UnknownFormatError, match=r"docx.*markdown, plaintext"):
        draft(format="docx")


@pytest.mark.parametrize(
    ("content", "fields", "title"),
    [
        ("# Heading\n\ntext", {"title": "  Given\n title "}, "Given title"),
        ("# Heading\n\ntext", {"source_path": "notes/the-art_of-war.md"}, "The Art of War"),
        ("# Heading\n\ntext", {"source_path": "notes/README.md"}, "README"),
        ("intro\n\n# **The** [Sea](x.html) #\n", {"format": "markdown"}, "The Sea"),
        ("# Title: Les Misérables\n", {"format": "markdown"}, "Les Misérables"),
        ("\n  First line here\nsecond", {}, "First line here"),
        ("---\ntitle: 'From: matter'\n---\nText", {"source_path": "x.md"}, "From: matter"),
        ('+++\ntitle = "From TOML"\n+++\nText', {"source_path": "x.md"}, "From TOML"),
        ("***", {}, "Untitled"),
    ],
)
def test_a_missing_title_is_derived(content: str, fields: dict[str, Any], title: str) -> None:
    assert draft(content, **fields).title == title


@pytest.mark.parametrize(
    "field",
    ["x = " + "[" * 10_000, "x = " + "1" * 10_000, "x = {" + "a." * 4_000 + "a = 1}", 'title = "not closed'],
    ids=["nested", "number", "dotted", "open"],
)
def test_unreadable_front_matter_gives_no_title(field: str) -> None:
    content = f'+++\ntitle = "From TOML"\n{field}\n+++\n# Heading\n\nText.'
    assert draft(content, format="markdown").title == "Heading"


def test_a_long_first_line_is_shortened_at_a_word() -> None:
    title = draft("word " * 400).title
    assert len(title) <= 121
    assert title.endswith("word…")


def test_tags_are_stripped_and_unique_in_the_given_order() -> None:
    assert draft(tags=[" b ", "a", "b", "x  y"]).tags == ("b", "a", "x y")


def test_front_matter_fills_missing_tags_only() -> None:
    content = "---\ntags:\n  - one\n  - 'two'\n---\nText."
    assert draft(content, format="markdown").tags == ("one", "two")
    assert draft(content, format="markdown", tags=["own"]).tags == ("own",)
    assert draft("---\ntags: [a, b]\n---\nText.", format="markdown").tags == ("a", "b")
    assert draft(content, format="plaintext").tags == ()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"title": "x" * 513}, "title"),
        ({"title": 7}, "title"),
        ({"tags": "biology"}, "tags"),
        ({"tags": ["ok", 3]}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"tags": ["x" * 65]}, "tags"),
        ({"tags": [str(i) for i in range(65)]}, "tags"),
        ({"source_path": "x" * 1025}, "source_path"),
        ({"source_path": 3}, "source_path"),
        ({"metadata": {"a": object()}}, "metadata"),
        ({"metadata": {"a": float("nan")}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": functools.reduce(lambda inner, _: {"a": inner}, range(64), {})}, "metadata"),
        ({"metadata": {"a": "x" * 70_000}}, "metadata"),
        ({"content": b"bytes"}, "content"),
        ({"format": 3}, "format"),
    ],
)
def test_an_invalid_field_is_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        draft(**{"content": "Text.", **fields})
    assert caught.value.field == field


def test_metadata_is_copied() -> None:
    metadata: dict[str, Any] = {"a": [1]}
    document = draft(metadata=metadata)
    metadata["a"].append(2)
    assert document.metadata == {"a": [1]}


def test_limits_come_from_the_settings() -> None:
    tight = dataclasses.replace(Settings(), max_title_chars=5, max_tags=1)
    assert draft("a long first line", tight).title == "a lon"
    with pytest.raises(InvalidFieldError):
        draft(settings=tight, tags=["a", "b"])


def test_a_file_becomes_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "sea-shells.md"
    path.write_bytes(b"\xef\xbb\xbf# Shells\r\n\r\nOn the shore.\r\n")
    document = draft_from_file(path, settings=Settings())
    assert (document.title, document.format) == ("Sea Shells", DocFormat.markdown)
    assert document.content == "# Shells\r\n\r\nOn the shore.\r\n"
    assert document.source_path == str(path)
    assert draft_from_file(path, settings=Settings(), source_path="sub/x.md").source_path == "sub/x.md"


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse: reading it would fill the memory
    with pytest.raises(DocumentTooLargeError):
        draft_from_file(path, settings=Settings())


def test_errors_of_unreadable_files_give_the_reason(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"nowhere\.txt"):
        draft_from_file(tmp_path / "nowhere.txt", settings=Settings())
    with pytest.raises(UndecodableDocumentError, match="folder"):
        draft_from_file(tmp_path, settings=Settings())


def test_bytes_become_a_draft() -> None:
    document = draft_from_bytes("naïve".encode("utf-16"), settings=Settings(), source_path="up.txt")
    assert (document.content, document.title) == ("naïve", "Up")


def test_a_guessed_encoding_adds_a_warning(settings: Settings) -> None:
    guessed = draft_from_bytes("The na\xefve visitor saw it.".encode("cp1252"), settings=settings)
    assert [warning for warning in guessed.warnings if "cp1252" in warning] == list(guessed.warnings)
    assert len(guessed.warnings) == 1
    for certain in ("utf-8", "utf-8-sig", "utf-16"):
        assert draft_from_bytes("The na\xefve visitor.".encode(certain), settings=settings).warnings == ()


def test_replaced_control_characters_are_counted_in_a_warning() -> None:
    assert draft("a\x00b\x01c").warnings == ("2 control characters were each replaced by a space",)
    assert draft("a b\tc\r\n").warnings == ()
