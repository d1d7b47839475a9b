"""Searches whose words also stand for words of other languages, by small wordnets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_wordnets import installed

from lagoon.wordnets import FILE
from shoal import Engine
from shoal.errors import QueryError
from shoal.models.search import SearchResponse

ACID = "Acid rain falls on the forest, and the trees lose their leaves in the autumn of the year."
METAL = "Iron and copper are metals which people melt in large ovens to make tools for their work."
BANK = "The bank lends money to people who want to build a house, and it has a branch by the shore."
PLUIE = "La pluie tombe depuis des semaines sur la forêt, et les arbres perdent leurs feuilles en automne."
FIELD = "Le rain du champ est couvert d'herbe, et la marine du peintre Wood est plus belle que les autres."
GREEK = "Η βροχή πέφτει στο δάσος από χθες, και τα δέντρα χάνουν τα φύλλα τους το φθινόπωρο."
ALL = ["*"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("across")
    texts = {"acid": ACID, "metal": METAL, "bank": BANK, "pluie": PLUIE, "field": FIELD, "greek": GREEK}
    with installed(folder), Engine(db_path=folder / "shoal.db", learning=False) as engine:
        for name, text in texts.items():
            engine.ingest(title=name, content=text, source_path=name)
        yield engine


def held(reply: SearchResponse) -> dict[str | None, tuple[str, ...]]:
    """The words of other languages that each result holds."""
    return {
        result.source_path: tuple(word for term in result.matched_terms or () for word in term.translations)
        for result in reply.results
    }


def test_words_find_passages_in_other_languages(engine: Engine) -> None:
    reply = engine.search("βροχή στα δάση", languages=ALL, include_scores=True)
    assert held(reply) == {"greek": (), "acid": ("rain", "forest"), "pluie": ("pluie", "foret")}
    by_path = {result.source_path: result for result in reply.results}
    assert "βροχή → rain" in by_path["acid"].why
    assert [by_path["acid"].text[a:b] for a, b in by_path["acid"].highlights] == ["rain", "forest"]
    assert [by_path["pluie"].text[a:b] for a, b in by_path["pluie"].highlights] == ["pluie", "forêt"]
    assert [by_path[name].other_language for name in ("greek", "acid", "pluie")] == [None, "en", "fr"]
    assert reply.results[0].source_path == "greek"


def test_without_the_argument_only_words_as_typed_are_found(engine: Engine) -> None:
    assert [result.source_path for result in engine.search("βροχή").results] == ["greek"]
    assert engine.search("rain", languages=[]).results == engine.search("rain").results


def test_only_the_languages_asked_for_are_searched(engine: Engine) -> None:
    reply = engine.search("βροχή", languages=["fr"], include_scores=True)
    assert held(reply) == {"greek": (), "pluie": ("pluie",)}
    reply = engine.search("rain", languages=["el", "zh"], include_scores=True)
    assert held(reply)["greek"] == ("βροχη",)
    assert {each.language for each in reply.query_info.translations} == {"el"}


def test_translations_say_what_was_searched_for(engine: Engine) -> None:
    reply = engine.search("βροχή", languages=["en"])
    (used,) = reply.query_info.translations
    assert (used.typed, used.word, used.language, used.n_chunks) == ("βροχή", "rain", "en", 1)


def test_translations_count_in_passages_of_their_language(engine: Engine) -> None:
    # The French "rain", the edge of a field, is no translation, and no English passage has "wood".
    reply = engine.search("βροχή marine", language="el", languages=["en"], include_scores=True)
    results = {result.source_path: result for result in reply.results}
    assert set(results) == {"greek", "acid", "field"}
    assert results["field"].why == "holds *marine*"
    assert [FIELD[start:end] for start, end in results["field"].highlights] == ["marine"]
    assert [term.term for term in results["field"].matched_terms or ()] == ["marine"]
    reply = engine.search("δάσος", languages=["en"])
    assert [each.word for each in reply.query_info.translations] == ["forest"]


def test_synonyms_of_the_library_count_in_every_language(engine: Engine) -> None:
    entry = engine.vocabulary.synonyms.add(["rain"], root="βροχή")
    try:
        reply = engine.search("βροχή", language="el", languages=["en"])
        assert {result.source_path for result in reply.results} == {"greek", "acid", "field"}
        assert not reply.query_info.translations
    finally:
        engine.vocabulary.synonyms.delete(entry.id)


def test_inflections_lead_to_lemmas(engine: Engine) -> None:
    reply = engine.search("forêts", language="fr", languages=["en"], include_scores=True)
    assert held(reply)["acid"] == ("forest",)


def test_longest_lemma_with_a_word_in_the_library_counts(engine: Engine) -> None:
    # No passage has the sunflower of 向日葵, so its last two signs are a lemma.
    reply = engine.search("向日葵 森林", languages=["en"], include_scores=True)
    assert held(reply) == {"acid": ("forest",), "bank": ("bank",)}
    reply = engine.search("les pommes de terre", language="fr", languages=["en"], include_scores=True)
    assert {each.word for each in reply.query_info.translations} == {"shore", "bank"}


def test_signs_between_lemmas_do_not_count_as_missing(engine: Engine) -> None:
    reply = engine.search("雨森林", languages=["en"])
    assert reply.results[0].source_path == "acid"
    assert reply.query_info.missing_terms == ()
    assert reply.results[0].term_coverage == 1.0


def test_lemmas_of_several_words_are_named_as_a_whole(engine: Engine) -> None:
    reply = engine.search("les pommes de terre", language="fr", languages=["en"], include_scores=True)
    bank = next(each for each in reply.results if each.source_path == "bank")
    assert bank.why == "holds *pommes de terre → shore*"
    assert {word for term in bank.matched_terms or () for word in term.translations} == {
        "pommes de terre → bank",
        "pommes de terre → shore",
    }


def test_stop_words_stand_for_nothing(engine: Engine) -> None:
    reply = engine.search("βροχή", languages=["en"])
    assert [each.word for each in reply.query_info.translations] == ["rain"]


def test_phrases_and_excluded_words_stay_as_typed(engine: Engine) -> None:
    assert not engine.search('"όχθη"', languages=ALL).results
    reply = engine.search("δάσος -βροχή", languages=["en"])
    assert [result.source_path for result in reply.results] == ["acid"]


def test_languages_without_a_wordnet_are_named(engine: Engine) -> None:
    warnings = engine.search("Regen im Wald", language="de", languages=ALL).warnings
    assert "no search across languages for German: there is no wordnet of it" in warnings
    warnings = engine.search("pioggia", language="it", languages=ALL).warnings
    assert "no search across languages for Italian: lagoon-data-it is not installed" in warnings
    assert not any("across" in each for each in engine.search("rain", languages=ALL).warnings)


@pytest.mark.parametrize("damage", ["not a zip", "encrypted", "method"])
def test_a_damaged_wordnet_is_named_and_read_once(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    path = tmp_path / "el" / "lagoon_data_el" / FILE
    with installed(tmp_path):
        intact = path.read_bytes()
        content = bytearray(intact)
        at = content.index(b"PK\x01\x02")
        # Flags and method of the first member in the directory of a ZIP file.
        places = {"not a zip": 0, "encrypted": at + 8, "method": at + 10}
        content[places[damage]] ^= 1 if damage == "encrypted" else 97
        path.write_bytes(content)
        reply = engine.search("rain", languages=ALL)
        assert "no search across languages for Greek: lagoon-data-el is damaged; install it again" in (
            reply.warnings
        )
        assert {each.language for each in reply.query_info.translations} == {"fr"}
        path.write_bytes(intact)
        assert engine.search("rain", languages=ALL).warnings == reply.warnings


@pytest.mark.parametrize("given", ["en", ["en", "xx"], [1], 7, {"en": 1}])
def test_bad_languages_are_refused(engine: Engine, given: object) -> None:
    with pytest.raises(QueryError) as raised:
        engine.search("rain", languages=given)  # type: ignore[arg-type]
    assert raised.value.field == "languages"


def test_explanations_follow_translations(engine: Engine) -> None:
    acid = next(each for each in engine.documents.list().documents if each.source_path == "acid")
    explanation = engine.explain("βροχή", document_id=acid.id, languages=["en"])
    assert explanation.target is not None
    assert explanation.target.rank == 2
