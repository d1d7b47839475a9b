"""Reranking: the first results in another order, within a time budget, and the blend when that fails."""

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_encoder import FakeEncoder

from shoal import Engine
from shoal.encoders.encoder import EncoderIdentity, Floats, TextKind
from shoal.errors import EncoderError, EncoderUnavailableError, QueryError
from shoal.models.scores import RerankFallback, RerankInfo
from shoal.models.search import SearchResponse
from shoal.search import reranking
from shoal.search.audit import search_arguments
from shoal.search.reranking import Reranking, combine
from shoal.settings import Settings
from shoal.storage.database import Snapshot
from shoal.storage.sqlite.database import SqliteDatabase

QUERY = "how the moon moves the sea"
DOCUMENTS = {
    "Harbours": "The harbour has a wall. The sea is behind the wall, and the moon is above the sea.",
    "Sailors": "Sailors love the sea. The moon shines while they sail the sea and sing.",
    "Tides": "The moon pulls the ocean, and the water rises twice a day along the coast.",
    "Songs": "A song about the moon and the sea, sung by many people on the shore.",
    "Cooking": "Salt comes from the sea. The cook adds salt to the soup and waits.",
    "Moons": "The moon moves around the planet. It moves in an ellipse and shows one face.",
}


class Broken(FakeEncoder):
    """An encoder whose `embed` of documents is replaced."""

    def __init__(self, embed: Callable[[Sequence[str]], Any]) -> None:
        super().__init__()
        self._embed = embed

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        if kind is TextKind.query:
            return super().embed(texts, kind)
        embedded: Floats = self._embed(texts)
        return embedded


class Lengths:
    """A cross-encoder that likes long passages."""

    identity = EncoderIdentity("lengths", "7", 1)

    def __init__(self) -> None:
        self.n_scored = 0

    def score(self, query: str, texts: Sequence[str]) -> Floats:
        self.n_scored += len(texts)
        return np.array([len(text) / 1000 for text in texts], dtype=np.float32)


class BrokenPairs(Lengths):
    def score(self, query: str, texts: Sequence[str]) -> Floats:
        return np.full(len(texts), np.nan, dtype=np.float32)


def tides_encoder() -> FakeEncoder:
    """An encoder that takes a passage about tides for an answer."""
    return FakeEncoder(same={"pulls": "moves", "ocean": "sea", "water": "sea", "rises": "moves"})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reranking") / "shoal.db"
    with Engine(db_path=path, settings=Settings(learning=False)) as engine:
        engine.ingest_many({"title": title, "content": text} for title, text in DOCUMENTS.items())
    return path


@pytest.fixture
def opened(library: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def open_engine(encoder: Any = None, pair_scorer: Any = None, **settings: Any) -> Engine:
        engines.append(
            Engine(
                db_path=library,
                settings=Settings(learning=False, **settings),
                encoder=encoder,
                pair_scorer=pair_scorer,
            )
        )
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def titles(response: SearchResponse) -> list[str]:
    return [result.document_title for result in response.results]


def assert_fallback(response: SearchResponse, blend: SearchResponse, reason: str) -> None:
    """The blend's order, and a warning that says so."""
    assert titles(response) == titles(blend)
    assert response.rerank is not None
    assert response.rerank.fallback == reason
    assert (response.rerank.n, response.rerank.name) == (0, "")
    assert any("not reranked" in warning for warning in response.warnings)
    assert all(result.rerank is None for result in response.results)


# What it does


def test_a_passage_with_the_same_meaning_moves_up(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    blend = engine.search(QUERY)
    response = engine.search(QUERY, rerank=20)
    assert titles(blend).index("Tides") > titles(response).index("Tides")
    assert sorted(titles(blend)) == sorted(titles(response))
    assert response.warnings == blend.warnings
    assert response.rerank is not None
    assert (response.rerank.name, response.rerank.revision) == ("fake", "1")
    assert (response.rerank.n, response.rerank.fallback) == (len(blend.results), None)
    assert response.rerank.ms > 0
    assert blend.rerank is None


def test_the_score_is_the_sum_of_both_normalized_scores(opened: Callable[..., Engine]) -> None:
    encoder = tides_encoder()
    response = opened(encoder).search(QUERY, rerank=20)
    (query,) = encoder.embed([QUERY], TextKind.query)
    best = max(result.match_score for result in response.results)
    nearest = max(result.rerank.similarity for result in response.results if result.rerank)
    scores = []
    for result in response.results:
        assert result.rerank is not None
        (passage,) = encoder.embed([f"{result.document_title}\n\n{result.text}"], TextKind.document)
        assert result.rerank.similarity == pytest.approx(max(0.0, float(query @ passage)), abs=2e-6)
        assert result.rerank.blend_part == pytest.approx(0.5 * result.match_score / best)
        assert result.rerank.similarity_part == pytest.approx(0.5 * result.rerank.similarity / nearest)
        assert result.rerank.score == result.rerank.blend_part + result.rerank.similarity_part
        scores.append(result.rerank.score)
    assert scores == sorted(scores, reverse=True)


def test_scores_and_relevance_stay_those_of_the_blend(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    blend = {result.chunk_id: result for result in engine.search(QUERY, include_scores=True).results}
    for result in engine.search(QUERY, include_scores=True, rerank=20).results:
        assert dataclasses.replace(result, rerank=None) == blend[result.chunk_id]


def test_blend_ranks_name_the_order_of_the_blend(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    order = [result.chunk_id for result in engine.search(QUERY).results]
    for result in engine.search(QUERY, rerank=20).results:
        assert result.rerank is not None
        assert order[result.rerank.blend_rank - 1] == result.chunk_id


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "reef"])
@pytest.mark.parametrize("fusion", ["blend", "rrf"])
def test_every_mode_can_be_reranked(opened: Callable[..., Engine], mode: str, fusion: str) -> None:
    engine = opened(tides_encoder())
    response = engine.search(QUERY, mode=mode, fusion=fusion, rerank=20)
    assert sorted(titles(response)) == sorted(titles(engine.search(QUERY, mode=mode, fusion=fusion)))
    assert all(result.rerank and 0 <= result.rerank.score <= 1 for result in response.results)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_only_the_first_n_are_reordered(opened: Callable[..., Engine], n: int) -> None:
    engine = opened(tides_encoder())
    blend, response = engine.search(QUERY), engine.search(QUERY, rerank=n)
    assert response.rerank is not None
    assert response.rerank.n == n
    assert sorted(titles(response)[:n]) == sorted(titles(blend)[:n])
    assert titles(response)[n:] == titles(blend)[n:]
    assert [result.rerank is not None for result in response.results] == [
        number < n for number in range(len(blend.results))
    ]


def test_pages_are_cut_from_one_order(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    for n in (2, 3, 20):
        whole = titles(engine.search(QUERY, rerank=n))
        for top_k in (1, 2, 4):
            pages = [
                titles(engine.search(QUERY, rerank=n, top_k=top_k, offset=offset))
                for offset in range(0, len(whole), top_k)
            ]
            assert [title for page in pages for title in page] == whole


def test_a_page_below_the_reranked_results_reads_nothing(opened: Callable[..., Engine]) -> None:
    encoder = tides_encoder()
    response = opened(encoder).search(QUERY, rerank=2, offset=2)
    assert response.rerank is None
    assert encoder.n_embedded == 0


def test_the_limit_per_document_is_applied_by_the_blend(tmp_path: Path) -> None:
    with Engine(
        db_path=tmp_path / "shoal.db", settings=Settings(learning=False), encoder=tides_encoder()
    ) as engine:
        sections = "\n\n".join(f"# {title}\n\n{text}" for title, text in DOCUMENTS.items())
        engine.ingest(title="All", content=sections, format="markdown")
        engine.ingest(title="Other", content="The sea and the moon.")
        for limit in (1, 2):
            blend = engine.search(QUERY, max_per_document=limit)
            response = engine.search(QUERY, max_per_document=limit, rerank=20)
            assert {result.chunk_id for result in response.results} == {
                result.chunk_id for result in blend.results
            }


def test_filters_hold(opened: Callable[..., Engine]) -> None:
    response = opened(tides_encoder()).search(f"{QUERY} -salt", rerank=20, filters={"name_contains": "s"})
    assert response.results
    assert all("s" in result.document_title.lower() for result in response.results)
    assert "Cooking" not in titles(response)


def test_the_model_reads_no_excluded_words(opened: Callable[..., Engine]) -> None:
    class Listening(FakeEncoder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
            if kind is TextKind.query:
                queries.extend(texts)
            return super().embed(texts, kind)

    queries: list[str] = []
    opened(Listening()).search('"the moon" -salt title:tides', rerank=20)
    assert queries == ['"the moon" tides']


def test_low_relevance_is_removed_after_reranking(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    whole = engine.search(QUERY, rerank=20).results
    least = sorted(result.relevance for result in whole)[len(whole) // 2]
    response = engine.search(QUERY, rerank=20, min_relevance=least)
    assert titles(response) == [result.document_title for result in whole if result.relevance >= least]


def test_without_results_nothing_is_reranked(opened: Callable[..., Engine]) -> None:
    response = opened(tides_encoder()).search("xylograph", rerank=20)
    assert (list(response.results), response.rerank) == ([], None)


def test_the_setting_is_the_default(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder(), rerank=3)
    assert (rerank := engine.search(QUERY).rerank) is not None
    assert rerank.n == 3
    assert engine.search(QUERY, rerank=0).rerank is None


@pytest.mark.parametrize("value", [-1, 101, 1.5, "5", True])
def test_a_wrong_number_is_refused(opened: Callable[..., Engine], value: Any) -> None:
    with pytest.raises(QueryError) as caught:
        opened().search(QUERY, rerank=value)
    assert caught.value.field == "rerank"


def test_notes_and_passages_together_are_not_reranked(opened: Callable[..., Engine]) -> None:
    with pytest.raises(QueryError) as caught:
        opened(tides_encoder()).search_units(QUERY, rerank=5)
    assert caught.value.field == "rerank"
    assert opened(tides_encoder(), rerank=5).search_units(QUERY).results


# Determinism and the cache


def test_the_same_search_gives_the_same_ranking_and_embeds_once(opened: Callable[..., Engine]) -> None:
    encoder = tides_encoder()
    engine = opened(encoder)
    first = engine.search(QUERY, rerank=20)
    embedded = encoder.n_embedded
    assert embedded == len(first.results)
    again = engine.search(QUERY, rerank=20)
    assert again.results == first.results
    assert encoder.n_embedded == embedded
    # Another query reads the same passages.
    engine.search("sea and moon", rerank=20)
    assert encoder.n_embedded <= embedded + 1
    assert opened(tides_encoder()).search(QUERY, rerank=20).results == first.results


def test_equal_scores_keep_the_order_of_the_blend(opened: Callable[..., Engine]) -> None:
    class Same(FakeEncoder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
            return super().embed(["same"] * len(texts), kind)

    engine = opened(Same())
    response = engine.search(QUERY, rerank=20)
    assert titles(response) == titles(engine.search(QUERY))
    assert combine([0.0, 0.0], [0.0, 0.0])[0].score == 0.0
    tied = combine([0.5, 0.5, 0.5], [0.2, 0.2, 0.2])
    assert len({parts.score for parts in tied}) == 1
    info = RerankInfo("m", "1", 3, 0.0)
    assert [number for number, _ in Reranking(info, tied).in_order()] == [0, 1, 2]


# Cross-encoder


def test_a_cross_encoder_takes_the_place_of_the_encoder(opened: Callable[..., Engine]) -> None:
    pairs, encoder = Lengths(), tides_encoder()
    engine = opened(encoder, pairs)
    response = engine.search(QUERY, mode="lexical", rerank=20)
    assert response.rerank is not None
    assert (response.rerank.name, response.rerank.revision) == ("lengths", "7")
    for result in response.results:
        assert result.rerank is not None
        length = len(f"{result.document_title}\n\n{result.text}")
        assert result.rerank.similarity == pytest.approx(length / 1000, abs=1e-6)
    assert (encoder.n_embedded, pairs.n_scored) == (0, len(response.results))
    engine.search(QUERY, mode="lexical", rerank=20)
    assert pairs.n_scored == len(response.results)


def test_a_failing_cross_encoder_leaves_the_blend(opened: Callable[..., Engine]) -> None:
    blend = opened().search(QUERY)
    assert_fallback(opened(None, BrokenPairs()).search(QUERY, rerank=20), blend, RerankFallback.failed)


# Failures


def _raise(error: Exception) -> Callable[[Sequence[str]], Any]:
    def embed(texts: Sequence[str]) -> Any:
        raise error

    return embed


@pytest.mark.parametrize(
    ("embed", "reason"),
    [
        (lambda texts: np.full((len(texts), 64), np.nan, dtype=np.float32), RerankFallback.failed),
        (lambda texts: np.zeros((len(texts), 64), dtype=np.float32), RerankFallback.failed),
        (lambda texts: np.ones((len(texts), 63), dtype=np.float32), RerankFallback.failed),
        (lambda texts: np.ones((len(texts) - 1, 64), dtype=np.float32), RerankFallback.failed),
        (lambda texts: "vectors", RerankFallback.failed),
        (lambda texts: None, RerankFallback.failed),
        (_raise(EncoderError("bad")), RerankFallback.failed),
        (_raise(RuntimeError("secret path")), RerankFallback.failed),
        (_raise(MemoryError()), RerankFallback.failed),
        (_raise(EncoderUnavailableError("down")), RerankFallback.unavailable),
    ],
)
def test_the_blend_stays_when_the_encoder_fails(
    opened: Callable[..., Engine], embed: Callable[[Sequence[str]], Any], reason: str
) -> None:
    blend = opened().search(QUERY)
    response = opened(Broken(embed)).search(QUERY, rerank=20)
    assert_fallback(response, blend, reason)
    assert "secret" not in "".join(response.warnings)


def test_without_an_encoder_a_warning_says_what_to_set(opened: Callable[..., Engine]) -> None:
    engine = opened()
    assert not engine.can_rerank
    response = engine.search(QUERY, rerank=20)
    assert_fallback(response, engine.search(QUERY), RerankFallback.no_encoder)
    assert "SHOAL_ENCODER" in response.warnings[-1]


def test_a_slow_encoder_is_not_waited_for(opened: Callable[..., Engine]) -> None:
    release = threading.Event()

    def wait(texts: Sequence[str]) -> Floats:
        release.wait(100)
        return FakeEncoder().embed(texts, TextKind.document)

    engine = opened(Broken(wait), rerank_seconds=0.2)
    blend = engine.search(QUERY)
    response = engine.search(QUERY, rerank=20)
    assert not release.is_set()
    assert_fallback(response, blend, RerankFallback.late)
    # What was read meanwhile is there for the next search.
    release.set()
    for _ in range(500):
        again = engine.search(QUERY, rerank=20)
        if again.rerank and again.rerank.fallback is None:
            break
        time.sleep(0.01)
    assert again.rerank is not None
    assert again.rerank.fallback is None


def test_stuck_runs_do_not_delay_later_searches(opened: Callable[..., Engine]) -> None:
    release = threading.Event()
    started = []

    def wait(texts: Sequence[str]) -> Floats:
        started.append(threading.current_thread())
        release.wait(30)
        return FakeEncoder().embed(texts, TextKind.document)

    engine = opened(Broken(wait), rerank_seconds=0.05)
    engine.search(QUERY)
    for _ in range(reranking.MAX_RUNNING + 3):
        response = engine.search(QUERY, rerank=20)
        assert response.rerank is not None
        assert response.rerank.fallback is RerankFallback.late
    assert len(started) == reranking.MAX_RUNNING
    assert response.rerank.ms < 40
    assert "busy" in response.warnings[-1]
    release.set()
    for thread in started:
        thread.join(10)
    response = engine.search(QUERY, rerank=20)
    assert response.rerank is not None
    assert response.rerank.fallback is None


def test_no_snapshot_is_held_while_the_encoder_works(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    n_open = 0
    opened_so_far = []
    seen = []
    take_snapshot = SqliteDatabase.snapshot

    @contextlib.contextmanager
    def counting(database: SqliteDatabase, **options: Any) -> Iterator[Snapshot]:
        nonlocal n_open
        n_open += 1
        opened_so_far.append(n_open)
        try:
            with take_snapshot(database, **options) as snapshot:
                yield snapshot
        finally:
            n_open -= 1

    def embed(texts: Sequence[str]) -> Floats:
        seen.append(n_open)
        return FakeEncoder().embed(texts, TextKind.document)

    engine = opened(Broken(embed), rerank_seconds=30.0)
    monkeypatch.setattr(SqliteDatabase, "snapshot", counting)
    response = engine.search(QUERY, rerank=20)
    engine.explain(QUERY, chunk_id=response.results[0].chunk_id, rerank=6)
    assert response.rerank is not None
    assert response.rerank.fallback is None
    assert opened_so_far
    assert set(seen) == {0}


def test_an_unavailable_encoder_is_left_alone_for_a_while(
    opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    now = 0.0
    monkeypatch.setattr("shoal.search.query_vectors.monotonic", lambda: now)

    def embed(texts: Sequence[str]) -> Floats:
        asked.append(now)
        if len(asked) == 1:
            raise EncoderUnavailableError("busy", retry_after=30)
        return FakeEncoder().embed(texts, TextKind.document)

    engine = opened(Broken(embed))
    for _ in range(3):
        response = engine.search(QUERY, rerank=20)
        assert response.rerank is not None
        assert response.rerank.fallback is RerankFallback.unavailable
    assert len(asked) == 1
    now = 30.0
    response = engine.search(QUERY, rerank=20)
    assert response.rerank is not None
    assert response.rerank.fallback is None


# Explanations and the audit


def test_an_explanation_has_the_rank_after_reranking(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    for n in (2, 20):
        for rank, result in enumerate(engine.search(QUERY, rerank=n).results, start=1):
            explanation = engine.explain(QUERY, chunk_id=result.chunk_id, rerank=n)
            assert explanation.target is not None
            assert explanation.target.rank == rank
            assert explanation.target.rerank == result.rerank
            assert explanation.rerank is not None
            assert explanation.rerank.name == "fake"


def test_an_explanation_says_what_is_below_the_page_after_reranking(opened: Callable[..., Engine]) -> None:
    engine = opened(tides_encoder())
    ranks = {}
    for result in engine.search(QUERY, rerank=20).results:
        target = engine.explain(QUERY, chunk_id=result.chunk_id, rerank=20, top_k=2).target
        assert target is not None
        assert target.rank is not None
        ranks[target.rank] = [reason.reason for reason in target.kept_out]
    assert all(("top_k" in reasons) == (rank > 2) for rank, reasons in ranks.items())


def test_an_explanation_warns_like_the_search(opened: Callable[..., Engine]) -> None:
    engine = opened(Broken(_raise(EncoderError("bad"))))
    chunk_id = engine.search(QUERY).results[0].chunk_id
    explanation = engine.explain(QUERY, chunk_id=chunk_id, rerank=20)
    assert explanation.target is not None
    assert (explanation.target.rank, explanation.target.rerank) == (1, None)
    assert "not reranked" in explanation.warnings[-1]
    response, explanation = engine.search_and_explain(QUERY, rerank=20)
    assert explanation.warnings == response.warnings
    assert explanation.rerank == response.rerank


@pytest.mark.parametrize("level", ["summary", "full"])
def test_the_audit_has_candidates_scores_and_order(
    opened: Callable[..., Engine], tmp_path: Path, level: str
) -> None:
    log = tmp_path / "audit.jsonl"
    engine = opened(tides_encoder(), audit=level, audit_file=str(log))
    blend = [result.chunk_id for result in opened().search(QUERY).results]
    response = engine.search(QUERY, rerank=4, top_k=2)
    (entry,) = map(json.loads, log.read_text().splitlines())
    logged = entry["reranking"]
    assert (entry["rerank"], logged["n"], logged["name"], logged["fallback"]) == (4, 4, "fake", None)
    assert [chunk_id for chunk_id, _, _ in logged["candidates"]] == blend[:4]
    scores = {chunk_id: score for chunk_id, _, score in logged["candidates"]}
    assert logged["order"] == sorted(blend[:4], key=lambda chunk_id: -scores[chunk_id])
    assert logged["order"][:2] == [result["chunk_id"] for result in entry["results"]]
    assert [result.chunk_id for result in response.results] == logged["order"][:2]
    if level == "full":
        arguments = search_arguments(entry)
        assert [result.chunk_id for result in engine.search(**arguments).results] == logged["order"][:2]
    else:
        assert "warnings" not in entry


def test_the_audit_has_a_fallback_with_its_warning(opened: Callable[..., Engine], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    engine = opened(Broken(_raise(EncoderError("bad"))), audit="full", audit_file=str(log))
    engine.search(QUERY, rerank=4)
    engine.search(QUERY)
    first, second = map(json.loads, log.read_text().splitlines())
    assert first["reranking"]["fallback"] == "failed"
    assert first["reranking"]["candidates"] == first["reranking"]["order"] == []
    assert "not reranked" in first["warnings"][-1]
    assert [result["chunk_id"] for result in first["results"]] == [
        result["chunk_id"] for result in second["results"]
    ]
    assert second["rerank"] == 0
    assert "reranking" not in second
