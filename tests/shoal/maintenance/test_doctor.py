"""The doctor finds problems of a library, advises what to do, and repairs them without losing a document."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_scorer import FakeScorer
from indexed_library import assert_indexed
from libraries import TEXTS, copy, documents, index_of, make
from older_schema import statements_to_stamped
from teaching_texts import about

import lagoon
from shoal.cli.app import run
from shoal.engine import Engine
from shoal.formats.drafts import make_draft
from shoal.jobs.queue import claims
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.queries import get_items, get_job
from shoal.jobs.queue.submission import Upload
from shoal.jobs.stages.runner import handlers_for, process
from shoal.maintenance.doctor import CheckContext, Finding, Report, Severity, run_checks, runner
from shoal.maintenance.export import export
from shoal.models.jobs import JobStatus
from shoal.settings import Settings
from shoal.storage.opening import open_database


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(database_url=f"sqlite:///{tmp_path / 'shoal.db'}")


@pytest.fixture
def library(settings: Settings) -> Path:
    return make(settings.database_path)


def context(settings: Settings) -> CheckContext:
    return CheckContext(settings, FakeScorer())


def check(settings: Settings, *, repair: bool = False, quick: bool = False) -> Report:
    check_context = context(settings)
    try:
        return run_checks(check_context, repair=repair, quick=quick)
    finally:
        check_context.close()


def damage(path: Path, *statements: str) -> None:
    """Change a database in a way that Shoal never does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def content(path: Path) -> list[str]:
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return list(engine.maintenance.export(canonical=True))


def only(findings: tuple[Finding, ...], check_name: str) -> Finding:
    assert [finding.check for finding in findings] == [check_name], findings
    finding = findings[0]
    assert finding.meaning
    assert finding.advice
    return finding


def assert_healthy(settings: Settings) -> None:
    assert check(settings).findings == ()


def test_intact_library_has_no_findings(library: Path, settings: Settings) -> None:
    report = check(settings)
    assert report.findings == ()
    assert report.is_healthy
    assert len(report.looked_at) == 25
    assert set(check(settings, quick=True).looked_at) < set(report.looked_at)
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        assert engine.maintenance.doctor() == report


# --- The file ---


def test_file_that_is_not_a_database_is_reported_and_unchanged(settings: Settings) -> None:
    settings.database_path.write_bytes(b"dear diary" * 1000)
    report = check(settings, repair=True)
    assert "cannot be read" in only(report.findings, "file").problem
    assert not report.is_healthy
    assert report.looked_at == ("file",)
    assert settings.database_path.read_bytes() == b"dear diary" * 1000


def test_database_of_another_program_is_reported(settings: Settings) -> None:
    damage(settings.database_path, "CREATE TABLE recipes (name TEXT)")
    assert "not a Shoal database" in only(check(settings, repair=True).findings, "file").problem


def test_overwritten_pages_advise_a_restore(library: Path, settings: Settings) -> None:
    with closing(sqlite3.connect(library)) as connection:
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'document_tags'"
        ).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    with library.open("rb+") as file:
        file.seek((root - 1) * size)
        file.write(b"\x00" * size)
    report = check(settings, repair=True)
    assert not report.is_healthy
    finding = next(finding for finding in report.findings if finding.check == "integrity")
    assert "restore" in finding.advice
    assert not finding.can_repair


def test_index_that_misses_a_row_is_rebuilt(library: Path, settings: Settings) -> None:
    name = "idx_documents_source_path"
    with closing(sqlite3.connect(library, isolation_level=None)) as connection:
        row = connection.execute(
            "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE name = ?", (name,)
        ).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (name,))
    damage(library, "UPDATE documents SET source_path = 'elsewhere.md' WHERE id = 1")
    with closing(sqlite3.connect(library, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    finding = only(check(settings).findings, "integrity")
    assert name in finding.problem
    assert finding.can_repair
    assert only(check(settings, repair=True).repaired, "integrity") == finding
    assert_healthy(settings)


def test_newer_schema_stops_the_examination(library: Path, settings: Settings) -> None:
    damage(library, "UPDATE schema_revision SET revision = '9999'")
    report = check(settings, repair=True)
    assert "newer version" in only(report.findings, "schema").advice
    assert report.looked_at == ("file", "schema")


def test_older_schema_is_migrated_by_repair(library: Path, settings: Settings) -> None:
    damage(library, *statements_to_stamped("sqlite"))
    assert "shoal migrate" in only(check(settings).findings, "schema").advice
    assert check(settings, repair=True).is_healthy
    assert_healthy(settings)


@pytest.mark.parametrize("table", ["index_segments", "changed_documents", "index_state"])
def test_missing_index_and_derived_tables_are_rebuilt(library: Path, settings: Settings, table: str) -> None:
    before = content(library)
    damage(library, "DROP INDEX idx_jobs_status", f"DROP TABLE {table}", "DROP TABLE reefs")
    assert "idx_jobs_status" in only(check(settings).findings, "schema").problem
    assert {finding.check for finding in check(settings, repair=True).repaired} == {
        "schema",
        "names",
        "index",
    }
    assert_healthy(settings)
    assert content(library) == before
    assert search_titles(library, "volcano lava") == ["Fire"]


def test_missing_trigger_and_totals_are_restored(library: Path, settings: Settings) -> None:
    damage(
        library,
        "DROP TRIGGER total_deleted_document",
        "DROP TABLE reef_totals",
        "UPDATE library_totals SET n_documents = 99",
    )
    assert "total_deleted_document" in only(check(settings).findings[:1], "schema").problem
    assert {finding.check for finding in check(settings, repair=True).repaired} == {"schema", "totals"}
    assert_healthy(settings)


def test_missing_table_with_content_is_not_repaired(library: Path, settings: Settings) -> None:
    damage(library, "DROP TABLE document_tags")
    finding = only(check(settings, repair=True).findings, "schema")
    assert not finding.can_repair
    assert "restore" in finding.advice


# --- Documents ---


def search_titles(path: Path, query: str) -> list[str]:
    """Titles of the documents in the results of a search."""
    with Engine(db_path=path, scorer=FakeScorer()) as engine:
        return [result.document_title for result in engine.search(query, mode="reef", top_k=1).results]


REPAIRABLE: dict[str, tuple[str, ...]] = {
    "orphans": ("INSERT INTO document_tags VALUES (99, 'nobody')",),
    "texts": ("UPDATE chunks SET end_char = end_char - 1 WHERE id = 2",),
    "scores: headings": ('UPDATE chunks SET metadata = \'{"headings":["x"]}\' WHERE id = 2',),
    "texts: an index": ("UPDATE chunks SET chunk_index = chunk_index + 1 WHERE id = 2",),
    "texts: a section": ("DELETE FROM sections WHERE document_id = 2",),
    "texts: a count": ("UPDATE documents SET n_chunks = 7 WHERE id = 2",),
    "texts: a size": ("UPDATE documents SET n_bytes = 7 WHERE id = 2",),
    "scores": ("UPDATE chunks SET profile = SUBSTR(profile, 8) WHERE id = 1",),
    "scores: all": ("UPDATE chunks SET profile = x''",),
    "scores: reefs alone": ("UPDATE chunks SET reef_ids = SUBSTR(reef_ids, 2) WHERE id = 2",),
    "scores: half a record": ("UPDATE chunks SET profile = SUBSTR(profile, 2) WHERE id = 2",),
    "scores: a reef twice": (
        "UPDATE chunks SET profile = CAST(profile || SUBSTR(profile, -7) AS BLOB) WHERE id = 2",
    ),
    "scores: order": (
        """UPDATE chunks SET profile = CAST(
               SUBSTR(profile, -7) || SUBSTR(profile, 1, LENGTH(profile) - 7) AS BLOB) WHERE id = 2""",
    ),
    "scores: a norm": ("UPDATE chunks SET norm = 3 * norm WHERE id = 2",),
    "names": ("DELETE FROM reefs WHERE reef_id = 1",),
    "names: another": ("UPDATE reefs SET reef_name = 'x', island_name = 'y'",),
    "names: ranks": ("DELETE FROM ranks WHERE rank > 9", "UPDATE all_bytes SET bytes = x'00'"),
    "index: a segment": ("DELETE FROM index_segments",),
    "index: a change": ("INSERT OR REPLACE INTO changed_documents SELECT id, 99, 1, 0 FROM documents",),
    "index: its revision": ("DELETE FROM index_state",),
    "index files: a name": ("UPDATE index_segments SET file_name = '../shoal.db'",),
    "totals": (
        "UPDATE library_totals SET n_chunks = n_chunks + 1",
        "DELETE FROM tag_totals",
        "UPDATE reef_totals SET n_chunks = n_chunks + 1",
    ),
}


@pytest.mark.parametrize("name", REPAIRABLE)
def test_derived_data_is_rebuilt_from_the_texts(library: Path, settings: Settings, name: str) -> None:
    before = content(library)
    damage(library, *REPAIRABLE[name])
    check_name = name.partition(":")[0]
    report = check(settings)
    assert check_name in {finding.check for finding in report.findings}
    assert not report.is_healthy
    repaired = check(settings, repair=True)
    assert repaired.is_healthy, repaired.findings
    assert check_name in {finding.check for finding in repaired.repaired}
    assert_healthy(settings)
    assert content(library) == before
    assert search_titles(library, "volcano lava") == ["Fire"]


def remove_index(folder: Path) -> None:
    shutil.rmtree(folder)


def cut_a_segment(folder: Path) -> None:
    [segment] = folder.iterdir()
    segment.write_bytes(segment.read_bytes()[:-1])


def change_a_posting(folder: Path) -> None:
    [segment] = folder.iterdir()
    content = bytearray(segment.read_bytes())
    at = content.rindex(next(iter(set(content[len(content) // 2 :]) - {0})))
    content[at] ^= 0x10
    segment.write_bytes(content)


@pytest.mark.parametrize("change", [remove_index, cut_a_segment, change_a_posting])
def test_missing_or_damaged_index_is_built_anew(
    library: Path, settings: Settings, change: Callable[[Path], None]
) -> None:
    before = content(library)
    change(index_of(library))
    finding = next(finding for finding in check(settings).findings if finding.check == "index files")
    assert finding.can_repair
    assert finding.severity is Severity.error
    assert "the passages are intact" in finding.meaning
    report = check(settings, repair=True)
    assert report.is_healthy
    assert finding in report.repaired
    assert_healthy(settings)
    assert content(library) == before
    database = open_database(settings.database_url)
    assert_indexed(database)
    database.close()
    assert search_titles(library, "volcano lava") == ["Fire"]


def test_damage_inside_a_segment_is_found_only_by_the_whole_examination(
    library: Path, settings: Settings
) -> None:
    change_a_posting(index_of(library))
    assert "index files" in check(settings).looked_at
    assert "index files" not in check(settings, quick=True).looked_at


def test_index_of_another_state_is_built_anew(library: Path, settings: Settings) -> None:
    """The chunks of a document were replaced by a program that notes nothing."""
    damage(
        library,
        "CREATE TEMP TABLE changed AS SELECT * FROM chunks WHERE document_id = 2",
        "DELETE FROM chunks WHERE document_id = 2",
        "UPDATE changed SET id = id + 100",
        "INSERT INTO chunks SELECT * FROM changed",
    )
    finding = only(check(settings).findings, "index")
    assert "2 passages are missing from the index, and 2 of its entries have no passage" in finding.problem
    assert finding.n == 4
    assert only(check(settings, repair=True).repaired, "index") == finding
    assert_healthy(settings)


def test_documents_that_wait_to_be_indexed_are_a_note(library: Path, settings: Settings) -> None:
    damage(
        library,
        "UPDATE index_state SET revision = revision + 1",
        """INSERT OR REPLACE INTO changed_documents (document_id, revision, is_indexed)
           SELECT d.id, s.revision, 0 FROM documents d, index_state s WHERE d.id > 2""",
    )
    report = check(settings)
    finding = only(report.findings, "index")
    assert (finding.n, finding.severity) == (2, Severity.note)
    assert report.is_healthy
    assert only(check(settings, repair=True).repaired, "index") == finding
    assert_healthy(settings)


def test_passages_of_a_rebuilt_document_keep_their_ids(library: Path, settings: Settings) -> None:
    def ids() -> list[int]:
        with Engine(db_path=library, scorer=FakeScorer()) as engine:
            return [chunk.id for chunk in engine.documents.chunks(1).chunks]

    before = ids()
    damage(library, "UPDATE chunks SET section_id = 999 WHERE document_id = 1 AND chunk_index = 0")
    check(settings, repair=True)
    assert ids() == before


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE chunks SET text = REPLACE(text, 'lava', 'love')", "the SHA-256 of the text differs"),
        ("UPDATE chunks SET text_before = 'x' WHERE id = 1", "the SHA-256 of the text differs"),
        ("UPDATE documents SET text_after = 'love' WHERE id = 1", "the SHA-256 of the text differs"),
        ("UPDATE chunks SET text = CAST(text AS BLOB) WHERE id = 1", "the SHA-256 of the text differs"),
        (
            "DELETE FROM chunks WHERE document_id = 1 AND chunk_index = 1",
            "2 passages are recorded, there are 1",
        ),
    ],
)
def test_changed_text_is_reported_and_not_repaired(
    library: Path, settings: Settings, statement: str, reason: str
) -> None:
    damage(library, statement)
    finding = only(
        [found for found in check(settings, repair=True).findings if found.check == "texts"], "texts"
    )
    assert not finding.can_repair
    assert "backup" in finding.advice
    assert finding.examples == (f"document 1: {reason}",)
    with closing(sqlite3.connect(library)) as connection:
        texts = connection.execute("SELECT CAST(content AS BLOB) FROM document_texts").fetchall()
    assert len(texts) == len(TEXTS)


def test_whole_text_of_a_document_without_its_passages_is_divided_again(
    library: Path, settings: Settings
) -> None:
    """A migration leaves a document like this if its passages did not match its text."""
    before = content(library)
    damage(
        library,
        """UPDATE documents SET text_after =
               (SELECT content FROM document_texts WHERE document_id = id) WHERE id = 1""",
        "UPDATE chunks SET text = '', text_before = '' WHERE document_id = 1",
    )
    assert "texts" in {finding.check for finding in check(settings, repair=True).repaired}
    assert_healthy(settings)
    assert content(library) == before


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("text_after = CAST(x'ff41' AS TEXT)", "text_after is not UTF-8"),
        ("text_after = CAST(text_after AS BLOB)", "text_after is not stored as TEXT"),
        ("title = x'ff'", "title is not stored as TEXT"),
        ("source_path = CAST(x'ff41' AS TEXT)", "source_path is not UTF-8"),
        ("metadata = '{'", "metadata is not a JSON object"),
        ("metadata = '[1]'", "metadata is not a JSON object"),
        ("report = 'x'", "report is not a JSON object"),
        ("format = 'rich'", "format is none of markdown, plaintext"),
        ("coverage = 'x'", "coverage is not stored as REAL"),
    ],
)
def test_damaged_value_of_a_document_is_named_and_not_repaired(
    library: Path, settings: Settings, assignment: str, reason: str
) -> None:
    damage(library, f"UPDATE documents SET {assignment} WHERE id = 2")
    for repair in (False, True):
        finding = next(
            finding for finding in check(settings, repair=repair).findings if finding.check == "values"
        )
        assert finding.examples == (f"document 2: documents.{reason}",)
        assert (finding.severity, finding.can_repair) == (Severity.error, False)
    with closing(sqlite3.connect(library)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM documents").fetchone()[0] == len(TEXTS)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE documents SET n_bytes = 'x', n_chunks = 'y' WHERE id = 2",
        "UPDATE chunks SET start_char = 'x' WHERE document_id = 2",
        "UPDATE chunks SET norm = 'x' WHERE document_id = 2",
        "UPDATE chunks SET profile = 'x', top_reef_probability = 'x' WHERE id = 2",
        "UPDATE vocabulary_versions SET n_words = 'x'",
    ],
)
def test_damaged_derived_value_is_rebuilt_from_the_texts(
    library: Path, settings: Settings, statement: str
) -> None:
    before = content(library)
    damage(library, statement)
    assert not check(settings).is_healthy
    assert check(settings, repair=True).is_healthy
    assert_healthy(settings)
    assert content(library) == before


def test_unreadable_document_does_not_stop_the_repair_of_others(library: Path, settings: Settings) -> None:
    damage(library, "UPDATE documents SET n_bytes = 1", "UPDATE documents SET metadata = '{' WHERE id = 1")
    report = check(settings, repair=True)
    finding = next(finding for finding in report.findings if finding.check == "texts" and finding.can_repair)
    assert finding.examples == ("document 1: 1 bytes are recorded, the text has 87",)


def test_failing_check_is_a_finding_and_the_other_checks_run(
    library: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: CheckContext) -> list[Finding]:
        raise ValueError("no such number")

    broken = tuple(
        dataclasses.replace(entry, find=fail) if entry.name == "names" else entry for entry in runner.CHECKS
    )
    monkeypatch.setattr(runner, "CHECKS", broken)
    report = check(settings)
    assert "ValueError: no such number" in only(report.findings, "names").problem
    assert not report.is_healthy
    assert len(report.looked_at) == len(broken) - 1


def test_stale_passages_are_a_note(library: Path, settings: Settings) -> None:
    damage(
        library,
        "INSERT INTO vocabulary_versions SELECT 1, 'now', NULL, NULL, 0, data_checksum FROM chunks LIMIT 1",
    )
    damage(library, "INSERT INTO stale_documents VALUES (1, 1, x'80')")
    report = check(settings)
    finding = only(report.findings, "staleness")
    assert finding.problem.startswith("1 passages contain words")
    assert "shoal rescore" in finding.advice
    assert finding.severity is Severity.note
    assert report.is_healthy


def test_passages_of_other_scorer_data_are_a_note(library: Path, settings: Settings) -> None:
    damage(library, "UPDATE chunks SET data_checksum = 'another build' WHERE id = 1")
    finding = only(check(settings).findings, "staleness")
    assert finding.problem.startswith("1 passage")
    assert "no labels" in finding.meaning
    assert finding.severity is Severity.note


# --- Jobs ---


@pytest.fixture
def open_job(library: Path, settings: Settings) -> int:
    """A job of four notes in two waves; the discover stage of the first wave has begun."""
    settings = dataclasses.replace(settings, wave_bytes=100, batch_items=1)
    database = open_database(settings.database_url)
    upload = Upload(database, settings).begin()
    for i in range(4):
        upload.add(
            make_draft(content=f"Rain and storm and wind, number {i}, over the sea.", settings=settings)
        )
    job_id = upload.finish()
    process_batch(settings)
    database.close()
    return job_id


def process_batch(settings: Settings) -> bool:
    database = open_database(settings.database_url)
    try:
        batch = claim(database, claims.new_owner(), settings)
        if batch is not None:
            process(batch, database, handlers_for(database, FakeScorer(), settings), settings)
        return batch is not None
    finally:
        database.close()


def finish(settings: Settings, job_id: int) -> list[str]:
    """Process all batches, check that the job has ended, and return the statuses of its items."""
    while process_batch(settings):
        pass
    database = open_database(settings.database_url)
    try:
        assert get_job(database, job_id).ended
        return [item.status.value for item in get_items(database, job_id)]
    finally:
        database.close()


BROKEN_JOBS = {
    "items: no job": ("PRAGMA foreign_keys = OFF", "DELETE FROM jobs"),
    "items: no wave": ("DELETE FROM waves WHERE n = 0",),
    "items: lease without claim": ("UPDATE job_items SET lease_owner = 'nobody' WHERE status = 'enqueued'",),
    "items: claim without lease": ("UPDATE job_items SET status = 'discovering' WHERE status = 'enqueued'",),
    "items: behind their wave": ("UPDATE waves SET stage = 'score'",),
    "waves: too many": ("UPDATE waves SET pending = pending + 1",),
    "waves: none": ("UPDATE waves SET pending = 0",),
    "waves: closed early": ("UPDATE waves SET stage = 'done', pending = 0 WHERE n = 1",),
    "jobs: counts": ("UPDATE jobs SET total = 7, bytes_done = 1, n_failed = 2",),
    "jobs: ended early": ("UPDATE jobs SET status = 'succeeded', finished_at = 'now'",),
}


@pytest.mark.parametrize("name", BROKEN_JOBS)
def test_accepted_job_completes_after_a_repair(settings: Settings, open_job: int, name: str) -> None:
    damage(settings.database_path, *BROKEN_JOBS[name])
    check_name = name.partition(":")[0]
    assert check_name in {finding.check for finding in check(settings).findings}
    report = check(settings, repair=True)
    assert report.is_healthy, report.findings
    assert_healthy(settings)
    assert finish(settings, open_job) == ["succeeded"] * 4
    assert_healthy(settings)


def test_job_without_open_items_ends(settings: Settings, open_job: int) -> None:
    assert finish(settings, open_job) == ["succeeded"] * 4
    damage(settings.database_path, "UPDATE jobs SET status = 'processing', finished_at = NULL")
    assert only(check(settings).findings, "jobs").can_repair
    check(settings, repair=True)
    assert_healthy(settings)
    assert finish(settings, open_job) == ["succeeded"] * 4


def test_item_without_text_fails_with_a_reason(settings: Settings, open_job: int) -> None:
    damage(
        settings.database_path,
        "DELETE FROM job_item_contents WHERE item_id = (SELECT MAX(id) FROM job_items)",
    )
    finding = only(check(settings).findings, "items")
    assert "send these documents again" in finding.advice
    check(settings, repair=True)
    assert_healthy(settings)
    assert finish(settings, open_job) == ["succeeded"] * 3 + ["failed"]
    database = open_database(settings.database_url)
    assert get_job(database, open_job).status is JobStatus.partial
    item = get_items(database, open_job)[3]
    assert "send the document again" in str(item.error)
    assert item.error_code == "text_lost"
    database.close()


def test_claim_of_a_dead_worker_is_reclaimed(settings: Settings, open_job: int) -> None:
    database = open_database(settings.database_url)
    assert claim(database, claims.new_owner(), settings, time.time() - 2 * settings.lease_seconds) is not None
    database.close()
    assert "shoal worker" in only(check(settings).findings, "leases").advice
    assert only(check(settings, repair=True).repaired, "leases")
    assert_healthy(settings)
    assert finish(settings, open_job) == ["succeeded"] * 4


def test_leftovers_of_interrupted_uploads_are_removed(library: Path, settings: Settings) -> None:
    spool = settings.data_path / "spool"
    spool.mkdir(parents=True)
    old, new = spool / "upload-old", spool / "upload-new"
    for file in (old, new):
        file.write_text("half of an upload")
    long_ago = time.time() - 2 * settings.upload_timeout
    os.utime(old, (long_ago, long_ago))
    database = open_database(settings.database_url)
    upload = Upload(database, settings).begin()
    upload.add(make_draft(content="Rain and storm.", settings=settings))
    database.close()
    damage(library, "UPDATE jobs SET received_at = 1")
    report = check(settings)
    assert [finding.check for finding in report.findings] == ["leftovers", "leftovers"]
    assert report.is_healthy
    check(settings, repair=True)
    assert_healthy(settings)
    assert [path.name for path in spool.iterdir()] == ["upload-new"]


def test_texts_of_ended_items_are_removed(settings: Settings, open_job: int) -> None:
    finish(settings, open_job)
    damage(
        settings.database_path,
        "INSERT INTO job_item_contents (item_id, content) SELECT id, 'text' FROM job_items",
    )
    report = check(settings)
    assert only(report.findings, "items").n == 4
    assert report.is_healthy
    check(settings, repair=True)
    assert_healthy(settings)


# --- Learned words ---

TEACHING_TEXTS = [
    about("fire", "zorblat"),
    about("sea", "quendle"),
    about("fire", "zorblat", 3),
    about("law", "mirthog"),
]


@pytest.fixture(scope="module")
def learned_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that has learned words, closed."""
    path = tmp_path_factory.mktemp("learned") / "shoal.db"
    with Engine(db_path=path) as engine:
        engine.ingest_many([{"content": text, "title": text[:12]} for text in TEACHING_TEXTS])
        assert engine.status().n_custom_words >= 3
    return path


@pytest.fixture
def learned(learned_library: Path, settings: Settings) -> Path:
    return copy(learned_library, settings.database_path)


def check_with_lagoon(settings: Settings, *, repair: bool = False) -> Report:
    check_context = CheckContext(settings, lagoon.load())
    try:
        return run_checks(check_context, repair=repair)
    finally:
        check_context.close()


BROKEN_LEARNING = {
    "learned texts": ("UPDATE observed_documents SET stored = 0 WHERE id = 1",),
    "evidence: a sum": ("UPDATE word_evidence SET n_occurrences = n_occurrences + 1 WHERE word = 'zorblat'",),
    "evidence: a word": ("DELETE FROM word_evidence WHERE word = 'zorblat'",),
    "evidence: a text": ("DELETE FROM observed_documents WHERE id = 2",),
    "evidence: the state": ("DELETE FROM learning",),
    "vocabulary": ("UPDATE vocabulary_versions SET n_words = 99 WHERE version > 0",),
}


@pytest.mark.parametrize("name", BROKEN_LEARNING)
def test_damaged_learning_state_is_learned_again(learned: Path, settings: Settings, name: str) -> None:
    with Engine(db_path=learned) as engine:
        engine.maintenance.rescore()
        before = list(engine.maintenance.export(canonical=True))
    assert check_with_lagoon(settings).findings == ()
    damage(learned, "PRAGMA foreign_keys = ON", *BROKEN_LEARNING[name])
    assert name.partition(":")[0] in {finding.check for finding in check_with_lagoon(settings).findings}
    report = check_with_lagoon(settings, repair=True)
    assert report.is_healthy, report.findings
    with Engine(db_path=learned) as engine:
        engine.maintenance.rescore()
        assert list(engine.maintenance.export(canonical=True)) == before
    assert check_with_lagoon(settings).findings == ()


def test_evidence_of_pruned_texts_is_a_note(settings: Settings) -> None:
    with Engine(settings=dataclasses.replace(settings, observations="prune")) as engine:
        engine.ingest_many([{"content": text} for text in TEACHING_TEXTS])
    report = check_with_lagoon(settings)
    assert "prune" in only(report.findings, "evidence").meaning
    assert report.is_healthy


# --- The command ---


def test_command_prints_problems_and_advice(
    learned: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    def doctor(*options: str) -> tuple[int, str]:
        code = run(["--db", str(learned), "doctor", *options])
        return code, capsys.readouterr().out

    assert doctor() == (0, "25 checks: the library is whole\n")
    damage(learned, "DELETE FROM reefs")
    code, text = doctor("--quick")
    assert code == 1
    for expected in ("PROBLEM   names:", "means: ", "do:    --repair", "--repair` can repair 1"):
        assert expected in text
    code, text = doctor("--json")
    report: dict[str, Any] = json.loads(text)
    finding = report["findings"][0]
    assert (code, report["healthy"]) == (1, False)
    assert (finding["check"], finding["severity"]) == ("names", "error")
    code, text = doctor("--repair")
    assert code == 0
    assert "repaired  names:" in text
    assert doctor()[0] == 0
    assert run(["--db", str(learned.with_name("none.db")), "doctor"]) == 1


def test_library_in_use_is_checked_and_repaired(library: Path, settings: Settings) -> None:
    with Engine(settings=settings, scorer=FakeScorer()) as engine:
        damage(library, "UPDATE chunks SET profile = x''")
        assert check(settings, repair=True).is_healthy
        assert [result.document_title for result in engine.search("judge", mode="reef", top_k=1).results] == [
            "Courts"
        ]
        engine.ingest(**documents()[0] | {"content": TEXTS["Fire"] + "\nMore lava.\n"})
    assert_healthy(settings)
    assert list(export(open_database(settings.database_url)))
