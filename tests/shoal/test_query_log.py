"""The query log: searches are written beside the search, clicks make judged queries, old ones are deleted."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from empty_library import put_empty_library
from fake_scorer import FakeScorer

from shoal import Engine
from shoal.errors import DiskFullError, NotFoundError, QueryError
from shoal.maintenance.evaluation import Configuration, read_judged_queries
from shoal.query_log import query_log
from shoal.query_log import query_log as recording
from shoal.settings import Settings
from shoal.storage import query_log as rows

LAVA = "Lava rose in the volcano. Ash fell on the rock."


@pytest.fixture
def engine(settings: Settings, migrated_file: Path) -> Iterator[Engine]:
    put_empty_library(migrated_file, settings)
    logging = dataclasses.replace(settings, query_log="queries")
    with Engine(settings=logging, scorer=FakeScorer()) as opened:
        opened.ingest(content=LAVA, title="Fire", source_path="notes/fire.md")
        opened.ingest(content="The judge read the law to the court.", title="Law")
        yield opened


def flush(engine: Engine) -> None:
    assert engine.queries.recorder is not None
    engine.queries.recorder.flush(30)


def test_searches_are_logged_with_their_results(engine: Engine) -> None:
    response = engine.search("Lava  ash", mode="lexical", filter='title = "Fire"', top_k=3)
    engine.search("zzz", mode="lexical")
    flush(engine)
    page = engine.queries.list()
    assert (page.total, [query.query for query in page.queries]) == (2, ["zzz", "Lava  ash"])
    logged = page.queries[1]
    assert logged.trace_id == response.trace_id
    assert logged.arguments == {"top_k": 3, "mode": "lexical", "filter": 'title = "Fire"'}
    assert logged.results == tuple((r.chunk_id, r.document_id) for r in response.results)
    assert (logged.n_results, logged.best_relevance) == (1, response.results[0].relevance)
    assert [query.query for query in engine.queries.list(only_empty=True).queries] == ["zzz"]
    assert engine.queries.counts() == {"queries": 2, "empty": 1}


def test_nothing_is_logged_by_default(settings: Settings, migrated_file: Path) -> None:
    put_empty_library(migrated_file, settings)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        response = engine.search("lava")
        assert engine.queries.list().total == 0
        with pytest.raises(NotFoundError, match="it is off"):
            engine.queries.click(response.trace_id, document_id=1)


def test_clicks_become_judged_queries_that_evaluate_reads(engine: Engine) -> None:
    for query in ("lava", "Lava ", "LAVA"):
        response = engine.search(query, mode="lexical")
        (result,) = response.results
        for _ in range(2):
            engine.queries.click(response.trace_id, chunk_id=result.chunk_id)
    response = engine.search("court", mode="lexical")
    engine.queries.click(response.trace_id, document_id=response.results[0].document_id)
    judged = engine.queries.judged()
    assert [(query.query, query.relevant) for query in judged.queries] == [
        ("court", {"Law": 1}),
        ("lava", {"notes/fire.md": 2}),
    ]
    assert [query.query for query in engine.queries.judged(min_clicks=2).queries] == ["lava"]
    lines = [json.dumps(dataclasses.asdict(query)) for query in judged.queries]
    evaluation = engine.maintenance.evaluate(
        read_judged_queries(lines), [Configuration("lexical", {"mode": "lexical"})]
    )
    assert evaluation.configurations[0].ndcg == 1
    (click,) = engine.queries.list().queries[0].clicks
    assert (click.rank, click.chunk_id) == (1, None)


def test_only_results_that_were_shown_can_be_clicked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    response = engine.search("lava", mode="lexical")
    with pytest.raises(QueryError, match="was not among the results"):
        engine.queries.click(response.trace_id, chunk_id=999)
    with pytest.raises(QueryError, match="was not among the results"):
        engine.queries.click(response.trace_id, document_id=2)
    with pytest.raises(QueryError, match="missing"):
        engine.queries.click(response.trace_id)
    with pytest.raises(NotFoundError):
        engine.queries.click("0" * 32, document_id=1)
    monkeypatch.setattr(query_log, "MAX_CLICKS", 0)
    with pytest.raises(QueryError, match="the limit"):
        engine.queries.click(response.trace_id, document_id=1)


def test_documents_are_logged_with_their_passages(engine: Engine) -> None:
    engine.ingest(
        content="# Flow\n\nLava flows.\n\n# Rock\n\nLava cools to rock.", title="Rock", format="markdown"
    )
    response = engine.search("lava", mode="lexical", group_by="document")
    assert response.documents is not None
    passages = [each for document in response.documents for each in document.passages]
    assert len(passages) > len(response.documents) == 2
    flush(engine)
    (logged,) = engine.queries.list().queries
    assert (logged.n_results, logged.best_relevance) == (2, max(each.relevance for each in passages))
    assert logged.results == tuple((each.chunk_id, each.document_id) for each in passages)
    assert engine.queries.list(only_empty=True).total == 0
    engine.queries.click(response.trace_id, chunk_id=passages[-1].chunk_id)
    engine.queries.click(response.trace_id, document_id=passages[0].document_id)
    clicks = engine.queries.list().queries[0].clicks
    assert [(click.chunk_id, click.rank) for click in clicks] == [(passages[-1].chunk_id, 2), (None, 1)]
    with pytest.raises(QueryError, match="was not among the results"):
        engine.queries.click(response.trace_id, chunk_id=999)


def test_frequent_queries_by_prefix(engine: Engine) -> None:
    for query in ("lava flow", "Lava  Flow", "lava", "zzz", "zzz", "court"):
        engine.search(query, mode="lexical")
    flush(engine)
    found = engine.queries.frequent(prefix="LAV").queries
    assert [(query.query, query.n_searches) for query in found] == [("lava flow", 2)]
    assert [query.query for query in engine.queries.frequent(only_empty=True).queries] == ["zzz"]
    assert len(engine.queries.frequent(min_searches=1, days=1).queries) == 4
    for arguments in ({"limit": 0}, {"prefix": "x" * 201}, {"days": 0}):
        with pytest.raises(QueryError):
            engine.queries.frequent(**arguments)


def test_later_pages_of_a_search_are_no_searches(engine: Engine) -> None:
    engine.ingest(content="Lava and ash again.")
    first = engine.search("lava", mode="lexical", top_k=1)
    second = engine.search("lava", mode="lexical", top_k=1, cursor=first.next_cursor)
    engine.search("lava", mode="lexical", top_k=1, offset=1)
    engine.search("lava", mode="lexical", offset=100)
    engine.queries.click(second.trace_id, chunk_id=second.results[0].chunk_id)
    (found,) = engine.queries.frequent(min_searches=1).queries
    assert (found.n_searches, found.n_empty, found.n_clicks) == (1, 0, 1)
    assert engine.queries.frequent(min_searches=2).queries == ()
    assert engine.queries.list(only_empty=True).total == 0
    assert engine.queries.counts() == {"queries": 4, "empty": 0}


def test_a_search_never_waits_for_the_log(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[tuple[int, int]] = []
    assert engine.queries.recorder is not None
    engine.queries.recorder.watch = lambda written, dropped: counted.append((written, dropped))
    monkeypatch.setattr(recording, "MAX_QUEUED", 2)
    released = threading.Event()
    monkeypatch.setattr(rows, "insert", lambda *_: released.wait(100))
    for _ in range(8):
        engine.search("lava", mode="lexical")
    assert not released.is_set()
    released.set()
    flush(engine)
    assert sum(dropped for _, dropped in counted) >= 4
    assert sum(written + dropped for written, dropped in counted) == 8


def test_full_disk_drops_queries_and_later_ones_are_logged(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[tuple[int, int]] = []
    assert engine.queries.recorder is not None
    engine.queries.recorder.watch = lambda written, dropped: counted.append((written, dropped))

    def fail(*_: object) -> None:
        raise DiskFullError("no space")

    with monkeypatch.context() as broken:
        broken.setattr(rows, "insert", fail)
        engine.search("lava")
        flush(engine)
    engine.search("court")
    flush(engine)
    assert counted == [(0, 1), (1, 0)]
    assert [query.query for query in engine.queries.list().queries] == ["court"]


def test_closing_writes_what_waits(engine: Engine) -> None:
    engine.search("lava")
    engine.close()
    with Engine(settings=engine.settings, scorer=FakeScorer()) as other:
        assert other.queries.list().total == 1


def test_old_queries_are_deleted_with_their_clicks(engine: Engine) -> None:
    response = engine.search("lava", mode="lexical")
    engine.queries.click(response.trace_id, document_id=1)
    assert engine.queries.prune() == 0
    with engine.database.write() as transaction:
        transaction.execute("UPDATE logged_queries SET created_at = '2020-01-01T00:00:00.000Z'")
    engine.search("court")
    flush(engine)
    assert engine.queries.prune() == 1
    assert engine.queries.judged().queries == ()
    assert engine.queries.clear() == 1
    assert engine.queries.list().total == 0


def test_long_arguments_are_cut_and_results_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_RESULTS", 0)
    response = engine.search("lava", mode="lexical", filters={"document_ids": list(range(1, 1000))})
    flush(engine)
    (logged,) = engine.queries.list().queries
    assert len(str(logged.arguments["filters"])) <= recording.MAX_VALUE_CHARS
    assert (logged.results, logged.n_results) == ((), 1)
    engine.queries.click(response.trace_id, document_id=1)
    assert engine.queries.list().queries[0].clicks[0].rank is None
