"""Jobs that embed documents: no chunk without its vector is complete, and no text is embedded twice."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from embedded_library import library_of, nearest, with_vector
from fake_encoder import FakeEncoder
from faked_clock import fake_clock
from faults import DONE, KILLED, killed_at
from job_parts import (
    assert_consistent,
    claim_now,
    draft,
    handlers,
    rows,
    run_job,
    scored,
    statuses,
    upload,
    value,
)

from shoal.encoders.encoder import Encoder, Floats, TextKind
from shoal.errors import EncoderError, EncoderMismatchError, EncoderUnavailableError
from shoal.jobs.jobs import EmbeddingStarter, embed
from shoal.jobs.queue.claims import release
from shoal.jobs.queue.embed_items import submit_embedding
from shoal.jobs.queue.metrics import measure
from shoal.jobs.queue.queries import count_items, get_items, get_job
from shoal.jobs.queue.recovery import reclaim_expired_leases
from shoal.jobs.queue.transitions import cancel, retry
from shoal.jobs.stages.contract import Handlers, NotPreparedError
from shoal.jobs.stages.embed import MAX_TRIES, Embedding
from shoal.jobs.stages.runner import process
from shoal.models.documents import DocumentDraft, ScoredDocument
from shoal.models.jobs import ItemStatus, JobKind, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage import document_writer, vectors
from shoal.storage.database import Database
from shoal.storage.opening import open_database
from shoal.support.clock import timestamp

BATCH = 4
COUNT_CHUNKS = "SELECT COUNT(*) FROM chunks"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return dataclasses.replace(settings, encoder_batch=BATCH)


class Recording(FakeEncoder):
    """Writes each text that it embeds as a line of a file, and fails as a test says."""

    def __init__(self, path: Path, fail: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        super().__init__()
        self._path, self._fail = path, fail

    def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
        assert len(texts) <= BATCH
        self._fail(texts)
        with self._path.open("a") as file:
            file.writelines(text.replace("\n", "|") + "\n" for text in texts)
        return super().embed(texts, kind)


def embedded(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def in_words(document: DocumentDraft) -> ScoredDocument:
    """A chunk for each word."""
    whole = scored(document)
    (chunk,) = whole.chunks
    words, start = [], 0
    for number, word in enumerate(document.content.split(" ")):
        end = min(start + len(word) + 1, len(document.content))
        text = document.content[start:end]
        words.append(
            dataclasses.replace(chunk, chunk_index=number, text=text, start_char=start, end_char=end)
        )
        start = end
    return dataclasses.replace(whole, chunks=tuple(words))


def parts(database: Database, settings: Settings, encoder: Encoder | None) -> Handlers:
    return {**handlers(database, in_words), Stage.embed: Embedding(database, settings, lambda: encoder)}


def ingest(database: Database, settings: Settings, *contents: str) -> None:
    upload(database, settings, contents)
    while batch := claim_now(database, settings):
        if batch.stage is Stage.embed:
            release(database, batch)
            break
        process(batch, database, handlers(database, in_words), settings)


def assert_complete(database: Database, encoder: FakeEncoder) -> None:
    assert len(with_vector(database)) == value(database, COUNT_CHUNKS)
    assert sorted(nearest(library_of(database), encoder, "rain")) == with_vector(database)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "embedded"


def test_a_job_embeds_every_chunk_once(database: Database, settings: Settings, path: Path) -> None:
    ingest(database, settings, "a1 a2 a3 a4 a5 a6", "b1", "c1 c2", "d1 d2 d3")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    job = get_job(database, job_id)
    assert (job.kind, job.progress.total) == (JobKind.embed, 4)
    encoder = Recording(path)
    run_job(database, settings, parts(database, settings, encoder))
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert_consistent(database)
    assert_complete(database, FakeEncoder())
    assert len(embedded(path)) == len(set(embedded(path))) == 12
    assert embedded(path)[0] == "a1 a2 a3 a4 a5 a6||a1 "
    assert submit_embedding(database, settings, automatic=True) is None
    again = submit_embedding(database, settings)
    assert again is not None
    assert get_job(database, again).status is JobStatus.succeeded


def test_items_are_shown_as_embedding_while_they_are(database: Database, settings: Settings) -> None:
    ingest(database, settings, "a", "b")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    assert claim_now(database, settings) is not None
    assert {item.status for item in get_items(database, job_id)} == {ItemStatus.embedding}
    for status, n in ((ItemStatus.embedding, 2), (ItemStatus.scoring, 0), (ItemStatus.enqueued, 0)):
        assert len(get_items(database, job_id, status)) == count_items(database, job_id, status) == n
    other = upload(database, settings, ["c"])
    assert get_items(database, other, ItemStatus.embedding) == []
    with database.snapshot() as snapshot:
        waiting = measure(snapshot).waiting
    assert (waiting["embedding"], waiting["scoring"], waiting["enqueued"]) == (2, 0, 1)


def test_small_documents_are_embedded_together(database: Database, settings: Settings) -> None:
    ingest(database, settings, *(f"word{number}" for number in range(2 * BATCH)))
    submit_embedding(database, settings)
    sizes = []

    class Counting(FakeEncoder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
            sizes.append(len(texts))
            return super().embed(texts, kind)

    run_job(database, settings, parts(database, settings, Counting()))
    assert sizes == [BATCH, BATCH]


def test_later_documents_join_the_open_job(database: Database, settings: Settings) -> None:
    ingest(database, settings, "a", "b")
    job_id = submit_embedding(database, settings)
    ingest_other = upload(database, settings, ["c", "d"])
    # Ingestion comes first.
    for _ in range(2):
        batch = claim_now(database, settings)
        assert batch is not None
        if batch.stage is Stage.embed:
            break
        process(batch, database, handlers(database, in_words), settings)
        assert batch.stage is Stage.score
    assert get_job(database, ingest_other).ended
    assert submit_embedding(database, settings, automatic=True) == job_id
    assert submit_embedding(database, settings, automatic=True) is None or job_id
    assert get_job(database, job_id or 0).progress.total == 4
    assert len(statuses(database, job_id or 0)) == 4
    assert_consistent(database)


def test_ingestion_interrupts_an_embedding(database: Database, settings: Settings, path: Path) -> None:
    ingest(database, settings, "a1 a2 a3 a4 a5 a6 a7 a8 a9")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    arrivals: Iterator[int] = itertools.count()

    def arrive(_: Sequence[str]) -> None:
        if next(arrivals) == 0:
            upload(database, settings, ["later"])

    using = parts(database, settings, Recording(path, arrive))
    batch = claim_now(database, settings)
    assert batch is not None
    process(batch, database, using, settings)
    assert statuses(database, job_id) == ["enqueued"]
    assert len(with_vector(database)) == BATCH
    batch = claim_now(database, settings)
    assert batch is not None
    assert batch.stage is Stage.score
    process(batch, database, using, settings)
    run_job(database, settings, using)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert len(embedded(path)) == 9


def test_one_process_embeds_at_a_time(database: Database, settings: Settings) -> None:
    settings = dataclasses.replace(settings, batch_items=1)
    ingest(database, settings, "a", "b")
    submit_embedding(database, settings)
    assert claim_now(database, settings) is not None
    assert claim_now(database, settings) is None


def test_killed_at_any_write(database: Database, settings: Settings, path: Path) -> None:
    ingest(database, settings, "a1 a2 a3 a4 a5 a6", "b1", "c1 c2 c3")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    database.close()

    def work() -> None:
        own = open_database(settings.database_url)
        run_job(own, settings, parts(own, settings, Recording(path)))

    n_kills = 0
    for place in itertools.count(1, 3):
        before = set(rows(database, "SELECT chunk_id FROM chunk_vectors"))
        texts_before = len(embedded(path))
        titles = rows(
            database,
            "SELECT d.title || '||' || c.text FROM chunk_vectors v JOIN chunks c ON c.id = v.chunk_id "
            "JOIN documents d ON d.id = c.document_id",
        )
        assert statuses(database, job_id).count("succeeded") * 1 <= len(before)
        for document_id, status in rows(
            database, "SELECT document_id, status FROM job_items WHERE job_id = :job_id", job_id=job_id
        ):
            with database.snapshot() as snapshot:
                assert status != "succeeded" or vectors.is_complete(snapshot, int(str(document_id)))
        database.close()
        code, message = killed_at(place, work)
        assert code in (DONE, KILLED), message
        # What was stored is never embedded again.
        assert not {str(row[0]) for row in titles} & set(embedded(path)[texts_before:])
        if code == DONE:
            break
        n_kills += 1
        _reclaim(database, settings)
    # On PostgreSQL, the files of the index are fewer.
    assert n_kills > (5 if settings.is_sqlite else 4)
    assert_complete(database, FakeEncoder())
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert len(embedded(path)) <= 10 + n_kills * BATCH


def _reclaim(database: Database, settings: Settings) -> None:
    # The dead process has no parent that survived: this process is it, so attempts would be counted.
    reclaim_expired_leases(database, dataclasses.replace(settings, max_attempts=1000), 0.0)


def test_an_unavailable_encoder_is_asked_again_later(
    database: Database, settings: Settings, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(database, settings, "a1 a2", "b1", "c1")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    now = [time.time()]
    monkeypatch.setattr("shoal.jobs.stages.embed.time.monotonic", lambda: now[0])
    fake_clock(monkeypatch, lambda: now[0])
    tries: list[float] = []
    away = [True]

    def fail(_: Sequence[str]) -> None:
        tries.append(now[0])
        if away[0]:
            raise EncoderUnavailableError("the endpoint is busy", retry_after=30.0)

    using = parts(database, settings, Recording(path, fail))
    run_job(database, settings, using)
    # One try, and no other item asks meanwhile.
    assert len(tries) == 1
    waiting = get_items(database, job_id)
    assert [item.status for item in waiting] == [ItemStatus.enqueued] * 3
    assert {item.error for item in waiting} == {"the endpoint is busy"}
    assert [item.attempts for item in waiting] == [1, 0, 0]
    # Other work is not held up.
    ingest(database, settings, "d1")
    now[0] += 29
    assert run_job(database, settings, using) == 0
    now[0] += 2
    away[0] = False
    run_job(database, settings, using)
    assert get_job(database, job_id).status is JobStatus.succeeded
    assert all(item.error is None for item in get_items(database, job_id))


def test_a_restart_of_the_worker_does_not_count_as_a_try_of_the_encoder(
    database: Database, settings: Settings, path: Path
) -> None:
    ingest(database, settings, "a1 a2")
    job_id = submit_embedding(database, settings)
    assert job_id is not None

    def fail(_: Sequence[str]) -> None:
        raise EncoderUnavailableError("the endpoint is busy")

    for _ in range(settings.max_attempts):
        run_job(database, settings, parts(database, settings, Recording(path, fail)))
        with database.write() as transaction:
            transaction.execute("UPDATE job_items SET retry_at = NULL")
    claim_now(database, settings)
    with database.write() as transaction:
        transaction.execute("UPDATE job_items SET lease_expires_at = 1 WHERE lease_owner IS NOT NULL")
    assert reclaim_expired_leases(database, settings, database.now()) == (1, 0)
    [item] = get_items(database, job_id)
    assert (item.status, item.attempts) == (ItemStatus.enqueued, settings.max_attempts)
    run_job(database, settings, parts(database, settings, Recording(path)))
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_an_encoder_that_stays_away_fails_documents_one_by_one(
    database: Database, settings: Settings, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(database, settings, "a1", "b1")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    now = [time.time()]
    monkeypatch.setattr("shoal.jobs.stages.embed.time.monotonic", lambda: now[0])
    fake_clock(monkeypatch, lambda: now[0])
    tries: list[float] = []

    def fail(_: Sequence[str]) -> None:
        tries.append(now[0])
        raise EncoderUnavailableError("nobody answers")

    using = parts(database, settings, Recording(path, fail))
    for _ in range(20):
        run_job(database, settings, using)
        now[0] += 601
    assert len(tries) == 2 * MAX_TRIES
    job = get_job(database, job_id)
    assert job.status is JobStatus.failed
    assert {(item.error, item.error_code) for item in get_items(database, job_id)} == {
        ("nobody answers", EncoderUnavailableError.code)
    }
    monkeypatch.setattr("shoal.jobs.queue.embed_items.UNAVAILABLE_SECONDS", 1e6)
    assert submit_embedding(database, settings, automatic=True) is None
    retry(database, settings, job_id)
    run_job(database, settings, parts(database, settings, Recording(path)))
    assert get_job(database, job_id).status is JobStatus.succeeded


def test_a_bad_text_fails_its_document_alone(database: Database, settings: Settings, path: Path) -> None:
    ingest(database, settings, "a1 bad a3 a4 a5", "b1", "c1")
    job_id = submit_embedding(database, settings)
    assert job_id is not None

    def fail(texts: Sequence[str]) -> None:
        if any(text.endswith("\n\nbad ") for text in texts):
            raise EncoderError("the text is refused")

    run_job(database, settings, parts(database, settings, Recording(path, fail)))
    assert statuses(database, job_id) == ["failed", "succeeded", "succeeded"]
    assert get_items(database, job_id)[0].error == "the text is refused"
    assert len(with_vector(database)) == 6
    # It waits for a person, until the document changes.
    assert submit_embedding(database, settings, automatic=True) is None
    assert submit_embedding(database, settings) != job_id


@pytest.mark.parametrize("answer", [np.zeros((1, 64)), np.full((1, 64), np.nan), np.ones((1, 63))])
def test_unusable_vectors_are_never_stored(
    database: Database, settings: Settings, answer: np.ndarray
) -> None:
    ingest(database, settings, "a1")
    job_id = submit_embedding(database, settings)
    assert job_id is not None

    class Broken(FakeEncoder):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Floats:
            return np.asarray(answer, dtype=np.float32)

    run_job(database, settings, parts(database, settings, Broken()))
    assert statuses(database, job_id) == ["failed"]
    assert with_vector(database) == []


def test_another_encoder_is_refused(database: Database, settings: Settings) -> None:
    ingest(database, settings, "a1 a2")
    first, other = FakeEncoder(), FakeEncoder(revision="2")
    result = embed(database, parts(database, settings, first), settings, first)
    assert (result.n_documents, result.n_before, result.n_after, result.failed) == (1, 0, 2, ())
    ingest(database, settings, "b1")
    with pytest.raises(EncoderMismatchError, match=r"revision 1.*revision 2.*embed --again"):
        embed(database, parts(database, settings, other), settings, other)
    job_id = submit_embedding(database, settings)
    run_job(database, settings, parts(database, settings, other))
    assert job_id is not None
    assert get_items(database, job_id)[0].error_code == EncoderMismatchError.code
    assert len(with_vector(database)) == 2
    again = embed(database, parts(database, settings, other), settings, other, again=True)
    assert (again.n_after, other.n_embedded) == (3, 3)
    assert_complete(database, other)


def test_without_an_encoder_the_job_says_so(database: Database, settings: Settings) -> None:
    ingest(database, settings, "a1")
    job_id = submit_embedding(database, settings)
    run_job(database, settings, parts(database, settings, None))
    assert job_id is not None
    assert "SHOAL_ENCODER" in (get_items(database, job_id)[0].error or "")
    with pytest.raises(EncoderError, match="SHOAL_ENCODER"):
        embed(database, parts(database, settings, None), settings, None)


def test_canceled_documents_are_not_taken_again_by_themselves(
    database: Database, settings: Settings, path: Path
) -> None:
    ingest(database, settings, "a1 a2 a3 a4 a5 a6", "b1")
    job_id = submit_embedding(database, settings)
    assert job_id is not None
    calls: Iterator[int] = itertools.count()

    def stop(_: Sequence[str]) -> None:
        if next(calls) == 0:
            cancel(database, job_id)

    using = parts(database, settings, Recording(path, stop))
    run_job(database, settings, using)
    assert get_job(database, job_id).status is JobStatus.canceled
    assert next(calls) == 1
    assert submit_embedding(database, settings, automatic=True) is None
    submit_embedding(database, settings)
    run_job(database, settings, using)
    assert_complete(database, FakeEncoder())


def test_a_document_that_changes_meanwhile_is_not_complete(database: Database, settings: Settings) -> None:
    ingest(database, settings, "a1 a2")
    submit_embedding(database, settings)
    batch = claim_now(database, settings)
    assert batch is not None
    (item,) = batch.items
    handler = Embedding(database, settings, FakeEncoder)
    prepared = handler.prepare(item)
    assert prepared is None
    with database.write() as transaction:
        new = in_words(draft("b1 b2", title="other"))
        document_writer.replace_document(transaction, item.document_id or 0, new, [None] * 2, now=timestamp())
    with pytest.raises(NotPreparedError), database.write() as transaction:
        handler.store(transaction, item, prepared)
    process(batch, database, parts(database, settings, FakeEncoder()), settings)
    assert statuses(database, item.job_id) == ["succeeded"]
    assert len(with_vector(database)) == 2


def test_equal_texts_share_the_work(database: Database, settings: Settings, path: Path) -> None:
    ingest(database, settings, "x x x y", "b1")
    encoder = Recording(path)
    embed(database, parts(database, settings, encoder), settings, encoder)
    assert len(embedded(path)) == len(set(embedded(path))) == 3
    assert_complete(database, FakeEncoder())


def test_the_starter_opens_one_job(database: Database, settings: Settings) -> None:
    notified: list[int] = []
    now = [0.0]
    starter = EmbeddingStarter(database, settings, lambda: notified.append(1), clock=lambda: now[0])
    starter.look()
    assert not notified
    ingest(database, settings, "a1", "b1")
    now[0] += 10
    starter.look()
    starter.look()
    assert notified == [1]
    assert value(database, "SELECT COUNT(*) FROM jobs WHERE kind = 'embed'") == 1
    ingest(database, settings, "c1")
    now[0] += 10
    starter.look()
    assert value(database, "SELECT COUNT(*) FROM jobs WHERE kind = 'embed'") == 1
    run_job(database, settings, parts(database, settings, FakeEncoder()))
    assert_complete(database, FakeEncoder())
