"""Strangers' text can't act on a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.terminal import ClosedPipeError, console, one_line, plain, shown_path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07text", "text"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain", "plain"),
        ("a\x00b\x07c\x7fd", "abcd"),
        ("C1 \x9b31mtext", "C1 31mtext"),
        ("right \u202eot tfel", "right ot tfel"),
        ("line\rover", "lineover"),
        ("keeps\ttabs\nand newlines", "keeps\ttabs\nand newlines"),
        ("naïve “quotes” 日本語", "naïve “quotes” 日本語"),
        ("file\udcff.txt", "file.txt"),
    ],
)
def test_escapes_and_controls_are_removed_and_nothing_else(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(st.characters(codec=None), max_size=200))
def test_no_text_keeps_a_character_that_acts(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in shown)
    assert not any(0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF for c in shown)
    assert "\n" not in one_line(text)
    shown.encode()


def test_markup_of_rich_is_shown_as_it_is_written() -> None:
    stream = io.StringIO()
    console(stream).print("[bold]not bold[/bold] :smile:", "[/nonsense]")
    assert stream.getvalue() == "[bold]not bold[/bold] :smile: [/nonsense]\n"


def test_a_reader_that_has_gone_is_noticed() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(ClosedPipeError):
        console(Gone()).print("anything")


def test_a_path_below_the_working_directory_is_shown_as_it_would_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "notes" / "a.md")) == "notes/a.md"
    assert shown_path(f"{tmp_path}er/a.md") == f"{tmp_path}er/a.md"
    assert shown_path("notes/a.md") == "notes/a.md"
    assert shown_path("/else/\x1b[31ma.md") == "/else/a.md"
