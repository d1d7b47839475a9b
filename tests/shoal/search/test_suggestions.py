"""A word that nobody knows may have been meant as another one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.search.spelling import MAX_SUGGESTIONS, one_edit_away


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("suggestions") / "shoal.db"
    with Engine(db_path=path, learning=False, scorer=FakeScorer()) as opened:
        opened.ingest(title="One", content="Darwin sailed. Darwin wrote of the storm. A plant grew.")
        opened.ingest(title="Two", content="Darwin was ill. Lyell was not. Another Lyell had plants.")
        yield opened


def suggestions(engine: Engine, query: str) -> dict[str, tuple[str, ...]]:
    return {word.text: word.suggestions for word in engine.explain(query).words}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("stor", "storm"), ("strom", "storm"), ("stormm", "storm"), ("sturm", "storm"), ("ztorm", "storm"),
     ("Darwn", "darwin"), ("Darwni", "darwin"), ("Lyelk", "lyell"), ("plent", "plant")],
)  # fmt: skip
def test_a_slip_is_understood(engine: Engine, typed: str, meant: str) -> None:
    assert suggestions(engine, typed)[typed][0] == meant


def test_words_that_are_known_or_stand_in_the_library_get_no_suggestion(engine: Engine) -> None:
    found = suggestions(engine, "the storm of Darwin and volcanos in 1859 sailed")
    assert not any(found.values())


def test_what_is_like_nothing_gets_no_suggestion(engine: Engine) -> None:
    strange = ("qwrtpxz", "a" * 500, "ab", "日本語だ", "x1y2z3")
    assert not any(suggestions(engine, " ".join(strange)).values())


def test_one_inflection_is_suggested_and_few_words_in_all(engine: Engine) -> None:
    (found,) = suggestions(engine, "plantx").values()
    assert found[0] == "plant"
    assert len(found) <= MAX_SUGGESTIONS
    assert "plants" not in found


def test_words_say_how_many_chunks_hold_them(engine: Engine) -> None:
    words = {
        word.text: word.n_chunks for word in engine.explain("the Darwin storms qwrtpxz 1859 plant").words
    }
    assert words == {"the": None, "Darwin": 2, "storms": 1, "qwrtpxz": 0, "1859": 0, "plant": 2}


def test_a_query_of_many_strange_words_is_explained_too(engine: Engine) -> None:
    words = engine.explain(" ".join(f"stor{chr(97 + i % 26)}{chr(97 + i // 26)}x" for i in range(300))).words
    assert len(words) == 300
    assert words[-1].n_chunks is None


@given(st.text(alphabet="abcz", min_size=1, max_size=6))
def test_slips_are_mutual(word: str) -> None:
    for near in one_edit_away(word):
        assert near != word
        assert abs(len(near) - len(word)) <= 1
        if near:
            assert word in one_edit_away(near)
