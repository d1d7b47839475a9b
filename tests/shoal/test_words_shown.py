"""Learned words and their evidence, from `Vocabulary.list` and `Vocabulary.get`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from teaching_texts import about

from shoal.engine import Engine
from shoal.errors import NotFoundError, QueryError
from shoal.settings import Settings

FIRE, BOTH, SHIPS = "All about the zorblat", "Two words", "Ships"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("learned") / "shoal.db"
    with Engine(db_path=path, learning=True) as engine:
        engine.ingest_many(
            [
                {"title": FIRE, "content": about("fire", "zorblat", 6)},
                {"title": BOTH, "content": about("fire", "zorblats", 2) + " " + about("law", "quendle", 2)},
                {"title": SHIPS, "content": about("sea", "hoxley wump", 6)},
            ]
        )
    return path


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    with Engine(db_path=path, learning=True) as engine:
        yield engine


def test_vocabulary_lists_the_most_frequent_words_first_with_evidence(engine: Engine) -> None:
    page = engine.vocabulary.list()
    words = {word.word: word for word in page.words}
    assert next(iter(words)) == "zorblat"
    assert set(words) == {"zorblat", "quendle", "hoxley", "wump", "hoxley wump"}
    assert (page.total, page.warnings) == (5, ())
    zorblat = words["zorblat"]
    assert (zorblat.n_occurrences, zorblat.n_documents, zorblat.is_compound) == (8, 2, False)
    sources = [(source.title, source.n_occurrences) for source in zorblat.evidence.documents]
    assert sources == [(FIRE, 6), (BOTH, 2)]
    assert [source.title for source in words["quendle"].evidence.documents] == [BOTH]
    assert words["hoxley wump"].is_compound
    assert [source.title for source in words["hoxley wump"].evidence.documents] == [SHIPS]


def test_reefs_of_a_word_are_named_strongest_first(engine: Engine) -> None:
    names = {reef.id: reef.name for reef in engine.vocabulary.reefs().reefs}
    for word in engine.vocabulary.list().words:
        strengths = [reef.strength for reef in word.reefs]
        assert strengths == sorted(strengths, reverse=True)
        assert strengths[0] == 1.0
        assert all(reef.reef_name == names[reef.reef_id] for reef in word.reefs)
    assert "volcan" in (engine.vocabulary.get("zorblat").reefs[0].reef_name or "")


def test_pages_and_filters_of_the_vocabulary_agree_with_the_whole(engine: Engine) -> None:
    all_words = [word.word for word in engine.vocabulary.list().words]
    pages = [engine.vocabulary.list(limit=2, offset=n) for n in (0, 2, 4, 6)]
    assert [word.word for page in pages for word in page.words] == all_words
    assert {page.total for page in pages} == {5}
    for text in ("HOXLEY", "oxley", "hoxley-wump", "Hoxléy"):
        page = engine.vocabulary.list(q=text)
        assert {word.word for word in page.words} <= {"hoxley", "hoxley wump"}, text
        assert page.total == len(page.words) > 0
    for text in ("?", "%", "_", "hoxley_x", "", "\x00"):
        assert engine.vocabulary.list(q=text).total == 0, text


@pytest.mark.parametrize("arguments", [{"limit": -1}, {"offset": -1}, {"limit": True}, {"q": "\ud800"}])
def test_invalid_vocabulary_arguments_are_refused(engine: Engine, arguments: dict) -> None:
    with pytest.raises(QueryError) as caught:
        engine.vocabulary.list(**arguments)
    assert caught.value.field == next(iter(arguments))


@pytest.mark.parametrize("spelling", ["zorblat", "Zorblats", "  ZORBLAT's ", "“zorblat”"])
def test_learned_word_is_found_in_any_spelling(engine: Engine, spelling: str) -> None:
    assert engine.vocabulary.get(spelling).word == "zorblat"
    assert engine.vocabulary.get("Hoxley-Wumps").word == "hoxley wump"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("volcano", "in the dictionary"),
        ("the", "stop word"),
        ("1987", "number"),
        ("qwrtp", "was not learned"),
        ("zorblat quendle", "'zorblat', 'quendle' was"),
        ("?!", "contains no word"),
    ],
)
def test_word_that_was_not_learned_raises_with_the_reason(engine: Engine, word: str, reason: str) -> None:
    with pytest.raises(NotFoundError, match=reason):
        engine.vocabulary.get(word)


def test_explanation_shows_a_learned_word_with_its_evidence(engine: Engine) -> None:
    words = {word.text: word for word in engine.explain("the zorblats of a volcano").words}
    assert words["zorblats"].status == "learned"
    assert words["zorblats"].learned == engine.vocabulary.get("zorblat")
    assert words["volcano"].learned is None
    assert words["the"].learned is None


def test_evidence_names_documents_without_stored_observations(settings: Settings) -> None:
    pruning = dataclasses.replace(settings, learning=True, observations="prune")
    with Engine(settings=pruning) as engine:
        engine.ingest(title=FIRE, content=about("fire", "zorblat", 6))
        (source,) = engine.vocabulary.get("zorblat").evidence.documents
        assert (source.title, source.n_chunks > 0, source.n_occurrences) == (FIRE, True, None)


def test_evidence_excludes_documents_with_another_word_of_the_same_stem(settings: Settings) -> None:
    with Engine(settings=dataclasses.replace(settings, learning=True)) as engine:
        engine.ingest(title="one", content=about("fire", "zorblat", 6))
        engine.ingest(title="other", content=about("fire", "zorblated", 6))
        assert [source.title for source in engine.vocabulary.get("zorblat").evidence.documents] == ["one"]
        assert [source.title for source in engine.vocabulary.get("zorblated").evidence.documents] == ["other"]


def test_forgotten_words_are_not_listed(settings: Settings) -> None:
    with Engine(settings=dataclasses.replace(settings, learning=True)) as engine:
        stored = engine.ingest(title="one", content=about("fire", "zorblat", 6))
        assert engine.vocabulary.list().total == 1
        assert stored.id is not None
        engine.documents.delete(stored.id)
        engine.maintenance.rescore()
        assert engine.vocabulary.list().total == 0
        with pytest.raises(NotFoundError):
            engine.vocabulary.get("zorblat")
