"""The words that a library has learned, as people are shown them."""

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
    with Engine(db_path=path, learning=True) as opened:
        yield opened


def test_words_come_with_what_they_were_learned_from_the_most_frequent_first(engine: Engine) -> None:
    page = engine.vocabulary()
    words = {word.word: word for word in page.words}
    assert next(iter(words)) == "zorblat"
    assert set(words) == {"zorblat", "quendle", "hoxley", "wump", "hoxley wump"}
    assert (page.total, page.warnings) == (5, ())
    zorblat = words["zorblat"]
    assert (zorblat.n_occurrences, zorblat.n_documents, zorblat.is_compound) == (8, 2, False)
    assert [(user.title, user.n_occurrences) for user in zorblat.evidence.documents] == [(FIRE, 6), (BOTH, 2)]
    assert [user.title for user in words["quendle"].evidence.documents] == [BOTH]
    assert words["hoxley wump"].is_compound
    assert [user.title for user in words["hoxley wump"].evidence.documents] == [SHIPS]


def test_the_reefs_of_a_word_are_named_and_the_strongest_is_first(engine: Engine) -> None:
    names = {reef["id"]: reef["name"] for reef in engine.reefs()["reefs"]}
    for word in engine.vocabulary().words:
        strengths = [reef.strength for reef in word.reefs]
        assert strengths == sorted(strengths, reverse=True)
        assert strengths[0] == 1.0
        assert all(reef.reef_name == names[reef.reef_id] for reef in word.reefs)
    assert "volcan" in (engine.learned_word("zorblat").reefs[0].reef_name or "")


def test_pages_and_searches_of_the_listing_agree_with_the_whole(engine: Engine) -> None:
    everything = [word.word for word in engine.vocabulary().words]
    pages = [engine.vocabulary(limit=2, offset=n) for n in (0, 2, 4, 6)]
    assert [word.word for page in pages for word in page.words] == everything
    assert {page.total for page in pages} == {5}
    for asked in ("HOXLEY", "oxley", "hoxley-wump", "Hoxléy"):
        found = engine.vocabulary(q=asked)
        assert {word.word for word in found.words} <= {"hoxley", "hoxley wump"}, asked
        assert found.total == len(found.words) > 0
    for asked in ("?", "%", "_", "hoxley_x", "", "\x00"):
        assert engine.vocabulary(q=asked).total == 0, asked


@pytest.mark.parametrize("asked", [{"limit": -1}, {"offset": -1}, {"limit": True}, {"q": "\ud800"}])
def test_a_listing_that_makes_no_sense_is_refused(engine: Engine, asked: dict) -> None:
    with pytest.raises(QueryError) as caught:
        engine.vocabulary(**asked)
    assert caught.value.field == next(iter(asked))


@pytest.mark.parametrize("spelling", ["zorblat", "Zorblats", "  ZORBLAT's ", "“zorblat”"])
def test_a_word_is_found_however_it_is_spelt(engine: Engine, spelling: str) -> None:
    assert engine.learned_word(spelling).word == "zorblat"
    assert engine.learned_word("Hoxley-Wumps").word == "hoxley wump"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("volcano", "in the dictionary"),
        ("the", "stop word"),
        ("1987", "number"),
        ("qwrtp", "was not learned"),
        ("zorblat quendle", "'zorblat', 'quendle' was"),
        ("?!", "contains no word"),
    ],
)
def test_what_was_not_learned_is_told_why(engine: Engine, asked: str, why: str) -> None:
    with pytest.raises(NotFoundError, match=why):
        engine.learned_word(asked)


def test_an_explanation_shows_a_learned_word_with_its_evidence(engine: Engine) -> None:
    words = {word.text: word for word in engine.explain("the zorblats of a volcano").words}
    assert words["zorblats"].status == "learned"
    assert words["zorblats"].learned == engine.learned_word("zorblat")
    assert words["volcano"].learned is None
    assert words["the"].learned is None


def test_where_observations_are_not_kept_the_documents_are_still_named(settings: Settings) -> None:
    pruning = dataclasses.replace(settings, learning=True, observations="prune")
    with Engine(settings=pruning) as engine:
        engine.ingest(title=FIRE, content=about("fire", "zorblat", 6))
        (user,) = engine.learned_word("zorblat").evidence.documents
        assert (user.title, user.n_chunks > 0, user.n_occurrences) == (FIRE, True, None)


def test_a_document_that_uses_another_word_of_the_same_stem_is_not_named(settings: Settings) -> None:
    with Engine(settings=dataclasses.replace(settings, learning=True)) as engine:
        engine.ingest(title="one", content=about("fire", "zorblat", 6))
        engine.ingest(title="other", content=about("fire", "zorblated", 6))
        assert [user.title for user in engine.learned_word("zorblat").evidence.documents] == ["one"]
        assert [user.title for user in engine.learned_word("zorblated").evidence.documents] == ["other"]


def test_forgotten_words_are_not_listed(settings: Settings) -> None:
    with Engine(settings=dataclasses.replace(settings, learning=True)) as engine:
        stored = engine.ingest(title="one", content=about("fire", "zorblat", 6))
        assert engine.vocabulary().total == 1
        assert stored.id is not None
        engine.delete_document(stored.id)
        engine.rescore()
        assert engine.vocabulary().total == 0
        with pytest.raises(NotFoundError):
            engine.learned_word("zorblat")
