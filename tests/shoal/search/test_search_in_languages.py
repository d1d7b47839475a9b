"""Searches in a library of several languages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal import Engine
from shoal.errors import InvalidFieldError, QueryError
from shoal.search.query_inflections import languages_of_query

GERMAN = "Die alten Häuser stehen am Hafen. Sie sind aus Stein, und der Wind hat ihnen nie geschadet."
PARLIAMENT = "Das Parlament tagt im Herbst. Die Wahlen sind frei, und alle Bürger dürfen ihre Stimme abgeben."
SPANISH = "Las canciones del puerto son viejas, y los hombres las cantan cuando vuelven del mar por la noche."
ENGLISH = "The old harbour has a house of stone, and the wind has never done any harm to it."
GREEK = "Οι άνθρωποι του λιμανιού τραγουδούν παλιά τραγούδια όταν γυρίζουν από τη θάλασσα το βράδυ."
CHINESE = "港口的老房子是用石头建造的，海风从来没有损坏过它们。"
MIXED = f"# One\n\n{ENGLISH}\n\n# Zwei\n\n{GERMAN}\n"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = tmp_path_factory.mktemp("languages") / "shoal.db"
    with Engine(db_path=path, learning=False) as engine:
        texts = {"de": GERMAN, "de2": PARLIAMENT, "es": SPANISH, "en": ENGLISH, "el": GREEK, "zh": CHINESE}
        for name, text in texts.items():
            engine.ingest(title=f"Text {name}", content=text, source_path=name)
        engine.ingest(title="Both", content=MIXED, format="markdown", source_path="mixed")
        yield engine


def first(engine: Engine, query: str, **arguments: object) -> str | None:
    results = engine.search(query, **arguments).results  # type: ignore[arg-type]
    return results[0].source_path if results else None


def test_documents_and_passages_have_their_language(engine: Engine) -> None:
    languages = {each.source_path: each.language for each in engine.documents.list().documents}
    assert languages == {
        "de": "de",
        "de2": "de",
        "es": "es",
        "en": "en",
        "el": "el",
        "zh": "zh",
        "mixed": languages["mixed"],
    }
    mixed = next(each for each in engine.documents.list().documents if each.source_path == "mixed")
    chunks = engine.documents.chunks(mixed.id).chunks
    assert [chunk.language for chunk in chunks] == ["en", "de"]
    assert not mixed.is_language_given


def test_only_english_passages_have_labels(engine: Engine) -> None:
    documents = engine.documents
    content = (
        "Der Chef der Band sang, und die Fans im Park waren hinter dem Tor. Die Show war gut. He died in bed."
    )
    band = engine.ingest(title="Band", content=content, language="de")
    for each in documents.list().documents:
        for chunk in documents.chunks(each.id).chunks:
            assert not chunk.labels or chunk.language == "en", (chunk.text, chunk.labels)
    assert band.id is not None
    documents.delete(band.id)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("Haus aus Stein mit Wind", "de"),
        ("la canción de los hombres", "es"),
        ("τραγούδι ανθρώπων", "el"),
        ("石头房子", "zh"),
        ("houses of stone", "en"),
    ],
)
def test_a_question_finds_other_inflections_in_its_language(engine: Engine, query: str, path: str) -> None:
    assert first(engine, query, max_per_document=1) in (path, "mixed" if path in ("de", "en") else path)


def test_an_inflection_is_found_highlighted_and_named(engine: Engine) -> None:
    reply = engine.search("altes Haus", language="de", include_scores=True)
    result = next(each for each in reply.results if each.source_path == "de")
    shown = [result.text[start:end] for start, end in result.highlights]
    assert shown == ["alten", "Häuser"]
    assert {each.same_stem for each in result.matched_terms or ()} == {"alten", "Häuser"}
    assert "\x04" not in repr(reply)


def test_a_compound_of_the_query_finds_its_parts(engine: Engine) -> None:
    assert first(engine, "Parlamentswahl", language="de") == "de2"
    assert first(engine, "Parlamentswahl", language="en") is None


def test_words_of_the_query_in_another_language_do_not_meet(engine: Engine) -> None:
    assert first(engine, "cantar", language="es", typos="off") == "es"
    assert first(engine, "cantar", language="de", typos="off") is None


def test_language_is_a_filter_and_a_facet(engine: Engine) -> None:
    query = {"query": "Hafen house 石头", "mode": "lexical"}
    results = engine.search(**query, filter="language = de").results
    assert {each.source_path for each in results} == {"de", "mixed"}
    (facet,) = engine.search(**query, facets=["language"]).facets or ()
    assert {value.value: value.count for value in facet.values}["de"] == 2


def test_a_given_language_overrides_the_detected_one(engine: Engine) -> None:
    result = engine.ingest(title="Given", content="Sonate", language="it", source_path="given")
    assert result.id is not None
    document = engine.documents.get(result.id).document
    assert (document.language, document.is_language_given) == ("it", True)
    engine.documents.replace(result.id, content="Sonate in due parti")
    replaced = engine.documents.get(result.id).document
    assert (replaced.language, replaced.is_language_given) == ("it", True)
    engine.documents.delete(result.id)


@pytest.mark.parametrize("language", ["", "deutsch", "DE", "d", 5, "d\u0435"])
def test_what_is_no_code_of_a_language_is_refused(engine: Engine, language: object) -> None:
    with pytest.raises(InvalidFieldError, match="language"):
        engine.ingest(title="T", content="text", language=language)  # type: ignore[arg-type]
    with pytest.raises(QueryError) as error:
        engine.search("tide", language=language)  # type: ignore[arg-type]
    assert error.value.field == "language"


def test_a_query_has_the_language_that_its_script_or_stop_words_say() -> None:
    library = ("de", "en", "es", "ru", "zh")
    assert languages_of_query("Wer hat die Häuser gebaut", None, library) == ("de",)
    assert languages_of_query("石头房子", None, library) == ("zh",)
    assert languages_of_query("Sonate", None, library) == library
    assert languages_of_query("Sonate", "es", library) == ("es",)
    assert languages_of_query("Wer hat die Häuser gebaut", None, ("en",)) == ("en",)


def test_a_long_text_without_spaces_is_stored_and_found(tmp_path: object) -> None:
    text = "潮水上涨是因为月亮和太阳吸引海水" * 4_000
    with Engine(db_path=f"{tmp_path}/long.db", learning=False) as engine:
        result = engine.ingest(title="Long", content=text)
        assert result.error is None
        assert engine.search("月亮和太阳").results[0].document_id == result.id


def test_a_corrected_language_is_analysed_again(tmp_path: Path) -> None:
    with Engine(db_path=tmp_path / "shoal.db", learning=False) as engine:
        stored = engine.ingest(title="Hafen", content=GERMAN, language="nl")

        def state() -> tuple[str, bool, list[tuple[int, str]], bool]:
            document = engine.documents.get(stored.id).document
            chunks = [(chunk.id, chunk.language) for chunk in engine.documents.chunks(stored.id).chunks]
            is_found = bool(engine.search("Haus", language="de", mode="lexical", typos="off").results)
            return document.language, document.is_language_given, chunks, is_found

        ((chunk_id, _),) = state()[2]
        assert state() == ("nl", True, [(chunk_id, "nl")], False)
        engine.documents.change(stored.id, language="de")
        assert state() == ("de", True, [(chunk_id, "de")], True)
        # The same text with another language is not what is stored.
        engine.documents.replace(stored.id, content=GERMAN, language="nl")
        assert state() == ("nl", True, [(chunk_id, "nl")], False)
        engine.documents.change(stored.id, title="Am Hafen")
        assert state() == ("nl", True, [(chunk_id, "nl")], False)
        engine.documents.change(stored.id, language=None)
        assert state() == ("de", False, [(chunk_id, "de")], True)
        with pytest.raises(InvalidFieldError, match="language"):
            engine.documents.change(stored.id, language="German")


@pytest.mark.parametrize("marks", ["„{}“", "»{}«", "«{}»", '"{}"', "“{}”"])
def test_quotation_marks_of_languages_make_phrases(engine: Engine, marks: str) -> None:
    phrase = marks.format("Hafen stehen")
    assert not engine.search(phrase, language="de").results
    assert first(engine, marks.format("am Hafen"), language="de") in ("de", "mixed")


def test_hebrew_words_are_found_with_and_without_prefixes(tmp_path: Path) -> None:
    texts = {
        "in": "הילדים גרים בבית הגדול ליד הנמל, והם שרים כל ערב.",
        "the": "הבית הישן נבנה מאבן לפני שנים רבות.",
        "bare": "בית חדש נבנה ליד הגן הגדול.",
        "other": "הרוח נושבת מן הים אל ההרים כל הלילה.",
    }
    with Engine(db_path=tmp_path / "shoal.db", learning=False) as engine:
        for name, text in texts.items():
            engine.ingest(title=f"Text {name}", content=text, source_path=name)

        def found(query: str) -> set[str | None]:
            results = engine.search(query, mode="lexical", typos="off").results
            return {result.source_path for result in results}

        assert found("בית") == {"in", "the", "bare"}
        assert found("לבית") == {"in", "the", "bare"}
        assert found('"בית"') == {"bare"}
        assert found("הרוח") == {"other"}
