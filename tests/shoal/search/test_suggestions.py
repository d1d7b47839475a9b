"""Spelling suggestions for unknown words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.search.explanation import MAX_SUGGESTIONS


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("suggestions") / "shoal.db"
    with Engine(db_path=path, learning=False, scorer=FakeScorer()) as opened:
        opened.ingest(title="One", content="Darwin sailed. Darwin wrote of the storm. A plant grew.")
        opened.ingest(title="Two", content="Darwin was ill. Lyell was not. Another Lyell had plants.")
        yield opened


def suggestions(engine: Engine, query: str) -> dict[str, tuple[str, ...]]:
    return {word.text: word.suggestions for word in engine.explain(query, typos="off").words}


@pytest.mark.parametrize(
    ("typed", "suggestion"),
    [("stor", "storm"), ("strom", "storm"), ("stormm", "storm"), ("sturm", "storm"), ("ztorm", "storm"),
     ("Darwn", "darwin"), ("Darwni", "darwin"), ("Lyelk", "lyell"), ("plent", "plant")],
)  # fmt: skip
def test_word_with_one_typing_error_gets_the_right_suggestion(
    engine: Engine, typed: str, suggestion: str
) -> None:
    assert suggestions(engine, typed)[typed][0] == suggestion


def test_words_that_are_known_or_in_the_library_get_no_suggestion(engine: Engine) -> None:
    by_word = suggestions(engine, "the storm of Darwin and volcanos in 1859 sailed")
    assert not any(by_word.values())


def test_words_unlike_any_other_get_no_suggestion(engine: Engine) -> None:
    words = ("qwrtpxz", "a" * 500, "ab", "日本語だ", "x1y2z3")
    assert not any(suggestions(engine, " ".join(words)).values())


def test_suggestions_are_few_and_have_one_inflection_each(engine: Engine) -> None:
    (suggested,) = suggestions(engine, "plantx").values()
    assert suggested[0] == "plant"
    assert len(suggested) <= MAX_SUGGESTIONS
    assert "plants" not in suggested


def test_suggestions_are_words_of_the_library(engine: Engine) -> None:
    # The scorer knows "volcano" and "wage".
    assert suggestions(engine, "volcanoo wagee") == {"volcanoo": (), "wagee": ()}
    # "sailing" is not in the library; its inflection "sailed" is three edits away.
    assert suggestions(engine, "sailingg sailex") == {"sailingg": (), "sailex": ("sailed",)}
    # "illness" has only the stem of "ill".
    assert suggestions(engine, "ilness") == {"ilness": ()}


def test_words_have_the_number_of_chunks_that_contain_them(engine: Engine) -> None:
    words = {
        word.text: word.n_chunks for word in engine.explain("the Darwin storms qwrtpxz 1859 plant").words
    }
    assert words == {"the": None, "Darwin": 2, "storms": 1, "qwrtpxz": 0, "1859": 0, "plant": 2}


def test_query_of_many_unknown_words_is_explained(engine: Engine) -> None:
    words = engine.explain(" ".join(f"stor{chr(97 + i % 26)}{chr(97 + i // 26)}x" for i in range(300))).words
    assert len(words) == 300
    assert words[-1].n_chunks is None


def test_longer_words_may_have_two_errors(engine: Engine) -> None:
    engine_words = suggestions(engine, "anohter anotherrx sailx")
    assert engine_words["anohter"] == ("another",)
    assert engine_words["anotherrx"] == ("another",)
