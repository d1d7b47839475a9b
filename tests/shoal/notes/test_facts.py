"""Statements that change what others state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.notes.facts import Change, Statement, find_change


def change(old: str, new: str) -> Change | None:
    return find_change(Statement(old), Statement(new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Ann's dentist is Dr. Okafor.", "Ann's dentist is Dr. Lund.", "attribute"),
        ("The meeting is at nine.", "The meeting was moved to noon.", "attribute"),
        ("I live in Leeds.", "I moved to Bath.", "relation"),
        ("Ann works for the post office.", "Ann joined the railway.", "relation"),
        ("I use Emacs for mail.", "I switched from Emacs to Mutt.", "ended"),
        ("I smoke a pipe.", "I quit smoking.", "ended"),
        ("We have two dogs.", "We have three dogs now.", "amount"),
        ("I swim on Mondays.", "I swim on Fridays now.", "amount"),
        ("I love coffee.", "I hate coffee.", "polarity"),
        ("Indent Go with tabs.", "From now on, indent Go with spaces.", "slot"),
    ],
)
def test_change_is_certain(old: str, new: str, reason: str) -> None:
    assert change(old, new) == Change(reason, is_certain=True)


def test_same_words_with_another_value_may_be_a_change() -> None:
    assert change("Deploy the shop with Ansible.", "Deploy the shop with Nomad.") == Change("slot", False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My sister lives in Oslo.", "I moved to Bergen."),
        ("Ann lives in Oslo.", "Tom lives in Bergen."),
        ("I live in Leeds.", "The meeting moved to Monday."),
        ("I love coffee.", "I also love tea."),
        ("I love coffee.", "I love coffee since I was ten."),
        ("My work email is a@example.org.", "My private email is b@example.org."),
        ("My phone number is 12 34.", "My phone is a Pixel 6."),
        ("I visited Rome in May.", "I visited Oslo in June."),
        ("", "I moved to Bath."),
    ],
)
def test_what_changes_nothing(old: str, new: str) -> None:
    assert change(old, new) is None


@given(text=st.text(max_size=200), other=st.text(max_size=200))
def test_any_two_texts_are_compared(text: str, other: str) -> None:
    change(text, other)
    assert change(text, text) is None, "a repetition changes nothing"
