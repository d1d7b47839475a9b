"""The dense signal: candidates, scores that add up, chunks without a vector, and reasons."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from dense_library import QUERY, SAME, TEXTS, Vectors, ingest, opened
from fake_encoder import FakeEncoder
from fake_scorer import FakeScorer

from shoal.encoders.encoder import Floats, TextKind
from shoal.engine import Engine
from shoal.errors import EncoderMismatchError, EncoderUnavailableError, QueryError
from shoal.index.vectors import DenseScores
from shoal.models.scores import RerankFallback
from shoal.search import query_vectors
from shoal.search.library_index import LibraryIndex
from shoal.settings import Settings


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder(dimension=256, same=SAME)


@pytest.fixture
def vectors(encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch) -> Vectors:
    stored = Vectors(encoder)

    def dense(library: LibraryIndex, vector: Floats) -> DenseScores | None:
        return stored.dense(library, vector)

    monkeypatch.setattr(LibraryIndex, "dense", dense)
    return stored


@pytest.fixture
def engine(settings: Settings, encoder: FakeEncoder, vectors: Vectors) -> Iterator[Engine]:
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        yield engine


def test_the_dense_signal_finds_what_shares_no_word_and_no_reef(engine: Engine) -> None:
    response = engine.search(QUERY)
    assert [result.document_title for result in response.results] == ["Heart"]
    assert response.results[0].provenance == ("dense",)
    assert not engine.search(QUERY, weights={"lexical": 1, "reef": 1}).results


def test_unrelated_texts_are_no_matches(engine: Engine) -> None:
    assert not engine.search("quarterly dividend forecast", mode="dense").results


@pytest.mark.parametrize("fusion", ["blend", "rrf"])
@pytest.mark.parametrize("missing", [(), ("Rain",), ("Rain", "Courts")])
def test_the_parts_of_three_signals_add_up(
    engine: Engine, vectors: Vectors, fusion: str, missing: Sequence[str]
) -> None:
    vectors.missing = {TEXTS[title] for title in missing}
    response = engine.search("rain and a jury, myocardial infarction", fusion=fusion, include_scores=True)
    assert len(response.results) == 3
    assert sum(response.weights.values()) == pytest.approx(1.0)
    assert response.weights["dense"] > 0
    for result in response.results:
        parts = {name: getattr(result.scores, name) * weight for name, weight in response.weights.items()}
        assert sum(parts.values()) == pytest.approx(result.match_score, abs=1e-12)
        assert (result.scores.dense_raw is None) == (result.document_title in missing)
        target = engine.explain(
            "rain and a jury, myocardial infarction", fusion=fusion, chunk_id=result.chunk_id
        ).target
        assert target is not None
        assert target.scores == result.scores
        assert target.nearest_sentence == result.nearest_sentence


def test_a_chunk_without_a_vector_keeps_its_score_by_words_and_reefs(
    engine: Engine, vectors: Vectors
) -> None:
    def score_of_rain(**arguments: Any) -> float:
        results = engine.search("rain storm", **arguments).results
        return next(result.match_score for result in results if result.document_title == "Rain")

    alone = engine.search("rain storm", weights={"lexical": 0.5, "reef": 0.5})
    vectors.missing = {TEXTS["Rain"]}
    mixed = engine.search("rain storm", weights={"lexical": 0.5, "reef": 0.5, "dense": 1.0})
    assert mixed.results[0].match_score == pytest.approx(alone.results[0].match_score)
    assert score_of_rain() <= 1.0


def test_without_vectors_scores_are_those_of_words_and_reefs(
    engine: Engine, settings: Settings, vectors: Vectors
) -> None:
    vectors.missing = set(TEXTS.values())
    with Engine(settings=settings, scorer=FakeScorer()) as plain:
        for query in ("rain storm", "the judge and the storm", QUERY):
            for arguments in ({}, {"fusion": "rrf"}, {"preset": "corpus"}, {"preset": "precise"}):
                expected, response = (each.search(query, **arguments) for each in (plain, engine))
                assert response.results == expected.results
                assert response.weights == expected.weights
                assert response.weights["dense"] == 0.0


def test_a_query_of_unknown_words_is_promised_no_results(engine: Engine) -> None:
    response = engine.search("qzxv")
    assert not response.results
    [warning] = response.warnings
    assert warning.endswith("(qzxv); results can only be near to it in meaning")


def test_mode_dense_ranks_by_the_cosine(engine: Engine) -> None:
    response = engine.search(QUERY, mode="dense", include_scores=True)
    (result,) = response.results
    assert result.match_score == result.scores.dense_raw
    assert result.scores.lexical is None
    assert result.scores.reef is None
    others = [engine.explain(QUERY, mode="dense", document_id=number).target for number in (2, 3, 4)]
    assert {target.kept_out[0].reason for target in others if target} == {"not near"}


def test_mode_dense_names_chunks_without_a_vector(engine: Engine, vectors: Vectors) -> None:
    vectors.missing = {TEXTS["Rain"]}
    target = engine.explain(QUERY, mode="dense", document_id=2).target
    assert target is not None
    assert [reason.reason for reason in target.kept_out] == ["no vector"]
    warning = "1 of 4 texts have no vector, and vectors alone cannot find them"
    assert any(text.startswith(warning) for text in engine.search(QUERY, mode="dense").warnings)
    assert not any("no vector" in text for text in engine.search(QUERY).warnings)
    vectors.missing = set()
    assert not any("no vector" in text for text in engine.search(QUERY, mode="dense").warnings)


def test_mode_dense_needs_an_encoder(settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as plain:
        with pytest.raises(QueryError, match="SHOAL_ENCODER"):
            plain.search("rain", mode="dense")
        (warning,) = plain.search(
            "rain", weights={"lexical": 1.0, "dense": 1.0}, filters={"tags": []}
        ).warnings[-1:]
        assert "SHOAL_ENCODER" in warning or "no passage" in warning


def test_the_nearest_sentence_is_marked(engine: Engine) -> None:
    (result,) = engine.search(QUERY, include_scores=True).results
    nearest = result.nearest_sentence
    assert nearest is not None
    assert result.text[nearest.start : nearest.end] == "Coronary occlusion damages tissue."
    assert nearest.description.startswith("its sentence “Coronary occlusion damages tissue.” is near")
    assert f"({nearest.similarity:.2f})" in nearest.description
    assert engine.search(QUERY).results[0].nearest_sentence is None


def test_notes_beside_passages_with_vectors_are_judged_by_words_and_reefs(engine: Engine) -> None:
    engine.notes.of("me").add("The storm brought rain and wind to the coast for days.")
    response = engine.search_units("rain storm myocardial infarction", owner="me")
    assert response.weights["dense"] > 0
    by_kind = {type(result).__name__: result for result in response.results}
    note, heart = by_kind["NoteHit"], by_kind["SearchResult"]
    assert note.scores.dense_raw is None
    assert note.scores.dense > 0
    assert any("dense" in result.provenance for result in response.results)
    parts = {name: getattr(note.scores, name) * weight for name, weight in response.weights.items()}
    assert sum(parts.values()) == pytest.approx(note.match_score)
    assert heart.scores.dense is not None


class FailingEncoder(FakeEncoder):
    """Does not answer while `is_away`, and counts the texts that it was asked for."""

    is_away = False
    n_calls = 0
    slow: threading.Event | None = None

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        self.n_calls += 1
        if self.is_away:
            raise EncoderUnavailableError("nobody answers")
        if self.slow:
            self.slow.wait(20)
        return super().embed(texts, kind)


def test_a_search_goes_on_without_the_encoder(
    settings: Settings, vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = FailingEncoder(dimension=256, same=SAME)
    encoder.is_away = True
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        response = engine.search("rain storm")
        assert response.results[0].document_title == "Rain"
        assert response.weights["dense"] == 0.0
        assert "ranked without vectors for now: nobody answers" in response.warnings
        engine.search("judge")
        assert encoder.n_calls == 1, "after a failure it is left alone for a while"
        with pytest.raises(EncoderUnavailableError):
            engine.search("rain", mode="dense")
        encoder.is_away = False
        monkeypatch.setattr(query_vectors, "monotonic", lambda: 1e9)
        assert engine.search("rain storm").weights["dense"] > 0


def test_reranking_leaves_alone_what_just_failed(settings: Settings, vectors: Vectors) -> None:
    encoder = FailingEncoder(dimension=256, same=SAME)
    encoder.is_away = True
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        response = engine.search("rain storm", rerank=10)
        assert response.rerank is not None
        assert response.rerank.fallback is RerankFallback.unavailable
        assert encoder.n_calls == 1


def test_a_slow_encoder_does_not_hold_up_a_search(
    settings: Settings, vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_vectors, "LOADING_SECONDS", 0.05)
    encoder = FailingEncoder(dimension=256)
    encoder.slow = threading.Event()
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        response = engine.search("rain storm")
        assert response.results
        assert any("did not answer in 0.05 seconds" in warning for warning in response.warnings)
        encoder.slow.set()


def test_the_vector_of_a_query_is_embedded_once(settings: Settings, vectors: Vectors) -> None:
    encoder = FailingEncoder(dimension=256)
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        for _ in range(3):
            engine.search("rain storm")
        assert encoder.n_calls == 2, "the unrelated texts, and the query"
        engine.search("rain storm", mode="lexical")
        engine.search("wind", weights={"lexical": 1.0})
        assert encoder.n_calls == 2, "a search that does not want vectors embeds nothing"


def test_vectors_of_another_encoder_are_not_compared(
    engine: Engine, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = encoder.identity._replace(revision="0")
    monkeypatch.setattr(LibraryIndex, "encoder", property(lambda _: stored, lambda *_: None), raising=False)
    engine.ingest(title="More rain", content="Rain and wind over the sea.")
    response = engine.search("rain storm")
    assert response.weights["dense"] == 0.0
    (warning,) = [text for text in response.warnings if "shoal encoder embed --again" in text]
    assert "fake (revision 0)" in warning
    assert "fake (revision 1)" in warning
    with pytest.raises(EncoderMismatchError):
        engine.search("rain storm", mode="dense")


def test_an_audit_line_has_the_dense_scores(
    settings: Settings, encoder: FakeEncoder, vectors: Vectors, tmp_path: Path
) -> None:
    audit_file = tmp_path / "audit.jsonl"
    with opened(settings, encoder, audit="full", audit_file=str(audit_file)) as engine:
        ingest(engine, vectors)
        (result,) = engine.search(QUERY, include_scores=True).results
    entry = json.loads(audit_file.read_text(encoding="utf-8"))
    dense = entry["candidates"]["dense"]
    assert dense["first"] == [[result.chunk_id, result.scores.dense_raw]]
    assert 0 < dense["floor"] < dense["best"]
    assert dense["encoder"] == "fake 1"
    assert entry["results"][0]["dense"] == result.scores.dense
    assert entry["weights"]["dense"] > 0
