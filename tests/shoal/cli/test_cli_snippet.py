"""A snippet shows the part of a chunk that contains the query's words."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.results import ELLIPSIS, snippet


def _spans(text: str, pattern: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(pattern, text)]


def _text(pieces: list[tuple[str, bool]]) -> str:
    return "".join(text for text, _ in pieces)


def test_short_text_is_shown_whole_in_one_line_with_highlights() -> None:
    text = "The volcano\n  erupts  at dawn."
    pieces = snippet(text, [(4, 11)], 100)
    assert pieces == [("The ", False), ("volcano", True), (" erupts at dawn.", False)]


def test_window_has_the_most_different_words() -> None:
    filler = "nothing of interest stands here at all. " * 20
    text = filler + "lava lava lava lava. " + filler + "The volcano threw lava and ash. " + filler
    pieces = snippet(text, _spans(text, "volcano|lava|ash"), 120)
    assert [piece.text for piece in pieces if piece.is_highlight] == ["volcano", "lava", "ash"]
    assert pieces[0].text == pieces[-1].text == ELLIPSIS


def test_text_without_highlights_shows_its_beginning_cut_between_words() -> None:
    shown = _text(snippet("word " * 200, [], 103))
    assert shown.startswith("word word")
    assert shown.endswith("word" + ELLIPSIS)


def test_escapes_are_removed_also_in_highlights() -> None:
    assert snippet("a \x1b[31mlava\x1b[0m b", [(2, 15)], 50) == [("a ", False), ("lava", True), (" b", False)]


@given(
    st.text("ab \n\té\x1b[]", max_size=300),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 30)), max_size=8),
    st.integers(1, 80),
)
def test_any_text_gives_one_line_of_about_the_requested_length(
    text: str, starts: list[tuple[int, int]], length: int
) -> None:
    spans, at = [], 0
    for start, size in sorted(starts):
        if start >= at:
            spans.append((start, start + size))
            at = start + size
    shown = _text(snippet(text, spans, length))
    assert len(shown) <= length + 2 * len(ELLIPSIS)
    assert "\n" not in shown
    assert "  " not in shown
    assert "\x1b" not in shown
