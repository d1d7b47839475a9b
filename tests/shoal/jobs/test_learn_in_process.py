"""A learning library used from Python: ingest, search, explain, rescore."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from learning_parts import (
    canonical,
    drafts,
    handlers,
    learned,
    learning_settings,
    run_job,
    scorer,
    upload,
)
from teaching_texts import about, text_of

from shoal import Engine
from shoal.jobs import in_process
from shoal.learning import scorers
from shoal.settings import Settings
from shoal.storage.opening import open_database

CONTENTS = [
    about("fire", "zorblat"),
    about("law", "quendle"),
    "A court and a jury heard the witness.",
    about("fire", "zorblat"),
    text_of([("sea", 0, "mirthog"), ("bees", 1, "zorblat")]),
    about("bees", "varnisk"),
    about("sea", "mirthog", 2),
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings, wave_bytes=500)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=scorer()) as opened:
        yield opened


def as_documents(contents: list[str]) -> list[dict[str, Any]]:
    return [{"title": text[:12], "content": text, "format": "plaintext"} for text in contents]


def test_engine_and_service_build_the_same_library(
    engine: Engine, settings: Settings, tmp_path: Path, migrated_file: Path
) -> None:
    results = engine.ingest_many(as_documents(CONTENTS))
    assert [result.duplicate for result in results] == [None, None, None, results[0].id, None, None, None]
    path = tmp_path / "service.db"
    path.write_bytes(migrated_file.read_bytes())
    of_service = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
    service = open_database(of_service.database_url)
    upload(service, of_service, CONTENTS)
    with service.snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM waves") > 2
    run_job(service, of_service)
    assert canonical(service) == list(engine.maintenance.export(canonical=True))
    assert set(learned(service)) == {"zorblat", "quendle", "varnisk", "mirthog"}
    service.close()


def test_ingest_processes_build_the_same_library(
    engine: Engine, settings: Settings, tmp_path: Path, migrated_file: Path
) -> None:
    engine.ingest_many(as_documents(CONTENTS * 2))
    path = tmp_path / "second.db"
    path.write_bytes(migrated_file.read_bytes())
    own = dataclasses.replace(settings, database_url=f"sqlite:///{path}")
    with (
        Engine(settings=own, scorer=scorer()) as second_engine,
        second_engine.ingest_session() as ingest_session,
    ):
        for document in as_documents(CONTENTS * 2):
            ingest_session.add(document)
        seen: list[in_process.LocalProgress] = []
        results = ingest_session.finish(processes=2, watch=seen.append)
        assert [result.error for result in results] == [None] * 14
        assert list(second_engine.maintenance.export(canonical=True)) == list(
            engine.maintenance.export(canonical=True)
        )
    assert seen[-1].items_total == 14


def test_vocabulary_lookup_of_a_text_matches_the_scorer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = as_documents(
        [*CONTENTS, about("law", "hoxley wump", 6), "Hoxley wumps and the zorblat's crater. Zorblats!"]
    )
    documents[-1]["title"] = "Of quendles and varnisks"
    exports = []
    for n in (0, 1, 100):
        monkeypatch.setattr(scorers, "MAX_LOOKED_UP_TEXTS", n)
        own = dataclasses.replace(settings, database_url=f"sqlite:///{tmp_path / str(n)}")
        with Engine(settings=own, scorer=scorer()) as engine:
            engine.ingest_many(documents[:4])
            engine.ingest_many(documents[4:])
            exports.append(list(engine.maintenance.export(canonical=True)))
    assert exports[0] == exports[1] == exports[2]


def test_vocabulary_version_stays_while_it_is_in_use(engine: Engine) -> None:
    """Later versions may remove its words before scoring begins."""
    engine.ingest(title="One", content=about("fire", "zorblat"))
    vocabularies = scorers.Vocabularies(engine.database, scorer())
    number = vocabularies.newest()
    for i in range(3):
        engine.ingest(title=f"More {i}", content=f"{about('sea', 'zorblat')} {i}")
    with engine.database.snapshot() as snapshot:
        rows = "SELECT COUNT(*) FROM custom_words WHERE word = 'zorblat' AND from_version <= :version"
        assert snapshot.value(rows, {"version": number}) == 0
    word_info = vocabularies.at(number).lookup_word("zorblat")
    assert word_info is not None
    assert word_info.is_custom


def test_learned_word_finds_related_documents(engine: Engine) -> None:
    engine.ingest_many(
        as_documents([about("fire", "zorblat"), about("law", "quendle"), about("bees", "varnisk")])
    )
    for query in ("zorblat", "Zorblats", "the ZORBLAT's"):
        reply = engine.search(query, max_per_document=0)
        assert reply.query_info.unknown_words == (), query
        assert reply.results[0].document_id == 1, query
    word = engine.explain("a zorblat").words[1]
    assert (word.text, word.status, word.word) == ("zorblat", "learned", "zorblat")
    assert word.reefs
    assert engine.search("drabbix").results == []


def test_search_uses_words_learned_by_another_engine_at_once(engine: Engine, settings: Settings) -> None:
    engine.start()
    assert engine.search("zorblat").results == []
    with Engine(settings=settings, scorer=scorer()) as second_engine:
        second_engine.ingest_many(as_documents([about("fire", "zorblat")]))
    assert engine.search("zorblat").results
    assert engine.status().n_custom_words == 1


def test_query_scorer_matches_a_scorer_with_the_full_vocabulary(engine: Engine) -> None:
    from shoal.learning.scorers import Vocabularies, scorer_for

    engine.ingest_many(as_documents([about("fire", "hoxley wump", 8), about("law", "zorblat"), *CONTENTS]))
    newest = engine.status().vocabulary_version
    query_scorer = Vocabularies(engine.database, scorer()).at(newest)
    for query in (
        "hoxley wump",
        "the Hoxley Wump's crater",
        "hoxley wumps and quendles",
        "zorblat, quendle; hoxley",
        "wump hoxley wump zorblat's",
        "volcano",
    ):
        with engine.database.snapshot() as snapshot:
            partial_scorer = scorer_for(query, snapshot, scorer())
        partial, full = partial_scorer.score(query), query_scorer.score(query)
        assert list(partial.top_reefs) == list(full.top_reefs), query
        assert (partial.coverage, partial.unknown_words) == (full.coverage, full.unknown_words), query
        assert partial_scorer.explain_words(query) == query_scorer.explain_words(query), query


def test_cached_scores_follow_a_rescore(engine: Engine) -> None:
    text = "\n\n".join(about(topic, "zorblat", 6) for topic in ("fire", "sea", "law", "bees"))
    engine.ingest(title="Early", content=text)
    engine.start()
    query = "volcano and lava in the ocean"
    before = engine.search(query).results
    engine.ingest(title="Later", content=about("fire", "zorblat", 12))
    result = engine.maintenance.rescore()
    assert (result.n_documents, result.failed, result.vocabulary_version) == (1, (), 2)
    assert engine.status().n_stale_chunks == 0
    after = engine.search(query).results
    assert [r.chunk_id for r in before] != [] != [r.chunk_id for r in after]
    with Engine(settings=engine.settings, scorer=scorer()) as fresh:
        assert [(r.chunk_id, r.match_score) for r in fresh.search(query).results] == [
            (r.chunk_id, r.match_score) for r in after
        ]
    assert {r.chunk_id: r.match_score for r in before} != {r.chunk_id: r.match_score for r in after}


def test_ingesting_single_documents_learns(engine: Engine) -> None:
    engine.ingest(title="One", content=about("fire", "pelluno", 1))
    assert engine.status().n_custom_words == 0
    engine.ingest(title="Two", content=about("sea", "pelluno", 1))
    assert engine.status().n_custom_words == 1
    with engine.database.snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM jobs") == 0


def test_rescore_removes_words_of_deleted_documents(engine: Engine) -> None:
    engine.ingest_many(as_documents([about("fire", "zorblat"), about("law", "quendle")]))
    assert engine.documents.delete(1)
    assert engine.maintenance.rescore().n_documents == 1
    assert set(learned(engine.database)) == {"quendle"}
    assert engine.search("zorblat").results == []


def test_learning_can_be_turned_off(settings: Settings) -> None:
    with Engine(settings=settings, scorer=scorer(), learning=False) as engine:
        engine.ingest_many(as_documents(CONTENTS))
        status = engine.status()
        assert (status.n_custom_words, status.vocabulary_version) == (0, 0)
        with engine.database.snapshot() as snapshot:
            assert snapshot.value("SELECT COUNT(*) FROM observed_documents") == 0


def test_unfinished_local_job_of_a_dead_process_is_dropped(engine: Engine, settings: Settings) -> None:
    """Otherwise its items would wait forever and their texts fill the file."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    opened = in_process.open_upload(engine.database, settings).begin()
    for draft in drafts(CONTENTS[:2], settings):
        opened.add(draft)
    job_id = opened.finish()
    with engine.database.write() as transaction:
        transaction.execute(
            "UPDATE jobs SET local_owner = REPLACE(local_owner, :old, :new)",
            {"old": f":{os.getpid()}:", "new": f":{child.pid}:"},
        )
    assert engine.status().jobs["enqueued"] == 0, "local jobs are not counted"
    assert engine.ingest(title="x", content=CONTENTS[0]).duplicate is None
    with engine.database.snapshot() as snapshot:
        assert snapshot.value("SELECT COUNT(*) FROM jobs WHERE id = :id", {"id": job_id}) == 0
        assert snapshot.value("SELECT COUNT(*) FROM job_item_contents") == 0


def test_workers_do_not_claim_local_jobs(engine: Engine, settings: Settings) -> None:
    from shoal.jobs.queue import claims, queries
    from shoal.jobs.queue.claims import claim

    opened = in_process.open_upload(engine.database, settings).begin()
    for draft in drafts(CONTENTS[:1], settings):
        opened.add(draft)
    job_id = opened.finish()
    assert claim(engine.database, claims.new_owner(), settings) is None
    assert queries.list_jobs(engine.database) == []
    # An equal text of a service job does not wait for it either.
    theirs = upload(engine.database, settings, CONTENTS[:1])
    run_job(engine.database, settings, handlers(engine.database, settings))
    assert queries.get_job(engine.database, theirs).progress.done == 1
    in_process.run_job(engine.database, job_id, handlers(engine.database, settings), settings)
    assert queries.get_job(engine.database, job_id).progress.duplicate == 1


@pytest.mark.usefixtures("database")
def test_progress_of_a_small_job_names_the_document_that_ended_last(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_process, "WATCH_SECONDS", 0.0)
    seen: list[in_process.LocalProgress] = []
    with Engine(settings=settings, scorer=scorer()) as engine, engine.ingest_session() as ingest_session:
        for number in range(20):
            ingest_session.add({"title": f"N{number}", "content": f"The fire of the {number}. forge."})
        ingest_session.finish(watch=seen.append)
    shown = {progress.items_done: progress.latest for progress in seen}
    assert shown == {0: None, **{number: f"N{number - 1}" for number in range(2, 21, 2)}}
