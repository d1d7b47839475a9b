"""Each result says in one sentence why it is one, and says no more than can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.engine import Engine
from shoal.models.scores import Reason, ReasonKind, sentence_of
from shoal.models.search import SearchResult
from shoal.settings import Settings

DOCUMENTS = {
    "Orchard": (
        "The company lost money for years, and its workers left. In 1997 Steve Baker returned to the company, "
        "and the firm earned a profit again. Shareholders thanked Baker for the recovery of the business."
    ),
    "Ovens": (
        "A baker works at night. Every baker of the town kneads dough and heats the oven, and the bakers sell "
        "bread, rolls and cakes in the morning."
    ),
    "Fevers": (
        "A vaccine trains the immune system. Doctors gave the vaccine to children, so that measles and "
        "smallpox no longer spread from one patient to another."
    ),
    "Islands": (
        "The emperor lost the war. Tokyo was rebuilt, and the Japanese built ships and cars and sold them to "
        "Korea and China. The samurai of Kyoto had long been forgotten in Japan."
    ),
    "Stadium": (
        "Queen played in the stadium for an hour. The singer Mercury led the crowd, and the guitar of Queen was "
        "heard far outside. The records of Queen sold well after the concert."
    ),
    "Gateway": "The gateway stops with error E-4711 when the disk is full. Restart it and clear the disk.",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("why") / "shoal.db"
    with Engine(settings=Settings(database_url=f"sqlite:///{path}")) as opened:
        for title, content in DOCUMENTS.items():
            opened.ingest(title=title, content=content, tags=["manual"] if title == "Gateway" else [])
        yield opened


def found(engine: Engine, query: str, title: str, **search: object) -> SearchResult:
    results = engine.search(query, **search).results  # type: ignore[arg-type]
    return next(result for result in results if result.document_title == title)


def items(result: SearchResult, kind: ReasonKind) -> list[str]:
    return [item for reason in result.reasons if reason.kind is kind for item in reason.items]


def test_a_name_is_a_reason_of_its_own_and_comes_first(engine: Engine) -> None:
    result = found(engine, "how did the company recover after Baker returned", "Orchard")
    assert result.reasons[0].kind is ReasonKind.name
    assert result.reasons[0].items[0].endswith("Baker")
    assert set(items(result, ReasonKind.word)) >= {"company", "returned"}


@pytest.mark.parametrize(
    ("query", "is_name"),
    [("who paid Baker for it", True), ("who paid a baker for it", False), ("Baker", False)],
)
def test_no_reef_is_a_reason_through_a_name(engine: Engine, query: str, is_name: bool) -> None:
    shared = found(engine, query, "Ovens", include_scores=True).shared_reefs or ()
    words = {word for reef in shared if reef.is_reason for word in reef.query_words}
    assert ("baker" in words) is not is_name


def test_a_name_that_is_never_a_thing_has_its_reef(engine: Engine) -> None:
    asked = "which war did Japan lose"
    result = found(engine, asked, "Islands", include_scores=True)
    reasons = {reef.reef_name: reef.query_words for reef in result.shared_reefs or () if reef.is_reason}
    assert reasons["China and Japan"] == ("japan",)
    assert "China and Japan" in items(result, ReasonKind.topic)


def test_a_name_has_no_reef_that_the_passage_is_not_about(engine: Engine) -> None:
    for query in ("who founded Queen", "what did the singer Mercury lead"):
        shared = found(engine, query, "Stadium", include_scores=True).shared_reefs or ()
        assert not {"kings and nobility", "metals and alloys"} & {r.reef_name for r in shared if r.is_reason}


def test_related_words_are_one_of_the_query_and_another_of_the_passage(engine: Engine) -> None:
    result = found(engine, "infants", "Fevers", mode="reef")
    assert items(result, ReasonKind.related_words) == ["infants ~ children"]
    none = Settings(database_url=engine.settings.database_url, label_threshold=1.0)
    with Engine(settings=none) as strict:
        assert not items(found(strict, "infants", "Fevers", mode="reef"), ReasonKind.related_words)


def test_a_rare_word_is_the_word_itself_and_no_other_of_its_stem(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        engine.ingest(
            title="Sea", content="The dragoons saw microscopic plants in it. He speculated on them."
        )
        engine.ingest_many({"title": f"Hill {n}", "content": f"Grass grows on hill {n}."} for n in range(60))
        rare = {
            word: items(found(engine, word, "Sea"), ReasonKind.rare_word)
            for word in ("dragoon", "microscopic")
        }
        assert rare == {"dragoon": ["dragoons"], "microscopic": ["microscopic"]}
        result = found(engine, "microscopes", "Sea")
        assert not items(result, ReasonKind.rare_word)
        assert items(result, ReasonKind.word) == ["microscopic (for microscopes)"]


def test_an_inflection_is_shown_before_another_word_of_its_stem(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        engine.ingest(title="Wheat", content="Speculation ruined him. He speculated in wheat.")
        assert items(found(engine, "speculate", "Wheat"), ReasonKind.word) == ["speculated"]


def test_a_part_of_a_compound_is_not_related_to_itself(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db") as engine:
        engine.ingest(
            title="Council", content="A judge has an eight-year term. The lease of the land is approved."
        )
        assert items(found(engine, "a 99-year lease", "Council"), ReasonKind.related_words) == []


def test_words_in_small_letters_are_no_names_of_the_passage(engine: Engine) -> None:
    result = found(engine, "who paid Baker for it", "Ovens")
    assert items(result, ReasonKind.name) == []
    assert items(result, ReasonKind.word) == ["baker"]


def test_codes_headings_and_tags_are_shown_as_such(engine: Engine) -> None:
    result = found(engine, "error E-4711 of the manual gateway", "Gateway")
    assert items(result, ReasonKind.code) == ["E-4711"]
    assert items(result, ReasonKind.tag) == ["manual"]
    above = found(engine, "orchard profit", "Orchard")
    assert Reason(ReasonKind.heading, "its title has", ("Orchard",)) in above.reasons


def test_words_are_quoted_as_the_passage_writes_them(engine: Engine) -> None:
    for query in ("vaccines for patients", "returning companies", "profits and businesses", "dish"):
        for result in engine.search(query).results:
            quoted = items(result, ReasonKind.word) + items(result, ReasonKind.rare_word)
            assert all(word.split(" (for ")[0] in result.text for word in quoted)


def test_topics_are_labels_of_the_passage(engine: Engine) -> None:
    for query in ("infectious diseases", "companies and shareholders", "bread and cakes", "a full disk"):
        for result in engine.search(query, include_scores=True).results:
            labels = {label.reef_name for label in result.labels}
            reasons = {reef.reef_name for reef in result.shared_reefs or () if reef.is_reason}
            assert labels & reasons >= set(items(result, ReasonKind.topic))


def test_every_result_has_a_reason_in_every_mode_with_and_without_scores(engine: Engine) -> None:
    for mode in ("hybrid", "lexical", "reef"):
        for query in ("infectious diseases", "Baker", "quarrel of the crew", "error E-4711", "-disk gateway"):
            plain = engine.search(query, mode=mode).results
            with_scores = engine.search(query, mode=mode, include_scores=True).results
            assert [each.why for each in plain] == [each.why for each in with_scores]
            assert all(each.why == sentence_of(each.reasons) != "" for each in plain)


def test_a_result_without_words_of_the_query_claims_none(engine: Engine) -> None:
    for result in engine.search("quarrels of sailors", mode="reef").results:
        assert items(result, ReasonKind.word) == []
        if result.reasons[0].kind in (ReasonKind.background, ReasonKind.feedback):
            assert result.why.startswith("holds no word of the query")


def test_topics_are_joined_by_commas_and_words_by_and() -> None:
    reasons = [
        Reason(ReasonKind.name, "names", ("Steve Jobs", "Apple")),
        Reason(ReasonKind.word, "holds", ("a", "b", "c")),
        Reason(ReasonKind.topic, "about", ("fish and whales", "ships and sailing")),
    ]
    assert sentence_of(reasons) == (
        "names Steve Jobs and Apple; holds *a*, *b* and *c*; about fish and whales, ships and sailing"
    )


def test_words_side_by_side_in_query_and_passage_are_one_phrase(engine: Engine) -> None:
    result = found(engine, "how the immune system works and how children knead dough", "Fevers")
    assert items(result, ReasonKind.phrase) == ["immune system"]
    assert not {"immune", "system"} & set(items(result, ReasonKind.word))
    # Not across the end of a sentence, in another order, or with a word between.
    for query in ("system doctors", "smallpox measles", "doctors vaccine"):
        assert items(found(engine, query, "Fevers"), ReasonKind.phrase) == []
    assert items(found(engine, '"spread from one patient"', "Fevers"), ReasonKind.phrase) == [
        "spread from one patient"
    ]
    # The longest run is shown, and no part of it.
    result = found(engine, "full disk stops gateway stops with error", "Gateway")
    assert items(result, ReasonKind.phrase) == ["gateway stops"]


def test_a_word_is_rare_in_a_small_library_if_it_is_so_in_ordinary_text(tmp_path: Path) -> None:
    with Engine(settings=Settings(database_url=f"sqlite:///{tmp_path / 'small.db'}")) as engine:
        engine.ingest_many(
            {"title": f"Day {n}", "content": f"The company met on day {n} and paid the workers of the town."}
            for n in range(60)
        )
        engine.ingest(title="Leaves", content="Chlorophyll returned to the leaves of the town.")
        result = found(engine, "chlorophyll that returned", "Leaves")
    assert items(result, ReasonKind.rare_word) == ["Chlorophyll"]
    assert items(result, ReasonKind.word) == ["returned"]
