"""Untrusted text cannot control the terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.terminal import ClosedPipeError, console, display_path
from shoal.support.plain_text import one_line, plain


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
def test_no_control_character_is_left_in_any_text(text: str) -> None:
    shown = plain(text)
    assert not any(ord(c) < 32 and c not in "\t\n" for c in shown)
    assert not any(0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF for c in shown)
    assert "\n" not in one_line(text)
    shown.encode()


def test_rich_markup_is_printed_literally() -> None:
    stream = io.StringIO()
    console(stream).print("[bold]not bold[/bold] :smile:", "[/nonsense]")
    assert stream.getvalue() == "[bold]not bold[/bold] :smile: [/nonsense]\n"


def test_closed_pipe_is_reported() -> None:
    class ClosedPipe(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(ClosedPipeError):
        console(ClosedPipe()).print("anything")


def test_path_below_the_working_directory_is_shown_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert display_path(str(tmp_path / "notes" / "a.md")) == "notes/a.md"
    assert display_path(f"{tmp_path}er/a.md") == f"{tmp_path}er/a.md"
    assert display_path("notes/a.md") == "notes/a.md"
    assert display_path("/else/\x1b[31ma.md") == "/else/a.md"
