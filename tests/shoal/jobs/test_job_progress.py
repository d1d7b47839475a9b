"""Progress, speed and remaining time of a job."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.formats.drafts import make_draft
from shoal.jobs import in_process
from shoal.jobs.queue import claims, queries
from shoal.jobs.queue.claims import claim
from shoal.jobs.queue.progress import MAX_JOBS, ProgressEstimator, fraction_done
from shoal.jobs.queue.queries import Job, WaveProgress
from shoal.jobs.queue.submission import Upload
from shoal.jobs.stages.runner import handlers_for, process
from shoal.models.jobs import ItemCounts, JobKind, JobStatus, Stage
from shoal.settings import Settings
from shoal.storage.database import Database
from shoal.support.clock import timestamp

INGEST = (Stage.discover, Stage.learn, Stage.score)
START = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)


def job(
    *,
    done: int = 0,
    failed: int = 0,
    total: int = 100,
    bytes_done: int = 0,
    bytes_total: int = 1000,
    status: JobStatus = JobStatus.processing,
    plan: tuple[Stage, ...] = INGEST,
    finished_after: float | None = None,
    job_id: int = 1,
) -> Job:
    """Return a job that started at START."""
    return Job(
        id=job_id,
        kind=JobKind.ingest,
        status=status,
        stage=Stage.discover,
        progress=ItemCounts(
            total=total,
            done=done,
            failed=failed,
            duplicate=0,
            canceled=0,
            skipped=0,
            bytes_total=bytes_total,
            bytes_done=bytes_done,
        ),
        created_at=timestamp(START),
        started_at=None if status is JobStatus.enqueued else timestamp(START),
        finished_at=None
        if finished_after is None
        else timestamp(START + dt.timedelta(seconds=finished_after)),
        error=None,
        revision=1,
        plan=plan,
    )


def wave(stage: Stage | None, pending: int, total: int = 100, n_bytes: int = 1000) -> WaveProgress:
    return WaveProgress(stage, total, pending, n_bytes)


@pytest.mark.parametrize(
    ("state", "waves", "fraction"),
    [
        (job(), [wave(Stage.discover, 100)], 0.0),
        (job(), [wave(Stage.discover, 50)], 0.25),
        (job(), [wave(Stage.learn, 0)], 0.5),
        # All but one large document have been read.
        (job(), [WaveProgress(Stage.discover, 100, 1, 1000, 800)], 0.1),
        # One large document failed in discover: its bytes are done, although it is only one item.
        (job(done=1, bytes_done=300), [wave(Stage.discover, 99)], 0.3),
        (job(bytes_done=400), [wave(Stage.score, 60)], 0.7),
        (job(bytes_done=1000), [wave(None, 0)], 1.0),
        (job(), [wave(Stage.discover, 100, n_bytes=500), wave(Stage.learn, 0, n_bytes=500)], 0.25),
        (job(bytes_done=100), [wave(Stage.discover, 90, total=90, n_bytes=900)], 0.0),
        (job(plan=(Stage.score,), bytes_done=300), [wave(Stage.score, 70)], 0.3),
        (job(bytes_total=0, done=25), [wave(Stage.score, 75, n_bytes=0)], 0.25),
        (job(total=0, bytes_total=0), [], 0.0),
        (job(status=JobStatus.canceled), [wave(Stage.discover, 70)], 1.0),
    ],
)
def test_discovered_documents_count_half(state: Job, waves: list[WaveProgress], fraction: float) -> None:
    assert fraction_done(state, waves) == pytest.approx(fraction)


def test_bytes_of_running_items_count_for_the_share_that_is_passed() -> None:
    assert fraction_done(job(), [WaveProgress(Stage.discover, 1, 1, 1000, None, 500.0)]) == 0.25
    assert fraction_done(job(), [WaveProgress(Stage.discover, 10, 5, 1000, 400, 100.0)]) == 0.35


def test_items_past_the_stage_are_counted() -> None:
    waves = [wave(Stage.discover, 30, total=50), wave(Stage.learn, 0, total=40)]
    estimator = ProgressEstimator()
    # 10 items were refused by the upload.
    assert estimator.estimate(job(total=100), waves).stage_done == 10 + 20 + 40
    assert estimator.estimate(job(status=JobStatus.succeeded, finished_after=1), waves).stage_done is None


@given(
    st.lists(st.tuples(st.sampled_from([*INGEST, None]), st.integers(0, 9), st.integers(0, 99)), max_size=4),
    st.integers(0, 500),
    st.integers(0, 500),
)
def test_fraction_is_between_0_and_1(
    waves: list[tuple[Stage | None, int, int]], ended: int, more: int
) -> None:
    seen = [WaveProgress(stage, 9, pending, n_bytes) for stage, pending, n_bytes in waves]
    state = job(bytes_done=ended, bytes_total=ended + more)
    assert 0 <= fraction_done(state, seen) <= 1


def test_remaining_time_uses_the_recent_speed() -> None:
    now = START.timestamp() + 3600
    progress_estimator = ProgressEstimator(clock=lambda: now)
    # Without earlier samples, the speed is that of the whole hour.
    first = progress_estimator.estimate(job(done=10, bytes_done=100), [wave(Stage.score, 90)])
    assert first.fraction == pytest.approx(0.55)
    assert first.seconds_left == pytest.approx(3600 * 0.45 / 0.55)
    now += 10
    quick = progress_estimator.estimate(job(done=30, bytes_done=300), [wave(Stage.score, 70)])
    assert quick.fraction == pytest.approx(0.65)
    assert quick.items_per_second == pytest.approx(2)
    assert quick.bytes_per_second == pytest.approx(10)
    assert quick.seconds_left == pytest.approx(35)


def test_speed_ignores_samples_older_than_a_minute() -> None:
    now = START.timestamp() + 10
    progress_estimator = ProgressEstimator(clock=lambda: now)
    progress_estimator.estimate(job(), [wave(Stage.score, 100)])
    now += 3600
    progress_estimator.estimate(job(done=1, bytes_done=10), [wave(Stage.score, 99)])
    now += 10
    quick = progress_estimator.estimate(job(done=11, bytes_done=110), [wave(Stage.score, 89)])
    assert quick.items_per_second == pytest.approx(1)
    assert quick.seconds_left == pytest.approx(89)


def test_stalled_job_has_no_remaining_time() -> None:
    now = START.timestamp()
    progress_estimator = ProgressEstimator(clock=lambda: now)
    for _ in range(100):
        now += 2
        still = progress_estimator.estimate(job(done=10, bytes_done=100), [wave(Stage.score, 90)])
    assert still.bytes_per_second == 0
    assert still.seconds_left is None


def test_waiting_job_has_no_speed_and_ended_job_has_its_average() -> None:
    progress_estimator = ProgressEstimator(clock=lambda: 0.0)
    waiting = progress_estimator.estimate(job(status=JobStatus.enqueued), [wave(Stage.discover, 100)])
    assert (waiting.bytes_per_second, waiting.seconds_left) == (None, None)
    ended = progress_estimator.estimate(
        job(status=JobStatus.succeeded, done=100, bytes_done=1000, finished_after=20), [wave(None, 0)]
    )
    assert (ended.fraction, ended.seconds_left) == (1, 0)
    assert (ended.items_per_second, ended.bytes_per_second) == (5, 50)


def test_refused_items_do_not_count_in_the_speed() -> None:
    """The wave of this job has 60 of its 100 items; the upload refused the others."""
    now = START.timestamp() + 2
    progress_estimator = ProgressEstimator(clock=lambda: now)
    first = progress_estimator.estimate(job(done=50, failed=40), [wave(Stage.score, 50, total=60)])
    assert first.items_per_second == pytest.approx(10 / 2)
    now += 10
    second = progress_estimator.estimate(
        job(done=70, failed=40, bytes_done=300), [wave(Stage.score, 30, total=60)]
    )
    assert second.items_per_second == pytest.approx(20 / 10)
    ended = progress_estimator.estimate(
        job(status=JobStatus.partial, done=100, failed=40, bytes_done=1000, finished_after=20),
        [wave(None, 0, total=60)],
    )
    assert ended.items_per_second == pytest.approx(60 / 20)


def test_retry_and_clock_set_back_reset_the_samples() -> None:
    now = START.timestamp() + 100
    progress_estimator = ProgressEstimator(clock=lambda: now)
    progress_estimator.estimate(job(done=90, bytes_done=900), [wave(Stage.score, 10)])
    now += 10
    again = progress_estimator.estimate(job(done=10, bytes_done=100), [wave(Stage.score, 90)])
    assert again.seconds_left is not None
    assert again.seconds_left > 0
    now -= 50
    assert (
        progress_estimator.estimate(job(done=20, bytes_done=200), [wave(Stage.score, 80)]).seconds_left
        is not None
    )


def test_number_of_sampled_jobs_is_limited() -> None:
    progress_estimator = ProgressEstimator(clock=lambda: START.timestamp() + 10)
    for number in range(MAX_JOBS + 10):
        progress_estimator.estimate(job(job_id=number), [wave(Stage.discover, 100)])
    assert len(progress_estimator._samples) == MAX_JOBS


def test_large_document_counts_by_its_bytes(database: Database, settings: Settings) -> None:
    """It passes each stage on its own, before or after many small ones."""
    settings = dataclasses.replace(settings, batch_items=1, learning=True)
    handlers = handlers_for(database, FakeScorer(), settings)
    large = "The tide rises at the shore and falls again. " * 200
    upload = Upload(database, settings, local_owner=claims.new_owner()).begin()
    for text in (large, *(f"Note {n} of the flower and the seed." for n in range(9))):
        upload.add(make_draft(content=text, settings=settings))
    job_id = upload.finish()

    def work() -> bool:
        batch = claim(database, claims.new_owner(), settings, job_id=job_id)
        if batch is not None:
            process(batch, database, handlers, settings)
        return batch is not None

    assert work()
    waves = queries.get_waves(database, job_id)
    share_of_large = len(large) / waves[0].bytes
    assert waves[0].bytes_pending == waves[0].bytes - len(large)
    assert fraction_done(queries.get_job(database, job_id), waves) == pytest.approx(share_of_large / 2)
    local = in_process.progress(database, job_id)
    assert local.bytes_done == len(large) // 2
    while work():
        pass
    assert [one.bytes_pending for one in queries.get_waves(database, job_id)] == [None]
    local = in_process.progress(database, job_id)
    assert local.bytes_done == local.bytes_total


def test_the_last_stage_counts_documents_that_are_in_the_middle_of_it() -> None:
    plan = (Stage.embed,)
    started = job(done=1, total=2, bytes_done=100, plan=plan)
    wave = WaveProgress(Stage.embed, total=2, pending=1, bytes=1000, bytes_pending=900, bytes_running=450.0)
    assert fraction_done(started, [wave]) == pytest.approx(0.55)
    assert fraction_done(started, [dataclasses.replace(wave, bytes_running=900.0)]) == 1.0
