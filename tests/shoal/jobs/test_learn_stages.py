"""Discover, learn, score: which words a library learns, from which texts, and when it removes them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_parts import draft, rows, statuses, value
from learning_parts import (
    assert_evidence,
    assert_settled,
    canonical,
    drafts,
    handlers,
    ingest,
    learned,
    learning_settings,
    run_job,
    scorer,
    upload,
)
from teaching_texts import about

from lagoon.scorer import ReefScorer
from shoal.chunking.analysis import score_document
from shoal.errors import DocumentError
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import Batch, claim
from shoal.jobs.queue.submission import Upload, submit_delete
from shoal.jobs.queue.transitions import cancel
from shoal.jobs.stages.contract import Handlers, ItemHandler, WaveHandler
from shoal.jobs.stages.runner import handlers_for, process
from shoal.learning.scorers import Vocabularies
from shoal.models.documents import DocFormat
from shoal.models.jobs import Stage
from shoal.settings import Settings
from shoal.storage import document_writer, migrate
from shoal.storage.chunk_queries import get_chunks, packed_profiles
from shoal.storage.database import Database
from shoal.storage.opening import open_database

FIRE, LAW, SEA = about("fire", "zorblat"), about("law", "quendle"), about("sea", "mirthog")
BEES = about("bees", "varnisk")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return learning_settings(settings)


def must_claim(database: Database, settings: Settings, stage: Stage) -> Batch:
    batch = claim(database, claims.new_owner(), settings)
    assert batch is not None
    assert batch.stage is stage
    return batch


def step(database: Database, settings: Settings, stage: Stage, using: Handlers | None = None) -> None:
    process(must_claim(database, settings, stage), database, using or handlers(database, settings), settings)


def failing(database: Database, settings: Settings, content: str) -> Handlers:
    """Return handlers that cannot score one text."""
    using = handlers(database, settings)
    inner: Any = using[Stage.score]

    class Failing(ItemHandler):
        def prepare(self, item: Any) -> Any:
            prepared = inner.prepare(item)
            if prepared is not None and prepared.document.draft.content == content:
                raise DocumentError("no")
            return prepared

        store = staticmethod(inner.store)

    return {**using, Stage.score: Failing()}


def forget(database: Database, settings: Settings) -> None:
    """Learn from another text, so that words of removed texts are removed."""
    ingest(database, settings, [BEES])


def test_word_is_learned_with_the_reefs_of_its_context(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE, LAW])
    words = learned(database)
    assert set(words) == {"zorblat", "quendle"}
    assert (words["zorblat"]["n_occurrences"], words["zorblat"]["n_documents"]) == (4, 1)
    strongest = [max(word["reefs"], key=lambda reef: reef["association_strength"]) for word in words.values()]
    assert strongest[0]["reef_id"] != strongest[1]["reef_id"]
    assert_settled(database)


def test_learned_word_counts_in_the_chunks_that_contain_it(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE])
    with_word = rows(database, "SELECT matched_words, vocabulary_version FROM chunks")
    other = dataclasses.replace(settings, learning=False)
    with database.write() as transaction:
        document_writer.delete_document(transaction, 1)
        transaction.execute("DELETE FROM custom_words")
    ingest(database, other, [FIRE])
    without = rows(database, "SELECT matched_words FROM chunks")
    assert sum(n for n, _ in with_word) == sum(n for (n,) in without) + 4  # type: ignore[misc]
    assert {version for _, version in with_word} == {1}


def test_occurrences_add_up_across_waves_and_jobs(database: Database, settings: Settings) -> None:
    each = dataclasses.replace(settings, wave_bytes=1)
    once = [about(topic, "pelluno", 1) for topic in ("fire", "sea")]
    upload(database, each, once[:1])
    run_job(database, each)
    assert learned(database) == {}
    ingest(database, each, [FIRE, once[1], LAW])
    words = learned(database)
    assert (words["pelluno"]["n_occurrences"], words["pelluno"]["n_documents"]) == (2, 2)
    versions = rows(database, "SELECT n, vocabulary_version FROM waves WHERE job_id = 2 ORDER BY n")
    assert versions == [(0, 1), (1, 2), (2, 3)]
    scored_with = rows(
        database, "SELECT DISTINCT document_id, vocabulary_version FROM chunks ORDER BY document_id"
    )
    # The words of the last wave score all waves of the job.
    assert scored_with == [(1, 0), (2, 3), (3, 3), (4, 3)]
    assert_settled(database)


def test_texts_without_new_words_create_no_vocabulary_version(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE])
    ingest(database, settings, ["A court and a jury heard the witness."])
    assert value(database, "SELECT MAX(version) FROM vocabulary_versions") == 1
    assert_settled(database)


def test_wave_is_scored_with_its_own_vocabulary_version(database: Database, settings: Settings) -> None:
    ingest(database, settings, [about("law", "zorblat", 2)])
    upload(database, settings, [FIRE])
    step(database, settings, Stage.discover)
    step(database, settings, Stage.learn)
    waiting = must_claim(database, settings, Stage.score)
    query_scorer = Vocabularies(database, scorer()).at(2)
    ingest(database, settings, [about("sea", "zorblat", 8), about("bees", "zorblat", 8)])
    process(waiting, database, handlers(database, settings), settings)
    with database.snapshot() as snapshot:
        document_id = snapshot.value("SELECT document_id FROM job_items WHERE job_id = 2")
        chunks = get_chunks(snapshot, document_id).chunks
        profiles = packed_profiles(snapshot, document_id)
        assert {chunk.vocabulary_version for chunk in chunks} == {2}
        assert snapshot.value("SELECT MAX(version) FROM vocabulary_versions") > 2
    [given] = drafts([FIRE], settings)
    expected = score_document(given, query_scorer, settings).chunks
    assert profiles == [chunk.profile for chunk in expected]
    newest = score_document(given, Vocabularies(database, scorer()).at(4), settings).chunks
    assert profiles != [chunk.profile for chunk in newest]


def test_later_plural_is_evidence_for_its_singular(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE])
    ingest(database, settings, [about("fire", "zorblats", 2)])
    words = learned(database)
    assert set(words) == {"zorblat"}
    assert words["zorblat"]["n_occurrences"] == 6
    submit_delete(database, settings, [1])
    run_job(database, settings)
    forget(database, settings)
    assert set(learned(database)) == {"zorblats", "varnisk"}


def test_learn_stage_based_on_outdated_data_is_repeated(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE])
    submit_delete(database, settings, [1])
    run_job(database, settings)
    job_id = upload(database, settings, [LAW])
    step(database, settings, Stage.discover)
    learning: Any = handlers(database, settings)[Stage.learn]
    prepared = []

    class Interrupted(WaveHandler):
        store_wave = staticmethod(learning.store_wave)
        cleanup = staticmethod(learning.cleanup)

        def prepare_wave(self, wave: Any, owner: str) -> Any:
            prepared.append(learning.prepare_wave(wave, owner))
            if len(prepared) == 1:
                # The deleted text returns and needs no new observations.
                upload(database, settings, [FIRE])
                step(database, settings, Stage.discover)
            return prepared[-1]

    step(database, settings, Stage.learn, {Stage.learn: Interrupted()})
    assert [len(update.texts.lost) for update in prepared] == [1, 0]
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]
    assert set(learned(database)) == {"zorblat", "quendle"}
    assert_settled(database)


def test_only_one_wave_learns_while_others_proceed(database: Database, settings: Settings) -> None:
    upload(database, settings, [FIRE])
    upload(database, settings, [LAW])
    step(database, settings, Stage.discover)
    learner = must_claim(database, settings, Stage.learn)
    assert claim(database, claims.new_owner(), settings) is None
    upload(database, settings, [SEA])
    step(database, settings, Stage.discover)
    process(learner, database, handlers(database, settings), settings)
    run_job(database, settings)
    assert set(learned(database)) == {"zorblat", "quendle", "mirthog"}


def test_equal_texts_are_learned_from_once(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE, FIRE, LAW, SEA, FIRE])
    ingest(database, settings, [FIRE])
    assert statuses(database, 1) == ["succeeded", "duplicate", "succeeded", "succeeded", "duplicate"]
    assert learned(database)["zorblat"]["n_occurrences"] == 4
    assert_settled(database)


def test_equal_text_waits_for_the_first_to_be_discovered(database: Database, settings: Settings) -> None:
    each = dataclasses.replace(settings, batch_items=1)
    upload(database, each, [FIRE, FIRE])
    first = must_claim(database, each, Stage.discover)
    assert claim(database, claims.new_owner(), each) is None
    process(first, database, handlers(database, each), each)
    run_job(database, each)
    assert statuses(database, 1) == ["succeeded", "duplicate"]
    assert_settled(database)


def test_second_equal_text_is_learned_from_if_the_first_fails(database: Database, settings: Settings) -> None:
    front_matter = f"---\nnote: {FIRE}\n---\n"
    opened = Upload(database, settings).begin()
    opened.add(dataclasses.replace(draft(front_matter), format=DocFormat.markdown))
    opened.add(draft(front_matter))
    job_id = opened.finish()
    run_job(database, settings)
    assert statuses(database, job_id) == ["failed", "succeeded"]
    assert "zorblat" in learned(database)
    assert_settled(database)


def test_words_of_a_document_that_fails_after_learning_are_removed(
    database: Database, settings: Settings
) -> None:
    job_id = upload(database, settings, [FIRE, LAW])
    run_job(database, settings, failing(database, settings, FIRE))
    assert statuses(database, job_id) == ["failed", "succeeded"]
    forget(database, settings)
    assert set(learned(database)) == {"quendle", "varnisk"}
    assert_settled(database)


def test_duplicate_of_a_failed_document_keeps_its_evidence(database: Database, settings: Settings) -> None:
    upload(database, settings, [FIRE])
    using = failing(database, settings, FIRE)
    step(database, settings, Stage.discover)
    step(database, settings, Stage.learn)
    # A job of several documents does not wait for the end of the first.
    later = upload(database, settings, [FIRE, FIRE])
    step(database, settings, Stage.discover)
    step(database, settings, Stage.score, using)
    run_job(database, settings)
    assert statuses(database, 1) == ["failed"]
    assert statuses(database, later) == ["succeeded", "duplicate"]
    forget(database, settings)
    assert set(learned(database)) == {"zorblat", "varnisk"}
    assert_settled(database)


@pytest.mark.parametrize("stage", [Stage.discover, Stage.learn, Stage.score])
def test_words_of_a_canceled_document_are_removed(
    database: Database, settings: Settings, stage: Stage
) -> None:
    job_id = upload(database, settings, [FIRE, LAW])
    for before in (Stage.discover, Stage.learn):
        if stage is before:
            break
        step(database, settings, before)
    simulate_deaths = must_claim(database, settings, stage)
    cancel(database, job_id)
    process(simulate_deaths, database, handlers(database, settings), settings)
    assert statuses(database, job_id) == ["canceled", "canceled"]
    forget(database, settings)
    assert set(learned(database)) == {"varnisk"}
    assert_settled(database)


@pytest.mark.parametrize("retention", ["keep", "prune"])
def test_words_of_a_deleted_document_are_removed(
    database: Database, settings: Settings, retention: str
) -> None:
    settings = dataclasses.replace(settings, observations=retention)
    ingest(database, settings, [FIRE, LAW])
    kept = value(database, "SELECT COUNT(*) FROM observed_words")
    assert (kept == 0) is (retention == "prune")
    ingest(database, settings, [about("sea", "zorblat", 2)])
    assert learned(database)["zorblat"]["n_occurrences"] == 6
    submit_delete(database, settings, [1, 2])
    run_job(database, settings)
    assert {"zorblat", "quendle"} <= set(learned(database))
    forget(database, settings)
    words = learned(database)
    assert set(words) == {"zorblat", "varnisk"}
    assert (words["zorblat"]["n_occurrences"], words["zorblat"]["n_documents"]) == (2, 1)
    if retention == "keep":
        assert_settled(database)


def test_pruning_observations_does_not_change_the_library(
    settings: Settings, tmp_path: Path, migrated_file: Path
) -> None:
    def history(retention: str) -> list[str]:
        path = shutil.copyfile(migrated_file, tmp_path / retention)
        own = dataclasses.replace(settings, database_url=f"sqlite:///{path}", observations=retention)
        library = open_database(own.database_url)
        ingest(library, own, [FIRE, LAW, SEA])
        submit_delete(library, own, [1])
        run_job(library, own)
        ingest(library, own, [about("bees", "zorblat"), BEES])
        exported = canonical(library)
        library.close()
        return exported

    assert history("keep") == history("prune")


def test_text_that_returns_before_its_removal_keeps_its_evidence(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [FIRE])
    submit_delete(database, settings, [1])
    run_job(database, settings)
    ingest(database, settings, [FIRE])
    assert learned(database)["zorblat"]["n_occurrences"] == 4
    forget(database, settings)
    assert learned(database)["zorblat"]["n_occurrences"] == 4
    assert_settled(database)


def test_text_that_returns_under_another_title_is_rediscovered(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [FIRE])
    submit_delete(database, settings, [1])
    run_job(database, settings)
    opened = Upload(database, settings).begin()
    opened.add(draft(FIRE, title="A trial by jury"))
    opened.finish()
    run_job(database, settings)
    assert learned(database)["zorblat"]["n_occurrences"] == 4
    assert rows(database, "SELECT title FROM observed_documents") == [("A trial by jury",)]
    assert_settled(database)


def test_text_deleted_between_the_stages_of_its_duplicate_is_discovered(
    database: Database, settings: Settings
) -> None:
    ingest(database, settings, [FIRE])
    job_id = upload(database, settings, [FIRE])
    step(database, settings, Stage.discover)
    with database.write() as transaction:
        document_writer.delete_document(transaction, 1)
        transaction.execute("DELETE FROM observed_documents")
        transaction.execute("DELETE FROM word_evidence")
    run_job(database, settings)
    assert statuses(database, job_id) == ["succeeded"]
    forget(database, settings)
    assert_settled(database)


def test_relearned_word_keeps_its_id(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE, LAW])
    ids = dict(rows(database, "SELECT word, word_id FROM custom_words"))  # type: ignore[arg-type]
    assert set(ids) == {"quendle", "zorblat"}
    assert sorted(ids.values()) == [scorer().n_words, scorer().n_words + 1]
    submit_delete(database, settings, [1, 2])
    run_job(database, settings)
    forget(database, settings)
    ingest(database, settings, [about("sea", "zorblat"), about("fire", "quendle")])
    word_ids = rows(database, "SELECT DISTINCT word, word_id FROM custom_words")
    assert len(word_ids) == 3
    assert ids.items() < dict(word_ids).items()  # type: ignore[arg-type]


def test_unused_words_are_removed(database: Database, settings: Settings) -> None:
    for i in range(6):
        ingest(database, settings, [f"{FIRE} {about('fire', 'zorblat', 1)} {i}"])
    assert value(database, "SELECT COUNT(*) FROM custom_words WHERE word = 'zorblat'") <= 2
    assert value(database, "SELECT COUNT(*) FROM word_evidence WHERE word = 'zorblat'") <= 2
    assert learned(database)["zorblat"]["n_documents"] == 6


def test_new_data_build_resets_the_evidence(database: Database, settings: Settings) -> None:
    ingest(database, settings, [FIRE, LAW])
    other = ReefScorer(dataclasses.replace(scorer()._model, checksum="another build"))
    upload(database, settings, [about("sea", "zorblat", 2), SEA])
    run_job(database, settings, handlers_for(database, other, settings))
    words = learned(database)
    assert set(words) == {"zorblat", "mirthog"}
    assert words["zorblat"]["n_occurrences"] == 2
    assert_evidence(database)
    # A process with the old data uses none of the new words.
    upload(database, dataclasses.replace(settings, learning=False), [about("bees", "mirthog")])
    run_job(database, settings)
    assert rows(database, "SELECT MAX(coverage) < 1.0 FROM chunks WHERE document_id = 5") == [(1,)]


def test_foreign_scorer_learns_nothing_and_does_no_harm(database: Database, settings: Settings) -> None:
    from fake_scorer import FakeScorer

    ingest(database, settings, [FIRE])
    before = rows(database, "SELECT * FROM learning"), learned(database)
    job_id = upload(database, settings, [LAW])
    run_job(database, settings, handlers_for(database, FakeScorer(), settings))
    assert statuses(database, job_id) == ["succeeded"]
    assert (rows(database, "SELECT * FROM learning"), learned(database)) == before


def test_texts_without_learned_words_are_analyzed_once(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyzed: list[int] = []
    real: Callable[..., Any] = ReefScorer.analyze
    monkeypatch.setattr(ReefScorer, "analyze", lambda *a, **k: analyzed.append(1) or real(*a, **k))
    plain = ["A court and a jury heard the witness.", "The waves of the ocean broke on the shore."]
    wide = dataclasses.replace(settings, wave_bytes=10_000)
    ingest(database, wide, [*plain, FIRE])
    assert len(analyzed) == 4


def test_short_texts_processed_together_give_the_same_results(
    database: Database, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [about(topic, "zorblat", n) for topic in ("fire", "sea", "law", "bees") for n in (3, 4, 5)]
    wide = dataclasses.replace(settings, wave_bytes=100_000)
    ingest(database, dataclasses.replace(wide, batch_items=1), texts)
    analyzed: list[str] = []
    for name in ("analyze", "analyze_many"):
        real: Callable[..., Any] = getattr(ReefScorer, name)
        monkeypatch.setattr(
            ReefScorer, name, lambda *a, _name=name, _real=real, **k: analyzed.append(_name) or _real(*a, **k)
        )
    url = f"sqlite:///{tmp_path}/together.db"
    other = dataclasses.replace(wide, database_url=url, batch_items=100, batch_bytes=100_000)
    together = open_database(other.database_url)
    migrate.upgrade(together)
    ingest(together, other, texts)
    assert canonical(together) == canonical(database)
    assert analyzed == ["analyze_many", "analyze"], "one call for all texts in each of the two stages"
    assert observations(together) == observations(database)
    together.close()


def observations(database: Database) -> list[tuple[Any, ...]]:
    return rows(
        database,
        "SELECT content_hash, job_id, wave, state, stored, title,"
        " kind, word, n_occurrences, n_short, n_chunks, parts, context"
        " FROM observed_documents o JOIN observed_words w ON w.observed_id = o.id"
        " ORDER BY content_hash, kind, word",
    )


def test_bad_text_in_a_group_fails_alone(
    database: Database, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    texts = [about("sea", "zorblat", n) for n in range(3, 13)]
    wide = dataclasses.replace(settings, wave_bytes=100_000, batch_items=100, batch_bytes=100_000)
    job_id = upload(database, wide, [*texts[:5], "* * *\n", *texts[5:]])
    run_job(database, wide)
    assert statuses(database, job_id).count("succeeded") == len(texts)
    assert statuses(database, job_id)[5] == "failed"
    assert "one by one" not in caplog.text, "the other texts are still processed together"


def test_scoring_without_discovery_finds_the_same_chunks(database: Database, settings: Settings) -> None:
    """The discover results may be from another version or another item."""
    ingest(database, settings, [FIRE, LAW])
    expected = [line for line in canonical(database) if '"chunk"' in line]
    with database.write() as transaction:
        for document_id in (1, 2):
            document_writer.delete_document(transaction, document_id)
    off = dataclasses.replace(settings, learning=False)
    upload(database, off, [FIRE, LAW])
    using = handlers(database, off)
    run_job(database, off, using)
    assert [line for line in canonical(database) if '"chunk"' in line] == expected
